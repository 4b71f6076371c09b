# SPDX-License-Identifier: Apache-2.0
"""
Use of results beyond their own recordings: validation, prediction, external efforts, comparison.

Results are compared with the first one: under the hypothesis of equal parameters the difference
over its standard deviation is normal.  Probabilities are corrected for the number of tests (Holm,
"A simple sequentially rejective multiple test procedure", Scand. J. Statist. 6, 1979): of equal
robots the probability of any reported difference is at most the significance.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
import re

import numpy as np
from scipy.special import stdtr

from ..config.problem import IdentificationProblem
from ..config.sources import Source
from ..errors import (
    collected_warnings,
    IdentificationError,
    ModelError,
    RecordingError,
    SettingsError,
    unique_texts,
)
from ..estimation.system import LinearSystem
from ..estimation.tables import number, rule, wrapped
from ..estimation.validation import (
    predicted_efforts,
    PredictedEfforts,
    validated_system,
    Validation,
    validation_of,
)
from ..loads.momentum_observer import MomentumObserver, ObserverSettings
from ..regressor import build, Regressor
from ..regressor.base_parameters import BaseStructure
from ..regressor.base_search import structure
from ..results.exported_files import ExportedFiles, RecordingErrors
from ..results.result import Result
from ..results.stored_result import StoredResult
from ..signals import recording_clock, SignalSettings, source_name
from ..support.progress import no_progress, Progress
from .file_errors import FileJudge
from .load_between import load_between, LoadBetween
from .reduction import FactorBuilder, is_factor, recordings_among

MANY = 1e6
"""Degrees of freedom of known standard deviations."""

_BAND = 1.96
"""Half the width of a 95 % interval [standard deviations]."""


def add_validation(result: Result, source: Source, *, progress: Progress = no_progress) -> Result:
    """
    Hold a result against one more recording that it has not seen.

    The progress is called with the share of the recording that is done.

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
        regressor = build(result.robot, result.settings.model)
        (recording,) = recordings_among([source])
        seen, system = validated_system(
            result.estimate,
            recording,
            regressor,
            result.structure,
            result.settings.signals,
            progress=progress,
        )
        files = None if result.files is None else _judged_too(result, result.files, system, source)
    clocks = {
        clock.source: clock for clock in (*result.recorded.clocks, recording_clock(recording))
    }
    return replace(
        result,
        validations=(*result.validations, seen),
        files=files,
        recorded=replace(result.recorded, clocks=tuple(clocks.values())),
        warnings=unique_texts(result.warnings, notes),
    )


def _judged_too(
    result: Result, files: ExportedFiles, system: LinearSystem, source: Source
) -> ExportedFiles:
    """Return the files with their errors on one more recording."""
    problem = _problem(result, result.settings.signals)
    judge = FileJudge(problem, files, np.asarray(result.estimate.base.values), result.standard)
    known = [each for each in files.recordings if not each.identified]
    return replace(files, recordings=(*known, judge.errors(system, source)))


def validate_stored(
    stored: StoredResult,
    sources: Sequence[Source],
    *,
    signals: SignalSettings | None = None,
    progress: Progress = no_progress,
) -> tuple[Validation, ...]:
    """
    Hold the parameters of a result file against recordings.

    Parameters
    ----------
    stored:
        What `robot_identification.results.stored_result.read_result` gave.
    sources:
        The recordings.
    signals:
        How they become samples; None takes the result's own settings.
    progress:
        Called with the share that is done, and what is being done.

    Raises
    ------
    ModelError
        where the file's base parameters are not those of its robot.
    RecordingError
        where a recording cannot be used.

    """
    held = judge_stored(stored, sources, signals=signals, progress=progress)
    return tuple(validation for validation, _ in held)


def judge_stored(
    stored: StoredResult,
    sources: Sequence[Source],
    *,
    signals: SignalSettings | None = None,
    progress: Progress = no_progress,
) -> tuple[tuple[Validation, RecordingErrors | None], ...]:
    """
    Hold the parameters of a result file, and the files that it is exported to, against recordings.

    As `validate_stored`, with the errors of the files; None where these are not judged.
    """
    progress(0.0, 'finding the base parameters')
    regressor, base = _model(stored)
    settings = signals or stored.settings.signals
    problem, found = _problem(stored, settings), []
    judge = None
    if stored.files is not None:
        judge = FileJudge(problem, stored.files, np.asarray(stored.base.values), stored.standard)
    for done, source in enumerate(sources):
        progress(done / len(sources), f'validating {source_name(source)}')
        if is_factor(source):
            system = FactorBuilder.from_problem(problem, regressor, base).system([source])
            seen = validation_of(stored.base, system)
        else:
            (recording,) = recordings_among([source])
            seen, system = validated_system(stored.base, recording, regressor, base, settings)
        found.append((seen, None if judge is None else judge.errors(system, source)))
    return tuple(found)


