# SPDX-License-Identifier: Apache-2.0
"""Workers of a Dask cluster that take calls, several at a time."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, ExitStack
import logging
import signal
import tempfile
import threading
import time
from typing import Any

from ..errors import IdentificationError
from ..version import __version__
from .crew import (
    Crew,
    KEPT_BYTES,
    LARGEST_BLOCK,
    Task,
)
from .lots import Lots, work_on

DASK = 'dask'

_CONNECT_SECONDS = 20.0

_COUNT_SECONDS = 1.0
"""How long the number of workers is taken to stay: to ask costs as much as a task."""

_LOST_SECONDS = 60.0

_LOOK_SECONDS = 0.2
"""Time that a lost worker is given to be replaced before all are asked again [s]."""


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
    workers:
        How many there should be, where the cluster is this program's own.

    """

    def __init__(
        self, client: Any, scheduler: str, payload: bytes, workers: int | None = None
    ) -> None:
        self._client, self._scheduler = client, scheduler
        _check_workers(client, scheduler)
        executor = client.get_executor(pure=False)
        # one result for all tasks: it goes to each worker once, and is made anew where it is lost
        kept = client.submit(bytes, payload, pure=False)
        self._lots = Lots(lambda task, items: executor.submit(work_on, kept, task, items))
        self._counted, self._workers = -_COUNT_SECONDS, 1
        self._seen = time.monotonic()
        self._asked = workers

    @property
    def workers(self) -> int:
        """Threads of all workers that are there now."""
        if time.monotonic() - self._counted >= _COUNT_SECONDS:
            self._workers = max(1, sum(self._client.nthreads().values()))
            self._counted = time.monotonic()
        return self._workers

    @property
    def ahead(self) -> int:
        """Items of a worker that should be under way."""
        return self._lots.ahead

    @property
    def name(self) -> str:
        """Name for messages."""
        where = 'this machine' if self._scheduler == DASK else self._scheduler
        return f'Dask on {where}, {self.workers} at a time'

    def submit(self, task: Task, item: Any, *, alone: bool = False) -> Future:
        """Take ``item``, to send it with others."""
        return self._lots.add(task, item, alone=alone)

    def dispatch(self) -> None:
        """Send what keeps the workers at work."""
        self._lots.dispatch(self.workers)

    def look_after(self) -> None:
        """
        Replace workers of this machine that Dask has given up.

        A worker that is killed as soon as it has begun again is not begun once more by Dask.

        Raises
        ------
        IdentificationError
            where an existing cluster has had no workers for `_LOST_SECONDS`.

        """
        if self._client.nthreads():
            self._seen = time.monotonic()
        if self._asked is not None:
            self._client.cluster.scale(self._asked)
        elif time.monotonic() - self._seen > _LOST_SECONDS:
            raise IdentificationError(
                f'the Dask scheduler at {self._scheduler} has lost all its workers',
                value=self._scheduler,
                remedy='start some with `dask worker ADDRESS`, and run the same command to go on '
                'with what is left',
            )

    def renew(self) -> None:
        """Do nothing: Dask starts lost workers anew, or does without them."""

    @contextmanager
    def single(self) -> Iterator[Crew]:
        """Give the crew itself: Dask tells culprits by sending them from worker to worker."""
        yield self


@contextmanager
def dask_client(scheduler: str, workers: int) -> Iterator[Any]:
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
        'MALLOC_TRIM_THRESHOLD_': KEPT_BYTES,
        'MALLOC_MMAP_THRESHOLD_': LARGEST_BLOCK,
    }
    settings = {
        'distributed.nanny.pre-spawn-environ': memory,
        # who killed a worker is found out in `carrying_out`
        'distributed.scheduler.allowed-failures': 0,
        'distributed.worker.profile.enabled': False,
        'distributed.admin.system-monitor.interval': '5s',
    }
    with (
        tempfile.TemporaryDirectory(prefix='robot_identification_') as folder,
        ExitStack() as stack,
    ):
        # each worker's supervisor keeps them, for who takes a lost worker's place, too
        with _deaf_children(), dask.config.set(settings):
            cluster = LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                processes=True,
                dashboard_address=':0',
                silence_logs=logging.CRITICAL,
                local_directory=folder,
            )
        stack.enter_context(cluster)
        yield stack.enter_context(Client(cluster, set_as_default=False, direct_to_workers=True))


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
    for worker, version in _versions(client, scheduler).items():
        if isinstance(version, BaseException):
            raise IdentificationError(
                f'the workers at {scheduler} cannot use robot_identification ({version})',
                value=scheduler,
                remedy=f'install robot_identification {__version__} on each of them',
            ) from version
        if version != __version__:
            raise IdentificationError(
                f'worker {worker} has robot_identification {version}, not {__version__}',
                value=version,
                remedy='install the same version everywhere',
            )


def _versions(client: Any, scheduler: str) -> dict[str, Any]:
    """
    Return the version that each worker has, or what it raised, by its address.

    Workers that are lost meanwhile are started again by those who supervise them.

    Raises
    ------
    IdentificationError
        where there are no workers, or some are lost again and again.

    """
    end = time.monotonic() + _CONNECT_SECONDS
    while True:
        try:
            client.wait_for_workers(1, timeout=max(end - time.monotonic(), 0.1))
        except TimeoutError as error:
            raise IdentificationError(
                f'the Dask scheduler at {scheduler} has no workers',
                value=scheduler,
                remedy='start some with `dask worker ADDRESS`',
            ) from error
        versions = client.run(_version, on_error='return')
        # a closed connection; what a worker itself raises at the import is no OSError
        lost = [worker for worker, answer in versions.items() if isinstance(answer, OSError)]
        if versions and not lost:
            return versions
        if time.monotonic() > end:
            raise IdentificationError(
                f'worker processes at {scheduler} were killed as they started, each time: '
                f'{", ".join(lost) or "all of them"}',
                value=scheduler,
                remedy='see what ends them, out of memory perhaps, and take fewer workers',
            )
        time.sleep(_LOOK_SECONDS)


def _version() -> str:
    return __version__
