# SPDX-License-Identifier: Apache-2.0
"""
The regressor against Pinocchio's, against RNEA and against the written equations.

Entries of a regressor's rows that are not zero for every motion.

Adjoint of the regressor: the gradients are those of differences, for all kinds of columns.
"""

from __future__ import annotations

from pathlib import Path
import tracemalloc
import warnings

import numpy as np
import pinocchio as pin
import pytest
from robot_identification.data.recording import Motion
from robot_identification.errors import (
    IdentificationWarning,
    ModelError,
    SettingsError,
)
from robot_identification.model.parameters import ParameterSet
from robot_identification.model.robot import Robot
from robot_identification.options.fields import from_mapping
from robot_identification.regressor import (
    build,
    CoupledDrive,
    ElasticJoints,
    ModelSettings,
    predict,
    prior,
    Regressor,
)
from robot_identification.regressor.inverse_dynamics import (
    by_differences,
    entries,
    pull_back,
    row_pattern,
    RowPattern,
)
from robot_identification.regressor.rigid import BLOCK, RigidBodies

RIGID = ModelSettings(friction=(), rotor_inertia=False)

CARTESIAN = """
<robot name="cartesian">
  <link name="base"/>
  <link name="bridge"><inertial><mass value="8"/><origin xyz="0.1 0.2 0.05"/>
    <inertia ixx="0.3" ixy="0.01" ixz="0.02" iyy="0.4" iyz="0" izz="0.5"/></inertial></link>
  <link name="plate"><inertial><mass value="3"/><origin xyz="0.1 -0.1 0.2"/>
    <inertia ixx="0.1" ixy="0" ixz="0" iyy="0.2" iyz="0.01" izz="0.2"/></inertial></link>
  <link name="boom"><inertial><mass value="2"/><origin xyz="0 0.3 0"/>
    <inertia ixx="0.1" ixy="0" ixz="0" iyy="0.05" iyz="0" izz="0.1"/></inertial></link>
  <link name="tool"><inertial><mass value="1"/><origin xyz="0 0 0.1"/>
    <inertia ixx="0.01" ixy="0" ixz="0" iyy="0.01" iyz="0" izz="0.02"/></inertial></link>
  <joint name="x" type="prismatic"><parent link="base"/><child link="bridge"/>
    <origin xyz="0 0 1" rpy="0.1 0.2 0.3"/><axis xyz="1 0 0"/>
    <limit lower="-1" upper="1" velocity="1" effort="1"/>
    <dynamics damping="2.5" friction="4"/></joint>
  <joint name="turn" type="continuous"><parent link="bridge"/><child link="plate"/>
    <origin xyz="0.2 0 0" rpy="0 0.5 0"/><axis xyz="0.6 0 0.8"/>
    <dynamics friction="0.5"/></joint>
  <joint name="out" type="prismatic"><parent link="plate"/><child link="boom"/>
    <origin xyz="0 0.2 0" rpy="1 0 0"/><axis xyz="0.48 -0.6 0.64"/>
    <limit lower="0" upper="1" velocity="1" effort="1"/></joint>
  <joint name="spin" type="revolute"><parent link="bridge"/><child link="tool"/>
    <origin xyz="0 0 0.4" rpy="0 1.5707963267948966 0"/><axis xyz="0 -1 0"/>
    <limit lower="-3" upper="3" velocity="1" effort="1"/></joint>
</robot>
"""


def example_robots() -> Path:
    """Folder of the robots of example-robot-data, which pip installs beside Pinocchio."""
    for folder in Path(pin.__file__).parents:
        if folder.name == 'cmeel.prefix':
            robots = folder / 'share/example-robot-data/robots'
            if robots.is_dir():
                return robots
    pytest.skip('example-robot-data is not installed beside Pinocchio')


