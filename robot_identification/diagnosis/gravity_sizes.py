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
SIGNIFICANT = 3.0
"""Deviations from zero below which a size is chance."""
SMALL = 0.3
"""Size by that of the URDF below which gravity is absent, if zero is as likely."""


def gravity_sizes(robot: Robot, recordings: Sequence[Recording]) -> dict[str, float]:
    """
    Return recorded gravity over that of the URDF, by joint: the scale of its recorded effort.

    Joints are those at which the URDF has gravity; 0 where the effort has none, and those left
    out whose friction hides it, or which say something else at other times (jackknife over
    stretches of time).

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
        size, deviation = _first_coefficient(rows, effort, observed.fold)
        by_size = float(np.std(weight[:, j]) / max(np.std(effort), 1e-300))  # share of effort
        most = abs(size) + SIGNIFICANT * deviation
        certain = abs(size) > SIGNIFICANT * deviation
        hidden = abs(size) * by_size < GRAVITY_ABSENT and most * by_size < GRAVITY_SEEN
        if hidden or (not certain and most < SMALL):
            found[robot.joints[j]] = 0.0
        elif certain and abs(size) * by_size > GRAVITY_SEEN:
            found[robot.joints[j]] = size
    return found


def _first_coefficient(
    rows: np.ndarray, effort: np.ndarray, fold: np.ndarray
) -> tuple[float, float]:
    """Return the coefficient of the first column, and its deviation by leaving out folds."""
    size = float(np.linalg.lstsq(rows, effort, rcond=None)[0][0])
    others = (fold != k for k in np.unique(fold))
    sizes = [np.linalg.lstsq(rows[kept], effort[kept], rcond=None)[0][0] for kept in others]
    return size, float(np.sqrt((len(sizes) - 1) * np.var(sizes)))
