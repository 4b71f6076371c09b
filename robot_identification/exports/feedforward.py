# SPDX-License-Identifier: Apache-2.0
"""
Feed-forward efforts of trajectories: what an identified robot takes at each of their points.

A trajectory is a ``trajectory_msgs/JointTrajectory`` as plain data.  Where its controller commands
efforts, joint_trajectory_controller adds the ``effort`` of the points to its feedback.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
import os
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from ..errors import IdentificationError
from ..excitation.joint_trajectory import columns_of, state_of, STATES
from ..results.tables import ResultView
from ..untrusted.files import load_yaml, read_text, readable


def read_trajectory(path: str | os.PathLike) -> dict[str, Any]:
    """
    Read a trajectory from YAML, as ``ros2 topic echo`` prints it.

    Raises
    ------
    IdentificationError
        naming the file if it cannot be read or is no mapping with ``joint_names`` and ``points``.

    """
    path = Path(path)
    with readable(path, 'give a trajectory_msgs/JointTrajectory in YAML'):
        # the message ends in a line of its own
        document = load_yaml(read_text(path).rstrip().removesuffix('---'))
    if not isinstance(document, dict) or not {'joint_names', 'points'} <= document.keys():
        _refuse(
            f"'{path}' is no trajectory: it has no joint_names and points",
            'give a trajectory_msgs/JointTrajectory as `ros2 topic echo --once` prints it',
        )
    return document


def with_efforts(
    result: ResultView, trajectory: Mapping[str, Any]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """
    Return a trajectory with the efforts of its points, and remarks on those above the limits.

    Parameters
    ----------
    result:
        An identified robot.
    trajectory:
        ``joint_names``, those of the robot in any order, and ``points``, each with positions,
        velocities and accelerations [rad, rad/s, rad/s^2; m, m/s, m/s^2].  All else stays as it
        is.

    Raises
    ------
    IdentificationError
        for other joints, no points, and points that lack a state or have one of another size.

    """
    joints = result.robot.joints
    names, points = trajectory['joint_names'], trajectory['points']
    names = [str(name) for name in names] if isinstance(names, list) else []
    columns = columns_of(names, joints)
    if not isinstance(points, list) or not points:
        _refuse('the trajectory has no points', 'give at least one')
    states = [_state(points, state, len(joints))[:, columns] for state in STATES]
    effort = result.inverse_dynamics(*states)
    filled = np.empty_like(effort)
    filled[:, columns] = effort
    made = [
        {**point, 'effort': values} for point, values in zip(points, filled.tolist(), strict=True)
    ]
    return {**trajectory, 'points': made}, tuple(_above(result, effort))


def _state(points: Sequence[Any], state: str, n_joints: int) -> np.ndarray:
    """Return a state of all points, (n_points, n_joints)."""
    given = [point.get(state) if isinstance(point, Mapping) else None for point in points]
    values = state_of([row if isinstance(row, list) else [] for row in given], state, n_joints)
    if values is None or not np.isfinite(values).all():
        missing = 'are missing' if values is None else 'are not all finite'
        _refuse(
            f'{state} of the trajectory {missing}',
            'let the planner write positions, velocities and accelerations of every joint',
        )
    return values


def _above(result: ResultView, effort: np.ndarray) -> list[str]:
    """Return a remark on each joint whose efforts exceed its limit."""
    robot = result.robot
    limits = np.asarray(robot.limits.effort, dtype=float)
    most = np.abs(effort).max(axis=0)
    rows = zip(robot.joints, robot.effort_units, most, limits, strict=True)
    return [
        f"joint '{joint}' takes up to {value:.4g} {unit}, and its limit is {limit:.4g} {unit}: "
        'slow the trajectory down'
        for joint, unit, value, limit in rows
        if 0.0 < limit < value
    ]


def _refuse(problem: str, remedy: str) -> NoReturn:
    raise IdentificationError(problem, remedy=remedy)
