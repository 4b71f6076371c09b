# SPDX-License-Identifier: Apache-2.0
"""
Options declared once: a frozen dataclass field with default, unit, range and description.

From such a class come the validation of the experiment file, the ROS parameter declarations, the
command line's help and the tables in the documentation.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, MISSING
from functools import cache
import types
import typing
from typing import Any, TypeVar

import numpy as np

from ..errors import IdentificationError, one_of, SettingsError, suggestion

Options = TypeVar('Options')

LARGEST = 1e100
"""Largest absolute value of a number: its square is one, too."""

_JSON_SCALARS = {
    float: 'number', int: 'integer', str: 'string', bool: 'boolean', type(None): 'null'
}  # fmt: skip


@dataclass(frozen=True)
class OptionInfo:
    """
    Metadata of one option.

    Attributes
    ----------
    name, default, doc, unit:
        As declared; ``default`` is `dataclasses.MISSING` where the option is required.
    minimum, maximum:
        Inclusive range of a number, or of each entry of a list of numbers.
    choices:
        Allowed values, or None.
    read_only:
        Whether a running node refuses to change it.
    type:
        The annotated type.

    """

    name: str
    default: Any
    doc: str
    unit: str
    minimum: float | None
    maximum: float | None
    choices: tuple | None
    read_only: bool
    type: Any

    @property
    def clause(self) -> str:
        """The words of `doc` in the middle of a sentence: acronyms keep their capitals."""
        acronym = self.doc[1:2].isupper()
        return self.doc if acronym else self.doc[:1].lower() + self.doc[1:]


def option(
    default: Any = MISSING,
    *,
    doc: str,
    unit: str = '',
    minimum: float | None = None,
    maximum: float | None = None,
    choices: Collection | None = None,
    read_only: bool = False,
    factory: Any = MISSING,
) -> Any:
    """
    Declare a field of an options dataclass.

    Parameters
    ----------
    default, factory:
        As for `dataclasses.field`; neither makes the option required.
    doc:
        A sentence for help texts and tables, with a capital and without a full stop.
    unit:
        In SI, empty for none.
    minimum, maximum, choices:
        What values are allowed.
    read_only:
        Whether a running node refuses to change it.

    """
    metadata = {
        'doc': doc,
        'unit': unit,
        'minimum': minimum,
        'maximum': maximum,
        'choices': choices,
        'read_only': read_only,
    }
    if factory is not MISSING:
        return field(default_factory=factory, metadata=metadata)
    return field(default=default, metadata=metadata)


def with_fields(more: Mapping[str, tuple[Any, Any]]) -> Callable[[type[Options]], type[Options]]:
    """
    Return a decorator that gives a class an option for each member of a family.

    It stands below ``@dataclass``.  Options that the class declares itself stay as they are.

    Parameters
    ----------
    more:
        The annotated type, and what `option` returns, by the names of the members.

    """

    def decorated(cls: type[Options]) -> type[Options]:
        for name, (kind, declared) in more.items():
            if name not in cls.__annotations__:
                cls.__annotations__[name] = kind
                setattr(cls, name, declared)
        return cls

    return decorated


_hints = cache(typing.get_type_hints)


def describe(cls: type) -> Iterator[OptionInfo]:
    """Iterate over the options of ``cls`` in order."""
    hints = _hints(cls)
    for f in fields(cls):
        if 'doc' not in f.metadata:
            continue
        default = f.default
        if default is MISSING and f.default_factory is not MISSING:
            default = f.default_factory()
        # a table may have got more entries since it was declared
        choices = f.metadata['choices']
        about = {**f.metadata, 'choices': None if choices is None else tuple(choices)}
        yield OptionInfo(f.name, default, type=hints[f.name], **about)


def key_error(key: str, text: str, remedy: str | None = None, **about: Any) -> SettingsError:
    """Return an error whose message is the key in quotes and a text."""
    return SettingsError(f"'{key}' {text}", key=key, remedy=remedy, **about)


def settings_error(error: IdentificationError, message: str, **about: Any) -> SettingsError:
    """Return an error with another message, and what else an error is about if not given here."""
    known = {k: getattr(error, k) for k in ('remedy', 'joint', 'link', 'file', 'key', 'value')}
    return SettingsError(message, **{**known, **about})


def from_mapping(cls: type[Options], mapping: Any, path: str = '') -> Options:
    """
    Make an options object from a mapping such as a section of a YAML file.

    Parameters
    ----------
    cls:
        The options dataclass; fields that are options dataclasses themselves are read likewise.
    mapping:
        Values by name; what is missing takes its default.
    path:
        Key path of ``mapping`` for messages, for example ``signals``.

    Raises
    ------
    SettingsError
        with the key path of an unknown key, a missing required key, a wrong type or a value out
        of range.

    """
    if mapping is None:
        mapping = {}
    if not isinstance(mapping, Mapping):
        raise SettingsError(
            f"'{path or cls.__name__}' is {_shown(mapping)}, expected a mapping of keys",
            key=path,
            value=mapping,
        )
    infos = {info.name: info for info in describe(cls)}
    for key in mapping:
        if key not in infos:
            raise SettingsError(
                f"unknown key '{key_path(path, key)}'",
                key=key_path(path, key),
                remedy=f'known keys are {one_of(infos, 20)}',
            )
    values = {}
    for name, info in infos.items():
        key = key_path(path, name)
        if name in mapping:
            values[name] = check(info, mapping[name], key)
        elif info.default is MISSING:
            raise SettingsError(f"key '{key}' is missing", key=key, remedy=info.clause)
    return cls(**values)


def check(info: OptionInfo, value: Any, key: str) -> Any:
    """Return ``value`` converted to the option's type; raise `SettingsError` naming ``key``."""
    value = _convert(info.type, value, key)
    if info.choices is not None and value is not None:
        several = isinstance(value, tuple)
        chosen = tuple(
            _choice(info.choices, item, key) for item in (value if several else [value])
        )
        value = chosen if several else chosen[0]
    _check_range(info, value, key)
    return value


