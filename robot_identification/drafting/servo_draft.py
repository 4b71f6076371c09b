# SPDX-License-Identifier: Apache-2.0
"""
Draft of an experiment file from recordings of commands, with comments.

Signals are recognised by the words of their names: ``des_dof_pos``, ``action``, ``q_cmd`` are
commands, ``dof_pos``, ``observation.state``, ``q`` positions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
import re
from typing import Any

import numpy as np

from ..config.commands import read_commands
from ..config.experiment import RobotSettings
from ..config.experiment_file import DRAFT_HEAD
from ..config.target import check_target
from ..data.columns import Signal
from ..data.commands import CommandRecording
from ..data.drives import Drives
from ..data.readers import read_head
from ..data.recording import recording_error
from ..data.recording_config import RecordingEntry
from ..errors import collected_warnings, one_of, SettingsError
from ..model.robot import Robot
from ..model.targets import TARGETS
from ..model.urdf_files import mjcf_facts
from ..servo.own_output import is_own_output
from ..servo.settings import INTEGRATORS, SERVO_COMMAND, ServoSettings, SimulatorSettings
from ..version import page
from .draft import (
    check_settings,
    DraftSettings,
    drive_lines,
    flow,
    position_drives,
    relative_path,
    require_units,
)
from .entry_guess import signal_names, with_time_unit

_WORDS = {
    'command': 'des desired cmd command commanded commands target targets action actions '
    'reference ref goal setpoint',
    'velocity': 'vel velocity velocities dq qd speed',
    'effort': 'tau torque torques effort efforts current ff feedforward',
    'position': 'pos position positions q state angle angles actual measured present joint',
    'time': 'time t timestamp timestamps stamp stamps',
}
_MEANING = {word: kind for kind, words in _WORDS.items() for word in words.split()}


@dataclass(frozen=True)
class ServoDraft:
    """
    An experiment that was drafted from recordings of commands.

    Attributes
    ----------
    robot:
        Settings of the robot with its servos.
    entries:
        The recordings, with paths as they were given.
    joints:
        The robot's joints, in the order of the columns.
    simulation:
        The simulator, if there is one.
    source:
        Where its step is from.
    remarks:
        On what was found and taken.

    """

    robot: RobotSettings
    entries: tuple[RecordingEntry, ...]
    joints: tuple[str, ...]
    simulation: SimulatorSettings
    source: str
    remarks: tuple[str, ...]

    def summary(self) -> str:
        """Return what was found, as text."""
        lines = [f'commands of {len(self.joints)} joints: {one_of(self.joints)}']
        for entry in self.entries:
            found = {name: getattr(entry, name) for name in _KEYS if getattr(entry, name)}
            texts = [f'topic {entry.topic}'] if entry.file_format().topics else []
            texts += [f'{name} {_shown(columns)}' for name, columns in found.items()]
            lines.append(f'{entry.name}: {"; ".join(texts)}')
        return '\n'.join([*lines, *(f'remark: {text}' for text in self.remarks)])

    def text(self, urdf: Path, folder: Path) -> str:
        """Return the experiment file; paths in it are relative to its ``folder``."""
        servo, simulator = self.robot.servo, self.simulation
        assert servo is not None
        lines = [
            *DRAFT_HEAD,
            'robot:',
            f'  urdf: {relative_path(urdf, folder)}',
            f"  joints: {flow(list(self.joints))}  # the order of the data's columns",
        ]
        if self.robot.clamped:
            lines.append('  clamped: true  # the base floats in the file, and is on a stand here')
        if self.robot.drives is not None:
            lines += drive_lines(self.robot.drives)
        lines += [
            f'  effort_kind: {SERVO_COMMAND}',
            '  servo:',
            f'    stiffness: {flow(_listed(servo.stiffness))}  # kp, N m/rad',
            f'    damping: {flow(_listed(servo.damping))}  # kd, N m s/rad',
            '    # limit: 20.0  # largest effort of the servos, N m',
            '    # commands: interpolated  # for logs that are thinned',
        ]
        if simulator.target is None:
            lines.append(
                '    # friction: coulomb_by_position  # where friction differs along the stroke'
            )
        if simulator.named:
            lines += [
                '    # gains: scale  # estimate a factor on the gains, where they are uncertain',
                'simulation:',
                *([f'  target: {simulator.target}'] if simulator.target else []),
                f'  timestep: {simulator.timestep!r}  # s; {self.source}',
                f'  integrator: {simulator.integrator}',
            ]
        else:
            lines.append(
                '# simulation: {timestep: 0.002, integrator: implicitfast}  # for rollouts'
            )
        lines += ['data:', '  identification:']
        several = len(self.entries) > 1
        for k, entry in enumerate(self.entries):
            if several and k == len(self.entries) - 1:
                lines.append('  validation:  # not seen by the identification')
            lines += _entry_lines(entry, folder)
        if not several:
            lines.append('  # no validation: every second block of two seconds is held out')
        return '\n'.join([*lines, 'output: results', ''])


_KEYS = ('time', 'position', 'velocity', 'command', 'command_velocity', 'feedforward')


def has_commands(file: Path, joints: Sequence[str]) -> bool:
    """Return whether a table has commands by its names and no effort, or a bag a controller's."""
    try:
        if _is_bag(file):
            from ..data.bag import bag_topics
            from ..data.controller_states import CONTROLLER_STATE
            from ..data.joint_state import JOINT_STATE

            topics = bag_topics(file).values()
            return CONTROLLER_STATE in topics and JOINT_STATE not in topics
        found = _signals(signal_names(file), joints, file)
    except Exception:  # the draft of efforts says what is wrong with the file
        return False
    return 'command' in found and 'effort' not in found


