# SPDX-License-Identifier: Apache-2.0
"""
The process that streams commands of position or velocity, started by the excitation node.

The node sends it horizons, each of which ends at rest.  If no more come, since the node hangs or
was killed, the last one is played to its end: the robot stops along the checked path.  The process
has one thread, ignores signals other than SIGKILL, and ends with the node, once the robot rests.
"""

from __future__ import annotations

from array import array
from contextlib import suppress
from dataclasses import dataclass
import mmap
from multiprocessing.connection import Connection
import os
import signal
import sys
import time
from typing import Any

import numpy as np
import rclpy
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.signals import SignalHandlerOptions
from rclpy.subscription import Subscription
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64, Float64MultiArray

from ...errors import RecordingError
from ...excitation.command_stream import CommandPlayer, STALE_AGE
from ..common.joint_states import waited
from ..common.motion_messages import joint_sample
from ..common.processes import prioritise

FINAL_HOLD = 0.2
"""Time over which the last command is repeated [s]."""

IDLE = 0.02
"""Time between two looks while nothing is streamed [s]."""

ORPHAN_TIMEOUT = 60.0
"""Longest time for which a horizon is played without the node, however slow time passes [s]."""


@dataclass(frozen=True)
class CommandTask:
    """
    Settings of the process.

    Attributes
    ----------
    node:
        Full name of the excitation node.
    topic, joint_states:
        Full names of the topics of commands and joint states.
    speed:
        Full name of the topic of the speed scaling; empty for none.
    velocity:
        Whether velocities are streamed rather than positions.
    simulated:
        Whether the joint states' clock is a simulation's.
    rate, gain, priority:
        See `ControllerOptions`.

    """

    node: str
    topic: str
    joint_states: str
    speed: str
    velocity: bool
    simulated: bool
    rate: float
    gain: float
    priority: int


class Heartbeat:
    """
    Heartbeat of a process, in shared memory; neither side waits.

    Parameters
    ----------
    file:
        Descriptor of that memory; None creates it.

    """

    def __init__(self, file: int | None = None) -> None:
        if file is None:
            file = os.memfd_create('beat')
            os.ftruncate(file, 8)
        self.file = file
        self._latest = np.frombuffer(mmap.mmap(file, 8), dtype=float)

    @property
    def latest(self) -> float:
        """The latest one, by the clock that all processes have [s]; 0 before the first."""
        return float(self._latest[0])

    def beat(self) -> None:
        """Set the heartbeat to the present."""
        self._latest[0] = time.monotonic()


