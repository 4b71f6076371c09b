# SPDX-License-Identifier: Apache-2.0
"""The mechanism: inertias, loads and wear against Pinocchio, integration against closed forms."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
from robot_identification.errors import ModelError, SettingsError
from robot_identification.model.parameters import ParameterSet
from robot_identification.model.robot import Robot
from robot_identification.regressor import prior
from robot_identification.simulation import (
    Plant,
    SimulatedPayload,
    SimulationSettings,
    Simulator,
    truth,
    Wear,
)

FOLDER = Path(__file__).resolve().parents[2] / 'urdf'
ROBOTS = ('demo_arm', 'tx40', 'szabo_3r', 'zollo_planar_2r', 'gautier_khalil_3r')

TREE = """
<robot name="tree">
  <link name="base"/>
  <link name="trunk">
    <inertial>
      <origin xyz="0.1 0 0.2" rpy="0.3 0.2 0.1"/><mass value="3"/>
      <inertia ixx="0.1" ixy="0.01" ixz="0.02" iyy="0.12" iyz="0.005" izz="0.09"/>
    </inertial>
    <visual><geometry><mesh filename="package://nowhere/missing.stl"/></geometry></visual>
    <collision><geometry><mesh filename="package://nowhere/missing.dae"/></geometry></collision>
  </link>
  <link name="left">
    <inertial>
      <origin xyz="0 0.1 0.05"/><mass value="1"/>
      <inertia ixx="0.02" ixy="0" ixz="0" iyy="0.02" iyz="0" izz="0.01"/>
    </inertial>
  </link>
  <link name="slide">
    <inertial>
      <origin xyz="0.05 0 0"/><mass value="2"/>
      <inertia ixx="0.02" ixy="0" ixz="0.001" iyy="0.03" iyz="0" izz="0.02"/>
    </inertial>
  </link>
  <link name="tip">
    <inertial>
      <origin xyz="0 0 0.1"/><mass value="0.7"/>
      <inertia ixx="0.004" ixy="0" ixz="0" iyy="0.004" iyz="0" izz="0.002"/>
    </inertial>
  </link>
  <link name="tool">
    <inertial>
      <origin xyz="0.02 0 0.1"/><mass value="0.4"/>
      <inertia ixx="0.001" ixy="0" ixz="0" iyy="0.001" iyz="0" izz="0.001"/>
    </inertial>
  </link>
  <joint name="turn" type="continuous">
    <parent link="base"/><child link="trunk"/>
    <origin xyz="0 0 0.3" rpy="0.4 0 0.2"/><axis xyz="0 0.6 0.8"/>
  </joint>
  <joint name="shoulder" type="revolute">
    <parent link="trunk"/><child link="left"/>
    <origin xyz="0.1 0.3 0.2" rpy="0 0.5 0"/><axis xyz="1 0 0"/>
    <limit lower="-3" upper="3" velocity="2" effort="50"/>
    <dynamics damping="0.4" friction="0.3"/>
  </joint>
  <joint name="rail" type="prismatic">
    <parent link="trunk"/><child link="slide"/>
    <origin xyz="-0.1 0 0.4" rpy="0 0 0.7"/><axis xyz="0 1 0"/>
    <limit lower="-3" upper="3" velocity="2" effort="50"/>
  </joint>
  <joint name="wrist" type="revolute">
    <parent link="slide"/><child link="tip"/>
    <origin xyz="0 0.1 0"/><axis xyz="0 0 1"/>
    <limit lower="-3" upper="3" velocity="2" effort="50"/>
  </joint>
  <joint name="flange" type="fixed">
    <parent link="tip"/><child link="tool"/><origin xyz="0 0 0.2" rpy="0.1 0.2 0.3"/>
  </joint>
  <ros2_control name="x" type="system"><joint name="turn"/></ros2_control>
  <gazebo reference="tip"><mu1>0.2</mu1></gazebo>