def predict_stored(stored: StoredResult, source: Source) -> Iterator[PredictedEfforts]:
    """
    Predict the effort at every sample of a recording by a result file.

    Parameters
    ----------
    stored:
        What `robot_identification.results.stored_result.read_result` gave; the motion is filtered
        by its own settings.
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
    yield from predicted_efforts(stored.base, recording, regressor, base, stored.settings.signals)


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
    if stored.settings.model.elastic is not None:
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
    fastest = min(
        stored.settings.signals.cutoff, 0.5 * (stored.settings.signals.decimate_to or np.inf)
    )
    settings = replace(settings, bandwidth=min(settings.bandwidth, 2.0 * np.pi * fastest))
    return MomentumObserver(regressor, stored.base, stored.covariance, residual, settings)


def _model(stored: StoredResult) -> tuple[Regressor, BaseStructure]:
    """Return a result's regressor and base parameters, after a check that they are its own."""
    regressor = build(stored.robot, stored.settings.model)
    base = structure(regressor, stored.robot, grouping=stored.settings.model.grouping)
    if base.names != stored.base.layout.names:
        raise ModelError(
            f"the base parameters in '{stored.path}' are not those of its robot",
            file=str(stored.path),
            remedy='identify again with this version',
        )
    return regressor, base


def _problem(stored: StoredResult | Result, signals: SignalSettings) -> IdentificationProblem:
    """Return the problem that a result is the solution of, with its own or other filters."""
    return IdentificationProblem(
        robot=stored.robot,
        model=stored.settings.model,
        signals=signals,
        estimation=stored.settings.estimation,
        effort_kind=stored.settings.effort_kind,
        drives=stored.settings.drives,
    )


# ------------------------------------------------------------------------------------- comparison


def two_sided(value: np.ndarray, std: np.ndarray, freedom: np.ndarray | float) -> np.ndarray:
    """Return the two-sided probability of a value by Student's distribution."""
    with np.errstate(divide='ignore', invalid='ignore'):
        return np.asarray(2.0 * stdtr(freedom, -np.abs(value) / std))


def holm(probability: np.ndarray) -> np.ndarray:
    """Correct probabilities for their number (Holm); NaN for what was not tested."""
    corrected = np.full(probability.shape, np.nan)
    known = np.isfinite(probability)
    p = probability[known]
    order = np.argsort(p, kind='stable')
    steps = np.minimum(1.0, p[order] * np.arange(p.size, 0, -1))
    p[order] = np.maximum.accumulate(steps)
    corrected[known] = p
    return corrected


