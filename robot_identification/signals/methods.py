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
from .smoothing import Butterworth, smooth, window_products
from .windows import Windows


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
    measured_velocity:
        Whether the velocity is measured and filtered like the position, or found from it.

    """

    design: Butterworth
    measured_velocity: bool

    @classmethod
    def from_position(cls, settings: SignalSettings, rate: float) -> LowPass:
        """Differentiate the filtered position twice."""
        return cls(Butterworth(settings.cutoff, settings.order, rate), False)

    @classmethod
    def from_velocity(cls, settings: SignalSettings, rate: float) -> LowPass:
        """Differentiate the filtered measured velocity once."""
        return cls(Butterworth(settings.cutoff, settings.order, rate), True)

    @property
    def shortest(self) -> int:
        """Smallest number of rows that can be filtered."""
        return self.design.shortest

    def rows(self, blocks: Iterator[np.ndarray], n_joints: int) -> Iterator[Rows]:
        """See `Method`."""
        n_smoothed = (2 if self.measured_velocity else 1) * n_joints
        for (value, first, second), effort in smooth(blocks, n_smoothed, self.design):
            if self.measured_velocity:
                n = n_joints
                yield Rows(value[:, :n], value[:, n:], first[:, n:], effort)
            else:
                yield Rows(value, first, second, effort)


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
