# SPDX-License-Identifier: Apache-2.0
"""Links before and after as text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..estimation.tables import rule, WIDTH
from ..results.tables import LinkTable, MassProperties

_NUMBERS = (9, 9, 9, 9, 9, 10, 10, 10)
"""Widths of mass and change, and of three columns each of centre of mass and principal moments."""

_KIND = 6
"""Width of `before`."""


def link_summary(table: LinkTable) -> str:
    """Return a table of links as text of 100 columns; empty where there is no whole link."""
    if not table.links:
        return ''
    width = max(WIDTH - _KIND - 1 - sum(_NUMBERS), *(len(link.link) for link in table.links))
    blank = ' ' * (width + _KIND + 1)
    lines = [
        rule('Links: before, after, standard deviation'),
        f'{blank}{"mass":>9}{"change":>9}{"centre of mass":>27}{"principal inertias":>30}',
        f'{"link":<{width + _KIND + 1}}{"kg":>9}{"%":>9}{"m":>27}{"kg m^2":>30}',
    ]
    for link in table.links:
        lines += [
            _line(link.link, 'before', link.before, width),
            _line('', 'after', link.after, width, _percent(link.change)),
            _line('', 'std', link.std, width),
        ]
    total = (('before', table.before, ''), ('after', table.after, _percent(table.change)))
    for kind, mass, change in (*total, ('std', table.std, '')):
        name = 'all links' if kind == 'before' else ''
        lines.append(_cells(name, kind, width, (_number(mass), change)))
    return '\n'.join(line.rstrip() for line in lines)


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
