# SPDX-License-Identifier: Apache-2.0
"""Checks: bodies, other recordings, gains by a known load, the load, and what residuals show."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from ..errors import collected_warnings, Notes
from ..estimation.drive_gains import DriveGains
from ..estimation.energy import ENERGY
from ..estimation.predicted_errors import predicted_errors, PredictedErrors
from ..estimation.residuals import effort_delay, EffortDelay, residual_colour, ResidualColour
from ..estimation.validation import validated_system, Validation, validation_of
from ..loads.payload import Payload, payload
from ..model.consistency import check as check_bodies
from ..model.consistency import ConsistencyReport
from ..model.plausibility import plausibility, PlausibilityReport, robot_reach, robot_shapes
from ..results.exported_files import ExportedFiles, RecordingErrors
from ..signals import source_name
from ..support.progress import no_progress, Progress, subrange
from .estimate import Estimated
from .file_errors import exported_files, FileJudge, parameter_spread
from .gains import gains_by_load
from .reduction import is_factor, recordings_among
from .stopwatch import Stopwatch


@dataclass(frozen=True)
class Checked:
    """
    Estimate, and what it was held against.

    Attributes
    ----------
    estimated:
        The estimate.
    consistency, plausibility:
        Whether its standard parameters can belong to real bodies, and to those of this robot.
    validations:
        Held against recordings that were not used.
    predicted:
        Errors to expect on other motions; None where rows are not those of joints.
    gains:
        Gains of the drives by a known load; None where there is none.
    payload:
        The load that was to be identified; None where there is none.
    delay:
        How much later efforts were recorded than positions; None without rows.
    colour:
        How long residuals stay alike; None without rows.
    files:
        What files hold of the model and predict alone; None where that is not known.
    notes:
        Warnings.
    seconds:
        Duration by step.

    """

    estimated: Estimated
    consistency: ConsistencyReport
    plausibility: PlausibilityReport
    validations: tuple[Validation, ...] = ()
    predicted: PredictedErrors | None = None
    gains: DriveGains | None = None
    payload: Payload | None = None
    delay: EffortDelay | None = None
    colour: ResidualColour | None = None
    files: ExportedFiles | None = None
    notes: Notes = field(default_factory=Notes)
    seconds: Mapping[str, float] = field(default_factory=dict)

    @property
    def implausible_masses(self) -> int:
        """Number of links whose mass cannot be this robot's."""
        return sum(finding.quantity == 'mass' for finding in self.plausibility.findings)


def check(estimated: Estimated, *, progress: Progress = no_progress) -> Checked:
    """Hold an estimate against bodies and other recordings; errors as of `prepare.prepare`."""
    chosen, watch = estimated.chosen, Stopwatch()
    problem, recordings = chosen.problem, chosen.prepared.recordings
    with collected_warnings() as notes:
        files = _exported_files(estimated)
        judge = None if files is None else _judge(estimated, files)
        held = tuple(_validations(estimated, judge, progress))
        if files is not None and judge is not None:
            judged = tuple(errors for _, errors in held if errors is not None)
            if not held:
                judged = (judge.errors(estimated.system, identified=True),)
            files = replace(files, recordings=judged)
        validations = tuple(validation for validation, _ in held)
        # positions of a mechanism's joints are not free: only trees of stiff joints move at random
        predicted = (
            None
            if files is None
            else predicted_errors(
                estimated.estimate,
                estimated.system,
                chosen.builder.regressor,
                problem.robot,
                chosen.prior.values,
                validations,
            )
        )
        watch.lap('validation')
        gains = gains_by_load(problem, recordings, chosen.builder.regressor, estimated.system)
        watch.lap('drive gains')
        carried = _payload(estimated)
        watch.lap('payload')
    return Checked(
        estimated,
        check_bodies(estimated.standard),
        plausibility(
            estimated.standard,
            None if problem.robot.bodies_alike else chosen.prior,
            robot_shapes(problem.robot),
            reach=robot_reach(problem.robot),
            masses=problem.estimation.physical.masses,
            total_mass=problem.estimation.physical.total_mass_interval,
        ),
        validations,
        predicted,
        gains,
        carried,
        _delay(estimated),
        _colour(estimated),
        files,
        notes,
        watch.laps,
    )


def _exported_files(estimated: Estimated) -> ExportedFiles | None:
    """Return the friction of the files that the estimate is written to."""
    chosen = estimated.chosen
    experiment, selection = chosen.prepared.experiment, chosen.selection
    tilt = (0.0, 0.0, 0.0) if experiment is None else experiment.robot.base_tilt
    if selection is not None and selection.tilt.any():
        tilt = tuple(selection.tilt.tolist())
    system, standard = estimated.system, estimated.standard
    files = exported_files(chosen.problem, system, standard, tilt)
    if files is None:
        return None
    spread = parameter_spread(chosen.problem, system, estimated.estimate, standard, files)
    return replace(files, spread=spread)


def _judge(estimated: Estimated, files: ExportedFiles) -> FileJudge:
    base = np.asarray(estimated.estimate.base.values)
    return FileJudge(estimated.chosen.problem, files, base, estimated.standard)


def _validations(
    estimated: Estimated, judge: FileJudge | None, progress: Progress
) -> Iterator[tuple[Validation, RecordingErrors | None]]:
    """Hold the estimate and its files against each recording that it has not seen."""
    chosen = estimated.chosen
    builder, sources = chosen.builder, chosen.prepared.recordings.validation
    for number, source in enumerate(sources):
        part = subrange(progress, number / len(sources), (number + 1) / len(sources))
        part(0.0, f'validating {source_name(source)}')
        if is_factor(source):
            system = builder.system([source])
            seen = validation_of(estimated.estimate, system)
        else:
            (recording,) = recordings_among([source])
            seen, system = validated_system(
                estimated.estimate,
                recording,
                builder.regressor,
                builder.structure,
                chosen.problem.signals,
                progress=part,
            )
        yield seen, None if judge is None else judge.errors(system, source)


def _payload(estimated: Estimated) -> Payload | None:
    """Identify the load of the recordings that have one."""
    chosen = estimated.chosen
    problem, carrying = chosen.problem, chosen.prepared.recordings.payload
    wanted = problem.payload
    if wanted is None or not carrying:
        return None
    loaded = chosen.builder.system(carrying)
    found = payload(estimated.system, loaded, problem.robot, frame=wanted.frame, settings=wanted)
    return replace(found, by_gains=problem.effort_kind != 'joint_torque')


def _delay(estimated: Estimated) -> EffortDelay | None:
    """Find how late efforts are, where there are samples that show it."""
    system = estimated.system
    if not len(system.trace) or ENERGY in system.factor.joints:
        return None
    return effort_delay(
        system.analysed,
        estimated.estimate.base.values,
        system.factor.joints,
        system.factor.independent_rows,
    )


def _colour(estimated: Estimated) -> ResidualColour | None:
    """Find the colour of the residuals, where there are samples that show it."""
    system, base = estimated.system, estimated.estimate.base
    if not len(system.trace):
        return None
    return residual_colour(system.analysed, base.values, system.factor.joints, base.layout.names)
