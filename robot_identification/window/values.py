# SPDX-License-Identifier: Apache-2.0
"""Plain values of a window and of its steps: the server needs no library to have them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

PROGRAM = 'robot-identification'


@dataclass(frozen=True, kw_only=True)
class Made:
    """Outcome of a step; ``command`` has the words of the command line that does the same."""

    command: tuple[str, ...]


@dataclass(frozen=True)
class RobotSeen(Made):
    """A robot's name, joints, findings (link and text), and what was changed when it was read."""

    name: str
    joints: tuple[str, ...]
    findings: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class FileColumns:
    """
    Columns of a table, by name or 0-based index, and which of them are what.

    Attributes
    ----------
    file, joints:
        As it was named; those of the robot.
    choices:
        All columns that may be a signal's.
    time:
        Column of the stamps, or two; None for none.
    columns:
        Column by joint by signal, as far as they are known.
    time_unit:
        Of the stamps; empty for the likely one.

    """

    file: str
    joints: tuple[str, ...]
    choices: tuple[Any, ...]
    time: Any
    columns: Mapping[str, Mapping[str, Any]]
    time_unit: str = ''


@dataclass(frozen=True)
class Drafted(Made):
    """
    Conclusions from recordings, and the experiment file that follows from them.

    Attributes
    ----------
    summary:
        What `init` prints.
    proposal, changes:
        What the recordings speak for beyond the facts, in words, and as facts; empty for nothing.
    text:
        The experiment file, which was written; empty if the kind of the efforts is not known.

    """

    summary: str
    proposal: str
    changes: Mapping[str, str]
    text: str


@dataclass(frozen=True)
class Planned(Made):
    """A planned motion in words, and the files that were written."""

    summary: str
    files: tuple[str, ...]


@dataclass(frozen=True)
class Choice:
    """A setting that was chosen from the recordings: its key, its value, and why."""

    key: str
    value: str
    reason: str


@dataclass(frozen=True)
class Exported(Made):
    """A file that was exported, and what it cannot hold."""

    format: str
    file: str
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Export:
    """A format of exports: its name, what it is, its own error, whether it is sets alone."""

    name: str
    doc: str
    predictions: tuple[str, ...]
    sets: bool


Bands = Mapping[str, Sequence[tuple[Any, ...]]]
"""Times at which something shows, by recording: the fields of each `Band`."""


@dataclass(frozen=True)
class Identified(Made):
    """
    A result that was saved.

    Attributes
    ----------
    screen, level:
        The verdict's first screen and its level.
    files:
        What was written: ``result.yaml`` first.
    exports:
        Formats that the result has.
    report, details:
        The report, or the parameters where there is none; else empty.
    warnings:
        As `identify --verbose` prints them, failures of files included.
    choices:
        What was chosen from the recordings.
    bands:
        What was found.

    """

    screen: str
    level: str
    files: tuple[str, ...]
    exports: tuple[Export, ...]
    report: str = ''
    details: str = ''
    warnings: tuple[str, ...] = ()
    choices: tuple[Choice, ...] = ()
    bands: Bands = field(default_factory=dict)


@dataclass
class Given:
    """
    Files, facts and settings that the user of a window has given.

    Attributes
    ----------
    urdf, xacro, recordings:
        Files as they are typed, and arguments for xacro (``name:=value ...``).
    facts:
        Facts on the recordings by name; see `drafting.settings.stated`.
    columns:
        Columns of tables that were corrected, by file.
    text:
        The experiment file, as it is being edited.
    settings:
        Settings of the experiment that are overruled, ``KEY=VALUE`` by lines.
    planner, planner_settings:
        Settings of a plan that have fields, by name, and others, ``KEY=VALUE`` by lines.

    """

    urdf: str = ''
    recordings: list[str] = field(default_factory=list)
    xacro: str = ''
    facts: dict[str, Any] = field(default_factory=dict)
    columns: dict[str, FileColumns] = field(default_factory=dict)
    text: str = ''
    settings: str = ''
    planner: dict[str, str] = field(default_factory=dict)
    planner_settings: str = ''


@dataclass
class Found:
    """
    Findings of the steps of a window; None, or empty, where they are still to be made.

    Attributes
    ----------
    robot, columns, drafted, signals, planned, identified:
        By the steps; signals in words.
    usable:
        Whether the experiment file was written and can be used.
    exported:
        By file.

    """

    robot: RobotSeen | None = None
    columns: tuple[FileColumns, ...] = ()
    drafted: Drafted | None = None
    signals: str = ''
    usable: bool = False
    planned: Planned | None = None
    identified: Identified | None = None
    exported: dict[str, Exported] = field(default_factory=dict)
