# SPDX-License-Identifier: Apache-2.0
"""Gravity in recorded efforts by that of the URDF, which tells their unit, scale and sign."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..data.recording import Motion, Recording
from ..model.robot import Robot
from ..regressor import build, ModelSettings, predict, prior
from .recording_faults import diagnosis_samples

GRAVITY_SEEN = 0.3
"""Share of a joint's effort above which gravity is seen."""
GRAVITY_ABSENT = 0.05
"""Share below which it is absent."""


def gravity_sizes(robot: Robot, recordings: Sequence[Recording]) -> dict[str, float]:
    """
    Return recorded gravity over that of the URDF, by joint: the scale of its recorded effort.

    Joints are those at which the URDF has gravity; 0 where the effort has none, and those left
    out whose friction hides it.

    Parameters
    ----------
    robot:
        The robot as its URDF says; without closed loops.
    recordings:
        Positions at the joints and efforts as recorded, one a joint.

    """
    observed = diagnosis_samples(recordings)
    if observed is None:
        return {}
    motion, plain = observed.motion, ModelSettings(friction=(), rotor_inertia=False)
    regressor, bodies = build(robot, plain), prior(robot, plain)
    still = np.zeros_like(motion.velocity)
    weight = predict(regressor, Motion(motion.position, still, still), bodies)
    inertial, changes = predict(regressor, motion, bodies) - weight, np.ptp(weight, axis=0)
    found = {}
    for j in np.flatnonzero(changes > 0.1 * changes.max()):
        speed, effort = motion.velocity[:, j], observed.effort[:, j]
        moves = abs(speed) > 0.02 * abs(speed).max()
        friction = [speed, np.sign(speed) * moves, np.ones_like(speed)]
        rows = np.stack([weight[:, j], inertial[:, j], *friction], axis=1)
        size = float(np.linalg.lstsq(rows, effort, rcond=None)[0][0])
        share = abs(size) * np.std(weight[:, j]) / max(np.std(effort), 1e-300)
        if share > GRAVITY_SEEN or share < GRAVITY_ABSENT:
            found[robot.joints[j]] = size if share > GRAVITY_SEEN else 0.0
    return found
