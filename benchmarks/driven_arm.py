# SPDX-License-Identifier: Apache-2.0
"""
A simulated arm, moved by the motion of the excitation node on a clock that the simulation drives.

`MotionRun`, `StateWatch`, the command gate and the stream of commands run in this process; the arm
and its controller are undisturbed, while the messages to the node may be spoiled.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
import heapq
import itertools
from pathlib import Path
import time
from typing import Any
from unittest import mock

import numpy as np
from rclpy.logging import get_logger
from rclpy.serialization import serialize_message
from robot_identification.excitation.command_player import CommandPlayer
from robot_identification.excitation.limits import Limits, motion_limits
from robot_identification.excitation.points import Points, PointTrajectory
from robot_identification.excitation.settings import PlannerSettings
from robot_identification.excitation.state_monitor import state_bounds
from robot_identification.nodes import excitation_states
from robot_identification.nodes.excitation_errors import code_name, MotionError
from robot_identification.nodes.excitation_motion import MotionRun
from robot_identification.nodes.excitation_options import ExecutionOptions
from robot_identification.nodes.excitation_states import require_state, StateWatch
from robot_identification.nodes.motion_messages import time_message
from robot_identification.nodes.motion_path import motion_path
from robot_identification.nodes.motion_sender import CheckedSender
from robot_identification.nodes.motion_watch import Report
from robot_identification.robot import Robot
from robot_identification.simulation import SimulationSettings, Simulator
from robot_identification.simulation.following import Waypoints
from sensor_msgs.msg import JointState

URDF = Path(__file__).resolve().parents[1] / 'urdf' / 'szabo_3r.urdf'
SETTINGS = PlannerSettings(
    velocity_limits=(3.0, 3.0, 3.0),
    acceleration_limits=(12.0, 12.0, 12.0),
    lower_limits=(-np.pi, -np.pi, -np.pi),
    upper_limits=(np.pi, np.pi, np.pi),
)
OPTIONS = ExecutionOptions(execute=True, effort_tolerance=0.5)
RATE = 250.0
STAMP = 1000.0
"""Stamp of the first joint state [s]."""

LATENCY = 0.002
"""Of joint states, and of commands [s]."""

OBSTACLE_STIFFNESS, OBSTACLE_DAMPING = 300.0, 10.0
"""Of an obstacle that the first joint meets [N m/rad, N m s/rad]."""

SPAN = 0.004
"""Time over which the true acceleration is determined [s]."""

Fault = Callable[['Spoiler', JointState], list[tuple[JointState, int]]]


@dataclass
class Spoiler:
    """
    A fault of the joint states from a moment on.

    Attributes
    ----------
    fault:
        Makes of a true message what arrives: messages, each with the number of its publisher.
    since:
        When it begins [s].
    random:
        For what is random in it.

    """

    fault: Fault
    since: float
    random: np.random.Generator
    first: JointState | None = None
    count: int = 0
    history: list[JointState] = field(default_factory=list)
    held: list[JointState] = field(default_factory=list)

    def messages(self, now: float, message: JointState) -> list[tuple[JointState, int]]:
        """Return what arrives in place of a true message."""
        self.history.append(message)
        if now < self.since:
            return [(message, 0)]
        if self.first is None:
            self.first = self.history[-1]
        self.count += 1
        return self.fault(self, message)

    @property
    def elapsed(self) -> float:
        """Time since the fault began [s]."""
        return self.count / RATE


# ------------------------------------------------------------------------- around the node


class Topic:
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
        """Take what has arrived."""
        while self._waiting and self._waiting[0][0] <= self._world.wall:
            yield self._waiting.popleft()[1:]


class Node:
    """The part of a ROS node that a motion uses."""

    def get_logger(self) -> Any:
        """Return a logger of errors alone."""
        return get_logger('false_states')

    def count_publishers(self, topic: str) -> int:
        """Return that there is a driver."""
        return 1

    def get_publishers_info_by_topic(self, topic: str) -> list[Any]:
        """Return nobody."""
        return []


class World:
    """
    A simulated arm, and the node's time.

    Parameters
    ----------
    robot:
        The arm.
    start:
        (n_joints,) where it rests [rad].

    """

    def __init__(self, robot: Robot, start: np.ndarray) -> None:
        settings = SimulationSettings(
            rate=RATE, servo_rate=500.0, initial_position=tuple(map(float, start))
        )
        self.simulator = Simulator(robot, settings)
        self.topic = Topic(self)
        self.spoiler: Spoiler | None = None
        self.track: list[tuple[np.ndarray, np.ndarray]] = []
        self.stream: Callable[[float], None] | None = None
        self.obstacle: float | None = None
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._every = round(settings.servo_rate / RATE)

    @property
    def now(self) -> float:
        """Time of the robot [s]."""
        return self.simulator.time

    @property
    def wall(self) -> float:
        """Time of this machine [s]."""
        return 500.0 + self.simulator.time

    def later(self, seconds: float, action: Callable[[], None]) -> None:
        """Have something happen after a time."""
        heapq.heappush(self._events, (self.now + seconds, next(self._order), action))

    def pass_time(self, seconds: float) -> None:
        """Let time pass."""
        end = self.now + seconds - 1e-9
        while self.now < end:
            while self._events and self._events[0][0] <= self.now:
                heapq.heappop(self._events)[2]()
            if self.stream is not None and self.simulator.periods % self._every == 0:
                self.stream(self.wall)
            plant = self.simulator.plant
            if self.obstacle is not None:
                depth = max(plant.position[0] - self.obstacle, 0.0)
                damping = OBSTACLE_DAMPING * plant.velocity[0] if depth else 0.0
                push = -OBSTACLE_STIFFNESS * depth - damping
                self.simulator.disturb(np.array([push, 0.0, 0.0]))
            period, sample = self.simulator.periods, self.simulator.advance()
            self.track.append((plant.position.copy(), plant.velocity.copy()))
            if period % self._every == 0:
                self._publish(sample)

    def _publish(self, sample: Any) -> None:
        message = JointState(
            name=list(self.simulator.joints),
            position=list(sample.position),
            velocity=list(sample.velocity),
            effort=list(sample.effort),
        )
        message.header.stamp = time_message(round(1e9 * (STAMP + sample.time)))
        spoiled = [(message, 0)]
        if self.spoiler is not None:
            spoiled = self.spoiler.messages(self.now, message)
        for each, publisher in spoiled:
            self.topic.send(each, publisher)


class TrajectoryController:
    """A controller that interpolates trajectories; a `Sender`."""

    target, speed_scaling, failure = 'the simulated controller', 1.0, None
    feeds_back = False

    def __init__(self, world: World) -> None:
        self._world = world

    async def prepare(self, joints: tuple[str, ...], tick: Any) -> None:
        """Do nothing: it is there."""

    def begin(self, limits: Limits, position: np.ndarray) -> None:
        """Do nothing: it interpolates."""

    def send(self, points: Points, start: int) -> None:
        """Follow the points, soon."""
        waypoints = Waypoints.from_motion(points.joints, points.time, points.motion)
        begin = 1e-9 * start - STAMP
        self._world.later(LATENCY, lambda: self._follow(waypoints, begin))

    def _follow(self, waypoints: Waypoints, begin: float) -> None:
        if begin + waypoints.time[-1] > self._world.now:
            self._world.simulator.follow(waypoints, begin)

    def mistrust(self) -> None:
        """Do nothing: it has joint states of its own."""

    def finish(self) -> None:
        """Do nothing: the last point is held."""


class CommandController(TrajectoryController):
    """A robot that takes positions or velocities, and the process that streams them."""

    def __init__(self, world: World, velocity: bool) -> None:
        super().__init__(world)
        self._velocity = self.feeds_back = velocity
        self._player = CommandPlayer(velocity, 2.0, RATE, simulated=False)
        self._ended = False
        self._inbox: deque[tuple[float, JointState]] = deque()
        world.stream = self._step
        send = world.topic.send

        def both(message: JointState, publisher: int) -> None:
            send(message, publisher)
            self._inbox.append((world.wall + LATENCY, message))

        world.topic.send = both  # type: ignore[method-assign]

    async def prepare(self, joints: tuple[str, ...], tick: Any) -> None:
        """Begin a motion."""
        self._ended = False
        self._player.prepare()

    def begin(self, limits: Limits, position: np.ndarray) -> None:
        """Begin a path."""
        self._player.begin(limits, position)

    def send(self, points: Points, start: int) -> None:
        """Follow the points."""
        m = points.motion
        path = PointTrajectory(points.joints, points.time, m.position, m.velocity, m.acceleration)
        self._player.follow(path, 1e-9 * start + float(points.time[0]))

    def mistrust(self) -> None:
        """Use no more joint states."""
        self._player.mistrust()

    def finish(self) -> None:
        """End the stream."""
        self._ended = self._player.stream.running
        self._player.stream.stop()

    @property
    def failure(self) -> str | None:  # type: ignore[override]
        """Why the stream has ended."""
        return 'held up' if self._player.stream.held_up else None

    def _step(self, wall: float) -> None:
        """Hear what has arrived, and command."""
        while self._inbox and self._inbox[0][0] <= wall:
            message = self._inbox.popleft()[1]
            if len(message.position) != 3 or not np.isfinite(message.position).all():
                continue
            names = dict(zip(message.name, message.position, strict=True))
            position = np.array([names[joint] for joint in self._world.simulator.joints])
            stamp = message.header.stamp.sec + 1e-9 * message.header.stamp.nanosec
            self._player.note(stamp or STAMP + self._world.now, wall, position)
        self._player.replace(wall)
        if self._player.stream.running:
            command: np.ndarray | None = self._player.command(wall, 1.0)
        else:
            command = self._player.last() if self._ended else None
        if command is None:
            return
        simulator = self._world.simulator
        (simulator.command_velocity if self._velocity else simulator.command_position)(command)


CONTROLLERS: dict[str, Callable[[World], TrajectoryController]] = {
    'trajectories': TrajectoryController,
    'positions': lambda world: CommandController(world, False),
    'velocities': lambda world: CommandController(world, True),
}
"""Controllers by what they take."""


# ------------------------------------------------------------------------------------------ runs


@dataclass(frozen=True)
class Outcome:
    """
    The true motion of the arm in one run.

    Attributes
    ----------
    velocity, acceleration:
        Largest ones of any joint [rad/s, rad/s^2].
    position:
        How far beyond its position limits a joint was; negative inside of them [rad].
    off_path:
        Largest distance from the path [rad].
    code:
        Of the result; '' for a motion to its end.
    at_rest:
        Whether the arm rested at the end.
    end_off_path:
        Distance of the last position that was commanded from the path [rad].

    """

    velocity: float
    acceleration: float
    position: float
    off_path: float
    code: str
    at_rest: bool
    end_off_path: float


@contextmanager
def driven_time(world: World) -> Iterator[None]:
    """Have the node's modules see the time of the world."""
    with (
        mock.patch.object(time, 'monotonic', lambda: world.wall),
        mock.patch.object(time, 'time', lambda: world.wall),
        mock.patch.object(excitation_states, 'FetchedJointStates', lambda *_, **__: world.topic),
    ):
        yield


