# SPDX-License-Identifier: Apache-2.0
"""Whom a motion needs besides the controller: the recorder."""

from __future__ import annotations

import time
from typing import Any

from rclpy.node import Node

from .excitation_errors import Code, MotionError
from .motion_sender import Tick
from .requests import SERVICES

SERVICE_SECONDS = 10.0
"""How long the recorder may take to answer [s]."""


async def call_recorder(node: Node, kind: type, name: str, request: Any, tick: Tick) -> Any:
    """
    Call one of the recorder's services and return its response.

    Parameters
    ----------
    node:
        Who calls.
    kind, name, request:
        The service's type and name, and what it is asked.
    tick:
        Awaited while waiting.

    Raises
    ------
    MotionError
        where the recorder is not there, does not answer in time, or refuses.

    """
    client, future = node.create_client(kind, name, qos_profile=SERVICES), None
    try:
        end = time.monotonic() + SERVICE_SECONDS
        while not client.service_is_ready():
            if time.monotonic() > end - 0.7 * SERVICE_SECONDS:
                raise MotionError(
                    Code.RECORDER_FAILED,
                    f"service '{name}' is not there: start the recorder, correct the "
                    'parameter recorder, or do not ask for a recording',
                )
            await tick()
        future = client.call_async(request)
        while not future.done():
            if time.monotonic() > end:
                raise MotionError(
                    Code.RECORDER_FAILED, f"service '{name}' has not answered in time"
                )
            await tick()
        answer = future.result()
        if not answer.success:
            raise MotionError(Code.RECORDER_FAILED, f"service '{name}' refuses: {answer.message}")
        return answer
    finally:
        # a client that is destroyed with an answer on its way can bring the process down
        if future is None or future.done():
            node.destroy_client(client)
