# SPDX-License-Identifier: Apache-2.0
"""Folds blocks of rows into a `LinearSystem`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..errors import RecordingError
from .factor import Factor
from .fingerprint import Fingerprint
from .system import LinearSystem
from .trace import EMPTY_TRACE, TraceCollector
from .triangle import GrowingTriangle

if TYPE_CHECKING:
    from ..base_parameters import BaseStructure
    from .rows import RowBlock


def accumulate(
    blocks: Iterable[RowBlock],
    structure: BaseStructure,
    joints: Sequence[str],
    *,
    source: str = 'recording',
    trace_points: int = 2000,
    driven: np.ndarray | None = None,
) -> LinearSystem:
    """
    Fold blocks of rows into a `LinearSystem`, in one pass and constant memory.

    Parameters
    ----------
    blocks:
        As `rows.row_blocks` gives them.
    structure:
        The base parameters that the columns stand for.
    joints:
        Names of the joints, in the order of the rows.
    source:
        The recording's name, for messages.
    trace_points:
        The trace has between half as many and this many points, or all where there are fewer.
    driven:
        (n,) bool, which joints have an effort; None for all.

    Raises
    ------
    RecordingError
        where there are no rows at all, or the effort of a driven joint is zero throughout.

    """
    joints = tuple(joints)
    builder = _Builder(len(joints), structure.n_base, trace_points)
    for block in blocks:
        builder.push(block)
    system = builder.system(structure, joints, source, driven)
    _require_rows(system, source)
    _require_effort(system, source)
    return system


def from_rows(
    structure: BaseStructure,
    joints: Sequence[str],
    matrix: np.ndarray,
    effort: np.ndarray,
    keep: np.ndarray | None = None,
    *,
    time: np.ndarray | None = None,
    driven: np.ndarray | None = None,
) -> LinearSystem:
    """
    Make a `LinearSystem` of rows that are in memory.

    Parameters
    ----------
    structure:
        The base parameters that the columns stand for.
    joints:
        Names of the n joints.
    matrix:
        (m, n, b) base columns of the regressor.
    effort:
        (m, n) [N m or N].
    keep:
        (m, n) bool, which rows count; None for all.
    time:
        (m,) [s]; None counts samples.
    driven:
        (n,) bool, which joints have an effort; None for all.

    """
    from .rows import RowBlock

    samples, n = effort.shape
    time = np.arange(samples, dtype=float) if time is None else time
    # nothing is known of the motion, so no joint may be taken for one that stands still
    position = np.linspace(0.0, 1.0, samples)[:, None] * np.ones(n)
    block = RowBlock(
        time=time,
        position=position,
        velocity=np.ones((samples, n)),
        matrix=matrix,
        effort=effort,
        keep=np.ones((samples, n), dtype=bool) if keep is None else keep,
        raw_matrix=matrix,
        raw_effort=effort,
    )
    return accumulate([block], structure, joints, driven=driven)


class _Builder:
    """The growing parts of a `LinearSystem`."""

    def __init__(self, n: int, b: int, trace_points: int) -> None:
        self.n, self.b = n, b
        self.factors = [GrowingTriangle(b + 1) for _ in range(n)]
        self.independent = np.zeros(n)
        self.available = 0
        self.column_sums = np.zeros((n, b))
        self.effort_sums = np.zeros(n)
        self.raw_gram = np.zeros((n, b + 1, b + 1))
        self.raw_rows = 0
        self.lowest = np.full(n, np.inf)
        self.highest = np.full(n, -np.inf)
        self.trace = TraceCollector(trace_points)

    def push(self, block: RowBlock) -> None:
        """Fold one block in."""
        samples = len(block.time)
        self.available += samples
        if samples:
            self.independent += block.independence * block.keep.sum(axis=0)
            augmented = np.concatenate([block.matrix, block.effort[:, :, None]], axis=2)
            for j in range(self.n):
                kept = block.keep[:, j]
                rows = augmented[:, j] if kept.all() else augmented[kept, j]
                self.factors[j].push(rows)
                sums = rows.sum(axis=0)
                self.column_sums[j] += sums[:-1]
                self.effort_sums[j] += sums[-1]
            self.lowest = np.minimum(self.lowest, block.position.min(axis=0))
            self.highest = np.maximum(self.highest, block.position.max(axis=0))
            self.trace.push(block)
        self._push_raw(block)

    def _push_raw(self, block: RowBlock) -> None:
        self.raw_rows += block.raw_effort.shape[0]
        for j in range(self.n):
            matrix, effort = block.raw_matrix[:, j], block.raw_effort[:, j]
            gram = self.raw_gram[j]
            gram[:-1, :-1] += matrix.T @ matrix
            gram[:-1, -1] += matrix.T @ effort
            gram[-1, -1] += effort @ effort

    def system(
        self,
        structure: BaseStructure,
        joints: tuple[str, ...],
        source: str,
        driven: np.ndarray | None,
    ) -> LinearSystem:
        """Return what has been accumulated."""
        gram = self.raw_gram.copy()
        gram[:, -1, :-1] = gram[:, :-1, -1]
        moved = self.available > 0
        factor = Factor(
            fingerprint=Fingerprint.of(structure, joints),
            triangles=np.array([factor.result() for factor in self.factors]),
            rows=np.array([factor.rows for factor in self.factors]),
            independent_rows=self.independent,
            available_rows=np.full(self.n, self.available),
            column_sums=self.column_sums,
            effort_sums=self.effort_sums,
            raw_gram=gram,
            raw_rows=self.raw_rows,
            position_range=self.highest - self.lowest if moved else np.zeros(self.n),
            driven=driven,  # type: ignore[arg-type]
        )
        trace = self.trace.trace() if moved else EMPTY_TRACE
        return LinearSystem(factor, structure, trace, (source,))


def _require_rows(system: LinearSystem, source: str) -> None:
    if system.available_rows.max(initial=0) == 0:
        raise RecordingError(
            f'{source}: no rows are left after filtering, trimming and decimation',
            file=source,
            remedy='record longer, or lower signals.trim or raise signals.decimate_to',
        )


def _require_effort(system: LinearSystem, source: str) -> None:
    for j, joint in enumerate(system.joints):
        if system.driven[j] and system.raw_rows and system.raw_gram[j, -1, -1] == 0.0:
            raise RecordingError(
                f"{source}: effort of joint '{joint}' is zero in every row",
                file=source,
                joint=joint,
                remedy='record its effort (many drivers publish zeros until effort is switched on)'
                ', or leave the joint out of robot.joints',
            )