def draft_servo(
    urdf: Path,
    files: Sequence[Path],
    joints: Sequence[str],
    *,
    stiffness: Sequence[float] | None,
    damping: Sequence[float] | None,
    rate: float | None = None,
    timestep: float | None = None,
    target: str | None = None,
    units: DraftSettings | None = None,
) -> ServoDraft:
    """
    Draft an experiment from recordings of commands.

    Parameters
    ----------
    urdf, joints:
        The robot's file, and its moving joints.
    files:
        Recordings; of several, the last one is to validate on.
    stiffness, damping:
        Gains of the servos, one or one a joint; None for those in the first recording.
    rate:
        Sampling rate of tables without stamps [Hz].
    timestep:
        Step of the simulator [s]; None for that of the MJCF, or for no simulator.
    target:
        Simulator, one of `robot_identification.model.targets.TARGETS`; None for any.
    units:
        Units and zeros of positions and commands; None for rad at the joints.

    Raises
    ------
    IdentificationError
        naming what cannot be recognised, or gains and steps that are not known.

    """
    settings = RobotSettings(
        urdf=str(urdf.absolute()), effort_kind=SERVO_COMMAND, servo=ServoSettings(stiffness=1.0)
    )
    check_target(settings, target)
    path, remarks = settings.mjcf(), []
    facts = None if path is None else mjcf_facts(path)
    foreign = target is not None and not TARGETS[target].mjcf
    if timestep is None and target is not None and (facts is None or foreign):
        raise SettingsError(
            "'--timestep' is missing: parameters of servos hold for one step of the simulator",
            key='simulation.timestep',
            remedy=f'give that of {TARGETS[target].title} [s]',
        )
    if facts is not None and facts.floating:
        settings = replace(settings, clamped=True)
        remarks.append(f'the base of {urdf.name} floats; it is held where the file places it')
    with collected_warnings():
        robot = replace(settings, joints=tuple(joints)).build()
    if units is not None:
        check_settings(units, robot.joints)
        settings = replace(settings, drives=position_drives(units, robot.joints, robot))
    arrays = _gains(files[0], len(joints))
    if stiffness is None and 'kp' not in arrays:
        raise SettingsError(
            f"'{files[0]}' has commands, but not the gains of the servos",
            key='robot.servo.stiffness',
            remedy='give --kp [N m/rad] and, where there is one, --kd [N m s/rad]',
        )
    for name, given in (('kp', stiffness), ('kd', damping)):
        if given is None and name in arrays:
            remarks.append(f'{name} is that in {files[0].name}')
    servo = ServoSettings(
        stiffness=tuple(stiffness or arrays['kp']),
        damping=tuple(damping or arrays.get('kd', [0.0])),
    )
    servo = replace(
        servo,
        stiffness=_brief(servo.per_joint('stiffness', joints)),
        damping=_brief(servo.per_joint('damping', joints)),
    )
    entries = []
    for file in files:
        entry, notes = _looked_at(command_entry(file, joints, rate), robot, settings.drives, servo)
        entries.append(entry)
        remarks += notes
    integrator = 'implicitfast' if facts is None else INTEGRATORS[facts.integrator]
    source = f'of {urdf.name}' if timestep is None else 'as given'
    if timestep is None and facts is not None:
        timestep = facts.timestep
    simulation = SimulatorSettings()
    if timestep is not None:
        simulation = SimulatorSettings(target, float(timestep), integrator)
    else:
        text = 'no simulator is named (--timestep): least squares on the efforts of the servos'
        remarks.append(text)
    return ServoDraft(
        replace(settings, servo=servo),
        tuple(entries),
        tuple(joints),
        simulation,
        source,
        tuple(remarks),
    )


