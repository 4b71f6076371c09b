# SPDX-License-Identifier: Apache-2.0
"""
The linear system of recordings: the factor of their rows, and what to call its columns.

Ordinary and weighted least squares, their residuals per joint and the elimination of columns all
come from the factor, after one pass over the recordings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import blas

from ..errors import RecordingError
from ..regressor import Regressor
from ..regressor.base_parameters import BaseStructure
from ..regressor.inverse_dynamics import RowPattern
from ..signals import RecordingSource, SignalSettings, source_name
from ..support.progress import Progress, subrange
from .factor import expand_to_all_columns, JointTriangles, merge_all, ModelSignature, QRFactor
from .plot_samples import (
    ANALYSED_ROWS,
    EMPTY_TRACE,
    PlotSamples,
    TRACE_ROWS,
    TraceCollector,
)
from .row_block import RowBlock
from .rows import driven_rows, require_order, row_blocks
from .time_blocks import BlockCollector, TimeBlocks


@dataclass(frozen=True, eq=False)
class LinearSystem:
    """
    A factor with the base parameters that its columns stand for.

    Attributes
    ----------
    factor:
        Sufficient statistics of the rows.
    structure:
        The base parameters.
    trace:
        A bounded number of rows, thinned evenly, for plots; empty where there are factors alone.
    sources:
        Names of the recordings.
    blocks:
        The rows by parts of the recordings, for the bootstrap; None where they were not asked for.

    """

    factor: QRFactor
    structure: BaseStructure
    trace: PlotSamples = EMPTY_TRACE
    sources: tuple[str, ...] = ()
    blocks: TimeBlocks | None = None

    @property
    def analysed(self) -> PlotSamples:
        """The rows of `trace` that delays and the residuals' colour are found from."""
        return self.trace.thinned(ANALYSED_ROWS * max(1, len(self.sources)))

    def stacked(self, weights: np.ndarray | None = None) -> np.ndarray:
        """R of the rows of all joints, each joint's times its weight, see `QRFactor.stacked`."""
        return self.factor.stacked(weights)


def combine(systems: Iterable[LinearSystem]) -> LinearSystem:
    """
    Merge the systems of several recordings of the same robot.

    Parameters
    ----------
    systems:
        At least one; all with the same joints and base parameters.  Taken one by one, so that
        about log2(N) of their factors and `TRACE_ROWS` rows are in memory at a time.

    Raises
    ------
    SettingsError, ModelError
        naming what is not the same, as `QRFactor.merge`.

    """
    trace = TraceCollector(TRACE_ROWS)
    sources: list[str] = []
    structure: BaseStructure | None = None
    blocks: TimeBlocks | None = None

    def factors() -> Iterator[QRFactor]:
        nonlocal structure, blocks
        for system in systems:
            if structure is None:
                structure, blocks = system.structure, system.blocks
            else:
                blocks = TimeBlocks.concatenate([blocks, system.blocks])
            yield system.factor
            trace.follow(system.trace)
            sources.extend(system.sources)

    factor = merge_all(factors())
    assert structure is not None
    return LinearSystem(factor, structure, trace.trace(), tuple(sources), blocks)


def system_of(
    sources: RecordingSource | Sequence[RecordingSource],
    regressor: Regressor,
    structure: BaseStructure,
    signals: SignalSettings,
    **options: Any,
) -> LinearSystem:
    """Build the linear system of one or several recordings together; as `systems_of`."""
    several: Sequence = sources if isinstance(sources, (list, tuple)) else [sources]
    return combine(systems_of(several, regressor, structure, signals, **options))


def systems_of(
    sources: Sequence[RecordingSource],
    regressor: Regressor,
    structure: BaseStructure,
    signals: SignalSettings,
    *,
    progress: Progress | None = None,
    trace_points: int = TRACE_ROWS,
    read: Callable[..., Iterator[RowBlock]] = row_blocks,
    names: tuple[str, ...] | None = None,
    timed: bool = False,
) -> Iterator[LinearSystem]:
    """
    Iterate over the linear systems of recordings, one each, in one pass over each.

    Parameters
    ----------
    sources, regressor, structure, signals:
        As for `row_blocks`.
    progress:
        Called with the share of the recordings that is done, and the seconds that are read.
    trace_points:
        Bound on the rows that are kept for plots, for each recording.
    read:
        Reads the rows, as `row_blocks` does.
    names:
        What the rows of a sample are called; None for the joints.
    timed:
        Whether to keep the rows by parts of the recordings as well, for the bootstrap.

    Raises
    ------
    RecordingError
        naming a recording that gives no rows or has other joints or another order of them than the
        model, or a joint whose effort is zero throughout.

    """
    driven = driven_rows(regressor) if names is None else None
    for number, source in enumerate(sources):
        require_order(source, structure, regressor)
        blocks = read(source, regressor, structure, signals)
        if progress is not None:
            part = subrange(progress, number / len(sources), (number + 1) / len(sources))
            blocks = reported_blocks(blocks, source, part)
        collector = BlockCollector()
        system = accumulate(
            collector.watched(blocks) if timed else blocks,
            structure,
            source.joints if names is None else names,
            source=source_name(source),
            trace_points=trace_points,
            driven=driven,
        )
        yield replace(system, blocks=collector.blocks()) if timed else system


