# SPDX-License-Identifier: Apache-2.0
"""Joints that mimic others, as the fingers of grippers do: in model, regressor and simulation."""

import warnings

from gripper_arm import FOLLOWED, gripper, JOINTS, ORDER, urdf
import numpy as np
import pinocchio as pin
import pytest
from robot_identification.config.problem import IdentificationProblem
from robot_identification.data.recording import Motion, Recording
from robot_identification.errors import IdentificationWarning, ModelError
from robot_identification.estimation.estimators import EstimationSettings
from robot_identification.excitation.collisions import collision_model
from robot_identification.exports.mjcf_export import mjcf
from robot_identification.exports.sdf_export import sdf
from robot_identification.exports.urdf_export import identified_urdf
from robot_identification.identification.pipeline import identify_sources
from robot_identification.model.mimic_joints import mimic_text
from robot_identification.model.robot import Robot
from robot_identification.model.robot_document import read_robot, robot_document
from robot_identification.regressor import build, inverse_dynamics, ModelSettings, predict, prior
from robot_identification.regressor.base_search import structure
from robot_identification.regressor.energy import energy_of
from robot_identification.signals import SignalSettings
from robot_identification.simulation.plant import Plant


@pytest.fixture(scope='module')
def robot():
    return gripper()


@pytest.fixture(scope='module')
def motion():
    return Motion(*np.random.default_rng(1).uniform(-2.0, 2.0, (3, 90, len(ORDER))))


def projected(motion, text=None):
    """Efforts by Pinocchio's RNEA of the whole tree, whose joints are led as `FOLLOWED` says."""
    full = pin.buildModelFromXML(text or urdf())
    data, efforts = full.createData(), []
    for q, v, a in zip(motion.position, motion.velocity, motion.acceleration, strict=True):
        whole, map_to = pin.neutral(full), np.zeros((full.nv, len(ORDER)))
        for name in list(full.names)[1:]:
            joint = full.joints[full.getJointId(name)]
            master, multiplier, offset = FOLLOWED.get(name, (name, 1.0, 0.0))
            column = ORDER.index(master)
            place = multiplier * q[column] + offset
            pair = (np.cos(place), np.sin(place))
            whole[joint.idx_q : joint.idx_q + joint.nq] = pair if joint.nq == 2 else place
            map_to[joint.idx_v, column] = multiplier
        efforts.append(map_to.T @ pin.rnea(full, data, whole, map_to @ v, map_to @ a))
    return np.array(efforts)


RIGID = ModelSettings(friction=(), rotor_inertia=False)


# -------------------------------------------------------------------------------------- regressor


@pytest.mark.parametrize('compiled', [True, False])
def test_rows_are_those_of_the_whole_tree_projected(robot, motion, compiled, monkeypatch):
    monkeypatch.setattr(inverse_dynamics, 'available', lambda: compiled)
    rows = build(robot, RIGID).rows(motion)
    effort = (rows @ prior(robot, RIGID).values).reshape(motion.position.shape)
    np.testing.assert_allclose(effort, projected(motion), rtol=0.0, atol=1e-11)


def test_entries_and_adjoint_are_those_of_the_rows(robot, motion, monkeypatch):
    regressor = build(robot)
    columns = np.arange(len(regressor.layout))
    pattern = inverse_dynamics.row_pattern(regressor, columns)
    rows = regressor.rows(motion).reshape(len(motion), len(ORDER), -1)
    found = pattern.expand(inverse_dynamics.entries(regressor, motion, columns, pattern))
    np.testing.assert_allclose(found, rows, rtol=0.0, atol=1e-12)
    weights = np.random.default_rng(2).normal(size=rows.shape)
    slopes = inverse_dynamics.pull_back(regressor, motion, weights)
    differences = inverse_dynamics.by_differences(regressor.rows, motion, weights)
    for slope, expected in zip(slopes, differences, strict=True):
        np.testing.assert_allclose(slope, expected, rtol=0.0, atol=1e-4 * np.abs(expected).max())


