# SPDX-License-Identifier: Apache-2.0
"""
Recordings to samples: position, velocity and acceleration that belong to one instant.

Positions (and measured velocities) are smoothed without phase and differentiated by central
differences of fourth order, so that the differences add neither delay nor attenuation below the
cut-off frequency.  Efforts stay as they were measured: what is filtered on both sides of the
equation is filtered later, by the parallel decimation.  The polynomial approximation filters both
sides from the start: see `windows`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, groupby
import warnings

import numpy as np

from ..data.recording import RecordingSource, Samples, source_name
from ..data.sampling import begun, grid_blocks
from ..errors import IdentificationWarning, RecordingError, SettingsError
from .methods import METHODS
from .polynomial_approximation import KEY
from .settings import SignalSettings

FASTEST = 20.0
"""Times the recorded rate up to which a recording may be resampled."""

BRIDGED = 0.2
"""Gaps up to this share of the cut-off frequency's period are interpolated."""

SLOWEST = 2.0
"""Rate below which time stamps are hardly in seconds [Hz]."""


def stream(
    source: RecordingSource, settings: SignalSettings, *, block: int = 16384
) -> Iterator[Samples]:
    """
    Turn a recording into samples on a uniform grid, block by block.

    Blocks of one stretch join without seam, and the blocks' size makes no difference beyond
    rounding; a gap in the stamps starts a new stretch.  See `stretches`.
    """
    for stretch in stretches(source, settings, block=block):
        yield from stretch


def stretches(
    source: RecordingSource,
    settings: SignalSettings,
    *,
    block: int = 16384,
    driven: np.ndarray | None = None,
) -> Iterator[Iterator[Samples]]:
    """
    Turn a recording into samples, one gap-free stretch after another.

    Parameters
    ----------
    source:
        The recording; read once to the end.
    settings:
        Method, cut-off frequency, rate and trim.
    block:
        Rows of a block (fewer where windows of the polynomial approximation are apart by a
        stride); the last of a stretch may be shorter.
    driven:
        (n_joints,) bool, whose effort has to change; None for all.

    Yields
    ------
    The blocks of a stretch as an iterator, to be used up before the next one.
    Stretches that are too short are left out with an `IdentificationWarning`.

    Raises
    ------
    SettingsError
        where the cut-off frequency or the rate do not fit the recording's rate.
    RecordingError
        where the recording is too short, has no velocity though the method needs it, or the effort
        of a joint does not change at all.

    """
    name = source_name(source)
    source = begun(source, block)
    recorded = source.rate
    rate = recorded if settings.sample_rate is None else settings.sample_rate
    _check_rates(settings, recorded, name)
    method = METHODS[settings.method](settings, rate)
    shortest = method.needed(settings.trim)
    tally, left_out = _Tally(len(source.joints)), []
    windowed = settings.method == 'polynomial_approximation'
    grid = grid_blocks(
        source,
        rate,
        recorded,
        velocity=settings.method == 'measured_velocity',
        block=block,
        # within a fraction of the filter's time a gap hides nothing that the filter would keep
        bridged=0.0 if windowed else BRIDGED / settings.cutoff,
    )
    for _, parts in groupby(grid, key=lambda part: part.stretch):
        first = next(parts)
        values = tally.watch(part.values for part in chain((first,), parts))
        yield method.samples(values, first.start, source.joints, trim=settings.trim, block=block)
        if tally.rows < shortest:
            left_out.append((first.start, tally.rows / rate))
    if tally.longest < shortest:
        raise RecordingError(
            f'{name}: its longest stretch without a gap is {tally.longest / rate:.4g} s long, '
            f'filtering takes {shortest / rate:.4g} s',
            file=name,
            value=tally.longest / rate,
            remedy='record for longer, '
            + (
                f'shorten {KEY}.window'
                if windowed
                else 'raise signals.cutoff or lower signals.trim'
            ),
        )
    tally.check_efforts(name, source.joints, driven)
    if left_out:
        _warn_left_out(name, left_out, shortest / rate)


def process(source: RecordingSource, settings: SignalSettings) -> Samples:
    """Turn a recording into samples, all in memory, one stretch after another; see `stretches`."""
    blocks = list(stream(source, settings))
    names = ('position', 'velocity', 'acceleration', 'time', 'effort', 'measured_effort')
    joined = {name: np.concatenate([getattr(b, name) for b in blocks]) for name in names}
    return Samples(**joined, joints=blocks[0].joints)


class _Tally:
    """Keeps count of a recording's rows and of the range of its efforts."""

    def __init__(self, n_joints: int) -> None:
        self.rows = 0
        self.longest = 0
        self._n_joints = n_joints
        self._low = np.full(n_joints, np.inf)
        self._high = np.full(n_joints, -np.inf)

    def watch(self, blocks: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
        """Let the rows of a new stretch, whose last columns are the efforts, pass."""
        self.rows = 0
        for block in blocks:
            if len(block):
                efforts = block[:, -self._n_joints :]
                self._low = np.minimum(self._low, efforts.min(axis=0))
                self._high = np.maximum(self._high, efforts.max(axis=0))
                self.rows += len(block)
                self.longest = max(self.longest, self.rows)
            yield block

    def check_efforts(
        self, name: str, joints: tuple[str, ...], driven: np.ndarray | None = None
    ) -> None:
        """Raise where the effort of a driven joint has the same value throughout."""
        driven = np.ones(len(joints), dtype=bool) if driven is None else driven
        for joint, low, high, moved in zip(joints, self._low, self._high, driven, strict=True):
            if low == high and moved:
                raise RecordingError(
                    f"{name}: effort of joint '{joint}' is {low:g} throughout",
                    file=name,
                    joint=joint,
                    value=float(low),
                    remedy='the driver does not report it: record efforts, or leave the joint out',
                )


def _check_rates(settings: SignalSettings, recorded: float, name: str) -> None:
    wanted, remedy = settings.sample_rate, ''
    if wanted is not None and wanted < 0.95 * recorded:
        remedy = 'it is there for resampling; use signals.decimate_to to come to a lower rate'
    elif wanted is not None and wanted > FASTEST * recorded:
        remedy = 'a rate far above the recorded one adds nothing: leave it at null'
    if remedy:
        raise SettingsError(
            f"'signals.sample_rate' is {wanted:g} Hz, {name} was recorded at {recorded:.6g} Hz",
            key='signals.sample_rate',
            file=name,
            value=wanted,
            remedy=remedy,
        )
    if settings.method != 'polynomial_approximation' and settings.cutoff >= 0.5 * recorded:
        raise SettingsError(
            f"'signals.cutoff' is {settings.cutoff:g} Hz, {name} has nothing above "
            f'{0.5 * recorded:.6g} Hz, half its sampling rate',
            key='signals.cutoff',
            file=name,
            value=settings.cutoff,
            remedy='lower the cut-off frequency'
            if recorded > SLOWEST
            else 'time stamps have to be in seconds; these may be in milliseconds or nanoseconds',
        )


def _warn_left_out(name: str, pieces: list[tuple[float, float]], needed: float) -> None:
    start, duration = pieces[0]
    more = f' and {len(pieces) - 1} more' if len(pieces) > 1 else ''
    warnings.warn(
        IdentificationWarning(
            f'{name}: {duration:.4g} s from {start:.6g} s on{more}, between gaps, are left out: '
            f'filtering takes {needed:.4g} s'
        ),
        stacklevel=3,
    )
