# SPDX-License-Identifier: Apache-2.0
"""
Execution of one checked trajectory: record, move to the start, follow, watch, stop.

One coroutine on the node's executor looks at the robot a hundred times a second.  The controller
gets the path in short horizons, each with a checked stop behind it, so that it brings the robot to
rest by itself if no further one comes.

Every stop begins with the last trajectory that was sent, continuous in position, velocity and
acceleration.  Measured positions, which may be false, give nothing but the place where a robot
gives way after a contact, and only if every joint state of the motion was plausible.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from rclpy.callback_groups import CallbackGroup
from rclpy.node import Node

from ...excitation.braking import (
    ACCELERATION_SHARE,
    diverted,
    Horizon,
    SHORTEST,
    STOP_RATE,
    to_rest,
)
from ...excitation.guards import CommandGate, UnsafeCommandError
from ...excitation.limits import Limits
from ...excitation.trajectories import point_to_point, PointTrajectory
from .command_process import CommandSender
from .joint_state_watch import StateWatch
from .motion_checks import MotionPath, STOP_LEAD
from .motion_watch import MotionWatch, PathClock, Patience, PAUSED
from .options import (
    Code,
    ControllerOptions,
    ExecutionOptions,
    FOLLOW_JOINT_TRAJECTORY,
    MotionError,
    NoMoreCommandsError,
    OffPathError,
    POSITION_COMMANDS,
    Report,
    Tick,
    TRAJECTORY_TOPIC,
    VELOCITY_COMMANDS,
)
from .remote_nodes import MotionRecording
from .senders import ActionSender, Sender, TopicSender

START_LEAD = 0.2
"""How long before its start a trajectory is sent, at least [s]."""

UNCONFIRMED = {'rad': 1.0, 'm': 0.2}
"""Error of the first joint states that must not make the robot leap, by unit."""

QUICKEST = 0.05
"""Least time for a stop at once [s]."""

SETTLE_LEAD = 0.1
"""Time that a stop takes to reach the drives [s]."""

HOLD = 1.0
"""Length of a trajectory at rest: one that is over when it arrives is refused [s]."""

HORIZONS_AHEAD = 5
"""Horizons that are sent within the length of one."""


SENDERS: dict[str, Callable[[Node, CallbackGroup, ControllerOptions], Sender]] = {
    TRAJECTORY_TOPIC: TopicSender,
    FOLLOW_JOINT_TRAJECTORY: ActionSender,
    POSITION_COMMANDS: CommandSender,
    VELOCITY_COMMANDS: CommandSender,
}
"""Senders by the parameter ``controller_kind``."""


class CheckedSender:
    """
    A sender behind the command gate.

    ``rest`` is where the robot rests by the last command sent, (n_joints,); None where none was
    sent.
    """

    def __init__(self, sender: Sender) -> None:
        self._sender = sender
        self._gate: CommandGate | None = None
        self.rest: np.ndarray | None = None
        self.feeds_back = sender.feeds_back
        self.prepare = sender.prepare
        self.ignore_states = sender.ignore_states
        self.finish = sender.finish

    @property
    def speed_scaling(self) -> float:
        """See `Sender`."""
        return self._sender.speed_scaling

    @property
    def failure(self) -> str | None:
        """See `Sender`."""
        return self._sender.failure

    @property
    def reference(self) -> PointTrajectory | None:
        """The trajectory that was sent last on this path; None before the first."""
        return None if self._gate is None else self._gate.reference

    def begin(self, limits: Limits, position: np.ndarray) -> None:
        """Begin a path of a robot at rest at ``position`` (n_joints,), within limits."""
        self._gate = CommandGate(limits, position)
        self._sender.begin(limits, position)

    def send(self, trajectory: PointTrajectory, clock: PathClock) -> None:
        """
        Check a trajectory and have the robot follow it, in place of what was sent before.

        Raises
        ------
        NoMoreCommandsError
            where the limits, or the last trajectory sent, do not allow it; nothing is sent.

        """
        assert self._gate is not None
        try:
            self._gate.admit(trajectory, clock.elapsed, clock.speed)
        except UnsafeCommandError as error:
            raise NoMoreCommandsError(Code.INTERNAL, str(error)) from error
        self.rest = trajectory.position[-1]
        self._sender.send(trajectory, clock.start)


def sender_of(node: Node, group: CallbackGroup, options: ControllerOptions) -> CheckedSender:
    """Return the way to the controller that the options describe; raises `SettingsError`."""
    return CheckedSender(SENDERS[options.controller_kind](node, group, options))


@dataclass
class _FollowedPath:
    """A path that is followed: its clock, the latest horizon, and when that was sent."""

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
    tick:
        Awaited to wait for the next look at the robot.
    interruption:
        Called at each look; returns a `MotionError` to end with, or None.
    report:
        Progress and result for the client.

    """

    node: Node
    states: StateWatch
    sender: CheckedSender
    options: ExecutionOptions
    tick: Tick
    interruption: Callable[[], MotionError | None]
    report: Report

    def __post_init__(self) -> None:
        log = self.node.get_logger().warning
        self._watch = MotionWatch(self.states, self.options, self.report, log)

    async def execute(
        self, approach: MotionPath | None, path: MotionPath, recording: str | None
    ) -> None:
        """
        Move to the start along ``approach``, follow ``path``, and record if asked.

        ``approach`` is None where the robot is at the start; ``recording`` is the name of the
        recording, '' for one that the recorder chooses, None for none.

        Raises
        ------
        MotionError
            once the robot is at rest and the recording closed.

        """
        recorded = MotionRecording(
            self.node, self.tick, self.options.recorder, recording, self.report
        )
        try:
            await self.sender.prepare(path.trajectory.joints, self.tick)
            await recorded.start()
            try:
                total = path.duration + (approach.duration if approach else 0.0)
                self.report.result.planned_duration = total
                if approach is not None:
                    self.report.feedback.phase = 'moving_to_start'
                    await self._follow(approach, 0.0, approach.duration / total)
                    self._require_start(path)
                self.report.feedback.phase = 'exciting'
                await self._follow(path, 1.0 - path.duration / total, 1.0)
            except Exception as error:
                await recorded.stop(error)
                raise
        finally:
            self.states.moving = False
            self.sender.finish()
        await recorded.stop()

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

    async def _follow(self, path: MotionPath, first: float, last: float) -> None:
        """
        Have a path followed until the robot rests at its end, also where an error is raised.

        ``first`` and ``last`` are the progress of the whole motion at its start and end.
        """
        course = self._begin(path)
        self.states.moving = True
        self.states.forget()
        try:
            while not self._arrived(course, first, last):
                await self.tick()
                self._look(course.clock)
                if course.clock.sure:  # joint states of a time that was lost give no reason
                    self._raise_reasons(course)
                    self._go_on(course)
        except NoMoreCommandsError:
            self.sender.ignore_states()
            await self._rest(course.path, course.clock, course.sent.end)
            raise
        except OffPathError:
            await self._give_way(course)
            raise
        except Exception:
            # a fault of ours is no reason to let the robot run on
            await self._stop(course)
            raise
        finally:
            # how long the robot takes to settle is no part of the motion
            settling = max(course.clock.elapsed - path.duration, 0.0)
            self.report.result.duration += course.clock.taken - settling

    def _begin(self, path: MotionPath) -> _FollowedPath:
        here, rest = self.states.sample().position, self.sender.rest
        confirmed = rest is not None and np.abs(rest - here).max() <= self.options.start_tolerance
        self._watch.begin()
        lead = self._lead(path, here, confirmed)
        self.sender.begin(path.limits, rest if rest is not None and confirmed else here)
        now = self.states.now()
        clock = PathClock(now + int(1e9 * lead), now)
        sent = path.stops.horizon(0.0, self.options.horizon)
        self.sender.send(sent.trajectory, clock)
        return _FollowedPath(path, clock, sent, 0.0)

    def _lead(self, path: MotionPath, here: np.ndarray, confirmed: bool) -> float:
        """
        Return the time for the way from where the robot is to the path's start.

        The controller goes there from where the robot truly is.  Before the first motion the joint
        states alone say where that is: the way takes so long that a robot elsewhere keeps its
        limits, too.
        """
        limits, speed = path.limits, self.options.move_speed
        start = path.trajectory.position[0]

        def duration(begin: np.ndarray, velocity: np.ndarray, acceleration: np.ndarray) -> float:
            return point_to_point(limits.joints, begin, start, velocity, acceleration).duration

        lead = duration(here, speed * limits.velocity, speed * limits.acceleration)
        if not confirmed:
            error = np.array([UNCONFIRMED[unit] for unit in limits.units])
            braked = ACCELERATION_SHARE * limits.acceleration
            lead = max(lead, duration(start - error, limits.velocity, braked))
        return max(lead, START_LEAD)

    def _look(self, clock: PathClock) -> None:
        states = self.states
        clock.look(states.now(), self.sender.speed_scaling, states.published)

    def _go_on(self, course: _FollowedPath) -> None:
        """Send the next horizon when it is time."""
        elapsed = course.clock.elapsed
        due = course.sent_at + self.options.horizon / HORIZONS_AHEAD
        if elapsed >= due and np.isfinite(course.sent.stop):
            following = self._horizon(course, self.options.horizon)
            self.sender.send(following.trajectory, course.clock)
            course.sent, course.sent_at = following, elapsed

    def _horizon(self, course: _FollowedPath, length: float) -> Horizon:
        """Return what lies ahead; it begins before the latest joint state, so in the past."""
        clock = course.clock
        since = clock.at(self._seen(clock))
        return course.path.stops.horizon(min(since, clock.elapsed), clock.elapsed + length)

    def _arrived(self, course: _FollowedPath, first: float, last: float) -> bool:
        # at the latest joint state, which shows if the robot is at rest
        elapsed = course.clock.at(self._seen(course.clock))
        duration = course.path.duration
        share = min(max(elapsed / duration, 0.0), 1.0)
        self.report.feedback.progress = first + share * (last - first)
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

    def _raise_reasons(self, course: _FollowedPath) -> None:
        """Raise the reason for which the motion has to end, if there is one."""
        if course.clock.elapsed > course.sent.stop - STOP_LEAD:
            late = course.clock.elapsed - course.sent_at
            raise NoMoreCommandsError(
                Code.INTERNAL,
                f'this node was held up for {late:.2g} s, so the controller has brought the robot '
                'to rest along the path: see what keeps the machine busy, or raise horizon '
                f'({self.options.horizon:g} s)',
            )
        failure = self.sender.failure
        if failure is not None:
            # it may hold the robot where it is: the next command could be a leap
            raise NoMoreCommandsError(Code.CONTROLLER_FAILED, failure)
        reason = self._watch.reason(course.path, course.clock) or self.interruption()
        if reason is not None:
            raise reason

    # ---------------------------------------------------------------------------------- stopping

    async def _stop(self, course: _FollowedPath) -> None:
        """Bring the robot to rest along the path; wait until it is, as far as one can see."""
        self.report.feedback.phase = 'stopping'
        path, clock = course.path, course.clock
        end = path.duration
        if clock.elapsed < 0.0:  # it has not begun: stay where it would have
            self._hold(path, path.trajectory.position[0], clock, since=0.0)
            end = 0.0
        elif clock.speed <= PAUSED:
            self._hold(path, self._reference(clock.elapsed)[0], clock, since=clock.elapsed)
            end = clock.elapsed
        elif self.options.stop == 'at_once':
            end = self._divert(course, None, QUICKEST)
        elif clock.elapsed < path.duration:
            stop = self._horizon(course, STOP_LEAD)
            if stop.end < course.sent.end and self._send_last(stop.trajectory, clock):
                course.sent = stop
            end = course.sent.end
        await self._rest(path, clock, end)

    async def _give_way(self, course: _FollowedPath) -> None:
        """
        Bring the robot to rest where something holds it, if it is known to be near its path.

        A stop along the path would go on pressing.  The robot is believed to be where the joint
        states say if each of them was plausible, and if it is no farther from the reference than
        it takes to notice.
        """
        states, options, clock = self.states, self.options, course.clock
        if clock.elapsed < 0.0 or clock.speed <= PAUSED:
            await self._stop(course)
            return
        reference = self._reference(clock.elapsed)
        place = states.sample().position
        allowed = 2.0 * options.tracking_tolerance + options.tracking_lag * np.abs(reference[1])
        away = np.abs(place - reference[0])
        worst = int((away - allowed).argmax())
        if away[worst] <= allowed[worst] and not states.flawless:
            await self._stop(course)
            return
        if away[worst] > allowed[worst]:
            joint = course.path.trajectory.joints[worst]
            self.node.get_logger().error(
                f"joint '{joint}' is {away[worst]:.3g} away from where it is commanded, if the "
                'joint states are true: nothing more is sent, the controller ends what it has; '
                'use the emergency stop if the robot still moves or presses'
            )
            await self._rest(course.path, clock, course.sent.end)
            return
        self.report.feedback.phase = 'stopping'
        if self.sender.feeds_back:
            # velocities lead to no place: they end, and no feedback draws the robot to its path
            self.sender.ignore_states()
        end = self._divert(course, None if self.sender.feeds_back else place, SHORTEST)
        await self._rest(course.path, clock, end)

    def _divert(self, course: _FollowedPath, place: np.ndarray | None, shortest: float) -> float:
        """Leave the path for a stop of its own; return when the robot is at rest [s]."""
        path, clock, reference = course.path, course.clock, self.sender.reference
        assert reference is not None
        begin = clock.elapsed + STOP_LEAD
        state = self._reference(begin)
        if begin >= reference.end:
            return reference.end
        stop = to_rest(path.limits, state, place, shortest)
        if stop is None or (place is None and begin + stop.duration >= course.sent.end):
            return course.sent.end
        diversion = diverted(reference, begin, stop, STOP_RATE)
        return begin + stop.duration if self._send_last(diversion, clock) else course.sent.end

    def _send_last(self, trajectory: PointTrajectory, clock: PathClock) -> bool:
        """Send a stop; return False, and log the error, if the command gate refuses it."""
        try:
            self.sender.send(trajectory, clock)
        except NoMoreCommandsError as error:
            self.node.get_logger().error(
                f'{error.message}; the controller ends what it has instead'
            )
            return False
        return True

    def _hold(
        self, path: MotionPath, position: np.ndarray, clock: PathClock, since: float
    ) -> None:
        """Send a trajectory at rest in one place, from shortly before a time of the path on."""
        rest = np.zeros((2, position.size))
        time = np.array([max(since - STOP_LEAD, 0.0), since + HOLD])
        joints = path.trajectory.joints
        self._send_last(
            PointTrajectory(joints, time, np.tile(position, (2, 1)), rest, rest), clock
        )

    def _reference(self, time: float) -> np.ndarray:
        """Return what was sent last for a time of the path, (3, n_joints)."""
        assert self.sender.reference is not None
        return self.sender.reference.state(time)[:, 0]

    async def _rest(self, path: MotionPath, clock: PathClock, end: float) -> None:
        """Wait until the robot rests after a time of the path, as far as one can see."""
        self.states.forget()
        settle = SETTLE_LEAD + self.options.settle_time
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
            if clock.speed <= PAUSED:
                self._hold(path, self._reference(clock.elapsed)[0], clock, since=clock.elapsed)
            return
        self.node.get_logger().error(
            'the robot is still moving after the stop: use its emergency stop'
        )

    def _seen(self, clock: PathClock) -> int:
        """Return the time of the latest joint state [ns]."""
        return self.states.sample().stamp or clock.now
