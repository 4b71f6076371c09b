# SPDX-License-Identifier: Apache-2.0
"""
Clearance that each pair of links can keep, from distances in positions spread over the ranges.

A pair that hardly ever has the clearance which is asked for keeps a smaller one.  The largest that
it can have would leave it a single position: taken are four fifths of the distance which,
multiplied by the share of positions that have it, is largest.  So the pair has room to move in.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..errors import one_of

POSITIONS = 200
"""Positions in which pairs are measured."""

CONTACT = 1e-3
"""Distance below which shapes count as touching, since meshes are hardly better than that [m]."""

RARE = 0.05
"""Share of positions up to which a pair has the clearance too rarely to keep it."""

ROOM = 0.8
"""Share of that distance which becomes the clearance; with all of it, searches get stuck."""

STEADY = 0.125
"""Share of its smallest distance by which the distance of a steady pair changes at most."""

ROUNDING = 1e-5
"""Accuracy of distances [m]."""


@dataclass(frozen=True)
class PairClearance:
    """Clearance that a pair of bodies keeps."""

    kept: float
    """The clearance; 0 where the bodies touch in every position [m]."""
    steady: bool = False
    """Whether they keep it in every position, always equally far apart: bodies beside a joint."""

    @classmethod
    def from_distances(cls, distance: np.ndarray, wanted: float) -> PairClearance:
        """Choose it by distances (n,) in positions over the joints' ranges, at most ``wanted``."""
        least = float(distance.min())
        if least >= CONTACT and np.ptp(distance) <= STEADY * least:
            return cls(wanted if least > wanted - ROUNDING else least, steady=True)
        if (distance >= wanted).mean() > RARE:
            return cls(wanted)
        possible = np.sort(distance[distance >= CONTACT])
        if not possible.size:
            return cls(0.0)
        best = np.argmax(possible * np.arange(possible.size, 0, -1))
        return cls(ROOM * float(possible[best]))


@dataclass(frozen=True)
class Coverage:
    """
    Pairs of shapes that move against each other, and what is checked of them.

    Attributes
    ----------
    checked, steady, touching, allowed:
        Numbers of pairs: looked at; always equally far apart; touching in every position; allowed
        to touch.
    unchecked:
        Links with collision shapes that could not be loaded, which is accepted.
    lost:
        Number of pairs that these would be in.
    bare:
        Links that move and have a mass, but no collision shape on them or what is fixed to them.
    reduced:
        Pairs of bodies that keep less than the clearance, in words.
    in_contact:
        Pairs of bodies that touch in every position and are not kept apart, in words.

    """

    checked: int
    steady: int = 0
    touching: int = 0
    unchecked: tuple[str, ...] = ()
    lost: int = 0
    allowed: int = 0
    bare: tuple[str, ...] = ()
    reduced: tuple[str, ...] = ()
    in_contact: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """True if there is something to check and nothing is left unchecked."""
        return self.checked > 0 and not self.unchecked and not self.bare

    def summary(self) -> str:
        """Return a line on it."""
        touching = f'touching in every position: {", ".join(self.in_contact)}'
        counts = {
            'always equally far apart': self.steady,
            touching: self.touching,
            'allowed to touch': self.allowed,
        }
        parts = [f'{count} {words}' for words, count in counts.items() if count]
        if self.unchecked:
            parts.append(f'{self.lost} of links without their meshes: {", ".join(self.unchecked)}')
        total = self.checked + self.steady + self.touching + self.allowed + self.lost
        beside = f' ({"; ".join(parts)})' if parts else ''
        less = f', less than the clearance kept by {", ".join(self.reduced)}'
        bare = f', none of {one_of(self.bare)}, without collision shapes'
        return (
            f'{self.checked} of {total} pairs of shapes checked{beside}'
            f'{less if self.reduced else ""}{bare if self.bare else ""}'
        )

    def warnings(self) -> tuple[str, ...]:
        """Return in words which pairs do not have the full clearance."""
        notes = {
            'cannot keep the clearance, so they keep what they can': self.reduced,
            'touch in every position, so they are not kept apart': self.in_contact,
        }
        return tuple(f'{words}: {", ".join(pairs)}' for words, pairs in notes.items() if pairs)
