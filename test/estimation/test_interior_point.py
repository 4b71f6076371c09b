# SPDX-License-Identifier: Apache-2.0
"""Newton's method for semidefinite programs: closed forms and the conditions of optimality."""

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest
from robot_identification.estimation.interior_point import Infeasible, minimise
from robot_identification.estimation.semidefinite_program import (
    Affine,
    SemidefiniteProgram,
    svec,
    unpack,
)

SEEDS = st.integers(0, 2**32 - 1)
IDENTITY = Affine(np.eye(10), np.zeros(10))


def solved(matrix, target, *semidefinite, nonnegative=None, zero=None, tolerance=1e-4, **entropic):
    nothing = Affine(np.zeros((0, matrix.shape[1])), np.zeros(0))
    program = SemidefiniteProgram(
        matrix, target, semidefinite, nonnegative or nothing, zero or nothing, **entropic
    )
    return minimise(program, tolerance)


def symmetric(rng, size):
    matrix = size * rng.normal(size=(4, 4))
    return matrix + matrix.T


@settings(max_examples=30, deadline=None)
@given(seed=SEEDS)
def test_nearest_positive_semidefinite_matrix(seed):
    """It has the negative eigenvalues set to 0 (Higham 1988)."""
    given_ = symmetric(np.random.default_rng(seed), 1.0)
    values, axes = np.linalg.eigh(given_)
    nearest = (axes * np.maximum(values, 0.0)) @ axes.T
    found = solved(np.eye(10), svec(given_), IDENTITY)
    np.testing.assert_allclose(unpack(found.z), nearest, atol=1e-5)


@settings(max_examples=30, deadline=None)
@given(seed=SEEDS, weight=st.sampled_from([1e-4, 1e-2, 1.0, 1e2]))
def test_nearest_matrix_with_an_entropic_term(seed, weight):
    """Eigenvalue by eigenvalue, x - y + w (1 - 1 / x) = 0."""
    given_ = symmetric(np.random.default_rng(seed), 3.0)
    y, axes = np.linalg.eigh(given_)
    x = 0.5 * (y - weight + np.sqrt((y - weight) ** 2 + 4.0 * weight))
    found = solved(np.eye(10), svec(given_), entropic=(IDENTITY,), weight=weight, tolerance=1e-6)
    np.testing.assert_allclose(unpack(found.z), (axes * x) @ axes.T, atol=1e-5)


@settings(max_examples=20, deadline=None)
@given(seed=SEEDS, size=st.sampled_from([1.0, 1e3]))
def test_gradient_is_a_multiplier_that_is_complementary(seed, size):
    """The gradient is a positive semidefinite Y with tr(X Y) = 0 (Karush, Kuhn and Tucker)."""
    rng = np.random.default_rng(seed)
    matrix, target = rng.normal(size=(14, 10)), size * rng.normal(size=14)
    found = solved(matrix, target, IDENTITY, tolerance=1e-7 * size)
    X, Y = unpack(found.z), unpack(matrix.T @ (matrix @ found.z - target))
    assert np.linalg.eigvalsh(X)[0] > -1e-12 * size
    assert np.linalg.eigvalsh(Y)[0] > -1e-5 * size
    assert abs(np.trace(X @ Y)) < 1e-6 * size**2


def test_a_margin_and_an_entropic_term_hold_together():
    """The eigenvalue is the margin if the entropic optimum lies below it."""
    weight, margin, y = 1e-4, 0.1, np.array([-2.0, 0.5, 1.0, 3.0])
    x = 0.5 * (y - weight + np.sqrt((y - weight) ** 2 + 4.0 * weight))
    found = solved(
        np.eye(10), svec(np.diag(y)), Affine(np.eye(10), -margin * svec(np.eye(4))),
        entropic=(IDENTITY,), weight=weight, tolerance=1e-6,
    )  # fmt: skip
    np.testing.assert_allclose(unpack(found.z), np.diag(np.maximum(x, margin)), atol=1e-6)


def test_entropic_term_decides_what_the_rows_leave_open():
    """Without any row, X is the identity, or the nearest to it within the bounds."""
    rows = (np.zeros((1, 10)), np.zeros(1))
    free = solved(*rows, entropic=(IDENTITY,), weight=1.0)
    np.testing.assert_allclose(unpack(free.z), np.eye(4), atol=1e-4)
    # the last diagonal entry is 3 at least
    beyond = Affine(np.eye(10)[9:], np.array([-3.0]))
    held = solved(*rows, nonnegative=beyond, entropic=(IDENTITY,), weight=1.0)
    np.testing.assert_allclose(unpack(held.z), np.diag([1.0, 1.0, 1.0, 3.0]), atol=1e-4)


