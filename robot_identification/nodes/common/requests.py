# SPDX-License-Identifier: Apache-2.0
"""Requests to services and actions: their answers and their queue."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from inspect import isawaitable
from pathlib import Path
import time
import traceback
from typing import Any

from rclpy.action import ActionServer, CancelResponse
from rclpy.action.server import ServerGoalHandle
from rclpy.callback_groups import CallbackGroup
from rclpy.node import Node
from rclpy.qos import QoSProfile

from ...errors import (
    ExcitationError,
    IdentificationError,
    ModelError,
    one_of,
    RecordingError,
    SettingsError,
)
from ...options.fields import option
from ...untrusted.directories import DataDirectories
from .parameters import declare_options

SERVICES = QoSProfile(depth=1000)
"""For services: rclpy's default keeps the last 10 requests and drops others without an answer."""

ENDING = 'the node is shutting down'
MOST_WAITING = 8
"""Requests that may wait for one that is being worked on."""


@dataclass(frozen=True)
class FileOptions:
    """Parameter of the nodes that open files on request."""

    data_directories: tuple[str, ...] = option(
        (),
        doc='Folders below which requests, and parameters that are changed later, may name files '
        'to read and to write; links and .. are resolved before. Empty: the folder that the node '
        'is started in, unless that is /. The folders of recordings and results, as they are at '
        'the start, belong to them',
        read_only=True,
    )


def data_directories(node: Node, more: Iterable[Path]) -> DataDirectories:
    """Declare the option, and return and log its folders and ``more`` of other parameters."""
    named = declare_options(node, FileOptions).data_directories
    directories = DataDirectories.from_names(named, more)
    node.get_logger().info(
        f'requests may name files below {one_of(directories.folders)} (data_directories)'
    )
    return directories


class BusyError(IdentificationError):
    """Refusal of a request where too many wait already."""


class RequestCanceled(IdentificationError):
    """Early end of a request, by its client or by the node's end."""


