# SPDX-License-Identifier: Apache-2.0
"""Robots that stand in for those of the examples, whose URDFs come from their drivers."""

from __future__ import annotations

from pathlib import Path

import pinocchio as pin
import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / 'examples'
FETCHED = Path(pin.__file__).parents[4] / 'share' / 'example-robot-data' / 'robots'

# a seven-joint arm of an LBR's size: (distance from the joint before, mass, height of its centre)
LBR = (
    (0.15, 4.0, 0.10),
    (0.19, 4.0, 0.06),
    (0.21, 3.0, 0.11),
    (0.19, 2.7, 0.06),
    (0.21, 1.7, 0.08),
    (0.19, 1.8, 0.01),
    (0.08, 0.4, 0.03),
)
LBR_AXES = ('0 0 1', '0 1 0', '0 0 1', '0 -1 0', '0 0 1', '0 1 0', '0 0 1')

SEVEN_JOINTS = {'kuka_lbr': 'lbr_A', 'kinova': 'joint_', 'openarm': 'openarm_joint'}
"""What the drivers of such arms call their joints."""


def seven_joints(joint):
    """Return the URDF of such an arm, with joints that are named ``joint`` and a number."""
    parts = ['<robot name="arm"><link name="link_0"/>']
    for number, ((height, mass, centre), axis) in enumerate(zip(LBR, LBR_AXES, strict=True), 1):
        big, small = mass * 0.08**2, mass * 0.05**2
        parts.append(
            f'<link name="link_{number}"><inertial>'
            f'<origin xyz="0.002 0.03 {centre}"/><mass value="{mass}"/>'
            f'<inertia ixx="{big}" iyy="{big}" izz="{small}" ixy="0" ixz="0" iyz="0"/>'
            f'</inertial></link><joint name="{joint}{number}" type="revolute">'
            f'<parent link="link_{number - 1}"/><child link="link_{number}"/>'
            f'<origin xyz="0 0 {height}"/><axis xyz="{axis}"/>'
            '<limit lower="-2.09" upper="2.09" velocity="1.7" effort="200"/>'
            '<dynamics damping="0.8" friction="0.4"/></joint>'
        )
    return ''.join([*parts, '</robot>'])


def fetched(path):
    """Return a URDF of the package example-robot-data."""
    if not (FETCHED / path).is_file():
        pytest.skip(f'example-robot-data has no {path}')
    return (FETCHED / path).read_text(encoding='utf-8')


@pytest.fixture(scope='session')
def stand_in():
    """Give the URDF of an arm like that of an example, by its folder; None for its own."""

    def urdf(folder):
        if folder == 'ur':
            return fetched('ur_description/urdf/ur5_joint_limited_robot.urdf')
        if folder == 'franka':
            text = fetched('panda_description/urdf/panda.urdf').replace('panda_', 'fr3_')
            return text.replace('robots/fr3_', 'robots/panda_')
        if folder == 'xarm':
            return fetched('xarm_description/urdf/xarm7.urdf')
        if folder == 'doosan':
            return (EXAMPLES.parent / 'urdf' / 'demo_arm.urdf').read_text(encoding='utf-8')
        return seven_joints(SEVEN_JOINTS[folder]) if folder in SEVEN_JOINTS else None

    return urdf
