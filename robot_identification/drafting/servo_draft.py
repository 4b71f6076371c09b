# SPDX-License-Identifier: Apache-2.0
"""Draft of an experiment file from recordings of commands, with comments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..config.commands import read_commands
from ..config.experiment import RobotSettings
from ..config.recorded_joints import recorded_joints
from ..config.sources import FileSource, open_recording
from ..config.target import check_target
from ..data.commands import CommandRecording
from ..data.drives import Drives
from ..data.readers import read_head
from ..data.recording_config import RecordingEntry
from ..diagnosis.locked_joints import RecordedJoints, remarks_on_locked
from ..errors import collected_warnings, one_of, SettingsError
from ..model.mjcf import mjcf_facts
from ..model.robot import Robot
from ..model.robot_size import size_findings
from ..model.targets import TARGETS
from ..servo.own_output import is_own_output
from ..servo.settings import INTEGRATORS, SERVO_COMMAND, ServoSettings, SimulatorSettings
from .command_columns import command_entry, commanded_joints
from .experiment_text import experiment_text
from .requirements import require_angles, require_units
from .settings import (
    check_settings,
    DraftSettings,
    EARTH_GRAVITY,
    position_drives,
)


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
    units:
        As given.

    """

    robot: RobotSettings
    entries: tuple[RecordingEntry, ...]
    joints: tuple[str, ...]
    simulation: SimulatorSettings
    source: str
    remarks: tuple[str, ...]
    units: DraftSettings

    def summary(self) -> str:
        """Return what was found, as text."""
        lines = [f'commands of {len(self.joints)} joints: {one_of(self.joints)}']
        for entry in self.entries:
            found = {
                name: getattr(entry, name) for name in ('time', *_SIGNALS) if getattr(entry, name)
            }
            texts = [f'topic {entry.topic}'] if entry.file_format().topics else []
            texts += [f'{name} {_shown(columns)}' for name, columns in found.items()]
            lines.append(f'{entry.name}: {"; ".join(texts)}')
        return '\n'.join([*lines, *(f'remark: {text}' for text in self.remarks)])

    def text(self, urdf: Path, folder: Path) -> str:
        """Return the experiment file; paths in it are relative to its ``folder``."""
        nothing = [''] * len(self.entries)
        return experiment_text(
            'commands',
            self,
            urdf,
            folder,
            signals=_SIGNALS,
            drives=self.robot.drives,
            settings=self.units,
            joints=self.joints,
            locked=self.robot.locked,
            upright=self.units.gravity == EARTH_GRAVITY,
            effort_kind=SERVO_COMMAND,
            formats=nothing,
            clocks=nothing,
        )


_SIGNALS = ('position', 'velocity', 'command', 'command_velocity', 'feedforward')


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
        Recordings; of several, the last one is to validate on.  Joints that the first one lacks
        are locked.
    stiffness, damping:
        Gains of the servos, one or one a joint; None for those in the first recording.
    rate:
        Sampling rate of tables without stamps [Hz].
    timestep:
        Step of the simulator [s]; None for that of the MJCF, or for no simulator.
    target:
        Simulator, one of `robot_identification.model.targets.TARGETS`; None for any.
    units:
        Units and zeros of positions and commands, gravity, and arguments for xacro; None for rad
        at the joints of a robot that stands upright.

    Raises
    ------
    IdentificationError
        naming what cannot be recognised, or gains and steps that are not known.

    """
    units = units or DraftSettings()
    settings = RobotSettings(
        urdf=str(urdf.absolute()),
        xacro_arguments=units.xacro_arguments,
        gravity=units.gravity,  # type: ignore[arg-type]
        effort_kind=SERVO_COMMAND,
        servo=ServoSettings(stiffness=1.0),
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
    joints, others = commanded_joints(files[0], joints), joints
    with collected_warnings():
        whole = replace(settings, joints=tuple(others)).build()
        mimics = {name: joint.mimic for name, joint in whole.contents.moving.items()}
        held = [j for j in whole.joints if j not in joints]
        held = [j for j in held if not (mimic := mimics[j]) or mimic.joint not in held]
        settings = replace(settings, locked=dict.fromkeys(held, 0.0))
        robot = replace(settings, joints=joints).build()
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
        entry = command_entry(file, joints, rate)
        entry, notes = _looked_at(entry, robot, settings.drives, servo, units)
        entries.append(entry)
        remarks += notes
    if settings.locked:
        settings, notes = _with_places(settings, whole, joints, entries)
        remarks += notes
    remarks += [finding.message for finding in size_findings(robot)]
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
        units,
    )


def _looked_at(
    entry: RecordingEntry,
    robot: Robot,
    drives: Drives | None,
    servo: ServoSettings,
    units: DraftSettings,
) -> tuple[RecordingEntry, list[str]]:
    """Return an entry without efforts that are the servo's own, and remarks on its recording."""
    recording = read_commands(entry, robot.joints, drives, Path('.'))
    require_angles(robot, [recording], units)
    require_units(robot, [recording])
    remarks = _delays(recording)
    if is_own_output(recording, servo):
        entry = replace(entry, feedforward=None)
        remarks.append(
            f"{recording.source}: its efforts are the servo's own output, kp times the position "
            'error less kd times the velocity, and no feed-forward: left out'
        )
    return entry, remarks


def _with_places(
    settings: RobotSettings,
    whole: Robot,
    joints: tuple[str, ...],
    entries: Sequence[RecordingEntry],
) -> tuple[RobotSettings, list[str]]:
    """Return settings with locked joints where the first recording has them, and remarks."""
    seen = [_recorded(entry, whole, joints, settings) for entry in entries]
    middles = {joint: 0.5 * (low + high) for joint, (low, high) in seen[0].positions.items()}
    places = {joint: round(place, 6) for joint, place in middles.items() if np.isfinite(place)}
    settings = replace(settings, locked={**settings.locked, **places})
    with collected_warnings():
        robot = replace(settings, joints=joints).build()
    return settings, remarks_on_locked(robot, seen)


def _recorded(
    entry: RecordingEntry, robot: Robot, joints: tuple[str, ...], settings: RobotSettings
) -> RecordedJoints:
    """Return what a recording has of the joints that are locked."""
    plain = {'command': None, 'command_velocity': None, 'feedforward': None}
    states = replace(entry, effort=entry.command, **plain)  # type: ignore[arg-type]
    source = open_recording(states, joints, settings.drives)
    assert isinstance(source, FileSource)
    return recorded_joints(source, robot, list(settings.locked))


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


def _shown(columns: Any) -> str:
    return columns if isinstance(columns, str) else one_of(columns, 3)
