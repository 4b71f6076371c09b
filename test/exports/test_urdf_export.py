# SPDX-License-Identifier: Apache-2.0
"""The identified URDF: what it says, and that nothing else in the document moved."""

from pathlib import Path
import re
import warnings

from hypothesis import given, settings
from hypothesis import strategies as st
import mujoco
import numpy as np
import pinocchio as pin
import pytest
from robot_identification.errors import ConsistencyError, IdentificationWarning, ModelError
from robot_identification.exports.urdf_export import identified_urdf
from robot_identification.model.consistency import check
from robot_identification.model.parameters import ParameterLayout, ParameterSet
from robot_identification.model.robot import Robot
from robot_identification.model.urdf_repair import repaired_urdf, robot_with_inertia
from robot_identification.regressor import (
    DeltaSettings,
    ModelSettings,
    prior,
)
from robot_identification.regressor.delta import delta_robot

ROBOTS = Path(pin.__file__).parents[4] / 'share' / 'example-robot-data' / 'robots'

ARM = """<?xml version="1.0"?>
<!-- an arm   with two   joints -->
<robot name="arm"
       xmlns:xacro="http://www.ros.org/wiki/xacro">
  <!-- base -->
  <link name="base"/>
  <joint name="j1" type="revolute">
    <parent link="base"/><child link="l1"/>
    <origin xyz='0 0 0.3' rpy="0.1 0 0"/>
    <axis xyz="0 0 1"/>
    <limit lower="-1" upper="1" effort="9" velocity="2"/>
    <dynamics friction="0.5"   damping="1.0" /> <!-- from the data sheet -->
  </joint>
  <link name="l1">
    <inertial>
      <!-- guessed -->
      <mass
         value="3.0"/>
      <origin xyz="0.1 0 0" rpy="0.2 0 0.4"/>
      <inertia ixx="0.1" ixy="0" ixz="0" iyy="0.2" iyz="0" izz="0.25"/>
    </inertial>
    <visual><geometry><sphere radius="0.1"/></geometry></visual>
  </link>
  <joint name="flange" type="fixed">
    <parent link="l1"/><child link="tool"/>
    <origin xyz="0 0.2 0" rpy="0 0.5 0"/>
  </joint>
  <link name="tool"><inertial><mass value="0.5"/><origin xyz="0 0 0.05"/>
    <inertia ixx="1e-3" ixy="0" ixz="0" iyy="1e-3" iyz="0" izz="1e-3"/></inertial></link>
  <joint name="j2" type="continuous">
    <parent link="l1"/><child link="l2"/><origin xyz="0.4 0 0"/><axis xyz="0 1 0"/>
  </joint>
  <link name="l2">
    <inertial><mass value="1.0"/><inertia ixx="1" ixy="0" ixz="0"
      iyy="1" iyz="0" izz="1"/></inertial>
  </link>
  <joint name="grip" type="prismatic">
    <parent link="l2"/><child link="finger"/><origin xyz="0 0 0.1"/><axis xyz="0 0 2"/>
    <limit lower="0" upper="1" effort="9" velocity="2"/>
  </joint>
  <link name="finger"><inertial><origin xyz="0 0.01 0"/><mass value="0.1"/>
    <inertia ixx="1e-4" ixy="0" ixz="0" iyy="1e-4" iyz="0" izz="1e-4"/></inertial></link>
  <ros2_control name="hw"><joint name="j1"><dynamics damping="7"/></joint></ros2_control>
  <gazebo reference="l1"><inertial>untouched</inertial></gazebo>
</robot>
"""


def arm(**kwargs) -> Robot:
    kwargs.setdefault('locked', {'grip': 0.03})
    return Robot.from_urdf(ARM, ['j2', 'j1'], **kwargs)


