# SPDX-License-Identifier: Apache-2.0
"""Dry friction over one step: the complementarity that defines it, and brute force."""

from __future__ import annotations

from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest
from robot_identification.simulation import friction
from robot_identification.simulation.friction import coulomb


def problem(seed, n, scale):
    random = np.random.default_rng(seed)
    root = random.normal(size=(n, n + 1))
    mobility = root @ root.T + 0.01 * np.eye(n)
    free = scale * random.normal(size=n)
    limit = random.uniform(0.0, 1.0, n) * random.integers(0, 2, n)
    return mobility, free, limit


def assert_is_friction(mobility, free, limit, effort, tolerance=1e-9):
    velocity = free - mobility @ effort
    scale = np.abs(free).max() + np.abs(mobility).max()
    assert (np.abs(effort) <= limit * (1.0 + 1e-12) + 1e-15).all()
    moving = np.abs(velocity) > tolerance * scale
    np.testing.assert_allclose(effort[moving], (limit * np.sign(velocity))[moving], atol=1e-12)


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 7), st.sampled_from([0.0, 0.1, 1.0, 3.0, 30.0]))
def test_it_slides_at_the_limit_or_sticks_below_it(seed, n, scale):
    mobility, free, limit = problem(seed, n, scale)
    assert_is_friction(mobility, free, limit, coulomb(mobility, free, limit))
    guess = np.random.default_rng(seed).integers(0, 2, n).astype(bool)
    assert_is_friction(mobility, free, limit, coulomb(mobility, free, limit, guess))


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 6), st.sampled_from([0.1, 1.0, 3.0]))
def test_the_fallback_finds_the_same(seed, n, scale):
    # as well-conditioned as an arm's joints are: the fallback only has to save the day
    mobility, free, limit = problem(seed, n, scale)
    mobility += np.diag(mobility.diagonal())
    swept = friction._sweeps(mobility, free, limit, np.zeros(n))
    np.testing.assert_allclose(swept, coulomb(mobility, free, limit), atol=1e-7)


def test_it_is_what_trying_all_states_finds():
    for seed in range(30):
        mobility, free, limit = problem(seed, 3, 1.0)
        found = None
        for state in product((-1, 0, 1), repeat=3):
            state = np.array(state)
            effort = limit * state
            stuck = state == 0
            if stuck.any():
                rest = free - mobility[:, ~stuck] @ effort[~stuck]
                effort[stuck] = np.linalg.solve(mobility[np.ix_(stuck, stuck)], rest[stuck])
            velocity = free - mobility @ effort
            slides = (velocity * state)[~stuck] > 0.0
            if slides.all() and (np.abs(effort[stuck]) <= limit[stuck] + 1e-12).all():
                found = effort
        if found is not None:
            np.testing.assert_allclose(coulomb(mobility, free, limit), found, atol=1e-10)


def test_a_robot_at_rest_sticks():
    mobility = np.array([[2.0, -1.0], [-1.0, 1.0]])
    free = mobility @ np.array([0.3, -0.2])  # what efforts of 0.3 and -0.2 would do
    effort = coulomb(mobility, free, np.array([1.0, 1.0]))
    np.testing.assert_allclose(effort, [0.3, -0.2], atol=1e-12)
    np.testing.assert_allclose(coulomb(mobility, np.zeros(2), np.ones(2)), 0.0, atol=1e-12)
    assert coulomb(mobility, np.zeros(2), np.zeros(2)) == pytest.approx([0.0, 0.0])
