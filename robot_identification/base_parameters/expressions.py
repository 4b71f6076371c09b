# SPDX-License-Identifier: Apache-2.0
"""Combinations of parameters in words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def expression(
    coefficients: np.ndarray, names: Sequence[str], *, first: int | None = None, digits: int = 3
) -> str:
    """
    Write a combination of parameters in words.

    Parameters
    ----------
    coefficients:
        (p,) numbers; zeros are left out.
    names:
        The p names.
    first:
        Place of the term to begin with; the others follow in order.
    digits:
        Significant digits of the coefficients.

    Returns
    -------
    str
        for example ``link_2.Ixx - link_2.Iyy - 0.0506 link_3.m``; ``0`` for no term.

    """
    places = [int(i) for i in np.flatnonzero(coefficients)]
    places.sort(key=lambda i: (i != first, i))
    text = ''
    for i in places:
        # by way of more digits, so that rounding noise cannot decide a tie such as 0.05185
        number = float(f'{float(f"{coefficients[i]:.10g}"):.{digits}g}')
        magnitude = '' if abs(number) == 1.0 else f'{abs(number):.{digits}g} '
        sign = '-' if number < 0.0 else '+'
        text += f' {sign} {magnitude}{names[i]}'
    if not text:
        return '0'
    return text[3:] if text.startswith(' + ') else f'-{text[3:]}'
