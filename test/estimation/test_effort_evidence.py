# SPDX-License-Identifier: Apache-2.0
"""Size of gravity in efforts of a robot whose parameters are those of its URDF."""

from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
from robot_identification.data.recording import Recording
from robot_identification.estimation.effort_evidence import effort_evidence
from robot_identification.model.robot import Robot

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope='module')
def arm():
    """Return a six-joint arm, a motion, its torques and the part of gravity, by Pinocchio."""
    robot = Robot.from_urdf(ROOT / 'urdf' / 'demo_arm.urdf')
    rng = np.random.default_rng(0)
    time = np.arange(3000) / 200.0
    speed = rng.uniform(0.5, 1.5, 6)
    angle = time[:, None] * speed + rng.uniform(0, 6, 6)
    position, velocity = 0.7 * np.sin(angle), 0.7 * speed * np.cos(angle)
    model, data, still = robot.model, robot.model.createData(), np.zeros(6)
    rows = list(zip(position, velocity, -(speed**2) * position, strict=True))
    torque = np.array([pin.rnea(model, data, *row) for row in rows])
    gravity = np.array([pin.rnea(model, data, q, still, still) for q, _, _ in rows])
    friction = 3.0 * np.sign(velocity) + 2.0 * velocity
    return robot, time, position, torque + friction, gravity


def evidence(arm, effort):
    robot, time, position, *_ = arm
    return effort_evidence(robot, [Recording(time, position, effort, robot.joints)])


@pytest.mark.parametrize(
    ('scale', 'expected'),
    [
        (1.0, 'speaks for joint_torque'),
        (1.0 / 12.0, 'speaks for motor_current or motor_torque'),
        (-1.0 / 50.0, 'speaks for motor_current or motor_torque'),
        (1000.0, 'another unit'),
    ],
)
def test_gravity_has_the_size_of_the_scale(arm, scale, expected):
    found = evidence(arm, scale * arm[3])
    np.testing.assert_allclose(found.size, scale, rtol=0.02)
    assert {'joint_2', 'joint_3'} <= set(found.joints)
    assert expected in found.summary()


def test_efforts_without_gravity_are_told(arm):
    found = evidence(arm, arm[3] - arm[4])
    assert {'joint_2', 'joint_3'} <= set(found.without) and not found.joints
    assert 'cleared of it' in found.summary()


def test_an_arm_without_gravity_says_nothing(arm):
    robot = Robot.from_urdf(ROOT / 'urdf' / 'demo_arm.urdf', gravity=(0.0, 0.0, 0.0))
    assert 'say nothing' in evidence((robot, *arm[1:]), arm[3]).summary()
