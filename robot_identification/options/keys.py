# SPDX-License-Identifier: Apache-2.0
"""
The keys of nested options dataclasses: which there are, and which one was probably meant.

Key paths are written as in messages, ``data.identification[0].file``; `walk` writes a list's index
as ``[]``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import is_dataclass
import difflib
import re
import typing
from typing import Any

from ..errors import SettingsError
from .document import parent, parse_scalar
from .fields import describe, from_mapping, OptionInfo, Options

_STEP = re.compile(r'([^.\[\]]+)|\[(\d+)\]')


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


def section_of(annotation: Any) -> tuple[type | None, bool]:
    """
    Find the options dataclass in an annotation such as ``X | None`` or ``tuple[X, ...]``.

    Returns
    -------
    tuple
        The dataclass, or None where there is none, and whether the key takes a list of them.

    """
    if isinstance(annotation, type) and is_dataclass(annotation):
        return annotation, False
    for argument in typing.get_args(annotation):
        found, listed = section_of(argument)
        if found is not None:
            return found, listed or typing.get_origin(annotation) is tuple
    return None, False


def walk(cls: type, path: str = '') -> Iterator[tuple[str, OptionInfo]]:
    """Iterate over the key paths of ``cls``, sections first and then what they hold."""
    for info in describe(cls):
        key = f'{path}.{info.name}' if path else info.name
        yield key, info
        inner, listed = section_of(info.type)
        if inner is not None:
            yield from walk(inner, f'{key}[]' if listed else key)


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


def override(mapping: dict, overrides: typing.Mapping[str, Any]) -> None:
    """
    Set dotted keys in nested mappings in place; text is read as a YAML value.

    Raises
    ------
    SettingsError
        naming the key whose path or value cannot be read.

    """
    for key, value in overrides.items():
        set_key(mapping, key, parse_scalar(value, key) if isinstance(value, str) else value)


def read_section(cls: type[Options], name: str, overrides: typing.Mapping[str, Any]) -> Options:
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


def to_mapping(options: Any) -> Any:
    """Turn options dataclasses into nested mappings and lists, as a settings file has them."""
    if is_dataclass(options):
        names = [info.name for info in describe(type(options))]
        return {name: to_mapping(getattr(options, name)) for name in names}
    if isinstance(options, typing.Mapping):
        return {str(key): to_mapping(value) for key, value in options.items()}
    if isinstance(options, (tuple, list)):
        return [to_mapping(item) for item in options]
    return options
