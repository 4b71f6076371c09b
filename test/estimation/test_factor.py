# SPDX-License-Identifier: Apache-2.0
"""Factors merge like the rows that they stand for, in whatever order and grouping."""

from dataclasses import fields, replace

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest
from robot_identification.estimation import (
    from_rows,
    LinearSystem,
    ols,
    wls,
)
from robot_identification.estimation.factor import merge_all

from .conftest import plain_structure

N, B = 3, 6
JOINTS = ('a', 'b', 'c')
STRUCTURE = plain_structure(B)


def rows_of(seed, samples):
    """Rows in which joint j sees all but the first j columns, their effort, and which count."""
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(samples, N, B)) * 10.0 ** rng.uniform(-1.0, 1.0, B)
    for j in range(N):
        matrix[:, j, :j] = 0.0
    effort = matrix @ (rng.normal(size=B) / np.abs(matrix).max(axis=(0, 1)))
    effort += rng.normal(size=effort.shape) * [0.1, 0.3, 0.02]
    return matrix, effort, rng.random(effort.shape) < 0.8


def factor_of(matrix, effort, keep):
    return from_rows(STRUCTURE, JOINTS, matrix, effort, keep).factor


def split(rows, cuts):
    """Factors of the rows between cuts; some may be of one row."""
    parts = np.split(np.arange(len(rows[0])), cuts)
    return [factor_of(*(array[part] for array in rows)) for part in parts if part.size]


def any_tree(factors, rng):
    """Merge two neighbours, or any two, until one is left."""
    left = list(factors)
    while len(left) > 1:
        one, two = rng.choice(len(left), 2, replace=False)
        merged = left[one].merge(left[two])
        left = [f for i, f in enumerate(left) if i not in (one, two)] + [merged]
    return left[0]


def assert_alike(one, two, rtol=1e-12):
    """Hold two factors together, in the scale of the columns."""
    scale = np.linalg.norm(one.triangles, axis=1)
    scale[scale == 0.0] = 1.0
    # R itself is as sensitive as the columns are dependent; its Gram is not
    gram = [np.swapaxes(f.triangles, 1, 2) @ f.triangles for f in (one, two)]
    square = scale[:, :, None] * scale[:, None, :]
    assert np.allclose(gram[0] / square, gram[1] / square, rtol=0.0, atol=rtol)
    assert np.array_equal(one.rows, two.rows)
    assert np.array_equal(one.available_rows, two.available_rows)
    assert one.raw_rows == two.raw_rows
    assert np.allclose(one.independent_rows, two.independent_rows, rtol=rtol)
    large = np.sqrt(one.raw_rows) * np.sqrt(np.einsum('jii->ji', one.raw_gram))
    gap = np.abs(one.column_sums - two.column_sums)
    assert (gap <= rtol * large[:, :-1]).all()
    assert (np.abs(one.effort_sums - two.effort_sums) <= rtol * large[:, -1]).all()
    assert np.allclose(one.raw_gram, two.raw_gram, rtol=rtol, atol=rtol * large.max() ** 2)


def assert_same_estimates(one, two, rtol=1e-12):
    """Hold two factors' least squares together, parameters in the scale of their columns."""
    for method in (ols, wls):
        a, b = (method(LinearSystem(factor, STRUCTURE)) for factor in (one, two))
        weighted = one.stacked(a.weights)
        *columns, effort = np.linalg.norm(weighted, axis=0)
        gap = np.abs(a.base.values - b.base.values) * columns
        assert (gap <= rtol * a.condition_number * effort).all()
        # the residual is what is left of the effort
        loose = rtol * a.condition_number * effort / abs(weighted[-1, -1])
        assert np.allclose(a.std, b.std, rtol=loose, equal_nan=True)
        assert a.residual_std == pytest.approx(b.residual_std, rel=loose)
        for mine, other in zip(a.joints, b.joints, strict=True):
            assert mine.rmse == pytest.approx(other.rmse, rel=loose)
            assert mine.relative_error == pytest.approx(other.relative_error, rel=loose)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    samples=st.integers(20, 120),
    cuts=st.lists(st.integers(1, 119), max_size=9, unique=True).map(sorted),
)
def test_any_split_order_and_tree_give_the_factor_of_all_rows(seed, samples, cuts):
    rows = rows_of(seed, samples)
    rng = np.random.default_rng(seed + 1)
    whole = factor_of(*rows)
    merged = any_tree(split(rows, [cut for cut in cuts if cut < samples]), rng)
    assert_alike(whole, merged)
    assert_same_estimates(whole, merged)


