# SPDX-License-Identifier: Apache-2.0
"""
Interfaces of the simulated robot's controller: those of joint_trajectory_controller.

Its names begin with that of the controller: the action ``follow_joint_trajectory``, the topic
``controller_state`` and the service ``get_parameters``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
import threading
from typing import Any

from action_msgs.msg import GoalStatus
from builtin_interfaces.msg import Time
from control_msgs.action import FollowJointTrajectory
from control_msgs.msg import JointTrajectoryControllerState
import numpy as np
from rcl_interfaces.msg import ParameterValue
from rcl_interfaces.srv import GetParameters
from rclpy.action import ActionServer, CancelResponse, GoalResponse
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.task import Future
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from ..errors import ExcitationError, IdentificationError
from ..excitation.joint_trajectory import state_of, STATES
from ..simulation import SimulatedSample, Simulator, Waypoints
from ..simulation.controller import Constraints, Goal, Outcome, Tolerances, TrajectoryController
from .common import explain, steady_timer
from .common.messages import duration_message, nanoseconds, seconds, time_message

START = 1
"""Simulated time at the start [s]; ROS takes the time 0 for no time."""

MONITOR_RATE = 20.0
"""Usual rate of the action's feedback, and of looks for goals that have ended [Hz]."""

_RESULT = FollowJointTrajectory.Result

ENDS = {
    Outcome.SUCCEEDED: (GoalStatus.STATUS_SUCCEEDED, _RESULT.SUCCESSFUL),
    Outcome.CANCELED: (GoalStatus.STATUS_CANCELED, _RESULT.SUCCESSFUL),
    Outcome.REPLACED: (GoalStatus.STATUS_ABORTED, _RESULT.INVALID_GOAL),
    Outcome.PATH_TOLERANCE_VIOLATED: (GoalStatus.STATUS_ABORTED, _RESULT.PATH_TOLERANCE_VIOLATED),
    Outcome.GOAL_TOLERANCE_VIOLATED: (GoalStatus.STATUS_ABORTED, _RESULT.GOAL_TOLERANCE_VIOLATED),
}
"""Status and error code of a goal's result."""


@dataclass
class SimulatedRobot:
    """A simulator and its controller, which several threads use, each only with the lock held."""

    simulator: Simulator
    controller: TrajectoryController
    lock: threading.Lock = field(default_factory=threading.Lock)


@dataclass
class _Request:
    """
    Handle of an accepted goal, the goal, and a future that is done when its result is due.

    A goal that has ended by itself, and is canceled before that was noticed, stays CANCELING until
    the next one is accepted, as with joint_trajectory_controller.
    """

    handle: Any
    goal: Goal
    done: Future

    @property
    def stuck(self) -> bool:
        """True if it was canceled after its end."""
        outcome = self.goal.outcome
        ended = outcome is not None and outcome is not Outcome.CANCELED
        return ended and self.handle.is_cancel_requested and not self.done.done()


