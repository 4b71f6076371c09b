# SPDX-License-Identifier: Apache-2.0
"""Efforts from outside: closed form of the filter, simulated pushes, and those on a UR10e."""

import functools
from pathlib import Path

import numpy as np
import pytest
from robot_identification import identify
from robot_identification.identification.revalidation import observer_of
from robot_identification.loads.momentum_observer import (
    EffortWatch,
    LONGEST_STEP,
    MomentumObserver,
    ObserverSettings,
)
from robot_identification.model.robot import Robot
from robot_identification.regressor import build, CoupledDrive, ModelSettings, prior
from robot_identification.regressor.base_search import structure
from robot_identification.results.result import write_result
from robot_identification.results.stored_result import read_result
from robot_identification.simulation import Plant
from scipy.signal import lfilter
from scipy.stats import norm

ROOT = Path(__file__).resolve().parents[2]
UR10E = ROOT.parent / 'shared' / 'data' / 'ur10e'
GAINS = np.diag([14.87, 13.26, 11.13, 10.62, 11.03, 11.47])
STEP = 0.002


def observer(robot, model, parameters, residual=0.1, **settings):
    regressor = build(robot, model)
    base = structure(regressor, robot)
    known = base.project(parameters)
    covariance = np.zeros((base.n_base, base.n_base))
    return MomentumObserver(regressor, known, covariance, residual, ObserverSettings(**settings))


def pushed(make, plant, push, effort, duration=1.5):
    """Move a simulated robot under efforts, push it from 0.5 s on, and observe it."""
    found = []
    for k in range(int(duration / STEP)):
        time = k * STEP
        q, v, tau = plant.position, plant.velocity, effort(time)
        # between the held efforts before and after the sample
        seen = make.push(time, q, v, 0.5 * (tau + effort(time - STEP)))
        plant.external[:] = push if time >= 0.5 else 0.0
        plant.step(tau)
        found.append((time, q, seen))
    return found[1:]


def test_the_observed_effort_follows_the_push_as_a_low_pass_filter_does():
    robot = Robot.from_urdf(ROOT / 'urdf' / 'puma560.urdf', gravity=(0.0, 0.0, 0.0))
    model = ModelSettings(friction=('viscous',))
    parameters = prior(robot, model).updated(
        {f'{joint}.{s}': x for joint in robot.joints for s, x in (('Ia', 0.5), ('fv', 4.0))}
    )
    plant = Plant(robot, parameters, STEP)
    push = np.array([4.0, -6.0, 3.0, 1.0, 0.0, -0.5])
    swing = np.array([20.0, 15.0, 8.0, 3.0, 2.0, 1.0])
    found = pushed(
        observer(robot, model, parameters, bandwidth=20.0),
        plant,
        push,
        lambda time: swing * np.sin(7.0 * time + np.arange(6)),
    )
    speeds = []
    for time, _, seen in found:
        expected = push * max(0.0, 1.0 - np.exp(-20.0 * (time - 0.5))) * (time >= 0.5)
        np.testing.assert_allclose(seen.effort, expected, atol=0.25)
        speeds.append(np.abs(plant.velocity).max())
    assert max(speeds) > 0.5
    assert found[-1][2].contact.tolist() == [True, True, True, True, False, False]
    assert not any(seen.contact.any() for time, _, seen in found if time < 0.6)


def test_a_push_within_the_dry_friction_of_a_joint_at_rest_is_no_contact():
    robot = Robot.from_urdf(ROOT / 'urdf' / 'zollo_planar_2r.urdf', gravity=(0.0, 0.0, 0.0))
    model = ModelSettings(friction=('viscous', 'coulomb'), rotor_inertia=False)
    parameters = prior(robot, model).updated(
        {'joint_1.fc': 20.0, 'joint_2.fc': 2.0, 'joint_1.fv': 0.0, 'joint_2.fv': 0.0}
    )
    watch = observer(robot, model, parameters, bandwidth=50.0)
    rest = np.zeros(2)
    for k in range(300):
        seen = watch.push(k * STEP, rest, rest, np.array([10.0, 10.0]))
    # friction, and the standard deviations that two joints need for 1e-4 false alarms an hour
    residual = 0.1 * norm.isf(1e-4 / 3600.0 / (2 * 50.0))
    np.testing.assert_allclose(seen.threshold, [20.0 + residual, 2.0 + residual], atol=1e-9)
    assert seen.contact.tolist() == [False, True]


def test_friction_of_a_joint_near_rest_acts_in_neither_direction():
    """A joint that sticks, with a speed that is noise, is not pushed by twice its friction."""
    robot = Robot.from_urdf(ROOT / 'urdf' / 'zollo_planar_2r.urdf', gravity=(0.0, 0.0, 0.0))
    model = ModelSettings(friction=('viscous', 'coulomb'), rotor_inertia=False)
    known = {f'joint_{j}.{s}': x for j in (1, 2) for s, x in (('fc', 8.0), ('fv', 20.0))}
    parameters = prior(robot, model).updated(known)
    watch = observer(robot, model, parameters, residual=1e-3, bandwidth=50.0)
    for k in range(300):
        seen = watch.push(k * STEP, np.zeros(2), np.array([0.01, -0.01]), np.array([-7.9, 7.9]))
    np.testing.assert_allclose(seen.effort, [7.9, -7.9], rtol=1e-3)
    np.testing.assert_allclose(seen.threshold, 8.0 + 20.0 * 0.05, atol=0.01)
    assert not seen.contact.any()


