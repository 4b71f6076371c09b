# SPDX-License-Identifier: Apache-2.0
"""The regressor of elastic joints against robots whose rotors are bodies of their own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from lxml import etree
import mujoco
import numpy as np
import pinocchio as pin
import pytest
from robot_identification.data.recording import Motion
from robot_identification.errors import SettingsError
from robot_identification.model.mujoco_model import mechanism
from robot_identification.model.parameters import ParameterSet
from robot_identification.model.robot import Robot
from robot_identification.regressor import (
    build,
    CoupledDrive,
    ElasticJoints,
    ElasticRegressor,
    ModelSettings,
    predict,
    prior,
    Regressor,
)
from robot_identification.regressor.base_search import structure
from robot_identification.regressor.rigid import BLOCK
from scipy.integrate import solve_ivp

URDF = Path(__file__).resolve().parents[2] / 'urdf'

BRANCHED = """
<robot name="branched">
  <link name="base"/>
  <link name="carriage"><inertial><mass value="8"/><origin xyz="0.1 0.2 0.05"/>
    <inertia ixx="0.3" ixy="0.01" ixz="0.02" iyy="0.4" iyz="0" izz="0.5"/></inertial></link>
  <link name="plate"><inertial><mass value="3"/><origin xyz="0.1 -0.1 0.2"/>
    <inertia ixx="0.1" ixy="0" ixz="0" iyy="0.2" iyz="0.01" izz="0.2"/></inertial></link>
  <link name="bracket"><inertial><mass value="0.5"/><origin xyz="0 0.1 0.1"/>
    <inertia ixx="0.01" ixy="0" ixz="0" iyy="0.01" iyz="0" izz="0.01"/></inertial></link>
  <link name="boom"><inertial><mass value="2"/><origin xyz="0 0.3 0"/>
    <inertia ixx="0.1" ixy="0" ixz="0" iyy="0.05" iyz="0" izz="0.1"/></inertial></link>
  <link name="tool"><inertial><mass value="1"/><origin xyz="0 0 0.1"/>
    <inertia ixx="0.01" ixy="0" ixz="0" iyy="0.01" iyz="0" izz="0.02"/></inertial></link>
  <joint name="slide" type="prismatic"><parent link="base"/><child link="carriage"/>
    <origin xyz="0 0 1" rpy="0.1 0.2 0.3"/><axis xyz="1 0 0"/>
    <limit lower="-1" upper="1" velocity="1" effort="1"/></joint>
  <joint name="turn" type="continuous"><parent link="carriage"/><child link="plate"/>
    <origin xyz="0.2 0 0" rpy="0 0.5 0"/><axis xyz="0.6 0 0.8"/></joint>
  <joint name="weld" type="fixed"><parent link="plate"/><child link="bracket"/>
    <origin xyz="0 0.1 0.3" rpy="0.3 -0.2 0.9"/></joint>
  <joint name="swing" type="revolute"><parent link="bracket"/><child link="boom"/>
    <origin xyz="0 0.2 0" rpy="1 0 0"/><axis xyz="0.48 -0.6 0.64"/>
    <limit lower="-3" upper="3" velocity="1" effort="1"/></joint>
  <joint name="spin" type="revolute"><parent link="carriage"/><child link="tool"/>
    <origin xyz="0 0 0.4" rpy="0 1.5707963267948966 0"/><axis xyz="0 -1 0"/>
    <limit lower="-3" upper="3" velocity="1" effort="1"/></joint>
</robot>
"""
PLAIN = ModelSettings(friction=(), elastic=ElasticJoints())


def tx40() -> Robot:
    return Robot.from_urdf(URDF / 'tx40.urdf', gravity=(1.0, -2.0, -9.0))


def branched() -> Robot:
    # the columns of the data in an order of their own
    return Robot.from_urdf(BRANCHED, joints=('swing', 'slide', 'spin', 'turn'))


def planar() -> Robot:
    return Robot.from_urdf(URDF / 'zollo_planar_2r.urdf')


def axis_of(robot: Robot, joint: str) -> np.ndarray:
    """Return the unit vector of a joint's axis in its own frame, from Pinocchio."""
    model = robot.model
    data = model.createData()
    pin.computeJointJacobians(model, data, pin.neutral(model))
    index = model.getJointId(joint)
    column = pin.getJointJacobian(model, data, index, pin.ReferenceFrame.LOCAL)
    motion = column.reshape(6, -1)[:, model.joints[index].idx_v]
    return motion[3:] if np.linalg.norm(motion[3:]) > 0.5 else motion[:3]


