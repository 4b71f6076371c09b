# SPDX-License-Identifier: Apache-2.0
"""
Bounds of parameters: linear ones of standard parameters, and boxes of base parameters.

Bounds of standard parameters are rows with the settings' keys that ask for them.  Lomakin and
Deutscher (IROS 2020), section VI: intervals of standard parameters, eq. (54), are carried to base
parameters by interval arithmetic, which is exact for each base parameter alone because it is a
linear combination; that two of them share a standard parameter is lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from ..errors import one_of, reading_failure, SettingsError
from ..model.parameters import INERTIAL_SYMBOLS, ParameterLayout, ParameterSet
from ..regressor.base_parameters import BaseStructure
from ..untrusted.files import load_yaml, read_text, user_path

Interval = tuple[float | None, float | None]
"""Lowest and highest value; None leaves an end open."""

_KEY = 'estimation.mrls.bounds'

_REACHED = 0.01
"""Distance from a bound that counts as none, relative to the value."""


def read_mapping(path: str | Path, what: str, key: str, remedy: str) -> dict[str, Any]:
    """
    Read a YAML mapping.

    Raises
    ------
    SettingsError
        naming ``key`` and the file, called ``what``, that cannot be read or is no mapping.

    """
    try:
        document = load_yaml(read_text(user_path(path)))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        text = f"cannot read the {what} '{path}': {reading_failure(error)}"
        raise SettingsError(text, file=str(path), key=key, remedy=remedy) from error
    if not isinstance(document, Mapping):
        text = f"the {what} '{path}': not a mapping of names to values"
        raise SettingsError(text, file=str(path), key=key, remedy=remedy)
    return {str(name): value for name, value in document.items()}


def read_boxes(path: str) -> dict[str, Interval]:
    """
    Read intervals by name from a YAML file.

    Raises
    ------
    SettingsError
        naming the file that cannot be read, or an entry that is no pair of numbers.

    """
    key, remedy = f'{_KEY}_file', 'give the path of a YAML of names and [lowest, highest]'
    document = read_mapping(path, 'bounds', key, remedy)
    return {name: _interval(name, entry, path) for name, entry in document.items()}


def stated_boxes(bounds: Mapping[str, Interval], path: str | None) -> dict[str, Interval]:
    """Return the intervals of a file, if there is one, and of ``bounds``, which go before it."""
    return ({} if path is None else read_boxes(path)) | dict(bounds)


def by_precedence(entries: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return entries by symbol first, then those by a parameter's own name, which overrule."""
    return sorted(entries.items(), key=lambda item: '.' in item[0])


def named(layout: ParameterLayout, name: str, key: str) -> list[int]:
    """
    Return the places of a parameter, or of all that have a symbol.

    Raises
    ------
    SettingsError
        naming ``key`` where there is none.

    """
    symbols = [full.rpartition('.')[2] for full in layout]
    places = [i for i, full in enumerate(layout) if name in (full, symbols[i])]
    if not places:
        raise SettingsError(
            f"'{key}.{name}' is no parameter that this can be said of",
            key=f'{key}.{name}',
            remedy=f'name one of {one_of(layout, 4)}, or a symbol: '
            f'{one_of(dict.fromkeys(symbols), 20)}',
        )
    return places


def standard_box(
    layout: ParameterLayout, boxes: Mapping[str, Interval]
) -> tuple[np.ndarray, np.ndarray]:
    """
    Return the lowest and the highest value of every standard parameter, (p,) each.

    Parameters
    ----------
    layout:
        The p standard parameters.
    boxes:
        Intervals by the name of a parameter, or by a symbol (``m``, ``fv``) for all links or
        joints; a parameter's own entry goes before its symbol's.  Others are infinite.

    Raises
    ------
    SettingsError
        naming an entry that is no parameter, or whose ends are exchanged.

    """
    lower, upper = np.full(len(layout), -np.inf), np.full(len(layout), np.inf)
    for name, (low, high) in by_precedence(boxes):
        places = named(layout, name, _KEY)
        if low is not None and high is not None and low > high:
            raise SettingsError(
                f"'{_KEY}.{name}' is [{low:g}, {high:g}]",
                key=f'{_KEY}.{name}',
                value=(low, high),
                remedy='the first has to be below the second',
            )
        lower[places] = -np.inf if low is None else low
        upper[places] = np.inf if high is None else high
    return lower, upper


