# SPDX-License-Identifier: Apache-2.0
"""True and identified base parameters side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..base_parameters import structure
from ..io.results import StoredResult
from ..parameters import ParameterSet
from ..regressors import build

SIGNIFICANT = 5.0
"""A parameter is significant where its relative standard deviation is below this [%]."""

BAND = 3.0
"""How many standard deviations an identified value may be away from the true one."""


@dataclass(frozen=True)
class TruthComparison:
    """
    Identified base parameters against the true ones.

    Attributes
    ----------
    expressions, units:
        (b,) of the base parameters.
    true, identified, std:
        (b,) in those units; ``std`` is NaN where the recording does not tell the parameter.

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
        """(b,) bool, whether the data tell the parameter well."""
        return self.relative_std < SIGNIFICANT

    @property
    def outside(self) -> np.ndarray:
        """(b,) bool, significant parameters more than three standard deviations off."""
        return self.significant & (self.deviation > BAND)

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
    Hold a result against the simulated robot's true standard parameters.

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


def _short(text: str, width: int) -> str:
    return text if len(text) <= width else f'{text[: width - 3]}...'
