# SPDX-License-Identifier: Apache-2.0
"""Requests to services: their history in the middleware, and a bounded queue for long ones."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
import threading

from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy

from ...errors import IdentificationError

SERVICES = QoSProfile(
    history=HistoryPolicy.KEEP_LAST,
    depth=1000,
    reliability=ReliabilityPolicy.RELIABLE,
    durability=DurabilityPolicy.VOLATILE,
)
"""
Of every service: requests that arrive while the node is at work, and answers on their way.

rclpy's default keeps the last 10 of each and drops the others without an answer.
"""

MOST_WAITING = 8
"""Requests that may wait for one that is being worked on."""


class RequestQueue:
    """
    Queue in which requests wait for their turn, each in a thread of its own.

    Parameters
    ----------
    limit:
        Number of requests that may wait; further ones are refused at once.

    """

    def __init__(self, limit: int = MOST_WAITING) -> None:
        self._limit = limit
        self._changed = threading.Condition()
        self._names: deque[tuple[str, object]] = deque()
        self._stopped = False

    def __len__(self) -> int:
        """Return the number of requests that are worked on or wait."""
        return len(self._names)

    @property
    def threads(self) -> int:
        """Threads that are occupied at most: one works, the others wait, one refuses."""
        return self._limit + 2

    @contextmanager
    def turn(self, name: str) -> Iterator[None]:
        """
        Wait for the turn of a request called ``name``, which ends with the block.

        Raises
        ------
        IdentificationError
            where too many requests wait already, or the queue is stopped meanwhile.

        """
        entry = name, object()
        with self._changed:
            self._require_room()
            self._names.append(entry)
            while self._names[0] is not entry:
                self._changed.wait()
                if self._stopped and self._names[0] is not entry:
                    self._names.remove(entry)
                    raise IdentificationError('the node is shutting down')
        try:
            yield
        finally:
            with self._changed:
                self._names.popleft()
                self._changed.notify_all()

    def stop(self) -> None:
        """Refuse the requests that wait and those that come."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def _require_room(self) -> None:
        if self._stopped:
            raise IdentificationError('the node is shutting down')
        waiting = len(self._names) - 1
        if waiting >= self._limit:
            raise IdentificationError(
                f'busy with {self._names[0][0]}, {waiting} waiting',
                remedy='ask again when the answers of those have come',
            )
