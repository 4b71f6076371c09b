# SPDX-License-Identifier: Apache-2.0
"""Validation of one joint whose model is written by hand."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from robot_identification.data.recording import Motion, Recording
from robot_identification.errors import IdentifiabilityError, ModelError, RecordingError
from robot_identification.estimation.least_squares import joint_weights, ols
from robot_identification.estimation.system import from_rows, system_of
from robot_identification.estimation.validation import f_test_factors, validate
from robot_identification.model.parameters import ParameterLayout, ParameterSet
from robot_identification.pages.estimate_text import validation_summary
from robot_identification.regressor.base_parameters import BaseStructure
from robot_identification.signals import SignalSettings
from scipy import stats

from .conftest import plain_structure

LAYOUT = ParameterLayout(('joint.Ia', 'joint.fv', 'joint.off'), ('kg m^2', 'N m s/rad', 'N m'))
STRUCTURE = BaseStructure(LAYOUT, [0, 1, 2], [], [], np.eye(3), np.ones(3), np.inf, LAYOUT.names)
TRUTH = np.array([2.0, 0.7, -0.3])
SIGNALS = SignalSettings(cutoff=20.0, decimate_to=None, trim=0.2)


@dataclass(frozen=True)
class Wheel:
    """tau = Ia ddq + fv dq + off."""

    layout: ParameterLayout = LAYOUT
    n_joints: int = 1

    def rows(self, motion: Motion) -> np.ndarray:
        return np.hstack([motion.acceleration, motion.velocity, np.ones((len(motion), 1))])


def recording(frequency: float, noise: float = 0.0, source: str = 'a.csv') -> Recording:
    time = np.arange(2000) / 200.0
    w = 2 * np.pi * frequency
    effort = TRUTH[0] * -(w**2) * np.sin(w * time) + TRUTH[1] * w * np.cos(w * time) + TRUTH[2]
    effort += noise * np.random.default_rng(0).normal(size=time.size)
    return Recording(time, np.sin(w * time)[:, None], effort[:, None], ('joint',), source=source)


@pytest.fixture
def estimate():
    return ols(system_of(recording(0.5), Wheel(), STRUCTURE, SIGNALS))


def test_exact_model_predicts_another_motion(estimate):
    seen = validate(estimate, recording(0.8), Wheel(), STRUCTURE, SIGNALS)
    assert seen.relative_error < 0.02 and seen.raw_relative_error < 0.02
    assert seen.joints[0].joint == 'joint' and seen.sources == ('a.csv',)


def test_highest_speeds_are_those_of_the_motion(estimate):
    pieces = [recording(f, source=f'{f}.csv') for f in (0.4, 0.8, 0.6)]
    seen = validate(estimate, pieces, Wheel(), STRUCTURE, SIGNALS)
    assert seen.highest_speed == pytest.approx([2.0 * np.pi * 0.8], rel=1e-2)
    assert seen.to_dict()['highest_speed'] == list(seen.highest_speed)


def test_figures_are_those_of_the_effort_that_was_measured(estimate):
    off = ParameterSet(LAYOUT, TRUTH + [0.0, 0.0, 0.5])
    seen = validate(off, recording(0.8), Wheel(), STRUCTURE, SIGNALS)
    # the model predicts 0.5 N m too much throughout
    assert seen.joints[0].bias == pytest.approx(-0.5, abs=1e-3)
    assert seen.joints[0].rmse == pytest.approx(0.5, abs=1e-3)
    effort = recording(0.8).effort[40:-40]
    expected = 100 * 0.5 / np.sqrt(np.mean(effort**2))
    assert seen.joints[0].relative_error == pytest.approx(expected, rel=1e-3)


def test_noise_shows_as_it_is(estimate):
    seen = validate(estimate, recording(0.8, noise=0.4), Wheel(), STRUCTURE, SIGNALS)
    assert seen.joints[0].rmse == pytest.approx(0.4, rel=0.05)
    smoothed = replace(SIGNALS, decimate_to=20.0)
    quiet = validate(estimate, recording(0.8, noise=0.4), Wheel(), STRUCTURE, smoothed)
    assert quiet.joints[0].rmse < 0.2
    assert quiet.raw_relative_error == pytest.approx(seen.raw_relative_error, rel=1e-3)


def test_several_recordings_count_together(estimate):
    sources = [recording(0.8, source='a.csv'), recording(1.1, noise=0.4, source='b.csv')]
    seen = validate(estimate, sources, Wheel(), STRUCTURE, SIGNALS)
    alone = [validate(estimate, s, Wheel(), STRUCTURE, SIGNALS) for s in sources]
    assert seen.sources == ('a.csv', 'b.csv')
    assert seen.joints[0].rows == sum(v.joints[0].rows for v in alone)
    squares = sum(v.joints[0].rows * v.joints[0].rmse ** 2 for v in alone)
    assert seen.joints[0].rmse == pytest.approx(np.sqrt(squares / seen.joints[0].rows), rel=1e-9)
    assert np.unique(seen.trace.segment).tolist() == [0, 1]


def test_trace_is_measured_against_predicted(estimate):
    seen = validate(estimate, recording(0.8), Wheel(), STRUCTURE, SIGNALS)
    w = 2 * np.pi * 0.8
    time = seen.trace.time
    expected = -TRUTH[0] * w**2 * np.sin(w * time) + TRUTH[1] * w * np.cos(w * time) + TRUTH[2]
    assert np.allclose(seen.trace.measured[:, 0], expected, atol=1e-9)
    assert np.allclose(seen.trace.predicted[:, 0], expected, atol=0.02)


def test_joint_that_stays_in_the_dead_zone_has_no_figures(estimate):
    slow = replace(SIGNALS, dead_zone=100.0)
    seen = validate(estimate, recording(0.8), Wheel(), STRUCTURE, slow)
    assert seen.joints[0].rows == 0 and np.isnan(seen.joints[0].rmse)
    assert seen.to_dict()['joints']['joint']['rmse'] is None
    assert 'nan' not in validation_summary(seen)


def test_errors_with_the_rows_of_the_dead_zone_are_those_without_one(estimate):
    slow = replace(SIGNALS, dead_zone=2.0)
    pieces = [recording(f, noise=0.3, source=f'{f}.csv') for f in (0.4, 0.8)]
    whole = validate(estimate, pieces, Wheel(), STRUCTURE, SIGNALS)
    seen = validate(estimate, pieces, Wheel(), STRUCTURE, slow)
    assert 0 < seen.joints[0].rows < whole.joints[0].rows and whole.all_rows == ()
    assert seen.all_rows == pytest.approx([whole.joints[0].relative_error], rel=1e-9)
    assert seen.relative_error != pytest.approx(whole.relative_error, rel=1e-3)


def test_recording_that_is_too_short_is_named(estimate):
    short = recording(0.8, source='short.csv').rows(0, 20)
    with pytest.raises(RecordingError, match='short.csv'):
        validate(estimate, short, Wheel(), STRUCTURE, SIGNALS)


def test_other_base_parameters_are_refused(estimate):
    other = ParameterSet(ParameterLayout(('x.m',), ('kg',)), [1.0])
    with pytest.raises(ValueError):
        validate(other, recording(0.8), Wheel(), STRUCTURE, SIGNALS)


def test_plain_values_have_the_shape_of_the_result_file(estimate):
    seen = validate(estimate, recording(0.8), Wheel(), STRUCTURE, SIGNALS)
    values = seen.to_dict()
    assert values['sources'] == ['a.csv']
    assert values['joints']['joint']['rmse'] == seen.joints[0].rmse
    assert values['relative_error'] == seen.relative_error


N, B = 3, 5
JOINTS = ('a', 'b', 'c')
NOISE = np.array([0.1, 0.5, 0.02])
PARAMETERS = np.array([1.0, -2.0, 0.5, 3.0, 0.1])


def rows_of(rng, samples, truth=PARAMETERS, noise=NOISE):
    """Rows in which joint j sees all but the first j columns."""
    matrix = rng.normal(size=(samples, N, B)) * [1.0, 10.0, 0.1, 1.0, 3.0]
    for j in range(N):
        matrix[:, j, :j] = 0.0
    return matrix, matrix @ truth + noise * rng.normal(size=(samples, N))


def factor_of(rows):
    return from_rows(plain_structure(B), JOINTS, *rows).factor


def residual_squares(matrix, effort):
    solution, *_ = np.linalg.lstsq(matrix, effort, rcond=None)
    return np.sum((effort - matrix @ solution) ** 2)


def weighted(rows, weights):
    matrix, effort = rows
    return (matrix * weights[:, None]).reshape(-1, B), (effort * weights).ravel()


@pytest.mark.parametrize('shift', [0.0, 0.05])
def test_statistic_is_that_of_regressions_with_all_rows(shift):
    rng = np.random.default_rng(1)
    pair = rows_of(rng, 80), rows_of(rng, 120, PARAMETERS + shift)
    factors = [factor_of(rows) for rows in pair]
    found = f_test_factors(*factors)
    parts = [weighted(rows, joint_weights(f)) for rows, f in zip(pair, factors, strict=True)]
    separate = sum(residual_squares(*part) for part in parts)
    common = residual_squares(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))
    rest = 200 * N - 2 * B
    expected = (common - separate) / B / (separate / rest)
    assert found.test.statistic == pytest.approx(expected, rel=1e-9)
    assert (found.test.freedom, found.test.residual_freedom) == (B, rest)
    assert found.test.p_value == pytest.approx(stats.f.sf(expected, B, rest), rel=1e-7)
    assert found.differs() == (shift > 0.0)


def test_differences_are_those_of_the_estimates():
    rng = np.random.default_rng(2)
    pair = rows_of(rng, 80), rows_of(rng, 300, PARAMETERS * 1.1)
    factors = [factor_of(rows) for rows in pair]
    found = f_test_factors(*factors)
    for i, (rows, factor) in enumerate(zip(pair, factors, strict=True)):
        matrix, effort = weighted(rows, joint_weights(factor))
        solution, squares, *_ = np.linalg.lstsq(matrix, effort, rcond=None)
        covariance = np.linalg.inv(matrix.T @ matrix) * squares / (effort.size - B)
        assert np.allclose(found.values[i], solution, rtol=1e-9)
        assert np.allclose(found.std[i], np.sqrt(np.diag(covariance)), rtol=1e-9)
    assert np.allclose(found.difference, found.values[1] - found.values[0])
    assert np.allclose(found.score, found.difference / np.hypot(*found.std))


def test_joint_alone_is_compared_by_its_own_rows():
    rng = np.random.default_rng(3)
    changed = PARAMETERS.copy()
    changed[0] += 0.2  # which joint a alone sees
    pair = rows_of(rng, 200), rows_of(rng, 200, changed)
    found = f_test_factors(*map(factor_of, pair))
    assert found.joints['a'].p_value < 1e-6
    assert min(found.joints['b'].p_value, found.joints['c'].p_value) > 0.01
    (one, tau), (two, tau_two) = ((m[:, 1, 1:], e[:, 1]) for m, e in pair)
    # each factor by its own standard deviation
    s = [np.sqrt(residual_squares(m, e) / (200 - 4)) for m, e in ((one, tau), (two, tau_two))]
    separate = 2 * (200 - 4)
    common = residual_squares(
        np.concatenate([one / s[0], two / s[1]]), np.concatenate([tau / s[0], tau_two / s[1]])
    )
    expected = (common - separate) / 4
    assert found.joints['b'].statistic == pytest.approx(expected, rel=1e-8)


def test_false_alarms_come_as_often_as_promised():
    rng = np.random.default_rng(4)
    p, joint_p, scores = [], [], []
    for _ in range(400):
        # robots may be noisy in their own ways
        found = f_test_factors(
            factor_of(rows_of(rng, 150)), factor_of(rows_of(rng, 90, noise=2 * NOISE))
        )
        p.append(found.test.p_value)
        joint_p.append(found.joints['b'].p_value)
        scores.append(found.score)
    for values in (p, joint_p):
        assert stats.kstest(values, 'uniform').pvalue > 0.01
        assert stats.binomtest(int(np.sum(np.array(values) < 0.05)), 400, 0.05).pvalue > 0.01
    assert stats.kstest(np.ravel(scores), 'norm').pvalue > 0.01


def test_a_small_change_is_found_in_many_rows():
    rng = np.random.default_rng(5)
    changed = PARAMETERS * [1.0, 1.0, 1.0, 1.002, 1.0]
    few = f_test_factors(factor_of(rows_of(rng, 60)), factor_of(rows_of(rng, 60, changed)))
    many = f_test_factors(factor_of(rows_of(rng, 6000)), factor_of(rows_of(rng, 6000, changed)))
    assert not few.differs(1e-3) and many.differs(1e-6)
    assert np.argmax(np.abs(many.score)) == 3


def test_rows_that_count_for_less_prove_less():
    rng = np.random.default_rng(6)
    pair = [rows_of(rng, 80), rows_of(rng, 80, PARAMETERS + 0.01)]
    twice = [factor_of([np.repeat(array, 2, axis=0) for array in rows]) for rows in pair]
    half = [replace(f, independent_rows=f.independent_rows / 2.0) for f in twice]
    once = f_test_factors(*map(factor_of, pair))
    assert f_test_factors(*half).test.statistic == pytest.approx(once.test.statistic, rel=1e-9)
    assert f_test_factors(*half).test.p_value == pytest.approx(once.test.p_value, rel=1e-7)
    assert f_test_factors(*twice).test.p_value < once.test.p_value


def test_only_what_both_tell_is_compared():
    rng = np.random.default_rng(7)
    one, two = rows_of(rng, 100), rows_of(rng, 100)
    two[0][:, :, 4] = -two[0][:, :, 3]  # tells the difference of the last two alone
    effort = two[0] @ (PARAMETERS + [0.0, 0.0, 0.0, 5.0, 5.0])
    effort += NOISE * rng.normal(size=effort.shape)
    found = f_test_factors(factor_of(one), factor_of((two[0], effort)))
    assert found.test.freedom == B - 1
    assert not found.differs()
    assert np.isnan(found.values[1]).tolist() == [False] * 3 + [True] * 2
    assert np.isnan(found.difference).tolist() == [False] * 3 + [True] * 2


def test_what_neither_tells_is_no_degree_of_freedom():
    """Both tell the sum of the last two alone: there is one direction less to differ in."""
    rng = np.random.default_rng(11)
    pair = []
    for samples in (90, 110):
        matrix = rng.normal(size=(samples, N, B))
        matrix[:, :, 4] = matrix[:, :, 3]
        effort = matrix @ PARAMETERS
        pair.append((matrix, effort + NOISE * rng.normal(size=effort.shape)))
    found = f_test_factors(*(factor_of(rows) for rows in pair))
    assert (found.test.freedom, found.test.residual_freedom) == (B - 1, 200 * N - 2 * (B - 1))
    assert not found.differs()


def test_nothing_in_common_is_told():
    rng = np.random.default_rng(8)
    one, two = rows_of(rng, 50), rows_of(rng, 50)
    one[0][:, :, :4] = 0.0
    two[0][:, :, 4] = 0.0
    with pytest.raises(IdentifiabilityError, match='no parameters in common'):
        f_test_factors(factor_of(one), factor_of(two))


def test_unlike_factors_are_not_compared():
    rng = np.random.default_rng(9)
    one, two = factor_of(rows_of(rng, 50)), factor_of(rows_of(rng, 50))
    other = replace(two.fingerprint, joints=('a', 'b', 'd'))
    with pytest.raises(ModelError, match='c is here only, d is there only'):
        f_test_factors(one, replace(two, fingerprint=other))


def test_residual_norms_are_those_of_the_rows():
    matrix, effort = rows_of(np.random.default_rng(10), 40)
    norms = factor_of((matrix, effort)).residual_norms(PARAMETERS)
    assert np.allclose(norms, np.linalg.norm(effort - matrix @ PARAMETERS, axis=0), rtol=1e-10)
