# SPDX-License-Identifier: Apache-2.0
"""
Methods that find velocities and accelerations from measured positions.

Each turns a gap-free stretch into position, velocity and acceleration at the same instants.
Central differences are of fourth order: at a hundredth of the sampling rate their gain is off by
5e-7 for the velocity and 2e-7 for the acceleration, where those of second order are off by 7e-4
and, run twice, 1.3e-3.

Differences are taken before the low-pass filter: those of neighbours are exact, and differences of
filtered positions would multiply the filter's rounding errors, at 5 kHz by 1e8.  Both ends of a
stretch are continued by their odd extension.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
import math

import numpy as np
from numpy.polynomial import legendre
import scipy

from ..data.recording import Recording, Samples
from ..options.fields import key_error
from .settings import SignalSettings
from .windows import fir_response, Windows

_MARGIN = 2
"""Rows that a central difference reaches to both sides."""

# central differences of fourth order, by first and by second differences of neighbours
_OF_STEPS = np.array([-1.0, 7.0, 7.0, -1.0]) / 12.0
_OF_BENDS = np.array([-1.0, 14.0, -1.0]) / 12.0

_PAD_PERIODS = 2.0
"""Periods of the cut-off frequency by which a stretch is continued at each end."""

_ROUNDING = 1e-15
"""Step of a position that is none [rad, m]."""


@dataclass(frozen=True)
class _RowByRow(ABC):
    """Method that has a result for every row; ``shortest`` is the least number that it takes."""

    rate: float
    shortest: int

    def needed(self, trim: float) -> int:
        """Return the smallest number of rows that leaves some, with ``trim`` [s] cut at ends."""
        return max(self.shortest, 2 * round(trim * self.rate) + 1)

    @abstractmethod
    def motion(
        self, position: np.ndarray, velocity: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return position, velocity and acceleration of one joint, (n,) each, by measured ones."""

    def smoothed(self, signals: np.ndarray) -> np.ndarray:
        """Return (n, k) signals, smoothed as positions are."""
        return np.stack([self.motion(signal, None)[0] for signal in signals.T], axis=1)

    def samples(self, stretch: Recording, trim: float) -> Samples:
        """Return the samples of a stretch on a uniform grid, with ``trim`` [s] cut at its ends."""
        motion = np.empty((3, *stretch.position.shape))
        for j, position in enumerate(stretch.position.T):
            measured = None if stretch.velocity is None else stretch.velocity[:, j]
            motion[:, :, j] = self.motion(position, measured)
        # at rest nothing but rounding is left, whose sign would be that of friction
        motion[1][np.abs(motion[1]) < _ROUNDING * self.rate] = 0.0
        trimmed = round(trim * self.rate)
        inner = slice(trimmed, len(stretch) - trimmed)
        effort = stretch.effort[inner]
        position, velocity, acceleration = motion[:, inner]
        return Samples(
            position,
            velocity,
            acceleration,
            time=stretch.time[inner],
            effort=effort,
            measured_effort=effort,
            joints=stretch.joints,
        )