EXAMPLES = {
    'panda': 'panda_description/urdf/panda.urdf',  # seven axes and a sliding gripper
    'ur5': 'ur_description/urdf/ur5_robot.urdf',  # axes y and z
    'talos': 'talos_data/robots/talos_reduced.urdf',  # arms, legs and a head
    'tiago': 'tiago_description/robots/tiago_no_hand.urdf',  # continuous wheels, a sliding torso
    'romeo': 'romeo_description/urdf/romeo.urdf',  # 55 joints, branched hands
    'pr2': 'pr2_description/urdf/pr2.urdf',
}


def load(name, **arguments):
    with warnings.catch_warnings():
        warnings.simplefilter('ignore', IdentificationWarning)
        if name == 'cartesian':
            return Robot.from_urdf(CARTESIAN, **arguments)
        return Robot.from_urdf(example_robots() / EXAMPLES[name], **arguments)


def random_motion(robot, n_samples, seed=0):
    return Motion(*np.random.default_rng(seed).uniform(-3.0, 3.0, (3, n_samples, robot.n_joints)))


def pinocchio_regressor(robot, motion):
    """Pinocchio's regressor, sample by sample, in the order of the robot's joints."""
    data = robot.model.createData()
    links = np.concatenate([10 * (i - 1) + np.arange(10) for i in robot.carriers.joint_ids])
    states = (
        robot.configuration(motion.position),
        robot.tangent(motion.velocity),
        robot.tangent(motion.acceleration),
    )
    return np.concatenate(
        [
            robot.cotangent(
                pin.computeJointTorqueRegressor(robot.model, data, q, v, a)[:, links].T
            ).T
            for q, v, a in zip(*states, strict=True)
        ]
    )


def rnea(robot, model, motion):
    data = model.createData()
    states = (
        robot.configuration(motion.position),
        robot.tangent(motion.velocity),
        robot.tangent(motion.acceleration),
    )
    effort = [pin.rnea(model, data, q, v, a) for q, v, a in zip(*states, strict=True)]
    return robot.cotangent(np.array(effort))


@pytest.mark.parametrize('name', ['cartesian', *EXAMPLES])
def test_rigid_rows_equal_pinocchio(name):
    robot = load(name, gravity=(3.0, -5.0, -8.0))
    motion = random_motion(robot, 3)
    expected = pinocchio_regressor(robot, motion)
    rows = build(robot, RIGID).rows(motion)
    assert rows.shape == expected.shape
    assert rows == pytest.approx(expected, rel=0.0, abs=1e-10 * np.abs(expected).max())
    # column by column, so that a small column is not judged by a large one
    scale = np.linalg.norm(expected, axis=0)
    assert (np.linalg.norm(rows - expected, axis=0) <= 1e-10 * scale + 1e-10).all()


@pytest.mark.parametrize('name', ['cartesian', 'panda', 'tiago'])
def test_order_of_joints_is_the_callers(name):
    robot = load(name)
    names = list(np.random.default_rng(5).permutation(robot.joints))
    shuffled = load(name, joints=names)
    motion = random_motion(shuffled, 4)
    expected = pinocchio_regressor(shuffled, motion)
    rows = build(shuffled, RIGID).rows(motion)
    assert rows == pytest.approx(expected, rel=0.0, abs=1e-10 * np.abs(expected).max())


def test_locked_joints_are_lumped():
    kept = ['panda_joint2', 'panda_joint4', 'panda_joint6']
    held = {f'panda_joint{i}': 0.3 * i for i in (1, 3, 5, 7)}
    held |= {'panda_finger_joint1': 0.02, 'panda_finger_joint2': 0.03}
    robot = load('panda', joints=kept, locked=held)
    motion = random_motion(robot, 6)
    effort = predict(build(robot, RIGID), motion, robot.prior)
    # the whole arm, with the held joints at rest
    arm = load('panda', joints=[*load('panda').joints, 'panda_finger_joint2'])
    states = [np.zeros((6, arm.n_joints)) for _ in range(3)]
    for joint, position in held.items():
        states[0][:, arm.joint_index(joint)] = position
    columns = [arm.joint_index(joint) for joint in kept]
    for state, given in zip(
        states, (motion.position, motion.velocity, motion.acceleration), strict=True
    ):
        state[:, columns] = given
    expected = rnea(arm, arm.model, Motion(*states))[:, columns]
    assert effort == pytest.approx(expected, rel=1e-10, abs=1e-10)


