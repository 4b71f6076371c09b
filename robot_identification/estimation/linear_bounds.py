# SPDX-License-Identifier: Apache-2.0
"""Linear bounds of standard parameters, as rows with the settings' keys that ask for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..errors import one_of, SettingsError
from ..model.parameters import INERTIAL_SYMBOLS, ParameterLayout, ParameterSet
from .bounds import Interval, standard_box

_REACHED = 0.01
"""Distance from a bound that counts as none, relative to the value."""


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

    @classmethod
    def none(cls, size: int) -> Bounds:
        """Return no rows over ``size`` parameters."""
        return cls(np.zeros((0, size)), np.zeros(0), ())

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


def interval_rows(
    layout: ParameterLayout, place: int, low: float, high: float, key: str
) -> Bounds:
    """Return rows that keep a parameter between two values; infinite ones give none."""
    rows, offsets = [], []
    for sign, end in ((1.0, low), (-1.0, high)):
        if np.isfinite(end):
            row = np.zeros(len(layout))
            row[place] = sign
            rows.append(row)
            offsets.append(-sign * end)
    return Bounds(np.array(rows).reshape(-1, len(layout)), np.array(offsets), (key,) * len(rows))


def box_bounds(
    layout: ParameterLayout, boxes: Mapping[str, Interval], start: np.ndarray
) -> tuple[Bounds, np.ndarray]:
    """
    Return the rows of intervals of standard parameters, and which ones are held.

    Parameters
    ----------
    layout:
        Of the p parameters.
    boxes:
        See `standard_box`.
    start:
        (p,) parameters; those that are held get their values.

    Raises
    ------
    SettingsError
        as `standard_box`, and naming an inertial parameter that is to be held.

    """
    lower, upper = standard_box(layout, boxes)
    held = lower == upper
    bounds = Bounds.none(len(layout))
    for place, name in enumerate(layout):
        if held[place]:
            if name.rpartition('.')[2] in INERTIAL_SYMBOLS:
                raise SettingsError(
                    f"method physical cannot hold '{name}' at one value",
                    key='estimation.mrls.bounds',
                    value=float(lower[place]),
                    remedy='give an interval, or state mass, symmetry or pinned in '
                    'estimation.physical.links',
                )
            start[place] = lower[place]
            continue
        low, high = float(lower[place]), float(upper[place])
        bounds += interval_rows(layout, place, low, high, 'estimation.mrls.bounds')
    return bounds, held


def contradiction(margins: np.ndarray, bounds: Bounds) -> SettingsError:
    """Return the error for bounds that no parameters meet, (k,) margins where they were sought."""
    keys = list(dict.fromkeys(key for key, value in zip(bounds.keys, margins) if value <= 0.0))
    return SettingsError(
        f'no physical bodies meet all bounds: {one_of(keys, 4)} contradicts the others',
        key=keys[0] if keys else None,
        remedy='widen or leave out one of estimation.physical.links, relative_mass, '
        'center_of_mass and estimation.mrls.bounds',
    )
