# SPDX-License-Identifier: Apache-2.0
"""
A simulated robot and its controllers on a clock that drives the excitation node, without DDS.

The world's time passes in `World.pass_time` alone; `driven_time` has the node's modules see it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
import heapq
import itertools
import time
from typing import Any
from unittest import mock

import numpy as np
from rclpy.serialization import serialize_message
from robot_identification.errors import RecordingError
from robot_identification.excitation.command_stream import CommandPlayer
from robot_identification.excitation.limits import Limits
from robot_identification.excitation.trajectories import PointTrajectory
from robot_identification.model.robot import Robot
from robot_identification.nodes.common.messages import (
    joint_sample,
    nanoseconds,
    time_message,
)
from robot_identification.nodes.excitation import joint_state_watch as excitation_states
from robot_identification.nodes.excitation.senders import message_of
from robot_identification.nodes.simulation_inputs import RAMP, SCALING_RATE, waypoints_of
from robot_identification.simulation import SimulatedSample, SimulationSettings, Simulator
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory

STAMP = 1000.0
"""Stamp of the first joint state [s]."""

WALL = 500.0
"""This machine's time at the first joint state [s]."""

LATENCY = 0.002
"""Of joint states, and of commands [s]."""

OBSTACLE_STIFFNESS, OBSTACLE_DAMPING = 300.0, 10.0
"""Of an obstacle that the first joint meets [N m/rad, N m s/rad]."""


class JointStateTopic:
    """Joint states on their way to the node, in place of its subscription."""

    topic_name = '/joint_states'

    def __init__(self, world: World) -> None:
        self._world = world
        self._waiting: deque[tuple[float, bytes, dict[str, Any]]] = deque()
        self._sequences: dict[int, int] = {0: 0, 1: 100}

    def send(self, message: JointState, publisher: int) -> None:
        """Let a message arrive after the latency."""
        self._sequences[publisher] += 1
        now = self._world.wall
        info = {
            'source_timestamp': round(1e9 * now),
            'received_timestamp': round(1e9 * (now + LATENCY)),
            'publication_sequence_number': self._sequences[publisher],
        }
        self._waiting.append((now + LATENCY, serialize_message(message), info))

    def taken(self) -> Iterator[tuple[bytes, dict[str, Any]]]:
        """Take the messages that have arrived."""
        while self._waiting and self._waiting[0][0] <= self._world.wall:
            yield self._waiting.popleft()[1:]


class World:
    """
    A simulated robot, and the time of the node that moves it.

    Parameters
    ----------
    robot, settings:
        Of the simulation; joint states are published at ``settings.rate``.

    Attributes
    ----------
    track:
        True positions and velocities, (n_joints,) each, after every servo period.
    states:
        Messages that the robot has published, before `spoil`.
    spoil:
        Returns the messages that arrive in place of a true one, each with the number of its
        publisher (0 or 1); None where the true one does.
    listeners:
        Called with each message that is published.
    stream:
        Called with `wall` at ``settings.rate``, before a servo period; None for nothing.
    obstacle:
        Position of the first joint beyond which an obstacle pushes back; None for none [rad].
    speed:
        Speed scaling of the controllers; see `scale_speed`.

    """

    def __init__(self, robot: Robot, settings: SimulationSettings) -> None:
        self.simulator = Simulator(robot, settings)
        self.topic = JointStateTopic(self)
        self.track: list[tuple[np.ndarray, np.ndarray]] = []
        self.states: list[JointState] = []
        self.spoil: Callable[[JointState], Sequence[tuple[JointState, int]]] | None = None
        self.listeners: list[Callable[[JointState], None]] = []
        self.stream: Callable[[float], None] | None = None
        self.obstacle: float | None = None
        self.speed = 1.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()

    @property
    def now(self) -> float:
        """Time of the robot [s]."""
        return self.simulator.time

    @property
    def wall(self) -> float:
        """Time of this machine [s]."""
        return WALL + self.simulator.time

    def later(self, seconds: float, action: Callable[[], None]) -> None:
        """Have something happen after a time."""
        heapq.heappush(self._events, (self.now + seconds, next(self._order), action))

    def scale_speed(self, target: float) -> None:
        """Let the speed of trajectories and commanded velocities go to a share ``target``."""
        step = RAMP / SCALING_RATE
        self.speed += min(max(target - self.speed, -step), step)
        self.simulator.scale_speed(self.speed)
        if self.speed != target:
            self.later(1.0 / SCALING_RATE, lambda: self.scale_speed(target))

    def pass_time(self, seconds: float) -> None:
        """Let time pass."""
        end = self.now + seconds - 1e-9
        every = self.simulator.settings.decimation
        while self.now < end:
            while self._events and self._events[0][0] <= self.now:
                heapq.heappop(self._events)[2]()
            if self.stream is not None and self.simulator.periods % every == 0:
                self.stream(self.wall)
            plant = self.simulator.plant
            if self.obstacle is not None:
                self.simulator.disturb(self._push(self.obstacle))
            period, sample = self.simulator.periods, self.simulator.advance()
            self.track.append((plant.position.copy(), plant.velocity.copy()))
            if period % every == 0:
                self._publish(sample)

    def _push(self, obstacle: float) -> np.ndarray:
        """Return the efforts with which an obstacle pushes back (n_joints,)."""
        plant = self.simulator.plant
        depth = max(plant.position[0] - obstacle, 0.0)
        damping = OBSTACLE_DAMPING * plant.velocity[0] if depth else 0.0
        efforts = np.zeros_like(plant.position)
        efforts[0] = -OBSTACLE_STIFFNESS * depth - damping
        return efforts

    def _publish(self, sample: SimulatedSample) -> None:
        message = JointState(
            name=list(self.simulator.joints),
            position=list(sample.position),
            velocity=list(sample.velocity),
            effort=list(sample.effort),
        )
        message.header.stamp = time_message(round(1e9 * (STAMP + sample.time)))
        self.states.append(message)
        sent = [(message, 0)] if self.spoil is None else self.spoil(message)
        for each, publisher in sent:
            self.topic.send(each, publisher)
            for listener in self.listeners:
                listener(each)


