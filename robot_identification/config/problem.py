# SPDX-License-Identifier: Apache-2.0
"""Identification problem and settings of a plan: experiment files without their recordings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
import os
from pathlib import Path
import warnings

import numpy as np

from ..data.drives import Drives
from ..errors import IdentificationWarning, one_of
from ..estimation.estimators import EstimationSettings
from ..estimation.prior import choose_prior
from ..excitation.planning_settings import PlanningSettings
from ..model.joint_choice import build_model
from ..model.parameters import ParameterSet
from ..model.robot import Robot, tilted_gravity
from ..model.urdf import parse_urdf
from ..model.urdf_files import read_urdf
from ..regressor import build, ModelSettings, Regressor
from ..regressor import prior as urdf_prior
from ..regressor.kinds import kind_of, RobotKind
from ..selection.model_selection import ModelSelection
from ..signals import SignalSettings
from .experiment import Experiment, KnownLoad, PayloadRecordings
from .experiment_file import load_experiment
from .sources import Source


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

    @property
    def kind(self) -> RobotKind:
        """Kind of the robot by its mechanism."""
        return kind_of(self.robot, self.model)

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


def planned_robot(
    source: str | os.PathLike,
    settings: PlanningSettings,
    xacro_arguments: Mapping[str, str] | None = None,
) -> tuple[Robot, ModelSettings]:
    """
    Return the robot of a plan and the terms of its regressor.

    Parameters
    ----------
    source:
        A URDF or xacro file, or an experiment file, whose section ``robot`` counts then.
    settings:
        Joints and regressor, where the source is a URDF; without joints, all move but fingers of
        grippers, which a warning names; joints that mimic others follow them.
    xacro_arguments:
        Arguments for a xacro file; an experiment file has its own.

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
        joints, locked = _without_grippers(source, locked, xacro_arguments)
    robot = Robot.from_urdf(source, joints or None, locked=locked, xacro_arguments=xacro_arguments)
    return robot, settings.robot


def _without_grippers(
    source: str | os.PathLike,
    locked: Mapping[str, float],
    xacro_arguments: Mapping[str, str] | None,
) -> tuple[tuple[str, ...], Mapping[str, float]]:
    """Return the joints that move and all positions that are held, if there are grippers."""
    text, path = read_urdf(source, xacro_arguments)
    where = str(path or 'URDF')
    contents = parse_urdf(text, where)
    moving = contents.moving
    mimics = {name for name, joint in moving.items() if joint.mimic is not None}
    held = [name for name in contents.gripper_joints if name not in {*locked, *mimics}]
    free = set(moving) - set(held) - set(locked) - mimics
    if not held or not free:
        return (), locked
    positions = dict(locked)
    for name in held:  # those that mimic them follow
        positions[name] = float(np.clip(0.0, moving[name].lower, moving[name].upper))
    warnings.warn(
        f'held while planning, since they are fingers: {one_of(held)}; name the joints that move '
        "in 'joints' to change this",
        IdentificationWarning,
        stacklevel=3,
    )
    return tuple(name for name in build_model(text, where).names if name in free), positions
