# SPDX-License-Identifier: Apache-2.0
"""Comparisons with the truth; efforts played, against motions by Pinocchio and SciPy."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pinocchio as pin
import pytest
from robot_identification.data.recording import Recording
from robot_identification.errors import ModelError, RecordingError
from robot_identification.estimation.estimators import EstimationSettings
from robot_identification.model.robot import Robot
from robot_identification.regressor import ElasticJoints, ModelSettings, prior
from robot_identification.results.tables import ResultSettings
from robot_identification.signals import SignalSettings
from robot_identification.simulation.comparison import MassComparison, replay, TruthComparison
from scipy.integrate import solve_ivp

URDF = Path(__file__).resolve().parents[2] / 'urdf' / 'szabo_3r.urdf'
MODEL = ModelSettings(friction=('viscous', 'offset'))
RATE = 500.0

COMPARISON = TruthComparison(
    expressions=('link_1.Izz + 0.5 link_2.m', 'joint_1.fv', 'x' * 60),
    true=np.array([2.0, 0.5, 0.0]),
    identified=np.array([2.1, 0.8, 0.1]),
    std=np.array([0.1, 0.1, np.nan]),
)


@pytest.fixture(scope='module')
def case():
    """Give a result whose parameters are true, and a recording of its motion."""
    robot = Robot.from_urdf(URDF)
    first = prior(robot, MODEL)
    bodies = first.layout.names[: 10 * robot.n_joints]
    masses = {name: 1.3 * first[name] for name in bodies}
    joints = {f'{j}.{s}': v for j in robot.joints for s, v in (('Ia', 0.5), ('fv', 2.0))}
    true = first.updated({**masses, **joints, 'joint_1.off': 1.5})
    rotors, friction, offset = (
        np.array([true[f'{joint}.{symbol}'] for joint in robot.joints])
        for symbol in ('Ia', 'fv', 'off')
    )
    model = robot.with_parameters(true)
    data = model.createData()

    def effort(time, q):
        still = pin.computeGeneralizedGravity(model, data, q)
        return still + 4.0 * np.sin([2.0 * time, 3.0 * time + 1.0, 5.0 * time])

    def rate(time, state):
        q, v = np.split(state, 2)
        mass = pin.crba(model, data, q) + np.diag(rotors)
        mass = np.triu(mass) + np.triu(mass, 1).T
        bias = pin.rnea(model, data, q, v, np.zeros(3)) + friction * v + offset
        return np.concatenate([v, np.linalg.solve(mass, effort(time, q) - bias)])

    time = np.arange(0.0, 4.0, 1.0 / RATE)
    found = solve_ivp(rate, (0.0, 4.0), np.zeros(6), t_eval=time, rtol=1e-10, atol=1e-12)
    q, v = found.y[:3].T, found.y[3:].T
    efforts = np.array([effort(t, row) for t, row in zip(time, q)])
    recording = Recording(time, q, efforts, robot.joints, v)
    result = SimpleNamespace(
        robot=robot,
        settings=ResultSettings(
            MODEL,
            SignalSettings(method='butterworth', cutoff=60.0, decimate_to=None),
            EstimationSettings(),
        ),
        prior=first,
        standard=true,
    )
    return result, recording


def test_the_true_robot_follows_and_another_does_not(case):
    result, recording = case
    played = replay(result, [recording], horizon=0.5)
    assert played.windows == 7
    assert (played.moved > 0.05).any()
    assert (played.after < 1e-3).all()
    assert (played.before > 20.0 * played.after).all()
    assert played.summary().splitlines()[2].split()[0] == 'joint_1'


def test_efforts_beyond_the_urdfs_limits_are_not_cut(case):
    result, recording = case
    narrow = result.robot.urdf.replace('effort="', 'effort="1e-3" x="')
    weak = Robot.from_urdf(narrow)
    assert (weak.limits.effort == 1e-3).all()
    played = replay(SimpleNamespace(**{**vars(result), 'robot': weak}), [recording])
    assert (played.after < 1e-3).all()


def test_a_recording_has_to_be_longer_than_the_horizon(case):
    result, recording = case
    with pytest.raises(RecordingError, match='no stretch is longer than the horizon of 9 s'):
        replay(result, [recording], horizon=9.0)


def test_elastic_joints_are_refused(case):
    result, recording = case
    settings = replace(result.settings, model=replace(MODEL, elastic=ElasticJoints()))
    with pytest.raises(ModelError, match='which has elastic joints'):
        replay(SimpleNamespace(**{**vars(result), 'settings': settings}), [recording])


def test_intervals_of_95_percent_hold_what_lies_within_1_96_deviations():
    np.testing.assert_allclose(COMPARISON.deviation, [1.0, 3.0, np.nan])
    assert COMPARISON.outside.tolist() == [False, True, False]
    assert COMPARISON.significant.tolist() == [True, False, False]


def test_the_table_marks_what_is_significant_and_what_is_outside():
    _, first, second, third = COMPARISON.table().splitlines()
    assert first.startswith('  * link_1.Izz + 0.5 link_2.m') and first.endswith('1.0 std')
    assert second.startswith('  ! joint_1.fv') and second.endswith('3.0 std')
    assert '...' in third and 'nan' not in third


def test_masses_are_marked_where_their_interval_misses_the_truth():
    masses = MassComparison(
        ('link_1', 'link_2', 'base'),
        np.ones(3),
        np.array([1.0, 2.0, 1.5]),
        np.array([1.1, 3.0, 1.0]),
        np.array([0.25, 0.25, np.nan]),
    )
    assert masses.within.tolist() == [True, False, False]
    assert masses.known.tolist() == [True, True, False]
    _, first, second, third = masses.table().splitlines()
    assert first.startswith('    link_1') and second.startswith('  ! link_2')
    assert third.startswith('  - base') and 'nan' not in third
