# SPDX-License-Identifier: Apache-2.0
"""
The table of the experiment file's keys, made from the options dataclasses.

``python scripts/experiment_page.py docs/reference/experiment.md`` brings the page up to date; with
``--check`` it only says whether it is.
"""

from __future__ import annotations

import argparse
from dataclasses import is_dataclass, MISSING
from pathlib import Path
import re
import sys
import types
import typing
from typing import Any

from robot_identification.config.experiment import Experiment
from robot_identification.options.fields import describe, OptionInfo, section_of
from robot_identification.version import page

BEGIN, END = ('<!-- keys: begin (made by scripts/experiment_page.py) -->', '<!-- keys: end -->')

_PLURALS = {
    'number': 'numbers',
    'whole number': 'whole numbers',
    'text': 'texts',
    'section': 'sections',
}
_WORDS = {float: 'number', int: 'whole number', str: 'text', bool: 'true or false'}


def key_tables(cls: type = Experiment) -> str:
    """
    Return Markdown tables of all keys of an options dataclass, one a section.

    Parameters
    ----------
    cls:
        The options dataclass.

    """
    sections: list[tuple[str, type]] = [('', cls)]
    texts = []
    while sections:
        path, section = sections.pop(0)
        head = f'### `{path}`' if path else '### The file'
        rows = ['| key | value | default | meaning |', '|---|---|---|---|']
        inner: list[tuple[str, type]] = []
        for info in _ordered(section):
            rows.append(_row(info))
            below, listed = section_of(info.type)
            if below is not None:
                key = f'{path}.{info.name}' if path else info.name
                inner.append((f'{key}[i]' if listed else key, below))
        # a section's own sections follow it at once
        sections[:0] = inner
        if path.endswith(('.velocity', '.effort', '.motor.position')) and path.startswith('data'):
            continue  # the same as position
        if path.startswith('data.validation[i]') or '.recordings[i]' in path:
            continue  # the same as identification
        texts.append('\n'.join([head, '', *rows]))
    return '\n\n'.join(texts)


def updated(page: str) -> str:
    """
    Return a page with the tables between its marks made again.

    Raises
    ------
    ValueError
        where the page has no marks.

    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f'the page has no lines {BEGIN} and {END}')
    return f'{before}{BEGIN}\n\n{key_tables()}\n\n{END}{after}'


def main(arguments: list[str] | None = None) -> int:
    """Bring a page up to date, or check it; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or '').strip().split('\n')[0])
    parser.add_argument('page', type=Path, help='Markdown file with the marks')
    parser.add_argument('--check', action='store_true', help='change nothing')
    options = parser.parse_args(arguments)
    old = options.page.read_text(encoding='utf-8')
    new = updated(old)
    if options.check:
        return 0 if new == old else 1
    options.page.write_text(new, encoding='utf-8')
    return 0


def _ordered(cls: type) -> list[OptionInfo]:
    """Return a class's own options before those that it inherits."""
    parents = [base for base in cls.__bases__ if is_dataclass(base)]
    inherited = {info.name for base in parents for info in describe(base)}
    return sorted(describe(cls), key=lambda info: info.name in inherited)


def _row(info: OptionInfo) -> str:
    address = re.escape(page('NAME')).replace('NAME', r'([\w/]+)')
    doc = re.sub(address, r'[\1](../\1.md)', info.doc)  # within the documentation
    return f'| `{info.name}` | {_values(info)} | {_default(info)} | {doc} |'


def _values(info: OptionInfo) -> str:
    """Describe what a key takes, with its unit and range."""
    if info.choices is not None:
        listed = typing.get_origin(info.type) is tuple
        names = ', '.join(f'`{choice}`' for choice in info.choices)
        return f'list of {names}' if listed else names
    text = _type(info.type)
    low, high = info.minimum, info.maximum
    if low is not None and high is not None:
        text += f' from {low:g} to {high:g}'
    elif low is not None:
        text += f', at least {low:g}'
    elif high is not None:
        text += f', at most {high:g}'
    return f'{text} [{info.unit}]' if info.unit else text


def _type(kind: Any) -> str:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind in _WORDS:
        return _WORDS[kind]
    if kind is type(None):
        return 'null'
    if is_dataclass(kind):
        return 'section'
    if origin in (typing.Union, types.UnionType):
        return ' or '.join(dict.fromkeys(_type(argument) for argument in arguments))
    if origin is tuple:
        if arguments[-1] is not Ellipsis:
            inner = _type(arguments[0])
            each = _plural(inner) if inner in _PLURALS else f'({inner})'
            return f'list of {len(arguments)} {each}'
        inner = _type(arguments[0])
        return f'list of {"lists" if inner.startswith("list") else _plural(inner)}'
    return 'mapping by name'


def _plural(text: str) -> str:
    return _PLURALS.get(text, f'({text})')


def _default(info: OptionInfo) -> str:
    if info.default is MISSING:
        return '**required**'
    return _value(info.default)


def _value(value: Any) -> str:
    if value is None:
        return '`null`'
    if is_dataclass(value):
        return 'see below'
    if isinstance(value, bool):
        return f'`{str(value).lower()}`'
    if isinstance(value, (tuple, list)):
        return f'`[{", ".join(str(item) for item in value)}]`'
    if isinstance(value, dict):
        return '`{}`'
    return f'`{value}`'


if __name__ == '__main__':
    sys.exit(main())
