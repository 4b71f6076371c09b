# SPDX-License-Identifier: Apache-2.0
"""The growing R factor against factorisations of everything at once, and against exact numbers."""

from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest
from robot_identification.estimation.factor import append_rows, GrowingTriangle
from robot_identification.estimation.least_squares import solve


def grow(rows: np.ndarray, parts: list[int], block: int) -> np.ndarray:
    factor = GrowingTriangle(rows.shape[1], block)
    for part in np.split(rows, np.cumsum(parts)):
        factor.push(part)
    assert factor.rows == len(rows)
    return factor.result()


@settings(max_examples=50, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    columns=st.integers(1, 12),
    count=st.integers(0, 200),
    parts=st.lists(st.integers(0, 60), max_size=5),
    block=st.integers(1, 70),
)
def test_any_blocks_give_the_factor_of_all_rows(seed, columns, count, parts, block):
    rows = np.random.default_rng(seed).normal(size=(count, columns))
    R = grow(rows, parts, block)
    assert np.array_equal(R, np.triu(R))
    assert np.allclose(R.T @ R, rows.T @ rows, rtol=1e-11, atol=1e-11)


def test_result_may_be_asked_for_in_between():
    rows = np.random.default_rng(1).normal(size=(100, 4))
    factor = GrowingTriangle(4, 16)
    factor.push(rows[:37])
    first = factor.result()
    factor.push(rows[37:])
    assert np.allclose(first.T @ first, rows[:37].T @ rows[:37])
    assert np.allclose(factor.result().T @ factor.result(), rows.T @ rows)


def test_no_rows_change_nothing():
    R = np.triu(np.random.default_rng(2).normal(size=(5, 5)))
    assert np.array_equal(append_rows(R, np.empty((0, 5))), R)


def test_what_was_pushed_is_not_touched():
    rows = np.random.default_rng(3).normal(size=(40, 4))
    before = rows.copy()
    append_rows(np.zeros((4, 4)), rows)
    assert np.array_equal(rows, before)


def badly_conditioned(condition: float, seed: int, rows: int = 400, columns: int = 6):
    """Rows whose entries are exact in binary, with the condition number asked for."""
    rng = np.random.default_rng(seed)
    u, _ = np.linalg.qr(rng.normal(size=(rows, columns)))
    v, _ = np.linalg.qr(rng.normal(size=(columns, columns)))
    matrix = u * np.geomspace(1.0, 1.0 / condition, columns) @ v.T
    truth = rng.normal(size=columns)
    return matrix, matrix @ truth + 1e-3 * rng.normal(size=rows) / np.sqrt(rows)


def exact_least_squares(matrix: np.ndarray, effort: np.ndarray) -> np.ndarray:
    """Solve the normal equations in rational numbers, which is exact."""
    rows = [[Fraction(float(x)) for x in row] for row in np.column_stack([matrix, effort])]
    k = matrix.shape[1]
    system = [[sum(row[i] * row[j] for row in rows) for j in range(k + 1)] for i in range(k)]
    for i in range(k):
        for j in range(i + 1, k):
            ratio = system[j][i] / system[i][i]
            system[j] = [a - ratio * b for a, b in zip(system[j], system[i], strict=True)]
    solution = [Fraction(0)] * k
    for i in reversed(range(k)):
        rest = sum(system[i][j] * solution[j] for j in range(i + 1, k))
        solution[i] = (system[i][k] - rest) / system[i][i]
    return np.array([float(x) for x in solution])


@pytest.mark.parametrize('condition', [1e2, 1e5, 1e8])
def test_as_accurate_as_a_factorisation_of_all_rows(condition):
    matrix, effort = badly_conditioned(condition, 4, rows=120)
    exact = exact_least_squares(matrix, effort)
    k = matrix.shape[1]
    R = grow(np.column_stack([matrix, effort]), [7, 50], 16)
    streamed = solve(R, np.ones(k, dtype=bool), np.zeros(k), len(effort)).base
    direct = np.linalg.lstsq(matrix, effort, rcond=None)[0]
    error = np.linalg.norm(streamed - exact) / np.linalg.norm(exact)
    reference = np.linalg.norm(direct - exact) / np.linalg.norm(exact)
    # theory: cond^2 eps ||residual|| / ||W|| ||x|| at the most; normal equations lose cond^2 eps
    assert error < 20 * max(reference, np.finfo(float).eps)
    if condition == 1e8:
        normal = np.linalg.solve(matrix.T @ matrix, matrix.T @ effort)
        lost = np.linalg.norm(normal - exact) / np.linalg.norm(exact)
        assert error < 1e-3 * lost
