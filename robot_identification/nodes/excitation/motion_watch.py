# SPDX-License-Identifier: Apache-2.0
"""Supervision of a motion: joint states against the plan, and what ends the motion."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
import time

import numpy as np

from .joint_state_watch import DISTRUST_COUNT, StateWatch
from .motion_clock import PathClock
from .motion_errors import (
    Code,
    MotionError,
    NoMoreCommandsError,
    OffPathError,
)
from .motion_path import MotionPath
from .options import ExecutionOptions

PAUSED = 0.01
"""Speed below which the controller pauses."""

FOLLOW_SECONDS = 0.2
"""Time beyond ``tracking_lag`` after which a moving reference is followed, or is not [s]."""

FOLLOW_DISTANCE = 0.02
"""Way of the reference that a robot cannot leave unanswered [rad or m]."""


@dataclass
class Report:
    """Progress and result of a motion, for its client."""

    phase: str = 'checking'
    progress: float = 0.0
    tracking_error: float = 0.0
    largest_error: float = 0.0
    effort_share: float = np.nan
    largest_share: float = np.nan
    speed_scaling: float = 1.0
    duration: float = 0.0
    planned_duration: float = 0.0
    recording_path: str = ''


@dataclass
class MotionWatch:
    """
    Looks at a robot in motion.

    Attributes
    ----------
    states, options:
        What it looks at, and its bounds.
    report:
        Gets what it sees.
    say:
        Told, once, what cannot be watched.

    """

    states: StateWatch
    options: ExecutionOptions
    report: Report
    say: Callable[[str], object]
    _said: bool = field(default=False, init=False)
    _paused_since: float | None = field(default=None, init=False)
    _start: np.ndarray | None = field(default=None, init=False)
    _changed: tuple[np.ndarray, float] | None = field(default=None, init=False)
    _moved: bool = field(default=False, init=False)

    def begin(self) -> None:
        """Begin a path: the robot is where it starts from."""
        self._start, self._changed, self._moved = self.states.sample().position, None, False

    def reason(self, path: MotionPath, clock: PathClock) -> MotionError | None:
        """Return why the motion has to end, or None."""
        self.report.speed_scaling = clock.speed
        return (
            self._distrust()
            or self._silence()
            or self._deafness(path, clock)
            or self._distance(path, clock)
            or self._effort(path, clock)
            or self._pause(clock)
        )

    def _distrust(self) -> MotionError | None:
        """Return an error where joint states are not to be trusted."""
        reason, states = self.states.distrust, self.states
        if not reason:
            return None
        # where none is accepted any more, it is not known whether the robot still follows
        kind = NoMoreCommandsError if states.refused >= DISTRUST_COUNT else MotionError
        return kind(Code.UNTRUSTED_STATE, reason)

    def _deafness(self, path: MotionPath, clock: PathClock) -> MotionError | None:
        """Return an error where the reference moves and the joint states do not."""
        sample, tolerance = self.states.sample(), self.options.rest_tolerance
        if self._start is None:
            return None
        now = clock.at(sample.stamp or clock.now)
        if self._changed is None or (sample.position != self._changed[0]).any():
            self._changed = sample.position, now
        self._moved = self._moved or bool(np.abs(sample.position - self._start).max() > tolerance)
        since = self._changed[1] if self._moved else 0.0
        answered = now - self.options.tracking_lag - FOLLOW_SECONDS
        if answered <= since:
            return None
        planned = path.trajectory.sample(np.array([since, answered])).position
        way = np.abs(planned[1] - planned[0])
        joint = int(way.argmax())
        if way[joint] <= max(FOLLOW_DISTANCE, 5.0 * tolerance):
            return None
        name = path.trajectory.joints[joint]
        if self._moved:
            return MotionError(
                Code.UNTRUSTED_STATE,
                f"the joint states are frozen: joint '{name}' should have moved by "
                f'{way[joint]:.3g} since their positions changed last; see whether the driver '
                'repeats itself, or the robot was stopped',
            )
        return NoMoreCommandsError(
            Code.NO_CONTROLLER,
            f"the robot does not move, though joint '{name}' should have by {way[joint]:.3g}: see "
            'whether the controller is active and its drives are on',
        )

    def _silence(self) -> MotionError | None:
        states, timeout = self.states, self.options.stale_timeout
        if states.silent(timeout):
            reason = states.fault or 'see whether the driver still runs'
            return MotionError(
                Code.STALE_STATE,
                f'no joint states for {states.age:.2f} s (stale_timeout is {timeout:g} s): '
                f'{reason}',
            )
        if states.jump:
            return NoMoreCommandsError(
                Code.STALE_STATE,
                f'the stamps of the joint states jump by {states.jump:.4g} s: see who sets the '
                'clock of the driver, or whether its simulation began anew',
            )
        return None

    def _distance(self, path: MotionPath, clock: PathClock) -> MotionError | None:
        """
        Return an error where a joint is too far from the plan.

        A drive lags behind: the distance is that to the positions planned within the last
        ``tracking_lag``.  The report has the plain difference.
        """
        sample, options = self.states.sample(), self.options
        recent = clock.at(sample.stamp or clock.now) - np.linspace(0.0, options.tracking_lag, 6)
        planned = path.trajectory.sample(recent).position
        plain = float(np.abs(sample.position - planned[0]).max())
        self.report.tracking_error = plain
        self.report.largest_error = max(self.report.largest_error, plain)
        away = _outside(sample.position, planned.min(axis=0), planned.max(axis=0))
        worst = int(away.argmax())
        if away[worst] <= options.tracking_tolerance:
            return None
        joint = path.trajectory.joints[worst]
        swapped = self._mixed_up(sample.position, planned[0])
        if swapped:
            return NoMoreCommandsError(Code.UNTRUSTED_STATE, swapped)
        return OffPathError(
            Code.TRACKING_ERROR,
            f"joint '{joint}' is {away[worst]:.4g} away from the plan, more than "
            f'tracking_tolerance ({options.tracking_tolerance:g}): see whether the robot is '
            'blocked or the controller inactive',
        )

    def _mixed_up(self, position: np.ndarray, planned: np.ndarray) -> str:
        """Return which two joints have each other's positions (n_joints,); empty for none."""
        tolerance = self.options.tracking_tolerance
        wrong = np.flatnonzero(np.abs(position - planned) > 0.5 * tolerance)
        for i in wrong:
            for j in wrong[wrong > i]:
                pair = np.abs(position[[i, j]] - planned[[j, i]])
                if pair.max() <= 0.5 * tolerance:
                    first, second = self.states.joints[i], self.states.joints[j]
                    return (
                        f"joints '{first}' and '{second}' have each other's positions in the "
                        'joint states: correct the names in the driver'
                    )
        return ''

    # ------------------------------------------------------------------------------------ effort

    def _effort(self, path: MotionPath, clock: PathClock) -> MotionError | None:
        """Return an error where an effort is near its limit, or not as predicted."""
        measured = self._measured()
        if measured is None:
            self.report.effort_share = np.nan
            return None
        limit, options = path.effort_limit, self.options
        share = np.abs(measured) / limit
        worst = int(np.nanargmax(share))
        self.report.effort_share = float(share[worst])
        self.report.largest_share = float(np.fmax(self.report.largest_share, share[worst]))
        if 0.0 < options.effort_share < share[worst]:
            return self._too_large(path, worst, measured[worst])
        if options.effort_tolerance == 0.0:
            return None
        end = clock.at(self.states.sample().stamp or clock.now)
        begin = end - options.effort_time - options.tracking_lag
        low, high = path.effort_range(begin, end)
        away = _outside(measured, low, high) / limit
        worst = int(np.nanargmax(away))
        if away[worst] <= options.effort_tolerance:
            return None
        unit = path.limits.unit('effort', worst)
        near = low[worst] if measured[worst] < low[worst] else high[worst]
        return OffPathError(
            Code.EFFORT_EXCEEDED,
            f"joint '{path.trajectory.joints[worst]}' takes {measured[worst]:.4g} {unit} instead "
            f'of {near:.4g} predicted by the URDF, off by {away[worst]:.0%} of its limit, more '
            f'than effort_tolerance ({options.effort_tolerance:g}): see whether the robot '
            'touches something; where the URDF is that wrong, raise the tolerance',
        )

    def _too_large(self, path: MotionPath, joint: int, effort: float) -> MotionError:
        unit, limit = path.limits.unit('effort', joint), path.effort_limit[joint]
        return OffPathError(
            Code.EFFORT_EXCEEDED,
            f"joint '{path.trajectory.joints[joint]}' takes {effort:.4g} {unit}, "
            f'{abs(effort) / limit:.0%} of its limit of {limit:.4g} {unit}, more than '
            f'effort_share ({self.options.effort_share:g}): see whether the robot is blocked, or '
            'plan a slower motion',
        )

    def _measured(self) -> np.ndarray | None:
        """Return the mean efforts of late (n_joints,); None where they cannot be watched."""
        if self.options.effort_kind != 'joint_torque':
            self._say_once(
                f'efforts are not watched: the joint states have {self.options.effort_kind} '
                '(effort_kind), which has no limit in the URDF'
            )
            return None
        effort = self.states.effort(self.options.effort_time)
        if effort is None and self.states.sample().effort is not None:
            return None  # those of before the motion are forgotten, and its first is on its way
        if effort is None or not np.isfinite(effort).any():
            self._say_once('efforts are not watched: the joint states have none')
            return None
        if not np.isfinite(effort).all():
            self._say_once('efforts are watched of some joints only: the others have none')
        return effort

    def _say_once(self, text: str) -> None:
        if not self._said:
            self._said = True
            self.say(text)

    # ------------------------------------------------------------------------------------- pause

    def _pause(self, clock: PathClock) -> MotionError | None:
        if clock.speed > PAUSED:
            self._paused_since = None
            return None
        now = time.monotonic()
        since = self._paused_since = self._paused_since or now
        if now - since <= self.options.pause_timeout:
            return None
        return MotionError(
            Code.CONTROLLER_FAILED,
            f'the controller has paused for {now - since:.3g} s, longer than pause_timeout '
            f'({self.options.pause_timeout:g} s): see its speed scaling',
        )


def _outside(values: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Distance of each value from its range."""
    return np.maximum(np.maximum(low - values, values - high), 0.0)
