"""Energies against Pinocchio, their gradient against differences, their balance against power."""

from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
from robot_identification.data.recording import Motion
from robot_identification.errors import SettingsError
from robot_identification.model.parameters import ParameterSet
from robot_identification.model.robot import Robot
from robot_identification.regressor import (
    build,
    CoupledDrive,
    ModelSettings,
)
from robot_identification.regressor.energy import energy_of

URDF = Path(__file__).resolve().parents[2] / 'urdf'
ROBOTS = ('gautier_khalil_3r', 'tx40', 'demo_arm', 'branched')
DRIVES = (
    CoupledDrive('joint_3', ('joint_2', 'joint_3'), 'separate', (0.5, 1.0)),
    CoupledDrive('joint_1', ('joint_1', 'joint_3'), 'tied', (2.0, -0.7)),
)
# every kind of friction that there is
MODEL = ModelSettings(friction=('viscous', 'coulomb', 'offset'), coupled_drives=DRIVES)

BRANCHED = """
<robot name="branched">
  <link name="base"/>
  {joints}
</robot>
"""


def branched():
    """Two arms on a slide, with turning, sliding and continuous joints about odd axes."""
    parts = []
    for name, parent, kind, axis, place in (
        ('joint_1', 'base', 'prismatic', '0.6 0 0.8', '0.1 0.2 0.3" rpy="0.3 -0.2 0.5'),
        ('joint_2', 'link_1', 'revolute', '0 1 0', '0.2 0 0.1" rpy="1 0.2 -0.4'),
        ('joint_3', 'link_2', 'continuous', '1 0 0', '0 0.3 0.1" rpy="-0.5 0.7 0.1'),
        ('joint_4', 'link_1', 'revolute', '0 0.8 -0.6', '-0.2 0.1 0" rpy="0.2 0.1 2'),
        ('joint_5', 'link_4', 'prismatic', '0 0 1', '0.1 0.1 0.4" rpy="0.4 0.1 0.6'),
    ):
        number = name[-1]
        limit = (
            '' if kind == 'continuous' else '<limit lower="-2" upper="2" velocity="3" effort="9"/>'
        )
        parts.append(
            f'<joint name="{name}" type="{kind}"><parent link="{parent}"/>'
            f'<child link="link_{number}"/><origin xyz="{place}"/><axis xyz="{axis}"/>'
            f'{limit}</joint><link name="link_{number}">'
            '<inertial><origin xyz="0.1 -0.05 0.2" rpy="0.1 0.2 0.3"/>'
            f'<mass value="{number}"/><inertia ixx="0.2" iyy="0.25" izz="0.3" ixy="0.01" '
            'ixz="-0.02" iyz="0.03"/></inertial></link>'
        )
    return BRANCHED.format(joints=''.join(parts))


def robot_of(name):
    source = branched() if name == 'branched' else URDF / f'{name}.urdf'
    order = ['joint_4', 'joint_2', 'joint_1', 'joint_5', 'joint_3'] if name == 'branched' else None
    return Robot.from_urdf(source, order, gravity=(1.5, -2.0, -9.0))


def states(robot, samples, seed):
    random = np.random.default_rng(seed)
    shape = (samples, robot.n_joints)
    return random.uniform(-2.5, 2.5, shape), random.normal(0.0, 3.0, shape)


@pytest.mark.parametrize('name', ROBOTS)
def test_energies_are_those_of_pinocchio(name):
    robot = robot_of(name)
    regressor = energy_of(build(robot, ModelSettings(friction=(), rotor_inertia=False)))
    # more than one block, the last one not full
    q, dq = states(robot, 300, 1)
    energies = regressor.rows(q, dq) @ robot.prior.values
    data = robot.model.createData()
    expected = []
    for state, speed in zip(robot.configuration(q), robot.tangent(dq), strict=True):
        kinetic = pin.computeKineticEnergy(robot.model, data, state, speed)
        expected.append(kinetic + pin.computePotentialEnergy(robot.model, data, state))
    # Pinocchio counts heights from its own origin, too
    np.testing.assert_allclose(energies, expected, rtol=1e-12, atol=1e-12 * np.ptp(expected))


