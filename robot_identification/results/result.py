# SPDX-License-Identifier: Apache-2.0
"""The result of an identification, and its file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
import os
from pathlib import Path
from typing import Any, TYPE_CHECKING

import numpy as np

from ..diagnosis.disturbance import Disturbance
from ..diagnosis.recording_faults import RecordingFault
from ..errors import IdentificationError
from ..estimation.drive_gains import DriveGains
from ..estimation.energy import ENERGY
from ..estimation.estimate import Estimate
from ..estimation.predicted_errors import PredictedErrors
from ..estimation.residuals import EffortDelay, ResidualColour
from ..estimation.system import LinearSystem
from ..estimation.validation import Validation
from ..loads.payload import Payload
from ..model.consistency import ConsistencyReport
from ..model.parameters import ParameterSet
from ..model.plausibility import PlausibilityReport
from ..model.robot import Robot
from ..model.robot_document import robot_document
from ..options.document import dump, plain
from ..regressor.base_parameters import BaseStructure
from ..selection.model_selection import ModelSelection
from ..signals import Clock
from ..untrusted.writing import write_whole
from ..version import __version__
from .exported_files import ExportedFiles
from .link_knowledge import link_knowledge, LinkKnowledge
from .tables import link_table, LinkTable, ResultSettings, ResultView

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from ..figures.signal_plots import Envelope

FORMAT = 1
"""Number of the file's format; it changes when an older version could not read it."""

MARK = 'robot_identification'
"""Key of a result file's head: version, format and, if it is no usual one, kind."""

FIT_FIGURES = ('rows', 'rmse', 'relative_error', 'raw_relative_error', 'bias')
"""Figures of a joint's fit in the file, as `JointFit` has them."""