def test_false_alarms_of_noise_are_as_rare_as_is_asked_for():
    """White noise on the efforts, long enough for some 40 independent values beyond z."""
    robot = Robot.from_urdf(ROOT / 'urdf' / 'zollo_planar_2r.urdf', gravity=(0.0, 0.0, 0.0))
    model = ModelSettings(friction=(), rotor_inertia=False)
    bandwidth, interval, step, n = 50.0, 2.0, 0.005, 16_000
    noise = np.random.default_rng(3).standard_normal((n, 2))
    # the standard deviation of noise behind the low-pass, which takes the mean of two samples
    gain = bandwidth * step
    pole, share = 1.0 / (1.0 + gain), gain / (1.0 + gain)
    deviation = share * np.sqrt(0.5 * (1.0 + pole) / (1.0 - pole**2))
    settings = ObserverSettings(bandwidth=bandwidth, false_alarms=3600.0 / interval)
    seen = lfilter([0.5 * share, 0.5 * share], [1.0, -pole], -noise, axis=0)
    watch = observer(robot, model, prior(robot, model), residual=deviation, bandwidth=bandwidth)
    rest = np.zeros(2)
    found = [watch.push(step * k, rest, rest, noise[k]) for k in range(400)]
    np.testing.assert_allclose(found[-1].effort, seen[399], atol=1e-6)
    beyond = np.abs(seen) > settings.deviations(2) * deviation
    # values beyond z are alike for the correlation time
    alarms = beyond.sum() * step / (2.0 / bandwidth)
    assert 0.5 < alarms / (n * step / interval) < 2.0


def test_coupled_drives_are_part_of_the_momentum():
    robot = Robot.from_urdf(ROOT / 'urdf' / 'tx40.urdf')
    model = ModelSettings(
        friction=(), coupled_drives=(CoupledDrive('joint_6', ('joint_5', 'joint_6')),)
    )
    parameters = prior(robot, model).updated({'joint_6.Iam': 0.4, 'joint_5.Ia': 0.9})
    watch = observer(robot, model, parameters)
    rest = np.zeros(6)
    mass, *_ = watch._model(rest, rest, rest, rest)
    alone, *_ = observer(robot, model, parameters.updated({'joint_6.Iam': 0.0}))._model(
        rest, rest, rest, rest
    )
    assert (mass - alone)[4:, 4:] == pytest.approx(np.array([[0.0, 0.4], [0.4, 0.0]]))


def test_gaps_and_stamps_that_go_back_start_anew_or_are_left_out():
    robot = Robot.from_urdf(ROOT / 'urdf' / 'zollo_planar_2r.urdf', gravity=(0.0, 0.0, 0.0))
    model = ModelSettings(friction=(), rotor_inertia=False)
    watch = observer(robot, model, prior(robot, model))
    rest, effort = np.zeros(2), np.array([5.0, 5.0])
    assert watch.push(0.0, rest, rest, effort) is None
    # what keeps the robot at rest against its efforts
    assert watch.push(0.01, rest, rest, effort).effort[0] < 0.0
    assert watch.push(0.005, rest, rest, effort) is None
    assert watch.push(0.02 + 2 * LONGEST_STEP, rest, rest, effort) is None
    again = watch.push(0.03 + 2 * LONGEST_STEP, rest, rest, effort)
    np.testing.assert_allclose(again.effort, -5.0 * 0.01 / (1 / 20.0 + 0.01))


# --- a real robot ----------------------------------------------------------------------------


EXCITATIONS = ('excite_30s_a', 'excite_50s_a', 'excite_50s_b', 'excite_20s_8harm')
OTHERS = ('point_to_point', 'single_joint_2', 'single_joint_5')


@functools.cache
def run(name):
    table = np.genfromtxt(UR10E / f'{name}.csv', delimiter=',', names=True)
    joints = range(1, 7)
    columns = {'position': 'q', 'velocity': 'v', 'effort': 'i'}
    signals = {k: np.column_stack([table[f'{c}{j}'] for j in joints]) for k, c in columns.items()}
    return {'time': table['t'], **signals}


@pytest.mark.slow
@pytest.mark.parametrize(
    'identified_from',
    [pytest.param(x, marks=[pytest.mark.soak] if i else []) for i, x in enumerate(EXCITATIONS)],
)
def test_pushes_on_a_ur10e_are_found_and_nothing_else(identified_from, tmp_path):
    """Every excitation in turn gives model and threshold for the first 20 s of all other runs."""
    if not UR10E.exists():
        pytest.skip('needs the recordings of a UR10e beside the repository')
    robot = {'effort_kind': 'motor_current', 'drives': {'effort': {'matrix': GAINS}}}
    result = identify(UR10E / 'ur10e.urdf', run(identified_from), settings={'robot': robot})
    write_result(result, tmp_path / 'result.yaml')
    stored = read_result(tmp_path / 'result.yaml')

    def has_contact(name):
        watch = EffortWatch(observer_of(stored, ObserverSettings()), 0.12)
        data = {signal: values[:1900:2] for signal, values in run(name).items()}
        rows = zip(np.round(1e9 * data['time']).astype(int), data['position'], data['effort'])
        found = (watch.push(time, q, GAINS @ i) for time, q, i in rows)
        return any(one is not None and one.external.contact.any() for one in found)

    runs = {*EXCITATIONS, *OTHERS, 'push_1', 'push_2'} - {identified_from}
    assert {name for name in runs if has_contact(name)} == {'push_1', 'push_2'}
