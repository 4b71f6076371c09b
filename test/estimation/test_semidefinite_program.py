# SPDX-License-Identifier: Apache-2.0
"""Packed symmetric matrices, the log-det divergence, and the loss of a program."""

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest
from robot_identification.estimation.semidefinite_program import (
    Affine,
    entropy,
    SemidefiniteProgram,
    svec,
    unpack,
)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), d=st.integers(1, 5))
def test_packing_keeps_the_inner_product_and_comes_back(seed, d):
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(2, d, d))
    a, b = a + a.T, b + b.T
    assert svec(a) @ svec(b) == pytest.approx(np.trace(a @ b))
    np.testing.assert_allclose(unpack(svec(a)), a, atol=1e-12)
    np.testing.assert_allclose(unpack(svec(np.array([a, b])))[1], b, atol=1e-12)


def test_entropy_is_zero_at_the_identity_and_infinite_at_the_boundary():
    assert entropy(np.eye(4)) == pytest.approx(0.0)
    assert entropy(np.diag([1.0, 1.0, 1.0, np.e])) == pytest.approx(np.e - 2.0)
    assert entropy(np.diag([1.0, 1.0, 1.0, 1e-9])) > 19.0
    assert entropy(np.diag([1.0, 1.0, 1.0, 0.0])) == np.inf


def test_loss_is_that_of_the_rows_and_of_the_entropic_terms():
    nothing = Affine(np.zeros((0, 1)), np.zeros(0))
    program = SemidefiniteProgram(
        np.array([[2.0]]), np.array([1.0]), (), nothing, nothing,
        entropic=(Affine(np.array([[1.0]]), np.zeros(1)),), weight=3.0,
    )  # fmt: skip
    assert program.loss(np.array([np.e])) == pytest.approx((2 * np.e - 1) ** 2 + 6.0 * (np.e - 2))