def test_energy_changes_by_the_power_of_the_drives(robot, motion):
    energy, step = energy_of(build(robot, RIGID)), 1e-6
    states = (motion.position, motion.velocity), (motion.velocity, motion.acceleration)
    ahead, behind = (
        energy.rows(*(x + sign * step * dx for x, dx in zip(*states, strict=True)))
        for sign in (1.0, -1.0)
    )
    change = (ahead - behind) @ prior(robot, RIGID).values / (2.0 * step)
    power = (projected(motion) * motion.velocity).sum(axis=1)
    np.testing.assert_allclose(change, power, rtol=0.0, atol=1e-6)


def test_fingers_side_by_side_have_one_mass_on_their_drive():
    hand = (
        ('turn', 'revolute', 'base', '0 0 .1', '0 0 1', '', '.1 0 .02', 2.0),
        ('left', 'prismatic', 'of_turn', '0 0 .1', '0 1 0', '', '0 0 0', 0.1),
        ('right', 'prismatic', 'of_turn', '0 0 .1', '0 1 0', ('left', -1.0, 0.0), '0 0 0', 0.1),
    )
    robot = gripper(['turn', 'left'], urdf(hand).replace('rpy="0.1 0.3 -0.2"', ''))
    found = structure(build(robot, RIGID), robot)
    assert 'of_left.m + of_right.m' in found.expressions


# ------------------------------------------------------------------------------------------ model


def test_kinematics_and_duals_follow(robot, motion):
    assert robot.mimics.names == tuple(FOLLOWED) and not robot.locked and not robot.passive
    assert (robot.gripper_joints, robot.tip) == (('grip',), 'of_lift')
    assert robot.layout.links == ('of_grip', 'of_turn', 'of_lift', *(f'of_{n}' for n in FOLLOWED))
    data = robot.model.createData()
    states = robot.configuration(motion.position), *map(robot.tangent, (motion.velocity,) * 2)
    same = Motion(motion.position, motion.velocity, motion.velocity)
    efforts = np.array([pin.rnea(robot.model, data, *row) for row in zip(*states, strict=True)])
    np.testing.assert_allclose(robot.cotangent(efforts), projected(same), rtol=0.0, atol=1e-11)


def mimicking(**mimics):
    """Return the URDF with other joints to mimic."""
    changed = ((*joint[:5], mimics.get(joint[0], joint[5]), *joint[6:]) for joint in JOINTS)
    return urdf(tuple(changed))


@pytest.mark.parametrize(
    ('text', 'joints', 'locked', 'followed', 'held'),
    [
        # a locked master, and one that is held at 0 as nothing is said of it
        (urdf(), ['turn', 'lift'], {'grip': 0.1}, {'lever'}, {'tip': 0.33, 'slide': -0.155}),
        (urdf(), ['turn', 'lift'], {}, {'lever'}, {'grip': 0.0, 'tip': 0.2, 'end': 0.0}),
        # a place that is given counts, for what follows it, too
        (urdf(), ORDER, {'tip': 1.0}, {'lever', 'end'}, {'tip': 1.0, 'slide': -0.49}),
        # a multiplier of 0
        (mimicking(end=('grip', 0.0, 0.3)), ORDER, {}, {'lever', 'tip', 'slide'}, {'end': 0.3}),
    ],
)
def test_what_stands_still_holds_what_mimics_it(text, joints, locked, followed, held):
    robot = gripper(joints, text, locked=locked)
    assert {*robot.mimics.names} == followed
    assert {name: robot.locked[name] for name in held} == pytest.approx(held)


@pytest.mark.parametrize(
    ('master', 'said'), [('nothing', 'which there is not'), ('fast', 'which is fixed')]
)
def test_a_master_that_does_not_move_is_said(master, said):
    fixed = (
        '<link name="x"/><joint name="fast" type="fixed"><parent link="base"/><child link="x"/>'
    )
    text = mimicking(end=(master, 2.0, 0.3)).replace('</robot>', f'{fixed}</joint></robot>')
    with pytest.warns(IdentificationWarning, match=f"since it mimics '{master}', {said}: end"):
        assert Robot.from_urdf(text, ORDER).locked == {'end': 0.3}


