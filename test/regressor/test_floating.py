# SPDX-License-Identifier: Apache-2.0
"""Regressors of floating bases against Pinocchio's RNEA with a free-flyer, and contact forces."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pinocchio as pin
import pytest
from robot_identification.data.recording import Motion
from robot_identification.errors import ModelError
from robot_identification.model.floating_base import BASE_JOINTS, with_floating_base
from robot_identification.model.mechanisms import ContactSettings, ImuSettings
from robot_identification.model.robot import Robot
from robot_identification.regressor import build, ModelSettings, prior
from robot_identification.regressor.base_search import structure
from robot_identification.regressor.floating import floating_motion
from walker import FEET, walker

GRAVITY = np.array([0.0, 0.0, -9.81])


@pytest.fixture(scope='module')
def rigid():
    """Walker of rigid bodies alone: robot, regressor, parameters of its URDF."""
    robot = Robot.from_urdf(walker(), floating=True)
    feet = [ContactSettings(frame=f, kind='sphere', radius=0.02) for f in FEET[:2]]
    feet.append(ContactSettings(frame=FEET[2], kind='sphere', radius=0.02, torsion=True))
    feet.append(ContactSettings(frame=FEET[3], kind='flat'))
    model = ModelSettings(friction=(), rotor_inertia=False, contacts=tuple(feet))
    regressor = build(robot, model)
    return robot, regressor, prior(robot, model).values


def state(random, n):
    """Return joints' motion, base's pose, twist and acceleration, all random."""
    joints = random.uniform(-1.0, 1.0, (3, n))
    turned = pin.exp3(random.normal(size=3))
    return joints, turned, *random.normal(size=(4, 3))


def free_flyer(robot, joints, turned, place, speed, turning, moved, accelerated, bent):
    """Return model, configuration, velocity and acceleration of Pinocchio's free-flyer."""
    model = pin.buildModelFromXML(walker(), pin.JointModelFreeFlyer())
    names = robot.driven_joints
    columns = [model.joints[model.getJointId(name)].idx_v for name in names]
    q, v, a = pin.neutral(model), np.zeros(model.nv), np.zeros(model.nv)
    q[:3], q[3:7] = place, pin.Quaternion(turned).coeffs()
    q[[model.joints[model.getJointId(name)].idx_q for name in names]] = joints[0]
    v[:3], v[3:6], v[columns] = speed, turning, joints[1]
    a[3:6], a[columns] = bent, joints[2]
    # Pinocchio's is the spatial acceleration, of which the classical one differs by w x v
    a[:3] = accelerated - np.cross(turning, speed)
    return model, columns, q, v, a


@pytest.mark.parametrize('seed', range(5))
def test_rows_are_those_of_rnea_wherever_the_base_is_and_moves(rigid, seed):
    robot, regressor, values = rigid
    random = np.random.default_rng(seed)
    joints, turned, place, speed, turning, bent = state(random, 12)
    proper = random.normal(size=3) * 10.0
    accelerated = proper + turned.T @ GRAVITY
    model, columns, q, v, a = free_flyer(
        robot, joints, turned, place, speed, turning, None, accelerated, bent
    )
    wanted = pin.rnea(model, model.createData(), q, v, a)
    motion = floating_motion(Motion(*joints[:, None]), turning[None], bent[None], proper[None])
    rows = regressor.rows(motion) @ values
    np.testing.assert_allclose(rows[:6], wanted[:6], atol=1e-9)
    np.testing.assert_allclose(rows[6:], wanted[columns], atol=1e-9)


