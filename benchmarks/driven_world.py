# SPDX-License-Identifier: Apache-2.0
"""
A simulated robot and its controller on a clock that drives the excitation node, without DDS.

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

from action_msgs.msg import GoalStatus
import numpy as np
from rclpy.logging import get_logger
from rclpy.serialization import serialize_message
from robot_identification.errors import ExcitationError
from robot_identification.excitation.trajectories import PointTrajectory
from robot_identification.model.robot import Robot
from robot_identification.nodes.common.messages import message_of, time_message
from robot_identification.nodes.excitation import joint_state_watch as excitation_states
from robot_identification.nodes.excitation.controller import GOAL_SECONDS
from robot_identification.nodes.excitation.controller_state import (
    ControllerState,
    Ending,
    Progress,
)
from robot_identification.nodes.excitation.options import Code, MotionError
from robot_identification.nodes.simulation_controller import MONITOR_RATE, waypoints_of
from robot_identification.simulation import SimulatedSample, SimulationSettings, Simulator
from robot_identification.simulation.controller import (
    Constraints,
    Goal,
    Outcome,
    Tolerances,
    TrajectoryController,
)
from sensor_msgs.msg import JointState

STAMP = 1000.0
"""Stamp of the first joint state [s]."""

WALL = 500.0
"""This machine's time at the first joint state [s]."""

LATENCY = 0.002
"""Of joint states, and of commands [s]."""

