# SPDX-License-Identifier: Apache-2.0
"""The entropic term: against its closed form for one matrix, and what it is at all."""

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest
from robot_identification.estimation.conic import Affine, Cones, svec, unpack
from robot_identification.estimation.entropy import divergence, minimise_entropic

NOTHING = Affine(np.zeros((0, 10)), np.zeros(0))
IDENTITY = Affine(np.eye(10), np.zeros(10))


def test_divergence_is_zero_at_the_identity_and_grows_without_bound_at_the_boundary():
    assert divergence(np.eye(4)) == pytest.approx(0.0)
    assert divergence(np.diag([1.0, 1.0, 1.0, np.e])) == pytest.approx(np.e - 2.0)
    assert divergence(np.diag([1.0, 1.0, 1.0, 1e-9])) > 19.0


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), weight=st.sampled_from([1e-4, 1e-2, 1.0]))
def test_nearest_matrix_with_the_entropic_term(seed, weight):
    """Eigenvalue by eigenvalue, x - y + w (1 - 1 / x) = 0."""
    rng = np.random.default_rng(seed)
    given_ = rng.normal(size=(4, 4)) * 3.0
    given_ = given_ + given_.T
    y, axes = np.linalg.eigh(given_)
    x = 0.5 * (y - weight + np.sqrt((y - weight) ** 2 + 4.0 * weight))
    found = minimise_entropic(
        np.eye(10), svec(given_), Cones((), NOTHING, NOTHING), [IDENTITY], weight, 1e-6
    )
    np.testing.assert_allclose(unpack(found.z), (axes * x) @ axes.T, atol=1e-4)


def test_it_decides_what_the_rows_leave_open():
    """Without any row, X is the identity, or the nearest to it in the cones."""
    nothing = np.zeros((1, 10))
    free = minimise_entropic(nothing, np.zeros(1), Cones((), NOTHING, NOTHING), [IDENTITY], 1.0)
    np.testing.assert_allclose(unpack(free.z), np.eye(4), atol=1e-4)
    # the last diagonal entry is 3 at least
    beyond = Affine(np.eye(10)[9:], np.array([-3.0]))
    held = minimise_entropic(nothing, np.zeros(1), Cones((), beyond, NOTHING), [IDENTITY], 1.0)
    np.testing.assert_allclose(unpack(held.z), np.diag([1.0, 1.0, 1.0, 3.0]), atol=1e-4)