class Streamer:
    """
    Stream of commands; see `run`.

    Parameters
    ----------
    task:
        Settings.
    pipe:
        Brings ``(word, content)``: 'joints' with the commands' order, 'begin' with the limits and
        the place of rest, 'horizon' with a trajectory, its columns in that order, and when it
        begins in the clock of the joint states [s], 'ignore_states', 'finish'.
    heartbeat:
        Shows the node that the stream goes on.

    """

    def __init__(self, task: CommandTask, pipe: Connection, heartbeat: Heartbeat) -> None:
        namespace, _, name = task.node.rpartition('/')
        self._task, self._pipe, self._heartbeat = task, pipe, heartbeat
        self._node = Node(
            f'{name}_commands',
            namespace=namespace or '/',
            use_global_arguments=False,
            start_parameter_services=False,
        )
        self._publisher = self._node.create_publisher(
            Float64MultiArray, task.topic, QoSProfile(depth=1)
        )
        self._states = self._subscribe(JointState, task.joint_states)
        self._speeds = self._subscribe(Float64, task.speed) if task.speed else None
        self._player = CommandPlayer(task.velocity, task.gain, task.rate, task.simulated)
        self._stream = self._player.stream
        self._joints: tuple[str, ...] = ()
        self._speed = 1.0
        self._orphaned: float | None = None
        self._connected = True
        self._reported = False

    def _subscribe(self, kind: type, topic: str) -> Subscription:
        # best effort matches every publisher, and late messages are of no use
        best_effort = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
        return self._node.create_subscription(kind, topic, lambda _: None, best_effort)

    def run(self) -> None:
        """Stream until the node is gone and the robot rests."""
        period = 1.0 / self._task.rate
        due = time.monotonic()
        try:
            while not self._ended():
                self._heartbeat.beat()
                self._receive()
                self._update()
                if self._stream.running:
                    self._publish(self._player.command(time.monotonic(), self._speed))
                    self._report()
                due = max(due + (period if self._busy else IDLE), time.monotonic() - period)
                time.sleep(max(due - time.monotonic(), 0.0))
        finally:
            self._finish()

    @property
    def _busy(self) -> bool:
        return self._stream.running or self._player.waiting

    def _ended(self) -> bool:
        if self._orphaned is None:
            return False
        return self._stream.over or time.monotonic() > self._orphaned + ORPHAN_TIMEOUT

    def _receive(self) -> None:
        """Handle the messages of the node."""
        try:
            while self._orphaned is None and self._pipe.poll():
                word, content = self._pipe.recv()
                if word == 'joints':
                    self._joints, self._connected = content, False
                    self._player.prepare()
                    self._reported = False
                elif word == 'begin':
                    self._player.begin(*content)
                elif word == 'ignore_states':
                    self._player.ignore_states()
                elif word == 'horizon':
                    self._player.follow(*content)
                else:
                    self._finish()
            if not self._connected and self._publisher.get_subscription_count() > 0:
                self._connected = True
                self._pipe.send(('connected', ''))
        except (EOFError, OSError):
            self._orphaned = time.monotonic()
            self._node.get_logger().warning(
                'the excitation node is gone: the robot is brought to rest'
            )

    def _update(self) -> None:
        """Take the latest joint state and speed."""
        taken = self._states.handle.take_message(JointState, False)
        if taken is not None and self._joints:
            self._note(*taken)
        if self._speeds is not None:
            speed = self._speeds.handle.take_message(Float64, False)
            if speed is not None and speed[0].data >= 0.0:
                self._speed = 0.01 * speed[0].data
        self._player.replace(time.monotonic())

    def _note(self, message: JointState, info: dict[str, Any]) -> None:
        try:
            sample = joint_sample(message, self._joints)
        except RecordingError:
            return  # the node watches them, and reports it
        if not np.isfinite(sample.position).all():
            return
        wall = time.monotonic()
        arrived = wall - min(waited(info), STALE_AGE)
        stamp = 1e-9 * sample.stamp if sample.stamp else time.time() - (wall - arrived)
        published = 1e-9 * info.get('source_timestamp', 0) or arrived
        self._player.note(stamp, arrived, sample.position, published)

    def _publish(self, command: np.ndarray) -> None:
        self._publisher.publish(Float64MultiArray(data=array('d', command.tobytes())))

    def _report(self) -> None:
        """Report to the node, once, that the robot was left where it is."""
        if self._stream.held_up and not self._reported and self._orphaned is None:
            self._reported = True
            with suppress(OSError):  # a node that is gone is noticed in `_receive`
                self._pipe.send(('held_up', self._stream.held_up))

    def _finish(self) -> None:
        """End a stream: the robot is to rest."""
        if not self._stream.running:
            return
        self._stream.stop()
        end = time.monotonic() + FINAL_HOLD
        while (last := self._player.last()) is not None:
            if time.monotonic() >= end and not (self._task.velocity and last.any()):
                return
            self._heartbeat.beat()
            self._publish(last)
            time.sleep(1.0 / self._task.rate)


def main() -> int:
    """Take the task from the pipe whose number is the first argument, and stream."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    pipe, heartbeat = Connection(int(sys.argv[1])), Heartbeat(int(sys.argv[2]))
    try:
        task = pipe.recv()
    except EOFError:
        return 0
    note = prioritise(task.priority, 'command_priority')
    rclpy.init(args=[], signal_handler_options=SignalHandlerOptions.NO)
    try:
        streamer = Streamer(task, pipe, heartbeat)
        pipe.send(('ready', note))
        streamer.run()
    finally:
        rclpy.try_shutdown()
    return 0


if __name__ == '__main__':
    sys.exit(main())
