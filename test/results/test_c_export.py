# SPDX-License-Identifier: Apache-2.0
"""C code of identified models, compiled by the system's compiler, against the regressor."""

import ctypes
from dataclasses import replace
from pathlib import Path
import shutil
import subprocess

import numpy as np
import pinocchio as pin
import pytest
from robot_identification.data.recording import Motion
from robot_identification.errors import ModelError
from robot_identification.model.robot import Robot
from robot_identification.regressor import (
    build,
    CoupledDrive,
    DeltaSettings,
    ElasticJoints,
    ModelSettings,
    predict,
    prior,
)
from robot_identification.results.c_export import c_code, identifier

ROOT = Path(__file__).resolve().parents[2]
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


def test_closed_loops_are_refused():
    model = ModelSettings(delta=DeltaSettings(0.1, 0.2, 0.46, 0.04))
    with pytest.raises(ModelError, match='closed loops.*mjcf'):
        c_code(tx40(), prior(tx40()), model)


@pytest.mark.parametrize(
    ('name', 'expected'), [('UR10e arm', 'ur10e_arm'), ('7axis', 'robot_7axis'), ('ö', 'robot_')]
)
def test_names_become_identifiers(name, expected):
    assert identifier(name) == expected
