# SPDX-License-Identifier: Apache-2.0
"""
Draft of an experiment file from a URDF and recordings, with comments.

Columns are guessed by their names, or by their content where these mean nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
import os
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from ..config.experiment_file import DRAFT_HEAD
from ..config.recorded_joints import recorded_joints
from ..config.sources import FileSource, open_recording
from ..data.column_names import ColumnGuess
from ..data.columns import columns_of, SignalColumns
from ..data.commands import CommandRecording
from ..data.drives import Drives, EffortDrive, PositionDrive
from ..data.formats.arrays import column_name
from ..data.recording import Recording, recording_error, SIGNALS
from ..data.recording_config import RecordingEntry
from ..data.sampling import clock_of
from ..diagnosis.locked_joints import remarks_on_locked
from ..diagnosis.recording_faults import (
    gravity_sizes,
    read_first_rows,
    recording_faults,
    revolute,
    STILL,
    still_joints,
)
from ..errors import collected_warnings, one_of, SettingsError, unique_texts
from ..model.robot import Robot
from ..model.robot_size import size_findings
from ..model.urdf_repair import robot_with_inertia
from ..version import page
from .entry_guess import guess_entry, merge_signal_tables, with_time_unit
from .proposal import PROPOSAL, Proposal, proposal

EARTH_GRAVITY = (0.0, 0.0, -9.81)
"""Gravity in the base frame of a robot that stands upright [m/s^2]."""

_FAR = 4.0
"""Times the range of the URDF that positions in its unit do not exceed."""

_UNIT_REMEDIES = {
    'rad': 'give --degrees or --ticks, or --gear-ratios if it is that of the motor',
    'm': 'give --gear-ratios with recorded positions by metre for it, 1 for joints in rad or m',
    'mm': 'give --gear-ratios with 1000 for it, 1 for joints in rad, degrees or m',
}
"""What maps positions in another unit, by the unit of the URDF or the likely one."""


@dataclass(frozen=True, kw_only=True)
class DraftSettings:
    """
    Facts on recordings that the files do not contain.

    Attributes
    ----------
    effort_kind:
        One of `robot_identification.data.drives.EFFORT_KINDS`; None if it is not known yet.
    rate:
        Sampling rate of tables without a time column [Hz].
    gear_ratios:
        (n_joints,) turns of the motor by turn of the joint, of data recorded at the motors; of a
        joint that slides, recorded positions by metre (rad by metre with ``ticks``).
    position_offsets:
        (n_joints,) positions of the joints where the recorded ones are 0 [rad or m].
    gains:
        (n_joints,) effort at the joint by recorded effort, for example [N m/A].
    degrees:
        True if positions of joints that turn are in degrees.
    ticks:
        Ticks of the encoders by turn, of positions in ticks; None for rad.
    target:
        One of `robot_identification.model.targets.TARGETS`, whose terms alone are estimated; None
        for any.
    gravity:
        (3,) acceleration of free fall in the base frame [m/s^2].
    xacro_arguments:
        Arguments for a xacro file.

    """

    effort_kind: str | None = None
    rate: float | None = None
    gear_ratios: tuple[float, ...] | None = None
    position_offsets: tuple[float, ...] | None = None
    gains: tuple[float, ...] | None = None
    degrees: bool = False
    ticks: float | None = None
    target: str | None = None
    gravity: tuple[float, ...] = EARTH_GRAVITY
    xacro_arguments: Mapping[str, str] = field(default_factory=dict)

    def robot(
        self,
        urdf: Path,
        joints: Sequence[str] | None = None,
        locked: Mapping[str, float] | None = None,
    ) -> Robot:
        """Read the robot of a file; raises ModelError as `robot_with_inertia`."""
        return robot_with_inertia(
            str(urdf),
            joints,
            locked=locked,
            gravity=self.gravity,
            xacro_arguments=self.xacro_arguments,
        )

    def robot_lines(self, urdf: Path, folder: Path) -> list[str]:
        """Return the lines of an experiment file that name the robot's file."""
        lines = ['robot:', f'  urdf: {relative_path(urdf, folder)}']
        if self.xacro_arguments:
            lines.append(f'  xacro_arguments: {flow(dict(self.xacro_arguments))}')
        return lines


