# SPDX-License-Identifier: Apache-2.0
"""
From a recording to the rows of the linear system, block by block.

Signals are put on a grid and filtered, the regressor is evaluated in blocks that stay in cache,
its base columns and the effort go through the same parallel decimation, and rows in the dead zone
are marked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TYPE_CHECKING

import numpy as np

from ..recording import Motion, Recording, Samples
from .system import accumulate, combine, LinearSystem

if TYPE_CHECKING:
    from ..base_parameters import BaseStructure
    from ..regressors import Regressor
    from ..signals import SignalSettings

Progress = Callable[[float, str], None]

BLOCK_SAMPLES = 512
"""Samples that the regressor is evaluated at in one call."""


@dataclass(frozen=True)
class RowBlock:
    """
    Consecutive rows of the linear system, and the samples before decimation that came with them.

    Attributes
    ----------
    time:
        (m,) [s].
    position, velocity:
        (m, n) at the rows [rad, rad/s; m, m/s].
    matrix:
        (m, n, b) base columns of the regressor.
    effort:
        (m, n) [N m or N].
    keep:
        (m, n) bool, False where the row is left out because its joint is in the dead zone.
    raw_matrix:
        (k, n, b) base columns at all samples, before decimation.
    raw_effort:
        (k, n) effort as measured at these samples [N m or N].
    segment:
        Number of the stretch without gaps that the rows belong to.

    """

    time: np.ndarray
    position: np.ndarray
    velocity: np.ndarray
    matrix: np.ndarray
    effort: np.ndarray
    keep: np.ndarray
    raw_matrix: np.ndarray
    raw_effort: np.ndarray
    segment: int = 0


def row_blocks(
    source: Recording | Any,
    regressor: Regressor,
    structure: BaseStructure,
    signals: SignalSettings,
) -> Iterator[RowBlock]:
    """
    Iterate over the rows that a recording gives, in blocks of a bounded size.

    Parameters
    ----------
    source:
        A recording, or anything with ``joints`` and ``blocks(size)``; its columns are taken in the
        regressor's order as they are.
    regressor:
        Evaluated at the samples.
    structure:
        Its independent columns are the ones that are kept.
    signals:
        Filter, decimation and dead zone.

    """
    from ..signals import stream
    from ..signals.settings import dead_zones

    zones = dead_zones(signals, tuple(source.joints))
    stretch: _Stretch | None = None
    segment = 0
    for samples in stream(source, signals):
        for start in range(0, len(samples), BLOCK_SAMPLES):
            part = samples.rows(start, start + BLOCK_SAMPLES)
            if stretch is None:
                stretch = _Stretch(signals, zones, regressor, structure, segment)
            elif not stretch.goes_on(part):
                yield stretch.finish()
                segment += 1
                stretch = _Stretch(signals, zones, regressor, structure, segment)
            yield stretch.push(part)
    if stretch is not None:
        yield stretch.finish()


def system_of(
    sources: Recording | Sequence[Recording],
    regressor: Regressor,
    structure: BaseStructure,
    signals: SignalSettings,
    *,
    progress: Progress | None = None,
    trace_points: int = 2000,
) -> LinearSystem:
    """
    Build the linear system of one or several recordings in one pass over each.

    Parameters
    ----------
    sources, regressor, structure, signals:
        As for `row_blocks`; several recordings are merged.
    progress:
        Told the fraction of the samples that is done, where the source knows its length.
    trace_points:
        Bound on the rows that are kept for plots, for each recording.

    Raises
    ------
    RecordingError
        naming a recording that gives no rows, or a joint whose effort is zero throughout.

    """
    several = sources if isinstance(sources, (list, tuple)) else [sources]
    systems = []
    for number, source in enumerate(several):
        blocks = row_blocks(source, regressor, structure, signals)
        if progress is not None:
            blocks = _reporting(
                blocks, source, signals, number / len(several), 1 / len(several), progress
            )
        name = str(getattr(source, 'source', 'recording'))
        systems.append(
            accumulate(blocks, structure, source.joints, source=name, trace_points=trace_points)
        )
    return combine(systems)


class _Stretch:
    """A stretch of samples without gaps, on its way through the decimation."""

    def __init__(self, signals, zones, regressor, structure, segment: int) -> None:
        self._signals, self._zones, self._segment = signals, zones, segment
        self._regressor, self._independent = regressor, np.asarray(structure.independent)
        self._decimator = None
        self._step = 0.0
        self._start = self._last = 0.0
        self._rows = 0

    def goes_on(self, samples: Samples) -> bool:
        """Whether ``samples`` follow the last ones without a gap."""
        return (
            self._step == 0.0 or abs(samples.time[0] - self._last - self._step) < 0.5 * self._step
        )

    def push(self, samples: Samples) -> RowBlock:
        """Return the rows that ``samples`` complete."""
        if self._decimator is None:
            self._begin(samples)
        elif self._step == 0.0:
            self._step = samples.time[0] - self._last
        self._last = samples.time[-1]
        raw = self._base_columns(samples)
        # one array through one filter: what is done to the effort is done to every column
        signals = (samples.effort, samples.position, samples.velocity)
        joined = np.concatenate([raw, np.stack(signals, axis=2)], axis=2)
        return self._block(self._decimator.push(joined), raw, samples.measured_effort)

    def finish(self) -> RowBlock:
        """Return the rows whose window reaches beyond the end."""
        n, b = self._zones.size, self._independent.size
        rows = self._decimator.finish()
        rows = rows if rows.size else np.empty((0, n, b + 3))
        return self._block(rows, np.empty((0, n, b)), np.empty((0, n)))

    def _begin(self, samples: Samples) -> None:
        from ..signals.decimation import ParallelDecimator
        from ..signals.settings import decimation_factor

        self._start = samples.time[0]
        if len(samples) > 1:
            self._step = float(samples.time[-1] - samples.time[0]) / (len(samples) - 1)
            factor = decimation_factor(self._signals, 1.0 / self._step)
        else:
            factor = 1
        self._decimator = ParallelDecimator(factor)

    def _base_columns(self, samples: Samples) -> np.ndarray:
        motion = Motion(samples.position, samples.velocity, samples.acceleration)
        rows = self._regressor.rows(motion)
        return rows[:, self._independent].reshape(len(samples), self._zones.size, -1)

    def _block(self, rows: np.ndarray, raw: np.ndarray, measured: np.ndarray) -> RowBlock:
        matrix = rows[:, :, :-3]
        effort, position, velocity = (rows[:, :, i] for i in (-3, -2, -1))
        index = self._rows + np.arange(len(rows))
        self._rows += len(rows)
        return RowBlock(
            time=self._start + index * self._decimator.factor * self._step,
            position=position,
            velocity=velocity,
            matrix=matrix,
            effort=effort,
            keep=np.abs(velocity) >= self._zones,
            raw_matrix=raw,
            raw_effort=measured,
            segment=self._segment,
        )


def _reporting(blocks, source, signals, start: float, share: float, progress: Progress):
    """Pass the blocks on and tell how far they have come, where the recording knows its end."""
    total = len(source) if hasattr(source, '__len__') else 0
    name = getattr(source, 'source', 'recording')
    duration = getattr(source, 'duration', 0.0)
    first = None
    for block in blocks:
        if total and duration and len(block.time):
            first = block.time[0] if first is None else first
            done = min(1.0, (block.time[-1] - first) / duration)
            progress(start + share * done, f'reading {name}')
        yield block
    progress(start + share, f'read {name}')
