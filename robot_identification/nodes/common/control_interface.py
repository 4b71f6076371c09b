# SPDX-License-Identifier: Apache-2.0
"""The action of trajectory controllers, FollowJointTrajectory, where it is installed."""

from __future__ import annotations

from typing import Any

from ...errors import SettingsError


def follow_joint_trajectory() -> Any | None:
    """Return the type of the action; None where ``control_msgs`` is not installed."""
    try:
        from control_msgs.action import FollowJointTrajectory
    except ImportError:
        return None
    return FollowJointTrajectory


def require_follow_joint_trajectory() -> Any:
    """
    Return the type of the action.

    Raises
    ------
    SettingsError
        where ``control_msgs`` is not installed.

    """
    kind = follow_joint_trajectory()
    if kind is None:
        raise SettingsError(
            "controller_kind 'follow_joint_trajectory' needs the package control_msgs, which is "
            'not installed',
            key='controller_kind',
            value='follow_joint_trajectory',
            remedy='sudo apt install ros-${ROS_DISTRO}-control-msgs, or choose trajectory_topic',
        )
    return kind
