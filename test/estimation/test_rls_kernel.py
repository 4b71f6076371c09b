# SPDX-License-Identifier: Apache-2.0
"""Rows of one sample into R of all rows, against the rows themselves."""

import numpy as np
import pytest
from robot_identification.estimation.recursive.rls_kernel import Stepper
from robot_identification.regressor.inverse_dynamics import RowPattern

B = 4
COLUMNS = (np.array([0, 1, 2, 3]), np.array([1, 3]), np.array([2]))
WEIGHTS = np.array([1.0, 2.0, 0.5])


class Learner:
    """R and the rows that went into it, written out."""

    def __init__(self):
        self.pattern = RowPattern(COLUMNS, B)
        self.stepper = Stepper(np.zeros(B), np.zeros(B, dtype=int), COLUMNS, WEIGHTS)
        self.factor, self.rows = np.zeros((B + 1, B + 1)), np.zeros((0, B + 1))
        self.rng = np.random.default_rng(6)

    def step(self, kept, memory=1.0, wrong=None):
        entries, effort = self.rng.normal(size=7), self.rng.normal(size=3)
        if wrong is not None:
            entries[wrong] = np.inf
        values, residual = np.array([1.0, -2.0, 0.5, 3.0]), np.empty(3)
        count = self.stepper.append(
            self.factor, entries, effort, np.array(kept), memory, values, residual
        )
        rows = self.pattern.expand(entries[:, None])[0]
        if wrong is None:
            np.testing.assert_allclose(residual, effort - rows @ values, rtol=1e-12)
            whole = WEIGHTS[:, None] * np.column_stack([rows, effort])
            before = self.rows if not any(kept) else memory * self.rows
            self.rows = np.vstack([before, whole[np.array(kept)]])
        return count

    def check(self):
        wanted = self.rows.T @ self.rows
        np.testing.assert_allclose(self.factor.T @ self.factor, wanted, rtol=1e-10, atol=1e-12)


@pytest.fixture
def learner():
    learner = Learner()
    for _ in range(6):
        assert learner.step([True, True, True]) == 3
    return learner


def test_rows_that_count_are_appended_with_their_weights(learner):
    assert learner.step([True, False, True]) == 2
    assert learner.step([False, True, False], memory=0.7) == 1
    learner.check()


def test_without_rows_that_count_nothing_fades(learner):
    before = learner.factor.copy()
    assert learner.step([False, False, False], memory=0.5) == 0
    np.testing.assert_array_equal(learner.factor, before)
    learner.check()


@pytest.mark.parametrize('wrong', [0, 5, 6])
def test_one_number_that_is_not_finite_leaves_everything_as_it_was(learner, wrong):
    before = learner.factor.copy()
    assert learner.step([True, True, True], memory=0.5, wrong=wrong) == -1
    np.testing.assert_array_equal(learner.factor, before)
    learner.step([True, True, True])
    learner.check()


def test_what_does_not_count_may_be_anything(learner):
    assert learner.step([True, False, True], wrong=5) == 2
