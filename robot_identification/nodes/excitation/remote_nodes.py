# SPDX-License-Identifier: Apache-2.0
"""Questions to other nodes: any service, and the recorder's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
import math
import time
from typing import Any

from rclpy.client import Client
from rclpy.node import Node
from rclpy.subscription import Subscription
from robot_identification_msgs.msg import RecorderStatus
from robot_identification_msgs.srv import StartRecording, StopRecording

from ..common import LATCHED
from ..common.requests import SERVICES
from .options import Code, code_name, MotionError, Report, Tick

RECORDER_SECONDS = 10.0
"""Longest time for an answer of the recorder, which flushes its file [s]."""

APPEARS_SECONDS = 5.0
"""Longest time for another node to appear [s]: Fast DDS announces it again every 3 s."""

RECORDER_SILENT = 4.0
"""Time without a status, which comes every second, after which the recorder is missed [s]."""

ASK_SECONDS, ANSWER_SECONDS = 1.5, 15.0
"""Time after which a question is asked again, and longest time for its answer [s]."""

HELD_UP = 0.1
"""Most that one look counts of it: a process that was held up has not listened meanwhile [s]."""


async def wait_for(
    ready: Callable[[], bool],
    missing: str,
    tick: Tick,
    code: int,
    seconds: float,
) -> None:
    """Wait until ``ready``; raise `MotionError` with the words ``missing`` where it is not."""
    end = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > end:
            raise MotionError(code, missing)
        await tick()


async def call_again(
    client: Client, requests: Sequence[Any], missing: Sequence[str], tick: Tick
) -> list[Any]:
    """
    Return a service's responses to several requests; what is not answered is asked again.

    Raises `MotionError`, ``NO_CONTROLLER`` with the words of ``missing`` on the first request
    without an answer.
    """
    end, due = time.monotonic() + ANSWER_SECONDS, -math.inf
    sent: list[list[Any]] = [[] for _ in requests]
    found: list[Any] = [None] * len(requests)
    while None in found:
        now, asked = time.monotonic(), client.service_is_ready()
        if now > end:
            text = f'{missing[found.index(None)]} in {ANSWER_SECONDS:g} s'
            raise MotionError(
                Code.NO_CONTROLLER,
                f'{text}: see whether it runs, and whether the computer or the network is busy',
            )
        if now >= due and asked:
            due = now + ASK_SECONDS
            for request, futures, answer in zip(requests, sent, found, strict=True):
                futures += [client.call_async(request)] if answer is None else []
        await tick()
        for i, futures in enumerate(sent):
            found[i] = next((future.result() for future in futures if future.done()), None)
    return found


# ------------------------------------------------------------------------------------ the recorder


@dataclass
class MotionRecording:
    """
    The recording of one motion by a recorder node; the report gets its path.

    ``name`` is '' for one that the recorder chooses, None for no recording.
    """

    node: Node
    tick: Tick
    recorder: str
    name: str | None
    report: Report

    def __post_init__(self) -> None:
        self._statuses: Subscription | None = None
        self._ended = ''
        self._others = False

    async def start(self) -> None:
        """Start the recording; raise `MotionError` if the recorder does not."""
        if self.name is None:
            return
        self.report.feedback.phase = 'starting_recorder'
        answer = await self._call(StartRecording, 'start', StartRecording.Request(name=self.name))
        self.report.result.recording_path = answer.path
        self._silence, self._looked = 0.0, time.monotonic()
        self._statuses = self.node.create_subscription(
            RecorderStatus, f'{self.recorder}/status', self._note, LATCHED
        )

    def failure(self) -> MotionError | None:
        """Return the error of a recorder that does not record any more, or None."""
        if self._statuses is None:
            return None
        now = time.monotonic()
        self._silence += min(now - self._looked, HELD_UP)
        self._looked = now
        if self._ended:
            text = f"the recorder '{self.recorder}' has ended the recording{self._ended}"
            return MotionError(Code.RECORDER_FAILED, text)
        if self._silence <= RECORDER_SILENT:
            return None
        return MotionError(
            Code.RECORDER_FAILED,
            f"the recorder '{self.recorder}' has published no status for {self._silence:.3g} s: "
            'see whether it still runs',
        )

    def _note(self, status: RecorderStatus) -> None:
        self._silence = 0.0
        # the latched one may be of an earlier recording
        if status.path == self.report.result.recording_path and not status.recording:
            self._ended = f': {status.message}' if status.message else ', not by this node'
        elif status.path != self.report.result.recording_path and status.recording:
            self._others, self._ended = True, f", and records into '{status.path}' instead"

    async def stop(self, error: Exception | None = None) -> None:
        """
        Close the recording; a motion that ended early, by an error, is marked in it.

        A recorder that fails after such an error is logged alone, otherwise raises `MotionError`.
        """
        if self.name is None:
            return
        if self._statuses is not None:
            self.node.destroy_subscription(self._statuses)
            self._statuses = None
        if self._others:
            if error is None:
                raise MotionError(Code.RECORDER_FAILED, f'the recording is not whole{self._ended}')
            return  # what it records now is not this node's to end
        self.report.feedback.phase = 'finishing_recording'
        request = StopRecording.Request(mark='' if error is None else self._mark(error))
        try:
            answer = await self._call(StopRecording, 'stop', request)
            self.report.result.recording_path = answer.path or self.report.result.recording_path
        except MotionError as failure:
            if error is None:
                raise
            self.node.get_logger().error(failure.message)

    def _mark(self, error: Exception) -> str:
        """Return the mark for later readers of the recording."""
        where = f'at {self.report.feedback.progress:.0%} of the motion'
        if isinstance(error, MotionError):
            return f'ended early {where}: {code_name(error.code)}: {error.message}'
        return f'ended early {where}: {type(error).__name__}: {error}'

    async def _call(self, kind: type, verb: str, request: Any) -> Any:
        """Return the recorder's answer; raise `MotionError` where it gives none, or refuses."""
        name = f'{self.recorder}/{verb}'
        client = self.node.create_client(kind, name, qos_profile=SERVICES)
        idle, code = True, Code.RECORDER_FAILED
        try:
            await wait_for(
                client.service_is_ready,
                f"service '{name}' is not there: start the recorder, correct the parameter "
                'recorder, or do not ask for a recording',
                self.tick,
                code,
                APPEARS_SECONDS,
            )
            idle, future = False, client.call_async(request)
            late = f"service '{name}' has not answered in time"
            await wait_for(future.done, late, self.tick, code, RECORDER_SECONDS)
            idle = True
        finally:
            # destroying a client with an answer on its way can end the process
            if idle:
                self.node.destroy_client(client)
        answer = future.result()
        if not answer.success:
            raise MotionError(code, f"service '{name}' refuses: {answer.message}")
        return answer
