# SPDX-License-Identifier: Apache-2.0
"""Text summary of the identifiable parameters of a robot, in 100 columns."""

from __future__ import annotations

from collections.abc import Iterable
import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .base_structure import BaseStructure

WIDTH = 100


def structure_summary(structure: BaseStructure) -> str:
    """Return the three categories of parameters; those in combination with their combinations."""
    names: dict[str, tuple[str, ...]] = {'alone': (), 'combined': (), 'unidentifiable': ()}
    for name, category in zip(structure.layout, structure.categories, strict=True):
        names[category] += (name,)
    sums = [
        text
        for text, name in zip(structure.expressions, structure.names, strict=True)
        if text != name
    ]
    lines = [
        '-- Identifiable parameters '.ljust(WIDTH, '-'),
        f'{structure.n_base} base parameters of {structure.n_standard} standard ones',
        *_listed(f'alone ({len(names["alone"])})', names['alone']),
        *_listed(f'in {len(sums)} sums ({len(names["combined"])})', names['combined']),
        *(line for text in sums for line in _wrapped(text, '    ')),
        *_listed(f'not at all ({len(names["unidentifiable"])})', names['unidentifiable']),
    ]
    return '\n'.join(lines)


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