class TrajectoryController:
    """
    A controller that interpolates trajectories; a `Sender`.

    Attributes
    ----------
    sent:
        Trajectories that it has got.

    """

    target, failure = 'the simulated controller', None
    feeds_back = False

    def __init__(self, world: World) -> None:
        self._world = world
        self.sent: list[JointTrajectory] = []

    @property
    def speed_scaling(self) -> float:
        """Rate at which time passes."""
        return self._world.speed

    async def prepare(self, joints: tuple[str, ...], tick: Any) -> None:
        """Do nothing: it is there."""

    def begin(self, limits: Limits, position: np.ndarray) -> None:
        """Do nothing: it interpolates."""

    def send(self, trajectory: PointTrajectory, start: int) -> None:
        """Follow the points, soon."""
        message = message_of(trajectory, start)
        self.sent.append(message)
        self._world.later(LATENCY, lambda: self._follow(message))

    def _follow(self, message: JointTrajectory) -> None:
        waypoints = waypoints_of(message)
        begin = 1e-9 * nanoseconds(message.header.stamp) - STAMP
        if begin + waypoints.time[-1] > self._world.now:
            self._world.simulator.follow(waypoints, begin)

    def ignore_states(self) -> None:
        """Do nothing: it has joint states of its own."""

    def finish(self) -> None:
        """Do nothing: the last point is held."""


class CommandController(TrajectoryController):
    """
    A robot that takes positions or velocities, and the process that streams them.

    Attributes
    ----------
    commands:
        (n_joints,) each, that the robot has got.

    """

    def __init__(self, world: World, velocity: bool, gain: float = 2.0) -> None:
        super().__init__(world)
        self._velocity = self.feeds_back = velocity
        rate = world.simulator.settings.rate
        self._player = CommandPlayer(velocity, gain, rate, simulated=False)
        self._ended = False
        self._inbox: deque[tuple[float, JointState]] = deque()
        self.commands: list[np.ndarray] = []
        world.stream = self._step
        world.listeners.append(lambda m: self._inbox.append((world.wall + LATENCY, m)))

    async def prepare(self, joints: tuple[str, ...], tick: Any) -> None:
        """Begin a motion."""
        self._ended = False
        self._player.prepare()

    def begin(self, limits: Limits, position: np.ndarray) -> None:
        """Begin a path."""
        self._player.begin(limits, position)

    def send(self, trajectory: PointTrajectory, start: int) -> None:
        """Follow the points."""
        self._player.follow(trajectory, 1e-9 * start + trajectory.begin)

    def ignore_states(self) -> None:
        """Use no more joint states."""
        self._player.ignore_states()

    def finish(self) -> None:
        """End the stream."""
        self._ended = self._player.stream.running
        self._player.stream.stop()

    @property
    def failure(self) -> str | None:  # type: ignore[override]
        """Reason for which the stream has ended."""
        return 'the stream was held up' if self._player.stream.held_up else None

    def _step(self, wall: float) -> None:
        """Take the joint states that have arrived, and command."""
        while self._inbox and self._inbox[0][0] <= wall:
            self._note(self._inbox.popleft()[1], wall)
        self._player.replace(wall)
        if self._player.stream.running:
            command: np.ndarray | None = self._player.command(wall, self.speed_scaling)
        else:
            command = self._player.last() if self._ended else None
        if command is None:
            return
        self.commands.append(command)
        simulator = self._world.simulator
        (simulator.command_velocity if self._velocity else simulator.command_position)(command)

    def _note(self, message: JointState, wall: float) -> None:
        try:
            sample = joint_sample(message, self._world.simulator.joints)
        except RecordingError:
            return
        if np.isfinite(sample.position).all():
            stamp = 1e-9 * sample.stamp if sample.stamp else STAMP + self._world.now
            self._player.note(stamp, wall, sample.position)


@contextmanager
def driven_time(world: World) -> Iterator[None]:
    """Have the node's modules see the time, and the joint states, of the world."""
    with (
        mock.patch.object(time, 'monotonic', lambda: world.wall),
        mock.patch.object(time, 'time', lambda: world.wall),
        mock.patch.object(excitation_states, 'FetchedJointStates', lambda *_, **__: world.topic),
    ):
        yield