def test_jacobians_give_the_efforts_of_forces_at_the_ground(rigid):
    robot, regressor, _ = rigid
    random = np.random.default_rng(3)
    joints, turned, place, *_ = state(random, 12)
    none = np.zeros(3)
    model, columns, q, *_ = free_flyer(robot, joints, turned, place, none, none, None, none, none)
    data = model.createData()
    pin.computeJointJacobians(model, data, q)
    pin.updateFramePlacements(model, data)
    motion = floating_motion(Motion(*joints[:, None]), none[None], none[None], none[None])
    upward = (turned.T @ [0.0, 0.0, 1.0])[None]
    found = regressor.jacobians(motion, upward)[0]
    row = 0
    for contact in regressor.contacts:
        frame = model.getFrameId(contact.name)
        jacobian = pin.getFrameJacobian(model, data, frame, pin.LOCAL_WORLD_ALIGNED)
        arm = np.array([0.0, 0.0, -contact.radius])
        jacobian[:3] -= pin.skew(arm) @ jacobian[3:]
        own = data.oMf[frame].rotation.T
        parts = [own @ jacobian[:3], own @ jacobian[3:]][: contact.rows // 3]
        for part in parts:
            np.testing.assert_allclose(found[row : row + 3, :6], part[:, :6], atol=1e-12)
            np.testing.assert_allclose(found[row : row + 3, 6:], part[:, columns], atol=1e-12)
            row += 3
        if contact.torsion:
            # about the ground's normal, which is the z axis of the world
            np.testing.assert_allclose(found[row, :6], jacobian[5, :6], atol=1e-12)
            np.testing.assert_allclose(found[row, 6:], jacobian[5, columns], atol=1e-12)
            row += 1
    assert row == len(found)


@settings(max_examples=60)
@given(
    st.integers(0, 2**32 - 1),
    st.lists(st.booleans(), min_size=4, max_size=4),
    st.floats(1e-2, 1e2),
)
def test_no_force_of_a_contact_is_left_in_the_rows(rigid, seed, holding, ratio):
    robot, regressor, _ = rigid
    random = np.random.default_rng(seed)
    motion = regressor.random_motion(random, 3)
    jacobians = regressor.jacobians(motion, np.tile([0.0, 0.0, 1.0], (3, 1)))
    stance = np.tile(np.array(holding)[regressor.contact_rows], (3, 1))
    regressor = with_noise(regressor, ratio)
    projectors = regressor.projectors(jacobians, stance)
    forces = 1e3 * random.normal(size=stance.shape) * stance
    efforts = np.einsum('skj,sk->sj', jacobians, forces)
    left = np.einsum('sij,sj->si', projectors, efforts)
    most = np.abs(efforts / regressor.noise).max()
    assert np.abs(left / regressor.noise).max() <= 1e-7 * most
    rank = min(18, int(stance[0].sum()))
    np.testing.assert_allclose(np.trace(projectors, axis1=1, axis2=2), 18 - rank, atol=1e-6)


def with_noise(regressor, ratio):
    """Return a regressor whose moments are noisier than its forces by a ratio."""
    noise = regressor.noise.copy()
    noise[3:] *= ratio
    return replace(regressor, noise=noise)


def test_the_bias_acts_like_an_acceleration_of_the_base(rigid):
    robot, regressor, values = rigid
    motion = regressor.random_motion(np.random.default_rng(1), 4)
    bias = np.array([0.3, -0.2, 0.1])
    read = motion.acceleration.copy()
    read[:, :3] += bias
    biased = Motion(motion.position, motion.velocity, read)
    exact = regressor.rows(motion) @ values
    found = regressor.rows(biased) @ np.append(values[:-3], bias)
    np.testing.assert_allclose(found, exact, atol=1e-9)


def test_all_base_parameters_of_a_free_body_with_legs(rigid):
    robot, regressor, _ = rigid
    # ten of the base, seven of each turning link: masses and moments along axes go to the base
    found = structure(regressor, robot)
    names = [name for name in found.base_layout.names if not name.startswith('imu.')]
    assert len(names) == 10 + 12 * 7


def test_an_imu_elsewhere_on_the_base_reads_the_same_motion():
    random = np.random.default_rng(2)
    robot = Robot.from_urdf(walker(), floating=True)
    place = ImuSettings(xyz=(0.1, -0.05, 0.2), rpy=(0.3, 0.2, 1.0))
    imu = build(robot, ModelSettings(imu=place)).imu
    turn, about, along = random.normal(size=(3, 5, 3))
    arm = np.broadcast_to(imu.origin, turn.shape)
    there = along + np.cross(about, arm) + np.cross(turn, np.cross(turn, arm))
    read = [values @ imu.rotation for values in (turn, about, there)]
    for found, wanted in zip(imu.at_base(*read, None), (turn, about, along), strict=False):
        np.testing.assert_allclose(found, wanted, atol=1e-12)
    quaternion = pin.Quaternion(pin.exp3(random.normal(size=3)))
    *_, up = imu.at_base(*read, np.tile(quaternion.coeffs(), (5, 1)))
    to_world = quaternion.matrix() @ imu.rotation.T
    np.testing.assert_allclose(up @ to_world.T, np.tile([0.0, 0.0, 1.0], (5, 1)), atol=1e-12)


def test_a_frame_that_there_is_not_is_named():
    robot = Robot.from_urdf(walker(), floating=True)
    with pytest.raises(ModelError, match="'FL_toe' for a contact"):
        build(robot, ModelSettings(contacts=(ContactSettings(frame='FL_toe'),)))
    with pytest.raises(ModelError, match="'FL_calf' for the IMU"):
        build(robot, ModelSettings(imu=ImuSettings(frame='FL_calf')))


def test_a_robot_that_has_a_floating_base_already_is_refused():
    text = with_floating_base(walker())
    with pytest.raises(ModelError, match=BASE_JOINTS[0]):
        with_floating_base(text)
