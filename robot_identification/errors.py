# SPDX-License-Identifier: Apache-2.0
"""
The errors of the package: one tree, each error naming its culprit and the remedy.

An error carries what it is about (joint, link, file, key, value) as attributes, so that a node,
the command line and a test can use them without reading the text.  The text is always one line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
import difflib
import os
import re
from typing import Any
import warnings

MAX_LENGTH = 2000
"""Characters of a message, and of a remedy."""


class IdentificationError(Exception):
    """
    Base of every error that the package raises for bad input or an impossible request.

    Parameters
    ----------
    message:
        What is wrong, in one line that names the culprit.
    remedy:
        What to do about it, in one line; appended to the text.
    joint, link, file, key, value:
        What the error is about, where that applies.  ``key`` is a path in a settings file.

    """

    def __init__(
        self,
        message: str,
        *,
        remedy: str | None = None,
        joint: str | None = None,
        link: str | None = None,
        file: str | None = None,
        key: str | None = None,
        value: Any = None,
    ) -> None:
        self.message = _one_line(message)
        self.remedy = None if remedy is None else _one_line(remedy)
        self.joint = joint
        self.link = link
        self.file = None if file is None else str(file)
        self.key = key
        self.value = value
        super().__init__(str(self))

    def __str__(self) -> str:
        if self.remedy is None:
            return self.message
        return f'{self.message.rstrip(".")}: {self.remedy}'


def _one_line(text: object) -> str:
    """Return a text on one line; the middle of one that is very long is left out."""
    line = printable(' '.join(str(text).split()))
    if len(line) <= MAX_LENGTH:
        return line
    return f'{line[: MAX_LENGTH // 2]} ... {line[-MAX_LENGTH // 2 :]}'


def printable(text: str) -> str:
    """Return a text with escapes for what a terminal would obey, or cannot show."""
    if text.isprintable():
        return text
    return ''.join(
        c if c.isprintable() or c.isspace() else ascii(c)[1:-1] if ord(c) < 0x10000 else '?'
        for c in text
    )


def refusal(error: OSError | UnicodeEncodeError) -> str:
    """Return in one line why the system refuses something, or what no file can be called."""
    if isinstance(error, UnicodeEncodeError):
        name = printable(error.object[max(error.start - 40, 0) : error.end + 40])
        return f"'{name}' is not text in UTF-8: rename what is called so"
    where = '' if error.filename is None else f" '{os.fsdecode(error.filename)}'"
    return printable(f'the system refuses{where}: {error.strerror or error}')


class SettingsError(IdentificationError):
    """An unknown key, a wrong type, shape or range in an experiment file or node parameters."""


class ModelError(IdentificationError):
    """A URDF that cannot be read, or that has not the joints, links or inertias asked for."""


class RecordingError(IdentificationError):
    """A recording that cannot be read or cannot be trusted: file, stamps, columns, NaN, effort."""


class ExcitationError(IdentificationError):
    """A trajectory that cannot be planned within the limits, or must not be executed."""


class IdentifiabilityError(IdentificationError):
    """A recording that does not excite what it is asked to identify."""


class ConsistencyError(IdentificationError):
    """Parameters that no physical body can have, where physical ones were required."""


class IdentificationWarning(UserWarning):
    """Warning about data, model or result, in one line; also stored in the result."""

    def __init__(self, text: object = '') -> None:
        super().__init__(printable(' '.join(str(text).split())))


LOCKED = 'locked joint'
"""Noun of omissions that are joints held in place."""


class Omission(IdentificationWarning):
    """
    Warning about input that was left out, changed or not judged, and how to have it.

    ``noun`` and ``items`` are what was left out, to be counted: 'locked joint' and its names.
    """

    def __init__(self, text: object = '', noun: str = '', items: Sequence[str] = ()) -> None:
        super().__init__(text)
        self.noun, self.items = noun, tuple(items)


class OmittedText(str):
    """Text of an `Omission`, with what it counts."""

    noun: str
    items: tuple[str, ...]

    @classmethod
    def of(cls, omission: Omission) -> OmittedText:
        """Return the text of an omission."""
        text = cls(omission)
        text.noun, text.items = omission.noun, omission.items
        return text


class Notes(list[str]):
    """Texts of warnings; ``omissions`` are those of what was left out (`Omission`)."""

    def __init__(self) -> None:
        super().__init__()
        self.omissions: list[str] = []

    def joined(self, others: Notes) -> Notes:
        """Return these texts and others."""
        both = Notes()
        both += [*self, *others]
        both.omissions += [*self.omissions, *others.omissions]
        return both


EXTRAS = {
    'cryptography': 'fleet',
    'dask': 'fleet',
    'h5py': 'hdf5',
    'mujoco': 'sim',
    'nicegui': 'window',
    'numba': 'fast',
    'pandas': 'notebook',
    'pyarrow': 'parquet',
}
"""The extra of ``setup.py`` that brings an optional package."""


def missing(package: str, purpose: str = '') -> IdentificationError:
    """Return the error for an optional package that is not installed, and what it is for."""
    name = f"'robot-identification[{EXTRAS[package]}]'" if package in EXTRAS else package
    # Ubuntu 24.04 guards the system's Python, for which ROS is built
    beside = f'beside ROS from packages: PIP_BREAK_SYSTEM_PACKAGES=1 pip install {package}'
    return IdentificationError(
        f"'{package}' is not installed{f', which is for {purpose}' if purpose else ''}",
        value=package,
        remedy=f'pip install {name} brings it; {beside}',
    )


@contextmanager
def importing(package: str, purpose: str = '') -> Iterator[None]:
    """Raise the error that names what brings an optional package where its import fails."""
    try:
        yield
    except ImportError as error:
        raise missing(package, purpose) from error


def one_of(names: Iterable[object], limit: int = 12) -> str:
    """
    List the valid names for an error message.

    Parameters
    ----------
    names:
        The valid names.
    limit:
        How many to spell out before the rest is only counted.

    """
    texts = [str(name) for name in names]
    listed = ', '.join(texts[:limit])
    return listed if len(texts) <= limit else f'{listed} and {len(texts) - limit} more'


def similar(name: object, names: Iterable[object]) -> str | None:
    """Return the valid name that ``name`` was probably meant to be, or None."""
    known = {str(each).lower(): str(each) for each in names}
    close = difflib.get_close_matches(str(name).lower(), known, n=1)
    return known[close[0]] if close else None


def suggestion(name: object, names: Iterable[object]) -> str:
    """Return the question whether a similar valid name was meant, for an error message, or ''."""
    meant = similar(name, names)
    return '' if meant is None else f"did you mean '{meant}'? "


def unique_texts(*notes: Sequence[str]) -> tuple[str, ...]:
    """Return all texts in order, each once."""
    return tuple(dict.fromkeys(text for several in notes for text in several))


def reading_failure(error: Exception) -> str:
    """
    Return why a file cannot be read as YAML, with its place and without anything of its content.

    Parameters
    ----------
    error:
        Of the system, of decoding, or of PyYAML, whose own text has a piece of the file.

    """
    if isinstance(error, OSError):
        return error.strerror or 'the system cannot read it'
    if isinstance(error, UnicodeDecodeError):
        return 'it is not text in UTF-8'
    # what stands in quotes is of the file
    problem = re.split('["\']', getattr(error, 'problem', None) or 'unknown')[0].strip()
    mark = getattr(error, 'problem_mark', None)
    where = '' if mark is None else f' in line {mark.line + 1}, column {mark.column + 1}'
    return f'it is not readable as YAML{where} ({problem})'


@contextmanager
def collected_warnings() -> Iterator[Notes]:
    """
    Collect our own warnings as texts for a result; others pass.

    The list that it gives is filled when the block has ended.
    """
    texts = Notes()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter('always', IdentificationWarning)
        yield texts
    for warning in caught:
        if issubclass(warning.category, IdentificationWarning):
            texts.append(str(warning.message))
            if isinstance(warning.message, Omission):
                texts.omissions.append(OmittedText.of(warning.message))
        else:
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )
