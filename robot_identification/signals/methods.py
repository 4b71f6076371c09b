# SPDX-License-Identifier: Apache-2.0
"""
Zero-phase smoothing of a stretch of samples, block by block.

The Butterworth filter runs forward, whose state carries over from block to block exactly, and then
backward.  The backward run of a block starts a halo later, where the wrong initial state has died
out to rounding; so the blocks give what one run over the whole stretch gives.  Both ends of the
stretch are continued by their odd extension, as `scipy.signal.sosfiltfilt` does.

A second derivative at 5 kHz multiplies rounding errors by 1e8, and a recursive filter with a low
cut-off frequency has more of them than one.  So smoothed rows are extended-precision numbers until
they have been differentiated (where the platform has them; elsewhere this costs some digits).

The ways from measured positions to velocities and accelerations.

Each turns the rows of a gap-free stretch, block by block, into position, velocity and acceleration
at the same instants.  Central differences are of fourth order: at a hundredth of the sampling rate
their gain is off by 5e-7 for the velocity and 2e-7 for the acceleration, where those of second
order are off by 7e-4 and, run twice, 1.3e-3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
import math
from typing import NamedTuple, Protocol
import warnings

import numpy as np
import scipy
from scipy.ndimage import correlate1d

from ..errors import SettingsError
from .settings import SignalSettings
from .windows import Windows

MARGIN = 2
"""Rows beyond both ends that smoothed blocks have, for central differences."""

_PAD_PERIODS = 2.0  # of the cut-off frequency: what is continued beyond an end
_FORGOTTEN = 37.0  # natural logarithm of what a wrong initial state has to lose: 1e16


@dataclass(frozen=True)
class Butterworth:
    """
    A Butterworth low-pass filter that is run forward and backward.

    Attributes
    ----------
    sections:
        (n_sections, 6) second-order sections of one pass.
    pad:
        Rows by which a stretch is continued at each end.
    halo:
        Rows after which a wrong initial state is forgotten.
    steady:
        (n_sections, 2, 1) state of one pass after a constant of 1.

    """

    sections: np.ndarray
    pad: int
    halo: int
    steady: np.ndarray

    @classmethod
    def design(cls, cutoff: float, order: int, rate: float) -> Butterworth:
        """
        Design the filter.

        Parameters
        ----------
        cutoff:
            Where each pass has -3 dB [Hz].
        order:
            Order of each pass.
        rate:
            Sampling rate [Hz].

        """
        return _design(cutoff, order, rate)

    @property
    def shortest(self) -> int:
        """Smallest number of rows that can be filtered."""
        return self.pad + 1


@lru_cache(maxsize=64)
def _design(cutoff: float, order: int, rate: float) -> Butterworth:
    # many short recordings have one filter
    zeros, poles, gain = scipy.signal.butter(order, cutoff, fs=rate, output='zpk')
    sections = scipy.signal.zpk2sos(zeros, poles, gain)
    slowest = -math.log(max(np.abs(poles)))
    pad = max(MARGIN, math.ceil(_PAD_PERIODS * rate / cutoff))
    steady = scipy.signal.sosfilt_zi(sections)[:, :, None]
    for array in (sections, steady):
        array.setflags(write=False)
    return Butterworth(sections, pad, math.ceil(_FORGOTTEN / slowest), steady)


def smooth(
    blocks: Iterator[np.ndarray], n_smoothed: int, design: Butterworth
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """
    Filter the first columns of a stretch and keep the others in step.

    Parameters
    ----------
    blocks:
        (n_rows, n_columns) consecutive rows of the stretch, on a uniform grid.
    n_smoothed:
        Number of leading columns that are filtered.
    design:
        The filter.

    Yields
    ------
    Pairs of ``(m + 2 MARGIN, n_smoothed)`` filtered rows (extended precision), from `MARGIN` rows
    before to `MARGIN` rows behind the ``(m, n_columns - n_smoothed)`` rows of the other columns.
    Nothing where the stretch is shorter than ``design.shortest``.

    """
    others: list[np.ndarray] = []
    smoothed: np.ndarray = np.empty((0, n_smoothed), dtype=np.longdouble)
    for part in _forward_backward(_without_others(blocks, n_smoothed, others), design):
        smoothed = np.concatenate((smoothed, part))
        n_rows = len(smoothed) - 2 * MARGIN
        if n_rows > 0:
            yield smoothed, _take(others, n_rows)
            smoothed = smoothed[n_rows:]


def window_products(
    blocks: Iterator[np.ndarray], n_smoothed: int, kernels: np.ndarray
) -> Iterator[tuple[list[np.ndarray], np.ndarray]]:
    """
    Weight a sliding window around each row, and keep the other columns in step.

    Parameters
    ----------
    blocks:
        (n_rows, n_columns) consecutive rows of the stretch, on a uniform grid.
    n_smoothed:
        Number of leading columns that are weighted.
    kernels:
        (k, 2 h + 1) weights of the rows from h before to h behind; those of the first kernel sum
        to 1, those of the others to 0.

    Yields
    ------
    Pairs of k arrays ``(m, n_smoothed)`` and the ``(m, n_columns - n_smoothed)`` rows of the other
    columns.  Nothing where the stretch has not more than h rows.

    """
    half = kernels.shape[1] // 2
    others: list[np.ndarray] = []
    blocks = _without_others(blocks, n_smoothed, others)
    head = _at_least(blocks, half + 1)
    if len(head) <= half:
        return
    offset = head[0].copy()
    rows = head - offset
    rows = np.concatenate((-rows[half:0:-1], rows))
    for block in chain(blocks, (None,)):
        if block is None:
            beyond = 2.0 * rows[-1] - rows[-2 : -half - 2 : -1]
            rows = np.concatenate((rows, beyond))
        else:
            rows = np.concatenate((rows, block - offset))
        n_rows = len(rows) - 2 * half
        if n_rows > 0:
            parts = [
                correlate1d(rows, kernel, axis=0, mode='nearest')[half : half + n_rows]
                for kernel in kernels
            ]
            yield [parts[0] + offset, *parts[1:]], _take(others, n_rows)
            rows = rows[n_rows:]


def _without_others(
    blocks: Iterator[np.ndarray], n_smoothed: int, others: list[np.ndarray]
) -> Iterator[np.ndarray]:
    for block in blocks:
        others.append(block[:, n_smoothed:])
        yield block[:, :n_smoothed]


def _take(queue: list[np.ndarray], n_rows: int) -> np.ndarray:
    """Take the first rows out of a queue of blocks."""
    taken = []
    while n_rows > 0:
        head = queue.pop(0)
        taken.append(head[:n_rows])
        if len(head) > n_rows:
            queue.insert(0, head[n_rows:])
        n_rows -= len(taken[-1])
    return np.concatenate(taken)


def _forward_backward(blocks: Iterator[np.ndarray], design: Butterworth) -> Iterator[np.ndarray]:
    """Filter, in parts, from `MARGIN` rows before the first to `MARGIN` behind the last."""
    pad, halo = design.pad, design.halo
    head = _at_least(blocks, design.shortest)
    if len(head) < design.shortest:
        return
    # filtering what remains of the first row keeps a large constant part out of the rounding
    offset = head[0].copy()
    rows = (head - offset).astype(np.longdouble)
    sections = design.sections.astype(np.longdouble)
    extended = np.concatenate((-rows[pad:0:-1], rows))
    passed, state = _sosfilt(sections, extended, design.steady * extended[0])
    skip = pad - MARGIN
    tail = rows[-pad - 1 :]
    pending = [passed]
    n_pending = len(passed)
    for block in blocks:
        if len(block) == 0:
            continue
        rows = (block - offset).astype(np.longdouble)
        passed, state = _sosfilt(sections, rows, state)
        tail = np.concatenate((tail, rows[-pad - 1 :]))[-pad - 1 :]
        pending.append(passed)
        n_pending += len(passed)
        if n_pending >= 5 * halo + skip:
            buffer = np.concatenate(pending)
            yield _backward(buffer, design)[skip:-halo] + offset
            pending, n_pending, skip = [buffer[-halo:]], halo, 0
    beyond = 2.0 * tail[-1] - tail[-2::-1]
    passed, _ = _sosfilt(sections, beyond, state)
    filtered = _backward(np.concatenate((*pending, passed)), design)
    yield filtered[skip : len(filtered) - pad + MARGIN] + offset


def _sosfilt(
    sections: np.ndarray, rows: np.ndarray, zi: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Filter along the rows; SciPy 1.15 and 1.16 announce an end of extended precision."""
    with warnings.catch_warnings():
        warnings.simplefilter('ignore', DeprecationWarning)
        return scipy.signal.sosfilt(sections, rows, axis=0, zi=zi)