class ControllerInterfaces:
    """Action server, state publisher and parameters of the controller called ``name``."""

    def __init__(
        self,
        node: Node,
        name: str,
        robot: SimulatedRobot,
        constraints: Constraints,
        monitor_rate: float = MONITOR_RATE,
    ) -> None:
        self._node, self._robot = node, robot
        self._constraints, self._monitor_rate = constraints, monitor_rate
        self._requests: dict[bytes, _Request] = {}
        self._sample: SimulatedSample | None = None
        self._reference = np.zeros((3, len(robot.simulator.joints)))
        ActionServer(
            node,
            FollowJointTrajectory,
            f'{name}/follow_joint_trajectory',
            self._execute,
            goal_callback=self._requested,
            handle_accepted_callback=self._accepted,
            cancel_callback=self._canceled,
        )
        node.create_service(GetParameters, f'{name}/get_parameters', self._get_parameters)
        self._states = node.create_publisher(
            JointTrajectoryControllerState, f'{name}/controller_state', 10
        )
        steady_timer(node, 1.0 / monitor_rate, self._monitor)

    # ---------------------------------------------------------------------------------- goals

    def _requested(self, request: Any) -> GoalResponse:
        simulator = self._robot.simulator
        try:
            waypoints = waypoints_of(request.trajectory).ordered(simulator.joints)
            start = start_of(request.trajectory)
            if start is not None and start + waypoints.time[-1] < simulator.time:
                raise ExcitationError('trajectory refused, it is over', remedy='send it earlier')
        except IdentificationError as error:
            explain(self._node, error)
            return GoalResponse.REJECT
        return GoalResponse.ACCEPT

    def _accepted(self, handle: Any) -> None:
        trajectory = handle.request.trajectory
        waypoints, start = waypoints_of(trajectory), start_of(trajectory)
        tolerances = self._tolerances(handle.request)
        done = Future(executor=self._node.executor)
        with self._robot.lock:
            try:
                goal = self._robot.controller.accept(waypoints, start, tolerances)
            except IdentificationError as error:
                # its end has passed since it was looked at
                goal = Goal(tolerances, Outcome.REPLACED, str(error))
            self._sample = None  # of the goal before
        for request in self._requests.values():
            if request.stuck:
                request.goal.outcome, request.goal.reason = Outcome.CANCELED, ''
        self._requests[bytes(handle.goal_id.uuid)] = _Request(handle, goal, done)
        self._node.get_logger().info(
            f'following a trajectory of {len(trajectory.points)} points, '
            f'{waypoints.time[-1]:.3g} s'
        )
        self._finish()
        handle.execute()

    def _tolerances(self, request: Any) -> Tolerances:
        own = self._robot.controller.tolerances
        try:
            return own.replaced(
                self._robot.simulator.joints,
                {each.name: each.position for each in request.path_tolerance},
                {each.name: each.position for each in request.goal_tolerance},
                seconds(request.goal_time_tolerance),
            )
        except ExcitationError as error:
            explain(self._node, error)
            return own

    def _canceled(self, handle: Any) -> CancelResponse:
        request = self._requests.get(bytes(handle.goal_id.uuid))
        if request is not None:
            with self._robot.lock:
                self._robot.controller.cancel(request.goal)
        return CancelResponse.ACCEPT

    async def _execute(self, handle: Any) -> Any:
        identifier = bytes(handle.goal_id.uuid)
        request = self._requests[identifier]
        await request.done
        del self._requests[identifier]
        assert request.goal.outcome is not None
        status, code = ENDS[request.goal.outcome]
        if status == GoalStatus.STATUS_SUCCEEDED:
            handle.succeed()
        elif status == GoalStatus.STATUS_CANCELED:
            handle.canceled()
        else:
            handle.abort()
        return _RESULT(error_code=code, error_string=request.goal.reason)

    def _finish(self) -> None:
        for request in list(self._requests.values()):
            goal = request.goal
            if goal.outcome is None or request.done.done() or request.stuck:
                continue
            if goal.detail:
                self._node.get_logger().warning(f'{goal.reason}: {goal.detail}')
            request.done.set_result(None)

    def _monitor(self) -> None:
        self._finish()
        feedback = FollowJointTrajectory.Feedback(joint_names=list(self._robot.simulator.joints))
        with self._robot.lock:
            goal, sample = self._robot.controller.goal, self._sample
            if goal is None or sample is None:
                return
            feedback.desired, feedback.actual, feedback.error = self._points(sample)
        feedback.header.stamp = time_message(START * 10**9 + round(1e9 * sample.time))
        for request in self._requests.values():
            if request.goal is goal:
                request.handle.publish_feedback(feedback)

    def _points(self, sample: SimulatedSample) -> tuple[JointTrajectoryPoint, ...]:
        """Return what is wanted and measured, and the error; called with the lock held."""
        elapsed, reference = self._robot.simulator.follower.elapsed, self._reference
        rows = reference, (sample.position, sample.velocity), (reference[0] - sample.position,)
        return tuple(_point(elapsed, *each) for each in rows)

    # ---------------------------------------------------------------------------------- state

    def take(self, sample: SimulatedSample) -> None:
        """Keep the sample of a servo period; called in each, with the lock held."""
        self._sample, self._reference = sample, self._robot.simulator.reference

    def publish_state(self, stamp: Time) -> None:
        """Publish the controller's state at the latest sample."""
        simulator = self._robot.simulator
        message = JointTrajectoryControllerState(
            joint_names=list(simulator.joints),
            speed_scaling_factor=float(simulator.follower.speed),
        )
        message.header.stamp = stamp
        with self._robot.lock:
            if self._sample is None:
                return
            message.reference, message.feedback, message.error = self._points(self._sample)
        message.output = JointTrajectoryPoint(positions=message.reference.positions)
        self._states.publish(message)

    # ----------------------------------------------------------------------------- parameters

    def _get_parameters(
        self, request: GetParameters.Request, response: GetParameters.Response
    ) -> GetParameters.Response:
        robot = self._robot
        known = controller_parameters(
            robot.simulator, robot.controller, self._constraints, self._monitor_rate
        )
        response.values = [
            Parameter(name, value=known[name]).get_parameter_value()
            if name in known
            else ParameterValue()
            for name in request.names
        ]
        return response


