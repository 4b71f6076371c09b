# SPDX-License-Identifier: Apache-2.0
r"""
Search for the smallest distances along a way, which proves that no other is below the clearance.

A way is cut into intervals.  Two bodies whose points move by at most s against each other in one,
at distances of :math:`d_1` and :math:`d_2` at its ends, are never closer in it than
:math:`(d_1 + d_2 - s) / 2`.  Pairs for which that is not enough are measured in the middle of the
interval, those of the least bound first, and the halves are looked at again (conservative
advancement, branch and bound).  However long an interval is, nothing thin is jumped over.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from .collisions import CollisionModel, Contact

FINEST = 1.0 / 16.0
"""Share of the clearance by which bodies may come closer between places at which they keep it."""

_INTERVALS, _ITEMS = 512, 128
"""Intervals of a way that are searched together; pairs in intervals that are halved together."""

_PLACES, _ROUNDS = 9, 3
"""Places around a smallest distance where a smaller one is looked for, and times of doing so."""


class Way(Protocol):
    """Positions along a path, at places which are numbers, as times."""

    def positions(self, place: np.ndarray) -> np.ndarray:
        """Return the positions (n, n_joints) at places (n,) [rad or m]."""

    def moved(self, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
        """Return how far joints move, back and forth, between places (n,), (n, n_joints)."""


@dataclass
class _Items:
    """Pairs (k,) in intervals: lower bounds of distances at the ends, and how far they move."""

    begin: np.ndarray
    end: np.ndarray
    pair: np.ndarray
    first: np.ndarray
    last: np.ndarray
    moved: np.ndarray

    @property
    def bound(self) -> np.ndarray:
        """Lower bounds (k,) of the distances in the intervals."""
        return np.asarray(0.5 * (self.first + self.last - self.moved))

    def take(self, chosen: np.ndarray) -> _Items:
        """Return some of them."""
        return _Items(**{name: values[chosen] for name, values in vars(self).items()})

    def concatenated(self, *others: _Items) -> _Items:
        """Return these and others."""
        parts = [vars(each) for each in (self, *others)]
        return _Items(**{name: np.concatenate([p[name] for p in parts]) for name in parts[0]})


class DistanceSearch:
    """
    Search along one way.

    Parameters
    ----------
    collisions:
        The robot's collision model.
    way:
        Positions by place.

    Attributes
    ----------
    best:
        Places and contacts of the smallest distances measured, by `CollisionModel.groups`; they
        exceed the smallest ones by a clearance at most.

    """

    def __init__(self, collisions: CollisionModel, way: Way) -> None:
        self._model, self._way = collisions, way
        self._least = np.full(len(collisions.pairs), np.inf)
        self.best: dict[int, tuple[float, Contact]] = {}

    def run(self, begin: np.ndarray, end: np.ndarray) -> None:
        """Search in intervals between places (n,); end with a contact below the clearance."""
        for first in range(0, begin.size if self._model.pairs else 0, _INTERVALS):
            part = slice(first, first + _INTERVALS)
            items = self._open(self._coarse(begin[part], end[part]))
            while items.begin.size:
                order = np.argsort(items.bound)
                chosen, items = items.take(order[:_ITEMS]), items.take(order[_ITEMS:])
                items = self._open(items.concatenated(*self._halves(chosen)))
                if any(contact.too_close for _, contact in self.best.values()):
                    return

    def polish(self, step: float) -> None:
        """Look for smaller distances within ``step`` of the places of the smallest ones."""
        for kind, (_, contact) in list(self.best.items()):
            width = step
            for _ in range(_ROUNDS):
                around = self.best[kind][0] + width * np.linspace(-1.0, 1.0, _PLACES)
                self._measure(around, np.full(_PLACES, contact.pair))
                width *= 2.0 / (_PLACES - 1)

    def _coarse(self, begin: np.ndarray, end: np.ndarray) -> _Items:
        """Return all pairs in intervals, with what bounding spheres show of their distances."""
        places, rows = np.unique(np.concatenate([begin, end]), return_inverse=True)
        lower = self._model.lower_bounds(self._way.positions(places))[rows]
        moved = self._way.moved(begin, end) @ self._model.pair_reach.T
        # also what hardly moves is measured once
        moved = np.maximum(moved, 2.0 * FINEST * self._model.clearances)
        shape = moved.shape
        return _Items(
            np.repeat(begin, shape[1]),
            np.repeat(end, shape[1]),
            np.tile(np.arange(shape[1]), shape[0]),
            lower[: begin.size].ravel(),
            lower[begin.size :].ravel(),
            moved.ravel(),
        )

    def _halves(self, items: _Items) -> tuple[_Items, _Items]:
        """Measure in the middle of intervals, and return both halves."""
        middle = 0.5 * (items.begin + items.end)
        distance = self._measure(middle, items.pair)
        reach = self._model.pair_reach[items.pair]
        before = (self._way.moved(items.begin, middle) * reach).sum(axis=1)
        after = (self._way.moved(middle, items.end) * reach).sum(axis=1)
        first = np.maximum(items.first, distance - before)
        last = np.maximum(items.last, distance - after)
        return (
            _Items(items.begin, middle, items.pair, first, distance, before),
            _Items(middle, items.end, items.pair, distance, last, after),
        )

    def _open(self, items: _Items) -> _Items:
        """Return those of which something below the clearance, or a smaller distance, may be."""
        clearance = self._model.clearances[items.pair]
        reached = self._least[self._model.groups[items.pair]]
        low = items.bound < np.maximum(reached - clearance, clearance)
        return items.take(low & (items.moved > FINEST * clearance))

    def _measure(self, place: np.ndarray, pair: np.ndarray) -> np.ndarray:
        """Return the distances of pairs (k,) at places (k,) [m], and keep the smallest ones."""
        order = np.argsort(place, kind='stable')
        contacts = self._model.measure(self._way.positions(place[order]), pair[order])
        for row, contact in zip(order.tolist(), contacts, strict=True):
            group = int(self._model.groups[contact.pair])
            if contact.distance < self._least[group]:
                self._least[group] = contact.distance
                self.best[group] = float(place[row]), contact
        distance = np.empty(place.size)
        distance[order] = [contact.distance for contact in contacts]
        return distance
