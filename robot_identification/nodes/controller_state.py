# SPDX-License-Identifier: Apache-2.0
"""
State of a controller, by its controller manager where there is one.

An inactive joint_trajectory_controller still listens on its topic, and moves nothing.
"""

from __future__ import annotations

from typing import Any

from rclpy.callback_groups import CallbackGroup
from rclpy.client import Client
from rclpy.node import Node

from .controller_joints import answer_of
from .controller_options import ControllerOptions, FOLLOW_JOINT_TRAJECTORY
from .excitation_errors import Code, MotionError
from .motion_sender import Tick

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
