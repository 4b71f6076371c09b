# SPDX-License-Identifier: Apache-2.0
"""
Requests to services: their queue, the files they may name, and blocking calls of services.

Callers of services read and write files with the rights of the node.  So files that are named
after the start have to lie below folders that were named at the start.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import CancelledError, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
import time
from typing import Any

from rclpy.action import ActionClient
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy
from rclpy.task import Future

from ...errors import IdentificationError, one_of, SettingsError
from ...options.fields import option


def given_path(text: str, key: str, base: Path = Path()) -> Path:
    """
    Return the absolute path under a key of a request or a parameter, from ``base`` on.

    ``~`` is a home folder; raises `SettingsError` where there is no such home.
    """
    try:
        return (base / Path(text).expanduser()).absolute()
    except RuntimeError as error:
        raise SettingsError(
            f"'{key}' is '{text[:80]}', but there is no such user",
            key=key,
            value=text,
            remedy='give a path that does not begin with ~',
        ) from error


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


@dataclass(frozen=True)
class DataDirectories:
    """Absolute paths of the folders, with all links resolved."""

    folders: tuple[Path, ...]

    @classmethod
    def of(cls, node: Node, options: FileOptions, more: Iterable[Path]) -> DataDirectories:
        """Return the folders of the option and ``more`` of other parameters, and log them."""
        given = [given_path(text, 'data_directories') for text in options.data_directories]
        here = Path.cwd()
        if not given and here != Path(here.anchor):
            given = [here]
        folders = dict.fromkeys(_resolved(path, 'data_directories') for path in (*given, *more))
        node.get_logger().info(
            f'requests may name files below {one_of(folders)} (data_directories)'
        )
        return cls(tuple(folders))

    def resolve(self, path: Path, key: str, *, inside: bool = False) -> Path:
        """
        Return a path without links, of a file or folder that a request names under a key.

        With ``inside``, links in a folder are checked, too.

        Raises
        ------
        SettingsError
            where it is not below one of the folders; the message does not depend on the file.

        """
        resolved = _resolved(path, key)
        self._require(resolved, path, key)
        if inside:
            try:
                links = [entry for entry in resolved.iterdir() if entry.is_symlink()]
            except OSError:
                links = []  # no folder, or one whose reading fails with a reason of its own
            for link in links:
                self._require(_resolved(link, key), link, key)
        return resolved

    def _require(self, resolved: Path, path: Path, key: str) -> None:
        if any(resolved.is_relative_to(folder) for folder in self.folders):
            return
        raise SettingsError(
            f"'{key}': '{_shown(path)}' is not below {one_of(self.folders)}",
            key=key,
            remedy='name a file there, or start the node with another data_directories',
        )


def _resolved(path: Path, key: str) -> Path:
    try:
        return path.expanduser().resolve()
    except (OSError, RuntimeError, ValueError) as error:  # a circle of links, too long, NUL
        raise SettingsError(
            f"'{key}': '{_shown(path)}' is no path of a file", key=key, remedy='correct the path'
        ) from error


def _shown(path: Path) -> str:
    text = str(path)
    text = text if text.isprintable() else ascii(text)[1:-1]
    return text if len(text) <= 300 else f'{text[:80]}...'


SERVICES = QoSProfile(
    history=HistoryPolicy.KEEP_LAST,
    depth=1000,
    reliability=ReliabilityPolicy.RELIABLE,
    durability=DurabilityPolicy.VOLATILE,
)
"""For services: rclpy's default keeps the last 10 requests and drops others without an answer."""

MOST_WAITING = 8
"""Requests that may wait for one that is being worked on."""


class Turn:
    """Awaitable that gives the executor back until something wakes it."""

    def __await__(self) -> Generator[None, None, None]:
        """Return to the executor once."""
        yield