@pytest.mark.parametrize('name', ['cartesian', 'panda', 'talos'])
def test_efforts_equal_rnea_and_the_written_friction(name):
    robot = load(name)
    drive = CoupledDrive(robot.joints[-1], robot.joints[-2:], ratios=(2.0, -0.5))
    if name == 'cartesian':
        drive = CoupledDrive('spin', ('turn', 'spin'), ratios=(2.0, -0.5))
    elif name == 'panda':
        drive = CoupledDrive('panda_joint7', ('panda_joint6', 'panda_joint7'), ratios=(2.0, -0.5))
    regressor = build(robot, ModelSettings(coupled_drives=(drive,)))
    random = np.random.default_rng(1)
    values = random.normal(size=len(regressor.layout))
    for link in robot.links:
        # any mass that Pinocchio can turn into a centre of mass; the rest may be unphysical
        values[regressor.layout.index(f'{link}.m')] = random.uniform(0.5, 2.0)
    parameters = ParameterSet(regressor.layout, values)
    motion = random_motion(robot, 300)
    q, v, a = motion.position, motion.velocity, motion.acceleration
    expected = rnea(robot, robot.with_parameters(parameters), motion)
    for i, joint in enumerate(robot.joints):
        expected[:, i] += (
            parameters[f'{joint}.Ia'] * a[:, i]
            + parameters[f'{joint}.fv'] * v[:, i]
            + parameters[f'{joint}.fc'] * np.sign(v[:, i])
            + parameters[f'{joint}.off']
        )
    one, two = (robot.joint_index(joint) for joint in drive.joints)
    r1, r2 = drive.ratios
    inertia, viscous, coulomb = (parameters[f'{drive.motor}.{s}'] for s in ('Iam', 'fvm', 'fcm'))
    speed = r1 * v[:, one] + r2 * v[:, two]
    friction = viscous * speed + coulomb * np.sign(speed)
    expected[:, one] += r1 * (inertia * r2 * a[:, two] + friction)
    expected[:, two] += r2 * (inertia * r1 * a[:, one] + friction)
    effort = predict(regressor, motion, parameters)
    assert effort == pytest.approx(expected, rel=1e-10, abs=1e-10 * np.abs(expected).max())
    assert q.shape == effort.shape


def test_coupled_rows_are_those_of_the_tx40():
    # Gautier & Venture (2013), section IV, with the sign of the whole motor speed in both rows
    robot = load('ur5')
    five, six = robot.joints[4:6]
    motion = random_motion(robot, 20)
    v, a = motion.velocity, motion.acceleration
    speed = v[:, 4] + v[:, 5]

    def column(inertia, symbol):
        settings = ModelSettings(coupled_drives=(CoupledDrive(six, (five, six), inertia),))
        regressor = build(robot, settings)
        rows = regressor.rows(motion).reshape(20, 6, -1)
        return rows[..., regressor.layout.index(f'{six}.{symbol}')]

    zero = np.zeros((20, 4))
    for inertia in ('separate', 'tied'):
        assert np.array_equal(column(inertia, 'fvm'), np.column_stack([zero, speed, speed]))
        sign = np.sign(speed)
        assert np.array_equal(column(inertia, 'fcm'), np.column_stack([zero, sign, sign]))
    separate = np.column_stack([zero, a[:, 5], a[:, 4]])
    assert column('separate', 'Iam') == pytest.approx(separate, rel=1e-14)
    own = np.column_stack([zero, np.zeros(20), a[:, 5]])
    assert column('separate', 'Ia') == pytest.approx(own, rel=1e-14)
    assert column('tied', 'Ia') == pytest.approx(own + separate, rel=1e-14)


