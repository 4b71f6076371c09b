# SPDX-License-Identifier: Apache-2.0
"""Hold results, in memory or in files, against recordings that they have not seen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from .base_parameters import BaseStructure, structure
from .config.problem import IdentificationProblem
from .errors import collected_warnings, ModelError, once, RecordingError
from .estimation.validation import (
    predicted_efforts,
    PredictedEfforts,
    validate,
    Validation,
    validation_of,
)
from .progress import Progress, silent
from .reduction import FactorBuilder, is_factor, recordings_among, Source
from .regressor import build, Regressor
from .results.result import Result, StoredResult
from .signals import SignalSettings, source_name, WatchedSource


def add_validation(result: Result, source: Source) -> Result:
    """
    Hold a result against one more recording that it has not seen.

    Returns
    -------
    Result
        With the `Validation` appended to ``validations``.

    Raises
    ------
    RecordingError
        where the recording cannot be used.

    """
    with collected_warnings() as notes:
        regressor = build(result.robot, result.model)
        watched = WatchedSource(source)
        seen = validate(result.estimate, watched, regressor, result.structure, result.signals)
    clocks = {clock.source: clock for clock in (*result.clocks, watched.clock) if clock}
    return replace(
        result,
        validations=(*result.validations, seen),
        clocks=tuple(clocks.values()),
        warnings=once(result.warnings, notes),
    )


def validate_stored(
    stored: StoredResult,
    sources: Sequence[Source],
    *,
    signals: SignalSettings | None = None,
    progress: Progress = silent,
) -> tuple[Validation, ...]:
    """
    Hold the parameters of a result file against recordings.

    Parameters
    ----------
    stored:
        What `robot_identification.results.result.read_result` gave.
    sources:
        The recordings.
    signals:
        How they become samples; None takes the result's own settings.
    progress:
        Told about the progress.

    Raises
    ------
    ModelError
        where the file's base parameters are not those of its robot.
    RecordingError
        where a recording cannot be used.

    """
    progress(0.0, 'finding the base parameters')
    regressor, base = _model(stored)
    validations, settings = [], signals or stored.signals
    for number, source in enumerate(sources):
        progress(number / len(sources), f'validating {source_name(source)}')
        if is_factor(source):
            system = FactorBuilder.of(_problem(stored, settings), regressor, base).system([source])
            validations.append(validation_of(stored.base, system))
        else:
            (recording,) = recordings_among([source])
            validations.append(validate(stored.base, recording, regressor, base, settings))
    return tuple(validations)


def predict_stored(stored: StoredResult, source: Source) -> Iterator[PredictedEfforts]:
    """
    Predict the effort at every sample of a recording by a result file.

    Parameters
    ----------
    stored:
        What `robot_identification.results.result.read_result` gave; the motion is filtered by its
        own settings.
    source:
        The recording.

    Yields
    ------
    Blocks as of `robot_identification.estimation.validation.predicted_efforts`.

    Raises
    ------
    ModelError
        as `validate_stored`.
    RecordingError
        where the recording cannot be used, or is a factor.

    """
    if is_factor(source):
        name = source_name(source)
        raise RecordingError(
            f"'{name}' is a factor, which has no samples to predict",
            file=name,
            remedy='give the recording that it was made of',
        )
    (recording,) = recordings_among([source])
    regressor, base = _model(stored)
    yield from predicted_efforts(stored.base, recording, regressor, base, stored.signals)


def _model(stored: StoredResult) -> tuple[Regressor, BaseStructure]:
    """Return a result's regressor and base parameters, after a check that they are its own."""
    regressor = build(stored.robot, stored.model)
    base = structure(regressor, stored.robot, grouping=stored.model.grouping)
    if base.names != stored.base.layout.names:
        raise ModelError(
            f"the base parameters in '{stored.path}' are not those of its robot",
            file=str(stored.path),
            remedy='identify again with this version',
        )
    return regressor, base


def _problem(stored: StoredResult, signals: SignalSettings) -> IdentificationProblem:
    """Return the problem that a result is the solution of, with its own or other filters."""
    return IdentificationProblem(
        robot=stored.robot,
        model=stored.model,
        signals=signals,
        estimation=stored.estimation,
        effort_kind=stored.effort_kind,
        drives=stored.drives,
    )