def test_a_circle_is_refused_by_name():
    with pytest.raises(ModelError, match="'tip' .* mimics itself"):
        gripper(ORDER, mimicking(tip=('slide', 1.0, 0.0)))


def test_a_joint_of_a_chain_that_is_identified_leads_the_others():
    robot = gripper(['turn', 'lift', 'tip'])
    assert mimic_text(robot.mimics.followed['grip']) == f'{1 / 1.3:g} tip {-0.2 / 1.3:+g}'
    q = np.array([0.1, 0.2, 0.5])
    both = dict(zip(robot.opened.joints, robot.mimics.positions(q), strict=True))
    assert 1.3 * both['grip'] + 0.2 == pytest.approx(both['tip'])
    assert -0.5 * both['tip'] + 0.01 == pytest.approx(both['slide'])


def test_joints_with_drives_of_their_own_are_said_and_all_others_follow():
    with pytest.warns(IdentificationWarning, match='they mimic others: tip; leave them out'):
        robot = Robot.from_urdf(urdf(), [*ORDER, 'tip'])
    assert robot.mimics.followed['slide'].joint == 'tip'
    assert gripper(None).joints == ('turn', 'lift', 'grip')


def test_a_file_has_what_the_joints_follow(robot):
    again = read_robot(robot_document(robot))
    assert again.mimics.followed == robot.mimics.followed and again.locked == robot.locked


def test_fingers_on_one_drive_are_identified():
    hand = (
        ('turn', 'revolute', 'base', '0 0 .1', '0 1 0', '', '.1 0 .02', 2.0),
        ('left', 'prismatic', 'of_turn', '.1 0 .1', '0 1 0', '', '0 0 0', 0.1),
        ('right', 'prismatic', 'of_turn', '.1 0 .1', '0 1 0', ('left', -1.0, 0.0), '0 0 0', 0.1),
    )
    text = urdf(hand)
    robot, true = gripper(['turn', 'left'], text), gripper(['turn', 'left'], text)
    time = np.arange(1500) / 100.0
    w, phase = 2.0 * np.pi * np.array([[0.4, 1.1], [0.6, 1.3]]), np.array([[0.1, 0.5], [0.9, 0.2]])
    angle = time[:, None, None] * w + phase
    size = np.array([0.8, 0.1])
    states = (
        size * (np.sin(angle) * scale).sum(axis=1)
        if i != 1
        else size * (np.cos(angle) * scale).sum(axis=1)
        for i, scale in enumerate((1.0, w, -(w**2)))
    )
    motion = Motion(*states)
    heavy = prior(true).updated({'of_left.m': 0.3, 'of_right.m': 0.2})
    effort = predict(build(true), motion, heavy)
    effort += 1e-3 * np.random.default_rng(0).normal(size=effort.shape)
    recording = Recording(time, motion.position, effort, robot.joints, source='run')
    signals = SignalSettings(cutoff=20.0)
    estimation = EstimationSettings(method='ols')
    problem = IdentificationProblem(robot, signals=signals, estimation=estimation)
    result = identify_sources(problem, [recording])
    names, values = result.system.structure.expressions, result.estimate.base.values
    base = dict(zip(names, values, strict=True))
    assert (base['of_left.m'], base['of_right.m']) == pytest.approx((0.3, 0.2), rel=0.01)
    assert base['left.fv'] == pytest.approx(0.2, rel=0.01)
    assert result.estimate.fit.relative_error < 2.0


# ------------------------------------------------------------------------- simulation and exports


def with_drives(robot):
    values = {f'{j}.{s}': v for j in ORDER for s, v in {'Ia': 0.05, 'fv': 0.3, 'fc': 0.2}.items()}
    return prior(robot).updated(values)


