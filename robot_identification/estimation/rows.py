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
from functools import partial

import numpy as np

from ..data.recording import Samples
from ..errors import one_of, RecordingError
from ..model.friction import FRICTION_SYMBOLS
from ..regressor import FloatingRegressor, Regressor
from ..regressor.base_parameters import BaseStructure
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
from .floating_rows import floating_blocks
from .row_block import BLOCK_SAMPLES, RowBlock

Predict = Callable[[np.ndarray], np.ndarray]
"""From (b,) base parameters to the (k, n) efforts that they predict."""

Repair = Callable[[Predict, np.ndarray, np.ndarray], np.ndarray]
"""
From what predicts the efforts of k samples, (k, n) measured efforts and (k, n) bool, whether the
joint moves, to the (k, n) efforts to go on with.
"""

JOINT_SYMBOLS = ('Ia', *FRICTION_SYMBOLS)
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
        decimate, see `SpikeRepair`; None takes them as they are, as floating bases always do.

    """
    if isinstance(regressor, FloatingRegressor):
        yield from floating_blocks(source, regressor, structure, signals)
        return
    driven = driven_rows(regressor)
    movers = tuple(joint for joint, moves in zip(source.joints, driven, strict=True) if moves)
    zones, delays, low_passes = np.zeros((3, regressor.n_joints))
    for values, key in (
        (zones, 'dead_zone'),
        (delays, 'effort_delay'),
        (low_passes, 'effort_low_pass'),
    ):
        values[driven] = by_joint(signals, key, movers)
    builder = _RowBuilder(
        columns=Projection(regressor, structure.independent),
        signals=signals,
        zones=zones,
        channels=tuple(zip(delays.tolist(), low_passes.tolist(), strict=True)),
        breakaway=getattr(regressor, 'breakaway', None),
        # rows that resampling puts between samples add nothing
        recorded=np.inf if signals.sample_rate is None else sample_rate(source),
        repair=repair,
    )
    for segment, samples in enumerate(stretches(source, signals, driven=driven)):
        yield from builder.blocks(samples, segment)


@dataclass(frozen=True)
class _RowBuilder:
    """
    Builder of the rows of stretches without gaps.

    Attributes
    ----------
    columns:
        Base columns of the regressor.
    signals:
        Decimation.
    zones, channels:
        Dead zone, and (delay, low-pass filter) of the efforts' channel, of each joint.
    breakaway:
        Of each joint's dry friction; None where its direction is the velocity's.
    recorded:
        Rate of the independent samples [Hz].
    repair:
        As in `row_blocks`.

    """

    columns: Projection
    signals: SignalSettings
    zones: np.ndarray
    channels: tuple[tuple[float, float], ...]
    breakaway: np.ndarray | None
    recorded: float
    repair: Repair | None

    def blocks(self, samples: Samples, segment: int) -> Iterator[RowBlock]:
        """Iterate over the rows of a stretch."""
        n, pattern, step = self.zones.size, self.columns.pattern, time_step(samples)
        factor = decimation_factor(self.signals, 1.0 / step) if step > 0.0 else 1
        decimator, channel = ParallelDecimator(factor), self._channel(factor * step)
        independent, count = self._independence(samples, factor, step), 0
        if self.breakaway is not None:
            samples = _with_friction_state(samples, self.breakaway, step)

        def block(rows: np.ndarray, raw: np.ndarray, measured: np.ndarray) -> RowBlock:
            nonlocal count
            index = count + np.arange(rows.shape[1])
            count += rows.shape[1]
            effort, position, velocity = (
                signal.T for signal in rows[pattern.width :].reshape(3, n, -1)
            )
            return RowBlock(
                time=samples.time[0] + index * factor * step,
                position=position,
                velocity=velocity,
                pattern=pattern,
                entries=rows[: pattern.width],
                effort=effort,
                keep=np.abs(velocity) >= self.zones,
                raw_entries=raw,
                raw_effort=measured,
                segment=segment,
                independence=independent,
            )

        for start in range(0, len(samples), BLOCK_SAMPLES):
            piece = samples.rows(start, start + BLOCK_SAMPLES)
            joined = self._rows_of_samples(piece)
            found = block(
                channel.push(decimator.push(joined)),
                joined[: pattern.width],
                piece.measured_effort,
            )
            plain = factor == 1 and channel.half == 0
            if plain and np.array_equal(found.effort, piece.measured_effort):
                found = replace(found, raw_entries=found.entries, raw_effort=found.effort)
            yield found
        rows = channel.push(decimator.finish())
        rows = np.hstack([rows, channel.finish()])
        yield block(rows, np.empty((pattern.width, 0)), np.empty((0, n)))

    def _rows_of_samples(self, samples: Samples) -> np.ndarray:
        """
        Return entries, effort, position and velocity of samples.

        One array goes through one filter: what is done to the effort is done to every column.
        """
        n, pattern = self.zones.size, self.columns.pattern
        joined = np.empty((pattern.width + 3 * n, len(samples)))
        entries = self.columns.entries(samples, joined[: pattern.width])
        effort = samples.effort
        if self.repair is not None:
            moving = np.abs(samples.velocity) >= self.zones
            effort = self.repair(partial(pattern.product, entries), effort, moving)
        for i, signal in enumerate((effort, samples.position, samples.velocity)):
            joined[pattern.width + i * n : pattern.width + (i + 1) * n] = signal.T
        return joined

    def _channel(self, step: float) -> EffortChannel:
        """Return the channel of rows that are so far apart [s]."""
        rate = 1.0 / step if step > 0.0 else 1.0
        kernels = [channel_kernel(delay, low_pass, rate) for delay, low_pass in self.channels]
        widths = np.diff(self.columns.pattern.offsets)
        groups = np.append(
            np.repeat(np.arange(widths.size), widths), np.full(3 * self.zones.size, -1)
        )
        return EffortChannel(kernels, groups)

    def _independence(self, samples: Samples, factor: int, step: float) -> float:
        """Return the number of independent rows that a row counts for."""
        if isinstance(samples, WindowedSamples):
            kernel = samples.operator.value(hold=samples.settings.effort_hold)
            independent = independence(factor, kernel, samples.stride)
        else:
            independent = independence(factor)
        return min(independent, self.recorded * factor * step) if step > 0.0 else independent


def _with_friction_state(samples: Samples, breakaway: np.ndarray, step: float) -> Samples:
    """Add the directions of dry friction, where friction is evaluated."""
    if not isinstance(samples, WindowedSamples):
        state = DryFriction(breakaway, step).push(samples.velocity)
        return replace(samples, friction_state=state)
    raw, dry = samples.raw, DryFriction(breakaway, samples.operator.period)
    return replace(samples, raw=replace(raw, friction_state=dry.push(raw.velocity)))


def time_step(samples: Samples) -> float:
    """Return the step of the time grid [s]; 0 where there is one sample alone."""
    return float(samples.time[-1] - samples.time[0]) / max(1, len(samples) - 1)


def driven_rows(regressor: Regressor) -> np.ndarray:
    """
    Return which rows of a sample have an effort, (n_joints,) bool.

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
