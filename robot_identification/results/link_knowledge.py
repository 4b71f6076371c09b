# SPDX-License-Identifier: Apache-2.0
"""
Knowledge of each link: by itself, together with its neighbours, or by the prior alone.

Joints that turn show masses of links in sums alone: most base parameters are combinations of the
parameters of several links.  With each parameter of the prior uncertain by half of the link's own
size, a base parameter counts as known where its standard deviation is half of what that makes it.
A link is known by itself where these determine its mass.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from ..errors import one_of
from ..estimation.estimate import Estimate
from ..estimation.prior import body_scale
from ..estimation.system import LinearSystem
from ..model.parameters import body_links
from ..model.robot import Robot

KNOWN, TOGETHER, PRIOR = KINDS = ('known', 'together', 'prior')

_KNOWN = 0.5 * 0.5
"""Standard deviation of a base parameter that is known, in the size of the links' parameters."""

_WEIGHED = 4
"""Of a link's ten parameters, mass and first moments: those that gravity shows."""

_TOLERANCE = 1e-9  # of a coefficient, below which it is rounding


@dataclass(frozen=True)
class LinkKnowledge:
    """
    Knowledge of a link.

    Attributes
    ----------
    link:
        Name of the link.
    kind:
        One of `KINDS`.
    others:
        Links with which it shares base parameters of mass and first moments.

    """

    link: str
    kind: str
    others: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f'{self.link}: {self.sentence}'

    @property
    def sentence(self) -> str:
        """Sentence on the knowledge of the link, without its name."""
        if self.kind == PRIOR:
            return 'unknown, mass and centre of mass are those of the prior'
        if self.kind == KNOWN:
            return 'known by itself'
        if not self.others:
            return 'first moments are known, the mass is that of the prior'
        return f'known together with {one_of(self.others, 3)}, not by itself'


def link_knowledge(
    robot: Robot, system: LinearSystem, estimate: Estimate
) -> tuple[LinkKnowledge, ...]:
    """Return what is known of each link with all ten inertial parameters."""
    return tuple(_knowledge(robot, system, estimate))


def _knowledge(robot: Robot, system: LinearSystem, estimate: Estimate) -> Iterator[LinkKnowledge]:
    structure = system.structure
    layout, links = structure.layout, body_links(structure.layout)
    mapping = structure.regrouping * body_scale(robot, layout)
    determined = _stds(system, estimate) < _KNOWN * np.linalg.norm(mapping, axis=1)
    # a column for each direction that is known
    basis = np.linalg.qr(mapping[determined].T)[0]
    used = np.abs(structure.regrouping) > _TOLERANCE
    places = {link: np.arange(len(layout))[layout.slice_of(link)] for link in links}
    for link in links:
        weighed = places[link][:_WEIGHED]
        rows = determined & used[:, weighed].any(axis=1)
        near = [
            other
            for other in links
            if other != link and used[np.ix_(rows, places[other][:_WEIGHED])].any()
        ]
        if not rows.any():
            yield LinkKnowledge(link, PRIOR)
        elif np.linalg.norm(basis[weighed[0]]) > 1.0 - _TOLERANCE:
            yield LinkKnowledge(link, KNOWN)
        else:
            yield LinkKnowledge(link, TOGETHER, tuple(near))


def _stds(system: LinearSystem, estimate: Estimate) -> np.ndarray:
    """Return (b,) standard deviations by the rows alone; infinite where they give none."""
    stds, seen = np.full(system.factor.n_base, np.inf), estimate.identifiability.excited
    rows = estimate.rows.triangle(system)[:, :-1][:, seen]
    norms = np.linalg.norm(rows, axis=0)
    triangle = np.linalg.qr(rows / norms, mode='r')
    inverse = solve_triangular(triangle, np.eye(len(triangle))) / norms[:, None]
    stds[seen] = estimate.rows.residual_std * np.linalg.norm(inverse, axis=1)
    # the physical fit's rows are weighed for coloured noise, others have the bootstrap's growth
    grown = estimate.method != 'physical' and estimate.uncertainty.growth is not None
    return stds * estimate.uncertainty.growth if grown else stds
