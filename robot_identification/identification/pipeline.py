# SPDX-License-Identifier: Apache-2.0
"""The whole way from recordings to identified, checked and validated parameters, on one page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
import time
from typing import cast
import warnings

import numpy as np

from ..config.experiment import Experiment
from ..config.experiment_file import reproducible_content
from ..config.locked import faults_of_locked, recorded_joints
from ..config.problem import IdentificationProblem, Recordings
from ..config.sources import FileSource, Source
from ..data.parts import in_memory
from ..diagnosis.diagnose import diagnose
from ..diagnosis.recording_faults import estimate_faults, RecordingFault, revolute
from ..errors import (
    collected_warnings,
    IdentifiabilityError,
    IdentificationWarning,
    Omission,
    unique_texts,
)
from ..estimation import (
    body_scale,
    effort_delay,
    EffortDelay,
    essential,
    Estimate,
    LinearSystem,
    Repair,
    RowBlock,
    standard,
    standard_base_columns,
    standard_covariance,
    standard_essential,
)
from ..estimation.energy import ENERGY
from ..estimation.estimators import (
    EstimationSettings,
    EstimationTask,
    require_bounds_kept,
    resolve_method_conflict,
    RowBuilder,
    run_estimator,
)
from ..estimation.factor_file import StoredFactor
from ..estimation.residuals import residual_colour, ResidualColour
from ..estimation.validation import validate, Validation, validation_of
from ..loads.payload import Payload, payload
from ..model.consistency import check
from ..model.parameters import ParameterSet
from ..model.plausibility import plausibility, robot_reach, robot_shapes
from ..options.fields import to_mapping
from ..regressor import Regressor
from ..regressor.base_parameters import BaseStructure
from ..regressor.base_search import structure
from ..results.result import RecordingSummary, Result
from ..results.tables import ResultSettings
from ..selection.friction_slopes import find_slopes, open_slopes
from ..selection.model_selection import can_choose, choose_model, ModelSelection
from ..signals import recording_clock, RecordingSource, source_name
from ..support.progress import no_progress, Progress, subrange
from ..support.threads import on_one_thread
from .gains import gains_by_load, with_gains
from .reduction import (
    FactorBuilder,
    is_factor,
    problem_of,
    recordings_among,
    require_factors,
)

_GAIN_ERROR = (
    'an error of the gains of the drives goes one to one into the mass of the load, and is not in '
    'its standard deviation: gains that are 10 % too large make it 10 % too heavy'
)
_PULLS, _SPRUNG, _DEARER = 0.1, 2, 1.05
"""
Springs beside springs at all joints: the least amplitude by the effort of those that are tried
alone, how many are, and times the error that the fit may have with one.
"""

_GAINS = 0.4  # share of the work that gains take, where they are open

_DIAGNOSIS = 0.7  # share of the work after which recordings are diagnosed

_KEPT_BYTES = 64_000_000
"""Samples of recordings that take less than this together are read once, into memory."""


def identify(experiment: Experiment, *, progress: Progress = no_progress) -> Result:
    """
    Do what an experiment file says, short of writing files; see `saving.save` for that.

    Parameters
    ----------
    experiment:
        See `robot_identification.config.experiment_file.load_experiment`.
    progress:
        Called with the share that is done, and what is being done.

    Raises
    ------
    IdentificationError
        of the kind that fits: a recording that cannot be used, a joint that is not excited, ...

    """
    with collected_warnings() as notes:
        gains = None
        if experiment.robot.open_gains:
            experiment, gains = with_gains(experiment, progress=subrange(progress, 0.0, _GAINS))
            progress = subrange(progress, _GAINS, 1.0)
        problem = IdentificationProblem.from_experiment(experiment)
        require_bounds_kept(problem.estimation)
        recordings = Recordings.from_experiment(experiment, problem.robot.joints)
        locked = _locked(problem, recordings)
        recordings = replace(
            recordings,
            identification=_kept(recordings.identification),
            known_load=recordings.known_load if gains is None else (),
        )
        selection = _selection(experiment, problem, recordings, subrange(progress, 0.0, 0.3))
    identified = partial(
        _identified, recordings=recordings, progress=subrange(progress, 0.0, _DIAGNOSIS)
    )
    diagnosed = partial(
        _diagnosed,
        sources=recordings.identification,
        progress=subrange(progress, _DIAGNOSIS, 1.0),
    )
    chosen = problem if selection is None else problem.with_selection(selection)
    result = diagnosed(identified(chosen))
    if selection is not None and 'robot.joint_springs' not in experiment.given:
        sprung, other = _sprung(problem, selection, result, identified)
        result = other if sprung is selection else diagnosed(other)
        selection = sprung
    if experiment.content:
        found = {} if gains is None else {'robot.drives': to_mapping(experiment.robot.drives)}
        settings = {} if selection is None else selection.settings()
        repeating = reproducible_content(experiment, {**settings, **found})
        result = replace(result, selection=selection, experiment=repeating)
    return replace(
        result,
        drive_gains=gains or result.drive_gains,
        recorded=replace(result.recorded, diagnosis=(*locked, *result.recorded.diagnosis)),
        warnings=unique_texts(
            notes, tuple(map(str, locked)), gains.warnings if gains else (), result.warnings
        ),
        omissions=unique_texts(notes.omissions, result.omissions),
    )


def _kept(sources: Sequence[Source]) -> tuple[Source, ...]:
    """Return recordings, with small ones read into memory."""
    room = _KEPT_BYTES // max(1, len(sources))
    return tuple(s if is_factor(s) else in_memory(cast(RecordingSource, s), room) for s in sources)


def _locked(problem: IdentificationProblem, recordings: Recordings) -> tuple[RecordingFault, ...]:
    """Return locked joints that move or stand elsewhere; warn of those that do not."""
    robot, sources = problem.robot, (*recordings.identification, *recordings.validation)
    files = [source for source in sources if isinstance(source, FileSource)]
    if not (robot.locked and files):
        return ()
    seen = [recorded_joints(source, robot, list(robot.locked)) for source in files]
    faults, remarks = faults_of_locked(robot, seen)
    for remark in remarks:
        warnings.warn(remark, Omission, stacklevel=2)
    return tuple(faults)


def _selection(
    experiment: Experiment,
    problem: IdentificationProblem,
    recordings: Recordings,
    progress: Progress,
) -> ModelSelection | None:
    """Choose the settings that the file leaves out; None where nothing can be chosen."""
    sources = recordings.identification
    chooses = can_choose(problem.model, problem.signals, experiment.given)
    rows = not RowBuilder(problem.estimation).by_energy
    if not (experiment.auto and chooses and rows) or any(is_factor(s) for s in sources):
        return None
    return choose_model(
        recordings_among(sources),
        problem.robot,
        problem.model,
        problem.signals,
        experiment.given,
        progress=progress,
    )


def _sprung(
    problem: IdentificationProblem,
    selection: ModelSelection,
    result: Result,
    identified: Callable[[IdentificationProblem], Result],
) -> tuple[ModelSelection, Result]:
    """Try a spring where a link's mass is implausible alone; say so where none explains it."""
    faulty = any(fault.change and not fault.slight for fault in result.recorded.diagnosis)
    if result.estimate.standard is None or faulty or not _implausible_masses(result):
        return selection, result
    joints, chosen = result.robot.joints, selection.model.joint_springs
    turning = () if result.robot.passive else revolute(result.robot)
    free = [joint for joint, turns in zip(joints, turning) if turns and joint not in chosen]
    # where every joint has a spring, that at a counterbalance pulls, and links stay near the prior
    every = selection.with_springs(free, joints)
    pulls = _pulls(identified(problem.with_selection(every)), free) if free else {}
    for joint in sorted((j for j in free if pulls[j] > _PULLS), key=lambda j: -pulls[j])[:_SPRUNG]:
        found = selection.with_springs([joint], joints)
        other = identified(problem.with_selection(found))
        dearer = other.estimate.fit.relative_error > _DEARER * result.estimate.fit.relative_error
        if not dearer and not _implausible_masses(other):
            return found, other
    warning = (
        'masses of links are implausible, which no spring at a joint explains: the efforts may be '
        'those of a counterbalance of another kind or of a closed mechanism, or the masses of the '
        'URDF be wrong; to predict efforts alone, take estimation.method: wls'
    )
    return selection, replace(result, warnings=unique_texts(result.warnings, (warning,)))


