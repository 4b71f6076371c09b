# SPDX-License-Identifier: Apache-2.0
"""
Command interfaces of the simulated robot, those of ros2_control's usual controllers.

Whatever was sent last is in force, as though the others' controllers had been switched off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
import threading
from typing import Any

from action_msgs.msg import GoalStatus
import numpy as np
from rcl_interfaces.msg import ParameterValue
from rcl_interfaces.srv import GetParameters
from rclpy.action import ActionServer, CancelResponse, GoalResponse
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.subscription import Subscription
from rclpy.task import Future
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64, Float64MultiArray
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from ..errors import ExcitationError, IdentificationError
from ..simulation import SimulatedSample, Simulator, Waypoints
from .common import explain, steady_timer
from .common.joint_states import ManualCallbackGroup
from .common.messages import duration_message, nanoseconds, seconds, time_message

START = 1
"""Simulated time at the start [s]; ROS takes the time 0 for no time."""

SCALING_RATE = 50.0
"""Rate of ``~/speed_scaling`` [Hz]."""

MONITOR_SECONDS = 0.05
"""Time between two messages of feedback, and most delay of a result [s]."""

ERASED = -1.0
"""Value of a tolerance that means none."""

RAMP = 1.0
"""How fast the speed changes, since nothing that moves can do so at once [1/s]."""


@dataclass
class SimulatedRobot:
    """A simulator that several threads use, each only with the lock held."""

    simulator: Simulator
    lock: threading.Lock = field(default_factory=threading.Lock)

    def follow(self, message: JointTrajectory) -> float:
        """Follow a trajectory; return its duration [s]; raises `ExcitationError` if it cannot."""
        waypoints, start = waypoints_of(message), start_of(message)
        with self.lock:
            end = self.simulator.follow(waypoints, start)
            return end - self.simulator.time


class Inputs:
    """Subscriptions to trajectories and commands, and the controllers' speed and parameters."""

    def __init__(self, node: Node, robot: SimulatedRobot) -> None:
        self._node, self._robot = node, robot
        self._speed = float(node.get_parameter('speed_scaling').value)
        self._commands: list[tuple[Subscription, Callable[[np.ndarray], None]]] = []
        group = ManualCallbackGroup()
        node.create_subscription(JointTrajectory, 'joint_trajectory', self._trajectory, 10)
        for name, command in (
            ('position_commands', robot.simulator.command_position),
            ('velocity_commands', robot.simulator.command_velocity),
        ):
            subscription = node.create_subscription(
                Float64MultiArray, name, lambda _: None, 10, callback_group=group
            )
            self._commands.append((subscription, command))
        node.create_subscription(JointState, '~/disturbance', self._disturbance, 10)
        # the parameters by which a controller of ros2_control names its joints
        node.create_service(GetParameters, '~/controller/get_parameters', self._parameters)
        self._speeds = node.create_publisher(Float64, '~/speed_scaling', 10)
        steady_timer(node, 1.0 / SCALING_RATE, self._publish_speed)

    def apply_commands(self) -> None:
        """
        Apply the next command of each kind; called in each servo period, so that none is late.

        Those that have gathered while that was held up are applied one after the other.
        """
        for subscription, command in self._commands:
            taken = subscription.handle.take_message(Float64MultiArray, False)
            if taken is not None:
                with self._logged_errors():
                    command(np.asarray(taken[0].data))

    def _trajectory(self, message: JointTrajectory) -> None:
        try:
            left = self._robot.follow(message)
            self._node.get_logger().info(
                f'following a trajectory of {len(message.points)} points for {left:.3g} s',
                throttle_duration_sec=1.0,
            )
        except IdentificationError as error:
            explain(self._node, error)

    @contextmanager
    def _logged_errors(self) -> Iterator[None]:
        """Hold the robot's lock, and log errors."""
        try:
            with self._robot.lock:
                yield
        except IdentificationError as error:
            explain(self._node, error)

    def _disturbance(self, message: JointState) -> None:
        """Let the efforts of the joints that are named act from outside, and none on others."""
        simulator = self._robot.simulator
        efforts = dict(zip(message.name, message.effort, strict=False))
        with self._logged_errors():
            simulator.disturb(np.array([efforts.get(name, 0.0) for name in simulator.joints]))

    def _parameters(
        self, request: GetParameters.Request, response: GetParameters.Response
    ) -> GetParameters.Response:
        joints = Parameter('joints', value=list(self._robot.simulator.joints))
        known = {'joints': joints.get_parameter_value()}
        response.values = [known.get(name, ParameterValue()) for name in request.names]
        return response

    def _publish_speed(self) -> None:
        wanted = float(self._node.get_parameter('speed_scaling').value)
        step = RAMP / SCALING_RATE
        self._speed += min(max(wanted - self._speed, -step), step)
        with self._robot.lock:
            self._robot.simulator.scale_speed(self._speed)
        self._speeds.publish(Float64(data=100.0 * self._speed))


