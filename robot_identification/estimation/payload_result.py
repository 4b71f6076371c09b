# SPDX-License-Identifier: Apache-2.0
"""An identified load, with its uncertainty and whether it can exist."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from ..model.consistency import inertia_at_com, LinkConsistency
from ..model.parameters import INERTIAL_SYMBOLS, INERTIAL_UNITS, ParameterSet
from . import Fit, ParameterEstimate
from .estimate import IDENTIFIED, NOT_EXCITED, plain
from .tables import number, percent


@dataclass(frozen=True)
class PayloadBody:
    """
    The load as a rigid body.

    Attributes
    ----------
    mass:
        [kg].
    center_of_mass:
        (3,) in the payload's frame [m].
    inertia:
        (3, 3) about the centre of mass, along the axes of the payload's frame [kg m^2].

    """

    mass: float
    center_of_mass: np.ndarray
    inertia: np.ndarray

    @classmethod
    def of(cls, vector: np.ndarray) -> PayloadBody:
        """Make a body of ten inertial parameters with a positive mass."""
        return cls(float(vector[0]), vector[1:4] / vector[0], inertia_at_com(vector))

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers; the inertia as Ixx, Ixy, Iyy, Ixz, Iyz, Izz."""
        entries = self.inertia[[0, 0, 1, 0, 1, 2], [0, 1, 1, 2, 2, 2]]
        return {
            'mass': self.mass,
            'center_of_mass': self.center_of_mass.tolist(),
            'inertia': entries.tolist(),
        }