class CodedError(IdentificationError):
    """An error that brings the code of an action's result with it."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class RequestQueue:
    """
    Queue of requests that are worked on one after the other, in a thread beside the executor.

    While one is worked on, ``limit`` others may wait.  The node's executor is woken when one ends.
    """

    def __init__(self, node: Node, limit: int = MOST_WAITING) -> None:
        self._node, self._limit = node, limit
        self._names: dict[Future, str] = {}  # in the order of their turns
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix='requests')
        self._unanswered = 0
        self._stopped = False

    def __len__(self) -> int:
        """Return the number of requests that are worked on or wait."""
        return len(self._names)

    async def work(
        self,
        name: str,
        function: Callable[[], Any],
        canceled: Callable[[], bool] = lambda: False,
    ) -> Any:
        """
        Return the result of a function that runs when its turn comes; the node goes on meanwhile.

        The name is that of the request in the refusals of others.  ``canceled`` is asked until the
        turn comes.

        Raises `BusyError` where too many requests wait already; `RequestCanceled` where the
        request is canceled, or the queue is stopped, before the turn comes.
        """
        waiting = len(self._names) - 1
        if self._stopped:
            raise RequestCanceled(ENDING)
        if waiting >= self._limit:
            raise BusyError(
                f'busy with {next(iter(self._names.values()))}, {waiting} waiting',
                remedy='ask again when the answers of those have come',
            )
        self._unanswered += 1
        try:
            future = self._worker.submit(function)
            self._names[future] = name
            future.add_done_callback(self._end)
            while not future.done():
                await asyncio.sleep(0)  # the executor goes on, until something wakes it
                if canceled():
                    future.cancel()  # which one that is worked on already does not notice
            return future.result()
        except CancelledError:
            raise RequestCanceled(ENDING if self._stopped else 'canceled') from None
        finally:
            self._unanswered -= 1

    def _end(self, future: Future) -> None:
        del self._names[future]
        executor = self._node.executor
        if executor is not None:
            executor.wake()

    async def stop(self, seconds: float) -> None:
        """Refuse the requests that wait and those that come; wait for the one worked on."""
        self._stopped = True
        self._worker.shutdown(wait=False, cancel_futures=True)
        end = time.monotonic() + seconds
        while self._unanswered and time.monotonic() < end:
            await asyncio.sleep(0)


CODES: tuple[tuple[type[Exception], str], ...] = (
    (RequestCanceled, 'CANCELED'),
    (BusyError, 'BUSY'),
    (SettingsError, 'INVALID_SETTINGS'),
    (ModelError, 'NO_MODEL'),
    (RecordingError, 'INVALID_RECORDING'),
    (ExcitationError, 'INFEASIBLE'),
    (IdentificationError, 'FAILED'),
    # planning, which has no FAILED: by files that its goal names
    (IdentificationError, 'INVALID_SETTINGS'),
    (Exception, 'INTERNAL'),
)
"""Names of the codes of a result by the error: the first that fits and that the action has."""


Execute = Callable[[ServerGoalHandle, Any], Awaitable[None]]
"""Works on a goal and fills its result."""


def serve_action(node: Node, kind: Any, name: str, execute: Execute, group: CallbackGroup) -> None:
    """Create an action whose goals can be canceled, with a queue for many clients."""
    ActionServer(
        node,
        kind,
        name,
        partial(end_goal, node, kind, execute),
        callback_group=group,
        cancel_callback=lambda _: CancelResponse.ACCEPT,
        goal_service_qos_profile=SERVICES,
        result_service_qos_profile=SERVICES,
        cancel_service_qos_profile=SERVICES,
    )


async def end_goal(node: Node, kind: Any, execute: Execute, goal: ServerGoalHandle) -> Any:
    """
    Work on a goal of an action of this kind, and end it by the code of its result.

    An error gives the code that it has, or one of the `CODES`.  Without a code the goal succeeds;
    with that of a cancel, which was asked for, it is canceled, with any other aborted.
    """
    result = kind.Result()
    try:
        await execute(goal, result)
    except CodedError as error:
        result.error_code, result.error_msg = error.code, explain(node, error)
    except Exception as error:
        codes = (code for errors, code in CODES if isinstance(error, errors))
        code = next(code for code in codes if hasattr(kind.Result, code))
        result.error_code, result.error_msg = getattr(kind.Result, code), explain(node, error)
    if not result.error_code:
        goal.succeed()
    elif goal.is_cancel_requested and result.error_code == kind.Result.CANCELED:
        goal.canceled()
    else:
        goal.abort()
    return result


def serve(
    node: Node,
    kind: type,
    name: str,
    function: Callable[[Any, Any], Any],
    *,
    queue: RequestQueue | None = None,
    **options: Any,
) -> None:
    """
    Create a service whose failing requests are answered and never stop the node.

    The function is called with request and response; it fills the latter and returns its message,
    or None.  With a queue, requests wait for each other and the function runs in its thread;
    without, in the executor's own, at once, where it may be a coroutine function.  The options are
    those of `rclpy.node.Node.create_service`.
    """

    async def on_request(request: Any, response: Any) -> Any:
        work = partial(function, request, response)
        try:
            message = work() if queue is None else queue.work(name.removeprefix('~/'), work)
            message = await message if isawaitable(message) else message
            response.success, response.message = True, message or ''
        except Exception as error:
            response.success, response.message = False, explain(node, error)
        return response

    node.create_service(kind, name, on_request, qos_profile=SERVICES, **options)


def explain(node: Node, error: BaseException) -> str:
    """
    Log ``error`` and return it as one line for the client.

    An `IdentificationError` is a warning; anything else is our fault and logged with traceback.
    """
    if isinstance(error, IdentificationError):
        node.get_logger().warning(str(error))
        return str(error)
    text = ' '.join(f'internal error: {type(error).__name__}: {error}'.split())
    trace = ''.join(traceback.format_exception(type(error), error, error.__traceback__))
    node.get_logger().error(f'{text}\n{trace}')
    return text
