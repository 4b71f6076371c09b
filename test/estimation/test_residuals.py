# SPDX-License-Identifier: Apache-2.0
"""Colour of residuals whose autocorrelation is known, and delays of efforts that are known."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from robot_identification.data.recording import Motion, Recording
from robot_identification.estimation.least_squares import ols
from robot_identification.estimation.plot_samples import EMPTY_TRACE, PlotSamples
from robot_identification.estimation.residuals import effort_delay, residual_colour
from robot_identification.estimation.system import system_of
from robot_identification.model.robot import Robot
from robot_identification.regressor import (
    build,
    ModelSettings,
    prior,
)
from robot_identification.regressor.base_search import structure
from robot_identification.regressor.inverse_dynamics import RowPattern
from robot_identification.signals import SignalSettings
from scipy.interpolate import CubicSpline
from scipy.signal import lfilter

STEP, ROWS = 0.02, 20_000
NAMES = ('joint_1.fv', 'joint_2.Ia')


def samples(residual, speed=None):
    """Return rows of two joints, each with one column, whose model is 2 times the column."""
    time = STEP * np.arange(len(residual))
    pattern = RowPattern((np.array([0]), np.array([1])), 2)
    speed = np.sin(time) if speed is None else speed
    entries = np.stack([speed, np.cos(time)])
    effort = 2.0 * entries.T + residual
    return PlotSamples(
        time, np.zeros(len(time), dtype=int), pattern, entries, effort, np.ones(effort.shape, bool)
    )


def colour(rows):
    return residual_colour(rows, np.array([2.0, 2.0]), ('joint_1', 'joint_2'), NAMES)


def waves(rho, seed=1):
    """Return noise with autocorrelation rho^k."""
    return lfilter([1.0], [1.0, -rho], np.random.default_rng(seed).normal(size=(ROWS, 2)), axis=0)


@pytest.mark.parametrize('rho', [0.0, 0.5, 0.9])
def test_the_correlation_time_is_the_integral_of_the_autocorrelation(rho):
    found = colour(samples(waves(rho)))
    expected = (1.0 + rho) / (1.0 - rho)
    np.testing.assert_allclose(found.correlated_rows, expected, rtol=0.15)
    np.testing.assert_allclose(found.correlation_time, STEP * found.correlated_rows)


def test_a_bias_is_no_colour():
    white = np.random.default_rng(2).normal(size=(ROWS, 2))
    assert colour(samples(white + 5.0)).correlated_rows.max() < 1.5


def test_rows_of_different_segments_are_no_neighbours():
    rows = samples(waves(0.9))
    apart = replace(rows, segment=np.arange(ROWS) // 2)
    near, far = colour(rows).correlated_rows, colour(apart).correlated_rows
    assert (far < 0.5 * near).all()


def test_rows_in_the_dead_zone_do_not_count():
    residual = np.random.default_rng(3).normal(size=(ROWS, 2))
    residual[:, 0] += 50.0 * (np.arange(ROWS) % 1000 < 500)
    rows = samples(residual)
    keep = rows.keep.copy()
    keep[np.arange(ROWS) % 1000 < 500, 0] = False
    assert colour(rows).correlated_rows[0] > 10.0
    assert colour(replace(rows, keep=keep)).correlated_rows[0] < 1.5


def test_residuals_at_reversals_are_told_where_the_speed_is_a_column():
    time = STEP * np.arange(ROWS)
    speed = np.sin(time)
    residual = np.random.default_rng(4).normal(size=(ROWS, 2))
    residual[np.abs(speed) < 0.05] *= 4.0
    found = colour(samples(residual, speed))
    assert found.reversal_ratio[0] > 2.0
    assert np.isnan(found.reversal_ratio[1])  # its column is not its speed
    even = colour(samples(np.random.default_rng(5).normal(size=(ROWS, 2)), speed))
    assert even.reversal_ratio[0] == pytest.approx(1.0, abs=0.1)


def test_few_rows_tell_nothing():
    few = samples(waves(0.5)[:20])
    assert np.isnan(colour(few).correlation_time).all()
    none = residual_colour(EMPTY_TRACE, np.zeros(2), ('joint_1',), NAMES)
    assert np.isnan(none.correlation_time).all() and np.isnan(none.correlated_rows).all()


def test_it_is_written_by_joint():
    written = colour(samples(waves(0.5))).to_dict()
    assert list(written) == ['joint_1', 'joint_2']
    assert set(written['joint_1']) == {'correlation_time', 'correlated_rows', 'reversal_ratio'}


ARM = """
<robot name="planar">
  <link name="base"/>
  <link name="upper"><inertial><origin xyz="0.21 0.02 0"/><mass value="4"/>
    <inertia ixx="0.01" iyy="0.12" izz="0.13" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <link name="lower"><inertial><origin xyz="0.18 -0.03 0"/><mass value="2.5"/>
    <inertia ixx="0.01" iyy="0.06" izz="0.07" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <joint name="shoulder" type="continuous"><parent link="base"/><child link="upper"/>
    <origin rpy="1.5707963267948966 0 0"/><axis xyz="0 0 1"/>
    <dynamics damping="1.2" friction="0.2"/></joint>
  <joint name="elbow" type="continuous"><parent link="upper"/><child link="lower"/>
    <origin xyz="0.45 0 0"/><axis xyz="0 0 1"/>
    <dynamics damping="0.8" friction="0.1"/></joint>
