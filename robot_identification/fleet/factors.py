# SPDX-License-Identifier: Apache-2.0
"""Reduction of many recordings to factors and their merging, by an executor and into a store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from ..config.fleet import FleetSettings
from ..errors import IdentificationError, RecordingError
from ..progress import Progress, silent
from ..results.factor_file import (
    merge_stored,
    StoredFactor,
    unpack,
)
from .executor import Executor, Task
from .recordings import (
    key_of,
    serial_of,
    stamp_of,
)
from .store import FleetRecording, Store
from .tasks import (
    Group,
    merge_group,
    reduce_recording,
    Refused,
)

GROUP = 16
"""Factors that are merged by one task."""


@dataclass(frozen=True)
class Reduction:
    """
    Outcome of the reduction of the recordings.

    Attributes
    ----------
    recordings:
        Usable ones, by serial number, time and path.
    set_aside:
        Reasons by path of unusable ones.
    kept:
        Number of those that were finished before.
    seconds:
        Time that the workers spent on the others, together [s].

    """

    recordings: tuple[FleetRecording, ...]
    set_aside: Mapping[str, str] = field(default_factory=dict)
    kept: int = 0
    seconds: float = 0.0


def reduce_all(
    executor: Executor,
    store: Store,
    paths: Sequence[str],
    fingerprint: str,
    settings: FleetSettings,
    *,
    keep_going: bool = True,
    progress: Progress = silent,
) -> Reduction:
    """
    Reduce recordings at absolute paths to factors, except those that the store has already.

    Parameters
    ----------
    executor, store:
        Executor of the tasks and storage of the factors.
    fingerprint:
        Fingerprint of the plan.
    settings:
        Rules for serial numbers and times.
    keep_going:
        True to set unusable recordings aside, false to raise `RecordingError` for the first.

    """
    found: list[FleetRecording] = []
    set_aside: dict[str, str] = {}
    missing: dict[str, str] = {}
    for path in paths:
        key = key_of(path, fingerprint)
        known = store.finished(key)
        if known is None:
            missing[path] = key
        else:
            found.append(known)
    kept, seconds = len(found), 0.0
    for done in executor.run(reduce_recording, missing):
        count = len(found) + len(set_aside) + 1
        progress(count / len(paths), f'recording {count} of {len(paths)}')
        if not done.failure and not isinstance(done.value, Refused):
            finished, factor = done.value
            seconds += finished.seconds
            found.append(store.keep(missing[done.item], finished, factor))
            continue
        why = done.failure or done.value.reason
        if not keep_going:
            raise RecordingError(why, file=done.item)
        set_aside[done.item] = why
        store.write_set_aside(set_aside)
    recordings = _placed(found, settings, set_aside, keep_going)
    store.write_set_aside(set_aside)
    return Reduction(recordings, set_aside, kept, seconds)


def merge_robots(
    executor: Executor,
    files: Mapping[str, Sequence[Path]],
    *,
    progress: Progress = silent,
) -> Iterator[tuple[str, StoredFactor]]:
    """
    Merge the packed factors of each robot in a tree that depends on their order alone.

    Groups of `GROUP` are merged by the executor, and the groups' factors here.  Robots come in the
    order of ``files``, with the same factor for any executor.

    Raises
    ------
    IdentificationError
        if factors cannot be merged.

    """
    merged = in_groups(executor, merge_group, files, progress=progress, text='merging factors')
    for serial, groups in groupby(merged, key=itemgetter(0)):
        yield serial, merge_stored(unpack(data) for _, data in groups)


def in_groups(
    executor: Executor,
    task: Task,
    files: Mapping[str, Sequence[Path]],
    *,
    progress: Progress = silent,
    text: str = '',
    argument: Any = None,
) -> Iterator[tuple[str, Any]]:
    """
    Run a task on each robot's packed factors, `GROUP` at a time.

    Parameters
    ----------
    task:
        Called with the executor's payload and a `Group`, which has ``argument``.
    files:
        Packed factors by serial number.
    text:
        Text for the progress.

    Yields
    ------
    Serial number and result of each group, in order.

    """
    places = [
        (serial, tuple(names[start : start + GROUP]))
        for serial, names in files.items()
        for start in range(0, len(names), GROUP)
    ]
    groups = (
        Group(number, tuple(name.read_bytes() for name in names), argument)
        for number, (_, names) in enumerate(places)
    )
    early: dict[int, Any] = {}
    next_one = 0
    for done in executor.run(task, groups):
        if done.failure:
            raise IdentificationError(
                f'factors of {places[done.item.number][0]} cannot be used: {done.failure}',
                remedy='run the same command again; what is finished is kept',
            )
        early[done.item.number] = done.value
        while next_one in early:
            yield places[next_one][0], early.pop(next_one)
            next_one += 1
            progress(next_one / len(places), text)


def _placed(
    found: Sequence[FleetRecording],
    settings: FleetSettings,
    set_aside: dict[str, str],
    keep_going: bool,
) -> tuple[FleetRecording, ...]:
    """Return recordings with serial number and time; set aside those without."""
    placed = []
    for entry in found:
        try:
            serial = serial_of(entry.path, entry.custom, settings)
            stamp = stamp_of(entry.path, entry.began, settings)
        except RecordingError as error:
            if not keep_going:
                raise
            set_aside[entry.path] = str(error)
            continue
        placed.append(replace(entry, serial=serial, stamp=stamp))
    return tuple(sorted(placed, key=lambda one: (one.serial, one.stamp, one.path)))
