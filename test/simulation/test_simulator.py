# SPDX-License-Identifier: Apache-2.0
"""The whole simulated robot: what it measures belongs together, and identifies to its truth."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
from robot_identification.data.recording import Motion
from robot_identification.errors import ExcitationError, ModelError, SettingsError
from robot_identification.model.robot import Robot
from robot_identification.options.fields import from_mapping
from robot_identification.regressor import build
from robot_identification.regressor.base_search import structure
from robot_identification.simulation import (
    Servo,
    simulate,
    SimulationSettings,
    Simulator,
    truth,
    Waypoints,
)
from scipy.interpolate import make_interp_spline

FOLDER = Path(__file__).resolve().parents[2] / 'urdf'
CLEAN = SimulationSettings(effort_noise=0.0, encoder_counts=0.0)
STEP = 1e-3


def load(name):
    return Robot.from_urdf(FOLDER / f'{name}.urdf')


def excitation(robot, seed=0, duration=8.0, span=0.8, every=0.5):
    """Quintic splines through random points, at rest at both ends."""
    random = np.random.default_rng(seed)
    knots = np.arange(0.0, duration + every / 2.0, every)
    room = 2.0 * span
    middle = np.clip(0.0, robot.limits.lower + room, robot.limits.upper - room)
    points = middle + random.uniform(-span, span, (knots.size, robot.n_joints))
    points[[0, -1]] = middle
    rest = np.zeros(robot.n_joints)
    spline = make_interp_spline(knots, points, k=5, bc_type=([(1, rest), (2, rest)],) * 2)
    time = np.arange(0.0, duration + 0.005, 0.01)
    velocity, acceleration = spline(time, 1), spline(time, 2)
    velocity[-1] = acceleration[-1] = 0.0
    return Waypoints(robot.joints, time, spline(time), velocity, acceleration)


@pytest.fixture(scope='module')
def arm():
    return load('demo_arm')


@pytest.fixture(scope='module')
def clean(arm):
    """Eight seconds of the demonstration arm, nothing disturbing the sensors."""
    return simulate(arm, excitation(arm), CLEAN)


def differences(recording):
    """Velocity and acceleration by central differences, without the first and last sample."""
    q = recording.position
    velocity = (q[2:] - q[:-2]) / (2.0 * STEP)
    acceleration = (q[2:] - 2.0 * q[1:-1] + q[:-2]) / STEP**2
    return Motion(q[1:-1], velocity, acceleration)


def away_from_reversals(velocity):
    """Select samples and joints whose direction is beyond doubt, (n_samples, n_joints) bool."""
    direction = np.sign(velocity)
    same = np.ones(velocity.shape, dtype=bool)
    for shift in range(-2, 3):
        same &= np.roll(direction, shift, axis=0) == direction
    same[:5] = same[-5:] = False
    return same & (np.abs(velocity) > 0.01)


def test_effort_position_velocity_and_acceleration_are_of_one_instant(arm, clean):
    motion = differences(clean)
    expected = (build(arm).rows(motion) @ truth(arm, CLEAN).values).reshape(-1, 6)
    keep = away_from_reversals(motion.velocity)
    effort = clean.effort[1:-1]
    error = np.sqrt(np.mean((effort - expected)[keep] ** 2))
    scale = np.sqrt(np.mean(effort[keep] ** 2))
    assert error < 1e-5 * scale
    # a quarter of a millisecond would show
    quarter = 0.75 * effort[1:-1] + 0.25 * effort[2:]
    shifted = np.sqrt(np.mean((quarter - expected[1:-1])[keep[1:-1]] ** 2))
    assert shifted > 100.0 * error
    # the acceleration jumps where another joint reverses, and the differences smear that
    np.testing.assert_allclose(clean.velocity[1:-1][keep], motion.velocity[keep], atol=3e-3)


@pytest.mark.parametrize(
    'name',
    [
        'szabo_3r',
        *(
            pytest.param(name, marks=pytest.mark.soak)
            for name in ('demo_arm', 'tx40', 'zollo_planar_2r')
        ),
    ],
)
def test_identification_finds_the_truth(name):
    robot = load(name)
    settings = replace(CLEAN, perturbation=0.05)
    recording = simulate(robot, excitation(robot, span=0.6), settings)
    motion = differences(recording)
    keep = away_from_reversals(motion.velocity).ravel()
    base = structure(build(robot), robot)
    W = base.columns(build(robot).rows(motion))[keep]
    tau = recording.effort[1:-1].ravel()[keep]
    found = np.linalg.lstsq(W, tau, rcond=None)[0]
    true = base.project(truth(robot, settings)).values
    # what a wrong parameter does to the efforts, and the parameters that matter on their own
    importance = np.linalg.norm(W, axis=0) / np.linalg.norm(tau)
    assert (np.abs(found - true) * importance).max() < 1e-4
    matters = np.abs(true) * importance > 1e-3
    assert matters.sum() > 0.5 * matters.size
    np.testing.assert_allclose(found[matters], true[matters], rtol=5e-3)


def test_it_follows_its_trajectory_within_the_limits(arm, clean):
    waypoints = excitation(arm)
    spline = make_interp_spline(waypoints.time, waypoints.position, k=5)
    error = np.abs(clean.position - spline(clean.time)).max(axis=0)
    assert (error < 0.01).all()
    assert (error > 1e-5).any()  # its servo does not know the truth
    assert (np.abs(clean.effort) <= arm.limits.effort).all()
    assert clean.time[0] == 0.0
    assert clean.duration == pytest.approx(8.0 - STEP)


def test_the_same_seed_gives_the_same_recording(arm):
    short = excitation(arm, duration=1.0)
    settings = SimulationSettings()
    first, again = simulate(arm, short, settings), simulate(arm, short, settings)
    for name in ('position', 'velocity', 'effort'):
        np.testing.assert_array_equal(getattr(first, name), getattr(again, name))
    other = simulate(arm, short, SimulationSettings(seed=2))
    assert (other.effort != first.effort).all()


def test_encoders_count(arm):
    counts = 4096
    settings = SimulationSettings(encoder_counts=counts)
    position = simulate(arm, excitation(arm, duration=1.0), settings).position
    steps = position * counts / (2.0 * np.pi)
    np.testing.assert_allclose(steps, np.round(steps), atol=1e-6)
    assert np.ptp(steps, axis=0).min() > 10


def test_noise_is_as_large_as_asked_and_white(arm):
    simulator = Simulator(arm, replace(CLEAN, effort_noise=0.01, velocity_noise=0.02))
    recording = simulator.record(1.5)
    effort = recording.effort[500:]  # at rest
    noise = effort - effort.mean(axis=0)
    np.testing.assert_allclose(noise.std(axis=0), 0.01 * arm.limits.effort, rtol=0.2)
    given = Simulator(arm, replace(CLEAN, effort_noise_std=(0.5,))).record(1.0).effort[500:]
    np.testing.assert_allclose(given.std(axis=0), 0.5, rtol=0.2)
    velocity = recording.velocity[500:]
    np.testing.assert_allclose(velocity.std(axis=0), 0.02, rtol=0.2)


def test_a_delayed_effort_is_the_earlier_effort(arm, clean):
    delayed = simulate(arm, excitation(arm), replace(CLEAN, effort_delay=0.004))
    np.testing.assert_allclose(delayed.effort[4:2000], clean.effort[: 2000 - 4], atol=1e-9)
    np.testing.assert_array_equal(delayed.position[:2000], clean.position[:2000])


def test_a_slower_rate_takes_every_nth_sample(arm, clean):
    slow = simulate(arm, excitation(arm), replace(CLEAN, rate=250.0))
    np.testing.assert_allclose(slow.time, clean.time[::4], atol=1e-12)
    np.testing.assert_array_equal(slow.effort, clean.effort[::4])
    with pytest.raises(SettingsError, match='does not divide') as caught:
        SimulationSettings(rate=300.0)
    assert caught.value.key == 'rate'


def test_substeps_change_next_to_nothing(arm, clean):
    short = excitation(arm, duration=1.0)
    coarse = simulate(arm, short, CLEAN)
    fine = simulate(arm, short, replace(CLEAN, substeps=4))
    np.testing.assert_allclose(fine.position, coarse.position, atol=1e-5)


def test_it_rests_until_told_and_holds_afterwards(arm):
    simulator = Simulator(arm, CLEAN)
    assert np.abs(simulator.record(0.5).velocity[300:]).max() < 1e-4
    target = np.full(6, 0.3)
    end = simulator.follow(Waypoints(arm.joints, [1.0], [target], [np.zeros(6)], [np.zeros(6)]))
    assert end == pytest.approx(1.5)
    simulator.record(1.5)
    rest = simulator.record(0.5)
    np.testing.assert_allclose(rest.position[-1], target, atol=5e-3)
    assert np.abs(rest.velocity[-1]).max() < 1e-4
    with pytest.raises(ExcitationError, match="no joint 'x'"):
        simulator.follow(Waypoints(('x',), [1.0], [[0.0]]))
    np.testing.assert_allclose(simulator.record(0.2).position[-1], target, atol=5e-3)


def test_reset_goes_back_in_place_but_not_in_time(arm):
    simulator = Simulator(arm, replace(CLEAN, initial_position=(0.2,)))
    simulator.follow(Waypoints(arm.joints, [0.5], [[1.0] * 6]))
    simulator.record(0.4)
    simulator.reset()
    assert simulator.time == pytest.approx(0.4)
    sample = simulator.advance()
    np.testing.assert_allclose(sample.position, 0.2)
    np.testing.assert_array_equal(sample.velocity, 0.0)
    assert np.abs(simulator.record(1.0).position - 0.2).max() < 5e-3


def test_an_initial_position_beyond_the_limits_is_named(arm):
    with pytest.raises(SettingsError, match="'initial_position' of joint 'joint_2' is 2.5"):
        Simulator(arm, SimulationSettings(initial_position=(2.5,)))


SLIDE = """
<robot name="slide">
  <link name="base"/>
  <link name="cart"><inertial><mass value="2"/>
    <inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial></link>
  <link name="wheel"><inertial><origin xyz="0.1 0 0"/><mass value="1"/>
    <inertia ixx="0.1" ixy="0" ixz="0" iyy="0.1" iyz="0" izz="0.1"/></inertial></link>
  <joint name="rail" type="prismatic"><parent link="base"/><child link="cart"/>
    <axis xyz="1 0 0"/><limit lower="-1" upper="1" velocity="1" effort="50"/></joint>
  <joint name="axle" type="continuous"><parent link="cart"/><child link="wheel"/>
    <axis xyz="0 1 0"/></joint>
