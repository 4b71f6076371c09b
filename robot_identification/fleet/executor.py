# SPDX-License-Identifier: Apache-2.0
"""
Tasks for many items on Dask: worker processes of this machine, or those of a cluster.

Dask gives tasks to workers, tries them again, and starts killed workers anew.  Few items are under
way at a time, so that memory stays bounded however many there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, ExitStack, suppress
from dataclasses import dataclass
from itertools import islice
import logging
import signal
import tempfile
import threading
import time
from typing import Any

from ..errors import IdentificationError, SettingsError
from ..version import __version__

Task = Callable[[bytes, Any], Any]
"""Work for one item; its first argument is what the executor was given for all of them."""

LOCAL = ('dask', 'processes')
"""Names of the scheduler that is started on this machine."""

AHEAD = 2
"""Items of a worker that are under way: one that it works on, and one that is there already."""

_KILLED = 'the process that worked on it was killed, each time (out of memory?)'

_CONNECT_TIMEOUT = 20.0

_POLL_TIMEOUT = 3.0
"""Time after which the workers are looked after [s]."""

_LOST_TIMEOUT = 60.0
"""Time without any worker after which a cluster is given up [s]."""

_ENVIRONMENT = {
    'MALLOC_TRIM_THRESHOLD_': 128 * 1024**2,
    'MALLOC_MMAP_THRESHOLD_': 32 * 1024**2,
}
"""
Memory that a worker process keeps for its next recording, and blocks that are taken from it.

