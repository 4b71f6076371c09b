# SPDX-License-Identifier: Apache-2.0
"""Plain values that steps return to the window: the server needs no library to have them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class RobotSeen:
    """A robot's name, joints, findings (link and text), and what was changed when it was read."""

    name: str
    joints: tuple[str, ...]
    findings: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]


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

    """

    screen: str
    level: str
    files: tuple[str, ...]
    report: str
    warnings: tuple[str, ...]
    choices: tuple[Choice, ...]
    exports: tuple[Export, ...]
