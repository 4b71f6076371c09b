# SPDX-License-Identifier: Apache-2.0
"""Processes of this machine that take calls, without a scheduler."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager, suppress
import ctypes
import multiprocessing
import os
import signal
import threading
from typing import Any

from .crew import (
    Crew,
    KEPT_BYTES,
    LARGEST_BLOCK,
    Task,
)

PROCESSES = 'processes'

_kept = b''
"""In a worker process: what its pool was given; set once, when the process starts."""


class ProcessCrew:
    """
    Worker processes that live as long as the crew.

    Parameters
    ----------
    workers:
        How many.
    payload:
        What every task is given.

    """

    def __init__(self, workers: int, payload: bytes) -> None:
        self.workers, self._payload = workers, payload
        self.ahead = 2
        # forked from a server that has imported the package but started no thread
        methods = multiprocessing.get_all_start_methods()
        self._context = multiprocessing.get_context(
            'forkserver' if 'forkserver' in methods else 'spawn'
        )
        if 'forkserver' in methods:
            self._context.set_forkserver_preload([f'{__package__}.work'])
        self._pool = self._started()

    @property
    def name(self) -> str:
        """Name for messages."""
        return f'{PROCESSES}, {self.workers} at a time'

    def _started(self) -> Executor:
        return ProcessPoolExecutor(
            self.workers,
            mp_context=self._context,
            initializer=_start_worker,
            initargs=(self._payload,),
        )

    def submit(self, task: Task, item: Any, *, alone: bool = False) -> Future:
        """Begin to work on ``item``; raises `BrokenProcessPool` where a worker was lost."""
        return self._pool.submit(_call, task, item)

    def dispatch(self) -> None:
        """Do nothing: all was begun at once."""

    def look_after(self) -> None:
        """Do nothing: a pool tells by itself that a worker was lost."""

    def renew(self) -> None:
        """Start new processes."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._pool = self._started()

    @contextmanager
    def single(self) -> Iterator[Crew]:
        """Give a crew of one worker."""
        crew = ProcessCrew(1, self._payload)
        try:
            yield crew
        finally:
            crew.close()

    def close(self) -> None:
        """Let the processes end; what they are at is given up."""
        processes = list((getattr(self._pool, '_processes', None) or {}).values())
        self._pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            with suppress(OSError, ValueError):
                process.terminate()
        for process in processes:
            with suppress(OSError, ValueError, AssertionError):
                process.join(5.0)


def _start_worker(payload: bytes) -> None:
    """Prepare a process of the pool."""
    global _kept
    _kept = payload
    _keep_memory()
    # Ctrl-C is for the parent, which ends its workers
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _keep_memory() -> None:
    """Let this process keep memory that it freed, where its C library is glibc."""
    trim_threshold, mmap_threshold = -1, -3  # of malloc.h
    with suppress(OSError, AttributeError, TypeError):
        set_option = ctypes.CDLL(None).mallopt
        set_option(trim_threshold, KEPT_BYTES)
        set_option(mmap_threshold, LARGEST_BLOCK)


def _end_with(parent: Any) -> None:
    """End this process when its parent has ended, be it killed."""
    parent.join()
    os._exit(1)


def _call(task: Task, item: Any) -> Any:
    return task(_kept, item)
