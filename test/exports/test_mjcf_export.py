# SPDX-License-Identifier: Apache-2.0
"""MJCF of identified robots: MuJoCo's inverse dynamics of it is the model's."""

from dataclasses import replace
from pathlib import Path
import re

import mujoco
import numpy as np
import pytest
from robot_identification.data.recording import Motion
from robot_identification.errors import ConsistencyError, IdentificationWarning
from robot_identification.exports.mjcf_export import mjcf
from robot_identification.model.robot import Robot
from robot_identification.regressor import (
    build,
    CoupledDrive,
    ElasticJoints,
    LoopSettings,
    ModelSettings,
    predict,
    prior,
)
from robot_identification.regressor.closed_chain import ClosedBodies
from robot_identification.simulation import perturb

ROOT = Path(__file__).resolve().parents[2]
JOINT_TERMS = ModelSettings(friction=('viscous', 'coulomb'))
COUPLED = replace(
    JOINT_TERMS,
    coupled_drives=(CoupledDrive('joint_6', ('joint_5', 'joint_6'), ratios=(-0.5, 1.0)),),
)
TIED = replace(COUPLED, coupled_drives=(replace(COUPLED.coupled_drives[0], inertia='tied'),))
TREE = """<robot name="tree"><link name="base"/>
  <link name="trunk"><inertial><origin xyz="0.1 0 0.2" rpy="0.3 0.2 0.1"/><mass value="3"/>
    <inertia ixx="0.1" ixy="0.01" ixz="0.02" iyy="0.12" iyz="0.005" izz="0.09"/></inertial></link>
  <link name="arm"><inertial><origin xyz="0 0.1 0.05"/><mass value="1"/>
    <inertia ixx="0.02" ixy="0" ixz="0" iyy="0.02" iyz="0" izz="0.01"/></inertial></link>
  <link name="slide"><inertial><origin xyz="0.05 0 0"/><mass value="2"/>
    <inertia ixx="0.02" ixy="0" ixz="0.001" iyy="0.03" iyz="0" izz="0.02"/></inertial></link>
  <link name="tool"><inertial><origin xyz="0 0 0.1"/><mass value="0.7"/>
    <inertia ixx="0.004" ixy="0" ixz="0" iyy="0.004" iyz="0" izz="0.002"/></inertial></link>
  <joint name="turn" type="continuous"><parent link="base"/><child link="trunk"/>
    <origin xyz="0 0 0.3" rpy="0.4 0 0.2"/><axis xyz="0 0.6 0.8"/></joint>
  <joint name="rail" type="prismatic"><parent link="trunk"/><child link="slide"/>
    <origin xyz="-0.1 0 0.4" rpy="0 0 0.7"/><axis xyz="0 1 0"/>
    <limit lower="-3" upper="3" velocity="2" effort="50"/></joint>
  <joint name="shoulder" type="revolute"><parent link="trunk"/><child link="arm"/>
    <origin xyz="0.1 0.3 0.2" rpy="0 0.5 0"/><axis xyz="1 0 0"/>
    <limit lower="-3" upper="3" velocity="2" effort="50"/></joint>
  <joint name="mount" type="revolute"><parent link="slide"/><child link="tool"/>
    <origin xyz="0 0 0.2" rpy="0.1 0.2 0.3"/><axis xyz="0 0 1"/>
    <limit lower="-3" upper="3" velocity="2" effort="5"/></joint></robot>"""

ROBOTS = {
    'puma560': (lambda: Robot.from_urdf(ROOT / 'urdf' / 'puma560.urdf'), JOINT_TERMS),
    'tx40': (lambda: Robot.from_urdf(ROOT / 'urdf' / 'tx40.urdf'), COUPLED),
    'tx40, tied': (lambda: Robot.from_urdf(ROOT / 'urdf' / 'tx40.urdf'), TIED),
    'tree': (
        lambda: Robot.from_urdf(
            TREE, ['shoulder', 'turn', 'rail'], locked={'mount': 0.6}, gravity=(1.0, -2.0, 9.0)
        ),
        JOINT_TERMS,
    ),
}


def identified(robot, settings, seed=0):
    """Physical inertias that are not the URDF's, and friction of every kind."""
    random = np.random.default_rng(seed)
    parameters = prior(robot, settings)
    values = {}
    for link in robot.opened.links:
        names = parameters.layout.names[parameters.layout.slice_of(link)]
        values.update(zip(names, perturb(parameters.inertial(link), 0.1, random), strict=True))
    for name in parameters.layout.names:
        if name.rpartition('.')[0] not in parameters.layout.links:
            values[name] = random.uniform(0.5, 2.0)
    return parameters.updated(values)


def moving(robot, samples=30, seed=1):
    """States within the limits, in which every joint moves."""
    random = np.random.default_rng(seed)
    shape = samples, robot.n_joints
    low, high = (np.clip(limit, -2.0, 2.0) for limit in (robot.limits.lower, robot.limits.upper))
    sign = random.choice([-1.0, 1.0], shape)
    return Motion(
        random.uniform(low, high, shape),
        sign * random.uniform(0.5, 2.0, shape),
        random.uniform(-5.0, 5.0, shape),
    )


