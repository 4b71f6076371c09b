# SPDX-License-Identifier: Apache-2.0
"""Identification of position servos: pseudo-efforts, then rollouts, and what they predict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..data.commands import CommandRecording, stretches_of
from ..model.robot import Robot
from ..progress import no_progress, Progress, subrange
from .model import ServoModel
from .parameters import free_kinds, FreeParameters, ServoParameters
from .pseudo_effort import DELAYS, fit_pseudo_efforts, PseudoEffortFits
from .rollout_fit import fit_rollouts, RolloutFit
from .settings import ServoSettings, SimulatorSettings


@dataclass(frozen=True)
class RolloutError:
    """
    Errors of simulated positions on a recording.

    Attributes
    ----------
    source:
        Name of the recording.
    joints:
        Names, in the order of the columns.
    rmse:
        (n,) root mean squares, without the time in which the start is forgotten [rad or m].
    samples:
        Number of samples.

    """

    source: str
    joints: tuple[str, ...]
    rmse: np.ndarray
    samples: int

    @property
    def total(self) -> float:
        """Root mean square over the joints [rad or m]."""
        return float(np.sqrt((self.rmse**2).mean()))


@dataclass(frozen=True)
class ServoFit:
    """
    Estimate of a robot's servos from recordings of commands.

    Attributes
    ----------
    model:
        Of robot and simulator.
    start:
        Estimate by least squares on pseudo-efforts.
    fit:
        Estimate from rollouts.

    """

    model: ServoModel
    start: ServoParameters
    fit: RolloutFit

    @property
    def parameters(self) -> ServoParameters:
        """The estimate."""
        return self.fit.parameters


def fit_servo(
    robot: Robot,
    recordings: Sequence[CommandRecording],
    servo: ServoSettings,
    simulator: SimulatorSettings,
    *,
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
    progress:
        Told about the progress.

    Raises
    ------
    IdentificationError
        of the kind that fits: a joint that does not move, gains that are missing, a robot with
        loops.

    """
    stretches = stretches_of(recordings)
    low = np.min([r.position.min(axis=0) for r in stretches], axis=0)
    high = np.max([r.position.max(axis=0) for r in stretches], axis=0)
    model = ServoModel.from_robot(robot, servo, simulator, 0.5 * (low + high))
    commanded = any(r.command_velocity is not None for r in stretches)
    kinds = free_kinds(servo, commanded)
    progress(0.0, 'pseudo-efforts')
    fits = fit_pseudo_efforts(model, stretches, servo, kinds)
    delay = _best_delay(model, stretches, fits)
    start = fits.parameters(delay)
    free = FreeParameters(kinds, start, robot.joints, servo.bus_numbers(robot.joints))
    fit = fit_rollouts(
        model,
        stretches,
        free,
        servo,
        fits.scales,
        sigma=_total_error(model, stretches, start),
        progress=subrange(progress, 0.2, 1.0),
    )
    return ServoFit(model, start, fit)


def _best_delay(
    model: ServoModel, recordings: Sequence[CommandRecording], fits: PseudoEffortFits
) -> float:
    """Return the delay whose estimate has the least error in rollouts, by descent."""
    errors: dict[int, float] = {}

    def error(k: int) -> float:
        if not 0 <= k < len(DELAYS):
            return np.inf
        if k not in errors:
            errors[k] = _total_error(model, recordings, fits.parameters(float(DELAYS[k])))
        return errors[k]

    best = int(np.flatnonzero(fits.best == DELAYS)[0])
    for step in (4, 2, 1):
        while True:
            near = min((best - step, best, best + step), key=error)
            if near == best:
                break
            best = near
    return float(DELAYS[best])


def rollout_errors(
    model: ServoModel,
    recordings: Sequence[CommandRecording],
    parameters: ServoParameters,
    *,
    held_out: bool = False,
) -> tuple[RolloutError, ...]:
    """
    Return the errors of rollouts on recordings, or on the samples of them that are held out.

    Stretches between gaps begin anew.
    """
    found = []
    for recording in recordings:
        squares, samples = np.zeros(model.robot.n_joints), 0
        for stretch in recording.stretches():
            position = next(iter(model.rollouts([parameters], stretch)))
            rest = (position - stretch.position)[stretch.counted(held_out)]
            squares += (rest**2).sum(axis=0)
            samples += len(rest)
        rmse = np.sqrt(squares / max(samples, 1))
        found.append(RolloutError(recording.source, model.robot.joints, rmse, samples))
    return tuple(found)


def joint_errors(errors: Sequence[RolloutError]) -> np.ndarray:
    """Return (n,) errors of positions over all recordings [rad or m]."""
    weights = np.array([error.samples for error in errors], dtype=float)
    squares = np.stack([error.rmse**2 for error in errors])
    return np.asarray(np.sqrt(weights @ squares / weights.sum()))


def _total_error(
    model: ServoModel, recordings: Sequence[CommandRecording], parameters: ServoParameters
) -> float:
    """Return the root mean square error over all recordings and joints [rad or m]."""
    errors = joint_errors(rollout_errors(model, recordings, parameters))
    return float(np.sqrt((errors**2).mean()))