def _backward(rows: np.ndarray, design: Butterworth) -> np.ndarray:
    sections = design.sections.astype(np.longdouble)
    back, _ = _sosfilt(sections, rows[::-1], design.steady * rows[-1])
    return back[::-1]


def _at_least(blocks: Iterator[np.ndarray], n_rows: int) -> np.ndarray:
    """Join the first blocks until there are ``n_rows`` rows, or all."""
    parts, count = [], 0
    for block in blocks:
        parts.append(block)
        count += len(block)
        if count >= n_rows:
            break
    return np.concatenate(parts)


_FIRST = (1.0, -8.0, 0.0, 8.0, -1.0)  # twelfths
_SECOND = (-1.0, 16.0, -30.0, 16.0, -1.0)  # twelfths

# the same, by first and by second differences of neighbours
_OF_STEPS = -np.cumsum(_FIRST)[:-1] / 12.0
_OF_BENDS = np.cumsum(np.cumsum(_SECOND))[:-2] / 12.0


class Rows(NamedTuple):
    """(m, n_joints) position, velocity, acceleration and measured effort at the same instants."""

    position: np.ndarray
    velocity: np.ndarray
    acceleration: np.ndarray
    effort: np.ndarray


class Method(Protocol):
    """
    A way to find velocities and accelerations.

    Attributes
    ----------
    shortest:
        Smallest number of rows that it can work on.

    """

    @property
    def shortest(self) -> int:
        """Smallest number of rows that it can work on."""
        ...

    def rows(self, blocks: Iterator[np.ndarray], n_joints: int) -> Iterator[Rows]:
        """Turn the rows of a stretch (position, velocity if needed, effort) into `Rows`."""
        ...


