# SPDX-License-Identifier: Apache-2.0
"""Errors that are to be expected on other motions, as text."""

from __future__ import annotations

import numpy as np

from ..estimation.tables import rule, WIDTH
from ..results.result import Result

_WIDTHS = (14, 14, 16, 18)
_HEADS = ('speed up to', 'error %', 'contact above', 'inertia felt +- %')


def expected_summary(result: Result) -> str:
    """Return a table of the errors to expect, joint by joint; empty where they are not known."""
    expected = result.predicted
    if expected is None:
        return ''
    width = WIDTH - sum(_WIDTHS)
    heads = ''.join(f'{head:>{w}}' for head, w in zip(_HEADS, _WIDTHS, strict=True))
    lines = [rule('Errors to expect on other motions as fast'), f'{"joint":<{width}}{heads}']
    columns = (expected.joints, expected.speeds, expected.relative, expected.contact)
    for joint, speed, error, contact, felt in zip(*columns, expected.inertia, strict=True):
        unit = result.units.get(joint, '')
        cells = (f'{speed:.3g}', f'{error:.3g}', f'{contact:.3g} {unit}', f'{felt:.3g}')
        row = ''.join(f'{cell:>{w}}' for cell, w in zip(cells, _WIDTHS, strict=True))
        lines.append(f'{joint:<{width}}{row}')
    table = result.link_table()
    known = f' +- {table.std:.2g}' if np.isfinite(table.std) else ''
    lines += [
        f'{"all joints":<{width}}{"":>{_WIDTHS[0]}}{expected.relative_error:>{_WIDTHS[1]}.3g}',
        f'gravity is known to {expected.gravity:.2g} %; the links have '
        f'{table.after:.4g}{known} kg together (prior {table.before:.4g})',
    ]
    return '\n'.join(lines)