def _choice(choices: tuple, value: Any, key: str) -> Any:
    """Return the choice that is meant, in any case: OLS for ols."""
    if value in choices:
        return value
    alike = [each for each in choices if str(each).lower() == str(value).lower()]
    if not alike:
        remedy = suggestion(value, choices) + f'it has to be one of {one_of(choices)}'
        raise key_error(key, f'is {_shown(value)}', remedy, value=value)
    return alike[0]


def _check_range(info: OptionInfo, value: Any, key: str) -> None:
    if isinstance(value, (str, bool, Mapping)) or value is None or is_dataclass(value):
        return
    try:
        numbers = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        return
    low, high = info.minimum, info.maximum
    if (low is not None and (numbers < low).any()) or (
        high is not None and (numbers > high).any()
    ):
        bounds = f'[{"-inf" if low is None else low}, {"inf" if high is None else high}]'
        unit = f' {info.unit}' if info.unit else ''
        raise key_error(key, f'is {_shown(value)}', f'allowed is {bounds}{unit}', value=value)


def _convert(kind: Any, value: Any, key: str) -> Any:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return value
    if origin in (typing.Union, types.UnionType):
        return _convert_union(arguments, value, key)
    if isinstance(kind, type) and is_dataclass(kind):
        return value if isinstance(value, kind) else from_mapping(kind, value, key)
    if origin is tuple:
        if not isinstance(value, (list, tuple, np.ndarray)):
            raise _wrong(key, value, 'a list')
        if arguments[-1] is Ellipsis:
            return tuple(_convert(arguments[0], v, f'{key}[{i}]') for i, v in enumerate(value))
        if len(value) != len(arguments):
            raise _wrong(key, value, f'a list of {len(arguments)}')
        pairs = zip(arguments, value, strict=True)
        return tuple(_convert(t, v, f'{key}[{i}]') for i, (t, v) in enumerate(pairs))
    if origin in (dict, Mapping) or kind in (dict, Mapping):
        if not isinstance(value, Mapping):
            raise _wrong(key, value, 'a mapping')
        inner = arguments[1] if len(arguments) == 2 else Any
        return {str(k): _convert(inner, v, key_path(key, k)) for k, v in value.items()}
    return _convert_scalar(kind, value, key)


def _convert_union(arguments: tuple, value: Any, key: str) -> Any:
    if value is None and type(None) in arguments:
        return None
    kinds = [kind for kind in arguments if kind is not type(None)]
    first: SettingsError | None = None
    for kind in kinds:
        try:
            return _convert(kind, value, key)
        except SettingsError as error:
            # the error of the alternative of the value's own form is the most specific
            if first is None or isinstance(value, Mapping) == is_dataclass(kind):
                first = error
    assert first is not None
    raise first


