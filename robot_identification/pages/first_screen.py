# SPDX-License-Identifier: Apache-2.0
"""
The verdict on one screen: what commands print first, and what reports begin with.

Level and reason, the error to expect, a line for each use with its figure and its one reason, what
was left out, and one next step.  All else is in the report.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
import re
import textwrap
from typing import Any

from ..errors import LOCKED
from ..verdicts.reason import clause, Reason, shortened
from ..verdicts.verdict import Verdict

COLUMNS, ROWS = 80, 15
"""Characters of a line, and lines, that a terminal has at least."""

STATES = GOOD, USABLE, NOT = 'good', 'usable', 'no'
"""What is said of a use."""

_ABOVE = {NOT: 'reason above', USABLE: 'reservation above'}
_OF_FILE = re.compile(r'\b(robot|data|signals|estimation|simulation)\.')
_HEAD_LINES, _LEFT_LINES, _STEP_LINES = 2, 2, 3
_NEXT = 'next: '


@dataclass(frozen=True)
class Places:
    """
    Files that a screen names, as a user types them.

    Attributes
    ----------
    experiment:
        The experiment file; empty where there is none.
    result:
        The file of the result, such as ``results/result.yaml``.
    product:
        What is used of a good result; empty for nothing.
    product_command:
        That makes something of it; empty for none.
    details:
        Where all else is to be read.

    """

    experiment: str = ''
    result: str = ''
    product: str = ''
    product_command: str = ''
    details: str = '--verbose'


@dataclass(frozen=True)
class UseLine:
    """One use: one of `STATES`, its name, and its figure with the one reason."""

    state: str
    name: str
    figure: str


@dataclass(frozen=True)
class FirstScreen:
    """
    The verdict on one screen.

    Attributes
    ----------
    headline, expected:
        Level and reason; the error to expect, empty where it is not known.
    uses:
        One line a use.
    payload:
        The verdict on the payload, in one line; empty without one.
    left_out:
        What was left out or changed, and how many warnings there are; empty for nothing.
    command, step:
        The next step: a command that can be typed, empty where none takes it, and in words.
    level:
        Of the verdict.

    """

    headline: str
    expected: str
    uses: tuple[UseLine, ...]
    payload: str
    left_out: str
    command: str
    step: str
    level: str

    def text(self) -> str:
        """Return it in lines of 80 columns; a command is never broken."""
        width = max(len(line.name) for line in self.uses)
        lines = [*_lines(self.headline, _HEAD_LINES)]
        lines += [_fitting(self.expected)] if self.expected else []
        for line in self.uses:
            lines.append(f'  {line.state:<6}  {line.name:<{width}}  {line.figure}'.rstrip())
        lines += [self.payload] if self.payload else []
        lines += _lines(self.left_out, _LEFT_LINES) if self.left_out else []
        if self.command:
            lines.append(f'{_NEXT}{self.command}')
            step = f'({self.step})'
            lines += _lines(step, _STEP_LINES - 1, ' ' * len(_NEXT)) if self.step else []
        elif self.step:
            lines += _lines(f'{_NEXT}{self.step}', _STEP_LINES)
        return '\n'.join(lines)


def first_screen(
    found: Verdict, places: Places, *, payload: Any = None, warnings: int = 0
) -> FirstScreen:
    """
    Return the first screen of a verdict.

    ``payload`` is the verdict on the payload of an arm, ``warnings`` the number of warnings that
    the details have.
    """
    width = COLUMNS - 12 - max(map(len, found.possible.values()))
    command, step = _next(found, places)
    return FirstScreen(
        headline=found.headline,
        expected=found.figures.expected,
        uses=tuple(_use(found, use, width) for use in found.possible),
        payload='' if payload is None else _payload(payload),
        left_out=_left_out(found, warnings, places.details),
        command=command,
        step=step,
        level=found.level,
    )


def _use(found: Verdict, use: str, width: int) -> UseLine:
    """Return the line of a use; a reason that the headline has is not repeated."""
    reason, figure = found.against_use(use), found.figures.uses.get(use, '')
    state = NOT if use not in found.uses else USABLE if reason else GOOD
    if reason is not None:
        said = _ABOVE[state] if reason is found.gravest else ''
        said = said or reason.brief(width)
        both = f'{figure}; {said}'
        apart = figure.split()[:1] != said.split()[:1]  # a reason may have the figure itself
        figure = both if figure and apart and len(both) <= width else said
    return UseLine(state, found.possible[use], shortened(figure, width) if figure else '')


def _payload(found: Verdict) -> str:
    figure = found.figures.expected.partition(';')[0]
    return shortened(f'payload {figure}: {found.headline[0].lower()}{found.headline[1:]}', COLUMNS)


def _left_out(found: Verdict, warnings: int, details: str) -> str:
    """Return what was left out or changed, counted where it can be, and the number of warnings."""
    counted: dict[str, set[str]] = {}
    others = []
    for text in found.omissions:
        noun, items = getattr(text, 'noun', ''), getattr(text, 'items', ())
        if noun and noun != LOCKED:
            counted.setdefault(noun, set()).update(items)
        elif not noun:
            others.append(text)
    texts = [_number(len(items), noun) for noun, items in counted.items()]
    texts += [_number(found.locked, LOCKED)] if found.locked else []
    if others:
        room = COLUMNS if not texts else COLUMNS // 2
        first = shortened(_bare(clause(others[0])), room)
        texts.append(f'{first}, {len(others) - 1} more' if others[1:] else first)
    head = f'left out or changed: {", ".join(texts)}' if texts else ''
    count = _number(warnings, 'warning') if warnings else ''
    said = '; '.join(filter(None, (head, count)))
    end = f'; see {details}'
    room = _LEFT_LINES * COLUMNS - len(end) - 20
    return f'{shortened(said, max(room, COLUMNS - 20))}{end}' if said else ''


def _fitting(text: str) -> str:
    """Return a text in one line, without its last clause where it is too long."""
    return text if len(text) <= COLUMNS else shortened(text.rpartition(';')[0] or text, COLUMNS)


def _number(count: int, noun: str) -> str:
    """Return a number with its noun, whose first words may be followed by 'of ...'."""
    name, of, rest = noun.partition(' of ')
    return f'{count} {name}{"s" if count != 1 else ""}{of}{rest}'


def _next(found: Verdict, places: Places) -> tuple[str, str]:
    """Return the command and the words of the one next step."""
    reason = found.gravest_step
    if reason is None:
        if found.uses:
            return places.product_command, f'use {places.product}' if places.product else ''
        return '', f'see the reasons in {places.details}'
    step, named = _bare(reason.next_step), _files(reason, places)
    if named is None:
        return '', step
    if reason.command:
        return reason.command.format(**named), step
    key = f' ({reason.key})' if reason.key and reason.key not in step else ''
    editable = bool(reason.key or _OF_FILE.search(step)) and places.experiment
    where = f', in {places.experiment}' if editable else ''
    return '', f'{step}{key}{where}'


def _files(reason: Reason, places: Places) -> dict[str, str] | None:
    """Return the files that the command of a reason names; None where one is not known."""
    named = {'experiment': places.experiment, 'result': places.result}
    needed = re.findall(r'\{(\w+)\}', reason.command)
    return named if all(named[name] for name in needed) else None


def _bare(text: str) -> str:
    """Return a text without the addresses of pages."""
    return re.sub(r'(,? \(https?://[^)]*\)|, https?://[^\s)]*)', '', text)


def _lines(text: str, count: int, indent: str = '') -> Iterator[str]:
    """Iterate over a text in so many lines at most, of which the last may be cut."""
    later = indent or '  '
    found = textwrap.wrap(
        text, COLUMNS, initial_indent=indent, subsequent_indent=later, break_on_hyphens=False
    )
    yield from found[:count] if len(found) <= count else found[: count - 1]
    if len(found) > count:
        rest = ' '.join(line.strip() for line in found[count - 1 :])
        head = later if count > 1 else indent
        yield f'{head}{shortened(rest, COLUMNS - len(head))}'


def names_in_line(paths: Sequence[Path]) -> list[str]:
    """Return which files were written where, in lines of 80 columns."""
    folders = {path.parent for path in paths}
    if len(folders) != 1:
        return [f'wrote {path}' for path in paths]
    names = ', '.join(path.name for path in paths)
    return list(_lines(f'wrote {names} to {folders.pop()}', 2))
