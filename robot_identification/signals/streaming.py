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

from collections.abc import Iterator
from dataclasses import dataclass, replace
import warnings

import numpy as np

from ..data.parts import KeptRecording, read_parts
from ..data.recording import Recording, recording_error, RecordingSource, Samples, source_name
from ..data.sampling import CLOCK, GAP, on_grid, sample_rate
from ..errors import IdentificationWarning
from ..options.fields import key_error
from .methods import Method, METHODS
from .polynomial_approximation import KEY
from .settings import SignalSettings

FASTEST = 20.0
"""Times the recorded rate up to which a recording may be resampled."""

BRIDGED = 0.2
"""Gaps up to this share of the cut-off frequency's period are interpolated."""


def stretches(
    source: RecordingSource, settings: SignalSettings, *, driven: np.ndarray | None = None
) -> Iterator[Samples]:
    """
    Turn a recording into samples on a uniform grid, one gap-free stretch after another.

    A recording longer than a part, see `robot_identification.data.parts.PART_POSITIONS`, is
    filtered part by part: what follows is like a stretch after a gap.

    Parameters
    ----------
    source:
        The recording; read once to the end, and not at all where it keeps these samples.
    settings:
        Method, cut-off frequency, rate and trim.
    driven:
        (n_joints,) bool, whose effort has to change; None for all.

    Yields
    ------
    The stretches.  Those that are too short are left out with an `IdentificationWarning`.

    Raises
    ------
    SettingsError
        where the cut-off frequency or the rate do not fit the recording's rate.
    RecordingError
        where the recording is too short, has no velocity though the method needs it, or the effort
        of a joint does not change at all.

    """

    def samples() -> Iterator[Samples]:
        for stretch, method in gridded(source, settings, driven):
            yield method.samples(stretch, settings.ends)

    if not isinstance(source, KeptRecording):
        yield from samples()
        return
    key = filter_key(settings), None if driven is None else tuple(driven.tolist())
    yield from source.samples(key, samples)


def filter_key(settings: SignalSettings) -> SignalSettings:
    """Return settings that are equal if they make the same samples."""
    return replace(settings, dead_zone=0.0, effort_delay=0.0, effort_low_pass=0.0)


def gridded(
    source: RecordingSource, settings: SignalSettings, driven: np.ndarray | None
) -> Iterator[tuple[Recording, Method]]:
    """Iterate over gap-free stretches on a uniform grid, with their filter; see `stretches`."""
    name, plan = source_name(source), None
    longest, left_out = 0, []
    lowest, highest = np.full((2, len(source.joints)), [[np.inf], [-np.inf]])
    for part in read_parts(source):
        plan = plan or _Plan.from_settings(settings, sample_rate(part), name)
        if settings.method == 'measured_velocity' and part.velocity is None:
            text = 'there is no measured velocity, or there is NaN in it'
            remedy = "name its columns, or set 'signals.method' to butterworth"
            raise recording_error(part.source, text, remedy)
        lowest = np.minimum(lowest, part.effort.min(axis=0))
        highest = np.maximum(highest, part.effort.max(axis=0))
        for piece in part.split(plan.gap):
            stretch = on_grid(piece, plan.rate)
            longest = max(longest, len(stretch))
            if len(stretch) >= plan.shortest:
                yield stretch, plan.method
            else:
                left_out.append((float(stretch.time[0]), len(stretch) / plan.rate))
    if plan is None:
        sample_rate(source)  # raises for a recording without samples
    elif longest < plan.shortest:
        reached, needed = longest / plan.rate, plan.shortest / plan.rate
        text = f'its longest stretch without a gap is {reached:.4g} s long, filtering takes'
        windowed = settings.method == 'polynomial_approximation'
        key = f'shorten {KEY}.window' if windowed else 'raise signals.cutoff or lower signals.trim'
        remedy = f'record for longer, {key}'
        raise recording_error(name, f'{text} {needed:.4g} s', remedy, value=reached)
    else:
        _check_efforts(name, source.joints, lowest, highest, driven)
        if left_out:
            _warn_left_out(name, left_out, plan.shortest / plan.rate)


def process(source: RecordingSource, settings: SignalSettings) -> Samples:
    """Turn a recording into samples, all in memory, one stretch after another; see `stretches`."""
    found = list(stretches(source, settings))
    names = ('position', 'velocity', 'acceleration', 'time', 'effort', 'measured_effort')
    joined = {name: np.concatenate([getattr(s, name) for s in found]) for name in names}
    return Samples(**joined, joints=found[0].joints)


@dataclass(frozen=True)
class _Plan:
    """Method for a rate [Hz], the rows that it takes, and the longest step that is no gap [s]."""

    method: Method
    rate: float
    shortest: int
    gap: float

    @classmethod
    def from_settings(cls, settings: SignalSettings, recorded: float, name: str) -> _Plan:
        """Plan for a recorded rate [Hz]; raises SettingsError for settings that do not fit it."""
        _check_rates(settings, recorded, name)
        rate = recorded if settings.sample_rate is None else settings.sample_rate
        method = METHODS[settings.method](settings, rate)
        # within a fraction of the filter's time a gap hides nothing that the filter would keep
        windowed = settings.method == 'polynomial_approximation'
        bridged = 0.0 if windowed else BRIDGED / settings.cutoff
        return cls(method, rate, method.needed(settings.ends), max(GAP / recorded, bridged))


def _check_efforts(
    name: str,
    joints: tuple[str, ...],
    lowest: np.ndarray,
    highest: np.ndarray,
    driven: np.ndarray | None,
) -> None:
    """Raise where the effort of a driven joint has the same value throughout."""
    dead = (lowest == highest) & (True if driven is None else driven)
    if dead.any():
        joint, value = joints[int(dead.argmax())], float(lowest[dead.argmax()])
        text = f"effort of joint '{joint}' is {value:g} throughout"
        remedy = 'the driver does not report it: record efforts, or leave the joint out'
        raise recording_error(name, text, remedy, joint=joint, value=value)


def _check_rates(settings: SignalSettings, recorded: float, name: str) -> None:
    wanted, remedy = settings.sample_rate, ''
    if wanted is not None and wanted < 0.95 * recorded:
        remedy = 'it is there for resampling; use signals.decimate_to to come to a lower rate'
    elif wanted is not None and wanted > FASTEST * recorded:
        remedy = 'a rate far above the recorded one adds nothing: leave it at null'
    if remedy:
        text = f'is {wanted:g} Hz, {name} was recorded at {recorded:.6g} Hz'
        raise key_error('signals.sample_rate', text, remedy, file=name, value=wanted)
    if settings.method != 'polynomial_approximation' and settings.cutoff >= 0.5 * recorded:
        cutoff, remedy = settings.cutoff, 'lower the cut-off frequency'
        if recorded <= CLOCK.slowest_rate:
            remedy = (
                'time stamps have to be in seconds; these may be in milliseconds or nanoseconds'
            )
        text = f'is {cutoff:g} Hz, {name} has nothing above {0.5 * recorded:.6g} Hz, half its'
        raise key_error('signals.cutoff', f'{text} sampling rate', remedy, file=name, value=cutoff)


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
