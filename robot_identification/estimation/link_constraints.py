# SPDX-License-Identifier: Apache-2.0
"""
Constraints on the links' parameters that a user states: masses, pinned bodies, symmetry.

All are linear in the parameters chi.  MassIntervals are rows ``c' chi + o > 0``.  A pinned body, a
known mass and a symmetry are equations: chi moves along a basis of their null space alone.  A
body is symmetric if a transformation S leaves its pseudo-inertia as it is, ``S P S^T = P``: a
reflection at a plane, or a quarter turn about an axis, which makes both moments across it equal.

A pinned body that is fixed to a link is taken off the link's parameters: what is left is the
link's own body, which is physical and symmetric and has a prior of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.linalg import null_space

from ..errors import IdentificationError, one_of, SettingsError
from ..model.consistency import from_pseudo_inertia, pseudo_inertia
from ..model.link_inertias import fixed_inertia
from ..model.parameters import body_links, INERTIAL_SYMBOLS, ParameterLayout, ParameterSet
from ..model.plausibility import Spread
from ..model.robot import Robot
from ..options.fields import option
from .bounds import Bounds, interval_rows

SYMMETRIES = ('x', 'y', 'z', 'yz', 'xz', 'xy')
"""Axes and planes."""

_MASS_STD = 0.01
"""Standard deviation of a total mass, relative to it, where none is given."""


KEY = 'estimation.physical.links'

MassInterval = tuple[float, float]
"""Lowest and highest mass [kg], or ratio to the prior's."""

_INSIDE = 0.1  # of an interval of masses, by which a start keeps away from its ends


@dataclass(frozen=True)
class LinkConstraint:
    """Knowledge of a link before the identification: its mass, its symmetry, or all of it."""

    link: str = option(
        doc='Link that an identified joint moves; a pinned one may also be fixed to such a link'
    )
    mass: MassInterval | None = option(
        None,
        doc='Lowest and highest mass with all that is fixed to the link; equal ones hold it',
        unit='kg',
        minimum=0.0,
    )
    relative_mass: MassInterval | None = option(
        None,
        doc="Lowest and highest mass relative to the prior's; goes before that of all links",
        minimum=0.0,
    )
    pinned: bool = option(
        False,
        doc='Whether all ten parameters are known exactly: those of the prior, or, of a link that '
        'is fixed to another one (a tool), those of the URDF',
    )
    symmetry: str | None = option(
        None,
        doc='Axis (x, y, z) about which the body looks the same after a quarter turn, or plane '
        '(yz, xz, xy) that mirrors it; both along the axes of the joint frame',
        choices=SYMMETRIES,
    )
    symmetry_point: tuple[float, float, float] = option(
        (0.0, 0.0, 0.0), doc='Point of that axis or plane in the joint frame', unit='m'
    )

    def __post_init__(self) -> None:
        for name in ('mass', 'relative_mass'):
            require_order(f'links.{name}', getattr(self, name), f" of link '{self.link}'")
        if self.mass is not None and self.relative_mass is not None:
            raise SettingsError(
                f"both mass and relative_mass are given for link '{self.link}'",
                key='links.relative_mass',
                link=self.link,
                remedy='leave one of them out',
            )
        others = (self.mass, self.relative_mass, self.symmetry)
        if self.pinned and any(other is not None for other in others):
            raise SettingsError(
                f"link '{self.link}' is pinned, and mass or symmetry are given, too",
                key='links.pinned',
                link=self.link,
                remedy='leave them out: a pinned link has the parameters of the prior',
            )