def random_bodies(rng: np.random.Generator, layout: ParameterLayout, size: float = 1.0):
    """Physically consistent bodies: each a few point masses."""
    vectors = []
    for _ in layout.links:
        points, masses = rng.normal(0, 0.3 * size, (6, 3)), rng.uniform(0.2, 1.0, 6) * size
        bodies = [pin.Inertia(m, p, np.zeros((3, 3))) for m, p in zip(masses, points)]
        vectors.append(sum((b.toDynamicParameters() for b in bodies), np.zeros(10)))
    return ParameterSet(layout, np.concatenate(vectors))


def reread(robot: Robot, text: str) -> Robot:
    with warnings.catch_warnings():
        warnings.simplefilter('ignore', IdentificationWarning)
        return Robot.from_urdf(text, robot.joints, locked=robot.locked, gravity=robot.gravity)


def export(robot: Robot, parameters: ParameterSet) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter('ignore', IdentificationWarning)
        return identified_urdf(robot, parameters)


def assert_same_dynamics(robot: Robot, exported: Robot, parameters: ParameterSet, rng) -> None:
    truth = robot.with_parameters(parameters)
    data, other = truth.createData(), exported.model.createData()
    regressor_data = robot.model.createData()
    for _ in range(5):
        q = robot.configuration(rng.uniform(-1, 1, robot.n_joints))
        v, a = rng.normal(size=(2, robot.model.nv))
        expected = pin.rnea(truth, data, q, v, a)
        got = pin.rnea(exported.model, other, q, v, a)
        scale = np.abs(expected).max()
        assert np.abs(got - expected).max() < 1e-9 * scale
        rows = pin.computeJointTorqueRegressor(robot.model, regressor_data, q, v, a)
        vector = np.zeros(rows.shape[1])
        carriers = robot.carriers
        for index, link in zip(carriers.joint_ids, carriers.links, strict=True):
            vector[10 * (index - 1) : 10 * index] = parameters.inertial(link)
        assert np.abs(got - rows @ vector).max() < 1e-9 * scale


def test_reread_parameters_are_those_that_were_given():
    robot, rng = arm(), np.random.default_rng(1)
    parameters = random_bodies(rng, robot.layout)
    exported = reread(robot, identified_urdf(robot, parameters))
    assert np.allclose(exported.prior.values, parameters.values, rtol=1e-12, atol=1e-14)
    assert_same_dynamics(robot, exported, parameters, rng)


def test_what_is_lumped_keeps_its_own_inertia():
    robot = arm()
    parameters = random_bodies(np.random.default_rng(2), robot.layout)
    text = identified_urdf(robot, parameters)
    assert '<link name="tool"><inertial><mass value="0.5"/>' in text
    unlocked = Robot.from_urdf(text, ['j1', 'j2', 'grip'])
    assert unlocked.prior.inertial('finger')[0] == 0.1
    # with the finger somewhere else the arm is another one
    elsewhere = Robot.from_urdf(text, ['j2', 'j1'], locked={'grip': 0.0})
    assert not np.allclose(elsewhere.prior.inertial('l2'), parameters.inertial('l2'))


def test_link_that_carries_all_its_mass_in_a_fixed_child():
    text = ARM.replace('<mass\n         value="3.0"/>', '<mass value="1e-9"/>')
    text = text.replace('<mass value="0.5"/>', '<mass value="50"/>')
    robot = Robot.from_urdf(text, ['j1', 'j2'], locked={'grip': 0.0})
    parameters = random_bodies(np.random.default_rng(3), robot.layout)
    with pytest.warns(IdentificationWarning, match=r"link 'l1'.*tool got .* %") as said:
        exported = identified_urdf(robot, parameters)
    assert len(said) == 1
    assert 'value="50"' not in exported
    assert np.allclose(reread(robot, exported).prior.values, parameters.values, rtol=1e-12)
    masses = [float(m) for m in re.findall(r'<mass\s+value="(.*?)"', exported)]
    assert min(masses) > 0.0


