# SPDX-License-Identifier: Apache-2.0
"""Explanation: what is wrong with the recordings, and the result with all that was found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..config.experiment_file import reproducible_content
from ..diagnosis.diagnose import diagnose
from ..diagnosis.floating_faults import floating_faults
from ..diagnosis.recording_faults import estimate_faults, RecordingFault, revolute
from ..errors import collected_warnings, Notes, unique_texts
from ..estimation.prior import standard_covariance
from ..options.fields import to_mapping
from ..regressor import FloatingRegressor
from ..results.result import RecordingSummary, Result
from ..results.tables import ResultSettings
from ..selection.model_selection import ModelSelection
from ..selection.springs import find_spring, Trial, UNEXPLAINED
from ..signals import recording_clock
from ..support.progress import no_progress, Progress
from ..verdicts.verdict import verdict
from .check import check, Checked
from .choose import apply_choice, Chosen
from .estimate import estimate
from .reduction import recordings_among
from .screen import leave_out, marked_signals
from .stopwatch import Stopwatch


@dataclass(frozen=True)
class _Diagnosed:
    """A checked estimate, what is wrong with its recordings, and how long that took."""

    checked: Checked
    faults: tuple[RecordingFault, ...]
    notes: Notes
    seconds: float


def explain(checked: Checked, *, progress: Progress = no_progress) -> Result:
    """
    Say what is wrong with the recordings, and bring everything that was found into one result.

    Where masses of links are implausible and the settings were chosen, a spring at a joint is
    tried, see `robot_identification.selection.springs`.  Errors are those of `prepare.prepare`.
    """
    found = _diagnosed(checked, progress)
    unexplained: tuple[str, ...] = ()
    if _lacks_a_spring(found):
        other = _with_spring(found.checked)
        if other is None:
            unexplained = (UNEXPLAINED,)
        else:
            found = _diagnosed(other, progress)
    progress(1.0, 'done')
    return _result(found, unexplained)


def _diagnosed(checked: Checked, progress: Progress) -> _Diagnosed:
    """Find what is wrong with the recordings."""
    estimated, watch = checked.estimated, Stopwatch()
    problem, found = estimated.chosen.problem, estimated.estimate
    known = found.standard_covariance
    regressor = estimated.chosen.builder.regressor
    sources = recordings_among(estimated.chosen.prepared.recordings.identification)
    with collected_warnings() as notes:
        explained = (
            floating_faults(
                sources,
                regressor,
                estimated.chosen.builder.structure,
                problem.signals,
                found.fit.relative_error,
            )
            if isinstance(regressor, FloatingRegressor)
            else diagnose(
                problem.robot,
                sources,
                problem.model,
                estimated.chosen.prior,
                problem.signals.effort_delay,
                None if known is None else found.standard,
                0.0 if known is None else np.sqrt(np.diag(known)),
                disturbed=estimated.chosen.prepared.disturbances,
                progress=progress,
            )
        )
        faults = (*explained, *estimate_faults(problem.robot, estimated.system, found))
    watch.lap('diagnosis')
    return _Diagnosed(checked, faults, notes, watch.laps['diagnosis'])


def _lacks_a_spring(found: _Diagnosed) -> bool:
    """Return whether settings were chosen, nothing is wrong, and masses are implausible yet."""
    chosen = found.checked.estimated.chosen
    experiment = chosen.prepared.experiment
    if chosen.selection is None or experiment is None:
        return False
    faulty = any(fault.change and not fault.minor for fault in found.faults)
    return (
        'robot.joint_springs' not in experiment.given
        and found.checked.estimated.estimate.standard is not None
        and not faulty
        and found.checked.implausible_masses > 0
    )


def _with_spring(checked: Checked) -> Checked | None:
    """Return the identification with a spring that explains the masses; None if there is none."""
    chosen = checked.estimated.chosen
    prepared, selection, robot = chosen.prepared, chosen.selection, chosen.problem.robot
    assert selection is not None

    def tried(selection: ModelSelection) -> Trial[Checked]:
        completed = replace(apply_choice(prepared, selection), choosing=chosen.choosing)
        other = check(estimate(completed))
        return Trial(other.estimated.estimate, other.implausible_masses, other)

    springs = selection.model.joint_springs
    turning = zip(robot.joints, revolute(robot), strict=True)
    free = [joint for joint, turns in turning if turns and joint not in springs]
    error = checked.estimated.estimate.fit.relative_error
    return find_spring(selection, error, robot.joints, free, tried)


def _result(found: _Diagnosed, unexplained: tuple[str, ...]) -> Result:
    """Return the result of all stages."""
    checked = found.checked
    estimated = checked.estimated
    chosen = estimated.chosen
    prepared, problem = chosen.prepared, chosen.problem
    known = estimated.estimate.standard_covariance
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
        prior=chosen.prior,
        structure=chosen.builder.structure,
        system=estimated.system,
        estimate=estimated.estimate,
        essential=estimated.essential,
        standard=estimated.standard,
        standard_covariance=standard_covariance(estimated.estimate, chosen.builder.structure)
        if known is None
        else known,
        consistency=checked.consistency,
        plausibility=checked.plausibility,
        validations=checked.validations,
        predicted=checked.predicted,
        files=checked.files,
        recorded=_recorded(found),
        timing={
            **chosen.seconds,
            **estimated.seconds,
            **checked.seconds,
            'diagnosis': found.seconds,
        },
        drive_gains=prepared.gains or checked.gains,
        payload=checked.payload,
        warnings=unique_texts(*_warnings(found), unexplained),
        omissions=unique_texts(*(each.omissions for each in _notes(found))),
        selection=chosen.selection,
        experiment=_repeating(chosen),
    )


def _recorded(found: _Diagnosed) -> RecordingSummary:
    """Return the recordings that were used, and what they show of themselves."""
    prepared = found.checked.estimated.chosen.prepared
    sources = (*prepared.recordings.identification, *prepared.recordings.validation)
    return RecordingSummary(
        names=found.checked.estimated.system.sources,
        clocks=tuple(map(recording_clock, recordings_among(sources))),
        effort_delay=found.checked.delay,
        residuals=found.checked.colour,
        diagnosis=(*prepared.locked, *found.faults),
        disturbances=prepared.disturbances or (),
        signals=tuple(marked_signals(prepared, found.faults)),
    )


def _notes(found: _Diagnosed) -> tuple[Notes, ...]:
    """Return the warnings of all stages; faults are found before what follows from them."""
    estimated = found.checked.estimated
    chosen = estimated.chosen
    first = (chosen.prepared.notes, found.notes, chosen.choosing)
    return (*first, chosen.notes, estimated.notes, found.checked.notes)


def _warnings(found: _Diagnosed) -> tuple[Sequence[str], ...]:
    """Return warnings and faults, in the order in which they are read."""
    checked = found.checked
    prepared = checked.estimated.chosen.prepared
    gains, (first, *others) = prepared.gains or checked.gains, _notes(found)
    return (
        first,
        tuple(map(str, prepared.locked)),
        gains.warnings if gains else (),
        tuple(map(str, found.faults)),
        *others,
        checked.estimated.estimate.warnings,
        [reason.text for reason in verdict(checked.payload).reasons] if checked.payload else (),
    )


def _repeating(chosen: Chosen) -> dict[str, Any] | None:
    """Return the content of an experiment file that repeats the run; None without a file."""
    experiment, gains = chosen.prepared.experiment, chosen.prepared.gains
    if experiment is None or not experiment.content:
        return None
    settings = {} if chosen.selection is None else chosen.selection.settings()
    if gains is not None:
        settings['robot.drives'] = to_mapping(experiment.robot.drives)
    content = reproducible_content(experiment, settings)
    leave_out(content.get('data') or {}, chosen.prepared.disturbances)
    return content