class WithRotors:
    """
    A robot in Pinocchio whose rotors are bodies on joints of their own.

    Of the regressor it takes the layout alone.  Each rotor is a spinning top at a random place of
    the link that carries it.
    """

    def __init__(self, robot: Robot, settings: ModelSettings, seed: int = 0) -> None:
        self.robot, n = robot, robot.n_joints
        random = np.random.default_rng(seed)
        self.ratios = np.array(settings.elastic.gear_ratios or np.ones(n))
        self.inertia = random.uniform(1e-3, 2e-3, n)
        self.stiffness = random.uniform(500.0, 5000.0, n)
        self.model = robot.model.copy()
        bodies = robot.model.copy()  # links with the rotors that they carry as lumps
        still = robot.model.createData()
        pin.forwardKinematics(robot.model, still, robot.configuration(np.zeros(n)))
        self.rotors = []
        for i, joint in enumerate(robot.joints):
            document = robot.model
            stator = settings.elastic.stators[i] if settings.elastic.stators else None
            if stator is None:
                parent_link = document.frames[document.getFrameId(joint)].parentFrame
                frame = document.frames[parent_link]
            else:
                frame = document.frames[document.getFrameId(stator)]
            carrier = frame.parentJoint
            if settings.elastic.rotor_axes:
                axis = frame.placement.rotation @ np.array(settings.elastic.rotor_axes[i])
                axis = axis / np.linalg.norm(axis)
            else:
                index = document.getJointId(joint)
                axis = still.oMi[carrier].rotation.T @ (
                    still.oMi[index].rotation @ axis_of(robot, joint)
                )
            place = pin.SE3(np.eye(3), random.uniform(-0.3, 0.3, 3))
            across = 0.7 * self.inertia[i]
            tensor = across * np.eye(3) + (self.inertia[i] - across) * np.outer(axis, axis)
            body = pin.Inertia(0.5, random.uniform(-0.1, 0.1) * axis, tensor)
            rotor = self.model.addJoint(
                carrier, pin.JointModelRevoluteUnaligned(axis), place, f'rotor_{i}'
            )
            self.model.appendBodyToJoint(rotor, body, pin.SE3.Identity())
            self.rotors.append(rotor)
            if carrier:
                bodies.inertias[carrier] = bodies.inertias[carrier] + place.act(body)
        self.links = [bodies.inertias[i].toDynamicParameters() for i in robot.joint_ids]
        self.dofs = np.array([*robot.columns, *(self.model.joints[i].idx_v for i in self.rotors)])
        self.reduction = np.concatenate([np.ones(n), self.ratios])

    def parameters(self, regressor: Regressor) -> ParameterSet:
        robot = self.robot
        values = dict(zip(robot.layout.names, np.concatenate(self.links), strict=True))
        motors = regressor.joints[robot.n_joints :]
        reduced = self.ratios**2 * self.inertia
        values.update({f'{m}.Ia': value for m, value in zip(motors, reduced, strict=True)})
        stiffness = zip(robot.joints, self.stiffness, strict=True)
        values.update({f'{joint}.k': value for joint, value in stiffness})
        return ParameterSet(
            regressor.layout, np.array([values[name] for name in regressor.layout])
        )

    def state(self, position, velocity, acceleration):
        """Turn a sample of the 2n coordinates into Pinocchio's q, v, a."""
        n = self.robot.n_joints
        q = np.empty(self.model.nq)
        q[: self.robot.model.nq] = self.robot.configuration(position[:n])
        q[self.robot.model.nq :] = self.ratios * position[n:]
        v, a = np.empty((2, self.model.nv))
        v[self.dofs], a[self.dofs] = self.reduction * velocity, self.reduction * acceleration
        return q, v, a

    def spring(self, position):
        n = self.robot.n_joints
        torque = self.stiffness * (position[:n] - position[n:])
        return np.concatenate([torque, -torque])

    def efforts(self, motion: Motion) -> np.ndarray:
        data = self.model.createData()
        efforts = []
        for sample in zip(motion.position, motion.velocity, motion.acceleration, strict=True):
            torque = pin.rnea(self.model, data, *self.state(*sample))
            efforts.append(self.reduction * torque[self.dofs] + self.spring(sample[0]))
        return np.array(efforts)

    def energy(self, position, velocity) -> float:
        q, v, _ = self.state(position, velocity, velocity)
        data, n = self.model.createData(), self.robot.n_joints
        twist = position[:n] - position[n:]
        rigid = pin.computeMechanicalEnergy(self.model, data, q, v)
        return float(rigid + 0.5 * self.stiffness @ twist**2)


