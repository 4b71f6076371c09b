# SPDX-License-Identifier: Apache-2.0
"""
Tasks of workers: recordings to factors; merging and estimation of factors.

Robot, base parameters and settings come as bytes and are unpacked once in a process.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
import hashlib
import json
from pathlib import Path
import pickle
import threading
import time
from typing import Any

import numpy as np

from ..base_parameters import BaseStructure, structure
from ..config.experiment import Experiment
from ..config.problem import IdentificationProblem
from ..config.sources import ElasticSource, FactorSource, FileSource, open_recording
from ..data.bag import bag_info
from ..data.recording_config import RecordingEntry
from ..errors import collected_warnings, IdentificationError, SettingsError
from ..estimation.identifiability import identifiability
from ..estimation.least_squares import solve
from ..estimation.uncertainty import least_squares_covariance
from ..model.parameters import ParameterLayout
from ..options.keys import to_mapping
from ..reduction import FactorBuilder, require_factors, settings_of
from ..results.factor_file import merge_stored, pack, StoredFactor, SUFFIX, unpack
from ..results.result_yaml import plain
from ..version import __version__
from .store import FleetRecording

_one_at_a_time = threading.Lock()
"""Lock for workers with threads: warnings and regressors are not thread-safe."""


@dataclass(frozen=True)
class ReductionPlan:
    """
    Settings of the reduction of each recording.

    Attributes
    ----------
    problem:
        The robot and the settings.
    structure:
        The base parameters, the same in all workers.
    entry:
        Layout of the recordings, without a file.

    """

    problem: IdentificationProblem
    structure: BaseStructure
    entry: RecordingEntry

    @classmethod
    def of(cls, experiment: Experiment) -> ReductionPlan:
        """
        Return the plan of an experiment file; its first recording shows how to read.

        Raises
        ------
        SettingsError
            for settings that need more than factors.

        """
        problem = IdentificationProblem.of(experiment)
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
        return hashlib.sha256(text.encode()).hexdigest()

    def payload(self) -> bytes:
        """Return the plan as bytes for workers."""
        return pickle.dumps(self, pickle.HIGHEST_PROTOCOL)


@dataclass(frozen=True)
class Refused:
    """Reason against a recording."""

    reason: str


def reduce_recording(payload: bytes, path: str) -> tuple[FleetRecording, bytes] | Refused:
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
        try:
            with collected_warnings() as notes:
                stored = _stored(reducer, _source(plan, path))
        except IdentificationError as error:
            if _may_pass(error):
                raise
            return Refused(str(error))
    origin = stored.origins[0]
    finished = FleetRecording(
        path=path,
        began=origin.start,
        duration=origin.duration,
        custom=_custom(plan, path),
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

    Attributes
    ----------
    layout:
        The b base parameters.
    weights:
        (n,) of the joints' rows [1/(N m) or 1/N].
    essential:
        (b,) bool, the e parameters that are estimated.
    fixed:
        (b,) values of the others.

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
            told = np.zeros(free.size, dtype=bool)
            told[columns[known]] = True
            base = question.fixed.copy()
            base[columns] = solution.base
            spread = least_squares_covariance(stored.blocks, question.weights, told, base)
            answer[1, known] = np.maximum(answer[1, known], np.sqrt(np.diag(spread)))
    return answer


def estimate_group(payload: bytes, group: Group) -> np.ndarray:
    """Estimate from each factor of a group, whose argument is a `Question`; (k, 2, e)."""
    return np.array([estimate_essentials(unpack(data), group.argument) for data in group.factors])


@lru_cache(maxsize=1)
def unpacked(payload: bytes) -> tuple[ReductionPlan, FactorBuilder]:
    """Return the plan and its factor builder."""
    plan: ReductionPlan = pickle.loads(payload)
    return plan, FactorBuilder.of(plan.problem, base=plan.structure)


def _source(plan: ReductionPlan, path: str) -> FileSource | ElasticSource | FactorSource:
    problem = plan.problem
    return open_recording(
        _entry(plan, path),
        problem.robot.joints,
        problem.drives,
        Path('/'),
        '',
        problem.model.elastic,
    )


def _stored(
    reducer: FactorBuilder, source: FileSource | ElasticSource | FactorSource
) -> StoredFactor:
    """Reduce a recording, or check a factor that was made elsewhere."""
    if not isinstance(source, FactorSource):
        return reducer.reduce(source)
    reducer.system([source])
    return source.read()


def _custom(plan: ReductionPlan, path: str) -> Mapping[str, str]:
    bag = _entry(plan, path).kind() == 'rosbag2'
    return bag_info(Path(path)).custom if bag else {}


def _entry(plan: ReductionPlan, path: str) -> RecordingEntry:
    # a factor has no columns to be read
    if path.endswith(SUFFIX):
        return RecordingEntry(file=path)
    return replace(plan.entry, file=path)


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
