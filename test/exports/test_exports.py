# SPDX-License-Identifier: Apache-2.0
"""
Exports of identified robots.

SDF is read back by SDFormat's rules for frames into a model of Pinocchio; C code is compiled by
the system's compiler and compared with the regressor.
"""

from contextlib import nullcontext
import csv
import ctypes
from dataclasses import replace
import io
from pathlib import Path
import shutil
import subprocess
from types import SimpleNamespace

from gripper_arm import gripper
from lxml import etree
import numpy as np
import pinocchio as pin
import pytest
from robot_identification.data.recording import Motion
from robot_identification.errors import IdentificationWarning, ModelError, SettingsError
from robot_identification.exports.actuators import isaaclab_efforts
from robot_identification.exports.c_export import c_code, identifier
from robot_identification.exports.formats import export, FORMATS
from robot_identification.exports.robot_export import parameters_csv, parameters_yaml
from robot_identification.exports.sdf_export import sdf, SMALLEST
from robot_identification.exports.urdf_export import identified_urdf
from robot_identification.model.robot import Robot
from robot_identification.regressor import (
    build,
    CoupledDrive,
    DeltaSettings,
    ElasticJoints,
    LoopSettings,
    ModelSettings,
    predict,
    prior,
)
from robot_identification.regressor.kinds import KINDS
from robot_identification.results.result import write_result
from robot_identification.results.stored_result import read_result
import yaml

ROOT = Path(__file__).resolve().parents[2]
TREE = """<robot name="tree"><link name="base"/>
  <link name="trunk"><inertial><origin xyz="0.1 0 0.2" rpy="0.3 0.2 0.1"/><mass value="3"/>
    <inertia ixx="0.1" ixy="0.01" ixz="0.02" iyy="0.12" iyz="0.005" izz="0.09"/></inertial></link>
  <link name="tip"><inertial><origin xyz="0 0.1 0.05"/><mass value="1"/>
    <inertia ixx="0.02" ixy="0" ixz="0" iyy="0.02" iyz="0" izz="0.01"/></inertial>
    <visual><geometry><mesh filename="package://a/b.stl" scale="1 2 3"/></geometry></visual></link>
  <link name="flange"><collision><origin xyz="0 0 1"/><geometry><box size="1 2 3"/></geometry>
    </collision></link>
  <link name="camera"><inertial><mass value="0.2"/>
    <inertia ixx="1e-4" ixy="0" ixz="0" iyy="1e-4" iyz="0" izz="1e-4"/></inertial></link>
  <joint name="turn" type="continuous"><parent link="base"/><child link="trunk"/>
    <origin xyz="0 0 0.3" rpy="0.4 0 0.2"/><axis xyz="0 0.6 0.8"/></joint>
  <joint name="tip" type="prismatic"><parent link="trunk"/><child link="tip"/>
    <origin xyz="-0.1 0 0.4" rpy="0 0 0.7"/><axis xyz="0 1 0"/>
    <limit lower="-3" upper="3" velocity="2" effort="50"/><dynamics damping="2"/></joint>
  <joint name="weld" type="fixed"><parent link="tip"/><child link="flange"/>
    <origin xyz="0.1 0.2 0.3" rpy="0.1 0.2 0.3"/></joint>
  <joint name="bolt" type="fixed"><parent link="flange"/><child link="camera"/>
    <origin xyz="0 0 0.1" rpy="0.5 0 0"/></joint></robot>"""


def pose(element):
    child = element.find('pose')
    values = [0.0] * 6 if child is None else [float(number) for number in child.text.split()]
    return pin.SE3(pin.rpy.rpyToMatrix(*values[3:]), np.array(values[:3]))


def resolved(model):
    """Poses in the world of all links, joints and frames, as SDFormat resolves them."""
    elements = {e.get('name'): e for tag in ('link', 'joint', 'frame') for e in model.iter(tag)}

    def of(name):
        if name in ('world', '__model__', None):
            return pin.SE3.Identity()
        element = elements[name]
        child = element.find('pose')
        frame = None if child is None else child.get('relative_to')
        frame = frame or element.get('attached_to') or element.findtext('child')
        return of(frame) * pose(element)

    return {name: of(name) for name in elements}


def pinocchio_model(text):
    model = etree.fromstring(text).find('model')
    at = resolved(model)
    built, joints = pin.Model(), {'world': 0}
    kinds = {'prismatic': pin.JointModelPrismaticUnaligned, 'fixed': None}
    carriers = {frame.get('name'): frame.get('attached_to') for frame in model.iter('frame')}
    for joint in model.iterfind('joint'):
        parent, child = joint.findtext('parent'), joint.findtext('child')
        kind = kinds.get(joint.get('type'), pin.JointModelRevoluteUnaligned)
        parent = carriers.get(parent, parent)
        # where the parent's joint frame is
        base = at[built.names[joints[parent]]] if joints[parent] else pin.SE3.Identity()
        if kind is None:
            joints[child] = joints[parent]
        else:
            axis = np.array([float(x) for x in joint.findtext('axis/xyz').split()])
            place = base.actInv(at[joint.get('name')])
            joints[child] = built.addJoint(joints[parent], kind(axis), place, joint.get('name'))
            base = at[joint.get('name')]
        link = model.find(f"link[@name='{child}']")
        own = link.find('inertial')
        xx, xy, xz, yy, yz, zz = (
            float(own.findtext(f'inertia/{e}')) for e in ('ixx', 'ixy', 'ixz', 'iyy', 'iyz', 'izz')
        )
        tensor = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
        body = pin.Inertia(float(own.findtext('mass')), np.zeros(3), tensor)
        built.appendBodyToJoint(joints[child], body, base.actInv(at[child]) * pose(own))
    return built


@pytest.mark.parametrize('source', ['tx40', 'puma560', 'tree'])
def test_inverse_dynamics_of_the_sdf_is_that_of_the_identified_robot(source):
    path = ROOT / 'urdf' / f'{source}.urdf'
    robot = Robot.from_urdf(TREE if source == 'tree' else path)
    random = np.random.default_rng(0)
    parameters = prior(robot, ModelSettings((), False))
    factors = np.repeat(random.uniform(0.8, 1.25, robot.n_joints), 10)
    parameters = type(parameters)(parameters.layout, parameters.values * factors)
    with pytest.warns() if source == 'tree' else nullcontext():
        text = sdf(identified_urdf(robot, parameters))
    found, ours = pinocchio_model(text), robot.with_parameters(parameters)
    assert list(found.names)[1:] == [
        name.replace('tip', 'tip_joint') for name in list(ours.names)[1:]
    ]
    for _ in range(5):
        q, v, a = random.uniform(-2.0, 2.0, (3, robot.n_joints))
        expected = pin.rnea(
            ours, ours.createData(), robot.configuration(q), robot.tangent(v), robot.tangent(a)
        )[robot.columns]
        efforts = pin.rnea(found, found.createData(), q, v, a)
        np.testing.assert_allclose(efforts, expected, rtol=1e-9, atol=1e-8)


def tree():
    with pytest.warns(IdentificationWarning, match="joint 'tip' has the name of a link"):
        return etree.fromstring(sdf(TREE)).find('model')


def test_massless_links_on_fixed_joints_are_frames_with_their_shapes_on_the_carrier():
    model = tree()
    assert [link.get('name') for link in model.iterfind('link')] == [
        'base', 'trunk', 'tip', 'camera'
    ]  # fmt: skip
    assert model.find('frame').get('attached_to') == 'tip'
    collision = model.find("link[@name='tip']/collision")
    assert collision.find('pose').get('relative_to') == 'flange'
    assert collision.findtext('geometry/box/size') == '1 2 3'


