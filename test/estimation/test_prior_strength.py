# SPDX-License-Identifier: Apache-2.0
"""Strength of a prior by cross-validation: parts of the recordings, and what is chosen."""

import numpy as np
import pytest
from robot_identification.estimation.physical import (
    choose_strength,
    FOLDS,
    Folds,
    STRENGTHS,
)
from robot_identification.estimation.time_blocks import JointRows, TimeBlocks


class Rows:
    """A system of two joints: ridge regression on it has a closed form."""

    def __init__(self, truth, noise, parts=20, rows=12, seed=0):
        rng = np.random.default_rng(seed)
        self.n_base, self.n_joints = len(truth), 2
        columns = np.arange(self.n_base)
        self.pieces = []
        for _ in range(parts):
            part = []
            for _ in range(2):
                matrix = rng.normal(size=(rows, self.n_base))
                effort = matrix @ truth + noise * rng.normal(size=rows)
                part.append(JointRows(columns, np.column_stack([matrix, effort])))
            self.pieces.append(tuple(part))
        self.blocks = TimeBlocks(0.1, tuple(self.pieces))

    def rows(self, which, joint):
        return np.vstack([self.pieces[i][joint].rows for i in which])


def ridge(prior):
    def fit(factor, weight, start):
        matrix, effort = factor[:, :-1], factor[:, -1]
        left = matrix.T @ matrix + weight * np.eye(len(prior))
        found = np.linalg.solve(left, matrix.T @ effort + weight * prior)
        return found, found

    return fit


def test_parts_are_contiguous_and_give_the_rows_back():
    system = Rows(np.ones(4), 0.5, parts=21)
    folds = Folds.of(system)
    bounds = np.linspace(0, 21, FOLDS + 1).astype(int)
    base, weights = np.arange(4.0), np.array([2.0, 0.5])
    for fold in range(FOLDS):
        held = range(bounds[fold], bounds[fold + 1])
        others = [i for i in range(21) if i not in held]
        for joint in range(2):
            rows = system.rows(held, joint)
            residual = rows[:, :-1] @ base - rows[:, -1]
            assert folds.held_out(fold, base)[joint] == pytest.approx(np.linalg.norm(residual))
        stacked = np.vstack([w * system.rows(others, j) for j, w in enumerate(weights)])
        found = folds.training(fold, weights)
        np.testing.assert_allclose(found.T @ found, stacked.T @ stacked, rtol=1e-10)


def test_recordings_without_time_or_too_short_have_no_parts():
    system = Rows(np.ones(3), 0.1, parts=2 * FOLDS - 1)
    assert Folds.of(system) is None
    system.blocks = None
    assert Folds.of(system) is None


def test_a_prior_that_is_right_is_strong_and_a_wrong_one_weak():
    truth = np.array([1.0, -2.0, 0.5, 3.0])
    system = Rows(truth, 1.0)
    folds, weights, driven = Folds.of(system), np.ones(2), np.ones(2, dtype=bool)
    right = choose_strength(folds, weights, driven, ridge(truth))
    wrong = choose_strength(folds, weights, driven, ridge(truth + 5.0))
    assert right.weight == STRENGTHS[0]
    assert wrong.weight < 10.0
    assert right.costs.shape == STRENGTHS.shape


def test_the_strongest_within_a_per_cent_is_taken():
    """Held-out residuals of a fit that does not move are alike: the strongest one wins."""
    system = Rows(np.ones(3), 1.0)
    folds, driven = Folds.of(system), np.array([True, False])
    found = choose_strength(folds, np.ones(2), driven, lambda *_: (np.ones(3), np.ones(3)))
    assert found.weight == STRENGTHS[0] and np.ptp(found.costs) == 0.0
