# SPDX-License-Identifier: Apache-2.0
"""
The robot's trajectory controller: who commands it, the one goal of a motion, and its cancel.

The controller follows the goal by its own clock and watches the goal's tolerances at its own rate.
Nothing but a goal and its cancel is ever sent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
import time
from typing import Any
import uuid

from action_msgs.msg import GoalInfo, GoalStatus, GoalStatusArray
from action_msgs.srv import CancelGoal
from control_msgs.action import FollowJointTrajectory
from control_msgs.msg import JointTolerance
import numpy as np
from rcl_interfaces.srv import GetParameters
from rclpy.action import ActionClient
from rclpy.callback_groups import CallbackGroup
from rclpy.node import Node
from rclpy.task import Future
from std_msgs.msg import String

from ...excitation.trajectories import PointTrajectory
from ...model.robot import Robot
from ..common import LATCHED
from ..common.joint_states import names_of
from ..common.messages import duration_message, goal_mark, message_of
from ..common.requests import SERVICES
from .contract import ask_contract, Contract
from .controller_state import ControllerState, Ending, PublishedState
from .options import Code, code_name, MotionError, raise_if, Tick
from .remote_nodes import APPEARS_SECONDS, call_again, wait_for

GOAL_SECONDS = 3600.0
"""
Time for the end of a goal that the controller is given beyond the planned one [s].

One that scales speed by itself takes longer; this node has its own bound, `settle_time`.
"""

RESULT_SECONDS = 1.0
"""Time for the result of a goal to arrive after its status [s]."""

UNKNOWN_SECONDS = 10.0
"""
Time for which a controller has to say that it does not know a goal for that to be its end [s]:
what was lost on its way is sent again with the next heartbeat, which Fast DDS sends every 3 s.
"""

NONE = -1.0
"""Value of a tolerance that is not to be watched."""

DAY = 86_400.0
"""How far from now stamps of a system clock may be [s]."""

REFUSES = 'REFUSES TO STOP'

LIST_CONTROLLERS = 'controller_manager_msgs/srv/ListControllers'
USUAL_MANAGER = '/controller_manager'

REMEDIES = {
    'inactive': 'activate it: ros2 control switch_controllers --activate {name}{manager}',
    'unconfigured': 'configure it, and activate it then: '
    'ros2 control set_controller_state {name} inactive{manager}',
}
"""By the controller's state."""

ACTIVE = (GoalStatus.STATUS_ACCEPTED, GoalStatus.STATUS_EXECUTING)
"""
Statuses of goals that command the robot.

A goal that is being canceled does not, once the robot rests; joint_trajectory_controller leaves
one whose cancel came within 50 ms of its end in that status for good.
"""

TERMINAL = (GoalStatus.STATUS_SUCCEEDED, GoalStatus.STATUS_CANCELED, GoalStatus.STATUS_ABORTED)


