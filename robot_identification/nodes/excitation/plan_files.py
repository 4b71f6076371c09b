# SPDX-License-Identifier: Apache-2.0
"""Planned motions for those who look at them: as CSV files, and as messages, which are long."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
import os
from pathlib import Path

import numpy as np
from rclpy.node import Node
from trajectory_msgs.msg import JointTrajectory

from ...excitation.points import PointTrajectory
from ...options.fields import option
from ..common import read_options
from ..common.motion_messages import trajectory_message

QUANTITIES = ('position', 'velocity', 'acceleration')


@dataclass(frozen=True)
class PlanFileOptions:
    """Settings of the files of planned motions."""

    output: str = option(
        'plans', doc='Folder of the planned motions, a CSV file each; empty: none is written'
    )


def save_plan(node: Node, name: str, trajectory: PointTrajectory) -> str:
    """
    Write a plan's points below the node's parameter ``output``.

    Parameters
    ----------
    node:
        Whose parameter, and who tells in the log where a file cannot be written: the plan is good
        without it.
    name:
        The plan's.
    trajectory:
        With accelerations.

    Returns
    -------
    str
        The file's absolute path; empty where there is none.

    """
    folder = read_options(node, PlanFileOptions).output
    if not folder:
        return ''
    path = Path(folder).expanduser().absolute() / f'{name}_{datetime.now():%Y%m%d_%H%M%S}.csv'
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_points(path, trajectory)
    except OSError as error:
        node.get_logger().warning(
            f"{name} is not on disk: cannot write '{path}': {error.strerror}; correct the "
            'parameter output, or leave it empty'
        )
        return ''
    return str(path)


def write_points(path: Path, trajectory: PointTrajectory) -> None:
    """
    Write the points of a trajectory to a CSV file, whole or not at all.

    Columns are ``time`` [s] and ``<joint>.position``, ``.velocity`` and ``.acceleration`` of every
    joint [rad, rad/s, rad/s^2; m for a prismatic joint].

    Raises
    ------
    OSError
        where the file cannot be written.

    """
    header = ['time', *(f'{joint}.{name}' for name in QUANTITIES for joint in trajectory.joints)]
    rows = np.column_stack([trajectory.time, *(getattr(trajectory, name) for name in QUANTITIES)])
    beside = path.with_name(f'.{path.name}.new')
    try:
        np.savetxt(beside, rows, fmt='%.9g', delimiter=',', header=','.join(header), comments='')
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def points_message(trajectory: PointTrajectory, wanted: bool = True) -> JointTrajectory:
    """Return a trajectory as a message; where it is not wanted, one with the joints alone."""
    t = trajectory
    if not wanted:
        return JointTrajectory(joint_names=list(t.joints))
    return trajectory_message(t.joints, t.time, t.position, t.velocity, t.acceleration)