def waypoints_of(message: JointTrajectory) -> Waypoints:
    """Return the waypoints of a message; raise `ExcitationError` where something is wrong."""
    points, joints = message.points, tuple(message.joint_names)
    time = np.array([seconds(point.time_from_start) for point in points])
    position, velocity, acceleration = (
        _column([getattr(point, name) for point in points], len(joints))
        for name in ('positions', 'velocities', 'accelerations')
    )
    none = np.empty((0, len(joints)))
    return Waypoints(joints, time, none if position is None else position, velocity, acceleration)


def start_of(message: JointTrajectory) -> float | None:
    """Return the simulated time of a trajectory's start [s]; None where that is its arrival."""
    stamp = nanoseconds(message.header.stamp)
    return 1e-9 * (stamp - START * 10**9) if stamp else None


def _column(rows: list[Any], width: int) -> np.ndarray | None:
    """(points, joints) of one quantity; NaN where a point has not as many numbers as joints."""
    if not any(len(row) for row in rows):
        return None
    filled = np.full((len(rows), width), np.nan)
    for i, row in enumerate(rows):
        if len(row) == width:
            filled[i] = row
    return filled


# --------------------------------------------------- action follow_joint_trajectory


@dataclass
class FollowedGoal:
    """
    State of a goal.

    Attributes
    ----------
    path_tolerance, goal_tolerance:
        (n_joints,) largest errors of position [rad or m]; infinite for none.
    goal_time:
        Time allowed for coming within the goal tolerance [s]; 0 for any.
    ended:
        Status, error code and words; None while it is followed.
    position, reference, elapsed:
        Measured and wanted state at the latest sample, and the trajectory's time.

    """

    handle: Any
    done: Future
    path_tolerance: np.ndarray
    goal_tolerance: np.ndarray
    goal_time: float
    ended: tuple[int, int, str] | None = None
    position: np.ndarray | None = None
    reference: np.ndarray | None = None
    elapsed: float = 0.0


