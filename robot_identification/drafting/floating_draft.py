# SPDX-License-Identifier: Apache-2.0
"""Draft of an experiment file for a robot on its feet, with comments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ..config.floating_sources import ESTIMATED, FloatingReader
from ..config.sources import open_recording
from ..data.columns import columns_of
from ..data.drives import Drives
from ..data.floating_recording import FloatingRecording
from ..data.formats.arrays import column_name
from ..data.recording import SIGNALS
from ..data.recording_config import RecordingEntry
from ..diagnosis.recording_faults import read_first_rows
from ..errors import collected_warnings, IdentificationError, one_of, SettingsError
from ..model.floating_base import BASE_JOINTS
from ..model.mechanisms import ContactSettings, ImuSettings
from ..model.robot import Robot
from ..model.robot_size import size_findings
from ..model.urdf import parse_tree
from ..version import page
from .entry_guess import guess_entry, with_time_unit
from .experiment_text import experiment_text
from .floating_columns import floating_signals, FloatingSignals
from .leg_order import order_remarks
from .requirements import require_angles, require_length, require_signs, require_units
from .settings import check_settings, drafted_drives, DraftSettings, position_drives

_FEET = ('foot', 'feet', 'sole', 'ankle_roll', 'toe')
"""Parts of the names of feet; the first that several links have counts."""

_AGREE = 0.5
"""Mean cosine between upward by orientation and by accelerometer that agree."""

_ABOVE_FLAGS = 1.5
"""Value that flags never have, but forces."""

_JOINTS_TO_A_BALL = 4
"""Joints of a leg up to which its foot cannot keep a sole level."""

_LEAST_FORCE = 10.0
"""Force of a foot that stands, in place of a threshold that only its sensor's maker knows [N]."""


@dataclass(frozen=True)
class FloatingDraft:
    """
    An experiment for a robot on its feet that was drafted from files.

    Attributes
    ----------
    robot:
        With a floating base.
    entries:
        The recordings, with paths as they were given.
    imu:
        Link that is taken for the IMU's frame; None for the root link.
    contacts:
        The feet.
    posture:
        Positions of the joints at the beginning [rad or m].
    remarks:
        On what was found and taken.
    settings:
        Facts that the files do not contain.

    """

    robot: Robot
    entries: tuple[RecordingEntry, ...]
    imu: str | None
    contacts: tuple[ContactSettings, ...]
    posture: dict[str, float]
    remarks: tuple[str, ...]
    settings: DraftSettings

    def summary(self) -> str:
        """Return what was found, as text."""
        feet = one_of([contact.frame for contact in self.contacts])
        lines = [
            f'robot {self.robot.name}: {len(self.robot.driven_joints)} joints and a floating '
            f'base, on {feet}'
        ]
        for entry in self.entries:
            assert entry.imu is not None
            imu = entry.imu.topic or _shown(entry.imu.gyroscope)
            lines.append(f'{entry.name}: IMU {imu}; contacts {_shown(entry.contacts)}')
        return '\n'.join([*lines, *(f'remark: {text}' for text in self.remarks)])

    def text(self, urdf: Path, folder: Path) -> str:
        """Return the experiment file; paths in it are relative to its ``folder``."""
        joints, settings = self.robot.driven_joints, self.settings
        return experiment_text(
            'floating',
            self,
            urdf,
            folder,
            signals=SIGNALS,
            drives=drafted_drives(settings, joints, self.robot),
            settings=settings,
            joints=joints,
            effort_kind=settings.effort_kind,
            contacts=[_contact_keys(contact) for contact in self.contacts],
            imus=[_imu_keys(entry) for entry in self.entries],
            formats=[''] * len(self.entries),
            clocks=[''] * len(self.entries),
            feet_page=page('how_to/on_its_feet'),
        )


