# SPDX-License-Identifier: Apache-2.0
"""The way from recordings of commands to identified and validated servos, on one page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
import time

import numpy as np

from ..config.commands import read_commands
from ..config.experiment import Experiment
from ..data.commands import CommandRecording, whole_motions, WholeMotion
from ..errors import collected_warnings, unique_texts
from ..estimation.estimators import ROLLOUT
from ..model.mjcf import mjcf_facts
from ..model.robot import Robot
from ..results.servo_result import ServoResult
from ..servo.fit import ServoFit
from ..servo.identification import fit_servo, rollout_errors, whole_errors
from ..servo.own_output import without_own_output
from ..servo.parameter_sets import coverage, parameter_sets
from ..servo.parameters import ServoParameters
from ..servo.settings import INTEGRATORS, SimulatorSettings
from ..support.progress import no_progress, Progress, subrange
from .servo_replay import motion_trace

COVERAGE_SETS = 20
"""Parameter sets of which the coverage is measured."""


def identify_servo(
    experiment: Experiment,
    *,
    recordings: Mapping[str, Sequence[CommandRecording]] | None = None,
    progress: Progress = no_progress,
) -> ServoResult:
    """
    Identify the servos of a robot from recordings of commands.

    Without recordings to validate on, every second block of the identification recordings is held
    out and validates what the others give.

    Parameters
    ----------
    experiment:
        Settings and recordings in files.
    recordings:
        Recordings in memory beside them, by ``identification`` and ``validation``.
    progress:
        Called with the share that is done, and what is being done.

    Raises
    ------
    IdentificationError
        of the kind that fits: a recording that cannot be used, a joint that is not excited, ...

    """
    began = time.perf_counter()
    settings = experiment.robot.servo
    assert settings is not None  # the experiment checks it
    with collected_warnings() as notes:
        robot = experiment.build_robot()
        nominal, simulator = nominal_servos(experiment, robot)
        seen, unseen = (
            without_own_output(
                [*_read(experiment, kind, robot), *(recordings or {}).get(kind, ())], settings
            )
            for kind in ('identification', 'validation')
        )
        held_out = not unseen
        if held_out:
            seen = [recording.with_blocks_held_out() for recording in seen]
            unseen = seen
        fit = fit_servo(
            robot,
            seen,
            settings,
            simulator,
            method=experiment.servo_method,
            progress=subrange(progress, 0.0, 0.85),
        )
        progress(0.85, 'validation')
        model = fit.model
        random = np.random.default_rng(0)
        sets = parameter_sets(fit.free, fit.vector, fit.blocks, COVERAGE_SETS, random)
        rmse = rollout_errors(model, seen, fit.parameters)
        covered = coverage(model, unseen, sets, rmse, held_out=held_out)
    motions = _motions(unseen, seen, held_out)
    known = _judged(fit, nominal, start=experiment.servo_method == ROLLOUT)
    errors = {name: whole_errors(model, motions, each) for name, each in known.items()}
    return ServoResult(
        name=experiment.name,
        robot=robot,
        servo=settings,
        simulator=simulator,
        nominal=nominal,
        fit=fit,
        method=experiment.servo_method,
        rmse=rmse,
        errors=errors,
        anew=rollout_errors(model, unseen, fit.parameters, held_out=held_out),
        starts=sum(len(list(recording.stretches())) for recording in unseen),
        held_out=held_out,
        coverage=covered,
        motion=_spread(unseen, held_out),
        traces=motion_trace(model, next(unseen[0].stretches()), nominal, fit.parameters),
        recordings=tuple(recording.source for recording in seen),
        seconds=time.perf_counter() - began,
        warnings=unique_texts(robot.warnings, tuple(notes)),
    )


def nominal_servos(
    experiment: Experiment, robot: Robot
) -> tuple[ServoParameters, SimulatorSettings]:
    """Return the parameters of the joints in the robot's file, and the simulator."""
    drawn = [robot.contents.joints[joint] for joint in robot.joints]
    armature = np.zeros(robot.n_joints)
    simulator = experiment.simulation
    path = experiment.robot.mjcf(experiment.base)
    if path is not None:
        facts = mjcf_facts(Path(path))
        armature = np.array([facts.armature.get(joint, 0.0) for joint in robot.joints])
        simulator = replace(
            simulator,
            timestep=simulator.timestep or facts.timestep,
            integrator=simulator.integrator or INTEGRATORS[facts.integrator],
        )
    nominal = ServoParameters.with_neutral(
        robot.n_joints,
        armature=armature,
        viscous=np.array([joint.damping for joint in drawn]),
        coulomb=np.array([joint.friction for joint in drawn]),
    )
    return nominal, simulator


def _read(experiment: Experiment, kind: str, robot: Robot) -> list[CommandRecording]:
    """Read the recordings of a kind."""
    return [
        read_commands(entry, robot.joints, experiment.robot.drives, experiment.base)
        for _, entry in experiment.data.entries(kind)
    ]


def _judged(fit: ServoFit, nominal: ServoParameters, *, start: bool) -> dict[str, ServoParameters]:
    """Return the parameters of which errors are stated, by name."""
    known = {'nominal': nominal, 'fit': fit.parameters}
    if start:
        known['start'] = fit.free.base
    if fit.parameters.playing:
        known['without_play'] = fit.parameters.without_play()
    return known


def _motions(
    unseen: list[CommandRecording], seen: list[CommandRecording], held_out: bool
) -> tuple[WholeMotion, ...]:
    """Return the whole motions in which the unseen samples lie."""
    if held_out:
        return whole_motions(unseen)
    marked = [replace(each, held_out=np.ones(len(each), bool)) for each in unseen]
    return whole_motions(marked, seen)


def _spread(recordings: list[CommandRecording], held_out: bool) -> np.ndarray:
    """Return (n,) root mean squares of the positions about their means [rad or m]."""
    positions = [r.position[r.counted(held_out)] for r in recordings]
    return np.asarray(np.concatenate(positions).std(axis=0))