class Controller:
    """
    Client of a controller that offers the action FollowJointTrajectory.

    Attributes
    ----------
    name:
        Full name of its node.
    action:
        Full name of its action.
    statuses:
        Of its goals, by their ids.
    uses_sim_time:
        Its parameter, once it was asked.
    description:
        The latest robot_description in its namespace.

    """

    def __init__(self, node: Node, group: CallbackGroup, name: str) -> None:
        self._node, self._group = node, group
        self._discovered = time.monotonic() + APPEARS_SECONDS  # what was there at the start
        self.name: str = node.resolve_service_name(name)
        self.action = f'{self.name}/follow_joint_trajectory'
        self._notes: set[str] = set()
        self.uses_sim_time: bool | None = None
        self._client: Any = None  # of a node that moves nothing there is none
        self._cancels: Any = None
        self._asked = node.create_client(
            GetParameters,
            f'{self.name}/get_parameters',
            qos_profile=SERVICES,
            callback_group=group,
        )
        self._managers: dict[str, Any] = {}
        self._status_topic = f'{self.action}/_action/status'
        self._senders: set[bytes] = set()
        self.statuses: dict[bytes, int] = {}
        node.create_subscription(
            GoalStatusArray, self._status_topic, self._note, LATCHED, callback_group=group
        )
        self._state = PublishedState(node, f'{self.name}/controller_state')
        # what the controller manager takes its URDF from
        self.description = String()
        topic = f'{self.name.rpartition("/")[0]}/robot_description'
        node.create_subscription(String, topic, self._describe, LATCHED, callback_group=group)

    def _describe(self, message: String) -> None:
        self.description = message

    # ---------------------------------------------------------------------- before a motion

    async def connect(self, tick: Tick) -> None:
        """Become a client of the action; raise ``NO_CONTROLLER`` where it does not appear."""
        if self._client is None:
            self._client = ActionClient(
                self._node, FollowJointTrajectory, self.action, callback_group=self._group
            )
            # kept for good: destroying a client with an answer on its way can end the process
            self._cancels = self._node.create_client(
                CancelGoal, f'{self.action}/_action/cancel_goal', callback_group=self._group
            )
        await self._appear(self._client.server_is_ready, APPEARS_SECONDS, tick)

    async def prepare(self, robot: Robot, tick: Tick) -> Contract:
        """
        Require that the controller takes a goal for the robot, and that nobody else commands it.

        Raises `MotionError` as `contract` does, and ``NO_CONTROLLER`` where it is not active,
        ``CONTROLLER_SHARED`` where others may command it.
        """
        found = await self.contract(robot, tick)
        await self._require_active(tick)
        raise_if(self.shared())
        return found

    async def contract(self, robot: Robot, tick: Tick) -> Contract:
        """
        Return what the controller declares of itself, which is logged once.

        Raises `MotionError` as `ask_contract` does, and ``NO_CONTROLLER`` where it is not there.
        """
        await self._appear(lambda: not self.gone, self._discovered - time.monotonic(), tick)
        description = self.description.data
        found = await ask_contract(self.name, self._asked, robot, tick, description)
        self.note(found.remark)
        self.uses_sim_time = found.uses_sim_time
        if found.summary not in self._notes:
            self._notes.add(found.summary)
            self._node.get_logger().info(found.summary)
        return found

    async def _appear(self, ready: Callable[[], bool], seconds: float, tick: Tick) -> None:
        await wait_for(
            ready,
            f"there is no server of the action '{self.action}': start the controller, or correct "
            'the parameter controller',
            tick,
            Code.NO_CONTROLLER,
            seconds,
        )

    def shared(self) -> MotionError | None:
        """Return the error, with a remedy, for others that may command the robot; None if none."""
        node = self._node
        own = node.get_name(), node.get_namespace()
        servers = names_of(node.get_publishers_info_by_topic(self._status_topic))
        topic = f'{self.name}/joint_trajectory'
        publishers = ', '.join(names_of(node.get_publishers_info_by_topic(topic)))
        # goals of a controller that is gone say nothing
        gone = self._senders and self._senders.isdisjoint(self._servers())
        if node.get_node_names_and_namespaces().count(own) > 1:
            text = f"another node is '{node.get_fully_qualified_name()}', too: end one of them"
        elif len(servers) > 1:
            text = (
                f"the action '{self.action}' has {len(servers)} servers, {', '.join(servers)}: "
                'end all but the controller'
            )
        elif publishers:
            text = f"{publishers} can command the controller by the topic '{topic}': end that"
        elif not gone and any(status in ACTIVE for status in self.statuses.values()):
            text = (
                f"a goal is active on the action '{self.action}'{self._clients()}: wait for its "
                'end, or cancel it by robot-identification node stop --all'
            )
        else:
            return None
        return MotionError(Code.CONTROLLER_SHARED, text)

    def note(self, text: str) -> None:
        """Log what is to be known of the controller, once; '' is nothing."""
        if text and text not in self._notes:
            self._notes.add(text)
            self._node.get_logger().warning(text)

    def state(self, joints: Sequence[str]) -> ControllerState | None:
        """Return the latest state in the order of the joints; None where none is published."""
        return self._state.latest(joints)

    def clocks(self, stamp: int) -> str:
        """
        Return in words that the controller's clock is not the joint states'; '' where it is.

        The stamp is the latest of the joint states [ns]; one of today is no simulation's.
        """
        if self.uses_sim_time is None or stamp == 0:
            return ''
        simulated = abs(1e-9 * stamp - time.time()) > DAY
        if simulated == self.uses_sim_time:
            return ''
        value, stamps = ('true', 'of today') if self.uses_sim_time else ('false', 'simulated')
        return (
            f"the parameter use_sim_time of '{self.name}' is {value}, and the stamps of the joint "
            f'states are {stamps}: set it, and the driver, alike'
        )

    def _note(self, message: GoalStatusArray) -> None:
        """Keep the goals' statuses, and who may have sent them."""
        self._senders = self._servers()
        self.statuses = {
            bytes(each.goal_info.goal_id.uuid): each.status for each in message.status_list
        }

    def _servers(self) -> set[bytes]:
        found = self._node.get_publishers_info_by_topic(self._status_topic)
        return {bytes(each.endpoint_gid) for each in found}

    def _clients(self) -> str:
        """Return who may have sent a goal that is active, in words."""
        found = self._node.get_subscriptions_info_by_topic(f'{self.action}/_action/feedback')
        own = self._node.get_fully_qualified_name()
        clients = [name for name in names_of(found) if name != own]
        return f', of {", ".join(clients)} perhaps' if clients else ''

    async def _require_active(self, tick: Tick) -> None:
        """
        Raise `MotionError` if a controller manager says that the controller is not active.

        An inactive joint_trajectory_controller still has its action, and refuses every goal.
        """
        try:
            from controller_manager_msgs.srv import ListControllers as Kind
        except ImportError:
            return
        node, (namespace, _, name) = self._node, self.name.rpartition('/')
        for service, kinds in node.get_service_names_and_types():
            if LIST_CONTROLLERS not in kinds or service.rsplit('/', 2)[0] != namespace:
                continue
            end = 0.0
            if service not in self._managers:
                made = node.create_client(Kind, service, callback_group=self._group)
                self._managers[service], end = made, time.monotonic() + APPEARS_SECONDS
            client = self._managers[service]
            while not client.service_is_ready() and time.monotonic() < end:
                await tick()
            if not client.service_is_ready():
                continue  # it is gone, and the name is in the graph by this client
            manager = service.rpartition('/')[0]
            (answer,) = await call_again(
                client,
                [Kind.Request()],
                [f"'{manager}' does not answer whether the controller '{self.name}' is active"],
                tick,
            )
            state = next((c.state for c in answer.controller if c.name == name), 'active')
            if state != 'active':
                words = REMEDIES.get(state, "see its controller manager's log, and start it again")
                option = '' if manager == USUAL_MANAGER else f' --controller-manager {manager}'
                raise MotionError(
                    Code.NO_CONTROLLER,
                    f"the controller '{self.name}' is {state}, so nothing would move: "
                    f'{words.format(name=name, manager=option)}',
                )

    # ----------------------------------------------------------------------- during a motion

    @property
    def gone(self) -> bool:
        """True if there is no server of the action."""
        return not self._node.count_publishers(self._status_topic)

    def send(self, trajectory: PointTrajectory, tolerance: np.ndarray) -> SentGoal:
        """
        Send the goal of a motion.

        Parameters
        ----------
        trajectory:
            From where the robot rests on; it begins when the controller has it.
        tolerance:
            (n_joints,) largest error on the path and at its end [rad or m].

        """
        bounds = list(zip(trajectory.joints, map(float, tolerance), strict=True))
        goal = FollowJointTrajectory.Goal(
            trajectory=message_of(trajectory),
            path_tolerance=[JointTolerance(name=name, position=bound) for name, bound in bounds],
            # whether the robot rests is this node's to see, by noisy velocities of any kind
            goal_tolerance=[
                JointTolerance(name=name, position=bound, velocity=NONE) for name, bound in bounds
            ],
            goal_time_tolerance=duration_message(GOAL_SECONDS),
        )
        mark = goal_mark(self._node.get_fully_qualified_name())
        return SentGoal(self, self._client, self._cancels, goal, mark)


