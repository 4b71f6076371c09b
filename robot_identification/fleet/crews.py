# SPDX-License-Identifier: Apache-2.0
"""
Who does the work: processes of this machine, with or without Dask, or an existing Dask cluster.

A crew takes calls of functions and gives `concurrent.futures` for them.  What every call needs
(the robot, the base parameters) goes to each worker once, as bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager, ExitStack, suppress
import ctypes
import importlib.util
import logging
import multiprocessing
import os
import signal
import tempfile
import threading
from typing import Any, Protocol

from .. import __version__
from ..errors import IdentificationError, SettingsError

PROCESSES, DASK = 'processes', 'dask'

Task = Callable[[bytes, Any], Any]
"""Work for one item; its first argument is what the crew was given for all of them."""

_CONNECT_SECONDS = 20.0

_KEPT_BYTES, _LARGEST_BLOCK = 128 * 1024**2, 32 * 1024**2
"""
Memory that a worker process keeps for its next recording, and blocks that are taken from it.

Left alone, the C library gives arrays of a recording back to the system and gets them again for
the next, page by page: a third of a short recording's time.  Dask asks it to do so even sooner.
"""

_kept = b''
"""In a worker process: what its pool was given; set once, when the process starts."""


class Crew(Protocol):
    """
    Workers that take calls.

    Attributes
    ----------
    name:
        What it is, for the report.
    workers:
        How many calls are worked on at a time.

    """

    @property
    def name(self) -> str: ...  # noqa: D102

    @property
    def workers(self) -> int: ...  # noqa: D102

    def submit(self, task: Task, item: Any) -> Future:
        """Begin to work on ``item``."""
        ...

    def renew(self) -> None:
        """Go on after a worker was lost."""
        ...

    def single(self) -> Any:
        """Return a context that gives a crew of one worker, in which culprits can be told."""
        ...


@contextmanager
def open_crew(scheduler: str | None, workers: int | None, payload: bytes) -> Iterator[Crew]:
    """
    Engage workers.

    Parameters
    ----------
    scheduler:
        ``processes``; ``dask`` for processes under a Dask scheduler of this machine; the address
        of a Dask scheduler such as ``tcp://host:8786``; None for ``dask`` where that is installed
        and ``processes`` where it is not.
    workers:
        How many processes to start; None for one a core that this process may run on.  A cluster
        that was there before has its own number.
    payload:
        What every task is given.

    Raises
    ------
    SettingsError
        where there is no such scheduler, or Dask is asked for and not installed.
    IdentificationError
        where no scheduler answers at the address, or its workers cannot do the work.

    """
    scheduler = scheduler or (DASK if dask_is_installed() else PROCESSES)
    if scheduler == PROCESSES:
        crew = ProcessCrew(workers or available_cores(), payload)
        try:
            yield crew
        finally:
            crew.close()
        return
    if scheduler != DASK and '://' not in scheduler:
        raise SettingsError(
            f"'{scheduler}' is no scheduler",
            key='scheduler',
            value=scheduler,
            remedy='give processes, dask, or the address of a Dask scheduler such as '
            'tcp://host:8786',
        )
    if not dask_is_installed():
        raise SettingsError(
            f"scheduler '{scheduler}' needs Dask, which is not installed",
            key='scheduler',
            value=scheduler,
            remedy="install dask and distributed, or take the scheduler 'processes'",
        )
    with _dask_client(scheduler, workers) as client:
        yield DaskCrew(client, scheduler, payload)


def dask_is_installed() -> bool:
    """Tell whether Dask can be used."""
    try:
        return importlib.util.find_spec('distributed') is not None
    except (ImportError, ValueError):
        return False


def available_cores() -> int:
    """Return the number of cores that this process may run on."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


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
        """What it is."""
        return f'{PROCESSES}, {self.workers} at a time'

    def _started(self) -> Executor:
        return ProcessPoolExecutor(
            self.workers,
            mp_context=self._context,
            initializer=_start_worker,
            initargs=(self._payload,),
        )

    def submit(self, task: Task, item: Any) -> Future:
        """Begin to work on ``item``; raises `BrokenProcessPool` where a worker was lost."""
        return self._pool.submit(_call, task, item)

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


