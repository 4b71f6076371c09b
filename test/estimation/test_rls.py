# SPDX-License-Identifier: Apache-2.0
"""The recursive estimator against least squares of all rows, and one form against the other."""

import pickle

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest
from robot_identification.errors import RecordingError, SettingsError
from robot_identification.estimation.recursive.elimination import gauss_jordan
from robot_identification.estimation.recursive.rls import (
    column_thresholds,
    FORMULATIONS,
    RecursiveLeastSquares,
    RecursiveSettings,
)
from robot_identification.model.parameters import ParameterLayout
from robot_identification.regressor.inverse_dynamics import RowPattern

forms = pytest.mark.parametrize('form', FORMULATIONS)


def layout_of(b, units=None):
    return ParameterLayout(tuple(f'link.p{i}' for i in range(b)), tuple(units or ('kg',) * b))


def learner_of(b, form='factor', initial=None, *, units=None, bounds=None, **keys):
    lower, upper = (None, None) if bounds is None else bounds
    chosen = RecursiveSettings(formulation=form, **keys)
    return RecursiveLeastSquares(layout_of(b, units), initial, chosen, lower=lower, upper=upper)


def feed(learner, rows, effort, block):
    for start in range(0, len(effort), block):
        learner.update(rows[start : start + block], effort[start : start + block])
    return learner.estimate()


def rows_of(seed, m=400, b=6, noise=0.1):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(m, b)) * 10.0 ** rng.uniform(-1, 1, b)
    return rows, rows @ rng.normal(size=b) + noise * rng.normal(size=m)


def conditional(rows, effort, free, initial):
    """Least squares of the free columns, the others held, by a decomposition of all rows."""
    values = initial.copy()
    rest = effort - rows[:, ~free] @ initial[~free]
    values[free] = np.linalg.lstsq(rows[:, free], rest, rcond=None)[0]
    return values


@forms
@settings(max_examples=25)
@given(seed=st.integers(0, 10**6), block=st.integers(1, 450), b=st.integers(1, 9))
def test_it_is_ordinary_least_squares_whatever_the_blocks(form, seed, block, b):
    rows, effort = rows_of(seed, b=b)
    found = feed(learner_of(b, form, np.full(b, 7.0)), rows, effort, block)
    batch = np.linalg.lstsq(rows, effort, rcond=None)[0]
    assert (found.flags == 1).all() and found.rows == 400
    np.testing.assert_allclose(found.values, batch, rtol=1e-10, atol=0)
    residual = effort - rows @ batch
    covariance = residual @ residual / (400 - b) * np.linalg.inv(rows.T @ rows)
    np.testing.assert_allclose(found.covariance, covariance, rtol=1e-8, atol=0)


@forms
@pytest.mark.parametrize('block', [1, 7, 100])
def test_rejected_columns_keep_their_start_and_the_others_are_conditional(form, block):
    """A column that is not excited, and one that depends on others: [1 1 1 0 1 -1 1 1]."""
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(300, 8))
    rows[:, 3] *= 1e-7
    rows[:, 5] = 2.0 * rows[:, 0] - rows[:, 2]
    effort = rows @ rng.normal(size=8) + 0.1 * rng.normal(size=300)
    initial = rng.normal(size=8)
    learner = learner_of(8, form, initial)
    found = feed(learner, rows, effort, block)
    assert found.flags.tolist() == [1, 1, 1, 0, 1, -1, 1, 1]
    free = found.flags == 1
    assert (found.values[~free] == initial[~free]).all()
    expected = conditional(rows, effort, free, initial)
    np.testing.assert_allclose(found.values, expected, rtol=1e-10)
    assert np.isnan(found.std[~free]).all() and np.isfinite(found.std[free]).all()
    reasons = learner.reasons()
    assert reasons[3] == 'the motion hardly excites it'
    assert reasons[5] == 'the motion does not separate it from link.p0, link.p2'
    assert not any(reason for i, reason in enumerate(reasons) if free[i])


