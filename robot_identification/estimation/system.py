# SPDX-License-Identifier: Apache-2.0
"""
All that estimation needs of any number of regressor rows, in memory that does not grow with them.

With W_j the rows of joint j (base columns) and tau_j its effort, a `LinearSystem` holds R of
[W_j | tau_j] for each joint, so that ordinary and weighted least squares, their residuals per
joint and the elimination of columns all come from one pass over the recording.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from .trace import read_only, Trace
from .triangle import append_rows

if TYPE_CHECKING:
    from ..base_parameters import BaseStructure


@dataclass(frozen=True)
class LinearSystem:
    """
    Sufficient statistics of the rows ``W beta = tau``, joint by joint.

    Attributes
    ----------
    structure:
        The base parameters that the columns stand for.
    joints:
        Names of the n joints.
    factors:
        (n, b + 1, b + 1) R of [W_j | tau_j] over the rows that are kept.
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
        (n,) largest minus smallest position [rad or m].
    trace:
        A bounded number of rows, thinned evenly, for plots.
    sources:
        Names of the recordings.
    driven:
        (n,) bool, which joints have an effort; the rows of the others are an equilibrium.

    """

    structure: BaseStructure
    joints: tuple[str, ...]
    factors: np.ndarray
    rows: np.ndarray
    independent_rows: np.ndarray
    available_rows: np.ndarray
    column_sums: np.ndarray
    effort_sums: np.ndarray
    raw_gram: np.ndarray
    raw_rows: int
    position_range: np.ndarray
    trace: Trace
    sources: tuple[str, ...] = ()
    driven: np.ndarray = field(default=None)  # type: ignore[arg-type]

    def __post_init__(self) -> None:
        if self.driven is None:
            object.__setattr__(self, 'driven', np.ones(len(self.joints), dtype=bool))
        read_only(self)

    @property
    def n_joints(self) -> int:
        """Number of joints."""
        return len(self.joints)

    @property
    def n_base(self) -> int:
        """Number of base parameters."""
        return self.factors.shape[-1] - 1

    @property
    def n_rows(self) -> int:
        """Rows of all joints together."""
        return int(self.rows.sum())

    @property
    def n_independent(self) -> float:
        """Independent rows of all joints together."""
        return float(self.independent_rows.sum())

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
        factor = np.zeros_like(self.factors[0])
        for weight, part in zip(weights, self.factors, strict=True):
            factor = append_rows(factor, weight * part)
        return factor


def combine(systems: Sequence[LinearSystem]) -> LinearSystem:
    """
    Merge the systems of several recordings of the same robot.

    Parameters
    ----------
    systems:
        At least one; all with the same joints and base parameters.

    """
    if not systems:
        raise ValueError('there is no system to combine')
    total = systems[0]
    for system in systems[1:]:
        if system.joints != total.joints or system.n_base != total.n_base:
            raise ValueError('the systems have different joints or base parameters')
        factors = [append_rows(a, b) for a, b in zip(total.factors, system.factors, strict=True)]
        total = replace(
            total,
            factors=np.array(factors),
            rows=total.rows + system.rows,
            independent_rows=total.independent_rows + system.independent_rows,
            available_rows=total.available_rows + system.available_rows,
            column_sums=total.column_sums + system.column_sums,
            effort_sums=total.effort_sums + system.effort_sums,
            raw_gram=total.raw_gram + system.raw_gram,
            raw_rows=total.raw_rows + system.raw_rows,
            position_range=np.maximum(total.position_range, system.position_range),
            trace=total.trace.followed_by(system.trace),
            sources=total.sources + system.sources,
        )
    return total
