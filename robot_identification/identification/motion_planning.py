# SPDX-License-Identifier: Apache-2.0
"""Motions planned for a URDF or an experiment file: of arms, servos, robots on their feet."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
import os
from pathlib import Path
from typing import Any
import warnings

import numpy as np

from ..config.experiment import Experiment
from ..config.experiment_file import load_experiment
from ..config.problem import planned_robot
from ..errors import IdentificationWarning, SettingsError
from ..excitation.collisions import planned_collisions
from ..excitation.criteria import EarlierInformation
from ..excitation.plan_file import points_csv, points_yaml
from ..excitation.plan_page import save_plan
from ..excitation.planner import plan
from ..excitation.planning_settings import PlanningSettings
from ..excitation.standing import standing_motion, StandingMotion
from ..model.robot import Robot
from ..model.robot_size import LIMITS, size_findings
from ..regressor import build, FloatingRegressor, ModelSettings
from ..support.progress import no_progress, Progress
from ..untrusted.writing import reported_failures, write_together

_OF_EXPERIMENT = ('robot.servo.', 'simulation.')
"""Keys that are overruled in the experiment file; all others are those of the plan."""


@dataclass(frozen=True)
class WrittenMotion:
    """A planned motion in words, its files, and the motion itself if it is one on the feet."""

    summary: str
    files: tuple[Path, ...]
    standing: StandingMotion | None = None


@dataclass(frozen=True)
class MotionTask:
    """
    Robot that a motion is to be planned for.

    Attributes
    ----------
    robot, model:
        The robot and the terms of its regressor.
    planning:
        Settings of the plan.
    experiment:
        Of servos or of a robot on its feet; None for others.
    rate:
        Of the commands of servos [Hz].

    """

    robot: Robot
    model: ModelSettings
    planning: PlanningSettings
    experiment: Experiment | None = None
    rate: float | None = None

    @property
    def floating(self) -> bool:
        """True for a robot on its feet."""
        return self.experiment is not None and self.experiment.robot.base == 'floating'

    def write(
        self,
        folder: Path | str,
        progress: Progress = no_progress,
        stopped: Callable[[], bool] = lambda: False,
        earlier: EarlierInformation | None = None,
    ) -> WrittenMotion:
        """
        Plan the motion and write its files.

        Parameters
        ----------
        folder:
            Made where it does not exist; files of the same names are replaced.
        progress, stopped, earlier:
            As `robot_identification.excitation.planner.plan`; motions on the feet use none.

        Raises
        ------
        IdentificationError
            if no motion keeps the limits, or the folder cannot be written to.

        """
        if self.floating:
            return self._on_its_feet(Path(folder))
        planner = self.planning.planner
        robot, servos = self.robot, None
        if self.experiment is not None:
            from .servo_planning import ServoPlanning  # MuJoCo is an extra

            assert self.rate is not None
            servos = ServoPlanning(self.experiment, self.rate)
            robot = servos.limited(robot)
        made = plan(robot, planner, progress, stopped, model=self.model, earlier=earlier)
        collisions = planned_collisions(robot, planner)
        files = save_plan(folder, made, robot, self.model, collisions)
        if servos is None:
            return WrittenMotion(made.summary(), files)
        commands = servos.plan(robot, made, collisions)
        texts = {'commands.csv': commands.csv(), 'commands.json': commands.json()}
        files += _written(Path(folder), texts)
        return WrittenMotion(f'{made.summary()}\n{commands.summary()}', files)

    def regressor(self) -> FloatingRegressor:
        """Return the regressor of a robot on its feet."""
        found = build(self.robot, self.model)
        assert isinstance(found, FloatingRegressor)
        return found

    def _on_its_feet(self, folder: Path) -> WrittenMotion:
        robot = self.robot
        motion = standing_motion(robot, self.regressor(), self._posture(), self.planning.standing)
        points = motion.trajectory(robot.driven_joints)
        texts = {'trajectory.csv': points_csv(points), 'trajectory.yaml': points_yaml(points)}
        lifted = int((~motion.stance).any(axis=0).sum())
        summary = (
            f'{robot.name} on {motion.stance.shape[1]} feet for {motion.time[-1]:.0f} s, '
            f'{lifted} of them lifted; the centre of pressure stays '
            f'{1e3 * motion.margin:.0f} mm inside of the support'
        )
        return WrittenMotion(summary, _written(folder, texts), motion)

    def _posture(self) -> np.ndarray:
        """Return positions (n,) of the driven joints in which the robot stands."""
        assert self.experiment is not None
        posture, joints = self.experiment.robot.posture, self.robot.driven_joints
        for joint in posture:
            if joint not in joints:
                raise SettingsError(
                    f"'robot.posture' names '{joint}', which is no driven joint",
                    key='robot.posture',
                    value=joint,
                    remedy=f'the robot has {", ".join(joints)}',
                )
        return np.array([posture.get(joint, 0.0) for joint in joints])


def planned_experiment(
    source: str | os.PathLike, overrides: Mapping[str, Any]
) -> tuple[Experiment | None, dict[str, Any]]:
    """Return the experiment that a plan is for, None for a URDF, and overrides of the plan."""
    if Path(source).suffix not in ('.yaml', '.yml'):
        return None, dict(overrides)
    own = {key: value for key, value in overrides.items() if key.startswith(_OF_EXPERIMENT)}
    experiment = load_experiment(source, own, check_data=False)
    return experiment, {key: value for key, value in overrides.items() if key not in own}


def motion_task(
    source: str | os.PathLike,
    experiment: Experiment | None,
    planning: PlanningSettings,
    rate: float | None = None,
    xacro_arguments: Mapping[str, str] | None = None,
) -> MotionTask:
    """
    Return the task of a plan; a warning names quantities of the robot that cannot be right.

    Parameters
    ----------
    source, experiment:
        A URDF or xacro file, or an experiment file, with what `planned_experiment` returns for it.
    planning:
        Settings of the plan.
    rate:
        Of the commands of servos [Hz]; None for other robots.
    xacro_arguments:
        For a xacro file.

    Raises
    ------
    ModelError, SettingsError
        naming the file, joint or link that is wrong, or a rate that is missing or has no use.

    """
    servos = experiment is not None and experiment.robot.by_commands
    if servos and rate is None:
        raise SettingsError(
            "'--rate' is missing: servos hold each command until the next one",
            remedy="give the rate of the controller's commands [Hz]",
        )
    if not servos and rate is not None:
        raise SettingsError(
            f"'--rate' is given, but '{source}' is no experiment file of servos",
            remedy='leave it out: efforts or trajectories have no rate of commands',
        )
    robot, model = planned_robot(source, planning, xacro_arguments)
    if experiment is not None and experiment.robot.base == 'floating':
        return MotionTask(robot, model, planning, experiment)
    for found in size_findings(robot):
        if found.quantity != LIMITS:
            warnings.warn(found.message, IdentificationWarning, stacklevel=2)
    return MotionTask(robot, model, planning, experiment if servos else None, rate)


def _written(folder: Path, texts: Mapping[str, str]) -> tuple[Path, ...]:
    files: dict[Path, str | bytes] = {folder / name: text for name, text in texts.items()}
    with reported_failures(folder):
        folder.mkdir(parents=True, exist_ok=True)
        write_together(files)
    return tuple(files)
