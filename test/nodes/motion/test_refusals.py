# SPDX-License-Identifier: Apache-2.0
"""Refusals of motions that must not be executed: the reason, and nothing moves."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='needs ROS 2 (rclpy): run `make test`')

from action_msgs.msg import GoalStatus
from robot_identification_msgs.action import Excite
from trajectory_msgs.msg import JointTrajectory

ARM = str(Path(__file__).resolve().parents[3] / 'urdf' / 'demo_arm.urdf')


def test_nothing_moves_unless_allowed(driven_cell, move):
    cell = driven_cell(execute=False)
    goal = move(np.full(2, 0.3))
    status, result, _ = cell.excite(trajectory=goal)
    assert (status, result.error_code) == (
        GoalStatus.STATUS_ABORTED,
        Excite.Result.EXECUTION_DISABLED,
    )
    long = move(np.full(2, 0.3))
    long.points[-1].time_from_start.sec = 100_000_000
    _, result, _ = cell.excite(trajectory=long, dry_run=True)
    assert result.error_code == Excite.Result.INVALID_TRAJECTORY
    assert 'the trajectory takes 1e+08 s' in result.error_msg
    status, result, _ = cell.excite(trajectory=goal, dry_run=True)
    assert (status, result.error_code, result.error_msg) == (GoalStatus.STATUS_SUCCEEDED, 0, '')
    assert cell.at_rest() and np.abs(cell.states[-1].position).max() < 0.02
    assert not cell.sent


def test_what_must_not_be_executed_is_refused_with_the_reason(driven_cell, move):
    cell = driven_cell(urdf=ARM, **{'planner.floor': 0.0, 'move_to_start': False})
    codes = Excite.Result
    fast = move(np.full(6, 1.0), speed=2.5)
    wrong_joint = move(np.full(6, 0.3))
    wrong_joint.joint_names[2] = 'elbow'
    late = move(np.full(6, 0.3))
    late.points[-1].velocities[0] = 0.5
    # reaching down to the floor, and lying on it
    down = move(np.array([0.0, 2.0, 0.0, 0.0, 0.0, 0.0]))
    away = move(np.full(6, 0.3), start=np.full(6, 0.1))
    for code, words, fields in (
        (codes.UNKNOWN_PLAN, ("'plan_9'",), {'plan_id': 'plan_9'}),
        (codes.INVALID_TRAJECTORY, ('neither',), {'trajectory': JointTrajectory()}),
        (codes.INVALID_TRAJECTORY, ('joint_3',), {'trajectory': wrong_joint}),
        (codes.INVALID_TRAJECTORY, ("'joint_1'", 'end'), {'trajectory': late}),
        (codes.LIMITS_VIOLATED, ("velocity of joint 'joint_2'", '2.2'), {'trajectory': fast}),
        (codes.COLLISION, ("'floor'", 'tool_flange'), {'trajectory': down}),
        (codes.NOT_AT_START, ('joint_', 'move_to_start'), {'trajectory': away}),
    ):
        status, result, _ = cell.excite(**fields)
        assert (status, result.error_code) == (GoalStatus.STATUS_ABORTED, code), result.error_msg
        assert all(word in result.error_msg for word in words), result.error_msg
    assert cell.at_rest() and not cell.sent


def test_without_joint_states_nothing_begins(driven_cell, move):
    cell = driven_cell(silent=True)
    _, result, _ = cell.excite(trajectory=move(np.full(2, 0.3)))
    assert result.error_code == Excite.Result.STALE_STATE
    assert '/joint_states' in result.error_msg
