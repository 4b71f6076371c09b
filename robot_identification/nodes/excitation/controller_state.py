# SPDX-License-Identifier: Apache-2.0
"""
State of a controller, by its controller manager where there is one, and its joints.

An inactive joint_trajectory_controller still listens on its topic, and moves nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
import time
from typing import Any

from rcl_interfaces.msg import ParameterType
from rcl_interfaces.srv import GetParameters
from rclpy.callback_groups import CallbackGroup
from rclpy.client import Client
from rclpy.node import Node

from .motion_errors import Code, MotionError
from .motion_sender import Tick
from .options import ControllerOptions, FOLLOW_JOINT_TRAJECTORY

ANSWER_SECONDS = 1.5
"""How long a controller or its manager may take to answer [s]."""


class ControllerQuestion:
    """
    Asks a controller for its joints by its parameters, as every controller of ros2_control has.

    Parameters
    ----------
    node, group:
        Who asks.
    target:
        Full name of the topic or action on which the controller is commanded.
    controller:
        Name of the controller's node; empty: what stands before the target's last slash.

    Attributes
    ----------
    name:
        Of the controller's node; empty where it cannot be told.

    """

    def __init__(self, node: Node, group: CallbackGroup, target: str, controller: str) -> None:
        self.name = controller or target.rpartition('/')[0]
        self._client = None
        if self.name:
            # kept for good: one that is destroyed with an answer on its way is a danger
            service = f'{self.name}/get_parameters'
            self._client = node.create_client(GetParameters, service, callback_group=group)

    async def joints(self, tick: Tick) -> tuple[str, ...]:
        """Return the controller's joints in its order; none where it does not tell in time."""
        value = await self._ask('joints', tick)
        if value is None or value.type != ParameterType.PARAMETER_STRING_ARRAY:
            return ()
        return tuple(value.string_array_value)

    async def allows_partial(self, tick: Tick) -> bool:
        """Return whether trajectories may leave joints of the controller out."""
        value = await self._ask('allow_partial_joints_goal', tick)
        if value is None or value.type != ParameterType.PARAMETER_BOOL:
            return False
        return bool(value.bool_value)

    async def _ask(self, parameter: str, tick: Tick) -> Any | None:
        """Ask for one parameter: where one of several is not declared, none is answered."""
        if self._client is None:
            return None
        answer = await answer_of(self._client, GetParameters.Request(names=[parameter]), tick)
        return None if answer is None else next(iter(answer.values), None)


async def answer_of(client: Client, request: Any, tick: Tick) -> Any | None:
    """Return a service's response; None where it is not there or does not answer in time."""
    end = time.monotonic() + ANSWER_SECONDS
    while not client.service_is_ready():
        if time.monotonic() > end:
            return None
        await tick()
    future = client.call_async(request)
    while not future.done():
        if time.monotonic() > end:
            client.remove_pending_request(future)
            return None
        await tick()
    return future.result()


def difference(ours: Sequence[str], theirs: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return which of our joints they do not have, and which of theirs we have not."""
    missing = [joint for joint in ours if joint not in theirs]
    surplus = [joint for joint in theirs if joint not in ours]
    return missing, surplus


def joints_differ(name: str, missing: Sequence[str], surplus: Sequence[str]) -> MotionError:
    """Return the error that names which joints a controller lacks, and has too many."""
    words = []
    if missing:
        words.append(f'it does not have {_named(missing)}')
    if surplus:
        words.append(f'it has {_named(surplus)} too')
    return MotionError(
        Code.JOINTS_DIFFER,
        f"the joints of the controller '{name}' are not those of the motion, "
        f'{" and ".join(words)}: see controller_topic and the parameter joints',
    )


def _named(joints: Sequence[str]) -> str:
    return ', '.join(f"'{joint}'" for joint in joints)


LIST_CONTROLLERS = 'controller_manager_msgs/srv/ListControllers'
USUAL_MANAGER = 'controller_manager'

REMEDIES = {
    'inactive': 'activate it: ros2 control switch_controllers --activate {name}{manager}',
    'unconfigured': 'configure it, and activate it then: '
    'ros2 control set_controller_state {name} inactive{manager}',
}
"""By the controller's state."""


class ControllerState:
    """
    Asks the controller manager in a controller's namespace for the controller's state.

    Without ``controller_manager_msgs``, without a manager, or where the manager does not know the
    controller, nothing is said.

    Parameters
    ----------
    node, group:
        Who asks.
    options:
        Which controller.

    """

    def __init__(self, node: Node, group: CallbackGroup, options: ControllerOptions) -> None:
        self._node, self._group = node, group
        self.name = controller_name(node, options)
        self._kind = list_controllers()
        # kept for good: one that is destroyed with an answer on its way is a danger
        self._clients: dict[str, Client] = {}

    async def require_active(self, tick: Tick) -> None:
        """
        Ask the controller manager.

        Parameters
        ----------
        tick:
            Awaited while waiting.

        Raises
        ------
        MotionError
            ``NO_CONTROLLER`` where the controller is loaded but not active.

        """
        if self._kind is None or not self.name:
            return
        request = self._kind.Request()
        namespace, _, name = self.name.rpartition('/')
        for service in self._services(namespace):
            answer = await answer_of(self._clients[service], request, tick)
            manager = service.rpartition('/')[0]
            if answer is None:
                self._node.get_logger().warning(
                    f"'{manager}' does not answer whether the controller '{self.name}' is active"
                )
                continue
            state = next((c.state for c in answer.controller if c.name == name), 'active')
            if state != 'active':
                raise MotionError(
                    Code.NO_CONTROLLER,
                    f"the controller '{self.name}' is {state}, so nothing would move: "
                    f'{remedy(state, name, manager)}',
                )

    def _services(self, namespace: str) -> list[str]:
        """Return the services that list the controllers of a namespace, with a client for each."""
        found = [
            service
            for service, kinds in self._node.get_service_names_and_types()
            if LIST_CONTROLLERS in kinds and service.rsplit('/', 2)[0] == namespace
        ]
        for service in found:
            if service not in self._clients:
                self._clients[service] = self._node.create_client(
                    self._kind, service, callback_group=self._group
                )
        return found


def list_controllers() -> Any | None:
    """Return the service's type; None where ``controller_manager_msgs`` is not installed."""
    try:
        from controller_manager_msgs.srv import ListControllers
    except ImportError:
        return None
    return ListControllers


def controller_name(node: Node, options: ControllerOptions) -> str:
    """Return the full name of the controller's node; empty where it cannot be told."""
    if options.controller_node:
        return str(node.resolve_service_name(options.controller_node))
    topic = options.controller_topic
    if options.controller_kind == FOLLOW_JOINT_TRAJECTORY:
        return str(node.resolve_service_name(topic)).rpartition('/')[0]
    return str(node.resolve_topic_name(topic)).rpartition('/')[0]


def remedy(state: str, name: str, manager: str) -> str:
    """
    Say how a controller becomes active.

    Parameters
    ----------
    state, name:
        The controller's.
    manager:
        Full name of its controller manager.

    """
    words = REMEDIES.get(state, "see its controller manager's log, and start it anew")
    option = '' if manager == f'/{USUAL_MANAGER}' else f' --controller-manager {manager}'
    return words.format(name=name, manager=option)
