# SPDX-License-Identifier: Apache-2.0
"""
From a recording to the rows of the linear system, block by block.

Signals are put on a grid and filtered, the regressor is evaluated or projected in blocks that stay
in cache, its base columns and the effort go through the same parallel decimation, and rows in the
dead zone are marked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from ..data.recording import Samples
from ..errors import one_of, RecordingError, SettingsError
from ..model.friction import FRICTION_SYMBOLS
from ..regressor import Regressor
from ..regressor.base_parameters import BaseStructure
from ..regressor.inverse_dynamics import RowPattern
from ..regressor.joint_terms import DryFriction
from ..regressor.projection import Projection
from ..signals import (
    by_joint,
    channel_kernel,
    decimation_factor,
    EffortChannel,
    independence,
    ParallelDecimator,
    RecordingSource,
    sample_rate,
    SignalSettings,
    source_name,
    stretches,
    WindowedSamples,
)

Predict = Callable[[np.ndarray], np.ndarray]
"""From (b,) base parameters to the (k, n) efforts that they predict."""

Repair = Callable[[Predict, np.ndarray, np.ndarray], np.ndarray]
"""
From what predicts the efforts of k samples, (k, n) measured efforts and (k, n) bool, whether the
joint moves, to the (k, n) efforts to go on with.
"""

BLOCK_SAMPLES = 512
"""Samples that the regressor is evaluated at in one call."""

JOINT_SYMBOLS = ('Ia', *FRICTION_SYMBOLS)
"""Symbols of parameters that are named after their joint, joint by joint."""

CACHE_BYTES = 64_000_000
"""Rows that take less than this are kept in memory."""


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
    pattern:
        Which base columns of the regressor the rows of each joint see.
    entries:
        (K, m) these columns, samples last.
    effort:
        (m, n) [N m or N].
    keep:
        (m, n) bool, False where the row is left out because its joint is in the dead zone.
    raw_entries:
        (K, k) the columns at all samples, before decimation.
    raw_effort:
        (k, n) effort as measured at these samples [N m or N].
    segment:
        Number of the stretch without gaps that the rows belong to.
    independence:
        Independent rows that a row counts for, see `signals.independence`.

    """

    time: np.ndarray
    position: np.ndarray
    velocity: np.ndarray
    pattern: RowPattern
    entries: np.ndarray
    effort: np.ndarray
    keep: np.ndarray
    raw_entries: np.ndarray
    raw_effort: np.ndarray
    segment: int = 0
    independence: float = 1.0

    @classmethod
    def of(
        cls, matrix: np.ndarray, raw_matrix: np.ndarray | None = None, **others: Any
    ) -> RowBlock:
        """
        Make a block of whole rows.

        Base columns are (m, n, b), before decimation (k, n, b) or the same ones; ``others`` are
        the attributes that are not about columns.
        """
        pattern = RowPattern.full(*matrix.shape[1:])
        entries = pattern.gather(matrix)
        raw = entries if raw_matrix is None else pattern.gather(raw_matrix)
        return cls(pattern=pattern, entries=entries, raw_entries=raw, **others)

    @cached_property
    def matrix(self) -> np.ndarray:
        """(m, n, b) base columns of the regressor."""
        return self.pattern.expand(self.entries)

    @property
    def undecimated(self) -> bool:
        """True if the rows are the samples as they were measured."""
        return self.raw_entries is self.entries and self.raw_effort is self.effort


class RowCache:
    """
    Rows that are read once, where they fit into memory, and otherwise for every pass.

    Parameters
    ----------
    start:
        Starts a pass over the rows.

    """

    def __init__(self, start: Callable[[], Iterator[RowBlock]]) -> None:
        self._start = start
        self._kept: list[RowBlock] | None = None

    def __iter__(self) -> Iterator[RowBlock]:
        if self._kept is not None:
            yield from self._kept
            return
        kept, size = [], 0
        for block in self._start():
            # without what came before the rows
            rows = replace(block, raw_entries=block.entries[:, :0], raw_effort=block.effort[:0])
            size += rows.entries.nbytes + rows.effort.nbytes
            if size <= CACHE_BYTES:
                kept.append(rows)
            else:
                kept.clear()
            yield rows
        if size <= CACHE_BYTES:
            self._kept = kept


