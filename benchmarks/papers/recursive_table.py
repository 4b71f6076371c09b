# SPDX-License-Identifier: Apache-2.0
"""Figures of the modified recursive least squares, for the page of Lomakin and Deutscher."""

from __future__ import annotations

from dataclasses import dataclass
import time

import numpy as np
from robot_identification.estimation.recursive.elimination import gauss_jordan
from robot_identification.estimation.recursive.rls import RecursiveLeastSquares, RecursiveSettings
from robot_identification.model.parameters import ParameterLayout

from .page import figure, Row, Table

BLOCKS = (4, 20, 600)


def table() -> Table:
    """Return the figures as a table."""
    rows = [*_exactness(), *_rejection(), *_readings(), *_accuracy(), *_bounds(), _speed()]
    return Table(
        'Modified recursive least squares',
        rows,
        'Relative differences are the largest over all parameters; "gram" is the algorithm as '
        'printed in Fig. 1, "factor" ours on the R factor.',
    )


@dataclass(frozen=True)
class _Rows:
    matrix: np.ndarray
    effort: np.ndarray
    initial: np.ndarray

    def recursive(self, size: int, **keys) -> tuple[np.ndarray, np.ndarray]:
        """Values and flags when rows come in blocks of ``size``."""
        sigma = keys.pop('sigma', None)
        bounds = {key: keys.pop(key) for key in ('lower', 'upper') if key in keys}
        layout = _layout(self.initial.size)
        learner = RecursiveLeastSquares(layout, self.initial, RecursiveSettings(**keys), **bounds)
        if sigma is not None:  # the paper's, per row, in place of one relative to the columns
            learner.thresholds = lambda: np.full(len(layout), sigma * np.sqrt(learner.rows))
        for start in range(0, self.effort.size, size):
            part = slice(start, start + size)
            learner.update(self.matrix[part], self.effort[part])
        found = learner.estimate()
        return found.values, found.flags

    def batch(self, free: np.ndarray | None = None) -> np.ndarray:
        """Least squares of all rows at once, other parameters at their initial values."""
        free = np.ones(self.initial.size, dtype=bool) if free is None else free
        values = self.initial.copy()
        rest = self.effort - self.matrix[:, ~free] @ self.initial[~free]
        values[free] = np.linalg.lstsq(self.matrix[:, free], rest, rcond=None)[0]
        return values


def block_reading(rows: _Rows, square: float, size: int) -> np.ndarray:
    """Return what eq. (41) gives with the block's own Y and tau."""
    theta, gram = rows.initial.copy(), np.zeros((rows.initial.size,) * 2)
    for start in range(0, rows.effort.size, size):
        Y, tau = rows.matrix[start : start + size], rows.effort[start : start + size]
        gram += Y.T @ Y
        inverse, _ = gauss_jordan(gram, np.full(theta.size, square))
        theta = theta + inverse @ Y.T @ (tau - Y @ theta)
    return theta


def _layout(b: int) -> ParameterLayout:
    return ParameterLayout(tuple(f'p{i}' for i in range(b)), ('',) * b)


def _problem(seed: int, sizes: tuple[float, ...]) -> _Rows:
    rng = np.random.default_rng(seed)
    b = len(sizes)
    matrix = rng.normal(size=(600, b)) * sizes
    effort = matrix @ rng.normal(size=b) + 0.1 * rng.normal(size=600)
    return _Rows(matrix, effort, rng.normal(size=b))


def _difference(found: np.ndarray, expected: np.ndarray) -> float:
    return float(np.abs(found / expected - 1.0).max())


def _exactness() -> list[Row]:
    rows = _problem(1, (1.0, 0.1, 3.0, 0.5, 10.0, 1.0, 0.2, 2.0))
    return [
        figure(
            f'MRLS and OLS of all rows, blocks of {", ".join(map(str, BLOCKS))} ({form})',
            'equal to all printed digits',
            max(_difference(rows.recursive(n, formulation=form)[0], rows.batch()) for n in BLOCKS),
            at_most=1e-10,
        )
        for form in ('gram', 'factor')
    ]