class DaskCrew:
    """
    Workers of a Dask cluster.

    Parameters
    ----------
    client:
        A `distributed.Client`.
    scheduler:
        As for `open_crew`.
    payload:
        What every task is given.

    """

    def __init__(self, client: Any, scheduler: str, payload: bytes) -> None:
        self._client, self._scheduler = client, scheduler
        _check_workers(client, scheduler)
        self._executor = client.get_executor(pure=False)
        # one result for all tasks: it goes to each worker once, and is made anew where it is lost
        self._payload = client.submit(bytes, payload, pure=False)

    @property
    def workers(self) -> int:
        """Threads of all workers that are there now."""
        return max(1, sum(self._client.nthreads().values()))

    @property
    def name(self) -> str:
        """What it is."""
        where = 'this machine' if self._scheduler == DASK else self._scheduler
        return f'Dask on {where}, {self.workers} at a time'

    def submit(self, task: Task, item: Any) -> Future:
        """Begin to work on ``item``."""
        return self._executor.submit(task, self._payload, item)

    def renew(self) -> None:
        """Do nothing: Dask starts lost workers anew, or does without them."""

    @contextmanager
    def single(self) -> Iterator[Crew]:
        """Give the crew itself: Dask tells culprits by sending them from worker to worker."""
        yield self


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
        set_option(trim_threshold, _KEPT_BYTES)
        set_option(mmap_threshold, _LARGEST_BLOCK)


def _end_with(parent: Any) -> None:
    """End this process when its parent has ended, be it killed."""
    parent.join()
    os._exit(1)


def _call(task: Task, item: Any) -> Any:
    return task(_kept, item)


@contextmanager
def _dask_client(scheduler: str, workers: int | None) -> Iterator[Any]:
    """Connect to a Dask scheduler, or start one with workers on this machine."""
    import dask
    from distributed import Client, LocalCluster

    if scheduler != DASK:
        try:
            client = Client(scheduler, timeout=_CONNECT_SECONDS, set_as_default=False)
        except (OSError, ValueError, TypeError) as error:
            raise IdentificationError(
                f'no Dask scheduler answers at {scheduler} ({error or type(error).__name__})',
                value=scheduler,
                remedy='start it with `dask scheduler`, and workers with `dask worker ADDRESS`',
            ) from error
        with client:
            yield client
        return
    memory = {
        **dask.config.get('distributed.nanny.pre-spawn-environ'),
        'MALLOC_TRIM_THRESHOLD_': _KEPT_BYTES,
        'MALLOC_MMAP_THRESHOLD_': _LARGEST_BLOCK,
    }
    with (
        tempfile.TemporaryDirectory(prefix='robot_identification_') as folder,
        ExitStack() as stack,
    ):
        # each worker's supervisor keeps them, for who takes a lost worker's place, too
        with _deaf_children(), dask.config.set({'distributed.nanny.pre-spawn-environ': memory}):
            cluster = LocalCluster(
                n_workers=workers or available_cores(),
                threads_per_worker=1,
                processes=True,
                dashboard_address=':0',
                silence_logs=logging.CRITICAL,
                local_directory=folder,
            )
        stack.enter_context(cluster)
        yield stack.enter_context(Client(cluster, set_as_default=False))


@contextmanager
def _deaf_children() -> Iterator[None]:
    """Let processes that are started meanwhile not hear Ctrl-C: it is for who ends them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _check_workers(client: Any, scheduler: str) -> None:
    """Raise where there are no workers, or workers that cannot do the work."""
    try:
        client.wait_for_workers(1, timeout=_CONNECT_SECONDS)
        versions = client.run(_version)
    except TimeoutError as error:
        raise IdentificationError(
            f'the Dask scheduler at {scheduler} has no workers',
            value=scheduler,
            remedy='start some with `dask worker ADDRESS`',
        ) from error
    except Exception as error:  # whatever a worker says that cannot import the package
        raise IdentificationError(
            f'the workers at {scheduler} cannot use robot_identification ({error})',
            value=scheduler,
            remedy=f'install robot_identification {__version__} on each of them',
        ) from error
    for worker, version in versions.items():
        if version != __version__:
            raise IdentificationError(
                f'worker {worker} has robot_identification {version}, not {__version__}',
                value=version,
                remedy='install the same version everywhere',
            )


def _version() -> str:
    return __version__