def in_one_form(text: str) -> str:
    """Return `ARM` with tags on one line, double quotes, and namespaces before attributes."""
    text = text.replace("'0 0 0.3'", '"0 0 0.3"')
    text = re.sub(r'<robot (.*?)\s+(xmlns:.*?)>', r'<robot \2 \1>', text, flags=re.DOTALL)
    return re.sub(r'<[^>!]*>', lambda tag: ' '.join(tag[0].split()).replace(' />', '/>'), text)


def test_everything_but_the_form_of_tags_stays_to_the_letter():
    robot = arm()
    text = identified_urdf(robot, random_bodies(np.random.default_rng(4), robot.layout))
    pairs = list(zip(in_one_form(ARM).splitlines(), text.splitlines(), strict=True))
    changed = [old.strip() for old, new in pairs if old != new]
    expected = [
        '<mass value="3.0"/>',
        '<origin xyz="0.1',
        '<inertia ixx="0.1"',
        '<inertial><mass',
    ]
    assert [line[: len(start)] for line, start in zip(changed, expected, strict=True)] == expected


def test_parameters_of_no_link_change_only_the_form_of_tags():
    robot = arm()
    text = identified_urdf(robot, ParameterSet(ParameterLayout((), ()), np.empty(0)))
    assert text == in_one_form(ARM)
    assert identified_urdf(reread(robot, text), ParameterSet(ParameterLayout((), ()), [])) == text


def test_text_that_is_no_element_stays():
    text = ARM.replace('untouched', '<![CDATA[a < b]]> &amp;')
    assert text != ARM
    robot = Robot.from_urdf(text, ['j1', 'j2'], locked={'grip': 0.0})
    assert '<![CDATA[a < b]]> &amp;' in identified_urdf(robot, robot.prior)


def test_friction_goes_to_dynamics_and_the_rest_to_a_comment():
    robot = arm()
    names = ('j2.Ia', 'j2.fv', 'j2.fc', 'j1.fv', 'j1.fc', 'j1.off')
    layout = ParameterLayout(names, ('kg m^2', '', '', '', '', 'N m'))
    text = identified_urdf(robot, ParameterSet(layout, [0.1, 0.2, 0.3, 0.4, 0.5, 1e-05]))
    assert '<dynamics friction="0.5" damping="0.4"/> <!-- from the data sheet -->' in text
    assert '<axis xyz="0 1 0"/>\n    <dynamics damping="0.2" friction="0.3"/>\n  </joint>' in text
    assert 'j2.Ia = 0.1 kg m^2' in text and 'j1.off = 1e-05 N m' in text
    again = Robot.from_urdf(text, ['j2', 'j1'], locked={'grip': 0.0})
    once_more = identified_urdf(again, ParameterSet(layout, [0.7, 0.2, 0.3, 0.4, 0.5, 0.0]))
    assert once_more.count('robot_identification') == 1 and 'j2.Ia = 0.7 kg m^2' in once_more


def test_negative_friction_is_written_as_zero_and_said():
    layout = ParameterLayout(('j1.fc',), ('N m',))
    with pytest.warns(IdentificationWarning, match=r"'j1.fc' is -0.2"):
        text = identified_urdf(arm(), ParameterSet(layout, [-0.2]))
    assert 'friction="0.0"' in text


def test_elements_that_are_repeated_are_left_out_and_said():
    again = '<origin xyz="9 9 9"/><axis xyz="0 1 0"/>'
    robot = Robot.from_urdf(ARM.replace('<axis xyz="0 0 1"/>', '<axis xyz="0 0 1"/>' + again))
    with pytest.warns(IdentificationWarning, match='j1 that URDF has once are there again'):
        text = identified_urdf(robot, robot.prior)
    # MuJoCo refuses what is repeated
    joint = mujoco.MjModel.from_xml_string(text).joint('j1')
    assert joint.axis.tolist() == [0.0, 0.0, 1.0]


