# SPDX-License-Identifier: Apache-2.0
"""
All that estimation needs of any number of rows, as a value that merges.

With W_j the rows of joint j (base columns) and tau_j its effort, a `QRFactor` holds R of
[W_j | tau_j] for each joint beside a few sums.  Its size depends on the numbers of joints and base
parameters alone, and the factor of two recordings comes from the factors of each: a reduction that
may be done in any order, on any number of machines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .model_signature import ModelSignature
from .plot_samples import read_only
from .qr import append_rows


@dataclass(frozen=True, eq=False)
class QRFactor:
    """
    Sufficient statistics of the rows ``W beta = tau``, joint by joint.

    Attributes
    ----------
    fingerprint:
        What the rows are rows of.
    triangles:
        (n, b + 1, b + 1) R of [W_j | tau_j] over the rows that are kept; no row begins with a
        negative diagonal entry.
    rows:
        (n,) int, rows that are kept.
    independent_rows:
        (n,) rows that they count for: less where decimation has filtered them.
    available_rows:
        (n,) int, rows before the dead zone.
    column_sums, effort_sums:
        (n, b) and (n,) sums over the kept rows; they give the bias.
    raw_gram:
        (n, b + 1, b + 1) [W_j | tau_j]^T [W_j | tau_j] over all samples before decimation and dead
        zone, with the effort as measured; for ``raw_relative_error`` only, never for the estimate.
    raw_rows:
        Samples that ``raw_gram`` is taken over.
    position_range:
        Of each joint of the robot, largest minus smallest position [rad or m]; of several
        recordings the largest.
    driven:
        (n,) bool, which joints have an effort; the rows of the others are an equilibrium.
    highest_speed:
        Of each joint of the robot over the rows [rad/s or m/s]; of several recordings the largest;
        NaN where it is not known.

    """

    fingerprint: ModelSignature
    triangles: np.ndarray
    rows: np.ndarray
    independent_rows: np.ndarray
    available_rows: np.ndarray
    column_sums: np.ndarray
    effort_sums: np.ndarray
    raw_gram: np.ndarray
    raw_rows: int
    position_range: np.ndarray
    driven: np.ndarray = field(default=None)  # type: ignore[arg-type]
    highest_speed: np.ndarray = field(default=None)  # type: ignore[arg-type]

    def __post_init__(self) -> None:
        if self.driven is None:
            object.__setattr__(self, 'driven', np.ones(self.n_joints, dtype=bool))
        if self.highest_speed is None:
            unknown = np.full(len(self.position_range), np.nan)
            object.__setattr__(self, 'highest_speed', unknown)
        object.__setattr__(self, 'triangles', _with_signs(self.triangles))
        read_only(self)

    @property
    def joints(self) -> tuple[str, ...]:
        """Names of the n joints."""
        return self.fingerprint.joints

    @property
    def n_joints(self) -> int:
        """Number of joints."""
        return len(self.fingerprint.joints)

    @property
    def n_base(self) -> int:
        """Number of base parameters."""
        return self.triangles.shape[-1] - 1

    @property
    def n_rows(self) -> int:
        """Rows of all joints together."""
        return int(self.rows.sum())

    @property
    def n_independent(self) -> float:
        """Independent rows of all joints together."""
        return float(self.independent_rows.sum())

    @classmethod
    def empty(
        cls, fingerprint: ModelSignature, *, n_positions: int = 0, driven: np.ndarray | None = None
    ) -> QRFactor:
        """
        Return the factor of no rows, which merges with any of its problem and changes nothing.

        Parameters
        ----------
        fingerprint:
            The problem.
        n_positions:
            Number of the robot's joints; 0 where it is that of the rows of a sample.
        driven:
            (n,) bool, which joints have an effort; None for all.

        """
        n, b = len(fingerprint.joints), len(fingerprint.base)
        return cls(
            fingerprint=fingerprint,
            triangles=np.zeros((n, b + 1, b + 1)),
            rows=np.zeros(n, dtype=int),
            independent_rows=np.zeros(n),
            available_rows=np.zeros(n, dtype=int),
            column_sums=np.zeros((n, b)),
            effort_sums=np.zeros(n),
            raw_gram=np.zeros((n, b + 1, b + 1)),
            raw_rows=0,
            position_range=np.zeros(n_positions or n),
            driven=driven,  # type: ignore[arg-type]
            highest_speed=np.zeros(n_positions or n),
        )

    def stacked(self, weights: np.ndarray | None = None) -> np.ndarray:
        """
        R of the rows of all joints, each joint's multiplied with its weight.

        Parameters
        ----------
        weights:
            (n,) factors; None for 1.

        Returns
        -------
        np.ndarray
            (b + 1, b + 1) upper triangular R of [W | tau].

        """
        weights = np.ones(self.n_joints) if weights is None else weights
        total = np.zeros_like(self.triangles[0])
        for weight, part in zip(weights, self.triangles, strict=True):
            total = append_rows(total, weight * part[part.any(axis=1)])
        return total

    def residual_norms(self, base: np.ndarray) -> np.ndarray:
        """
        Norm of the residual of each joint's rows.

        Parameters
        ----------
        base:
            (b,) base parameters.

        Returns
        -------
        np.ndarray
            (n,) norms of tau_j - W_j base, over all rows that are kept.

        """
        return np.linalg.norm(self.triangles @ np.append(base, -1.0), axis=1)

    def merge(self, other: QRFactor) -> QRFactor:
        """
        Return the factor of the rows of both, which have to be rows of the same problem.

        Grouping and order change the result by rounding alone.

        Raises
        ------
        SettingsError
            naming a setting that is not the same in both.
        ModelError
            naming joints or parameters that are not the same in both, or what shows that the
            robots are not.

        """
        difference = self.fingerprint.difference(other.fingerprint)
        if difference is not None:
            raise difference
        pairs = zip(self.triangles, other.triangles, strict=True)
        return QRFactor(
            fingerprint=self.fingerprint,
            triangles=np.array([_joined(a, b) for a, b in pairs]),
            rows=self.rows + other.rows,
            independent_rows=self.independent_rows + other.independent_rows,
            available_rows=self.available_rows + other.available_rows,
            column_sums=self.column_sums + other.column_sums,
            effort_sums=self.effort_sums + other.effort_sums,
            raw_gram=self.raw_gram + other.raw_gram,
            raw_rows=self.raw_rows + other.raw_rows,
            position_range=np.maximum(self.position_range, other.position_range),
            driven=self.driven,
            highest_speed=np.maximum(self.highest_speed, other.highest_speed),
        )


def merge_all(
    factors: Iterable[QRFactor], *, key: Callable[[QRFactor], Any] | None = None
) -> QRFactor:
    """
    Merge factors in a balanced tree that depends on their order alone.

    The tree keeps rounding small, at most log2(N) merges deep, and the result is the same wherever
    and whenever the factors were made: what the library of linear algebra rounds differently by
    where arrays lie in memory is less than 1e-14 of the largest entry.

    Parameters
    ----------
    factors:
        At least one; taken one by one, so that about log2(N) of them are in memory at a time.
    key:
        Sorts the factors first, for factors that arrive in any order; they are all in memory then.

    Raises
    ------
    ValueError
        where there is no factor.
    SettingsError, ModelError
        as `QRFactor.merge`.

    """
    if key is not None:
        factors = sorted(factors, key=key)
    # a binary counter: each entry is the factor of 2^k inputs, with k falling along the list
    waiting: list[tuple[int, QRFactor]] = []
    for factor in factors:
        size = 1
        while waiting and waiting[-1][0] == size:
            factor, size = waiting.pop()[1].merge(factor), 2 * size
        waiting.append((size, factor))
    if not waiting:
        raise ValueError('there is no factor to merge')
    _, total = waiting.pop()
    while waiting:
        total = waiting.pop()[1].merge(total)
    return total


def _joined(upper: np.ndarray, lower: np.ndarray) -> np.ndarray:
    """Return R of one triangle on top of another, taken over the columns that either sees."""
    if not upper.any() or not lower.any():
        return upper if upper.any() else lower
    seen = np.flatnonzero(_seen(upper) | _seen(lower))
    square = np.ix_(seen, seen)
    joined = np.zeros_like(upper)
    joined[square] = append_rows(upper[square], lower[square])
    return joined


def _seen(triangle: np.ndarray) -> np.ndarray:
    """Tell which rows and columns of a triangle have entries; (k,) bool."""
    return np.asarray(triangle.any(axis=0) | triangle.any(axis=1))


def _with_signs(triangles: np.ndarray) -> np.ndarray:
    """Turn rows around whose diagonal entry is negative: R is unique then, where it is regular."""
    negative = np.diagonal(triangles, axis1=-2, axis2=-1) < 0.0
    return np.where(negative[..., None], -triangles, triangles) + 0.0
