# SPDX-License-Identifier: Apache-2.0
"""Goals that are refused, other drivers and controllers, and clients that leave."""

from pathlib import Path
import threading

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='needs ROS 2 (rclpy): run `make test`')

from action_msgs.msg import GoalStatus
from robot_identification.nodes.excitation import motion_checks
from robot_identification.nodes.excitation.options import MotionError
from robot_identification_msgs.action import Excite
from sensor_msgs.msg import JointState
from std_msgs.msg import Empty
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


@pytest.fixture
def cell(driven_cell):
    """Give the node and an arm at rest at zero, on a clock that the test drives."""
    return driven_cell(alive_timeout=0.5)


def test_a_driver_that_dies_ends_the_motion(cell, move):
    cell.set(stale_timeout=0.4)
    request = cell.begin(trajectory=move(np.full(2, 2.0), speed=0.4))
    cell.wait_until(lambda: request.progress > 0.1, 'the motion')
    cell.world.spoil = lambda message: []
    died = cell.world.now
    status, result, _ = cell.finish(request)
    assert (status, result.error_code) == (GoalStatus.STATUS_ABORTED, Excite.Result.STALE_STATE)
    # the controller may live where the publisher of joint states does not
    assert result.at_rest and cell.at_rest() and cell.controller.cancels
    # noticed within the timeout, and answered a second later
    assert 0.4 < cell.world.now - died < 5.0


@pytest.mark.parametrize(
    ('words', 'fields'),
    [
        ("'joint_2' is not in the joint states", {'name': ['joint_1'], 'position': [0.0]}),
        ('no finite positions', {'name': ['joint_1', 'joint_2'], 'position': [0.0, np.nan]}),
    ],
)
def test_joint_states_that_tell_nothing_count_as_none(driven_cell, move, words, fields):
    cell = driven_cell(silent=True)
    cell.world.spoil = lambda message: [(JointState(header=message.header, **fields), 0)]
    _, result, _ = cell.excite(trajectory=move(np.full(2, 0.3)))
    assert result.error_code == Excite.Result.STALE_STATE
    assert words in result.error_msg
    assert not cell.sent


@pytest.mark.parametrize('place', [1e9, 0.1])
def test_joint_states_that_are_not_the_controllers_begin_no_motion(cell, move, place):
    """As of a driver that counts something else, or of a second publisher."""

    def elsewhere(message):
        return [(JointState(header=message.header, name=message.name, position=[place, 0.0]), 0)]

    cell.world.spoil = elsewhere
    for fields in ({}, {'dry_run': True}):
        _, result, _ = cell.excite(trajectory=move(np.full(2, 0.3)), **fields)
        assert result.error_code == Excite.Result.UNTRUSTED_STATE
        assert f"the joint states have joint 'joint_1' at {place:.4g}" in result.error_msg
        assert "'/joint_trajectory_controller/controller_state' at " in result.error_msg
        assert 'they come from' in result.error_msg
    assert not cell.sent


def test_a_robot_that_moves_by_the_controllers_state_alone_begins_no_motion(cell, move):
    rest = cell.states[-1]

    def frozen(message):
        position = rest.position
        return [(JointState(header=message.header, name=message.name, position=position), 0)]

    cell.world.spoil = frozen
    request = cell.begin(trajectory=move(np.full(2, 0.3)))
    for _ in range(500):
        cell.world.simulator.follower.hold(np.array(cell.states[-1].position) + 0.02)
        cell.pass_time(0.02)
    _, result, _ = cell.finish(request)
    assert result.error_code == Excite.Result.NOT_AT_START
    assert "by '/joint_trajectory_controller/controller_state' the robot is moving" in (
        result.error_msg
    )
    assert not cell.sent


