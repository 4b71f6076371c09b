# SPDX-License-Identifier: Apache-2.0
"""
Names, units and places of the dynamic parameters.

A standard parameter is called ``<link or joint>.<symbol>``.  The ten inertial parameters of a link
are taken at the origin and along the axes of its joint's frame, in Pinocchio's order
(``m, mx, my, mz, Ixx, Ixy, Iyy, Ixz, Iyz, Izz``); products of inertia are tensor entries,
``Ixy = -sum(m x y)``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from ..errors import IdentificationError, one_of

INERTIAL_SYMBOLS = ('m', 'mx', 'my', 'mz', 'Ixx', 'Ixy', 'Iyy', 'Ixz', 'Iyz', 'Izz')
"""Symbols of a link's ten inertial parameters, as Pinocchio's ``toDynamicParameters`` has them."""

INERTIAL_UNITS = ('kg', *('kg m',) * 3, *('kg m^2',) * 6)


@dataclass(frozen=True)
class ParameterLayout:
    """Names ``<link or joint>.<symbol>`` and SI units of a parameter vector; names are unique."""

    names: tuple[str, ...]
    units: tuple[str, ...]
    _index: Mapping[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, 'names', tuple(self.names))
        object.__setattr__(self, 'units', tuple(self.units))
        if len(self.names) != len(self.units):
            raise ValueError(f'{len(self.names)} names but {len(self.units)} units')
        index = {name: i for i, name in enumerate(self.names)}
        if len(index) != len(self.names):
            twice = sorted({name for name in self.names if self.names.count(name) > 1})
            raise ValueError(f'parameter names occur twice: {one_of(twice)}')
        object.__setattr__(self, '_index', index)

    @classmethod
    def inertial(cls, links: Iterable[str]) -> ParameterLayout:
        """Ten inertial parameters for each of ``links``, link by link."""
        links = tuple(links)
        names = tuple(f'{link}.{symbol}' for link in links for symbol in INERTIAL_SYMBOLS)
        return cls(names, INERTIAL_UNITS * len(links))

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __contains__(self, name: object) -> bool:
        return name in self._index

    def __add__(self, other: ParameterLayout) -> ParameterLayout:
        return ParameterLayout(self.names + other.names, self.units + other.units)

    def index(self, name: str) -> int:
        """Place of ``name``; raises `IdentificationError` naming it where there is none."""
        try:
            return self._index[name]
        except KeyError:
            raise IdentificationError(
                f"no parameter is called '{name}'", remedy=f'known are {one_of(self.names)}'
            ) from None

    def indices(self, names: Iterable[str]) -> np.ndarray:
        """Places of ``names``, (len(names),) int."""
        return np.array([self.index(name) for name in names], dtype=int)

    def slice_of(self, owner: str) -> slice:
        """Slice of the ten inertial parameters of a link; raises as `index` does."""
        start = self.index(f'{owner}.m')
        return slice(start, start + len(INERTIAL_SYMBOLS))

    def select(self, indices: Iterable[int]) -> ParameterLayout:
        """Return the layout of a part of the vector."""
        pairs = [(self.names[i], self.units[i]) for i in indices]
        return ParameterLayout(tuple(n for n, _ in pairs), tuple(u for _, u in pairs))

    @property
    def links(self) -> tuple[str, ...]:
        """Links that have inertial parameters here, in order."""
        return tuple(name[: -len('.m')] for name in self.names if name.endswith('.m'))


@dataclass(frozen=True)
class ParameterSet:
    """A parameter vector: a layout, and (len(layout),) read-only values in its units."""

    layout: ParameterLayout
    values: np.ndarray

    def __post_init__(self) -> None:
        values = np.array(self.values, dtype=float)
        if values.shape != (len(self.layout),):
            raise ValueError(f'values have shape {values.shape}, expected ({len(self.layout)},)')
        values.setflags(write=False)
        object.__setattr__(self, 'values', values)

    def __getitem__(self, name: str) -> float:
        return float(self.values[self.layout.index(name)])

    def get(self, name: str, default: float = 0.0) -> float:
        """Value of ``name``, or ``default`` where the layout has no such parameter."""
        return self[name] if name in self.layout else default

    def inertial(self, link: str) -> np.ndarray:
        """(10,) inertial parameters of ``link`` at its joint frame [kg, kg m, kg m^2]."""
        return self.values[self.layout.indices(f'{link}.{symbol}' for symbol in INERTIAL_SYMBOLS)]

    def as_dict(self) -> dict[str, float]:
        """Return ``{name: value}`` in order."""
        return dict(zip(self.layout.names, self.values.tolist(), strict=True))

    def updated(self, values: Mapping[str, float]) -> ParameterSet:
        """Return a copy in which the named entries have new values."""
        new = self.values.copy()
        for name, value in values.items():
            new[self.layout.index(name)] = value
        return ParameterSet(self.layout, new)


def body_links(layout: ParameterLayout) -> tuple[str, ...]:
    """Links that have all ten inertial parameters."""
    return tuple(
        link
        for link in layout.links
        if all(f'{link}.{symbol}' in layout for symbol in INERTIAL_SYMBOLS)
    )
