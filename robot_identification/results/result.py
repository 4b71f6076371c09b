# SPDX-License-Identifier: Apache-2.0
"""The result of an identification, and its file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
import math
import os
from pathlib import Path
from typing import Any, TYPE_CHECKING

import numpy as np
import yaml

from ..data.drives import Drives
from ..diagnosis.recording_faults import RecordingFault
from ..errors import IdentificationError, reading_failure, SettingsError
from ..estimation.energy import ENERGY
from ..estimation.estimate import Estimate, Fit, JointFit
from ..estimation.residuals import EffortDelay, ResidualColour
from ..estimation.system import LinearSystem
from ..estimation.validation import Validation
from ..estimators import EstimationSettings
from ..loads.drive_gains import DriveGains
from ..loads.payload import Payload
from ..model.consistency import ConsistencyReport
from ..model.parameters import ParameterLayout, ParameterSet
from ..model.plausibility import PlausibilityReport
from ..model.robot import read_robot, Robot, robot_document
from ..options.document import dump, plain
from ..options.fields import from_mapping, LARGEST
from ..regressor import ModelSettings
from ..regressor.base_parameters import BaseStructure
from ..selection.model_selection import ModelSelection
from ..signals import Clock, SignalSettings
from ..untrusted.files import load_yaml, read_text
from ..untrusted.writing import write_whole
from ..version import __version__
from .link_knowledge import link_knowledge, LinkKnowledge
from .tables import link_table, LinkTable, ResultView

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

FORMAT = 1
"""Number of the file's format; it changes when an older version could not read it."""

MARK = 'robot_identification'
"""Key of a result file's head: version, format and, if it is no usual one, kind."""
_FIGURES = ('rows', 'rmse', 'relative_error', 'raw_relative_error', 'bias')