@dataclass(frozen=True)
class Draft:
    """
    An experiment that was drafted from files.

    Attributes
    ----------
    robot:
        The robot, with the joints that the recordings have.
    entries:
        The recordings, with paths as they were given.
    recordings:
        Their beginnings, efforts as recorded.
    guesses:
        What their columns are.
    evidence:
        Evidence for each kind of effort, in sentences.
    remarks:
        What is wrong with the recordings, as far as it shows.
    settings:
        As given, of the joints that are identified.
    omissions:
        What was left out or changed, in sentences.
    proposal:
        What the recordings speak for beyond the settings; None for nothing.

    """

    robot: Robot
    entries: tuple[RecordingEntry, ...]
    recordings: tuple[Recording, ...]
    guesses: tuple[ColumnGuess, ...]
    evidence: tuple[str, ...]
    remarks: tuple[str, ...]
    settings: DraftSettings
    omissions: tuple[str, ...] = ()
    proposal: Proposal | None = None

    def summary(self) -> str:
        """Return what was found, as text."""
        robot = self.robot
        locked = f', {len(robot.locked)} locked' if robot.locked else ''
        lines = [f'robot {robot.name}: {len(robot.joints)} joints{locked}']
        lines += [f'  {robot.mimics}: on one drive'] if robot.mimics.followed else []
        lines += [f'  left out or changed: {text}' for text in self.omissions]
        for entry, recording, guess in zip(
            self.entries, self.recordings, self.guesses, strict=True
        ):
            lines += ['', f'{entry.name}: {_clock_text(entry, recording)}']
            origin = 'by content, check them' if guess.by_content else 'by name'
            if entry.topic and not guess.columns:
                lines.append(f'  joints by name from the topic {entry.topic}')
                continue
            shown = [name for name in SIGNALS if name in guess.columns]
            rows = [[f'columns ({origin})', *shown]]
            for j, joint in enumerate(guess.joints):
                rows.append([joint, *(str(guess.columns[name][j]) for name in shown)])
            widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
            for row in rows:
                cells = (f'  {cell:{width}}' for cell, width in zip(row, widths, strict=True))
                lines.append(''.join(cells).rstrip())
        lines += ['', *(f'effort: {text}' for text in self.evidence)]
        lines += [f'remark: {text}' for text in self.remarks]
        return '\n'.join(lines)

    def text(self, urdf: Path, folder: Path) -> str:
        """
        Return the experiment file.

        Parameters
        ----------
        urdf:
            The robot's file.
        folder:
            Folder of the experiment file; paths in it are relative to that.

        """
        robot, settings = self.robot, self.settings
        lines = [
            *DRAFT_HEAD,
            '# Cut-off, dead zone and friction terms are left out: `auto` chooses them.',
            *settings.robot_lines(urdf, folder),
            f"  joints: {flow(list(robot.joints))}  # the order of the data's columns",
        ]
        if robot.locked:
            lines.append(f'  locked: {flow(dict(robot.locked))}  # rad or m; not identified')
            lines += [f'  # {text}' for text in self.omissions if 'locked' in text]
        if robot.mimics.followed:
            lines.append(f'  # {robot.mimics}, as <mimic> says: on one drive')
        lines += [
            f'  gravity: {flow(list(settings.gravity))}  # m/s^2 in the base frame',
            *(f'  # {text}' for text in self.evidence),
            f'  effort_kind: {settings.effort_kind}',
        ]
        drives = drafted_drives(settings, robot.joints, robot)
        if drives is not None:
            lines += drive_lines(drives)
        elif settings.effort_kind == 'motor_current':
            lines.append(
                '  # no drives.effort: ratios of the gains are found from the recordings, and '
                "their scale\n  # from the URDF's masses; known gains: init --gains "
                f'({page("how_to/currents")})'
            )
        several = len(self.entries) > 1
        if settings.target is not None:
            text = 'friction and springs that it lacks are not estimated'
            lines.append(f'simulation: {{target: {settings.target}}}  # {text}')
        lines += ['data:', '  identification:']
        for k, entry in enumerate(self.entries):
            if several and k == len(self.entries) - 1:
                lines.append('  validation:  # not seen by the identification')
            lines += self._entry(entry, self.recordings[k], folder)
        if not several:
            lines += ['  # validation:  # a recording of another motion, with the same keys']
        return '\n'.join([*lines, 'output: results', ''])

    def _entry(self, entry: RecordingEntry, recording: Recording, folder: Path) -> list[str]:
        comment = f'  # {_clock_text(entry, recording)}'
        lines = []
        if entry.file is not None:
            lines.append(f'file: {relative_path(Path(entry.file), folder)}{comment}')
            comment = ''
        form = entry.file_format()
        lines.append(f'format: {form.name}{comment}')
        if form.topics:
            lines.append(f'topic: {flow(entry.topic)}')
        if entry.time is not None:
            if isinstance(entry.time, tuple):
                lines.append(f'time: {flow(list(entry.time))}  # seconds, nanoseconds')
            else:
                lines += [f'time: {flow(entry.time)}', f'time_unit: {entry.time_unit}']
        if entry.rate is not None:
            lines.append(f'rate: {entry.rate}  # Hz')
        for name in SIGNALS:
            signal = getattr(entry, name)
            if isinstance(signal, SignalColumns) and signal.file is not None:
                lines += [f'{name}:', f'  file: {relative_path(Path(signal.file), folder)}']
                lines.append(f'  columns: {flow(list(signal.columns or ()))}')
            elif signal is not None:
                columns = columns_of(signal)
                whole = isinstance(signal, str)
                lines.append(f'{name}: {flow(signal if whole else list(columns or ()))}')
        return [f'    {"- " if k == 0 else "  "}{line}' for k, line in enumerate(lines)]