CASES = {
    'planar': (planar, ElasticJoints(gear_ratios=(0.1, 0.1))),
    'no gear': (tx40, ElasticJoints()),
    'gears': (tx40, ElasticJoints(gear_ratios=(62.6, -107.8, 53.7, 76.0, -71.9, 76.7))),
    'axes across': (
        tx40,
        ElasticJoints(
            gear_ratios=(50.0,) * 6,
            rotor_axes=((1, 0, 0), (0, 2, 0), (0, 1, 1), (1, 1, 1), (0, -1, 0), (3, 0, 1)),
        ),
    ),
    'mounted elsewhere': (
        tx40,
        ElasticJoints(
            gear_ratios=(5.0,) * 6,
            stators=('base_link', 'base_link', 'link_1', 'link_3', 'link_3', 'link_6'),
        ),
    ),
    'branches and slides': (branched, ElasticJoints(gear_ratios=(20.0, 400.0, 30.0, -10.0))),
    'fixed links': (
        branched,
        ElasticJoints(
            stators=('bracket', 'base', 'bracket', 'carriage'),
            rotor_axes=((1, 2, 3), (0, 0, 1), (3, -1, 1), (1, 0, 0)),
        ),
    ),
}


def make(name: str) -> tuple[Robot, ModelSettings, ElasticRegressor, WithRotors]:
    robot_of, elastic = CASES[name]
    robot, settings = robot_of(), ModelSettings(friction=(), elastic=elastic)
    regressor = build(robot, settings)
    assert isinstance(regressor, ElasticRegressor)
    return robot, settings, regressor, WithRotors(robot, settings)


@pytest.mark.parametrize('name', CASES)
def test_rows_equal_a_tree_with_the_rotors_as_bodies(name):
    _, _, regressor, truth = make(name)
    motion = regressor.random_motion(np.random.default_rng(1), 20)
    expected = truth.efforts(motion)
    efforts = predict(regressor, motion, truth.parameters(regressor))
    assert efforts.shape == (20, regressor.n_joints)
    scale = np.abs(expected).max(axis=0)
    assert (np.abs(efforts - expected) <= 1e-12 * scale).all()


def test_rotors_matter_in_these_trees():
    """The comparison above would miss nothing: without coupling it fails by far."""
    _, settings, regressor, truth = make('axes across')
    without = build(truth.robot, replace(settings, elastic=replace(settings.elastic, coupling=0)))
    motion = regressor.random_motion(np.random.default_rng(1), 20)
    efforts = predict(without, motion, truth.parameters(without))
    expected = truth.efforts(motion)
    assert (np.abs(efforts - expected).max(axis=0)[:5] > 0.5).all()
    # what is left of a rotor is its own spin
    rows = without.rows(motion).reshape(20, 12, -1)
    place = without.layout.index('joint_3_motor.Ia')
    assert rows[:, 8, place] == pytest.approx(motion.acceleration[:, 8])
    assert not np.delete(rows[:, :, place], 8, axis=1).any()


def test_a_motor_that_turns_the_other_way_about_the_opposite_axis_is_the_same():
    axes = ((0, 0, 1), (1, 0, 0), (0, 1, 0), (1, 2, 3), (0, 0, -1), (1, 1, 0))
    elastic = ElasticJoints(gear_ratios=(30.0,) * 6, rotor_axes=axes)
    opposite = ElasticJoints(
        gear_ratios=(-30.0,) * 6, rotor_axes=tuple((-x, -y, -z) for x, y, z in axes)
    )
    one, other = (build(tx40(), replace(PLAIN, elastic=each)) for each in (elastic, opposite))
    motion = one.random_motion(np.random.default_rng(4), 30)
    assert one.rows(motion) == pytest.approx(other.rows(motion), rel=1e-14, abs=1e-14)


