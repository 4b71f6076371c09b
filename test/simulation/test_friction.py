# SPDX-License-Identifier: Apache-2.0
"""Dry friction over one step, and a simulated robot with stiction and Stribeck friction."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
import numpy as np
import pytest
from robot_identification.errors import SettingsError
from robot_identification.identification.pipeline import IdentificationProblem, identify_sources
from robot_identification.model.robot import Robot
from robot_identification.regressor import ModelSettings, prior
from robot_identification.signals import SignalSettings
from robot_identification.simulation import (
    Plant,
    plant,
    simulate,
    SimulationSettings,
    truth,
    Waypoints,
)
from robot_identification.simulation.plant import coulomb, over_step, StaticFriction
from scipy.integrate import solve_ivp
from scipy.interpolate import make_interp_spline


def problem(seed, n, scale):
    random = np.random.default_rng(seed)
    root = random.normal(size=(n, n + 1))
    mobility = root @ root.T + 0.01 * np.eye(n)
    free = scale * random.normal(size=n)
    limit = random.uniform(0.0, 1.0, n) * random.integers(0, 2, n)
    return mobility, free, limit


def assert_is_friction(mobility, free, limit, effort, tolerance=1e-9):
    velocity = free - mobility @ effort
    scale = np.abs(free).max() + np.abs(mobility).max()
    assert (np.abs(effort) <= limit * (1.0 + 1e-12) + 1e-15).all()
    moving = np.abs(velocity) > tolerance * scale
    np.testing.assert_allclose(effort[moving], (limit * np.sign(velocity))[moving], atol=1e-12)


@hypothesis_settings(max_examples=300)
@given(st.integers(0, 2**31), st.integers(1, 7), st.sampled_from([0.0, 0.1, 1.0, 3.0, 30.0]))
def test_it_slides_at_the_limit_or_sticks_below_it(seed, n, scale):
    mobility, free, limit = problem(seed, n, scale)
    assert_is_friction(mobility, free, limit, coulomb(mobility, free, limit))
    guess = np.random.default_rng(seed).integers(0, 2, n).astype(bool)
    assert_is_friction(mobility, free, limit, coulomb(mobility, free, limit, guess))


@hypothesis_settings(max_examples=100)
@given(st.integers(0, 2**31), st.integers(1, 6), st.sampled_from([0.1, 1.0, 3.0]))
def test_the_fallback_finds_the_same(seed, n, scale):
    # as well-conditioned as an arm's joints are: the fallback only has to save the day
    mobility, free, limit = problem(seed, n, scale)
    mobility += np.diag(mobility.diagonal())
    swept = plant._sweeps(mobility, free, limit, np.zeros(n))
    np.testing.assert_allclose(swept, coulomb(mobility, free, limit), atol=1e-7)


def test_it_is_what_trying_all_states_finds():
    for seed in range(30):
        mobility, free, limit = problem(seed, 3, 1.0)
        found = None
        for state in product((-1, 0, 1), repeat=3):
            state = np.array(state)
            effort = limit * state
            stuck = state == 0
            if stuck.any():
                rest = free - mobility[:, ~stuck] @ effort[~stuck]
                effort[stuck] = np.linalg.solve(mobility[np.ix_(stuck, stuck)], rest[stuck])
            velocity = free - mobility @ effort
            slides = (velocity * state)[~stuck] > 0.0
            if slides.all() and (np.abs(effort[stuck]) <= limit[stuck] + 1e-12).all():
                found = effort
        if found is not None:
            np.testing.assert_allclose(coulomb(mobility, free, limit), found, atol=1e-10)


def test_a_robot_at_rest_sticks():
    mobility = np.array([[2.0, -1.0], [-1.0, 1.0]])
    free = mobility @ np.array([0.3, -0.2])  # what efforts of 0.3 and -0.2 would do
    effort = coulomb(mobility, free, np.array([1.0, 1.0]))
    np.testing.assert_allclose(effort, [0.3, -0.2], atol=1e-12)
    np.testing.assert_allclose(coulomb(mobility, np.zeros(2), np.ones(2)), 0.0, atol=1e-12)
    assert coulomb(mobility, np.zeros(2), np.zeros(2)) == pytest.approx([0.0, 0.0])


FOLDER = Path(__file__).resolve().parents[2] / 'urdf'

WHEEL = """
<robot name="wheel">
  <link name="base"/>
  <link name="disk"><inertial><mass value="1"/>
    <inertia ixx="0.02" ixy="0" ixz="0" iyy="0.02" iyz="0" izz="0.05"/></inertial></link>
  <joint name="hub" type="continuous"><parent link="base"/><child link="disk"/>
    <axis xyz="0 0 1"/></joint>
