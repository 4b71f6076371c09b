# SPDX-License-Identifier: Apache-2.0
"""Joint states: subscriptions whose messages are fetched, of any reliability, and messages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
import contextlib
from functools import partial
import time
from typing import Any

import numpy as np
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.exceptions import InvalidHandle
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.qos_overriding_options import QoSOverridingOptions
from rclpy.serialization import serialize_message
from rclpy.subscription import Subscription
from sensor_msgs.msg import JointState

from ...data.joint_state import shape_of, STAMP, STAMP_PLACE
from ...data.recording import SIGNALS

RELIABLE, BEST_EFFORT = ReliabilityPolicy.RELIABLE, ReliabilityPolicy.BEST_EFFORT

JOINT_STATES = QoSProfile(depth=1000)
"""For joint states: a busy interpreter loses samples with a queue of the usual depth of 10."""


class ManualCallbackGroup(ReentrantCallbackGroup):
    """Callback group that no executor waits for or handles: its messages are fetched."""

    def can_execute(self, entity: Any) -> bool:
        """Return False."""
        return False


class FetchedMessages:
    """
    Subscription whose raw messages are fetched from the middleware; no executor waits for them.

    It begins reliable, unless ``reliable`` is False, and is replaced by a best-effort one where a
    publisher offers nothing else (`follow_publishers`).  ``depth`` messages may wait.  Not
    thread-safe.
    """

    def __init__(
        self,
        node: Node,
        topic: str = 'joint_states',
        kind: type = JointState,
        *,
        depth: int = JOINT_STATES.depth,
        reliable: bool = True,
    ) -> None:
        self._node, self._kind, self._depth, self._reliable = node, kind, depth, reliable
        self._make = partial(
            node.create_subscription,
            kind,
            topic,
            lambda _: None,
            callback_group=ManualCallbackGroup(),
            raw=True,
        )
        self._subscription: Subscription = self._make(
            qos_profile=QoSProfile(depth=depth, reliability=RELIABLE if reliable else BEST_EFFORT),
            qos_overriding_options=QoSOverridingOptions.with_default_policies(),
        )
        self.topic_name: str = self._subscription.topic_name

    def taken(self) -> Iterator[tuple[bytes, dict[str, Any]]]:
        """Take the messages that wait in the middleware, at most as many as it holds."""
        handle = self._subscription.handle
        with contextlib.suppress(InvalidHandle), handle:
            for _ in range(self._depth):
                taken = handle.take_message(self._kind, True)
                if taken is None:
                    return
                yield taken

    def destroy(self) -> None:
        """End the subscription."""
        self._node.destroy_subscription(self._subscription)

    def follow_publishers(self) -> None:
        """Subscribe best effort where a publisher is; messages of all publishers come then."""
        if not self._reliable:
            return
        infos = self._node.get_publishers_info_by_topic(self.topic_name)
        if all(info.qos_profile.reliability != BEST_EFFORT for info in infos):
            return
        self._reliable = False
        self._node.get_logger().warning(
            f"'{self.topic_name}' is published best effort: it is received, but messages may get "
            'lost on the way; have the driver publish reliably if it can'
        )
        self._node.destroy_subscription(self._subscription)
        self._subscription = self._make(
            qos_profile=QoSProfile(depth=self._depth, reliability=BEST_EFFORT)
        )


class StateMessages:
    """Serialised joint states of the same joints; ``signals`` are those that they have."""

    def __init__(self, joints: Sequence[str], signals: Sequence[str] = SIGNALS) -> None:
        numbers = dict.fromkeys(signals, [0.0] * len(joints))
        self._data = bytearray(serialize_message(JointState(name=list(joints), **numbers)))
        self._places = shape_of(bytes(self._data)).places

    def message(self, stamp: int, **signals: np.ndarray) -> bytes:
        """Return the message of a time [ns] and (n_joints,) numbers."""
        STAMP.pack_into(self._data, STAMP_PLACE, *divmod(stamp, 1_000_000_000))
        for name, values in signals.items():
            begin, count = self._places[name]
            self._data[begin : begin + 8 * count] = values.astype('<f8').tobytes()
        return bytes(self._data)


def names_of(endpoints: Iterable[Any]) -> list[str]:
    """Return the full names of the nodes of endpoints in the graph, in order."""
    return sorted(f'{each.node_namespace.rstrip("/")}/{each.node_name}' for each in endpoints)


def waiting_time(info: Mapping[str, int]) -> float:
    """Return how long a message has waited in the middleware [s]."""
    received = info.get('received_timestamp', 0)
    return max(time.time() - 1e-9 * received, 0.0) if received else 0.0