class TrajectoryAction:
    """
    Server of the action, of type ``control_msgs.action.FollowJointTrajectory``.

    An accepted goal aborts the one before.  While a goal is followed, the robot must keep within
    the path tolerances; at its end it must come within the goal tolerances, in the time allowed
    for that.  If it leaves them, or the goal is canceled, it is held where it is, at once.
    """

    def __init__(self, node: Node, robot: SimulatedRobot, kind: Any) -> None:
        self._node, self._robot, self._kind = node, robot, kind
        self._goal: FollowedGoal | None = None
        self._goals: dict[bytes, FollowedGoal] = {}
        self._late = 0.0
        ActionServer(
            node,
            kind,
            'follow_joint_trajectory',
            self._execute,
            goal_callback=self._requested,
            handle_accepted_callback=self._accepted,
            cancel_callback=self._canceled,
        )
        steady_timer(node, MONITOR_SECONDS, self._monitor)

    # ----------------------------------------------------------------------------- the client

    def _requested(self, request: Any) -> GoalResponse:
        try:
            waypoints = waypoints_of(request.trajectory).ordered(self._robot.simulator.joints)
            start = start_of(request.trajectory)
            if start is not None and start + waypoints.time[-1] < self._robot.simulator.time:
                raise ExcitationError('trajectory refused, it is over', remedy='send it earlier')
        except IdentificationError as error:
            explain(self._node, error)
            return GoalResponse.REJECT
        return GoalResponse.ACCEPT

    def _accepted(self, handle: Any) -> None:
        request, result = handle.request, self._kind.Result
        path, final, goal_time = self._tolerances(request)
        goal = FollowedGoal(handle, Future(executor=self._node.executor), path, final, goal_time)
        with self._robot.lock:
            self._end('a new goal has taken its place', result.INVALID_GOAL)
            self._goals[bytes(handle.goal_id.uuid)] = goal
            self._goal = goal
            self._late = 0.0
            try:
                self._robot.simulator.follow(
                    waypoints_of(request.trajectory), start_of(request.trajectory)
                )
            except IdentificationError as error:
                self._end(str(error), result.INVALID_GOAL)
        self._finish()
        handle.execute()

    def _tolerances(self, request: Any) -> tuple[np.ndarray, np.ndarray, float]:
        joints = self._robot.simulator.joints
        try:
            goal_time = seconds(request.goal_time_tolerance)
            return (
                tolerances(joints, request.path_tolerance),
                tolerances(joints, request.goal_tolerance),
                max(goal_time, 0.0),
            )
        except ExcitationError as error:
            explain(self._node, error)
            none = np.full(len(joints), np.inf)
            return none, none, 0.0

    def _canceled(self, handle: Any) -> CancelResponse:
        with self._robot.lock:
            goal = self._goal
            if goal is not None and goal.handle.goal_id == handle.goal_id:
                goal.ended = GoalStatus.STATUS_CANCELED, self._kind.Result.SUCCESSFUL, ''
                self._goal = None
                self._robot.simulator.hold()
        return CancelResponse.ACCEPT

    async def _execute(self, handle: Any) -> Any:
        goal = self._goals[bytes(handle.goal_id.uuid)]
        await goal.done
        del self._goals[bytes(handle.goal_id.uuid)]
        assert goal.ended is not None
        status, code, text = goal.ended
        if status == GoalStatus.STATUS_SUCCEEDED:
            handle.succeed()
        elif status == GoalStatus.STATUS_CANCELED:
            handle.canceled()
        else:
            handle.abort()
        return self._kind.Result(error_code=code, error_string=text)

    # ------------------------------------------------------------------------------ the robot

    def check(self, sample: SimulatedSample) -> None:
        """Compare a sample with the goal; called after each servo period, with the lock held."""
        goal, simulator = self._goal, self._robot.simulator
        if goal is None:
            return
        codes = self._kind.Result
        if not simulator.following:
            self._end('another controller commands the robot', codes.INVALID_GOAL)
            return
        error = np.abs(simulator.reference[0] - sample.position)
        goal.position, goal.reference = sample.position, simulator.reference
        goal.elapsed = simulator.follower.elapsed
        if not simulator.follower.over:
            self._require('path', error, goal.path_tolerance, codes.PATH_TOLERANCE_VIOLATED)
        elif (error <= goal.goal_tolerance).all():
            goal.ended = GoalStatus.STATUS_SUCCEEDED, codes.SUCCESSFUL, ''
            self._goal = None
        else:
            self._late += 1.0 / simulator.settings.servo_rate
            if 0.0 < goal.goal_time < self._late:
                self._require('goal', error, goal.goal_tolerance, codes.GOAL_TOLERANCE_VIOLATED)

    def _require(self, which: str, error: np.ndarray, tolerance: np.ndarray, code: int) -> None:
        """Abort the goal and hold the robot where it is, where an error exceeds its tolerance."""
        if (error <= tolerance).all():
            return
        worst = int(np.argmax(np.where(error > tolerance, error, 0.0)))
        self._end(
            f"{which} tolerance violated: joint '{self._robot.simulator.joints[worst]}' is off "
            f'by {error[worst]:.4g}',
            code,
        )
        self._robot.simulator.hold()

    def abandon(self, reason: str) -> None:
        """Abort the goal that is followed, if any; called with the lock held."""
        self._end(reason, self._kind.Result.INVALID_GOAL)

    def _end(self, reason: str, code: int) -> None:
        if self._goal is not None:
            self._goal.ended = GoalStatus.STATUS_ABORTED, code, reason
            self._goal = None

    def _finish(self) -> None:
        for goal in list(self._goals.values()):
            if goal.ended is not None and not goal.done.done():
                goal.done.set_result(None)

    def _monitor(self) -> None:
        self._finish()
        with self._robot.lock:
            goal = self._goal
            if goal is None or goal.position is None or goal.reference is None:
                return
            now = self._robot.simulator.time
            feedback = self._kind.Feedback(joint_names=list(self._robot.simulator.joints))
            feedback.header.stamp = time_message(START * 10**9 + round(1e9 * now))
            feedback.desired = _point(goal.elapsed, *goal.reference)
            feedback.actual = _point(goal.elapsed, goal.position)
            feedback.error = _point(goal.elapsed, goal.reference[0] - goal.position)
        goal.handle.publish_feedback(feedback)


def tolerances(joints: Sequence[str], given: Sequence[Any]) -> np.ndarray:
    """
    Return the largest allowed error of each joint's position, (n_joints,); infinite for none.

    In ``control_msgs/JointTolerance``, 0 means the controller's, which has none, and -1 none.

    Raises
    ------
    ExcitationError
        naming an unknown joint, or one with another negative tolerance.

    """
    largest = np.full(len(joints), np.inf)
    for tolerance in given:
        if tolerance.name not in joints:
            raise ExcitationError(
                f"a tolerance is for joint '{tolerance.name}', which the robot has not",
                joint=tolerance.name,
                remedy='name its joints; now no tolerance is in force',
            )
        if tolerance.position < 0.0 and tolerance.position != ERASED:
            raise ExcitationError(
                f"the tolerance of joint '{tolerance.name}' is {tolerance.position:g}",
                joint=tolerance.name,
                value=tolerance.position,
                remedy='give a positive one, or -1 for none; now no tolerance is in force',
            )
        if tolerance.position > 0.0:
            largest[list(joints).index(tolerance.name)] = tolerance.position
    return largest


def _point(elapsed: float, position: np.ndarray, *rest: np.ndarray) -> JointTrajectoryPoint:
    point = JointTrajectoryPoint(
        positions=position.tolist(), time_from_start=duration_message(elapsed)
    )
    if rest:
        point.velocities, point.accelerations = (row.tolist() for row in rest)
    return point
