# SPDX-License-Identifier: Apache-2.0
"""
Order of legs in columns that do not name their joints.

Feet that stand keep their distances; with joints of other legs in their columns they do not.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..data.columns import columns_of
from ..data.floating_recording import FloatingRecording
from ..data.recording import Motion
from ..data.recording_config import RecordingEntry
from ..diagnosis.floating_corrections import exchanges, ORDERS
from ..errors import collected_warnings, one_of
from ..model.mechanisms import ContactSettings
from ..model.robot import Robot
from ..regressor import build, FloatingRegressor, ModelSettings

BETTER = 2.0
"""Times by which distances vary less with another order before it is said."""

SAMPLES = 500
"""Samples at which distances are looked at."""


def order_remarks(
    entry: RecordingEntry,
    recording: FloatingRecording,
    robot: Robot,
    contacts: tuple[ContactSettings, ...],
) -> list[str]:
    """Return remarks on joints that columns do not name; none for those that are named."""
    joints = robot.driven_joints
    columns = columns_of(entry.position)
    if columns is None or any(joint in str(name) for joint in joints for name in columns):
        return []
    with collected_warnings():
        regressor = build(robot, ModelSettings(contacts=contacts))
    assert isinstance(regressor, FloatingRegressor)
    firsts = dict.fromkeys(joints[leg[0] - robot.n_joints] for leg in regressor.legs if leg.size)
    taken = (
        f'{entry.name}: its joints have no names and are taken in the order of the URDF, legs as '
        f'{one_of(firsts)}'
    )
    order = _steadiest_order(recording, regressor)
    if order is None:
        return [f'{taken}: check it (motors of Unitree begin with the right leg)']
    feet = one_of([contacts[k].frame for k in order])
    return [
        f'{taken}, but feet that stand keep their distances better with legs as {feet}: '
        'give the joints in the order of the columns (robot.joints)'
    ]


def _steadiest_order(
    recording: FloatingRecording, regressor: FloatingRegressor
) -> tuple[int, ...] | None:
    """Return the legs whose columns each leg has; None where they are its own, or not known."""
    legs = regressor.legs
    alike = len({leg.size for leg in legs}) == 1 and legs[0].size > 0
    if not 1 < len(legs) <= ORDERS or not alike:
        return None
    rows = np.unique(np.linspace(0, len(recording) - 1, SAMPLES).astype(int))
    position, stance = recording.position[rows], recording.stance[rows]
    own = tuple(range(len(legs)))
    steps = {
        order: _unsteadiness(position, stance, regressor, order) for order in exchanges(len(legs))
    }
    best = min(steps, key=lambda order: steps[order])
    here = _unsteadiness(position, stance, regressor, own)
    return best if here > BETTER * steps[best] else None


def _unsteadiness(
    position: np.ndarray, stance: np.ndarray, regressor: FloatingRegressor, order: Sequence[int]
) -> float:
    """Return the root mean square change of distances between feet that stand [m]."""
    legs, moved = regressor.legs, position.copy()
    for leg, k in zip(legs, order, strict=True):
        moved[:, leg] = position[:, legs[k]]
    still = np.zeros_like(moved)
    points = regressor.contact_points(Motion(moved, still, still))
    squares, count = 0.0, 0
    for i in range(len(legs)):
        for j in range(i):
            both = stance[:, i] & stance[:, j]
            if stance.any() and not both.any():
                continue
            distance = np.linalg.norm(points[:, i] - points[:, j], axis=1)
            distance = distance[both] if stance.any() else distance
            squares += float(np.sum((distance - np.median(distance)) ** 2))
            count += len(distance)
    return float(np.sqrt(squares / max(count, 1)))
