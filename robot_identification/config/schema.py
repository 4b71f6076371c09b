# SPDX-License-Identifier: Apache-2.0
"""
JSON schema of the experiment file, made from the options.

Editors with a YAML language server complete and check a file whose first line names the schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import is_dataclass, MISSING
import json
from pathlib import Path
import types
import typing
from typing import Any

from ..options.fields import describe, OptionInfo, to_mapping
from .experiment import Experiment

FILE = Path(__file__).with_name('experiment.schema.json')
"""The schema as a file of the package; a test keeps it up to date."""

_DIALECT = 'http://json-schema.org/draft-07/schema#'
_SCALARS = {float: 'number', int: 'integer', str: 'string', bool: 'boolean', type(None): 'null'}


def modeline(schema: str | Path = FILE) -> str:
    """Return the first line of an experiment file, by which editors find the schema."""
    return f'# yaml-language-server: $schema={schema}'


def experiment_schema(cls: type = Experiment) -> dict[str, Any]:
    """Return the JSON schema (draft 7) of an options dataclass."""
    definitions: dict[str, Any] = {}
    top = _section(cls, definitions)
    head = {'$schema': _DIALECT, 'title': 'Experiment file of robot_identification'}
    return {**head, **top, 'definitions': dict(sorted(definitions.items()))}


def schema_text() -> str:
    """Return the schema of the experiment file as it is in `FILE`."""
    return f'{json.dumps(experiment_schema(), indent=1, ensure_ascii=False)}\n'


def _section(cls: type, definitions: dict[str, Any]) -> dict[str, Any]:
    properties, required = {}, []
    for info in describe(cls):
        properties[info.name] = _option(info, definitions)
        if info.default is MISSING:
            required.append(info.name)
    section = {'type': 'object', 'properties': properties, 'additionalProperties': False}
    return {**section, 'required': required} if required else section


def _option(info: OptionInfo, definitions: dict[str, Any]) -> dict[str, Any]:
    unit = f' [{info.unit}]' if info.unit else ''
    schema = {'description': f'{info.doc}{unit}', **_type(info.type, info, definitions)}
    default = None if info.default is MISSING else to_mapping(info.default)
    # that of a section is in its own keys
    if info.default is not MISSING and not is_dataclass(info.default):
        schema['default'] = default
    return schema


def _type(kind: Any, info: OptionInfo, definitions: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a type; range and choices are those of its scalars."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind in _SCALARS:
        return _scalar(kind, info)
    if origin in (typing.Union, types.UnionType):
        return {'anyOf': [_type(each, info, definitions) for each in arguments]}
    if isinstance(kind, type) and is_dataclass(kind):
        if kind.__name__ not in definitions:
            definitions[kind.__name__] = {}
            definitions[kind.__name__] = _section(kind, definitions)
        return {'$ref': f'#/definitions/{kind.__name__}'}
    if origin is tuple:
        if arguments[-1] is Ellipsis:
            return {'type': 'array', 'items': _type(arguments[0], info, definitions)}
        items = [_type(each, info, definitions) for each in arguments]
        return {'type': 'array', 'items': items, 'minItems': len(items), 'maxItems': len(items)}
    if origin in (dict, Mapping) or getattr(origin, '__name__', '') == 'Mapping':
        inner = _type(arguments[1], info, definitions) if len(arguments) == 2 else {}
        return {'type': 'object', 'additionalProperties': inner}
    return {}


def _scalar(kind: type, info: OptionInfo) -> dict[str, Any]:
    schema: dict[str, Any] = {'type': _SCALARS[kind]}
    if kind in (float, int):
        if info.minimum is not None:
            schema['minimum'] = info.minimum
        if info.maximum is not None:
            schema['maximum'] = info.maximum
    if info.choices is not None and kind is not type(None):
        schema['enum'] = list(info.choices)
    return schema
