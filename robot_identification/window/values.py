# SPDX-License-Identifier: Apache-2.0
"""Plain values that steps return to the window: the server needs no library to have them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
import shlex
from typing import Any, Literal

from ..errors import SettingsError

Step = Literal[
    'look_at_robot',
    'look_at_columns',
    'draft_experiment',
    'save_experiment',
    'draw_signals',
    'plan_motion',
    'identify_experiment',
    'export_result',
]
"""Names of the steps, functions of `steps`."""


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

    """

    file: str
    joints: tuple[str, ...]
    choices: tuple[Any, ...]
    time: Any
    columns: Mapping[str, Mapping[str, Any]]


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
    """A planned motion in words, warnings, and the files that were written."""

    summary: str
    warnings: tuple[str, ...]
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
    report:
        The report; empty where it could not be made.
    warnings:
        As `identify --verbose` prints them, failures of files included.
    choices:
        What was chosen from the recordings.
    exports:
        Formats that the result has.
    bands:
        Times that do not belong to the others: recording, first and last [s], word, joints.

    """

    screen: str
    level: str
    files: tuple[str, ...]
    report: str
    warnings: tuple[str, ...]
    choices: tuple[Choice, ...]
    exports: tuple[Export, ...]
    bands: tuple[tuple[str, float, float, str, tuple[str, ...]], ...]


def settings_of(lines: str) -> dict[str, str]:
    """Return settings by key of lines ``KEY=VALUE``; raises SettingsError for another one."""
    found = {}
    for line in filter(None, map(str.strip, lines.splitlines())):
        key, sign, value = line.partition('=')
        if not sign or not key.strip():
            raise SettingsError(
                f"'--set {line}' is not KEY=VALUE", key=key, remedy='for example signals.cutoff=20'
            )
        found[key.strip()] = value.strip()
    return found


def xacro_of(text: str) -> dict[str, str]:
    """Return arguments for xacro, ``name:=value`` apart by spaces; raises SettingsError."""
    found = {}
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise SettingsError(
            f"'--xacro {text}' has a quotation mark without another: name:=value", value=text
        ) from error
    for word in words:
        name, sign, value = word.partition(':=')
        if not sign or not name:
            raise SettingsError(f"'--xacro {word}' is not name:=value", value=word)
        found[name] = value
    return found
