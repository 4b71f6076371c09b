# SPDX-License-Identifier: Apache-2.0
"""Adjoint of the regressor: the gradients are those of differences, for all kinds of columns."""

from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
from robot_identification.data.recording import Motion
from robot_identification.model.robot import Robot
from robot_identification.regressor import build, ModelSettings
from robot_identification.regressor.adjoint import by_differences, pull_back

URDF = Path(__file__).resolve().parents[2] / 'urdf'


def assert_exact(regressor, motion, weights):
    expected = by_differences(regressor.rows, motion, weights)
    for found, wanted in zip(pull_back(regressor, motion, weights), expected, strict=True):
        np.testing.assert_allclose(found, wanted, atol=2e-5 * np.abs(wanted).max())


def random_motion(robot, samples, seed=0):
    return Motion(*np.random.default_rng(seed).standard_normal((3, samples, robot.n_joints)))


@pytest.mark.parametrize('name', ['demo_arm', 'puma560', 'tx40', 'gautier_khalil_3r'])
@pytest.mark.parametrize('friction', [('viscous', 'coulomb', 'offset'), ('load', 'root')])
def test_gradients_are_those_of_differences(name, friction):
    robot = Robot.from_urdf(URDF / f'{name}.urdf')
    regressor = build(robot, ModelSettings(friction=friction))
    # more than one block of the kernel, and not a whole number of them
    motion = random_motion(robot, 101)
    weights = np.random.default_rng(1).standard_normal(
        (101, robot.n_joints, len(regressor.layout))
    )
    exact = pull_back(regressor, motion, weights)
    for found, expected in zip(
        exact, by_differences(regressor.rows, motion, weights), strict=True
    ):
        scale = np.abs(expected).max()
        np.testing.assert_allclose(found, expected, atol=2e-5 * scale)


def test_slopes_of_efforts_are_pinocchios():
    robot = Robot.from_urdf(URDF / 'demo_arm.urdf')
    regressor = build(robot, ModelSettings(friction=(), rotor_inertia=False))
    motion = random_motion(robot, 20)
    values = robot.prior.values
    data = robot.model.createData()
    for joint in range(robot.n_joints):
        weights = np.zeros((20, robot.n_joints, values.size))
        weights[:, joint] = values
        found = pull_back(regressor, motion, weights)
        for i, state in enumerate(
            zip(motion.position, motion.velocity, motion.acceleration, strict=True)
        ):
            slopes = pin.computeRNEADerivatives(robot.model, data, *state)
            for slope, expected in zip(found, slopes, strict=True):
                np.testing.assert_allclose(slope[i], expected[joint], atol=1e-9)


def test_sliding_joints_have_exact_gradients():
    robot = Robot.from_urdf(
        """<robot name="slider"><link name="base"/>
        <link name="cart"><inertial><mass value="2"/><origin xyz="0.1 0 0.2"/>
        <inertia ixx="1" iyy="2" izz="1.5" ixy="0.1" ixz="0" iyz="0"/></inertial></link>
        <link name="pole"><inertial><mass value="1"/><origin xyz="0 0.3 0.2"/>
        <inertia ixx="1" iyy="1.2" izz="0.9" ixy="0" ixz="0.1" iyz="0"/></inertial></link>
        <joint name="swing" type="revolute"><parent link="base"/><child link="pole"/>
        <origin rpy="0.3 0.2 0.1"/><axis xyz="0 1 0"/>
        <limit lower="-2" upper="2" effort="9" velocity="2"/></joint>
        <joint name="slide" type="prismatic"><parent link="pole"/><child link="cart"/>
        <origin xyz="0.2 0 0.1" rpy="0.5 0 0.4"/><axis xyz="1 0 0"/>
        <limit lower="-1" upper="1" effort="9" velocity="2"/></joint></robot>"""
    )
    regressor = build(robot)
    motion = random_motion(robot, 80)
    weights = np.random.default_rng(1).standard_normal((80, 2, len(regressor.layout)))
    exact = pull_back(regressor, motion, weights)
    for found, expected in zip(
        exact, by_differences(regressor.rows, motion, weights), strict=True
    ):
        np.testing.assert_allclose(found, expected, atol=2e-5 * np.abs(expected).max())


def test_without_the_kernel_differences_are_taken(monkeypatch):
    robot = Robot.from_urdf(URDF / 'gautier_khalil_3r.urdf')
    regressor = build(robot)
    motion = random_motion(robot, 10)
    weights = np.random.default_rng(1).standard_normal((10, 3, len(regressor.layout)))
    exact = pull_back(regressor, motion, weights)
    monkeypatch.setattr(type(regressor), 'kernel_data', None)
    for found, expected in zip(pull_back(regressor, motion, weights), exact, strict=True):
        np.testing.assert_allclose(found, expected, atol=2e-5 * np.abs(expected).max())
