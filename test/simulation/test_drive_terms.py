# SPDX-License-Identifier: Apache-2.0
"""Terms of real drives in the simulated robot: against equations, and identified again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from robot_identification.config.problem import IdentificationProblem
from robot_identification.data.recording import Motion
from robot_identification.errors import SettingsError
from robot_identification.estimation.estimators import EstimationSettings
from robot_identification.identification.pipeline import identify_sources
from robot_identification.model.robot import Robot, tilted_gravity
from robot_identification.regressor import build, ElasticJoints, ModelSettings, predict, prior
from robot_identification.signals import SignalSettings
from robot_identification.simulation import (
    Plant,
    simulate,
    SimulationSettings,
    truth,
    Waypoints,
    Wear,
)
from robot_identification.simulation.plant import DahlFriction, over_step
from robot_identification.simulation.truth import true_model
import scipy
from scipy.integrate import solve_ivp
from scipy.interpolate import make_interp_spline

FOLDER = Path(__file__).resolve().parents[2] / 'urdf'
WHEEL = """
<robot name="wheel">
  <link name="base"/>
  <link name="disk"><inertial>{origin}<mass value="1"/>
    <inertia ixx="0.05" ixy="0" ixz="0" iyy="0.05" iyz="0" izz="0.05"/></inertial></link>
  <joint name="hub" type="continuous"><parent link="base"/><child link="disk"/>
    <axis xyz="{axis}"/></joint>
</robot>
"""
BALANCED = WHEEL.format(origin='', axis='0 0 1')
PENDULUM = WHEEL.format(origin='<origin xyz="0.2 0 0"/>', axis='0 1 0')
"""Its moment of inertia about the joint is 0.05 + 0.2^2 kg m^2."""


def _plant(text, step, model=None, breakaway=None, **values):
    robot = Robot.from_urdf(text)
    model = model or ModelSettings()
    parameters = prior(robot, model).updated({f'hub.{name}': v for name, v in values.items()})
    return Plant(robot, parameters, step, breakaway=breakaway)


def _run(plant, q, v, duration, effort=lambda t: 0.0):
    """Return times, positions and velocities; the effort is that of each step's middle."""
    step = plant.model.opt.timestep
    plant.set_state(np.array([q]), np.array([v]))
    time = step * np.arange(round(duration / step) + 1)
    states = [(q, v)]
    for t in time[:-1]:
        plant.step(np.array([effort(t + 0.5 * step)]))
        states.append((plant.position[0], plant.velocity[0]))
    return time, *np.array(states).T


def _push(t):
    return 0.6 * np.sin(2.0 * np.pi * 0.7 * t)


def test_a_wheel_with_dahls_friction_moves_as_its_equations_say():
    """J dv/dt = u - fc z - fv v with dz/dt = v/x0 (1 - z sign v), by a stiff solver."""

    def slope(t, state):
        _, v, z = state
        return [v, (_push(t) - 0.4 * z - 0.05 * v) / 0.05, v / 0.01 * (1.0 - z * np.sign(v))]

    solved = solve_ivp(
        slope, (0.0, 1.5), [0.0] * 3, 'Radau', dense_output=True, rtol=1e-9, atol=1e-11
    )
    errors = []
    for step in (1e-3, 5e-4):
        plant = _plant(BALANCED, step, breakaway=np.array([0.01]), fc=0.4, fv=0.05)
        time, q, v = _run(plant, 0.0, 0.0, 1.5, _push)
        exact = solved.sol(time)
        errors.append(max(np.abs(q - exact[0]).max(), np.abs(v - exact[1]).max()))
        assert np.abs(plant._direction[0] - exact[2, -1]) < 1e-3
    assert np.abs(exact[1]).max() > 1.0
    assert errors[0] < 1e-3
    assert errors[1] == pytest.approx(errors[0] / 4.0, rel=0.3)  # of second order


def test_a_wheel_held_by_dahls_friction_springs_back():
    """Below the limit, dry friction holds like a spring of stiffness fc/x0."""
    plant = _plant(BALANCED, 1e-3, breakaway=np.array([0.01]), fc=1.0, fv=6.0)
    _, q, _ = _run(plant, 0.0, 0.0, 2.0, lambda t: 0.3)
    # without overshoot, z = 1 - exp(-q/x0) is 0.3
    assert q[-1] == pytest.approx(-0.01 * np.log(0.7), rel=1e-3)