def mujoco_efforts(text, joints, motion):
    model = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(model)
    positions = [model.joint(joint).qposadr[0] for joint in joints]
    dofs = [model.joint(joint).dofadr[0] for joint in joints]
    efforts = np.empty(motion.position.shape)
    for row in range(len(motion)):
        data.qpos[positions] = motion.position[row]
        data.qvel[dofs] = motion.velocity[row]
        data.qacc[dofs] = motion.acceleration[row]
        mujoco.mj_inverse(model, data)
        efforts[row] = data.qfrc_inverse[dofs]
    return efforts


@pytest.mark.parametrize('name', ROBOTS)
def test_inverse_dynamics_of_mujoco_is_the_models(name):
    make, settings = ROBOTS[name]
    robot = make()
    parameters = identified(robot, settings)
    motion = moving(robot)
    expected = predict(build(robot, settings), motion, parameters)
    found = mujoco_efforts(mjcf(robot, parameters, settings), robot.joints, motion)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_rows_of_terms_that_mujoco_lacks_are_named_and_make_up_the_difference():
    robot = Robot.from_urdf(ROOT / 'urdf' / 'puma560.urdf')
    settings = ModelSettings(
        friction=('viscous', 'stiction', 'stribeck', 'offset', 'root'),
        stiction_slope=1e9,
        stribeck_slope=1e7,
    )
    parameters = identified(robot, settings)
    with pytest.warns(IdentificationWarning, match=r'no element for \S+\.off'):
        text = mjcf(robot, parameters, settings)
    lacking = [n for n in parameters.layout.names if n.rpartition('.')[2] in ('off', 'fr')]
    assert all(f'{name} = ' in text for name in lacking)
    assert f'stiction_slope of {robot.joints[0]} = 1000000000.0' in text
    # beyond the reach of the slopes, stiction and Stribeck friction are Coulomb friction
    motion = moving(robot)
    without = parameters.updated(dict.fromkeys(lacking, 0.0))
    expected = predict(build(robot, settings), motion, without)
    np.testing.assert_allclose(
        mujoco_efforts(text, robot.joints, motion), expected, rtol=1e-6, atol=1e-6
    )


def test_joints_at_rest_creep_under_less_than_the_coulomb_friction():
    """The softness of MuJoCo's friction, which the page on exports tells of."""
    robot = Robot.from_urdf(ROOT / 'urdf' / 'tx40.urdf')
    parameters = identified(robot, JOINT_TERMS)
    model = mujoco.MjModel.from_xml_string(mjcf(robot, parameters, JOINT_TERMS))
    data = mujoco.MjData(model)
    model.opt.gravity[:] = 0.0
    data.ctrl[0] = 0.5 * parameters['joint_1.fc']
    mujoco.mj_step(model, data, 200)
    assert 0.0 < data.qvel[0] < 0.05


# --- closed loops ----------------------------------------------------------------------------


def bar(name, length, mass):
    return (
        f'<link name="{name}"><inertial><origin xyz="{length / 2} 0.01 0"/><mass value="{mass}"/>'
        f'<inertia ixx="0.002" ixy="0" ixz="0" iyy="0.006" iyz="0" izz="0.007"/></inertial></link>'
    )


def hinge(name, parent, child, x):
    return (
        f'<joint name="{name}" type="continuous"><parent link="{parent}"/><child link="{child}"/>'
        f'<origin xyz="{x} 0 0"/><axis xyz="0 0 1"/></joint>'
    )


FOUR_BAR = (
    '<robot name="four_bar"><link name="base"/>'
    + bar('crank', 0.1, 1.2) + bar('coupler', 0.3, 0.8) + bar('rocker', 0.25, 1.5)
    + hinge('drive', 'base', 'crank', 0) + hinge('elbow', 'crank', 'coupler', 0.1)
    + hinge('swing', 'base', 'rocker', 0.35) + '</robot>'
)  # fmt: skip
PIN = LoopSettings('pin', 'coupler', 'rocker', 'ball', (0.3, 0, 0), (0.25, 0, 0))
HINGE = replace(PIN, kind='revolute', axis_a=(0, 0, 2), axis_b=(0, 0, -1))
BRANCH = {'elbow': 0.7, 'swing': 1.7}


def delta():
    ends = ((0.04, 0.0), (-0.02, 0.034641016151377546), (-0.02, -0.034641016151377546))
    rods = tuple(
        LoopSettings(
            f'rod {i}', f'arm_{i}_link', 'platform', 'rod', (0.2, 0, 0), (*end, 0), length=0.46
        )
        for i, end in enumerate(ends, 1)
    )
    arms = ['arm_1', 'arm_2', 'arm_3']
    robot = Robot.from_urdf(ROOT / 'urdf' / 'delta.urdf', arms, passive=None)
    return robot, ModelSettings(('viscous',), rotor_inertia=False, loops=rods)


def four_bar(loop):
    robot = Robot.from_urdf(FOUR_BAR, ['drive'], passive=None, gravity=(0.3, -9.0, 1.0))
    model = ModelSettings(('viscous',), loops=(loop,), assembly=BRANCH, passive_viscous=True)
    return robot, model


