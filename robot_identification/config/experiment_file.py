# SPDX-License-Identifier: Apache-2.0
"""
The experiment file: one YAML file that describes an identification completely.

It is validated as a whole before anything runs.  Every error is one line that gives the file's
line and the full path of the key at fault.  Relative paths start at the file.  The nodes'
parameters and the command line's ``--set`` use the same keys.
"""

from __future__ import annotations

from collections.abc import Mapping
import copy
from dataclasses import fields, replace
import json
import os
from pathlib import Path
from typing import Any
import warnings

import numpy as np

from ..data.drives import Drives
from ..errors import (
    IdentificationError,
    IdentificationWarning,
    ModelError,
    one_of,
    RecordingError,
    SettingsError,
)
from ..estimation.estimators import EstimationSettings, ESTIMATORS, ROLLOUT, SERVO_METHODS
from ..model.robot import Robot
from ..model.targets import TARGETS
from ..options.document import Document, nearest, override, read_document
from ..options.fields import from_mapping, json_schema, key_error, settings_error, walk
from ..regressor import build
from ..servo.settings import ServoSettings
from ..signals.settings import by_joint
from ..untrusted.files import user_path
from ..version import page, REPOSITORY
from .commands import check_commands
from .experiment import Experiment, RobotSettings
from .sources import check_recording
from .target import check_target, limit_to_target
from .wrenches import check_wrench

SCHEMA = Path(__file__).with_name('experiment.schema.json')
"""JSON schema of the experiment file; a test keeps it up to date."""

_ADDRESS = f'{REPOSITORY}/raw/main/robot_identification/config/{SCHEMA.name}'

MODELINE = f'# yaml-language-server: $schema={_ADDRESS}'
"""First line of an experiment file, by which editors on any machine find the schema."""


def schema_text() -> str:
    """Return the schema of the experiment file as it is in `SCHEMA`."""
    schema = json_schema(Experiment, 'Experiment file of robot_identification')
    return f'{json.dumps(schema, indent=1, ensure_ascii=False)}\n'


def load_experiment(
    path: str | os.PathLike,
    overrides: Mapping[str, Any] | None = None,
    *,
    check_data: bool = True,
) -> Experiment:
    """
    Read an experiment file and validate it as a whole.

    Parameters
    ----------
    path:
        The YAML file, or a ``result.yaml`` that holds the experiment which repeats it.
    overrides:
        Values by dotted key that replace the file's, for example ``{'signals.cutoff': '25'}``;
        text is read as YAML.
    check_data:
        As for `experiment_from`.

    Raises
    ------
    SettingsError
        in one line with the file's line and the key's full path: YAML that cannot be read, a key
        that is unknown, missing or there twice, a wrong type, range or shape, a missing file, a
        URDF that is no robot or lacks joints that are named.

    """
    document = read_document(path)
    if isinstance(document.content, dict) and isinstance(document.content.get('experiment'), dict):
        # a result, which holds the experiment that repeats it
        document = Document(document.content['experiment'], file=document.file)
    return experiment_from(
        document,
        Path(path).parent,
        overrides=overrides,
        path=Path(path),
        check_data=check_data,
    )


def experiment_from(
    document: Document | Mapping,
    base: str | os.PathLike = '.',
    *,
    overrides: Mapping[str, Any] | None = None,
    path: Path | None = None,
    check_data: bool = True,
) -> Experiment:
    """
    Make an experiment from settings that are already in memory.

    Parameters
    ----------
    document:
        The settings, with or without their places in a file.
    base:
        Folder at which relative paths start.
    overrides:
        As for `load_experiment`.
    path:
        The file that the settings came from.
    check_data:
        Whether there has to be a recording to identify from, and every recording's file to exist.

    Raises
    ------
    SettingsError
        as `load_experiment`.

    """
    if not isinstance(document, Document):
        document = Document(document)
    if not isinstance(document.content, dict):
        raise SettingsError(
            f'{document.file or "settings"}: expected a mapping with the keys robot and data',
            file=document.file,
            remedy=f'see {page("reference/experiment")}',
        )
    content = copy.deepcopy(document.content)
    try:
        override(content, overrides or {})
        limit_to_target(content)
        experiment = from_mapping(Experiment, content)
        experiment = replace(experiment, path=path, base=Path(base), content=content)
        experiment = replace(experiment, estimation=_absolute_files(experiment))
        robot = _checked_robot(experiment)
        _check_experiment(experiment, robot, check_data=check_data)
    except (SettingsError, RecordingError) as error:
        raise _located(error, document, overrides or {}) from error
    return experiment