def mujoco_twin(robot: Robot, truth: WithRotors) -> mujoco.MjModel:
    """MuJoCo's model: rotors as bodies, transmissions as springs of its tendons."""
    spec = mujoco.MjSpec.from_string(etree.tostring(mechanism(robot), encoding='unicode'))
    spec.compiler.fusestatic = False
    for joint, link in zip(robot.joints, robot.links, strict=True):
        inertia = robot.model.inertias[robot.model.getJointId(joint)]
        body, tensor = spec.body(link), inertia.inertia
        body.mass, body.ipos, body.explicitinertial = inertia.mass, inertia.lever, True
        body.iquat = (1.0, 0.0, 0.0, 0.0)
        body.fullinertia = tensor[[0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]]
    for i, (joint, index) in enumerate(zip(robot.joints, truth.rotors, strict=True)):
        carrier, place = truth.model.parents[index], truth.model.jointPlacements[index]
        names = {
            robot.model.getJointId(j): k for j, k in zip(robot.joints, robot.links, strict=True)
        }
        parent = spec.body(names[carrier]) if carrier else spec.worldbody
        inertia, tensor = truth.model.inertias[index], truth.model.inertias[index].inertia
        rotor = parent.add_body(
            name=f'rotor_{i}', pos=place.translation, mass=inertia.mass, ipos=inertia.lever,
            fullinertia=tensor[[0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]], explicitinertial=True,
        )  # fmt: skip
        q = pin.neutral(truth.model)
        data = truth.model.createData()
        pin.computeJointJacobians(truth.model, data, q)
        column = pin.getJointJacobian(truth.model, data, index, pin.ReferenceFrame.LOCAL)
        axis = column[3:, truth.model.joints[index].idx_v]
        rotor.add_joint(name=f'rotor_{i}', type=mujoco.mjtJoint.mjJNT_HINGE, axis=axis)
        tendon = spec.add_tendon(name=f'spring_{i}', stiffness=truth.stiffness[i])
        tendon.springlength = (0.0, 0.0)
        tendon.wrap_joint(joint, 1.0)
        tendon.wrap_joint(f'rotor_{i}', -1.0 / truth.ratios[i])
    model = spec.compile()
    model.opt.gravity = robot.gravity
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
    model.dof_damping, model.dof_frictionloss, model.dof_armature = 0.0, 0.0, 0.0
    return model


@pytest.mark.parametrize('name', ['planar', 'gears', 'axes across'])
def test_rows_equal_forward_dynamics_of_mujoco(name):
    robot, _, regressor, truth = make(name)
    model = mujoco_twin(robot, truth)
    data = mujoco.MjData(model)
    names = [*robot.joints, *(f'rotor_{i}' for i in range(robot.n_joints))]
    place = np.array([model.joint(joint).qposadr[0] for joint in names])
    dof = np.array([model.joint(joint).dofadr[0] for joint in names])
    random = np.random.default_rng(5)
    n, parameters = robot.n_joints, truth.parameters(regressor)
    for _ in range(10):
        position = random.uniform(-2.0, 2.0, 2 * n)
        position[n:] = position[:n] + random.uniform(-0.01, 0.01, n)
        velocity = random.uniform(-2.0, 2.0, 2 * n)
        drive = np.concatenate([np.zeros(n), random.uniform(-20.0, 20.0, n)])
        data.qpos[place], data.qvel[dof] = truth.reduction * position, truth.reduction * velocity
        data.qfrc_applied[dof] = drive / truth.reduction
        mujoco.mj_forward(model, data)
        acceleration = data.qacc[dof] / truth.reduction
        motion = Motion(position[None], velocity[None], acceleration[None])
        effort = predict(regressor, motion, parameters)[0]
        assert effort == pytest.approx(drive, rel=0.0, abs=1e-9 * np.abs(drive).max())


def test_energy_is_what_the_motors_do():
    robot = planar()
    elastic = ElasticJoints(gear_ratios=(30.0, -30.0), rotor_axes=((0, 0, 1), (0, 1, 1)))
    settings = ModelSettings(friction=(), elastic=elastic)
    regressor, truth = build(robot, settings), WithRotors(robot, settings)
    parameters = truth.parameters(regressor)
    n = robot.n_joints

    def change(time, state):
        position, velocity = np.split(state[:-1], 2)
        still = np.tile(position, (2 * n + 1, 1)), np.tile(velocity, (2 * n + 1, 1))
        units = np.vstack([np.zeros(2 * n), np.eye(2 * n)])
        bias, *columns = predict(regressor, Motion(*still, units), parameters)
        drive = np.concatenate([np.zeros(n), 30.0 * np.sin([3.0 * time, 5.0 * time])])
        acceleration = np.linalg.solve(np.transpose(columns - bias), drive - bias)
        return np.concatenate([velocity, acceleration, [drive @ velocity]])

    start = np.array([0.3, -0.5, 0.29, -0.52, 0.5, -1.0, 0.4, 1.0, 0.0])
    path = solve_ivp(change, (0.0, 0.4), start, method='DOP853', rtol=1e-11, atol=1e-11)
    energy = [truth.energy(*np.split(state[:-1], 2)) for state in (start, path.y[:, -1])]
    done = path.y[-1, -1]
    assert abs(done) > 1.0
    assert energy[1] - energy[0] == pytest.approx(done, rel=1e-8)