def _rejection() -> list[Row]:
    rows = _problem(2, (1.0,) * 8)
    matrix = rows.matrix.copy()
    matrix[:, 3] *= 1e-7
    matrix[:, 5] = 2.0 * matrix[:, 0] - matrix[:, 2]
    rows = _Rows(matrix, rows.effort, rows.initial)
    made = []
    for form in ('gram', 'factor'):
        values, flags = rows.recursive(20, formulation=form)
        free = flags == 1
        kept = int((values[~free] == rows.initial[~free]).sum())
        made += [
            Row(
                f'flags with column 4 not excited and 6 dependent ({form})',
                '',
                ' '.join(map(str, flags)),
                '1 1 1 0 1 -1 1 1',
                flags.tolist() == [1, 1, 1, 0, 1, -1, 1, 1],
            ),
            figure(f'rejected parameters that keep every bit ({form})', None, kept, equal=2),
            figure(
                f'the others and the conditional least squares ({form})',
                None,
                _difference(values[free], rows.batch(free)[free]),
                at_most=1e-10,
            ),
        ]
    return made


def _readings() -> list[Row]:
    rows = _problem(3, (1.0, 0.5, 0.3, 1.0, 0.7))
    square = 30.0
    sigma = float(np.sqrt(square / rows.effort.size))
    ours, _ = rows.recursive(20, formulation='gram', sigma=sigma)
    return [
        figure(
            'sigma squared of 30, Y and tau accumulated, and OLS',
            None,
            _difference(ours, rows.batch()),
            at_most=1e-10,
        ),
        figure(
            'the same with the block alone in (41)',
            None,
            _difference(block_reading(rows, square, 20), rows.batch()),
            why='columns are rejected at first, and their part of the early rows is lost',
        ),
    ]


def _accuracy() -> list[Row]:
    rng = np.random.default_rng(4)
    matrix, truth = rng.normal(size=(600, 6)), rng.uniform(1.0, 2.0, 6)
    matrix[:, 4] = matrix[:, 0] - matrix[:, 1] + 1e-6 * matrix[:, 4]
    rows = _Rows(matrix, matrix @ truth, np.zeros(6))
    errors = {
        form: _difference(rows.recursive(20, formulation=form, threshold=1e-7)[0], truth)
        for form in ('gram', 'factor')
    }
    return [
        figure('error without noise, columns dependent to 1e-6 (gram)', None, errors['gram']),
        figure(
            'error without noise, columns dependent to 1e-6 (factor)',
            None,
            errors['factor'],
            at_most=1e-2 * errors['gram'],
        ),
    ]


def _bounds() -> list[Row]:
    """Columns with a correlation of 0.95, one of three parameters beyond its upper bound."""
    rng = np.random.default_rng(5)
    common = rng.normal(size=(600, 1))
    matrix = np.sqrt(0.95) * common + np.sqrt(0.05) * rng.normal(size=(600, 3))
    effort = matrix @ [1.5, -0.5, 1.0] + 0.1 * rng.normal(size=600)
    rows = _Rows(matrix, effort, np.zeros(3))
    box = {'lower': np.full(3, -1.0), 'upper': np.array([1.0, 1.0, 2.0])}
    misfit = {
        how: float(np.std(effort - matrix @ values))
        for how, values in (
            ('free', rows.recursive(20)[0]),
            ('best within the bounds', rows.recursive(20, bounded='least_squares', **box)[0]),
            ('clipped, as in section VI', rows.recursive(20, bounded='clip', **box)[0]),
        )
    }
    names = list(misfit)
    return [
        figure(f'residual (rms), {names[0]}', None, misfit[names[0]]),
        figure(f'residual (rms), {names[1]}', None, misfit[names[1]], at_most=misfit[names[2]]),
        figure(f'residual (rms), {names[2]}', None, misfit[names[2]]),
    ]


def _speed() -> Row:
    """Seven rows a sample and 64 parameters, after much data."""
    rng = np.random.default_rng(6)
    learner = RecursiveLeastSquares(_layout(64))
    samples = [(rng.normal(size=(7, 64)), rng.normal(size=7)) for _ in range(100)]
    best = np.inf
    for _ in range(20):
        start = time.perf_counter()
        for matrix, effort in samples:
            learner.update(matrix, effort)
        best = min(best, (time.perf_counter() - start) / len(samples))
    quick = best < 2e-4
    return Row(
        'update with one sample of 7 joints, 64 parameters',
        '',
        'under 0.2 ms' if quick else f'{1e3 * best:.2f} ms',
        'under 0.2 ms',
        quick,
    )
