# SPDX-License-Identifier: Apache-2.0
"""Client of the recorder's services, for a motion that is recorded."""

from __future__ import annotations

from dataclasses import dataclass
import time
from typing import Any

from rclpy.node import Node
from robot_identification_msgs.srv import StartRecording, StopRecording

from ..common.requests import SERVICES
from .motion_errors import (
    Code,
    code_name,
    MotionError,
)
from .motion_sender import Tick
from .motion_watch import Report

SERVICE_SECONDS = 10.0
"""How long the recorder may take to answer [s]."""


@dataclass(frozen=True)
class MotionRecording:
    """
    The recording of one motion.

    Attributes
    ----------
    node, tick:
        As for `call_recorder`.
    recorder:
        Name of the recorder node.
    name:
        Name of the recording, '' for one that the recorder chooses, None for no recording.
    report:
        Gets the recording's path.

    """

    node: Node
    tick: Tick
    recorder: str
    name: str | None
    report: Report

    async def start(self) -> None:
        """Start the recording; raise `MotionError` if the recorder does not."""
        if self.name is None:
            return
        self.report.phase = 'starting_recorder'
        answer = await self._call(StartRecording, 'start', StartRecording.Request(name=self.name))
        self.report.recording_path = answer.path

    async def stop(self, error: Exception | None = None) -> None:
        """
        Close the recording.

        Parameters
        ----------
        error:
            Why the motion ended early, which is marked in the recording; then a recorder that
            fails is logged, and no reason to raise another error.

        Raises
        ------
        MotionError
            where the recorder fails, and nothing else has.

        """
        if self.name is None:
            return
        self.report.phase = 'finishing_recording'
        request = StopRecording.Request(mark='' if error is None else self._mark(error))
        try:
            answer = await self._call(StopRecording, 'stop', request)
            self.report.recording_path = answer.path or self.report.recording_path
        except MotionError as failure:
            if error is None:
                raise
            self.node.get_logger().error(failure.message)

    def _mark(self, error: Exception) -> str:
        """Return what later readers of the recording should know."""
        where = f'at {self.report.progress:.0%} of the motion'
        if isinstance(error, MotionError):
            return f'ended early {where}: {code_name(error.code)}: {error.message}'
        return f'ended early {where}: {type(error).__name__}: {error}'

    async def _call(self, kind: type, verb: str, request: Any) -> Any:
        return await call_recorder(self.node, kind, f'{self.recorder}/{verb}', request, self.tick)


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
