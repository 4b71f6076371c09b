# SPDX-License-Identifier: Apache-2.0
"""Format of recordings: all that other code asks of one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ...untrusted.files import open_regular
from ..columns import Block, Column, Wanted
from ..recording import Table


@dataclass(frozen=True)
class Head:
    """
    Columns of a file, and its first rows.

    Attributes
    ----------
    shapes:
        By name or 0-based index: the shape of an array, None for a column of a table.
    spelled:
        Their names with words from which signal and joint can be guessed; empty for the names.
    lists:
        Whether names that end in ``[k]`` are elements of lists, counted from 0.
    several:
        Whether the first rows are of more than one recording.
    environments:
        Number of parallel environments, of which the first one's arrays are named; 0 for none.
    rows:
        (n, k) first rows of columns whose names may mean nothing, in their order; None where
        names tell, or where the rows are no numbers.
    labels:
        The k columns of `rows`.

    """

    shapes: Mapping[Column, tuple[int, ...] | None]
    spelled: tuple[str, ...] = ()
    lists: bool = False
    several: bool = False
    environments: int = 0
    rows: np.ndarray | None = None
    labels: tuple[Column, ...] = ()

    @property
    def by_spelling(self) -> dict[str, str]:
        """Columns and arrays of one dimension by the names to guess by; none for indices."""
        names = [n for n, shape in self.shapes.items() if shape is None or len(shape) == 1]
        if not all(isinstance(name, str) for name in names):
            return {}
        return dict(zip(self.spelled or map(str, names), map(str, names), strict=True))


@dataclass(frozen=True)
class Format:
    """
    A format of recordings.

    What raises does so with `RecordingError`, which names the file and what cannot be read in it.

    Attributes
    ----------
    name:
        Value of the key ``format``.
    title:
        What a file is, with an article.
    suffixes:
        Endings of its files' names, in lower case.
    recognise:
        Tells by its content whether a file, or a folder where the format has any, is of it.
    heads:
        First bytes by which it is known under another name: what it then is called, and what to
        do, with ``{stem}`` for its name without ending.
    common:
        Endings that other files have as often: these are not taken out of folders.
    topics:
        Whether it has messages on topics, read by `data.bag`: they name their joints and have
        stamps, so that neither columns nor a clock are to be given, and it may be a folder.
    wide:
        Whether one name may stand for several columns.
    episodes:
        Whether recordings may follow each other in a file, with stamps that begin again.
    blocks:
        Reads blocks of rows of a given size.
    tables:
        Likewise, for a format that has stamps and numbers of rows of its own.
    head:
        Reads columns, and first rows up to a number, for those who guess; None where there are
        none to be guessed.
    arrays:
        Reads arrays by name that are no signals; None where it has no such.
    rows:
        Estimates the number of rows; 0 for unknown.
    duration:
        Estimates its length [s]; None for that by its rows.
    origin:
        Returns its start [s since 1970] and remarks of its recorder.

    """

    name: str
    title: str
    suffixes: tuple[str, ...]
    recognise: Callable[[Path], bool]
    heads: Mapping[bytes, tuple[str, str]] = field(default_factory=dict)
    common: tuple[str, ...] = ()
    topics: bool = False
    wide: bool = False
    episodes: bool = False
    blocks: Callable[[Wanted, int], Iterator[Block]] | None = None
    tables: Callable[[Wanted, int], Iterator[Table]] | None = None
    head: Callable[[Path, int], Head] | None = None
    arrays: Callable[[Path, Sequence[str]], dict[str, np.ndarray]] | None = None
    rows: Callable[[Path], float] = lambda file: 0.0
    duration: Callable[[Path], float] | None = None
    origin: Callable[[Path], tuple[float | None, Mapping[str, str]]] = lambda file: (None, {})


def first_bytes(file: Path, size: int) -> bytes:
    """Return the beginning of a file; raises OSError."""
    with open_regular(file) as stream:
        return stream.read(size)