</robot>
"""


def assert_equals_pinocchio(robot, parameters):
    plant = Plant(robot, parameters, 1e-3)
    model = robot.with_parameters(parameters)
    data = model.createData()
    rotor = np.array([parameters[f'{joint}.Ia'] for joint in robot.joints])
    random = np.random.default_rng(4)
    for _ in range(10):
        q, dq, ddq = random.uniform(-2.0, 2.0, (3, robot.n_joints))
        q = np.clip(q, robot.limits.lower, robot.limits.upper)  # the stops push back beyond
        expected = pin.rnea(
            model, data, robot.configuration(q), robot.tangent(dq), robot.tangent(ddq)
        )[robot.columns]
        expected = expected + rotor * ddq
        actual = plant.inverse_dynamics(q, dq, ddq)
        np.testing.assert_allclose(actual, expected, atol=1e-10 * np.abs(expected).max())


@pytest.mark.parametrize('name', ROBOTS)
def test_inverse_dynamics_equals_pinocchio(name):
    robot = Robot.from_urdf(FOLDER / f'{name}.urdf')
    assert_equals_pinocchio(robot, truth(robot, SimulationSettings(perturbation=0.05)))


def test_branches_slides_and_fixed_links_equal_pinocchio():
    robot = Robot.from_urdf(TREE)
    assert_equals_pinocchio(robot, truth(robot, SimulationSettings(rotor_inertia=(0.3,))))


@pytest.mark.parametrize(
    ('joints', 'locked'),
    [
        (['wrist', 'turn'], {'shoulder': 0.7, 'rail': -0.4}),
        (['rail', 'shoulder'], {'turn': 1.1, 'wrist': 0.5}),
        (['wrist', 'rail', 'shoulder', 'turn'], {}),
    ],
)
def test_other_orders_and_locked_joints_equal_pinocchio(joints, locked):
    robot = Robot.from_urdf(TREE, joints, locked=locked, gravity=(1.0, -2.0, -9.0))
    assert_equals_pinocchio(robot, truth(robot, SimulationSettings(rotor_inertia=(0.3,))))


def test_limits_without_room_are_no_limits(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    robot = Robot.from_urdf(TREE.replace('lower="-3" upper="3"', 'lower="0" upper="0"', 1))
    plant = Plant(robot, prior(robot), 1e-3)
    assert not plant.model.jnt_limited[plant.model.joint('shoulder').id]
    assert plant.model.jnt_limited[plant.model.joint('wrist').id]
    assert not list(tmp_path.iterdir())  # MuJoCo has logged no warning


@pytest.mark.parametrize(('given', 'effort'), [('upper="0.5"', 3.0), ('lower="-0.5"', -3.0)])
def test_a_limit_at_one_end_stops_the_joint_there_alone(tmp_path, monkeypatch, given, effort):
    monkeypatch.chdir(tmp_path)
    text = TREE.replace('lower="-3" upper="3"', given, 1)
    robot = Robot.from_urdf(text, gravity=(0.0, 0.0, 0.0))
    pushed = np.where(np.array(robot.joints) == 'shoulder', effort, 0.0)
    index = robot.joints.index('shoulder')
    ends = []
    for sign in (1.0, -1.0):
        plant = Plant(robot, prior(robot), 1e-3)
        for _ in range(1500):
            plant.step(sign * pushed)
        ends.append(abs(plant.position[index]))
    assert ends[0] < 0.6 and ends[1] > 2.0
    assert not list(tmp_path.iterdir())  # MuJoCo has logged no warning


def test_a_robot_that_mujoco_refuses_is_named():
    robot = Robot.from_urdf(TREE)
    joint = robot.contents.joints[robot.joints[0]]
    joints = robot.contents.joints | {joint.name: dataclasses.replace(joint, axis=np.zeros(3))}
    contents = dataclasses.replace(robot.contents, joints=joints)
    robot = dataclasses.replace(robot, contents=contents)
    with pytest.raises(ModelError, match="MuJoCo cannot simulate robot 'tree'"):
        Plant(robot, prior(robot), 1e-3)


# ---------------------------------------------------------------------------------- integration

ROTOR = """
<robot name="rotor">
  <link name="base"/>
  <link name="disc">
    <inertial>
      <origin xyz="{lever} 0 0"/><mass value="2"/>
      <inertia ixx="0.1" ixy="0" ixz="0" iyy="0.1" iyz="0" izz="0.1"/>
    </inertial>
  </link>
  <joint name="axle" type="continuous">
    <parent link="base"/><child link="disc"/><origin rpy="1.5707963267948966 0 0"/>
    <axis xyz="0 0 1"/>
  </joint>