def _looked_at(
    entry: RecordingEntry, robot: Robot, drives: Drives | None, servo: ServoSettings
) -> tuple[RecordingEntry, list[str]]:
    """Return an entry without efforts that are the servo's own, and remarks on its recording."""
    recording = read_commands(entry, robot.joints, drives, Path('.'))
    require_units(robot, [recording])
    remarks = _delays(recording)
    if is_own_output(recording, servo):
        entry = replace(entry, feedforward=None)
        remarks.append(
            f"{recording.source}: its efforts are the servo's own output, kp times the position "
            'error less kd times the velocity, and no feed-forward: left out'
        )
    return entry, remarks


def _delays(recording: CommandRecording) -> list[str]:
    """Return a remark on commands that are sent more slowly than positions are recorded."""
    changes = (np.diff(recording.command, axis=0) != 0.0).any(axis=1)
    share = changes.mean()
    return (
        [f'{recording.source}: commands change at {share / recording.period:.3g} Hz, positions '
         f'are recorded at {1.0 / recording.period:.4g} Hz; each command is taken to be held '
         'until the next one (robot.servo.commands)']
        if 0.0 < share < 0.5
        else []
    )  # fmt: skip


def _is_bag(file: Path) -> bool:
    return RecordingEntry(file=str(file)).file_format().topics


def _kind(words: Sequence[str]) -> str:
    """Return the signal that words name; empty for none."""
    kinds = {_MEANING[word] for word in words if word in _MEANING}
    if 'command' in kinds:
        if 'velocity' in kinds:
            return 'command_velocity'
        return 'feedforward' if 'effort' in kinds else 'command'
    return next((k for k in ('velocity', 'effort', 'position', 'time') if k in kinds), '')


def _signals(
    names: Mapping[str, tuple[int, ...] | None], joints: Sequence[str], file: Path
) -> dict[str, Signal]:
    """Return the columns by signal; of several candidates for one, the first."""
    grouped: dict[str, list[tuple[int, str]]] = {}
    found: dict[str, Signal] = {}
    for name, shape in names.items():
        stem = name
        if shape is None:
            owner = max((j for j in joints if j in name), key=len, default=None)
            stem = name.replace(owner, '') if owner else re.sub(r'[_.\[]?\d+\]?$', '', name)
        kind = _kind([word for word in re.split(r'[^a-z]+', stem.lower()) if word])
        if kind == 'time' and (shape is None or len(shape) == 1):
            found.setdefault('time', name)
        elif shape is not None and len(shape) == 2 and shape[1] == len(joints) and kind:
            found.setdefault(kind, name)
        elif shape is None and kind and kind != 'time':
            number = re.search(r'(\d+)\]?$', name)
            place = joints.index(owner) if owner else int(number[1]) if number else len(names)
            grouped.setdefault(f'{kind} {stem}', []).append((place, name))
    for key, group in grouped.items():
        kind = key.split(' ')[0]
        columns = [name for _, name in sorted(group, key=lambda each: each[0])]
        if len(columns) == len(joints):
            found.setdefault(kind, tuple(columns))
    return found