def _pulls(result: Result, joints: Sequence[str]) -> dict[str, float]:
    """Return the amplitudes of joints' springs by the root mean square of their efforts."""
    standard, fits = result.estimate.standard, result.estimate.fit.joints
    assert standard is not None
    shares = {fit.joint: 0.01 * fit.relative_error / max(fit.rmse, 1e-300) for fit in fits}
    sizes = {j: float(np.hypot(standard[f'{j}.kc'], standard[f'{j}.ks'])) for j in joints}
    return {joint: size * shares[joint] for joint, size in sizes.items()}


def _implausible_masses(result: Result) -> int:
    """Count links with a mass that is implausible."""
    return sum(finding.quantity == 'mass' for finding in result.plausibility.findings)


@on_one_thread
def identify_sources(
    problem: IdentificationProblem,
    sources: Sequence[Source],
    validation: Sequence[Source] = (),
    *,
    loaded: Sequence[Source] = (),
    carrying: Sequence[Source] = (),
    progress: Progress = no_progress,
) -> Result:
    """
    Identify from recordings, check the result, and hold it against other recordings.

    Parameters
    ----------
    problem:
        The robot and the settings.
    sources:
        Recordings to identify from: `Recording` objects or opened files.
    validation:
        Recordings that the identification does not see.
    loaded:
        Recordings with the problem's known load, for the drive gains.
    carrying:
        Recordings with the load that is to be identified.
    progress:
        Called with the share that is done, and what is being done.

    Raises
    ------
    IdentificationError
        as `identify`.

    """
    recordings = Recordings(*map(tuple, (sources, validation, loaded, carrying)))
    return identify_recordings(problem, recordings, progress=progress)


