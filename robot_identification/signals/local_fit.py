# SPDX-License-Identifier: Apache-2.0
"""
Motion from live joint states: a parabola through the latest samples, taken at their middle.

A causal filter gives position, velocity, acceleration and effort with four different delays, which
a regressor turns into an error.  Here all four belong to one moment, the middle of a window that
ends with the newest sample: the parabola's value and derivatives there are what a Savitzky-Golay
filter of order 2 gives, without a phase shift, for samples at any times.  The price is a delay of
half the window, which the stamp tells.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

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
        self._samples: deque[tuple[int, np.ndarray, np.ndarray | None]] = deque()
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
            (n_joints,) [rad or m], [N m or N]; positions are finite.

        """
        samples = self._samples
        if samples and not samples[-1][0] < stamp <= samples[-1][0] + self._window // 2:
            samples.clear()
            self._full = False
        samples.append((stamp, position, effort))
        while samples[0][0] < stamp - self._window:
            samples.popleft()
            self._full = True

    def state(self) -> LocalState | None:
        """Return the motion at the middle of the window; None until there are enough samples."""
        if not self._full or len(self._samples) < FEWEST_SAMPLES:
            return None
        stamps, positions, efforts = zip(*self._samples)
        middle = stamps[-1] - self._window // 2
        half = 0.5e-9 * self._window
        # time in half windows, so that the columns of the fit are of one size
        moments = np.array([stamp - middle for stamp in stamps]) / (1e9 * half)
        powers = moments[:, None] ** np.arange(3)
        fit = np.linalg.lstsq(powers, np.array(positions), rcond=None)[0]
        effort = None
        if all(e is not None for e in efforts):
            effort = np.linalg.lstsq(powers, np.array(efforts), rcond=None)[0][0]
        return LocalState(middle, fit[0], fit[1] / half, 2.0 * fit[2] / half**2, effort)