def test_the_plant_moves_as_the_regressor_says(robot):
    parameters, step = with_drives(robot), 1e-3
    plant = Plant(robot, parameters, step)
    plant.set_state(np.array([0.3, 0.2, 0.1]), np.zeros(3))
    states, efforts = [], []
    for i in range(150):
        efforts.append([0.6 * np.sin(20 * i * step), 2.0 * np.sin(9 * i * step), 6.0])
        states.append((plant.position, plant.velocity))
        plant.step(np.array(efforts[-1]))
    position, velocity = np.array(states).transpose(1, 0, 2)
    between = Motion(
        0.5 * (position[1:] + position[:-1]),
        0.5 * (velocity[1:] + velocity[:-1]),
        np.diff(velocity, axis=0) / step,
    )
    needed = (build(robot).rows(between) @ parameters.values).reshape(-1, 3)
    sliding = (np.abs(between.velocity) > 0.02).all(axis=1)
    assert sliding.sum() > 50
    off = np.abs(needed - np.array(efforts[:-1]))[sliding]
    assert off.max() < 5e-3


def test_mujoco_reads_the_same_dynamics_and_keeps_the_joints_together(robot, motion):
    mujoco = pytest.importorskip('mujoco')
    parameters = prior(robot, RIGID)
    model = mujoco.MjModel.from_xml_string(mjcf(robot, parameters, RIGID))
    data = mujoco.MjData(model)
    names = robot.opened.joints
    places = [model.joint(name).qposadr[0] for name in names]
    assert model.neq == len(FOLLOWED)
    for row in range(3):
        states = motion.position[row], motion.velocity[row], motion.acceleration[row]
        mimics = robot.mimics
        data.qpos[places], data.qvel[places] = mimics.positions(states[0]), mimics.rates(states[1])
        mujoco.mj_forward(model, data)
        assert np.abs(data.efc_pos[: model.neq]).max() < 1e-12
        data.qacc[places] = mimics.rates(states[2])
        mujoco.mj_inverse(model, data)
        found = mimics.efforts((data.qfrc_inverse + data.qfrc_passive)[places])
        np.testing.assert_allclose(found, projected(motion)[row], rtol=0.0, atol=1e-6)


def test_the_urdf_keeps_mimic_and_has_all_friction_on_the_drive(robot):
    values = prior(robot)
    assert values['grip.fv'] == pytest.approx(0.1 * (1.0 + 1.3**2 + 0.65**2 + 1.0))
    assert values['grip.fc'] == pytest.approx(0.2 * (1.0 + 1.3 + 0.65 + 1.0))
    text = identified_urdf(robot, values)
    again = gripper(text=text)
    assert again.mimics.followed == robot.mimics.followed
    np.testing.assert_allclose(prior(again).values, values.values, rtol=1e-12, atol=1e-15)


def test_sdf_has_mimic_and_says_what_reads_it():
    with pytest.warns(IdentificationWarning, match='Bullet Featherstone'):
        text = sdf(urdf())
    assert '<sdf version="1.11">' in text
    assert text.count('<mimic joint="grip" axis="axis">') == 2


def test_distances_of_fingers_change_by_the_speed_of_both():
    robot = gripper()
    with warnings.catch_warnings():
        warnings.simplefilter('ignore', IdentificationWarning)
        model = collision_model(robot, 0.01)
    assert ('of_grip', 'of_slide') in model.pairs
    positions = np.random.default_rng(4).uniform(-0.3, 0.3, (5, 3))
    step = 1e-6
    for number in range(len(model.pairs)):
        pairs = np.full(5, number)
        measured = model.measured(positions, pairs, jacobians=True)
        slopes = model.slopes(pairs, measured.lines, measured.jacobians)
        for joint, off in enumerate(step * np.eye(3)):
            ends = [model.measured(positions + way * off, pairs).distance for way in (1, -1)]
            expected = (ends[0] - ends[1]) / (2.0 * step)
            np.testing.assert_allclose(slopes[:, joint], expected, rtol=0.0, atol=1e-6)
            assert (np.abs(expected) <= model.pair_reach[number, joint] + 1e-6).all()
    lower = model.spheres.distances(positions).T
    for number in range(len(model.pairs)):
        distance = model.measured(positions, np.full(5, number)).distance
        assert (lower[:, number] <= distance + 1e-9).all()
