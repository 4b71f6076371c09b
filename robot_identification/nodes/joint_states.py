# SPDX-License-Identifier: Apache-2.0
"""Listening to joint states, whatever guarantees their driver gives."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from rclpy.callback_groups import CallbackGroup
from rclpy.event_handler import SubscriptionEventCallbacks
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy
from rclpy.qos_overriding_options import QoSOverridingOptions
from rclpy.subscription import Subscription
from sensor_msgs.msg import JointState

JOINT_STATES = QoSProfile(
    history=HistoryPolicy.KEEP_LAST,
    depth=1000,
    reliability=ReliabilityPolicy.RELIABLE,
    durability=DurabilityPolicy.VOLATILE,
)
"""For joint states: a busy interpreter loses samples with a queue of the usual depth of 10."""


class JointStateSubscription:
    """
    A reliable subscription that gives way to one without guarantees where only that is offered.

    A driver that publishes best effort would not be heard at all otherwise.  QoS can be overridden
    by parameters, such as ``qos_overrides./joint_states.subscription.depth``.

    Parameters
    ----------
    node, callback, topic:
        As for `rclpy.node.Node.create_subscription`.
    depth:
        Messages that may wait.
    message_lost:
        Told by the middleware of messages that it lost; None where nobody wants to know.
    callback_group, raw:
        As for ``create_subscription``.

    Attributes
    ----------
    topic_name:
        Full name of the topic.

    """

    def __init__(
        self,
        node: Node,
        callback: Callable[..., Any],
        topic: str = 'joint_states',
        *,
        depth: int = JOINT_STATES.depth,
        message_lost: Callable[[Any], None] | None = None,
        callback_group: CallbackGroup | None = None,
        raw: bool = False,
    ) -> None:
        self._node, self._depth = node, depth
        self._make = partial(
            node.create_subscription,
            JointState,
            topic,
            callback,
            callback_group=callback_group,
            raw=raw,
        )
        self._message_lost = message_lost
        self._subscription: Subscription | None = self._make(
            qos_profile=QoSProfile(depth=depth, reliability=ReliabilityPolicy.RELIABLE),
            event_callbacks=SubscriptionEventCallbacks(
                incompatible_qos=self._on_incompatible, message_lost=message_lost
            ),
            qos_overriding_options=QoSOverridingOptions.with_default_policies(),
        )
        self.topic_name: str = self._subscription.topic_name

    @property
    def handle(self) -> Any:
        """The middleware's subscription, to take messages from it."""
        assert self._subscription is not None
        return self._subscription.handle

    def destroy(self) -> None:
        """Listen no more."""
        if self._subscription is not None:
            self._node.destroy_subscription(self._subscription)
            self._subscription = None

    def _on_incompatible(self, _: Any) -> None:
        if self._subscription is None:
            return
        self._node.get_logger().warning(
            f"'{self.topic_name}' is published best effort: it is heard, but joint states may "
            'get lost on the way; have the driver publish reliably if it can'
        )
        self.destroy()
        self._subscription = self._make(
            qos_profile=QoSProfile(depth=self._depth, reliability=ReliabilityPolicy.BEST_EFFORT),
            event_callbacks=SubscriptionEventCallbacks(message_lost=self._message_lost),
        )
