# SPDX-License-Identifier: Apache-2.0
"""
YAML files: read strictly, with the line of every key for messages; overrides of keys; writing.

Key paths are written as in messages, ``data.identification[0].file``.

The scalars are those of YAML 1.2's core schema: ``off`` and ``no`` are text, ``1e-3`` is a number
and a date is text.  A key that occurs twice in a mapping is an error, where YAML readers commonly
keep the last one in silence.

Files are written with full precision, one line an entry, whole or not at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
import math
import os
from pathlib import Path
import re
from typing import Any

import numpy as np
import yaml
from yaml.parser import Parser
from yaml.reader import Reader
from yaml.resolver import Resolver
from yaml.scanner import Scanner

from ..errors import SettingsError, similar
from ..untrusted.files import LimitedComposer, LimitedConstructor, MAX_INTEGER_LENGTH, read_text
from .fields import from_mapping, key_error, key_path, Options, walk

_SIZE = 8 << 20
"""Largest size of a settings file [bytes]."""

_BREAKS = frozenset('\r\x85\u2028\u2029')
"""Line breaks in YAML 1.1 that a reader turns into others."""


class _Loader(LimitedComposer, Reader, Scanner, Parser, LimitedConstructor, Resolver):
    """PyYAML's safe loader within limits, with the scalars of YAML 1.2's core schema."""

    yaml_implicit_resolvers: dict = {}

    def __init__(self, text: str) -> None:
        Reader.__init__(self, text)
        Scanner.__init__(self)
        Parser.__init__(self)
        LimitedComposer.__init__(self)
        LimitedConstructor.__init__(self)
        Resolver.__init__(self)


for _tag, _pattern, _first in (
    ('bool', r'true|True|TRUE|false|False|FALSE', 'tTfF'),
    ('null', r'~|null|Null|NULL|', ['~', 'n', 'N', '']),
    ('int', r'[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+', '-+0123456789'),
    (
        'float',
        r'[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?'
        r'|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)',
        '-+.0123456789',
    ),
    ('merge', '<<', '<'),
):
    _Loader.add_implicit_resolver(
        f'tag:yaml.org,2002:{_tag}', re.compile(rf'^(?:{_pattern})$'), list(_first)
    )


def _construct_int(loader: _Loader, node: yaml.ScalarNode) -> int:
    text = loader.construct_scalar(node)
    if len(text) > MAX_INTEGER_LENGTH:
        problem = f'an integer of {len(text)} characters'
        raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
    for prefix, base in (('0o', 8), ('0x', 16)):
        if text.startswith(prefix):
            return int(text[len(prefix) :], base)
    return int(text)


_Loader.add_constructor('tag:yaml.org,2002:int', _construct_int)


@dataclass(frozen=True)
class Document:
    """
    The content of a YAML file.

    Attributes
    ----------
    content:
        Mappings, lists and scalars.
    lines:
        1-based line of each key path, for example ``{'data.identification[0].file': 12}``.
    file:
        The file's path, for messages; empty where the text came from no file.

    """

    content: Any
    lines: Mapping[str, int] = field(default_factory=dict)
    file: str = ''

    def line(self, key: str) -> int | None:
        """Line of ``key``, or of the nearest key above it that the document has."""
        while key:
            if key in self.lines:
                return self.lines[key]
            key = parent(key)
        return None

    def where(self, key: str = '') -> str:
        """Return ``file:line`` of ``key`` as far as they are known."""
        line = self.line(key)
        if line is None:
            return self.file
        return f'{self.file}:{line}' if self.file else f'line {line}'


def parent(key: str) -> str:
    """Return the path of what holds ``key``: ``a.b[0]`` is in ``a.b``, that in ``a``."""
    if key.endswith(']'):
        return key[: key.rindex('[')]
    return key.rpartition('.')[0]


def read_document(path: str | os.PathLike) -> Document:
    """
    Read a YAML file.

    Raises
    ------
    SettingsError
        where the file cannot be read, is not YAML (with line and column), or has a key twice.

    """
    path = Path(path)
    try:
        text = read_text(path, _SIZE, 'utf-8-sig')
    except FileNotFoundError:
        message, remedy = f"settings file '{path}' does not exist", 'correct the path'
    except OSError as error:
        message, remedy = f"cannot read '{path}': {error.strerror}", 'give a file that may be read'
    except UnicodeDecodeError:
        message, remedy = f"'{path}' is not text in UTF-8", 'give a YAML file'
    else:
        return parse_document(text, str(path))
    raise SettingsError(message, file=str(path), remedy=remedy)


def parse_document(text: str, file: str = '') -> Document:
    """
    Read YAML text; ``file`` is only named in messages.

    Raises
    ------
    SettingsError
        as `read_document`.

    """
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is None:
            return Document({}, file=file)
        lines: dict[str, int] = {}
        _check(node, '', lines, file)
        return Document(loader.construct_document(node), lines, file)
    except yaml.YAMLError as error:
        raise _syntax_error(error, file) from None


def parse_scalar(text: str, key: str) -> Any:
    """
    Read one value as YAML, as on a command line: a number, text, a list in brackets, ``null``.

    Raises SettingsError naming the key.
    """
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        return None if node is None else loader.construct_document(node)
    except yaml.YAMLError:
        shown = text if len(text) <= 60 else f'{text[:57]}...'
        raise SettingsError(
            f"the value of '{key}' is not YAML: {shown!r}",
            key=key,
            value=text,
            remedy='give a number, text, [a, list] or null',
        ) from None


def _check(node: yaml.Node, key: str, lines: dict[str, int], file: str) -> None:
    """Walk the node tree: note the lines, refuse keys that occur twice."""
    if isinstance(node, yaml.SequenceNode):
        for i, item in enumerate(node.value):
            lines.setdefault(f'{key}[{i}]', item.start_mark.line + 1)
            _check(item, f'{key}[{i}]', lines, file)
    elif isinstance(node, yaml.MappingNode):
        seen: dict[str, int] = {}
        for name, value in node.value:
            if not isinstance(name, yaml.ScalarNode):
                raise SettingsError(
                    f'{_location(file, name.start_mark)}: a key has to be plain text',
                    file=file,
                    key=key,
                    remedy='put text that starts with [ or { into quotes',
                )
            if name.tag == 'tag:yaml.org,2002:merge':
                continue
            path = f'{key}.{name.value}' if key else name.value
            line = name.start_mark.line + 1
            if name.value in seen:
                raise SettingsError(
                    f"{_location(file, name.start_mark)}: key '{path}' occurs twice, "
                    f'first in line {seen[name.value]}',
                    file=file,
                    key=path,
                    remedy='keep one of the two',
                )
            seen[name.value] = line
            lines.setdefault(path, line)
            _check(value, path, lines, file)


def _syntax_error(error: yaml.YAMLError, file: str) -> SettingsError:
    mark = getattr(error, 'problem_mark', None) or getattr(error, 'context_mark', None)
    problem = getattr(error, 'problem', None) or getattr(error, 'reason', None) or str(error)
    problem = problem.replace("character '\\t' that", 'a tab, which').split('\n')[0]
    where = _location(file, mark, column=True) if mark else file
    return SettingsError(
        f'{where}: not YAML: {problem}' if where else f'not YAML: {problem}',
        file=file,
        remedy='mind the indentation (blanks, no tabs), brackets and quotes there',
    )


def _location(file: str, mark: yaml.Mark, *, column: bool = False) -> str:
    tail = f', column {mark.column + 1}' if column else ''
    return f'{file or "line"}{":" if file else " "}{mark.line + 1}{tail}'


# --------------------------------------------------------------------------- key paths


def steps(key: str) -> tuple[str | int, ...]:
    """Split ``a.b[0].c`` into names and list indices; raises SettingsError for another form."""
    if not re.fullmatch(r'[^.\[\]]+(\.[^.\[\]]+|\[[0-9]+\])*', key):
        raise key_error(key, 'is not a key path', 'write it as section.key or list[0].key')
    parts = re.findall(r'([^.\[\]]+)|\[([0-9]+)\]', key)
    return tuple(name or int(index) for name, index in parts)


def nearest(cls: type, key: str) -> str | None:
    """
    Return the known key path that ``key`` was probably meant to be, or None.

    Looked for are the same name in other sections, then similar names in the same section.
    """
    section, _, name = key.rpartition('.')
    places = [path.rpartition('.') for path, _ in walk(cls)]
    elsewhere = [''.join(place) for place in places if place[2] == name]
    if elsewhere:
        return elsewhere[0]
    known = [place[2] for place in places if place[0] == re.sub(r'\[\d+\]', '[]', section)]
    close = similar(name, known)
    return key_path(section, close) if close else None


def set_key(mapping: dict, key: str, value: Any) -> None:
    """
    Set an entry of nested mappings and lists in place, making mappings on the way.

    Raises
    ------
    SettingsError
        where the path goes through something that is neither, or beyond a list's end.

    """
    parts = steps(key)
    last = parts[-1]
    place: Any = mapping
    for part, following in pairwise(parts):
        if isinstance(place, dict) and place.get(part) is None and isinstance(following, str):
            place[part] = {}
        place = _entry(place, part, key)
    if isinstance(last, int):
        _entry(place, last, key)
    elif not isinstance(place, dict):
        raise key_error(key, f"cannot be set: '{parent(key)}' is not a mapping")
    place[last] = value


def _entry(place: Any, part: str | int, key: str) -> Any:
    listed = range(len(place)) if isinstance(place, list) else ()
    if part not in (place if isinstance(place, dict) else listed):
        remedy = 'set it in the experiment file first' if isinstance(part, int) else None
        raise key_error(key, f"cannot be set: there is no '{part}' on the way to it", remedy)
    return place[part]


def override(mapping: dict, overrides: Mapping[str, Any]) -> None:
    """
    Set dotted keys in nested mappings in place; text is read as a YAML value.

    Raises
    ------
    SettingsError
        naming the key whose path or value cannot be read.

    """
    for key, value in overrides.items():
        set_key(mapping, key, parse_scalar(value, key) if isinstance(value, str) else value)


def read_section(cls: type[Options], name: str, overrides: Mapping[str, Any]) -> Options:
    """
    Make the section of a name of overrides alone, all of which have to be in it.

    Raises
    ------
    SettingsError
        naming the key that is elsewhere, unknown or has a wrong value.

    """
    for key in overrides:
        if not key.startswith(f'{name}.'):
            raise key_error(key, 'cannot be set here', f'only keys of {name} can')
    content: dict[str, Any] = {name: {}}
    override(content, overrides)
    return from_mapping(cls, content[name], name)


# --------------------------------------------------------------------------- writing


def plain(value: Any) -> Any:
    """Turn arrays, tuples, paths and NumPy numbers into what YAML has; NaN into None."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, (str, bool, int)) else str(value)