@dataclass(frozen=True)
class PhysicalSettings:
    """Settings of the physically consistent fit."""

    weight: float | None = option(
        None,
        doc='Strength of the prior of the links: 1/sqrt(2 weight) is about the relative standard '
        'deviation of a mass before anything is measured; null finds it by cross-validation over '
        'stretches of the recordings',
        minimum=1e-3,
        maximum=1e8,
    )
    mass_std: float | None = option(
        0.3,
        doc="Standard deviation of each link's mass about the prior's, relative to it; at least a "
        "tenth of the links' mean mass, for what is mounted on small links; null for none",
        minimum=0.001,
    )
    center_of_mass: str = option(
        'free',
        doc="Where a link's centre of mass may be: anywhere (free), in the box around its shapes "
        'along the axes of its joint frame (box), or in their convex hull (hull); the shapes are '
        "those of the URDF's collision elements, or visual where a link has none",
        choices=('free', 'box', 'hull'),
    )
    total_mass: float | None = option(
        None,
        doc='Mass of all identified links with what hangs on them, weighed; null where it is not '
        'known',
        unit='kg',
        minimum=1e-6,
    )
    total_mass_std: float | None = option(
        None,
        doc='Its standard deviation; null for one per cent of it',
        unit='kg',
        minimum=1e-9,
    )
    relative_mass: tuple[float, float] | None = option(
        None,
        doc="Lowest and highest mass of every link relative to the prior's; null for no bounds",
        minimum=0.0,
    )
    links: tuple[LinkConstraint, ...] = option(
        (), doc='What is known of single links: masses, symmetry, links known exactly'
    )

    def __post_init__(self) -> None:
        require_order('relative_mass', self.relative_mass)

    @property
    def total(self) -> tuple[float, float] | None:
        """Total mass and its standard deviation [kg]; None where they are not known."""
        mass = self.total_mass
        return None if mass is None else (mass, self.total_mass_std or _MASS_STD * mass)

    @property
    def total_mass_interval(self) -> MassInterval | None:
        """Three standard deviations about the total mass [kg]; None where that is not known."""
        if self.total is None:
            return None
        mass, std = self.total
        return mass - 3.0 * std, mass + 3.0 * std

    @property
    def masses(self) -> dict[str, MassInterval]:
        """Intervals of masses that are stated, by link [kg]."""
        return {entry.link: entry.mass for entry in self.links if entry.mass is not None}


def require_order(key: str, interval: MassInterval | None, owner: str = '') -> None:
    """Raise `SettingsError` where the ends of an interval are exchanged, or where it is zero."""
    if interval is not None and not interval[0] <= interval[1] > 0.0:
        raise SettingsError(
            f"'{key}'{owner} is [{interval[0]:g}, {interval[1]:g}]",
            key=key,
            value=interval,
            remedy='give the lowest and the highest value, the highest above 0',
        )


