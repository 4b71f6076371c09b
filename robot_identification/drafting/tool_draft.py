# SPDX-License-Identifier: Apache-2.0
"""Draft of an experiment file from recordings of joint states and the wrenches of a sensor."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
import re

from ..config.wrenches import read_wrench
from ..data.columns import Signal
from ..data.drives import Drives
from ..data.recording import recording_error, SIGNALS
from ..data.recording_config import RecordingEntry
from ..data.sampling import sample_rate
from ..errors import collected_warnings, IdentificationError
from ..loads.tool import CHANNELS
from ..model.robot import Robot
from ..model.robot_size import size_findings
from ..signals import SignalSettings
from ..version import page
from .entry_guess import guess_entry, signal_names, with_time_unit
from .experiment_text import experiment_text
from .requirements import require_units
from .settings import (
    check_settings,
    DraftSettings,
    position_drives,
)

_PART = re.compile(
    r'(?:^|[^a-z])(f|force|t|m|torque|moment)s?[^a-z0-9]*([xyz])'
    r'(?:[^a-z0-9]+n(?:[^a-z0-9]?m)?[^a-z0-9]*)?$'
)
"""Ends of names such as ``fx``, ``wrench.force.x``, ``sensor_torque_z``, ``Tx [Nm]``."""

_WORD = re.compile(r'(?:^|[^a-z])(?:wrench|force|ft)(?:[^a-z]|$)')
_NUMBERED = re.compile(r'^(.*?)[_.\[]?([0-6])\]?$')
"""Names such as ``actual_TCP_force_0``."""

_PASSED = 0.25
"""Highest cut-off frequency by the rate of a recording: half of what it has at all."""

_SENSOR = re.compile(r'(?:^|_)(?:ft|force|wrench)(?:_|$)|sensor')


@dataclass(frozen=True)
class ToolDraft:
    """
    An experiment for a tool that was drafted from files.

    Attributes
    ----------
    robot:
        The robot.
    entries:
        The recordings, with paths as they were given; ``effort`` has the wrench.
    topic:
        Of the wrenches in bags; empty for tables.
    frame:
        Link that is taken for the sensor's.
    settings:
        Units and zeros of the positions.
    cutoff:
        Cut-off frequency of the filter [Hz]; None for the default.

    """

    robot: Robot
    entries: tuple[RecordingEntry, ...]
    topic: str
    frame: str
    settings: DraftSettings
    cutoff: float | None = None

    def summary(self) -> str:
        """Return what was found, as text."""
        lines = [f'robot {self.robot.name}: {len(self.robot.joints)} joints']
        for entry in self.entries:
            wrench = self.topic or ', '.join(map(str, _columns(entry.effort)))
            lines.append(f'{entry.name}: wrenches in {wrench}')
        lines.append(f"the sensor is taken to be at link '{self.frame}' (data.tool.frame)")
        lines += [f'remark: {finding.message}' for finding in size_findings(self.robot)]
        return '\n'.join(lines)

    def text(self, urdf: Path, folder: Path) -> str:
        """Return the experiment file; paths in it are relative to its ``folder``."""
        return experiment_text(
            'tool',
            self,
            urdf,
            folder,
            signals=SIGNALS,
            drives=position_drives(self.settings, self.robot.joints, self.robot),
            settings=self.settings,
            joints=self.robot.joints,
        )


def draft_tool(urdf: Path, files: Sequence[Path], settings: DraftSettings) -> ToolDraft:
    """
    Draft an experiment for a tool from recordings of joint states and wrenches.

    Parameters
    ----------
    urdf:
        URDF or xacro file.
    files:
        Recordings.
    settings:
        Facts that the files do not contain; those on efforts are not used.

    Raises
    ------
    IdentificationError
        naming the file whose wrenches or positions cannot be recognised.

    """
    with collected_warnings():
        robot = settings.robot(urdf)
    topics: set[str] = set()
    frames: list[str] = []
    entries = []
    for file in files:
        entry, guess = guess_entry(file, robot.joints, settings.rate)
        if guess.joints != robot.joints:
            robot = settings.robot(urdf, guess.joints)
        check_settings(replace(settings, gains=None), robot.joints)
        if entry.file_format().topics:
            topic, frame = _wrenches_of(file)
            topics.add(topic)
            frames.append(frame)
        else:
            wrench = wrench_columns(signal_names(file).items())
            if not wrench:
                text = 'has no columns of forces and torques that can be recognised'
                remedy = f'name six in data.tool.recordings[].effort ({page("how_to/tool")})'
                raise recording_error(file, text, remedy)
            entry = replace(entry, effort=wrench)
            count = {'position': robot.n_joints, 'effort': len(CHANNELS)}
            count['velocity'] = robot.n_joints if entry.velocity is not None else 0
            entry = with_time_unit(entry, robot.joints, count)
        entries.append(entry)
    if len(topics) > 1:
        raise recording_error(files[0], f'other bags have wrenches on other topics: {topics}')
    topic = next(iter(topics), '')
    drives = position_drives(settings, robot.joints, robot) or Drives()
    rates = []
    for entry in entries:
        recording = read_wrench(entry, robot.joints, drives, Path('.'), topic)
        require_units(robot, [recording.select(robot.joints)])
        rates.append(sample_rate(recording))
    moved = [
        link for link, body in robot.link_frames.items() if body.parentJoint in robot.joint_ids
    ]
    named = [frame for frame in frames if frame in moved]
    # the one that hangs on the last joint: a link may carry a sensor of something else
    called = sorted(
        (link for link in moved if _SENSOR.search(link.lower())),
        key=lambda link: -robot.joint_ids.index(robot.link_frames[link].parentJoint),
    )
    frame = next(iter([*named, *called]), robot.tip)
    return ToolDraft(robot, tuple(entries), topic, frame, settings, _cutoff(min(rates)))


def _cutoff(rate: float) -> float | None:
    """Return the cut-off frequency [Hz] for a rate [Hz] that the default is too high for."""
    highest = _PASSED * rate
    return float(f'{highest:.2g}') if highest < SignalSettings().cutoff else None


def has_wrenches(file: Path) -> bool:
    """Return whether wrenches are recognised in a table or a bag; False for damaged ones."""
    try:
        if RecordingEntry(file=str(file)).file_format().topics:
            return bool(_wrenches_of(file))
        return wrench_columns(signal_names(file).items()) is not None
    except IdentificationError:  # whoever reads it says what is wrong
        return False


def wrench_columns(names: Iterable[tuple[str, tuple[int, ...] | None]]) -> Signal:
    """Return the six columns, or the one array of six, by names and shapes; None for none."""
    by_axes: dict[str, dict[str, str]] = {}
    numbered: dict[str, list[str]] = {}
    for name, shape in names:
        lower = name.lower()
        if shape is not None and len(shape) == 2:
            if shape[1] == len(CHANNELS) and _WORD.search(lower):
                return name
            continue
        if found := _PART.search(lower):
            kind = 'force' if found[1].startswith('f') else 'torque'
            by_axes.setdefault(lower[: found.start()], {})[f'{kind}_{found[2]}'] = name
        elif _WORD.search(lower) and (found := _NUMBERED.search(lower)):
            numbered.setdefault(found[1], []).append(name)
    for group in by_axes.values():
        if len(group) == len(CHANNELS):
            return tuple(group[channel] for channel in CHANNELS)
    six = (tuple(group) for group in numbered.values() if len(group) == len(CHANNELS))
    return next(six, None)


def _wrenches_of(bag: Path) -> tuple[str, str]:
    """Return the topic of the wrenches in a bag, and the frame that they name."""
    from ..data.bag import bag_topics  # libraries of bags: slow
    from ..data.sensor_messages import message_frame, WRENCH_STAMPED

    found = [name for name, kind in bag_topics(bag).items() if kind == WRENCH_STAMPED]
    if len(found) != 1:
        text = 'has no wrenches' if not found else f'has wrenches on {", ".join(found)}'
        remedy = f'record one topic of type {WRENCH_STAMPED}, or name it in data.tool.topic'
        raise recording_error(bag, text, remedy)
    return found[0], message_frame(bag, found[0], WRENCH_STAMPED)


def _columns(signal: Signal) -> Sequence[object]:
    return signal if isinstance(signal, tuple) else [signal]