def draft_floating(
    robot: Robot, files: Sequence[Path], settings: DraftSettings, asked: bool
) -> FloatingDraft | None:
    """
    Draft an experiment for a robot on its feet.

    Parameters
    ----------
    robot:
        With a floating base.
    files:
        Recordings; of several, the last one is to validate on.
    settings:
        Facts that the files do not contain.
    asked:
        Whether it is one for sure.

    Returns
    -------
    The draft; None for recordings without an IMU or a robot without feet, if not asked for.

    Raises
    ------
    IdentificationError
        naming what cannot be recognised.

    """
    carried = moved_links(robot)
    try:
        found = [floating_signals(file, carried) for file in files]
    except IdentificationError:
        if asked:
            raise
        return None  # the draft of arms says what is wrong with the file
    feet = found[0].feet or feet_of(carried)
    lacking = next((file for file, each in zip(files, found, strict=True) if not each.imu), None)
    if lacking is not None or len(feet) < 2:
        if not asked:
            return None
        what = f"'{lacking}' has no IMU"
        remedy = 'name its columns after gyroscope and accelerometer'
        if lacking is None:
            what, remedy = 'no two feet are recognised', 'describe them in robot.contacts'
        raise SettingsError(what, remedy=f'{remedy} ({page("how_to/on_its_feet")})')
    contacts = tuple(contact_of(robot, foot) for foot in feet)
    frame, remarks = _imu_link(robot, found[0].frame)
    if points := [contact.frame for contact in contacts if contact.kind == 'point']:
        remarks.append(
            f'the URDF has no radius of {one_of(points)}, taken for points: give kind: sphere and '
            'its radius where they are balls'
        )
    check_settings(settings, robot.driven_joints)
    entries, opened = [], []
    for file, signals in zip(files, found, strict=True):
        entry, recording, notes = _entry(file, signals, robot, contacts, frame, settings)
        entries.append(entry)
        opened.append(recording)
        remarks += notes
    remarks += [finding.message for finding in size_findings(_clamped(robot))]
    start = opened[0].position[0, -len(robot.driven_joints) :]
    posture = {
        joint: round(float(place), 3)
        for joint, place in zip(robot.driven_joints, start, strict=True)
        if round(float(place), 3)
    }
    return FloatingDraft(
        robot, tuple(entries), frame, contacts, posture, tuple(dict.fromkeys(remarks)), settings
    )


def _entry(
    file: Path,
    signals: FloatingSignals,
    robot: Robot,
    contacts: tuple[ContactSettings, ...],
    frame: str | None,
    settings: DraftSettings,
) -> tuple[RecordingEntry, FloatingRecording, list[str]]:
    """Return the entry of a file, its recording, and remarks."""
    joints, remarks = robot.driven_joints, []
    entry, guess = guess_entry(file, joints, settings.rate)
    if guess.joints != joints:
        missing = one_of([joint for joint in joints if joint not in guess.joints])
        raise SettingsError(
            f"'{file}' has no {missing}",
            file=str(file),
            remedy='record all joints that carry the robot, or lock the others in robot.locked',
        )
    drives = position_drives(settings, joints, robot) or Drives()
    if not entry.file_format().topics:
        entry = with_time_unit(entry, joints, drives.recorded(len(joints)))
    plain = read_first_rows([open_recording(entry, joints, drives)])
    clamped = _clamped(robot)
    require_angles(clamped, plain, settings)
    require_units(clamped, plain)
    require_length(plain)
    require_signs(plain)
    stance = signals.contacts if signals.contacts is not None else ESTIMATED
    given = len(columns_of(stance) or ())
    if given not in (1, len(contacts)):
        remarks.append(
            f'{entry.name}: {given} columns of contacts for {len(contacts)} feet: stance is '
            'estimated (contacts: auto)'
        )
        stance = ESTIMATED
    entry = replace(entry, imu=signals.imu, contacts=stance)
    reader = FloatingReader(robot.joints, contacts, ImuSettings(frame=frame), drives, Path('.'))
    with collected_warnings():
        recording = reader.read(entry, 'data')
    remarks += order_remarks(entry, recording, robot, contacts)
    return _settled(entry, recording, reader, signals, remarks)


def _settled(
    entry: RecordingEntry,
    recording: FloatingRecording,
    reader: FloatingReader,
    signals: FloatingSignals,
    remarks: list[str],
) -> tuple[RecordingEntry, FloatingRecording, list[str]]:
    """Settle the order of the orientation and the threshold of the contacts by their values."""
    imu = entry.imu
    assert imu is not None
    if recording.orientation is not None and not signals.named_axes:
        first = np.roll(recording.orientation, -1, axis=1)  # w, x, y, z
        if _agreement(recording, first) > _agreement(recording, recording.orientation):
            columns = columns_of(imu.orientation) or ()
            if len(columns) == 1:
                columns = tuple(column_name(str(columns[0]), k) for k in range(4))
            imu = replace(imu, orientation=(*columns[1:], columns[0]))
            entry = replace(entry, imu=imu)
            remarks.append(f'{entry.name}: its quaternion begins with w')
            recording = replace(recording, orientation=first)
    if recording.orientation is not None and _agreement(recording, recording.orientation) < _AGREE:
        remarks.append(
            f'{entry.name}: its orientation does not fit its accelerometer, and is left out'
        )
        entry = replace(entry, imu=replace(imu, orientation=None))
    if entry.contacts == ESTIMATED:
        remarks.append(
            f'{entry.name}: no contacts are recognised; stance is estimated from the efforts '
            '(contacts: auto)'
        )
        return entry, recording, remarks
    with collected_warnings():
        above = reader.read(replace(entry, contact_threshold=_ABOVE_FLAGS), 'data').stance
    if above.any():
        remarks.append(
            f'{entry.name}: contacts are forces, and hold from {_LEAST_FORCE:g} on: see '
            'contact_threshold'
        )
        entry = replace(entry, contact_threshold=_LEAST_FORCE)
    if not signals.feet:
        feet = one_of([contact.frame for contact in reader.contacts])
        remarks.append(
            f'{entry.name}: contacts have no names and are taken for {feet}: check their order'
        )
    return entry, recording, remarks