</robot>
"""
DEMO_ARM = Path(__file__).resolve().parents[2] / 'urdf' / 'demo_arm.urdf'
RATE = 500.0


def moved(time):
    """Position, velocity and acceleration at any time: sums of sines up to 1.5 Hz."""
    random = np.random.default_rng(4)
    q, v, a = np.zeros((3, len(time), 2))
    for frequency in (0.3, 0.55, 0.8, 1.1, 1.5):
        omega = 2.0 * np.pi * frequency
        size, phase = random.uniform(0.1, 0.3, 2), random.uniform(0.0, 6.0, 2)
        angle = omega * time[:, None] + phase
        q += size * np.sin(angle)
        v += size * omega * np.cos(angle)
        a -= size * omega**2 * np.sin(angle)
    return Motion(q, v, a)


def trace_of(delays, noise=0.0, seconds=30.0, points=2000, gap=None, memory=0.0, seed=1):
    """
    Record an arm whose efforts are late, and reduce the recording to its trace.

    The noise has a standard deviation of so much at each sample, and forgets within ``memory``.
    """
    robot = Robot.from_urdf(ARM)
    model = ModelSettings(friction=('viscous',), rotor_inertia=False)
    regressor, truth = build(robot, model), prior(robot, model)
    time = np.arange(round(seconds * RATE)) / RATE
    efforts = [
        (regressor.rows(moved(time - late)) @ truth.values).reshape(-1, 2)[:, joint]
        for joint, late in enumerate(delays)
    ]
    effort = np.stack(efforts, axis=1)
    white = np.random.default_rng(seed).normal(size=effort.shape)
    kept = np.exp(-1.0 / (RATE * memory)) if memory else 0.0
    effort += noise * lfilter([np.sqrt(1.0 - kept**2)], [1.0, -kept], white, axis=0)
    position = moved(time).position
    if gap is not None:
        kept = (time < gap) | (time > gap + 2.0)
        time, position, effort = time[kept], position[kept], effort[kept]
    recording = Recording(time, position, effort, robot.joints)
    base = structure(regressor, robot)
    signals = SignalSettings(cutoff=20.0)
    system = system_of([recording], regressor, base, signals, trace_points=points)
    return system.trace, ols(system).base.values, robot.joints


@pytest.mark.parametrize(
    'delays', [(0.0, 0.0), (0.003, 0.0007), (-0.002, 0.01), (0.0213, 0.0213), (0.06, -0.05)]
)
def test_delays_of_any_part_of_a_sample_are_found(delays):
    found = effort_delay(*trace_of(delays))
    assert found.joints == ('shoulder', 'elbow')
    np.testing.assert_allclose(found.delay, delays, atol=5e-5)


def test_the_gain_is_what_the_residual_of_all_joints_falls_by():
    late = effort_delay(*trace_of((0.03, 0.03), noise=0.05))
    assert late.gain > 1.5
    on_time = effort_delay(*trace_of((0.0, 0.0), noise=0.05))
    assert on_time.gain == pytest.approx(1.0, abs=0.01)


def test_a_late_effort_is_not_known_beyond_the_ends():
    # as many rows late as are left out at the ends of a stretch, and some more
    delays = (0.15, -0.15)
    found = effort_delay(*trace_of(delays, seconds=6.0))
    np.testing.assert_allclose(found.delay, delays, atol=5e-4)


def test_noise_makes_them_as_uncertain_as_is_told():
    found = effort_delay(*trace_of((0.004, 0.004), noise=0.5))
    assert (np.abs(found.delay - 0.004) < 4.0 * found.std).all()
    assert (found.std < 1e-3).all()
    assert (found.std > 1e-5).all()


@pytest.mark.parametrize(('noise', 'memory'), [(0.5, 0.0), (0.3, 0.02), (0.2, 0.3)])
def test_standard_deviations_are_those_over_repeated_recordings(noise, memory):
    """Whatever the colour of the noise: errors over seeds against what each has told."""
    found = [
        effort_delay(*trace_of((0.004, 0.004), noise, memory=memory, seed=seed))
        for seed in range(8)
    ]
    errors = np.array([one.delay for one in found]) - 0.004
    told = np.array([one.std for one in found])
    ratio = np.sqrt(np.mean((errors / told) ** 2))
    assert 0.7 < ratio < 1.5
    assert np.mean(np.abs(errors) < 2.0 * told) > 0.85


def simulated(delay, seed=1, seconds=12.0):
    """Record the demo arm, with Coulomb friction, in MuJoCo."""
    from robot_identification.simulation import (
        SimulationSettings,
        Simulator,
        Waypoints,
    )

    robot = Robot.from_urdf(DEMO_ARM)
    rng, n = np.random.default_rng(seed), robot.n_joints
    time = np.arange(0.0, seconds + 0.01, 0.02)
    size, angle = rng.uniform(0.1, 0.3, (n, 4)), rng.uniform(0.0, 6.0, (n, 4))
    omega = 2.0 * np.pi * 0.1 * rng.choice(np.arange(1, 11), (n, 4))
    ramp = np.minimum(1.0, np.minimum(time, seconds - time) / 2.0)
    ramp = ramp**3 * (10.0 - 15.0 * ramp + 6.0 * ramp**2)
    path = np.sum(size * np.sin(omega * time[:, None, None] + angle), axis=2) * ramp[:, None]
    curve = CubicSpline(time, path, bc_type='clamped')
    velocity = curve(time, 1)
    velocity[[0, -1]] = 0.0
    settings = SimulationSettings(effort_delay=delay, seed=seed, initial_position=tuple(path[0]))
    simulator = Simulator(robot, settings)
    simulator.follow(Waypoints(robot.joints, time, path, velocity, curve(time, 2)))
    return robot, simulator.record(seconds)


def test_a_drives_answer_to_friction_is_no_delay():
    """Friction's step where a joint turns round is faster than the rows can follow."""
    delay = 0.004
    robot, recording = simulated(delay)
    regressor = build(robot, ModelSettings())
    signals = SignalSettings(decimate_to=50.0, dead_zone=0.05, trim=0.3)
    system = system_of([recording], regressor, structure(regressor, robot), signals)
    found = effort_delay(system.trace, ols(system).base.values, robot.joints)
    # the wrist's effort is friction for the most part, which tells no delay
    np.testing.assert_allclose(found.delay[:3], delay, atol=5e-4)


def test_a_gap_is_no_motion():
    found = effort_delay(*trace_of((0.004, -0.003), gap=11.0))
    np.testing.assert_allclose(found.delay, (0.004, -0.003), atol=1e-4)


def test_rows_too_far_apart_tell_nothing():
    found = effort_delay(*trace_of((0.004, 0.004), points=60))
    assert np.isnan(found.delay).all()
    assert np.isnan(found.std).all()


def test_a_trace_without_rows_tells_nothing():
    assert np.isnan(effort_delay(EMPTY_TRACE, np.empty(0), ('a', 'b')).delay).all()
    assert effort_delay(EMPTY_TRACE, np.empty(0), ('a',)).to_dict().keys() == {'a'}