def test_a_root_called_world_is_that_of_sdf():
    with pytest.warns(IdentificationWarning, match="joint 'tip'"):
        text = sdf(TREE.replace('"base"', '"world"'))
    model = etree.fromstring(text).find('model')
    assert model.find("link[@name='world']") is None
    joint = model.find("joint[@name='turn']")
    assert joint.findtext('parent') == 'world'
    assert joint.find('pose').get('relative_to') == '__model__'


def test_limits_friction_and_meshes_come_along():
    model = tree()
    axis = model.find("joint[@name='tip_joint']/axis")
    assert axis.findtext('dynamics/damping') == '2'
    assert [axis.findtext(f'limit/{key}') for key in ('lower', 'effort')] == ['-3', '50']
    mesh = model.find('.//mesh')
    assert (mesh.findtext('uri'), mesh.findtext('scale')) == ('package://a/b.stl', '1 2 3')
    assert model.findtext("link[@name='base']/inertial/mass") == repr(SMALLEST)


def test_planar_joints_are_refused():
    with pytest.raises(ModelError, match="joint 'turn' is planar"):
        sdf(TREE.replace('type="continuous"', 'type="planar"'))


def test_csv_has_all_numbers_and_leaves_out_what_is_not_known(result):
    rows = list(csv.DictReader(io.StringIO(parameters_csv(result.to_document()))))
    standard = [row for row in rows if row['kind'] == 'standard']
    base = [row for row in rows if row['kind'] == 'base']
    assert [float(row['value']) for row in standard] == result.standard.values.tolist()
    assert [float(row['prior']) for row in standard] == result.prior.values.tolist()
    assert [float(row['value']) for row in base] == result.estimate.base.values.tolist()
    assert [row['expression'] for row in base] == [p.expression for p in result.estimate]
    known = [row['std'] != '' for row in base]
    assert known == [value == value for value in result.estimate.std]
    assert not all(known)


def test_yaml_is_that_of_the_file(result, tmp_path):
    write_result(result, tmp_path / 'result.yaml')
    stored = read_result(tmp_path / 'result.yaml')
    text = parameters_yaml(stored.to_document())
    assert text == parameters_yaml(result.to_document())
    document = yaml.safe_load(text)
    assert [row['value'] for row in document['parameters']] == stored.base.values.tolist()
    assert any(row['std'] is None for row in document['standard_parameters'])


# ---------------------------------------------------------------------------------------------- C

ROBOTS = Path(pin.__file__).parents[4] / 'share' / 'example-robot-data' / 'robots'
PANDA = ROBOTS / 'panda_description' / 'urdf' / 'panda.urdf'
SLIDER = """<robot name="2 slides/*"><link name="base"/>
  <link name="a"><inertial><origin xyz="0.1 0 0.2"/><mass value="3"/>
    <inertia ixx="0.1" ixy="0.01" ixz="0.02" iyy="0.12" iyz="0.005" izz="0.09"/></inertial></link>
  <link name="b"><inertial><origin xyz="0.05 0 0"/><mass value="2"/>
    <inertia ixx="0.02" ixy="0" ixz="0.001" iyy="0.03" iyz="0" izz="0.02"/></inertial></link>
  <link name="c"><inertial><origin xyz="0 0.1 0.05"/><mass value="1"/>
    <inertia ixx="0.02" ixy="0" ixz="0" iyy="0.02" iyz="0" izz="0.01"/></inertial></link>
  <joint name="turn" type="continuous"><parent link="base"/><child link="a"/>
    <origin xyz="0 0 0.3" rpy="0.4 0 0.2"/><axis xyz="0 0.6 0.8"/></joint>
  <joint name="*/ rail" type="prismatic"><parent link="a"/><child link="b"/>
    <origin xyz="-0.1 0 0.4" rpy="0 0 0.7"/><axis xyz="0 1 0"/>
    <limit lower="-3" upper="3" velocity="2" effort="50"/></joint>
  <joint name="lift" type="prismatic"><parent link="a"/><child link="c"/>
    <origin xyz="0.1 0.3 0.2" rpy="0 0.5 0"/><axis xyz="1 0 0"/>
    <limit lower="-3" upper="3" velocity="2" effort="50"/></joint></robot>"""