@dataclass(frozen=True)
class Payload:
    """
    A load, identified from runs with and without it.

    Attributes
    ----------
    link:
        The identified link that carries it.
    frame:
        The link of the URDF in whose frame its parameters are.
    base:
        What any motion tells of its ten parameters, alone or in combination; those that these
        recordings do not tell are 0.
    expressions:
        What each entry of ``base`` stands for.
    covariance:
        Of ``base``, by blocks of time where the rows came with it; NaN in rows and columns of what
        is not told.  Errors that all runs have in common, those of drive gains above all, are not
        in it.
    reasons:
        Why an entry is not told; empty where it is.
    standard:
        The ten parameters of the nearest physical body that fits best; see ``physical``.
    told:
        (10,) bool, which of the ten parameters these recordings tell alone.
    consistency:
        Whether the ten parameters that fit best could belong to a body by themselves; None where
        they are not all told.
    physical:
        Whether ``standard`` is a physical body, as it is unless the solver for that is missing.
    residual_std:
        Square root of the residual variance of the weighted rows.
    fit, fit_without:
        Of the runs with the load, by the parameters of robot and load together, and by the
        robot's alone.
    recordings:
        Names of the runs with the load.
    warnings:
        In words, what a user should know.
    classical_std:
        Standard deviations of ``base`` were its rows independent; None where not known.

    """

    link: str
    frame: str
    base: ParameterSet
    expressions: tuple[str, ...]
    covariance: np.ndarray
    reasons: tuple[str, ...]
    standard: np.ndarray
    told: np.ndarray
    consistency: LinkConsistency | None
    physical: bool
    residual_std: float
    fit: Fit
    fit_without: Fit
    recordings: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    classical_std: np.ndarray | None = None

    def __post_init__(self) -> None:
        for name, kind in (('covariance', float), ('standard', float), ('told', bool)):
            array = np.array(getattr(self, name), dtype=kind)
            array.setflags(write=False)
            object.__setattr__(self, name, array)

    @property
    def std(self) -> np.ndarray:
        """Standard deviations of ``base``; NaN where not told."""
        return np.sqrt(np.diag(self.covariance))

    @property
    def body(self) -> PayloadBody | None:
        """The load as a body; None where ``standard`` is none."""
        return PayloadBody.of(self.standard) if self.standard[0] > 0.0 else None

    @property
    def mass(self) -> float:
        """Mass that fits best [kg]; NaN where it is not told alone."""
        return float(self.base['load.m']) if self.told[0] else float('nan')

    @property
    def mass_std(self) -> float:
        """Standard deviation of the mass [kg]; NaN where it is not told alone."""
        return float(self.std[self.base.layout.index('load.m')]) if self.told[0] else float('nan')

    @property
    def center_of_mass_std(self) -> np.ndarray:
        """(3,) standard deviations of the centre of mass [m]; NaN where not told."""
        std = np.full(3, np.nan)
        for i, symbol in enumerate(INERTIAL_SYMBOLS[1:4]):
            if self.told[0] and self.told[i + 1] and self.mass > 0.0:
                places = self.base.layout.indices(['load.m', f'load.{symbol}'])
                mass, moment = self.base.values[places]
                slope = np.array([-moment / mass**2, 1.0 / mass])
                std[i] = np.sqrt(slope @ self.covariance[np.ix_(places, places)] @ slope)
        return std

    def __iter__(self) -> Iterator[ParameterEstimate]:
        layout = self.base.layout
        with np.errstate(divide='ignore', invalid='ignore'):
            relative = 100.0 * self.std / np.abs(self.base.values)
        for i, name in enumerate(layout.names):
            yield ParameterEstimate(
                name=name,
                expression=self.expressions[i],
                unit=layout.units[i],
                value=float(self.base.values[i]),
                std=float(self.std[i]),
                relative_std=float(relative[i]),
                essential=None,
                state=NOT_EXCITED if self.reasons[i] else IDENTIFIED,
            )

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, texts and lists in the shape of the result file."""
        names = [f'load.{symbol}' for symbol in INERTIAL_SYMBOLS]
        check = self.consistency
        return {
            'link': self.link,
            'frame': self.frame,
            'recordings': list(self.recordings),
            'parameters': [parameter.to_dict() for parameter in self],
            'standard_parameters': [
                {'name': name, 'unit': unit, 'value': float(value), 'told': bool(told)}
                for name, unit, value, told in zip(
                    names, INERTIAL_UNITS, self.standard, self.told, strict=True
                )
            ],
            'body': None if self.body is None else self.body.to_dict(),
            'mass_std': plain(self.mass_std),
            'classical_std': None
            if self.classical_std is None
            else [plain(float(value)) for value in self.classical_std],
            'center_of_mass_std': [plain(float(value)) for value in self.center_of_mass_std],
            'physical': self.physical,
            'consistency': None
            if check is None
            else {f.name: getattr(check, f.name) for f in fields(check)},
            'residual_std': plain(self.residual_std),
            **self.fit.to_dict(),
            'relative_error_without_load': plain(self.fit_without.relative_error),
            'covariance': [
                [plain(float(value)) for value in row[: i + 1]]
                for i, row in enumerate(self.covariance)
            ],
            'warnings': list(self.warnings),
        }

    def summary(self) -> str:
        """Return tables for people."""
        lines = [f"Payload in the frame of '{self.frame}' on '{self.link}'"]
        width = max(len(p.expression) for p in self)
        lines.append(f'{"parameter":<{width}}{"value":>14}{"std":>13}{"std %":>9}  unit')
        for p in self:
            cells = f'{number(p.value):>14}{number(p.std):>13}{percent(p.relative_std):>9}'
            note = '' if p.state == IDENTIFIED else '  not determined'
            lines.append(f'{p.expression:<{width}}{cells}  {p.unit}{note}')
        if self.body is not None:
            centre = ', '.join(number(float(value)) for value in self.body.center_of_mass)
            kind = 'physical body' if self.physical else 'body'
            lines.append(f'{kind}: {self.body.mass:.5g} kg at ({centre}) m')
        lines.append(
            f'relative error with the load {percent(self.fit.relative_error)} %, as if there were '
            f'none {percent(self.fit_without.relative_error)} %'
        )
        return '\n'.join([*lines, *self.warnings])