class Tick:
    """What a coroutine awaits to let time pass."""

    def __await__(self) -> Iterator[None]:
        """Hand over to `drive`."""
        yield


def drive(world: World, states: StateWatch, coroutine: Any, period: float = 0.01) -> Any:
    """Run a coroutine of the node against the world; return what it returns."""
    try:
        while True:
            coroutine.send(None)
            world.pass_time(period)
            states.look()
    except StopIteration as stop:
        return stop.value


def wave(limits: Limits, speed: float) -> PointTrajectory:
    """Return a curved path from rest to rest, at up to about ``speed`` [rad/s]."""
    places = np.array([[0.3, -0.4, 0.5], [0.8, 0.1, 0.2], [1.1, -0.3, -0.3]])
    duration = 1.5 * np.abs(np.diff(places, axis=0)).max() / speed
    times = duration * np.arange(3)
    velocity = np.zeros_like(places)
    velocity[1:-1] = (places[2:] - places[:-2]) / (2.0 * duration)
    return PointTrajectory(limits.joints, times, places, velocity, np.zeros_like(places))


class Arm:
    """The robot of all runs, with its limits, its checked path, and a controller."""

    def __init__(self, controller: str = 'trajectories', speed: float = 0.5) -> None:
        self.robot = Robot.from_urdf(URDF)
        self.limits = motion_limits(self.robot, SETTINGS, margin=0.0)
        self.path = motion_path(self.robot, wave(self.limits, speed), self.limits, OPTIONS)
        self.controller = CONTROLLERS[controller]

    def run(
        self,
        fault: Fault,
        when: float,
        seed: int,
        displaced: float = 0.0,
        obstacle: float | None = None,
    ) -> Outcome:
        """
        Move the arm while the joint states become false.

        Parameters
        ----------
        fault:
            See `FAULTS`.
        when:
            When it begins, as a share of the motion; below 0 before it.
        seed:
            Of what is random.
        displaced:
            How far from the start of the path the arm truly rests [rad].
        obstacle:
            Position of the first joint beyond which an obstacle pushes back [rad].

        """
        world = World(self.robot, self.path.trajectory.position[0] + displaced)
        world.obstacle = obstacle
        sender = CheckedSender(self.controller(world))
        code = ''
        with driven_time(world):
            states = StateWatch(Node())  # type: ignore[arg-type]
            states.watch(self.robot.joints, state_bounds(self.robot, SETTINGS))
            world.pass_time(0.3)
            since = world.now + 0.5 + when * self.path.duration
            world.spoiler = Spoiler(fault, since, np.random.default_rng(seed))
            try:
                drive(world, states, self._move(states, sender))
            except MotionError as error:
                code = code_name(error.code)
            world.pass_time(1.5)
        return self._outcome(world, code, sender)

    async def _move(self, states: StateWatch, sender: CheckedSender) -> None:
        async def tick() -> None:
            await Tick()

        await require_state(states, OPTIONS, tick)
        run = MotionRun(
            Node(),  # type: ignore[arg-type]
            states,
            sender,
            OPTIONS,
            tick,
            lambda: None,
            Report(),
        )
        await run.execute(None, self.path, None)

    def _outcome(self, world: World, code: str, sender: CheckedSender) -> Outcome:
        position, velocity = (np.array(each) for each in zip(*world.track, strict=True))
        span = round(SPAN * 500.0)
        acceleration = np.abs(velocity[span:] - velocity[:-span]) / SPAN
        last = None if sender.reference is None else sender.reference.points.motion.position[-1]
        beyond = np.maximum(self.limits.lower - position, position - self.limits.upper)
        grid = np.linspace(0.0, self.path.duration, 2000)
        path = self.path.trajectory.sample(grid).position
        away = np.abs(position[::10, None] - path[None]).max(axis=2).min(axis=1)
        return Outcome(
            float(np.abs(velocity).max()),
            float(acceleration.max()),
            float(beyond.max()),
            float(away.max()),
            code,
            float(np.abs(velocity[-100:]).max()) < 0.01,
            0.0 if last is None else float(np.abs(last - path).max(axis=1).min()),
        )