def test_a_wheel_slows_down_by_the_root_of_its_speed():
    """J dv/dt = -fr v^(1/3): v^(2/3) falls in a straight line."""
    plant = _plant(BALANCED, 1e-3, ModelSettings(('viscous', 'root')), fr=0.2)
    time, _, v = _run(plant, 0.0, 2.0, 0.55)
    exact = np.maximum(0.0, 2.0 ** (2.0 / 3.0) - 2.0 / 3.0 * 0.2 / 0.05 * time) ** 1.5
    assert exact[-1] < 0.06
    assert np.abs(v - exact).max() < 2e-4


def test_a_wheel_on_a_spring_keeps_its_energy():
    plant = _plant(BALANCED, 1e-3, ModelSettings(joint_springs=('hub',)), kc=0.7, ks=-1.1)
    _, q, v = _run(plant, 0.3, 1.0, 3.0)
    energy = 0.5 * 0.05 * v**2 + 0.7 * np.sin(q) + 1.1 * np.cos(q)
    assert np.ptp(q) > 1.0
    assert np.ptp(energy) < 2e-5 * np.abs(energy).max()


def test_friction_by_load_goes_with_the_effort_of_the_bodies():
    """J dv/dt + w cos q = u - fl |J dv/dt + w cos q| sign v, solved for dv/dt."""
    inertia, weight, share = 0.09, -9.81 * 0.2, 0.2

    def slope(t, state):
        q, v = state
        push = 3.0 * _push(t)
        # the effort that arrives at the bodies has the sign of the one that is sent
        lost = 1.0 + share * np.sign(v) * np.sign(push)
        return [v, (push / lost - weight * np.cos(q)) / inertia]

    plant = _plant(PENDULUM, 2e-4, ModelSettings(('load',)), fl=share)
    time, q, v = _run(plant, -1.0, 0.0, 1.2, lambda t: 3.0 * _push(t))
    exact = solve_ivp(slope, (0.0, 1.2), [-1.0, 0.0], t_eval=time, max_step=2e-4, rtol=1e-8)
    lossless = solve_ivp(
        lambda t, s: [s[1], (3.0 * _push(t) - weight * np.cos(s[0])) / inertia],
        (0.0, 1.2),
        [-1.0, 0.0],
        t_eval=time,
        max_step=1e-3,
    )
    error = np.abs(v - exact.y[1]).max()
    assert error < 0.01 * np.abs(exact.y[1] - lossless.y[1]).max()


def test_mean_direction_of_a_step_is_that_of_the_equation():
    """SciPy's quadrature of the solution; derivatives by differences."""
    random = np.random.default_rng(0)
    state = random.uniform(-1.0, 1.0, 20)
    velocity = random.normal(size=20) * 10.0 ** random.uniform(-4.0, 2.0, 20)
    dahl = DahlFriction(np.full(20, 2.0), np.full(20, 0.01), state, 1e-3)
    for i, (z, v) in enumerate(zip(state, velocity, strict=True)):
        way, rate = np.sign(v), abs(v) / 0.01
        mean = scipy.integrate.quad(
            lambda t, z=z, way=way, rate=rate: way + (z - way) * np.exp(-rate * t), 0.0, 1e-3
        )[0]
        assert dahl.effort(velocity)[i] == pytest.approx(2.0 * mean / 1e-3, rel=1e-9)
    small = 1e-4 * np.abs(velocity)
    numeric = (dahl.effort(velocity + small) - dahl.effort(velocity - small)) / (2.0 * small)
    np.testing.assert_allclose(dahl.steepness(velocity), numeric, rtol=1e-4, atol=1e-9)
    # a displacement that is nearly none has the sign of the velocity
    steep = DahlFriction(np.ones(3), np.full(3, 1e-6), np.zeros(3), 1e-3)
    found = over_step([steep], 1e-3 * np.eye(3), np.full(3, 0.5), np.array([0.5, 0.4, 0.3]))
    np.testing.assert_allclose(found, 1.0, atol=5e-3)


@pytest.fixture(scope='module')
def arm():
    return Robot.from_urdf(FOLDER / 'szabo_3r.urdf')


def _waypoints(arm, duration=12.0):
    random = np.random.default_rng(2)
    count = max(10, round(duration / 1.2))
    knots = np.linspace(0.0, duration, count)
    through = np.zeros((count, 3))
    through[1:-1] = random.uniform(-1.4, 1.4, (count - 2, 3))
    spline = make_interp_spline(
        knots, through, k=5, bc_type=([(1, np.zeros(3)), (2, np.zeros(3))],) * 2
    )
    time = np.arange(0.0, duration + 0.001, 0.01)
    return Waypoints(arm.joints, time, spline(time), spline(time, 1), spline(time, 2))


