# SPDX-License-Identifier: Apache-2.0
"""
Standard deviations and intervals that hold where the noise is coloured, by a block bootstrap.

The classical standard deviations take the errors of the rows for independent.  Here stretches of
the recording are drawn again, with all joints' rows and so with whatever correlation is within and
between them: the circular block bootstrap of Politis and Romano ("A circular block-resampling
procedure for stationary data", in "Exploring the limits of bootstrap", 1992), on the regression's
rows.  The rows enter as the R factors of short parts of the recording (`time_blocks`), collected
in the same pass as everything else.

With R of all rows and A_c = W_c R^-1 of part c, a replicate in which part c is drawn n_c times
moves the parameters by R^-1 delta, where ``(sum n_c A_c^T A_c) delta = sum n_c A_c^T r_c`` and r_c
is the residual.  All A_c below one another have orthonormal columns, so that the sum is near the
identity whatever the condition number of W, and its normal equations lose nothing.  Where a
replicate's sum is not near it, its rows are factorised instead.

Other estimates that make a sum of scores zero have, to first order, the covariance H^-1 C H^-1,
with H the Hessian and C the covariance of the sum over parts.  For a sum the circular block
bootstrap needs no drawing: many replicates tend to the scatter of all blocks.  Least squares are
drawn all the same, where few parts may carry a parameter: one that a single part determines has no
scatter to first order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import lapack, solve_triangular

from ..errors import IdentifiabilityError
from ..options.fields import option
from .estimate import Bootstrap, Estimate, nan_padded, Uncertainty, with_scaled_std
from .least_squares import wls
from .system import LinearSystem
from .time_blocks import BLOCKS, JointRows, Part, PARTS, TimeBlocks

LEAST_RCOND = 1e-7
"""Inverse condition number of a replicate's sum below which its rows are factorised."""

_DEPENDENT, _DEPENDENT_COLUMNS = 1e-10, 1e-9
"""Sizes, by the largest, below which a diagonal element of R, or a singular value, is rounding."""

_CHUNK_BYTES = 4_000_000
"""Memory of the replicates that are worked on at once [bytes]."""


@dataclass(frozen=True)
class BootstrapSettings:
    """Settings of the block bootstrap."""

    replicates: int = option(1000, doc='How often', minimum=50, maximum=100_000)
    block: float | None = option(
        None,
        doc='How long the stretches are; they have to be longer than errors stay alike. null '
        "finds it from the residuals' correlation",
        unit='s',
        minimum=0.0,
        maximum=1e6,
    )
    level: float = option(
        95.0, doc='Share of cases that the intervals hold', unit='%', minimum=50.0, maximum=99.9
    )
    seed: int = option(0, doc='Of the drawing; the same seed gives the same figures', minimum=0)