@dataclass(frozen=True)
class LowPass:
    """
    Butterworth forward and backward, then central differences.

    Attributes
    ----------
    design:
        The filter.
    period:
        Sampling period [s].
    measured_velocity:
        Whether the velocity is measured and filtered like the position, or found from it.

    """

    design: Butterworth
    period: float
    measured_velocity: bool

    @classmethod
    def from_position(cls, settings: SignalSettings, rate: float) -> LowPass:
        """Differentiate the filtered position twice."""
        return cls(Butterworth.design(settings.cutoff, settings.order, rate), 1.0 / rate, False)

    @classmethod
    def from_velocity(cls, settings: SignalSettings, rate: float) -> LowPass:
        """Differentiate the filtered measured velocity once."""
        return cls(Butterworth.design(settings.cutoff, settings.order, rate), 1.0 / rate, True)

    @property
    def shortest(self) -> int:
        """Smallest number of rows that can be filtered."""
        return self.design.shortest

    def rows(self, blocks: Iterator[np.ndarray], n_joints: int) -> Iterator[Rows]:
        """See `Method`."""
        n_smoothed = (2 if self.measured_velocity else 1) * n_joints
        for smoothed, effort in smooth(blocks, n_smoothed, self.design):
            inner = smoothed[MARGIN:-MARGIN].astype(float)
            steps = np.diff(smoothed, axis=0)
            if self.measured_velocity:
                position, velocity = inner[:, :n_joints], inner[:, n_joints:]
                acceleration = _weighted(steps[:, n_joints:], _OF_STEPS) / self.period
            else:
                position = inner
                velocity = _weighted(steps, _OF_STEPS) / self.period
                acceleration = _weighted(np.diff(steps, axis=0), _OF_BENDS) / self.period**2
            yield Rows(position, velocity, acceleration, effort)


