# SPDX-License-Identifier: Apache-2.0
"""The block bootstrap: against drawing rows by brute force, and against the truth."""

from dataclasses import replace

import numpy as np
import pytest
from robot_identification.errors import IdentifiabilityError
from robot_identification.estimation.bootstrap import (
    block_length,
    bootstrap,
    BootstrapSettings,
    least_squares_covariance,
    sum_covariance,
    variance_inflation,
    with_bootstrap,
)
from robot_identification.estimation.least_squares import essential, ols, wls
from robot_identification.estimation.row_block import RowBlock
from robot_identification.estimation.system import from_rows
from robot_identification.estimation.time_blocks import BlockCollector
from scipy.signal import lfilter
from scipy.stats import binom

from .conftest import plain_structure

RATE = 100.0


def system_of_rows(matrix, effort, time=None):
    """Return the system of rows in memory, with its parts."""
    m, n, b = matrix.shape
    time = np.arange(m) / RATE if time is None else time
    joints = tuple(f'joint_{j}' for j in range(n))
    collector = BlockCollector()
    for start in range(0, m, 300):
        which = slice(start, start + 300)
        collector.push(
            RowBlock.from_matrix(
                matrix[which],
                time=time[which],
                position=effort[which],
                velocity=effort[which],
                effort=effort[which],
                keep=np.ones_like(effort[which], dtype=bool),
                raw_effort=effort[which],
            )
        )
    system = from_rows(plain_structure(b), joints, matrix, effort, time=time)
    return replace(system, blocks=collector.blocks())


def motion(m, n, b, seed=0):
    """Rows that change as slowly as those of a moving robot."""
    rng = np.random.default_rng(seed)
    time = np.arange(m)[:, None, None] / RATE
    waves = [
        rng.normal(size=(n, b))
        * np.sin(rng.uniform(0.3, 12.0, (n, b)) * time + rng.uniform(0.0, 6.3, (n, b)))
        for _ in range(6)
    ]
    return np.sum(waves, axis=0)


def coloured(m, n, memory, seed):
    """Errors of variance 1, each ``memory`` times the one before it and something new."""
    white = np.random.default_rng([seed, 7]).normal(size=(m + 500, n))
    return lfilter([np.sqrt(1.0 - memory**2)], [1.0, -memory], white, axis=0)[500:]


