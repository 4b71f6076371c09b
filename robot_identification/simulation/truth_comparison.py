# SPDX-License-Identifier: Apache-2.0
"""Comparison of a result with the true parameters of the simulated robot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..base_parameters import structure
from ..estimation.physical_constraints import body_links
from ..model.parameters import ParameterSet
from ..regressor import build
from ..results.result import StoredResult

SIGNIFICANT = 5.0
"""A parameter is significant where its relative standard deviation is below this [%]."""

BAND = 1.96
"""Half the width of a 95 % interval [standard deviations]."""


@dataclass(frozen=True)
class TruthComparison:
    """
    Identified base parameters against the true ones.

    Attributes
    ----------
    expressions, units:
        (b,) of the base parameters.
    true, identified, std:
        (b,) in those units; ``std`` is NaN where the recording does not determine the parameter.

    """

    expressions: tuple[str, ...]
    units: tuple[str, ...]
    true: np.ndarray
    identified: np.ndarray
    std: np.ndarray

    @property
    def relative_std(self) -> np.ndarray:
        """(b,) 100 std / |identified| [%]."""
        with np.errstate(divide='ignore'):
            return 100.0 * self.std / np.abs(self.identified)

    @property
    def deviation(self) -> np.ndarray:
        """(b,) distance from the true value in standard deviations."""
        with np.errstate(divide='ignore', invalid='ignore'):
            return np.abs(self.identified - self.true) / self.std

    @property
    def significant(self) -> np.ndarray:
        """(b,) bool, true where the parameter is well determined."""
        return self.relative_std < SIGNIFICANT

    @property
    def outside(self) -> np.ndarray:
        """(b,) bool, parameters whose 95 % interval does not contain the true value."""
        return np.isfinite(self.deviation) & (self.deviation > BAND)

    def table(self, width: int = 46) -> str:
        """Return the table as text; ``*`` marks what is significant, ``!`` what is off."""
        lines = [
            f'    {"base parameter":{width}} {"true":>11} {"identified":>11} {"std":>9} '
            f'{"%std":>7} {"off by":>8}'
        ]
        for i, expression in enumerate(self.expressions):
            mark = '!' if self.outside[i] else '*' if self.significant[i] else ' '
            known = np.isfinite(self.std[i])
            spread = f'{self.std[i]:9.2g} {self.relative_std[i]:7.1f}' if known else f'{"-":>17}'
            off = f'{self.deviation[i]:4.1f} std' if known else ''
            lines.append(
                f'  {mark} {_short(expression, width):{width}} {self.true[i]:11.5f} '
                f'{self.identified[i]:11.5f} {spread} {off:>8}'
            )
        return '\n'.join(lines)


def compare(result: StoredResult, truth: Mapping[str, float]) -> TruthComparison:
    """
    Compare a result with the simulated robot's true standard parameters.

    Parameters
    ----------
    result:
        The identification's result file.
    truth:
        True standard parameters by name; those not named are 0.

    """
    base = structure(
        build(result.robot, result.model), result.robot, grouping=result.model.grouping
    )
    values = np.array([truth.get(name, 0.0) for name in base.layout.names])
    standard = ParameterSet(base.layout, values)
    return TruthComparison(
        expressions=result.expressions,
        units=result.base.layout.units,
        true=base.project(standard).values,
        identified=result.base.values,
        std=result.base_std,
    )


@dataclass(frozen=True)
class MassComparison:
    """
    Identified masses of links against the true ones.

    Attributes
    ----------
    links:
        Names of the n links.
    prior, true, identified, std:
        (n,) [kg].

    """

    links: tuple[str, ...]
    prior: np.ndarray
    true: np.ndarray
    identified: np.ndarray
    std: np.ndarray

    @property
    def within(self) -> np.ndarray:
        """(n,) bool, links whose 95 % interval contains the true mass."""
        return np.asarray(np.abs(self.identified - self.true) <= BAND * self.std)

    def table(self) -> str:
        """Return the table as text; ``!`` marks intervals that do not contain the true mass."""
        lines = [
            f'    {"link":14} {"URDF kg":>10} {"true kg":>10} {"identified":>11} {"std":>9}'
            f'   {"95 % interval":^21}'
        ]
        rows = zip(self.links, self.prior, self.true, self.identified, self.std, self.within)
        for link, prior, true, mass, std, within in rows:
            interval = f'{mass - BAND * std:8.3f} to {mass + BAND * std:8.3f}'
            lines.append(
                f'  {" " if within else "!"} {_short(link, 14):14} {prior:10.3f} {true:10.3f} '
                f'{mass:11.3f} {std:9.3f}   {interval:^21}'
            )
        return '\n'.join(lines)


def compare_masses(result: StoredResult, truth: Mapping[str, float]) -> MassComparison:
    """Compare the masses of links of a result with the true standard parameters by name."""
    links = body_links(result.standard.layout)
    names = [f'{link}.m' for link in links]
    places = result.standard.layout.indices(names)
    return MassComparison(
        links=links,
        prior=result.prior.values[places],
        true=np.array([truth[name] for name in names]),
        identified=result.standard.values[places],
        std=result.standard_std[places],
    )


def _short(text: str, width: int) -> str:
    return text if len(text) <= width else f'{text[: width - 3]}...'
