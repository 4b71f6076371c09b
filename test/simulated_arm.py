# SPDX-License-Identifier: Apache-2.0
"""A simulated arm that is identified well, and changes of its result that speak against it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
from robot_identification.config.problem import IdentificationProblem
from robot_identification.data.recording import Motion, Recording
from robot_identification.diagnosis.recording_faults import RecordingFault
from robot_identification.estimation.drive_gains import DriveGains
from robot_identification.estimation.estimate import Estimate
from robot_identification.estimation.residuals import EffortDelay, ResidualColour
from robot_identification.identification.pipeline import identify_sources
from robot_identification.model.robot import Robot
from robot_identification.regressor import build, ModelSettings
from robot_identification.results.exported_files import FileError
from robot_identification.signals import SignalSettings
from robot_identification.simulation import SimulationSettings
from robot_identification.simulation.truth import truth
from robot_identification.verdicts.verdict import verdict

ROBOT = Robot.from_urdf(Path(__file__).parents[1] / 'urdf' / 'szabo_3r.urdf')
SIGNALS = SignalSettings(cutoff=10.0, decimate_to=25.0)


def run(seed, name='run', *, seconds=20.0, speed=1.0, delay=0.0, scale=1.0, drag=0.0, still=None):
    """
    Record an arm whose parameters differ by 15 % from those of its URDF.

    ``speed`` multiplies all frequencies, ``delay`` [s] and ``scale`` are those of the efforts,
    ``drag`` [N m s^2] is a friction that no model has, ``still`` is a joint that hardly moves.
    """
    random = np.random.default_rng(seed)
    time = np.arange(round(100.0 * seconds)) / 100.0
    motion = np.zeros((3, time.size, ROBOT.n_joints))
    for j in range(ROBOT.n_joints):
        for k in range(1, 6):
            w, phase, size = 0.2 * np.pi * k * speed, *random.uniform((0.0, 0.1), (6.3, 0.4))
            size *= 0.01 if j == still else 1.0
            angle = w * time + phase
            motion[:, :, j] += size * np.array(
                [np.sin(angle), w * np.cos(angle), -(w**2) * np.sin(angle)]
            )
    q, v, a = motion
    true = truth(ROBOT, SimulationSettings(seed=3, perturbation=0.15)).values
    effort = (build(ROBOT, ModelSettings()).rows(Motion(q, v, a)) @ true).reshape(q.shape)
    effort += drag * v * np.abs(v)
    late = [np.interp(time - delay, time, column) for column in effort.T]
    effort = scale * np.stack(late, axis=1)
    effort += 0.02 * effort.std(axis=0) * random.normal(size=q.shape)
    return Recording(time, q, effort, ROBOT.joints, source=name)


def identified(recording, *validations):
    problem = IdentificationProblem(ROBOT, signals=SIGNALS)
    return identify_sources(problem, [recording], validations)


def reasons(result, criterion):
    return [r for r in verdict(result).reasons if r.criterion == criterion]


def within(result):
    """Return a validation as good as the fit, at the speeds of the identification."""
    (fast,) = result.validations
    fit, speeds = result.estimate.fit, result.system.factor.highest_speed
    return (
        replace(
            fast,
            joints=tuple(replace(joint, rows=joint.rows - 1) for joint in fit.joints),
            relative_error=fit.relative_error,
            sources=('slow',),
            highest_speed=tuple(speeds.tolist()),
        ),
    )


def with_finding(result, code, **values):
    finding = RecordingFault(code, 'what is seen', 'mend this key', **values)
    return recorded(result, diagnosis=(finding,))


def with_delay(result, *delays, std=0.001, gain=2.0):
    late = EffortDelay(ROBOT.joints, np.array(delays), np.full(3, std), gain)
    return recorded(result, effort_delay=late)


def by_currents(result, gains):
    """Return a result that comes from motor currents."""
    settings = replace(result.settings, effort_kind='motor_current')
    return replace(result, settings=settings, drive_gains=gains)


def recorded(result, **figures):
    """Return a result with other figures of its recordings."""
    return replace(result, recorded=replace(result.recorded, **figures))


def with_errors(thing, error, joint=None):
    """Return an estimate or validation with the relative error of all joints, or of one [%]."""
    if isinstance(thing, Estimate):
        return replace(thing, fit=with_errors(thing.fit, error, joint))
    joints = tuple(
        replace(each, relative_error=error) if joint in (None, each.joint) else each
        for each in thing.joints
    )
    if joint is not None:
        return replace(thing, joints=joints)
    return replace(thing, joints=joints, relative_error=error)


def with_file_errors(result, *, urdf, joint, original):
    """Return a result whose files miss so much of the one validation [%]."""
    (known,) = result.files.recordings
    joints = dict.fromkeys(ROBOT.joints, 1.0)
    errors = (
        FileError('model', 1.0, joints),
        FileError('original', original, joints),
        FileError('urdf', urdf, {**joints, 'joint_2': joint}),
        FileError('mjcf', 2.0, joints),
    )
    files = replace(result.files, recordings=(replace(known, errors=errors),))
    return replace(result, files=files)


def colour(rows, ratio):
    return ResidualColour(ROBOT.joints, 0.02, np.full(3, 0.02 * rows), np.full(3, ratio))


def gains_of(std, **keys):
    """Return gains of three drives that are all 10 N m/A, with standard deviations (3,)."""
    covariance = np.diag(np.square(std))
    return DriveGains(ROBOT.joints, np.ones(3), covariance, 10.0 * np.eye(3), **keys)
