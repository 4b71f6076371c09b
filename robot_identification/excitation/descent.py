# SPDX-License-Identifier: Apache-2.0
"""
Descents of one function from many starts at once.

SciPy's optimisers work on one start at a time.  With variables as few as those of a sequence of
points, nearly all of an evaluation is the overhead of many small operations, which evaluating all
starts together shares out: ten times as many starts in the same time.

Each start runs its own limited-memory BFGS (Nocedal and Wright 2006, algorithms 7.4 and 7.5), with
backtracking; they share nothing but the calls of the function.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

SUFFICIENT = 1e-4
"""Share of the decrease that the slope promises which a step has to bring."""

CURVED = 1e-10
"""Least curvature along a step, relative to its length and the gradient's change, to learn of."""

Function = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
"""Takes (k, d) variables of k of the starts to their values (k,) and gradients (k, d)."""


@dataclass(frozen=True)
class Descents:
    """
    Results of several descents.

    Attributes
    ----------
    x:
        (s, d) variables.
    values:
        (s,) the function there.

    """

    x: np.ndarray
    values: np.ndarray


def descend_all(
    function: Function,
    x: np.ndarray,
    evaluations: int,
    *,
    memory: int = 12,
    tolerance: float = 1e-5,
    patience: int = 10,
    go_on: Callable[[], bool] = lambda: True,
) -> Descents:
    """
    Go down from each of several starts.

    Parameters
    ----------
    function:
        Value and gradient of any number of the starts.
    x:
        (s, d) starts.
    evaluations:
        How many times each start is evaluated at most.
    memory:
        Steps that the curvature is taken from.
    tolerance, patience:
        A start rests when so many steps in a row have brought less than ``tolerance`` together.
    go_on:
        Asked before each evaluation; False ends all descents where they are.

    """
    state = _State.at(function, x, memory, patience)
    for _ in range(evaluations - 1):
        active = np.flatnonzero(~state.resting)
        if active.size == 0 or not go_on():
            break
        trial = state.x[active] + state.step[active, None] * state.direction[active]
        state.take(active, trial, *function(trial), tolerance)
    return Descents(state.x, state.values)


@dataclass
class _State:
    """All descents; the first axis of each array is the start."""

    x: np.ndarray
    values: np.ndarray
    gradient: np.ndarray
    direction: np.ndarray
    step: np.ndarray
    moves: np.ndarray  # (s, memory, d), oldest first; zero where there is none yet
    changes: np.ndarray
    inverse: np.ndarray  # (s, memory) 1 / (move . change), zero where there is none yet
    recent: np.ndarray  # (s, patience) values of the last steps
    resting: np.ndarray

    @classmethod
    def at(cls, function: Function, x: np.ndarray, memory: int, patience: int) -> _State:
        x = np.array(x, dtype=float)
        values, gradient = function(x)
        starts, size = x.shape
        state = cls(
            x=x,
            values=np.array(values),
            gradient=np.array(gradient),
            direction=-gradient,
            step=np.ones(starts),
            moves=np.zeros((starts, memory, size)),
            changes=np.zeros((starts, memory, size)),
            inverse=np.zeros((starts, memory)),
            recent=np.full((starts, patience), np.inf),
            resting=np.asarray(~gradient.any(axis=1)),
        )
        state.aim(np.arange(starts))
        return state

    def take(
        self,
        active: np.ndarray,
        trial: np.ndarray,
        values: np.ndarray,
        gradient: np.ndarray,
        tolerance: float,
    ) -> None:
        """Accept the trials of the starts ``active`` that are good enough, shorten the others."""
        slope = (self.gradient[active] * self.direction[active]).sum(axis=1)
        promised = self.step[active] * slope
        with np.errstate(invalid='ignore'):
            good = values <= self.values[active] + SUFFICIENT * promised
        self._shorten(active[~good], values[~good], slope[~good])
        taken = active[good]
        self._remember(taken, trial[good] - self.x[taken], gradient[good] - self.gradient[taken])
        self.x[taken], self.values[taken] = trial[good], values[good]
        self.gradient[taken] = gradient[good]
        self.recent[taken] = np.roll(self.recent[taken], -1, axis=1)
        gained = self.recent[taken, -1] - values[good]
        self.recent[taken, -1] = values[good]
        with np.errstate(invalid='ignore'):
            slow = self.recent[taken, 0] - values[good] < tolerance
        flat = ~self.gradient[taken].any(axis=1)
        self.resting[taken[(slow & np.isfinite(gained)) | flat]] = True
        self.aim(taken)

    def _shorten(self, starts: np.ndarray, values: np.ndarray, slope: np.ndarray) -> None:
        """Shorten steps to the minimum of the parabola through what is known of them."""
        step = self.step[starts]
        rise = values - self.values[starts] - step * slope
        with np.errstate(divide='ignore', invalid='ignore'):
            share = -0.5 * step * slope / rise
        self.step[starts] = step * np.clip(np.nan_to_num(share, nan=0.1), 0.1, 0.5)
        tiny = starts[self.step[starts] < 1e-10]
        # a start that has no way down even along its gradient rests
        lost = ~self.inverse[tiny].any(axis=1)
        self.resting[tiny[lost]] = True
        forgetful = tiny[~lost]
        self.inverse[forgetful] = 0.0
        self.aim(forgetful)

    def _remember(self, starts: np.ndarray, move: np.ndarray, change: np.ndarray) -> None:
        product = (move * change).sum(axis=1)
        size = np.linalg.norm(move, axis=1) * np.linalg.norm(change, axis=1)
        curved = product > CURVED * size
        kept = starts[curved]
        for history, new in (
            (self.moves, move[curved]),
            (self.changes, change[curved]),
            (self.inverse, 1.0 / product[curved]),
        ):
            history[kept] = np.roll(history[kept], -1, axis=1)
            history[kept, -1] = new

    def aim(self, starts: np.ndarray) -> None:
        """Set directions by the curvature that is remembered (the two-loop recursion)."""
        towards = self.gradient[starts].copy()
        moves, changes, inverse = self.moves[starts], self.changes[starts], self.inverse[starts]
        shares = np.zeros_like(inverse)
        for k in reversed(range(inverse.shape[1])):
            shares[:, k] = inverse[:, k] * np.einsum('kd,kd->k', moves[:, k], towards)
            towards -= shares[:, k, None] * changes[:, k]
        known = inverse[:, -1] > 0.0
        square = (changes[:, -1] ** 2).sum(axis=1) * inverse[:, -1]
        # without any curvature known, a step of length 1 at most
        length = np.maximum(1.0, np.linalg.norm(towards, axis=1))
        towards *= np.where(known, 1.0 / np.where(known, square, 1.0), 1.0 / length)[:, None]
        for k in range(inverse.shape[1]):
            back = inverse[:, k] * np.einsum('kd,kd->k', changes[:, k], towards)
            towards += moves[:, k] * (shares[:, k] - back)[:, None]
        downhill = (towards * self.gradient[starts]).sum(axis=1) > 0.0
        towards[~downhill] = self.gradient[starts[~downhill]]
        self.direction[starts] = -towards
        self.step[starts] = 1.0
