# SPDX-License-Identifier: Apache-2.0
"""
Readiness of a live identification for joint states.

The process that follows a robot takes some seconds to start, and joint states published before are
not repeated for it.  Its latched status says when it is ready.
"""

from __future__ import annotations

from collections.abc import Callable
import time

import rclpy
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from robot_identification_msgs.msg import OnlineStatus

from ...errors import IdentificationError
from ..common import LATCHED
from .online_options import follower_name

READY = (OnlineStatus.WAITING, OnlineStatus.LEARNING, OnlineStatus.FROZEN)

_TURN = 0.05  # s


class Readiness:
    """
    Subscription to the status of a live identification.

    Parameters
    ----------
    node:
        The node that subscribes; not spun elsewhere.
    identification:
        Full name of the identification node.

    Attributes
    ----------
    is_ready, is_followed:
        Whether it takes joint states, or is switched off, so that there is nothing to wait for;
        whether it takes joint states.
    follower:
        Full name of the node that takes the joint states.

    """

    def __init__(self, node: Node, identification: str) -> None:
        self._node = node
        self.identification = f'/{identification.strip("/")}'
        self.follower = follower_name(self.identification)
        self.is_ready = self.is_followed = False
        self._trouble = 'it has not published its status'
        self._topic = f'{self.identification}/online/status'
        node.create_subscription(OnlineStatus, self._topic, self._on_status, LATCHED)

    def wait(self, seconds: float, also: Callable[[], bool] = lambda: True) -> None:
        """
        Wait until it is ready, and until ``also`` holds.

        Raises
        ------
        IdentificationError
            where that is not so within this time [s].

        """
        executor = SingleThreadedExecutor(context=self._node.context)
        executor.add_node(self._node)
        end = time.monotonic() + seconds
        try:
            while not (self.is_ready and also()):
                if time.monotonic() > end:
                    raise IdentificationError(
                        f"'{self.identification}' is not ready for joint states after "
                        f'{seconds:g} s: {self._trouble}',
                        value=seconds,
                        remedy=f'look at {self._topic} and at the log of the node, or wait longer',
                    )
                executor.spin_once(timeout_sec=_TURN)
        finally:
            executor.shutdown()

    def _on_status(self, status: OnlineStatus) -> None:
        # the node and the process that it starts both publish it, each its own part
        if status.state in READY:
            self.is_ready = self.is_followed = True
            self._trouble = 'it has not discovered the publisher yet'
        elif status.state == OnlineStatus.OFF and not status.message:
            self.is_ready = True
        elif not self.is_ready:
            self._trouble = status.message or 'its process is being started'


def wait_for_identification(identification: str, seconds: float) -> None:
    """
    Wait until a live identification is ready; initialises and shuts down ROS.

    Raises
    ------
    IdentificationError
        where it is not ready by then.

    """
    rclpy.init(args=[])
    try:
        node = rclpy.create_node('wait', start_parameter_services=False)
        Readiness(node, identification).wait(seconds)
    finally:
        rclpy.try_shutdown()
