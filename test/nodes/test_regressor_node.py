# SPDX-License-Identifier: Apache-2.0
"""The regressor over DDS, against the core's regressor and Pinocchio's inverse dynamics."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest

pytest.importorskip('rclpy', reason='needs ROS 2 (rclpy)')

from builtin_interfaces.msg import Time
from robot_identification.data.recording import Motion
from robot_identification.model.robot import Robot
from robot_identification.nodes.common.messages import nanoseconds
from robot_identification.regressor import (
    build,
    ModelSettings,
    prior,
)
from robot_identification_msgs.msg import Regressor
from robot_identification_msgs.srv import GetRegressor
from sensor_msgs.msg import JointState
from std_msgs.msg import Header

URDF = Path(__file__).resolve().parents[2] / 'urdf' / 'gautier_khalil_3r.urdf'


def matrix_of(message):
    return np.reshape(message.data, (message.rows, message.cols))


@pytest.fixture(scope='module')
def robot():
    return Robot.from_urdf(URDF)


@pytest.fixture(scope='module')
def regressor(module_ros):
    """Start one node, which nobody asks for live rows between the tests."""
    parameters = {'robot_description': str(URDF), 'rate': 20.0}
    module_ros.process = module_ros.start('regressor', parameters=parameters)
    return module_ros


def ask(ros, position, velocity, acceleration, namespace='', joints=()):
    return ros.call(
        GetRegressor,
        f'{namespace}/regressor/get_regressor',
        joints=list(joints),
        position=np.ravel(position).tolist(),
        velocity=np.ravel(velocity).tolist(),
        acceleration=np.ravel(acceleration).tolist(),
    )


def test_rows_times_the_urdfs_parameters_are_the_inverse_dynamics(regressor, robot):
    random = np.random.default_rng(1)
    q, v, a = random.uniform(-2.0, 2.0, (3, 5, robot.n_joints))
    response = ask(regressor, q, v, a)
    assert response.success, response.message
    rows = matrix_of(response.regressor)
    settings = ModelSettings()
    assert tuple(response.regressor.columns) == build(robot, settings).layout.names
    assert np.array_equal(rows, build(robot, settings).rows(Motion(q, v, a)))
    parameters = prior(robot, settings)
    inertial = [name in robot.layout for name in parameters.layout]
    efforts = rows[:, inertial] @ parameters.values[inertial]
    data = robot.model.createData()
    expected = [
        pin.rnea(
            robot.model, data, robot.configuration(q[i]), robot.tangent(v[i]), robot.tangent(a[i])
        )[robot.columns]
        for i in range(5)
    ]
    assert efforts.reshape(5, -1) == pytest.approx(np.array(expected), rel=1e-10, abs=1e-10)
    assert len(response.regressor.effort) == 0


def test_joints_are_named_in_the_answer_and_may_be_in_the_question(regressor, robot):
    q, v, a = np.random.default_rng(2).uniform(-1.0, 1.0, (3, 2, robot.n_joints))
    plain = ask(regressor, q, v, a)
    assert plain.regressor.joints == list(robot.joints)
    turned = ask(regressor, q[:, ::-1], v[:, ::-1], a[:, ::-1], joints=robot.joints[::-1])
    assert turned.regressor.joints == list(robot.joints)
    assert np.array_equal(matrix_of(turned.regressor), matrix_of(plain.regressor))
    wrong = ask(regressor, q, v, a, joints=['elbow', *robot.joints[1:]])
    assert not wrong.success
    assert "'joints' are" in wrong.message and robot.joints[0] in wrong.message


def test_the_model_comes_from_the_parameters(ros, robot):
    joints = list(robot.joints[::-1])
    ros.start(
        'regressor',
        parameters={
            'joints': joints,
            'gravity': [0.0, 0.0, 0.0],
            'robot.friction': ['viscous'],
            'robot.rotor_inertia': False,
        },
        namespace='/other',
    )
    response = ask(ros, [], [], [], '/other')
    assert not response.success
    assert response.message.startswith('no robot description has arrived on topic')
    ros.publish_description(URDF.read_text(), '/other/robot_description')
    other = Robot.from_urdf(URDF, joints, gravity=(0.0, 0.0, 0.0))
    expected = build(other, ModelSettings(friction=('viscous',), rotor_inertia=False))
    q = np.arange(1.0, 4.0)
    ros.wait_until(lambda: ask(ros, q, q, q, '/other').success, what='the description')
    response = ask(ros, q, q, q, '/other')
    assert tuple(response.regressor.columns) == expected.layout.names
    rows = expected.rows(Motion(q[None], q[None], q[None]))
    assert np.array_equal(matrix_of(response.regressor), rows)


@pytest.mark.parametrize(
    ('q', 'v', 'a', 'message'),
    [
        ([], [], [], 'position has 0 values: give each of 3 joints one value'),
        ([0.0] * 3, [0.0] * 3, [0.0] * 6, 'acceleration has 6 values: give each of 3 joints'),
        ([0.0] * 4, [0.0] * 4, [0.0] * 4, 'position has 4 values: give each of 3 joints'),
        (
            [0.0] * 6,
            [0.0, 0.0, 0.0, 0.0, float('nan'), 0.0],
            [0.0] * 6,
            "velocity of joint '{1}' is nan in sample 1: give finite numbers",
        ),
    ],
)
def test_a_wrong_request_is_answered_with_the_reason(regressor, robot, q, v, a, message):
    response = ask(regressor, q, v, a)
    assert not response.success
    assert response.message.startswith(message.format(*robot.joints))
    assert regressor.process.returncode is None


def test_a_drive_of_an_unknown_joint_is_a_one_line_error(ros):
    process = ros.start(
        'regressor',
        parameters={
            'robot_description': str(URDF),
            'robot.coupled_drives.names': ['elbow'],
            'robot.coupled_drives.elbow.joints': ['elbow', 'wrist'],
        },
        namespace='/other',
        wait=False,
    )
    assert process.wait() == 2
    assert len(process.lines) == 2
    assert process.lines[1].startswith('error: ') and 'elbow' in process.lines[1]


def test_live_rows_belong_to_the_moment_that_their_stamp_says(regressor, robot):
    """The node listens to joint states as long as somebody listens to it."""
    ros = regressor
    omega = 2.0

    def motion(t):
        phase = omega * t + np.arange(robot.n_joints)
        return np.sin(phase), omega * np.cos(phase), -(omega**2) * np.sin(phase)

    assert ros.node.count_subscribers('/joint_states') == 0, 'nobody has asked for rows'
    publisher = ros.node.create_publisher(JointState, 'joint_states', 1000)
    received = []
    subscription = ros.node.create_subscription(
        Regressor, '/regressor/regressor', received.append, 100
    )
    ros.wait_until(publisher.get_subscription_count, what='the subscription')
    for i in range(20_000):  # the first ones may find no reader yet
        if len(received) >= 19:
            break
        q, v, _ = motion(1e-3 * i)
        header = Header(stamp=Time(sec=i // 1000, nanosec=i % 1000 * 10**6))
        publisher.publish(
            JointState(
                header=header,
                name=list(robot.joints),
                position=q.tolist(),
                velocity=(v + 100.0).tolist(),  # has to be ignored
                effort=(3.0 * q).tolist(),
            )
        )
        ros.spin(0.0005)
    assert len(received) >= 19, f'rows of {1e-3 * i} s'
    expected = build(robot, ModelSettings())
    for message in received:
        t = 1e-9 * nanoseconds(message.header.stamp)
        q, v, a = motion(t)
        rows = expected.rows(Motion(q[None], v[None], a[None]))
        assert message.joints == list(robot.joints)
        assert matrix_of(message) == pytest.approx(rows, abs=3e-3 * np.abs(rows).max())
        assert np.asarray(message.effort) == pytest.approx(3.0 * q, abs=1e-4)
    steps = np.diff([nanoseconds(m.header.stamp) for m in received])
    assert set(steps.tolist()) == {50_000_000}
    foreign = JointState(name=['other'], position=[0.0])

    def refused():
        publisher.publish(foreign)  # best effort: one may be lost
        return (
            "joint 'joint_1' is not in the joint states, nor is any other one: they have other"
            in process.output
        )

    process = regressor.process
    ros.wait_until(refused, what='the reason')
    ros.node.destroy_subscription(subscription)
    ros.wait_until(lambda: ros.node.count_subscribers('/joint_states') == 0, what='silence')
    ros.node.destroy_publisher(publisher)
    assert process.stop() == 0