def test_link_without_inertial_gets_one():
    text = ARM.replace(
        '<inertial><mass value="1.0"/><inertia ixx="1" ixy="0" ixz="0"\n'
        '      iyy="1" iyz="0" izz="1"/></inertial>\n  ',
        '',
    ).replace('<link name="l2">\n    </link>', '<link name="l2"/>')
    assert '<link name="l2"/>' in text
    robot = Robot.from_urdf(text, ['j1', 'j2'], locked={'grip': 0.0})
    parameters = random_bodies(np.random.default_rng(5), robot.layout)
    exported = identified_urdf(robot, parameters)
    assert np.allclose(reread(robot, exported).prior.values, parameters.values, rtol=1e-12)
    assert '<link name="l2">\n    <inertial>\n      <origin xyz=' in exported


@pytest.mark.parametrize('mass', [0.5, -1.0, 0.5 + 1e-9])
def test_first_moment_without_mass_names_the_link(mass):
    # 0.5 kg is what hangs on the link, so nothing is left for itself
    robot = arm()
    with pytest.raises(ConsistencyError, match="link 'l1'") as error:
        export(robot, robot.prior.updated({'l1.m': mass, 'l1.mx': 0.4}))
    assert error.value.link == 'l1'


def test_unphysical_parameters_are_written_faithfully_and_said():
    robot = arm()
    values = robot.prior.updated({'l2.mx': 0.3, 'l2.Ixx': -0.7, 'l2.Iyz': 3.0})
    with pytest.warns(IdentificationWarning, match='identified for l2;'):
        text = identified_urdf(robot, values)
    assert np.allclose(reread(robot, text).prior.values, values.values, rtol=1e-12, atol=1e-14)


@settings(max_examples=30)
@given(seed=st.integers(0, 2**32 - 1), size=st.floats(1e-3, 1e3))
def test_round_trip_of_any_bodies(seed, size):
    robot, rng = arm(), np.random.default_rng(seed)
    parameters = random_bodies(rng, robot.layout, size)
    exported = reread(robot, export(robot, parameters))
    got = exported.prior.values.reshape(-1, 10)
    wanted = parameters.values.reshape(-1, 10)
    # the lumped links' own inertia is subtracted and added again: rounding relative to the larger
    scale = np.maximum(np.abs(wanted).max(axis=1, keepdims=True), 0.5)
    assert (np.abs(got - wanted) < 1e-12 * scale).all()


@pytest.mark.parametrize(
    'path',
    [
        'ur_description/urdf/ur5_robot.urdf',
        'panda_description/urdf/panda.urdf',
        'kinova_description/robots/kinova.urdf',
        'double_pendulum_description/urdf/double_pendulum.urdf',
        'anymal_b_simple_description/robots/anymal.urdf',
        'tiago_description/robots/tiago_no_hand.urdf',
        'romeo_description/urdf/romeo_small.urdf',
    ],
)
def test_real_robots_round_trip(path):
    if not (ROBOTS / path).is_file():
        pytest.skip(f'example-robot-data has no {path}')
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        robot = Robot.from_urdf(ROBOTS / path)
    rng = np.random.default_rng(6)
    parameters = random_bodies(rng, robot.layout)
    text = export(robot, parameters)
    assert_same_dynamics(robot, reread(robot, text), parameters, rng)


def test_exported_document_loads_in_mujoco_with_the_same_dynamics():
    mujoco = pytest.importorskip('mujoco')
    robot, rng = arm(), np.random.default_rng(7)
    parameters = random_bodies(rng, robot.layout, 3.0)
    text = identified_urdf(robot, parameters)
    model = mujoco.MjModel.from_xml_string(text)
    model.opt.gravity[:] = robot.gravity
    data = mujoco.MjData(model)
    place = {model.joint(i).name: i for i in range(model.njnt)}
    columns = [place[joint] for joint in robot.joints]
    truth = robot.with_parameters(parameters)
    for _ in range(5):
        q, v, a = rng.uniform(-1, 1, (3, 2))
        data.qpos[place['grip']] = robot.locked['grip']
        data.qpos[columns], data.qvel[columns], data.qacc[columns] = q, v, a
        mujoco.mj_inverse(model, data)
        got = data.qfrc_inverse[columns] + data.qfrc_passive[columns]
        friction = data.qfrc_constraint[columns]
        expected = pin.rnea(
            truth, truth.createData(), robot.configuration(q), robot.tangent(v), robot.tangent(a)
        )[robot.columns]
        assert np.allclose(got + friction, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())