</robot>
"""


def test_sliding_and_endlessly_turning_joints():
    robot = Robot.from_urdf(SLIDE, ['axle', 'rail'])
    settings = replace(CLEAN, encoder_counts=1000.0, rotor_inertia=(0.05,))
    target = np.array([9.0, 0.4])  # more than one turn
    rest = np.zeros((1, 2))
    simulator = Simulator(robot, settings)
    simulator.follow(Waypoints(robot.joints, [2.0], [target], rest, rest))
    recording = simulator.record(2.5)
    np.testing.assert_allclose(recording.position[-1], target, atol=0.01)
    counts = recording.position * [1000.0 / (2.0 * np.pi), 1000.0]
    np.testing.assert_allclose(counts, np.round(counts), atol=1e-6)


def test_an_unstable_servo_is_named():
    robot = Robot.from_urdf(SLIDE.replace('effort="50"', 'effort="0"'))
    settings = replace(CLEAN, bandwidth=200.0, servo_rate=100.0, rate=100.0)
    simulator = Simulator(robot, settings)
    simulator.follow(Waypoints(robot.joints, [0.1], [[0.0, 1.0]]))
    with pytest.raises(ModelError, match='diverges: joint') as caught:
        simulator.record(20.0)
    assert 'bandwidth' in caught.value.remedy


def test_settings_are_options():
    settings = from_mapping(SimulationSettings, {'rate': 500, 'viscous': [1, 2, 3]})
    assert settings.rate == 500.0
    assert settings.decimation == 2
    assert settings.viscous == (1.0, 2.0, 3.0)
    with pytest.raises(SettingsError, match='perturbation'):
        from_mapping(SimulationSettings, {'perturbation': -0.1})


def test_the_servo_respects_the_effort_limits_and_compensates_gravity(arm):
    settings = replace(CLEAN, perturbation=0.0, friction_perturbation=0.0)
    servo = Servo(arm, truth(arm, settings), bandwidth=20.0, damping=0.8)
    q = np.array([0.3, 1.0, -0.5, 0.2, 0.7, 0.1])
    rest = np.array([q, np.zeros(6), np.zeros(6)])
    gravity = pin.computeGeneralizedGravity(arm.model, arm.model.createData(), q)
    np.testing.assert_allclose(servo.effort(rest, q, np.zeros(6)), gravity, atol=1e-10)
    far = servo.effort(rest, q - 2.0, np.zeros(6))
    np.testing.assert_allclose(np.abs(far), arm.limits.effort)


def test_efforts_at_the_limit_still_belong_to_the_motion(arm):
    """A robot that is asked too much saturates, and its recording is as good as any."""
    weak = load('demo_arm')
    weak.limits.effort.setflags(write=True)
    weak.limits.effort[:] = 0.5 * arm.limits.effort
    recording = simulate(weak, excitation(weak, duration=4.0, span=1.0), CLEAN)
    assert (np.abs(recording.effort) == weak.limits.effort).any()
    motion = differences(recording)
    expected = (build(weak).rows(motion) @ truth(weak, CLEAN).values).reshape(-1, 6)
    keep = away_from_reversals(motion.velocity)
    error = (recording.effort[1:-1] - expected)[keep]
    assert np.sqrt(np.mean(error**2)) < 1e-3 * np.sqrt(np.mean(recording.effort**2))


def test_what_acts_from_outside_is_taken_by_the_drives_and_not_measured(arm):
    frictionless = SimulationSettings(
        effort_noise=0.0, encoder_counts=0.0, coulomb=(0.0,), viscous=(0.0,), offset=(0.0,)
    )
    simulator = Simulator(arm, frictionless)
    free = simulator.record(0.5).effort[-1]
    push = np.array([3.0, -8.0, 5.0, 1.0, -0.5, 0.2])
    simulator.disturb(push)
    pushed = simulator.record(1.0)
    # the servo has no integrator, so it gives way a little, and its own weight changes with that
    np.testing.assert_allclose(pushed.effort[-1], free - push, atol=0.02 * np.abs(push).max())
    assert np.abs(pushed.velocity[-1]).max() < 1e-3
    simulator.reset()
    np.testing.assert_allclose(simulator.record(0.5).effort[-1], free, atol=1e-6)
    for wrong in (push[:3], np.full(6, np.nan)):
        with pytest.raises(ExcitationError, match='refused'):
            simulator.disturb(wrong)
