# SPDX-License-Identifier: Apache-2.0
"""The result of an identification as its file has it, read and checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from ..data.drives import Drives
from ..errors import IdentificationError, reading_failure, SettingsError
from ..estimation.estimate import Fit, JointFit
from ..estimation.estimators import EstimationSettings
from ..model.parameters import ParameterLayout, ParameterSet
from ..model.robot import Robot
from ..model.robot_document import read_robot
from ..options.fields import from_mapping, LARGEST
from ..regressor import ModelSettings
from ..signals import SignalSettings
from ..untrusted.files import load_yaml, read_text
from .exported_files import ExportedFiles
from .result import FIT_FIGURES, FORMAT, MARK
from .tables import ResultSettings, ResultView


@dataclass(frozen=True, repr=False)
class StoredResult(ResultView):
    """
    Content of a result file.

    Attributes
    ----------
    name:
        What the identification was called.
    robot:
        The robot, made again of the URDF, joints, locked joints and gravity that were stored.
    settings:
        Those of model, signals and estimation, and the kind of effort.
    base:
        The base parameters of the estimate.
    base_std:
        (b,) their standard deviations; NaN where there are none.
    expressions:
        (b,) combinations of standard parameters that ``base`` stands for.
    prior, standard:
        Standard parameters before and after.
    standard_std:
        (p,) NaN where the data alone do not determine them.
    document:
        The file's whole content.
    path:
        The file.
    notes:
        Notes of the estimation method, in words.
    files:
        What exported files hold of the model, and what each predicts alone; None where that is not
        known, as in files of before.

    """

    name: str
    robot: Robot
    settings: ResultSettings
    base: ParameterSet
    base_std: np.ndarray
    expressions: tuple[str, ...]
    prior: ParameterSet
    standard: ParameterSet
    standard_std: np.ndarray
    document: Mapping[str, Any] = field(repr=False, default_factory=dict)
    path: Path | None = None
    notes: tuple[str, ...] = ()
    files: ExportedFiles | None = None

    def to_document(self) -> Mapping[str, Any]:
        """Return the file's whole content."""
        return self.document

    @property
    def identification(self) -> Fit:
        """Fit of the identification, with NaN for what the file does not have."""
        known = self.document['identification']
        joints = tuple(
            JointFit(joint, *(_figure(values.get(name)) for name in FIT_FIGURES))  # type: ignore[arg-type]
            for joint, values in known['joints'].items()
        )
        errors = (_figure(known.get(name)) for name in ('relative_error', 'raw_relative_error'))
        return Fit(joints, *errors)

    @property
    def covariance(self) -> np.ndarray:
        """
        (b, b) covariance of the errors of ``base``; NaN for unknown.

        Raises `IdentificationError` if the file does not have it.
        """
        rows, n = self.document.get('covariance'), len(self.base.values)
        sizes = [len(row) for row in rows] if isinstance(rows, list) else None
        if rows is None or sizes != [*range(1, n + 1)]:
            raise _damaged(self.path or Path(), f'covariance is not a triangle of {n} rows', None)
        lower = np.zeros((n, n))
        for i, row in enumerate(rows):
            lower[i, : i + 1] = [_figure(value) for value in row]
        return lower + np.tril(lower, -1).T

    @property
    def combinations(self) -> tuple[dict[str, float], ...]:
        """
        Coefficients of the standard parameters in each base parameter.

        Raises `IdentificationError` if the file does not have them.
        """
        try:
            return tuple(
                {str(name): float(value) for name, value in entry['combination'].items()}
                for entry in self.document['parameters']
            )
        except (AttributeError, KeyError, TypeError, ValueError):
            reason = 'a parameter is no combination of standard parameters'
            raise _damaged(self.path or Path(), reason, 'parameters') from None

    @property
    def highest_speed(self) -> np.ndarray:
        """Highest speed of each joint in the identification [rad/s or m/s]; NaN for unknown."""
        known = self.document['identification'].get('highest_speed')
        return np.array([_figure(v) for v in known or [None] * len(self.robot.joints)])


def _load(path: Path) -> Any:
    """Read YAML; raises IdentificationError naming the file where that is impossible."""
    try:
        return load_yaml(read_text(path))
    except OSError as error:
        raise IdentificationError(
            f"cannot read result file '{path}': {error.strerror or error}",
            file=str(path),
            remedy='give the result.yaml that an identification wrote',
        ) from error
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise _damaged(path, reading_failure(error), None) from error