@pytest.mark.parametrize('path', sorted((Path(__file__).parents[2] / 'urdf').glob('*.urdf')))
def test_our_own_robots_round_trip_and_load_in_mujoco(path):
    mujoco = pytest.importorskip('mujoco')
    robot, rng = Robot.from_urdf(path), np.random.default_rng(8)
    # heavier copies of the same bodies are physical ones
    factors = np.repeat(rng.uniform(1.0, 1.3, robot.n_joints), 10)
    parameters = ParameterSet(robot.layout, factors * robot.prior.values)
    text = export(robot, parameters)
    assert_same_dynamics(robot, reread(robot, text), parameters, rng)
    try:
        mujoco.MjModel.from_xml_string(robot.urdf)
    except ValueError as refusal:
        # the links of one paper's robot are no bodies that there can be, and those between the
        # slides of a delta robot's platform are none at all
        reasons = {'gautier_khalil_3r': 'A + B >= C', 'delta': 'mjMINVAL'}
        assert reasons[path.stem] in str(refusal)
        return
    assert mujoco.MjModel.from_xml_string(text).njnt >= robot.n_joints


@pytest.mark.parametrize('slopes', [(40.0, 50.0, 60.0), 50.0])
def test_slopes_of_friction_are_those_of_driven_joints_alone(slopes):
    geometry = DeltaSettings(
        base_radius=0.14, platform_radius=0.04, arm_length=0.2, forearm_length=0.46
    )
    robot = delta_robot(geometry, ['a', 'b', 'c'])
    model = ModelSettings(('viscous', 'stiction'), stiction_slope=slopes, delta=geometry)
    text = identified_urdf(robot, prior(robot, model), model)
    found = re.findall(r'stiction_slope of (\w+) = (\S+)', text)
    expected = np.broadcast_to(slopes, 3)
    assert found == [(joint, repr(float(s))) for joint, s in zip('abc', expected, strict=True)]


SOUND = '<mass value="1.5"/><inertia ixx="0.01" iyy="0.02" izz="0.02" ixy="0" ixz="0" iyz="0"/>'
THIN = '<mass value="2"/><inertia ixx="0.01" iyy="0.02" izz="0.2" ixy="0" ixz="0" iyz="0"/>'
BOX = (
    '<collision><origin xyz="0.1 0 0"/><geometry><box size="0.2 0.1 0.06"/></geometry></collision>'
)


def three_links(first, second, third, tool=''):
    """Return three links in a row and what is fixed to the first."""
    joint = (
        '<joint name="{}" type="{}"><parent link="{}"/><child link="{}"/>'
        '<origin xyz="0.3 0 0"/><axis xyz="0 {} 1"/><limit effort="9" velocity="9"/></joint>'
    )
    bodies = ''.join(
        f'<link name="{name}"><!-- {name} -->{inside}</link>'
        for name, inside in (('a', first), ('b', second), ('c', third), ('tool', tool))
    )
    return (
        f'<robot name="three"><link name="base"/>{bodies}'
        + joint.format('j1', 'continuous', 'base', 'a', 0)
        + joint.format('j2', 'continuous', 'a', 'b', 1)
        + joint.format('j3', 'continuous', 'b', 'c', 1)
        + joint.format('jt', 'fixed', 'a', 'tool', 0)
        + '</robot>'
    )


def inertial(inside):
    return f'<inertial>{inside}</inertial>'