ENDS = {
    Outcome.SUCCEEDED: (GoalStatus.STATUS_SUCCEEDED, 'SUCCESSFUL'),
    Outcome.CANCELED: (GoalStatus.STATUS_CANCELED, 'SUCCESSFUL'),
    Outcome.REPLACED: (GoalStatus.STATUS_ABORTED, 'INVALID_GOAL'),
    Outcome.PATH_TOLERANCE_VIOLATED: (GoalStatus.STATUS_ABORTED, 'PATH_TOLERANCE_VIOLATED'),
    Outcome.GOAL_TOLERANCE_VIOLATED: (GoalStatus.STATUS_ABORTED, 'GOAL_TOLERANCE_VIOLATED'),
}
"""Status and code of a goal's result."""

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
    constraints:
        Of its controller.
    factor:
        Rate of the robot's time, relative to this machine's.

    Attributes
    ----------
    simulator, controller:
        The robot, and what commands it.
    track:
        True positions and velocities, (n_joints,) each, after every servo period.
    states:
        Messages that the robot has published, before `spoil`.
    spoil:
        Returns the messages that arrive in place of a true one, each with the number of its
        publisher (0 or 1); None where the true one does.
    obstacle:
        Position of the first joint beyond which an obstacle pushes back; None for none [rad].

    """

    def __init__(
        self,
        robot: Robot,
        settings: SimulationSettings,
        constraints: Constraints | None = None,
        factor: float = 1.0,
    ) -> None:
        self.factor = factor
        self.simulator = Simulator(robot, settings)
        self.controller = TrajectoryController(self.simulator, constraints or Constraints())
        self.topic = JointStateTopic(self)
        self.track: list[tuple[np.ndarray, np.ndarray]] = []
        self.states: list[JointState] = []
        self.spoil: Callable[[JointState], Sequence[tuple[JointState, int]]] | None = None
        self.obstacle: float | None = None
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._left = 0.0

    @property
    def now(self) -> float:
        """Time of the robot [s]."""
        return self.simulator.time

    @property
    def wall(self) -> float:
        """Time of this machine [s]."""
        return WALL + self.simulator.time / self.factor

    def later(self, seconds: float, action: Callable[[], None]) -> None:
        """Have something happen after a time of this machine."""
        when = self.now + self.factor * seconds
        heapq.heappush(self._events, (when, next(self._order), action))

    def pass_time(self, seconds: float) -> None:
        """Let time of this machine pass."""
        self._left += self.factor * seconds
        end = self.now + self._left - 1e-9
        every = self.simulator.settings.decimation
        while self.now < end:
            while self._events and self._events[0][0] <= self.now:
                heapq.heappop(self._events)[2]()
            plant = self.simulator.plant
            if self.obstacle is not None:
                self.simulator.disturb(self._push(self.obstacle))
            period, sample = self.simulator.periods, self.simulator.advance()
            self.track.append((plant.position.copy(), plant.velocity.copy()))
            if period % every == 0:
                self._publish(sample)
        self._left = end + 1e-9 - self.now

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


class DrivenController:
    """
    The controller of the world's robot, in place of the node's `Controller`.

    Attributes
    ----------
    goals:
        What was sent, each with its state.
    cancels:
        When a cancel was sent [s].
    deaf:
        Whether cancels get lost.
    others:
        Error for others who may command the robot, or None.
    gone:
        Whether there is no controller.

    """

    name = '/joint_trajectory_controller'
    action = f'{name}/follow_joint_trajectory'

    def __init__(self, world: World) -> None:
        self.world = world
        self.goals: list[DrivenGoal] = []
        self.cancels: list[float] = []
        self.deaf = self.gone = False
        self.others: MotionError | None = None
        self._notes: set[str] = set()

    def note(self, text: str) -> None:
        """Log a text once."""
        if text and text not in self._notes:
            self._notes.add(text)
            get_logger('excitation').warning(text)

    async def prepare(self, joints: tuple[str, ...], tick: Any) -> np.ndarray | None:
        """Return how joints are stopped."""
        if self.gone:
            raise MotionError(Code.NO_CONTROLLER, 'there is no controller')
        if self.others is not None:
            raise self.others
        return self.world.controller.deceleration

    async def decelerations(self, joints: tuple[str, ...], tick: Any) -> np.ndarray | None:
        """Return how joints are stopped; None where there is no controller."""
        return None if self.gone else self.world.controller.deceleration

    def shared(self) -> MotionError | None:
        """Return `others`."""
        return self.others

    def clocks(self, stamp: int) -> str:
        """Return that clocks are alike."""
        return ''

    def offers_state(self) -> bool:
        """Return that its state is known."""
        return not self.gone

    def state(self, joints: Sequence[str]) -> ControllerState:
        """Return the present state."""
        world, simulator = self.world, self.world.simulator
        reference, measured = simulator.reference[0].copy(), simulator.plant.position.copy()
        return ControllerState(reference, measured, world.now, world.wall)

    def send(self, trajectory: PointTrajectory, tolerance: np.ndarray) -> DrivenGoal:
        """Have the robot follow a trajectory, soon."""
        goal = DrivenGoal(self, trajectory, tolerance)
        self.goals.append(goal)
        return goal


class DrivenGoal:
    """A goal of the simulated controller, in place of the node's `SentGoal`."""

    def __init__(
        self, controller: DrivenController, trajectory: PointTrajectory, tolerance: np.ndarray
    ) -> None:
        self._controller, self._world = controller, controller.world
        self.trajectory = trajectory
        self.accepted: bool | None = None
        self.progress: Progress | None = None
        self.heard = False
        self.ending: Ending | None = None
        self._goal: Goal | None = None
        self._told = self._stuck = False
        self._tolerances = Tolerances(tolerance, tolerance, GOAL_SECONDS)
        self._world.later(LATENCY, self._accept)

    def _accept(self) -> None:
        message = message_of(self.trajectory)
        try:
            self._goal = self._world.controller.accept(
                waypoints_of(message), None, self._tolerances
            )
        except ExcitationError:
            self._answer(False)
            return
        self._answer(True)
        self._monitor()

    def _answer(self, accepted: bool) -> None:
        def answered() -> None:
            self.accepted = accepted
            if not accepted:
                self.ending = Ending(GoalStatus.STATUS_ABORTED, 'REJECTED')

        self._world.later(LATENCY, answered)

    def _monitor(self) -> None:
        """Tell how it goes, as long as it does."""
        assert self._goal is not None
        simulator = self._world.simulator
        if self._stuck:
            return
        if self._goal.outcome is not None:
            self._told = True
            ending = Ending(*ENDS[self._goal.outcome], self._goal.reason)
            self._world.later(LATENCY, lambda: setattr(self, 'ending', ending))
            return
        reference, measured = simulator.reference[0].copy(), simulator.plant.position.copy()
        elapsed = simulator.follower.elapsed

        def arrive() -> None:
            now = self._world.wall
            self.progress = Progress(elapsed, reference, measured, reference - measured, now)

        self._world.later(LATENCY, arrive)
        self._world.later(1.0 / MONITOR_RATE, self._monitor)

    def cancel(self) -> None:
        """Have it ended, soon."""
        self._controller.cancels.append(self._world.now)
        if not self._controller.deaf:
            self._world.later(LATENCY, self._cancel)

    def _cancel(self) -> None:
        self.heard = True
        if self._goal is None:
            return
        # as the real one, which has not told the end yet: the goal stays CANCELING
        if self._goal.outcome not in (None, Outcome.CANCELED) and not self._told:
            self._stuck = True
        self._world.controller.cancel(self._goal)


@contextmanager
def driven_time(world: World) -> Iterator[None]:
    """Have the node's modules see the time, and the joint states, of the world."""
    with (
        mock.patch.object(time, 'monotonic', lambda: world.wall),
        mock.patch.object(time, 'time', lambda: world.wall),
        mock.patch.object(excitation_states, 'FetchedMessages', lambda *_, **__: world.topic),
    ):
        yield