def block_reading(rows, effort, initial, square, size):
    """Return what the paper's eq. (41) gives with the block's own Y and tau."""
    theta, gram = initial.copy(), np.zeros((rows.shape[1],) * 2)
    for start in range(0, len(effort), size):
        Y, tau = rows[start : start + size], effort[start : start + size]
        gram += Y.T @ Y
        inverse, flags = gauss_jordan(gram, np.full(rows.shape[1], square))
        theta = theta + inverse @ Y.T @ (tau - Y @ theta)
    return theta, flags


@forms
def test_with_a_large_threshold_only_accumulated_sums_are_exact(form):
    """A threshold of 30 on squares: columns are rejected at first, and accepted later."""
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(600, 5)) * [1.0, 0.5, 0.3, 1.0, 0.7]
    effort = rows @ rng.normal(size=5) + 0.2 * rng.normal(size=600)
    initial = np.zeros(5)
    other, flags = block_reading(rows, effort, initial, 30.0, 20)
    assert (flags == 1).all()
    learner = learner_of(5, form, initial)
    learner.thresholds = lambda: np.full(5, np.sqrt(30.0 * learner.rows / 600))
    found = feed(learner, rows, effort, 20)
    batch = np.linalg.lstsq(rows, effort, rcond=None)[0]
    assert (found.flags == 1).all()
    np.testing.assert_allclose(found.values, batch, rtol=1e-10)
    assert np.abs(other - batch).max() > 1e-2


@forms
def test_a_dependence_that_ends_leaves_no_trace(form):
    rng = np.random.default_rng(6)
    rows = rng.normal(size=(600, 4))
    rows[:300, 3] = rows[:300, 0] + 1e-6 * rows[:300, 3]
    effort = rows @ [1.0, -2.0, 0.5, 3.0] + 0.05 * rng.normal(size=600)
    learner = learner_of(4, form, np.full(4, 9.0))
    early = feed(learner, rows[:300], effort[:300], 30)
    assert early.flags.tolist() == [1, 1, 1, -1] and early.values[3] == 9.0
    late = feed(learner, rows[300:], effort[300:], 30)
    batch = np.linalg.lstsq(rows, effort, rcond=None)[0]
    np.testing.assert_allclose(late.values, batch, rtol=1e-10)


@forms
def test_a_parameter_that_is_rejected_later_goes_back_to_its_start(form):
    """A faster motion raises what counts as excited; the estimate is a function of all rows."""
    rng = np.random.default_rng(7)
    rows = rng.normal(size=(200, 2)) * [1.0, 1e-3]
    effort = rows @ [1.0, 2.0]
    learner = learner_of(2, form, np.array([0.0, 5.0]))
    assert feed(learner, rows, effort, 50).flags.tolist() == [1, 1]
    rows[:, 0] *= 1e3
    later = feed(learner, rows, rows @ [1.0, 2.0], 50)
    assert later.flags.tolist() == [1, 0] and later.values[1] == 5.0