def test_tied_and_separate_are_the_same_model():
    # Where Iam = Ia / r^2, the two descriptions give the same efforts
    robot = load('ur5')
    five, six = robot.joints[4:6]
    efforts = []
    for kind in ('separate', 'tied'):
        drive = CoupledDrive(six, (five, six), kind, ratios=(0.7, -2.0))
        regressor = build(robot, ModelSettings(coupled_drives=(drive,)))
        known = {f'{six}.Ia': 0.8, f'{six}.Iam': 0.8 / 4.0, f'{five}.Ia': 0.3, f'{six}.fvm': 0.1}
        parameters = prior(robot, ModelSettings(coupled_drives=(drive,)))
        parameters = parameters.updated({k: x for k, x in known.items() if k in regressor.layout})
        efforts.append(predict(regressor, random_motion(robot, 50), parameters))
    assert efforts[0] == pytest.approx(efforts[1], rel=1e-12)


def test_layout_is_links_then_joints_then_drives():
    robot = load('cartesian')
    drive = CoupledDrive('spin', ('turn', 'spin'))
    settings = ModelSettings(coupled_drives=(drive,))
    layout = build(robot, settings).layout
    assert layout.names[:40] == robot.layout.names
    own = [f'{joint}.{s}' for joint in robot.joints for s in ('Ia', 'fv', 'fc', 'off')]
    assert list(layout.names[40:]) == [*own, 'spin.Iam', 'spin.fvm', 'spin.fcm']
    units = dict(zip(layout.names, layout.units, strict=True))
    assert [units[f'x.{s}'] for s in ('Ia', 'fv', 'fc', 'off')] == ['kg', 'N s/m', 'N', 'N']
    assert units['turn.fv'] == 'N m s/rad'
    only = build(robot, ModelSettings(friction=('coulomb',), rotor_inertia=False)).layout
    assert list(only.names[40:]) == [f'{joint}.fc' for joint in robot.joints]
    # without rotor inertias there is no coupling inertia either
    bare = ModelSettings(friction=('viscous',), rotor_inertia=False, coupled_drives=(drive,))
    assert build(robot, bare).layout.names[44:] == ('spin.fvm',)


def test_prior_is_what_the_urdf_says():
    robot = load('cartesian')
    parameters = prior(robot)
    assert parameters.layout == build(robot).layout
    assert parameters['x.fv'] == 2.5
    assert parameters['x.fc'] == 4.0
    assert parameters['turn.fc'] == 0.5
    assert parameters['turn.fv'] == parameters['spin.fv'] == parameters['x.Ia'] == 0.0
    assert parameters['bridge.m'] == 8.0
    assert parameters['bridge.mx'] == pytest.approx(0.8)
    assert np.array_equal(parameters.values[:40], robot.prior.values)
    assert 'x.fv' not in prior(robot, RIGID).layout


def test_bad_dynamics_are_named():
    text = CARTESIAN.replace('damping="2.5"', 'damping="much"')
    with pytest.raises(
        ModelError, match="damping of <dynamics> of joint 'x' .* is 'much'"
    ) as caught:
        Robot.from_urdf(text)
    assert caught.value.joint == 'x'


def test_blocks_do_not_show():
    robot = load('cartesian')
    regressor = build(robot)
    motion = random_motion(robot, 2 * BLOCK + 17)
    whole = regressor.rows(motion)
    assert whole.flags.c_contiguous
    parts = [regressor.rows(motion.rows(i, i + 100)) for i in range(0, len(motion), 100)]
    assert np.array_equal(whole, np.concatenate(parts))
    assert regressor.rows(motion.rows(0, 0)).shape == (0, len(regressor.layout))


def test_memory_beside_the_result_does_not_grow():
    robot = load('panda')
    regressor = build(robot)
    motion = random_motion(robot, 20 * BLOCK)
    regressor.rows(motion.rows(0, 10))
    tracemalloc.start()
    rows = regressor.rows(motion)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak - rows.nbytes < 0.1 * rows.nbytes