def tx40():
    return Robot.from_urdf(ROOT / 'urdf' / 'tx40.urdf')


def panda():
    text = PANDA.read_text()
    arm = [f'panda_joint{i}' for i in range(1, 8)]
    rest = {'panda_finger_joint1': 0.01, 'panda_finger_joint2': 0.01}
    return Robot.from_urdf(text, arm, locked=rest, gravity=(0.5, 1.0, -9.7))


def slider():
    return Robot.from_urdf(SLIDER, ['lift', 'turn', '*/ rail'])


def fingers():
    return gripper(gravity=(0.5, 1.0, -9.7))


DRIVE = CoupledDrive('joint_6', ('joint_5', 'joint_6'), ratios=(-0.5, 1.0))
CASES = {
    'seven joints': (panda, ModelSettings()),
    'slides': (slider, ModelSettings(friction=('viscous', 'coulomb', 'root', 'offset'))),
    'coupled drive': (tx40, ModelSettings(coupled_drives=(DRIVE,))),
    'tied': (tx40, ModelSettings(coupled_drives=(replace(DRIVE, inertia='tied'),))),
    'load and springs': (
        tx40, ModelSettings(('viscous', 'coulomb', 'load'), joint_springs=('joint_2', 'joint_5'))
    ),
    'stiction': (
        tx40,
        ModelSettings(('stiction', 'stribeck'), False, stiction_slope=80.0, stribeck_slope=2.0),
    ),
    'bodies alone': (tx40, ModelSettings((), False)),
    'mimic': (fingers, ModelSettings(('viscous', 'coulomb', 'load'))),
}  # fmt: skip


class Compiled:
    """The functions of a C file."""

    def __init__(self, code, folder, name, n):
        compiler = shutil.which('cc') or shutil.which('gcc')
        if compiler is None:
            pytest.skip('needs a C compiler')
        source = folder / f'{name}.c'
        source.write_text(code, encoding='utf-8')
        library = folder / f'{name}.so'
        strict = ('-std=c99', '-Wall', '-Wextra', '-pedantic', '-Werror')
        subprocess.run(
            [compiler, *strict, '-O2', '-shared', '-fPIC', source, '-o', library, '-lm'],
            check=True,
        )
        self._library, self._name, self._n = ctypes.CDLL(str(library)), name, n

    def __call__(self, function, *states):
        pointer = ctypes.POINTER(ctypes.c_double)
        efforts = np.empty((len(states[0]), self._n))
        for row, effort in enumerate(efforts):
            arrays = [np.ascontiguousarray(state[row]) for state in states]
            call = getattr(self._library, f'{self._name}_{function}')
            call(*(array.ctypes.data_as(pointer) for array in (*arrays, effort)))
        return efforts


def identified(robot, settings):
    random = np.random.default_rng(0)
    parameters = prior(robot, settings)
    inertial = parameters.values[: 10 * robot.n_joints]
    values = random.uniform(0.5, 2.0, len(parameters.layout))
    values[: inertial.size] = inertial * random.uniform(0.8, 1.2, inertial.size)
    return type(parameters)(parameters.layout, values)


def states(n, samples=40):
    return np.random.default_rng(1).uniform(-3.0, 3.0, (3, samples, n))


