# SPDX-License-Identifier: Apache-2.0
"""
Readiness of a live identification for joint states, as others in the graph see it.

The process that follows a robot takes some seconds to start; what is published before is not
repeated for it.  It says in its latched status when it is ready.
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
    Follows the status of a live identification until it is ready.

    Parameters
    ----------
    node:
        Who asks; not spun by anybody else.
    identification:
        Full name of the identification node.

    Attributes
    ----------
    is_ready:
        Whether it takes joint states, or is switched off, so that there is nothing to wait for.
    is_followed:
        Whether it takes joint states.

    """

    def __init__(self, node: Node, identification: str) -> None:
        self._node = node
        self.identification = f'/{identification.strip("/")}'
        self.is_ready = self.is_followed = False
        self._trouble = 'it has not published its status'
        self._topic = f'{self.identification}/online/status'
        node.create_subscription(OnlineStatus, self._topic, self._on_status, LATCHED)

    @property
    def follower(self) -> str:
        """Full name of the node that takes the joint states."""
        return follower_name(self.identification)

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

    Parameters
    ----------
    identification:
        Full name of the identification node.
    seconds:
        How long to wait.

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