class _Dumper(getattr(yaml, 'CSafeDumper', yaml.SafeDumper)):  # type: ignore[misc]
    """Writes entries of lists on one line each, and long texts as blocks."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


class _Line(dict):
    """A mapping that is written on one line."""


class _Row(list):
    """A list that is written on one line."""


_Dumper.add_representer(
    _Line, lambda dumper, data: dumper.represent_mapping('tag:yaml.org,2002:map', data, True)
)
_Dumper.add_representer(
    _Row, lambda dumper, data: dumper.represent_sequence('tag:yaml.org,2002:seq', data, True)
)


def _represent_text(dumper: yaml.SafeDumper, data: str) -> yaml.ScalarNode:
    """Write long texts as blocks, and with escapes what other styles would break or fold."""
    data = data.encode('utf-8', 'backslashreplace').decode()  # of a path that is no text
    style = '"' if _BREAKS.intersection(data) else '|' if '\n' in data else None
    return dumper.represent_scalar('tag:yaml.org,2002:str', data, style=style)


_Dumper.add_representer(str, _represent_text)


def dump(document: Mapping[str, Any]) -> str:
    """Return a document as YAML, an empty line between its top-level keys."""
    shaped = {key: _shaped(value) for key, value in document.items()}
    parts = [
        yaml.dump(
            {key: value}, Dumper=_Dumper, sort_keys=False, width=2**31 - 1, allow_unicode=True
        )
        for key, value in shaped.items()
    ]
    return '\n'.join(parts)


def _shaped(value: Any) -> Any:
    """Put mappings inside lists, and lists of numbers, on one line each."""
    if isinstance(value, dict):
        return {key: _shaped(item) for key, item in value.items()}
    if isinstance(value, list):
        if any(isinstance(item, (dict, list)) for item in value):
            return [
                _Line(item)
                if isinstance(item, dict) and 'joints' not in item
                else _Row(item)
                if isinstance(item, list)
                else _shaped(item)
                for item in value
            ]
        return _Row(value) if all(isinstance(i, (int, float)) for i in value) else value
    return value