@pytest.mark.parametrize('name', CASES)
def test_compiled_code_gives_the_models_efforts(name, tmp_path):
    make, settings = CASES[name]
    robot = make()
    parameters = identified(robot, settings)
    code = c_code(robot, parameters, settings)
    compiled = Compiled(code, tmp_path, identifier(robot.name), robot.n_joints)
    q, v, a = states(robot.n_joints)
    regressor = build(robot, settings)
    v[0, 0] = 0.0  # sign(0) is 0
    expected = predict(regressor, Motion(q, v, a), parameters)
    np.testing.assert_allclose(compiled('inverse_dynamics', q, v, a), expected, atol=1e-10)
    frictionless = parameters.updated(
        {
            n: 0.0
            for n in parameters.layout.names
            if n.rpartition('.')[2] in ('fv', 'fc', 'ts', 'tsc', 'off', 'fr', 'fl', 'fvm', 'fcm')
        }
    )
    friction = expected - predict(regressor, Motion(q, v, a), frictionless)
    np.testing.assert_allclose(compiled('friction', q, v, a), friction, atol=1e-10)
    still = Motion(q, 0 * q, 0 * q)
    np.testing.assert_allclose(
        compiled('gravity', q), predict(regressor, still, frictionless), atol=1e-10
    )


def test_code_of_bodies_alone_agrees_with_pinocchio(tmp_path):
    robot, settings = panda(), ModelSettings((), False)
    compiled = Compiled(
        c_code(robot, prior(robot, settings), settings), tmp_path, 'panda', robot.n_joints
    )
    q, v, a = states(robot.n_joints)
    data = robot.model.createData()
    expected = [pin.rnea(robot.model, data, *state) for state in zip(q, v, a)]
    np.testing.assert_allclose(compiled('inverse_dynamics', q, v, a), expected, atol=1e-10)


def test_elastic_joints_and_breakaway_leave_remarks():
    robot = tx40()
    elastic = ModelSettings(elastic=ElasticJoints(gear_ratios=(50.0,) * 6))
    assert 'here they are stiff' in c_code(robot, prior(robot, elastic), elastic)
    dahl = ModelSettings(breakaway=0.01)
    assert 'not the state' in c_code(robot, prior(robot, dahl), dahl)


KIND_SETTINGS = {
    'elastic': ModelSettings(elastic=ElasticJoints(gear_ratios=(50.0,) * 6)),
    'loops': ModelSettings(loops=(LoopSettings('loop', 'link_1', 'link_2'),)),
    'delta': ModelSettings(delta=DeltaSettings(0.1, 0.2, 0.46, 0.04)),
}


@pytest.mark.parametrize(
    ('kind', 'format', 'text'),
    [
        ('elastic', 'isaaclab', 'elastic joints.*urdf'),
        ('loops', 'isaaclab', 'closed loops.*mjcf'),
        ('loops', 'c', 'closed loops.*mjcf'),
        ('delta', 'mjcf', "a delta robot's own model"),
        ('delta', 'c', 'a delta'),
        ('elastic', 'moveit', 'elastic joints'),
    ],
)
def test_formats_that_a_kind_of_robot_lacks_are_refused(kind, format, text):
    result = SimpleNamespace(robot=tx40(), settings=SimpleNamespace(model=KIND_SETTINGS[kind]))
    with pytest.raises(SettingsError, match=f"'{format}' is no format of a robot with {text}"):
        export(result, format)


@pytest.mark.parametrize(
    ('kind', 'format', 'write'),
    [('elastic', 'isaaclab', isaaclab_efforts), ('loops', 'c', c_code), ('delta', 'c', c_code)],
)
def test_what_is_called_without_a_result_refuses_the_same_kinds(kind, format, write):
    with pytest.raises(SettingsError, match=f"'{format}' is no format of a robot with"):
        write(tx40(), prior(tx40()), KIND_SETTINGS[kind])


def test_formats_name_kinds_of_robots_that_there_are():
    names = {kind.name for kind in KINDS}
    assert all({*each.lacking} < names for each in FORMATS.values())


@pytest.mark.parametrize(
    ('name', 'expected'), [('UR10e arm', 'ur10e_arm'), ('7axis', 'robot_7axis'), ('ö', 'robot_')]
)
def test_names_become_identifiers(name, expected):
    assert identifier(name) == expected
