# SPDX-License-Identifier: Apache-2.0
"""Motions that end early: by a cancel, until the controller has ended its goal."""

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='needs ROS 2 (rclpy): run `make test`')

from action_msgs.msg import GoalStatus
from driven_cell import DECELERATION
from robot_identification.simulation.controller import Constraints
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


def require_braked(cell):
    """Hold an arm at rest to the stop of each joint by its own deceleration, from the path."""
    assert cell.at_rest()
    stamps, positions, velocities = cell.stamps(), cell.positions(), cell.velocities()
    since = np.searchsorted(stamps, stamps[0] + cell.controller.cancels[0])
    way = velocities[since] * np.abs(velocities[since]) / (2.0 * DECELERATION)
    # until the cancel arrives it moves on
    np.testing.assert_allclose(positions[-1], positions[since] + way, atol=0.02)
    assert np.abs(np.diff(velocities[since:], axis=0)).max() * 200.0 < 3.0 * DECELERATION


@pytest.mark.parametrize('progress', [0.1, 0.4, 0.75])
def test_cancel_brings_the_arm_to_rest_by_the_controllers_deceleration(cell, move, progress):
    status, result, feedback = cell.excite(after(progress), trajectory=move(GOAL, speed=0.5))
    assert (status, result.error_code) == (GoalStatus.STATUS_CANCELED, Excite.Result.CANCELED)
    assert result.error_msg == 'canceled; the robot is at rest' and result.at_rest
    assert feedback[-1].phase == 'stopping'
    require_braked(cell)
    assert result.duration < result.planned_duration
    assert len(cell.sent) == 1


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
    cell.set(move_speed=0.8)
    held = cell.world.simulator.reference[0].copy()
    _, result, _ = cell.excite(trajectory=goal)
    assert result.error_code == 0, result.error_msg
    # it begins where the controller holds the arm, without a step
    np.testing.assert_allclose(cell.sent[1].position[0], held, atol=1e-9)


def test_a_cancel_is_repeated_until_the_goal_has_ended(cell, move):
    cell.controller.deaf = True
    request = cell.begin(trajectory=move(GOAL, speed=0.3))
    cell.wait_until(lambda: request.progress > 0.1, 'the motion')
    request.cancel()
    cell.pass_time(1.0)
    assert len(cell.controller.cancels) == 4 and not request.done
    cell.controller.deaf = False
    _, result, _ = cell.finish(request)
    assert result.error_code == Excite.Result.CANCELED and result.at_rest
    assert 'EMERGENCY' not in cell.output


def test_a_controller_that_does_not_answer_is_told_of_once_and_loudly(cell, move):
    cell.controller.deaf = True
    _, result, _ = cell.excite(after(0.1), trajectory=move(GOAL, speed=0.2))
    assert result.error_code == Excite.Result.CANCELED and result.at_rest
    assert result.error_msg == (
        'canceled; the cancel came too late, so the motion went to its end; the robot is at rest'
    )
    np.testing.assert_allclose(cell.positions()[-1], GOAL, atol=0.02)
    assert cell.output.count('USE THE EMERGENCY STOP') == 1


def test_a_controller_that_is_gone_is_asked_for_a_time_only(cell, move):
    request = cell.begin(trajectory=move(GOAL, speed=0.2))
    cell.wait_until(lambda: request.progress > 0.1, 'the motion')
    cell.controller.deaf = cell.controller.gone = True
    _, result, _ = cell.finish(request)
    assert result.error_code == Excite.Result.CONTROLLER_FAILED
    assert 'the end of the goal is not known, since the controller is gone' in result.error_msg
    assert not result.at_rest


def test_a_motion_is_stopped_where_execute_is_set_to_false(cell, move):
    switch = once(0.4, lambda: cell.set(execute=False))
    status, result, _ = cell.excite(switch, trajectory=move(GOAL, speed=0.5))
    assert status == GoalStatus.STATUS_ABORTED
    assert result.error_code == Excite.Result.EXECUTION_DISABLED
    assert result.error_msg == 'the parameter execute was set to false; the robot is at rest'
    require_braked(cell)


def test_a_robot_that_does_not_follow_is_stopped_by_the_controller(cell, move):
    """Drives that are too weak for the motion, by a load that the efforts do not tell apart."""
    cell.set(effort_tolerance=0.0, effort_share=0.0, effort_kind='motor_current')
    push = once(0.3, lambda: cell.world.simulator.disturb(np.array([0.0, -400.0])))
    status, result, _ = cell.excite(push, trajectory=move(GOAL))
    assert (status, result.error_code) == (GoalStatus.STATUS_ABORTED, Excite.Result.TRACKING_ERROR)
    assert "joint 'joint_2'" in result.error_msg
    assert 'tracking_tolerance' in result.error_msg
    assert 'PATH_TOLERANCE_VIOLATED' in result.error_msg
    assert not cell.controller.cancels


