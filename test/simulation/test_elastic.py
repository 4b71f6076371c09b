# SPDX-License-Identifier: Apache-2.0
"""A simulated robot with elastic joints: MuJoCo's rotors and springs against the regressor."""

from dataclasses import replace
from pathlib import Path

import mujoco
import numpy as np
import pytest
from robot_identification.data.recording import Motion
from robot_identification.errors import SettingsError
from robot_identification.model.robot import Robot
from robot_identification.regressor import build, ElasticJoints, predict
from robot_identification.simulation import SimulationSettings, Simulator, truth, Waypoints
from robot_identification.simulation.elastic import ElasticPlant
from robot_identification.simulation.truth import true_model

URDF = Path(__file__).resolve().parents[2] / 'urdf'
GEARS = (100.0, -80.0, 50.0, 60.0, 70.0, 30.0)
SETTINGS = SimulationSettings(
    elastic=ElasticJoints(gear_ratios=GEARS),
    stiffness=(8000.0, 8000.0, 5000.0, 600.0, 500.0, 150.0),
    transmission_damping=(0.05,),
    encoder_counts=0.0,
    effort_noise=0.0,
)


@pytest.fixture(scope='module')
def arm():
    return Robot.from_urdf(URDF / 'demo_arm.urdf')


def inverse_dynamics(plant, position, velocity, acceleration):
    """Efforts on links and motors that MuJoCo finds for (2n,) states, reduced."""
    n = plant.robot.n_joints
    plant.set_states(position[:n], velocity[:n], position[n:], velocity[n:])
    plant.data.qacc[plant._dof] = acceleration[:n]
    plant.data.qacc[plant._drive_dof] = acceleration[n:] * plant._gears
    mujoco.mj_inverse(plant.model, plant.data)
    efforts = plant.data.qfrc_inverse
    return np.append(efforts[plant._dof], efforts[plant._drive_dof] * plant._gears)


@pytest.mark.parametrize(
    'changes',
    [
        {},
        {'coupling': False},
        {'stators': ('base_link', 'link_1', 'link_2', 'link_2', 'link_3', 'link_5')},
        {
            'stators': ('base_link', 'link_1', 'link_1', 'link_3', 'link_4', 'link_5'),
            'rotor_axes': tuple(np.random.default_rng(0).normal(size=(6, 3)).tolist()),
        },
    ],
)
def test_rotors_and_springs_of_mujoco_are_those_of_the_regressor(arm, changes):
    settings = replace(SETTINGS, elastic=replace(SETTINGS.elastic, **changes))
    parameters = truth(arm, settings)
    plant = ElasticPlant(arm, parameters, settings.elastic, 1e-3)
    regressor = build(arm, true_model(arm, settings))
    without = {name: 0.0 for name in parameters.layout if name.endswith(('.fv', '.fc', '.off'))}
    rng = np.random.default_rng(1)
    for _ in range(10):
        q, v, a = rng.uniform(-1.0, 1.0, (3, 12)) * np.array([1.0, 2.0, 10.0])[:, None]
        q[6:] = q[:6] + rng.uniform(-0.01, 0.01, 6)
        expected = predict(
            regressor, Motion(q[None], v[None], a[None]), parameters.updated(without)
        )
        found = inverse_dynamics(plant, q, v, a)
        assert np.abs(found - expected[0]).max() < 1e-12 * np.abs(expected).max()


def test_it_hangs_in_its_springs_at_rest(arm):
    simulator = Simulator(arm, SETTINGS)
    recording = simulator.record(0.5)
    n = arm.n_joints
    assert recording.joints == SETTINGS.elastic.columns(arm.joints)
    assert np.ptp(recording.position, axis=0).max() < 1e-3
    assert not recording.effort[:, :n].any()
    # what the springs hold is the links' weight, which is what the motors feel, up to friction
    twist = recording.position[-1, n:] - recording.position[-1, :n]
    weight = np.array(SETTINGS.stiffness) * twist
    friction = [simulator.parameters[f'{joint}_motor.fc'] for joint in arm.joints]
    offset = [simulator.parameters[f'{joint}_motor.off'] for joint in arm.joints]
    drive = recording.effort[-1, n:] - weight - offset
    assert (np.abs(drive) <= np.array(friction) * (1 + 1e-6)).all()
    assert np.abs(weight).max() > 1.0


def test_the_links_follow_while_the_motors_run_ahead(arm):
    time = np.linspace(0.0, 2.0, 201)
    blend = (1.0 - np.cos(np.pi * time / 2.0))[:, None]
    move = 0.3 * np.ones(6)
    waypoints = Waypoints(
        arm.joints,
        time,
        0.5 * blend * move,
        0.25 * np.pi * np.sin(np.pi * time / 2.0)[:, None] * move,
        0.125 * np.pi**2 * np.cos(np.pi * time / 2.0)[:, None] * move,
    )
    simulator = Simulator(arm, SETTINGS)
    recording = simulator.record(simulator.follow(waypoints))
    assert np.abs(recording.position[-1, :6] - move).max() < 0.02
    assert np.abs(recording.position[:, :6] - recording.position[:, 6:]).max() > 1e-3


@pytest.mark.parametrize(
    ('changes', 'key', 'words'),
    [
        ({'stiffness': (1e6,)}, 'substeps', ['joint_', 'raise substeps']),
        ({'transmission_damping': (10.0,)}, 'substeps', ['joint_']),
        ({'stiffness': (1e3, 1e3)}, 'stiffness', ['2 values']),
        ({'stiffness': ()}, 'stiffness', ['empty']),
        ({'rotor_inertia': (0.1, 0.1, 0.1, 0.0, 0.1, 0.1)}, 'rotor_inertia', ['joint_4']),
        ({'elastic': ElasticJoints()}, 'elastic.gear_ratios', ['rotor', 'link_']),
    ],
)
def test_what_cannot_be_simulated_is_named(arm, changes, key, words):
    with pytest.raises(SettingsError) as caught:
        Simulator(arm, replace(SETTINGS, **changes))
    assert caught.value.key == key
    for word in words:
        assert word in str(caught.value)