def command_entry(file: Path, joints: Sequence[str], rate: float | None) -> RecordingEntry:
    """Return the entry of a recording, its columns by the words of their names."""
    if _is_bag(file):
        return _bag_entry(file, joints)
    names = signal_names(file)
    found = _signals(names, joints, file)
    found.pop('effort', None)
    for name in ('position', 'command'):
        if name not in found:
            raise recording_error(
                file,
                f'no {name}s of {len(joints)} joints are recognised among {one_of(names)}',
                f'name its columns in data.identification[].{name} ({page("how_to/commands")})',
            )
    time = found.pop('time', None)
    if time is None and rate is None:
        raise recording_error(file, 'no stamps are recognised', 'give its rate')
    clock: dict[str, Any] = {'time': str(time)} if rate is None else {'rate': rate}
    columns: dict[str, Any] = {**found, **clock}
    entry = RecordingEntry(file=str(file), **columns)
    as_efforts = replace(entry, effort=entry.command, command=None)
    counts = Drives().recorded(len(joints))
    return replace(entry, time_unit=with_time_unit(as_efforts, tuple(joints), counts).time_unit)


def _bag_entry(file: Path, joints: Sequence[str]) -> RecordingEntry:
    """Return the entry of a bag with a controller's states, or topics of commands and states."""
    from ..data.bag import joint_state_topics
    from ..data.command_topics import command_topics
    from ..data.controller_states import controller_state_topics, read_controller_states

    topics = controller_state_topics(file)
    commands = command_topics(file)
    if topics or not commands:
        read_controller_states(file, joints)  # the only one, with all joints
        return RecordingEntry(file=str(file), topic=topics[0])
    states = [name for name in joint_state_topics(file) if name not in commands]
    if len(commands) > 1 or len(states) != 1:
        raise recording_error(
            file,
            f'has the commands {one_of(commands)}, and states {one_of(states) or "none"}',
            'name one each in command and topic of data.identification[]',
        )
    return RecordingEntry(file=str(file), topic=states[0], command=commands[0])


def _gains(file: Path, count: int) -> dict[str, list[float]]:
    """Return the arrays ``kp`` and ``kd`` of a file of arrays."""
    form = RecordingEntry(file=str(file)).file_format()
    if form.arrays is None:
        return {}
    shapes = read_head(file, 1).shapes
    wanted = [name for name in ('kp', 'kd') if shapes.get(name) in ((), (1,), (count,))]
    arrays = form.arrays(file, wanted).items()
    return {name: np.atleast_1d(values).astype(float).tolist() for name, values in arrays}


def _brief(values: np.ndarray) -> float | tuple[float, ...]:
    """Return one number where all are alike."""
    return tuple(values.tolist()) if np.ptp(values) else float(values[0])


def _listed(values: Any) -> Any:
    return list(values) if isinstance(values, tuple) else values


def _shown(columns: Any) -> str:
    return columns if isinstance(columns, str) else one_of(columns, 3)


def _entry_lines(entry: RecordingEntry, folder: Path) -> list[str]:
    lines = [f'file: {relative_path(Path(entry.name), folder)}']
    if entry.topic != RecordingEntry.topic:
        lines.append(f'topic: {entry.topic}')
    if entry.rate is not None:
        lines.append(f'rate: {entry.rate}  # Hz')
    if entry.time_unit != RecordingEntry.time_unit:
        lines.append(f'time_unit: {entry.time_unit}')
    for name in _KEYS:
        columns = getattr(entry, name)
        if columns is not None:
            lines.append(f'{name}: {flow(_listed(columns))}')
    return [f'    {"- " if k == 0 else "  "}{line}' for k, line in enumerate(lines)]
