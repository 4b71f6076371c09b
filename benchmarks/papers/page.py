# SPDX-License-Identifier: Apache-2.0
"""Results of a paper's script: its figures beside ours, and the bounds on ours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

DIGITS = 4


@dataclass(frozen=True)
class Row:
    """
    One figure.

    Attributes
    ----------
    quantity:
        What it is.
    paper, ours:
        As text; empty where there is none.
    bound:
        What ours is held to, in words; empty where it is shown only.
    met:
        Whether it is; None where there is no bound.
    why:
        Why the two differ, where they do.

    """

    quantity: str
    paper: str
    ours: str
    bound: str = ''
    met: bool | None = None
    why: str = ''


@dataclass(frozen=True)
class Table:
    """Figures that belong together, below a text."""

    title: str
    rows: Sequence[Row] = ()
    text: str = ''


@dataclass(frozen=True)
class Page:
    """
    The reproduction of one paper.

    Attributes
    ----------
    title:
        Of the section.
    citation:
        The paper.
    tables:
        The figures.
    text:
        What was done, what is not printed in the paper and was chosen, what could not be
        reproduced; Markdown.

    """

    title: str
    citation: str
    tables: Sequence[Table]
    text: str = ''

    @property
    def missed(self) -> tuple[Row, ...]:
        """Figures that do not keep their bound."""
        return tuple(row for table in self.tables for row in table.rows if row.met is False)


def figure(
    quantity: str,
    paper: float | str | None,
    ours: float | str,
    *,
    at_most: float | None = None,
    equal: float | None = None,
    within: float = 0.0,
    why: str = '',
) -> Row:
    """
    Make a row of numbers.

    Parameters
    ----------
    quantity, paper, ours, why:
        As in `Row`; numbers are written with four digits.
    at_most:
        Ours has to be no larger.
    equal, within:
        Ours has to be this, but for ``within``.

    """
    bound, met = '', None
    if at_most is not None:
        bound, met = f'at most {_text(at_most)}', bool(float(ours) <= at_most)
    elif equal is not None:
        bound = _text(equal) + (f' ± {_text(within)}' if within else '')
        met = bool(abs(float(ours) - equal) <= within)
    return Row(quantity, _text(paper), _text(ours), bound, met, why)


def markdown(page: Page) -> str:
    """Write a page as a section of ``docs/reference/papers.md``."""
    parts = [f'## {page.title}', page.citation]
    if page.text:
        parts.append(page.text.strip())
    for table in page.tables:
        parts.append(f'### {table.title}')
        if table.text:
            parts.append(table.text.strip())
        if table.rows:
            parts.append(_table(table.rows))
    return '\n\n'.join(parts) + '\n'


def _table(rows: Sequence[Row]) -> str:
    bounds = any(row.bound for row in rows)
    reasons = any(row.why for row in rows)
    head = ['', 'paper', 'ours'] + ['held to'] * bounds + ['why they differ'] * reasons
    lines = [head, ['---', '---:', '---:'] + ['---'] * (bounds + reasons)]
    for row in rows:
        held = f'{row.bound}{" — MISSED" if row.met is False else ""}'
        lines.append([row.quantity, row.paper, row.ours] + [held] * bounds + [row.why] * reasons)
    return '\n'.join('| ' + ' | '.join(line) + ' |' for line in lines)


def _text(value: float | str | None) -> str:
    if value is None:
        return ''
    if isinstance(value, str):
        return value
    return f'{value:.{DIGITS}g}'
