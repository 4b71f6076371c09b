# SPDX-License-Identifier: Apache-2.0
"""The call for Python: identification from files or memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
import os
from pathlib import Path
from typing import Any, TYPE_CHECKING
import warnings

import numpy as np

from ..config.experiment import Experiment
from ..config.experiment_file import experiment_from
from ..config.sources import ArrayEntry
from ..data.column_names import ColumnGuess, guess_by_name
from ..data.columns import TIME_UNITS
from ..data.commands import CommandRecording
from ..data.drives import Drives
from ..data.recording import Recording, recording_error, SIGNALS
from ..data.recording_config import RecordingEntry
from ..data.sampling import likely_unit
from ..drafting.command_columns import command_entry
from ..drafting.entry_guess import guess_entry, merge_signal_tables, with_time_unit
from ..errors import IdentificationWarning, one_of, SettingsError, unique_texts
from ..model.robot import Robot
from ..model.urdf_repair import robot_with_inertia
from ..options.fields import from_mapping, to_mapping
from ..results.result import Result
from ..servo.settings import SERVO_COMMAND
from ..support.progress import no_progress, Progress
from ..support.threads import on_one_thread
from . import pipeline

if TYPE_CHECKING:
    from ..results.servo_result import ServoResult

Data = Any
"""A recording: `Recording`, data frame, arrays or columns by name, entry of a file, or path."""


@on_one_thread
def identify(
    robot: Experiment | Robot | str | os.PathLike,
    recordings: Data | Sequence[Data] | None = None,
    *,
    validation: Data | Sequence[Data] = (),
    settings: Mapping[str, Any] | None = None,
    progress: Progress = no_progress,
) -> Result | ServoResult:
    """
    Identify a robot; what ``settings`` leave out is chosen from the recordings.

    Parameters
    ----------
    robot:
        A URDF or xacro file, the text of a URDF, a `Robot`, or an `Experiment`, which has all
        else in it.
    recordings:
        One or more to identify from.  Each is one of

        - ``{'time': t, 'position': q, 'effort': tau}``: arrays (n_samples,) [s], (n_samples,
          n_joints) [rad or m] and [N m or N], and ``velocity`` if it was measured; ``rate`` [Hz]
          may stand in for ``time``, and ``time_unit`` may be ``ms``, ``us`` or ``ns``,
        - a data frame, or ``{'frame': frame, 'rate': 200}`` where it has no stamps, whose columns
          are guessed by their names as ``robot-identification init`` does; the result's
          ``warnings`` name them,
        - ``{'frame': frame, 'time': 't', 'position': ['q1', ...], ...}``: a data frame with names
          of its columns,
        - ``{'file': 'run.csv', 'time': 't', 'position': [...], ...}``: an entry of
          ``data.identification`` of an experiment file,
        - the path of a file, whose columns are guessed likewise (``{'file': ..., 'rate': ...}``
          where there are no stamps),
        - a `Recording`, whose signals are at the joints,
        - with ``robot.effort_kind: servo_command`` the same with ``command`` in place of
          ``effort``, as arrays, files or `data.commands.CommandRecording`.
    validation:
        Likewise recordings that the identification does not see.
    settings:
        Sections of an experiment file, for example ``{'robot': {'effort_kind': 'joint_torque'},
        'signals': {'cutoff': 20}}``.
    progress:
        Called with the share that is done, and what is being done.

    Raises
    ------
    IdentificationError
        of the kind that fits: a setting that is missing, such as ``robot.effort_kind``, which is
        never guessed; a recording that cannot be used, a joint that is not excited, ...

    """
    if isinstance(robot, Experiment):
        if recordings is not None or validation or settings:
            raise SettingsError(
                'an experiment has its recordings and settings in it',
                key='data',
                remedy='give it alone, or a URDF with recordings and settings',
            )
        if robot.robot.by_commands:
            from .servo_pipeline import identify_servo  # needs MuJoCo, an extra

            return identify_servo(robot, progress=progress)
        return pipeline.identify(robot, progress=progress)
    if recordings is None:
        raise SettingsError(
            'there is no recording to identify from', key='data', remedy='give one after the URDF'
        )
    kinds = {'identification': _several(recordings), 'validation': _several(validation)}
    section = {**_robot_section(robot), **((settings or {}).get('robot') or {})}
    if section.get('effort_kind') == SERVO_COMMAND and section.get('base') != 'floating':
        return _identify_commands(section, kinds, settings or {}, progress)
    experiment, remarks = _experiment(robot, kinds, settings or {})
    result = pipeline.identify(experiment, progress=progress)
    return replace(result, name=result.robot.name, warnings=unique_texts(remarks, result.warnings))


def _identify_commands(
    section: Mapping[str, Any],
    kinds: Mapping[str, Sequence[Data]],
    settings: Mapping[str, Any],
    progress: Progress,
) -> ServoResult:
    """Identify servos; parameters as of `identify`, with the robot's section."""
    from .servo_pipeline import identify_servo

    joints = _joints(section)
    files: dict[str, list[Any]] = {kind: [] for kind in kinds}
    arrays: dict[str, list[CommandRecording]] = {kind: [] for kind in kinds}
    for kind, recordings in kinds.items():
        for data in recordings:
            if isinstance(data, CommandRecording):
                arrays[kind].append(data)
            elif isinstance(data, Mapping) and 'file' not in data:
                arrays[kind].append(_commands(data, joints, kind))
            else:
                files[kind].append(_command_file(data, joints))
    content = {
        **{name: _as_in_a_file(value) for name, value in settings.items()},
        'robot': _as_in_a_file({**section, 'joints': joints}),
        'data': {**(settings.get('data') or {}), **files},
    }
    experiment = experiment_from(content, check_data=not arrays['identification'])
    return identify_servo(experiment, recordings=arrays, progress=progress)


