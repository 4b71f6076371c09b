# SPDX-License-Identifier: Apache-2.0
"""The simulated robot's controllers over DDS, by the rules of ros2_control's own."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='needs ROS 2 (rclpy): run `make test`')

from rcl_interfaces.msg import ParameterType
from rcl_interfaces.srv import GetParameters
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
