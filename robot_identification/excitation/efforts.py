# SPDX-License-Identifier: Apache-2.0
"""
The largest efforts that a model predicts along a motion, between samples too.

Unlike a motion, efforts are no polynomials, so they are looked at on a grid.  Between two of its
points a smooth function exceeds the larger of both by at most h^2 / 8 of its second derivative.
That one is taken from the differences on the grid and counted twice; intervals in which the limit
might be reached by that are looked at eight times as densely, and those in them again.  What is
left after three rounds, within microseconds, is where friction jumps with the sign of a velocity,
and both sides of the jump have been looked at by then.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..data.recording import Motion
from ..model.robot import Robot
from ..regressor import (
    build,
    predict,
    prior,
)
from .points import PointTrajectory
from .trajectories import Concatenation, Trajectory

Effort = Callable[[Motion], np.ndarray]
"""Predicts the efforts of a motion, (n_samples, n_joints) [N m or N]."""

LEAST_RATE = 250.0
"""Lowest rate at which a trajectory is looked at [Hz]."""

ROUNDS = 3
DIVISIONS = 8

_BLOCK = 4096
_MOST_INTERVALS = 2048


def nominal_effort(robot: Robot) -> Effort:
    """Return what predicts efforts by the URDF's inertias, damping and friction."""
    regressor, values = build(robot), prior(robot)
    return lambda motion: predict(regressor, motion, values)


def check_times(trajectory: Trajectory, rate: float) -> np.ndarray:
    """Return the times to look at: a grid, and at least eight in each piece of a path."""
    rate = max(rate, LEAST_RATE)
    n = int(np.ceil(trajectory.duration * rate)) + 1
    times = [np.linspace(0.0, trajectory.duration, n)]
    begin = 0.0
    parts = trajectory.parts if isinstance(trajectory, Concatenation) else (trajectory,)
    for part in parts:
        if isinstance(part, PointTrajectory):
            length = np.diff(part.time)
            times.append(begin + part.time)
            short = length < DIVISIONS / rate
            steps = length[short, None] * np.linspace(0.0, 1.0, DIVISIONS, endpoint=False)
            times.append((begin + part.time[:-1][short, None] + steps).ravel())
        begin += part.duration
    return np.unique(np.concatenate(times))


def largest_efforts(
    trajectory: Trajectory, effort: Effort, limit: np.ndarray, rate: float
) -> tuple[np.ndarray, np.ndarray]:
    """
    Return the largest efforts of a trajectory, and when.

    Parameters
    ----------
    trajectory:
        Any trajectory.
    effort:
        Predicts efforts.
    limit:
        (n_joints,) [N m or N]; efforts near it are looked at closely.
    rate:
        Samples per second, at least 250 [Hz].

    Returns
    -------
    tuple of np.ndarray
        (n_joints,) values of largest size with their sign [N m or N], and times [s].

    """
    largest = _Largest(limit.size)
    times = check_times(trajectory, rate)
    # each block begins with the last two times of the one before, for the second differences
    for start in range(0, max(times.size - 2, 1), _BLOCK):
        time = times[start : start + _BLOCK + 2]
        values = effort(trajectory.sample(time))
        largest.take(values, time)
        unsure = _unsure(values, time, limit)
        _look_closer(trajectory, effort, limit, time[:-1][unsure], time[1:][unsure], largest)
    return largest.values, largest.times


def _look_closer(
    trajectory: Trajectory,
    effort: Effort,
    limit: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    largest: _Largest,
) -> None:
    """Look at intervals (k,) from ``low`` to ``high`` more densely, and again where needed."""
    for _ in range(ROUNDS):
        # beyond the limit already, there is nothing left to tell
        if not low.size or (np.abs(largest.values) > limit).any():
            return
        next_low, next_high = [], []
        for first in range(0, low.size, _MOST_INTERVALS):
            part = slice(first, first + _MOST_INTERVALS)
            grid = np.linspace(low[part], high[part], DIVISIONS + 1, axis=1)
            values = effort(trajectory.sample(grid.ravel()))
            largest.take(values, grid.ravel())
            unsure = _unsure(values.reshape(*grid.shape, -1), grid, limit)
            next_low.append(grid[:, :-1][unsure])
            next_high.append(grid[:, 1:][unsure])
        low, high = np.concatenate(next_low), np.concatenate(next_high)


class _Largest:
    """The largest values so far."""

    def __init__(self, n_joints: int) -> None:
        self.values, self.times = np.zeros(n_joints), np.zeros(n_joints)

    def take(self, values: np.ndarray, time: np.ndarray) -> None:
        rows = np.abs(values).argmax(axis=0)
        largest = np.take_along_axis(values, rows[None], axis=0)[0]
        more = np.abs(largest) > np.abs(self.values)
        self.values = np.where(more, largest, self.values)
        self.times = np.where(more, time[rows], self.times)


def _unsure(values: np.ndarray, time: np.ndarray, limit: np.ndarray) -> np.ndarray:
    """Tell in which intervals of (..., k) times (..., k, n) values may exceed their limits."""
    step = np.diff(time, axis=-1)[..., None]
    slope = np.diff(values, axis=-2) / step
    second = np.abs(np.diff(slope, axis=-2)) / (0.5 * (step[..., 1:, :] + step[..., :-1, :]))
    beside = np.concatenate([second[..., :1, :], second, second[..., -1:, :]], axis=-2)
    beside = np.maximum(beside[..., :-1, :], beside[..., 1:, :])
    ends = np.maximum(np.abs(values[..., :-1, :]), np.abs(values[..., 1:, :]))
    return np.asarray((ends + 0.25 * step**2 * beside > limit).any(axis=-1))