def reported_blocks(
    blocks: Iterator[RowBlock], source: RecordingSource, progress: Progress
) -> Iterator[RowBlock]:
    """Pass the blocks on and report how far they are, by seconds where the end is unknown."""
    name, duration = source_name(source).rpartition('/')[2], getattr(source, 'duration', 0.0)
    first: float | None = None
    for block in blocks:
        if len(block.time):
            first = float(block.time[0]) if first is None else first
            done = float(block.time[-1]) - first
            share = min(1.0, done / duration) if duration else 0.0
            progress(share, f'reading {name}: {done:.0f} s')
        yield block
    progress(1.0, f'read {name}')


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
        As `row_blocks` gives them.
    structure, joints:
        The base parameters that the columns stand for, and the names of the rows of a sample.
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
    builder: _SystemBuilder | None = None
    for block in blocks:
        builder = _SystemBuilder(block.pattern, trace_points) if builder is None else builder
        builder.push(block)
    if builder is None or not builder.available:
        raise RecordingError(
            f'{source}: no rows are left after filtering, trimming and decimation',
            file=source,
            remedy='record longer, or lower signals.trim or raise signals.decimate_to',
        )
    system = builder.system(structure, tuple(joints), source, driven)
    silent = system.factor.driven & (system.factor.raw_gram[:, -1, -1] == 0.0)
    if system.factor.raw_rows and silent.any() and not system.factor.mixed:
        joint = system.factor.joints[int(silent.argmax())]
        raise RecordingError(
            f"{source}: effort of joint '{joint}' is zero in every row",
            file=source,
            joint=joint,
            remedy='record its effort (many drivers publish zeros until it is switched on, '
            'mock hardware always), or leave the joint out of robot.joints',
        )
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
    structure, joints, driven:
        As for `accumulate`.
    matrix, effort:
        (m, n, b) base columns of the regressor and (m, n) efforts [N m or N].
    keep:
        (m, n) bool, which rows count; None for all.
    time:
        (m,) [s]; None counts samples.

    """
    samples, n = effort.shape
    time = np.arange(samples, dtype=float) if time is None else time
    # nothing is known of the motion: no joint may be taken for one that stands still, and speeds
    # are not known
    position = np.linspace(0.0, 1.0, samples)[:, None] * np.ones(n)
    block = RowBlock.from_matrix(
        matrix,
        time=time,
        position=position,
        velocity=np.full((samples, n), np.nan),
        effort=effort,
        keep=np.ones((samples, n), dtype=bool) if keep is None else keep,
        raw_effort=effort,
    )
    return accumulate([block], structure, joints, driven=driven)


class _SystemBuilder:
    """The growing parts of a `LinearSystem`, joint by joint in the columns that the joint sees."""

    def __init__(self, pattern: RowPattern, trace_points: int) -> None:
        n = self.n = len(pattern.columns)
        self.pattern = pattern
        self.triangles = JointTriangles(pattern)
        self.independent = np.zeros(n)
        self.available = 0
        self.column_sums = np.zeros(pattern.width)
        self.effort_sums = np.zeros(n)
        self.raw = [_RawGram(places.size) for places in pattern.columns]
        self.raw_rows = 0
        self.raw_apart = False
        self.lowest = np.full(n, np.inf)
        self.highest = np.full(n, -np.inf)
        self.fastest = np.zeros(n)
        self.trace = TraceCollector(trace_points)

    def push(self, block: RowBlock) -> None:
        """Fold one block in."""
        if not self.pattern.same(block.pattern):
            raise ValueError('blocks of one system have rows of different patterns')
        if len(block.raw_effort) and not block.undecimated and not self.raw_apart:
            # R has the samples so far, and not those to come
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

    def _push_rows(self, block: RowBlock) -> None:
        efforts, keep = block.effort.T, block.keep.T
        for j in range(self.n):
            part = self.pattern.row_entries(j)
            entries, effort = block.entries[part], efforts[j]
            if not keep[j].all():
                entries, effort = entries[:, keep[j]], effort[keep[j]]
            self.triangles.push(j, entries, effort)
            self.column_sums[part] += entries.sum(axis=1)
            self.effort_sums[j] += effort.sum()

    def _push_raw(self, block: RowBlock) -> None:
        """Take in the samples before decimation and dead zone: those that R does not have."""
        efforts = block.raw_effort.T
        for j in range(self.n):
            part = self.pattern.row_entries(j)
            if self.raw_apart:
                self.raw[j].push(block.raw_entries[part], efforts[j])
            elif not (kept := block.keep[:, j]).all():
                self.raw[j].push(block.raw_entries[part, ~kept], efforts[j, ~kept])

    def _add_triangles(self) -> None:
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
        if not self.raw_apart:
            self._add_triangles()
        sums = np.zeros((self.n, self.pattern.size))
        sums[self.pattern.rows, self.pattern.places] = self.column_sums
        factor = QRFactor(
            fingerprint=ModelSignature.from_structure(structure, joints),
            triangles=self.triangles.all_columns(),
            rows=self.triangles.rows,
            independent_rows=self.independent,
            available_rows=np.full(self.n, self.available),
            column_sums=sums,
            effort_sums=self.effort_sums,
            raw_gram=expand_to_all_columns(self.pattern, [raw.gram() for raw in self.raw]),
            raw_rows=self.raw_rows,
            position_range=self.highest - self.lowest,
            driven=np.ones(self.n, dtype=bool) if driven is None else driven,
            highest_speed=self.fastest,
        )
        return LinearSystem(factor, structure, self.trace.trace(), (source,))


class _RawGram:
    """[W | tau]^T [W | tau] of one joint, for the error of the measured efforts alone."""

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
        upper = np.triu(self._columns)
        columns = upper + np.triu(upper, 1).T
        crossed = self._crossed[:, None]
        return np.block([[columns, crossed], [crossed.T, np.array([[self._effort]])]])
