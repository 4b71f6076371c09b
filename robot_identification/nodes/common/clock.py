# SPDX-License-Identifier: Apache-2.0
"""Clock of a node; a simulated one is read when it is asked for, not at each of its messages."""

from __future__ import annotations

import contextlib
import threading

from rclpy.exceptions import InvalidHandle
from rclpy.node import Node
from rclpy.time import Time
from rosgraph_msgs.msg import Clock

from .joint_states import ManualCallbackGroup

_FETCHED = ManualCallbackGroup()
_reading = threading.Lock()


def read_clock(node: Node) -> None:
    """
    Set the clock of a node with ``use_sim_time`` by the latest message of its topic.

    From then on its executor does not wait for these messages: that would take half a millisecond
    for each, in a node with some services, and a simulator publishes a thousand a second.
    """
    with _reading:
        for subscription in node.subscriptions:
            if subscription.msg_type is not Clock:
                continue
            for entity in (subscription, *subscription.event_handlers):
                entity.callback_group = _FETCHED
            with contextlib.suppress(InvalidHandle), subscription.handle:
                taken = subscription.handle.take_message(Clock, False)
                if taken is not None:
                    subscription.callback(taken[0])


def now(node: Node) -> Time:
    """Return the present time of a node's clock."""
    read_clock(node)
    return node.get_clock().now()
