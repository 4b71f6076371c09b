# SPDX-License-Identifier: Apache-2.0
"""Identification problem and settings of a plan: experiment files without their recordings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
import math
import os
from pathlib import Path
from typing import Any
import warnings

import numpy as np

from ..data.drives import Drives
from ..errors import IdentificationWarning, one_of, SettingsError
from ..estimation import choose_prior
from ..estimators import EstimationSettings
from ..excitation.settings import PlannerSettings
from ..model.joint_choice import build_model
from ..model.parameters import ParameterSet
from ..model.robot import Robot, tilted_gravity
from ..model.urdf import parse_urdf
from ..model.urdf_files import read_urdf
from ..online import OnlineIdentifier
from ..options.document import Document, override, read_document
from ..options.fields import describe, from_mapping, option, settings_error
from ..regressor import build, ModelSettings, Regressor
from ..regressor import prior as urdf_prior
from ..regressor.base_parameters import BaseStructure
from ..regressor.base_search import structure
from ..selection.model_selection import ModelSelection
from ..signals import SignalSettings
from .experiment import Experiment, KnownLoad, PayloadRecordings
from .experiment_file import load_experiment
from .sources import Source

NODES = ('/**', '/**/excitation', '/excitation', 'excitation')
"""Names of the node in a parameter file, from the most general on."""


@dataclass(frozen=True)
class IdentificationProblem:
    """
    Identification problem: robot, model and methods, without recordings.

    Attributes
    ----------
    robot:
        The robot of the URDF.
    model:
        Terms of the dynamic model.
    signals:
        How recordings become samples.
    estimation:
        How samples become parameters.
    name:
        What the result is called.
    effort_kind:
        What the recorded efforts are (see `robot_identification.data.drives.EFFORT_KINDS`).
    drives:
        How recorded signals became those at the joints, for the record; the sources convert.
    known_load:
        The load of the recordings that drive gains are identified from; None for none.
    payload:
        Where the load sits that is to be identified, and how; None for none.

    """

    robot: Robot
    model: ModelSettings = field(default_factory=ModelSettings)
    signals: SignalSettings = field(default_factory=SignalSettings)
    estimation: EstimationSettings = field(default_factory=EstimationSettings)
    name: str = ''
    effort_kind: str = 'joint_torque'
    drives: Drives | None = None
    known_load: KnownLoad | None = None
    payload: PayloadRecordings | None = None

    @classmethod
    def from_experiment(cls, experiment: Experiment) -> IdentificationProblem:
        """
        Return the problem that an experiment file states; reads its URDF.

        Raises
        ------
        SettingsError
            where it leaves the gains of the drives to the recordings.
        ModelError
            as `Robot.from_urdf`.

        """
        experiment.robot.require_gains()
        return cls(
            robot=experiment.build_robot(),
            model=experiment.robot.model,
            signals=experiment.signals,
            estimation=experiment.estimation,
            name=experiment.name,
            effort_kind=experiment.robot.effort_kind,
            drives=experiment.robot.drives,
            known_load=experiment.data.known_load,
            payload=experiment.data.payload,
        )

    def with_selection(self, selection: ModelSelection) -> IdentificationProblem:
        """Return the problem with settings that were chosen."""
        gravity = tilted_gravity(self.robot.gravity.tolist(), selection.tilt.tolist())
        return replace(
            self,
            robot=self.robot.with_gravity(gravity),
            model=selection.model,
            signals=selection.signals,
        )

    def regressor(self) -> Regressor:
        """Return the regressor of the robot with the terms of `model`."""
        return build(self.robot, self.model)

    def prior(self) -> ParameterSet:
        """
        Return the standard parameters that `estimation.prior` names.

        Raises
        ------
        SettingsError
            where it is a file that cannot be read or has unknown parameters.

        """
        return choose_prior(self.estimation.prior, urdf_prior(self.robot, self.model))

    def online(
        self,
        period: float,
        *,
        base: BaseStructure | None = None,
        weights: np.ndarray | None = None,
        memory: float | None = None,
    ) -> OnlineIdentifier:
        """
        Return what identifies the robot from a stream of samples.

        Parameters
        ----------
        period:
            Usual time between samples [s].
        base:
            The base parameters, where they have been found already.
        weights:
            (n,) factor of each joint's rows; ones where None.
        memory:
            Time after which a row counts 1/e of a new one [s]; None for all alike.

        Raises
        ------
        SettingsError
            where the settings ask for what cannot be had sample by sample.

        """
        regressor = self.regressor()
        if base is None:
            base = structure(regressor, self.robot, grouping=self.model.grouping)
        return OnlineIdentifier(
            regressor,
            base,
            getattr(regressor, 'joints', self.robot.joints),
            self.signals,
            self.estimation.mrls,
            period=period,
            prior=self.prior(),
            weights=weights,
            memory=memory,
        )


@dataclass(frozen=True)
class Recordings:
    """
    Recordings of a problem, opened, by what they are for.

    Attributes
    ----------
    identification:
        To identify from.
    validation:
        That the identification does not see.
    known_load:
        With the problem's known load, for the drive gains.
    payload:
        With the load that is to be identified.

    """

    identification: tuple[Source, ...]
    validation: tuple[Source, ...] = ()
    known_load: tuple[Source, ...] = ()
    payload: tuple[Source, ...] = ()

    @classmethod
    def from_experiment(cls, experiment: Experiment, joints: tuple[str, ...]) -> Recordings:
        """Open those of an experiment; raises `RecordingError` as `Experiment.sources`."""
        return cls(*(experiment.sources(each.name, joints) for each in fields(cls)))


# --------------------------------------------------------------------------- planning


@dataclass(frozen=True)
class PlanningSettings:
    """Joints that move, settings of the planner, and terms of the regressor."""

    joints: tuple[str, ...] = option(
        (), doc='Joints that move, in the order of all lists; empty: every moving one'
    )
    locked: Mapping[str, float] = option(
        factory=dict, doc='Other moving joints and their positions', unit='rad or m'
    )
    planner: PlannerSettings = option(doc='The planner', factory=PlannerSettings)
    robot: ModelSettings = option(doc='The regressor', factory=ModelSettings)


def load_planning(
    path: str | os.PathLike | None = None, overrides: Mapping[str, Any] | None = None
) -> PlanningSettings:
    """
    Read settings of a plan.

    Parameters
    ----------
    path:
        YAML with keys of `PlanningSettings`, or a parameter file of nodes, of which the excitation
        node's are taken; None takes the defaults.
    overrides:
        Values by dotted key that replace the file's, for example ``{'planner.floor': 0.0}``; text
        is read as YAML.

    Raises
    ------
    SettingsError
        naming file, line and key.

    """
    document = Document({}) if path is None else read_document(path)
    content = document.content
    if not isinstance(content, dict):
        raise SettingsError(
            f'{document.file}: expected a mapping with the keys planner and robot',
            file=document.file,
            remedy="for example 'planner: {duration: 20.0}'",
        )
    if any(isinstance(part, dict) and 'ros__parameters' in part for part in content.values()):
        content = _of_node(content)
    try:
        override(content, overrides or {})
        return from_mapping(PlanningSettings, content)
    except SettingsError as error:
        where = '' if error.key in (overrides or {}) else document.where(error.key or '')
        message = f'{where}: {error.message}' if where else error.message
        raise settings_error(error, message, file=document.file or None) from error


def _of_node(content: dict[str, Any]) -> dict[str, Any]:
    """Return the excitation node's planning parameters of a parameter file."""
    known = {info.name for info in describe(PlanningSettings)}
    found: dict[str, Any] = {}
    for name in NODES:
        part = content.get(name)
        given = part.get('ros__parameters') if isinstance(part, dict) else None
        for key, value in (given or {}).items():
            if key in known and isinstance(value, dict):
                found[key] = {**found.get(key, {}), **_without_nan(value)}
            elif key in known:
                found[key] = value
    planner = found.get('planner', {})
    group = planner.get('obstacles')
    if isinstance(group, dict):
        names = group.get('names') or ()
        planner['obstacles'] = [{'name': name, **(group.get(name) or {})} for name in names]
    return found


