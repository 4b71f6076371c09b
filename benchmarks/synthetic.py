# SPDX-License-Identifier: Apache-2.0
"""A Panda arm of example-robot-data, and recordings of it that are made up."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
import warnings

import numpy as np
import pinocchio as pin
from robot_identification.data.recording import Motion, Recording
from robot_identification.model.parameters import ParameterSet
from robot_identification.model.robot import Robot
from robot_identification.regressor import build, ModelSettings, predict, prior

PANDA = tuple(f'panda_joint{i}' for i in range(1, 8))
MODEL = ModelSettings()
SINES = 5
"""Sines a joint's motion is the sum of."""


def robots_folder() -> Path:
    """
    Return where the robots of example-robot-data are.

    Raises
    ------
    SystemExit
        where it is not installed.

    """
    for folder in Path(pin.__file__).parents:
        robots = folder / 'share/example-robot-data/robots'
        if robots.is_dir():
            return robots
    raise SystemExit('example-robot-data is not installed: pip install example-robot-data')


def panda() -> Robot:
    """Return the arm with its seven joints, the fingers locked."""
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        return Robot.from_urdf(robots_folder() / 'panda_description/urdf/panda.urdf', PANDA)


def truth(robot: Robot, model: ModelSettings = MODEL) -> ParameterSet:
    """Return the parameters of its URDF, with friction and rotors that the URDF does not have."""
    known = prior(robot, model)
    usual = {'Ia': 0.1, 'fv': 1.0, 'fc': 0.8, 'off': 0.2}
    names = (name.rpartition('.') for name in known.layout)
    added = {f'{o}.{symbol}': usual[symbol] for o, _, symbol in names if symbol in usual}
    return known.updated(added)


def sines(time: np.ndarray, terms: Iterable[tuple[float, np.ndarray, np.ndarray]]) -> np.ndarray:
    """
    Return the sum of sines, (3, n_samples, n): itself and its first two derivatives.

    The terms have an angular frequency [rad/s], and sizes and phases (n,).
    """
    states: np.ndarray | float = 0.0
    for omega, size, phase in terms:
        sine, cosine = np.sin(angle := omega * time[:, None] + phase), np.cos(angle)
        states = states + np.array([size * sine, size * omega * cosine, -size * omega**2 * sine])
    return np.asarray(states)


def recording(
    robot: Robot,
    seconds: float,
    *,
    rate: float = 1000.0,
    start: float = 0.0,
    seed: int = 0,
    model: ModelSettings = MODEL,
) -> Recording:
    """
    Make up what a robot records: sums of sines, inverse dynamics, and noise of both.

    Parameters
    ----------
    robot:
        Its URDF is the truth.
    seconds, rate:
        Length [s] and sampling rate [Hz].
    start:
        Of the time stamps and of the motion [s]: recordings with one seed continue one another.
    seed:
        Of motion and noise.
    model:
        Terms of the dynamics.

    """
    motion = np.random.default_rng(seed)
    noise = np.random.default_rng([seed, round(rate * start)])
    time = start + np.arange(round(seconds * rate)) / rate
    n = robot.n_joints
    states = sines(
        time,
        (
            (0.2 * np.pi * k, motion.uniform(0.1, 0.4, n), motion.uniform(0.0, 2.0 * np.pi, n))
            for k in range(1, SINES + 1)
        ),
    )
    effort = predict(build(robot, model), Motion(*states), truth(robot, model))
    position = states[0] + 1e-5 * noise.normal(size=effort.shape)
    effort += 0.1 * noise.normal(size=effort.shape)
    return Recording(time, position, effort, robot.joints, source='made up')
