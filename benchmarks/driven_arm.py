# SPDX-License-Identifier: Apache-2.0
"""
Runs of one arm whose joint states become false, on a clock that the simulation drives.

`MotionRun` and `StateWatch` run in this process; the arm and its controller are undisturbed, while
the messages to the node may be spoiled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
import re
from typing import Any

import numpy as np
import pinocchio as pin
from rclpy.logging import get_logger
from robot_identification.excitation.collisions import planned_collisions
from robot_identification.excitation.limits import Limits, motion_limits
from robot_identification.excitation.settings import Obstacle, PlannerSettings
from robot_identification.excitation.trajectories import PointTrajectory
from robot_identification.model.robot import Robot
from robot_identification.nodes.excitation.joint_state_watch import StateWatch
from robot_identification.nodes.excitation.motion import MotionRun
from robot_identification.nodes.excitation.motion_checks import (
    at_speed,
    CollisionModelCache,
    MotionCheck,
)
from robot_identification.nodes.excitation.options import (
    code_name,
    ExecutionOptions,
    MotionError,
    Report,
)
from robot_identification.nodes.excitation.start import StartCheck
from robot_identification.simulation import SimulationSettings
from robot_identification.simulation.controller import Constraints
from sensor_msgs.msg import JointState

from .driven_world import driven_time, DrivenController, World

URDF = Path(__file__).resolve().parents[1] / 'urdf' / 'szabo_3r.urdf'
# no friction, whose jumps would count as acceleration
ARM = Robot.from_urdf(re.sub('<dynamics [^>]*>', '', URDF.read_text()))
# walls so near that the path and its stops just keep their clearance: a millimetre less is
# refused
WALLS = tuple(
    Obstacle(name=name, size=size, position=position)
    for name, size, position in (
        ('left', (3.0, 0.02, 3.0), (0.0, 0.661, 0.6)),
        ('right', (3.0, 0.02, 3.0), (0.0, -0.499, 0.6)),
        ('ahead', (0.02, 3.0, 3.0), (0.926, 0.0, 0.6)),
    )
)
SETTINGS = PlannerSettings(
    velocity_limits=(3.0, 3.0, 3.0),
    acceleration_limits=(12.0, 12.0, 12.0),
    lower_limits=(-np.pi, -np.pi, -np.pi),
    upper_limits=(np.pi, np.pi, np.pi),
    tracking_tolerance=(0.01,),
    obstacles=WALLS,
)
OPTIONS = ExecutionOptions(execute=True, move_speed=0.9)
CONSTRAINTS = Constraints(decelerate_on_cancel=True, max_deceleration_on_cancel=(10.0,))
RATE, SERVO_RATE = 250.0, 500.0

LENGTH, RISE = 4.0, 1.5
"""Of the swing: how long it takes, and how long it rises and falls [s]."""

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
    distance:
        Least distance of links from each other and from walls [m].
    code:
        Of the result; '' for a motion to its end.
    at_rest:
        Whether the arm rested at the end.

    """

    velocity: float
    acceleration: float
    position: float
    off_path: float
    distance: float
    code: str
    at_rest: bool


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


def wave(limits: Limits, share: float) -> PointTrajectory:
    """Return a swing from rest to rest that uses a share of velocity and acceleration limits."""
    rate = 0.86 * float((limits.acceleration / limits.velocity).min())
    time = np.arange(0.0, LENGTH + 1e-9, 0.02)
    phase = rate * time[:, None] + np.array([0.0, 1.0, 2.5])
    swing = np.sin(phase), rate * np.cos(phase), -(rate**2) * np.sin(phase)
    # rises and falls by the quintic of least jerk
    rise = np.clip(np.minimum(time, LENGTH - time) / RISE, 0.0, 1.0)[:, None]
    sign = np.where(time > 0.5 * LENGTH, -1.0, 1.0)[:, None] / RISE
    grown = (
        rise**3 * (10.0 - 15.0 * rise + 6.0 * rise**2),
        sign * 30.0 * rise**2 * (1.0 - rise) ** 2,
        sign**2 * 60.0 * rise * (1.0 - rise) * (1.0 - 2.0 * rise),
    )
    position = grown[0] * swing[0]
    velocity = grown[1] * swing[0] + grown[0] * swing[1]
    acceleration = grown[2] * swing[0] + 2.0 * grown[1] * swing[1] + grown[0] * swing[2]
    uses = np.abs(velocity) / limits.velocity, np.abs(acceleration) / limits.acceleration
    scale = share / max(each.max() for each in uses)
    centre = np.array([0.3, -0.4, 0.5])
    return PointTrajectory(
        limits.joints, time, centre + scale * position, scale * velocity, scale * acceleration
    )


