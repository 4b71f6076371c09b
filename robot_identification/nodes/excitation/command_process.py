# SPDX-License-Identifier: Apache-2.0
"""
Sender of single commands of position or velocity, and the process that streams them.

The node sends it horizons, each of which ends at rest.  If no more come, since the node hangs or
was killed, the last one is played to its end: the robot stops along the checked path.  The process
has one thread, ignores signals other than SIGKILL, and ends with the node, once the robot rests.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
import mmap
from multiprocessing import Pipe
from multiprocessing.connection import Connection
import os
import signal
import sys
import threading
import time
from typing import Any

import numpy as np
import rclpy
from rclpy.callback_groups import CallbackGroup
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.signals import SignalHandlerOptions
from rclpy.subscription import Subscription
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64, Float64MultiArray

from ...errors import RecordingError
from ...excitation.command_stream import CommandPlayer, STALE_AGE
from ...excitation.guards import CommandLimiter
from ...excitation.limits import Limits
from ...excitation.trajectories import PointTrajectory
from ..common.joint_states import waited
from ..common.messages import joint_sample
from ..common.processes import prioritise, start_module
from .options import Code, ControllerOptions, MotionError, Tick, VELOCITY_COMMANDS
from .remote_nodes import difference, joints_differ, wait_for
from .senders import Sender

FINAL_HOLD = 0.2
"""Time over which the last command is repeated [s]."""

IDLE = 0.02
"""Time between two looks while nothing is streamed [s]."""

READY_SECONDS = 30.0
"""How long the process may take to start [s]."""

HUNG_SECONDS = 0.5
"""Time without a heartbeat after which the process is ended, and the robot stopped [s]."""

ORPHAN_TIMEOUT = 60.0
"""Longest time for which a horizon is played without the node, however slow time passes [s]."""


@dataclass(frozen=True)
class CommandTask:
    """Settings of the process: full names of node and topics, ``speed`` or '', and options."""

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
    """Heartbeat of a process in shared memory, of a descriptor or new; neither side waits."""

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

    The pipe brings ``(word, content)``: 'joints' with the commands' order, 'begin' with the limits
    and the place of rest, 'horizon' with a trajectory, its columns in that order, and when it
    begins in the clock of the joint states [s], 'ignore_states', 'finish'.
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


# ------------------------------------------------------------------------------- side of the node


class CommandSender(Sender):
    """Sender to the process that streams commands."""

    def __init__(self, node: Node, group: CallbackGroup, options: ControllerOptions) -> None:
        self.feeds_back = options.controller_kind == VELOCITY_COMMANDS
        # publishes only after the process that streams has ended
        self._publisher = node.create_publisher(Float64MultiArray, options.controller_topic, 1)
        super().__init__(node, group, self._publisher.topic_name, options)
        self._stream: _Process | None = None
        self._order: tuple[str, ...] = ()
        self._given_up = False  # the robot was left where it had stopped
        self._limits: Limits | None = None
        self._latest: tuple[PointTrajectory, float] | None = None

    @property
    def failure(self) -> str | None:
        """See `Sender`."""
        if self._stream is not None:
            self._stream.end_if_hung()
        if self._stream is None or self._stream.ended:
            return (
                'the process that streams commands has ended: see the log, and start the motion '
                'anew'
            )
        if self._stream.held_up:
            self._given_up = True
            return (
                f'the process that streams commands was held up for {self._stream.held_up:.2g} s: '
                'the robot, which had stopped for want of commands, was left there; see what '
                'keeps the machine busy, or raise command_priority'
            )
        return super().failure

    async def prepare(self, joints: tuple[str, ...], tick: Tick) -> None:
        """Start the process; see `Sender`."""
        self._order = await self._ordered(joints, tick)
        await super().prepare(joints, tick)
        if self._stream is None or self._stream.ended:
            self._stream = _Process(self._task(), self._node.get_logger().info, self._on_end)
        stream = self._stream
        end = time.monotonic() + READY_SECONDS
        while not stream.ready:
            if stream.ended or time.monotonic() > end:
                raise MotionError(
                    Code.INTERNAL, 'the process that streams commands did not start: see the log'
                )
            await tick()
        stream.connected, stream.held_up, self._given_up = False, 0.0, False
        stream.send('joints', self._order)
        await wait_for(
            lambda: stream.connected,
            f'no subscriber takes commands on {self.target}: start the controller, or correct the '
            'parameter controller_topic',
            tick,
        )

    async def _ordered(self, joints: tuple[str, ...], tick: Tick) -> tuple[str, ...]:
        """Return the motion's joints in the controller's order; commands carry no names."""
        theirs = await self._controller.joints(tick)
        order = theirs or self._options.controller_joints
        name = self._controller.name if theirs else 'controller_joints'
        if not order:
            raise MotionError(
                Code.JOINTS_DIFFER,
                f'the order of the joints in the commands on {self.target} is not known, since '
                f"'{self._controller.name}' does not return its parameter joints: correct the "
                'parameter controller_node, or give controller_joints',
            )
        missing, surplus = difference(joints, order)
        if missing or surplus or len(set(order)) != len(order):
            raise joints_differ(name, missing, surplus)
        return order

    def begin(self, limits: Limits, position: np.ndarray) -> None:
        """Send the process the limits, and from where it moves the robot."""
        columns = [limits.joints.index(joint) for joint in self._order]
        ordered = Limits(
            self._order,
            tuple(limits.units[column] for column in columns),
            *(
                getattr(limits, name)[columns]
                for name in ('lower', 'upper', 'velocity', 'acceleration', 'effort', 'jerk')
            ),
        )
        self._limits = ordered
        if self._stream is not None:
            self._stream.send('begin', (ordered, position[columns]))

    def send(self, trajectory: PointTrajectory, start: int) -> None:
        """Stream a horizon that replaces the one that runs, unless the robot was left alone."""
        if self._stream is None or self._stream.ended or self._given_up:
            return
        path = trajectory.of_joints(self._order)
        self._latest = path, time.monotonic()
        self._stream.send('horizon', (path, 1e-9 * start + path.begin))

    def ignore_states(self) -> None:
        """Have what is left of the motion streamed without feedback."""
        if self._stream is not None:
            self._stream.send('ignore_states')

    def finish(self) -> None:
        """End the stream: the robot rests."""
        if self._stream is not None and self._stream.ready:
            self._stream.send('finish')

    def _task(self) -> CommandTask:
        node, options = self._node, self._options
        speed = options.speed_scaling_topic
        return CommandTask(
            node=node.get_fully_qualified_name(),
            topic=self._publisher.topic_name,
            joint_states=node.resolve_topic_name('joint_states'),
            speed=node.resolve_topic_name(speed) if speed else '',
            velocity=self.feeds_back,
            simulated=bool(node.get_parameter('use_sim_time').value),
            rate=options.command_rate,
            gain=options.command_gain,
            priority=options.command_priority,
        )

    def _on_end(self, code: int) -> None:
        """Stop a robot that would run on; called from another thread."""
        if self.feeds_back:
            self._slow_down()
        hung = self._stream is not None and self._stream.hung
        why = 'was ended, since it hung' if hung else f'ended with code {code}'
        self._node.get_logger().error(f'the process that streams commands {why}')

    def _slow_down(self) -> None:
        """Bring a robot that takes velocities to rest, from the velocity that was planned."""
        zero = np.zeros(len(self._order))
        if self._limits is not None and self._latest is not None:
            (path, sent), period = self._latest, 1.0 / self._options.command_rate
            motion = path.sample(np.array([time.monotonic() - sent]))
            limiter = CommandLimiter(self._limits, motion.position[0], motion.velocity[0])
            velocity = motion.velocity[0]
            while velocity.any():
                velocity = limiter.velocity(zero, period, period)
                self._publish(velocity)
                time.sleep(period)
        self._publish(zero)

    def _publish(self, command: np.ndarray) -> None:
        self._publisher.publish(Float64MultiArray(data=array('d', command.tobytes())))


class _Process:
    """The process that streams, and what it reports."""

    def __init__(
        self, task: CommandTask, log: Callable[[str], Any], on_end: Callable[[int], None]
    ) -> None:
        self.ready = self.connected = self.ended = False
        self.held_up = 0.0
        self.hung = False
        self._heartbeat = Heartbeat()
        self._looked = self._since = 0.0
        self._patience = max(HUNG_SECONDS, 5.0 / task.rate)
        self._log, self._on_end = log, on_end
        self._pipe, others = Pipe()
        with others:
            # no signal at this process's death: it brings the robot to rest by itself, and ends
            self._process = start_module(
                f'{__package__}.command_process',
                others.fileno(),
                self._heartbeat.file,
                end_with_parent=False,
            )
        os.close(self._heartbeat.file)
        self._pipe.send(task)
        threading.Thread(target=self._listen, name='commands', daemon=True).start()

    def send(self, word: str, content: Any = None) -> None:
        """Send a message to `Streamer`."""
        try:
            self._pipe.send((word, content))
        except OSError:
            self.ended = True

    def end_if_hung(self) -> None:
        """Kill the process where it streams no more; called again and again while it should."""
        now = time.monotonic()
        if now - self._looked > 0.5 * HUNG_SECONDS:
            self._since = now  # this process was held up itself, or begins to look
        self._looked = now
        alive = max(self._heartbeat.latest, self._since)
        if now - alive > self._patience and not self.hung and not self.ended:
            self.hung = True
            self._process.kill()

    def _listen(self) -> None:
        try:
            while True:
                word, note = self._pipe.recv()
                if word == 'ready':
                    if note:
                        self._log(note)
                    self.ready = True
                elif word == 'held_up':
                    self.held_up = note
                else:
                    self.connected = True
        except (EOFError, OSError):
            self.ended = True
        self._on_end(self._process.wait())


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