def controller_parameters(
    simulator: Simulator,
    controller: TrajectoryController,
    constraints: Constraints,
    monitor_rate: float,
) -> dict[str, Any]:
    """Return the parameters of the real controller, as it would be set up for this robot."""
    own, deceleration = controller.tolerances, controller.deceleration
    known = {
        'use_sim_time': True,  # as its stamps
        'update_rate': round(simulator.settings.servo_rate),
        'joints': list(simulator.joints),
        'command_joints': [],
        'command_interfaces': ['position'],
        'state_interfaces': ['position', 'velocity'],
        'interpolation_method': 'splines',
        'action_monitor_rate': monitor_rate,
        'allow_partial_joints_goal': False,
        'allow_nonzero_velocity_at_trajectory_end': False,
        'open_loop_control': False,
        'interpolate_from_desired_state': False,
        'speed_scaling.initial_scaling_factor': 1.0,
        'constraints.goal_time': own.goal_time,
        'constraints.decelerate_on_cancel': constraints.decelerate_on_cancel,
    }
    for i, joint in enumerate(simulator.joints):
        prefix = f'constraints.{joint}'
        known[f'{prefix}.trajectory'] = float(own.path[i])
        known[f'{prefix}.goal'] = float(own.goal[i])
        known[f'{prefix}.max_deceleration_on_cancel'] = (
            0.0 if deceleration is None else float(deceleration[i])
        )
    return known


def waypoints_of(message: JointTrajectory) -> Waypoints:
    """Return the waypoints of a message; raise `ExcitationError` where something is wrong."""
    points, joints = message.points, tuple(message.joint_names)
    if any(len(point.effort) for point in points):
        raise ExcitationError(
            'trajectory refused, its points have efforts',
            remedy='leave them empty: the controller commands positions',
        )
    time = np.array([seconds(point.time_from_start) for point in points])
    position, velocity, acceleration = (
        state_of([getattr(point, state) for point in points], state, len(joints))
        for state in STATES
    )
    none = np.empty((0, len(joints)))
    return Waypoints(joints, time, none if position is None else position, velocity, acceleration)


def start_of(message: JointTrajectory) -> float | None:
    """Return the simulated time of a trajectory's start [s]; None where that is its arrival."""
    stamp = nanoseconds(message.header.stamp)
    return 1e-9 * (stamp - START * 10**9) if stamp else None


def _point(elapsed: float, *rows: np.ndarray) -> JointTrajectoryPoint:
    """Return a point with positions, velocities and accelerations, as many as there are rows."""
    values = {state: row.tolist() for state, row in zip(STATES, rows, strict=False)}
    return JointTrajectoryPoint(time_from_start=duration_message(elapsed), **values)
