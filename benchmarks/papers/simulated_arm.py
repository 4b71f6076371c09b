# SPDX-License-Identifier: Apache-2.0
"""Recordings of a three-joint arm with rotors and friction, for what no paper tabulates."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from robot_identification.data.recording import Motion, Recording
from robot_identification.estimation.drive_gains import Load
from robot_identification.model.parameters import ParameterSet
from robot_identification.model.robot import Robot
from robot_identification.regressor import build, prior

from ..synthetic import sines

ROOT = Path(__file__).resolve().parents[2]
JOINTS = ('joint_1', 'joint_2', 'joint_3')
RATE, DURATION, HARMONICS = 400.0, 12.0, 6


def arm() -> tuple[Robot, ParameterSet]:
    """Return the arm of Szabo and Szadeczky-Kardoss, with rotors and friction of our own."""
    robot = Robot.from_urdf(ROOT / 'urdf' / 'szabo_3r.urdf', JOINTS)
    drive = {'Ia': (0.05, 0.04, 0.02), 'fv': (0.8, 0.6, 0.4), 'fc': (1.2, 1.0, 0.6)}
    values = {
        f'{joint}.{symbol}': numbers[j]
        for symbol, numbers in drive.items()
        for j, joint in enumerate(JOINTS)
    }
    return robot, prior(robot).updated(values)


def loaded(parameters: ParameterSet, load: Load) -> ParameterSet:
    """Return the parameters of the arm with a load whose parameters are all known."""
    values = parameters.values.copy()
    values[parameters.layout.slice_of(load.link)] += load.parameters
    return ParameterSet(parameters.layout, values)


def recording(robot: Robot, parameters: ParameterSet, seed: int, noise: float) -> Recording:
    """
    Let the arm follow a random Fourier series.

    Parameters
    ----------
    robot:
        The arm.
    parameters:
        Its true parameters.
    seed:
        Of motion and noise.
    noise:
        Standard deviation of the white noise of the efforts [N m].

    """
    rng = np.random.default_rng(seed)
    time = np.arange(0.0, DURATION, 1.0 / RATE)
    terms = (
        (2.0 * np.pi * k / DURATION, rng.uniform(0.1, 0.6, 3), rng.uniform(0.0, 2.0 * np.pi, 3))
        for k in range(1, HARMONICS + 1)
    )
    position, *derivatives = sines(time, terms)
    rows = build(robot).rows(Motion(position, *derivatives))
    effort = (rows @ parameters.values).reshape(position.shape)
    effort += noise * rng.normal(size=effort.shape)
    return Recording(time, position, effort, JOINTS, source=f'seed {seed}')
