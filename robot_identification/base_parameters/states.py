# SPDX-License-Identifier: Apache-2.0
"""Random states of a robot, at which every dependence between its parameters shows."""

from __future__ import annotations

import math

import numpy as np

from ..recording import Motion
from ..regressors import Regressor
from ..regressors.tree import tree_of
from ..robot import Robot


def random_states(robot: Robot, regressor: Regressor, seed: int, samples: int | None) -> Motion:
    """
    States that show every dependence well.

    A regressor whose states are not those of free joints draws them itself, by its own
    ``random_motion(random, samples)``.

    Limits are left aside on purpose.  The rank is the same on every open set of states, and over a
    narrow range different functions of the position look alike.
    """
    if samples is None:
        # eight times as many rows as columns
        samples = 16 + math.ceil(8 * len(regressor.layout) / regressor.n_joints)
    return drawn_states(robot, regressor, np.random.default_rng(seed), samples)


def drawn_states(
    robot: Robot,
    regressor: Regressor,
    random: np.random.Generator | np.random.RandomState,
    samples: int,
) -> Motion:
    """States as `random_states` gives them, of random numbers of the caller's choice."""
    own = getattr(regressor, 'random_motion', None)
    if own is not None:
        return own(random, samples)
    shape = (samples, regressor.n_joints)
    reach = np.where(_turning(robot), np.pi, 1.0)
    # speeds and accelerations at which the terms of gravity, velocity and acceleration weigh alike
    return Motion(
        position=random.uniform(-reach, reach, shape),
        velocity=random.uniform(-3.0, 3.0, shape),
        acceleration=random.uniform(-10.0, 10.0, shape),
    )


def _turning(robot: Robot) -> np.ndarray:
    """(n_joints,) bool, whether each joint turns, in the order of the data."""
    joints = sorted(tree_of(robot).joints, key=lambda joint: joint.column)
    return np.array([joint.revolute for joint in joints])
