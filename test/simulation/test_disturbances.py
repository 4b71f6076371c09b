# SPDX-License-Identifier: Apache-2.0
"""A simulated robot that changes while it runs, against Pinocchio and by hand."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
from robot_identification.errors import SettingsError
from robot_identification.model.parameters import ParameterSet
from robot_identification.model.robot import Robot
from robot_identification.simulation import (
    Payload,
    SimulationSettings,
    Simulator,
    Wear,
)

URDF = Path(__file__).resolve().parents[2] / 'urdf' / 'demo_arm.urdf'
LOAD = Payload(mass=2.0, position=(0.03, -0.02, 0.1))
EVEN = SimulationSettings(effort_noise=0.0, encoder_counts=0.0)


@pytest.fixture(scope='module')
def robot():
    return Robot.from_urdf(URDF)


def with_load(robot, parameters, load):
    """Add the load to the last link by Pinocchio's own sum of bodies."""
    values = parameters.values.copy()
    place = parameters.layout.of(robot.links[-1])
    body = pin.Inertia(load.mass, np.array(load.position), np.zeros((3, 3)))
    values[place] = (pin.Inertia.FromDynamicParameters(values[place]) + body).toDynamicParameters()
    return ParameterSet(parameters.layout, values)


def test_a_payload_has_the_efforts_of_the_body_that_it_is(robot):
    simulator = Simulator(robot, EVEN)
    plant, rng = simulator.plant, np.random.default_rng(2)
    position, velocity, acceleration = rng.normal(size=(3, robot.n_joints))
    empty = plant.inverse_dynamics(position, velocity, acceleration)
    simulator.plant.carry(Payload(5.0))
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
    simulator.plant.carry(Payload())
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