@dataclass(frozen=True)
class ResultComparison:
    """
    Parameters and errors of results.

    Attributes
    ----------
    names:
        Of the r results.
    labels, expressions, units:
        (p,) of the base parameters that any result has; a label is the first term of the
        expression, with its number if several begin alike.
    values, std:
        (r, p) in these units; NaN for a parameter that a result does not have or determine.
    probability:
        (r, p) of such a difference from the first result among equal robots, corrected for the
        number of parameters; NaN if it cannot be tested.
    significance:
        Probability below which a difference is significant.
    errors:
        Relative error of each joint by recording and result, (r, n + 1) with that of all joints
        last [%].
    joints:
        Names of the n joints.
    loads:
        (r - 1,) load that tells each other result from the first one, or None.

    """

    names: tuple[str, ...]
    labels: tuple[str, ...]
    expressions: tuple[str, ...]
    units: tuple[str, ...]
    values: np.ndarray
    std: np.ndarray
    probability: np.ndarray
    significance: float
    errors: dict[str, np.ndarray]
    joints: tuple[str, ...]
    loads: tuple[LoadBetween | None, ...] = ()

    @property
    def different(self) -> np.ndarray:
        """(r, p) bool, parameters that differ significantly from those of the first result."""
        with np.errstate(invalid='ignore'):
            return np.asarray(self.probability < self.significance)

    def summary(self) -> str:
        """Return tables; ``*`` marks what differs significantly from the first result."""
        count = int(self.different.any(axis=0).sum())
        width = max(map(len, (*self.labels, *self.joints, 'all joints'))) + 1
        lines = [
            rule(f'{len(self.names)} results', '='),
            *(f'{letter}  {name}' for letter, name in zip(_letters(self), self.names)),
            f'{count} of {len(self.expressions)} base parameters differ significantly from '
            f'{_letters(self)[0]} (level {100 * self.significance:g} % over all of them)',
            *(
                f'{letter}: {load}'
                for letter, load in zip(_letters(self)[1:], self.loads, strict=False)
                if load is not None
            ),
            '',
            rule('Base parameters with half the width of their 95 % interval'),
            f'{"parameter":{width}}'
            + ''.join(f'{letter:>24}   ' for letter in _letters(self))
            + 'unit',
        ]
        for p, label in enumerate(self.labels):
            cells = ''.join(
                f'{self._cell(r, p):>24}{" * " if self.different[r, p] else "   "}'
                for r in range(len(self.names))
            )
            lines.append(f'{label:{width}}{cells}{self.units[p]}')
        for recording, errors in self.errors.items():
            lines += ['', rule(f'Relative error on {recording} [%]')]
            for j, joint in enumerate((*self.joints, 'all joints')):
                cells = ''.join(f'{error:24.2f}   ' for error in errors[:, j])
                lines.append(f'{joint:{width}}{cells}'.rstrip())
        combined = [
            (label, expression)
            for label, expression in zip(self.labels, self.expressions, strict=True)
            if label != expression
        ]
        if combined:
            lines += ['', rule('Parameters that are combinations')]
            for label, text in combined:
                # the first term is the label
                lines += wrapped(text, f'{label} = ' if ' [' in label else '')
        return '\n'.join(lines)

    def _cell(self, r: int, p: int) -> str:
        if not np.isfinite(self.values[r, p]):
            return '-'
        spread = _BAND * self.std[r, p]
        deviation = f' +- {spread:.2g}' if np.isfinite(spread) else ''
        return f'{number(float(self.values[r, p]))}{deviation}'


def compare_results(
    results: Sequence[StoredResult],
    names: Sequence[str],
    errors: dict[str, np.ndarray] | None = None,
    significance: float = 0.01,
) -> ResultComparison:
    """
    Compare results of one robot, or of robots with the same joints.

    Parameters
    ----------
    results:
        At least two; the others are compared with the first one.
    names:
        What they are called.
    errors:
        Errors on recordings that all have predicted, as in `ResultComparison`.
    significance:
        Probability that results of equal robots show any difference.

    Raises
    ------
    IdentificationError
        naming a result of other joints.

    """
    joints = results[0].robot.joints
    for result, name in zip(results, names, strict=True):
        if result.robot.joints != joints:
            raise IdentificationError(
                f"'{name}' is of the joints {', '.join(result.robot.joints)}, '{names[0]}' of "
                f'{", ".join(joints)}',
                file=name,
                remedy='compare results of the same joints',
            )
    units: dict[str, str] = {}
    for result in results:
        units.update(zip(result.expressions, result.base.layout.units, strict=True))
    values, std = (np.full((len(results), len(units)), np.nan) for _ in range(2))
    places = {expression: p for p, expression in enumerate(units)}
    for r, result in enumerate(results):
        at = [places[expression] for expression in result.expressions]
        values[r, at], std[r, at] = result.base.values, result.base_std
    difference = values - values[0]
    spread = np.hypot(std, std[0])
    probability = np.full(values.shape, np.nan)
    for r in range(1, len(results)):
        probability[r] = holm(two_sided(difference[r], spread[r], MANY))
    return ResultComparison(
        tuple(names),
        _labels(tuple(units)),
        tuple(units),
        tuple(units.values()),
        values,
        std,
        probability,
        significance,
        errors or {},
        joints,
        tuple(load_between(results[0], other) for other in results[1:]),
    )


def _labels(expressions: tuple[str, ...]) -> tuple[str, ...]:
    """Return the first terms of expressions, numbered where several are alike."""
    seen: dict[str, int] = {}
    labels = []
    for expression in expressions:
        first = re.split(r' [+-] ', expression)[0]
        seen[first] = seen.get(first, 0) + 1
        labels.append(first if seen[first] == 1 else f'{first} [{seen[first]}]')
    return tuple(labels)


def _letters(comparison: ResultComparison) -> list[str]:
    return [chr(ord('A') + k) if k < 26 else str(k + 1) for k in range(len(comparison.names))]
