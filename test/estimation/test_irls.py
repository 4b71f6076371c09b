# SPDX-License-Identifier: Apache-2.0
"""Reweighted least squares: what outliers do to it, and what its robustness costs."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from robot_identification.errors import IdentifiabilityError, SettingsError
from robot_identification.estimation import row_block
from robot_identification.estimation.irls import irls, IrlsSettings, Loss, Magnitudes, SpikeRepair
from robot_identification.estimation.least_squares import essential, ols, wls
from robot_identification.estimation.row_block import RowBlock
from robot_identification.estimation.system import from_rows
from robot_identification.options.fields import from_mapping
from scipy.optimize import minimize
from scipy.stats import norm

losses = pytest.mark.parametrize('loss', ['huber', 'tukey'])


def blocks_of(problem, size=100):
    """Return a starter of passes over the rows of a problem, in blocks."""
    m, n, b = problem.matrix.shape
    position = np.linspace(0.0, 1.0, m)[:, None] * np.ones(n)

    def start():
        for first in range(0, m, size):
            part = slice(first, first + size)
            yield RowBlock.from_matrix(
                problem.matrix[part],
                time=np.arange(m, dtype=float)[part],
                position=position[part],
                velocity=np.ones_like(position[part]),
                effort=problem.effort[part],
                keep=np.ones_like(position[part], dtype=bool),
                raw_effort=problem.effort[part],
            )

    return start


def estimate(problem, loss='huber', **keys):
    return irls(problem.system, blocks_of(problem), IrlsSettings(loss=loss, **keys))


@pytest.fixture
def spoilt(problem, problem_of):
    """Return a maker of clean problems and the same with outliers of 50 times the noise."""

    def make(seed, m=1500, noise=(0.1, 0.3, 1.0), share=0.01):
        rng = np.random.default_rng(seed)
        matrix = rng.normal(size=(m, 3, 8))
        clean = problem_of(matrix, rng.normal(size=8) + 3.0, np.array(noise), seed)
        effort = clean.effort.copy()
        bad = rng.random(effort.shape) < share
        effort += np.where(bad, 50.0 * np.array(noise) * rng.normal(size=effort.shape), 0.0)
        system = from_rows(clean.system.structure, clean.system.factor.joints, matrix, effort)
        return clean, replace(clean, effort=effort, system=system)

    return make


@losses
@pytest.mark.parametrize('seed', range(4))
def test_outliers_move_nothing_by_a_standard_deviation(spoilt, seed, loss):
    clean, bad = spoilt(seed)
    before, after = estimate(clean, loss), estimate(bad, loss)
    assert (np.abs(after.base.values - before.base.values) < before.std).all()
    plain = np.abs(wls(bad.system).base.values - wls(clean.system).base.values)
    assert (plain > before.std).any()
    plain = np.abs(ols(bad.system).base.values - ols(clean.system).base.values)
    assert (plain > before.std).any()


@losses
def test_the_standard_deviations_are_true_with_and_without_outliers(spoilt, loss):
    """Over 60 recordings: squared errors against predicted variances, a chi-squared mean."""
    for which in (0, 1):
        scores = []
        for seed in range(60):
            problem = spoilt(seed, m=300)[which]
            found = estimate(problem, loss)
            scores.append((found.base.values - problem.truth) / found.std)
        mean = np.mean(np.square(scores))
        # 480 squares of correlated normal variables; each has the variance 2
        assert abs(mean - 1.0) < 4.0 * np.sqrt(2.0 / 480)


@losses
def test_the_covariance_on_gaussian_noise_is_that_of_least_squares_over_the_efficiency(
    spoilt, loss
):
    clean = spoilt(5, m=6000)[0]
    noise = np.array([0.1, 0.3, 1.0])
    rows = (clean.matrix / noise[:, None]).reshape(-1, 8)
    ratio = np.diag(estimate(clean, loss).uncertainty.covariance) * np.diag(rows.T @ rows)
    best = np.diag(np.linalg.inv(rows.T @ rows)) * np.diag(rows.T @ rows)
    assert np.mean(ratio / best) == pytest.approx(1.0 / 0.95, rel=0.03)


@pytest.mark.parametrize('loss', ['tukey', pytest.param('huber', marks=pytest.mark.soak)])
def test_efficiency_on_clean_gaussian_noise_is_95_percent(spoilt, loss):
    """The variance against that of least squares, paired over 150 recordings."""
    robust, plain = [], []
    for seed in range(150):
        problem = spoilt(seed, m=120)[0]
        robust.append(estimate(problem, loss).base.values - problem.truth)
        plain.append(wls(problem.system).base.values - problem.truth)
    efficiency = np.sum(np.square(plain)) / np.sum(np.square(robust))
    assert 0.91 < efficiency < 0.99


@pytest.mark.parametrize(
    ('loss', 'constant', 'efficiency'), [('huber', 1.345, 0.95), ('tukey', 4.685, 0.95)]
)
def test_the_constants_efficiency_by_quadrature(loss, constant, efficiency):
    u = np.linspace(-9.0, 9.0, 200001)
    density, shape = norm.pdf(u) * (u[1] - u[0]), Loss(loss, constant)
    psi = u * shape.weight(u)
    assert (density @ shape.slope(u)) ** 2 / (density @ psi**2) == pytest.approx(
        efficiency, abs=2e-4
    )
    np.testing.assert_allclose(
        np.gradient(psi, u)[::17], shape.slope(u)[::17], atol=1.01 if loss == 'huber' else 1e-3
    )


def test_it_minimises_hubers_loss(spoilt):
    """Against a general minimiser of the same loss, at the scales that came out."""
    _, bad = spoilt(3, m=200)
    found = estimate(bad, tolerance=1e-9, max_iterations=300)
    scales = 1.0 / found.rows.weights

    def loss(base):
        u = np.abs((bad.effort - bad.matrix @ base) / scales)
        return np.where(u < 1.345, 0.5 * u**2, 1.345 * u - 0.5 * 1.345**2).sum()

    best = minimize(loss, bad.truth, method='BFGS', options={'gtol': 1e-7})
    np.testing.assert_allclose(found.base.values, best.x, atol=1e-4 * found.std.min())
    residual = np.abs(bad.effort - bad.matrix @ found.base.values)
    np.testing.assert_allclose(scales, np.median(residual, axis=0) / norm.ppf(0.75), rtol=1e-8)


def test_notes_tell_the_share_of_outliers(spoilt):
    clean, bad = spoilt(0, share=0.05)
    found = estimate(bad, 'tukey')
    shares = [float(note.split()[0]) for note in found.notes]
    assert len(shares) == 3 and all(note.count("'joint_") == 1 for note in found.notes)
    # of the outliers and of the good rows, those beyond 2.535 standard deviations
    share = 100.0 * (bad.effort != clean.effort).mean(axis=0)
    beyond = 2.0 * norm.sf(2.535), 2.0 * norm.sf(2.535 / 50.0)
    np.testing.assert_allclose(shares, beyond[0] * (100.0 - share) + beyond[1] * share, atol=0.8)
    u = np.linspace(-5.0, 5.0, 10001)
    mean = np.sum(norm.pdf(u) * Loss('tukey', 4.685).weight(u) * u**2) * (u[1] - u[0])
    assert estimate(clean, 'tukey').rows.residual_std == pytest.approx(np.sqrt(mean), abs=0.02)
    assert not any('settle' in warning for warning in found.warnings)


def test_essential_parameters_are_robust_too(spoilt):
    """Eliminated and kept parameters come from the weighted rows."""
    clean, bad = spoilt(1, share=0.03)
    reduced = essential(bad.system, estimate(bad), 5.0)
    kept = reduced.essential
    assert kept.sum() >= 6
    error = np.abs(reduced.base.values - bad.truth)[kept]
    assert (error < 4.0 * reduced.std[kept]).all()
    # as certain as in the recording without outliers, or nearly
    assert np.nanmax(reduced.std / estimate(clean).std) < 1.5


@losses
def test_rows_that_do_not_fit_into_memory_are_read_again(spoilt, loss, monkeypatch):
    _, bad = spoilt(2)
    passes = []

    def counted(start):
        def begin():
            passes.append(1)
            return start()

        return begin

    start = counted(blocks_of(bad))
    chosen = IrlsSettings(loss=loss)
    held = irls(bad.system, start, chosen)
    assert len(passes) == 1
    monkeypatch.setattr(row_block, 'CACHE_BYTES', 1000)
    again = irls(bad.system, start, chosen)
    assert len(passes) > 4
    np.testing.assert_array_equal(held.base.values, again.base.values)


def test_scales_come_from_evenly_thinned_residuals(spoilt, monkeypatch):
    _, bad = spoilt(2)
    whole = estimate(bad)
    monkeypatch.setattr(Magnitudes, 'limit', 500)
    thinned = estimate(bad)
    np.testing.assert_allclose(thinned.rows.weights, whole.rows.weights, rtol=0.15)
    assert (np.abs(thinned.base.values - whole.base.values) < 0.3 * whole.std).all()


@losses
def test_without_noise_it_is_exact(problem, loss):
    made = problem(noise=0.0)
    found = estimate(made, loss)
    np.testing.assert_allclose(found.base.values, made.truth, rtol=1e-9)


def test_too_few_iterations_are_told(spoilt):
    _, bad = spoilt(4)
    assert any('did not settle within 2' in w for w in estimate(bad, max_iterations=2).warnings)


@pytest.mark.parametrize(('key', 'value'), [('loss', 'cauchy'), ('huber', 0.0), ('tukey', -1.0)])
def test_wrong_settings_are_named(key, value):
    with pytest.raises(SettingsError, match=f'estimation.irls.{key}'):
        from_mapping(IrlsSettings, {key: value}, 'estimation.irls')


def test_scale_of_normal_residuals_is_their_standard_deviation():
    magnitudes = Magnitudes()
    rng = np.random.default_rng(0)
    for _ in range(100):
        magnitudes.push(np.abs(0.7 * rng.normal(size=1000)))
    assert magnitudes.scale() == pytest.approx(0.7, rel=0.01)
    assert Magnitudes().scale() == 0.0


@pytest.mark.parametrize('size', [1, 7, 64, 1000])
def test_thinning_keeps_an_even_grid_whatever_the_blocks(monkeypatch, size):
    monkeypatch.setattr(Magnitudes, 'limit', 100)
    magnitudes = Magnitudes()
    numbers = np.arange(1000.0)
    for start in range(0, 1000, size):
        magnitudes.push(numbers[start : start + size])
    held = np.concatenate(magnitudes._parts)
    assert 50 < held.size <= 100
    np.testing.assert_array_equal(held, np.arange(0.0, 1000.0, held[1]))


def test_spikes_of_moving_joints_become_what_the_model_predicts():
    rng = np.random.default_rng(1)
    matrix, base = rng.normal(size=(50, 2, 3)), np.array([1.0, -2.0, 0.5])
    effort = matrix @ base + 0.1 * rng.normal(size=(50, 2))
    spoilt = effort.copy()
    spoilt[[3, 20], [0, 1]] += [9.0, -4.0]
    spoilt[30, 0] += 9.0
    moving = np.ones((50, 2), dtype=bool)
    moving[30, 0] = False
    repair = SpikeRepair(base, np.array([1.0, 1.0]))
    done = repair(partial(np.matmul, matrix), spoilt, moving)
    expected = spoilt.copy()
    expected[[3, 20], [0, 1]] = (matrix @ base)[[3, 20], [0, 1]]
    np.testing.assert_array_equal(done, expected)
    assert repair.replaced.tolist() == [1, 1] and repair.samples.tolist() == [49, 50]
    np.testing.assert_allclose(repair.measured(), 0.1, rtol=0.4)
    # once measured, further passes do not count again
    repair(partial(np.matmul, matrix), spoilt, moving)
    assert repair.replaced.tolist() == [1, 1]


def test_rows_that_determine_nothing_are_refused(problem_of):
    still = problem_of(np.zeros((300, 2, 3)), np.zeros(3), 0.1)
    with pytest.raises(IdentifiabilityError, match='determines none of the base parameters'):
        estimate(still)
