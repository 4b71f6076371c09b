# SPDX-License-Identifier: Apache-2.0
"""Estimate: rows of the recordings, folded into a factor, and the parameters that they give."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
import warnings

from ..config.sources import Source
from ..errors import collected_warnings, IdentifiabilityError, IdentificationWarning, Notes
from ..estimation.estimate import Estimate
from ..estimation.estimators import EstimationSettings, EstimationTask, RowBuilder, run_estimator
from ..estimation.irls import Repair
from ..estimation.least_squares import essential
from ..estimation.prior import body_scale, standard, standard_base_columns, standard_essential
from ..estimation.row_block import RowBlock
from ..estimation.system import LinearSystem
from ..model.parameters import ParameterSet
from ..support.progress import no_progress, Progress
from .choose import Chosen
from .reduction import recordings_among
from .stopwatch import Stopwatch


@dataclass(frozen=True)
class Estimated:
    """
    Estimate of the parameters from the recordings.

    Attributes
    ----------
    chosen:
        Settings and base parameters.
    system:
        The rows' sufficient statistics.
    estimate:
        All base parameters.
    essential:
        The same without the parameters that the data hardly determine; None if not requested.
    standard:
        Standard parameters nearest to the prior.
    notes:
        Warnings.
    seconds:
        Duration by step.

    """

    chosen: Chosen
    system: LinearSystem
    estimate: Estimate
    essential: Estimate | None
    standard: ParameterSet
    notes: Notes = field(default_factory=Notes)
    seconds: Mapping[str, float] = field(default_factory=dict)


def estimate(chosen: Chosen, *, progress: Progress = no_progress) -> Estimated:
    """Estimate the parameters from the recordings; errors as of `prepare.prepare`."""
    watch, settings = Stopwatch(), chosen.problem.estimation
    with collected_warnings() as notes:
        task = _task(chosen, chosen.prepared.recordings.identification, progress)
        watch.lap('recordings')
        progress(1.0, 'estimating')
        found, reduced = _estimates(task, settings)
        built = RowBuilder(settings).notes
        found = replace(found, notes=(*built, *chosen.remarks, *found.notes))
        closest = found.standard or _standard(task, settings, found, reduced)
        watch.lap('estimation')
    return Estimated(chosen, task.system, found, reduced, closest, notes, watch.laps)


def _task(chosen: Chosen, sources: Sequence[Source], progress: Progress) -> EstimationTask:
    """Read the recordings once; estimators that need to can do so again."""
    problem, builder = chosen.problem, chosen.builder
    equations = RowBuilder(problem.estimation)

    def rows(repair: Repair | None = None) -> Iterator[RowBlock]:
        blocks = partial(equations.blocks, signals=problem.signals, repair=repair)
        for recording in recordings_among(sources):
            for block in blocks(recording, builder.regressor, builder.structure):
                progress(1.0, 'estimating')
                yield block

    return EstimationTask(
        builder.system(sources, progress=progress),
        problem.robot,
        chosen.prior,
        problem.estimation,
        rows=rows,
        model=problem.model,
    )


def _estimates(
    task: EstimationTask, settings: EstimationSettings
) -> tuple[Estimate, Estimate | None]:
    """Return all base parameters and, where asked for, the essential ones alone."""
    found = run_estimator(task)
    wanted = settings.essential
    if wanted is None:
        return found, None
    try:
        reduced = essential(task.system, found, wanted.max_relative_std)
    except IdentifiabilityError as error:
        # all base parameters are estimated anyway, and their standard deviations say the same
        warnings.warn(str(error), IdentificationWarning, stacklevel=2)
        return found, None
    return replace(found, essential=reduced.essential), reduced


def _standard(
    task: EstimationTask,
    settings: EstimationSettings,
    found: Estimate,
    reduced: Estimate | None,
) -> ParameterSet:
    """Return the prior with what the estimate says, as `EstimationSettings.standard` asks."""
    base = task.system.structure
    if settings.standard == 'base_columns':
        return standard_base_columns(found, base, task.prior)
    if settings.standard == 'essential' and reduced is not None:
        return standard_essential(task.system, reduced, base, task.prior)
    scale = body_scale(task.robot, base.layout) if settings.distance == 'body' else None
    return standard(found, base, task.prior, scale=scale)