def reproducible_content(experiment: Experiment, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """
    Return an experiment file's content with chosen settings, so that nothing is chosen again.

    ``chosen`` has values by dotted key.  The paths of the result are absolute.
    """
    content = copy.deepcopy(dict(experiment.content))
    for key, value in chosen.items():
        section, _, name = key.partition('.')
        if content.get(section) is None:
            content[section] = {}
        content[section][name] = value
    content['auto'] = False
    robot, estimation = content.get('robot') or {}, content.get('estimation') or {}
    for mapping, key in ((robot, 'urdf'), (estimation, 'prior')):
        text = mapping.get(key)
        if not isinstance(text, str) or '://' in text or text.lstrip().startswith('<'):
            continue
        if text not in ('', 'none', 'urdf'):
            mapping[key] = str((experiment.base / user_path(text)).absolute())
    _make_absolute(content.get('data'), experiment.base)
    return content


def _make_absolute(node: Any, base: Path) -> None:
    """Make the values of all keys ``file`` in mappings and lists absolute paths."""
    if isinstance(node, dict):
        if isinstance(node.get('file'), str):
            node['file'] = str((base / user_path(node['file'])).absolute())
        for value in node.values():
            _make_absolute(value, base)
    elif isinstance(node, list):
        for value in node:
            _make_absolute(value, base)


def _absolute_files(experiment: Experiment) -> EstimationSettings:
    """Let the paths of the prior and the bounds start at the experiment file."""
    settings = experiment.estimation
    if settings.mrls.bounds_file is not None:
        path = str(experiment.base / user_path(settings.mrls.bounds_file))
        settings = replace(settings, mrls=replace(settings.mrls, bounds_file=path))
    if settings.prior in (None, 'none', 'urdf') or '://' in settings.prior:
        return settings
    return replace(settings, prior=str(experiment.base / user_path(settings.prior)))


def _checked_robot(experiment: Experiment) -> Robot:
    """Build the robot once, to check the rest against it; its warnings come when it is used."""
    settings = experiment.robot
    with warnings.catch_warnings():
        warnings.simplefilter('ignore', IdentificationWarning)
        try:
            return experiment.build_robot()
        except ModelError as error:
            key = 'robot.joints' if settings.joints == () else 'robot.urdf'
            joints = settings.joints or ()
            if error.joint is not None and error.joint in joints:
                key = f'robot.joints[{joints.index(error.joint)}]'
            elif error.joint is not None and error.joint in settings.locked:
                key = f'robot.locked.{error.joint}'
            raise settings_error(error, f"'{key}': {error.message}", key=key) from error


def _located(error: IdentificationError, document: Document, overrides: Mapping) -> SettingsError:
    """Add to ``error`` the place in the file and the key that was probably meant."""
    key, message, remedy = error.key or '', error.message, error.remedy
    if message.startswith('unknown key'):
        meant = nearest(Experiment, key)
        if meant is not None:
            remedy = f"did you mean '{meant}'? {remedy}"
    else:
        key = _full_key(key)
        if key and f"'{key}'" not in message:
            message = f"'{key}': {message}"
    overridden = any(key == name or key.startswith((f'{name}.', f'{name}[')) for name in overrides)
    where = document.file if overridden else document.where(key)
    message = f'{where}: {message}' if where else message
    file = error.file or document.file or None
    return settings_error(error, message, remedy=remedy, file=file, key=key or None)


def _full_key(key: str) -> str:
    """Complete the key of a section that checked itself, with the section's path."""
    if not key or key.partition('.')[0].partition('[')[0] in {f.name for f in fields(Experiment)}:
        return key
    return next((path for path, _ in walk(Experiment) if path.endswith(f'.{key}')), key)


# --------------------------------------------------------------------------- checks


def _check_experiment(experiment: Experiment, robot: Robot, *, check_data: bool = True) -> None:
    """
    Check combinations of keys; parameters as of `experiment_from`.

    Raises
    ------
    SettingsError
        naming the key of the first thing that does not fit.
    RecordingError
        naming a recording's file that does not exist.

    """
    settings, data = experiment.robot, experiment.data
    _check_drives(settings, robot)
    check_target(settings, experiment.simulation.target)
    _check_servo(experiment, robot)
    _check_model(settings, robot)
    by_joint(experiment.signals, 'dead_zone', robot.joints)
    _check_files(experiment)
    _check_loads(experiment, robot)
    if not check_data:
        return
    if not data.identification:
        remedy = 'give at least one, for example {file: run.csv, format: csv, ...}'
        raise key_error('data.identification', 'lists no recording', remedy)
    drives = settings.drives or Drives()
    for kind in data.kinds:
        for path, entry in data.entries(kind):
            if kind == 'tool':
                check_wrench(entry, robot.joints, drives, experiment.base, path)
                continue
            if settings.servo is not None:
                check_commands(entry, robot.driven_joints, drives, experiment.base, path)
                continue
            check_recording(entry, robot.joints, drives, experiment.base, path, settings.elastic)


def _check_loads(experiment: Experiment, robot: Robot) -> None:
    """Check that there are recordings with a load, and that something moves it."""
    settings, drives = experiment.robot, experiment.robot.drives
    for name in ('payload', 'known_load', 'tool'):
        load, key = getattr(experiment.data, name), f'data.{name}'
        if load is None:
            continue
        if settings.delta is not None:
            # its thirteen columns hold no link's ten parameters, which a load would add to
            remedy = (
                "leave it out: a load on the platform is the difference of two identifications' "
                'platform.m4'
            )
            raise key_error(key, "is given beside 'robot.delta'", remedy)
        if not load.recordings:
            remedy = 'give at least one of the robot carrying the load'
            raise key_error(f'{key}.recordings', 'lists no recording', remedy)
        try:
            robot.attachment(load.frame)
        except ModelError as error:
            key = f'{key}.frame'
            message = f"'{key}': {error.message}"
            raise settings_error(error, message, key=key, value=load.frame) from error
    if experiment.data.known_load is None:
        return
    if settings.elastic is not None:
        remedy = 'identify drive gains with the joints taken as stiff, or leave the load out'
        raise key_error('data.known_load', "is given beside 'robot.elastic'", remedy)
    width = robot.n_joints if not drives or not drives.effort else len(drives.effort.matrix[0])
    if width != robot.n_joints:
        raise key_error(
            'robot.drives.effort.matrix',
            f"takes {width} recorded efforts for {robot.n_joints} joints, but 'data.known_load' "
            'is given',
            'drive gains need one recorded effort for each joint; give a square matrix',
        )


def _check_servo(experiment: Experiment, robot: Robot) -> None:
    """Check gains, and that nothing is asked for that recordings of commands do not give."""
    settings = experiment.robot
    method = experiment.estimation.method
    if settings.servo is None or not settings.by_commands:
        if settings.servo is not None:
            _check_gains(settings.servo, robot.driven_joints)
        if method == ROLLOUT:
            text = 'is rollout, which is for servos of a robot whose base is fixed'
            raise key_error('estimation.method', text, f'set it to one of {one_of(ESTIMATORS)}')
        return
    _check_gains(settings.servo, robot.joints)
    settings.servo.bus_numbers(robot.joints)
    method = experiment.servo_method
    if method not in SERVO_METHODS:
        text = f"is {method}, but 'robot.effort_kind' is servo_command"
        raise key_error('estimation.method', text, f'set it to {one_of(SERVO_METHODS)}')
    if method != ROLLOUT and settings.servo.gains != 'given':
        text = f'is {settings.servo.gains}, but by least squares alone factors on gains vanish'
        remedy = 'name a simulator (simulation.timestep, simulation.integrator), or give the gains'
        if 'estimation.method' in experiment.given:
            remedy = 'set estimation.method to rollout, or give the gains'
        raise key_error('robot.servo.gains', text, remedy)
    for key in ('elastic', 'delta', 'loops', 'coupled_drives', 'joint_springs'):
        if getattr(settings, key):
            text = "is given, but 'robot.effort_kind' is servo_command"
            raise key_error(f'robot.{key}', text, 'leave it out: servos move a tree of links')
    for key in ('known_load', 'payload'):
        if getattr(experiment.data, key) is not None:
            text = "is given, but 'robot.effort_kind' is servo_command"
            raise key_error(f'data.{key}', text, 'leave it out: commands do not determine masses')
    target = experiment.simulation.target
    foreign = target is not None and not TARGETS[target].mjcf
    needed = experiment.simulation.named or method == ROLLOUT
    if foreign or (needed and settings.mjcf(experiment.base) is None):
        experiment.simulation.require()


def _check_gains(servo: ServoSettings, joints: tuple[str, ...]) -> None:
    for name in ('stiffness', 'damping', *(['limit'] if servo.limit else [])):
        servo.per_joint(name, joints)


def _check_drives(settings: RobotSettings, robot: Robot) -> None:
    drives, kind = settings.drives, settings.effort_kind
    if drives is not None:
        drives.check(robot.n_joints, 'robot.drives')
    has_effort = drives is not None and drives.effort is not None
    matrix = 'give drives.effort.matrix, with which joint torque = matrix @ recorded effort'
    if kind == 'motor_torque' and not has_effort:
        text = f"is {kind}, but 'robot.drives.effort' is missing"
        raise key_error('robot.effort_kind', text, matrix, value=kind)
    if settings.open_gains:
        # gains are found for bodies with a prior, and one drive a joint
        for name in ('elastic', 'delta', 'loops'):
            if getattr(settings, name):
                raise SettingsError(
                    f"'robot.{name}' is given, but not the gains of the drives",
                    key='robot.drives.effort',
                    remedy=matrix,
                )
        effort = None if drives is None else drives.effort
        given = np.eye(1) if effort is None else np.array(effort.matrix)
        if not np.array_equal(given != 0.0, np.eye(len(given))):
            text = 'is ratios, but the matrix is not diagonal'
            remedy = 'ratios are found for one drive a joint: take given'
            raise key_error('robot.drives.effort.gains', text, remedy, value='ratios')
    entries = () if drives is None or drives.effort is None else drives.effort.matrix
    if kind == 'joint_torque' and not {abs(e) for row in entries for e in row} <= {0.0, 1.0}:
        raise key_error(
            'robot.drives.effort.matrix',
            "has gains, but 'robot.effort_kind' is joint_torque",
            'leave the matrix out, give -1 where the sign is another one, or use motor_torque or '
            'motor_current',
        )
    for i, coupled in enumerate(settings.coupled_drives):
        named = {'motor': coupled.motor}
        named |= {f'joints[{k}]': joint for k, joint in enumerate(coupled.joints)}
        for name, joint in named.items():
            if joint not in robot.joints:
                key = f'robot.coupled_drives[{i}].{name}'
                raise SettingsError(
                    f"'{key}': joint '{joint}' is not among the identified joints",
                    key=key,
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
        raise settings_error(error, f"'{key}': {error.message}", key=key) from error


def _check_files(experiment: Experiment) -> None:
    """Check that the files exist that the estimation starts from."""
    prior, bounds = experiment.estimation.prior, experiment.estimation.mrls.bounds_file
    own = prior in (None, 'none', 'urdf') or '://' in prior
    for key, file, remedy in (
        ('prior', None if own else prior, 'use none, urdf, or the path of a YAML of parameters'),
        (
            'mrls.bounds_file',
            bounds,
            'give the path of a YAML of names and [lowest, highest], or leave it out',
        ),
    ):
        if file is not None and not os.path.isfile(file):
            key = f'estimation.{key}'
            message = f"'{key}': file '{file}' does not exist"
            raise SettingsError(message, key=key, file=file, remedy=remedy)
