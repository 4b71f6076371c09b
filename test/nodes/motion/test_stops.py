# SPDX-License-Identifier: Apache-2.0
"""Motions that end early: the arm comes to rest, smoothly and where it was checked."""

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='needs ROS 2 (rclpy): run `make test`')

from action_msgs.msg import GoalStatus
from robot_identification.nodes.common.messages import seconds
from robot_identification_msgs.action import Excite

GOAL = np.array([2.0, -1.5])


@pytest.fixture
def cell(driven_cell):
    """Give the node and an arm at rest at zero, on a clock that the test drives."""
    return driven_cell()


def once(share, action):
    """Return what calls ``action`` once a motion has come so far, and cancels nothing."""
    done = []

    def look(feedback):
        if not done and feedback and feedback[-1].progress > share:
            done.append(True)
            action()
        return False

    return look


def after(share):
    """Return what cancels a motion that has come so far."""
    return lambda feedback: feedback and feedback[-1].progress > share


def require_on_the_path(cell):
    """Hold the arm to the straight path to `GOAL`, at rest."""
    assert cell.at_rest()
    shares = np.array(cell.states[-1].position) / GOAL
    assert abs(np.diff(shares)[0]) < 0.01
    return shares[0]


@pytest.mark.parametrize('progress', [0.1, 0.4, 0.75])
def test_cancel_brings_the_arm_to_rest_along_the_path(cell, move, progress):
    status, result, feedback = cell.excite(after(progress), trajectory=move(GOAL, speed=0.5))
    assert (status, result.error_code) == (GoalStatus.STATUS_CANCELED, Excite.Result.CANCELED)
    assert feedback[-1].phase == 'stopping'
    # a quintic begins as 10 x^3
    assert 2.0 * progress**3 < require_on_the_path(cell) < 0.995
    assert result.duration < result.planned_duration


def test_cancel_before_anything_moves(cell, move):
    status, result, _ = cell.excite(lambda feedback: True, trajectory=move(GOAL, speed=0.5))
    assert (status, result.error_code) == (GoalStatus.STATUS_CANCELED, Excite.Result.CANCELED)
    assert cell.at_rest()
    assert np.abs(np.array(cell.states[-1].position)).max() < 0.05


def test_cancel_on_the_way_to_the_start_and_the_next_goal_goes_on_from_there(cell, move):
    cell.set(move_speed=0.2)
    goal = move(GOAL + 0.5, start=GOAL)
    _, result, feedback = cell.excite(after(0.3), trajectory=goal)
    assert result.error_code == Excite.Result.CANCELED
    assert {message.phase for message in feedback} >= {'moving_to_start', 'stopping'}
    assert 0.1 < require_on_the_path(cell) < 0.95
    cell.set(move_speed=0.8)
    _, result, _ = cell.excite(trajectory=goal)
    assert result.error_code == 0, result.error_msg


def test_at_once_leaves_the_path_for_the_quickest_stop_from_what_was_sent(cell, move):
    cell.set(stop='at_once')
    _, result, _ = cell.excite(after(0.4), trajectory=move(GOAL))
    assert result.error_code == Excite.Result.CANCELED
    # it begins on the path, and takes less than the 0.2 s of a stop along it
    before, last = (message.points for message in cell.sent[-2:])
    times = {round(seconds(p.time_from_start), 6): p.positions for p in before}
    shared = [p for p in last if round(seconds(p.time_from_start), 6) in times]
    assert len(shared) > 3
    for point in shared[:-1]:
        then = times[round(seconds(point.time_from_start), 6)]
        np.testing.assert_allclose(point.positions, then, atol=1e-9)
    assert cell.at_rest()
    np.testing.assert_allclose(cell.states[-1].position, last[-1].positions, atol=0.01)


def test_a_motion_is_stopped_where_execute_is_set_to_false(cell, move):
    switch = once(0.4, lambda: cell.set(execute=False))
    status, result, _ = cell.excite(switch, trajectory=move(GOAL, speed=0.5))
    assert status == GoalStatus.STATUS_ABORTED
    assert result.error_code == Excite.Result.EXECUTION_DISABLED
    assert 'execute was set to false' in result.error_msg
    assert 0.05 < require_on_the_path(cell) < 0.95


def test_a_robot_that_does_not_follow_is_stopped(cell, move):
    cell.set(tracking_tolerance=1e-4, tracking_lag=0.0)
    status, result, _ = cell.excite(trajectory=move(GOAL))
    assert (status, result.error_code) == (GoalStatus.STATUS_ABORTED, Excite.Result.TRACKING_ERROR)
    assert 'tracking_tolerance' in result.error_msg
    assert cell.at_rest()


def test_nothing_is_sent_to_a_robot_that_is_put_elsewhere(cell, move):
    sent = []

    def put_back():
        cell.world.simulator.reset()
        sent.append(len(cell.sent))

    _, result, _ = cell.excite(once(0.6, put_back), trajectory=move(np.full(2, 2.0)))
    assert result.error_code == Excite.Result.UNTRUSTED_STATE
    # whatever were sent would begin with a leap to where the robot should have been
    assert len(cell.sent) <= sent[0] + 1
    assert cell.at_rest()


@pytest.mark.parametrize(
    ('effort', 'changed', 'words'),
    [
        # the limit is 150 N m; a push that the drive can hold against
        (-100.0, {}, ('predicted by the URDF', 'effort_tolerance')),
        (-100.0, {'effort_tolerance': 0.0, 'effort_share': 0.6}, ('of its limit of 150 N m',)),
    ],
)
def test_what_is_in_the_way_is_noticed_by_its_effort(cell, move, effort, changed, words):
    cell.set(**changed)
    push = once(0.3, lambda: cell.world.simulator.disturb(np.array([0.0, effort])))
    status, result, _ = cell.excite(push, trajectory=move([1.0, 1.0], speed=0.3))
    assert (status, result.error_code) == (
        GoalStatus.STATUS_ABORTED,
        Excite.Result.EFFORT_EXCEEDED,
    )
    assert "joint 'joint_2'" in result.error_msg
    assert all(word in result.error_msg for word in words), result.error_msg
    assert 0.4 < result.max_effort_share < 1.1
    assert cell.at_rest()


def test_efforts_are_not_watched_where_they_are_none_of_the_joints(cell, move):
    cell.set(effort_kind='motor_current')
    cell.world.simulator.disturb(np.array([0.0, -100.0]))
    _, result, feedback = cell.excite(trajectory=move([0.3, 0.3], speed=0.5))
    assert result.error_code == 0, result.error_msg
    assert np.isnan(result.max_effort_share)
    assert np.isnan([message.effort_share for message in feedback]).all()
    assert 'motor_current' in cell.output


def test_a_motion_that_cannot_be_stopped_soon_is_refused(cell, move):
    cell.set(stop_within=0.2)
    _, result, _ = cell.excite(trajectory=move(GOAL))
    assert result.error_code == Excite.Result.LIMITS_VIOLATED
    assert 'stop_within (0.2 s)' in result.error_msg
    assert not cell.sent
