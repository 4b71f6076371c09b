# SPDX-License-Identifier: Apache-2.0
"""The suite's messages, services and actions as Markdown, from the comments in their files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

PACKAGE = 'robot_identification_msgs'

_FOLDER = Path(__file__).resolve().parents[1] / PACKAGE
"""Where the definitions are in the sources; those of an installation may be older."""


def message_reference(folder: Path = _FOLDER) -> str:
    """
    Return a Markdown section for each definition file below ``folder``.

    Parameters
    ----------
    folder:
        Has folders ``msg``, ``srv`` and ``action``.

    Raises
    ------
    ValueError
        naming a field or constant that has no comment.

    """
    sections = []
    for suffix in ('msg', 'srv', 'action'):
        for path in sorted((folder / suffix).glob(f'*.{suffix}')):
            sections.append(_section(path, suffix))
    return '\n\n'.join(sections)


def anchor(kind: str) -> str:
    """Return a type's name, linked to its section where it is one of the suite's."""
    package, *folder, name = kind.split('/')
    if package != PACKAGE:
        return f'`{kind}`'
    # a field's type has no folder: it is a message
    return f'[`{kind}`](messages.md#{"".join(folder) or "msg"}{name.lower()})'


def _type(kind: str) -> str:
    bare, bracket, size = kind.partition('[')
    return f'{anchor(bare)}{bracket}{size}' if '/' in bare else kind


def _section(path: Path, suffix: str) -> str:
    from rosidl_adapter.parser import parse_action_file, parse_message_file, parse_service_file

    lines = [f'## {suffix}/{path.stem}', '', f'`{PACKAGE}/{suffix}/{path.stem}`: {_opening(path)}']
    if suffix == 'msg':
        lines += _tables('field', parse_message_file(PACKAGE, path), path)
    elif suffix == 'srv':
        service = parse_service_file(PACKAGE, path)
        lines += _tables('request', service.request, path)
        lines += _tables('response', service.response, path)
    else:
        action = parse_action_file(PACKAGE, path)
        lines += _tables('goal', action.goal, path)
        lines += _tables('result', action.result, path)
        lines += _tables('feedback', action.feedback, path)
    return '\n'.join(lines)


def _opening(path: Path) -> str:
    """Return the comment at the top of a file."""
    lines = []
    for line in path.read_text(encoding='utf-8').splitlines():
        if not line.startswith('#'):
            break
        lines.append(line[1:].strip())
    return ' '.join(lines)


def _tables(title: str, specification: Any, path: Path) -> list[str]:
    """Return the lines of a table of the fields, and of one of the constants."""
    fields = [(field.name, field.type, field.annotations) for field in specification.fields]
    constants = [(one.name, one.value, one.annotations) for one in specification.constants]
    if title not in ('field', 'request', 'goal'):
        # the parser takes a comment right behind a line of dashes for that of the whole part
        first = constants or fields
        first[:1] = [(*entry[:2], specification.annotations) for entry in first[:1]]
    lines = []
    for head, entries in (('constant | value', constants), (f'{title} | type', fields)):
        if entries:
            lines += ['', f'| {head} | meaning |', '|---|---|---|', *_rows(entries, path)]
    return lines


def _rows(entries: Sequence[tuple[str, object, dict[str, Any]]], path: Path) -> list[str]:
    """Return a row each; what follows another one without a comment shares the other's."""
    rows, meaning = [], ''
    for name, value, notes in entries:
        comment = ' '.join(notes.get('comment', ()))
        unit = notes.get('unit', '')
        if comment:
            meaning = f'{comment.rstrip(".")} [{unit}]' if unit else comment
        elif not meaning:
            raise ValueError(f"'{name}' in {path.name} has no comment")
        shown = meaning.replace('|', '\\|')
        rows.append(f'| `{name}` | {_type(str(value))} | {shown} |')
    return rows