def _damaged(path: Path, reason: str, key: str | None) -> IdentificationError:
    """Return the error for a file that is not as it was written."""
    return IdentificationError(
        f"result file '{path}' is damaged: {reason}",
        file=str(path),
        key=key,
        remedy='identify again, or restore the file',
    )


def _figure(value: Any) -> float:
    """Return a number of a file; NaN for what is none."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if number else math.nan


def read_result(path: str | os.PathLike) -> StoredResult:
    """
    Read a result that `write_result` wrote.

    Raises
    ------
    IdentificationError
        naming the file where it does not exist, is no YAML or no result, or is damaged; and the
        key where one is missing or wrong.

    """
    path = Path(path)
    document = _checked(_load(path), path)
    try:
        return _stored(document, path)
    except SettingsError as error:
        raise _damaged(path, str(error), error.key) from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        reason = f'key {error} is missing' if isinstance(error, KeyError) else str(error)
        raise _damaged(path, reason, None) from error


def _checked(document: Any, path: Path) -> Mapping[str, Any]:
    """Return what was read if it is a result in a format that is known."""
    if not isinstance(document, Mapping) or MARK not in document:
        raise IdentificationError(
            f"'{path}' is not the result of an identification",
            file=str(path),
            remedy='give the result.yaml that an identification wrote',
        )
    head = document[MARK]
    number = head.get('format') if isinstance(head, Mapping) else None
    if number is None and 'tool' in document:
        raise IdentificationError(
            f"'{path}' is the file of a tool, not the result of a robot",
            file=str(path),
            remedy='give the result.yaml that `identify` wrote; `export` takes this one',
        )
    if number != FORMAT:
        raise IdentificationError(
            f"'{path}' has result format {number}, this version reads {FORMAT}",
            file=str(path),
            value=number,
            remedy='identify again with this version',
        )
    if head.get('kind') is not None:
        raise IdentificationError(
            f"'{path}' is the result of an identification from commands",
            file=str(path),
            value=head['kind'],
            remedy='robot-identification export is the command for it',
        )
    return document


def _stored(document: Mapping[str, Any], path: Path) -> StoredResult:
    settings = document['settings']
    parameters, standards = document['parameters'], document['standard_parameters']
    files = document.get('files')
    base_layout, layout, drives = _layout(parameters), _layout(standards), settings.get('drives')
    return StoredResult(
        name=str(document['name']),
        robot=read_robot(document['robot']),
        settings=ResultSettings(
            model=from_mapping(ModelSettings, settings['model'], 'settings.model'),
            signals=from_mapping(SignalSettings, settings['signals'], 'settings.signals'),
            estimation=from_mapping(
                EstimationSettings, settings['estimation'], 'settings.estimation'
            ),
            effort_kind=str(settings.get('effort_kind', 'joint_torque')),
            drives=None if drives is None else from_mapping(Drives, drives, 'settings.drives'),
        ),
        base=ParameterSet(base_layout, _column(parameters, 'value')),
        base_std=_column(parameters, 'std', allow_none=True),
        expressions=tuple(entry['expression'] for entry in parameters),
        prior=ParameterSet(layout, _column(standards, 'prior')),
        standard=ParameterSet(layout, _column(standards, 'value')),
        standard_std=_column(standards, 'std', allow_none=True),
        document=document,
        path=path,
        notes=tuple(str(note) for note in document['identification'].get('notes', ())),
        files=None if files is None else ExportedFiles.from_dict(files),
    )


def _layout(entries: Sequence[Mapping[str, Any]]) -> ParameterLayout:
    for entry in entries:
        for key in ('name', 'unit'):
            if not isinstance(entry[key], str):
                raise SettingsError(f'{key} of a parameter is {entry[key]!r}, expected text')
    return ParameterLayout(
        tuple(entry['name'] for entry in entries), tuple(entry['unit'] for entry in entries)
    )


def _column(
    entries: Sequence[Mapping[str, Any]], key: str, allow_none: bool = False
) -> np.ndarray:
    values = []
    for entry in entries:
        value = entry[key]
        if value is None and allow_none:
            value = math.nan
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise SettingsError(f"{key} of '{entry['name']}' is {value!r}, expected a number")
        if not (abs(value) <= LARGEST or (allow_none and math.isnan(value))):
            raise SettingsError(
                f"{key} of '{entry['name']}' is {value:g}, expected a finite number of at most "
                f'{LARGEST:g}'
            )
        values.append(float(value))
    return np.array(values)