def test_friction_and_damping_act_on_motors_and_twist():
    robot = planar()
    elastic = ElasticJoints(motors=('m1', 'm2'), gear_ratios=(0.1, 0.1), damping=True)
    settings = ModelSettings(
        friction=('viscous', 'coulomb', 'offset'), rotor_inertia=False, elastic=elastic
    )
    regressor = build(robot, settings)
    assert regressor.joints == ('joint_1', 'joint_2', 'm1', 'm2')
    assert regressor.motors == {'m1': 'joint_1', 'm2': 'joint_2'}
    assert regressor.layout.names[20:] == (
        'm1.fv', 'm1.fc', 'm1.off', 'm2.fv', 'm2.fc', 'm2.off',
        'joint_1.k', 'joint_1.d', 'joint_2.k', 'joint_2.d',
    )  # fmt: skip
    assert regressor.layout.units[-4:] == ('N m/rad', 'N m s/rad') * 2
    motion = regressor.random_motion(np.random.default_rng(2), 30)
    rows = regressor.rows(motion).reshape(30, 4, -1)[:, :, 20:]
    q, theta = motion.position[:, :2], motion.position[:, 2:]
    dq, dtheta = motion.velocity[:, :2], motion.velocity[:, 2:]
    expected = np.zeros((30, 4, 10))
    for i in range(2):
        for j, shape in enumerate([dtheta[:, i], np.sign(dtheta[:, i]), 1.0]):
            expected[:, 2 + i, 3 * i + j] = shape
        for j, twist in enumerate([q - theta, dq - dtheta]):
            expected[:, i, 6 + 2 * i + j] = twist[:, i]
            expected[:, 2 + i, 6 + 2 * i + j] = -twist[:, i]
    assert (rows == expected).all()


def test_the_stiffness_of_a_sliding_joint_has_its_own_unit():
    regressor = build(branched(), PLAIN)
    units = dict(zip(regressor.layout.names, regressor.layout.units, strict=True))
    assert (units['slide.k'], units['turn.k']) == ('N/m', 'N m/rad')
    assert (units['slide_motor.Ia'], units['turn_motor.Ia']) == ('kg', 'kg m^2')


def test_blocks_join_without_seam():
    regressor = build(planar(), PLAIN)
    motion = regressor.random_motion(np.random.default_rng(3), 2 * BLOCK + 7)
    rows = regressor.rows(motion)
    parts = [regressor.rows(motion.rows(i, i + 100)) for i in range(0, len(motion), 100)]
    assert np.concatenate(parts) == pytest.approx(rows, rel=1e-13, abs=1e-13)
    with pytest.raises(ValueError, match='2 columns, the regressor 4'):
        regressor.rows(Motion(*np.zeros((3, 5, 2))))


def test_what_the_urdf_tells():
    robot = planar()
    settings = ModelSettings(friction=('viscous', 'coulomb'), elastic=ElasticJoints())
    values = prior(robot, settings)
    assert values['joint_1_motor.fv'] == 0.1434
    assert values['joint_2_motor.fc'] == 0.3576
    assert values['joint_1.k'] == values['joint_1_motor.Ia'] == 0.0
    assert values['link_2.m'] == 10.0


# -------------------------------------------------------------------------------- base parameters


