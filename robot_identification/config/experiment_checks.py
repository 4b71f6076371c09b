# SPDX-License-Identifier: Apache-2.0
"""Checks of an experiment file that concern several of its keys, or the files it names."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..data.drives import Drives
from ..data.motor_side import check_sides
from ..data.recording_config import RecordingEntry
from ..errors import ModelError, one_of, SettingsError
from ..model.robot import Robot
from ..regressor import build
from ..signals.settings import dead_zones
from .experiment import Experiment, RobotSettings
from .sections import LoadRecordings


def check_experiment(experiment: Experiment, robot: Robot, *, check_data: bool = True) -> None:
    """
    Check combinations of keys.

    Parameters
    ----------
    experiment:
        Settings whose keys are right one by one.
    robot:
        The robot that they describe.
    check_data:
        Whether there has to be a recording to identify from, and every recording's file to exist.

    Raises
    ------
    SettingsError
        naming the key of the first thing that does not fit.
    RecordingError
        naming a recording's file that does not exist.

    """
    _check_drives(experiment.robot, robot)
    _check_coupled_drives(experiment.robot, robot)
    _check_model(experiment.robot, robot)
    dead_zones(experiment.signals, robot.joints)
    _check_files(experiment)
    _check_loads_of_delta(experiment)
    _check_known_load(experiment, robot)
    if experiment.data.payload is not None:
        check_load(experiment.data.payload, 'data.payload', robot)
    if not check_data:
        return
    if not experiment.data.identification:
        raise SettingsError(
            "'data.identification' lists no recording",
            key='data.identification',
            remedy='give at least one, for example {file: run.csv, format: csv, ...}',
        )
    for kind in experiment.data.kinds:
        for path, entry in experiment.data.entries(kind):
            _check_recording(entry, experiment, robot, path)


def _check_loads_of_delta(experiment: Experiment) -> None:
    # its thirteen columns hold no link's ten parameters, which a load would add to
    if experiment.robot.delta is None:
        return
    for key in ('payload', 'known_load'):
        if getattr(experiment.data, key) is not None:
            raise SettingsError(
                f"'data.{key}' is given beside 'robot.delta'",
                key=f'data.{key}',
                remedy='leave it out: a load on the platform is the difference of two '
                "identifications' platform.m4",
            )


def _check_known_load(experiment: Experiment, robot: Robot) -> None:
    load, drives = experiment.data.known_load, experiment.robot.drives
    if load is None:
        return
    check_load(load, 'data.known_load', robot)
    if experiment.robot.elastic is not None:
        raise SettingsError(
            "'data.known_load' is given beside 'robot.elastic'",
            key='data.known_load',
            remedy='identify drive gains with the joints taken as stiff, or leave the load out',
        )
    if drives is not None and drives.effort is not None:
        width = len(drives.effort.matrix[0])
        if width != robot.n_joints:
            raise SettingsError(
                f"'robot.drives.effort.matrix' takes {width} recorded efforts for "
                f"{robot.n_joints} joints, but 'data.known_load' is given",
                key='robot.drives.effort.matrix',
                remedy='drive gains need one recorded effort for each joint; give a square matrix',
            )


def check_load(load: LoadRecordings, key: str, robot: Robot) -> None:
    """
    Check that there are recordings with a load, and that something moves it.

    Raises
    ------
    SettingsError
        naming the part of ``key`` that is missing or wrong.

    """
    if not load.recordings:
        raise SettingsError(
            f"'{key}.recordings' lists no recording",
            key=f'{key}.recordings',
            remedy='give at least one of the robot carrying the load',
        )
    try:
        robot.attachment(load.frame)
    except ModelError as error:
        raise SettingsError(
            f"'{key}.frame': {error.message}",
            key=f'{key}.frame',
            value=load.frame,
            link=error.link,
            remedy=error.remedy,
        ) from error


def _check_recording(
    entry: RecordingEntry, experiment: Experiment, robot: Robot, path: str
) -> None:
    drives, base, elastic = experiment.robot.drives, experiment.base, experiment.robot.elastic
    if entry.is_factor:
        entry.check_factor(base, path)
    elif elastic is None:
        entry.check(robot.joints, drives, base, path)
    else:
        check_sides(entry, robot.joints, drives or Drives(), elastic, base, path)


def _check_drives(settings: RobotSettings, robot: Robot) -> None:
    drives, kind = settings.drives, settings.effort_kind
    if drives is not None:
        drives.check(robot.n_joints, 'robot.drives')
    has_effort = drives is not None and drives.effort is not None
    if kind == 'motor_torque' and not has_effort:
        raise SettingsError(
            f"'robot.effort_kind' is {kind}, but 'robot.drives.effort' is missing",
            key='robot.effort_kind',
            value=kind,
            remedy='give drives.effort.matrix, with which joint torque = matrix @ recorded effort',
        )
    if settings.open_gains:
        _check_open_gains(settings)
    if kind == 'joint_torque' and has_effort:
        raise SettingsError(
            "'robot.drives.effort' is given, but 'robot.effort_kind' is joint_torque",
            key='robot.drives.effort',
            remedy='leave the matrix out, or use motor_torque or motor_current',
        )


def _check_open_gains(settings: RobotSettings) -> None:
    """Check that gains can be found: there are bodies with a prior, and one drive a joint."""
    for key in ('elastic', 'delta', 'loops'):
        if getattr(settings, key):
            raise SettingsError(
                f"'robot.{key}' is given, but not the gains of the drives",
                key='robot.drives.effort',
                remedy='give drives.effort.matrix, with which joint torque = matrix @ recorded '
                'effort',
            )
    effort = None if settings.drives is None else settings.drives.effort
    if effort is None:
        return
    matrix = np.array(effort.matrix)
    if np.count_nonzero(matrix - np.diag(np.diag(matrix))) or not np.diag(matrix).all():
        raise SettingsError(
            "'robot.drives.effort.gains' is ratios, but the matrix is not diagonal",
            key='robot.drives.effort.gains',
            value=effort.gains,
            remedy='ratios are found for one drive a joint: take given',
        )


def _check_coupled_drives(settings: RobotSettings, robot: Robot) -> None:
    for i, coupled in enumerate(settings.coupled_drives):
        key = f'robot.coupled_drives[{i}]'
        named = [(f'{key}.motor', coupled.motor)]
        named += [(f'{key}.joints[{k}]', joint) for k, joint in enumerate(coupled.joints)]
        for path, joint in named:
            if joint not in robot.joints:
                raise SettingsError(
                    f"'{path}': joint '{joint}' is not among the identified joints",
                    key=path,
                    joint=joint,
                    remedy=f'they are {one_of(robot.joints)}',
                )


def _check_model(settings: RobotSettings, robot: Robot) -> None:
    """Build the regressor, which raises for terms of the model that do not fit the robot."""
    for joint in settings.assembly:
        if joint not in robot.opened.joints or not settings.loops:
            raise SettingsError(
                f"'robot.assembly.{joint}': joint '{joint}' is not part of a loop",
                key=f'robot.assembly.{joint}',
                joint=joint,
                remedy=f'name some of {one_of(robot.opened.joints)}'
                if settings.loops
                else 'leave assembly out where there are no loops',
            )
    try:
        build(robot, settings.model)
    except ModelError as error:
        key = 'robot.loops' if settings.loops else 'robot.urdf'
        raise SettingsError(
            f"'{key}': {error.message}",
            remedy=error.remedy,
            joint=error.joint,
            link=error.link,
            key=key,
            value=error.value,
        ) from error


def _check_files(experiment: Experiment) -> None:
    """Check that the files exist that the estimation starts from."""
    settings = experiment.estimation
    prior = settings.prior
    own = prior in (None, 'none', 'urdf') or '://' in prior
    if not own and not _is_file(Path(prior)):
        raise SettingsError(
            f"'estimation.prior': file '{prior}' does not exist",
            key='estimation.prior',
            file=prior,
            remedy='use none, urdf, or the path of a YAML file of parameters',
        )
    bounds = settings.mrls.bounds_file
    if bounds is not None and not Path(bounds).is_file():
        raise SettingsError(
            f"'estimation.mrls.bounds_file': file '{bounds}' does not exist",
            key='estimation.mrls.bounds_file',
            file=bounds,
            remedy='give the path of a YAML of names and [lowest, highest], or leave it out',
        )


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name that is too long for the file system
        return False
