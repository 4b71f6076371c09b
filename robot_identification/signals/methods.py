# SPDX-License-Identifier: Apache-2.0
"""
Methods that find velocities and accelerations from measured positions.

Each turns the rows of a gap-free stretch, block by block, into position, velocity and acceleration
at the same instants.  Central differences are of fourth order: at a hundredth of the sampling rate
their gain is off by 5e-7 for the velocity and 2e-7 for the acceleration, where those of second
order are off by 7e-4 and, run twice, 1.3e-3.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
import math

import numpy as np
import scipy

from ..data.recording import Samples
from ..options.fields import key_error
from .butterworth import Butterworth, joined, MARGIN, smooth
from .settings import SignalSettings
from .windows import fir_response, inner_rows, Windows

_FIRST = np.array([1.0, -8.0, 0.0, 8.0, -1.0]) / 12.0
_SECOND = np.array([-1.0, 16.0, -30.0, 16.0, -1.0]) / 12.0

# the same, by first and by second differences of neighbours
_OF_STEPS = -np.cumsum(12.0 * _FIRST)[:-1] / 12.0
_OF_BENDS = np.cumsum(np.cumsum(12.0 * _SECOND))[:-2] / 12.0

_ROUNDING = 1e-15
"""Step of a position that is none [rad, m]."""


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
    head = joined(blocks, half + 1)
    if len(head) <= half:
        return
    offset = head[0].copy()
    offset[n_smoothed:] = 0.0
    rows = head - offset
    rows = np.concatenate((-rows[half:0:-1], rows))
    for block in chain(blocks, (None,)):
        end = 2.0 * rows[-1] - rows[-2 : -half - 2 : -1] if block is None else block - offset
        rows = np.concatenate((rows, end))
        n_rows = len(rows) - 2 * half
        if n_rows > 0:
            weighted, inner = rows[:, :n_smoothed], slice(half, half + n_rows)
            parts = [
                scipy.ndimage.correlate1d(weighted, kernel, axis=0, mode='nearest')[inner]
                for kernel in kernels
            ]
            yield [parts[0] + offset[:n_smoothed], *parts[1:]], rows[inner, n_smoothed:]
            rows = rows[n_rows:]


@dataclass(frozen=True)
class _RowByRow(ABC):
    """Method that has a result for every row."""

    rate: float

    @property
    @abstractmethod
    def shortest(self) -> int:
        """Smallest number of rows that it can work on."""

    def needed(self, trim: float) -> int:
        """Return the smallest number of rows that leaves some, with ``trim`` [s] cut at ends."""
        return max(self.shortest, 2 * round(trim * self.rate) + 1)

    @abstractmethod
    def rows(self, blocks: Iterator[np.ndarray], n_joints: int) -> Iterator[np.ndarray]:
        """Yield (m, 4 n_joints) position, velocity, acceleration and effort side by side."""

    def samples(
        self,
        blocks: Iterator[np.ndarray],
        start: float,
        joints: tuple[str, ...],
        *,
        trim: float,
        block: int,
    ) -> Iterator[Samples]:
        """Yield samples of a stretch in blocks, with ``trim`` [s] cut at its ends."""
        trimmed, row = round(trim * self.rate), 0
        start += trimmed / self.rate
        inner = inner_rows(self.rows(blocks, len(joints)), trimmed, trimmed)
        for part in _rebatched(inner, block):
            signals = (np.ascontiguousarray(signal) for signal in np.split(part, 4, axis=1))
            position, velocity, acceleration, effort = signals
            # at rest nothing but rounding is left, whose sign would be that of friction
            velocity[np.abs(velocity) < _ROUNDING * self.rate] = 0.0
            time = start + (row + np.arange(len(part))) / self.rate
            yield Samples(
                position=position,
                velocity=velocity,
                acceleration=acceleration,
                time=time,
                effort=effort,
                measured_effort=effort,
                joints=joints,
            )
            row += len(part)


def _rebatched(parts: Iterator[np.ndarray], size: int) -> Iterator[np.ndarray]:
    """Cut rows into blocks of ``size``, the last one of what is left."""
    held: list[np.ndarray] = []
    while len(rows := joined(chain(held, parts), size)):
        for start in range(0, len(rows) - size + 1, size):
            yield rows[start : start + size]
        if len(rows) < size:
            yield rows
            return
        held = [rows[len(rows) - len(rows) % size :]]


@dataclass(frozen=True)
class LowPass(_RowByRow):
    """
    Butterworth forward and backward, then central differences.

    If ``measured_velocity``, the velocity is measured and filtered like the position, or else
    found from it.
    """

    design: Butterworth
    measured_velocity: bool

    @classmethod
    def of(cls, settings: SignalSettings, rate: float) -> LowPass:
        """Make the method for a sampling rate [Hz]."""
        design = Butterworth.design(settings.cutoff, settings.order, rate)
        return cls(rate, design, settings.method == 'measured_velocity')

    @property
    def shortest(self) -> int:
        """Smallest number of rows that can be filtered."""
        return self.design.shortest

    @property
    def span(self) -> float:
        """Time that the result of one sample depends on [s]."""
        return math.inf

    def rows(self, blocks: Iterator[np.ndarray], n_joints: int) -> Iterator[np.ndarray]:
        """Yield (m, 4 n_joints) position, velocity, acceleration and effort side by side."""
        n_smoothed = (2 if self.measured_velocity else 1) * n_joints
        period = 1.0 / self.rate
        for smoothed, steps, effort in smooth(blocks, n_smoothed, self.design):
            # the position, and the measured velocity
            signals = [smoothed]
            if self.measured_velocity:
                signals += [_weighted(steps[:, n_joints:], _OF_STEPS) / period]
            else:
                signals += [_weighted(steps, _OF_STEPS) / period]
                signals += [_weighted(np.diff(steps, axis=0), _OF_BENDS) / period**2]
            yield np.hstack([*signals, effort])

    def response(self, frequency: np.ndarray) -> np.ndarray:
        """Return complex amplitudes (4, f) of the signals for a sine of amplitude 1."""
        both = np.abs(self.design.response(frequency, self.rate)) ** 2
        kernels = np.array([_FIRST * self.rate, _SECOND * self.rate**2])
        steps = fir_response(kernels, np.arange(-MARGIN, MARGIN + 1), self.rate, frequency)
        velocity, acceleration = (1.0, steps[0]) if self.measured_velocity else steps
        return np.array([both, both * velocity, both * acceleration, np.ones_like(both)])


def _weighted(rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Weight sliding windows of steps or bends."""
    n_rows = len(rows) - len(weights) + 1
    total = weights[0] * rows[:n_rows]
    for k, weight in enumerate(weights[1:], 1):
        total += weight * rows[k : k + n_rows]
    return np.asarray(total)