@pytest.mark.parametrize('gear', [0.1, 1.0, 120.0])
def test_planar_robot_has_14_base_parameters_whatever_its_gears(gear):
    robot = planar()
    elastic = ElasticJoints(gear_ratios=(gear, 1.7 * gear))
    settings = ModelSettings(friction=('viscous', 'coulomb'), elastic=elastic)
    regressor = build(robot, settings)
    base = structure(regressor, robot)
    assert (len(regressor.layout), base.n_base) == (28, 14)
    assert base.gap > 1e9
    assert base.warnings == ()
    assert set(base.expressions) == {
        'link_1.mx + 0.5 link_2.m', 'link_1.my', 'link_1.Izz + 0.25 link_2.m',
        'link_2.mx', 'link_2.my', 'link_2.Izz',
        'joint_1_motor.Ia', 'joint_1_motor.fv', 'joint_1_motor.fc', 'joint_1.k',
        'joint_2_motor.Ia', 'joint_2_motor.fv', 'joint_2_motor.fc', 'joint_2.k',
    }  # fmt: skip
    assert base.category('joint_2.k') == 'alone'
    assert base.category('link_1.Izz') == 'combined'
    assert base.category('link_2.Ixx') == 'unidentifiable'


def test_rank_of_the_columns_does_not_depend_on_how_it_is_found():
    """Plain SVD of the scaled columns against the structure, with gears of the PUMA 560's size."""
    robot, _, regressor, _ = make('gears')
    W = regressor.rows(regressor.random_motion(np.random.default_rng(9), 200))
    norms = np.linalg.norm(W, axis=0)
    values = np.linalg.svd(W[:, norms > 0.0] / norms[norms > 0.0], compute_uv=False)
    rank = int(np.sum(values > 1e-10 * values[0]))
    assert structure(regressor, robot).n_base == rank


def test_rotors_stay_with_their_motors_on_a_serial_arm():
    """Elasticity parts the rotors from the links: none of them is grouped."""
    robot, _, regressor, _ = make('gears')
    base = structure(regressor, robot)
    for joint in robot.joints:
        assert base.category(f'{joint}_motor.Ia') == 'alone'
        assert base.category(f'{joint}.k') == 'alone'


# --------------------------------------------------------------------------------------- settings


@pytest.mark.parametrize(
    ('elastic', 'key', 'text'),
    [
        (ElasticJoints(motors=('m1',)), 'motors', '1 entries for 2 joints'),
        (ElasticJoints(motors=('joint_2', 'm2')), 'motors', 'the name of a joint'),
        (ElasticJoints(gear_ratios=(1.0, 2.0, 3.0)), 'gear_ratios', '3 entries for 2 joints'),
        (ElasticJoints(stators=('base_link',)), 'stators', '1 entries for 2 joints'),
        (ElasticJoints(stators=('base_link', 'arm')), 'stators', "'arm', which is no link"),
        (ElasticJoints(rotor_axes=((0.0, 0.0, 1.0),)), 'rotor_axes', '1 entries for 2 joints'),
    ],
)
def test_settings_that_do_not_fit_the_robot_are_named(elastic, key, text):
    with pytest.raises(SettingsError, match=text) as error:
        build(planar(), ModelSettings(elastic=elastic))
    assert error.value.key == f'robot.elastic.{key}'
    assert error.value.remedy


@pytest.mark.parametrize(
    ('arguments', 'key'),
    [
        ({'motors': ('a', 'a')}, 'motors'),
        ({'gear_ratios': (1.0, 0.0)}, 'gear_ratios'),
        ({'gear_ratios': (float('nan'),)}, 'gear_ratios'),
        ({'rotor_axes': ((0.0, 0.0, 0.0),)}, 'rotor_axes'),
        ({'motor_position': 'encoder'}, 'motor_position'),
    ],
)
def test_wrong_settings_are_named(arguments, key):
    with pytest.raises(SettingsError) as error:
        ElasticJoints(**arguments)
    assert error.value.key == f'robot.elastic.{key}'


def test_coupled_drives_and_elastic_joints_exclude_each_other():
    drive = CoupledDrive('joint_6', ('joint_5', 'joint_6'))
    with pytest.raises(SettingsError, match='elastic joints and coupled drives') as error:
        build(tx40(), ModelSettings(coupled_drives=(drive,), elastic=ElasticJoints()))
    assert error.value.key == 'robot.coupled_drives'


def test_recorded_motor_positions_are_reduced():
    joints = ('a', 'b')
    elastic = ElasticJoints(gear_ratios=(100.0, -50.0), motor_position='motor')
    assert elastic.position_scale(joints) == pytest.approx([0.01, -0.02])
    assert replace(elastic, motor_position='reduced').position_scale(joints).tolist() == [1.0, 1.0]
    assert elastic.columns(joints) == ('a', 'b', 'a_motor', 'b_motor')
