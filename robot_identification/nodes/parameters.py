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
from dataclasses import dataclass, fields, is_dataclass, MISSING
import math
import sys
import types
import typing
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from rcl_interfaces.msg import (
    FloatingPointRange,
    IntegerRange,
    ParameterDescriptor,
    SetParametersResult,
)
from rclpy.node import Node
from rclpy.parameter import Parameter

from ..errors import IdentificationError, SettingsError
from ..options import check, describe, OptionInfo

Options = TypeVar('Options')

_SCALARS: dict[Any, Parameter.Type] = {
    bool: Parameter.Type.BOOL,
    int: Parameter.Type.INTEGER,
    float: Parameter.Type.DOUBLE,
    str: Parameter.Type.STRING,
}
_ARRAYS: dict[Any, Parameter.Type] = {
    bool: Parameter.Type.BOOL_ARRAY,
    int: Parameter.Type.INTEGER_ARRAY,
    float: Parameter.Type.DOUBLE_ARRAY,
    str: Parameter.Type.STRING_ARRAY,
}
_LARGEST_INT = 2**63 - 1


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
        An options dataclass (see `robot_identification.options`).
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


def _declare_fields(node: Node, cls: type, prefix: str, defaults: Any) -> None:
    for info in describe(cls):
        name = _join(prefix, info.name)
        default = info.default if defaults is None else getattr(defaults, info.name)
        inner, optional = _nested(info.type)
        listed = _listed(info.type)
        if inner is not None:
            present = default is not None and default is not MISSING
            if optional:
                switch = _switch(info)
                _declare(node, switch, _join(name, 'enabled'), present)
            _declare_fields(node, inner, name, default if present else None)
        elif listed is not None:
            _declare_listed(node, info, listed, name, () if default is MISSING else default)
        elif _supported(info.type):
            _declare(node, info, name, default)


def _declare_listed(node: Node, info: OptionInfo, cls: type, name: str, default: tuple) -> None:
    """Declare ``<name>.names`` and, for each name, the other fields of ``cls``."""
    key = fields(cls)[0].name
    by_name = {getattr(entry, key): entry for entry in default}
    _declare(node, _names(info, key), _join(name, 'names'), tuple(by_name))
    entries = list(_current(node, _join(name, 'names'), {}))
    for entry in entries:
        if entries.count(entry) > 1:
            raise SettingsError(
                f"'{name}.names' has '{entry}' twice", key=f'{name}.names', remedy='name it once'
            )
        for field in describe(cls):
            if field.name != key and _supported(field.type):
                value = getattr(by_name[entry], field.name) if entry in by_name else field.default
                _declare(node, field, _join(name, entry, field.name), value)


def _declare(node: Node, info: OptionInfo, name: str, default: Any) -> None:
    value = _override(node, name)
    if value is None:
        if default is MISSING:
            raise SettingsError(f"parameter '{name}' is missing", key=name, remedy=info.doc)
        value = default
    else:
        value = check(info, _plain(info, value), name)
    kind = _static_type(info.type)
    # A value goes in by set_parameters and the descriptor after it: declare_parameter would take
    # an empty list for an array of bytes.
    if kind is None:
        descriptor = ParameterDescriptor(dynamic_typing=True)
        node.declare_parameter(name, '', descriptor, ignore_override=True)
    else:
        node.declare_parameter(name, kind, ignore_override=True)
    result = node.set_parameters([_parameter(info, name, value, kind)])[0]
    if not result.successful:
        raise SettingsError(f"parameter '{name}': {result.reason}", key=name)
    node.set_descriptor(name, _descriptor(info, kind))


def _override(node: Node, name: str) -> Any:
    """Value given on the command line or in a parameter file, of whatever type; None for none."""
    value = node.declare_parameter(name, None, ParameterDescriptor(dynamic_typing=True)).value
    node.undeclare_parameter(name)
    return value


def _descriptor(info: OptionInfo, kind: Parameter.Type | None) -> ParameterDescriptor:
    unit = f' [{info.unit}]' if info.unit else ''
    descriptor = ParameterDescriptor(
        description=f'{info.doc}{unit}',
        additional_constraints=_constraints(info),
        read_only=info.read_only,
        dynamic_typing=kind is None,
    )
    if kind is not None:
        descriptor.type = kind.value
    # rclpy takes NaN, which stands for None, to be out of every range
    if (info.minimum is None and info.maximum is None) or _alternatives(info.type)[1]:
        return descriptor
    low, high = info.minimum, info.maximum
    if kind is Parameter.Type.INTEGER:
        low = -_LARGEST_INT if low is None else math.ceil(low)
        high = _LARGEST_INT if high is None else math.floor(high)
        descriptor.integer_range = [IntegerRange(from_value=low, to_value=high)]
    elif kind is Parameter.Type.DOUBLE:
        low = -sys.float_info.max if low is None else float(low)
        high = sys.float_info.max if high is None else float(high)
        descriptor.floating_point_range = [FloatingPointRange(from_value=low, to_value=high)]
    return descriptor


