# SPDX-License-Identifier: Apache-2.0
"""Settings of the physically consistent fit."""

from __future__ import annotations

from dataclasses import dataclass

from ..options.fields import option
from .link_constraints import LinkConstraint, MassInterval, require_order

_MASS_STD = 0.01
"""Standard deviation of a total mass, relative to it, where none is given."""


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
    def total_mass_deviation(self) -> float | None:
        """Standard deviation of the total mass [kg]; None where that is not known."""
        if self.total_mass is None:
            return None
        return self.total_mass_std or _MASS_STD * self.total_mass

    @property
    def total_mass_interval(self) -> MassInterval | None:
        """Three standard deviations about the total mass [kg]; None where that is not known."""
        std = self.total_mass_deviation
        if self.total_mass is None or std is None:
            return None
        return self.total_mass - 3.0 * std, self.total_mass + 3.0 * std

    @property
    def masses(self) -> dict[str, MassInterval]:
        """MassIntervals of masses that are stated, by link [kg]."""
        return {entry.link: entry.mass for entry in self.links if entry.mass is not None}
