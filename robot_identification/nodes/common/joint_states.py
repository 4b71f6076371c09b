# SPDX-License-Identifier: Apache-2.0
"""Listening to joint states, whatever guarantees their driver gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
import contextlib
from functools import partial
import time
from typing import Any

from rclpy.callback_groups import CallbackGroup
from rclpy.event_handler import SubscriptionEventCallbacks
from rclpy.exceptions import InvalidHandle
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy
from rclpy.qos_overriding_options import QoSOverridingOptions
from rclpy.subscription import Subscription
from sensor_msgs.msg import JointState

from .node_main import ManualCallbackGroup

RELIABLE, BEST_EFFORT = ReliabilityPolicy.RELIABLE, ReliabilityPolicy.BEST_EFFORT

JOINT_STATES = QoSProfile(
    history=HistoryPolicy.KEEP_LAST,
    depth=1000,
    reliability=RELIABLE,
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
    reliable:
        Whether to begin with what is reliable.

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
        reliable: bool = True,
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
            qos_profile=QoSProfile(depth=depth, reliability=RELIABLE if reliable else BEST_EFFORT),
            event_callbacks=SubscriptionEventCallbacks(
                incompatible_qos=self._on_incompatible, message_lost=message_lost
            ),
            qos_overriding_options=QoSOverridingOptions.with_default_policies(),
        )
        self.topic_name: str = self._subscription.topic_name

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
            qos_profile=QoSProfile(depth=self._depth, reliability=BEST_EFFORT),
            event_callbacks=SubscriptionEventCallbacks(message_lost=self._message_lost),
        )


class FetchedJointStates(JointStateSubscription):
    """
    A subscription whose messages and events somebody fetches; no executor waits for them.

    The messages are raw.  An executor that waited for the events alone would go round and round:
    to Fast DDS they share a condition with the messages, which lie there until they are fetched.
    All of it is to be done in one thread.

    Parameters
    ----------
    node, topic, depth, message_lost, reliable:
        As for `JointStateSubscription`.

    """

    def __init__(
        self,
        node: Node,
        topic: str = 'joint_states',
        *,
        depth: int = JOINT_STATES.depth,
        message_lost: Callable[[Any], None] | None = None,
        reliable: bool = True,
    ) -> None:
        super().__init__(
            node,
            _never_called,
            topic,
            depth=depth,
            message_lost=message_lost,
            callback_group=ManualCallbackGroup(),
            raw=True,
            reliable=reliable,
        )

    def taken(self) -> Iterator[tuple[bytes, dict[str, Any]]]:
        """Take the messages that wait in the middleware, at most as many as it holds."""
        assert self._subscription is not None
        handle = self._subscription.handle
        with contextlib.suppress(InvalidHandle), handle:
            for _ in range(self._depth):
                taken = handle.take_message(JointState, True)
                if taken is None:
                    return
                yield taken

    def handle_events(self) -> None:
        """Call back for what the middleware has to tell: messages lost, publishers not heard."""
        assert self._subscription is not None
        told: list[tuple[Callable[[Any], None], Any]] = []
        # a node that ends destroys what this looks at
        with contextlib.suppress(InvalidHandle), contextlib.ExitStack() as held:
            events, context = self._subscription.event_handlers, self._node.context.handle
            for each in (context, self._subscription.handle, *events):
                held.enter_context(each)
            ready = rclpy_implementation.WaitSet(0, 0, 0, 0, 0, len(events), context)
            ready.clear_entities()
            for event in events:
                event.add_to_wait_set(ready)
            ready.wait(0)
            told = [(each.callback, each.take_data()) for each in events if each.is_ready(ready)]
        for callback, data in told:
            callback(data)


def waited(info: Mapping[str, int]) -> float:
    """Return for how long a message has lain in the middleware [s]."""
    received = info.get('received_timestamp', 0)
    return max(time.time() - 1e-9 * received, 0.0) if received else 0.0


def _never_called(message: Any) -> None:
    """Stand for a callback: the messages are fetched."""
