# SPDX-License-Identifier: Apache-2.0
"""
Motion from the newest samples, one by one, as a controller or a node runs it.

`OnlineFilter` is the polynomial approximation.  Every sample that comes in completes a window, and
gives position, velocity, acceleration and effort at the one moment t_d before it, the same numbers
as `windows` finds offline.  A step is one product of the kernels with the window, about as many
multiplications as the window has samples times the signals, and takes no memory beside its result.

`LocalFit` is a parabola through the latest samples, taken at the middle of their window: its value
and derivatives there are what a Savitzky-Golay filter of order 2 gives, without a phase shift, for
samples at any times.  A causal filter would give position, velocity, acceleration and effort with
four different delays, which a regressor turns into an error; here all four belong to one moment,
and the stamp shows the delay of half the window.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .polynomial_approximation import PolynomialOperator


class FilteredState(NamedTuple):
    """
    Filtered state at the moment `OnlineFilter.delay` before the newest sample.

    Attributes
    ----------
    position, velocity, acceleration:
        (n_joints,) [rad, rad/s, rad/s^2; m, m/s, m/s^2].
    effort:
        (n_joints,) [N m or N].
    extra:
        (n_extra,) the value of each further signal.

    """

    position: np.ndarray
    velocity: np.ndarray
    acceleration: np.ndarray
    effort: np.ndarray
    extra: np.ndarray


class OnlineFilter:
    """
    Filters the samples of a uniform stream, one in and one out.

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
        # every sample is written twice, a window's length apart, so that windows are contiguous
        self._ring = np.zeros((2 * operator.taps, 2 * n_joints + n_extra))
        self._offset = np.zeros(n_joints)
        self._next = self._count = 0

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
        self._next = self._count = 0

    def push(
        self,
        position: np.ndarray,
        effort: np.ndarray | None = None,
        extra: np.ndarray | None = None,
    ) -> FilteredState | None:
        """
        Take a sample.

        Parameters
        ----------
        position:
            (n_joints,) [rad or m].
        effort:
            (n_joints,) [N m or N]; None counts as 0.
        extra:
            (n_extra,) further signals; None counts as 0.

        Returns
        -------
        FilteredState or None
            None until the window is full.

        """
        n, row = self._n, self._next
        if self._count == 0:
            # positions far from 0 would cost digits of the acceleration
            self._offset = np.array(position, dtype=float)
        first, second = self._ring[row], self._ring[row + self._taps]
        np.subtract(position, self._offset, out=first[:n])
        first[n : 2 * n] = 0.0 if effort is None else effort
        if first.size > 2 * n:
            first[2 * n :] = 0.0 if extra is None else extra
        second[:] = first
        self._next = row + 1 if row + 1 < self._taps else 0
        self._count += 1
        if self._count < self._taps:
            return None
        # the oldest sample of the window stands where the next one will be written
        products = self._kernels @ self._ring[self._next : self._next + self._taps]
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
    The motion at one moment.

    Attributes
    ----------
    stamp:
        The moment [ns].
    position, velocity, acceleration:
        (n_joints,) [rad, rad/s, rad/s^2].
    effort:
        (n_joints,) smoothed in the same way [N m]; None where it was not measured.

    """

    stamp: int
    position: np.ndarray
    velocity: np.ndarray
    acceleration: np.ndarray
    effort: np.ndarray | None


class LocalFit:
    """
    The latest samples of a stream.

    Parameters
    ----------
    window:
        Time that they cover [s].

    """

    def __init__(self, window: float) -> None:
        self._window = round(window * 1e9)
        self._stamps = np.empty(0, dtype=np.int64)
        self._signals = np.empty((0, 0))  # positions, then efforts
        self._begin = self._end = 0
        self._full = False

    def push(self, stamp: int, position: np.ndarray, effort: np.ndarray | None = None) -> None:
        """
        Take a sample; one that is not later than the one before, or much later, starts anew.

        A parabola does not reach over a gap of half a window.

        Parameters
        ----------
        stamp:
            [ns].
        position, effort:
            (n_joints,) finite [rad or m], [N m or N].

        """
        n = len(position)
        if self._end > self._begin:
            newest = int(self._stamps[self._end - 1])
            if not newest < stamp <= newest + self._window // 2:
                self._begin = self._end = 0
                self._full = False
        if self._end == len(self._stamps):
            self._make_room(2 * n)
        self._stamps[self._end] = stamp
        self._signals[self._end, :n] = position
        self._signals[self._end, n:] = np.nan if effort is None else effort
        self._end += 1
        while self._stamps[self._begin] < stamp - self._window:
            self._begin += 1
            self._full = True

    def _make_room(self, columns: int) -> None:
        """Move the samples to the beginning of arrays that take as many again, and 64 more."""
        count = self._end - self._begin
        kept = self._stamps[self._begin : self._end], self._signals[self._begin : self._end]
        self._stamps = np.empty(2 * count + 64, dtype=np.int64)
        self._signals = np.empty((2 * count + 64, columns))
        if count:
            self._stamps[:count], self._signals[:count] = kept
        self._begin, self._end = 0, count

    def state(self) -> LocalState | None:
        """Return the motion at the middle of the window; None until there are enough samples."""
        window = slice(self._begin, self._end)
        stamps, signals = self._stamps[window], self._signals[window]
        if not self._full or len(stamps) < FEWEST_SAMPLES:
            return None
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
