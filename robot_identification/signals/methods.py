# SPDX-License-Identifier: Apache-2.0
"""
The ways from measured positions to velocities and accelerations.

Each turns the rows of a gap-free stretch, block by block, into position, velocity and acceleration
at the same instants.  Central differences are of fourth order: at a hundredth of the sampling rate
their gain is off by 5e-7 for the velocity and 2e-7 for the acceleration, where those of second
order are off by 7e-4 and, run twice, 1.3e-3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import scipy

from ..errors import SettingsError
from .settings import SignalSettings
from .smoothing import Butterworth, MARGIN, smooth, window_products
from .windows import Windows

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
