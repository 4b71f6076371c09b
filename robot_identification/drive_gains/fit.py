# SPDX-License-Identifier: Apache-2.0
"""
Gains of current-controlled drives from runs with and without a load that was weighed.

The model is linear in the parameters and in the efforts alike, so that parameters and gains share
one unknown factor: only something of known size settles it.  Gautier and Briot, "Global
identification of joint drive gains and dynamic parameters" (J. Dyn. Sys. Meas. Control 136(5),
2014), take a load of known mass.  With the efforts as they were assumed, tau = sum_k T_k c_k over
the drives' currents c and the columns T_k of the assumed gains, and the true gains x_k T_k,

    sum_k x_k T_k c_k = W beta            without the load,
    sum_k x_k T_k c_k = W beta + W_L p    with it,

where W_L are the columns of the link that carries the load.  Parameters p of the load that are
known make the right-hand side; the others are unknown like beta and x.  The noise is in the
currents, hence in the columns of x: least squares (``constrained``) shrinks x, the more the weaker
the load is beside the noise; total least squares (``total``) does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh
from scipy.optimize import nnls

from ..base_parameters import BaseStructure
from ..errors import IdentifiabilityError, SettingsError
from ..estimation import RowBlock
from ..estimation.factor import GrowingFactor
from .load import Load
from .result import DriveGains

METHODS = ('total', 'constrained')
"""Total least squares, or least squares with gains as unknowns and the load on the right."""

NOT_TOLD = 0.25
"""Relative standard deviation from which a gain counts as not told."""

_TOLERANCE = 1e-9
_SEPARATE = 1e-6
_ROUNDS = 4
_LEAST = 0.05


@dataclass(frozen=True)
class GainRows:
    """
    R factors of rows [W_j | T_jk c_k] of each joint j: base columns, then the drives' efforts.

    Attributes
    ----------
    factors:
        (n, b + n, b + n).
    rows, independent_rows:
        (n,) numbers of rows, see `LinearSystem`.

    """

    factors: np.ndarray
    rows: np.ndarray
    independent_rows: np.ndarray


def gain_rows(
    blocks: Iterable[RowBlock], structure: BaseStructure, assumed: np.ndarray
) -> GainRows:
    """
    Fold rows for `drive_gains`, in constant memory.

    Parameters
    ----------
    blocks:
        Rows with efforts by the assumed gains.
    structure:
        Their base parameters.
    assumed:
        (n, n) matrix T of tau = T c.

    Raises
    ------
    SettingsError
        where T has no inverse.

    """
    n, b = len(assumed), structure.n_base
    to_drives = _inverse(assumed).T
    factors = [GrowingFactor(b + n) for _ in range(n)]
    independent = np.zeros(n)
    for block in blocks:
        drives = (block.effort @ to_drives)[:, None, :] * assumed
        joined = np.concatenate([block.matrix, drives], axis=2)
        independent += block.independence * block.keep.sum(axis=0)
        for j in range(n):
            factors[j].push(joined[block.keep[:, j], j])
    return GainRows(
        np.array([factor.result() for factor in factors]),
        np.array([factor.rows for factor in factors]),
        independent,
    )


def drive_gains(
    without: GainRows,
    loaded: GainRows,
    load: Load,
    structure: BaseStructure,
    drives: Sequence[str],
    assumed: np.ndarray,
    *,
    method: str = 'total',
    recordings: Sequence[str] = (),
) -> DriveGains:
    """
    Identify drive gains.

    Parameters
    ----------
    without, loaded:
        Rows of the runs without and with the load, of `gain_rows`.
    load:
        What is known of it.
    structure:
        The base parameters.
    drives:
        Names of the drives.
    assumed:
        (n, n) matrix T of tau = T c that the rows were made with.
    method:
        One of `METHODS`.
    recordings:
        Names of the runs with the load.

    Raises
    ------
    IdentifiabilityError
        where what is known of the load cannot be told from what is not.
    RecordingError
        where there are fewer rows than unknowns.

    """
    n = len(drives)
    columns = structure.regrouping[:, structure.layout.of(load.link)]
    parts = columns[:, load.known] @ load.parameters[load.known], columns[:, ~load.known]
    noise = _drive_noise(_row_spread(without, structure.n_base), assumed)
    found = _Solution(np.ones(n), np.eye(n), np.zeros(n))
    for _ in range(_ROUNDS):
        found = _weighted(without, loaded, load, parts, assumed, noise, found.factors, method)
        if method == 'constrained':
            # shrunk gains would give their rows more and more weight
            break
    std = np.sqrt(np.diag(found.covariance))
    told = (std < NOT_TOLD * np.abs(found.factors)) & (found.factors > _LEAST)
    return DriveGains(
        drives=tuple(drives),
        factors=np.where(told, found.factors, np.nan),
        covariance=np.where(told[:, None] & told, found.covariance, np.nan),
        assumed=assumed,
        method=method,
        recordings=tuple(recordings),
        warnings=_warnings(drives, found, std, told),
    )


@dataclass(frozen=True)
class _Solution:
    """(n,) factors, their (n, n) covariance, and (n,) by how much noise has shrunk them."""

    factors: np.ndarray
    covariance: np.ndarray
    shrinkage: np.ndarray


def _weighted(
    without: GainRows,
    loaded: GainRows,
    load: Load,
    parts: tuple[np.ndarray, np.ndarray],
    assumed: np.ndarray,
    noise: np.ndarray,
    factors: np.ndarray,
    method: str,
) -> _Solution:
    """Solve with the joints' rows weighted by the currents' noise at gains ``factors``."""
    gains = np.maximum(factors, _LEAST)
    # what the currents' noise amounts to in each joint's rows
    deviation = np.sqrt(assumed**2 @ (noise * gains**2))
    nuisance, right, efforts = _stack(without, loaded, *parts, 1.0 / deviation)
    right, efforts, rank = _projected(nuisance, right, efforts, load)
    weights = (without.rows + loaded.rows) / deviation**2
    C = np.diag(noise * (weights @ assumed**2))
    x, inverse, shrinkage = _solve(efforts, right, C, method)
    rows = (without.independent_rows + loaded.independent_rows).sum()
    residual = efforts @ x - right
    scale = float(residual @ residual) / max(rows - rank - x.size, 1.0)
    return _Solution(x, scale * inverse, shrinkage)


def _inverse(assumed: np.ndarray) -> np.ndarray:
    if assumed.shape[0] != assumed.shape[1] or np.linalg.cond(assumed) > 1e8:
        raise SettingsError(
            f"'robot.drives.effort.matrix' has the shape {assumed.shape} or no inverse",
            key='robot.drives.effort.matrix',
            remedy='drive gains need one recorded effort for each joint; give a square matrix',
        )
    return np.asarray(np.linalg.inv(assumed))


def _row_spread(rows: GainRows, b: int) -> np.ndarray:
    """(n,) residual variance of each joint's own least squares, with the assumed gains."""
    variances = np.empty(len(rows.factors))
    for j, factor in enumerate(rows.factors):
        matrix, effort = factor[:, :b], factor[:, b:].sum(axis=1)
        basis = _range(matrix)
        residual = effort - basis @ (basis.T @ effort)
        freedom = max(1.0, rows.independent_rows[j] - basis.shape[1])
        floor = 1e-24 * (effort @ effort) / max(1, rows.rows[j])
        variances[j] = max(residual @ residual / freedom, floor)
    return variances


