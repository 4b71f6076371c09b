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
from types import SimpleNamespace
from typing import Any
from unittest import mock

from action_msgs.msg import GoalInfo
from action_msgs.srv import CancelGoal
from control_msgs.action import FollowJointTrajectory
import numpy as np
from rcl_interfaces.srv import GetParameters
from rclpy.logging import get_logger
from rclpy.parameter import Parameter
from rclpy.serialization import serialize_message
from robot_identification.errors import ExcitationError
from robot_identification.excitation.trajectories import PointTrajectory
from robot_identification.model.robot import Robot
from robot_identification.nodes.common.messages import (
    duration_message,
    message_of,
    time_message,
)
from robot_identification.nodes.excitation import joint_state_watch as excitation_states
from robot_identification.nodes.excitation.contract import Contract
from robot_identification.nodes.excitation.controller import Controller, GOAL_SECONDS, SentGoal
from robot_identification.nodes.excitation.controller_state import ControllerState
from robot_identification.nodes.excitation.options import Code, MotionError
from robot_identification.nodes.simulation_controller import (
    controller_parameters,
    ENDS,
    MONITOR_RATE,
    waypoints_of,
)
from robot_identification.simulation import SimulatedSample, SimulationSettings, Simulator
from robot_identification.simulation.controller import (
    Constraints,
    Goal,
    Outcome,
    Tolerances,
    TrajectoryController,
)
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from trajectory_msgs.msg import JointTrajectoryPoint

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
    constraints:
        Of its controller.
    factor:
        Rate of the robot's time, relative to this machine's.

    Attributes
    ----------
    simulator, controller, constraints:
        The robot, what commands it, and its constraints.
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
        self.constraints = constraints or Constraints()
        self.controller = TrajectoryController(self.simulator, self.constraints)
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

    What it is asked, and its goals and cancels, take the node's own way up to the messages.

    Attributes
    ----------
    parameters:
        Its parameters, as joint_trajectory_controller has them.
    answer_seconds:
        Time that the answer to a question for a parameter takes [s].
    lost_answers:
        Number of answers that get lost, from now on.
    goals:
        What was sent, each with its state.
    cancels:
        When a cancel was sent [s].
    deaf:
        Whether cancels get lost.
    refuses:
        Whether cancels are refused.
    still:
        Whether its process stands still: what was sent waits, and the robot holds.
    others:
        Error for others who may command the robot, or None.
    gone:
        Whether there is no controller.
    publishes_state:
        Whether it publishes its state.
    velocity_factor:
        Factor of the velocities that it measures, and begins its stops with; 0 as of a driver that
        sends zeros, or NaN.

    """

    name = '/joint_trajectory_controller'
    action = f'{name}/follow_joint_trajectory'

    def __init__(self, world: World) -> None:
        self.world = world
        self.parameters = controller_parameters(
            world.simulator, world.controller, world.constraints, MONITOR_RATE
        )
        self.answer_seconds, self.lost_answers = LATENCY, 0
        self.goals: list[DrivenGoal] = []
        self.cancels: list[float] = []
        self.deaf = self.refuses = self.gone = self.still = False
        self.publishes_state, self.velocity_factor = True, 1.0
        world.simulator.brake = self._brake  # type: ignore[method-assign]
        self.others: MotionError | None = None
        self.description = String()
        self.statuses: dict[bytes, int] = {}
        self.connected = False
        self._notes: set[str] = set()
        self._node = SimpleNamespace(get_logger=lambda: get_logger('excitation'))
        self._asked, self._discovered = DrivenParameters(self), 0.0
        self.uses_sim_time: bool | None = None
        self._waiting: list[Callable[[], None]] = []

    # the node's own, of what is answered here
    note: Any = Controller.note
    contract: Any = Controller.contract

    async def _appear(self, ready: Callable[[], bool], seconds: float, tick: Any) -> None:
        if not ready():
            raise MotionError(Code.NO_CONTROLLER, 'there is no controller')

    async def connect(self, tick: Any) -> None:
        """Become a client of the action."""
        self.connected = True

    async def prepare(self, robot: Robot, tick: Any) -> Contract:
        """Return what is declared, unless others command the robot."""
        if self.others is not None:
            raise self.others
        return await self.contract(robot, tick)

    def shared(self) -> MotionError | None:
        """Return `others`."""
        return self.others

    def clocks(self, stamp: int) -> str:
        """Return that clocks are alike."""
        return ''

    def state(self, joints: Sequence[str]) -> ControllerState | None:
        """Return the present state."""
        if not self.publishes_state:
            return None
        world, simulator = self.world, self.world.simulator
        columns = [simulator.joints.index(joint) for joint in joints]
        reference, measured = simulator.reference[0], simulator.plant.position
        values = reference, measured, reference - measured, self.velocity()
        return ControllerState(
            simulator.follower.elapsed,
            *(each[columns] for each in values),
            round(1e9 * world.now),
            world.wall,
            simulator.follower.speed,
        )

    def _brake(self, deceleration: np.ndarray) -> None:
        simulator, velocity = self.world.simulator, self.velocity()
        simulator.follower.brake(simulator.plant.position, velocity, deceleration, simulator.time)

    def velocity(self) -> np.ndarray:
        """Return the velocities that it measures (n_joints,)."""
        return np.asarray(self.velocity_factor * self.world.simulator.plant.velocity)

    def send(self, trajectory: PointTrajectory, tolerance: np.ndarray) -> SentGoal:
        """Have the robot follow a trajectory, soon."""
        goal = DrivenGoal(self, trajectory, tolerance)
        self.goals.append(goal)
        message = FollowJointTrajectory.Goal(trajectory=message_of(trajectory))
        return SentGoal(self, goal, goal, message, b'')  # type: ignore[arg-type]

    def receive(self, action: Callable[[], None]) -> None:
        """Have the controller's process do something, once it runs."""

        def arrive() -> None:
            self._waiting.append(action)
            self.resume()

        self.world.later(LATENCY, arrive)

    def resume(self) -> None:
        """Have what waits be done, the latest first, unless the process stands still."""
        while self._waiting and not self.still:
            self._waiting.pop()()


