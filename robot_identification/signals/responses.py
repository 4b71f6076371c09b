# SPDX-License-Identifier: Apache-2.0
"""
Responses of the methods of signals to sines and to noise.

The frequency response of a method serves to choose its parameters: what it makes of a sine, as a
share of what it should make of it: position, velocity and acceleration of the sine at the moment
of the sample, which is 1 + 0i at all frequencies for a perfect one.  Where the shares of all
signals are equal, the filter cancels out of the equation ``tau = W X``, even if they are not 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .methods import METHODS
from .settings import decimation_factor, SignalSettings

SIGNALS = ('position', 'velocity', 'acceleration', 'effort')

_POINTS = 2048  # frequencies that noise is summed over and cut-offs are looked for
_HALF_POWER = np.sqrt(0.5)


@dataclass(frozen=True)
class FrequencyResponse:
    """
    Response of a method to sines and to noise.

    Attributes
    ----------
    method:
        Name of the method, as in `SignalSettings.method`.
    rate:
        Sampling rate [Hz].
    frequency:
        (f,) [Hz].
    share:
        (4, f) complex, position, velocity, acceleration and effort as shares of the true ones.
    noise:
        (4,) standard deviation of each for white noise of standard deviation 1 in the samples of
        positions (of the measured velocity, where the method takes that) and efforts [1, 1/s,
        1/s^2, 1].
    cutoff:
        (4,) frequency from which each signal has less than half its power; infinite where half
        the sampling rate is not enough for that [Hz].
    span:
        Time that the result of one sample depends on [s]; infinite for recursive filters.

    """

    method: str
    rate: float
    frequency: np.ndarray
    share: np.ndarray
    noise: np.ndarray
    cutoff: np.ndarray
    span: float

    def table(self) -> str:
        """Return the response as a table for people, 100 columns wide."""
        span = f'{self.span:.4g} s' if np.isfinite(self.span) else 'all samples'
        lines = [f'{self.method} at {self.rate:.6g} Hz, looks at {span}', '']
        lines.append(f'{"":14}' + ''.join(f'{name:>20}' for name in SIGNALS))
        cutoffs = (f'{f:.4g} Hz' if np.isfinite(f) else 'none' for f in self.cutoff)
        lines.append(f'{"half power at":14}' + ''.join(f'{text:>20}' for text in cutoffs))
        measured = self.method == 'measured_velocity'
        units = ('', '', ' /s', '') if measured else ('', ' /s', ' /s^2', '')
        noises = (f'{n:.4g}{unit}' for n, unit in zip(self.noise, units, strict=True))
        lines.append(f'{"noise of 1":14}' + ''.join(f'{text:>20}' for text in noises))
        lines += ['', f'{"frequency":>12}  ' + f'{"share and phase":>20}' * len(SIGNALS)]
        for f, shares in zip(self.frequency, self.share.T, strict=True):
            cells = (_cell(share) for share in shares)
            lines.append(f'{f:>9.4g} Hz  ' + ''.join(f'{cell:>20}' for cell in cells))
        return '\n'.join(lines)


def frequency_response(
    settings: SignalSettings, rate: float, frequency: Sequence[float] | np.ndarray | None = None
) -> FrequencyResponse:
    """
    Find out what the method of the settings makes of sines and noise, before decimation.

    ``rate`` is the sampling rate [Hz]; ``frequency`` (f,) [Hz] None takes a few that matter for
    robots, up to half of it.  Raises SettingsError if the parameters do not fit the rate.
    """
    if frequency is None:
        steps = (step * 10.0**power for power in range(-1, 5) for step in (1.0, 2.0, 5.0))
        frequency = [step for step in steps if step <= 0.5 * rate]
    method = METHODS[settings.method](settings, rate)
    wanted = np.asarray(frequency, dtype=float)
    grid = (np.arange(_POINTS) + 0.5) * (0.5 * rate / _POINTS)
    outputs = method.response(grid)
    shares = np.abs(outputs / _ideal(settings, grid))
    return FrequencyResponse(
        method=settings.method,
        rate=rate,
        frequency=wanted,
        share=method.response(wanted) / _ideal(settings, wanted),
        noise=np.sqrt(np.mean(np.abs(outputs) ** 2, axis=1)),
        cutoff=np.array([_cutoff(grid, share) for share in shares]),
        span=method.span,
    )


def decimated_nyquist(settings: SignalSettings, rate: float) -> float | None:
    """Highest frequency that decimation leaves of samples at ``rate`` [Hz]; None keeps all."""
    factor = decimation_factor(settings, rate)
    return 0.5 * rate / factor if factor > 1 else None


def _cell(share: complex) -> str:
    # adding 0 makes a plus of the minus that rounding may leave before 0
    phase = round(float(np.angle(share, deg=True)), 1) + 0.0
    return f'{100.0 * abs(share):.2f} % {phase:+.1f} deg'


def _ideal(settings: SignalSettings, frequency: np.ndarray) -> np.ndarray:
    """Return what a perfect method would make of the sine, (4, f)."""
    derivative = 2j * np.pi * frequency
    one = np.ones_like(derivative)
    if settings.method == 'measured_velocity':
        return np.array([one, one, derivative, one])
    return np.array([one, derivative, derivative**2, one])


def _cutoff(frequency: np.ndarray, share: np.ndarray) -> float:
    """First frequency at which a share falls below that of half the power."""
    below = np.flatnonzero(share < _HALF_POWER)
    if not below.size:
        return float('inf')
    k = below[0]
    if k == 0:
        return float(frequency[0])
    part = (share[k - 1] - _HALF_POWER) / (share[k - 1] - share[k])
    return float(frequency[k - 1] + part * (frequency[k] - frequency[k - 1]))
