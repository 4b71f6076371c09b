# SPDX-License-Identifier: Apache-2.0
"""
Runs of one arm whose joint states become false, on a clock that the simulation drives.

`MotionRun`, `StateWatch`, the command gate and the stream of commands run in this process; the arm
and its controller are undisturbed, while the messages to the node may be spoiled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rclpy.logging import get_logger
from robot_identification.excitation.guards import state_bounds
from robot_identification.excitation.limits import Limits, motion_limits
from robot_identification.excitation.settings import PlannerSettings
from robot_identification.excitation.trajectories import PointTrajectory
from robot_identification.model.robot import Robot
from robot_identification.nodes.excitation.joint_state_watch import require_state, StateWatch
from robot_identification.nodes.excitation.motion import CheckedSender, MotionRun
from robot_identification.nodes.excitation.motion_checks import motion_path
from robot_identification.nodes.excitation.options import (
    code_name,
    ExecutionOptions,
    MotionError,
    Report,
)
from robot_identification.simulation import SimulationSettings
from sensor_msgs.msg import JointState

from .driven_world import CommandController, driven_time, TrajectoryController, World

URDF = Path(__file__).resolve().parents[1] / 'urdf' / 'szabo_3r.urdf'
SETTINGS = PlannerSettings(
    velocity_limits=(3.0, 3.0, 3.0),
    acceleration_limits=(12.0, 12.0, 12.0),
    lower_limits=(-np.pi, -np.pi, -np.pi),
    upper_limits=(np.pi, np.pi, np.pi),
)
OPTIONS = ExecutionOptions(execute=True, effort_tolerance=0.5)
RATE, SERVO_RATE = 250.0, 500.0

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


CONTROLLERS: dict[str, Callable[[World], TrajectoryController]] = {
    'trajectories': TrajectoryController,
    'positions': lambda world: CommandController(world, False),
    'velocities': lambda world: CommandController(world, True),
}
"""Controllers by what they take."""


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


class Tick:
    """Awaitable that lets time pass."""

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
        start = self.path.trajectory.position[0] + displaced
        settings = SimulationSettings(
            rate=RATE, servo_rate=SERVO_RATE, initial_position=tuple(map(float, start))
        )
        world = World(self.robot, settings)
        world.obstacle = obstacle
        sender = CheckedSender(self.controller(world))
        code = ''
        with driven_time(world):
            states = StateWatch(Node())  # type: ignore[arg-type]
            states.watch(self.robot.joints, state_bounds(self.robot, SETTINGS))
            world.pass_time(0.3)
            since = world.now + 0.5 + when * self.path.duration
            spoiler = Spoiler(fault, since, np.random.default_rng(seed))
            world.spoil = lambda message: spoiler.messages(world.now, message)
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
        span = round(SPAN * SERVO_RATE)
        acceleration = np.abs(velocity[span:] - velocity[:-span]) / SPAN
        last = None if sender.reference is None else sender.reference.position[-1]
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