_COMMANDS = ('time', 'position', 'command', 'velocity', 'command_velocity', 'feedforward')


def _commands(data: Mapping[str, Any], joints: tuple[str, ...], name: str) -> CommandRecording:
    """Return a recording of arrays by name."""
    for needed in _COMMANDS[:3]:
        if needed not in data:
            text = f'has no {needed}'
            raise recording_error(name, text, f'give arrays {one_of(_COMMANDS[:3])}')
    unknown = [key for key in data if key not in _COMMANDS]
    if unknown:
        remedy = f'its signals are {one_of(_COMMANDS)}'
        raise recording_error(name, f"has a signal '{unknown[0]}'", remedy)
    signals = {key: np.asarray(value, dtype=float) for key, value in data.items()}
    return CommandRecording(joints=joints, source=name, **signals)


def _command_file(data: Data, joints: tuple[str, ...]) -> dict[str, Any]:
    """Return the entry of a file, its columns recognised where none are named."""
    entry = dict(data) if isinstance(data, Mapping) else {'file': data}
    entry['file'] = os.fspath(entry['file'])
    if entry.keys() <= {'file', 'rate'}:
        found = to_mapping(command_entry(Path(entry['file']), joints, entry.get('rate')))
        entry = {key: value for key, value in found.items() if value != getattr(_BARE, key)}
    return entry


def _several(data: Data | Sequence[Data]) -> Sequence[Data]:
    alone = isinstance(
        data, (Recording, CommandRecording, Mapping, str, os.PathLike)
    ) or _is_frame(data)
    return (data,) if alone else tuple(data)


def _is_frame(data: Data) -> bool:
    return hasattr(data, 'columns')


def _experiment(
    robot: Robot | str | os.PathLike,
    kinds: Mapping[str, Sequence[Data]],
    settings: Mapping[str, Any],
) -> tuple[Experiment, tuple[str, ...]]:
    """Return the experiment of recordings and settings, and remarks on what was guessed."""
    files: dict[str, list[Any]] = {kind: [] for kind in kinds}
    arrays: dict[str, list[ArrayEntry]] = {kind: [] for kind in kinds}
    at_joints = True
    section = {**_robot_section(robot), **(settings.get('robot') or {})}
    remarks: tuple[str, ...] = ()
    for kind, recordings in kinds.items():
        for number, data in enumerate(recordings, 1):
            name = kind if len(recordings) == 1 else f'{kind} {number}'
            if isinstance(data, Recording):
                signals = {s: getattr(data, s) for s in SIGNALS}
                arrays[kind].append(ArrayEntry(data.source, data.time, **signals))
                continue
            at_joints = False
            if _is_frame(data):
                data = {'frame': data}
            if isinstance(data, Mapping) and 'frame' in data and not {*SIGNALS} & data.keys():
                found, remark = _recognised(data, section, name)
                arrays[kind].append(found)
                remarks += (remark,)
            elif isinstance(data, Mapping) and 'file' not in data:
                arrays[kind].append(ArrayEntry.from_mapping(data, name))
            else:
                entry = data if isinstance(data, Mapping) else {'file': data}
                files[kind].append({**entry, 'file': os.fspath(entry['file'])})
    if at_joints:
        section.setdefault('effort_kind', 'joint_torque')
    files, more = _completed(files, section)
    remarks += more
    content = {
        **{name: _as_in_a_file(value) for name, value in settings.items()},
        'robot': _as_in_a_file(section),
        'data': {**(settings.get('data') or {}), **files},
    }
    experiment = experiment_from(content, check_data=not arrays['identification'])
    known = {kind: tuple(entries) for kind, entries in arrays.items()}
    return replace(experiment, arrays=known), remarks