def test_only_what_a_joint_carries_is_written():
    # the blocks that are zero for every motion are never touched
    robot = load('talos')
    rigid = RigidBodies.from_robot(robot)
    motion = random_motion(robot, 3)
    out = np.full((3, robot.n_joints, 10 * robot.n_joints), np.nan)
    rigid.fill(motion, out)
    expected = pinocchio_regressor(robot, motion).reshape(out.shape)
    carried = np.zeros(out.shape[1:], dtype=bool)
    for joint in rigid.tree.joints:
        for i in joint.path:
            carried[rigid.tree.joints[i].column, 10 * joint.column : 10 * joint.column + 10] = True
    assert np.isnan(out[:, ~carried]).all()
    assert not expected[:, ~carried].any()
    assert carried.mean() < 0.3


def test_regressor_keeps_its_protocol():
    robot = load('cartesian')
    regressor = build(robot)
    assert isinstance(regressor, Regressor)
    with pytest.raises(ValueError, match='3 joints, the regressor 4'):
        regressor.rows(Motion(*np.zeros((3, 5, 3))))
    with pytest.raises(ValueError, match='not those of the regressor'):
        predict(regressor, random_motion(robot, 2), robot.prior)


@pytest.mark.parametrize(
    ('mapping', 'text'),
    [
        ({'friction': ['sticky']}, 'sticky'),
        ({'friction': ['viscous', 'viscous']}, 'named twice'),
        ({'coupled_drives': [{'motor': 'a', 'joints': ['b', 'c']}]}, "motor 'a'"),
        ({'coupled_drives': [{'motor': 'a', 'joints': ['a']}]}, 'two or more'),
        ({'coupled_drives': [{'motor': 'a', 'joints': ['a', 'b'], 'ratios': [1.0]}]}, 'ratios'),
        ({'coupled_drives': [{'motor': 'a', 'joints': ['a', 'b'], 'inertia': 'own'}]}, 'own'),
        ({'coupled_drives': [{'motor': 'a', 'joints': ['a', 'b']}] * 2}, 'two coupled drives'),
        ({'rotor': True}, "unknown key 'model.rotor'"),
    ],
)
def test_bad_settings_are_named(mapping, text):
    with pytest.raises(SettingsError, match=text):
        from_mapping(ModelSettings, mapping, 'model')


def test_coupled_joints_have_to_be_identified_and_alike():
    robot = load('cartesian')
    for joints, text in ((('spin', 'wrist'), "'wrist'"), (('spin', 'x'), 'turn and that slide')):
        settings = ModelSettings(coupled_drives=(CoupledDrive('spin', joints),))
        with pytest.raises(SettingsError, match=text):
            build(robot, settings)


URDF = Path(__file__).resolve().parents[2] / 'urdf'


def test_expand_puts_entries_where_they_belong():
    pattern = RowPattern((np.array([0, 2]), np.array([], dtype=int), np.array([1])), 3)
    assert pattern.offsets.tolist() == [0, 2, 2, 3]
    assert pattern.width == 3
    dense = pattern.expand(np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]))
    assert dense.tolist() == [
        [[1, 0, 3], [0, 0, 0], [0, 5, 0]],
        [[2, 0, 4], [0, 0, 0], [0, 6, 0]],
    ]
    nothing = RowPattern((), 0)
    assert nothing.width == 0
    assert nothing.expand(np.empty((0, 4))).shape == (4, 0, 0)


