# SPDX-License-Identifier: Apache-2.0
"""Comparison of costs of held-out stretches, and the rows behind them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from robot_identification.selection.cross_validation import (
    better,
    COMPARISON,
    FoldedRows,
    picked_by_joint,
    relative_gain,
    simplest,
    Stretch,
)

STRETCHES = np.array([-0.02, -0.01, 0.0, 0.01, 0.02])  # standard error 0.0071


def test_term_has_to_save_its_cost():
    plain = np.zeros((2, COMPARISON.folds, 3))
    assert better(plain - 1.5 * COMPARISON.term, plain, terms=1.0)
    assert not better(plain - 0.5 * COMPARISON.term, plain, terms=1.0)
    assert better(plain - 0.5 * COMPARISON.term, plain, terms=0.2)


def test_better_is_by_two_standard_errors_where_a_coin_must_not_decide():
    plain = np.zeros((2, COMPARISON.folds, 1))
    assert better(
        plain + (STRETCHES - 0.016)[:, None], plain, terms=0.0, stds=COMPARISON.required_stds
    )
    assert not better(
        plain + (STRETCHES - 0.012)[:, None], plain, terms=0.0, stds=COMPARISON.required_stds
    )


def test_better_is_by_half_a_standard_error():
    plain = np.zeros((2, COMPARISON.folds, 1))
    assert better(plain + (STRETCHES - 0.005)[:, None], plain, terms=0.0)
    assert not better(plain + (STRETCHES - 0.003)[:, None], plain, terms=0.0)


def test_term_pays_on_all_rows_and_on_those_that_move():
    plain = np.zeros((2, COMPARISON.folds, 1))
    one = plain - np.array([0.1, 0.0])[:, None, None]
    assert better(one, plain, terms=1.0, both=False)
    assert not better(one, plain, terms=1.0)
    assert not better(one, plain, terms=1.0, least=0.06, both=False)


def test_simplest_is_the_first_that_is_near_the_best():
    best = np.zeros(COMPARISON.folds)
    assert simplest(np.array([STRETCHES + 0.003, best])) == 0
    assert simplest(np.array([STRETCHES + 0.005, best])) == 1


def test_relative_gain_is_in_per_cent_of_the_residual():
    gain = relative_gain(
        np.full((COMPARISON.folds, 2), np.log(0.9)), np.zeros((COMPARISON.folds, 2))
    )
    assert gain == pytest.approx(-10.0)


def _rows(zone=(0.0, 0.0)):
    """Make rows of two joints that share a parameter, in two stretches of unequal length."""
    random = np.random.default_rng(2)
    columns = (np.array([0, 1]), np.array([1, 2]))
    base = np.array([1.0, -2.0, 3.0])
    stretches = []
    for m in (130, 70):
        signals = random.standard_normal((4, m))
        effort = np.column_stack([base[:2] @ signals[:2], base[1:] @ signals[2:]])
        effort += 0.1 * random.standard_normal(effort.shape)
        velocity = random.uniform(-1.0, 1.0, (m, 2))
        effort[np.abs(velocity) < 0.2] += 5.0  # nothing that the columns describe
        stretches.append(Stretch(signals, effort, np.zeros((m, 2)), velocity))
    return FoldedRows(
        columns=columns,
        width=3,
        prior=np.zeros(3),
        stds=np.full(3, np.inf),
        own=np.array([True, False, True]),
        driven=np.array([True, True]),
        rate=50.0,
        stretches=tuple(stretches),
        structure=None,
        moving=np.full(2, 0.2),
        zone=np.array(zone),
    )


def _stacked(rows, joint):
    """Return the rows (200, 3), efforts and folds of a joint."""
    matrix = np.zeros((200, 3))
    signals = np.hstack([stretch.signals for stretch in rows.stretches])
    matrix[:, rows.columns[joint]] = signals[2 * joint : 2 * joint + 2].T
    effort = np.concatenate([stretch.effort[:, joint] for stretch in rows.stretches])
    return matrix, effort, np.repeat(np.arange(COMPARISON.folds), 40)


def test_cost_is_that_of_predicting_each_stretch_from_the_others():
    rows = _rows(zone=(0.2, 0.2))
    speeds = np.vstack([stretch.velocity for stretch in rows.stretches])
    every, cost = rows.cost()
    assert cost.shape == (COMPARISON.folds, 2)
    assert (every > cost).all()  # slow rows, which are not described, are predicted, too
    expected = np.empty((COMPARISON.folds, 2))
    parts = [_stacked(rows, joint) for joint in range(2)]
    moving = [np.abs(speeds[:, joint]) >= 0.2 for joint in range(2)]
    for fold in range(COMPARISON.folds):
        train = [
            which & (folds != fold) for which, (_, _, folds) in zip(moving, parts, strict=True)
        ]
        matrix = np.vstack([part[0][kept] for part, kept in zip(parts, train, strict=True)])
        effort = np.concatenate([part[1][kept] for part, kept in zip(parts, train, strict=True)])
        base = np.linalg.lstsq(matrix, effort)[0]  # noise is alike, and so are weights
        for joint, (rest, measured, folds) in enumerate(parts):
            held = moving[joint] & (folds == fold)
            expected[fold, joint] = np.log(np.linalg.norm(measured[held] - rest[held] @ base))
    np.testing.assert_allclose(cost, expected, atol=0.01)


def test_dead_zone_of_the_fit_alone_leaves_all_rows_to_predict():
    plain, without = _rows(), _rows(zone=(0.2, 0.2))
    assert (without.cost()[1] < plain.cost()[1]).all()  # slow rows disturb the fit
    assert (without.cost()[0] > without.cost()[1] + 1.0).all()  # and are not described
    np.testing.assert_allclose(without.fit(), [1.0, -2.0, 3.0], atol=0.05)


def test_a_joint_takes_other_rows_where_they_pay():
    plain = _rows()
    known = plain.cost()
    # rows that the same columns describe better
    slow = [np.abs(each.velocity) < 0.2 for each in plain.stretches]
    sound = [
        replace(each, effort=each.effort - 5.0 * rest)
        for each, rest in zip(plain.stretches, slow, strict=True)
    ]
    better_rows = replace(plain, stretches=tuple(sound))
    cost, picked = picked_by_joint([plain, replace(plain), better_rows])
    assert picked.tolist() == [2, 2]
    np.testing.assert_allclose(cost, better_rows.cost())
    assert cost.mean() < known.mean() - 1.0
    cost, picked = picked_by_joint([better_rows, plain])
    assert picked.tolist() == [0, 0]
    np.testing.assert_allclose(cost, better_rows.cost())