def _completed(
    files: Mapping[str, Sequence[Mapping[str, Any]]], section: dict[str, Any]
) -> tuple[dict[str, list[Any]], tuple[str, ...]]:
    """
    Return entries with columns guessed where none are named, and remarks on them.

    Joints that the recordings lack are left out of the robot's ``section``, if it names none.
    """
    done: dict[str, list[Any]] = {kind: [] for kind in files}
    remarks: list[str] = []
    for kind, entries in files.items():
        for number, given in enumerate(entries):
            entry = from_mapping(RecordingEntry, _as_in_a_file(given), f'data.{kind}[{number}]')
            if not _is_bare(entry):
                done[kind].append(given)
                continue
            joints = _joints(section)
            drives = section.get('drives')
            drives = from_mapping(Drives, _as_in_a_file(drives or {}), 'robot.drives')
            ((found, guess),) = merge_signal_tables(
                [guess_entry(Path(entry.name), joints, entry.rate)]
            )
            signals = {name: getattr(found, name) for name in ('time', 'rate', *SIGNALS)}
            entry = replace(entry, **signals)
            counts = replace(drives, effort=None).recorded(len(guess.joints))
            entry = with_time_unit(entry, guess.joints, counts)
            _keep_joints(section, guess, entry.name)
            remarks.append(_remark(entry.name, guess, entry.time_unit))
            content = to_mapping(entry).items()
            done[kind].append({k: v for k, v in content if v != getattr(_BARE, k)})
    return done, tuple(remarks)


_BARE = RecordingEntry()


def _is_bare(entry: RecordingEntry) -> bool:
    """Return whether an entry is a table without any columns named, which are to be guessed."""
    named = (entry.time, entry.position, entry.velocity, entry.effort, entry.motor)
    return (
        entry.file is not None
        and all(columns is None for columns in named)
        and entry.file_format().head is not None
    )


def _recognised(
    data: Mapping[str, Any], section: dict[str, Any], name: str
) -> tuple[ArrayEntry, str]:
    """Return the recording in a data frame, its columns guessed, and a remark on them."""
    frame = data['frame']
    labels = {str(label): label for label in (frame.columns if _is_frame(frame) else frame)}
    guess = guess_by_name([*labels], _joints(section))
    missing = [signal for signal in ('position', 'effort') if signal not in guess.columns]
    if missing:
        text = f'has no columns of {one_of(missing)} that can be recognised'
        raise recording_error(name, text, "name them: {'frame': frame, 'time': 't', ...}")
    _keep_joints(section, guess, name)
    named = {s: [labels[str(c)] for c in columns] for s, columns in guess.columns.items()}
    if guess.time is None or 'rate' in data:
        return ArrayEntry.from_mapping({**data, **named}, name), _remark(
            name, replace(guess, time=None), ''
        )
    stamps = guess.time if isinstance(guess.time, tuple) else (guess.time,)
    named['time'] = [labels[str(column)] for column in stamps]
    entry, unit = ArrayEntry.from_mapping({**data, **named}, name), data.get('time_unit', 's')
    if 'time_unit' not in data and len(stamps) == 1 and entry.time.size > 1:
        unit = likely_unit(float(np.median(np.diff(entry.time))), float(entry.time[0]))
        entry = replace(entry, time=entry.time * TIME_UNITS[unit])
    return entry, _remark(name, guess, unit)


def _keep_joints(section: dict[str, Any], guess: ColumnGuess, name: str) -> None:
    """Take the joints of a recording for the robot's, or raise where these are others."""
    if section.setdefault('joints', guess.joints) is None:
        section['joints'] = guess.joints
    if tuple(section['joints']) != guess.joints:
        text = f'its joints are {one_of(guess.joints)}, expected {one_of(section["joints"])}'
        raise recording_error(name, text, 'name its columns')


def _remark(name: str, guess: ColumnGuess, unit: str) -> str:
    """Return what was guessed, in a sentence."""
    signals = [
        f'{s} {", ".join(map(str, guess.columns[s]))}' for s in SIGNALS if s in guess.columns
    ]
    if guess.time is not None:
        time = guess.time if isinstance(guess.time, tuple) else (guess.time,)
        signals.append(f'time {", ".join(map(str, time))} in {unit}')
    origin = 'their content, check them' if guess.by_content else 'their names'
    joints = ', '.join(guess.joints)
    return f'{name}: columns guessed by {origin}: {"; ".join(signals)}; of joints {joints}'


def _joints(section: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the joints of a robot's section, or all that its URDF has."""
    if section.get('joints'):
        return tuple(section['joints'])
    with warnings.catch_warnings():
        warnings.simplefilter('ignore', IdentificationWarning)
        return robot_with_inertia(section['urdf']).joints


def _robot_section(robot: Robot | str | os.PathLike) -> dict[str, Any]:
    if isinstance(robot, Robot):
        return {
            'urdf': robot.urdf,
            'joints': robot.joints,
            'locked': dict(robot.locked),
            'gravity': robot.gravity,
        }
    path = os.fspath(robot)
    return {'urdf': path if path.lstrip().startswith('<') else str(Path(path))}


def _as_in_a_file(value: Any) -> Any:
    """Return a setting as a file would have it: lists for tuples and arrays, text for paths."""
    if isinstance(value, Mapping):
        return {key: _as_in_a_file(entry) for key, entry in value.items()}
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return [_as_in_a_file(entry) for entry in value]
    return os.fspath(value) if isinstance(value, os.PathLike) else value