class Answer:
    """An answer to a request, in place of rclpy's future."""

    def __init__(self) -> None:
        self._result: Any = None
        self._callbacks: list[Callable[[Answer], None]] = []

    def set(self, result: Any) -> None:
        """Give the answer."""
        self._result = result
        for callback in self._callbacks:
            callback(self)

    def done(self) -> bool:
        """Return whether it has come."""
        return self._result is not None

    def result(self) -> Any:
        """Return it."""
        return self._result

    def add_done_callback(self, callback: Callable[[Answer], None]) -> None:
        """Have it called with the answer."""
        self._callbacks.append(callback)


class DrivenParameters:
    """Client of the controller's parameters, in place of rclpy's."""

    def __init__(self, controller: DrivenController) -> None:
        self._controller = controller

    def service_is_ready(self) -> bool:
        """Return that there is a server."""
        return True

    def call_async(self, request: GetParameters.Request) -> Answer:
        """Ask; the answer comes in `DrivenController.answer_seconds`, if it does."""
        controller, answer = self._controller, Answer()
        if controller.lost_answers > 0:
            controller.lost_answers -= 1
            return answer
        # as rclcpp: one that is not declared has no value
        values = [
            Parameter(name, value=controller.parameters[name]).get_parameter_value()
            for name in request.names
            if name in controller.parameters
        ]
        response = GetParameters.Response(values=values)
        controller.world.later(controller.answer_seconds, lambda: answer.set(response))
        return answer

    def remove_pending_request(self, answer: Answer) -> None:
        """Forget a question."""


