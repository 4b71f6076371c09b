# SPDX-License-Identifier: Apache-2.0
"""Plain values of a window and of its steps: the server needs no library to have them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class RobotSeen:
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
class Drafted:
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
class Planned:
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
class Export:
    """A format of exports: its name, what it is, its own error, whether it is sets alone."""

    name: str
    doc: str
    predictions: tuple[str, ...]
    sets: bool


@dataclass(frozen=True)
class Identified:
    """
    A result that was saved.

    Attributes
    ----------
    screen, level:
        The verdict's first screen and its level.
    files:
        What was written: ``result.yaml`` first.
    report, details:
        The report; empty where there is none, with what is shown in its place.
    warnings:
        As `identify --verbose` prints them, failures of files included.
    choices:
        What was chosen from the recordings.
    exports:
        Formats that the result has.
    bands:
        Times at which something shows: recording, and the fields of its `Band`.

    """

    screen: str
    level: str
    files: tuple[str, ...]
    report: str
    details: str
    warnings: tuple[str, ...]
    choices: tuple[Choice, ...]
    exports: tuple[Export, ...]
    bands: tuple[tuple[Any, ...], ...]


PROGRAM = 'robot-identification'

PLANNER = ('duration', 'floor', 'time_budget', 'seed')
"""Settings of the planner that have a field of their own."""

TEXTS = (
    'effort_kind', 'rate', 'gear_ratios', 'position_offsets', 'gains', 'ticks', 'gravity', 'kp',
    'kd', 'timestep',
)  # fmt: skip
SWITCHES = ('degrees', 'floating', 'tool')
"""Facts on recordings, as `init` takes them: texts, and those that hold or do not."""


@dataclass
class Given:
    """
    Files, facts and settings that the user of a window has given.

    Attributes
    ----------
    urdf, xacro, recordings:
        Files as they are typed, and arguments for xacro (``name:=value ...``).
    facts:
        Facts on the recordings, `TEXTS` and `SWITCHES`; see `drafting.settings.stated`.
    columns:
        Columns of tables that were corrected, by file.
    text:
        The experiment file, as it is being edited.
    settings:
        Settings of the experiment that are overruled, ``KEY=VALUE`` by lines.
    planner, planner_settings:
        Texts of `PLANNER`, and other settings of a plan, ``KEY=VALUE`` by lines.

    """

    urdf: str = ''
    recordings: list[str] = field(default_factory=list)
    xacro: str = ''
    facts: dict[str, Any] = field(
        default_factory=lambda: {**dict.fromkeys(TEXTS, ''), **dict.fromkeys(SWITCHES, False)}
    )
    columns: dict[str, FileColumns] = field(default_factory=dict)
    text: str = ''
    settings: str = ''
    planner: dict[str, str] = field(default_factory=lambda: dict.fromkeys(PLANNER, ''))
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
        Files, each with what it cannot hold, by format, with ``--samples N`` where they are sets.

    """

    robot: RobotSeen | None = None
    columns: tuple[FileColumns, ...] = ()
    drafted: Drafted | None = None
    signals: str = ''
    usable: bool = False
    planned: Planned | None = None
    identified: Identified | None = None
    exported: dict[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)
