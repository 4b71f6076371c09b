# SPDX-License-Identifier: Apache-2.0
"""Base parameters as combinations of standard parameters: names, expressions, projections."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
import textwrap

import numpy as np

from ..model.parameters import ParameterLayout, ParameterSet


def expression(coefficients: np.ndarray, names: Sequence[str], *, first: int | None = None) -> str:
    """
    Write a combination of parameters in words, as ``link_2.Ixx - link_2.Iyy - 0.0506 link_3.m``.

    Coefficients are (p,), zeros are left out; ``first`` is the place of the term to begin with,
    and coefficients have three significant digits.  No term at all is ``0``.
    """
    places = [int(i) for i in np.flatnonzero(coefficients)]
    places.sort(key=lambda i: (i != first, i))
    text = ''
    for i in places:
        # by way of more digits, so that rounding noise cannot decide a tie such as 0.05185
        number = float(f'{float(f"{coefficients[i]:.10g}"):.3g}')
        magnitude = '' if abs(number) == 1.0 else f'{abs(number):.3g} '
        sign = '-' if number < 0.0 else '+'
        text += f' {sign} {magnitude}{names[i]}'
    if not text:
        return '0'
    return text[3:] if text.startswith(' + ') else f'-{text[3:]}'


WIDTH = 100  # characters of a line


def _listed(title: str, names: Iterable[str]) -> list[str]:
    """Name parameters, those of one link or joint together; nothing where there are none."""
    owners: dict[str, list[str]] = {}
    for name in names:
        owner, _, symbol = name.rpartition('.')
        owners.setdefault(owner, []).append(symbol)
    if not owners:
        return []
    groups = [f'{owner} {" ".join(symbols)}' for owner, symbols in owners.items()]
    return _wrapped(', '.join(groups), f'{title}: ')


def _wrapped(text: str, head: str) -> list[str]:
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=head,
        subsequent_indent='    ' if head.strip() else head + '    ',
        break_long_words=False,
        break_on_hyphens=False,
    )


CATEGORIES = ('unidentifiable', 'combined', 'alone')
"""
Identifiability of a standard parameter: not at all, only in a combination with others, or alone.
"""


@dataclass(frozen=True)
class BaseStructure:
    """
    Grouping of a robot's standard parameters into base parameters.

    With b base parameters of p standard parameters, for every motion ``W @ standard`` equals
    ``W[:, independent] @ (regrouping @ standard)``.

    Attributes
    ----------
    layout:
        The p standard parameters.
    independent:
        (b,) columns that stand for the base parameters, in ascending order.
    dependent:
        (d,) columns that are combinations of these.
    unidentifiable:
        (u,) columns that are zero for every motion.
    regrouping:
        (b, p) coefficients of the standard parameters in each base parameter.
    singular_values:
        Of the regressor with its columns scaled to norm 1, zero columns left out; descending.
    gap:
        Ratio of the smallest singular value that counts to the largest that does not; infinite
        if no column is dependent.
    expressions:
        Each base parameter in words, such as ``link_2.Ixx - link_2.Iyy - 0.0506 link_3.m``.
    warnings:
        Doubts about the rank.

    """

    layout: ParameterLayout
    independent: np.ndarray
    dependent: np.ndarray
    unidentifiable: np.ndarray
    regrouping: np.ndarray
    singular_values: np.ndarray
    gap: float
    expressions: tuple[str, ...]
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in (
            'independent',
            'dependent',
            'unidentifiable',
            'regrouping',
            'singular_values',
        ):
            array = np.array(getattr(self, name))
            array.setflags(write=False)
            object.__setattr__(self, name, array)

    @property
    def n_standard(self) -> int:
        """Number of standard parameters."""
        return len(self.layout)

    @property
    def n_base(self) -> int:
        """Number of base parameters."""
        return self.independent.size

    @cached_property
    def base_layout(self) -> ParameterLayout:
        """Base parameters under the names of their independent columns, with units."""
        return self.layout.select(self.independent)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the independent columns."""
        return self.base_layout.names

    @cached_property
    def categories(self) -> tuple[str, ...]:
        """One of `CATEGORIES` for each standard parameter."""
        categories = np.full(self.n_standard, 'combined', dtype=object)
        categories[self.unidentifiable] = 'unidentifiable'
        single = np.count_nonzero(self.regrouping, axis=1) == 1
        categories[self.independent[single]] = 'alone'
        return tuple(categories)

    def category(self, name: str) -> str:
        """
        Return the identifiability of a standard parameter, one of `CATEGORIES`.

        Raises IdentificationError if there is no such parameter.
        """
        return self.categories[self.layout.index(name)]

    def summary(self) -> str:
        """Return the parameters by category as text, with the combinations."""
        names: dict[str, tuple[str, ...]] = {'alone': (), 'combined': (), 'unidentifiable': ()}
        for name, category in zip(self.layout, self.categories, strict=True):
            names[category] += (name,)
        sums = [
            text for text, name in zip(self.expressions, self.names, strict=True) if text != name
        ]
        lines = [
            '-- Identifiable parameters '.ljust(WIDTH, '-'),
            f'{self.n_base} base parameters of {self.n_standard} standard ones',
            *_listed(f'alone ({len(names["alone"])})', names['alone']),
            *_listed(f'in {len(sums)} sums ({len(names["combined"])})', names['combined']),
            *(line for text in sums for line in _wrapped(text, '    ')),
            *_listed(f'not at all ({len(names["unidentifiable"])})', names['unidentifiable']),
        ]
        return '\n'.join(lines)

    def columns(self, rows: np.ndarray) -> np.ndarray:
        """Columns of the base parameters out of regressor rows, (n_rows, p) to (n_rows, b)."""
        return rows[..., self.independent]

    def project(self, parameters: ParameterSet) -> ParameterSet:
        """Return the base parameters that standard parameters amount to."""
        if parameters.layout.names != self.layout.names:
            raise ValueError('the parameters are not in the layout of the structure')
        return ParameterSet(self.base_layout, self.regrouping @ parameters.values)