def test_impossible_and_missing_bodies_are_repaired_and_others_kept():
    text = three_links(inertial(THIN), '', BOX, inertial(SOUND))
    robot = Robot.from_urdf(text, massless=True)
    assert not check(robot.prior).physical
    repaired, remarks = repaired_urdf(robot)
    after = Robot.from_urdf(repaired)
    assert check(after.prior).physical
    assert [remark.split("'")[1] for remark in remarks] == ['a', 'b', 'c']
    assert 'nearest' in remarks[0] and 'neighbours' in remarks[1] and 'shapes' in remarks[2]
    assert after.prior['a.m'] == pytest.approx(3.5)
    assert after.prior['c.m'] == pytest.approx(1200.0 * 0.2 * 0.1 * 0.06)
    assert inertial(SOUND) in repaired and '<!-- b -->' in repaired
    assert mujoco.MjModel.from_xml_string(repaired).nv == 3
    assert repaired_urdf(after)[1] == ()


def test_a_negative_moment_is_repaired_and_exported_as_identified():
    """The nearest second moments of mass: those below a hundredth of the largest are raised."""
    negative = SOUND.replace('ixx="', 'ixx="-')
    assert negative != SOUND
    robot = Robot.from_urdf(three_links(inertial(negative), *[inertial(SOUND)] * 3))
    assert not check(robot.prior).physical
    repaired, remarks = repaired_urdf(robot)
    assert len(remarks) == 1
    after = Robot.from_urdf(repaired)
    assert check(after.prior).physical
    for name in ('a.m', 'a.mx', 'a.my', 'a.mz'):
        assert after.prior[name] == pytest.approx(robot.prior[name])
    assert mujoco.MjModel.from_xml_string(repaired).nv == 3
    # an identified robot is written whatever its prior was
    sound = after.prior
    again = Robot.from_urdf(identified_urdf(robot, sound))
    np.testing.assert_allclose(again.prior.values, sound.values, atol=1e-9)


def test_a_sound_urdf_stays_as_it_is_to_the_letter():
    text = three_links(*[inertial(SOUND)] * 4)
    assert repaired_urdf(Robot.from_urdf(text)) == (text, ())


def test_a_rotated_inertia_is_judged_in_its_own_frame():
    turned = f'<origin xyz="0.5 0 0" rpy="0.4 0.5 0.6"/>{SOUND}'
    text = three_links(*[inertial(turned)] * 4)
    assert repaired_urdf(Robot.from_urdf(text)) == (text, ())
    wrong = text.replace('izz="0.02"', 'izz="0.04"')
    repaired, remarks = repaired_urdf(Robot.from_urdf(wrong))
    assert len(remarks) == 4
    before, after = (Robot.from_urdf(each).prior for each in (wrong, repaired))
    for symbol in ('m', 'mx', 'my', 'mz'):
        np.testing.assert_allclose(after[f'c.{symbol}'], before[f'c.{symbol}'], atol=1e-12)


def test_a_robot_whose_last_link_has_no_inertia_can_be_identified(tmp_path):
    text = three_links(inertial(SOUND), inertial(SOUND), BOX)
    with pytest.raises(ModelError, match='--repair'):
        Robot.from_urdf(text)
    path = tmp_path / 'arm.urdf'
    path.write_text(text)
    with pytest.warns(IdentificationWarning, match="link 'c' has no inertia: a body that fills"):
        robot = robot_with_inertia(path, ('j3', 'j1', 'j2'))
    assert check(robot.prior).physical and robot.path == robot.opened.path == path
    assert robot.joints == ('j3', 'j1', 'j2')
    assert any('fills its shapes' in note for note in robot.warnings)


def test_robots_with_inertia_are_read_as_ever():
    text = three_links(inertial(SOUND), '', inertial(SOUND))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter('always')
        robot = robot_with_inertia(text)
    assert robot.urdf == text and not robot.prior.inertial('b').any()
    assert [str(warning.message) for warning in caught] == [
        'no <inertial>, so their prior is zero: b'
    ]