@pytest.mark.parametrize('name', ROBOTS)
def test_the_gradient_is_that_of_differences(name):
    robot = robot_of(name)
    settings = MODEL if robot.n_joints == 3 else ModelSettings()
    regressor = energy_of(build(robot, settings))
    q, dq = states(robot, 40, 2)
    random = np.random.default_rng(3)
    weights = random.standard_normal((40, len(regressor.layout)))
    by_q, by_dq = regressor.linearised(q, dq)[1](weights)
    for joint in range(robot.n_joints):
        # energies are quadratic in the velocity: central differences are exact
        for state, gradient, step in ((0, by_q, 1e-5), (1, by_dq, 1.0)):
            ends = []
            for sign in (1.0, -1.0):
                moved = [q.copy(), dq.copy()]
                moved[state][:, joint] += sign * step
                ends.append((regressor.rows(*moved) * weights).sum(axis=1))
            slope = (ends[0] - ends[1]) / (2.0 * step)
            size = np.abs(gradient).max()
            tolerance = 1e-8 if state == 0 else 1e-12
            np.testing.assert_allclose(gradient[:, joint], slope, atol=tolerance * size)


@pytest.mark.parametrize('name', ROBOTS)
@pytest.mark.parametrize(
    'friction', [('viscous', 'coulomb', 'offset'), ('viscous', 'stiction', 'stribeck')]
)
def test_power_is_what_energies_gain_and_friction_takes(name, friction):
    robot = robot_of(name)
    drives = DRIVES if robot.n_joints == 3 else ()
    model = ModelSettings(friction=friction, coupled_drives=drives)
    regressor = build(robot, model)
    energy = energy_of(regressor)
    q, dq = states(robot, 50, 4)
    ddq = np.random.default_rng(5).normal(0.0, 10.0, q.shape)
    columns = regressor.rows(Motion(q, dq, ddq)).reshape(50, robot.n_joints, -1)
    power = np.einsum('sj,sjc->sc', dq, columns)
    # the energy's rate of change, parameter by parameter: a gradient along the motion
    rate = np.zeros_like(power)
    _, pull_back = energy.linearised(q, dq)
    for column in range(len(energy.layout)):
        weights = np.zeros_like(power)
        weights[:, column] = 1.0
        by_q, by_dq = pull_back(weights)
        rate[:, column] = (by_q * dq + by_dq * ddq).sum(axis=1)
    expected = rate + energy.powers(q, dq)
    np.testing.assert_allclose(power, expected, atol=1e-12 * np.abs(power).max())
    # each parameter either stores or takes
    assert not energy.powers(q, dq)[:, energy.stored].any()
    assert not energy.rows(q, dq)[:, ~energy.stored].any()
    taken = {name.rpartition('.')[2] for name in np.array(energy.layout.names)[~energy.stored]}
    assert taken == {
        symbol
        for symbol in ('fv', 'fc', 'off', 'ts', 'tsc', 'fvm', 'fcm')
        if any(name.endswith(f'.{symbol}') for name in energy.layout.names)
    }


def test_a_rotor_turns_with_its_coupled_joints():
    robot = robot_of('gautier_khalil_3r')
    drive = CoupledDrive('joint_3', ('joint_2', 'joint_3'), 'separate', (0.5, 1.0))
    energy = energy_of(build(robot, ModelSettings(friction=(), coupled_drives=(drive,))))
    values = dict.fromkeys(energy.layout.names, 0.0)
    # a motor of 0.3 kg m^2 alone: its share in Ia_2 is ratio squared
    values |= {'joint_3.Iam': 0.3, 'joint_3.Ia': 0.3, 'joint_2.Ia': 0.25 * 0.3}
    parameters = ParameterSet(energy.layout, list(values.values()))
    q, dq = states(robot, 20, 6)
    np.testing.assert_allclose(
        energy.rows(q, dq) @ parameters.values, 0.15 * (0.5 * dq[:, 1] + dq[:, 2]) ** 2, rtol=1e-12
    )


def test_other_models_and_shapes_are_refused():
    robot = robot_of('gautier_khalil_3r')

    class Other:
        layout, n_joints = robot.layout, 3

    with pytest.raises(SettingsError, match='trees of rigid links') as caught:
        energy_of(Other())
    assert caught.value.key == 'estimation.equations'
    with pytest.raises(ValueError, match=r'expected \(n_samples, 3\)'):
        energy_of(build(robot)).rows(np.zeros((4, 2)), np.zeros((4, 2)))