@dataclass(frozen=True, repr=False)
class Result(ResultView):
    """
    Everything that an identification found.

    Attributes
    ----------
    name:
        What the identification is called (the robot's or the experiment's name).
    robot:
        The robot of the URDF.
    model:
        Settings of the model that the result comes from.
    signals:
        Settings of the signals.
    estimation:
        Settings of the estimation.
    prior:
        Standard parameters before the identification, over the regressor's layout.
    structure:
        The base parameters and what they are made of.
    system:
        The rows' sufficient statistics.
    estimate:
        All base parameters.
    essential:
        The same without the parameters that the data hardly determine; None if not requested.
    standard:
        Standard parameters nearest to the prior.
    standard_covariance:
        (p, p) of their errors, NaN where the data alone do not determine them; or None.
    consistency:
        Whether ``standard`` can belong to a real body.
    plausibility:
        Whether it can be that of this robot, by its prior and its shapes.
    validations:
        Held against recordings that were not used.
    recordings:
        Names of the recordings that were used.
    timing:
        Seconds by step.
    warnings:
        Warnings, in words.
    omissions:
        Those of them on what was left out, changed or not judged.
    effort_kind:
        What the recorded efforts are.
    drives:
        How recorded signals became those at the joints; None if they were recorded there.
    drive_gains:
        Gains of the drives, where there were recordings with a known load; else None.
    payload:
        The load, where there were recordings with one that was to be identified; else None.
    clocks:
        Statistics of the stamps of each recording, those for the validation included.
    effort_delay:
        How much later efforts were recorded than positions; None without rows.
    residuals:
        How long residuals stay alike, joint by joint; None without rows.
    selection:
        What was chosen from the recordings; None where nothing was.
    experiment:
        The content of an experiment file that repeats the run; None where nothing was chosen.
    diagnosis:
        What is wrong with the recordings.

    """

    name: str
    robot: Robot
    model: ModelSettings
    signals: SignalSettings
    estimation: EstimationSettings
    prior: ParameterSet
    structure: BaseStructure
    system: LinearSystem
    estimate: Estimate
    essential: Estimate | None
    standard: ParameterSet
    standard_covariance: np.ndarray | None
    consistency: ConsistencyReport
    validations: tuple[Validation, ...] = ()
    recordings: tuple[str, ...] = ()
    timing: Mapping[str, float] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    omissions: tuple[str, ...] = ()
    effort_kind: str = 'joint_torque'
    drives: Drives | None = None
    drive_gains: DriveGains | None = None
    payload: Payload | None = None
    clocks: tuple[Clock, ...] = ()
    effort_delay: EffortDelay | None = None
    residuals: ResidualColour | None = None
    selection: ModelSelection | None = None
    experiment: Mapping[str, Any] | None = None
    plausibility: PlausibilityReport = field(default_factory=PlausibilityReport)
    diagnosis: tuple[RecordingFault, ...] = ()

    @property
    def _combinations(self) -> dict[str, dict[str, float]]:
        """Coefficients of the standard parameters in each base parameter, with all digits."""
        base = self.structure
        names = base.layout.names
        return {
            name: {names[i]: float(row[i]) for i in np.flatnonzero(row)}
            for name, row in zip(base.names, base.regrouping, strict=True)
        }

    @property
    def standard_std(self) -> np.ndarray:
        """(p,) standard deviations of ``standard``; NaN where the data do not determine them."""
        if self.standard_covariance is None:
            return np.full(len(self.standard.layout), np.nan)
        return np.asarray(np.sqrt(np.diag(self.standard_covariance)))

    def to_document(self) -> dict[str, Any]:
        """
        Return plain numbers, texts, lists and mappings, in the order of the file.

        NaN and infinity become None.
        """
        estimate, essential, report = self.estimate, self.essential, self.consistency
        document = {
            MARK: {'version': __version__, 'format': FORMAT},
            'name': self.name,
            'structure': {
                'standard': self.structure.n_standard,
                'base': self.structure.n_base,
                'essential': None if essential is None else essential.rank,
                'gap': self.structure.gap,
            },
            'identification': {
                'recordings': self.recordings,
                'highest_speed': self.system.factor.highest_speed,
                **_figures_of(estimate),
            },
            'essential_identification': None
            if essential is None
            else {'recordings': self.recordings, **_figures_of(essential)},
            'validation': [validation.to_dict() for validation in self.validations],
            'consistency': {
                'physical': report.physical,
                'plausible': self.plausible,
                'findings': [asdict(finding) for finding in self.plausibility.findings],
                'tolerance': report.tolerance,
                'links': [asdict(link) for link in report.links],
                'joints': [asdict(joint) for joint in report.joints],
                'cholesky_counts': [
                    {'tolerance': tolerance, 'links': count}
                    for tolerance, count in report.cholesky_counts
                ],
            },
            'parameters': [
                {**parameter.to_dict(), 'combination': self._combinations[parameter.name]}
                for parameter in estimate
            ],
            'essential_parameters': [
                {key: parameter.to_dict()[key] for key in _ESSENTIAL_KEYS}
                for parameter in (() if essential is None else essential)
                if parameter.essential
            ],
            'standard_parameters': self.standard_rows(),
            'drive_gains': _plain_or_none(self.drive_gains),
            'payload': _plain_or_none(self.payload),
            'clock': [clock.to_dict() for clock in self.clocks],
            'effort_delay': _plain_or_none(self.effort_delay),
            'residuals': _plain_or_none(self.residuals),
            'selection': [] if self.selection is None else self.selection.to_list(),
            'experiment': self.experiment,
            'diagnosis': [finding.to_dict() for finding in self.diagnosis],
            'warnings': self.warnings,
            'omissions': self.omissions,
            'timing': self.timing,
            'settings': {
                'effort_kind': self.effort_kind,
                'drives': None if self.drives is None else asdict(self.drives),
                'model': asdict(self.model),
                'signals': asdict(self.signals),
                'estimation': asdict(self.estimation),
            },
            'covariance': [row[: i + 1] for i, row in enumerate(estimate.covariance)],
            'robot': robot_document(self.robot),
        }
        return dict(plain(document))

    def standard_rows(self) -> list[dict[str, Any]]:
        """Return a row for each standard parameter."""
        layout = self.standard.layout
        columns = (
            layout.names,
            layout.units,
            self.standard.values,
            self.prior.values,
            self.standard_std,
            self.structure.categories,
        )
        keys = ('name', 'unit', 'value', 'prior', 'std', 'category')
        return [dict(zip(keys, row, strict=True)) for row in zip(*columns, strict=True)]

    def link_table(self) -> LinkTable:
        """Return the links before and after, with standard deviations."""
        categories = self.structure.categories
        return link_table(self.prior, self.standard, self.standard_covariance, categories)

    def link_knowledge(self) -> tuple[LinkKnowledge, ...]:
        """Return what the recordings tell of each link."""
        return link_knowledge(self.robot, self.system, self.estimate)

    def plot_fit(self) -> Figure:
        """
        Plot measured and predicted effort and their difference, joint by joint.

        Raises
        ------
        IdentificationError
            if the result is of factors, which have no samples to plot, or plotly is not installed.

        """
        from .fit_plots import effort_figure

        if not len(self.system.trace):
            raise IdentificationError(
                'factors have no samples to plot', remedy='identify from the recordings'
            )
        fits, trace = self.estimate.joints, self.system.trace.fit(self.estimate.base.values)
        return effort_figure(trace, fits, [self.units[fit.joint] for fit in fits]).to_plotly()

    def plot_parameters(self) -> Figure:
        """Plot base parameters with two standard deviations beside the prior's."""
        from .parameter_plots import prior_figure

        return prior_figure(self.estimate, self.structure.project(self.prior)).to_plotly()

    @property
    def units(self) -> dict[str, str]:
        """Unit of the effort of each joint, of a motor behind an elastic joint, and of energy."""
        units, rows = self.robot.effort_units, self.system.joints
        motors = dict(zip(rows, units * (len(rows) // len(units)), strict=False))
        return {**dict(zip(self.robot.joints, units, strict=True)), **motors, ENERGY: 'J'}

    @property
    def plausible(self) -> bool:
        """True if the model is physical, and nothing about it is implausible."""
        return self.consistency.physical and self.plausibility.plausible


def _plain_or_none(part: Any) -> Any:
    return None if part is None else part.to_dict()


def _figures_of(estimate: Estimate) -> dict[str, Any]:
    """Return the figures of an estimate, without what stands at the file's top level."""
    values = estimate.to_dict()
    del values['parameters'], values['warnings']
    joints = values.pop('joints')
    for joint, weight in values.pop('weights').items():
        joints[joint]['weight'] = weight
    return {**values, 'joints': joints}


_ESSENTIAL_KEYS = ('name', 'unit', 'value', 'std', 'relative_std')


@dataclass(frozen=True, repr=False)
class StoredResult(ResultView):
    """
    Content of a result file.

    Attributes
    ----------
    name:
        What the identification was called.
    robot:
        The robot, made anew of the URDF, joints, locked joints and gravity that were stored.
    model, signals, estimation:
        The settings.
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
    effort_kind, drives:
        As in `Result`.
    notes:
        Notes of the estimation method, in words.

    """

    name: str
    robot: Robot
    model: ModelSettings
    signals: SignalSettings
    estimation: EstimationSettings
    base: ParameterSet
    base_std: np.ndarray
    expressions: tuple[str, ...]
    prior: ParameterSet
    standard: ParameterSet
    standard_std: np.ndarray
    document: Mapping[str, Any] = field(repr=False, default_factory=dict)
    path: Path | None = None
    effort_kind: str = 'joint_torque'
    drives: Drives | None = None
    notes: tuple[str, ...] = ()

    def to_document(self) -> Mapping[str, Any]:
        """Return the file's whole content."""
        return self.document

    @property
    def identification(self) -> Fit:
        """Fit of the identification, with NaN for what the file does not have."""
        known = self.document['identification']
        joints = tuple(
            JointFit(joint, *(_figure(values.get(name)) for name in _FIGURES))  # type: ignore[arg-type]
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


def write_result(result: Result, path: str | os.PathLike) -> None:
    """Write a result as YAML, whole or not at all; raises OSError where that is impossible."""
    write_whole(Path(path), dump(result.to_document()))


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
    base_layout, layout, drives = _layout(parameters), _layout(standards), settings.get('drives')
    return StoredResult(
        name=str(document['name']),
        robot=read_robot(document['robot']),
        model=from_mapping(ModelSettings, settings['model'], 'settings.model'),
        signals=from_mapping(SignalSettings, settings['signals'], 'settings.signals'),
        estimation=from_mapping(EstimationSettings, settings['estimation'], 'settings.estimation'),
        base=ParameterSet(base_layout, _column(parameters, 'value')),
        base_std=_column(parameters, 'std', allow_none=True),
        expressions=tuple(entry['expression'] for entry in parameters),
        prior=ParameterSet(layout, _column(standards, 'prior')),
        standard=ParameterSet(layout, _column(standards, 'value')),
        standard_std=_column(standards, 'std', allow_none=True),
        document=document,
        path=path,
        effort_kind=str(settings.get('effort_kind', 'joint_torque')),
        drives=None if drives is None else from_mapping(Drives, drives, 'settings.drives'),
        notes=tuple(str(note) for note in document['identification'].get('notes', ())),
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
