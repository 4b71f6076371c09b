# SPDX-License-Identifier: Apache-2.0
"""
Tasks for many items on Dask: worker processes of this machine, or those of a cluster.

Dask schedules tasks, retries them, and restarts killed workers.  Few items are submitted at a
time, so that memory stays bounded.
"""

from __future__ import annotations

import asyncio
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

from ..errors import IdentificationError, missing, SettingsError
from ..version import __version__

Task = Callable[[bytes, Any], Any]
"""Work for one item; its first argument is what the executor was given for all of them."""

LOCAL = ('dask', 'processes')
"""Names of the scheduler that is started on this machine."""

AHEAD = 2
"""Items of a worker that are under way: one that it works on, and one that is there already."""

_KILLED = 'the process that worked on it was killed, each time (out of memory?)'

_CONNECT_TIMEOUT = 20.0  # s, for a scheduler to answer and a worker to appear

_POLL_TIMEOUT = 3.0
"""Time after which the workers are looked after [s]."""

_LOST_TIMEOUT = 60.0
"""Time without any worker after which a cluster is given up [s]."""

_RESTART_TIMEOUT = 45.0
"""
Time in which a killed worker of this machine has to be back before another takes its place [s].

On a busy machine, Dask's own 15 s close workers that are just beginning.
"""

_ENVIRONMENT = {'MALLOC_TRIM_THRESHOLD_': 128 * 1024**2, 'MALLOC_MMAP_THRESHOLD_': 32 * 1024**2}
"""Memory kept from one recording to the next: a third of the time of a short one otherwise."""


@dataclass(frozen=True)
class Done:
    """Outcome of one item: what the task returned, or the reason of a failure in one line."""

    item: Any
    value: Any = None
    failure: str = ''


class SequentialExecutor:
    """Executor in this process, for machines without Dask."""

    name = 'this process alone, without Dask'
    workers = 1

    def __init__(self, payload: bytes, retries: int) -> None:
        self._payload, self._retries = payload, retries

    def run(self, task: Task, items: Iterable[Any]) -> Iterator[Done]:
        """Run a task for every item in order; see `DaskExecutor.run`."""
        for item in items:
            for _ in range(1 + self._retries):
                try:
                    done = Done(item, task(self._payload, item))
                    break
                except Exception as error:  # whatever it is, the other recordings can go on
                    done = Done(item, failure=_reason(error))
            yield done


class DaskExecutor:
    """
    Executor on the workers of a Dask cluster.

    Parameters
    ----------
    client:
        A `distributed.Client`.
    payload, retries:
        As for `open_executor`.
    started:
        Number of workers that were started for this executor; None for a cluster's own.

    """

    def __init__(
        self, client: Any, payload: bytes, retries: int, started: int | None = None
    ) -> None:
        self._client, self._retries, self._started = client, retries, started
        self._content = payload
        self._hand_out()
        self._seen = time.monotonic()
        self.workers = started or max(1, sum(client.nthreads().values()))

    @property
    def name(self) -> str:
        """Name for messages."""
        where = 'this machine' if self._started else self._client.scheduler.address
        return f'Dask on {where}, {self.workers} at a time'

    def run(self, task: Task, items: Iterable[Any]) -> Iterator[Done]:
        """
        Run a task for every item.

        Parameters
        ----------
        task:
            A function of a module, called with payload and item.  What it raises is retried;
            permanent failures have to be returned.
        items:
            Taken one by one as workers get free.

        Yields
        ------
        Each item once, in the order of completion.

        Raises
        ------
        IdentificationError
            if the scheduler or all workers are lost.

        """
        suspects: list[Any] = []
        yield from self._sifted(task, items, suspects)
        if suspects and self._payload.status == 'error':
            # workers died while they fetched the payload: no item has been tried since
            self._hand_out()
            again, suspects = suspects, []
            yield from self._sifted(task, again, suspects)
        # Dask blames all items that a worker had; one that kills it alone is the culprit
        for suspect in suspects:
            if self._payload.status == 'error':
                self._hand_out()
            yield from self._completed(task, [suspect])

    def _hand_out(self) -> None:
        """Submit the payload: it goes to each worker once, and is made again where it is lost."""
        self._payload = self._client.submit(bytes, self._content, pure=False)

    def _sifted(self, task: Task, items: Iterable[Any], suspects: list[Any]) -> Iterator[Done]:
        """Run a task for every item; keep those that killed their workers in ``suspects``."""
        for done in self._completed(task, items):
            if done.failure == _KILLED:
                suspects.append(done.item)
            else:
                yield done

    def _completed(self, task: Task, items: Iterable[Any]) -> Iterator[Done]:
        """Run a task for every item, without trying suspects alone."""
        from distributed import as_completed

        waiting = iter(items)
        under_way: dict[Any, Any] = {}

        def submit_more() -> Iterable[Any]:
            """Submit items for free workers; return the new futures."""
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
                with suppress(asyncio.TimeoutError):  # before Python 3.11 no TimeoutError
                    for future, result in completed:
                        item = under_way.pop(future)
                        completed.update(submit_more())
                        done = _outcome(item, future.status, result)
                        future.release()  # a worker that is lost later takes nothing with it
                        yield done
                self._look_after()
        finally:
            self._client.cancel(list(under_way))

    def _look_after(self) -> None:
        """Count the workers, and restart those that were killed as they began."""
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
    """Return the outcome of an item by the status and result of its future."""
    from distributed.scheduler import KilledWorker

    if status == 'finished':
        return Done(item, result)
    if status != 'error':
        raise IdentificationError(
            'the Dask scheduler was lost',
            remedy='start it again, and run the same command to go on with what is left',
        )
    _, error, _ = result
    return Done(item, failure=_KILLED if isinstance(error, KilledWorker) else _reason(error))