@on_one_thread
def identify_recordings(
    problem: IdentificationProblem, recordings: Recordings, *, progress: Progress = no_progress
) -> Result:
    """Do what `identify_sources` does, with all recordings of a problem."""
    result = _identified(problem, recordings, subrange(progress, 0.0, _DIAGNOSIS))
    return _diagnosed(result, recordings.identification, subrange(progress, _DIAGNOSIS, 1.0))


def _identified(
    problem: IdentificationProblem, recordings: Recordings, progress: Progress
) -> Result:
    """Identify, check and validate; without the diagnosis of the recordings."""
    require_bounds_kept(problem.estimation)
    sources, validation = recordings.identification, recordings.validation
    watch = _Stopwatch()
    with collected_warnings() as notes:
        progress(0.0, 'finding the base parameters')
        estimation, remarks = resolve_method_conflict(problem.estimation)
        problem = replace(problem, estimation=estimation)
        regressor, prior = problem.regressor(), problem.prior()
        base = structure(regressor, problem.robot, grouping=problem.model.grouping)
        watch.lap('structure')
        reading = subrange(progress, 0.0, len(sources) / (len(sources) + len(validation)))
        if any(is_factor(source) for source in sources):
            require_factors(problem)
        # open slopes of friction take a pass of their own
        searched = 0.5 if open_slopes(problem.model) else 0.0
        searching = subrange(reading, 0.0, searched)
        problem, found = _with_slopes(problem, sources, regressor, base, searching)
        regressor = problem.regressor()
        reducer = FactorBuilder.from_problem(problem, regressor, base)
        task = _task(reducer, sources, prior, subrange(reading, searched, 1.0))
        watch.lap('recordings')
        reading(1.0, 'estimating')
        estimate, reduced = _estimate(task)
        built = RowBuilder(problem.estimation).notes
        estimate = replace(estimate, notes=(*built, *found, *estimate.notes))
        closest = estimate.standard or _standard(task, estimate, reduced)
        watch.lap('estimation')
        validations: list[Validation] = []
        for source in validation:
            progress(
                _share(sources, validation, len(validations)), f'validating {source_name(source)}'
            )
            if is_factor(source):
                validations.append(validation_of(estimate, reducer.system([source])))
                continue
            (recording,) = recordings_among([source])
            validations.append(
                validate(
                    estimate,
                    recording,
                    regressor,
                    base,
                    problem.signals,
                    progress=subrange(
                        progress,
                        _share(sources, validation, len(validations)),
                        _share(sources, validation, len(validations) + 1),
                    ),
                )
            )
        watch.lap('validation')
        gains = gains_by_load(problem, recordings, regressor, task.system)
        watch.lap('drive gains')
        carried = _payload(reducer, task.system, recordings.payload)
        watch.lap('payload')
        late = _delay(task.system, estimate)
    return Result(
        name=problem.name or problem.robot.name,
        robot=problem.robot,
        settings=ResultSettings(
            model=problem.model,
            signals=problem.signals,
            estimation=problem.estimation,
            effort_kind=problem.effort_kind,
            drives=problem.drives,
        ),
        prior=prior,
        structure=base,
        system=task.system,
        estimate=estimate,
        essential=reduced,
        standard=closest,
        standard_covariance=standard_covariance(estimate, base)
        if estimate.standard_covariance is None
        else estimate.standard_covariance,
        consistency=check(closest),
        plausibility=plausibility(
            closest,
            None if problem.robot.bodies_alike else prior,
            robot_shapes(problem.robot),
            reach=robot_reach(problem.robot),
            masses=problem.estimation.physical.masses,
            total_mass=problem.estimation.physical.total_mass_interval,
        ),
        validations=tuple(validations),
        recorded=RecordingSummary(
            names=task.system.sources,
            clocks=tuple(map(recording_clock, recordings_among((*sources, *validation)))),
            effort_delay=late,
            residuals=_colour(task.system, estimate),
        ),
        timing=watch.laps,
        drive_gains=gains,
        payload=carried,
        warnings=unique_texts(
            remarks,
            notes,
            estimate.warnings,
            gains.warnings if gains else (),
            carried.warnings if carried else (),
        ),
        omissions=unique_texts(notes.omissions),
    )


