# SPDX-License-Identifier: Apache-2.0
"""Time of a motion, and watch on it and on its client: the reasons for which it has to end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
import time

import numpy as np
from rclpy.callback_groups import CallbackGroup
from rclpy.node import Node
from std_msgs.msg import Empty

from .joint_state_watch import CONTRADICTION_COUNT, StateWatch
from .motion_checks import MotionPath
from .options import Code, ExecutionOptions, MotionError, NoMoreCommandsError, OffPathError, Report

PAUSED = 0.01
"""Speed below which the controller pauses."""

FOLLOW_SECONDS = 0.2
"""Time beyond ``tracking_lag`` after which a moving reference is followed, or is not [s]."""

FOLLOW_DISTANCE = 0.02
"""Way of the reference that a robot cannot leave unanswered [rad or m]."""

GONE_SECONDS = 1.0
"""Time for which a client has to be missing in the graph to be gone: discovery may flicker [s]."""

HELD_UP = 0.1
"""Time between two looks after which this process has been held up [s]."""

UNSURE_SECONDS = 0.5
"""Longest time for a joint state that was published after that to arrive [s]."""

SLOWEST = 0.1
"""Rate of a simulation's time, relative to the wall's, down to which it is waited for."""

_LOOK_SECONDS = 0.1


class PathClock:
    """
    The time of a path, which passes as fast as the controller lets it.

    Attributes
    ----------
    start:
        When the path would have begun, in the clock of the joint states, had its time always
        passed as that clock [ns].
    now:
        Present time in that clock, at the latest look [ns].
    speed:
        Rate of the path's time; 1 is real time.

    """

    def __init__(self, start: int, now: int) -> None:
        self.start, self.now, self.speed = start, now, 1.0
        self._began = start
        self._wall = time.monotonic()
        self._resumed = -np.inf
        self._published = np.inf

    def look(self, now: int, speed: float, published: float) -> None:
        """
        Update the clock.

        The present time is that by the latest joint state [ns]; ``published`` is when that was
        published, by this machine's steady clock [s].
        """
        wall = time.monotonic()
        if wall - self._wall > HELD_UP:
            self._resumed = wall
        if self.speed != 1.0:
            self.start += round((1.0 - self.speed) * (now - self.now))
        self.now, self.speed, self._wall, self._published = now, speed, wall, published

    @property
    def sure(self) -> bool:
        """
        True if the present time of the path is certain.

        What held this process up may have held up a simulation and its time, too: the first joint
        state that is published afterwards decides.
        """
        since = self._wall - self._resumed
        return self._published >= self._resumed or since > UNSURE_SECONDS

    @property
    def elapsed(self) -> float:
        """Present time of the path; below 0 before it begins [s]."""
        return 1e-9 * (self.now - self.start)

    def at(self, stamp: int) -> float:
        """Return the time of the path at a moment that is not long past [s]."""
        return self.elapsed - self.speed * 1e-9 * (self.now - stamp)

    @property
    def taken(self) -> float:
        """Time since the beginning in the clock of the joint states [s]."""
        return max(1e-9 * (self.now - self._began), 0.0)


class Patience:
    """
    Bound on a wait for a robot whose clock may be slower than the wall's, or stand still.

    It is over after ``seconds`` by that clock from ``now`` [ns] on, after 1 / `SLOWEST` as long by
    the wall's, or where the clock has stood still for ``still`` seconds.
    """

    def __init__(self, now: int, seconds: float, still: float) -> None:
        self._until, self._still = now + round(1e9 * seconds), still
        self._seen, self._since = now, time.monotonic()
        self._latest = self._since + seconds / SLOWEST

    def over(self, now: int) -> bool:
        """Return whether the wait is over at a time in the clock of the joint states [ns]."""
        wall = time.monotonic()
        if now != self._seen:
            self._seen, self._since = now, wall
        return now >= self._until or wall > min(self._latest, self._since + self._still)


@dataclass
class MotionWatch:
    """
    Watch on a robot in motion.

    The report gets the tracking error, the share of the effort limits and the speed scaling;
    ``log`` is called once with a text on what cannot be watched.
    """

    states: StateWatch
    options: ExecutionOptions
    report: Report
    log: Callable[[str], object]
    _logged: bool = field(default=False, init=False)
    _paused_since: float | None = field(default=None, init=False)
    _start: np.ndarray | None = field(default=None, init=False)
    _changed: tuple[np.ndarray, float] | None = field(default=None, init=False)
    _moved: bool = field(default=False, init=False)

    def begin(self) -> None:
        """Begin a path: the robot is where it starts from."""
        self._start, self._changed, self._moved = self.states.sample().position, None, False

    def reason(self, path: MotionPath, clock: PathClock) -> MotionError | None:
        """Return why the motion has to end, or None."""
        self.report.feedback.speed_scaling = clock.speed
        return (
            self._untrusted()
            or self._stale()
            or self._unanswered(path, clock)
            or self._off_path(path, clock)
            or self._effort_exceeded(path, clock)
            or self._paused(clock)
        )

    def _seen(self, clock: PathClock) -> float:
        """Return the time of the path at the latest joint state [s]."""
        return clock.at(self.states.sample().stamp or clock.now)

    def _untrusted(self) -> MotionError | None:
        """Return an error where joint states are not to be trusted."""
        reason, states = self.states.contradiction, self.states
        if not reason:
            return None
        # where none is accepted any more, it is not known whether the robot still follows
        kind = NoMoreCommandsError if states.refused >= CONTRADICTION_COUNT else MotionError
        return kind(Code.UNTRUSTED_STATE, reason)

    def _unanswered(self, path: MotionPath, clock: PathClock) -> MotionError | None:
        """Return an error where the reference moves and the joint states do not."""
        sample, tolerance = self.states.sample(), self.options.rest_tolerance
        if self._start is None:
            return None
        now = self._seen(clock)
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

    def _stale(self) -> MotionError | None:
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

    def _off_path(self, path: MotionPath, clock: PathClock) -> MotionError | None:
        """
        Return an error where a joint is too far from the plan.

        A drive lags behind: the distance is that to the positions planned within the last
        ``tracking_lag``.  The report has the plain difference.
        """
        sample, options = self.states.sample(), self.options
        recent = self._seen(clock) - np.linspace(0.0, options.tracking_lag, 6)
        planned = path.trajectory.sample(recent).position
        plain = float(np.abs(sample.position - planned[0]).max())
        self.report.feedback.tracking_error = plain
        self.report.result.max_tracking_error = max(self.report.result.max_tracking_error, plain)
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

    def _effort_exceeded(self, path: MotionPath, clock: PathClock) -> MotionError | None:
        """Return an error where an effort is near its limit, or not as predicted."""
        measured = self._measured()
        if measured is None:
            self.report.feedback.effort_share = np.nan
            return None
        limit, options = path.effort_limit, self.options
        share = np.abs(measured) / limit
        worst = int(np.nanargmax(share))
        self.report.feedback.effort_share = float(share[worst])
        self.report.result.max_effort_share = float(
            np.fmax(self.report.result.max_effort_share, share[worst])
        )
        joint, unit = path.trajectory.joints[worst], path.limits.unit('effort', worst)
        if 0.0 < options.effort_share < share[worst]:
            return OffPathError(
                Code.EFFORT_EXCEEDED,
                f"joint '{joint}' takes {measured[worst]:.4g} {unit}, {share[worst]:.0%} of its "
                f'limit of {limit[worst]:.4g} {unit}, more than effort_share '
                f'({options.effort_share:g}): see whether the robot is blocked, or plan a slower '
                'motion',
            )
        if options.effort_tolerance == 0.0:
            return None
        end = self._seen(clock)
        begin = end - options.effort_time - options.tracking_lag
        low, high = path.effort_range(begin, end)
        away = _outside(measured, low, high) / limit
        worst = int(np.nanargmax(away))
        if away[worst] <= options.effort_tolerance:
            return None
        joint, unit = path.trajectory.joints[worst], path.limits.unit('effort', worst)
        near = low[worst] if measured[worst] < low[worst] else high[worst]
        return OffPathError(
            Code.EFFORT_EXCEEDED,
            f"joint '{joint}' takes {measured[worst]:.4g} {unit} instead of {near:.4g} predicted "
            f'by the URDF, off by {away[worst]:.0%} of its limit, more than effort_tolerance '
            f'({options.effort_tolerance:g}): see whether the robot touches something; where the '
            'URDF is that wrong, raise the tolerance',
        )

    def _measured(self) -> np.ndarray | None:
        """Return the mean of the latest efforts (n_joints,); None where there are none."""
        if self.options.effort_kind != 'joint_torque':
            self._log_once(
                f'efforts are not watched: the joint states have {self.options.effort_kind} '
                '(effort_kind), which has no limit in the URDF'
            )
            return None
        effort = self.states.effort(self.options.effort_time)
        if effort is None and self.states.sample().effort is not None:
            return None  # those of before the motion are forgotten, and its first is on its way
        if effort is None or not np.isfinite(effort).any():
            self._log_once('efforts are not watched: the joint states have none')
            return None
        if not np.isfinite(effort).all():
            self._log_once('efforts are watched of some joints only: the others have none')
        return effort

    def _log_once(self, text: str) -> None:
        if not self._logged:
            self._logged = True
            self.log(text)

    def _paused(self, clock: PathClock) -> MotionError | None:
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


class ClientWatch:
    """
    Watch on the clients of an action in the graph, and on their signs of life.

    A goal does not name its client.  Those that listen to the action's feedback when a motion
    begins may be it; once none of them is left, it is gone.  For a client that was killed this
    takes as long as the middleware trusts it.  A sign of life on ``~/alive`` is quicker: who sends
    one during a motion has to go on.
    """

    def __init__(self, node: Node, action: str, group: CallbackGroup) -> None:
        self._node = node
        self._topic = node.resolve_topic_name(f'{action}/_action/feedback')
        self.restart()
        node.create_subscription(Empty, '~/alive', self._lives, 10, callback_group=group)

    def restart(self) -> None:
        """Forget the last motion's client."""
        self._known: dict[bytes, str] = {}
        self._looked = -1.0
        self._seen = time.monotonic()
        self._alive: float | None = None

    def _lives(self, _: Empty) -> None:
        self._alive = time.monotonic()

    def reason(self, options: ExecutionOptions) -> MotionError | None:
        """Return the error for a client that is gone, or None."""
        now = time.monotonic()
        if self._alive is not None and now - self._alive > options.alive_timeout:
            return MotionError(
                Code.CLIENT_LOST,
                f'no sign of life on ~/alive for {now - self._alive:.2f} s (alive_timeout is '
                f'{options.alive_timeout:g} s); the robot is at rest',
            )
        if not options.stop_when_client_leaves:
            return None
        if now - self._looked >= _LOOK_SECONDS:
            self._looked = now
            if self._present():
                self._seen = now
        if now - self._seen <= GONE_SECONDS:
            return None
        names = ', '.join(sorted(set(self._known.values())))
        return MotionError(
            Code.CLIENT_LOST,
            f'the client is gone ({names}); the robot is at rest. To go on without a client, set '
            'stop_when_client_leaves to false',
        )

    def _present(self) -> bool:
        """Return whether one of the clients of the beginning is still there."""
        listeners = {
            bytes(info.endpoint_gid): f'{info.node_namespace.rstrip("/")}/{info.node_name}'
            for info in self._node.get_subscriptions_info_by_topic(self._topic)
        }
        if not self._known:
            # discovery may be later than the goal; without any listener nobody is missed
            self._known = listeners
            return True
        return not self._known.keys().isdisjoint(listeners)
