# SPDX-License-Identifier: Apache-2.0
"""The simulated robot's controllers over DDS, by the rules of ros2_control's own."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='needs ROS 2 (rclpy): run `make test`')

from action_msgs.msg import GoalStatus
from rcl_interfaces.msg import ParameterType
from rcl_interfaces.srv import GetParameters
from rclpy.action import ActionClient
from robot_identification.nodes.common.messages import (
    seconds,
    time_message,
    trajectory_message,
)
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64, Float64MultiArray
from std_srvs.srv import Trigger

PLANAR = 'package://robot_identification/urdf/zollo_planar_2r.urdf'
JOINTS = ('joint_1', 'joint_2')


@pytest.fixture(scope='module')
def simulated(module_ros):
    """Start one arm for all tests, which begin with its reset."""
    ros = module_ros
    ros.arm = ros.start('simulation', parameters={'robot_description': PLANAR, 'rate': 200.0})
    ros.states = ros.subscribe(JointState, 'joint_states', 1000)
    ros.wait_until(lambda: ros.states, 20.0, 'joint states')
    return ros


@pytest.fixture
def arm(simulated):
    """Give the arm, at rest at zero and at full speed."""
    assert simulated.set_parameter('simulation', 'speed_scaling', 1.0)[0]
    assert simulated.call(Trigger, 'simulation/reset').success
    simulated.states.clear()
    simulated.wait_until(lambda: simulated.states, what='joint states')
    return simulated


def stamp(state):
    return seconds(state.header.stamp)


def run(arm, seconds):
    """Let simulated time pass; return the latest state."""
    end = stamp(arm.states[-1]) + seconds
    arm.wait_until(lambda: stamp(arm.states[-1]) > end, 60.0, 'simulated time')
    return arm.states[-1]


def wait_for_state(arm, name, values, tolerance=0.01):
    """Wait until the latest state has such positions or velocities; return it."""

    def there():
        return np.abs(np.subtract(getattr(arm.states[-1], name), values)).max() < tolerance

    arm.wait_until(there, 60.0, f'{name} {values}')
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
    return trajectory_message(JOINTS, time, position, velocity, stamp=time_message(start))


# -------------------------------------------------------------------------------- single commands


def test_commands_stay_in_force_and_wrong_ones_are_refused(arm):
    positions = arm.publisher(Float64MultiArray, 'position_commands', wait_for_subscribers=1)
    velocities = arm.publisher(Float64MultiArray, 'velocity_commands', wait_for_subscribers=1)
    positions.publish(Float64MultiArray(data=[0.2, -0.1]))
    wait_for_state(arm, 'position', [0.2, -0.1])
    np.testing.assert_allclose(run(arm, 1.0).position, [0.2, -0.1], atol=0.01)
    for message in ([0.5], [0.5, 0.5, 0.5], [0.5, float('nan')]):
        positions.publish(Float64MultiArray(data=message))
    for words in ('it has 1 numbers for 2', 'it has 3 numbers for 2', "of joint 'joint_2' is nan"):
        arm.arm.wait_for_output(words, 60.0)
    np.testing.assert_allclose(run(arm, 0.3).position, [0.2, -0.1], atol=0.01)
    velocities.publish(Float64MultiArray(data=[0.3, 0.0]))
    wait_for_state(arm, 'velocity', [0.3, 0.0])
    first = run(arm, 0.3)
    second = run(arm, 1.0)  # no watchdog ends it
    moved = np.subtract(second.position, first.position) / (stamp(second) - stamp(first))
    np.testing.assert_allclose(moved, [0.3, 0.0], atol=0.01)


def test_a_controller_tells_its_joints(arm):
    name = 'simulation/controller/get_parameters'
    answer = arm.call(GetParameters, name, names=['joints', 'interface_name'])
    assert answer.values[0].string_array_value == list(JOINTS)
    assert answer.values[1].type == ParameterType.PARAMETER_NOT_SET


def test_the_speed_is_told_in_percent_and_stretches_the_time(arm):
    told = arm.subscribe(Float64, 'simulation/speed_scaling')
    assert arm.set_parameter('simulation', 'speed_scaling', 0.25)[0]
    arm.wait_until(lambda: told and told[-1].data == 25.0, 60.0, 'the speed')
    commands = arm.publisher(Float64MultiArray, 'velocity_commands', wait_for_subscribers=1)
    commands.publish(Float64MultiArray(data=[0.0, 0.4]))
    wait_for_state(arm, 'velocity', [0.0, 0.1])
    first = run(arm, 0.3)
    second = run(arm, 1.0)
    moved = np.subtract(second.position, first.position) / (stamp(second) - stamp(first))
    np.testing.assert_allclose(moved, [0.0, 0.1], atol=0.01)
    assert not arm.set_parameter('simulation', 'speed_scaling', 1.5)[0]


# ----------------------------------------------------------------------------------- the action


@pytest.fixture
def action(arm):
    """Give a function that sends a goal and returns what becomes of it."""
    from control_msgs.action import FollowJointTrajectory as kind

    client = ActionClient(arm.node, kind, 'follow_joint_trajectory')
    arm.wait_until(client.server_is_ready, what='the action')

    def send(trajectory, tolerance=0.0, feedback=None):
        goal = kind.Goal(trajectory=trajectory)
        if tolerance:
            from control_msgs.msg import JointTolerance

            goal.path_tolerance = [JointTolerance(name='joint_2', position=tolerance)]
        sending = client.send_goal_async(
            goal, feedback_callback=None if feedback is None else feedback.append
        )
        arm.wait_until(sending.done, 60.0, 'the answer to a goal')
        return sending.result()

    yield send
    client.destroy()


def outcome(arm, goal):
    future = goal.get_result_async()
    arm.wait_until(future.done, 60.0, 'the end of a goal')
    return future.result().status, future.result().result


def test_a_goal_is_followed_and_told_of(arm, action):
    feedback = []
    goal = action(line(arm, [0.3, -0.3], 1.0), feedback=feedback)
    assert goal.accepted
    status, result = outcome(arm, goal)
    assert (status, result.error_code) == (GoalStatus.STATUS_SUCCEEDED, 0)
    np.testing.assert_allclose(arm.states[-1].position, [0.3, -0.3], atol=0.01)
    told = [m.feedback for m in feedback]
    assert list(told[0].joint_names) == list(JOINTS)
    times = [
        m.desired.time_from_start.sec + 1e-9 * m.desired.time_from_start.nanosec for m in told
    ]
    assert times == sorted(times) and times[0] > 0.0
    for t, m in zip(times, told, strict=True):
        x = min(t, 1.0)
        assert m.desired.positions[0] == pytest.approx(0.3 * (3 * x**2 - 2 * x**3), abs=1e-6)
        assert m.error.positions[0] == pytest.approx(
            m.desired.positions[0] - m.actual.positions[0], abs=1e-9
        )


def test_a_new_goal_ends_the_former(arm, action):
    first = action(line(arm, [0.5, 0.5], 60.0))
    run(arm, 0.3)
    second = action(line(arm, [0.2, 0.2], 1.0))
    status, result = outcome(arm, first)
    assert (status, result.error_code) == (GoalStatus.STATUS_ABORTED, result.INVALID_GOAL)
    assert 'new goal' in result.error_string
    assert outcome(arm, second)[0] == GoalStatus.STATUS_SUCCEEDED
    np.testing.assert_allclose(arm.states[-1].position, [0.2, 0.2], atol=0.01)


def test_goals_that_cannot_be_followed_are_refused(arm, action):
    wrong = line(arm, [0.3, 0.3], 1.0)
    wrong.joint_names = ['joint_1', 'elbow']
    late = line(arm, [0.3, 0.3], 1.0)
    late.points[-1].velocities[0] = 0.1
    for trajectory in (wrong, late, line(arm, [0.3, 0.3], 0.5, ahead=-0.8)):
        assert not action(trajectory).accepted
    arm.arm.wait_for_output("no joint 'elbow'", 60.0)
    arm.arm.wait_for_output('it is over', 60.0)
    np.testing.assert_allclose(run(arm, 0.3).position, 0.0, atol=0.01)


def test_a_canceled_goal_is_held_at_once(arm, action):
    goal = action(line(arm, [2.0, 0.0], 20.0))
    arm.wait_until(lambda: arm.states[-1].position[0] > 0.05, 60.0, 'the motion')
    canceling = goal.cancel_goal_async()
    arm.wait_until(canceling.done, 60.0, 'the cancellation')
    assert outcome(arm, goal)[0] == GoalStatus.STATUS_CANCELED
    place = run(arm, 0.5).position[0]
    assert 0.05 < place < 1.9
    assert run(arm, 0.5).position[0] == pytest.approx(place, abs=5e-3)


def test_a_robot_that_leaves_the_tolerance_is_held(arm, action):
    goal = action(line(arm, [0.5, 0.5], 1.0), tolerance=1e-4)
    status, result = outcome(arm, goal)
    assert (status, result.error_code) == (
        GoalStatus.STATUS_ABORTED,
        result.PATH_TOLERANCE_VIOLATED,
    )
    assert "joint 'joint_2' is off by" in result.error_string
    assert abs(run(arm, 1.2).position[1]) < 0.3


def test_another_controller_ends_a_goal(arm, action):
    commands = arm.publisher(Float64MultiArray, 'position_commands', wait_for_subscribers=1)
    goal = action(line(arm, [0.5, 0.5], 60.0))
    run(arm, 0.3)
    commands.publish(Float64MultiArray(data=[0.05, 0.05]))
    status, result = outcome(arm, goal)
    assert status == GoalStatus.STATUS_ABORTED
    assert 'another controller' in result.error_string