@dataclass(frozen=True)
class StatedLinks:
    """
    The constraints of a robot's links, checked and resolved.

    Attributes
    ----------
    pinned:
        Identified links whose parameters are those of the prior.
    fixed:
        By link, (10,) parameters of pinned bodies that are fixed to it, in its joint frame.
    masses:
        By link, lowest and highest mass [kg]; equal ones hold it.
    symmetries:
        By link, the transformations (4, 4) that leave its body as it is.
    keys:
        By link, the key that states its mass.

    """

    pinned: tuple[str, ...]
    fixed: Mapping[str, np.ndarray]
    masses: Mapping[str, MassInterval]
    symmetries: Mapping[str, np.ndarray]
    keys: Mapping[str, str]

    @classmethod
    def from_settings(
        cls, robot: Robot, prior: ParameterSet, stated: tuple[LinkConstraint, ...],
        relative_mass: MassInterval | None,
    ) -> StatedLinks:  # fmt: skip
        """
        Resolve constraints.

        Raises
        ------
        SettingsError
            naming a link that does not exist, is named twice, or cannot have what is stated.

        """
        links = body_links(prior.layout)
        pinned: list[str] = []
        fixed: dict[str, np.ndarray] = {}
        symmetries: dict[str, np.ndarray] = {}
        masses: dict[str, MassInterval] = {}
        keys: dict[str, str] = {}
        if relative_mass is not None:
            for link in links:
                if is_body(prior.inertial(link)):
                    masses[link] = _scaled(relative_mass, prior[f'{link}.m'])
                    keys[link] = 'estimation.physical.relative_mass'
        for place, entry in enumerate(stated):
            key = f'{KEY}[{place}]'
            if entry.link in [other.link for other in stated[:place]]:
                raise SettingsError(
                    f"'{key}.link' names '{entry.link}' twice",
                    key=f'{key}.link',
                    link=entry.link,
                    remedy='put all that is known of a link into one entry',
                )
            if entry.link not in links:
                carrier, vector = _fixed_body(robot, entry, links, key)
                fixed[carrier] = fixed.get(carrier, np.zeros(len(vector))) + vector
                continue
            if entry.pinned:
                _require_body(prior, entry.link, f'{key}.pinned')
                pinned.append(entry.link)
                masses.pop(entry.link, None)
            if entry.mass is not None:
                masses[entry.link], keys[entry.link] = entry.mass, f'{key}.mass'
            if entry.relative_mass is not None:
                keys[entry.link] = f'{key}.relative_mass'
                _require_body(prior, entry.link, keys[entry.link])
                masses[entry.link] = _scaled(entry.relative_mass, prior[f'{entry.link}.m'])
            if entry.symmetry is not None:
                symmetries[entry.link] = symmetry_of(entry.symmetry, entry.symmetry_point)
        return cls(tuple(pinned), fixed, masses, symmetries, keys)

    def body(self, link: str, prior: np.ndarray) -> np.ndarray:
        """
        Return a body of a link, not pinned, that meets its equations and its mass's interval.

        ``prior`` is the (4, 4) pseudo-inertia of its own body, without what is pinned to it;
        raises `SettingsError` where the mass is not above that of the bodies pinned to the link.
        """
        matrix = prior
        if link in self.symmetries:
            matrix = symmetric(matrix, self.symmetries[link])
        if link not in self.masses:
            return matrix
        carried = float(self.fixed[link][0]) if link in self.fixed else 0.0
        low, high = (end - carried for end in self.masses[link])
        if not high > 0.0:
            raise SettingsError(
                f"the mass of link '{link}' is at most {high + carried:g} kg, and {carried:g} kg "
                'are pinned to it',
                key=self.keys[link],
                link=link,
                value=self.masses[link],
                remedy='the mass is that of the link with all that is fixed to it',
            )
        low = max(low, 0.0)
        margin = _INSIDE * (high - low)
        return matrix * (np.clip(matrix[3, 3], low + margin, high - margin) / matrix[3, 3])

    def directions(self, layout: ParameterLayout, held: np.ndarray) -> np.ndarray:
        """
        Return a basis, (p, q), of the changes that keep all equations.

        Further parameters that keep their values are ``held``, (p,) bool.
        """
        dropped = np.array(held, dtype=bool)
        added: list[np.ndarray] = []
        for link in body_links(layout):
            place = layout.slice_of(link)
            if link in self.pinned:
                dropped[place] = True
                continue
            low, high = self.masses.get(link, (0.0, np.inf))
            equations = [] if low < high else [np.eye(len(INERTIAL_SYMBOLS))[:1]]
            if link in self.symmetries:
                equations.append(symmetry_equations(self.symmetries[link]))
            if equations:
                dropped[place] = True
                inner = null_space(np.vstack(equations), rcond=1e-9)
                basis = np.zeros((len(layout), inner.shape[1]))
                basis[place] = inner
                added.append(basis)
        return np.hstack([np.eye(len(layout))[:, ~dropped], *added])

    def require_total(self, total: float, std: float, prior: ParameterSet) -> None:
        """Raise `SettingsError` where the masses of the links cannot add up to a total [kg]."""
        lowest = highest = 0.0
        for link in body_links(prior.layout):
            own = prior[f'{link}.m']
            low, high = (own, own) if link in self.pinned else self.masses.get(link, (0.0, np.inf))
            lowest, highest = lowest + low, highest + high
        if not lowest - 3.0 * std <= total <= highest + 3.0 * std:
            raise SettingsError(
                f"'estimation.physical.total_mass' is {total:g} kg, and the masses of the links "
                f'add up to {lowest:.4g} to {highest:.4g} kg',
                key='estimation.physical.total_mass',
                value=total,
                remedy='correct one of them',
            )

    def mass_bounds(self, layout: ParameterLayout) -> Bounds:
        """Return the rows of the intervals of masses."""
        lower, upper = np.full(len(layout), -np.inf), np.full(len(layout), np.inf)
        keys = [''] * len(layout)
        for link, (low, high) in self.masses.items():
            if low < high:
                place = layout.slice_of(link).start
                lower[place], upper[place], keys[place] = low, high, self.keys[link]
        return interval_rows(lower, upper, keys)