def base_box(
    structure: BaseStructure, boxes: Mapping[str, Interval], prior: ParameterSet | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """
    Return the lowest and the highest value of every base parameter, (b,) each.

    Parameters
    ----------
    structure:
        The regrouping of standard into base parameters.
    boxes:
        As in `standard_box`.
    prior:
        Standard parameters that have to be inside their boxes, since parameters that the
        recording does not determine keep them; None checks nothing.

    Raises
    ------
    SettingsError
        as `standard_box`, and naming a prior outside its box.

    """
    lower, upper = standard_box(structure.layout, boxes)
    if prior is not None and prior.layout.names == structure.layout.names:
        for name, value, low, high in zip(
            structure.layout, prior.values, lower, upper, strict=True
        ):
            if not low <= value <= high:
                raise SettingsError(
                    f"the prior of '{name}' is {value:g}, outside its bounds [{low:g}, {high:g}]",
                    key=_KEY,
                    value=value,
                    remedy='widen the bounds, or give a prior within them in estimation.prior',
                )
    C = structure.regrouping
    used = C != 0.0
    # 0 times infinity is 0 here: the parameter does not enter
    low, high = (np.where(used, C * np.where(used, end, 0.0), 0.0) for end in (lower, upper))
    return np.minimum(low, high).sum(axis=1), np.maximum(low, high).sum(axis=1)


def _interval(name: str, entry: Any, path: str) -> Interval:
    ends = entry if isinstance(entry, list) else []
    # neither a Boolean nor NaN is a number here
    numbers = [end is None or (type(end) in (int, float) and end == end) for end in ends]
    if len(ends) != 2 or not all(numbers):
        raise SettingsError(
            f"{path}: '{name}' is {entry!r}, expected [lowest, highest]",
            file=path,
            key=f'{_KEY}_file',
            value=entry,
            remedy='null leaves an end open',
        )
    low, high = (None if end is None else float(end) for end in ends)
    return low, high


@dataclass(frozen=True)
class Bounds:
    """
    Rows ``rows @ chi + offsets > 0`` over p parameters, and the key that asks for each.

    Attributes
    ----------
    rows, offsets, keys:
        (k, p), (k,) and (k,).

    """

    rows: np.ndarray
    offsets: np.ndarray
    keys: tuple[str, ...]

    def __add__(self, other: Bounds) -> Bounds:
        return Bounds(
            np.vstack([self.rows, other.rows]),
            np.concatenate([self.offsets, other.offsets]),
            self.keys + other.keys,
        )

    def reached(self, found: ParameterSet) -> tuple[str, ...]:
        """Return which parameters lie at the end of their interval, a line for each."""
        margins = self.rows @ found.values + self.offsets
        notes = []
        for row, margin, key in zip(self.rows, margins, self.keys, strict=True):
            (places,) = np.nonzero(row)
            if len(places) == 1 and margin < _REACHED * abs(found.values[places[0]]):
                notes.append(
                    f'{found.layout.names[places[0]]} is at the end of its interval: {key}'
                )
        return tuple(notes)


def interval_rows(lower: np.ndarray, upper: np.ndarray, keys: Sequence[str]) -> Bounds:
    """Return rows that keep p parameters between (p,) ends, by key; infinite ends give none."""
    rows, offsets, asked = [], [], []
    for sign, ends in ((1.0, lower), (-1.0, upper)):
        places = np.flatnonzero(np.isfinite(ends))
        rows.append(sign * np.eye(ends.size)[places])
        offsets.append(-sign * ends[places])
        asked += [keys[place] for place in places.tolist()]
    return Bounds(np.vstack(rows), np.concatenate(offsets), tuple(asked))


def box_bounds(
    layout: ParameterLayout, boxes: Mapping[str, Interval], start: np.ndarray
) -> tuple[Bounds, np.ndarray]:
    """
    Return the rows of intervals of standard parameters, and (p,) bool, which ones are held.

    Parameters
    ----------
    layout:
        Of the p parameters.
    boxes:
        See `standard_box`, also for errors.
    start:
        (p,) parameters; those that are held get their values.

    Raises
    ------
    SettingsError
        naming an inertial parameter that is to be held.

    """
    lower, upper = standard_box(layout, boxes)
    held = lower == upper
    for name, value in zip(np.array(layout.names)[held], lower[held], strict=True):
        if name.rpartition('.')[2] in INERTIAL_SYMBOLS:
            raise SettingsError(
                f"method physical cannot hold '{name}' at one value",
                key=_KEY,
                value=float(value),
                remedy='give an interval, or state mass, symmetry or pinned in '
                'estimation.physical.links',
            )
    start[held] = lower[held]
    lower, upper = np.where(held, -np.inf, lower), np.where(held, np.inf, upper)
    return interval_rows(lower, upper, (_KEY,) * len(layout)), held


def contradiction(margins: np.ndarray, bounds: Bounds) -> SettingsError:
    """Return the error for bounds that no parameters meet, (k,) margins where they were sought."""
    keys = list(dict.fromkeys(key for key, value in zip(bounds.keys, margins) if value <= 0.0))
    return SettingsError(
        f'no physical bodies meet all bounds: {one_of(keys, 4)} contradicts the others',
        key=keys[0] if keys else None,
        remedy='widen or leave out one of estimation.physical.links, relative_mass, '
        'center_of_mass and estimation.mrls.bounds',
    )