def row_blocks(
    source: RecordingSource,
    regressor: Regressor,
    structure: BaseStructure,
    signals: SignalSettings,
    *,
    repair: Repair | None = None,
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
    repair:
        Given what predicts efforts, the efforts, and where joints move, it returns the efforts to
        decimate, see `SpikeRepair`; None takes them as they are.

    """
    driven = driven_rows(regressor)
    movers = tuple(joint for joint, moves in zip(source.joints, driven, strict=True) if moves)
    zones, delays, low_passes = np.zeros((3, regressor.n_joints))
    for values, key in (
        (zones, 'dead_zone'),
        (delays, 'effort_delay'),
        (low_passes, 'effort_low_pass'),
    ):
        values[driven] = by_joint(signals, key, movers)
    channels = tuple(zip(delays.tolist(), low_passes.tolist(), strict=True))
    # rows that resampling puts between samples tell nothing new
    recorded = np.inf if signals.sample_rate is None else sample_rate(source)
    columns = Projection(regressor, structure.independent)
    for segment, blocks in enumerate(stretches(source, signals, driven=driven)):
        stretch: _RowStretch | None = None
        for samples in blocks:
            for start in range(0, len(samples), BLOCK_SAMPLES):
                piece = samples.rows(start, start + BLOCK_SAMPLES)
                if stretch is None:
                    stretch = _RowStretch(
                        samples,
                        signals,
                        zones,
                        channels,
                        columns,
                        segment,
                        recorded,
                        repair,
                        getattr(regressor, 'breakaway', None),
                    )
                yield stretch.push(piece)
        if stretch is not None:
            yield stretch.finish()


class _RowStretch:
    """A stretch of samples without gaps, on its way through the decimation."""

    def __init__(
        self,
        first: Samples,
        signals: SignalSettings,
        zones: np.ndarray,
        channels: tuple[tuple[float, float], ...],
        columns: Projection,
        segment: int,
        recorded: float,
        repair: Repair | None,
        breakaway: np.ndarray | None,
    ) -> None:
        self._zones, self._segment = zones, segment
        self._columns, self._repair = columns, repair
        self._start, step = float(first.time[0]), time_step(first)
        factor = decimation_factor(signals, 1.0 / step) if step > 0.0 else 1
        self._decimator = ParallelDecimator(factor)
        self._row_step = factor * step
        rate = 1.0 / self._row_step if step > 0.0 else 1.0
        kernels = [channel_kernel(delay, low_pass, rate) for delay, low_pass in channels]
        widths = np.diff(columns.pattern.offsets)
        groups = np.append(np.repeat(np.arange(widths.size), widths), np.full(3 * zones.size, -1))
        self._channel = EffortChannel(kernels, groups)
        if isinstance(first, WindowedSamples):
            kernel = first.operator.value(hold=first.settings.effort_hold)
            self._independence = independence(factor, kernel, first.stride)
        else:
            self._independence = independence(factor)
        if step > 0.0:
            self._independence = min(self._independence, recorded * self._row_step)
        self._rows = 0
        self._dry: DryFriction | None = None
        if breakaway is not None:
            period = first.operator.period if isinstance(first, WindowedSamples) else step
            self._dry = DryFriction(breakaway, period)
        self._overlap = np.empty((0, zones.size))  # states of samples that come again

    def _with_friction_state(self, samples: Samples, dry: DryFriction) -> Samples:
        """Add the directions of dry friction, where friction is evaluated."""
        if not isinstance(samples, WindowedSamples):
            return replace(samples, friction_state=dry.push(samples.velocity))
        if samples.stride > samples.operator.taps:
            raise SettingsError(
                "'signals.polynomial_approximation.stride' leaves samples between the windows, "
                "which 'robot.breakaway' takes",
                key='signals.polynomial_approximation.stride',
                value=samples.stride,
                remedy=f'give {samples.operator.taps} or less',
            )
        raw, known = samples.raw, self._overlap
        state = np.vstack([known, dry.push(raw.velocity[len(known) :])])
        self._overlap = state[len(samples) * samples.stride :]
        return replace(samples, raw=replace(raw, friction_state=state))

    def push(self, samples: Samples) -> RowBlock:
        """Return the rows that ``samples`` complete."""
        n, width = self._zones.size, self._columns.pattern.width
        if self._dry is not None:
            samples = self._with_friction_state(samples, self._dry)
        # one array through one filter: what is done to the effort is done to every column
        joined = np.empty((width + 3 * n, len(samples)))
        entries = self._columns.entries(samples, joined[:width])
        effort = samples.effort
        if self._repair is not None:
            moving = np.abs(samples.velocity) >= self._zones
            predict = partial(self._columns.pattern.product, entries)
            effort = self._repair(predict, effort, moving)
        for i, signal in enumerate((effort, samples.position, samples.velocity)):
            joined[width + i * n : width + (i + 1) * n] = signal.T
        same = np.array_equal(effort, samples.measured_effort)
        rows = self._channel.push(self._decimator.push(joined))
        return self._block(rows, entries, samples.measured_effort, same)

    def finish(self) -> RowBlock:
        """Return the rows whose window reaches beyond the end."""
        n, width = self._zones.size, self._columns.pattern.width
        rows = self._channel.push(self._decimator.finish())
        rows = np.hstack([rows, self._channel.finish()])
        return self._block(rows, np.empty((width, 0)), np.empty((0, n)))

    def _block(
        self, rows: np.ndarray, raw: np.ndarray, measured: np.ndarray, same: bool = False
    ) -> RowBlock:
        n, pattern = self._zones.size, self._columns.pattern
        entries = rows[: pattern.width]
        effort, position, velocity = (
            rows[pattern.width + i * n : pattern.width + (i + 1) * n].T for i in range(3)
        )
        if same and self._decimator.factor == 1 and self._channel.half == 0:
            raw, measured = entries, effort
        index = self._rows + np.arange(len(effort))
        self._rows += len(effort)
        return RowBlock(
            time=self._start + index * self._row_step,
            position=position,
            velocity=velocity,
            pattern=pattern,
            entries=entries,
            effort=effort,
            keep=np.abs(velocity) >= self._zones,
            raw_entries=raw,
            raw_effort=measured,
            segment=self._segment,
            independence=self._independence,
        )


def time_step(samples: Samples) -> float:
    """Return the step of the time grid [s]; 0 where there is one sample alone."""
    return float(samples.time[-1] - samples.time[0]) / max(1, len(samples) - 1)


def driven_rows(regressor: Regressor) -> np.ndarray:
    """
    Tell which rows of a sample have an effort, (n_joints,) bool.

    Those of the links of elastic joints have none: they are an equilibrium.
    """
    return np.asarray(getattr(regressor, 'driven', np.ones(regressor.n_joints, dtype=bool)))


def require_order(source: RecordingSource, structure: BaseStructure, regressor: Regressor) -> None:
    """
    Check that the columns of a recording are in the order of the model's joints.

    Raises
    ------
    RecordingError
        naming the recording that has other joints or another order of them.

    """
    owners = (name.rpartition('.') for name in structure.layout)
    modelled = tuple(dict.fromkeys(o for o, _, symbol in owners if symbol in JOINT_SYMBOLS))
    # a regressor may have columns that no parameter is named after
    modelled = getattr(regressor, 'joints', modelled)
    n_joints = regressor.n_joints
    recorded = tuple(source.joints)
    if len(recorded) == n_joints and modelled in ((), recorded):
        return
    name = source_name(source)
    raise RecordingError(
        f'{name} has the joints {one_of(recorded)}, the model has {one_of(modelled)}'
        if modelled
        else f'{name} has {len(recorded)} joints, the model has {n_joints}',
        file=name,
        value=recorded,
        remedy='take the joints of the model in its order: recording.select(robot.joints)',
    )