def test_others_that_may_command_the_robot_are_refused_until_the_last_moment(cell, move):
    others = MotionError(Excite.Result.CONTROLLER_SHARED, 'as told by the graph')
    cell.controller.others = others
    for fields in ({}, {'dry_run': True}):
        _, result, _ = cell.excite(trajectory=move(np.full(2, 0.3)), **fields)
        assert (result.error_code, result.error_msg) == (others.code, 'as told by the graph')
    cell.controller.others = None
    request = cell.begin(trajectory=move(np.full(2, 0.3)))
    cell.controller.others = others
    _, result, _ = cell.finish(request)
    assert result.error_code == others.code
    assert not cell.sent


def test_a_robot_that_is_moved_while_its_motion_is_checked_is_refused(cell, move, monkeypatch):
    begun, held = threading.Event(), threading.Event()

    def check_stops(*_):
        begun.set()
        assert held.wait(60.0)
        return 0.0

    # the last check, once it is known where the robot is
    monkeypatch.setattr(motion_checks, 'check_stops', check_stops)
    cell.workers.waits = False
    request = cell.begin(trajectory=move(np.full(2, 0.3)))
    cell.wait_until(begun.is_set, 'the checks')
    cell.world.simulator.follower.hold(np.array([0.05, 0.0]))
    cell.pass_time(0.5)
    held.set()
    _, result, _ = cell.finish(request)
    assert result.error_code == Excite.Result.NOT_AT_START
    assert not cell.sent


def test_a_cancel_is_heard_between_two_checks(cell, move, monkeypatch):
    checked = motion_checks.check_trajectory
    begun, held, asked = threading.Event(), threading.Event(), []

    def check_trajectory(*arguments, **options):
        begun.set()
        assert held.wait(60.0)
        return checked(*arguments, **options)

    monkeypatch.setattr(motion_checks, 'check_trajectory', check_trajectory)
    monkeypatch.setattr(motion_checks, 'check_stops', lambda *_: asked.append('stops'))
    cell.workers.waits = False
    request = cell.begin(trajectory=move(np.full(2, 0.3)))
    cell.wait_until(begun.is_set, 'the first check')
    request.cancel()
    held.set()
    _, result, _ = cell.finish(request)
    assert (result.error_code, result.error_msg) == (Excite.Result.CANCELED, 'canceled')
    assert not asked and not cell.sent


def test_the_clock_of_the_driver_is_set_back(cell, move):
    def set_back(message):
        message.header.stamp.sec -= 500 if cell.sent else 0
        return [(message, 0)]

    cell.world.spoil = set_back
    _, result, _ = cell.excite(trajectory=move(np.full(2, 0.3)))
    # nothing depends on it
    assert (result.error_code, result.error_msg) == (0, '')
    assert 0.0 < result.duration < 2.0 * result.planned_duration


@pytest.mark.parametrize('factor', [0.05, 0.2, 10.0])
def test_a_robot_at_rest_in_a_slow_simulation_is_seen_at_rest(driven_cell, move, factor):
    """Joint states come as seldom, or as often, as its time passes."""
    cell = driven_cell(rate=100.0, time_factor=factor)
    _, result, _ = cell.excite(trajectory=move(np.full(2, 0.3), speed=0.5))
    assert (result.error_code, result.error_msg) == (0, '')


GOAL = np.array([2.0, -1.5])


def test_a_sign_of_life_has_to_go_on(cell, move):
    request = cell.begin(trajectory=move(GOAL, speed=0.3))
    for _ in range(20):
        cell.deliver('excitation/alive', Empty())
        cell.pass_time(0.1)
    assert not request.done and request.progress > 0.05
    last = cell.world.now
    cell.wait_until(lambda: request.feedback[-1].phase == 'stopping', 'the stop')
    # told of it a little later by the feedback
    assert 0.3 < cell.world.now - last < 0.6
    _, result, _ = cell.finish(request)
    assert result.error_code == Excite.Result.CLIENT_LOST
    assert 'no sign of life' in result.error_msg
    assert cell.at_rest()
    # who sends none need not: the next motion goes on without
    _, result, _ = cell.excite(trajectory=move(0.1 * GOAL, start=cell.states[-1].position))
    assert result.error_code == 0, result.error_msg
