# SPDX-License-Identifier: Apache-2.0
"""
ROS parameters declared from the options dataclasses, so that every setting is written down once.

How an option appears as a parameter:

========================  =========================================================================
option's type             parameter
========================  =========================================================================
bool, int, float, str     of the same type; a whole number is taken where a float is expected
tuple of these            an array; an empty list keeps the type
options dataclass         its fields as dotted names: ``signals.cutoff``
``X | None``              None is written as ``.nan`` (numbers), ``''`` (text) or ``[]`` (lists)
options dataclass | None  its fields and the bool ``<name>.enabled``
float | tuple of floats   a double or an array (dynamically typed)
tuple of dataclasses      ``<name>.names`` lists the first field of each; the other fields of entry
                          ``x`` are ``<name>.x.<field>``
mapping, matrix           none: ROS has no such parameter; the experiment file has
========================  =========================================================================
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, MISSING, replace
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from rcl_interfaces.msg import ParameterDescriptor, SetParametersResult
from rclpy.node import Node
from rclpy.parameter import Parameter

from ...errors import IdentificationError, SettingsError
from ...options.fields import (
    check,
    describe,
    OptionInfo,
)
from .parameter_types import (
    descriptor_of,
    listed,
    names_of,
    nested,
    parameter_of,
    plain_value,
    static_type,
    supported,
    switch_of,
)

Options = TypeVar('Options')


@dataclass(frozen=True)
class _Declared:
    """One options class of a node: what stands for it where there is no parameter."""

    cls: type
    prefix: str
    defaults: Any


_declared: WeakKeyDictionary[Node, list[_Declared]] = WeakKeyDictionary()


def declare_options(
    node: Node, cls: type[Options], prefix: str = '', *, defaults: Options | None = None
) -> Options:
    """
    Declare the options of ``cls`` as parameters of ``node`` and return them as set at the start.

    Later changes are checked by the same rules before the node accepts them; `read_options` gives
    the present values.

    Parameters
    ----------
    node:
        The node that gets the parameters.
    cls:
        An options dataclass (see `robot_identification.options.fields`).
    prefix:
        Put before the names with a dot, for example ``signals``.
    defaults:
        An instance whose values are the defaults instead of the class's own.

    Raises
    ------
    SettingsError
        naming the parameter whose override is missing, of the wrong type or out of range.

    """
    entry = _Declared(cls, prefix, defaults)
    _declare_fields(node, cls, prefix, defaults)
    if node not in _declared:
        _declared[node] = []
        node.add_pre_set_parameters_callback(lambda changes: _whole_to_float(node, changes))
        node.add_on_set_parameters_callback(lambda changes: _validate(node, changes))
    options = _read(node, entry, {})
    _declared[node].append(entry)
    return options


def read_options(node: Node, cls: type[Options], prefix: str = '') -> Options:
    """Return the present values of the options that `declare_options` declared."""
    for entry in _declared.get(node, ()):
        if entry.cls is cls and entry.prefix == prefix:
            return _read(node, entry, {})
    raise ValueError(f"{cls.__name__} is not declared under '{prefix}'")


# ---------------------------------------------------------------------------------- declaration


def _declare_fields(
    node: Node, cls: type, prefix: str, defaults: Any, read_only: bool = False
) -> None:
    for info in describe(cls):
        # what a section holds can change no more than the section itself
        info = replace(info, read_only=info.read_only or read_only)
        name = _join(prefix, info.name)
        default = info.default if defaults is None else getattr(defaults, info.name)
        inner, optional = nested(info.type)
        entries = listed(info.type)
        if inner is not None:
            present = default is not None and default is not MISSING
            if optional:
                switch = switch_of(info)
                _declare(node, switch, _join(name, 'enabled'), present)
            _declare_fields(node, inner, name, default if present else None, info.read_only)
        elif entries is not None:
            _declare_listed(node, info, entries, name, () if default is MISSING else default)
        elif supported(info.type):
            _declare(node, info, name, default)


def _declare_listed(node: Node, info: OptionInfo, cls: type, name: str, default: tuple) -> None:
    """Declare ``<name>.names`` and, for each name, the other fields of ``cls``."""
    key = fields(cls)[0].name
    by_name = {getattr(entry, key): entry for entry in default}
    _declare(node, names_of(info, key), _join(name, 'names'), tuple(by_name))
    entries = list(_current(node, _join(name, 'names'), {}))
    for entry in entries:
        if entries.count(entry) > 1:
            raise SettingsError(
                f"'{name}.names' has '{entry}' twice", key=f'{name}.names', remedy='name it once'
            )
        for field in describe(cls):
            if field.name != key and supported(field.type):
                value = getattr(by_name[entry], field.name) if entry in by_name else field.default
                _declare(node, field, _join(name, entry, field.name), value)


def _declare(node: Node, info: OptionInfo, name: str, default: Any) -> None:
    value = _override(node, name)
    if value is None:
        if default is MISSING:
            raise SettingsError(f"parameter '{name}' is missing", key=name, remedy=info.clause)
        value = default
    else:
        value = check(info, plain_value(info, value), name)
    kind = static_type(info.type)
    # A value goes in by set_parameters and the descriptor after it: declare_parameter would take
    # an empty list for an array of bytes.
    if kind is None:
        descriptor = ParameterDescriptor(dynamic_typing=True)
        node.declare_parameter(name, '', descriptor, ignore_override=True)
    else:
        node.declare_parameter(name, kind, ignore_override=True)
    result = node.set_parameters([parameter_of(info, name, value, kind)])[0]
    if not result.successful:
        raise SettingsError(f"parameter '{name}': {result.reason}", key=name)
    node.set_descriptor(name, descriptor_of(info, kind))


def _override(node: Node, name: str) -> Any:
    """
    Value given on the command line or in a parameter file, of whatever type; None for none.

    An empty list has no type there, so that a parameter comes without a value.
    """
    absent = '<nothing given>'
    value = node.declare_parameter(name, absent, ParameterDescriptor(dynamic_typing=True)).value
    node.undeclare_parameter(name)
    return [] if value is None else None if value == absent else value


# -------------------------------------------------------------------------------------- reading


def _read(node: Node, entry: _Declared, changes: Mapping[str, Any]) -> Any:
    return _read_fields(node, entry.cls, entry.prefix, entry.defaults, changes)


def _read_fields(
    node: Node, cls: type, prefix: str, defaults: Any, changes: Mapping[str, Any]
) -> Any:
    values: dict[str, Any] = {}
    for info in describe(cls):
        name = _join(prefix, info.name)
        default = info.default if defaults is None else getattr(defaults, info.name)
        inner, optional = nested(info.type)
        entries = listed(info.type)
        if inner is not None:
            if optional and not _current(node, _join(name, 'enabled'), changes):
                values[info.name] = None
            else:
                given = None if default is MISSING else default
                values[info.name] = _read_fields(node, inner, name, given, changes)
        elif entries is not None:
            values[info.name] = _read_listed(node, entries, name, changes)
        elif supported(info.type):
            value = plain_value(info, _current(node, name, changes))
            values[info.name] = check(info, value, name)
        elif default is not MISSING:
            values[info.name] = default
    return cls(**values)


def _read_listed(node: Node, cls: type, name: str, changes: Mapping[str, Any]) -> tuple:
    key = fields(cls)[0].name
    entries = []
    for entry in _current(node, _join(name, 'names'), changes):
        values: dict[str, Any] = {key: entry}
        for field in describe(cls):
            parameter = _join(name, entry, field.name)
            if field.name == key or not supported(field.type):
                continue
            if not node.has_parameter(parameter):
                raise SettingsError(
                    f"'{name}.names' has the new entry '{entry}'",
                    key=f'{name}.names',
                    value=entry,
                    remedy='entries can only be added when the node starts',
                )
            value = plain_value(field, _current(node, parameter, changes))
            values[field.name] = check(field, value, parameter)
        entries.append(cls(**values))
    return tuple(entries)


def _current(node: Node, name: str, changes: Mapping[str, Any]) -> Any:
    return changes[name] if name in changes else node.get_parameter(name).value


def _validate(node: Node, parameters: Sequence[Parameter]) -> SetParametersResult:
    """Accept changes only where the options that they give are valid as a whole."""
    changes = {p.name: p.value for p in parameters}
    for parameter in parameters:
        if parameter.type_ is Parameter.Type.NOT_SET and node.has_parameter(parameter.name):
            reason = f"parameter '{parameter.name}' cannot be unset: write .nan, '' or [] for none"
            return SetParametersResult(successful=False, reason=reason)
    for entry in _declared.get(node, ()):
        start = f'{entry.prefix}.' if entry.prefix else ''
        if any(name.startswith(start) for name in changes):
            try:
                _read(node, entry, changes)
            except IdentificationError as error:
                return SetParametersResult(successful=False, reason=str(error))
    return SetParametersResult(successful=True)


def _whole_to_float(node: Node, parameters: list[Parameter]) -> list[Parameter]:
    """Turn whole numbers into floats where the declared parameter is a float: 25 for 25.0."""
    converted = []
    for p in parameters:
        declared = node.describe_parameter(p.name).type if node.has_parameter(p.name) else 0
        if p.type_ is Parameter.Type.INTEGER and declared == Parameter.Type.DOUBLE.value:
            p = Parameter(p.name, Parameter.Type.DOUBLE, float(p.value))
        elif declared == Parameter.Type.DOUBLE_ARRAY.value and (
            p.type_ is Parameter.Type.INTEGER_ARRAY or p.value == []
        ):
            p = Parameter(p.name, Parameter.Type.DOUBLE_ARRAY, [float(v) for v in p.value])
        elif declared == Parameter.Type.STRING_ARRAY.value and p.value == []:
            p = Parameter(p.name, Parameter.Type.STRING_ARRAY, [])
        converted.append(p)
    return converted


def _join(*parts: str) -> str:
    return '.'.join(part for part in parts if part)
