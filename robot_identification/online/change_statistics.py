# SPDX-License-Identifier: Apache-2.0
"""
Statistics of a change in some parameters, from the residuals of a stretch of time.

For rows Z of the parameters that may have changed and the residual r, a score test takes the sums
``M = Z^T Z`` and ``S = Z^T r``: the change is ``M^-1 S``, and ``S^T M^-1 S`` is what it explains
of ``r^T r``.  They are kept joint by joint, so that joints can be weighed later, and add up from
one stretch of time to the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
import math
from operator import add

import numpy as np
from scipy.special import fdtrc

from ..model.friction import FRICTION_SYMBOLS
from ..model.parameters import INERTIAL_SYMBOLS
from ..regressor.base_parameters import BaseStructure
from ..regressor.inverse_dynamics import RowPattern

BATCHES = 4
"""Parts of a window; the first one is where a change may begin."""

_GUARD = 1.2  # of the largest residual met while learning
_SINGULAR = 1e-9  # of the largest eigenvalue, with columns scaled to norm 1


class ChangeColumns:
    """
    Columns of a sample's rows that belong to parameters that may change.

    ``friction`` has the names of each joint's friction parameters, ``payload`` those of the k
    inertial parameters of the link that a payload adds to.
    """

    def __init__(
        self, pattern: RowPattern, structure: BaseStructure, joints: Sequence[str], link: str
    ) -> None:
        names = structure.names
        self.payload = tuple(f'{link}.{symbol}' for symbol in INERTIAL_SYMBOLS)
        columns = [structure.layout.index(name) for name in self.payload]
        self._regrouping = np.ascontiguousarray(structure.regrouping[:, columns])
        self._rows, self._places = pattern.rows, pattern.places
        self._dense = np.zeros((len(joints), pattern.size))
        found = []
        for j, joint in enumerate(joints):
            own = {f'{joint}.{symbol}' for symbol in FRICTION_SYMBOLS}
            places = range(pattern.offsets[j], pattern.offsets[j + 1])
            found.append([k for k in places if names[self._places[k]] in own])
        self.friction = tuple(tuple(names[self._places[k]] for k in row) for row in found)
        # joints with fewer parameters have columns of zeros
        width = max(1, *map(len, found))
        self._entries = np.zeros((len(joints), width), dtype=int)
        self._present = np.zeros((len(joints), width))
        for j, row in enumerate(found):
            self._entries[j, : len(row)] = row
            self._present[j, : len(row)] = 1.0

    @property
    def widths(self) -> tuple[int, int]:
        """Numbers k and f of columns for the payload and for a joint's friction."""
        return len(self.payload), self._entries.shape[1]

    def __call__(self, entries: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (n, k) columns for the payload, and (n, f) for each joint's own friction."""
        self._dense[self._rows, self._places] = entries
        return self._dense @ self._regrouping, entries[self._entries] * self._present


@dataclass
class Scores:
    """
    Sums over a stretch of time, joint by joint.

    Attributes
    ----------
    products:
        (n, k + f + 1, k + f + 1) of the columns of the payload, those of the joint's friction and
        the residual.
    rows:
        (n,) rows that count.
    k:
        Number of columns for the payload.
    samples:
        Samples that were added, moving or not.

    """

    products: np.ndarray
    rows: np.ndarray
    k: int
    samples: int = 0

    @classmethod
    def zero(cls, n: int, k: int, f: int) -> Scores:
        """Return sums of nothing."""
        return cls(np.zeros((n, k + f + 1, k + f + 1)), np.zeros(n), k)

    @property
    def energy(self) -> np.ndarray:
        """(n,) sums of the squared residual."""
        return self.products[:, -1, -1]

    @property
    def friction(self) -> tuple[np.ndarray, np.ndarray]:
        """(n, f, f) M and (n, f) S of each joint's friction."""
        return self.products[:, self.k : -1, self.k : -1], self.products[:, self.k : -1, -1]

    def add(
        self, payload: np.ndarray, friction: np.ndarray, residual: np.ndarray, kept: np.ndarray
    ) -> None:
        """Add (n, k) and (n, f) columns and (n,) residuals; (n,) bool ``kept`` of them count."""
        columns = np.concatenate((payload, friction, residual[:, None]), axis=1) * kept[:, None]
        self.samples += 1
        self.products += columns[:, :, None] * columns[:, None, :]
        self.rows += kept

    def __add__(self, other: Scores) -> Scores:
        """Return the sums over both stretches."""
        return Scores(
            self.products + other.products,
            self.rows + other.rows,
            self.k,
            self.samples + other.samples,
        )

    def explained(self, precision: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """
        Return S^T M^-1 S of each hypothesis, and its number of parameters, (1 + n,) each.

        The first is the payload, the others are the friction of each joint.  The precision (n,) is
        one over the variance of each joint's residual.
        """
        payload, payload_rank = _explained(*self.weighed_payload(precision))
        friction, ranks = _explained(*self.friction)
        return (
            np.concatenate(([payload], precision * friction)),
            np.concatenate(([payload_rank], np.where(precision > 0.0, ranks, 0))),
        )

    def weighed_payload(self, precision: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(k, k) M and (k,) S of the payload over all joints, weighed by (n,) ``precision``."""
        k = self.k
        return (
            np.tensordot(precision, self.products[:, :k, :k], axes=1),
            precision @ self.products[:, :k, -1],
        )


def total(parts: Sequence[Scores]) -> Scores:
    """Return the sums over all parts, of which there is one at least."""
    return reduce(add, parts)


def change_of(whole: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """
    Return the change that explains most, of least size, and its covariance for unit variance.

    ``whole`` and ``right`` are (k, k) M and (k,) S.
    """
    scale, values, vectors, kept = _decomposed(whole)
    half = np.where(kept, vectors / np.sqrt(np.where(kept, values, 1.0)), 0.0)
    inverse = (half @ half.T) / np.multiply.outer(scale, scale)
    return inverse @ right, inverse


def _explained(whole: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(...) S^T M^-1 S and ranks of (..., k, k) M and (..., k) S."""
    scale, values, vectors, kept = _decomposed(whole)
    turned = np.einsum('...ij,...i->...j', vectors, right / scale)
    parts = np.where(kept, turned**2 / np.where(kept, values, 1.0), 0.0)
    return parts.sum(axis=-1), kept.sum(axis=-1)


def _decomposed(whole: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Scale M to a unit diagonal; return the scale, eigenvalues, vectors, and which count."""
    diagonal = np.einsum('...ii->...i', whole)
    scale = np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0))
    values, vectors = np.linalg.eigh(whole / (scale[..., :, None] * scale[..., None, :]))
    return scale, values, vectors, values > _SINGULAR * np.maximum(values[..., -1:], _SINGULAR)


@dataclass(frozen=True)
class Baseline:
    """
    Residuals without a change.

    Attributes
    ----------
    precision:
        (n,) one over their variances; 0 for joints that have not moved.
    inflation:
        (1 + n,) c_h of the payload and of each joint's friction.
    windows:
        nu, the number of separate windows that it was learned from.
    level:
        (n,) sizes that are taken for spikes [N m or N].

    """

    precision: np.ndarray
    inflation: np.ndarray
    windows: float
    level: np.ndarray

    def exceeded(self, window: Scores, chance: float) -> np.ndarray:
        """
        Return which hypotheses the residuals of a window speak for, (1 + n,) bool.

        ``chance`` is the probability of an exceedance without a change, for all together.
        """
        explained, ranks = window.explained(self.precision)
        degrees = np.maximum(ranks, 1)
        found = fdtrc(degrees, self.windows, explained / (degrees * self.inflation))
        return np.asarray((ranks > 0) & (found < chance / explained.size))


class BaselineLearner:
    """Learns the baseline of n joints, in memory that the time of learning bounds."""

    def __init__(self, n: int) -> None:
        self.parts: list[Scores] = []
        self._crossings, self._kept, self._peaks = np.zeros((3, n))
        self._signs = np.zeros(n, dtype=bool)

    def watch(self, residual: np.ndarray, kept: np.ndarray) -> None:
        """Add (n,) residuals of a sample, and which of them count."""
        signs = residual > 0.0
        self._crossings += kept & signs & ~self._signs
        self._signs = signs
        self._kept += kept
        np.maximum(self._peaks, np.abs(residual) * kept, out=self._peaks)

    def baseline(self, rate: float, step: float) -> Baseline:
        """Return the baseline for levels exceeded at a rate [1/s], with samples each step [s]."""
        rows = np.sum([part.rows for part in self.parts], axis=0)
        energy = np.sum([part.energy for part in self.parts], axis=0)
        known = (rows > 0) & (energy > 0.0)
        precision = np.where(known, rows / np.where(known, energy, 1.0), 0.0)
        found = [
            total(self.parts[i : i + BATCHES]).explained(precision)
            for i in range(len(self.parts) - BATCHES + 1)
        ]
        explained, ranks = (np.sum(part, axis=0) for part in zip(*found, strict=True))
        inflation = np.where(ranks > 0, explained / np.maximum(ranks, 1), 1.0)
        upward = np.maximum(self._crossings, 1.0) / (np.maximum(self._kept, 1.0) * step)
        # Rice: 2 upward exp(-u^2 / 2) crossings a second of either side's level u
        often = np.maximum(2.0 * upward * rows.size / rate, math.e)
        level = np.sqrt(2.0 * np.log(often) / np.where(known, precision, 1.0))
        return Baseline(
            precision=precision,
            inflation=np.maximum(inflation, 1e-12),
            windows=len(found) / BATCHES,
            level=np.where(known, np.maximum(level, _GUARD * self._peaks), np.inf),
        )