@pytest.mark.parametrize('count', [1, 2, 3, 7, 8, 13])
def test_tree_is_balanced(count):
    deepest = 0

    class Depth:
        def __init__(self, depth=0):
            self.depth = depth

        def merge(self, other):
            nonlocal deepest
            deepest = max(deepest, 1 + max(self.depth, other.depth))
            return Depth(1 + max(self.depth, other.depth))

    merge_all(Depth() for _ in range(count))
    assert deepest == int(np.ceil(np.log2(count)))


def test_tree_takes_its_factors_one_by_one():
    factor, alive, most = factor_of(*rows_of(1, 20)), 0, 0

    class Counted:
        def __init__(self):
            nonlocal alive, most
            alive += 1
            most = max(most, alive)

        def merge(self, other):
            nonlocal alive
            alive -= 2
            return Counted()

    merge_all(Counted() for _ in range(1000))
    assert most <= 12
    assert merge_all([factor]) is factor
    with pytest.raises(ValueError, match='no factor'):
        merge_all([])


def test_diagonals_are_not_negative():
    factor = factor_of(*rows_of(2, 30))
    assert (np.diagonal(factor.triangles, axis1=1, axis2=2) >= 0.0).all()
    turned = replace(factor, triangles=-factor.triangles)
    assert np.array_equal(turned.triangles, factor.triangles)
    assert not np.signbit(turned.triangles[turned.triangles == 0.0]).any()


def emptied(factor):
    """Return the factor of no rows of the same problem."""
    kept = ('fingerprint', 'driven')
    numbers = {f.name: 0 * getattr(factor, f.name) for f in fields(factor) if f.name not in kept}
    return replace(factor, **numbers)


def test_empty_factor_changes_no_bit():
    factor = factor_of(*rows_of(3, 30))
    empty = emptied(factor)
    for merged in (factor.merge(empty), empty.merge(factor)):
        assert np.array_equal(merged.triangles, factor.triangles)
        assert np.array_equal(merged.raw_gram, factor.raw_gram)
        assert merged.n_rows == factor.n_rows and merged.raw_rows == factor.raw_rows
        assert np.array_equal(merged.position_range, factor.position_range)
    assert empty.merge(empty).n_rows == 0


def test_one_row_is_enough_for_a_factor():
    rows = rows_of(4, 40)
    keep = np.ones_like(rows[2])
    singles = [factor_of(rows[0][i : i + 1], rows[1][i : i + 1], keep[:1]) for i in range(40)]
    assert_alike(factor_of(rows[0], rows[1], keep), merge_all(singles))


def test_columns_that_a_joint_does_not_see_stay_zero():
    rows = rows_of(5, 40)
    merged = merge_all(split(rows, [10, 11, 25]))
    for j in range(N):
        assert not merged.triangles[j, :, :j].any()
        assert not merged.triangles[j, :j].any()


def test_merging_stays_exact_over_many_factors():
    rows = rows_of(6, 600)
    merged = merge_all(split(rows, np.arange(2, 600, 2)))
    assert_same_estimates(factor_of(*rows), merged)


def test_columns_that_one_recording_leaves_out_are_in_the_merged_factor():
    matrix, effort, keep = rows_of(7, 60)
    matrix[:30, :, 2] = 0.0
    matrix[30:, :, 4] = 0.0
    one, two = split((matrix, effort, keep), [30])
    whole = factor_of(matrix, effort, keep)
    assert_alike(whole, one.merge(two))
    assert_alike(whole, two.merge(one))