def _drive_noise(spread: np.ndarray, assumed: np.ndarray) -> np.ndarray:
    """(n,) variances of the drives' efforts that explain those of the joints' rows."""
    noise, _ = nnls(assumed**2, spread)
    # a drive without noise of its own would make the others' gains exact
    return np.maximum(noise, 1e-3 * spread.min() / (assumed**2).max())


def _stack(
    without: GainRows,
    loaded: GainRows,
    known: np.ndarray,
    unknown: np.ndarray,
    weights: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Columns of beta and the load's unknown parameters; effort of the known ones; drives'."""
    b = len(known)
    light = (weights[:, None, None] * without.factors).reshape(-1, without.factors.shape[2])
    heavy = (weights[:, None, None] * loaded.factors).reshape(-1, loaded.factors.shape[2])
    nuisance = np.block(
        [
            [light[:, :b], np.zeros((len(light), unknown.shape[1]))],
            [heavy[:, :b], heavy[:, :b] @ unknown],
        ]
    )
    right = np.concatenate([np.zeros(len(light)), heavy[:, :b] @ known])
    return nuisance, right, np.concatenate([light[:, b:], heavy[:, b:]])


def _projected(
    nuisance: np.ndarray, right: np.ndarray, efforts: np.ndarray, load: Load
) -> tuple[np.ndarray, np.ndarray, int]:
    """Take away what parameters that are not asked for can explain; tell how many there are."""
    basis = _range(nuisance)
    left = right - basis @ (basis.T @ right)
    if np.linalg.norm(left) <= _SEPARATE * np.linalg.norm(right):
        raise IdentifiabilityError(
            f"what is known of the load on '{load.link}' cannot be told from what is not",
            link=load.link,
            remedy='give its centre of mass (data.known_load.center_of_mass), or move more joints '
            'in the recordings with and without it',
        )
    return left, efforts - basis @ (basis.T @ efforts), basis.shape[1]


def _solve(
    efforts: np.ndarray, right: np.ndarray, C: np.ndarray, method: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """
    Solve ``efforts @ x = right`` with errors of covariance C in the columns of ``efforts``.

    With the smallest eigenvalue lambda of what is left of the efforts beside the right-hand side,
    total least squares is (A - lambda C) x = efforts^T right, A = efforts^T efforts; the
    right-hand side and all columns projected away are exact (Van Huffel and Vandewalle, "The Total
    Least Squares Problem", SIAM 1991, section 3.6).

    Returns
    -------
    tuple
        (n,) x; the (n, n) inverse of A - lambda C, which its covariance is proportional to; and
        (n,) by how much the errors make x too small.

    """
    A, product = efforts.T @ efforts, efforts.T @ right
    alone = A - np.outer(product, product) / (right @ right)
    smallest = float(eigh(alone, C, eigvals_only=True, subset_by_index=(0, 0))[0])
    exact = A - max(0.0, smallest) * C
    values, vectors = eigh(exact, C)
    # a direction with less than rounding in it is not told: a huge variance, not a negative one
    values = np.maximum(values, _TOLERANCE * values.max())
    inverse = (vectors / values) @ vectors.T
    total = inverse @ product
    if method == 'total':
        return total, inverse, np.zeros(total.size)
    x = np.linalg.solve(A, product)
    return x, inverse, total - x


def _range(matrix: np.ndarray) -> np.ndarray:
    """Orthonormal basis of the columns' span."""
    norms = np.linalg.norm(matrix, axis=0)
    seen = norms > 1e-12 * norms.max(initial=0.0)
    u, s, _ = np.linalg.svd(matrix[:, seen] / norms[seen], full_matrices=False)
    return np.asarray(u[:, s > _TOLERANCE * s.max(initial=0.0)])


def _warnings(
    drives: Sequence[str], found: _Solution, std: np.ndarray, told: np.ndarray
) -> tuple[str, ...]:
    notes = []
    for k, drive in enumerate(drives):
        change = found.factors[k] - 1.0
        if not told[k]:
            notes.append(
                f"the load does not tell the gain of drive '{drive}': take a heavier one, or a "
                'motion that makes it felt there'
            )
            continue
        if abs(change) > max(0.01, 3.0 * std[k]):
            notes.append(
                f"the gain of drive '{drive}' differs by {100.0 * change:+.1f} % from the assumed "
                'one, and so do the parameters: put the matrix of drive_gains into '
                'robot.drives.effort.matrix and identify again'
            )
        missing = found.shrinkage[k]
        if missing > std[k]:
            notes.append(
                f"noise makes the gain of drive '{drive}' about {100.0 * missing:.1f} % "
                'too small in the constrained fit: say data.known_load.method: total'
            )
    return tuple(notes)