@settings(max_examples=60)
@given(seed=st.integers(0, 10**6), b=st.integers(2, 12))
def test_both_forms_give_the_same_flags(seed, b):
    """Dependences of every strength, apart from those next to the threshold."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(150, b))
    for column in range(1, b):
        if rng.random() < 0.5:
            size = 10.0 ** rng.choice([-6.0, -5.0, -3.0, -2.0])
            mixed = rows[:, :column] @ rng.normal(size=column)
            rows[:, column] = rng.choice([0.0, 1.0]) * mixed + size * rows[:, column]
    effort = rng.normal(size=150)
    found = [feed(learner_of(b, form), rows, effort, 40) for form in FORMULATIONS]
    assert found[0].flags.tolist() == found[1].flags.tolist()
    np.testing.assert_allclose(found[0].values, found[1].values, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize('strength', [1e-5, 1e-6, 1e-7])
def test_the_factor_is_more_accurate_where_columns_are_nearly_dependent(strength):
    """The same flags; errors grow with the condition number, and with its square."""
    rng = np.random.default_rng(8)
    rows = rng.normal(size=(500, 6))
    rows[:, 4] = rows[:, 0] - rows[:, 1] + strength * rows[:, 4]
    truth = np.array([1.0, 2.0, -1.0, 0.5, 3.0, -2.0])
    effort = rows @ truth
    errors = {}
    for form in FORMULATIONS:
        found = feed(learner_of(6, form, threshold=0.3 * strength), rows, effort, 25)
        assert (found.flags == 1).all()
        errors[form] = np.abs(found.values - truth).max()
    assert errors['factor'] < 3e-15 / strength
    assert errors['gram'] > 300.0 * errors['factor']


@forms
def test_thresholds_mean_the_same_after_any_time_and_in_any_unit(form):
    """Noise in a column that nothing excites does not add up to an excitation."""
    rng = np.random.default_rng(9)
    rows = rng.normal(size=(100, 3)) * [1.0, 1.0, 1e-5]
    effort = rows @ [1.0, 2.0, 3.0]
    units = ('kg', 'kg', 'kg')
    learner = learner_of(3, form, units=units)
    assert feed(learner, rows, effort, 10).flags.tolist() == [1, 1, 0]
    for _ in range(300):
        learner.update(rows, effort)
    assert learner.estimate().flags.tolist() == [1, 1, 0]
    # of another kind, it is measured by its own size
    alone = feed(learner_of(3, form, units=('kg', 'kg', 'N m')), rows, effort, 10)
    assert alone.flags.tolist() == [1, 1, 1]


def test_thresholds_of_single_parameters():
    layout = ParameterLayout(('a.m', 'a.mx', 'b.m'), ('kg', 'kg m', 'kg'))
    given = RecursiveSettings(threshold=0.5, thresholds={'b.m': 3.0, 'm': 2.0})
    assert column_thresholds(layout, given).tolist() == [2.0, 0.5, 3.0]
    with pytest.raises(SettingsError, match=r'estimation\.mrls\.thresholds\.c\.m'):
        column_thresholds(layout, RecursiveSettings(thresholds={'c.m': 1.0}))
    with pytest.raises(SettingsError, match=r"thresholds\.m' is -1"):
        RecursiveSettings(thresholds={'m': -1.0})


@forms
def test_before_any_row_everything_is_as_at_the_start(form):
    learner = learner_of(3, form, np.array([1.0, 2.0, 3.0]))
    found = learner.estimate()
    assert found.values.tolist() == [1.0, 2.0, 3.0] and (found.flags == 0).all()
    assert np.isnan(found.residual_std)
    assert learner.reasons() == ('the motion has no effect on it',) * 3


@forms
def test_reset_forgets(form):
    rows, effort = rows_of(1)
    learner = learner_of(6, form)
    first = feed(learner, rows, effort, 50)
    feed(learner, 3.0 * rows, effort, 50)
    learner.reset()
    assert learner.rows == 0
    np.testing.assert_array_equal(feed(learner, rows, effort, 50).values, first.values)
    with pytest.raises(ValueError, match='initial has shape'):
        learner.reset(np.zeros(2))


@forms
def test_it_remembers_no_rows(form):
    """The state after 20,000 rows is as large as after 20."""
    learner = learner_of(6, form)
    rows, effort = rows_of(2, m=20)
    sizes = []
    for _ in range(1000):
        learner.update(rows, effort)
        sizes.append(len(pickle.dumps(learner)))
    assert max(sizes[10:]) <= sizes[9] + 16


def test_a_row_that_is_not_finite_is_refused_and_does_no_harm():
    rows, effort = rows_of(3)
    learner = learner_of(6)
    before = feed(learner, rows, effort, 400)
    with pytest.raises(RecordingError, match='not finite'):
        learner.update(np.full(6, np.nan), 1.0)
    with pytest.raises(ValueError, match='rows have shape'):
        learner.update(np.zeros((2, 5)), np.zeros(2))
    np.testing.assert_array_equal(learner.estimate().values, before.values)


# --------------------------------------------------------------------------------------- bounds


@forms
def test_samples_may_have_other_patterns_and_weights_each(form):
    b, rng = 4, np.random.default_rng(5)
    learner, rows, efforts = learner_of(b, form), [], []
    patterns = [
        RowPattern(tuple(map(np.array, places)), b)
        for places in ([[0, 1], [2, 3]], [[0, 2, 3], [1]])
    ]
    before = learner.solution()
    for number in range(40):
        pattern, weights = patterns[number // 2 % 2], rng.uniform(0.5, 2.0, 2)
        entries, effort = rng.normal(size=4), rng.normal(size=2)
        counts = np.array([True, True])
        _, before = learner.step(pattern, weights, entries, effort, counts, before)
        rows.append(pattern.expand(entries[:, None])[0] * weights[:, None])
        efforts.append(effort * weights)
    batch = np.linalg.lstsq(np.vstack(rows), np.hstack(efforts), rcond=None)[0]
    np.testing.assert_allclose(before.values, batch, rtol=1e-9)


def correlated(seed=11):
    """Columns with a correlation of 0.95, and a true value beyond its upper bound."""
    rng = np.random.default_rng(seed)
    common = rng.normal(size=(400, 1))
    rows = np.sqrt(0.95) * common + np.sqrt(0.05) * rng.normal(size=(400, 3))
    effort = rows @ [1.5, -0.5, 1.0] + 0.1 * rng.normal(size=400)
    return rows, effort, (np.array([-1.0, -1.0, -1.0]), np.array([1.0, 1.0, 2.0]))


@forms
def test_bounded_least_squares_is_the_best_point_of_the_box(form):
    rows, effort, (lower, upper) = correlated()
    found = feed(
        learner_of(3, form, bounds=(lower, upper), bounded='least_squares'), rows, effort, 40
    )
    assert (found.values >= lower).all() and (found.values <= upper).all()
    assert found.at_bound.tolist() == [True, False, False]
    # Karush, Kuhn, Tucker: no slope where free, a slope outwards at the bound
    slope = rows.T @ (effort - rows @ found.values)
    np.testing.assert_allclose(slope[1:], 0.0, atol=1e-8)
    assert slope[0] > 1.0
    rest = conditional(rows, effort, ~found.at_bound, found.values)
    np.testing.assert_allclose(found.values, rest, rtol=1e-9)
    assert np.isnan(found.std[0]) and np.isfinite(found.std[1:]).all()


@forms
def test_clipping_is_worse_than_least_squares_within_the_bounds(form):
    rows, effort, bounds = correlated()

    def misfit(**keys):
        found = feed(learner_of(3, form, **keys), rows, effort, 40)
        residual = np.linalg.norm(effort - rows @ found.values)
        # what the estimate says of its own residual
        freedom = 400 - 3 + found.at_bound.sum()
        assert found.residual_std == pytest.approx(residual / np.sqrt(freedom), rel=1e-6)
        return residual

    free, best, cut = (
        misfit(),
        misfit(bounds=bounds, bounded='least_squares'),
        misfit(bounds=bounds, bounded='clip'),
    )
    assert free < best < 0.7 * cut
    clipped = feed(learner_of(3, form, bounds=bounds, bounded='clip'), rows, effort, 40)
    batch = np.linalg.lstsq(rows, effort, rcond=None)[0]
    np.testing.assert_allclose(clipped.values, np.clip(batch, *bounds), rtol=1e-10)


@forms
def test_bounds_that_bind_nothing_change_nothing(form):
    rows, effort = rows_of(4)
    wide = (np.full(6, -1e3), np.full(6, 1e3))
    plain = feed(learner_of(6, form), rows, effort, 40)
    for bounded in ('clip', 'least_squares'):
        found = feed(learner_of(6, form, bounds=wide, bounded=bounded), rows, effort, 40)
        np.testing.assert_array_equal(found.values, plain.values)
        np.testing.assert_array_equal(found.covariance, plain.covariance)
        assert not found.at_bound.any()


@forms
def test_a_box_without_width_holds_its_parameter(form):
    rows, effort = rows_of(12)
    lower, upper = np.full(6, -np.inf), np.full(6, np.inf)
    lower[2] = upper[2] = 0.25
    found = feed(learner_of(6, form, bounds=(lower, upper)), rows, effort, 40)
    held = np.arange(6) == 2
    expected = conditional(rows, effort, ~held, np.where(held, 0.25, 0.0))
    np.testing.assert_allclose(found.values, expected, rtol=1e-9)
    assert found.at_bound.tolist() == held.tolist()