class RequestQueue:
    """
    Queue of requests that are worked on one after the other, in a thread beside the executor.

    While one is worked on, ``limit`` others may wait.  The node's executor is woken when one ends.
    """

    def __init__(self, node: Node, limit: int = MOST_WAITING) -> None:
        self._node, self._limit = node, limit
        self._names: deque[str] = deque()
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix='requests')
        self._unanswered = 0
        self._stopped = False

    def __len__(self) -> int:
        """Return the number of requests that are worked on or wait."""
        return len(self._names)

    async def work(self, name: str, function: Callable[[], Any]) -> Any:
        """
        Return the result of a function that runs when its turn comes; the node goes on meanwhile.

        The name is that of the request in the refusals of others.

        Raises
        ------
        IdentificationError
            where too many requests wait already, or the queue is stopped before the turn comes.

        """
        waiting = len(self._names) - 1
        if self._stopped:
            raise IdentificationError('the node is shutting down')
        if waiting >= self._limit:
            raise IdentificationError(
                f'busy with {self._names[0]}, {waiting} waiting',
                remedy='ask again when the answers of those have come',
            )
        self._names.append(name)
        self._unanswered += 1
        try:
            future = self._worker.submit(function)
            future.add_done_callback(self._end)
            while not future.done():
                await Turn()
            return future.result()
        except CancelledError:
            raise IdentificationError('the node is shutting down') from None
        finally:
            self._unanswered -= 1

    def _end(self, _: Any) -> None:
        self._names.popleft()
        executor = self._node.executor
        if executor is not None:
            executor.wake()

    async def stop(self, seconds: float) -> None:
        """Refuse the requests that wait and those that come; wait for the one worked on."""
        self._stopped = True
        self._worker.shutdown(wait=False, cancel_futures=True)
        end = time.monotonic() + seconds
        while self._unanswered and time.monotonic() < end:
            await Turn()


class RequestFailedError(IdentificationError):
    """A node answered that it could not do what was asked, or did not answer in time."""


class ServiceCaller:
    """
    Blocking calls to services and actions, by a node that is not spun elsewhere.

    ``check`` is called some ten times a second while waiting; it raises to give up.
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
            where there is no answer in time, or the response has ``success: false``.

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
        patience: float = 0.0,
        **fields: Any,
    ) -> Any:
        """
        Send a goal with some fields to an action and return its result.

        Parameters
        ----------
        seconds:
            Time for the result.
        feedback:
            Called with each feedback.
        patience:
            Time for a goal that is canceled, by Ctrl-C or because it is late, to end [s].

        Raises
        ------
        RequestFailedError
            where the goal is refused, not done in time (it is canceled then), or its
            ``error_code`` is not 0.

        """
        client = self._client(kind, name, partial(ActionClient, self.node))
        what = f"action '{name}'"
        sent = None
        try:
            self.wait_for(client.server_is_ready, 30.0, what)
            sent = client.send_goal_async(
                kind.Goal(**fields), feedback_callback=lambda message: feedback(message.feedback)
            )
            handle = self._result(sent, 30.0, what)
            if not handle.accepted:
                raise RequestFailedError(f'{what}: the goal is refused')
            result = self._result(handle.get_result_async(), seconds, what).result
            sent = None
        finally:
            if sent is not None:
                self._cancel(sent, patience)
        if result.error_code:
            raise RequestFailedError(f'{what} fails: {result.error_msg}', value=result.error_code)
        return result

    def _cancel(self, sent: Future, patience: float) -> None:
        """Cancel a goal, whose acceptance may be on its way, and wait for its end."""
        self._spin(sent.done, min(patience, 5.0))
        handle = sent.result() if sent.done() else None
        if handle is None or not handle.accepted:
            return
        handle.cancel_goal_async()
        self._spin(handle.get_result_async().done, patience)

    def _spin(self, condition: Callable[[], bool], seconds: float) -> None:
        """Spin until a condition holds, or for a time; at least once."""
        end = time.monotonic() + seconds
        while not condition():
            self._executor.spin_once(timeout_sec=0.1)
            if time.monotonic() > end:
                return

    def _client(self, kind: type, name: str, make: Callable[[type, str], Any]) -> Any:
        if (kind, name) not in self._clients:
            self._clients[kind, name] = make(kind, name)
        return self._clients[kind, name]

    def _result(self, future: Future, seconds: float, what: str) -> Any:
        self.wait_for(future.done, seconds, what)
        return future.result()
