# SPDX-License-Identifier: Apache-2.0
"""Joint states that arrive at the excitation node."""

from __future__ import annotations

from rclpy.node import Node

from ...online.latest_states import LatestStates
from ..common.joint_states import FetchedMessages, names_of, waiting_time

QUEUE = 50
"""Joint states that may wait to be fetched: efforts are averaged over all of them."""


class StateWatch(LatestStates):
    """The latest joint states of the topic ``joint_states``."""

    def __init__(self, node: Node) -> None:
        self._node = node
        # lost messages are of no use, and a reliable reader that is not read may stall for good
        # after a gap in the network
        messages = FetchedMessages(node, depth=QUEUE, reliable=False)
        super().__init__(
            messages.topic_name,
            lambda: ((message, waiting_time(info)) for message, info in messages.taken()),
        )

    @property
    def publishers(self) -> str:
        """Names of the nodes that publish the joint states."""
        names = names_of(self._node.get_publishers_info_by_topic(self.topic_name))
        return ', '.join(names) or 'no node in the graph'

    @property
    def contested(self) -> bool:
        """True if the topic has several publishers, even of other joints."""
        return self._node.count_publishers(self.topic_name) > 1