PLAIN = SimulationSettings(
    perturbation=0.05,
    viscous=(0.5, 0.3, 0.4),
    coulomb=(2.0, 1.5, 1.0),
    offset=(0.2,),
    rotor_inertia=(0.05,),
    encoder_counts=0.0,
    effort_noise_std=(0.02,),
    seed=5,
)
COARSE = {'rate': 500.0, 'servo_rate': 500.0}
"""Rates that take half of the time."""

DRIVES = replace(
    PLAIN,
    root=(1.0, 0.8, 0.6),
    load=(0.08, 0.12, 0.1),
    breakaway=(0.02, 0.03, 0.01),
    spring_cosine=(3.0, -2.0, 0.0),
    spring_sine=(-1.0, 4.0, 2.0),
)
FILTER = {'cutoff': 20.0, 'dead_zone': 0.0, 'decimate_to': 50.0}


def _identified(robot, model, recording, **signals):
    problem = IdentificationProblem(
        robot,
        model,
        SignalSettings(**{**FILTER, **signals}),
        EstimationSettings(method='wls', bootstrap=None),
    )
    return identify_sources(problem, [recording])


def test_the_model_that_the_simulated_robot_obeys_is_told(arm):
    model = true_model(arm, DRIVES)
    assert model.friction == ('viscous', 'coulomb', 'offset', 'root', 'load')
    assert model.breakaway == (0.02, 0.03, 0.01) and model.joint_springs == arm.joints
    values = truth(arm, DRIVES)
    assert values.layout.names == prior(arm, model).layout.names
    assert values['joint_2.fl'] == 0.12 and values['joint_1.kc'] == 3.0
    # the bodies, and what else is random, are those of the plain robot
    plain = truth(arm, PLAIN)
    assert all(values[name] == plain[name] for name in plain.layout)
    assert true_model(arm, PLAIN) == ModelSettings()


def test_all_terms_are_identified_from_a_simulated_arm(arm):
    recording = simulate(arm, _waypoints(arm, 24.0), replace(DRIVES, **COARSE))
    model = true_model(arm, DRIVES)
    result = _identified(arm, model, recording)
    true = truth(arm, DRIVES)
    for joint in arm.joints:
        for symbol, tolerance in (('fv', 0.05), ('fc', 0.1), ('fr', 0.1), ('fl', 0.01)):
            name = f'{joint}.{symbol}'
            assert result.standard[name] == pytest.approx(true[name], abs=tolerance), name
    for name in ('joint_1.kc', 'joint_1.ks'):
        assert result.standard[name] == pytest.approx(true[name], abs=0.05), name
    # without any one of them the efforts fit worse
    for change in (
        {'friction': ('viscous', 'coulomb', 'offset', 'root')},
        {'friction': ('viscous', 'coulomb', 'offset', 'load')},
        {'breakaway': 0.0},
        {'joint_springs': ()},
    ):
        less = _identified(arm, replace(model, **change), recording)
        assert less.estimate.fit.relative_error > 1.3 * result.estimate.fit.relative_error, change


CHANNEL = replace(PLAIN, effort_delay=(0.01, 0.0, 0.03), effort_low_pass=(0.0, 8.0, 12.0))


def test_reported_efforts_are_late_and_smooth_as_scipys_filters_make_them(arm):
    way = _waypoints(arm, 3.0)
    quiet = {'effort_noise_std': (0.0,), 'effort_noise': 0.0}
    plain, late = (simulate(arm, way, replace(settings, **quiet)) for settings in (PLAIN, CHANNEL))
    np.testing.assert_array_equal(plain.position, late.position)
    for joint, (delay, cutoff) in enumerate(((10, 0.0), (0, 8.0), (30, 12.0))):
        wanted = np.concatenate([np.full(delay, plain.effort[0, joint]), plain.effort[:, joint]])
        wanted = wanted[: len(plain.time)]
        if cutoff:
            tau = 1.0 / (2.0 * np.pi * cutoff)
            system = scipy.signal.lti([1.0], np.convolve([tau, 1.0], [tau, 1.0]))
            start = wanted[0]
            wanted = start + scipy.signal.lsim(system, wanted - start, plain.time)[1]
        size = np.ptp(plain.effort[:, joint])
        np.testing.assert_allclose(late.effort[:, joint], wanted, atol=2e-3 * size)


