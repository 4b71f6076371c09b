# SPDX-License-Identifier: Apache-2.0
"""
Whole turns that positions jump by, and steps of another size.

Drivers of continuous joints report angles from -pi to pi.  A joint does not move by a turn from
one sample to the next, so that such a step is none of its motion; and at a joint that turns, whole
turns act in no term of the model.  A step of another size, which stays, is a turn of an encoder
that was lost, or a zero that was set again: it is named, since nothing says on which side of it
the positions are right.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
import warnings

import numpy as np

from ..errors import Omission
from .recording import Recording

_TURN = 2.0 * np.pi


@dataclass(frozen=True)
class UnwrapConstants:
    """Constants by which turns and steps are found."""

    near: float = 0.1 * _TURN
    """Distance from whole turns within which a step is one of them [rad]."""
    pause: float = 0.5
    """Time between samples in which a joint may move by a turn [s]."""
    fewest_samples: int = 50
    """Samples from which steps are distinguished from motion."""
    typical_quantile: float = 0.99
    """Quantile of the changes of steps that is the usual one."""
    jump_ratio: float = 30.0
    """Times the usual change of steps that no motion makes."""
    least_step: float = 1e-3
    """Size [rad or m] of a step that no motion makes."""


UNWRAP = UnwrapConstants()


class Unwrapper:
    """
    Removal of whole turns from consecutive parts of a recording.

    Warns
    -----
    Omission
        naming the joint and the first jump, once; likewise a step of another size, or a stop.

    """

    def __init__(self) -> None:
        self._last: np.ndarray | None = None
        self._time = -np.inf
        self._turns = np.zeros(0)
        self._warned: set[tuple[str, str]] = set()

    def take(self, part: Recording) -> Recording:
        """Return the next part without jumps by whole turns."""
        if not len(part):
            return part
        first = part.position[0] if self._last is None else self._last
        if self._last is None:
            self._turns = np.zeros(len(part.joints))
        step = np.diff(part.position, axis=0, prepend=first[None])
        pause = np.diff(part.time, prepend=self._time) > UNWRAP.pause
        self._last, self._time = part.position[-1], float(part.time[-1])
        whole = np.rint(step / _TURN)
        whole[pause[:, None] | (np.abs(step - _TURN * whole) > UNWRAP.near)] = 0.0
        self._name_steps(part, step - _TURN * whole)
        if not whole.any() and not self._turns.any():
            return part
        for j in np.flatnonzero(whole.any(axis=0)):
            time = part.time[np.flatnonzero(whole[:, j])[0]]
            self._warn_once(
                part, int(j), 'jump by whole turns', f'from {time:.4g} s on, and are unwrapped'
            )
        turns = self._turns + np.cumsum(whole, axis=0)
        self._turns = turns[-1]
        return replace(part, position=part.position - _TURN * turns)

    def _name_steps(self, part: Recording, step: np.ndarray) -> None:
        """Warn of steps that no motion explains."""
        if len(part) < UNWRAP.fewest_samples:
            return
        period = np.diff(part.time)
        even = period < 1.5 * np.median(period)
        step = step[1:]
        # the change from the mean of both neighbours: a spike has one of the other sign beside it
        change = step[1:-1] - 0.5 * (step[:-2] + step[2:])
        usable = even[:-2] & even[1:-1] & even[2:]
        typical = np.quantile(np.abs(change), UNWRAP.typical_quantile, axis=0)
        least = np.maximum(UNWRAP.jump_ratio * typical, UNWRAP.least_step)
        large = usable[:, None] & (np.abs(change) > least)
        for j in np.flatnonzero(large.any(axis=0)):
            rows = np.flatnonzero(large[:, j])
            row = int(rows[np.argmax(np.abs(change[rows, j]))])
            size = change[row, j]
            after = part.position[row + 2 : row + 5, j].mean()
            before = part.position[max(0, row - 2) : row + 2, j].mean()
            if abs(after - before) < 0.5 * abs(size):
                continue  # a spike
            if len(part) - row > UNWRAP.fewest_samples and not np.ptp(part.position[row + 2 :, j]):
                rest = (
                    f'at once at {part.time[row + 2]:.4g} s and stay exactly there, as where a '
                    'driver reads them no more: cut the recording there (rows, time_range)'
                )
                if np.ptp(part.position[row + 2 :], axis=0).any():  # else the robot has stopped
                    self._warn_once(part, int(j), 'stop', rest)
                continue
            share = _TURN / abs(size)
            of_turn = f' (1/{share:.0f} of a turn)' if 1.5 < share < 1000.0 else ''
            rest = (
                f'by {size:.4g}{of_turn} at {part.time[row + 2]:.4g} s and stay there, as when an '
                'encoder loses a turn or its zero is set: cut the recording there (rows, '
                'time_range)'
            )
            self._warn_once(part, int(j), 'step', rest)

    def _warn_once(self, part: Recording, j: int, what: str, rest: str) -> None:
        joint = part.joints[j]
        if (what, joint) not in self._warned:
            self._warned.add((what, joint))
            text = f"{part.source}: positions of joint '{joint}' {what} {rest}"
            warnings.warn(Omission(text), stacklevel=4)