def _weighted(rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """
    Weight sliding windows of steps or bends.

    The difference of neighbours, exact in extended precision, has lost nothing as a double.
    """
    rows = rows.astype(float)
    n_rows = len(rows) - len(weights) + 1
    total = weights[0] * rows[:n_rows]
    for k, weight in enumerate(weights[1:], 1):
        total += weight * rows[k : k + n_rows]
    return np.asarray(total)


def central_differences() -> tuple[np.ndarray, np.ndarray]:
    """Return the weights of five samples in the first and second derivative, for period 1."""
    return np.array(_FIRST) / 12.0, np.array(_SECOND) / 12.0


@dataclass(frozen=True)
class LocalPolynomial:
    """
    Savitzky-Golay: value and derivatives of polynomials fitted to a sliding window.

    Attributes
    ----------
    kernels:
        (3, 2 h + 1) weights of a window's samples in position, velocity and acceleration.

    """

    kernels: np.ndarray

    @classmethod
    def design(cls, settings: SignalSettings, rate: float) -> LocalPolynomial:
        """
        Choose the window whose smoothing has -3 dB nearest to the cut-off frequency.

        Parameters
        ----------
        settings:
            ``order`` is the polynomial's degree.
        rate:
            Sampling rate [Hz].

        Raises
        ------
        SettingsError
            where the degree has no acceleration, or no window is short enough.

        """
        degree = settings.order
        if degree < 2:
            raise SettingsError(
                f"'signals.order' is {degree}",
                key='signals.order',
                value=degree,
                remedy='an acceleration takes polynomials of degree 2 or more',
            )
        half = _half_window(settings.cutoff / rate, degree)
        if half is None:
            raise SettingsError(
                f"'signals.cutoff' is {settings.cutoff:g} Hz, too high for a polynomial of degree "
                f'{degree} at {rate:.6g} Hz',
                key='signals.cutoff',
                value=settings.cutoff,
                remedy='lower it, or lower signals.order',
            )
        kernels = [
            scipy.signal.savgol_coeffs(2 * half + 1, degree, deriv, delta=1.0 / rate, use='dot')
            for deriv in range(3)
        ]
        return cls(np.array(kernels))

    @property
    def shortest(self) -> int:
        """Smallest number of rows that can be filtered."""
        return self.kernels.shape[1] // 2 + 1

    def rows(self, blocks: Iterator[np.ndarray], n_joints: int) -> Iterator[Rows]:
        """See `Method`."""
        for (position, velocity, acceleration), effort in window_products(
            blocks, n_joints, self.kernels
        ):
            yield Rows(position, velocity, acceleration, effort)


def _half_window(cutoff: float, degree: int) -> int | None:
    """Half window with -3 dB nearest to ``cutoff`` (in sampling rates), None for none."""

    def gain(half: int) -> float:
        taps = scipy.signal.savgol_coeffs(2 * half + 1, degree, use='dot')
        phases = 2.0 * np.pi * cutoff * np.arange(-half, half + 1)
        return float(taps @ np.cos(phases))

    smallest = degree // 2 + 1  # below, the polynomial meets every sample
    # Schafer 2011, "What is a Savitzky-Golay filter?", (5): cut-off against window and degree
    half = max(smallest, round(((degree + 1) / (2.0 * cutoff) + 4.6) / 3.2))
    target = np.sqrt(0.5)
    while half > smallest and gain(half) < target:
        half -= 1
    while gain(half + 1) >= target:
        half += 1
    if gain(half) < target:
        return None
    return half if gain(half) - target <= target - gain(half + 1) else half + 1


def _windows(settings: SignalSettings, rate: float) -> Windows:
    return Windows.design(settings.polynomial_approximation, rate)


METHODS: dict[str, Callable[[SignalSettings, float], Method | Windows]] = {
    'butterworth': LowPass.from_position,
    'measured_velocity': LowPass.from_velocity,
    'savitzky_golay': LocalPolynomial.design,
    'polynomial_approximation': _windows,
}
"""How each of `robot_identification.signals.settings.METHODS` is made for a sampling rate."""
