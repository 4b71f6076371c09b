# SPDX-License-Identifier: Apache-2.0
"""
A YAML file read strictly, with the line of every key kept for messages, and overrides of keys.

Key paths are written as in messages, ``data.identification[0].file``.

The scalars are those of YAML 1.2's core schema: ``off`` and ``no`` are text, ``1e-3`` is a number
and a date is text.  A key that occurs twice in a mapping is an error, where YAML readers commonly
keep the last one in silence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
import difflib
import os
from pathlib import Path
import re
from typing import Any

import yaml
from yaml.parser import Parser
from yaml.reader import Reader
from yaml.resolver import Resolver
from yaml.scanner import Scanner

from ..errors import SettingsError
from ..untrusted.files import LimitedComposer, LimitedConstructor, MAX_INTEGER_LENGTH, read_text
from .fields import describe, from_mapping, Options, section_of, walk

_STEP = re.compile(r'([^.\[\]]+)|\[(\d+)\]')

_SIZE = 8 << 20
"""Largest size of a settings file [bytes]."""


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
        raise SettingsError(
            f"settings file '{path}' does not exist", file=str(path), remedy='correct the path'
        ) from None
    except OSError as error:
        raise SettingsError(
            f"cannot read '{path}': {error.strerror}",
            file=str(path),
            remedy='give a file that exists and may be read',
        ) from error
    except UnicodeDecodeError:
        raise SettingsError(
            f"'{path}' is not text in UTF-8", file=str(path), remedy='give a YAML file'
        ) from None
    return parse_document(text, str(path))


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
    except yaml.YAMLError as error:
        raise _syntax_error(error, file) from None
    try:
        node = loader.get_single_node()
        if node is None:
            return Document({}, file=file)
        lines: dict[str, int] = {}
        _check(node, '', lines, file)
        return Document(loader.construct_document(node), lines, file)
    except yaml.YAMLError as error:
        raise _syntax_error(error, file) from None
    finally:
        loader.dispose()


def parse_scalar(text: str, key: str) -> Any:
    """
    Read one value as YAML, as on a command line: a number, text, a list in brackets, ``null``.

    Raises
    ------
    SettingsError
        naming ``key`` where ``text`` is not YAML.

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
                    f'{_at(file, name.start_mark)}: a key has to be plain text',
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
                    f"{_at(file, name.start_mark)}: key '{path}' occurs twice, "
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
    where = _at(file, mark, column=True) if mark else file
    return SettingsError(
        f'{where}: not YAML: {problem}' if where else f'not YAML: {problem}',
        file=file,
        remedy='mind the indentation (blanks, no tabs), brackets and quotes there',
    )


def _at(file: str, mark: yaml.Mark, *, column: bool = False) -> str:
    tail = f', column {mark.column + 1}' if column else ''
    return f'{file or "line"}{":" if file else " "}{mark.line + 1}{tail}'


# --------------------------------------------------------------------------- key paths


def steps(key: str) -> tuple[str | int, ...]:
    """
    Split a key path into names and list indices.

    Raises
    ------
    SettingsError
        where ``key`` is not of the form ``a.b[0].c``.

    """
    parts: list[str | int] = []
    position = 0
    while position < len(key):
        match = _STEP.match(key, position)
        if match is None:
            break
        name, index = match.groups()
        parts.append(int(index) if name is None else name)
        position = match.end()
        if position < len(key) - 1 and key[position] == '.' and key[position + 1] not in '.[]':
            position += 1
    if not parts or position != len(key) or isinstance(parts[0], int):
        raise SettingsError(
            f"'{key}' is not a key path", key=key, remedy='write it as section.key or list[0].key'
        )
    return tuple(parts)


def nearest(cls: type, key: str) -> str | None:
    """
    Return the known key path that ``key`` was probably meant to be, or None.

    Looked for are the same name in other sections, then similar names in the same section.
    """
    name = key.rpartition('.')[2]
    elsewhere = [path for path, _ in walk(cls) if path.rpartition('.')[2] == name]
    if elsewhere:
        return elsewhere[0]
    section: type | None = cls
    for step in steps(parent(key)) if parent(key) else ():
        if isinstance(step, int) or section is None:
            continue
        kinds = {info.name: info.type for info in describe(section)}
        section, _ = section_of(kinds.get(step))
    prefix = key[: -len(name)]
    if section is not None:
        names = [info.name for info in describe(section)]
        close = difflib.get_close_matches(name.lower(), names, n=1, cutoff=0.6)
        if close:
            return prefix + close[0]
    return None


def set_key(mapping: dict, key: str, value: Any) -> None:
    """
    Set an entry of nested mappings and lists in place, making mappings on the way.

    Raises
    ------
    SettingsError
        where the path goes through something that is neither, or beyond a list's end.

    """
    parts = steps(key)
    place: Any = mapping
    for part, following in zip(parts[:-1], parts[1:], strict=True):
        if isinstance(place, dict) and place.get(part) is None and isinstance(following, str):
            place[part] = {}
        place = _entry(place, part, key)
    if isinstance(parts[-1], int):
        _entry(place, parts[-1], key)
    elif not isinstance(place, dict):
        raise SettingsError(f"'{key}' cannot be set: '{parent(key)}' is not a mapping", key=key)
    place[parts[-1]] = value


def _entry(place: Any, part: str | int, key: str) -> Any:
    known = (
        place if isinstance(place, dict) else range(len(place)) if isinstance(place, list) else ()
    )
    if part not in known:
        raise SettingsError(
            f"'{key}' cannot be set: there is no '{part}' on the way to it",
            key=key,
            remedy='set it in the experiment file first' if isinstance(part, int) else None,
        )
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
    Make one section of settings of overrides alone.

    Parameters
    ----------
    cls:
        The section's options dataclass.
    name:
        The section's name.
    overrides:
        As for `override`; all of them have to be in the section.

    Raises
    ------
    SettingsError
        naming the key that is elsewhere, unknown or has a wrong value.

    """
    for key in overrides:
        if not key.startswith(f'{name}.'):
            raise SettingsError(
                f"'{key}' cannot be set here",
                key=key,
                remedy=f'only keys of {name} can',
            )
    content: dict[str, Any] = {name: {}}
    override(content, overrides)
    return from_mapping(cls, content[name], name)
