# SPDX-License-Identifier: Apache-2.0
"""
Polynomial approximation of recordings and of streams, and parabolas through a stream's samples.

The position with its derivatives and the effort are what one operator P (Lomakin and Deutscher)
makes of them, and belong to the moment t_d before their window's end.  Columns of the regressor
that are no polynomials of velocity and acceleration, such as Coulomb friction, take another way:
``sign(P{v})`` would have its step where ``P{tau}`` has a slope, and bias the friction by up to a
fifth, so they are evaluated sample by sample and then filtered by P.  What they are evaluated at,
a motion without phase shift, is kept beside the windows.

`OnlineFilter` takes samples one by one.  Every sample that comes in completes a window, and gives
position, velocity, acceleration and effort at the one moment t_d before it, the same numbers as
`Windows` finds offline.  A step is one product of the kernels with the window, about as many
multiplications as the window has samples times the signals, and takes no memory beside its result.

`LocalFit` is a parabola through the latest samples, taken at the middle of their window: its value
and derivatives there are what a Savitzky-Golay filter of order 2 gives, without a phase shift, for
samples at any times.  A causal filter would give position, velocity, acceleration and effort with
four different delays, which a regressor turns into an error; here all four belong to one moment,
and the stamp shows the delay of half the window.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import cached_property
import math
from typing import NamedTuple

import numpy as np

from ..data.recording import Motion, Recording, Samples
from .polynomial_approximation import apply, PolynomialOperator
from .settings import PolynomialApproximation, SignalSettings

_ON_SAMPLE = 1e-6  # periods
_LONGER = 1.5  # times the window, for the motion without phase shift


@dataclass(frozen=True)
class WindowedSamples(Samples):
    """
    Samples that the operator P made, with what it saw.

    ``raw`` is the motion at the samples of all windows: measured position, velocity and
    acceleration without phase shift, ``(m - 1) stride + taps`` rows for m windows.  ``stride`` is
    from one window to the next; ``settings`` say how regressors are projected.
    """

    raw: Motion
    operator: PolynomialOperator
    stride: int
    settings: PolynomialApproximation

    def __post_init__(self) -> None:
        super().__post_init__()
        wanted = (len(self) - 1) * self.stride + self.operator.taps if len(self) else 0
        if len(self.raw) != wanted:
            raise ValueError(f'{len(self)} windows take {wanted} samples, not {len(self.raw)}')

    def rows(self, start: int | None, stop: int | None) -> WindowedSamples:
        """Return the part from window ``start`` to before window ``stop``."""
        first, last, _ = slice(start, stop).indices(len(self))
        begin = first * self.stride
        end = (last - 1) * self.stride + self.operator.taps if last > first else begin
        part = super().rows(first, last)
        object.__setattr__(part, 'raw', self.raw.rows(begin, end))
        return part


@dataclass(frozen=True)
class Windows:
    """
    The method polynomial_approximation, for one sampling rate.

    Attributes
    ----------
    settings:
        Its parameters.
    operator:
        P.
    centred:
        The operator of the motion without phase shift: its window has a sample in its middle, and
        the delay ends there.  Its degree is higher, because it matters when a velocity changes its
        sign, and its window longer by as much as makes it no noisier.

    """

    settings: PolynomialApproximation
    operator: PolynomialOperator
    centred: PolynomialOperator

    @classmethod
    def from_settings(cls, signals: SignalSettings, rate: float) -> Windows:
        """Make the operators for a sampling rate [Hz]; raises SettingsError for a short window."""
        settings = signals.polynomial_approximation
        operator = settings.operator(rate)
        half = math.ceil(0.5 * _LONGER * (operator.taps - 1))
        exponent = max(settings.alpha, settings.beta)
        # of even degree, because the middle of the window is a zero of odd polynomials
        centred = PolynomialOperator(
            2.0 * half / rate,
            1.0 / rate,
            settings.degree + settings.degree % 2 + 2,
            exponent,
            exponent,
            half / rate,
        )
        return cls(settings, operator, centred)

    @property
    def stride(self) -> int:
        """Samples from one window to the next."""
        return self.settings.step(self.operator.taps)

    @property
    def lead(self) -> float:
        """Time from a stretch's first sample to the first moment that is approximated [s]."""
        before = self._margin + self.operator.taps - 1
        return before * self.operator.period - self.operator.instant

    @property
    def tail(self) -> float:
        """Time from the last moment that is approximated to a stretch's last sample [s]."""
        return self._margin * self.operator.period + self.operator.instant

    @property
    def span(self) -> float:
        """Time that the result of one sample depends on [s]."""
        return self.operator.window

    def needed(self, trim: float) -> int:
        """Return the smallest number of rows that leaves some, with ``trim`` [s] cut at ends."""
        return 2 * self._margin + self.operator.taps + sum(self.cuts(trim))

    def response(self, frequency: np.ndarray) -> np.ndarray:
        """Return complex amplitudes (4, f) of the signals for a sine of amplitude 1."""
        operator, rate = self.operator, 1.0 / self.operator.period
        motion, efforts, _ = self._kernels
        places = np.arange(1 - operator.taps, 1) + operator.instant * rate
        return fir_response(np.vstack([motion, efforts[:1]]), places, rate, frequency)

    def cuts(self, trim: float) -> tuple[int, int]:
        """Rows to leave out at both ends of a stretch, so that a time ``trim`` [s] is."""
        return tuple(  # type: ignore[return-value]
            max(0, math.ceil((trim - left) / self.operator.period - _ON_SAMPLE))
            for left in (self.lead, self.tail)
        )

    def samples(self, stretch: Recording, trim: float) -> WindowedSamples:
        """
        Turn a stretch on a uniform grid into windows, none within ``trim`` [s] of both ends.

        At least `needed` rows are there.
        """
        first, last = self.cuts(trim)
        operator, margin = self.operator, self._margin
        room = len(stretch) - first - last - 2 * margin - operator.taps
        windows = room // self.stride + 1
        begin = first + margin  # of the samples in windows, and where they end
        inner = slice(begin, begin + (windows - 1) * self.stride + operator.taps)
        # what remains of the first row keeps a large constant part out of the rounding
        offset = stretch.position[first]
        shifted = stretch.position[inner.start - margin : inner.stop + margin] - offset
        motion, efforts, centred = self._kernels
        velocity, acceleration = apply(centred, shifted)
        raw = Motion(stretch.position[inner], velocity, acceleration)
        near = shifted[margin : len(shifted) - margin]
        position, velocity, acceleration = apply(motion, near, stride=self.stride)
        effort, measured = apply(efforts, stretch.effort[inner], stride=self.stride)
        start = stretch.time[0] + first * operator.period + self.lead
        return WindowedSamples(
            position=position + offset,
            velocity=velocity,
            acceleration=acceleration,
            time=start + np.arange(windows) * (self.stride * operator.period),
            effort=effort,
            measured_effort=measured,
            joints=stretch.joints,
            raw=raw,
            operator=operator,
            stride=self.stride,
            settings=self.settings,
        )

    @property
    def _margin(self) -> int:
        """Rows that a motion without phase shift takes on both sides."""
        return (self.centred.taps - 1) // 2

    @cached_property
    def _kernels(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """
        Kernels of a motion (3, taps), of efforts (2, taps), and without phase shift (2, ...).

        Efforts are those behind P and those that were measured, the third kernels give velocity
        and acceleration.
        """
        motion = np.array([self.operator.derivative(k) for k in range(3)])
        value = self.operator.value(hold=self.settings.effort_hold)
        centred = np.array([self.centred.derivative(k) for k in (1, 2)])
        return motion, np.array([value, self._measuring()]), centred

    def _measuring(self) -> np.ndarray:
        """Weights that interpolate the measured effort at the moment that is approximated."""
        operator = self.operator
        weights = np.zeros(operator.taps)
        place = operator.taps - 1 - operator.instant / operator.period
        if self.settings.effort_hold:
            weights[max(0, math.floor(place + _ON_SAMPLE))] = 1.0
            return weights
        first = min(max(0, math.floor(place) - 1), operator.taps - 4)
        near = np.arange(first, first + 4)
        for i in near:
            others = near[near != i]
            weights[i] = np.prod((place - others) / (i - others))
        return weights


def fir_response(
    kernels: np.ndarray, places: np.ndarray, rate: float, frequency: np.ndarray
) -> np.ndarray:
    """Response of kernels whose taps stand at ``places``, in samples after the result."""
    return kernels @ np.exp(2j * np.pi / rate * np.outer(places, frequency))


class FilteredState(NamedTuple):
    """
    Filtered state at the moment `OnlineFilter.delay` before the newest sample.

    All are (n_joints,) [rad, rad/s, rad/s^2, N m; m, m/s, m/s^2, N], but for ``extra`` (n_extra,),
    the values of further signals.
    """

    position: np.ndarray
    velocity: np.ndarray
    acceleration: np.ndarray
    effort: np.ndarray
    extra: np.ndarray


class NewestRows:
    """The newest ``length`` rows, contiguous: each is written twice, so many rows apart."""

    def __init__(self, length: int, width: int) -> None:
        self._length, self._rows = length, np.zeros((2 * length, width))

    def push(self, index: int, row: np.ndarray) -> np.ndarray:
        """Write the row with an index; return the view (length, width) that ends with it."""
        place = index % self._length
        self._rows[place] = self._rows[place + self._length] = row
        return self._rows[place + 1 : place + 1 + self._length]


class OnlineFilter:
    """
    Filter for the samples of a uniform stream, one in and one out.

    Parameters
    ----------
    operator:
        P, for the stream's period.
    n_joints:
        Number of positions and of efforts.
    n_extra:
        Number of further signals that go through P, such as columns of friction.
    effort_hold:
        Whether an effort acts from its sample until the next one.

    """

    def __init__(
        self,
        operator: PolynomialOperator,
        n_joints: int,
        n_extra: int = 0,
        *,
        effort_hold: bool = False,
    ) -> None:
        self._n, self._taps = n_joints, operator.taps
        self._delay = operator.instant
        derivatives = [operator.derivative(k) for k in range(3)]
        # one product for all of them: the last kernel is that of the effort
        self._kernels = np.array([*derivatives, operator.value(hold=effort_hold)])
        self._rows = NewestRows(operator.taps, 2 * n_joints + n_extra)
        self._missing = np.zeros(n_joints), np.zeros(n_extra)
        self._offset = np.zeros(n_joints)
        self._count = 0

    @property
    def delay(self) -> float:
        """Age of the results at the newest sample: t_d [s]."""
        return self._delay

    @property
    def ready(self) -> bool:
        """True if the window is full."""
        return self._count >= self._taps

    def reset(self) -> None:
        """Forget all samples, as after a gap in the stream."""
        self._count = 0

    def push(
        self,
        position: np.ndarray,
        effort: np.ndarray | None = None,
        extra: np.ndarray | None = None,
    ) -> FilteredState | None:
        """
        Take a sample; None until the window is full.

        ``position`` and ``effort`` are (n_joints,) [rad or m, N m or N], ``extra`` (n_extra,);
        None counts as 0.
        """
        n, (no_effort, no_extra) = self._n, self._missing
        if self._count == 0:
            # positions far from 0 would cost digits of the acceleration
            self._offset = np.array(position, dtype=float)
        effort = no_effort if effort is None else effort
        extra = no_extra if extra is None else extra
        row = np.concatenate((position - self._offset, effort, extra))
        window = self._rows.push(self._count, row)
        self._count += 1
        if self._count < self._taps:
            return None
        products = self._kernels @ window
        value = products[0]
        value[:n] += self._offset
        return FilteredState(
            value[:n], products[1, :n], products[2, :n], products[-1, n : 2 * n], value[2 * n :]
        )


FEWEST_SAMPLES = 5
"""A parabola through fewer samples smooths nothing."""


@dataclass(frozen=True)
class LocalState:
    """
    The motion at one moment, ``stamp`` [ns].

    All else is (n_joints,) [rad, rad/s, rad/s^2, N m]; ``effort`` is smoothed in the same way, and
    None where it was not measured.
    """

    stamp: int
    position: np.ndarray
    velocity: np.ndarray
    acceleration: np.ndarray
    effort: np.ndarray | None


def too_sparse(rate: float, window: float) -> str:
    """Return why samples of a rate [Hz] are too few for a `LocalFit` of a window [s], in words."""
    return (
        f'joint states come at {rate:.3g} Hz, and of theirs {FEWEST_SAMPLES} in order have to lie '
        f'within the window of {window:g} s; raise the parameter window to '
        f'{1.1 * FEWEST_SAMPLES / rate:.2g}'
    )


class LocalFit:
    """The latest samples of a stream, over a window of time [s]."""

    def __init__(self, window: float) -> None:
        self._window = round(window * 1e9)
        self._samples: deque[tuple[int, np.ndarray]] = deque()  # positions, then efforts
        self._full = False

    def push(self, stamp: int, position: np.ndarray, effort: np.ndarray | None = None) -> None:
        """
        Take a sample; one that is not later than the one before, or much later, starts again.

        A parabola does not reach over a gap of half a window.  ``stamp`` is in ns, ``position``
        and ``effort`` (n_joints,) are finite [rad or m, N m or N].
        """
        if self._samples and not 0 < stamp - self._samples[-1][0] <= self._window // 2:
            self._samples.clear()
            self._full = False
        if effort is None:
            effort = np.full(len(position), np.nan)
        self._samples.append((stamp, np.concatenate((position, effort))))
        while self._samples[0][0] < stamp - self._window:
            self._samples.popleft()
            self._full = True

    def state(self) -> LocalState | None:
        """Return the motion at the middle of the window; None until there are enough samples."""
        if not self._full or len(self._samples) < FEWEST_SAMPLES:
            return None
        stamps = np.array([stamp for stamp, _ in self._samples])
        signals = np.array([signals for _, signals in self._samples])
        middle = int(stamps[-1]) - self._window // 2
        half = 0.5e-9 * self._window
        # time in half windows, so that the normal equations are well conditioned
        moments = (stamps - middle) / (1e9 * half)
        powers = np.array([np.ones(len(moments)), moments, moments * moments])
        fit = np.linalg.solve(powers @ powers.T, powers @ signals)
        n = signals.shape[1] // 2
        position, effort = fit[:, :n], fit[0, n:]
        return LocalState(
            middle,
            position[0],
            position[1] / half,
            2.0 * position[2] / half**2,
            None if np.isnan(effort).any() else effort,
        )
