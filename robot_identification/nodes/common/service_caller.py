# SPDX-License-Identifier: Apache-2.0
"""Call the suite's services and actions from a program that is not a node of it, and wait."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
import time
from typing import Any

from rclpy.action import ActionClient
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.task import Future

from ...errors import IdentificationError
from .requests import SERVICES


class RequestFailedError(IdentificationError):
    """A node answered that it could not do what was asked, or did not answer in time."""


class ServiceCaller:
    """
    Blocking calls to services and actions.

    Parameters
    ----------
    node:
        The node that calls; nobody else may spin it.
    check:
        Called some ten times a second while waiting; raises to give up.

    """

    def __init__(self, node: Node, check: Callable[[], None] = lambda: None) -> None:
        self.node = node
        self._check = check
        self._executor = SingleThreadedExecutor(context=node.context)
        self._executor.add_node(node)
        # a client that is destroyed with an answer on its way can bring the process down
        self._clients: dict[tuple[type, str], Any] = {}

    def wait_for(self, condition: Callable[[], bool], seconds: float, what: str) -> None:
        """Spin until ``condition`` holds; raise `RequestFailedError` naming ``what`` if late."""
        end = time.monotonic() + seconds
        while not condition():
            self._check()
            if time.monotonic() > end:
                raise RequestFailedError(
                    f'{what}: no answer within {seconds:.0f} s',
                    remedy='see whether the node runs and is in the same ROS_DOMAIN_ID',
                )
            self._executor.spin_once(timeout_sec=0.1)

    def call(self, kind: type[Any], name: str, seconds: float = 60.0, /, **fields: Any) -> Any:
        """
        Call a service and return its response.

        Raises
        ------
        RequestFailedError
            where there is no answer in time, or the response says ``success: false``.

        """
        # the answers to other clients of the service arrive here, too
        make = partial(self.node.create_client, qos_profile=SERVICES)
        client = self._client(kind, name, make)
        what = f"service '{name}'"
        self.wait_for(client.service_is_ready, seconds, what)
        response = self._result(client.call_async(kind.Request(**fields)), seconds, what)
        if not response.success:
            raise RequestFailedError(f"service '{name}' refuses: {response.message}")
        return response

    def act(
        self,
        kind: type[Any],
        name: str,
        seconds: float,
        feedback: Callable[[Any], None] = lambda _: None,
        /,
        **fields: Any,
    ) -> Any:
        """
        Send a goal to an action and return its result.

        Raises
        ------
        RequestFailedError
            where the goal is refused, not done in time (it is canceled then), or its
            ``error_code`` is not 0.

        """
        client = self._client(kind, name, partial(ActionClient, self.node))
        what = f"action '{name}'"
        handle = None
        try:
            self.wait_for(client.server_is_ready, 30.0, what)
            sent = client.send_goal_async(
                kind.Goal(**fields), feedback_callback=lambda message: feedback(message.feedback)
            )
            handle = self._result(sent, 30.0, what)
            if not handle.accepted:
                raise RequestFailedError(f'{what}: the goal is refused')
            result = self._result(handle.get_result_async(), seconds, what).result
            handle = None
        finally:
            if handle is not None and handle.accepted:
                handle.cancel_goal_async()
                self._executor.spin_once(timeout_sec=0.1)
        if result.error_code:
            raise RequestFailedError(f'{what} fails: {result.error_msg}', value=result.error_code)
        return result

    def _client(self, kind: type, name: str, make: Callable[[type, str], Any]) -> Any:
        if (kind, name) not in self._clients:
            self._clients[kind, name] = make(kind, name)
        return self._clients[kind, name]

    def _result(self, future: Future, seconds: float, what: str) -> Any:
        self.wait_for(future.done, seconds, what)
        return future.result()