_MEANING = {
    'position': 'q = matrix @ recorded position + offset',
    'effort': 'effort at the joint = matrix @ recorded effort',
}


def draft(urdf: Path, files: Sequence[Path], settings: DraftSettings) -> Draft:
    """
    Draft an experiment from files.

    Parameters
    ----------
    urdf:
        URDF or xacro file.
    files:
        Recordings; of several, the last one is to validate on.  Tables that have one signal each
        make one recording.
    settings:
        Facts that the files do not contain.

    Raises
    ------
    IdentificationError
        naming the file and the part that cannot be read or guessed.

    """
    with collected_warnings():  # those of the joints that are identified follow
        whole = settings.robot(urdf)
    with collected_warnings() as notes:
        found = merge_signal_tables(
            [guess_entry(file, whole.joints, settings.rate) for file in files]
        )
        entries = tuple(entry for entry, _ in found)
        guesses = tuple(guess for _, guess in found)
        joints = guesses[0].joints
        for entry, guess in found:
            if guess.joints != joints:
                text = (
                    f'its joints are {one_of(guess.joints)}, those of '
                    f'{entries[0].name} are {one_of(joints)}'
                )
                remedy = 'give recordings of the same joints'
                raise recording_error(entry.name, text, remedy)
        check_settings(settings, joints)
        drives = position_drives(settings, joints, whole)
        counts = (drives or Drives()).recorded(len(joints))
        entries = tuple(with_time_unit(entry, joints, counts) for entry in entries)
        recordings = read_first_rows([open_recording(e, joints, drives) for e in entries])
        _require_moved(whole, recordings, settings)
        still = _still(whole, recordings)
        recorded = len(joints)
        moving = [j for j, joint in enumerate(joints) if joint not in still]
        if still:
            joints = tuple(joints[j] for j in moving)
            settings = _of_joints(settings, moving)
            drives = position_drives(settings, joints, whole)
            entries = tuple(_entry_of(entry, moving) for entry in entries)
            guesses = tuple(_guess_of(guess, moving) for guess in guesses)
            recordings = tuple(recording.select(joints) for recording in recordings)
        opened = [open_recording(entry, joints, drives) for entry in entries]
        sources = [source for source in opened if isinstance(source, FileSource)]
        robot = _reduced(urdf, whole, joints, still, sources, settings)
        require_units(robot, recordings)
        faults = [finding.message for finding in size_findings(robot)]
        faults += map(str, recording_faults(robot, recordings))
        seen = [recorded_joints(source, robot, list(robot.locked)) for source in sources]
        sizes = {} if robot.passive else gravity_sizes(robot, recordings)
    proposed = None
    if not robot.passive and (settings.gains is None or settings.effort_kind is None):
        kind, gains = settings.effort_kind, _gains(settings, len(joints))
        proposed = proposal(robot, recordings, sizes, effort_kind=kind, gains=gains)
    return Draft(
        robot,
        entries,
        recordings,
        guesses,
        _evidence(robot, sizes, guesses),
        tuple(dict.fromkeys(faults)),
        settings,
        unique_texts(remarks_on_locked(robot, seen), robot.warnings, notes),
        None if proposed is None else proposed.among(moving, recorded),
    )