def _convert_scalar(kind: Any, value: Any, key: str) -> Any:
    if kind is float and isinstance(value, (int, float)) and not isinstance(value, bool):
        # comparisons with NaN are false; larger whole numbers have no float
        if not -LARGEST <= value <= LARGEST:
            raise _wrong(key, value, f'a finite number of at most {LARGEST:g}')
        return float(value)
    if kind is int and isinstance(value, int) and not isinstance(value, bool):
        if not -(2**63) <= value < 2**63:
            raise _wrong(key, value, 'a whole number of 64 bits')
        return value
    if kind in (str, bool) and isinstance(value, kind):
        return value
    names = {float: 'a number', int: 'a whole number', str: 'text', bool: 'true or false'}
    if kind in names:
        raise _wrong(key, value, names[kind])
    raise TypeError(f'options of type {kind!r} are not supported ({key})')


def _wrong(key: str, value: Any, expected: str) -> SettingsError:
    return key_error(key, f'is {_shown(value)}, expected {expected}', value=value)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f'{text[:57]}...'


def key_path(path: str, key: Any) -> str:
    """Return the path of a key below a path."""
    return f'{path}.{key}' if path else str(key)


# --------------------------------------------------------------------------- keys and pages


def value_types(annotation: Any) -> list[Any]:
    """Types that a value may have, beside None."""
    union = typing.get_origin(annotation) in (typing.Union, types.UnionType)
    kinds = typing.get_args(annotation) if union else (annotation,)
    return [kind for kind in kinds if kind is not type(None)]


def is_optional(annotation: Any) -> bool:
    """Return whether a value may be None."""
    return type(None) in typing.get_args(annotation)


def entry_type(kind: Any) -> Any:
    """Return the type of the entries of a tuple; None for anything else."""
    arguments = typing.get_args(kind)
    return arguments[0] if typing.get_origin(kind) is tuple and arguments else None


def section_of(annotation: Any) -> tuple[type | None, bool]:
    """
    Find the options dataclass in an annotation such as ``X | None`` or ``tuple[X, ...]``.

    Return it (None if there is none), and whether the key takes a list of them.
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


def to_mapping(options: Any) -> Any:
    """Turn options dataclasses into nested mappings and lists, as a settings file has them."""
    if is_dataclass(options):
        names = [info.name for info in describe(type(options))]
        return {name: to_mapping(getattr(options, name)) for name in names}
    if isinstance(options, Mapping):
        return {str(key): to_mapping(value) for key, value in options.items()}
    if isinstance(options, (tuple, list)):
        return [to_mapping(item) for item in options]
    return options


def json_schema(cls: type, title: str) -> dict[str, Any]:
    """Return the JSON schema (draft 7) of an options dataclass."""
    definitions: dict[str, Any] = {}
    top = _section_schema(cls, definitions)
    head = {'$schema': 'http://json-schema.org/draft-07/schema#', 'title': title}
    return {**head, **top, 'definitions': dict(sorted(definitions.items()))}


def _section_schema(cls: type, definitions: dict[str, Any]) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    for info in describe(cls):
        unit = f' [{info.unit}]' if info.unit else ''
        schema = {'description': f'{info.doc}{unit}', **_schema(info.type, info, definitions)}
        # the default of a section is in its own keys
        if info.default is not MISSING and not is_dataclass(info.default):
            schema['default'] = to_mapping(info.default)
        properties[info.name] = schema
    section = {'type': 'object', 'properties': properties, 'additionalProperties': False}
    required = [info.name for info in describe(cls) if info.default is MISSING]
    return {**section, 'required': required} if required else section


def _schema(kind: Any, info: OptionInfo, definitions: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a type; range and choices are those of its scalars."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind in _JSON_SCALARS:
        scalar: dict[str, Any] = {'type': _JSON_SCALARS[kind]}
        for key in ('minimum', 'maximum'):
            if kind in (float, int) and getattr(info, key) is not None:
                scalar[key] = getattr(info, key)
        if info.choices is not None and kind is not type(None):
            scalar['enum'] = list(info.choices)
        return scalar
    if origin in (typing.Union, types.UnionType):
        return {'anyOf': [_schema(each, info, definitions) for each in arguments]}
    if isinstance(kind, type) and is_dataclass(kind):
        if kind.__name__ not in definitions:
            definitions[kind.__name__] = {}  # ends the recursion of types that contain themselves
            definitions[kind.__name__] = _section_schema(kind, definitions)
        return {'$ref': f'#/definitions/{kind.__name__}'}
    if origin is tuple:
        if arguments[-1] is Ellipsis:
            return {'type': 'array', 'items': _schema(arguments[0], info, definitions)}
        items = [_schema(each, info, definitions) for each in arguments]
        return {'type': 'array', 'items': items, 'minItems': len(items), 'maxItems': len(items)}
    if origin in (dict, Mapping):
        return {'type': 'object', 'additionalProperties': _schema(arguments[1], info, definitions)}
    return {}
