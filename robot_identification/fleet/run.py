# SPDX-License-Identifier: Apache-2.0
"""Identification of a fleet: recordings, factors, robots, comparison, on one page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
import time
import warnings

import numpy as np

from ..config.experiment import Experiment
from ..errors import (
    collected_warnings,
    IdentifiabilityError,
    IdentificationError,
    IdentificationWarning,
    unique_texts,
)
from ..estimation.estimate import Estimate
from ..estimation.estimators import EstimationTask, run_estimator
from ..estimation.factor_file import merge_stored, Origin, pack, read_factor, StoredFactor, SUFFIX
from ..estimation.least_squares import essential, evaluate, joint_weights
from ..estimation.system import LinearSystem
from ..options.document import dump
from ..support.progress import no_progress, Progress, subrange
from .comparison import compare, FleetComparison, Series
from .executor import Executor, open_executor
from .result import fleet_html, FleetResult, RobotResult, Timing
from .store import find_recordings, FleetRecording, open_store, Store, write_file
from .tasks import (
    estimate_essentials,
    estimate_group,
    in_groups,
    merge_robots,
    Question,
    reduce_all,
    Reduction,
    ReductionPlan,
)

_ESSENTIAL = 30.0
"""Largest relative standard deviation of essential parameters [%] where the settings have none."""

_PARTS = (0.0, 0.9), (0.9, 0.95), (0.95, 0.99)
"""Parts of the work: reducing, merging, comparing."""

_LISTED_WARNINGS = 20
"""Warnings about recordings that are listed one by one."""


def identify_fleet(
    experiment: Experiment,
    recordings: Sequence[Path | str],
    folder: Path | str,
    *,
    scheduler: str | None = None,
    workers: int | None = None,
    retries: int = 2,
    keep_going: bool = True,
    progress: Progress = no_progress,
) -> FleetResult:
    """
    Reduce recordings to factors, merge them by robot, identify and compare the robots.

    Parameters
    ----------
    experiment:
        The robot and the settings; its first recording shows how the others are read.
    recordings:
        Files, bags, folders and patterns, see `store.find_recordings`.
    folder:
        Folder of factors and results, see `store`; an interrupted run continues from its content.
    scheduler, workers, retries:
        As for `executor.open_executor`.
    keep_going:
        True to reject unusable recordings and go on, false to raise for them.
    progress:
        Callback.

    Raises
    ------
    IdentificationError
        for unfit settings, folder or scheduler, or if no recording can be used.

    """
    began = time.perf_counter()
    reducing, merging, comparing = (subrange(progress, *part) for part in _PARTS)
    with collected_warnings() as notes:
        plan = ReductionPlan.from_experiment(experiment)
    paths = find_recordings(recordings)
    with (
        open_store(folder) as store,
        open_executor(scheduler, workers, plan.payload(), retries=retries) as executor,
    ):
        opened = time.perf_counter()
        reduction = reduce_all(
            executor,
            store,
            paths,
            plan.fingerprint(),
            experiment.fleet,
            keep_going=keep_going,
            progress=reducing,
        )
        reduced = time.perf_counter()
        _require_some(reduction, store)
        members = _Members(executor, plan, store, _by_robot(reduction))
        total = members.merged(merging)
        progress(0.95, 'estimating')
        fleet = _identified(plan, total)
        significance = experiment.fleet.significance
        comparison, failure = members.compared(fleet, total, significance, comparing)
        timing = Timing(
            *(opened - began, reduced - opened, time.perf_counter() - reduced),
            work=reduction.seconds,
            workers=executor.workers,
        )
        result = FleetResult(
            name=experiment.name,
            problem=plan.problem,
            settings=experiment.fleet,
            structure=plan.structure,
            factor=total.factor,
            estimate=fleet,
            robots=members.results(fleet),
            comparison=comparison,
            rejected=reduction.rejected,
            kept=reduction.kept,
            scheduler=executor.name,
            timing=timing,
            warnings=unique_texts(notes, failure, fleet.warnings, _warnings(reduction)),
        )
    progress(1.0, 'done')
    return result


def save_fleet(result: FleetResult, folder: Path | str) -> tuple[Path, ...]:
    """
    Write ``fleet.yaml`` and ``fleet.html`` into ``folder``; return the files.

    Raises
    ------
    IdentificationError
        naming a file that cannot be written.

    Warns
    -----
    IdentificationWarning
        if the report cannot be drawn and is left out.

    """
    numbers, report = Path(folder) / 'fleet.yaml', Path(folder) / 'fleet.html'
    write_file(numbers, dump(result.to_dict()))
    try:
        text = fleet_html(result)
    except Exception as error:  # the numbers are worth more than a picture of them
        report.unlink(missing_ok=True)
        failure = f'{report.name} is not written: {type(error).__name__}: {error}'
        warnings.warn(failure, IdentificationWarning, stacklevel=2)
        return (numbers,)
    write_file(report, text)
    return numbers, report


def _read(store: Store, serial: str) -> StoredFactor:
    return read_factor(store.robot_file(serial))


def _system(plan: ReductionPlan, stored: StoredFactor) -> LinearSystem:
    return LinearSystem(stored.factor, plan.structure, blocks=stored.blocks)


def _identified(plan: ReductionPlan, stored: StoredFactor) -> Estimate:
    """Estimate the base parameters by the settings."""
    problem = plan.problem
    task = EstimationTask(
        _system(plan, stored),
        problem.robot,
        problem.prior(),
        problem.estimation,
        model=problem.model,
    )
    return run_estimator(task)


def _by_robot(reduction: Reduction) -> dict[str, tuple[FleetRecording, ...]]:
    """Return the recordings of each robot, by its serial number."""
    groups = groupby(reduction.recordings, key=lambda one: one.serial)
    return {serial: tuple(group) for serial, group in groups}


@dataclass(frozen=True)
class _Members:
    """
    The robots of a fleet, each by the factors of its recordings in the store.

    Attributes
    ----------
    recordings:
        Of each robot, by its serial number.

    """

    executor: Executor
    plan: ReductionPlan
    store: Store
    recordings: Mapping[str, tuple[FleetRecording, ...]]

    @property
    def files(self) -> dict[str, list[Path]]:
        """The factors of each robot's recordings."""
        return {
            serial: [self.store.factor_file(one.key) for one in own]
            for serial, own in self.recordings.items()
        }

    def merged(self, progress: Progress) -> StoredFactor:
        """Write the robots' factors and that of the fleet, one in memory at a time; return it."""
        store, serials = self.store, []
        for serial, stored in merge_robots(self.executor, self.files, progress=progress):
            write_file(store.robot_file(serial), pack(replace(stored, name=serial)))
            serials.append(serial)
        # a fleet's factor is made of robots', which name their recordings
        total = merge_stored(
            replace(_read(store, serial), origins=(Origin(serial),)) for serial in serials
        )
        write_file(store.folder / f'fleet{SUFFIX}', pack(total))
        return total

    def results(self, fleet: Estimate) -> tuple[RobotResult, ...]:
        """Identify each robot, and fit its recordings by the fleet's parameters."""
        return tuple(self._result(serial, own, fleet) for serial, own in self.recordings.items())

    def _result(
        self, serial: str, recordings: tuple[FleetRecording, ...], fleet: Estimate
    ) -> RobotResult:
        stored = _read(self.store, serial)
        by_fleet = evaluate(_system(self.plan, stored), fleet.base.values)
        own, failure = None, ''
        try:
            own = _identified(self.plan, stored)
        except IdentificationError as error:
            failure = str(error)
        return RobotResult(serial, recordings, stored.factor.raw_rows, own, by_fleet, failure)

    def compared(
        self, fleet: Estimate, total: StoredFactor, significance: float, progress: Progress
    ) -> tuple[FleetComparison | None, tuple[str, ...]]:
        """Compare robots and times by the essential parameters; or return the reason against."""
        plan = self.plan
        system = _system(plan, total)
        wanted = plan.problem.estimation.essential
        limit = _ESSENTIAL if wanted is None else wanted.max_relative_std
        try:
            reduced = essential(system, fleet, limit)
        except IdentifiabilityError as error:
            return None, (f'robots are not compared: {error}',)
        assert reduced.essential is not None
        question = Question(
            plan.structure.base_layout,
            joint_weights(system),
            np.asarray(reduced.essential),
            np.asarray(reduced.base.values),
        )
        series = self._series(question, progress)
        layout = question.layout.select(np.flatnonzero(question.essential))
        tests = compare(series, significance)
        robots = tuple(self.recordings)
        return FleetComparison(layout, robots, tuple(series), tests, significance), ()

    def _series(self, question: Question, progress: Progress) -> list[Series]:
        """Return the estimates of each robot's recordings over time, and of all of them."""
        found: dict[str, list[np.ndarray]] = {serial: [] for serial in self.recordings}
        groups = in_groups(
            self.executor,
            estimate_group,
            self.files,
            progress=progress,
            text='comparing recordings',
            argument=question,
        )
        for serial, estimates in groups:
            found[serial].extend(estimates)
        series = []
        for serial, recordings in self.recordings.items():
            each = np.array(found[serial])
            together = estimate_essentials(_read(self.store, serial), question)
            stamps = np.array([one.stamp for one in recordings])
            series.append(Series(stamps, each[:, 0], each[:, 1], *together))
        return series


def _require_some(reduction: Reduction, store: Store) -> None:
    """Raise where no recording can be used."""
    if reduction.recordings:
        return
    path, reason = next(iter(reduction.rejected.items()))
    raise IdentificationError(
        f'no recording can be used; the first: {reason}',
        file=path,
        remedy=f"all reasons are in '{store.folder / 'rejected.yaml'}'",
    )


def _warnings(reduction: Reduction) -> tuple[str, ...]:
    """Return the warnings about recordings, the first ones and a summary."""
    said = [(text, one.path) for one in reduction.recordings for text in one.warnings]
    if len(said) <= _LISTED_WARNINGS:
        return tuple(text for text, _ in said)
    concerned = len({path for _, path in said})
    return (
        *(text for text, _ in said[:_LISTED_WARNINGS]),
        f'and {len(said) - _LISTED_WARNINGS} warnings more, of {concerned} recordings in all; '
        'journal.jsonl has them',
    )