def _diagnosed(result: Result, sources: Sequence[Source], progress: Progress) -> Result:
    """Add what is wrong with the recordings to what was identified from them."""
    watch = _Stopwatch()
    estimate, known = result.estimate, result.estimate.standard_covariance
    with collected_warnings() as notes:
        explained = diagnose(
            result.robot,
            recordings_among(sources),
            result.settings.model,
            result.prior,
            result.settings.signals.effort_delay,
            None if known is None else estimate.standard,
            0.0 if known is None else np.sqrt(np.diag(known)),
            progress=progress,
        )
        findings = (*explained, *estimate_faults(result.robot, result.system, estimate))
    watch.lap('diagnosis')
    progress(1.0, 'done')
    return replace(
        result,
        recorded=replace(result.recorded, diagnosis=findings),
        timing={**result.timing, **watch.laps},
        warnings=unique_texts(tuple(map(str, findings)), notes, result.warnings),
        omissions=unique_texts(result.omissions, notes.omissions),
    )


@on_one_thread
def identify_factors(
    factors: Sequence[StoredFactor],
    estimation: EstimationSettings | None = None,
    *,
    validation: Sequence[Source] = (),
    progress: Progress = no_progress,
) -> Result:
    """
    Identify from factors alone; they bring the robot and the settings with them.

    Parameters
    ----------
    factors:
        At least one; all of the same problem.
    estimation:
        How to estimate; a method that needs rows is refused.
    validation, progress:
        As for `identify_sources`; factors will do for the validation, too.

    Raises
    ------
    IdentificationError
        as `identify`, and naming what is not the same in all factors.

    """
    if not factors:
        raise ValueError('there is no factor to identify from')
    problem = problem_of(factors[0], estimation)
    return identify_sources(problem, factors, validation, progress=progress)