@dataclass(frozen=True)
class LocalPolynomial(_RowByRow):
    """
    Savitzky-Golay: value and derivatives of polynomials fitted to a sliding window.

    ``kernels`` (3, 2 h + 1) are weights of its samples in position, velocity and acceleration.
    """

    kernels: np.ndarray

    @classmethod
    def of(cls, settings: SignalSettings, rate: float) -> LocalPolynomial:
        """
        Choose the window whose smoothing has -3 dB nearest to the cut-off frequency.

        ``settings.order`` is the polynomial's degree, ``rate`` the sampling rate [Hz].  Raises
        SettingsError if the degree has no acceleration, or no window is short enough.
        """
        degree = settings.order
        if degree < 2:
            remedy = 'an acceleration takes polynomials of degree 2 or more'
            raise key_error('signals.order', f'is {degree}', remedy, value=degree)
        half = _half_window(settings.cutoff / rate, degree)
        if half is None:
            cutoff, remedy = settings.cutoff, 'lower it, or lower signals.order'
            text = f'is {cutoff:g} Hz, too high for a polynomial of degree {degree} at'
            raise key_error('signals.cutoff', f'{text} {rate:.6g} Hz', remedy, value=cutoff)
        kernels = [
            scipy.signal.savgol_coeffs(2 * half + 1, degree, deriv, delta=1.0 / rate, use='dot')
            for deriv in range(3)
        ]
        return cls(rate, np.array(kernels))

    @property
    def _half(self) -> int:
        return self.kernels.shape[1] // 2

    @property
    def shortest(self) -> int:
        """Smallest number of rows that can be filtered."""
        return self._half + 1

    @property
    def span(self) -> float:
        """Time that the result of one sample depends on [s]."""
        return 2 * self._half / self.rate

    def rows(self, blocks: Iterator[np.ndarray], n_joints: int) -> Iterator[np.ndarray]:
        """Yield (m, 4 n_joints) position, velocity, acceleration and effort side by side."""
        for motion, effort in window_products(blocks, n_joints, self.kernels):
            yield np.hstack([*motion, effort])

    def response(self, frequency: np.ndarray) -> np.ndarray:
        """Return complex amplitudes (4, f) of the signals for a sine of amplitude 1."""
        places = np.arange(-self._half, self._half + 1)
        filtered = fir_response(self.kernels, places, self.rate, frequency)
        return np.concatenate((filtered, np.ones((1, frequency.size))))


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


Method = LowPass | LocalPolynomial | Windows
"""
Method with its parameters, for one sampling rate.

``needed(trim)`` is the smallest number of rows that leaves some with ``trim`` [s] cut at both
ends.  ``samples(blocks, start, joints, trim=, block=)`` turns the rows of a stretch into samples
in blocks; rows have position, velocity if needed, and effort side by side, and the first one is at
``start`` [s].  ``response(frequency)`` are the complex amplitudes (4, f) of the signals for a sine
of amplitude 1.  ``span`` is the time that the result of one sample depends on [s], infinite for
recursive filters.
"""

METHODS: dict[str, Callable[[SignalSettings, float], Method]] = {
    'butterworth': LowPass.of,
    'measured_velocity': LowPass.of,
    'savitzky_golay': LocalPolynomial.of,
    'polynomial_approximation': Windows.of,
}
"""How each of `robot_identification.signals.settings.METHODS` is made for a sampling rate."""
