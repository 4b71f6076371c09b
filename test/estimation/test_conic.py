# SPDX-License-Identifier: Apache-2.0
"""Least squares over cones: against closed forms, and against the conditions of optimality."""

import builtins

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest
from robot_identification.errors import SettingsError
from robot_identification.estimation.conic import Affine, Cones, Infeasible, minimise, svec, unpack

SEEDS = st.integers(0, 2**32 - 1)


def cones_of(p, semidefinite=(), nonnegative=None, zero=None):
    nothing = Affine(np.zeros((0, p)), np.zeros(0))
    return Cones(tuple(semidefinite), nonnegative or nothing, zero or nothing)


@settings(max_examples=30, deadline=None)
@given(seed=SEEDS, d=st.integers(1, 5))
def test_packing_keeps_the_inner_product_and_comes_back(seed, d):
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(2, d, d))
    a, b = a + a.T, b + b.T
    assert svec(a) @ svec(b) == pytest.approx(np.trace(a @ b))
    np.testing.assert_allclose(unpack(svec(a)), a, atol=1e-12)
    np.testing.assert_allclose(unpack(svec(np.array([a, b])))[1], b, atol=1e-12)


@settings(max_examples=30, deadline=None)
@given(seed=SEEDS)
def test_nearest_positive_semidefinite_matrix(seed):
    """It has the negative eigenvalues set to 0 (Higham 1988)."""
    rng = np.random.default_rng(seed)
    given_ = rng.normal(size=(4, 4))
    given_ = given_ + given_.T
    values, axes = np.linalg.eigh(given_)
    nearest = (axes * np.maximum(values, 0.0)) @ axes.T
    identity = Affine(np.eye(10), np.zeros(10))
    found = minimise(np.eye(10), svec(given_), cones_of(10, [identity]))
    np.testing.assert_allclose(unpack(found.z), nearest, atol=1e-5)


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
    cones = cones_of(p, nonnegative=Affine(axes @ mixed, np.zeros(3)))
    found = minimise(mixed, target, cones, 1e-5)
    np.testing.assert_allclose(mixed @ found.z, target - axes.T @ beyond, atol=1e-5)


@settings(max_examples=20, deadline=None)
@given(seed=SEEDS)
def test_no_other_point_in_the_cones_fits_better(seed):
    rng = np.random.default_rng(seed)
    p = 10
    matrix, target = rng.normal(size=(14, p)), rng.normal(size=14)
    function = Affine(rng.normal(size=(10, p)), svec(np.eye(4)))
    signs, equal = Affine(np.eye(p)[:2], np.ones(2)), Affine(np.eye(p)[2:3], np.zeros(1))
    found = minimise(matrix, target, cones_of(p, [function], signs, equal))
    assert found.error < 1e-3
    loss = np.linalg.norm(matrix @ found.z - target)
    for _ in range(200):
        # from a point that is in all cones, on the way to a random one
        other = found.z + 0.1 * rng.normal(size=p)
        other[2] = 0.0
        inside = np.linalg.eigvalsh(unpack(function(other)))[0] >= 0.0
        if inside and (signs(other) >= 0.0).all():
            assert np.linalg.norm(matrix @ other - target) > loss - 1e-6


def test_without_active_cones_it_is_least_squares():
    rng = np.random.default_rng(2)
    matrix, target = rng.normal(size=(9, 4)), rng.normal(size=9)
    far = Affine(np.eye(4), np.full(4, 1e3))
    expected = np.linalg.lstsq(matrix, target, rcond=None)[0]
    for cones in (cones_of(4), cones_of(4, nonnegative=far)):
        np.testing.assert_allclose(minimise(matrix, target, cones).z, expected, atol=1e-5)


def test_the_error_bound_holds_and_follows_the_tolerance():
    rng = np.random.default_rng(3)
    given_ = rng.normal(size=(4, 4)) * 100.0
    given_ = given_ + given_.T
    values, axes = np.linalg.eigh(given_)
    nearest = svec((axes * np.maximum(values, 0.0)) @ axes.T)
    cones = cones_of(10, [Affine(np.eye(10), np.zeros(10))])
    for tolerance in (1e-1, 1e-2, 1e-4):
        found = minimise(np.eye(10), svec(given_), cones, tolerance)
        assert found.error <= tolerance
        assert np.linalg.norm(found.z - nearest) <= found.error + 1e-7


def test_what_cannot_be_is_told():
    apart = Affine(np.array([[1.0], [-1.0]]), np.array([-1.0, 0.0]))
    with pytest.raises(Infeasible):
        minimise(np.eye(1), np.zeros(1), cones_of(1, nonnegative=apart))


def test_without_clarabel_the_error_says_how_to_install_it(monkeypatch):
    real = builtins.__import__

    def refusing(name, *arguments):
        if name == 'clarabel':
            raise ImportError(name)
        return real(name, *arguments)

    monkeypatch.setattr(builtins, '__import__', refusing)
    with pytest.raises(SettingsError, match='pip install clarabel') as caught:
        minimise(np.eye(1), np.zeros(1), cones_of(1))
    assert caught.value.key == 'estimation.method'