Dask asks the C library to give arrays of a recording back to the system at once, and gets them
again for the next, page by page: a third of a short recording's time.
"""


@dataclass(frozen=True)
class Done:
    """
    Outcome of one item.

    Attributes
    ----------
    item:
        The item.
    value:
        What the task returned; None where it failed.
    failure:
        Why it failed, in one line; empty where it did not.
    killed:
        Whether processes that had it were killed.

    """

    item: Any
    value: Any = None
    failure: str = ''
    killed: bool = False


class SequentialExecutor:
    """
    The process itself as the only worker, where Dask is not installed.

    Parameters
    ----------
    payload, retries:
        As for `open_executor`.

    """

    name = 'this process alone, without Dask'
    workers = 1

    def __init__(self, payload: bytes, retries: int) -> None:
        self._payload, self._retries = payload, retries

    def run(self, task: Task, items: Iterable[Any]) -> Iterator[Done]:
        """Do a task for every item, one after another; see `DaskExecutor.run`."""
        for item in items:
            for left in range(self._retries, -1, -1):
                try:
                    done = Done(item, task(self._payload, item))
                    break
                except Exception as error:  # whatever it is, the other recordings can go on
                    done = Done(item, failure=_reason(error))
                    if not left:
                        break
            yield done


class DaskExecutor:
    """
    Workers of a Dask cluster.

    Parameters
    ----------
    client:
        A `distributed.Client`.
    payload, retries:
        As for `open_executor`.
    started:
        How many workers were started for this executor; None where they were there before.

    """

    def __init__(
        self, client: Any, payload: bytes, retries: int, started: int | None = None
    ) -> None:
        self._client, self._retries, self._started = client, retries, started
        # a task's result goes to each worker once, and is made anew where it is lost
        self._payload = client.submit(bytes, payload, pure=False)
        self._seen = time.monotonic()
        self.workers = started or max(1, sum(client.nthreads().values()))

    @property
    def name(self) -> str:
        """Name for messages."""
        where = 'this machine' if self._started else self._client.scheduler.address
        return f'Dask on {where}, {self.workers} at a time'

    def run(self, task: Task, items: Iterable[Any]) -> Iterator[Done]:
        """
        Do a task for every item.

        Parameters
        ----------
        task:
            A function of a module, called with the payload and an item.  What it raises counts as
            transient, so what is wrong for good has to be returned.
        items:
            Taken one by one as workers get free.

        Yields
        ------
        Each item once, in the order in which they are done.

        Raises
        ------
        IdentificationError
            where the scheduler or all workers are lost.

        """
        suspects = []
        for done in self._completed(task, items):
            if done.killed:
                suspects.append(done.item)
            else:
                yield done
        # Dask blames all items that a worker had; one that kills it alone is the culprit
        for suspect in suspects:
            yield from self._completed(task, [suspect])

    def _completed(self, task: Task, items: Iterable[Any]) -> Iterator[Done]:
        """Do a task for every item; those that were with a killed worker are not tried alone."""
        from distributed import as_completed

        waiting = iter(items)
        under_way: dict[Any, Any] = {}

        def submit_more() -> Iterable[Any]:
            """Give the workers enough to do; return the new futures."""
            free = max(0, AHEAD * self.workers - len(under_way))
            new = {
                self._client.submit(
                    task, self._payload, item, retries=self._retries, pure=False
                ): item
                for item in islice(waiting, free)
            }
            under_way.update(new)
            return new

        try:
            submit_more()
            while under_way:
                completed = as_completed(
                    list(under_way),
                    loop=self._client.loop,
                    with_results=True,
                    raise_errors=False,
                    timeout=_POLL_TIMEOUT,
                )
                with suppress(TimeoutError):
                    for future, result in completed:
                        item = under_way.pop(future)
                        completed.update(submit_more())
                        yield _outcome(item, future.status, result)
                self._look_after()
        finally:
            self._client.cancel(list(under_way))

    def _look_after(self) -> None:
        """Count the workers, and start those anew that Dask has given up: killed as they began."""
        count = sum(self._client.nthreads().values())
        if count:
            self._seen = time.monotonic()
        if self._started:
            self._client.cluster.scale(self._started)
        else:
            self.workers = max(1, count)
        if time.monotonic() - self._seen > _LOST_TIMEOUT:
            raise IdentificationError(
                f'{self.name}: all workers are lost',
                remedy='see what ends them, out of memory perhaps, and run the same command to go '
                'on with what is left',
            )


def _outcome(item: Any, status: str, result: Any) -> Done:
    """Return what came of an item whose future has a status and a result."""
    from distributed.scheduler import KilledWorker

    if status == 'finished':
        return Done(item, result)
    if status != 'error':
        raise IdentificationError(
            'the Dask scheduler was lost',
            remedy='start it again, and run the same command to go on with what is left',
        )
    _, error, _ = result
    if isinstance(error, KilledWorker):
        return Done(item, failure=_KILLED, killed=True)
    return Done(item, failure=_reason(error))


def _reason(error: BaseException) -> str:
    text = ' '.join(str(error).split())
    return f'{type(error).__name__}: {text}' if text else type(error).__name__


Executor = DaskExecutor | SequentialExecutor


@contextmanager
def open_executor(
    scheduler: str | None, workers: int | None, payload: bytes, retries: int = 2
) -> Iterator[Executor]:
    """
    Engage workers.

    Parameters
    ----------
    scheduler:
        ``dask`` or ``processes`` for processes of this machine; the address of a Dask scheduler
        such as ``tcp://host:8786``; None for ``dask`` where that is installed, and this process
        alone where it is not.
    workers:
        How many processes to start; None for one a core that this process may run on.  A cluster
        that was there before has its own number.
    payload:
        First argument of every task.
    retries:
        How often a task that raised is tried again, and how many workers of this machine it may
        lose before it is tried alone.

    Raises
    ------
    SettingsError
        where there is no such scheduler, or Dask is needed and not installed.
    IdentificationError
        where no scheduler answers at the address, or its workers cannot do the work.

    """
    if scheduler is not None and scheduler not in LOCAL and '://' not in scheduler:
        raise SettingsError(
            f"'{scheduler}' is no scheduler",
            key='scheduler',
            value=scheduler,
            remedy='give dask, or the address of a Dask scheduler such as tcp://host:8786',
        )
    try:
        import distributed  # noqa: F401
    except ImportError as error:
        if scheduler is None and workers in (None, 1):
            yield SequentialExecutor(payload, retries)
            return
        raise SettingsError(
            'several workers need Dask, which is not installed',
            key='scheduler',
            value=scheduler,
            remedy='install dask and distributed, or give neither scheduler nor workers',
        ) from error
    with ExitStack() as stack:
        if scheduler is None or scheduler in LOCAL:
            client = stack.enter_context(local_client(workers, retries))
            yield DaskExecutor(client, payload, retries, len(client.cluster.workers))
        else:
            client = stack.enter_context(_connected(scheduler))
            _check_workers(client, scheduler)
            yield DaskExecutor(client, payload, retries)


@contextmanager
def local_client(workers: int | None, retries: int) -> Iterator[Any]:
    """Start a scheduler and workers on this machine."""
    import dask
    from distributed import Client, LocalCluster

    environment = dask.config.get('distributed.nanny.pre-spawn-environ')
    settings = {
        'distributed.nanny.pre-spawn-environ': {**environment, **_ENVIRONMENT},
        'distributed.scheduler.allowed-failures': retries,
        'distributed.worker.profile.enabled': False,
        'distributed.admin.system-monitor.interval': '5s',
    }
    with (
        tempfile.TemporaryDirectory(prefix='robot_identification_') as folder,
        dask.config.set(settings),
    ):
        # each worker's supervisor keeps ignoring Ctrl-C, for who takes a lost worker's place, too
        with _ctrl_c_ignored():
            cluster = LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                processes=True,
                dashboard_address=':0',
                silence_logs=logging.CRITICAL,
                local_directory=folder,
            )
        with cluster, Client(cluster, set_as_default=False, direct_to_workers=True) as client:
            yield client


@contextmanager
def _ctrl_c_ignored() -> Iterator[None]:
    """Let processes that are started meanwhile ignore Ctrl-C: it is for who ends them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _connected(scheduler: str) -> Any:
    """Return a client of the scheduler at an address."""
    from distributed import Client

    try:
        return Client(scheduler, timeout=_CONNECT_TIMEOUT, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        raise IdentificationError(
            f'no Dask scheduler answers at {scheduler} ({error or type(error).__name__})',
            value=scheduler,
            remedy='start it with `dask scheduler`, and workers with `dask worker ADDRESS`',
        ) from error


def _check_workers(client: Any, scheduler: str) -> None:
    """Raise where a cluster has no workers, or workers that cannot do the work."""
    try:
        client.wait_for_workers(1, timeout=_CONNECT_TIMEOUT)
    except TimeoutError as error:
        raise IdentificationError(
            f'the Dask scheduler at {scheduler} has no workers',
            value=scheduler,
            remedy='start some with `dask worker ADDRESS`',
        ) from error
    for worker, found in client.run(_version, on_error='return').items():
        # one that was lost meanwhile is left to Dask
        if found != __version__ and not isinstance(found, OSError):
            raise IdentificationError(
                f'worker {worker} cannot use robot_identification {__version__} ({found})',
                value=scheduler,
                remedy='install the same version everywhere',
            )


def _version() -> str:
    return __version__
