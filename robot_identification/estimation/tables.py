# SPDX-License-Identifier: Apache-2.0
"""Parts of tables in plain text: numbers, percentages, wrapped text and rules."""

from __future__ import annotations

import math
import textwrap

WIDTH = 100  # characters of a line


def number(value: float | None) -> str:
    """Return a number in at most 11 characters with five significant digits."""
    if value is None or math.isnan(value):
        return '-'
    return f'{value:.5g}'


def percent(value: float) -> str:
    """Return a percentage in at most 9 characters."""
    if math.isnan(value):
        return '-'
    return f'{value:.2f}' if value < 1e4 else '>9999'


def wrapped(text: str, head: str) -> list[str]:
    """Return a text as lines of the table's width, the first one behind ``head``."""
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=head,
        subsequent_indent=' ' * min(len(head), 24),
        break_long_words=False,
        break_on_hyphens=False,
    ) or [head.rstrip()]


def rule(title: str, mark: str = '-') -> str:
    """Return a title in a line across the table."""
    return f'{mark * 2} {title} '.ljust(WIDTH, mark)
