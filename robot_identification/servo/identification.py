# SPDX-License-Identifier: Apache-2.0
"""Identification of position servos: pseudo-efforts, rollouts, play, and what they predict."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..data.commands import CommandRecording, stretches_of, WholeMotion
from ..estimation.estimators import ROLLOUT
from ..model.robot import Robot
from ..support.progress import no_progress, Progress, subrange
from .fit import fit, ServoFit
from .model import ServoModel
from .parameters import free_kinds, FreeParameters, ServoParameters
from .play import with_play
from .pseudo_effort import PseudoEfforts
from .rollouts import Rollouts
from .settings import ServoSettings, SimulatorSettings


def fit_servo(
    robot: Robot,
    recordings: Sequence[CommandRecording],
    servo: ServoSettings,
    simulator: SimulatorSettings,
    *,
    method: str = ROLLOUT,
    progress: Progress = no_progress,
) -> ServoFit:
    """
    Identify the servos of a robot from commands and positions.

    Parameters
    ----------
    robot:
        Rigid bodies and kinematics, base fixed.
    recordings:
        Commands and positions of its joints.
    servo, simulator:
        Gains, what is free, and the simulator that the parameters are for.
    method:
        ``rollout``, or ``ols``, least squares on pseudo-efforts alone.
    progress:
        Called with the share that is done, and what is being done.

    Raises
    ------
    IdentificationError
        of the kind that fits: a joint that does not move, gains that are missing, a robot with
        loops.

    """
    if method == ROLLOUT:
        simulator.require()
    stretches = stretches_of(recordings)
    positions = np.concatenate([stretch.position for stretch in stretches])
    middle = 0.5 * (positions.min(axis=0) + positions.max(axis=0))
    model = ServoModel(robot, servo, simulator, middle)
    # some recorders write a velocity command that is always 0
    commanded = [each.command_velocity for each in stretches if each.command_velocity is not None]
    kinds = free_kinds(servo, any(velocity.any() for velocity in commanded))
    efforts = PseudoEfforts(model, stretches, servo, kinds)
    found = fit(efforts, servo, progress=subrange(progress, 0.0, 0.2))
    if method != ROLLOUT:
        return found
    free = FreeParameters(kinds, found.parameters, robot.joints, efforts.free.bus)
    rollouts = Rollouts(model, stretches, free, efforts.changes)
    found = fit(rollouts, servo, progress=subrange(progress, 0.2, 0.8))
    if servo.play == 'none':
        return found
    return with_play(rollouts, found, servo, progress=subrange(progress, 0.8, 1.0))


def rollout_errors(
    model: ServoModel,
    recordings: Sequence[CommandRecording],
    parameters: ServoParameters,
    *,
    held_out: bool = False,
) -> np.ndarray:
    """
    Return (n,) root mean square errors of simulated positions [rad or m].

    They are those on all recordings, or on the samples of them that are held out.  Stretches
    between gaps begin again, and the time in which the start is forgotten does not count.
    """
    return _errors(
        model,
        [(stretch, stretch.counted(held_out)) for stretch in stretches_of(recordings)],
        parameters,
    )


def whole_errors(
    model: ServoModel, motions: Sequence[WholeMotion], parameters: ServoParameters
) -> np.ndarray:
    """
    Return (n,) root mean square errors of simulated positions over whole motions [rad or m].

    Nothing but its first state is told of a motion, as long as its commands are known.
    """
    return _errors(model, [(each.recording, each.counted) for each in motions], parameters)


def _errors(
    model: ServoModel,
    parts: Sequence[tuple[CommandRecording, np.ndarray]],
    parameters: ServoParameters,
) -> np.ndarray:
    """Return (n,) root mean squares over the counted samples of parts."""
    errors = []
    for recording, counted in parts:
        position = next(iter(model.rollouts([parameters], recording)))
        errors.append((position - recording.position)[counted])
    return np.asarray(np.sqrt((np.concatenate(errors) ** 2).mean(axis=0)))
