# SPDX-License-Identifier: Apache-2.0
"""
Draft of an experiment file from a URDF and recordings, with comments.

Columns are guessed by their names, or by their content where these mean nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..config.recorded_joints import recorded_joints
from ..config.sources import FileSource, open_recording
from ..data.column_names import ColumnGuess
from ..data.columns import columns_of, SignalColumns
from ..data.drives import Drives
from ..data.formats.arrays import column_name
from ..data.recording import Recording, recording_error, SIGNALS
from ..data.recording_config import RecordingEntry
from ..data.sampling import clock_of
from ..diagnosis.gravity_sizes import gravity_sizes
from ..diagnosis.locked_joints import remarks_on_locked
from ..diagnosis.recording_faults import (
    read_first_rows,
    recording_faults,
    still_joints,
)
from ..errors import collected_warnings, one_of, unique_texts
from ..model.robot import Robot
from ..model.robot_size import size_findings
from .commanded_efforts import commanded_remark
from .entry_guess import guess_entry, merge_signal_tables, with_time_unit
from .experiment_text import experiment_text
from .proposal import PROPOSAL, Proposal, proposal
from .requirements import (
    require_angles,
    require_held,
    require_length,
    require_moved,
    require_rate,
    require_signs,
    require_units,
)
from .settings import (
    check_settings,
    drafted_drives,
    DraftSettings,
    effort_gains,
    of_joints,
    position_drives,
)


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
            origin = 'as given' if guess.given else origin
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
        settings, entries = self.settings, self.entries
        return experiment_text(
            'efforts',
            self,
            urdf,
            folder,
            signals=SIGNALS,
            drives=drafted_drives(settings, self.robot.joints, self.robot),
            settings=settings,
            joints=self.robot.joints,
            locked=self.robot.locked,
            effort_kind=settings.effort_kind,
            formats=[entry.file_format().name for entry in entries],
            clocks=[_clock_text(*each) for each in zip(entries, self.recordings, strict=True)],
        )


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
        entries, guesses = _guessed(files, whole, settings)
        joints = guesses[0].joints
        check_settings(settings, joints)
        drives = position_drives(settings, joints, whole)
        counts = (drives or Drives()).recorded(len(joints))
        entries = tuple(
            replace(entry, time_unit=guess.time_unit)
            if guess.time_unit
            else with_time_unit(entry, joints, counts)
            for entry, guess in zip(entries, guesses, strict=True)
        )
        recordings = read_first_rows([open_recording(e, joints, drives) for e in entries])
        require_angles(whole, recordings, settings)
        require_length(recordings)
        require_signs(recordings)
        require_moved(whole, recordings, settings)
        commanded = tuple(map(commanded_remark, entries, recordings))
        still = _still(whole, recordings)
        recorded = len(joints)
        moving = [j for j, joint in enumerate(joints) if joint not in still]
        if still:
            joints = tuple(joints[j] for j in moving)
            settings = of_joints(settings, moving)
            drives = position_drives(settings, joints, whole)
            entries = tuple(_entry_of(entry, moving) for entry in entries)
            guesses = tuple(_guess_of(guess, moving) for guess in guesses)
            recordings = tuple(recording.select(joints) for recording in recordings)
        opened = [open_recording(entry, joints, drives) for entry in entries]
        sources = [source for source in opened if isinstance(source, FileSource)]
        robot = _reduced(urdf, whole, joints, still, sources, settings)
        require_units(robot, recordings)
        faults = [finding.message for finding in size_findings(robot)]
        in_recordings = tuple(recording_faults(robot, recordings))
        require_rate(recordings, settings.rate, in_recordings)
        faults += [*map(str, in_recordings), *filter(None, commanded)]
        seen = [recorded_joints(source, robot, list(robot.locked)) for source in sources]
        require_held(whole, robot.joints, still, seen)
        # columns of an array have no names
        stood = {joint: (place, place) for joint, place in still.items()}
        seen = [replace(one, positions={**stood, **one.positions}) for one in seen]
        sizes = {} if robot.passive else gravity_sizes(robot, recordings)
    proposed = None
    if not robot.passive and (settings.gains is None or settings.effort_kind is None):
        kind, gains = settings.effort_kind, effort_gains(settings, len(joints))
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


def _guessed(
    files: Sequence[Path], whole: Robot, settings: DraftSettings
) -> tuple[tuple[RecordingEntry, ...], tuple[ColumnGuess, ...]]:
    """Return the entries of files of the same joints, and the guesses of their columns."""
    given = settings.columns
    found = merge_signal_tables(
        [guess_entry(f, whole.joints, settings.rate, given.get(str(f))) for f in files]
    )
    first, joints = found[0][0], found[0][1].joints
    for entry, guess in found:
        if guess.joints != joints:
            text = f'its joints are {one_of(guess.joints)}, those of {first.name} are '
            remedy = 'give recordings of the same joints'
            raise recording_error(entry.name, f'{text}{one_of(joints)}', remedy)
    return tuple(entry for entry, _ in found), tuple(guess for _, guess in found)


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
    absent = one_of([joint for joint, size in sizes.items() if not size])
    cleared = 'suggests efforts that the driver has cleared of it, which determine no masses'
    if not sizes:
        yield 'gravity shows at no joint: the recordings say nothing on the kind of effort'
    elif not seen:
        yield f'gravity does not show at {absent}: {cleared}'
    if not seen:
        return
    each = ', '.join(f'{size:.2g} at {joint}' for joint, size in seen.items())
    said = f"gravity in the efforts has this times the URDF's size: {each}"
    if 2 * len(seen) <= len(sizes):
        yield f'{said}, and does not show at {absent}: {cleared}'
        return
    middle, what = float(np.median(np.abs(list(seen.values())))), 'joint_torque'
    if middle < PROPOSAL.like[0]:
        what = 'motor_current or motor_torque'
    elif middle > PROPOSAL.like[1]:
        what = 'efforts in another unit than N m, or a URDF with too small masses'
    yield f'{said}; suggests {what}'
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