def symmetry_of(kind: str, point: tuple[float, float, float]) -> np.ndarray:
    """
    Return the transformation that leaves a symmetric body as it is, (4, 4) homogeneous.

    Parameters
    ----------
    kind:
        One of `SYMMETRIES`.
    point:
        (3,) of the axis or plane [m].

    """
    others = ''.join(letter for letter in 'xyz' if letter not in kind)
    first, second, third = ('xyz'.index(letter) for letter in kind + others)
    turn = np.eye(3)
    if len(kind) == 1:  # a quarter turn about the first axis
        turn[[second, third], [second, third]] = 0.0
        turn[second, third], turn[third, second] = -1.0, 1.0
    else:
        turn[third, third] = -1.0
    whole = np.eye(4)
    whole[:3, :3] = turn
    whole[:3, 3] = np.asarray(point) - turn @ np.asarray(point)
    return whole


def symmetric(matrix: np.ndarray, transformation: np.ndarray) -> np.ndarray:
    """Return the mean of a (4, 4) pseudo-inertia over the turns or reflections of a symmetry."""
    images = [matrix]
    for _ in range(3):  # a reflection's are counted twice
        images.append(transformation @ images[-1] @ transformation.T)
    return np.asarray(np.mean(images, axis=0))


def symmetry_equations(transformation: np.ndarray) -> np.ndarray:
    """Return (10, 10) rows that are zero on the parameters of symmetric bodies."""
    units = [pseudo_inertia(unit) for unit in np.eye(len(INERTIAL_SYMBOLS))]
    changes = [transformation @ unit @ transformation.T - unit for unit in units]
    return np.array([from_pseudo_inertia(change) for change in changes]).T


def is_body(vector: np.ndarray) -> bool:
    """Return whether (10,) inertial parameters are those of a body, be it flat or a point."""
    body = Spread.from_parameters(vector)
    return body is not None and body.physical


def _require_body(prior: ParameterSet, link: str, key: str) -> None:
    if not is_body(prior.inertial(link)):
        raise SettingsError(
            f"'{key}' refers to the prior of link '{link}', which is no physical body",
            key=key,
            link=link,
            remedy='correct the <inertial> of the link in the URDF, or give its mass in kg',
        )


def _fixed_body(
    robot: Robot, entry: LinkConstraint, links: tuple[str, ...], key: str
) -> tuple[str, np.ndarray]:
    """Return the identified link that carries a pinned one, and the pinned one's parameters."""
    try:
        carrier, vector = fixed_inertia(robot, entry.link)
    except IdentificationError as error:
        raise SettingsError(
            f"'{key}.link': {error.message}",
            key=f'{key}.link',
            link=entry.link,
            remedy=f'identified links are {one_of(links)}',
        ) from error
    if not entry.pinned or vector is None or not is_body(vector):
        reason = 'is identified with it as one body'
        if entry.pinned:
            reason = 'has no <inertial> that a body can have'
        raise SettingsError(
            f"'{key}': link '{entry.link}' is fixed to '{carrier}' and {reason}",
            key=key,
            link=entry.link,
            remedy=f"pin it with an <inertial> of its own, or state what is known of '{carrier}'",
        )
    return carrier, vector


def _scaled(interval: MassInterval, mass: float) -> MassInterval:
    return interval[0] * mass, interval[1] * mass