def _agreement(recording: FloatingRecording, orientation: np.ndarray) -> float:
    """Return the mean cosine between upward by the orientation and by the accelerometer."""
    x, y, z, w = (orientation / np.linalg.norm(orientation, axis=1, keepdims=True)).T
    upward = np.column_stack(
        [2.0 * (x * z - w * y), 2.0 * (y * z + w * x), 1.0 - 2.0 * (x * x + y * y)]
    )
    along = recording.accelerometer
    along = along / np.maximum(np.linalg.norm(along, axis=1, keepdims=True), 1e-9)
    return float(np.mean(np.sum(upward * along, axis=1)))


# ---------------------------------------------------------------------------------- the robot


def _clamped(robot: Robot) -> Robot:
    """Return the robot with its base fixed."""
    with collected_warnings():
        return Robot.from_urdf(robot.urdf, robot.driven_joints, massless=True)


def moved_links(robot: Robot) -> tuple[str, ...]:
    """Return the links that joints move against the base."""
    root = robot.joint_ids[robot.n_joints - len(robot.driven_joints) - 1]
    return tuple(
        name for name, body in robot.link_frames.items() if body.parentJoint not in (0, root)
        and body.parentJoint in robot.joint_ids
    )  # fmt: skip


def feet_of(links: Sequence[str]) -> tuple[str, ...]:
    """Return the links whose names are those of feet; empty for none."""
    for part in _FEET:
        found = tuple(link for link in links if part in link.lower())
        exact = tuple(link for link in found if link.lower().endswith((part, f'{part}_link')))
        if len(exact or found) > 1:
            return exact or found
    return ()


def contact_of(robot: Robot, link: str) -> ContactSettings:
    """
    Return the contact of a foot.

    One sphere is a ball; a box or several shapes, or a leg of five joints or more, have a sole;
    the others are points.
    """
    element = next(
        each for each in parse_tree(robot.urdf).iterfind('link') if each.get('name') == link
    )
    spheres = list(element.iterfind('collision/geometry/sphere'))
    others = list(element.iterfind('collision/geometry/*'))
    if len(spheres) == 1 and len(others) == 1:
        return ContactSettings(
            frame=link, kind='sphere', radius=float(spheres[0].get('radius') or 0.0)
        )
    box = element.find('collision/geometry/box')
    body = robot.link_frames[link].parentJoint
    joints = len(robot.model.supports[body]) - 1 - len(BASE_JOINTS)  # with the universe
    if box is None and len(others) < 3 and joints <= _JOINTS_TO_A_BALL:
        return ContactSettings(frame=link)
    places = [
        [float(x) for x in (origin.get('xyz') or '0 0 0').split()]
        for origin in element.iterfind('collision/origin')
    ]
    sole = (0.0, 0.0)
    if box is not None:
        x, y, _ = (0.5 * float(size) for size in (box.get('size') or '0 0 0').split())
        sole = (x, y)
    elif len(places) > 1:
        spread = 0.5 * np.ptp(np.array(places), axis=0)
        sole = (float(round(spread[0], 4)), float(round(spread[1], 4)))
    return ContactSettings(frame=link, kind='flat', sole=sole)


def _imu_link(robot: Robot, named: str) -> tuple[str | None, list[str]]:
    """Return the link at the IMU by the messages' or its own name; None for the root link."""
    root = robot.joint_ids[robot.n_joints - len(robot.driven_joints) - 1]
    fixed = [name for name, body in robot.link_frames.items() if body.parentJoint == root]
    if named in fixed:
        return named, []
    called = [name for name in fixed if 'imu' in name.lower()]
    if not called:
        text = "the IMU is taken to be at the root link's frame: see robot.imu"
        return None, [text]
    return called[0], [f"the IMU is taken to be at link '{called[0]}': see robot.imu"]


def _shown(signal: object) -> str:
    columns = columns_of(signal)  # type: ignore[arg-type]
    return one_of(columns, 4) if columns else 'none'


def _contact_keys(contact: ContactSettings) -> dict[str, object]:
    """Return the keys of a contact in an experiment file."""
    keys: dict[str, object] = {'frame': contact.frame, 'kind': contact.kind}
    if contact.radius:
        keys['radius'] = contact.radius
    if any(contact.sole):
        keys['sole'] = list(contact.sole)
    return keys


def _imu_keys(entry: RecordingEntry) -> dict[str, object]:
    """Return the keys of a recording's IMU in an experiment file."""
    assert entry.imu is not None
    return {
        name: list(signal) if isinstance(signal, tuple) else signal
        for name in ('topic', 'gyroscope', 'accelerometer', 'orientation')
        if (signal := getattr(entry.imu, name)) is not None
    }