def _without_nan(values: dict[str, Any]) -> dict[str, Any]:
    """Return a group of parameters with None for NaN, by which nodes write it."""
    return {
        key: None if isinstance(value, float) and math.isnan(value) else value
        for key, value in values.items()
    }


def planned_robot(
    source: str | os.PathLike, settings: PlanningSettings
) -> tuple[Robot, ModelSettings]:
    """
    Return the robot of a plan and the terms of its regressor.

    Parameters
    ----------
    source:
        A URDF or xacro file, or an experiment file, whose section ``robot`` counts then.
    settings:
        Joints and regressor, where the source is a URDF; without joints, all move but fingers of
        grippers and joints that mimic others, which a warning names.

    Raises
    ------
    ModelError, SettingsError
        naming the file, joint or link that is wrong.

    """
    if Path(source).suffix in ('.yaml', '.yml'):
        experiment = load_experiment(source, check_data=False)
        return experiment.build_robot(), experiment.robot.model
    joints, locked = settings.joints, settings.locked
    if not joints:
        joints, locked = _without_grippers(source, locked)
    return Robot.from_urdf(source, joints or None, locked=locked), settings.robot


def _without_grippers(
    source: str | os.PathLike, locked: Mapping[str, float]
) -> tuple[tuple[str, ...], Mapping[str, float]]:
    """Return the joints that move and all positions that are held, if there are grippers."""
    text, path = read_urdf(source)
    where = str(path or 'URDF')
    contents = parse_urdf(text, where)
    moving = contents.moving
    held = [name for name in contents.gripper_joints if name not in locked]
    free = set(moving) - set(held) - set(locked)
    if not held or not free:
        return (), locked
    positions = dict(locked)
    for name in held:
        mimic = moving[name].mimic
        # one that mimics a joint that is held follows it
        if mimic is None or mimic.joint in free:
            positions[name] = float(np.clip(0.0, moving[name].lower, moving[name].upper))
    warnings.warn(
        f'held while planning, since they mimic others or are fingers: {one_of(held)}; name the '
        "joints that move in 'joints' to change this",
        IdentificationWarning,
        stacklevel=3,
    )
    return tuple(name for name in build_model(text, where).names if name in free), positions
