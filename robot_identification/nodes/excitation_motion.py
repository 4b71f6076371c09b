# SPDX-License-Identifier: Apache-2.0
"""
Carrying out one checked trajectory: record, move to the start, follow, watch, stop.

All of it runs as one coroutine on the node's executor and looks at the robot a hundred times a
second.  The controller gets the path in short horizons, each with a checked stop behind it, so
that it brings the robot to rest by itself where no further one comes.  Whatever else ends a motion
early, the robot is first brought to rest along the path that was checked, and the recording is
closed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from rclpy.node import Node
from robot_identification_msgs.srv import StartRecording, StopRecording

from ..excitation.horizons import Horizon, STOP_RATE
from ..excitation.points import point_to_point, Points, to_points
from ..excitation.stopping import halt
from ..recording import Motion
from .excitation_errors import Code, code_name, HeldUpError, LostError, MotionError
from .excitation_options import ExecutionOptions
from .excitation_partners import call_recorder
from .excitation_states import StateWatch
from .motion_clock import PathClock, Patience
from .motion_path import MotionPath, STOP_LEAD
from .motion_sender import Sender, Tick
from .motion_watch import MotionWatch, PAUSED, Report

START_LEAD = 0.2
"""How long before its start a trajectory is sent, at least [s]."""

HALT_LEAD = 0.1
"""How long before it takes effect a stop from where the robot is is sent [s]."""

HOLD = 1.0
"""Length of a trajectory at rest: one that is over when it arrives would be refused [s]."""

HORIZONS_AHEAD = 5
"""How often a horizon is sent anew within its length."""


@dataclass
class _Course:
    """A path that is being followed: its clock, the latest horizon, and when that was sent."""

    path: MotionPath
    clock: PathClock
    sent: Horizon
    sent_at: float


@dataclass
class MotionRun:
    """
    One motion of the robot.

    Attributes
    ----------
    node, states, sender, options:
        What it works with.
    tick:
        Awaited to wait for the next look at the robot.
    interruption:
        Asked at each look; a `MotionError` to end with, or None to go on.
    report:
        Kept up to date for the client.

    """

    node: Node
    states: StateWatch
    sender: Sender
    options: ExecutionOptions
    tick: Tick
    interruption: Callable[[], MotionError | None]
    report: Report

    def __post_init__(self) -> None:
        say = self.node.get_logger().warning
        self._watch = MotionWatch(self.states, self.options, self.report, say)

    # --------------------------------------------------------------------------- the whole way

    async def execute(
        self, approach: MotionPath | None, path: MotionPath, recording: str | None
    ) -> None:
        """
        Move to the start along ``approach``, follow ``path``, and record if asked.

        Parameters
        ----------
        approach:
            From where the robot is to the start; None where it is there.
        path:
            From rest to rest.
        recording:
            Name of the recording, '' for one that the recorder chooses, None for none.

        Raises
        ------
        MotionError
            once the robot is at rest and the recording closed.

        """
        try:
            await self.sender.prepare(path.trajectory.joints, self.tick)
            if recording is not None:
                await self._start_recording(recording)
            try:
                await self._follow_both(approach, path)
            except Exception as error:
                await self._stop_recording(recording, self._mark(error), quiet=True)
                raise
        finally:
            self.sender.finish()
        await self._stop_recording(recording, '', quiet=False)

    async def _follow_both(self, approach: MotionPath | None, path: MotionPath) -> None:
        total = path.duration + (approach.duration if approach else 0.0)
        self.report.planned_duration = total
        share = approach.duration / total if approach else 0.0
        if approach is not None:
            self.report.phase = 'moving_to_start'
            await self.follow(approach, 0.0, share)
            self._require_start(path)
        self.report.phase = 'exciting'
        await self.follow(path, share, 1.0)

    def _require_start(self, path: MotionPath) -> None:
        away = np.abs(self.states.sample().position - path.trajectory.position[0])
        if away.max() > self.options.start_tolerance:
            joint = path.trajectory.joints[int(away.argmax())]
            raise MotionError(
                Code.NOT_AT_START,
                f"joint '{joint}' has come to rest {away.max():.4g} from the start, more than "
                f'start_tolerance ({self.options.start_tolerance:g}): tune the controller, or '
                'raise the tolerance',
            )

    # --------------------------------------------------------------------------------- following

    async def follow(self, path: MotionPath, first: float, last: float) -> None:
        """
        Have a path followed until the robot rests at its end.

        Parameters
        ----------
        path:
            From rest to rest.
        first, last:
            Progress at its start and end, of the whole motion.

        Raises
        ------
        MotionError
            where it was interrupted; the robot is at rest then.

        """
        course = self._begin(path)
        self.states.forget()
        try:
            while not self._arrived(course, first, last):
                await self.tick()
                self._look(course.clock)
                if not course.clock.sure:
                    # joint states of the time that was lost are no reason for anything
                    continue
                self._require_in_time(course)
                self._raise_reasons(course)
                self._go_on(course)
        except HeldUpError:
            # the controller stops along the path: anything new would begin with a leap
            await self._rest(course.path, course.clock, course.sent.end)
            raise
        except LostError:
            await self._leave(course)
            raise
        except Exception:
            # a fault of ours is no reason to let the robot run on
            await self._stop(course)
            raise
        finally:
            # how long the robot takes to settle is no part of the motion
            settling = max(course.clock.elapsed - path.duration, 0.0)
            self.report.duration += course.clock.taken - settling

    def _begin(self, path: MotionPath) -> _Course:
        now = self.states.now()
        clock = PathClock(now + int(1e9 * self._lead(path)), now)
        sent = path.stops.horizon(0.0, self.options.horizon)
        self.sender.send(sent.points, clock.start)
        return _Course(path, clock, sent, 0.0)

    def _lead(self, path: MotionPath) -> float:
        """Time for the way from where the robot is to the path's start, which may be a little."""
        limits, speed = path.limits, self.options.move_speed
        way = point_to_point(
            limits.joints,
            self.states.sample().position,
            path.trajectory.position[0],
            speed * limits.velocity,
            speed * limits.acceleration,
            START_LEAD,
        )
        return way.duration

    def _look(self, clock: PathClock) -> None:
        states = self.states
        clock.look(states.now(), self.sender.speed_scaling, states.published)

    def _go_on(self, course: _Course) -> None:
        """Send the next horizon when it is time."""
        elapsed = course.clock.elapsed
        if elapsed < course.sent_at + self.options.horizon / HORIZONS_AHEAD:
            return
        if np.isfinite(course.sent.stop):
            course.sent = self._horizon(course, self.options.horizon)
            self.sender.send(course.sent.points, course.clock.start)
            course.sent_at = elapsed

    def _horizon(self, course: _Course, length: float) -> Horizon:
        """Return what lies ahead; it begins before the latest joint state, so in the past."""
        clock = course.clock
        since = clock.at(self._seen(clock))
        return course.path.stops.horizon(min(since, clock.elapsed), clock.elapsed + length)

    def _arrived(self, course: _Course, first: float, last: float) -> bool:
        # at the latest joint state, since it is that one which tells whether the robot rests
        elapsed = course.clock.at(self._seen(course.clock))
        duration = course.path.duration
        share = min(max(elapsed / duration, 0.0), 1.0)
        self.report.progress = first + share * (last - first)
        if elapsed < duration:
            return False
        if self.states.at_rest(self.options.rest_tolerance):
            return True
        if elapsed > duration + self.options.settle_time:
            raise MotionError(
                Code.TRACKING_ERROR,
                'the robot does not come to rest within settle_time '
                f'({self.options.settle_time:g} s) after the end of the trajectory: see its '
                'controller, or raise rest_tolerance',
            )
        return False

    def _raise_reasons(self, course: _Course) -> None:
        """Raise the reason for which the motion has to end, if there is one."""
        failure = self.sender.failure
        if failure is not None:
            raise LostError(Code.CONTROLLER_FAILED, failure)
        reason = self._watch.reason(course.path, course.clock) or self.interruption()
        if reason is not None:
            raise reason

    def _require_in_time(self, course: _Course) -> None:
        """Raise `HeldUpError` where the controller is about to stop the robot, or has."""
        if course.clock.elapsed > course.sent.stop - STOP_LEAD:
            late = course.clock.elapsed - course.sent_at
            raise HeldUpError(
                Code.INTERNAL,
                f'this node was held up for {late:.2g} s, so the controller has brought the robot '
                'to rest along the path: see what keeps the machine busy, or raise horizon '
                f'({self.options.horizon:g} s)',
            )

    # ---------------------------------------------------------------------------------- stopping

    async def _stop(self, course: _Course) -> None:
        """Bring the robot to rest along the path; wait until it is, as far as one can see."""
        if self.options.stop == 'at_once':
            await self._freeze(course.path)
            return
        self.report.phase = 'stopping'
        path, clock = course.path, course.clock
        end = path.duration
        if clock.elapsed < 0.0:
            # it has not begun: stay where it would have
            self.sender.send(_still(path, path.trajectory.position[0]), clock.start)
            end = HALT_LEAD
        elif clock.speed <= PAUSED:
            place = path.trajectory.sample(np.array([clock.elapsed])).position[0]
            self.sender.send(_still(path, place), clock.now - int(1e9 * STOP_LEAD))
            end = clock.elapsed
        elif clock.elapsed < path.duration:
            stop = self._horizon(course, STOP_LEAD)
            if stop.end < course.sent.end:
                self.sender.send(stop.points, clock.start)
                course.sent = stop
            end = course.sent.end
        await self._rest(path, clock, end)

    async def _leave(self, course: _Course) -> None:
        """Bring the robot to rest from where it is and as it moves; wait until it is."""
        if self.options.stop == 'at_once':
            await self._freeze(course.path)
            return
        self.report.phase = 'stopping'
        limits = course.path.limits
        # where the controller scales time, the points are for a time that passes faster
        velocity = self.states.velocity() / max(course.clock.speed, 0.1)
        velocity = np.clip(velocity, -limits.velocity, limits.velocity)
        position = self.states.sample().position + HALT_LEAD * velocity
        stop = halt(limits.joints, position, velocity, limits.acceleration)
        clock = self._clock(HALT_LEAD)
        self.sender.send(to_points(stop, STOP_RATE), clock.start)
        await self._rest(course.path, clock, stop.duration)

    async def _freeze(self, path: MotionPath) -> None:
        """Have the robot hold the position that is measured, from now on."""
        self.report.phase = 'stopping'
        clock = self._clock(-STOP_LEAD)
        self.sender.send(_still(path, self.states.sample().position), clock.start)
        await self._rest(path, clock, HALT_LEAD)

    def _clock(self, lead: float) -> PathClock:
        now = self.states.now()
        return PathClock(now + int(1e9 * lead), now)

    async def _rest(self, path: MotionPath, clock: PathClock, end: float) -> None:
        """Wait until the robot rests after a time of the path, as far as one can see."""
        self.states.forget()
        settle = HALT_LEAD + self.options.settle_time
        left = max(end - clock.elapsed, 0.0) / max(clock.speed, 0.1)
        patience = Patience(self._seen(clock), left + settle, settle)
        while not patience.over(self._seen(clock)):
            await self.tick()
            self._look(clock)
            silent = self.states.silent(self.options.stale_timeout)
            at_rest = self.states.at_rest(self.options.rest_tolerance)
            if clock.elapsed >= end and (silent or at_rest):
                return
        if self.states.at_rest(self.options.rest_tolerance):
            # the controller pauses: what is left of the stop must not come when it goes on
            still = _still(path, self.states.sample().position)
            self.sender.send(still, clock.now - int(1e9 * STOP_LEAD))
            return
        self.node.get_logger().error(
            'the robot is still moving after the stop: use its emergency stop'
        )

    def _seen(self, clock: PathClock) -> int:
        """Return the time of the latest joint state [ns]."""
        return self.states.sample().stamp or clock.now

    # --------------------------------------------------------------------------------- recording

    def _mark(self, error: Exception) -> str:
        """Return what later readers of the recording should know."""
        where = f'at {self.report.progress:.0%} of the motion'
        if isinstance(error, MotionError):
            return f'ended early {where}: {code_name(error.code)}: {error.message}'
        return f'ended early {where}: {type(error).__name__}: {error}'

    async def _start_recording(self, name: str) -> None:
        self.report.phase = 'starting_recorder'
        request = StartRecording.Request(name=name)
        answer = await self._recorder(StartRecording, 'start', request)
        self.report.recording_path = answer.path

    async def _stop_recording(self, recording: str | None, mark: str, *, quiet: bool) -> None:
        """Close the recording; ``quiet`` where another error is to be told."""
        if recording is None:
            return
        self.report.phase = 'finishing_recording'
        try:
            answer = await self._recorder(StopRecording, 'stop', StopRecording.Request(mark=mark))
            self.report.recording_path = answer.path or self.report.recording_path
        except MotionError as error:
            if not quiet:
                raise
            self.node.get_logger().error(error.message)

    async def _recorder(self, kind: type, verb: str, request: Any) -> Any:
        name = f'{self.options.recorder}/{verb}'
        return await call_recorder(self.node, kind, name, request, self.tick)


def _still(path: MotionPath, position: np.ndarray) -> Points:
    """Return two points at rest in one place."""
    rest = np.zeros((2, position.size))
    motion = Motion(np.tile(position, (2, 1)), rest, rest)
    return Points(path.trajectory.joints, np.array([0.0, HOLD]), motion)
