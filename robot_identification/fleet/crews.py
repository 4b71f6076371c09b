# SPDX-License-Identifier: Apache-2.0
"""
Choice of workers: processes of this machine, with or without Dask, or a Dask cluster.

A crew takes calls of functions and gives `concurrent.futures` for them.  What every call needs
(the robot, the base parameters) goes to each worker once, as bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
import importlib.util
import os

from ..errors import SettingsError
from .crew import Crew
from .dask_crew import (
    DASK,
    dask_client,
    DaskCrew,
)
from .process_crew import ProcessCrew, PROCESSES


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
    count = workers or available_cores()
    with dask_client(scheduler, count) as client:
        yield DaskCrew(client, scheduler, payload, count if scheduler == DASK else None)


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
