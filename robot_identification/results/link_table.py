# SPDX-License-Identifier: Apache-2.0
"""
Links before and after an identification, in kilograms and metres, with standard deviations.

Masses, centres of mass c = h / m and principal moments of I_c = I - (h'h 1 - h h') / m come from
the parameters m, h, I at the joint's frame, their standard deviations from the covariance of these
to first order: a principal moment with the direction v changes by v' dI_c v.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ..estimation.tables import rule, WIDTH
from ..model.consistency import inertia_at_com
from ..model.parameters import body_links, ParameterSet
from .result import Result
from .result_view import MassProperties

_NUMBERS = (9, 9, 9, 9, 9, 10, 10, 10)
"""Widths of mass and change, and of three columns each of centre of mass and principal moments."""

_KIND = 6
"""Width of `before`."""


@dataclass(frozen=True)
class LinkChange:
    """
    A link before and after.

    Attributes
    ----------
    link:
        Its name.
    before, after:
        By the prior, and as identified.
    std:
        Standard deviations of ``after``; NaN where the recordings do not determine it.
    change:
        Of the mass [%]; NaN where there was none before.

    """

    link: str
    before: MassProperties
    after: MassProperties
    std: MassProperties
    change: float


@dataclass(frozen=True)
class LinkTable:
    """
    The links of a robot before and after.

    Attributes
    ----------
    links:
        Those with all ten inertial parameters.
    before, after, std:
        Their mass together, and its standard deviation, NaN where not determined [kg].

    """

    links: tuple[LinkChange, ...]
    before: float
    after: float
    std: float

    @property
    def change(self) -> float:
        """Change of the total mass [%]."""
        return _change(self.before, self.after)

    def to_dict(self) -> dict[str, Any]:
        """Return the rows and the total as plain numbers."""
        names = ('before', 'after', 'std', 'change')
        return {
            'links': [asdict(link) for link in self.links],
            'total_mass': {name: getattr(self, name) for name in names},
        }

    def summary(self) -> str:
        """Return the table as text of 100 columns; empty where there is no whole link."""
        if not self.links:
            return ''
        width = max(WIDTH - _KIND - 1 - sum(_NUMBERS), *(len(link.link) for link in self.links))
        blank = ' ' * (width + _KIND + 1)
        lines = [
            rule('Links: before, after, standard deviation'),
            f'{blank}{"mass":>9}{"change":>9}{"centre of mass":>27}{"principal inertias":>30}',
            f'{"link":<{width + _KIND + 1}}{"kg":>9}{"%":>9}{"m":>27}{"kg m^2":>30}',
        ]
        for link in self.links:
            lines += [
                _line(link.link, 'before', link.before, width),
                _line('', 'after', link.after, width, _percent(link.change)),
                _line('', 'std', link.std, width),
            ]
        total = (('before', self.before, ''), ('after', self.after, _percent(self.change)))
        for kind, mass, change in (*total, ('std', self.std, '')):
            name = 'all links' if kind == 'before' else ''
            lines.append(_cells(name, kind, width, (_number(mass), change)))
        return '\n'.join(line.rstrip() for line in lines)


def link_table(result: Result) -> LinkTable:
    """
    Return the links before and after an identification.

    Standard deviations are NaN where no motion determines a value, or the method has none; such
    values are the prior's, or depend on it.  That of the total mass counts the prior's spread, if
    the method does.
    """
    layout, covariance = result.standard.layout, result.standard_covariance
    links = body_links(layout)
    if covariance is None:
        covariance = np.full((len(layout), len(layout)), np.nan)
    unknown = np.array(result.structure.categories) == 'unidentifiable'
    told = np.where(unknown | unknown[:, None], np.nan, covariance)
    changes = []
    for link in links:
        part = told[layout.of(link), layout.of(link)]
        before, after = (values.inertial(link) for values in (result.prior, result.standard))
        changes.append(
            LinkChange(
                link,
                MassProperties.of(before),
                MassProperties.of(after),
                mass_deviations(after, part),
                _change(float(before[0]), float(after[0])),
            )
        )
    masses = layout.indices([f'{link}.m' for link in links])
    return LinkTable(
        links=tuple(changes),
        before=_total(result.prior, links),
        after=_total(result.standard, links),
        std=float(np.sqrt(covariance[np.ix_(masses, masses)].sum())),
    )


def mass_deviations(inertial: np.ndarray, covariance: np.ndarray) -> MassProperties:
    """Return first-order standard deviations; NaN where the covariance has NaN."""
    inertial = np.asarray(inertial, dtype=float)
    if not inertial[0] > 0.0:
        return MassProperties(np.nan, np.full(3, np.nan), np.full(3, np.nan))
    mass, first = inertial[0], inertial[1:4]
    centre = np.empty(3)
    for k, lever in enumerate(first / mass):
        part = covariance[np.ix_((0, k + 1), (0, k + 1))]
        centre[k] = _deviation(np.array([-lever, 1.0]) / mass, part)
    moments = [_deviation(row, covariance) for row in _moment_slopes(inertial)]
    return MassProperties(float(np.sqrt(covariance[0, 0])), centre, np.array(moments))


def _total(parameters: ParameterSet, links: Sequence[str]) -> float:
    return float(sum(parameters[f'{link}.m'] for link in links))


def _moment_slopes(inertial: np.ndarray) -> np.ndarray:
    """Return the derivatives of the principal moments by the ten parameters, (3, 10)."""
    mass, first = inertial[0], inertial[1:4]
    directions = np.linalg.eigh(inertia_at_com(inertial))[1].T
    slopes, entries = np.zeros((3, 10)), tuple(zip((0, 0, 1, 0, 1, 2), (0, 1, 1, 2, 2, 2)))
    for row, v in zip(slopes, directions, strict=True):
        along = first @ v
        # v' I_c v = v' I v - (h'h - (h'v)^2) / m
        row[0] = (first @ first - along**2) / mass**2
        row[1:4] = -2.0 * (first - along * v) / mass
        row[4:] = [v[i] * v[j] * (1.0 if i == j else 2.0) for i, j in entries]
    return slopes


def _deviation(slopes: np.ndarray, covariance: np.ndarray) -> float:
    """Return a standard deviation to first order; NaN where the covariance has NaN."""
    return float(np.sqrt(np.maximum(slopes @ covariance @ slopes, 0.0)))


def _change(before: float, after: float) -> float:
    return 100.0 * (after / before - 1.0) if before > 0.0 else float('nan')


def _line(name: str, kind: str, body: MassProperties, width: int, change: str = '') -> str:
    centre = [
        '-' if np.isnan(value) else f'{value + 0.0:.4f}' for value in body.centre_of_mass.round(4)
    ]
    moments = [_number(value) for value in body.principal_inertias]
    return _cells(name, kind, width, (_number(body.mass), change, *centre, *moments))


def _cells(name: str, kind: str, width: int, cells: Sequence[str]) -> str:
    columns = ''.join(f'{text:>{w}}' for text, w in zip(cells, _NUMBERS, strict=False))
    return f'{name:<{width}} {kind:<{_KIND}}{columns}'


def _number(value: float) -> str:
    """Return a number with four significant digits in at most 8 characters."""
    if np.isnan(value):
        return '-'
    if value == 0.0:
        return '0'
    if 1.0 <= abs(value) < 9999.5:
        return f'{value:#.4g}'
    return f'{value:.4f}' if 9.5e-4 <= abs(value) < 1.0 else f'{value:.1e}'


def _percent(value: float) -> str:
    return '-' if np.isnan(value) else f'{round(value, 1) + 0.0:+.1f}'