def _with_slopes(
    problem: IdentificationProblem,
    sources: Sequence[Source],
    regressor: Regressor,
    base: BaseStructure,
    progress: Progress,
) -> tuple[IdentificationProblem, tuple[str, ...]]:
    """Fill in the slopes of friction that the settings leave to the recordings."""
    if not open_slopes(problem.model):
        return problem, ()
    found = find_slopes(
        recordings_among(sources),
        regressor,
        base,
        problem.model,
        problem.signals,
        progress=progress,
    )
    return replace(problem, model=found.settings(problem.model)), found.notes


def _task(
    reducer: FactorBuilder, sources: Sequence[Source], prior: ParameterSet, progress: Progress
) -> EstimationTask:
    """Read the recordings once; estimators that need to can do so again."""
    problem, regressor, base = reducer.problem, reducer.regressor, reducer.structure
    equations = RowBuilder(problem.estimation)

    def rows(repair: Repair | None = None) -> Iterator[RowBlock]:
        blocks = partial(equations.blocks, signals=problem.signals, repair=repair)
        recordings = recordings_among(sources)
        for block in chain.from_iterable(blocks(each, regressor, base) for each in recordings):
            progress(1.0, 'estimating')
            yield block

    return EstimationTask(
        reducer.system(sources, progress=progress),
        problem.robot,
        prior,
        problem.estimation,
        rows=rows,
        model=problem.model,
    )


def _payload(
    reducer: FactorBuilder, system: LinearSystem, carrying: Sequence[Source]
) -> Payload | None:
    """Identify the load of the recordings that have one."""
    problem = reducer.problem
    wanted = problem.payload
    if wanted is None or not carrying:
        return None
    loaded = reducer.system(carrying)
    found = payload(system, loaded, problem.robot, frame=wanted.frame, settings=wanted)
    if problem.effort_kind == 'joint_torque':
        return found
    return replace(found, warnings=(*found.warnings, _GAIN_ERROR))


def _estimate(task: EstimationTask) -> tuple[Estimate, Estimate | None]:
    """All base parameters, and, where asked for, the essential ones alone."""
    estimate = run_estimator(task)
    wanted = task.settings.essential
    if wanted is None:
        return estimate, None
    try:
        reduced = essential(task.system, estimate, wanted.max_relative_std)
    except IdentifiabilityError as error:
        # all base parameters are estimated anyway, and their standard deviations say the same
        warnings.warn(str(error), IdentificationWarning, stacklevel=2)
        return estimate, None
    return replace(estimate, essential=reduced.essential), reduced


def _standard(task: EstimationTask, estimate: Estimate, reduced: Estimate | None) -> ParameterSet:
    """Return the prior with what the estimate says, as `EstimationSettings.standard` asks."""
    settings, base = task.settings, task.system.structure
    if settings.standard == 'base_columns':
        return standard_base_columns(estimate, base, task.prior)
    if settings.standard == 'essential' and reduced is not None:
        return standard_essential(task.system, reduced, base, task.prior)
    scale = body_scale(task.robot, base.layout) if settings.distance == 'body' else None
    return standard(estimate, base, task.prior, scale=scale)


def _delay(system: LinearSystem, estimate: Estimate) -> EffortDelay | None:
    """Find how late efforts are, where there are samples that show it."""
    if not len(system.trace) or ENERGY in system.factor.joints:
        return None
    return effort_delay(
        system.analysed, estimate.base.values, system.factor.joints, system.factor.independent_rows
    )


def _colour(system: LinearSystem, estimate: Estimate) -> ResidualColour | None:
    """Find the colour of the residuals, where there are samples that show it."""
    if not len(system.trace):
        return None
    base = estimate.base
    return residual_colour(system.analysed, base.values, system.factor.joints, base.layout.names)


def _share(sources: Sequence[Source], validation: Sequence[Source], done: int) -> float:
    return (len(sources) + done) / (len(sources) + len(validation))


class _Stopwatch:
    """Seconds that each step took."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, step: str) -> None:
        now = time.perf_counter()
        self.laps[step] = now - self._last
        self._last = now