def test_a_robot_that_has_not_moved_at_all_is_told_from_one_that_is_blocked(cell, move):
    """As one whose drives are off."""
    cell.set(effort_kind='motor_current')
    cell.world.simulator.plant.step = lambda command: None
    _, result, _ = cell.excite(trajectory=move(GOAL))
    assert result.error_code == Excite.Result.TRACKING_ERROR
    assert 'see whether its drives are on' in result.error_msg
    assert result.at_rest


@pytest.mark.parametrize(
    ('effort', 'changed', 'code', 'words'),
    [
        # the limit is 150 N m; a push that the drive can hold against
        (-100.0, {}, 'CONTACT', ('predicted by the URDF', 'effort_tolerance')),
        (
            -100.0,
            {'effort_tolerance': 0.0, 'effort_share': 0.6},
            'EFFORT_EXCEEDED',
            ('of its limit of 150 N m',),
        ),
        # a push that it cannot, and efforts that end nothing
        (
            -400.0,
            {'effort_tolerance': 0.0, 'effort_share': 0.0},
            'CONTACT',
            ('has left its path', 'see whether it touches something'),
        ),
    ],
)
def test_what_is_in_the_way_is_noticed_by_its_effort(cell, move, effort, changed, code, words):
    cell.set(**changed)
    push = once(0.3, lambda: cell.world.simulator.disturb(np.array([0.0, effort])))
    status, result, _ = cell.excite(push, trajectory=move([1.0, 1.0], speed=0.3))
    assert status == GoalStatus.STATUS_ABORTED
    assert result.error_code == getattr(Excite.Result, code), result.error_msg
    assert "joint 'joint_2'" in result.error_msg
    assert all(word in result.error_msg for word in words), result.error_msg


def test_efforts_are_not_watched_where_they_are_none_of_the_joints(cell, move):
    cell.set(effort_kind='motor_current')
    cell.world.simulator.disturb(np.array([0.0, -100.0]))
    cell.pass_time(1.0)
    _, result, feedback = cell.excite(trajectory=move([0.3, 0.3], speed=0.5))
    assert result.error_code == 0, result.error_msg
    assert np.isnan(result.max_effort_share)
    assert np.isnan([message.effort_share for message in feedback]).all()
    assert 'motor_current' in cell.output


def test_a_goal_that_another_client_replaces_is_told(cell, move):
    def replace():
        controller, simulator = cell.world.controller, cell.world.simulator
        follow = simulator.follower
        controller.abandon('Current goal preempted by new incoming action.')
        follow.hold(simulator.plant.position)

    cell.set(effort_tolerance=0.0)  # to be held at once takes a blow of the drives
    _, result, _ = cell.excite(once(0.4, replace), trajectory=move(GOAL, speed=0.4))
    assert result.error_code == Excite.Result.CONTROLLER_FAILED
    assert 'Current goal preempted by new incoming action.' in result.error_msg
    assert 'another client' in result.error_msg
    assert not cell.controller.cancels


def test_a_motion_whose_stops_leave_the_position_limits_is_refused(driven_cell, move):
    cell = driven_cell(
        constraints=Constraints(decelerate_on_cancel=True, max_deceleration_on_cancel=(0.2,)),
        **{'planner.upper_limits': [2.1, 2.1], 'planner.lower_limits': [-2.1, -2.1]},
    )
    _, result, _ = cell.excite(trajectory=move(GOAL))
    assert result.error_code == Excite.Result.LIMITS_VIOLATED
    assert 'max_deceleration_on_cancel' in result.error_msg
    assert 'if the motion were canceled' in result.error_msg
    assert not cell.sent


def test_a_controller_that_holds_at_once_is_told_of(driven_cell, move):
    cell = driven_cell(constraints=Constraints(decelerate_on_cancel=False))
    _, result, _ = cell.excite(after(0.4), trajectory=move(GOAL, speed=0.3))
    assert result.error_code == Excite.Result.CANCELED and result.at_rest
    assert 'constraints.decelerate_on_cancel' in cell.output


def test_plans_have_room_for_the_stops_that_the_controller_makes(cell):
    result = cell.plan()
    assert result.error_code == 0, result.error_msg
    made = cell.node._plans[result.plan_id]
    assert made.settings.stop_deceleration == (DECELERATION, DECELERATION)
    assert made.findings.stopping > 0.0
    assert 'leave planner.stop_deceleration empty' not in cell.output
    cell.set(**{'planner.stop_deceleration': [6.0, DECELERATION]})
    made = cell.node._plans[cell.plan().plan_id]
    assert made.settings.stop_deceleration == (6.0, DECELERATION)
    words = "planner.stop_deceleration of joint 'joint_1' is 6, and max_deceleration_on_cancel of"
    assert words in cell.output


@pytest.mark.parametrize(('deceleration', 'harsh'), [(2.0, False), (1e3, True)])
def test_stops_that_may_exceed_the_acceleration_limits_are_told(
    driven_cell, move, deceleration, harsh
):
    brakes = Constraints(max_deceleration_on_cancel=(deceleration,))
    cell = driven_cell(constraints=brakes)
    _, result, _ = cell.excite(trajectory=move(0.2 * GOAL, speed=0.3), dry_run=True)
    assert result.error_code == 0, result.error_msg
    assert ('of its acceleration limit of' in cell.output) is harsh