def _gains(settings: DraftSettings, n_joints: int) -> np.ndarray:
    """Return (n_joints,) efforts at the joints by recorded ones; 1 for unknown."""
    ratios = np.array(settings.gear_ratios or np.ones(n_joints))
    by_ratio = settings.effort_kind == 'motor_torque' or settings.gains is None
    return np.array(settings.gains or np.ones(n_joints)) * (ratios if by_ratio else 1.0)


def position_drives(
    settings: DraftSettings, joints: tuple[str, ...], robot: Robot
) -> Drives | None:
    """Return the map from recorded positions to those of joints of a robot; None for none."""
    drives = drafted_drives(replace(settings, gains=None), joints, robot)
    return None if drives is None else Drives(drives.position)


def _still(robot: Robot, recordings: Sequence[Recording]) -> dict[str, float]:
    """
    Return the joints that are not identified since they stand still, and their positions.

    What counts is the motion within each recording to identify from: a joint that stands elsewhere
    in another one still shows neither friction nor inertia.  None where all joints stand still.
    """
    joints = recordings[0].joints
    chosen = [robot.joints.index(joint) for joint in joints]
    wide = []
    for recording in recordings[: max(1, len(recordings) - 1)]:  # the last one validates
        wide.append(np.full((len(recording), robot.n_joints), np.nan))
        wide[-1][:, chosen] = recording.position
    still = still_joints(robot, wide)[chosen]
    if still.all():
        return {}
    places = np.median(recordings[0].position, axis=0)
    return {joints[j]: round(float(places[j]), 6) for j in np.flatnonzero(still)}


def _require_moved(robot: Robot, recordings: Sequence[Recording], settings: DraftSettings) -> None:
    """Require that joints move with the gear ratios that are given, and not only without them."""
    if settings.gear_ratios is None:
        return
    joints = recordings[0].joints
    chosen = [robot.joints.index(joint) for joint in joints]
    room = (robot.limits.upper - robot.limits.lower)[chosen]
    moved = np.max([np.ptp(recording.position, axis=0) for recording in recordings], axis=0)
    plain = moved * np.abs(settings.gear_ratios)
    turning = np.array(revolute(robot))[chosen]
    if (moved < STILL[1]).all() and (plain[turning] > STILL[1]).any() and (plain <= room).all():
        text = (
            f'with the gear ratios given, no joint moves by more than {moved.max():.3g} rad; '
            'without them, all positions lie within the limits of the URDF'
        )
        ratios = ' '.join(f'{ratio:g}' for ratio in settings.gear_ratios)
        remedy = (
            'positions are at the joints: give --gains in place of --gear-ratios, as '
            f'--effort-kind motor_torque --gains {ratios}'
        )
        raise recording_error(recordings[0].source, text, remedy)


def _reduced(
    urdf: Path,
    whole: Robot,
    joints: tuple[str, ...],
    still: Mapping[str, float],
    sources: Sequence[FileSource],
    settings: DraftSettings,
) -> Robot:
    """Return the robot of the joints that move; the others are locked where they were recorded."""
    if joints == whole.joints:
        return whole
    others = [joint for joint in whole.contents.moving if joint not in joints]
    places = dict.fromkeys(others, 0.0)
    for source in sources:
        wanted = [joint for joint in others if joint not in still]
        seen = recorded_joints(source, whole, wanted).positions
        middles = {joint: round(0.5 * (low + high), 6) for joint, (low, high) in seen.items()}
        places.update({joint: place for joint, place in middles.items() if np.isfinite(place)})
    places.update(still)
    for joint in others:
        if whole.contents.moving[joint].mimic is not None and joint not in still:
            del places[joint]  # it follows
    with collected_warnings():
        return settings.robot(urdf, joints, places)