</robot>
"""


def one_joint(lever=0.0, timestep=1e-3, **values):
    robot = Robot.from_urdf(ROTOR.format(lever=lever))
    parameters = prior(robot).updated({f'axle.{k}': v for k, v in values.items()})
    return Plant(robot, parameters, timestep)


def run(plant, steps, effort=0.0):
    states = []
    for _ in range(steps):
        plant.step(np.array([effort]))
        states.append((plant.position[0], plant.velocity[0]))
    return np.array(states).T


def test_viscous_friction_and_rotor_inertia_decay_exponentially():
    plant = one_joint(Ia=0.4, fv=1.5)
    plant.set_state(np.zeros(1), np.array([3.0]))
    _, velocity = run(plant, 1000)
    time = np.arange(1, 1001) * 1e-3
    np.testing.assert_allclose(velocity, 3.0 * np.exp(-1.5 / 0.5 * time), rtol=3e-6)


def test_dry_friction_brings_to_rest_in_time_and_holds():
    plant = one_joint(fc=0.2, off=0.05, Ia=0.1)
    plant.set_state(np.zeros(1), np.array([1.0]))
    position, velocity = run(plant, 1200, effort=0.0)
    time = np.arange(1, 1201) * 1e-3
    stop = 0.2 * 1.0 / 0.25  # inertia times velocity over friction and offset
    sliding = time < stop - 1e-3
    np.testing.assert_allclose(velocity[sliding], 1.0 - 1.25 * time[sliding], atol=1e-9)
    resting = time > stop + 2e-3
    np.testing.assert_allclose(velocity[resting], 0.0, atol=1e-10)
    np.testing.assert_allclose(position[resting], 0.5 * stop, atol=2e-3)
    assert np.ptp(position[resting]) < 1e-10
    run(plant, 500, effort=0.24)  # friction and offset hold against 0.25
    assert abs(plant.velocity[0]) < 1e-10
    run(plant, 500, effort=0.35)
    assert plant.velocity[0] == pytest.approx(0.1 * 0.5 / 0.2, rel=1e-6)


def test_energy_is_kept_without_friction():
    robot = Robot.from_urdf(FOLDER / 'demo_arm.urdf')
    settings = SimulationSettings(viscous=(0.0,), coulomb=(0.0,), offset=(0.0,))
    parameters = truth(robot, settings)
    plant = Plant(robot, parameters, 1e-3)
    model = robot.with_parameters(parameters)
    data = model.createData()
    rotor = np.array([parameters[f'{joint}.Ia'] for joint in robot.joints])

    def energy():
        q, dq = plant.position, plant.velocity
        return (
            pin.computeKineticEnergy(model, data, q, dq)
            + pin.computePotentialEnergy(model, data, q)
            + 0.5 * rotor @ dq**2
        )

    plant.set_state(np.array([0.1, -0.4, 0.3, 0.2, -0.3, 0.1]), np.array([1.0, 0, 0, 1, -1, 1]))
    start = energy()
    kinetic = []
    for _ in range(500):
        plant.step(np.zeros(6))
        kinetic.append(pin.computeKineticEnergy(model, data, plant.position, plant.velocity))
    assert max(kinetic) > 20.0  # it has fallen
    assert energy() == pytest.approx(start, abs=1e-5 * max(kinetic))


def test_halving_the_step_changes_next_to_nothing():
    ends = []
    for timestep in (1e-3, 0.25e-3):
        plant = one_joint(lever=0.3, timestep=timestep, fv=0.3, fc=0.1, Ia=0.05)
        plant.set_state(np.array([-1.0]), np.zeros(1))
        run(plant, round(0.3 / timestep))
        ends.append([plant.position[0], plant.velocity[0]])
    np.testing.assert_allclose(ends[0], ends[1], rtol=1e-4)


def test_parameters_that_are_missing_are_zero():
    robot = Robot.from_urdf(ROTOR.format(lever=0.1))
    plant = Plant(robot, ParameterSet(robot.layout, robot.prior.values), 1e-3)
    assert plant.inverse_dynamics(np.zeros(1), np.zeros(1), np.ones(1)) == pytest.approx(
        [0.1 + 2 * 0.1**2 + 2 * 9.81 * 0.1]
    )


URDF = Path(__file__).resolve().parents[2] / 'urdf' / 'demo_arm.urdf'
LOAD = SimulatedPayload(mass=2.0, position=(0.03, -0.02, 0.1))
EVEN = SimulationSettings(effort_noise=0.0, encoder_counts=0.0)


@pytest.fixture(scope='module')
def robot():
    return Robot.from_urdf(URDF)


def with_load(robot, parameters, load):
    """Add the load to the last link by Pinocchio's own sum of bodies."""
    values = parameters.values.copy()
    place = parameters.layout.slice_of(robot.links[-1])
    body = pin.Inertia(load.mass, np.array(load.position), np.zeros((3, 3)))
    values[place] = (pin.Inertia.FromDynamicParameters(values[place]) + body).toDynamicParameters()
    return ParameterSet(parameters.layout, values)