@pytest.mark.parametrize(
    'settings',
    [
        ModelSettings(),
        ModelSettings(friction=(), rotor_inertia=False),
        ModelSettings(coupled_drives=(CoupledDrive('joint_6', ('joint_5', 'joint_6')),)),
        ModelSettings(elastic=ElasticJoints()),
    ],
)
def test_entries_are_those_of_the_dense_rows(settings):
    robot = Robot.from_urdf(URDF / 'tx40.urdf')
    regressor = build(robot, settings)
    random = np.random.default_rng(2)
    columns = np.sort(random.permutation(len(regressor.layout))[:40])
    motion = Motion(*random.uniform(-3.0, 3.0, (3, 70, regressor.n_joints)))
    dense = regressor.rows(motion).reshape(70, regressor.n_joints, -1)[:, :, columns]
    pattern = row_pattern(regressor, columns)
    found = entries(regressor, motion, columns, pattern)
    assert found.shape == (pattern.width, 70)
    assert found.flags.c_contiguous
    assert pattern.size == 40
    assert np.abs(pattern.expand(found) - dense).max() <= 1e-12 * np.abs(dense).max()
    assert pattern.width < 0.7 * dense[0].size
    out = np.empty_like(found)
    assert entries(regressor, motion, columns, pattern, out) is out
    assert np.array_equal(out, found)


def test_product_and_gather_are_those_of_whole_rows():
    random = np.random.default_rng(3)
    pattern = RowPattern((np.array([0, 2]), np.array([], dtype=int), np.array([1])), 3)
    found, values = random.normal(size=(3, 5)), random.normal(size=3)
    rows = pattern.expand(found)
    np.testing.assert_allclose(pattern.product(found, values), rows @ values, rtol=1e-14)
    np.testing.assert_array_equal(pattern.gather(rows), found)
    assert RowPattern.full(3, 3).gather(rows).shape == (9, 5)
    assert pattern.same(RowPattern(tuple(pattern.columns), 3))
    assert not pattern.same(RowPattern(tuple(pattern.columns), 4))
    assert not pattern.same(RowPattern((*pattern.columns[1:], np.array([0, 2])), 3))


def assert_exact(regressor, motion, weights):
    """Hold the adjoint against differences."""
    expected = by_differences(regressor.rows, motion, weights)
    for found, wanted in zip(pull_back(regressor, motion, weights), expected, strict=True):
        np.testing.assert_allclose(found, wanted, atol=2e-5 * np.abs(wanted).max())


def normal_motion(robot, samples, seed=0):
    return Motion(*np.random.default_rng(seed).standard_normal((3, samples, robot.n_joints)))


@pytest.mark.parametrize('name', ['demo_arm', 'puma560', 'tx40', 'gautier_khalil_3r'])
@pytest.mark.parametrize('friction', [('viscous', 'coulomb', 'offset'), ('load', 'root')])
def test_gradients_are_those_of_differences(name, friction):
    robot = Robot.from_urdf(URDF / f'{name}.urdf')
    regressor = build(robot, ModelSettings(friction=friction))
    # more than one block of the kernel, and not a whole number of them
    motion = normal_motion(robot, 101)
    weights = np.random.default_rng(1).standard_normal(
        (101, robot.n_joints, len(regressor.layout))
    )
    assert_exact(regressor, motion, weights)


def test_slopes_of_efforts_are_pinocchios():
    robot = Robot.from_urdf(URDF / 'demo_arm.urdf')
    regressor = build(robot, ModelSettings(friction=(), rotor_inertia=False))
    motion = normal_motion(robot, 20)
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
    motion = normal_motion(robot, 80)
    weights = np.random.default_rng(1).standard_normal((80, 2, len(regressor.layout)))
    assert_exact(regressor, motion, weights)


def test_without_the_kernel_differences_are_taken(monkeypatch):
    robot = Robot.from_urdf(URDF / 'gautier_khalil_3r.urdf')
    regressor = build(robot)
    motion = normal_motion(robot, 10)
    weights = np.random.default_rng(1).standard_normal((10, 3, len(regressor.layout)))
    exact = pull_back(regressor, motion, weights)
    monkeypatch.setattr(type(regressor), 'kernel_data', None)
    for found, expected in zip(pull_back(regressor, motion, weights), exact, strict=True):
        np.testing.assert_allclose(found, expected, atol=2e-5 * np.abs(expected).max())
