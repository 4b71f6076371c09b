# SPDX-License-Identifier: Apache-2.0
"""Comparison of a controller's joints with those of a motion."""

from __future__ import annotations

from collections.abc import Sequence
import time
from typing import Any

from rcl_interfaces.msg import ParameterType
from rcl_interfaces.srv import GetParameters
from rclpy.callback_groups import CallbackGroup
from rclpy.client import Client
from rclpy.node import Node

from .excitation_errors import Code, MotionError
from .motion_sender import Tick

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
