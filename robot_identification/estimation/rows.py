# SPDX-License-Identifier: Apache-2.0
"""
From a recording to the rows of the linear system, block by block.

Signals are put on a grid and filtered, the regressor is evaluated or projected in blocks that stay
in cache, its base columns and the effort go through the same parallel decimation, and rows in the
dead zone are marked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from ..base_parameters import BaseStructure
from ..data.recording import Samples
from ..errors import one_of, RecordingError, SettingsError
from ..progress import part, Progress
from ..regressor import Regressor
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
from .irls import Repair
from .plot_samples import TRACE_ROWS
from .qr_accumulator import accumulate
from .row_block import RowBlock, RowReader
from .system import combine, LinearSystem
from .time_blocks import BlockCollector

BLOCK_SAMPLES = 512
"""Samples that the regressor is evaluated at in one call."""

JOINT_SYMBOLS = ('Ia', 'fv', 'fc', 'ts', 'tsc', 'off', 'fr', 'fl')
"""Symbols of parameters that are named after their joint, joint by joint."""


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
        stretch: _Stretch | None = None
        for samples in blocks:
            for start in range(0, len(samples), BLOCK_SAMPLES):
                piece = samples.rows(start, start + BLOCK_SAMPLES)
                if stretch is None:
                    stretch = _Stretch(
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


def system_of(
    sources: RecordingSource | Sequence[RecordingSource],
    regressor: Regressor,
    structure: BaseStructure,
    signals: SignalSettings,
    *,
    progress: Progress | None = None,
    trace_points: int = TRACE_ROWS,
    read: RowReader | None = None,
    names: tuple[str, ...] | None = None,
    timed: bool = False,
) -> LinearSystem:
    """
    Build the linear system of one or several recordings in one pass over each.

    Parameters
    ----------
    sources, regressor, structure, signals:
        As for `row_blocks`; several recordings are merged.
    progress:
        Told the share of the recordings that is done, and the seconds that are read.
    trace_points:
        Bound on the rows that are kept for plots, for each recording.
    read:
        Reads the rows; None for `row_blocks`.
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
    several: Sequence = sources if isinstance(sources, (list, tuple)) else [sources]
    driven = driven_rows(regressor) if names is None else None

    def systems() -> Iterator[LinearSystem]:
        for number, source in enumerate(several):
            require_order(source, structure, regressor)
            blocks = (read or row_blocks)(source, regressor, structure, signals)
            if progress is not None:
                told = part(progress, number / len(several), (number + 1) / len(several))
                blocks = _reporting(blocks, source, told)
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

    return combine(systems())


def driven_rows(regressor: Regressor) -> np.ndarray:
    """
    Tell which rows of a sample have an effort.

    Returns
    -------
    np.ndarray
        (n_joints,) bool; False for the links of elastic joints, whose rows are an equilibrium.

    """
    return np.asarray(getattr(regressor, 'driven', np.ones(regressor.n_joints, dtype=bool)))


class _Stretch:
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
        self._start, step = float(first.time[0]), _step(first)
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


def _step(samples: Samples) -> float:
    """Return the step of the time grid [s]; 0 where there is one sample alone."""
    return float(samples.time[-1] - samples.time[0]) / max(1, len(samples) - 1)


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


def _reporting(
    blocks: Iterator[RowBlock], source: RecordingSource, progress: Progress
) -> Iterator[RowBlock]:
    """Pass the blocks on and tell how far they have come, by seconds where the end is unknown."""
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
