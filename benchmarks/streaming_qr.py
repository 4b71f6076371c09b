# SPDX-License-Identifier: Apache-2.0
"""
Streaming QR against least squares on all rows at once: accuracy and time.

    .venv/bin/python -m benchmarks streaming_qr
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from mpmath import mp
import numpy as np
from robot_identification.data.recording import Motion
from robot_identification.estimation.factor import append_rows, GrowingTriangle
from robot_identification.estimation.least_squares import solve
from robot_identification.regressor import build, ModelSettings
from robot_identification.regressor.base_search import structure

from .harness import Figure, interleaved, ratio, Section, Table
from .synthetic import panda

DIGITS = 100
CONDITIONS = tuple(10.0**e for e in range(2, 11))
SEEDS = 8
COLUMNS = 20
RESIDUAL = 1e-6
"""Norm of the residual, relative to the effort's."""

IMAGE = '../images/streaming_qr.png'
TALL = 100_000
WIDE = 64
STREAMING, SVD, NORMAL = 'streaming QR', 'NumPy lstsq (SVD)', 'normal equations'
COLOURS = {STREAMING: '#1b6ca8', SVD: '#e08214', NORMAL: '#b2182b'}


def streamed(matrix: np.ndarray, effort: np.ndarray, block: int = 512) -> np.ndarray:
    """Solve by folding blocks of rows into R."""
    k = matrix.shape[1]
    factor = GrowingTriangle(k + 1)
    for start in range(0, len(effort), block):
        part = slice(start, start + block)
        factor.push_columns(matrix[part].T, effort[None, part])
    return solve(factor.result(), np.ones(k, dtype=bool), np.zeros(k), len(effort)).base


def at_once(matrix: np.ndarray, effort: np.ndarray) -> np.ndarray:
    """Solve by the singular value decomposition of all rows."""
    return np.linalg.lstsq(matrix, effort, rcond=None)[0]


def normal_equations(matrix: np.ndarray, effort: np.ndarray) -> np.ndarray:
    """Solve the way that loses half of the digits."""
    try:
        return np.linalg.solve(matrix.T @ matrix, matrix.T @ effort)
    except np.linalg.LinAlgError:
        return np.full(matrix.shape[1], np.nan)


METHODS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    STREAMING: streamed,
    SVD: at_once,
    NORMAL: normal_equations,
}


def exact(matrix: np.ndarray, effort: np.ndarray) -> np.ndarray:
    """
    Solve to many digits.

    The numbers are taken as the fractions that they are: their normal equations are exact in
    integers, and solved with `DIGITS` digits, far more than twice those of the condition number.
    """
    rows = np.column_stack([matrix, effort])
    shift = 60 - int(np.frexp(np.abs(rows[rows != 0.0]).min())[1])
    whole = np.array(
        [[int(mp.ldexp(mp.mpf(x), shift)) for x in row] for row in rows], dtype=object
    )
    gram = whole.T @ whole
    k = matrix.shape[1]
    with mp.workdps(DIGITS):
        left = mp.matrix(gram[:k, :k].tolist())
        solution = mp.lu_solve(left, mp.matrix(gram[:k, k].tolist()))
        return np.array([float(x) for x in solution])


def random_rows(seed: int, rows: int = 400, columns: int = COLUMNS) -> np.ndarray:
    """Return rows without any structure."""
    return np.random.default_rng(seed).normal(size=(rows, columns))


def robot_rows(seed: int, samples: int = 60) -> np.ndarray:
    """Return rows of a Panda's regressor in random states, in the base columns of the wrist."""
    robot = panda()
    regressor = build(robot, ModelSettings())
    base = structure(regressor, robot)
    states = np.random.default_rng(seed).normal(size=(3, samples, robot.n_joints))
    rows = regressor.rows(Motion(*states))[:, base.independent[-COLUMNS:]]
    return rows[np.abs(rows).sum(axis=1) > 0.0]