class SentGoal:
    """
    The goal of a motion, from when it is sent.

    Its id begins with ``mark``, by which `robot-identification node stop` knows it.

    Attributes
    ----------
    progress:
        The latest feedback; None before the first.
    heard:
        Whether the controller has answered a cancel, and does what it asks for.
    trouble:
        What it does as long as it does not.

    """

    def __init__(
        self, controller: Controller, client: Any, cancels: Any, goal: Any, mark: bytes
    ) -> None:
        self._controller, self._cancels = controller, cancels
        self._joints = tuple(goal.trajectory.joint_names)
        # known before the answer, so that it can be canceled without one
        self._id = GoalInfo().goal_id
        self._id.uuid = np.frombuffer(mark + uuid.uuid4().bytes[len(mark) :], np.uint8)
        self._accepted: bool | None = None
        self.progress: ControllerState | None = None
        self.heard = self._unwanted = False
        self.trouble = 'DOES NOT ANSWER'
        self._ending: Ending | None = None
        self._over = self._unknown = np.inf
        client.send_goal_async(goal, self._note, self._id).add_done_callback(self._answered)

    @property
    def _status(self) -> int | None:
        return self._controller.statuses.get(bytes(self._id.uuid))

    @property
    def accepted(self) -> bool | None:
        """True if the controller has the goal, False if it refuses it; None until it says."""
        # the answer may be lost on its way
        return self._accepted if self._status is None else True

    @property
    def ending(self) -> Ending | None:
        """End of the goal; None while it is followed."""
        status = self._status
        if self._ending is None and status is not None and status in TERMINAL:
            # the result may be lost on its way, or follow the status
            self._over = min(self._over, time.monotonic())
            if time.monotonic() - self._over > RESULT_SECONDS:
                self._ending = Ending(status)
        return self._ending

    def cancel(self) -> None:
        """Ask the controller to end the goal by its own stop, even if it is accepted later."""
        self._unwanted = True
        request = CancelGoal.Request(goal_info=GoalInfo(goal_id=self._id))
        self._cancels.call_async(request).add_done_callback(self._hear)

    def _hear(self, future: Future) -> None:
        answer, now = future.result(), time.monotonic()
        if answer.return_code == answer.ERROR_UNKNOWN_GOAL_ID:
            # the goal, or its acceptance, may be on its way yet
            self._unknown, self.trouble = min(self._unknown, now), 'DOES NOT KNOW THE GOAL'
            if now - self._unknown > UNKNOWN_SECONDS:
                self._ending = self._ending or Ending(GoalStatus.STATUS_UNKNOWN)
            return
        self._unknown = np.inf
        if answer.goals_canceling or answer.return_code == answer.ERROR_GOAL_TERMINATED:
            self.heard = True
        else:
            self.trouble = REFUSES

    def _answered(self, future: Future) -> None:
        handle = future.result()
        self._accepted, self._unknown = bool(handle.accepted), np.inf
        if self._accepted:
            handle.get_result_async().add_done_callback(self._ended)
            if self._unwanted:
                self.cancel()
        else:
            self._ending = Ending(GoalStatus.STATUS_ABORTED, 'REJECTED')

    def _ended(self, future: Future) -> None:
        answer = future.result()
        # that on the topic may come later
        self._controller.statuses[bytes(self._id.uuid)] = answer.status
        result = answer.result
        code = code_name(result.error_code, type(result))
        self._ending = Ending(answer.status, code, result.error_string)

    def _note(self, message: Any) -> None:
        found = ControllerState.from_message(message.feedback, self._joints, time.monotonic())
        self.progress = found or self.progress
