# SPDX-License-Identifier: Apache-2.0
"""Whether a motion goes as planned: what is measured against what should be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
import time

import numpy as np

from .excitation_errors import Code, LostError, MotionError
from .excitation_options import ExecutionOptions
from .excitation_states import StateWatch
from .motion_clock import PathClock
from .motion_path import MotionPath

PAUSED = 0.01
"""Speed below which the controller pauses."""


@dataclass
class Report:
    """What the client is told while a motion runs, and at its end."""

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

    def reason(self, path: MotionPath, clock: PathClock) -> MotionError | None:
        """Return why the motion has to end, or None."""
        self.report.speed_scaling = clock.speed
        return (
            self._silence()
            or self._distance(path, clock)
            or self._effort(path, clock)
            or self._pause(clock)
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
            return LostError(
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
        return LostError(
            Code.TRACKING_ERROR,
            f"joint '{path.trajectory.joints[worst]}' is {away[worst]:.4g} away from the plan, "
            f'more than tracking_tolerance ({options.tracking_tolerance:g}): see whether the '
            'robot is blocked or the controller inactive',
        )

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
        return LostError(
            Code.EFFORT_EXCEEDED,
            f"joint '{path.trajectory.joints[worst]}' takes {measured[worst]:.4g} {unit} instead "
            f'of {near:.4g} predicted by the URDF, off by {away[worst]:.0%} of its limit, more '
            f'than effort_tolerance ({options.effort_tolerance:g}): see whether the robot '
            'touches something; where the URDF is that wrong, raise the tolerance',
        )

    def _too_large(self, path: MotionPath, joint: int, effort: float) -> MotionError:
        unit, limit = path.limits.unit('effort', joint), path.effort_limit[joint]
        return LostError(
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