def with_condition(rows: np.ndarray, condition: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Give rows a condition number, by their singular values; and an effort with a residual."""
    rng = np.random.default_rng([seed, 1])
    u, _, vt = np.linalg.svd(rows, full_matrices=False)
    matrix = u * np.geomspace(1.0, 1.0 / condition, u.shape[1]) @ vt
    effort = matrix @ rng.normal(size=u.shape[1])
    rest = rng.normal(size=len(effort))
    return matrix, effort + RESIDUAL * np.linalg.norm(effort) / np.linalg.norm(rest) * rest


def errors(rows: Callable[[int], np.ndarray]) -> dict[str, np.ndarray]:
    """Relative errors of all methods, (conditions, seeds)."""
    found = {name: np.empty((len(CONDITIONS), SEEDS)) for name in METHODS}
    for seed in range(SEEDS):
        given = rows(seed)
        for i, condition in enumerate(CONDITIONS):
            matrix, effort = with_condition(given, condition, seed)
            truth = exact(matrix, effort)
            for name, method in METHODS.items():
                off = np.linalg.norm(method(matrix, effort) - truth)
                # a solution that is all wrong is no worse than none
                found[name][i, seed] = min(
                    1.0, np.nan_to_num(off / np.linalg.norm(truth), nan=1.0)
                )
    return found


def accuracy() -> tuple[list[Table], list[Figure]]:
    """Compare errors, and draw them."""
    kinds = {'random rows': random_rows, "a Panda's regressor": robot_rows}
    found = {kind: errors(rows) for kind, rows in kinds.items()}
    draw(found)
    tables, figures = [], []
    for kind, by_method in found.items():
        eps = np.finfo(float).eps
        share = by_method[STREAMING] / np.maximum(by_method[SVD], eps)
        rows = [
            [
                f'{condition:.0e}',
                *(f'{np.median(by_method[name][i]):.1e}' for name in METHODS),
                f'{np.median(share[i]):.2f}',
            ]
            for i, condition in enumerate(CONDITIONS)
        ]
        heads = ['condition number', *METHODS, 'streaming QR by lstsq']
        tables.append(Table(heads, rows, f'Relative error of the parameters: {kind}'))
        largest = float(np.exp(np.mean(np.log(share), axis=1)).max())
        lost = float(np.median(by_method[NORMAL][CONDITIONS.index(1e8)]))
        figures += [
            Figure(f'{kind}: error by that of lstsq, mean over seeds', largest, at_most=3.0),
            Figure(f'{kind}: error of normal equations at 1e8', lost),
        ]
    return tables, figures


def draw(found: dict[str, dict[str, np.ndarray]]) -> None:
    """Plot errors over condition numbers, with their range over the seeds."""
    from matplotlib.figure import Figure as Plot

    plot = Plot(figsize=(9.0, 3.6), layout='constrained')
    panels = plot.subplots(1, len(found), sharey=True)
    for axes, (kind, by_method) in zip(panels, found.items(), strict=True):
        for name, values in by_method.items():
            axes.fill_between(
                CONDITIONS,
                values.min(axis=1),
                values.max(axis=1),
                color=COLOURS[name],
                alpha=0.15,
                lw=0,
            )
            style = '--' if name == SVD else '-'
            axes.plot(
                CONDITIONS, np.median(values, axis=1), style, color=COLOURS[name], label=name
            )
        axes.set(xscale='log', yscale='log', title=kind, xlabel='condition number')
        axes.grid(alpha=0.3)
    panels[0].set_ylabel('relative error of the parameters')
    panels[0].legend()
    target = Path(__file__).resolve().parents[1] / 'docs' / 'reference' / IMAGE
    plot.savefig(target, dpi=110, metadata={'Software': None})


def times() -> tuple[list[Table], list[Figure]]:
    """Time ways to the parameters, and the sizes of blocks."""
    matrix = np.random.default_rng(0).normal(size=(TALL, WIDE))
    effort = matrix @ np.ones(WIDE)
    rows = np.column_stack([matrix, effort])
    works: dict[str, Callable[[], object]] = {
        'streaming QR, then the solution': lambda: streamed(matrix, effort),
        "NumPy qr(mode='r')": lambda: np.linalg.qr(rows, mode='r'),
        SVD: lambda: at_once(matrix, effort),
        'normal equations (for comparison)': lambda: normal_equations(matrix, effort),
    }
    timings = interleaved(works, repeats=5)
    ours, tall = list(timings.values())[:2]
    cells = [
        [name, f'{1e3 * t.median:.0f}', f'{1e6 * t.median / TALL:.2f}', f'{ratio(t, ours):.2f}']
        for name, t in timings.items()
    ]
    sizes = (64, 128, 256, 512, 1024, 4096)
    blocks = interleaved({str(size): _folding(rows, size) for size in sizes}, repeats=3)
    return [
        Table(
            ['way', 'ms', 'us a row', 'by streaming QR'],
            cells,
            f'Time of {TALL:,} rows of {WIDE} columns',
        ),
        Table(
            ['rows folded in at a time', 'us a row'],
            [[name, f'{1e6 * t.median / TALL:.2f}'] for name, t in blocks.items()],
            'Size of the blocks',
        ),
    ], [Figure("time by that of NumPy's tall QR", ratio(ours, tall), at_most=0.5)]


def _folding(rows: np.ndarray, size: int) -> Callable[[], object]:
    def fold() -> np.ndarray:
        factor = np.zeros((rows.shape[1],) * 2)
        for first in range(0, len(rows), size):
            factor = append_rows(factor, rows[first : first + size])
        return factor

    return fold


def section() -> Section:
    """Measure accuracy and time."""
    tables, figures = accuracy()
    more, further = times()
    return Section(
        'Streaming QR',
        f'Rows are folded into R block by block. Errors are those of {COLUMNS} parameters against '
        f'a solution with {DIGITS} digits of the very same numbers; rows have the condition '
        f'number told and a residual of {RESIDUAL:g} of the effort, over {SEEDS} seeds. A '
        'solution that is all wrong counts as an error of 1. The rows of the robot are those of '
        'its wrist, with their singular values spread to the condition number.',
        [*tables, *more],
        [*figures, *further],
        [IMAGE],
    )
