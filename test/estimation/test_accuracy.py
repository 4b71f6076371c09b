# SPDX-License-Identifier: Apache-2.0
"""Digits of the estimates, against solutions with a hundred of them."""

from mpmath import mp
import numpy as np
import pytest
from robot_identification.estimation.least_squares import ols, wls
from robot_identification.estimation.recursive.mrls import mrls
from robot_identification.estimation.recursive.rls import RecursiveSettings
from robot_identification.estimation.row_block import RowBlock
from robot_identification.estimation.system import from_rows

from .conftest import plain_structure

EPS = np.finfo(float).eps
SEEDS = range(40)


def rows_of(condition, seed, m=60, n=2, b=8, residual=1e-9):
    """Rows (m, n, b) of a condition number, and effort with a small residual."""
    rng = np.random.default_rng(seed)
    u, _ = np.linalg.qr(rng.normal(size=(m * n, b)))
    v, _ = np.linalg.qr(rng.normal(size=(b, b)))
    matrix = u * np.geomspace(1.0, 1.0 / condition, b) @ v
    effort = matrix @ rng.normal(size=b) + residual * rng.normal(size=m * n)
    return matrix.reshape(m, n, b), effort.reshape(m, n)


def exact(matrix, effort, weights=None):
    """Solve normal equations of the very same numbers with a hundred digits."""
    weights = np.ones(effort.shape[1]) if weights is None else weights
    with mp.workdps(100):
        rows = mp.matrix(
            [
                [mp.mpf(weights[j]) * mp.mpf(x) for x in (*matrix[i, j], effort[i, j])]
                for i in range(effort.shape[0])
                for j in range(effort.shape[1])
            ]
        )
        b = matrix.shape[2]
        gram = rows.T * rows
        return np.array([float(x) for x in mp.lu_solve(gram[:b, :b], gram[:b, b])])


def off(found, truth):
    return np.linalg.norm(found - truth) / np.linalg.norm(truth)


def system_of(matrix, effort):
    joints = tuple(f'joint_{j}' for j in range(effort.shape[1]))
    return from_rows(plain_structure(matrix.shape[2]), joints, matrix, effort)


def lost_by_gram(flat, effort, truth):
    """Return the relative error of the normal equations, infinite where they are singular."""
    try:
        return off(np.linalg.solve(flat.T @ flat, flat.T @ effort), truth)
    except np.linalg.LinAlgError:
        return np.inf


@pytest.mark.parametrize(
    'condition', [1e2, 1e8, *(pytest.param(c, marks=pytest.mark.soak) for c in (1e4, 1e6))]
)
def test_estimates_are_as_accurate_as_a_singular_value_decomposition(condition):
    ratios, lost = [], []
    for seed in SEEDS:
        matrix, effort = rows_of(condition, seed)
        truth = exact(matrix, effort)
        estimate = ols(system_of(matrix, effort))
        assert estimate.rank == 8
        flat = matrix.reshape(-1, 8)
        by_svd = np.linalg.lstsq(flat, effort.ravel(), rcond=None)[0]
        ratios.append(off(estimate.base.values, truth) / max(off(by_svd, truth), EPS))
        lost.append(lost_by_gram(flat, effort.ravel(), truth))
    assert np.exp(np.mean(np.log(ratios))) < 3.0
    if condition == 1e8:
        assert min(lost) > 1e-4  # what normal equations would have made of them


def test_weighted_estimates_are_too():
    matrix, effort = rows_of(1e7, 11)
    effort[:, 1] += 1e-6 * np.random.default_rng(1).normal(size=len(effort))
    system = system_of(matrix, effort)
    estimate = wls(system)
    truth = exact(matrix, effort, estimate.rows.weights)
    flat = (matrix * estimate.rows.weights[:, None]).reshape(-1, 8)
    by_svd = np.linalg.lstsq(flat, (effort * estimate.rows.weights).ravel(), rcond=None)[0]
    assert off(estimate.base.values, truth) < 10.0 * max(off(by_svd, truth), EPS)


@pytest.mark.parametrize('condition', [1e2, 1e7])
def test_a_gram_matrix_decides_only_where_its_condition_number_allows(condition):
    matrix, effort = rows_of(condition, 3)
    keep = np.ones_like(effort, dtype=bool)
    block = RowBlock.from_matrix(
        matrix,
        time=np.arange(len(effort)) / 100.0,
        position=effort,
        velocity=effort,
        effort=effort,
        keep=keep,
        raw_effort=effort,
    )
    chosen = RecursiveSettings(formulation='gram', threshold=1e-9)
    estimate = mrls(system_of(matrix, effort), [block], chosen)
    truth = exact(matrix, effort)
    warned = [text for text in estimate.warnings if 'formulation gram' in text]
    assert bool(warned) == (condition > 1e4)
    assert estimate.rank == 8
    assert off(estimate.base.values, truth) < 1e-9 * (1.0 if condition < 1e4 else 10.0)
