# SPDX-License-Identifier: Apache-2.0
"""Services, actions and topics of the nodes on the command line, typed by their definitions."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
import math
from pathlib import Path
import sys
from typing import Any

from ..model.urdf_files import package_folders
from ..nodes.interfaces import Interface, REQUESTS, TOPICS

__all__ = ['Interface', 'REQUESTS', 'TOPICS', 'add_fields', 'message_content', 'share_of']

_LONG, _TEXT = 24, 1000
"""Entries of a list, and characters of a text, above which they are only counted."""


_SCALARS: Mapping[str, Callable[[str], Any]] = {'double': float, 'float': float, 'string': str}


def add_fields(parser: argparse.ArgumentParser, interface: Interface) -> None:
    """Add an option for each field of a request that a command line can give."""
    request, meaning = interface.request, comments(interface.kind)
    for field, kind in request.get_fields_and_field_types().items():
        name = field if field == interface.main else f'--{field.replace("_", "-")}'
        options: dict[str, Any] = {'default': argparse.SUPPRESS}
        if field == interface.main:
            options['nargs'] = '?'
        else:
            options['dest'] = field
        if kind == 'boolean' and field != interface.main:
            options['action'] = argparse.BooleanOptionalAction
        elif kind == 'boolean':
            options |= {'type': _switch, 'metavar': 'on|off'}
        elif kind in _SCALARS:
            options |= {'type': _SCALARS[kind], 'metavar': kind}
        elif kind.startswith(('int', 'uint')):
            options |= {'type': _whole_number, 'metavar': kind}
        elif kind == 'sequence<string>':
            options |= {'nargs': '*', 'metavar': 'text'}
        elif kind == 'sequence<diagnostic_msgs/KeyValue>':
            options |= {'action': 'append', 'type': _key_value, 'metavar': 'KEY=VALUE'}
        else:
            continue  # trajectories and arrays of numbers are for programs
        if field == interface.main:
            options['metavar'] = options.get('metavar') if kind == 'boolean' else field
        text = meaning.get(field, kind).replace('%', '%%')
        parser.add_argument(name, help=text, **options)


def comments(kind: str) -> dict[str, str]:
    """Return the comments on the fields of a request, where its definition is installed."""
    package, group, name = kind.split('/')
    folders = [*package_folders(), Path(sys.prefix, 'share')]
    paths = [folder / package / group / f'{name}.{group}' for folder in folders]
    path = next((path for path in paths if path.is_file()), None)
    if path is None:
        return {}
    found, lines = {}, []
    # the request is what comes before the first line of dashes
    text = '\n' + path.read_text(encoding='utf-8')
    for line in text.partition('\n---')[0].splitlines():
        if line.startswith('#'):
            lines.append(line.strip('# '))
            continue
        if line.strip():
            found[line.split()[1]] = ' '.join(lines).rstrip('.')
        lines = []
    return found


def _whole_number(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"'{text}' is no whole number")
    return int(text)


def _switch(text: str) -> bool:
    words = {'on': True, 'true': True, 'off': False, 'false': False}
    if text not in words:
        raise argparse.ArgumentTypeError(f"'{text}' is neither on nor off")
    return words[text]


def _key_value(text: str) -> Any:
    key, sign, value = text.partition('=')
    if not sign:
        raise argparse.ArgumentTypeError(f"'{text}' is not KEY=VALUE")
    return import_module('diagnostic_msgs.msg').KeyValue(key=key, value=value)


def share_of(feedback: Any, fields: Mapping[str, Any]) -> tuple[float, str]:
    """Return the share that is done by an action's feedback, and its other values as text."""
    values = message_content(feedback)
    share = values.pop('progress', None)
    if share is None and 'iteration' in values:
        share = values['iteration'] / (fields.get('max_iterations') or math.inf)
    phase = str(values.pop('phase', '')).replace('_', ' ')
    rest = [f'{key.replace("_", " ")} {_short(value)}' for key, value in values.items()]
    return float(share or 0.0), phase or ', '.join(rest)


def _short(value: Any) -> str:
    return f'{value:.4g}' if isinstance(value, float) else str(value)


def message_content(message: Any) -> dict[str, Any]:
    """
    Return a message as mappings, lists and numbers, without what is empty.

    Long lists are only counted, and numbers have seven digits.
    """
    values = {
        field: _content_of(getattr(message, field))
        for field in message.get_fields_and_field_types()
    }
    return {field: value for field, value in values.items() if value not in ('', [], None)}


def _content_of(value: Any) -> Any:
    if hasattr(value, 'points') and not value.points:
        return None  # a trajectory that was not asked for
    if hasattr(value, 'get_fields_and_field_types'):
        return message_content(value)
    if isinstance(value, str) and len(value) > _TEXT:
        return f'{len(value)} characters'
    if isinstance(value, float):
        return float(f'{value:.7g}')
    if isinstance(value, (str, bytes, bool, int)):
        return value
    if isinstance(value, Sequence) or hasattr(value, 'tolist'):
        items = value.tolist() if hasattr(value, 'tolist') else list(value)
        if len(items) > _LONG:
            return f'{len(items)} entries'
        return [_content_of(item) for item in items]
    return str(value)
