# SPDX-License-Identifier: Apache-2.0
"""Joint states that arrive at the excitation node."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from rclpy.node import Node
from rclpy.serialization import deserialize_message
from sensor_msgs.msg import JointState

from ...online.latest_states import LATEST, LatestStates
from ..common.joint_states import FetchedMessages, names_of, waiting_time

QUEUE = 50
"""Joint states that may wait to be fetched: efforts are averaged over all of them."""


class StateWatch(LatestStates):
    """The latest joint states of the topic ``joint_states``."""

    def __init__(self, node: Node) -> None:
        self._node = node
        # lost messages are of no use, and a reliable reader that is not read may stall for good
        # after a gap in the network
        self._messages = FetchedMessages(node, depth=QUEUE, reliable=False)
        self._kept: deque[bytes] = deque(maxlen=LATEST.kept)
        super().__init__(self._messages.topic_name, self._take_all)

    def forget(self) -> None:
        """Forget what came until now, so that `at_rest` and `everywhere` look again."""
        super().forget()
        self._kept.clear()

    def _take_all(self) -> Iterator[tuple[bytes, float]]:
        for message, info in self._messages.taken():
            self._kept.append(message)
            yield message, waiting_time(info)

    def everywhere(self) -> dict[str, float]:
        """Return the positions of all joints that have come since `forget` [rad or m]."""
        states = [deserialize_message(each, JointState) for each in self._kept]
        return {n: q for each in states for n, q in zip(each.name, each.position, strict=False)}

    @property
    def publishers(self) -> str:
        """Names of the nodes that publish the joint states."""
        names = names_of(self._node.get_publishers_info_by_topic(self.topic_name))
        return ', '.join(names) or 'no node in the graph'

    @property
    def contested(self) -> bool:
        """True if the topic has several publishers, even of other joints."""
        return self._node.count_publishers(self.topic_name) > 1