</robot>
"""
FRICTION = SimulationSettings(
    perturbation=0.05,
    viscous=(0.5, 0.277, 0.03),
    stiction=(2.0, 1.0, 2.0),
    stribeck=(-0.6, -0.4, -0.6),
    stiction_slope=(60.0, 40.0, 80.0),
    stribeck_slope=(5.0, 4.0, 6.0),
    offset=(0.0,),
    rotor_inertia=(0.0,),
    encoder_counts=0.0,
    effort_noise_std=(0.02,),
    seed=5,
)


@pytest.fixture(scope='module')
def arm():
    return Robot.from_urdf(FOLDER / 'szabo_3r.urdf')


@hypothesis_settings(max_examples=200)
@given(st.integers(0, 2**31), st.integers(1, 6), st.sampled_from([1e-3, 0.1, 3.0]))
def test_friction_of_a_step_is_that_of_its_mean_velocity(seed, n, scale):
    random = np.random.default_rng(seed)
    root = random.normal(size=(n, n + 1))
    mobility = 1e-3 * (root @ root.T + 0.1 * np.eye(n))
    before, free = scale * random.normal(size=(2, n))
    stiction = random.uniform(0.0, 3.0, n)
    friction = StaticFriction(
        stiction,
        -random.uniform(0.0, 0.6, n) * stiction,
        10.0 ** random.uniform(1.0, 4.0, n),
        random.uniform(1.0, 9.0, n),
    )
    effort = over_step([friction], mobility, before, free)
    mean = 0.5 * (before + free - mobility @ effort)
    np.testing.assert_allclose(friction.effort(mean), effort, atol=1e-7)


def test_a_wheel_comes_to_rest_as_its_equation_says():
    # J dv/dt = -(ts 2/pi atan(K v) + tsc 2/pi atan(d v) + fv v), by a stiff solver
    robot = Robot.from_urdf(WHEEL)
    values = {'hub.fv': 0.02, 'hub.ts': 0.3, 'hub.tsc': -0.12}
    model = ModelSettings(friction=('viscous', 'stiction', 'stribeck'))
    parameters = prior(robot, model).updated(values)
    slopes = {'stiction': np.array([80.0]), 'stribeck': np.array([4.0])}

    def slowing(_, v):
        shaped = 0.3 * np.arctan(80.0 * v) - 0.12 * np.arctan(4.0 * v)
        return -(2.0 / np.pi * shaped + 0.02 * v) / 0.05

    errors = []
    for step in (1e-3, 5e-4):
        plant = Plant(robot, parameters, step, slopes)
        plant.set_state(np.zeros(1), np.array([2.0]))
        time = step * np.arange(round(0.7 / step) + 1)
        speeds = [plant.velocity[0]]
        for _ in time[1:]:
            plant.step(np.zeros(1))
            speeds.append(plant.velocity[0])
        exact = solve_ivp(slowing, (0.0, time[-1]), [2.0], 'Radau', time, rtol=1e-11, atol=1e-13)
        assert exact.y[0, -1] < 1e-3  # it has come to rest
        errors.append(np.abs(speeds - exact.y[0]).max())
    assert errors[0] < 5e-5
    assert errors[1] == pytest.approx(errors[0] / 4.0, rel=0.1)  # of second order


def test_static_friction_needs_its_slopes(arm):
    with pytest.raises(ValueError, match='slopes'):
        Plant(arm, truth(arm, FRICTION), 1e-3)


@pytest.mark.parametrize(
    ('changes', 'key', 'words'),
    [
        ({'coulomb': (1.0,)}, 'coulomb', 'give one of them'),
        ({'stiction': ()}, 'stribeck', "without 'stiction'"),
        ({'stiction_slope': (1.0, 2.0)}, 'stiction_slope', 'has 2 values'),
        ({'stribeck_slope': (100.0,)}, 'stribeck_slope', 'more steeply'),
    ],
)
def test_truths_that_cannot_be_are_refused(arm, changes, key, words):
    with pytest.raises(SettingsError, match=words) as caught:
        truth(arm, replace(FRICTION, **changes))
    assert caught.value.key == key


def test_friction_and_its_shape_are_identified_from_a_simulated_arm(arm):
    random = np.random.default_rng(2)
    knots = np.linspace(0.0, 12.0, 10)
    through = np.zeros((10, 3))
    through[1:-1] = random.uniform(-1.2, 1.2, (8, 3))
    spline = make_interp_spline(
        knots, through, k=5, bc_type=([(1, np.zeros(3)), (2, np.zeros(3))],) * 2
    )
    time = np.arange(0.0, 12.001, 0.01)
    waypoints = Waypoints(arm.joints, time, spline(time), spline(time, 1), spline(time, 2))
    recording = simulate(arm, waypoints, FRICTION)
    model = ModelSettings(friction=('viscous', 'stiction', 'stribeck'), rotor_inertia=False)
    signals = SignalSettings(cutoff=100.0)
    result = identify_sources(IdentificationProblem(arm, model, signals), [recording])
    true = truth(arm, FRICTION)
    np.testing.assert_allclose(
        result.settings.model.stiction_slope, FRICTION.stiction_slope, rtol=0.05
    )
    np.testing.assert_allclose(
        result.settings.model.stribeck_slope, FRICTION.stribeck_slope, rtol=0.15
    )
    for joint in arm.joints:
        for symbol in ('ts', 'tsc', 'fv'):
            name = f'{joint}.{symbol}'
            assert result.standard[name] == pytest.approx(true[name], abs=0.05), name
        dry = f'{joint}.ts', f'{joint}.tsc'
        found, given_ = (sum(p[name] for name in dry) for p in (result.standard, true))
        assert found == pytest.approx(given_, abs=0.03)
    # the sum of squares of Coulomb friction is larger by what the shape explains
    plain = identify_sources(
        IdentificationProblem(arm, ModelSettings(friction=('viscous', 'coulomb')), signals),
        [recording],
    )
    assert result.estimate.fit.relative_error < 0.5 * plain.estimate.fit.relative_error
