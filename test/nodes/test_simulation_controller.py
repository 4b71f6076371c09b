# SPDX-License-Identifier: Apache-2.0
"""The simulated robot's controller over DDS: the interfaces of joint_trajectory_controller."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='needs ROS 2 (rclpy): run `make test`')

from action_msgs.msg import GoalStatus, GoalStatusArray
from action_msgs.srv import CancelGoal
from control_msgs.action import FollowJointTrajectory
from control_msgs.msg import JointTolerance, JointTrajectoryControllerState
from rcl_interfaces.msg import ParameterType
from rcl_interfaces.srv import GetParameters
from rclpy.action import ActionClient
from robot_identification.excitation.trajectories import PointTrajectory
from robot_identification.nodes.common import LATCHED
from robot_identification.nodes.common.messages import (
    duration_message,
    message_of,
    seconds,
    time_message,
)
from sensor_msgs.msg import JointState
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

PLANAR = 'package://robot_identification/urdf/zollo_planar_2r.urdf'
JOINTS = ('joint_1', 'joint_2')
NAME = 'arm_controller'
DECELERATION = 1.0
GOAL_TERMINATED = CancelGoal.Response.ERROR_GOAL_TERMINATED


@pytest.fixture(scope='module')
def simulated(module_ros):
    """Start one arm for all tests, which begin with its reset."""
    ros = module_ros
    parameters = {
        'robot_description': PLANAR,
        # few enough for this process on a busy machine
        'rate': 100.0,
        'controller_state_rate': 25.0,
        'controller': NAME,
        'constraints.max_deceleration_on_cancel': [DECELERATION],
        'constraints.goal': [0.02, 0.03],
        'constraints.goal_time': 5.0,
    }
    ros.arm = ros.start('simulation', parameters=parameters)
    ros.states = ros.subscribe(JointState, 'joint_states', 5000)
    # those of the list above may have waited for long in this process
    ros.latest = ros.subscribe(JointState, 'joint_states', 1)
    ros.client = ActionClient(ros.node, FollowJointTrajectory, f'{NAME}/follow_joint_trajectory')
    ros.wait_until(lambda: ros.states and ros.client.server_is_ready(), what='the arm')
    yield ros
    ros.client.destroy()


@pytest.fixture
def arm(simulated):
    """Give the arm, at rest at zero and at full speed."""
    assert simulated.set_parameter('simulation', 'speed_scaling', 1.0)[0]
    assert simulated.call(Trigger, 'simulation/reset').success
    simulated.wait_until(
        lambda: np.abs(simulated.states[-1].position).max() < 1e-3, what='the initial position'
    )
    del simulated.states[:-1], simulated.latest[:]
    return simulated


def stamp(message):
    return seconds(message.header.stamp)


def run(arm, seconds):
    """Let simulated time pass; return the latest state."""
    end = stamp(arm.states[-1]) + seconds
    arm.wait_until(lambda: stamp(arm.states[-1]) > end, what='simulated time')
    return arm.states[-1]


def line(arm, goal, seconds, ahead=None):
    """
    Return a trajectory from zero to ``goal``, rest to rest, by cubics that are one.

    It begins ``ahead`` of the latest state [s]; with None when it arrives.
    """
    time = np.linspace(0.0, seconds, 11)
    x = (time / seconds)[:, None]
    goal = np.asarray(goal)
    position, velocity = goal * (3 * x**2 - 2 * x**3), goal * (6 * x - 6 * x**2) / seconds
    start = 0 if ahead is None else round(1e9 * (stamp(arm.states[-1]) + ahead))
    trajectory = PointTrajectory(JOINTS, time, position, velocity)
    return message_of(trajectory, time_message(start))


def send(arm, trajectory, feedback=None, **goal):
    """Send a goal; return its handle."""
    request = FollowJointTrajectory.Goal(trajectory=trajectory, **goal)
    append = None if feedback is None else feedback.append
    sending = arm.client.send_goal_async(request, feedback_callback=append)
    arm.wait_until(sending.done, what='the answer to a goal')
    return sending.result()


def outcome(arm, goal):
    future = goal.get_result_async()
    arm.wait_until(future.done, what='the end of a goal')
    return future.result().status, future.result().result


def arrives(arm, place):
    """Wait for the place: joint states may come after the result."""
    arm.wait_until(
        lambda: np.allclose(arm.states[-1].position, place, rtol=0.0, atol=5e-3), what='the place'
    )


def moving(arm):
    arm.wait_until(lambda: abs(arm.latest[-1].velocity[0]) > 0.3, what='the motion')


def rest(arm, since):
    """Wait until joint states after a stamp show the arm at rest for 0.3 s; return its place."""

    def resting():
        end = stamp(arm.states[-1])
        last = [state.position for state in arm.states if stamp(state) > max(since, end - 0.3)]
        return end > since + 0.3 and np.ptp(last, axis=0).max() < 2e-3

    arm.wait_until(resting, what='rest')
    return np.array(arm.states[-1].position)


def test_a_goal_is_followed_and_told_of(arm):
    feedback = []
    states = arm.subscribe(JointTrajectoryControllerState, f'{NAME}/controller_state')
    goal = send(arm, line(arm, [0.3, -0.3], 1.0), feedback)
    status, result = outcome(arm, goal)
    assert (status, result.error_code) == (GoalStatus.STATUS_SUCCEEDED, 0)
    arrives(arm, [0.3, -0.3])
    told = [m.feedback for m in feedback]
    assert list(told[0].joint_names) == list(JOINTS)
    times = [seconds(m.desired.time_from_start) for m in told]
    assert times == sorted(times) and times[0] >= 0.0
    for t, m in zip(times, told, strict=True):
        x = min(t, 1.0)
        assert m.desired.positions[0] == pytest.approx(0.3 * (3 * x**2 - 2 * x**3), abs=1e-6)
        assert m.error.positions[0] == pytest.approx(
            m.desired.positions[0] - m.actual.positions[0], abs=1e-9
        )
    by_stamp = {stamp(state): state for state in arm.states}
    arm.wait_until(lambda: len(states) > 10, what="the controller's states")
    for m in states:
        if stamp(m) in by_stamp:
            assert m.feedback.positions == by_stamp[stamp(m)].position
        error = np.subtract(m.reference.positions, m.feedback.positions)
        np.testing.assert_allclose(m.error.positions, error, atol=1e-12)
    assert states[-1].speed_scaling_factor == 1.0


def test_a_new_goal_ends_the_former(arm):
    first = send(arm, line(arm, [0.5, 0.5], 60.0))
    run(arm, 0.3)
    second = send(arm, line(arm, [0.2, 0.2], 1.0))
    status, result = outcome(arm, first)
    assert (status, result.error_code) == (GoalStatus.STATUS_ABORTED, result.INVALID_GOAL)
    assert result.error_string == 'Current goal preempted by new incoming action.'
    assert outcome(arm, second)[0] == GoalStatus.STATUS_SUCCEEDED
    arrives(arm, [0.2, 0.2])


def test_goals_that_cannot_be_followed_are_refused(arm):
    wrong, late, twice, driven = (line(arm, [0.3, 0.3], 1.0) for _ in range(4))
    wrong.joint_names = ['joint_1', 'elbow']
    late.points[-1].velocities[0] = 0.1
    twice.points[3] = twice.points[2]
    driven.points[1].effort = [1.0, 1.0]
    for trajectory, reason in (
        (wrong, "no joint 'elbow'"),
        (late, "joint 'joint_1' has a velocity of 0.1 at its end"),
        (twice, 'not after point 2'),
        (driven, 'its points have efforts'),
        (line(arm, [0.3, 0.3], 0.5, ahead=-0.8), 'it is over'),
    ):
        assert not send(arm, trajectory).accepted
        arm.arm.wait_for_output(reason)
    np.testing.assert_allclose(run(arm, 0.3).position, 0.0, atol=0.01)


def test_a_cancel_of_all_goals_decelerates(arm):
    statuses = arm.subscribe(
        GoalStatusArray, f'{NAME}/follow_joint_trajectory/_action/status', LATCHED
    )
    goal = send(arm, line(arm, [3.0, 0.0], 10.0))
    moving(arm)
    begun = stamp(arm.latest[-1])
    # as anybody can who does not know the goal
    answer = arm.call(CancelGoal, f'{NAME}/follow_joint_trajectory/_action/cancel_goal')
    assert [bytes(each.goal_id.uuid) for each in answer.goals_canceling] == [
        bytes(goal.goal_id.uuid)
    ]
    assert outcome(arm, goal)[0] == GoalStatus.STATUS_CANCELED
    arm.wait_until(
        lambda: statuses[-1].status_list[-1].status == GoalStatus.STATUS_CANCELED,
        what='the status',
    )
    place = rest(arm, begun)
    assert 0.05 < place[0] < 2.9
    moved = [state for state in arm.states if stamp(state) > begun]
    time, velocity = (np.array(row) for row in zip(*[(stamp(m), m.velocity[0]) for m in moved]))
    later = np.searchsorted(time, time + 0.2)
    before, later = np.flatnonzero(later < time.size), later[later < time.size]
    change = velocity[later] - velocity[before]
    slowing = (velocity[before] > 0.1) & (change < -0.05)
    slope = change / (time[later] - time[before])
    assert slope[slowing].min() == pytest.approx(-DECELERATION, rel=0.1)


def test_a_robot_that_leaves_the_tolerance_is_stopped(arm):
    tolerance = [JointTolerance(name='joint_2', position=1e-4)]
    goal = send(arm, line(arm, [0.5, 0.5], 1.0), path_tolerance=tolerance)
    status, result = outcome(arm, goal)
    assert (status, result.error_code) == (
        GoalStatus.STATUS_ABORTED,
        result.PATH_TOLERANCE_VIOLATED,
    )
    # the joint is in the log alone
    assert result.error_string == 'Aborted due to path tolerance violation'
    arm.arm.wait_for_output("Aborted due to path tolerance violation: joint 'joint_2' is off by")
    assert abs(run(arm, 1.2).position[1]) < 0.3


def test_a_goal_that_is_not_reached_in_time_is_aborted(arm):
    goal = FollowJointTrajectory.Goal(
        goal_tolerance=[JointTolerance(name='joint_1', position=1e-7)]
    )
    goal.goal_time_tolerance.nanosec = 200_000_000
    disturbances = arm.publisher(JointState, 'simulation/disturbance', wait_for_subscribers=1)
    disturbances.publish(JointState(name=['joint_1'], effort=[2.0]))
    handle = send(
        arm,
        line(arm, [0.2, 0.0], 0.5),
        goal_tolerance=goal.goal_tolerance,
        goal_time_tolerance=goal.goal_time_tolerance,
    )
    status, result = outcome(arm, handle)
    assert (status, result.error_code) == (
        GoalStatus.STATUS_ABORTED,
        result.GOAL_TOLERANCE_VIOLATED,
    )
    assert result.error_string.startswith('Aborted due to goal_time_tolerance exceeding by 0.2')


def test_a_goal_that_is_canceled_after_its_end_stays_so_until_the_next(module_ros):
    """
    As joint_trajectory_controller leaves a goal whose cancel comes before its end was told.

    Ends are told at the rate of the monitor, which leaves 2 s here.
    """
    ros = module_ros
    slow = {'robot_description': PLANAR, 'controller': 'slow', 'action_monitor_rate': 0.5}
    node = ros.start('simulation', '-r', '__ns:=/slow', parameters=slow, wait=False)
    topic = '/slow/slow/follow_joint_trajectory'
    statuses = ros.subscribe(GoalStatusArray, f'{topic}/_action/status', LATCHED)
    states = ros.subscribe(JointTrajectoryControllerState, '/slow/slow/controller_state')
    client = ActionClient(ros.node, FollowJointTrajectory, topic)
    ros.wait_until(client.server_is_ready, what='the arm')

    def begin(goal):
        point = JointTrajectoryPoint(positions=goal, time_from_start=duration_message(0.2))
        path = JointTrajectory(joint_names=JOINTS, points=[point])
        sending = client.send_goal_async(FollowJointTrajectory.Goal(trajectory=path))
        ros.wait_until(sending.done, what='the answer to a goal')
        return sending.result()

    def status(goal):
        found = {bytes(s.goal_info.goal_id.uuid): s.status for s in statuses[-1].status_list}
        return found[bytes(goal.goal_id.uuid)]

    first = begin([0.1, 0.1])
    ended = first.get_result_async()
    ros.wait_until(lambda: np.allclose(states[-1].reference.positions, 0.1), what='its end')
    # the period in which it is noticed
    ros.spin(0.1)
    if ended.done():  # the monitor has looked in between
        first = begin([0.2, 0.2])
        ended = first.get_result_async()
        ros.wait_until(lambda: np.allclose(states[-1].reference.positions, 0.2), what='its end')
        ros.spin(0.1)
    for expected in ([CancelGoal.Response.ERROR_NONE, 1], [GOAL_TERMINATED, 0]):
        canceling = first.cancel_goal_async()
        ros.wait_until(canceling.done, what='the answer to a cancel')
        answer = canceling.result()
        assert [answer.return_code, len(answer.goals_canceling)] == expected
    ros.spin(4.5)
    assert status(first) == GoalStatus.STATUS_CANCELING and not ended.done()
    begin([0.0, 0.0])
    ros.wait_until(ended.done, what='its result')
    assert ended.result().status == GoalStatus.STATUS_CANCELED
    client.destroy()
    assert node.stop() == 0


def test_the_parameters_are_those_of_the_controller(arm):
    names = [
        'joints',
        'command_interfaces',
        'use_sim_time',
        'constraints.decelerate_on_cancel',
        'constraints.joint_2.max_deceleration_on_cancel',
        'constraints.joint_1.goal',
        'constraints.goal_time',
        'no_such',
    ]
    answer = arm.call(GetParameters, f'{NAME}/get_parameters', names=names).values
    assert answer[0].string_array_value == list(JOINTS)
    assert answer[1].string_array_value == ['position']
    assert answer[2].type == ParameterType.PARAMETER_BOOL
    assert answer[3].bool_value
    assert [value.double_value for value in answer[4:7]] == [DECELERATION, 0.02, 5.0]
    assert answer[7].type == ParameterType.PARAMETER_NOT_SET


def test_a_lower_speed_takes_longer(arm):
    assert not arm.set_parameter('simulation', 'speed_scaling', 1.5)[0]
    assert arm.set_parameter('simulation', 'speed_scaling', 0.5)[0]
    states = arm.subscribe(JointTrajectoryControllerState, f'{NAME}/controller_state')
    arm.wait_until(lambda: states[-1].speed_scaling_factor == 0.5, what='the speed')
    goal = send(arm, line(arm, [0.3, -0.3], 1.0))
    assert outcome(arm, goal)[0] == GoalStatus.STATUS_SUCCEEDED
    arrives(arm, [0.3, -0.3])
    # of the cubic, 88 % of the time are between 1 and 99 % of the way
    between = [stamp(m) for m in arm.states if 0.003 < m.position[0] < 0.297]
    assert between[-1] - between[0] == pytest.approx(2.0 * 0.884, abs=0.1)