@pytest.mark.parametrize('spread', [0.0, 4.0, 8.0])
def test_units_of_the_columns_do_not_matter(spread):
    """Columns over eight orders of magnitude: the loss's own units are what counts."""
    rng = np.random.default_rng(5)
    p = 12
    mixed = np.linalg.qr(rng.normal(size=(p, p)))[0] * np.logspace(0.0, spread, p)
    target = 30.0 * rng.normal(size=p)
    # y = mixed z lies in the cone where its coordinates along three axes are not negative
    axes = np.linalg.qr(rng.normal(size=(p, 3)))[0].T
    beyond = np.minimum(axes @ target, 0.0)
    assert 0 < np.count_nonzero(beyond) < 3
    bounds = Affine(axes @ mixed, np.zeros(3))
    found = solved(mixed, target, nonnegative=bounds, tolerance=1e-5)
    np.testing.assert_allclose(mixed @ found.z, target - axes.T @ beyond, atol=1e-5)


@settings(max_examples=20, deadline=None)
@given(seed=SEEDS)
def test_no_other_point_within_the_constraints_fits_better(seed):
    rng = np.random.default_rng(seed)
    p = 10
    matrix, target = rng.normal(size=(14, p)), rng.normal(size=14)
    function = Affine(rng.normal(size=(10, p)), svec(np.eye(4)))
    signs, equal = Affine(np.eye(p)[:2], np.ones(2)), Affine(np.eye(p)[2:3], np.zeros(1))
    found = solved(matrix, target, function, nonnegative=signs, zero=equal)
    assert found.error < 1e-3
    assert abs(found.z[2]) < 1e-12
    loss = np.linalg.norm(matrix @ found.z - target)
    for _ in range(200):
        # a feasible point, on the way to a random one
        other = found.z + 0.1 * rng.normal(size=p)
        other[2] = 0.0
        inside = np.linalg.eigvalsh(unpack(function(other)))[0] >= 0.0
        if inside and (signs(other) >= 0.0).all():
            assert np.linalg.norm(matrix @ other - target) > loss - 1e-6


def test_without_active_constraints_it_is_least_squares():
    rng = np.random.default_rng(2)
    matrix, target = rng.normal(size=(9, 4)), rng.normal(size=9)
    far = Affine(np.eye(4), np.full(4, 1e3))
    expected = np.linalg.lstsq(matrix, target, rcond=None)[0]
    for bounds in (None, far):
        found = solved(matrix, target, nonnegative=bounds)
        np.testing.assert_allclose(found.z, expected, atol=1e-4)


def test_the_error_bound_holds_and_follows_the_tolerance():
    given_ = symmetric(np.random.default_rng(3), 100.0)
    values, axes = np.linalg.eigh(given_)
    nearest = svec((axes * np.maximum(values, 0.0)) @ axes.T)
    for tolerance in (1e-1, 1e-2, 1e-4):
        found = solved(np.eye(10), svec(given_), IDENTITY, tolerance=tolerance)
        assert found.error <= tolerance
        assert found.gradient <= found.error
        assert np.linalg.norm(found.z - nearest) <= found.error + 1e-7


def test_opposite_bounds_make_an_equation():
    """No z lies strictly within them, as in a box around a flat shape."""
    both = Affine(np.array([[1.0, -2.0], [-1.0, 2.0]]), np.zeros(2))
    found = solved(np.eye(2), np.array([1.0, 3.0]), nonnegative=both)
    np.testing.assert_allclose(found.z, [2.0, 1.0], atol=1e-4)


@pytest.mark.parametrize('weight', [0.0, 1.0])
def test_contradictory_bounds_are_infeasible(weight):
    apart = Affine(np.array([[1.0], [-1.0]]), np.array([-1.0, 0.0]))
    entropic = (Affine(np.ones((1, 1)), np.zeros(1)),) if weight else ()
    with pytest.raises(Infeasible):
        solved(np.eye(1), np.zeros(1), nonnegative=apart, entropic=entropic, weight=weight)


def test_a_bound_that_no_semidefinite_matrix_meets_is_infeasible():
    negative = Affine(-np.eye(10)[:1], -np.ones(1))
    with pytest.raises(Infeasible):
        solved(np.eye(10), np.zeros(10), IDENTITY, nonnegative=negative)