async def run_here(work: Callable[[], Any]) -> Any:
    """Return the result of what a node computes in a thread."""
    return work()


class Arm:
    """The robot of all runs, with its limits and its checked path, at a share of the limits."""

    def __init__(self, share: float = 0.95) -> None:
        self.robot = ARM
        self.limits = motion_limits(self.robot, SETTINGS, margin=0.0)
        self.check = MotionCheck(
            self.robot, SETTINGS, OPTIONS, at_speed(wave(self.limits, share), 1.0, OPTIONS)
        )
        self.path = self.check.trajectory
        model = planned_collisions(self.robot, SETTINGS)
        assert model is not None
        self._geometry = model.geometry

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
        start = self.path.position[0] + displaced
        settings = SimulationSettings(
            rate=RATE,
            servo_rate=SERVO_RATE,
            perturbation=0.02,
            friction_perturbation=0.0,
            initial_position=tuple(map(float, start)),
        )
        world = World(self.robot, settings, CONSTRAINTS)
        world.obstacle = obstacle
        report = Report()
        code = ''
        with driven_time(world):
            states = StateWatch(Node())  # type: ignore[arg-type]
            states.watch(self.robot.joints)
            world.pass_time(0.3)
            since = world.now + 0.5 + when * self.path.duration
            spoiler = Spoiler(fault, since, np.random.default_rng(seed))
            world.spoil = lambda message: spoiler.messages(world.now, message)
            try:
                drive(world, states, self._move(DrivenController(world), states, report))
            except MotionError as error:
                code = code_name(error.code)
            world.pass_time(1.5)
        return self._outcome(world, code)

    async def _move(
        self, controller: DrivenController, states: StateWatch, report: Report
    ) -> None:
        async def tick() -> None:
            await Tick()

        node: Any = Node()
        motion = await replace(self.check).carry_out(
            CollisionModelCache(print),
            partial(StartCheck(controller, states, OPTIONS, tick).start, self.robot),
            run_here,
        )
        run = MotionRun(node, states, controller, OPTIONS, tick, lambda: None, report)
        await run.execute(motion, None)

    def _outcome(self, world: World, code: str) -> Outcome:
        position, velocity = (np.array(each) for each in zip(*world.track, strict=True))
        span = round(SPAN * SERVO_RATE)
        acceleration = np.abs(velocity[span:] - velocity[:-span]) / SPAN
        beyond = np.maximum(self.limits.lower - position, position - self.limits.upper)
        grid = np.linspace(0.0, self.path.duration, 2000)
        path = self.path.sample(grid).position
        away = np.abs(position[::10, None] - path[None]).max(axis=2).min(axis=1)
        return Outcome(
            float(np.abs(velocity).max()),
            float(acceleration.max()),
            float(beyond.max()),
            float(away.max()),
            self.distance(position[::2]),
            code,
            float(np.abs(velocity[-100:]).max()) < 0.01,
        )

    def distance(self, positions: np.ndarray) -> float:
        """Return the least distance of all pairs in positions (n, n_joints), by Pinocchio [m]."""
        data, shapes = self.robot.model.createData(), self._geometry.createData()
        least = np.inf
        for q in self.robot.configuration(positions):
            pin.computeDistances(self.robot.model, data, self._geometry, shapes, q)
            least = min(least, *(result.min_distance for result in shapes.distanceResults))
        return float(least)
