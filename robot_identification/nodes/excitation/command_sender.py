# SPDX-License-Identifier: Apache-2.0
"""
Sender to a robot that takes single commands, of position or of velocity.

A process of its own streams them; see `command_process`.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from multiprocessing import Pipe
import os
import threading
import time
from typing import Any

import numpy as np
from rclpy.callback_groups import CallbackGroup
from rclpy.node import Node
from std_msgs.msg import Float64MultiArray

from ...excitation.command_gate import CommandLimiter
from ...excitation.limits import Limits
from ...excitation.points import PointTrajectory
from ..common.processes import start_module
from .command_process import CommandTask, Heartbeat
from .motion_types import Code, MotionError, Tick
from .options import ControllerOptions, VELOCITY_COMMANDS
from .remote_nodes import difference, joints_differ, wait_for
from .senders import Sender

READY_SECONDS = 30.0
"""How long the process may take to start [s]."""

HUNG_SECONDS = 0.5
"""Time without a heartbeat after which the process is ended, and the robot stopped [s]."""


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
        """Send a message to `command_process.Streamer`."""
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
