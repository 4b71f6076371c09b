# SPDX-License-Identifier: Apache-2.0
"""Motions that go as planned: from a plan to its end, slower, and one at a time."""

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='needs ROS 2 (rclpy): run `make test`')

from action_msgs.msg import GoalStatus
from robot_identification.nodes import excitation_node
from robot_identification.nodes.common.messages import seconds, trajectory_points
from robot_identification_msgs.action import Excite, PlanExcitation

JOINTS = ('joint_1', 'joint_2')


@pytest.fixture
def cell(driven_cell):
    """Give the node and an arm at rest at zero, on a clock that the test drives."""
    return driven_cell()


def plan(cell):
    """Return the result of planning."""
    result = cell.plan(return_points=True)
    assert result.error_code == 0, result.error_msg
    return result


def test_a_plan_is_executed_as_it_was_planned(cell):
    cell.set(**{'planner.start': [0.3, -0.2]})
    made = plan(cell)
    cell.states.clear()
    status, result, feedback = cell.excite(plan_id=made.plan_id)
    assert (status, result.error_code, result.error_msg) == (GoalStatus.STATUS_SUCCEEDED, 0, '')
    phases = [message.phase for message in feedback]
    assert phases.index('moving_to_start') < phases.index('exciting')
    moving = [message for message in feedback if message.phase == 'exciting']
    progress = [message.progress for message in moving]
    assert progress == sorted(progress) and progress[-1] > 0.9
    assert 0.0 < result.max_tracking_error < 0.1 and result.at_rest
    # what the arm did is what was planned
    stamps, measured = cell.stamps(), cell.positions()
    points = trajectory_points(made.trajectory, JOINTS)
    late = stamps > stamps[-1] - 5.0
    for joint in range(2):
        assert measured[late, joint].max() == pytest.approx(
            points.position[:, joint].max(), abs=0.03
        )
    # the way to the start, 0.3 rad at 0.8 of the limits, comes on top of the plan's 4 s
    assert 4.2 < result.planned_duration < 5.5
    # feedback and result come up to 50 ms late
    assert result.duration == pytest.approx(result.planned_duration, abs=0.1)
    shares = np.array([message.effort_share for message in moving])
    assert 0.1 < np.nanmax(shares) <= result.max_effort_share < 0.9


def test_a_motion_is_one_goal_from_rest_to_rest(cell, move):
    """The way to the start and the path, and nothing else, whatever the node sees meanwhile."""
    start = np.array([0.4, -0.3])
    goal = move([2.0, -1.5], start=start, speed=0.6)
    _, result, _ = cell.excite(trajectory=goal)
    assert result.error_code == 0, result.error_msg
    assert len(cell.sent) == 1 and not cell.controller.cancels
    (sent,), plan = cell.sent, trajectory_points(goal, JOINTS)
    assert not sent.velocity[[0, -1]].any() and not sent.acceleration[[0, -1]].any()
    np.testing.assert_allclose(sent.position[0], 0.0, atol=5e-3)
    way = sent.duration - plan.time[-1]
    later = sent.sample(way + plan.time)
    np.testing.assert_allclose(later.position, plan.position, atol=1e-9)
    np.testing.assert_allclose(later.velocity, plan.velocity, atol=1e-8)


def test_a_controller_that_slows_down_by_itself_takes_longer_and_is_waited_for(cell, move):
    """As a UR whose slider is pulled down, then up again, and paused in between."""
    request = cell.begin(trajectory=move([1.0, -0.8], speed=0.6))
    cell.wait_until(lambda: request.progress > 0.2, 'the motion')
    for speed, duration in ((0.0, 6.0), (0.4, 0.0)):
        cell.world.simulator.scale_speed(speed)
        cell.pass_time(duration)
    _, result, _ = cell.finish(request)
    assert (result.error_code, result.error_msg) == (0, '')
    assert result.duration > result.planned_duration + 5.0
    assert not cell.controller.cancels


def test_a_plan_through_points_is_played(cell):
    cell.set(
        **{
            'planner.method': 'points',
            'planner.points.equations': 10,
            'planner.points.starts': 4,
            'planner.points.rounds': 0,
        },
    )
    made = plan(cell)
    status, result, feedback = cell.excite(plan_id=made.plan_id)
    assert (status, result.error_msg) == (GoalStatus.STATUS_SUCCEEDED, '')
    assert max(message.tracking_error for message in feedback) < 0.1
    assert cell.at_rest()


def test_a_lower_speed_takes_longer_on_the_same_path(cell, move):
    goal = move([0.9, -0.6])
    quick, slow = (cell.excite(trajectory=goal, speed=speed)[1] for speed in (0.0, 0.4))
    # the second begins where the first ended, at its goal, and goes back to the start first
    assert (quick.error_code, slow.error_code) == (0, 0), slow.error_msg
    whole = seconds(goal.points[-1].time_from_start)
    assert quick.planned_duration == pytest.approx(whole)
    way_back = slow.planned_duration - whole / 0.4
    assert 0.3 < way_back < 2.0
    assert cell.sent[1].duration == pytest.approx(slow.planned_duration)
    for speed in (1.5, -0.2, np.nan):
        _, result, _ = cell.excite(trajectory=goal, speed=speed)
        assert result.error_code == Excite.Result.INVALID_TRAJECTORY
        assert 'share of the planned one' in result.error_msg


def test_one_motion_at_a_time_also_while_it_stops(cell, move):
    first = cell.begin(trajectory=move([1.2, 1.2], speed=0.5))
    cell.wait_until(lambda: first.progress > 0.2, 'the motion')
    assert cell.excite(trajectory=move([0.1, 0.1]))[1].error_code == Excite.Result.BUSY
    first.cancel()
    cell.wait_until(lambda: first.feedback[-1].phase == 'stopping', 'the stop')
    assert cell.excite(trajectory=move([0.1, 0.1]))[1].error_code == Excite.Result.BUSY
    assert not first.done
    assert cell.finish(first)[1].error_code == Excite.Result.CANCELED


def test_planning_beside_a_motion_holds_nothing_up(cell, move, monkeypatch):
    def endless(*args, **options):
        while True:  # until it is canceled, which raises an error
            compute(*args, **options)

    compute = excitation_node.plan
    monkeypatch.setattr(excitation_node, 'plan', endless)
    cell.workers.waits = False
    planning = cell.begin_plan(max_iterations=100000, harmonics=8)
    _, result, _ = cell.excite(trajectory=move([1.5, -1.0], speed=0.4))
    assert not planning.done
    planning.cancel()
    assert cell.finish(planning)[1].error_code == PlanExcitation.Result.CANCELED
    assert (result.error_code, result.error_msg) == (0, '')
    assert result.max_tracking_error < 0.05
