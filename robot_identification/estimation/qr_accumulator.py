# SPDX-License-Identifier: Apache-2.0
"""Folds blocks of rows into a `LinearSystem`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from scipy.linalg import blas

from ..base_parameters import BaseStructure
from ..errors import RecordingError
from ..regressor.inverse_dynamics import RowPattern
from .factor import QRFactor
from .model_signature import ModelSignature
from .plot_samples import EMPTY_TRACE, TRACE_ROWS, TraceCollector
from .qr import JointTriangles, whole_squares
from .row_block import RowBlock
from .system import LinearSystem


def accumulate(
    blocks: Iterable[RowBlock],
    structure: BaseStructure,
    joints: Sequence[str],
    *,
    source: str = 'recording',
    trace_points: int = TRACE_ROWS,
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
    from .row_block import RowBlock

    samples, n = effort.shape
    time = np.arange(samples, dtype=float) if time is None else time
    # nothing is known of the motion: no joint may be taken for one that stands still, and speeds
    # are not known
    position = np.linspace(0.0, 1.0, samples)[:, None] * np.ones(n)
    block = RowBlock.of(
        matrix,
        time=time,
        position=position,
        velocity=np.full((samples, n), np.nan),
        effort=effort,
        keep=np.ones((samples, n), dtype=bool) if keep is None else keep,
        raw_effort=effort,
    )
    return accumulate([block], structure, joints, driven=driven)


class _Builder:
    """The growing parts of a `LinearSystem`, joint by joint in the columns that the joint sees."""

    def __init__(self, n: int, b: int, trace_points: int) -> None:
        self.n, self.b = n, b
        self.pattern = RowPattern.full(n, b)
        self.triangles: JointTriangles | None = None
        self.independent = np.zeros(n)
        self.available = 0
        self.column_sums: np.ndarray = np.empty(0)
        self.effort_sums = np.zeros(n)
        self.raw: list[_RawGram] = []
        self.raw_rows = 0
        self.raw_apart = False
        self.lowest = np.full(n, np.inf)
        self.highest = np.full(n, -np.inf)
        self.fastest = np.zeros(n)
        self.trace = TraceCollector(trace_points)

    def push(self, block: RowBlock) -> None:
        """Fold one block in."""
        if self.triangles is None:
            self._begin(block.pattern)
        if not self.pattern.same(block.pattern):
            raise ValueError('blocks of one system have rows of different patterns')
        if len(block.raw_effort) and not block.undecimated and not self.raw_apart:
            # R tells of the samples so far, and no longer of those to come
            self._add_triangles()
            self.raw_apart = True
        samples = len(block.time)
        self.available += samples
        if samples:
            self.independent += block.independence * block.keep.sum(axis=0)
            self._push_rows(block)
            self.lowest = np.minimum(self.lowest, block.position.min(axis=0))
            self.highest = np.maximum(self.highest, block.position.max(axis=0))
            self.fastest = np.maximum(self.fastest, np.abs(block.velocity).max(axis=0))
            self.trace.push(block)
        self.raw_rows += len(block.raw_effort)
        self._push_raw(block)

    def _begin(self, pattern: RowPattern) -> None:
        self.pattern = pattern
        widths = np.diff(pattern.offsets)
        self.triangles = JointTriangles(pattern)
        self.raw = [_RawGram(width) for width in widths]
        self.column_sums = np.zeros(pattern.width)

    def _push_rows(self, block: RowBlock) -> None:
        assert self.triangles is not None
        efforts, keep = block.effort.T, block.keep.T
        for j in range(self.n):
            part = self.pattern.part(j)
            entries, effort = block.entries[part], efforts[j]
            if not keep[j].all():
                entries, effort = entries[:, keep[j]], effort[keep[j]]
            self.triangles.push(j, entries, effort)
            self.column_sums[part] += entries.sum(axis=1)
            self.effort_sums[j] += effort.sum()

    def _push_raw(self, block: RowBlock) -> None:
        """Take in the samples before decimation and dead zone: those that R does not tell."""
        efforts = block.raw_effort.T
        for j in range(self.n):
            part = self.pattern.part(j)
            if self.raw_apart:
                self.raw[j].push(block.raw_entries[part], efforts[j])
            elif not (kept := block.keep[:, j]).all():
                self.raw[j].push(block.raw_entries[part, ~kept], efforts[j, ~kept])

    def _add_triangles(self) -> None:
        assert self.triangles is not None
        for j, raw in enumerate(self.raw):
            raw.add(self.triangles.result(j))

    def system(
        self,
        structure: BaseStructure,
        joints: tuple[str, ...],
        source: str,
        driven: np.ndarray | None,
    ) -> LinearSystem:
        """Return what has been accumulated."""
        if self.triangles is None:
            self._begin(self.pattern)
        assert self.triangles is not None
        if not self.raw_apart:
            self._add_triangles()
        moved = self.available > 0
        sums = np.zeros((self.n, self.b))
        sums[self.pattern.rows, self.pattern.places] = self.column_sums
        factor = QRFactor(
            fingerprint=ModelSignature.of(structure, joints),
            triangles=self.triangles.whole(),
            rows=self.triangles.rows,
            independent_rows=self.independent,
            available_rows=np.full(self.n, self.available),
            column_sums=sums,
            effort_sums=self.effort_sums,
            raw_gram=whole_squares(self.pattern, [raw.gram() for raw in self.raw]),
            raw_rows=self.raw_rows,
            position_range=self.highest - self.lowest if moved else np.zeros(self.n),
            driven=driven,  # type: ignore[arg-type]
            highest_speed=self.fastest if moved else np.zeros(self.n),
        )
        trace = self.trace.trace() if moved else EMPTY_TRACE
        return LinearSystem(factor, structure, trace, (source,))


class _RawGram:
    """
    [W | tau]^T [W | tau] of one joint, for the error of the measured efforts alone.

    Parameters
    ----------
    width:
        Columns of W.

    """

    def __init__(self, width: int) -> None:
        self._columns = np.zeros((width, width), order='F')
        self._crossed = np.zeros(width)
        self._effort = 0.0

    def push(self, entries: np.ndarray, effort: np.ndarray) -> None:
        """Append m rows: (w, m) entries and (m,) efforts."""
        self._effort += float(effort @ effort)
        if entries.size:
            self._crossed += entries @ effort
            # the upper triangle alone
            self._columns = blas.dsyrk(
                1.0, entries.T, beta=1.0, c=self._columns, trans=1, overwrite_c=1
            )

    def add(self, triangle: np.ndarray) -> None:
        """Append the rows that ``triangle``, (w + 1, w + 1), is R of."""
        gram = triangle.T @ triangle
        self._columns += gram[:-1, :-1]
        self._crossed += gram[:-1, -1]
        self._effort += float(gram[-1, -1])

    def gram(self) -> np.ndarray:
        """Return the sum so far, (w + 1, w + 1)."""
        upper = np.triu(self._columns, 1)
        columns = upper + upper.T + np.diag(np.diag(self._columns))
        crossed = self._crossed[:, None]
        return np.block([[columns, crossed], [crossed.T, np.array([[self._effort]])]])


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
                remedy='record its effort (many drivers publish zeros until it is switched on, '
                'mock hardware always), or leave the joint out of robot.joints',
            )