def _of_joints(settings: DraftSettings, chosen: Sequence[int]) -> DraftSettings:
    """Return the settings of chosen joints."""
    names = ('gear_ratios', 'position_offsets', 'gains')
    given: dict[str, Any] = {name: getattr(settings, name) for name in names}
    for name, values in given.items():
        given[name] = None if values is None else tuple(values[j] for j in chosen)
    return replace(settings, **given)


def _entry_of(entry: RecordingEntry, chosen: Sequence[int]) -> RecordingEntry:
    """Return the entry with the columns of chosen joints."""
    parts: dict[str, Any] = {}
    for name in SIGNALS:
        signal = getattr(entry, name)
        columns = columns_of(signal)
        if columns is None:
            continue
        # one name of several columns is an array
        array = str(columns[0]) if len(columns) == 1 else None
        left = tuple(columns[j] if array is None else column_name(array, j) for j in chosen)
        parts[name] = replace(signal, columns=left) if isinstance(signal, SignalColumns) else left
    return replace(entry, **parts)


def _guess_of(guess: ColumnGuess, chosen: Sequence[int]) -> ColumnGuess:
    """Return the guess for chosen joints."""
    columns = {s: tuple(found[j] for j in chosen) for s, found in guess.columns.items()}
    return replace(guess, columns=columns, joints=tuple(guess.joints[j] for j in chosen))


def check_settings(settings: DraftSettings, joints: tuple[str, ...]) -> None:
    """Require settings that fit the joints and each other; raises SettingsError."""
    for name in ('gear_ratios', 'position_offsets', 'gains'):
        given = getattr(settings, name)
        zero = given is not None and name != 'position_offsets' and 0.0 in given
        if given is not None and (len(given) != len(joints) or zero):
            text = f'has {len(given)} numbers for {len(joints)} joints'
            text += ', one of them 0' if zero else ''
            remedy = 'give one number a joint, in the order of the URDF'
            message = f"'--{name.replace('_', '-')}' {text}"
            raise SettingsError(message, value=given, remedy=remedy)
    if settings.degrees and settings.ticks is not None:
        raise SettingsError(
            "'--degrees' and '--ticks' are both given", remedy='give the one that positions have'
        )
    if settings.effort_kind == 'motor_torque' and not (settings.gear_ratios or settings.gains):
        raise SettingsError(
            "'--effort-kind motor_torque' needs the gear ratios",
            remedy='give --gear-ratios, or --gains where positions are those of the joints',
        )


def drive_lines(drives: Drives) -> list[str]:
    """Return the lines of ``robot.drives`` in an experiment file."""
    lines = ['  drives:']
    for name in ('position', 'effort'):
        part = getattr(drives, name)
        if part is not None:
            lines += [f'    {name}:  # {_MEANING[name]}', '      matrix:']
            lines += [f'        - {flow(list(row))}' for row in part.matrix]
            if getattr(part, 'offset', None) is not None:
                lines.append(f'      offset: {flow(list(part.offset))}')
    return lines


def drafted_drives(
    settings: DraftSettings, joints: tuple[str, ...], robot: Robot
) -> Drives | None:
    """Return the map from recorded signals to joints of a robot; None if there is none."""
    n_joints = len(joints)
    ratios = np.array(settings.gear_ratios or np.ones(n_joints))
    unit = 1.0 if settings.ticks is None else 2.0 * np.pi / settings.ticks
    scale = np.full(n_joints, unit) / ratios
    if settings.degrees:
        turning = dict(zip(robot.joints, revolute(robot), strict=True))
        scale[[turning[joint] for joint in joints]] *= np.radians(1.0)
    gains = _gains(settings, n_joints)
    offset = settings.position_offsets
    mapped = (scale != 1.0).any() or offset is not None
    position = PositionDrive(_diagonal(scale), offset) if mapped else None
    known = settings.gains is not None or settings.effort_kind == 'motor_torque'
    effort = EffortDrive(_diagonal(gains)) if known else None
    return None if position is None and effort is None else Drives(position, effort)


