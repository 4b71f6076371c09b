# SPDX-License-Identifier: Apache-2.0
"""The search for the slopes of stiction and Stribeck friction."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from robot_identification.data.recording import Motion, Recording
from robot_identification.errors import RecordingError
from robot_identification.estimation.estimators import EstimationSettings
from robot_identification.identification.pipeline import IdentificationProblem, identify_sources
from robot_identification.model.robot import Robot
from robot_identification.pages.estimate_text import estimate_summary
from robot_identification.regressor import (
    build,
    ElasticJoints,
    ModelSettings,
    predict,
    prior,
)
from robot_identification.regressor.base_search import structure
from robot_identification.results.result import write_result
from robot_identification.results.stored_result import read_result
from robot_identification.selection import friction_slopes
from robot_identification.selection.friction_slopes import find_slopes, open_slopes
from robot_identification.signals import SignalSettings
from scipy.optimize import least_squares

FOLDER = Path(__file__).resolve().parents[2] / 'urdf'
STATIC = ('viscous', 'stiction', 'stribeck')
OPEN = ModelSettings(friction=STATIC, rotor_inertia=False)
STIFF, SLOW = (100.0, 60.0, 200.0), (5.0, 4.0, 6.0)
TRUE = ModelSettings(
    friction=STATIC, rotor_inertia=False, stiction_slope=STIFF, stribeck_slope=SLOW
)
SIGNALS = SignalSettings(cutoff=100.0, decimate_to=None)
RATE = 500.0
PLAIN = EstimationSettings(method='wls')


@pytest.fixture(scope='module')
def arm():
    return Robot.from_urdf(FOLDER / 'szabo_3r.urdf')


@pytest.fixture(scope='module')
def model(arm):
    regressor = build(arm, OPEN)
    return regressor, structure(regressor, arm)


def motion_of(duration=10.0, seed=0, n_joints=3):
    """Fourier series of 0.1 to 0.6 Hz, with exact derivatives; (time, motion)."""
    random = np.random.default_rng(seed)
    time = np.arange(0.0, duration, 1.0 / RATE)
    omega = 2.0 * np.pi * 0.1 * np.arange(1, 7)
    size, phase = (
        random.uniform(0.2, 0.7, (6, n_joints)),
        random.uniform(0.0, 2.0 * np.pi, (6, n_joints)),
    )
    angle = omega[:, None] * time[:, None, None] + phase
    return time, Motion(
        np.sum(size * np.sin(angle) / omega[:, None], axis=1),
        np.sum(size * np.cos(angle), axis=1),
        np.sum(-size * omega[:, None] * np.sin(angle), axis=1),
    )


def recording(arm, noise=0.0, seed=1, settings=TRUE, amplitudes=((2.0, 1.0, 2.0), (-0.6,) * 3)):
    time, motion = motion_of()
    values = {}
    for j, joint in enumerate(arm.joints):
        values |= {f'{joint}.ts': amplitudes[0][j], f'{joint}.tsc': amplitudes[1][j]}
    effort = predict(build(arm, settings), motion, prior(arm, settings).updated(values))
    effort += noise * np.random.default_rng(seed).standard_normal(effort.shape)
    return Recording(
        time=time,
        position=motion.position,
        velocity=motion.velocity,
        effort=effort,
        joints=arm.joints,
        source='made',
    )


def test_columns_between_the_points_are_interpolated():
    velocity = np.linspace(-10.0, 10.0, 20001)
    nodes = np.exp(friction_slopes._MIDDLE + friction_slopes._HALF * friction_slopes._POINTS)
    table = 2.0 / np.pi * np.arctan(velocity[:, None] * nodes)
    for slope in np.geomspace(*friction_slopes.RANGE, 23):
        weights = friction_slopes._interpolation(np.log([slope]))[0]
        exact = 2.0 / np.pi * np.arctan(slope * velocity)
        np.testing.assert_allclose(table @ weights, exact, rtol=0.0, atol=3e-8)


@pytest.mark.parametrize('decimate_to', [None, 50.0])
def test_true_slopes_are_found_where_there_is_no_noise(arm, model, decimate_to):
    signals = SignalSettings(cutoff=200.0, decimate_to=decimate_to)
    found = find_slopes([recording(arm)], *model, OPEN, signals)
    # what is left is the filter's small error in the velocity near reversals
    np.testing.assert_allclose(found.slopes['stiction'], STIFF, rtol=5e-3)
    np.testing.assert_allclose(found.slopes['stribeck'], SLOW, rtol=2e-2)
    assert len(found.notes) == 3
    assert found.notes[1].startswith('joint_2: stiction_slope ')


def test_it_is_the_nonlinear_least_squares_of_the_joints_rows(arm, model):
    # the same minimum by a general solver over slopes and all other parameters together
    made = recording(arm, noise=0.2)
    found = find_slopes([made], *model, OPEN, SIGNALS)
    regressor, base = model
    blocks = list(
        friction_slopes.row_blocks(made, regressor, base, SIGNALS),
    )
    matrix = np.concatenate([block.matrix for block in blocks])
    effort = np.concatenate([block.effort for block in blocks])
    velocity = np.concatenate([block.velocity for block in blocks])
    for j, joint in enumerate(arm.joints):
        rest = [i for i, name in enumerate(base.names) if name.split('.')[1] not in ('ts', 'tsc')]
        u, s, _ = np.linalg.svd(matrix[:, j][:, rest], full_matrices=False)
        u = u[:, s > 1e-10 * s[0]]

        def without_others(columns, u=u):
            return columns - u @ (u.T @ columns)

        def residual(logs, j=j, without_others=without_others):
            shaped = 2.0 / np.pi * np.arctan(velocity[:, j, None] * np.exp(logs))
            columns, left = without_others(shaped), without_others(effort[:, j])
            return left - columns @ np.linalg.lstsq(columns, left, rcond=None)[0]

        start = np.log([STIFF[j], SLOW[j]])
        best = least_squares(residual, start, xtol=1e-12, ftol=1e-14, gtol=1e-14)
        ours = np.log([found.slopes['stiction'][j], found.slopes['stribeck'][j]])
        np.testing.assert_allclose(ours, best.x, atol=2e-3, err_msg=joint)
        assert np.sum(residual(ours) ** 2) <= np.sum(best.fun**2) * (1.0 + 1e-9)


@pytest.mark.soak
def test_deviations_are_those_of_repeated_noise(arm, model):
    # the passes over the recording are the same each time; noise is added to their rows
    regressor, base = model
    candidates = friction_slopes._Candidates(regressor)
    columns = friction_slopes._with_candidates(
        base, candidates.layout, tuple(friction_slopes.SLOPES)
    )
    made = recording(arm)
    blocks = list(friction_slopes.row_blocks(made, candidates, columns, SIGNALS))
    matrix = np.concatenate([block.matrix[:, 1] for block in blocks])
    effort = np.concatenate([block.effort[:, 1] for block in blocks])
    q, r = np.linalg.qr(matrix)
    random = np.random.default_rng(3)
    found, told = [], []
    for _ in range(100):
        noisy = effort + 0.1 * random.standard_normal(effort.size)
        right = q.T @ noisy
        factor = np.zeros((r.shape[0] + 1,) * 2)
        factor[:-1, :-1], factor[:-1, -1] = r, right
        factor[-1, -1] = np.linalg.norm(noisy - q @ right)
        profile = friction_slopes._Profile.from_factor(factor, effort.size, np.array([1.0, -1.0]))
        slopes, std = friction_slopes._best(profile, tuple(friction_slopes.SLOPES), {})
        found.append(np.log(slopes))
        told.append(std)
    # the spread of 100 draws is uncertain by 7 %; three of that
    np.testing.assert_allclose(np.std(found, axis=0, ddof=1), np.mean(told, axis=0), rtol=0.22)


def test_what_is_given_stays_and_only_the_rest_is_searched(arm, model):
    settings = ModelSettings(friction=STATIC, rotor_inertia=False, stribeck_slope=SLOW)
    assert open_slopes(settings) == ('stiction',)
    regressor = build(arm, settings)
    found = find_slopes([recording(arm)], regressor, model[1], settings, SIGNALS)
    np.testing.assert_allclose(found.slopes['stiction'], STIFF, rtol=5e-3)
    np.testing.assert_array_equal(found.slopes['stribeck'], SLOW)
    filled = found.settings(settings)
    assert filled.stribeck_slope == SLOW
    assert open_slopes(filled) == ()
    assert 'stribeck_slope' not in found.notes[0]


def test_steepness_keeps_its_order_where_friction_has_one_arctan_alone(arm, model):
    # stiction without a Stribeck effect: whatever the second column takes up, it stays slower
    made = recording(arm, 0.3, amplitudes=((1.0, 1.0, 1.0), (0.0, 0.0, 0.0)))
    found = find_slopes([made], *model, OPEN, SIGNALS)
    ratio = found.slopes['stiction'] / found.slopes['stribeck']
    assert (ratio >= friction_slopes.LEAST_RATIO * (1.0 - 1e-9)).all()


def test_slopes_that_the_recording_does_not_tell_are_named(arm, model):
    made = recording(arm, 0.3, amplitudes=((0.0, 1.0, 1.0), (0.0, -0.5, -0.5)))
    found = find_slopes([made], *model, OPEN, SIGNALS)
    assert 'the recordings hardly determine' in found.notes[0]


def test_motors_behind_elastic_joints_have_slopes_of_their_own():
    robot = Robot.from_urdf(FOLDER / 'zollo_planar_2r.urdf', gravity=(0.0, -9.81, 0.0))
    settings = ModelSettings(friction=STATIC, elastic=ElasticJoints())
    true = replace(settings, stiction_slope=(80.0, 120.0), stribeck_slope=(4.0, 6.0))
    time, motion = motion_of(n_joints=4)
    friction = {'ts': 2.0, 'tsc': -0.6}
    values = {f'{j}_motor.{s}': value for j in robot.joints for s, value in friction.items()}
    made = Recording(
        time=time,
        position=motion.position,
        velocity=motion.velocity,
        effort=predict(build(robot, true), motion, prior(robot, true).updated(values)),
        joints=(*robot.joints, *(f'{joint}_motor' for joint in robot.joints)),
        source='made',
    )
    regressor = build(robot, settings)
    base = structure(regressor, robot)
    for zone in (0.0, (0.002, 0.001)):  # a dead zone for each motor; links have none
        signals = replace(SIGNALS, cutoff=200.0, dead_zone=zone)
        found = find_slopes([made], regressor, base, settings, signals)
        np.testing.assert_allclose(found.slopes['stiction'], (80.0, 120.0), rtol=1e-3)
        np.testing.assert_allclose(found.slopes['stribeck'], (4.0, 6.0), rtol=1e-3)
        assert found.notes[1].startswith('joint_2_motor: ')
    # the columns that stand for candidates go through the windows, too
    windows = SignalSettings(method='polynomial_approximation')
    found = find_slopes([made], regressor, base, settings, windows)
    np.testing.assert_allclose(found.slopes['stiction'], (80.0, 120.0), rtol=1e-3)
    np.testing.assert_allclose(found.slopes['stribeck'], (4.0, 6.0), rtol=1e-3)


def test_a_recording_of_other_joints_is_refused(arm, model):
    wrong = recording(arm).select(arm.joints[::-1])
    with pytest.raises(RecordingError, match='made has the joints'):
        find_slopes([wrong], *model, OPEN, SIGNALS)


def test_the_pipeline_finds_keeps_and_stores_them(arm, tmp_path):
    made = recording(arm, 0.05)
    result = identify_sources(
        IdentificationProblem(arm, OPEN, SIGNALS, PLAIN), [made], [recording(arm, 0.05, 7)]
    )
    np.testing.assert_allclose(result.settings.model.stiction_slope, STIFF, rtol=0.1)
    np.testing.assert_allclose(result.settings.model.stribeck_slope, SLOW, rtol=0.4)
    assert any('stiction_slope' in note for note in result.estimate.notes)
    assert 'stiction_slope' in estimate_summary(result.estimate)
    # prediction knows the slopes: what is left is the noise
    assert result.validations[0].joints[0].rmse == pytest.approx(0.05, rel=0.05)
    write_result(result, tmp_path / 'result.yaml')
    stored = read_result(tmp_path / 'result.yaml')
    assert stored.settings.model == result.settings.model


def test_wrong_slopes_bias_friction_and_the_search_does_not(arm):
    # section 6 of the paper leaves the slopes to the user; wrong ones move ts by a quarter
    made = recording(arm)
    wrong = ModelSettings(
        friction=STATIC, rotor_inertia=False, stiction_slope=20.0, stribeck_slope=5.0
    )
    biased = identify_sources(IdentificationProblem(arm, wrong, SIGNALS, PLAIN), [made]).standard
    searched = identify_sources(IdentificationProblem(arm, OPEN, SIGNALS, PLAIN), [made]).standard
    assert abs(biased['joint_1.ts'] - 2.0) > 0.3
    assert searched['joint_1.ts'] == pytest.approx(2.0, abs=5e-3)
    assert searched['joint_1.tsc'] == pytest.approx(-0.6, abs=1e-2)


def test_a_model_without_such_columns_stays_as_it_is(arm):
    # a delta robot's regressor brings its own friction, whatever the settings say
    regressor = build(arm, ModelSettings(friction=('viscous',), rotor_inertia=False))
    base = structure(regressor, arm)
    found = find_slopes([recording(arm)], regressor, base, OPEN, SIGNALS)
    assert found.notes == ()
    assert found.settings(OPEN) == OPEN
