# SPDX-License-Identifier: Apache-2.0
"""
Several items in one call, where a scheduler's own work for a call would count.

A lot is as large as it can be worked on in about `LOT_SECONDS`, by the time of those before it, so
that long items go one by one and short ones together.  Towards the end lots get smaller, so that
all workers end at about the same time (guided self-scheduling, Polychronopoulos and Kuck 1987).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
import math
import threading
import time
from typing import Any

from .crew import Task

LOT_SECONDS = 0.2
LARGEST_LOT = 16

SENT = 2
"""Lots of a worker that are sent: one that it works on, and one that is there already."""

_WEIGHT = 0.3
"""Of the latest lot in the mean time of an item."""


class LotLostError(Exception):
    """Something happened to a lot of several items; each of them should be tried alone."""


class Lots:
    """
    Collects items into lots and gives each item a future of its own.

    Parameters
    ----------
    send:
        Begins a call of `work_on` with a task and items, and returns its future.

    """

    def __init__(self, send: Callable[[Task, Sequence[Any]], Future]) -> None:
        self._send = send
        self._waiting: deque[tuple[Task, Any, bool, Future]] = deque()
        self._lock = threading.Lock()
        self._sent = 0
        self._seconds = LOT_SECONDS

    @property
    def size(self) -> int:
        """Present number of items in a lot."""
        return int(min(max(LOT_SECONDS / self._seconds, 1.0), LARGEST_LOT))

    def add(self, task: Task, item: Any, *, alone: bool) -> Future:
        """Take an item, to be sent by `dispatch`; ``alone`` in a lot of its own."""
        future: Future = Future()
        self._waiting.append((task, item, alone, future))
        return future

    @property
    def ahead(self) -> int:
        """Number of items of a worker under way that lots of `size` require."""
        return 2 * SENT * self.size

    def dispatch(self, workers: int) -> None:
        """Send as many lots as keep the workers at work, in equal shares of what there is."""
        while self._waiting and self._sent < SENT * workers:
            task, _, alone, _ = self._waiting[0]
            share = math.ceil(len(self._waiting) / (SENT * workers))
            size = 1 if alone else min(self.size, share)
            lot: list[tuple[Task, Any, bool, Future]] = []
            while self._waiting and len(lot) < size and self._waiting[0][0] is task:
                if lot and self._waiting[0][2]:
                    break
                lot.append(self._waiting.popleft())
            self._start(task, [item for _, item, _, _ in lot], [future for *_, future in lot])

    def _start(self, task: Task, items: list[Any], futures: list[Future]) -> None:
        with self._lock:
            self._sent += 1
        call = self._send(task, items)
        for future in futures:
            future.add_done_callback(lambda done: call.cancel() if done.cancelled() else None)
        call.add_done_callback(lambda done: self._finished(done, futures))

    def _finished(self, call: Future, futures: list[Future]) -> None:
        """Hand on what came of a lot; called from a thread of the scheduler's client."""
        with self._lock:
            self._sent -= 1
        if call.cancelled():
            for future in futures:
                future.cancel()
            return
        error = call.exception()
        if error is not None:
            lost = error if len(futures) == 1 else LotLostError(str(error))
            outcomes: list[tuple[Any, BaseException | None]] = [(None, lost)] * len(futures)
        else:
            outcomes, seconds = call.result()
            self._seconds += _WEIGHT * (seconds / len(futures) - self._seconds)
        for future, (value, failure) in zip(futures, outcomes, strict=True):
            # one that was canceled meanwhile is nobody's any more
            if not future.set_running_or_notify_cancel():
                continue
            if failure is None:
                future.set_result(value)
            else:
                future.set_exception(failure)


def work_on(
    payload: bytes, task: Task, items: Sequence[Any]
) -> tuple[list[tuple[Any, BaseException | None]], float]:
    """
    Do a task for each item of a lot, in a worker.

    Returns
    -------
    outcomes
        For each item what the task returned and None, or None and what it raised.
    seconds
        Time that it took [s].

    """
    began = time.perf_counter()
    outcomes: list[tuple[Any, BaseException | None]] = []
    for item in items:
        try:
            outcomes.append((task(payload, item), None))
        except Exception as error:  # the others of the lot can go on
            outcomes.append((None, error))
    return outcomes, time.perf_counter() - began