def bootstrap(
    system: LinearSystem, estimate: Estimate, settings: BootstrapSettings | None = None
) -> Bootstrap:
    """
    Draw stretches of the recordings again and estimate again, with the estimate's weights.

    Parameters
    ----------
    system:
        The rows, with their ``blocks``.
    estimate:
        By ordinary or weighted least squares of them; its free parameters are the ones estimated
        here.
    settings:
        See `BootstrapSettings`.

    Raises
    ------
    IdentifiabilityError
        where so few stretches make a recording that most replicates determine too few parameters.
        Or where the system has no blocks.
    ValueError
        where the rows were weighted one by one.

    """
    settings = settings or BootstrapSettings()
    if system.blocks is None:
        raise IdentifiabilityError(
            'the rows came without their time, which the block bootstrap needs',
            remedy='identify from recordings, or from factors that this version has made',
        )
    if estimate.rows.factor is not None:
        raise ValueError('the parts do not know the weights of single rows')
    rows = _WhiteRows.from_estimate(system, estimate)
    k = rows.triangle.shape[0]
    triangle_bytes = 8 * (k + 1) * (k + 2) // 2
    most = max(BLOCKS.least_parts, BLOCKS.memory // triangle_bytes)
    blocks = system.blocks.at_most(min(PARTS, most))
    squares, scores = _sums(rows, blocks)
    if settings.block is None:
        length = block_length(scores)
    else:
        length = max(1, min(len(blocks), round(settings.block / blocks.duration)))
    counts = _draws(len(blocks), length, settings)
    moves = np.concatenate(list(_moves(rows, blocks, squares, scores, counts)))
    lost = int(np.isnan(moves).any(axis=1).sum())
    if 2 * lost > settings.replicates:
        raise IdentifiabilityError(
            f'of {settings.replicates} bootstrap replicates {lost} do not determine all '
            f'parameters: {len(blocks)} parts of {blocks.duration:.3g} s, drawn in stretches of '
            f'{length * blocks.duration:.3g} s, are too few',
            value=lost,
            remedy='record longer, lower estimation.bootstrap.block, or leave the bootstrap out',
        )
    # residuals are smaller than errors, as in the classical variance
    freedom = system.factor.n_independent / (system.factor.n_independent - k)
    moves = np.sqrt(freedom) * moves[~np.isnan(moves).any(axis=1)]
    shifts = solve_triangular(rows.triangle, moves.T) / rows.norms[:, None]
    half = 0.5 * (1.0 - settings.level / 100.0)
    low, high = np.quantile(shifts, [half, 1.0 - half], axis=1)
    return Bootstrap(
        std=nan_padded(np.std(shifts, axis=1, ddof=1), rows.free),
        covariance=nan_padded(np.atleast_2d(np.cov(shifts)), rows.free),
        low=nan_padded(rows.base + low, rows.free),
        high=nan_padded(rows.base + high, rows.free),
        level=settings.level,
        replicates=settings.replicates,
        block=length * blocks.duration,
        stretches=-(-len(blocks) // length),
        lost=lost,
    )


def block_length(scores: np.ndarray) -> int:
    """
    Choose how many consecutive parts to draw together.

    The length that minimises the error of the bootstrap's variance, by the automatic rule of
    Politis and White (Econometric Reviews 23, 2004, with the correction of Patton, Politis and
    White, 28, 2009) for the circular block bootstrap, on the autocovariance of all coordinates
    together.  The ``scores`` are (c, k) whitened ``A_c^T r_c`` of parts, in the order of time.
    Where neighbours cancel each other, parts alone are on the safe side.
    """
    count = len(scores)
    if count < 8:
        return 1
    centred = scores - scores.mean(axis=0)
    spread = centred.T @ centred
    if not np.trace(spread) > 0.0:
        return 1
    # as many coordinates as there would be, were they independent and alike
    coordinates = np.trace(spread) ** 2 / np.sum(spread**2)
    silent = max(5, int(np.ceil(np.sqrt(np.log10(count)))))
    lags = min(count - 1, int(np.ceil(np.sqrt(count))) + silent)
    covariance = np.array([np.sum(centred[lag:] * centred[: count - lag]) for lag in range(lags)])
    covariance /= covariance[0]
    bound = 2.0 * np.sqrt(np.log10(count) / (count * coordinates))
    heard = np.abs(covariance) >= bound
    last = 0
    while last + 1 < lags and heard[last + 1 : last + 1 + silent].any():
        last += 1
    width = min(2 * max(last, 1), lags - 1)
    lag = np.arange(1, width + 1)
    window = np.clip(2.0 * (1.0 - lag / width), 0.0, 1.0) * covariance[1 : width + 1]
    slope, level = 2.0 * np.sum(window * lag), 1.0 + 2.0 * np.sum(window)
    longest = int(np.ceil(min(3.0 * np.sqrt(count), count / 3.0)))
    if level <= 1.0:  # errors cancel each other, as those of energies at ends of intervals do
        return 1
    best = (1.5 * (slope / level) ** 2 * count) ** (1.0 / 3.0)
    return int(np.clip(np.ceil(best), 1, longest))


@dataclass(frozen=True)
class _WhiteRows:
    """
    Rows of a system in coordinates in which all of them together have orthonormal columns.

    Attributes
    ----------
    weights:
        (n,) of the joints.
    free, fixed:
        (b,) bool, which parameters are estimated, and (b,) values of the others, 0 where free.
    norms, triangle, base:
        (k,) norms of the free columns, (k, k) R of the columns divided by these, and (k,) the free
        parameters' estimate.

    """

    weights: np.ndarray
    free: np.ndarray
    fixed: np.ndarray
    norms: np.ndarray
    triangle: np.ndarray
    base: np.ndarray

    @classmethod
    def from_estimate(cls, system: LinearSystem, estimate: Estimate) -> _WhiteRows:
        """Take the coordinates from R of all rows as the estimate weighted them."""
        factor = estimate.rows.triangle(system)
        free = estimate.was_free
        fixed = np.where(free, 0.0, estimate.base.values)
        columns, effort = factor[:, :-1][:, free], factor[:, -1] - factor[:, :-1] @ fixed
        norms = np.linalg.norm(columns, axis=0)
        k = norms.size
        triangle = np.asarray(np.linalg.qr(np.column_stack([columns / norms, effort]), mode='r'))
        base = solve_triangular(triangle[:k, :k], triangle[:k, k]) / norms
        return cls(estimate.rows.weights, free, fixed, norms, triangle[:k, :k], base)

    def whiten(self, part: Part) -> tuple[np.ndarray, np.ndarray]:
        """Return a part's A_c, (m, k), and the residual of its rows, (m,)."""
        rows = weighted_rows(part, self.weights, self.free.size)
        whole = self.fixed.copy()
        whole[self.free] = self.base
        residual = rows[:, -1] - rows[:, :-1] @ whole
        scaled = rows[:, :-1][:, self.free] / self.norms
        return solve_triangular(self.triangle, scaled.T, trans='T').T, residual


def weighted_rows(part: Part, weights: np.ndarray, b: int) -> np.ndarray:
    """Return the rows of all joints in a part, (m, b + 1), times (n,) weights."""
    return np.vstack([w * joint.all_columns(b) for w, joint in zip(weights, part, strict=True)])


def _sums(rows: _WhiteRows, blocks: TimeBlocks) -> tuple[np.ndarray, np.ndarray]:
    """Return the upper triangles of A_c^T A_c, (c, k (k + 1) / 2), and A_c^T r_c, (c, k)."""
    k = rows.norms.size
    upper = np.triu_indices(k)
    squares, scores = np.empty((len(blocks), upper[0].size)), np.empty((len(blocks), k))
    for c, part in enumerate(blocks.parts):
        matrix, residual = rows.whiten(part)
        squares[c] = (matrix.T @ matrix)[upper]
        scores[c] = matrix.T @ residual
    return squares, scores


def _draws(parts: int, length: int, settings: BootstrapSettings) -> np.ndarray:
    """(replicates, parts) how often each part is drawn, in stretches that go round the end."""
    rng = np.random.default_rng(settings.seed)
    starts = rng.integers(parts, size=(settings.replicates, -(-parts // length), 1))
    drawn = (starts + np.arange(length)) % parts
    drawn = drawn.reshape(settings.replicates, -1)[:, :parts]
    flat = (drawn + parts * np.arange(settings.replicates)[:, None]).ravel()
    counts = np.bincount(flat, minlength=parts * settings.replicates)
    return counts.reshape(settings.replicates, parts).astype(float)


def _moves(
    rows: _WhiteRows,
    blocks: TimeBlocks,
    squares: np.ndarray,
    scores: np.ndarray,
    counts: np.ndarray,
) -> Iterator[np.ndarray]:
    """Give the delta of some replicates after the other, (·, k); NaN for one undetermined."""
    k = scores.shape[1]
    upper = np.triu_indices(k)
    size = max(1, _CHUNK_BYTES // (8 * upper[0].size))
    square = np.empty((k, k), order='F')
    triangles: np.ndarray | None = None
    for start in range(0, len(counts), size):
        drawn = counts[start : start + size]
        moves = drawn @ scores
        for i, triangle in enumerate(drawn @ squares):
            square[upper] = triangle
            square.T[upper] = triangle
            factor, info = lapack.dpotrf(square)
            norm = np.abs(square).sum(axis=0).max()
            if info == 0 and lapack.dpocon(factor, norm)[0] > LEAST_RCOND:
                moves[i], _ = lapack.dpotrs(factor, moves[i])
            else:
                triangles = _triangles(rows, blocks) if triangles is None else triangles
                moves[i] = _factorised(triangles, drawn[i])
        yield moves


def _triangles(rows: _WhiteRows, blocks: TimeBlocks) -> np.ndarray:
    """(c, k + 1, k + 1) R of [A_c | r_c], with rows of zeros where a part has fewer."""
    k = rows.norms.size
    triangles = np.zeros((len(blocks), k + 1, k + 1))
    for triangle, part in zip(triangles, blocks.parts, strict=True):
        reduced = np.linalg.qr(np.column_stack(rows.whiten(part)), mode='r')
        triangle[: len(reduced)] = reduced
    return triangles


def _factorised(triangles: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Solve one replicate by QR of its rows."""
    k = triangles.shape[2] - 1
    drawn = counts > 0.0
    stacked = np.sqrt(counts[drawn, None, None]) * triangles[drawn]
    triangle = np.asarray(np.linalg.qr(stacked.reshape(-1, k + 1), mode='r'))
    diagonal = np.abs(np.diag(triangle)[:k])
    if len(triangle) < k or diagonal.min() <= _DEPENDENT * diagonal.max():
        return np.full(k, np.nan)
    return np.asarray(solve_triangular(triangle[:k, :k], triangle[:k, k]))


def sum_covariance(scores: np.ndarray) -> np.ndarray:
    """Return the covariance, (k, k), of the sum of (c, k) scores of consecutive parts."""
    count = len(scores)
    size = np.sqrt(np.mean(scores**2, axis=0))
    length = block_length(scores / np.where(size > 0.0, size, 1.0))
    centred = scores - scores.mean(axis=0)
    # sums of `length` parts from each part on, round the end
    sums = np.cumsum(
        np.vstack([np.zeros_like(centred[:1]), centred, centred[: length - 1]]), axis=0
    )
    blocks = sums[length:] - sums[:-length]
    return np.asarray(blocks.T @ blocks / length) * (count / max(1, count - 1))


def part_scores(
    system: LinearSystem,
    weights: np.ndarray,
    solution: np.ndarray,
    expanded: Callable[[np.ndarray], np.ndarray],
) -> np.ndarray:
    """
    Return the scores ``D_c^T (D_c x - tau_c)`` of the parts c of a system, (c, d).

    Parameters
    ----------
    system:
        With its ``blocks``.
    weights:
        (n,) of the joints' rows.
    solution:
        (d,) x.
    expanded:
        Makes (m, d) rows D of (m, b) weighted base columns.

    """
    assert system.blocks is not None
    scores = []
    for part in system.blocks.at_most(PARTS).parts:
        rows = weighted_rows(part, weights, system.factor.n_base)
        design = expanded(rows[:, :-1])
        scores.append(design.T @ (design @ solution - rows[:, -1]))
    return np.array(scores)


def variance_inflation(system: LinearSystem) -> float:
    """
    Return by how much variances are larger than with independent rows, the median; at least 1.

    It is found from each joint's own least squares, which no gain and no other joint's rows touch.
    Without ``system.blocks`` the answer is 1.
    """
    if system.blocks is None:
        return 1.0
    parts = system.blocks.at_most(PARTS).parts
    found: list[float] = []
    for joint in np.flatnonzero(system.factor.driven):
        matrix, effort = (
            system.factor.triangles[joint, :, :-1],
            system.factor.triangles[joint, :, -1],
        )
        norms = np.linalg.norm(matrix, axis=0)
        norms[norms == 0.0] = np.inf
        left, sizes, right = np.linalg.svd(matrix / norms, full_matrices=False)
        kept = sizes > _DEPENDENT_COLUMNS * sizes[0]
        # in these coordinates independent rows of unit noise have scores of unit covariance
        white = (right[kept] / sizes[kept, None] / norms).T
        residual = effort - left[:, kept] @ (left[:, kept].T @ effort)
        freedom = system.factor.independent_rows[joint] - kept.sum()
        if freedom <= 0.0 or not residual.any():
            continue
        noise = np.linalg.norm(residual) / np.sqrt(freedom)
        solution = white @ (left[:, kept].T @ effort)
        scores = np.array([_own_scores(part[joint], white, solution) for part in parts]) / noise
        found += np.diag(sum_covariance(scores)).tolist()
    return max(1.0, float(np.median(found))) if found else 1.0


def _own_scores(part: JointRows, white: np.ndarray, solution: np.ndarray) -> np.ndarray:
    """Return the scores of a joint's rows in white coordinates, (k,)."""
    residual = part.rows[:, :-1] @ solution[part.columns] - part.rows[:, -1]
    return np.asarray(white[part.columns].T @ (part.rows[:, :-1].T @ residual))


def with_bootstrap(
    system: LinearSystem, estimate: Estimate, settings: BootstrapSettings, *, drawn: bool
) -> Estimate:
    """
    Return an estimate with the bootstrap's standard deviations; classical ones stand beside them.

    Parameters
    ----------
    system:
        The rows that the estimate is of.
    estimate:
        With classical standard deviations.
    settings:
        Of the bootstrap.
    drawn:
        True if the estimate is the least squares solution by its weights, which is drawn again.
        The standard deviations of others are multiplied by what those of weighted least squares
        grow by.

    Returns
    -------
    Estimate
        as it was, with a warning, where the rows came without time or are too few.

    """
    plain = estimate if drawn else wls(system)
    try:
        replicates = bootstrap(system, plain, settings)
    except IdentifiabilityError as error:
        return with_classical_std_warning(estimate, error)
    growth = growth_of(replicates, plain)
    if not drawn:
        return with_scaled_std(estimate, growth)
    assert replicates.covariance is not None
    after = Uncertainty(
        replicates.covariance,
        replicates.std,
        replicates,
        classical_std=estimate.std,
        growth=growth,
    )
    return replace(estimate, uncertainty=after)


def with_classical_std_warning(estimate: Estimate, error: IdentifiabilityError) -> Estimate:
    """Return an estimate with the remark that its standard deviations are classical."""
    remark = f'standard deviations are classical ones, mostly too small: {error.message}'
    return replace(estimate, warnings=(*estimate.warnings, remark))


def growth_of(drawn: Bootstrap, plain: Estimate) -> np.ndarray:
    """(b,) factors from classical to bootstrap standard deviations; 1 where there are none."""
    known = plain.was_free & (plain.std > 0.0)
    return np.where(known, drawn.std / np.where(known, plain.std, 1.0), 1.0)


def least_squares_covariance(
    blocks: TimeBlocks, weights: np.ndarray, free: np.ndarray, base: np.ndarray
) -> np.ndarray:
    """
    Return the covariance of a least squares solution by the block bootstrap, (k, k).

    Parameters
    ----------
    blocks:
        All rows.
    weights:
        (n,) of the joints' rows.
    free:
        (b,) bool, the k parameters that were solved for.
    base:
        (b,) the solution.

    """
    parts = [weighted_rows(part, weights, free.size) for part in blocks.parts]
    norms = np.sqrt(sum((rows[:, :-1] ** 2).sum(axis=0) for rows in parts))[free]
    columns = [rows[:, :-1][:, free] / norms for rows in parts]
    residuals = [rows[:, -1] - rows[:, :-1] @ base for rows in parts]
    square = sum(matrix.T @ matrix for matrix in columns)
    scores = np.array([m.T @ r for m, r in zip(columns, residuals, strict=True)])
    inverse = np.linalg.pinv(square, hermitian=True) / norms[:, None]
    return np.asarray(inverse @ sum_covariance(scores) @ inverse.T)