def _reason(error: BaseException) -> str:
    text = ' '.join(str(error).split())
    return f'{type(error).__name__}: {text}' if text else type(error).__name__


Executor = DaskExecutor | SequentialExecutor


@contextmanager
def open_executor(
    scheduler: str | None, workers: int | None, payload: bytes, retries: int = 2
) -> Iterator[Executor]:
    """
    Start or connect to workers.

    Parameters
    ----------
    scheduler:
        ``dask`` or ``processes`` for processes of this machine; the address of a Dask scheduler,
        as ``tcp://host:8786``; None for ``dask`` if it is installed, else for this process.
    workers:
        Number of processes to start; None for one a usable core.  A cluster has its own number.
    payload:
        First argument of every task.
    retries:
        How often a task that raised is retried, and how many workers of this machine it may lose
        before it is tried alone.

    Raises
    ------
    SettingsError
        for an unknown scheduler.
    IdentificationError
        if Dask is needed and not installed, no scheduler answers at the address, or its workers
        cannot do the work.

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
        raise missing('dask') from error
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
    """
    Start a scheduler and workers on this machine, which talk to no one else.

    All of them listen on the loopback interface, where any user of the machine may connect, and
    who can talk to them can run code.  So they do with certificates of this cluster alone.  All
    files are in a folder that other users cannot enter: Dask writes locks of fixed names into its
    folder, through links, so in a shared one others could choose which files it empties.
    """
    import dask
    from distributed import Client, LocalCluster

    environment = dask.config.get('distributed.nanny.pre-spawn-environ')
    settings = {
        'distributed.nanny.pre-spawn-environ': {**environment, **_ENVIRONMENT},
        'distributed.scheduler.allowed-failures': retries,
        'distributed.deploy.lost-worker-timeout': f'{_RESTART_TIMEOUT:g} s',
        'distributed.worker.profile.enabled': False,
        'distributed.admin.system-monitor.interval': '5s',
        # without pages, their server answers nothing
        'distributed.scheduler.http.routes': [],
        'distributed.worker.http.routes': [],
    }
    with (
        tempfile.TemporaryDirectory(prefix='robot_identification_') as folder,
        # of scheduler and workers, while local_directory would be of the workers alone
        dask.config.set({**settings, 'temporary-directory': folder}),
    ):
        # each worker's supervisor keeps ignoring Ctrl-C, for who takes a lost worker's place, too
        with _ctrl_c_ignored():
            cluster = LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                processes=True,
                security=_temporary_security(),
                dashboard_address='127.0.0.1:0',
                scheduler_kwargs={'dashboard': False},
                silence_logs=logging.CRITICAL,
            )
        with cluster, Client(cluster, set_as_default=False, direct_to_workers=True) as client:
            yield client


def _temporary_security() -> Any:
    """Return credentials that only this process and those it starts have."""
    from distributed.security import Security

    try:
        return Security.temporary()
    except ImportError as error:
        raise missing('cryptography') from error


@contextmanager
def _ctrl_c_ignored() -> Iterator[None]:
    """Start processes meanwhile that ignore Ctrl-C, which is for the command."""
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
    """Raise for a cluster without workers, or with workers that cannot do the work."""
    try:
        client.wait_for_workers(1, timeout=_CONNECT_TIMEOUT)
    except (TimeoutError, asyncio.TimeoutError) as error:
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
