# SPDX-License-Identifier: Apache-2.0
"""Table of links: mass and centre of mass before and after, in kilograms and metres."""

from __future__ import annotations

import numpy as np

from ..estimation.tables import number, rule
from ..model.parameters import body_links, ParameterSet
from .result import Result


def link_table(result: Result) -> str:
    """
    Return the links' masses and centres of mass as text of 100 columns.

    Beside each mass stand its standard deviation, where the method gives one, the prior's mass and
    the change in per cent; centres of mass are in the joints' frames.  Masses that the recordings
    do not determine are the prior's.  Empty where no link has all ten inertial parameters.
    """
    links = body_links(result.standard.layout)
    if not links:
        return ''
    deviations = result.standard_std
    lines = [rule('Links')]
    heads = ('mass kg', 'std', 'prior kg', 'change %', 'centre of mass m', '', '')
    width = max(24, *map(len, links))
    lines.append(f'{"link":<{width}}' + _cells(heads))
    for link in links:
        place = result.standard.layout.index(f'{link}.m')
        std = float('nan') if deviations is None else float(deviations[place])
        mass, before = result.standard[f'{link}.m'], result.prior[f'{link}.m']
        centre = _centre(result.standard, link)
        cells = (number(mass), number(std), number(before), _change(mass, before))
        lines.append(f'{link:<{width}}' + _cells((*cells, *(f'{x:.4f}' for x in centre))))
    total, prior = (
        sum(parameters[f'{link}.m'] for link in links)
        for parameters in (result.standard, result.prior)
    )
    cells = (number(total), '', number(prior), _change(total, prior))
    lines.append(f'{"all links":<{width}}' + _cells(cells))
    return '\n'.join(line.rstrip() for line in lines)


def _centre(parameters: ParameterSet, link: str) -> np.ndarray:
    mass, *moments = parameters.inertial(link)[:4]
    return np.array(moments) / mass if mass else np.full(3, np.nan)


def _change(value: float, before: float) -> str:
    return f'{100.0 * (value / before - 1.0):+.1f}' if before > 0.0 else '-'


def _cells(texts: tuple[str, ...]) -> str:
    widths = (10, 10, 10, 10, 18, 9, 9)
    return ''.join(
        f'{text:>{width}}' for text, width in zip(texts, widths[: len(texts)], strict=True)
    )