def _constraints(info: OptionInfo) -> str:
    """Say in words what values are allowed."""
    parts = []
    if info.choices is not None:
        parts.append(f'one of {", ".join(map(str, info.choices))}')
    if info.minimum is not None:
        parts.append(f'at least {info.minimum}')
    if info.maximum is not None:
        parts.append(f'at most {info.maximum}')
    none = _none(info.type) if _alternatives(info.type)[1] else None
    if none is not None:
        shown = '.nan' if isinstance(none, float) else repr(none)
        parts.append(f'{shown} for none')
    return ', '.join(parts)


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
        inner, optional = _nested(info.type)
        listed = _listed(info.type)
        if inner is not None:
            if optional and not _current(node, _join(name, 'enabled'), changes):
                values[info.name] = None
            else:
                given = None if default is MISSING else default
                values[info.name] = _read_fields(node, inner, name, given, changes)
        elif listed is not None:
            values[info.name] = _read_listed(node, listed, name, default, changes)
        elif _supported(info.type):
            value = _plain(info, _current(node, name, changes))
            values[info.name] = check(info, value, name)
        elif default is not MISSING:
            values[info.name] = default
    return cls(**values)


def _read_listed(
    node: Node, cls: type, name: str, default: Any, changes: Mapping[str, Any]
) -> tuple:
    key = fields(cls)[0].name
    entries = []
    for entry in _current(node, _join(name, 'names'), changes):
        values: dict[str, Any] = {key: entry}
        for field in describe(cls):
            parameter = _join(name, entry, field.name)
            if field.name == key or not _supported(field.type):
                continue
            if not node.has_parameter(parameter):
                raise SettingsError(
                    f"'{name}.names' has the new entry '{entry}'",
                    key=f'{name}.names',
                    value=entry,
                    remedy='entries can only be added when the node starts',
                )
            value = _plain(field, _current(node, parameter, changes))
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


# ---------------------------------------------------------------------------------------- types


def _alternatives(kind: Any) -> tuple[list[Any], bool]:
    """Types that a value may have, and whether it may be None."""
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        kinds = typing.get_args(kind)
        return [k for k in kinds if k is not type(None)], type(None) in kinds
    return [kind], False


def _nested(kind: Any) -> tuple[type | None, bool]:
    """Return the options dataclass that a value is, if any, and whether it may be None."""
    kinds, optional = _alternatives(kind)
    nested = len(kinds) == 1 and _is_options(kinds[0])
    return (kinds[0] if nested else None), optional


def _listed(kind: Any) -> type | None:
    """Return the options dataclass that a value is a tuple of, if any."""
    arguments = typing.get_args(kind)
    if typing.get_origin(kind) is tuple and arguments and _is_options(arguments[0]):
        return arguments[0]
    return None


def _is_options(kind: Any) -> bool:
    return is_dataclass(kind)


def _item(kind: Any) -> type | None:
    """Type of the entries of a flat tuple; None for anything else."""
    arguments = typing.get_args(kind)
    if typing.get_origin(kind) is tuple and arguments and arguments[0] in _ARRAYS:
        return arguments[0]
    return None


def _supported(kind: Any) -> bool:
    return any(k in _SCALARS or _item(k) for k in _alternatives(kind)[0])


def _static_type(kind: Any) -> Parameter.Type | None:
    """Return the one type that the parameter always has, or None where it may change."""
    kinds, optional = _alternatives(kind)
    if len(kinds) != 1 or (optional and kinds[0] in (int, bool)):
        return None
    return _SCALARS.get(kinds[0]) or _ARRAYS.get(_item(kinds[0]))


def _plain(info: OptionInfo, value: Any) -> Any:
    """Turn a parameter's value into the one that the options class takes (None, lists)."""
    kinds, optional = _alternatives(info.type)
    if not isinstance(value, (str, bool, int, float)):
        value = list(value)
    if optional:
        nan = isinstance(value, float) and math.isnan(value)
        if nan or (isinstance(value, (str, list)) and len(value) == 0):
            return None
    return value


def _parameter(info: OptionInfo, name: str, value: Any, kind: Parameter.Type | None) -> Parameter:
    if value is None:
        value = _none(info.type)
    if isinstance(value, (tuple, list)):
        return Parameter(name, kind or _array_type(value), list(value))
    return Parameter(name, kind, value) if kind else Parameter(name, value=value)


def _array_type(value: Sequence) -> Parameter.Type:
    return _ARRAYS[type(value[0])] if value else Parameter.Type.DOUBLE_ARRAY


def _none(kind: Any) -> Any:
    kinds, _ = _alternatives(kind)
    if float in kinds:
        return math.nan
    return [] if any(_item(k) for k in kinds) else ''


def _switch(info: OptionInfo) -> OptionInfo:
    return OptionInfo(
        'enabled', MISSING, f'Whether to use this: {info.doc}', '', None, None, None,
        info.read_only, bool,
    )  # fmt: skip


def _names(info: OptionInfo, key: str) -> OptionInfo:
    doc = f'{info.doc} (the {key} of each; its other settings stand under that name)'
    return OptionInfo('names', MISSING, doc, '', None, None, None, True, tuple[str, ...])


def _join(*parts: str) -> str:
    return '.'.join(part for part in parts if part)