MECHANISMS = {'pin': lambda: four_bar(PIN), 'hinge': lambda: four_bar(HINGE), 'rods': delta}


@pytest.mark.parametrize('name', MECHANISMS)
def test_efforts_of_loops_are_what_mujocos_constraints_project(name):
    """MuJoCo gives the tree's efforts and the constraints' Jacobian; its solver has no part."""
    robot, settings = MECHANISMS[name]()
    bodies, regressor = ClosedBodies.from_robot(robot, settings), build(robot, settings)
    parameters = prior(robot, settings)
    friction = [n for n in parameters.layout.names if n.endswith(('.fv', '.Ia'))]
    parameters = parameters.updated(dict.fromkeys(friction, 0.3))
    text = mjcf(robot, parameters, settings)
    model = mujoco.MjModel.from_xml_string(re.sub('<option', '<option jacobian="dense"', text))
    data = mujoco.MjData(model)
    dofs = [model.joint(joint).dofadr[0] for joint in bodies.joints]
    n = robot.n_joints
    motion = bodies.random_motion(np.random.default_rng(2), 10)
    expected = predict(regressor, motion, parameters)
    whole, _ = bodies.complete(motion)
    for row, effort in enumerate(expected):
        data.qpos[dofs] = whole.position[row]
        data.qvel[dofs] = whole.velocity[row]
        data.qacc[dofs] = whole.acceleration[row]
        model.opt.disableflags = 0
        mujoco.mj_fwdPosition(model, data)
        assert np.abs(data.efc_pos).max() < 1e-9
        jacobian = data.efc_J.reshape(data.nefc, model.nv)[:, dofs]
        ratio = -np.linalg.pinv(jacobian[:, n:], rcond=1e-9) @ jacobian[:, :n]
        model.opt.disableflags = mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
        mujoco.mj_inverse(model, data)
        tree = data.qfrc_inverse[dofs]
        found = tree[:n] + ratio.T @ tree[n:]
        np.testing.assert_allclose(found, effort, rtol=1e-9, atol=1e-9)


def test_the_key_frame_closes_the_loops():
    robot, settings = delta()
    text = mjcf(robot, prior(robot, settings), settings)
    model = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, model.key('closed').id)
    mujoco.mj_fwdPosition(model, data)
    assert data.nefc == 3
    assert np.abs(data.efc_pos).max() < 1e-9


def test_universal_joints_become_ball_joints_with_a_warning():
    robot, settings = four_bar(replace(HINGE, kind='universal', axis_b=(1, 0, 0)))
    with pytest.warns(IdentificationWarning, match="loop 'pin' is written as a ball joint"):
        mjcf(robot, prior(robot, settings), settings)


# --- what cannot be --------------------------------------------------------------------------


def test_inertia_that_no_body_has_is_refused():
    robot = Robot.from_urdf(ROOT / 'urdf' / 'tx40.urdf')
    parameters = prior(robot, JOINT_TERMS).updated({'link_3.Ixx': -1.0})
    with pytest.raises(ConsistencyError, match='link_3, which MuJoCo refuses: use estimation'):
        mjcf(robot, parameters, JOINT_TERMS)


def test_links_without_mass_are_kept():
    urdf = TREE.replace('<mass value="2"/>', '<mass value="0"/>').replace(
        'ixx="0.02" ixy="0" ixz="0.001" iyy="0.03" iyz="0" izz="0.02"',
        'ixx="0" ixy="0" ixz="0" iyy="0" iyz="0" izz="0"',
    )
    robot = Robot.from_urdf(urdf, gravity=(0, 0, -9.81))
    parameters, motion = prior(robot, JOINT_TERMS), moving(robot)
    expected = predict(build(robot, JOINT_TERMS), motion, parameters)
    found = mujoco_efforts(mjcf(robot, parameters, JOINT_TERMS), robot.joints, motion)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_elastic_joints_become_stiff_with_a_remark():
    robot = Robot.from_urdf(ROOT / 'urdf' / 'tx40.urdf')
    settings = replace(JOINT_TERMS, elastic=ElasticJoints(gear_ratios=(50.0,) * 6))
    parameters = prior(robot, settings).updated({'joint_1_motor.Ia': 0.7, 'joint_1_motor.fv': 2.0})
    text = mjcf(robot, parameters, settings)
    assert 'the joints are stiff' in text
    model = mujoco.MjModel.from_xml_string(text)
    assert (model.dof_armature[0], model.dof_damping[0]) == (0.7, 2.0)


def test_negative_friction_is_written_as_none():
    robot = Robot.from_urdf(ROOT / 'urdf' / 'tx40.urdf')
    parameters = prior(robot, JOINT_TERMS).updated({'joint_1.fv': -0.5})
    with pytest.warns(IdentificationWarning, match="damping of 'joint_1' is -0.5"):
        text = mjcf(robot, parameters, JOINT_TERMS)
    assert mujoco.MjModel.from_xml_string(text).dof_damping[0] == 0.0
