# SPDX-License-Identifier: Apache-2.0
"""
Points of a ``trajectory_msgs/JointTrajectory``, of a message or of its YAML, as arrays.

A trajectory may name its joints in any order; arrays are in the order that the caller gives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import ExcitationError, one_of
from .trajectories import PointTrajectory

STATES = ('positions', 'velocities', 'accelerations')
"""Fields of a point that describe its motion."""


def columns_of(names: Sequence[str], joints: Sequence[str]) -> list[int]:
    """Return where each joint stands in a trajectory; raise `ExcitationError` for others."""
    for fault, wrong in (
        ('does not have', [joint for joint in joints if joint not in names]),
        ('has the unknown', [joint for joint in names if joint not in joints]),
        ('names twice', [joint for joint in dict.fromkeys(names) if names.count(joint) > 1]),
    ):
        if wrong:
            raise ExcitationError(
                f'the trajectory {fault} joints {one_of(wrong)}',
                joint=wrong[0],
                remedy=f'the robot has {one_of(joints)}',
            )
    return [names.index(joint) for joint in joints]


def state_of(rows: Sequence[Sequence[Any]], state: str, n_joints: int) -> np.ndarray | None:
    """
    Return a state of all points, (n_points, n_joints); None where no point has it.

    Raises `ExcitationError` where a point has another number of values than joints, or something
    else than numbers.
    """
    if not any(len(row) for row in rows):
        return None
    for i, row in enumerate(rows):
        if len(row) != n_joints:
            raise ExcitationError(
                f'point {i} of the trajectory has {len(row)} {state}, expected {n_joints}',
                value=len(row),
                remedy='give one value a joint in every point, or none in any',
            )
    try:
        return np.array(rows, dtype=float)
    except (TypeError, ValueError) as error:
        raise ExcitationError(
            f'{state} of the trajectory are not all numbers', remedy='correct them'
        ) from error


def point_trajectory(
    names: Sequence[str],
    time: Sequence[float],
    states: Mapping[str, Sequence[Sequence[Any]]],
    joints: Sequence[str],
) -> PointTrajectory:
    """
    Return a trajectory with its columns in the order of ``joints``.

    Parameters
    ----------
    names:
        The trajectory's joints.
    time:
        ``time_from_start`` of the points [s].
    states:
        Rows of the points by `STATES`; empty rows for a state that they lack.
    joints:
        The robot's joints.

    Raises
    ------
    ExcitationError
        where it has no points or no velocities, other joints, rows of the wrong length, values
        that are not finite, or times that do not increase.

    """
    columns = columns_of(names, joints)
    if not time:
        raise ExcitationError('the trajectory has no points', remedy='plan one first')
    if time[0] < 0.0:
        raise ExcitationError(f'time_from_start of point 0 is {time[0]:.6g} s', value=time[0])
    position, velocity, acceleration = (
        None if found is None else found[:, columns]
        for found in (state_of(states[state], state, len(joints)) for state in STATES)
    )
    if position is None:
        raise ExcitationError('the trajectory has no positions', remedy='give every point some')
    if velocity is None:
        raise ExcitationError(
            'the trajectory has no velocities, so its accelerations would be infinite',
            remedy='give every point velocities, and accelerations best',
        )
    return PointTrajectory(tuple(joints), np.array(time), position, velocity, acceleration)
