# SPDX-License-Identifier: Apache-2.0
"""Figures of a verdict: the error to expect, and one for each use, in a few words."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..estimation.predicted_errors import PredictedErrors
from ..estimation.validation import Validation
from ..loads.payload import Payload
from ..loads.tool import Tool
from ..results.exported_files import RecordingErrors, URDF
from ..results.result import Result
from ..results.servo_result import ServoResult
from .file_criteria import SHORT_NAMES, simulated_file
from .fit_criteria import shows_nothing, unseen
from .load_criteria import load_of
from .reason import COLLISIONS, COMPENSATION, CONTROL, DYNAMICS, PREDICTION, SIMULATION


@dataclass(frozen=True)
class UseFigures:
    """
    Figures that a user asks for first.

    Attributes
    ----------
    expected:
        The error to expect, in a sentence without a period; empty where it is not known.
    uses:
        Figure of each use in a few words; a use without one is left out.

    """

    expected: str = ''
    uses: dict[str, str] = field(default_factory=dict)


def use_figures(result: Any, excepted: Collection[str] = ()) -> UseFigures:
    """
    Return the figures of a result: of an arm, of servos, of a tool or a payload.

    Errors to expect of an arm are those of the joints that are not ``excepted``.
    """
    if isinstance(result, Result):
        return _of_arm(result, excepted)
    if isinstance(result, ServoResult):
        error = f'{_digits(1e3 * result.total_error(result.filed))} mrad'
        text = f'error of unseen motion, simulated by commands alone: {error}'
        return UseFigures(text, {SIMULATION: error})
    return _of_load(result)


def validation_figures(
    validations: Sequence[Validation], judged: Iterable[RecordingErrors]
) -> UseFigures:
    """Return the figures of validations alone, with the errors of files on the same recordings."""
    files = [errors for errors in judged if not _shows_nothing(errors, validations)]
    validations = [each for each in validations if not shows_nothing(each)]
    if not validations:
        return UseFigures()
    last = max(validations, key=lambda each: each.relative_error)
    worst = max(last.joints, key=lambda joint: joint.relative_error)
    error = f'{_digits(last.relative_error)} %'
    uses = {
        PREDICTION: error,
        CONTROL: error,
        COLLISIONS: f'{worst.joint} {_digits(worst.relative_error)} %',
        SIMULATION: error,
        **_file_figures(files, URDF),
    }
    at = f'{_digits(worst.relative_error)} % at {worst.joint}'
    return UseFigures(f'error on unseen motion: {error} of the effort; {at}', uses)


def _shows_nothing(errors: RecordingErrors, validations: Sequence[Validation]) -> bool:
    """Return whether the validation on the same recording has too few rows to judge by."""
    same = [each for each in validations if {*each.sources} == {*errors.sources}]
    return bool(same) and all(map(shows_nothing, same))


def _of_arm(result: Result, excepted: Collection[str]) -> UseFigures:
    seen = unseen(result)
    files = () if result.files is None else result.files.recordings
    files = tuple(errors for errors in files if not _shows_nothing(errors, result.validations))
    if not seen:
        fit = f'fit {_digits(result.estimate.fit.relative_error)} %'
        known = UseFigures('', dict.fromkeys((PREDICTION, CONTROL, SIMULATION), fit))
    else:
        known = validation_figures(seen, files)
    uses = {**known.uses, **_file_figures(files, simulated_file(result))}
    expected = result.predicted
    if expected is None:
        return UseFigures(known.expected, uses)
    kept = [joint for joint in expected.joints if joint not in excepted] or expected.joints
    relative = dict(zip(expected.joints, expected.relative, strict=True))
    worst = max(kept, key=lambda joint: relative[joint])
    share = f'{_digits(expected.over(kept))} %'
    contacts = _contacts(expected, kept, result.units)
    uses |= {PREDICTION: f'{share} to expect', COLLISIONS: contacts}
    at = f'{_digits(relative[worst])} % at {worst}'
    return UseFigures(f'errors to expect: {share} on motions as fast; {at}', uses)


def _file_figures(judged: Sequence[RecordingErrors], simulated: str) -> dict[str, str]:
    """Return the largest error of the files that computed torque and simulators take."""
    found = {}
    for use, file in ((CONTROL, URDF), (SIMULATION, simulated)):
        errors = [error.relative_error for each in judged if (error := each.of(file)) is not None]
        if errors and np.isfinite(max(errors)):
            found[use] = f'{SHORT_NAMES[file]} {_digits(max(errors))} %'
    return found


def _contacts(expected: PredictedErrors, joints: Sequence[str], units: dict[str, str]) -> str:
    """Return the range of efforts above which a contact is felt at some joints, by unit."""
    by_unit: dict[str, list[float]] = {}
    for joint, contact in zip(expected.joints, expected.contact, strict=True):
        if joint in joints:
            by_unit.setdefault(units.get(joint, ''), []).append(float(contact))
    texts = []
    for unit, values in by_unit.items():
        low, high = f'{_digits(min(values))}', f'{_digits(max(values))}'
        texts.append(f'{low if low == high else f"{low} to {high}"} {unit}'.rstrip())
    return f'contacts > {", ".join(texts)}'


def _digits(value: float) -> str:
    """Return a figure with two significant digits at least, and no exponent where it is large."""
    return f'{value:.0f}' if 100.0 <= abs(value) < 1e6 else f'{value:.2g}'


def _of_load(result: Tool | Payload) -> UseFigures:
    load = load_of(result)
    mass = f'{load.mass:.4g} +- {_digits(load.mass_std)} kg'
    error = result.error if isinstance(result, Tool) else load.fit.relative_error
    of = 'how the wrench changes' if isinstance(result, Tool) else 'the effort'
    uses = {COMPENSATION: mass, DYNAMICS: f'fit {_digits(error)} %'}
    return UseFigures(f'{mass}; the fit misses {_digits(error)} % of {of}', uses)
