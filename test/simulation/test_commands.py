# SPDX-License-Identifier: Apache-2.0
"""Single commands: positions and velocities that stay in force."""

from __future__ import annotations

import numpy as np
import pytest
from robot_identification.errors import ExcitationError
from robot_identification.model.robot import Robot
from robot_identification.simulation import (
    SimulationSettings,
    Simulator,
    Waypoints,
)

PLANAR = 'package://robot_identification/urdf/zollo_planar_2r.urdf'


@pytest.fixture
def simulator():
    """Make a robot that is as its URDF says and lies in the plane at zero."""
    settings = SimulationSettings(perturbation=0.0, friction_perturbation=0.0, effort_noise=0.0)
    return Simulator(Robot.from_urdf(PLANAR), settings)


def run(simulator, seconds):
    return [simulator.advance() for _ in range(round(1000 * seconds))][-1]


def test_a_position_is_held(simulator):
    simulator.command_position([0.1, -0.2])
    sample = run(simulator, 1.0)
    np.testing.assert_allclose(sample.position, [0.1, -0.2], atol=2e-3)
    assert np.abs(run(simulator, 1.0).velocity).max() < 1e-3


def test_a_stream_of_positions_is_followed_without_a_jolt(simulator):
    place, efforts = [], []
    for k in range(2000):
        if k % 4 == 0:
            simulator.command_position([0.5e-3 * k, -0.25e-3 * k])
        sample = simulator.advance()
        place.append(sample.position)
        efforts.append(sample.effort)
    # half a radian per second, some 20 ms late
    np.testing.assert_allclose(place[1999] - place[999], [0.5, -0.25], atol=1e-3)
    late = (0.9995 - place[1999][0]) / 0.5
    assert 0.005 < late < 0.03
    # a step of 2 mrad would take four hundred times the servo's stiffness in a millisecond
    assert np.abs(np.diff(efforts[1000:], axis=0)).max() < 2.0


def test_a_velocity_goes_on_without_end_and_without_a_jump_at_its_begin(simulator):
    simulator.command_position([0.3, 0.3])
    run(simulator, 1.0)
    place = simulator.plant.position.copy()
    simulator.command_velocity([0.2, -0.1])
    np.testing.assert_allclose(run(simulator, 0.001).position, place, atol=1e-4)
    first = run(simulator, 0.5)
    second = run(simulator, 2.0)
    np.testing.assert_allclose(second.position - first.position, [0.4, -0.2], atol=2e-3)
    simulator.scale_speed(0.5)
    run(simulator, 0.2)
    third = run(simulator, 0.001)
    fourth = run(simulator, 1.0)
    np.testing.assert_allclose(fourth.position - third.position, [0.1, -0.05], atol=2e-3)
    simulator.command_velocity([0.2, -0.1])  # the speed stays
    fifth = run(simulator, 1.0)
    np.testing.assert_allclose(fifth.position - fourth.position, [0.1, -0.05], atol=2e-3)


def test_a_trajectory_takes_over_from_a_velocity_and_hold_from_all(simulator):
    simulator.command_velocity([0.2, 0.0])
    run(simulator, 0.5)
    zero = np.zeros((1, 2))
    simulator.follow(Waypoints(simulator.joints, [1.0], [[0.5, 0.5]], zero, zero))
    np.testing.assert_allclose(run(simulator, 2.0).position, [0.5, 0.5], atol=2e-3)
    simulator.command_velocity([0.2, 0.0])
    run(simulator, 0.5)
    simulator.hold()
    place = simulator.plant.position.copy()
    np.testing.assert_allclose(run(simulator, 1.0).position, place, atol=5e-3)


@pytest.mark.parametrize('name', ['command_position', 'command_velocity'])
@pytest.mark.parametrize(
    ('command', 'reason', 'joint'),
    [
        ([0.1], 'it has 1 numbers for 2 joints', None),
        ([0.1, np.nan], "that of joint 'joint_2' is nan", 'joint_2'),
    ],
)
def test_a_wrong_command_changes_nothing(simulator, name, command, reason, joint):
    simulator.command_position([0.1, 0.1])
    with pytest.raises(ExcitationError, match=reason) as caught:
        getattr(simulator, name)(command)
    assert caught.value.joint == joint
    np.testing.assert_allclose(run(simulator, 1.0).position, [0.1, 0.1], atol=2e-3)