def brute_force(matrix, effort, weights, length, replicates):
    """Draw stretches of ``length`` samples of all joints and solve each replicate by lstsq."""
    rng = np.random.default_rng(99)
    m, b = effort.shape[0], matrix.shape[2]
    rows = matrix * weights[:, None]
    right = effort * weights
    found = np.empty((replicates, b))
    for i in range(replicates):
        starts = rng.integers(m // length, size=m // length) * length
        drawn = (starts[:, None] + np.arange(length)).ravel()
        found[i] = np.linalg.lstsq(rows[drawn].reshape(-1, b), right[drawn].ravel())[0]
    return found


@pytest.fixture(scope='module')
def case():
    matrix = motion(1200, 2, 5)
    effort = matrix @ np.ones(5) + np.array([0.2, 2.0]) * coloured(1200, 2, 0.8, 1)
    return matrix, effort, system_of_rows(matrix, effort)


def test_figures_are_those_of_drawing_the_rows_themselves(case):
    matrix, effort, system = case
    estimate = wls(system)
    # 0.1 s are 10 samples: parts and stretches drawn by brute force are the same
    settings = BootstrapSettings(replicates=4000, block=0.1)
    found = bootstrap(system, estimate, settings)
    assert found.block == pytest.approx(0.1)
    assert found.stretches == 120
    drawn = brute_force(matrix, effort, estimate.rows.weights, 10, 4000)
    freedom = 4000 / (4000 - 5)
    # a standard deviation of 4000 is known to 1.1 %
    np.testing.assert_allclose(found.std, np.sqrt(freedom) * drawn.std(axis=0), rtol=0.055)
    low, high = np.quantile(drawn, [0.025, 0.975], axis=0)
    np.testing.assert_allclose(found.low, low, atol=0.15 * found.std.max())
    assert (np.abs(found.low - low) < 0.15 * found.std).all()
    assert (np.abs(found.high - high) < 0.15 * found.std).all()


def test_the_same_seed_gives_the_same_figures(case):
    system = case[2]
    estimate = wls(system)
    first, again, other = (
        bootstrap(system, estimate, BootstrapSettings(replicates=200, seed=seed))
        for seed in (3, 3, 4)
    )
    assert np.array_equal(first.std, again.std)
    assert not np.array_equal(first.std, other.std)


def test_units_of_the_parameters_do_not_matter(case):
    """With columns over five orders of magnitude, which squared are over ten."""
    matrix, effort, system = case
    units = np.logspace(-2.5, 2.5, 5)
    scaled = system_of_rows(matrix * units, effort)
    settings = BootstrapSettings(replicates=300, block=0.4)
    plain, other = (bootstrap(s, wls(s), settings) for s in (system, scaled))
    np.testing.assert_allclose(other.std * units, plain.std, rtol=1e-6)
    np.testing.assert_allclose(other.low * units, plain.low, rtol=1e-6)


def test_nothing_is_lost_at_a_condition_number_of_1e8():
    """Parameters mixed until they are hardly told apart scatter as the old ones, mixed."""
    matrix = motion(1200, 2, 5)
    effort = matrix @ np.ones(5) + 1e-7 * coloured(1200, 2, 0.8, 1)
    rng = np.random.default_rng(2)
    left, right = (np.linalg.qr(rng.normal(size=(5, 5)))[0] for _ in range(2))
    mixing = left * np.logspace(0.0, -8.0, 5) @ right
    system = system_of_rows(matrix @ mixing, effort)
    estimate = ols(system)
    assert estimate.rows.raw_condition_number > 1e8
    assert estimate.rank == 5
    found = bootstrap(system, estimate, BootstrapSettings(replicates=2000, block=0.1))
    drawn = brute_force(matrix, effort, np.ones(2), 10, 2000)
    mixed = np.linalg.solve(mixing, drawn.T)
    np.testing.assert_allclose(found.std, mixed.std(axis=1), rtol=0.08)
    assert found.lost == 0


def test_replicates_that_hardly_tell_a_parameter_are_solved_by_their_rows():
    """One part tells the last parameter; without it, what is left tells it a millionth as well."""
    matrix = motion(2000, 1, 3, seed=5)
    matrix[:, :, 2] = 1e-5 * np.sin(np.arange(2000) / 7.0)[:, None]
    matrix[:10, :, 2] = np.sin(np.arange(10))[:, None]
    effort = matrix @ np.ones(3) + 0.1 * coloured(2000, 1, 0.0, 3)
    system = system_of_rows(matrix, effort)
    estimate = ols(system)
    found = bootstrap(system, estimate, BootstrapSettings(replicates=2000, block=0.1))
    drawn = brute_force(matrix, effort, np.ones(1), 10, 2000)
    assert found.lost == 0
    # a third of the replicates lacks the part: the scatter is a thousand classical deviations
    assert found.std[2] > 300.0 * estimate.std[2]
    np.testing.assert_allclose(found.std, drawn.std(axis=0), rtol=0.1)
    np.testing.assert_allclose(found.high, np.quantile(drawn, 0.975, axis=0), rtol=0.2)


def test_replicates_that_do_not_tell_a_parameter_are_left_out_and_counted():
    matrix = motion(2000, 1, 3, seed=5)
    matrix[:, :, 2] = 0.0
    matrix[:10, :, 2] = 1.0
    system = system_of_rows(matrix, matrix @ np.ones(3) + 0.1 * coloured(2000, 1, 0.0, 3))
    found = bootstrap(system, ols(system), BootstrapSettings(block=0.1))
    # each of 200 draws misses it with 1 - 1 / 200
    assert found.lost == pytest.approx(1000 * np.exp(-1.0), abs=60)
    assert np.isfinite(found.std).all()
    assert f'{found.lost} left out' in found.described
    # two such parameters at different times: most replicates miss one of them
    matrix[:, :, 1] = 0.0
    matrix[1000:1010, :, 1] = 1.0
    system = system_of_rows(matrix, matrix @ np.ones(3) + 0.1 * coloured(2000, 1, 0.0, 3))
    with pytest.raises(IdentifiabilityError, match='do not determine all parameters') as error:
        bootstrap(system, ols(system), BootstrapSettings(block=0.1))
    assert 'estimation.bootstrap.block' in error.value.remedy


SEEDS = 40


@pytest.fixture(scope='module')
def inside():
    """Share of true values within intervals, by bootstrap and classical ones, and their ratio."""
    matrix, truth = motion(2000, 2, 6), np.ones(6)

    def count(memory):
        hits, ratios = np.zeros(2), []
        for seed in range(SEEDS):
            effort = matrix @ truth + np.array([0.1, 1.0]) * coloured(2000, 2, memory, seed)
            system = system_of_rows(matrix, effort)
            estimate = wls(system)
            found = bootstrap(system, estimate, BootstrapSettings(replicates=200, seed=seed))
            hits += [
                np.sum((found.low < truth) & (truth < found.high)),
                np.sum(np.abs(estimate.base.values - truth) < 1.96 * estimate.std),
            ]
            ratios.append(found.std / estimate.std)
        return hits, np.median(ratios)

    return count


def test_intervals_hold_where_noise_is_coloured_and_classical_ones_do_not(inside):
    (hits, classical), ratio = inside(0.9)
    cases = 6 * SEEDS
    # finite recordings and blocks cost a little of the nominal 95 %
    assert binom.ppf(1e-4, cases, 0.93) <= hits <= binom.ppf(1.0 - 1e-4, cases, 0.96)
    assert classical < binom.ppf(1e-4, cases, 0.7)
    assert ratio > 2.0


def test_both_agree_where_noise_is_white(inside):
    (hits, classical), ratio = inside(0.0)
    cases = 6 * SEEDS
    for count in (hits, classical):
        assert binom.ppf(1e-4, cases, 0.94) <= count <= binom.ppf(1.0 - 1e-4, cases, 0.96)
    assert ratio == pytest.approx(1.0, abs=0.05)


def test_stretches_are_as_long_as_the_noise_demands():
    rng = np.random.default_rng(4)
    white = rng.normal(size=(400, 10))
    assert block_length(white) <= 2
    lengths = [
        block_length(lfilter([1.0], [1.0, -memory], white, axis=0)) for memory in (0.5, 0.8, 0.95)
    ]
    # the rule's own value for a known autocovariance: (1.5 (G / g)^2 N)^(1/3)
    best = [(1.5 * (2 * a / (1 - a * a)) ** 2 * 400) ** (1 / 3) for a in (0.5, 0.8, 0.95)]
    assert sorted(lengths) == lengths
    for found, known in zip(lengths, best, strict=True):
        assert 0.5 * known < found < 2.0 * known


def test_errors_hardly_alike_are_heard_where_many_coordinates_tell_of_them():
    """One coordinate's correlation of 0.12 is within chance for 300 parts, forty's is not."""
    white = np.random.default_rng(6).normal(size=(300, 40))
    alike = lfilter([1.0, 0.0, 0.15], [1.0], white, axis=0)
    assert block_length(alike) > block_length(white)


def test_every_part_is_drawn_as_often_as_any_other():
    """Stretches go round the end: else its parts would seldom be drawn, or too often."""
    matrix = motion(2000, 2, 5)
    effort = matrix @ np.ones(5)
    # an error at one end alone: what it does to the spread shows how often it was drawn
    sizes = []
    for end in (slice(0, 10), slice(1000, 1010), slice(-10, None)):
        spike = np.zeros_like(effort)
        spike[end] = matrix[1000:1010] @ np.ones(5)
        rows = matrix.copy()
        rows[end] = matrix[1000:1010]
        system = system_of_rows(rows, rows @ np.ones(5) + spike)
        settings = BootstrapSettings(replicates=2000, block=1.0)
        sizes.append(bootstrap(system, ols(system), settings).std)
    np.testing.assert_allclose(sizes[0], sizes[1], rtol=0.15)
    np.testing.assert_allclose(sizes[2], sizes[1], rtol=0.15)


def test_few_rows_widen_the_figures_as_they_do_the_classical_ones():
    matrix = np.random.default_rng(3).normal(size=(40, 1, 4))
    effort = matrix @ np.ones(4) + coloured(40, 1, 0.0, 5)
    time = np.arange(40) * 0.1  # each row is a part
    system = system_of_rows(matrix, effort, time)
    estimate = ols(system)
    settings = BootstrapSettings(replicates=400, block=0.1)
    found = bootstrap(system, estimate, settings)
    # the replicates themselves, as the seed gives them
    drawn = np.random.default_rng(settings.seed).integers(40, size=(400, 40))
    solved = [np.linalg.lstsq(matrix[d, 0], effort[d, 0])[0] for d in drawn]
    expected = np.sqrt(40 / (40 - 4)) * np.std(solved, axis=0, ddof=1)
    assert found.lost == 0 and found.stretches == 40
    np.testing.assert_allclose(found.std, expected, rtol=1e-6)


def test_too_few_parts_or_no_residual_have_stretches_of_one_part():
    assert block_length(np.ones((5, 3))) == 1
    assert block_length(np.zeros((50, 3))) == 1


def test_rows_without_their_time_are_refused(case):
    system = replace(case[2], blocks=None)
    with pytest.raises(IdentifiabilityError, match='without their time'):
        bootstrap(system, wls(system))


def test_deviations_are_the_bootstraps_and_classical_ones_stand_beside(case):
    system = case[2]
    plain, settings = wls(system), BootstrapSettings(replicates=200)
    found, drawn = (
        with_bootstrap(system, plain, settings, drawn=True),
        bootstrap(system, plain, settings),
    )
    assert np.array_equal(found.std, drawn.std)
    assert np.array_equal(found.uncertainty.classical_std, plain.std)
    np.testing.assert_allclose(np.sqrt(np.diag(found.uncertainty.covariance)), drawn.std)
    np.testing.assert_allclose(found.relative_std, 100.0 * found.std / np.abs(found.base.values))
    np.testing.assert_allclose(found.uncertainty.growth * plain.std, drawn.std)
    entry = found.to_dict()['parameters'][0]
    assert entry['std'] == entry['bootstrap_std'] == drawn.std[0]
    assert entry['classical_std'] == plain.std[0]


def test_the_covariance_of_few_columns_agrees_with_the_replicates(case):
    system = case[2]
    estimate = wls(system)
    drawn = bootstrap(system, estimate, BootstrapSettings(replicates=4000))
    free = np.ones(len(estimate), dtype=bool)
    found = least_squares_covariance(
        system.blocks, estimate.rows.weights, free, estimate.base.values
    )
    np.testing.assert_allclose(np.sqrt(np.diag(found)), drawn.std, rtol=0.1)


def test_a_method_that_weighs_single_rows_takes_over_the_growth(case):
    system = case[2]
    settings = BootstrapSettings(replicates=200)
    rows = replace(wls(system).rows, factor=system.stacked())
    single = replace(wls(system), method='irls', rows=rows)
    found, plain = with_bootstrap(system, single, settings, drawn=False), wls(system)
    growth = bootstrap(system, plain, settings).std / plain.std
    np.testing.assert_allclose(found.std, growth * single.std)
    assert found.uncertainty.bootstrap is None


def test_without_the_bootstrap_deviations_stay_classical_with_a_remark(case):
    system = replace(case[2], blocks=None)
    found = with_bootstrap(system, wls(system), BootstrapSettings(), drawn=True)
    assert np.array_equal(found.std, wls(system).std) and found.uncertainty.classical_std is None
    assert any('classical' in text for text in found.warnings)


def test_the_choice_of_essential_parameters_counts_what_deviations_grow_by():
    matrix = np.random.default_rng(3).normal(size=(400, 1, 4))
    effort = matrix @ np.array([1.0, 1.0, 1.0, 0.02]) + coloured(400, 1, 0.0, 5) * 0.1
    plain = ols(system_of_rows(matrix, effort))
    system = system_of_rows(matrix, effort)
    limit = 1.5 * float(plain.relative_std[3])
    assert plain.relative_std.argmax() == 3 and essential(system, plain, limit).essential.all()
    uncertainty = replace(plain.uncertainty, growth=np.full(4, 2.0))
    grown = essential(system, replace(plain, uncertainty=uncertainty), limit)
    assert grown.essential.tolist() == [True, True, True, False]
    kept = grown.essential
    np.testing.assert_allclose(grown.std[kept], 2.0 * grown.uncertainty.classical_std[kept])


def series(memory, count=512, columns=3, seed=0):
    """Return a first-order process of unit variance."""
    noise = np.random.default_rng(seed).normal(size=(count, columns))
    return lfilter([np.sqrt(1.0 - memory**2)], [1.0, -memory], noise, axis=0)


@pytest.mark.parametrize('memory', [0.0, 0.5, 0.8])
def test_the_covariance_is_that_of_sums_over_many_recordings(memory):
    sums = [series(memory, seed=seed).sum(axis=0) for seed in range(2000)]
    true = np.cov(np.array(sums).T)
    stated = np.mean([sum_covariance(series(memory, seed=seed)) for seed in range(40)], axis=0)
    assert np.diag(stated) == pytest.approx(np.diag(true), rel=0.25)
    correlation = stated / np.sqrt(np.outer(np.diag(stated), np.diag(stated)))
    assert np.abs(correlation - np.eye(3)).max() < 0.15


@pytest.mark.parametrize('memory', [0.0, 0.9])
@pytest.mark.parametrize('gain', [pytest.param(1.0, marks=pytest.mark.soak), 3.0])
def test_inflation_is_that_of_errors_that_last(memory, gain):
    """
    Rows that hardly change, and errors with a memory m: variances grow by (1 + m) / (1 - m).

    A gain of one joint's efforts that the other's do not have makes no difference.
    """
    rows = 1.0 + 0.02 * motion(6000, 2, 1)
    found = []
    for seed in range(5):
        effort = 5.0 * rows[:, :, 0] * [1.0, gain] + series(memory, 6000, 2, seed)
        found.append(variance_inflation(system_of_rows(rows, effort)))
    expected = (1.0 + memory) / (1.0 - memory)
    assert np.mean(found) == pytest.approx(expected, rel=0.3)


def test_rows_without_their_time_count_as_independent():
    rows = motion(100, 1, 2)
    system = system_of_rows(rows, rows.sum(axis=2) + series(0.9, 100, 1))
    assert variance_inflation(system) > 1.5
    assert variance_inflation(replace(system, blocks=None)) == 1.0
