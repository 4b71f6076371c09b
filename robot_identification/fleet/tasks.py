# SPDX-License-Identifier: Apache-2.0
"""
Tasks of workers: recordings to factors; merging and estimation of factors.

Robot, base parameters and settings come as bytes and are unpacked once in a process.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
import hashlib
from itertools import groupby
import json
from operator import itemgetter
from pathlib import Path
import pickle
import threading
import time
from typing import Any

import numpy as np

from ..config.experiment import Experiment, FleetSettings
from ..config.problem import IdentificationProblem
from ..config.sources import FactorSource, open_recording
from ..data.recording_config import RecordingEntry
from ..errors import collected_warnings, IdentificationError, RecordingError, SettingsError
from ..estimation.bootstrap import least_squares_covariance
from ..estimation.factor_file import merge_stored, pack, StoredFactor, SUFFIX, unpack
from ..estimation.least_squares import identifiability, solve
from ..identification.reduction import FactorBuilder, require_factors, settings_of
from ..model.parameters import ParameterLayout
from ..options.document import plain
from ..options.fields import to_mapping
from ..regressor.base_parameters import BaseStructure
from ..regressor.base_search import structure
from ..support.progress import no_progress, Progress
from ..untrusted.writing import encoded
from ..version import __version__
from .executor import Executor, Task
from .store import FleetRecording, key_of, serial_of, stamp_of, Store

_one_at_a_time = threading.Lock()
"""Lock for workers with threads: warnings and regressors are not thread-safe."""


@dataclass(frozen=True)
class ReductionPlan:
    """
    Settings of the reduction of each recording; ``entry`` is their layout, without a file.

    The base parameters are the same in all workers.
    """

    problem: IdentificationProblem
    structure: BaseStructure
    entry: RecordingEntry

    @classmethod
    def from_experiment(cls, experiment: Experiment) -> ReductionPlan:
        """
        Return the plan of an experiment file; its first recording shows how to read.

        Raises
        ------
        SettingsError
            for settings that need more than factors.

        """
        problem = IdentificationProblem.from_experiment(experiment)
        require_factors(problem)
        entries = experiment.data.identification
        entry = entries[0] if entries else RecordingEntry(format='rosbag2')
        # columns may be in files of their own in one recording, but which are another one's?
        if any(
            getattr(getattr(entry, n), 'file', None) for n in ('position', 'velocity', 'effort')
        ):
            raise SettingsError(
                "'data.identification[0]' names a file for each signal, a fleet's recordings are "
                'one file each',
                key='data.identification[0]',
                remedy='name the columns only',
            )
        base = structure(problem.regressor(), problem.robot, grouping=problem.model.grouping)
        return cls(problem, base, replace(entry, file=None))

    def fingerprint(self) -> str:
        """Return a hash of all that factors depend on beside their recordings."""
        robot = self.problem.robot
        settings = {
            'joints': robot.joints,
            'locked': dict(robot.locked),
            'gravity': robot.gravity,
            'passive': robot.passive,
            'rows': settings_of(self.problem).to_mapping(),
            'entry': to_mapping(self.entry),
        }
        text = json.dumps([__version__, robot.urdf, plain(settings)], sort_keys=True)
        return hashlib.sha256(encoded(text)).hexdigest()

    def payload(self) -> bytes:
        """Return the plan as bytes for workers."""
        return pickle.dumps(self, pickle.HIGHEST_PROTOCOL)


def reduce_recording(payload: bytes, path: str) -> tuple[FleetRecording, bytes] | str:
    """
    Make the factor of a recording at an absolute path, by the plan in ``payload``.

    Returns
    -------
    The store's entry and the packed factor; or the reason against the recording.

    Raises
    ------
    OSError, IdentificationError
        if a retry may help.

    """
    began = time.perf_counter()
    with _one_at_a_time:
        plan, reducer = unpacked(payload)
        # a factor has no columns to be read
        factor = path.endswith(SUFFIX)
        entry = RecordingEntry(file=path) if factor else replace(plan.entry, file=path)
        try:
            with collected_warnings() as notes:
                stored = _stored(plan, reducer, entry)
        except IdentificationError as error:
            if _may_pass(error):
                raise
            return str(error)
    origin = stored.origins[0]
    finished = FleetRecording(
        path=path,
        began=origin.start,
        duration=origin.duration,
        custom=entry.file_format().origin(Path(path))[1],
        samples=stored.factor.raw_rows,
        seconds=time.perf_counter() - began,
        warnings=tuple(dict.fromkeys(notes)),
    )
    return finished, pack(stored)


@dataclass(frozen=True)
class Group:
    """Packed factors of one task: its index, the factors in order, and an argument of the task."""

    number: int
    factors: tuple[bytes, ...]
    argument: Any = None


def merge_group(payload: bytes, group: Group) -> bytes:
    """Merge the factors of a group in their order."""
    with _one_at_a_time:
        return pack(merge_stored(unpack(data) for data in group.factors))


@dataclass(frozen=True)
class Question:
    """
    Definition of the comparison of single factors: the fleet's essential parameters.

    All others keep the fleet's values, and rows have the fleet's weights, so that short recordings
    contribute and their values can be compared.

    Of the b base parameters, ``essential`` (b,) bool are the e that are estimated, ``fixed`` (b,)
    the values of the others; ``weights`` (n,) are those of the joints' rows [1/(N m) or 1/N].
    """

    layout: ParameterLayout
    weights: np.ndarray
    essential: np.ndarray
    fixed: np.ndarray


def estimate_essentials(stored: StoredFactor, question: Question) -> np.ndarray:
    """Estimate from a factor: (2, e) values and standard deviations, NaN if unknown."""
    factor = stored.factor
    total, free = factor.stacked(question.weights), question.essential
    effort = total[:, -1] - total[:, :-1][:, ~free] @ question.fixed[~free]
    columns = np.flatnonzero(free)
    reduced = np.asarray(np.linalg.qr(np.column_stack([total[:, columns], effort]), mode='r'))
    answer = np.full((2, columns.size), np.nan)
    if factor.n_independent <= columns.size:
        return answer
    known = identifiability(reduced, factor.n_rows, question.layout.select(columns)).excited
    if known.any():
        solution = solve(reduced, known, question.fixed[columns], factor.n_independent)
        answer[0, known] = solution.base[known]
        answer[1, known] = np.sqrt(np.diag(solution.covariance))[known]
        if stored.blocks is not None:
            determined = np.zeros(free.size, dtype=bool)
            determined[columns[known]] = True
            base = question.fixed.copy()
            base[columns] = solution.base
            spread = least_squares_covariance(stored.blocks, question.weights, determined, base)
            answer[1, known] = np.maximum(answer[1, known], np.sqrt(np.diag(spread)))
    return answer


def estimate_group(payload: bytes, group: Group) -> np.ndarray:
    """Estimate from each factor of a group, whose argument is a `Question`; (k, 2, e)."""
    return np.array([estimate_essentials(unpack(data), group.argument) for data in group.factors])


@lru_cache(maxsize=1)
def unpacked(payload: bytes) -> tuple[ReductionPlan, FactorBuilder]:
    """Return the plan and its factor builder."""
    plan: ReductionPlan = pickle.loads(payload)
    return plan, FactorBuilder.from_problem(plan.problem, base=plan.structure)


def _stored(plan: ReductionPlan, reducer: FactorBuilder, entry: RecordingEntry) -> StoredFactor:
    """Reduce a recording, or check a factor that was made elsewhere."""
    problem = plan.problem
    source = open_recording(
        entry, problem.robot.joints, problem.drives, Path('/'), '', problem.model.elastic
    )
    if not isinstance(source, FactorSource):
        return reducer.reduce(source)
    reducer.system([source])
    return source.read()


def _may_pass(error: BaseException) -> bool:
    """Return true if the file system failed, and not the content."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and not isinstance(
            cause, (FileNotFoundError, IsADirectoryError)
        ):
            return True
        cause = cause.__cause__
    return False


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
    rejected:
        Reasons by path of unusable ones.
    kept, seconds:
        Number of those that were finished before, and time that the workers spent on the others,
        together [s].

    """

    recordings: tuple[FleetRecording, ...]
    rejected: Mapping[str, str] = field(default_factory=dict)
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
    progress: Progress = no_progress,
) -> Reduction:
    """
    Reduce recordings at absolute paths to factors, except those that the store has already.

    The settings have the rules for serial numbers and times.  Unusable recordings are rejected,
    or raise `RecordingError` at once without ``keep_going``.
    """
    found: list[FleetRecording] = []
    rejected: dict[str, str] = {}
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
        count = len(found) + len(rejected) + 1
        progress(count / len(paths), f'recording {count} of {len(paths)}')
        if isinstance(done.value, tuple):
            finished, factor = done.value
            seconds += finished.seconds
            found.append(store.keep(missing[done.item], finished, factor))
            continue
        why = done.failure or done.value
        if not keep_going:
            raise RecordingError(why, file=done.item)
        rejected[done.item] = why
        store.write_rejected(rejected)
    recordings = _placed(found, settings, rejected, keep_going)
    store.write_rejected(rejected)
    return Reduction(recordings, rejected, kept, seconds)


def merge_robots(
    executor: Executor, files: Mapping[str, Sequence[Path]], *, progress: Progress = no_progress
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
    progress: Progress = no_progress,
    text: str = '',
    argument: Any = None,
) -> Iterator[tuple[str, Any]]:
    """
    Run a task on each robot's packed factors, `GROUP` at a time.

    The task is called with the executor's payload and a `Group`, which has ``argument``.  Yields
    serial number and result of each group, in order.
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
    rejected: dict[str, str],
    keep_going: bool,
) -> tuple[FleetRecording, ...]:
    """Return recordings with serial number and time; reject those without."""
    placed = []
    for entry in found:
        try:
            serial = serial_of(entry.path, entry.custom, settings)
            stamp = stamp_of(entry.path, entry.began, settings)
        except RecordingError as error:
            if not keep_going:
                raise
            rejected[entry.path] = str(error)
            continue
        placed.append(replace(entry, serial=serial, stamp=stamp))
    return tuple(sorted(placed, key=lambda one: (one.serial, one.stamp, one.path)))