@dataclass(frozen=True)
class RecordingSummary:
    """
    Recordings that an identification used, and what they show of themselves.

    Attributes
    ----------
    names:
        Names of the recordings, in order.
    clocks:
        Statistics of the stamps of each recording, those for the validation included.
    effort_delay:
        How much later efforts were recorded than positions; None without rows.
    residuals:
        How long residuals stay alike, joint by joint; None without rows.
    diagnosis:
        What is wrong with the recordings.
    disturbances:
        Times that do not belong to the others, those that were left out included.
    signals:
        Recordings in which something shows at a time, thinned, with these times marked.

    """

    names: tuple[str, ...] = ()
    clocks: tuple[Clock, ...] = ()
    effort_delay: EffortDelay | None = None
    residuals: ResidualColour | None = None
    diagnosis: tuple[RecordingFault, ...] = ()
    disturbances: tuple[Disturbance, ...] = ()
    signals: tuple[Envelope, ...] = ()


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
    settings:
        Those of model, signals and estimation, and the kind of effort.
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
    predicted:
        Errors to expect on other motions; None where rows are not those of joints.
    recorded:
        The recordings that were used, and what is wrong with them.
    timing:
        Seconds by step.
    warnings:
        Warnings, in words.
    omissions:
        Those of them on what was left out, changed or not judged.
    drive_gains:
        Gains of the drives, where there were recordings with a known load; else None.
    payload:
        The load, where there were recordings with one that was to be identified; else None.
    selection:
        What was chosen from the recordings; None where nothing was.
    experiment:
        The content of an experiment file that repeats the run; None where nothing was chosen.
    files:
        What exported files hold of the model, and what each predicts alone; None where that is not
        known: closed loops, elastic joints, energy equations.

    """

    name: str
    robot: Robot
    settings: ResultSettings
    prior: ParameterSet
    structure: BaseStructure
    system: LinearSystem
    estimate: Estimate
    essential: Estimate | None
    standard: ParameterSet
    standard_covariance: np.ndarray | None
    consistency: ConsistencyReport
    validations: tuple[Validation, ...] = ()
    predicted: PredictedErrors | None = None
    recorded: RecordingSummary = RecordingSummary()
    timing: Mapping[str, float] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    omissions: tuple[str, ...] = ()
    drive_gains: DriveGains | None = None
    payload: Payload | None = None
    selection: ModelSelection | None = None
    experiment: Mapping[str, Any] | None = None
    plausibility: PlausibilityReport = field(default_factory=PlausibilityReport)
    files: ExportedFiles | None = None

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
                'recordings': self.recorded.names,
                'highest_speed': self.system.factor.highest_speed,
                **_figures_of(estimate),
            },
            'essential_identification': None
            if essential is None
            else {'recordings': self.recorded.names, **_figures_of(essential)},
            'validation': [validation.to_dict() for validation in self.validations],
            'predicted_errors': _dict_or_none(self.predicted),
            'files': _dict_or_none(self.files),
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
            'drive_gains': _dict_or_none(self.drive_gains),
            'payload': _dict_or_none(self.payload),
            'clock': [clock.to_dict() for clock in self.recorded.clocks],
            'effort_delay': _dict_or_none(self.recorded.effort_delay),
            'residuals': _dict_or_none(self.recorded.residuals),
            'selection': [asdict(choice) for choice in self.selection.choices]
            if self.selection
            else [],
            'experiment': self.experiment,
            'diagnosis': [finding.to_dict() for finding in self.recorded.diagnosis],
            'disturbances': [each.to_dict() for each in self.recorded.disturbances],
            'warnings': self.warnings,
            'omissions': [str(text) for text in self.omissions],
            'timing': self.timing,
            'settings': {
                'effort_kind': self.settings.effort_kind,
                'drives': None if self.settings.drives is None else asdict(self.settings.drives),
                'model': asdict(self.settings.model),
                'signals': asdict(self.settings.signals),
                'estimation': asdict(self.settings.estimation),
            },
            'covariance': [row[: i + 1] for i, row in enumerate(estimate.uncertainty.covariance)],
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
        """
        Return the links before and after, with standard deviations.

        Those of the method `physical` count with the prior's spread, which nobody knows where the
        URDF has one placeholder for all links: there are none then.
        """
        spread_unknown = self.robot.bodies_alike and self.settings.estimation.method == 'physical'
        covariance = None if spread_unknown else self.standard_covariance
        return link_table(self.prior, self.standard, covariance, self.structure.categories)

    def link_knowledge(self) -> tuple[LinkKnowledge, ...]:
        """Return what is known of the mass of each link."""
        return link_knowledge(self.link_table())

    def plot_fit(self) -> Figure:
        """
        Plot measured and predicted effort and their difference, joint by joint.

        Raises
        ------
        IdentificationError
            if the result is of factors, which have no samples to plot, or plotly is not installed.

        """
        from ..figures.fit_plots import effort_figure

        if not len(self.system.trace):
            raise IdentificationError(
                'factors have no samples to plot', remedy='identify from the recordings'
            )
        fits, trace = self.estimate.fit.joints, self.system.trace.fit(self.estimate.base.values)
        return effort_figure(trace, fits, [self.units[fit.joint] for fit in fits]).to_plotly()

    def plot_parameters(self) -> Figure:
        """Plot base parameters with two standard deviations beside the prior's."""
        from ..figures.parameter_plots import prior_figure

        return prior_figure(self.estimate, self.structure.project(self.prior)).to_plotly()

    @property
    def units(self) -> dict[str, str]:
        """Unit of the effort of each joint, of a motor behind an elastic joint, and of energy."""
        units, rows = self.robot.effort_units, self.system.factor.joints
        motors = dict(zip(rows, units * (len(rows) // len(units)), strict=False))
        return {**dict(zip(self.robot.joints, units, strict=True)), **motors, ENERGY: 'J'}

    @property
    def plausible(self) -> bool:
        """True if the model is physical, and nothing about it is implausible."""
        return self.consistency.physical and self.plausibility.plausible


def _dict_or_none(part: Any) -> Any:
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


def write_result(result: Result, path: str | os.PathLike) -> None:
    """Write a result as YAML, whole or not at all; raises OSError where that is impossible."""
    write_whole(Path(path), dump(result.to_document()))
