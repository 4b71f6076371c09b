# SPDX-License-Identifier: Apache-2.0
"""
Comparison of results: base parameters side by side, and which of them differ significantly.

Each result is compared with the first.  Under the hypothesis of equal parameters the difference
over its standard deviation is normal; probabilities are corrected for the number of parameters
(Holm, Scandinavian Journal of Statistics 6, 1979).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
import re

import numpy as np

from ..errors import IdentificationError
from ..estimation.tables import number, rule, wrapped
from ..results.result import StoredResult
from .comparison import holm, two_sided

BAND = 1.96
"""Half the width of a 95 % interval [standard deviations]."""


@dataclass(frozen=True)
class ResultComparison:
    """
    Parameters and errors of results.

    Attributes
    ----------
    names:
        Of the r results.
    labels, expressions, units:
        (p,) of the base parameters that any result has; a label is the first term of the
        expression, with its number if several begin alike.
    values, std:
        (r, p) in these units; NaN for a parameter that a result does not have or determine.
    probability:
        (r, p) of such a difference from the first result among equal robots, corrected for the
        number of parameters; NaN if it cannot be tested.
    significance:
        Probability below which a difference is significant.
    errors:
        Relative error of each joint by recording and result, (r, n + 1) with that of all joints
        last [%].
    joints:
        Names of the n joints.

    """

    names: tuple[str, ...]
    labels: tuple[str, ...]
    expressions: tuple[str, ...]
    units: tuple[str, ...]
    values: np.ndarray
    std: np.ndarray
    probability: np.ndarray
    significance: float
    errors: dict[str, np.ndarray]
    joints: tuple[str, ...]

    @property
    def different(self) -> np.ndarray:
        """(r, p) bool, parameters that differ significantly from those of the first result."""
        with np.errstate(invalid='ignore'):
            return np.asarray(self.probability < self.significance)

    def summary(self) -> str:
        """Return tables; ``*`` marks what differs significantly from the first result."""
        count = int(self.different.any(axis=0).sum())
        width = max(map(len, (*self.labels, *self.joints, 'all joints'))) + 1
        lines = [
            rule(f'{len(self.names)} results', '='),
            *(f'{letter}  {name}' for letter, name in zip(_letters(self), self.names)),
            f'{count} of {len(self.expressions)} base parameters differ significantly from '
            f'{_letters(self)[0]} (level {100 * self.significance:g} % over all of them)',
            '',
            rule('Base parameters with half the width of their 95 % interval'),
            f'{"parameter":{width}}'
            + ''.join(f'{letter:>24}   ' for letter in _letters(self))
            + 'unit',
        ]
        for p, label in enumerate(self.labels):
            cells = ''.join(
                f'{self._cell(r, p):>24}{" * " if self.different[r, p] else "   "}'
                for r in range(len(self.names))
            )
            lines.append(f'{label:{width}}{cells}{self.units[p]}')
        for recording, errors in self.errors.items():
            lines += ['', rule(f'Relative error on {recording} [%]')]
            for j, joint in enumerate((*self.joints, 'all joints')):
                cells = ''.join(f'{error:24.2f}   ' for error in errors[:, j])
                lines.append(f'{joint:{width}}{cells}'.rstrip())
        combined = [
            (label, expression)
            for label, expression in zip(self.labels, self.expressions, strict=True)
            if label != expression
        ]
        if combined:
            lines += ['', rule('Parameters that are combinations')]
            for label, text in combined:
                # the first term is the label
                lines += wrapped(text, f'{label} = ' if ' [' in label else '')
        return '\n'.join(lines)

    def _cell(self, r: int, p: int) -> str:
        if not np.isfinite(self.values[r, p]):
            return '-'
        spread = BAND * self.std[r, p]
        told = f' +- {spread:.2g}' if np.isfinite(spread) else ''
        return f'{number(float(self.values[r, p]))}{told}'


def compare_results(
    results: Sequence[StoredResult],
    names: Sequence[str],
    errors: dict[str, np.ndarray] | None = None,
    significance: float = 0.01,
) -> ResultComparison:
    """
    Compare results of one robot, or of robots with the same joints.

    Parameters
    ----------
    results:
        At least two; the others are compared with the first one.
    names:
        What they are called.
    errors:
        Errors on recordings that all have predicted, as in `ResultComparison`.
    significance:
        Probability that results of equal robots show any difference.

    Raises
    ------
    IdentificationError
        naming a result of other joints.

    """
    joints = results[0].robot.joints
    for result, name in zip(results, names, strict=True):
        if result.robot.joints != joints:
            raise IdentificationError(
                f"'{name}' is of the joints {', '.join(result.robot.joints)}, '{names[0]}' of "
                f'{", ".join(joints)}',
                file=name,
                remedy='compare results of the same joints',
            )
    units: dict[str, str] = {}
    for result in results:
        units.update(zip(result.expressions, result.base.layout.units, strict=True))
    values, std = (np.full((len(results), len(units)), np.nan) for _ in range(2))
    places = {expression: p for p, expression in enumerate(units)}
    for r, result in enumerate(results):
        at = [places[expression] for expression in result.expressions]
        values[r, at], std[r, at] = result.base.values, result.base_std
    difference = values - values[0]
    spread = np.hypot(std, std[0])
    probability = np.full(values.shape, np.nan)
    normal = np.full(values.shape[1], 1e6)  # degrees of freedom
    for r in range(1, len(results)):
        probability[r] = holm(two_sided(difference[r], spread[r], normal))
    return ResultComparison(
        tuple(names),
        _labels(tuple(units)),
        tuple(units),
        tuple(units.values()),
        values,
        std,
        probability,
        significance,
        errors or {},
        joints,
    )


def _labels(expressions: tuple[str, ...]) -> tuple[str, ...]:
    """Return the first terms of expressions, numbered where several are alike."""
    seen: dict[str, int] = {}
    labels = []
    for expression in expressions:
        first = re.split(r' [+-] ', expression)[0]
        seen[first] = seen.get(first, 0) + 1
        labels.append(first if seen[first] == 1 else f'{first} [{seen[first]}]')
    return tuple(labels)


def _letters(comparison: ResultComparison) -> list[str]:
    return [chr(ord('A') + k) if k < 26 else str(k + 1) for k in range(len(comparison.names))]
