# SPDX-License-Identifier: Apache-2.0
"""Use of results beyond their own recordings: validation, prediction, external efforts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from .base_parameters import BaseStructure, structure
from .config.problem import IdentificationProblem
from .errors import collected_warnings, ModelError, once, RecordingError, SettingsError
from .estimation.validation import (
    predicted_efforts,
    PredictedEfforts,
    validate,
    Validation,
    validation_of,
)
from .online import MomentumObserver, ObserverSettings
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


def observer_of(stored: StoredResult, settings: ObserverSettings) -> MomentumObserver:
    """
    Return the observer of external efforts on the robot of a result file.

    Its bandwidth is at most that of the identification's filters, since the residuals, which the
    threshold comes from, say nothing of faster errors.

    Raises
    ------
    ModelError
        as `validate_stored`.
    SettingsError
        where the robot has elastic joints.

    """
    if stored.model.elastic is not None:
        raise SettingsError(
            'external efforts on elastic joints are not observed',
            key='robot.elastic',
            remedy='identify the robot with rigid joints',
        )
    regressor, _ = _model(stored)
    errors = {joint.joint: joint.rmse for joint in stored.identification.joints}
    residual = np.array([errors.get(joint, np.nan) for joint in stored.robot.joints])
    if not np.isfinite(residual).all():
        joint = stored.robot.joints[int(np.flatnonzero(~np.isfinite(residual))[0])]
        raise ModelError(
            f"'{stored.path}' has no residuals of joint '{joint}', which the threshold needs",
            file=str(stored.path),
            joint=joint,
            remedy='identify from efforts, with inverse dynamics',
        )
    fastest = min(stored.signals.cutoff, 0.5 * (stored.signals.decimate_to or np.inf))
    settings = replace(settings, bandwidth=min(settings.bandwidth, 2.0 * np.pi * fastest))
    return MomentumObserver(regressor, stored.base, stored.covariance, residual, settings)


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