@dataclass(frozen=True)
class LowPass(_RowByRow):
    """
    Butterworth forward and backward, and central differences.

    If ``measured``, the velocity is measured and filtered like the position, or else found from
    it.  ``sections`` are those of `scipy.signal.butter`; as many rows as it takes, but one, are
    added at both ends.
    """

    sections: np.ndarray
    measured: bool

    @classmethod
    def from_settings(cls, settings: SignalSettings, rate: float) -> LowPass:
        """Make the method for a sampling rate [Hz]."""
        pad = max(_MARGIN, math.ceil(_PAD_PERIODS * rate / settings.cutoff))
        sections = scipy.signal.butter(settings.order, settings.cutoff, fs=rate, output='sos')
        return cls(rate, pad + 1, sections, settings.method == 'measured_velocity')

    @property
    def span(self) -> float:
        """Time that the result of one sample depends on [s]."""
        return math.inf

    def motion(
        self, position: np.ndarray, velocity: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return position, velocity and acceleration of one joint, (n,) each."""
        # differences of a signal's odd extension extend themselves: first ones even, second odd
        smooth = partial(scipy.signal.sosfiltfilt, self.sections, padlen=self.shortest - 1)
        signal = velocity if self.measured and velocity is not None else position
        steps = np.diff(_extended(signal, _MARGIN)) * self.rate
        first = smooth(np.correlate(steps, _OF_STEPS), padtype='even')
        if self.measured:
            return smooth(position), smooth(signal), first
        bends = np.diff(steps) * self.rate
        return smooth(position), first, smooth(np.correlate(bends, _OF_BENDS))

    def smoothed(self, signals: np.ndarray) -> np.ndarray:
        """Return (n, k) signals, smoothed as positions are, at once."""
        found = scipy.signal.sosfiltfilt(self.sections, signals, axis=0, padlen=self.shortest - 1)
        return np.asarray(found)

    def response(self, frequency: np.ndarray) -> np.ndarray:
        """Return complex amplitudes (4, f) of the signals for a sine of amplitude 1."""
        _, once = scipy.signal.sosfreqz(self.sections, frequency, fs=self.rate)
        both = np.abs(once) ** 2
        first = np.convolve(_OF_STEPS, [-1.0, 1.0]) * self.rate
        second = np.convolve(_OF_BENDS, [1.0, -2.0, 1.0]) * self.rate**2
        places = np.arange(-_MARGIN, _MARGIN + 1)
        steps = fir_response(np.array([first, second]), places, self.rate, frequency)
        velocity, acceleration = (1.0, steps[0]) if self.measured else steps
        return np.array([both, both * velocity, both * acceleration, np.ones_like(both)])


def _extended(signal: np.ndarray, rows: int) -> np.ndarray:
    """Continue both ends of a signal by its odd extension."""
    return np.pad(signal, rows, mode='reflect', reflect_type='odd')


@dataclass(frozen=True)
class LocalPolynomial(_RowByRow):
    """
    Savitzky-Golay: value and derivatives of polynomials fitted to a sliding window.

    ``kernels`` (3, 2 h + 1) are weights of its samples in position, velocity and acceleration.
    """

    kernels: np.ndarray

    @classmethod
    def from_settings(cls, settings: SignalSettings, rate: float) -> LocalPolynomial:
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
        kernels = [_local_fit(half, degree, d) * rate**d for d in range(3)]
        return cls(rate, half + 1, np.array(kernels))

    @property
    def _half(self) -> int:
        return self.kernels.shape[1] // 2

    @property
    def span(self) -> float:
        """Time that the result of one sample depends on [s]."""
        return 2 * self._half / self.rate

    def motion(
        self, position: np.ndarray, velocity: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return position, velocity and acceleration of one joint, (n,) each."""
        # what remains of the first row keeps a large constant part out of the rounding
        extended = _extended(position - position[0], self._half)
        smooth, first, second = (np.correlate(extended, kernel) for kernel in self.kernels)
        return smooth + position[0], first, second

    def response(self, frequency: np.ndarray) -> np.ndarray:
        """Return complex amplitudes (4, f) of the signals for a sine of amplitude 1."""
        places = np.arange(-self._half, self._half + 1)
        filtered = fir_response(self.kernels, places, self.rate, frequency)
        return np.concatenate((filtered, np.ones((1, frequency.size))))


def _local_fit(half: int, degree: int, derivative: int) -> np.ndarray:
    """
    Weights (2 half + 1,) of samples in the derivative of their polynomial fit, in the middle.

    Fitted by powers, as `scipy.signal.savgol_coeffs` does, weights of a second derivative sum up
    to as much as 3e-8/s^2, depending on the processor; by Legendre polynomials to 1e-12/s^2.
    """
    places = np.arange(-half, half + 1) / half
    fit = legendre.legfit(places, np.eye(places.size), degree)
    return np.asarray(legendre.legval(0.0, legendre.legder(fit, derivative)) / half**derivative)


def _half_window(cutoff: float, degree: int) -> int | None:
    """Half window with -3 dB nearest to ``cutoff`` (in sampling rates), None for none."""

    def gain(half: int) -> float:
        phases = 2.0 * np.pi * cutoff * np.arange(-half, half + 1)
        return float(_local_fit(half, degree, 0) @ np.cos(phases))

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
ends.  ``samples(stretch, trim)`` turns a stretch on a uniform grid into samples.
``response(frequency)`` are the complex amplitudes (4, f) of the signals for a sine of amplitude 1.
``span`` is the time that the result of one sample depends on [s], infinite for recursive filters.
"""

METHODS: dict[str, Callable[[SignalSettings, float], Method]] = {
    'butterworth': LowPass.from_settings,
    'measured_velocity': LowPass.from_settings,
    'savitzky_golay': LocalPolynomial.from_settings,
    'polynomial_approximation': Windows.from_settings,
}
"""How each of `robot_identification.signals.settings.METHODS` is made for a sampling rate."""