def test_a_payload_has_the_efforts_of_the_body_that_it_is(robot):
    simulator = Simulator(robot, EVEN)
    plant, rng = simulator.plant, np.random.default_rng(2)
    position, velocity, acceleration = rng.normal(size=(3, robot.n_joints))
    empty = plant.inverse_dynamics(position, velocity, acceleration)
    simulator.plant.carry(SimulatedPayload(5.0))
    simulator.plant.carry(LOAD)  # in place of the other one
    found = plant.inverse_dynamics(position, velocity, acceleration)

    def rnea(parameters):
        model = robot.with_parameters(parameters)
        given = (robot.configuration(position[None])[0],)
        given += (robot.tangent(velocity[None])[0], robot.tangent(acceleration[None])[0])
        return pin.rnea(model, model.createData(), *given)[robot.columns]

    wanted = rnea(with_load(robot, simulator.parameters, LOAD)) - rnea(simulator.parameters)
    assert np.abs(wanted).max() > 5.0
    np.testing.assert_allclose(found - empty, wanted, atol=1e-9)
    simulator.plant.carry(SimulatedPayload())
    again = plant.inverse_dynamics(position, velocity, acceleration)
    np.testing.assert_allclose(again, empty, atol=1e-9)


def test_a_payload_is_picked_up_where_the_robot_is(robot):
    """The state stays as it is, and the drives carry the weight from then on."""
    reached_out = replace(EVEN, initial_position=(0.0, 1.0, 0.5, 0.0, 0.3, 0.0))
    simulator = Simulator(robot, reached_out)
    before = simulator.record(0.5).effort[-1]
    position = simulator.plant.position.copy()
    simulator.plant.carry(LOAD)
    np.testing.assert_array_equal(simulator.plant.position, position)
    held = simulator.record(2.0)
    loads = []
    for parameters in (simulator.parameters, with_load(robot, simulator.parameters, LOAD)):
        model, q = robot.with_parameters(parameters), robot.configuration(held.position[-1:])[0]
        loads.append(pin.computeGeneralizedGravity(model, model.createData(), q)[robot.columns])
    wanted = loads[1] - loads[0]
    # what friction holds of it, where joints stick, is no more than it can
    limits = [simulator.parameters[f'{joint}.fc'] for joint in robot.joints]
    risen = held.effort[-1] - before
    assert (np.abs(risen - wanted) <= 2.0 * np.array(limits) + 0.1).all()
    assert np.abs(wanted).max() > 10.0


@pytest.mark.parametrize('dry', [{}, {'stiction': (4.0,), 'stribeck': (-1.0,)}])
def test_wear_multiplies_friction_and_nothing_else(robot, dry):
    """At a constant velocity: efforts are more by the share of the friction, but its offset."""
    settings = SimulationSettings(
        effort_noise=0.0, encoder_counts=0.0, viscous=(3.0,), offset=(0.7,),
        **(dry or {'coulomb': (2.0,)}),
    )  # fmt: skip
    simulator = Simulator(robot, settings)
    plant = simulator.plant

    def moved(effort):
        plant.set_state(np.zeros(robot.n_joints), np.full(robot.n_joints, 0.5))
        plant.step(effort)
        return plant.velocity - 0.5

    effort = np.zeros(robot.n_joints)
    usual = moved(effort)
    factors = np.array([1.0, 1.0, 3.0, 1.0, 1.0, 1.0])
    simulator.plant.wear(Wear(tuple(factors)))
    v = 0.5
    size = 2.0 if not dry else 2.0 / np.pi * (4.0 * np.arctan(100 * v) - np.arctan(5 * v))
    more = (factors - 1.0) * (3.0 * v + size)
    # to first order in the step, effort that makes up for the new friction
    np.testing.assert_allclose(moved(effort + more), usual, atol=2e-4)
    assert np.abs(moved(effort) - usual).max() > 1e-3
    simulator.plant.wear(Wear(()))
    np.testing.assert_array_equal(moved(effort), usual)


def test_wear_of_another_number_of_joints_is_refused(robot):
    with pytest.raises(SettingsError, match="'wear.friction' has 2 values"):
        Simulator(robot, EVEN).plant.wear(Wear((1.0, 2.0)))
