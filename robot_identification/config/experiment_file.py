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
import os
from pathlib import Path
from typing import Any
import warnings

from ..errors import (
    IdentificationError,
    IdentificationWarning,
    ModelError,
    RecordingError,
    SettingsError,
)
from ..estimation.settings import EstimationSettings
from ..model.robot import Robot
from ..options.document import Document, nearest, override, read_document
from ..options.fields import from_mapping, walk
from ..untrusted.files import user_path
from .experiment import Experiment
from .experiment_checks import check_experiment


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
        URDF that is no robot or has not the joints that are named.

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
            remedy='see docs/reference/experiment.md',
        )
    content = copy.deepcopy(document.content)
    try:
        override(content, overrides or {})
        experiment = from_mapping(Experiment, content)
        experiment = replace(experiment, path=path, base=Path(base), content=content)
        experiment = replace(experiment, estimation=_absolute_files(experiment))
        robot = _checked_robot(experiment)
        check_experiment(experiment, robot, check_data=check_data)
    except (SettingsError, RecordingError) as error:
        raise _located(error, document, overrides or {}) from error
    return experiment


def repeated(experiment: Experiment, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """
    Return an experiment file's content with chosen settings, so that nothing is chosen again.

    Parameters
    ----------
    experiment:
        The experiment.
    chosen:
        Values by dotted key.

    Returns
    -------
    Mapping as in a file; its paths are absolute.

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
            raise SettingsError(
                f"'{key}': {error.message}",
                remedy=error.remedy,
                joint=error.joint,
                link=error.link,
                file=error.file,
                key=key,
                value=error.value,
            ) from error


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
    return SettingsError(
        f'{where}: {message}' if where else message,
        remedy=remedy,
        joint=error.joint,
        link=error.link,
        file=error.file or document.file or None,
        key=key or None,
        value=error.value,
    )


def _full_key(key: str) -> str:
    """Complete the key of a section that checked itself, with the section's path."""
    if not key or key.partition('.')[0].partition('[')[0] in {f.name for f in fields(Experiment)}:
        return key
    return next((path for path, _ in walk(Experiment) if path.endswith(f'.{key}')), key)
