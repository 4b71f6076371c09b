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

from ..base_parameters import BaseStructure
from ..model.parameters import INERTIAL_SYMBOLS
from ..regressor.pattern import RowPattern

BATCHES = 4
"""Parts of a window; the first one is where a change may begin."""

FRICTION = ('fv', 'fc', 'ts', 'tsc', 'off', 'fr', 'fl')
"""Symbols of a joint's friction."""

_SINGULAR = 1e-9  # of the largest eigenvalue, with columns scaled to norm 1


class ChangeColumns:
    """
    Picks out of a sample's rows the columns of what may change.

    Parameters
    ----------
    pattern:
        Of the rows.
    structure:
        The base parameters.
    joints:
        Names of the n joints.
    link:
        Whose inertial parameters a payload adds to.

    Attributes
    ----------
    friction:
        For each joint, the names of its friction parameters.
    payload:
        Names of the k inertial parameters of the link.

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
        found = [
            [
                k
                for k in range(pattern.offsets[j], pattern.offsets[j + 1])
                if names[pattern.places[k]] in {f'{joint}.{symbol}' for symbol in FRICTION}
            ]
            for j, joint in enumerate(joints)
        ]
        self.friction = tuple(
            tuple(names[pattern.places[k]] for k in entries) for entries in found
        )
        # joints with fewer parameters have columns of zeros
        width = max(1, *map(len, found))
        self._entries = np.zeros((len(joints), width), dtype=int)
        self._present = np.zeros((len(joints), width))
        for j, entries in enumerate(found):
            self._entries[j, : len(entries)] = entries
            self._present[j, : len(entries)] = 1.0

    @property
    def widths(self) -> tuple[int, int]:
        """Numbers of columns for the payload and for a joint's friction."""
        return len(self.payload), self._entries.shape[1]

    def __call__(self, entries: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """
        Return the columns.

        Parameters
        ----------
        entries:
            (K,) of a sample's rows.

        Returns
        -------
        tuple
            (n, k) for the payload, and (n, f) for each joint's own friction.

        """
        self._dense[self._rows, self._places] = entries
        return self._dense @ self._regrouping, entries[self._entries] * self._present


@dataclass
class Scores:
    """
    Sums over a stretch of time, joint by joint.

    Attributes
    ----------
    payload, payload_right:
        (n, k, k) and (n, k): M and S of the payload.
    friction, friction_right:
        (n, f, f) and (n, f): of each joint's friction.
    energy:
        (n,) of the squared residual.
    rows:
        (n,) rows that count.
    samples:
        Samples that were added, moving or not.

    """

    payload: np.ndarray
    payload_right: np.ndarray
    friction: np.ndarray
    friction_right: np.ndarray
    energy: np.ndarray
    rows: np.ndarray
    samples: int = 0

    @classmethod
    def zero(cls, n: int, k: int, f: int) -> Scores:
        """Return sums of nothing."""
        return cls(
            np.zeros((n, k, k)),
            np.zeros((n, k)),
            np.zeros((n, f, f)),
            np.zeros((n, f)),
            np.zeros(n),
            np.zeros(n),
        )

    def add(
        self, payload: np.ndarray, friction: np.ndarray, residual: np.ndarray, kept: np.ndarray
    ) -> None:
        """
        Take in a sample.

        Parameters
        ----------
        payload, friction:
            (n, k) and (n, f) columns.
        residual:
            (n,) [N m or N].
        kept:
            (n,) bool, which rows count.

        """
        self.samples += 1
        Z, F = payload * kept[:, None], friction * kept[:, None]
        r = residual * kept
        self.payload += Z[:, :, None] * Z[:, None, :]
        self.payload_right += Z * r[:, None]
        self.friction += F[:, :, None] * F[:, None, :]
        self.friction_right += F * r[:, None]
        self.energy += r * r
        self.rows += kept

    def __add__(self, other: Scores) -> Scores:
        """Return the sums over both stretches."""
        return Scores(
            self.payload + other.payload,
            self.payload_right + other.payload_right,
            self.friction + other.friction,
            self.friction_right + other.friction_right,
            self.energy + other.energy,
            self.rows + other.rows,
            self.samples + other.samples,
        )

    def explained(self, precision: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """
        Return what each change explains of the weighted residual.

        Parameters
        ----------
        precision:
            (n,) one over the variance of each joint's residual.

        Returns
        -------
        tuple
            (1 + n,) the payload's and each joint's friction's S^T M^-1 S, and (1 + n,) the
            numbers of parameters that there are for it.

        """
        whole, right = self.weighed_payload(precision)
        payload = _explained(whole, right)
        friction = _explained(self.friction, self.friction_right)
        return (
            np.concatenate(([payload[0]], precision * friction[0])),
            np.concatenate(([payload[1]], np.where(precision > 0.0, friction[1], 0))),
        )

    def weighed_payload(self, precision: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(k, k) M and (k,) S of the payload over all joints."""
        return (
            np.tensordot(precision, self.payload, axes=1),
            precision @ self.payload_right,
        )


def total(parts: Sequence[Scores]) -> Scores:
    """Return the sums over all parts, of which there is one at least."""
    return reduce(add, parts)


def change_of(whole: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """
    Return the change that explains most, of least size, and its covariance for unit variance.

    Parameters
    ----------
    whole, right:
        (k, k) M and (k,) S.

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


def _decomposed(
    whole: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Scale M to a unit diagonal; return the scale, eigenvalues, vectors, and which count."""
    diagonal = np.einsum('...ii->...i', whole)
    scale = np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0))
    values, vectors = np.linalg.eigh(whole / (scale[..., :, None] * scale[..., None, :]))
    return scale, values, vectors, values > _SINGULAR * np.maximum(values[..., -1:], _SINGULAR)


_GUARD = 1.2


@dataclass(frozen=True)
class Baseline:
    """
    Baseline of the residuals.

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
        Return which hypotheses the residuals of a window speak for.

        Parameters
        ----------
        window:
            Sums over it.
        chance:
            How probable an exceedance may be, for all hypotheses together, where there is no
            change.

        Returns
        -------
        np.ndarray
            (1 + n,) bool: the payload, and each joint's friction.

        """
        explained, ranks = window.explained(self.precision)
        degrees = np.maximum(ranks, 1)
        found = fdtrc(degrees, self.windows, explained / (degrees * self.inflation))
        return np.asarray((ranks > 0) & (found < chance / explained.size))


class Learner:
    """
    Learns what is usual, in memory that the time of learning bounds.

    Parameters
    ----------
    n:
        Number of joints.

    """

    def __init__(self, n: int) -> None:
        self.parts: list[Scores] = []
        self._crossings, self._kept, self._peaks = np.zeros((3, n))
        self._signs = np.zeros(n, dtype=bool)

    def watch(self, residual: np.ndarray, kept: np.ndarray) -> None:
        """Take in (n,) residuals of a sample, and which of them count."""
        signs = residual > 0.0
        self._crossings += kept & signs & ~self._signs
        self._signs = signs
        self._kept += kept
        np.maximum(self._peaks, np.abs(residual) * kept, out=self._peaks)

    def usual(self, rate: float, step: float) -> Baseline:
        """
        Return what was usual.

        Parameters
        ----------
        rate:
            How often levels may be exceeded where nothing has changed [1/s].
        step:
            Time between samples [s].

        """
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