@pytest.fixture(scope='module')
def plain_fit(arm):
    """Return the fit of a robot whose drives have none of these."""
    recording = simulate(arm, _waypoints(arm), replace(PLAIN, **COARSE))
    return _identified(arm, ModelSettings(), recording)


def test_the_channel_of_the_efforts_is_what_identification_takes_it_for(arm, plain_fit):
    recording = simulate(arm, _waypoints(arm), replace(CHANNEL, **COARSE))
    # two filters of order 1 are later by 1/(pi fc) in all
    delay = (0.01, 1.0 / (8.0 * np.pi), 0.03 + 1.0 / (12.0 * np.pi))
    model = ModelSettings()
    with_it = _identified(
        arm, model, recording, effort_delay=delay, effort_low_pass=(0.0, 8.0, 12.0)
    )
    without = _identified(arm, model, recording)
    true = truth(arm, CHANNEL)
    names = [f'{joint}.{symbol}' for joint in arm.joints for symbol in ('fv', 'fc', 'Ia')]
    errors = [
        max(abs(result.standard[name] - true[name]) for name in names)
        for result in (with_it, without)
    ]
    assert errors[0] < 0.1 and errors[1] > 3.0 * errors[0]
    fits = [result.estimate.fit.relative_error for result in (plain_fit, with_it, without)]
    assert fits[1] < 1.1 * fits[0] and fits[2] > 2.0 * fits[0]


def test_a_tilted_base_is_known_to_the_simulated_robot_alone(arm, plain_fit):
    tilted = replace(PLAIN, **COARSE, base_tilt=(0.05, -0.08, 0.0))
    recording = simulate(arm, _waypoints(arm), tilted)
    real = arm.with_gravity(tilted_gravity(arm.gravity.tolist(), tilted.base_tilt))
    found, wrong = (_identified(robot, ModelSettings(), recording) for robot in (real, arm))
    fits = [result.estimate.fit.relative_error for result in (plain_fit, found, wrong)]
    assert fits[1] < 1.1 * fits[0] and fits[2] > 2.0 * fits[0]
    true, names = truth(arm, tilted), [f'{joint}.fc' for joint in arm.joints]
    for name in names:
        assert found.standard[name] == pytest.approx(true[name], abs=0.05)


def test_efforts_at_rest_are_those_of_the_true_parameters(arm):
    """Held still for long, the drives give gravity and springs, by the regressor's own columns."""
    settings = replace(
        DRIVES, coulomb=(0.0,), load=(), root=(), breakaway=(), effort_noise_std=(0.0,)
    )
    settings = replace(settings, effort_noise=0.0, base_tilt=(0.1, 0.0, 0.0))
    still = np.array([0.3, -0.5, 0.7])
    way = Waypoints(arm.joints, np.array([0.0, 3.0]), np.array([still, still]))
    recording = simulate(arm, way, settings)
    real = arm.with_gravity(tilted_gravity(arm.gravity.tolist(), settings.base_tilt))
    model = true_model(arm, settings)
    motion = Motion(recording.position[-1:], *np.zeros((2, 1, 3)))
    wanted = predict(build(real, model), motion, truth(arm, settings))
    np.testing.assert_allclose(recording.effort[-1:], wanted, atol=1e-3)


def test_wear_multiplies_every_friction(arm):
    robot = Robot.from_urdf(BALANCED)
    model = ModelSettings(('viscous', 'root'))
    parameters = prior(robot, model).updated({'hub.fr': 0.1})
    single = prior(robot, model).updated({'hub.fr': 0.2})
    worn, wanted = Plant(robot, parameters, 1e-3), Plant(robot, single, 1e-3)
    worn.wear(Wear(friction=(2.0,)))
    np.testing.assert_array_equal(_run(worn, 0.0, 2.0, 0.2), _run(wanted, 0.0, 2.0, 0.2))


def test_what_elastic_joints_do_not_have_is_refused():
    planar = Robot.from_urdf(FOLDER / 'zollo_planar_2r.urdf')
    elastic = SimulationSettings(elastic=ElasticJoints())
    for change, words in (({'spring_sine': (1.0,)}, 'springs'), ({'load': (0.1,)}, "'load'")):
        with pytest.raises(SettingsError, match=words):
            truth(planar, replace(elastic, **change))