def _diagonal(values: np.ndarray) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(row) for row in np.diag(values).tolist())


def require_units(
    robot: Robot,
    recordings: Sequence[Recording | CommandRecording],
    remedy: str | None = None,
) -> None:
    """Require positions that are hardly those of motors, in degrees or in mm."""
    room = robot.limits.upper - robot.limits.lower
    turning = np.array(revolute(robot))
    for recording in recordings:
        moved = np.ptp(recording.position, axis=0)
        with np.errstate(invalid='ignore', divide='ignore'):
            times = np.where(np.isfinite(room) & (room > 0.0), moved / room, 0.0)
        texts, ways, joints = [], [], []
        for kind, unit in ((turning, 'rad'), (~turning, 'm')):
            j = int(np.argmax(np.where(kind, times, 0.0)))
            if times[j] > _FAR and kind[j]:
                text = f"position of joint '{robot.joints[j]}' covers {moved[j]:.4g} {unit}, "
                text += f'{times[j]:.3g} times its range in the URDF'
                in_mm = unit == 'm' and moved[j] / 1000.0 <= room[j]
                texts.append(text + (': it seems to be in mm' if in_mm else ''))
                ways.append(_UNIT_REMEDIES['mm' if in_mm else unit])
                joints.append(robot.joints[j])
        if texts:
            way = remedy or ' and '.join(ways)
            raise recording_error(recording.source, '; '.join(texts), way, joint=joints[0])


def _evidence(
    robot: Robot, sizes: Mapping[str, float], guesses: Sequence[ColumnGuess]
) -> tuple[str, ...]:
    """Return the evidence for each kind of effort."""
    texts = [] if robot.passive else list(evidence_of_gravity(sizes))
    names = {guess.effort_name for guess in guesses} - {''}
    if names:
        texts.append(f'its columns are named after a {one_of(sorted(names))}, which may be wrong')
    return tuple(texts)


def evidence_of_gravity(sizes: Mapping[str, float]) -> Iterator[str]:
    """Say what sizes of gravity in the efforts, by that of the URDF, speak for."""
    seen = {joint: size for joint, size in sizes.items() if size}
    if not seen:
        yield (
            f'gravity does not show at {one_of(list(sizes))}: suggests efforts that the driver '
            'has cleared of it, which determine no masses'
            if sizes
            else 'gravity shows at no joint: the recordings say nothing on the kind of effort'
        )
        return
    middle, what = float(np.median(np.abs(list(seen.values())))), 'joint_torque'
    if middle < PROPOSAL.like[0]:
        what = 'motor_current or motor_torque'
    elif middle > PROPOSAL.like[1]:
        what = 'efforts in another unit than N m, or a URDF with too small masses'
    each = ', '.join(f'{size:.2g} at {joint}' for joint, size in seen.items())
    yield f"gravity in the efforts has this times the URDF's size: {each}; suggests {what}"
    if PROPOSAL.thousand[0] < middle < PROPOSAL.thousand[1]:
        yield (
            'it is about a thousand times too large, as in mN m: give --effort-kind motor_torque '
            'and --gains 0.001 for each joint'
        )


def _clock_text(entry: RecordingEntry, recording: Recording) -> str:
    clock = clock_of([recording.time], entry.name)
    unit = f', stamps in {entry.time_unit}' if entry.time is not None else ''
    unit = ', stamps in s and ns' if isinstance(entry.time, tuple) else unit
    return f'{clock.rate:.4g} Hz, {clock.duration:.4g} s{unit}'


def relative_path(path: Path, folder: Path) -> str:
    """Return a path, or an address, relative to a folder, as YAML."""
    if '://' in str(path):
        return str(path)
    return flow(os.path.relpath(path.absolute(), folder.absolute()))


def flow(value: Any) -> str:
    """Return a value as YAML in one line."""
    text: str = yaml.safe_dump(value, default_flow_style=True, width=10**6, allow_unicode=True)
    return text.removesuffix('...\n').strip()