class DrivenGoal:
    """
    A goal of the simulated controller, and the clients of the action for it.

    Attributes
    ----------
    trajectory:
        As it was sent.

    """

    def __init__(
        self, controller: DrivenController, trajectory: PointTrajectory, tolerance: np.ndarray
    ) -> None:
        self._controller, self._world = controller, controller.world
        self.trajectory = trajectory
        self.goal: Goal | None = None
        self._told = self._stuck = False
        self._tolerances = Tolerances(tolerance, tolerance, GOAL_SECONDS)
        self._result = Answer()

    # ------------------------------------------------------------------------------ the clients

    def send_goal_async(
        self, goal: Any, feedback: Callable[[Any], None], identifier: Any
    ) -> Answer:
        """Send the goal; return the answer whether it is accepted."""
        self._feedback, self._sent = feedback, Answer()
        self._controller.receive(self._accept)
        return self._sent

    def get_result_async(self) -> Answer:
        """Return the answer how the goal has ended."""
        return self._result

    def call_async(self, request: Any) -> Answer:
        """Have the goal ended, soon."""
        self._controller.cancels.append(self._world.now)
        answer = Answer()
        if not self._controller.deaf:
            self._controller.receive(lambda: self._cancel(answer))
        return answer

    # --------------------------------------------------------------------------- the controller

    def _accept(self) -> None:
        message = message_of(self.trajectory)
        try:
            self.goal = self._world.controller.accept(
                waypoints_of(message), None, self._tolerances
            )
        except ExcitationError:
            self._later(self._sent, SimpleNamespace(accepted=False))
            return
        accepted = SimpleNamespace(accepted=True, get_result_async=self.get_result_async)
        self._later(self._sent, accepted)
        self._monitor()

    def _later(self, answer: Answer, result: Any) -> None:
        self._world.later(LATENCY, lambda: answer.set(result))

    def _monitor(self) -> None:
        """Tell how it goes, as long as it does."""
        assert self.goal is not None
        simulator = self._world.simulator
        if self._stuck:
            return
        if self.goal.outcome is not None:
            self._told = True
            status, code = ENDS[self.goal.outcome]
            result = FollowJointTrajectory.Result(error_code=code, error_string=self.goal.reason)
            self._later(self._result, SimpleNamespace(status=status, result=result))
            return
        reference, measured = simulator.reference[0].copy(), simulator.plant.position.copy()
        feedback = FollowJointTrajectory.Feedback(
            joint_names=list(self.trajectory.joints),
            desired=JointTrajectoryPoint(
                positions=reference.tolist(),
                time_from_start=duration_message(simulator.follower.elapsed),
            ),
            actual=JointTrajectoryPoint(
                positions=measured.tolist(), velocities=self._controller.velocity().tolist()
            ),
            error=JointTrajectoryPoint(positions=(reference - measured).tolist()),
        )
        feedback.header.stamp = time_message(round(1e9 * (STAMP + simulator.time)))
        message = SimpleNamespace(feedback=feedback)
        self._world.later(LATENCY, lambda: self._feedback(message))
        self._world.later(1.0 / MONITOR_RATE, self._monitor)

    def _cancel(self, answer: Answer) -> None:
        response = CancelGoal.Response()
        if self.goal is None:
            response.return_code = response.ERROR_UNKNOWN_GOAL_ID
        elif self._told:
            response.return_code = response.ERROR_GOAL_TERMINATED
        elif self._controller.refuses:
            response.return_code = response.ERROR_REJECTED
        else:
            response.goals_canceling = [GoalInfo()]
            # as the real one, which has not told the end yet: the goal stays CANCELING
            self._stuck |= self.goal.outcome not in (None, Outcome.CANCELED)
            self._world.controller.cancel(self.goal)
        self._later(answer, response)


@contextmanager
def driven_time(world: World) -> Iterator[None]:
    """Have the node's modules see the time, and the joint states, of the world."""
    with (
        mock.patch.object(time, 'monotonic', lambda: world.wall),
        mock.patch.object(time, 'time', lambda: world.wall),
        mock.patch.object(excitation_states, 'FetchedMessages', lambda *_, **__: world.topic),
    ):
        yield
