# SPDX-License-Identifier: Apache-2.0
"""
Carrying out one checked trajectory: record, move to the start, follow, watch, stop.

All of it runs as one coroutine on the node's executor and looks at the robot a hundred times a
second.  Whatever ends a motion early, the robot is first brought to rest along the path that was
checked, and the recording is closed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
import time
from typing import Any

import numpy as np
from rclpy.node import Node
from robot_identification_msgs.srv import StartRecording, StopRecording

from ..errors import RecordingError
from ..excitation.limits import Limits
from ..excitation.points import Points, to_points
from ..excitation.stopping import halt, slow_down
from ..excitation.trajectories import Trajectory
from .excitation_errors import Code, LostError, MotionError
from .excitation_options import ExecutionOptions
from .excitation_partners import call_recorder
from .excitation_states import StateWatch
from .motion_sender import Sender, Tick

START_LEAD = 0.2
"""How long before its start a trajectory is sent [s]."""

STOP_LEAD = 0.1
"""How long before it takes effect a stop is sent [s]."""


@dataclass
class Report:
    """What the client is told while a motion runs, and at its end."""

    phase: str = 'checking'
    progress: float = 0.0
    tracking_error: float = 0.0
    largest_error: float = 0.0
    recording_path: str = ''


@dataclass
class MotionRun:
    """
    One motion of the robot.

    Attributes
    ----------
    node, states, sender, options:
        What it works with.
    limits:
        Limits in force; a stop keeps their accelerations.
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
    limits: Limits
    tick: Tick
    interruption: Callable[[], MotionError | None]
    report: Report

    # --------------------------------------------------------------------------- the whole way

    async def execute(
        self, approach: Trajectory | None, trajectory: Trajectory, recording: str | None
    ) -> None:
        """
        Move to the start along ``approach``, follow ``trajectory``, and record if asked.

        Parameters
        ----------
        approach:
            From where the robot is to the start; None where it is there.
        trajectory:
            From rest to rest.
        recording:
            Name of the recording, '' for one that the recorder chooses, None for none.

        Raises
        ------
        MotionError
            once the robot is at rest and the recording closed.

        """
        await self.sender.prepare(trajectory.joints, self.tick)
        if recording is not None:
            await self._start_recording(recording)
        try:
            total = trajectory.duration + (approach.duration if approach else 0.0)
            share = approach.duration / total if approach else 0.0
            if approach is not None:
                self.report.phase = 'moving_to_start'
                await self.follow(approach, 0.0, share)
                self._require_start(trajectory)
            self.report.phase = 'exciting'
            await self.follow(trajectory, share, 1.0)
        except Exception:
            await self._stop_recording(recording, quiet=True)
            raise
        finally:
            self.sender.finish()
        await self._stop_recording(recording, quiet=False)

    def _require_start(self, trajectory: Trajectory) -> None:
        position = self.states.sample().position
        away = np.abs(position - trajectory.sample(np.zeros(1)).position[0])
        if away.max() > self.options.start_tolerance:
            joint = trajectory.joints[int(away.argmax())]
            raise MotionError(
                Code.NOT_AT_START,
                f"joint '{joint}' has come to rest {away.max():.4g} from the start, more than "
                f'start_tolerance ({self.options.start_tolerance:g}): tune the controller, or '
                'raise the tolerance',
            )

    # --------------------------------------------------------------------------------- following

    async def follow(self, trajectory: Trajectory, first: float, last: float) -> None:
        """
        Have a trajectory followed until the robot rests at its end.

        Parameters
        ----------
        trajectory:
            From rest to rest.
        first, last:
            Progress at its start and end, of the whole motion.

        Raises
        ------
        MotionError
            where it was interrupted; the robot is at rest then.

        """
        points = to_points(trajectory, self.options.publish_rate)
        # what is sent is what is watched and, if need be, slowed down on
        path = points.trajectory()
        start = self.states.now() + int(1e9 * START_LEAD)
        self.sender.send(points, start)
        self.states.forget()
        try:
            while not self._arrived(path, start, first, last):
                await self.tick()
                reason = self._watch(path, start)
                if reason is not None:
                    raise reason
        except LostError:
            await self._halt()
            raise
        except Exception:
            # a fault of ours is no reason to let the robot run on
            await self._stop(path, start)
            raise

    def _arrived(self, path: Trajectory, start: int, first: float, last: float) -> bool:
        elapsed = 1e-9 * (self.states.now() - start)
        share = min(max(elapsed / path.duration, 0.0), 1.0)
        self.report.progress = first + share * (last - first)
        if elapsed < path.duration:
            return False
        if self.states.at_rest(self.options.rest_tolerance):
            return True
        if elapsed > path.duration + self.options.settle_time:
            raise self._restless()
        return False

    def _restless(self) -> MotionError:
        return MotionError(
            Code.TRACKING_ERROR,
            f'the robot does not come to rest within settle_time ({self.options.settle_time:g} s) '
            'after the end of the trajectory: see its controller, or raise rest_tolerance',
        )

    def _watch(self, path: Trajectory, start: int) -> MotionError | None:
        """Return why the motion has to end, or None."""
        if self.states.silent(self.options.stale_timeout):
            reason = self.states.fault or 'see whether the driver still runs'
            return MotionError(
                Code.STALE_STATE,
                f'no joint states for {self.states.age:.2f} s (stale_timeout is '
                f'{self.options.stale_timeout:g} s): {reason}',
            )
        if self.states.jump:
            return LostError(
                Code.STALE_STATE,
                f'the stamps of the joint states jump by {self.states.jump:.4g} s: see who sets '
                'the clock of the driver, or whether its simulation began anew',
            )
        joint, error = self._measure(path, start)
        if error > self.options.tracking_tolerance:
            return LostError(
                Code.TRACKING_ERROR,
                f"joint '{joint}' is {error:.4g} away from the plan, more than "
                f'tracking_tolerance ({self.options.tracking_tolerance:g}): see whether the robot '
                'is blocked or the controller inactive',
            )
        return self.interruption()

    def _measure(self, path: Trajectory, start: int) -> tuple[str, float]:
        """
        Return the joint that is farthest from the plan, and how far.

        A drive lags behind: the distance is that to the positions planned within the last
        ``tracking_lag``.  The report has the plain difference.
        """
        sample = self.states.sample()
        elapsed = 1e-9 * ((sample.stamp or self.states.now()) - start)
        recent = elapsed - np.linspace(0.0, self.options.tracking_lag, 6)
        planned = path.sample(recent).position
        plain = float(np.abs(sample.position - planned[0]).max())
        self.report.tracking_error = plain
        self.report.largest_error = max(self.report.largest_error, plain)
        low, high = planned.min(axis=0), planned.max(axis=0)
        away = np.maximum(np.maximum(low - sample.position, sample.position - high), 0.0)
        worst = int(away.argmax())
        return path.joints[worst], float(away[worst])

    # ---------------------------------------------------------------------------------- stopping

    async def _stop(self, path: Trajectory, start: int) -> None:
        """Bring the robot to rest along the path; wait until it is, as far as one can see."""
        self.report.phase = 'stopping'
        begin = 1e-9 * (self.states.now() - start) + STOP_LEAD
        end = max(path.duration, begin)
        if begin <= 0.0:
            # it has not begun: stay where it would have
            begin, end = 0.0, STOP_LEAD
            self.sender.send(_hold(path), start)
        else:
            stop = slow_down(path, begin, self.limits.acceleration)
            if stop is None:
                self.node.get_logger().info('the trajectory ends before a stop would')
            else:
                points = to_points(stop, max(self.options.publish_rate, 50.0))
                self.sender.send(points, start + int(1e9 * begin))
                end = begin + stop.duration
        await self._rest(start + int(1e9 * end), max(end - begin, 0.0))

    async def _halt(self) -> None:
        """Bring the robot to rest from where it is and as it moves; wait until it is."""
        self.report.phase = 'stopping'
        joints, fastest = self.limits.joints, self.limits.velocity
        velocity = np.clip(self.states.velocity(), -fastest, fastest)
        position = self.states.sample().position + STOP_LEAD * velocity
        stop = halt(joints, position, velocity, self.limits.acceleration)
        begin = self.states.now() + int(1e9 * STOP_LEAD)
        self.sender.send(to_points(stop, max(self.options.publish_rate, 50.0)), begin)
        await self._rest(begin + int(1e9 * stop.duration), STOP_LEAD + stop.duration)

    async def _rest(self, end: int, seconds: float) -> None:
        self.states.forget()
        late = time.monotonic() + seconds + STOP_LEAD + self.options.settle_time
        while time.monotonic() < late:
            await self.tick()
            silent = self.states.silent(self.options.stale_timeout)
            if self.states.now() >= end and (
                silent or self.states.at_rest(self.options.rest_tolerance)
            ):
                return
        self.node.get_logger().error(
            'the robot is still moving after the stop: use its emergency stop'
        )

    # --------------------------------------------------------------------------------- recording

    async def _start_recording(self, name: str) -> None:
        self.report.phase = 'starting_recorder'
        request = StartRecording.Request(name=name)
        answer = await self._recorder(StartRecording, 'start', request)
        self.report.recording_path = answer.path

    async def _stop_recording(self, recording: str | None, *, quiet: bool) -> None:
        """Close the recording; ``quiet`` where another error is to be told."""
        if recording is None:
            return
        self.report.phase = 'finishing_recording'
        try:
            answer = await self._recorder(StopRecording, 'stop', StopRecording.Request())
            self.report.recording_path = answer.path or self.report.recording_path
        except MotionError as error:
            if not quiet:
                raise
            self.node.get_logger().error(error.message)

    async def _recorder(self, kind: type, verb: str, request: Any) -> Any:
        name = f'{self.options.recorder}/{verb}'
        return await call_recorder(self.node, kind, name, request, self.tick)


def _hold(path: Trajectory) -> Points:
    motion = path.sample(np.zeros(2))
    return Points(path.joints, np.array([0.0, STOP_LEAD]), motion)


async def require_state(states: StateWatch, options: ExecutionOptions, tick: Tick) -> np.ndarray:
    """
    Wait for fresh joint states of a robot at rest; return its position (n_joints,).

    Raises
    ------
    MotionError
        where there are none, or the robot moves.

    """
    states.forget()
    end = time.monotonic() + 1.0
    while time.monotonic() < end:
        await tick()
        if states.age <= options.stale_timeout and states.at_rest(options.rest_tolerance):
            return states.sample().position
    try:
        states.sample()
    except RecordingError as error:
        raise MotionError(Code.STALE_STATE, str(error)) from error
    if states.age > options.stale_timeout:
        raise MotionError(
            Code.STALE_STATE,
            f'the latest joint states are {states.age:.2f} s old: '
            f'{states.fault or "see whether the driver runs"}',
        )
    raise MotionError(Code.NOT_AT_START, 'the robot is moving: wait until it is at rest')
