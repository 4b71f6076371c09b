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

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, MISSING, replace
from functools import partial
import math
import sys
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

from ...errors import IdentificationError, SettingsError
from ...options.fields import (
    check,
    describe,
    entry_type,
    from_mapping,
    is_optional,
    key_path,
    OptionInfo,
    section_of,
    to_mapping,
    value_types,
)

Options = TypeVar('Options')
Value = Callable[[OptionInfo, str, Any], Any]
"""Returns the value of a parameter by its option, name and default."""


@dataclass(frozen=True)
class _Declared:
    """One options class of a node, with the values of options that have no parameter."""

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
    the present values.  The prefix is put before the names with a dot; ``defaults`` is an instance
    whose values are the defaults instead of the class's own.

    Raises `SettingsError` naming the parameter whose override is missing, of the wrong type or out
    of range.
    """
    entry = _Declared(cls, prefix, defaults)
    options = cls(**_values(entry, partial(_declare, node)))
    if node not in _declared:
        _declared[node] = []
        node.add_pre_set_parameters_callback(lambda changes: _convert(node, changes))
        node.add_on_set_parameters_callback(lambda changes: _validate(node, changes))
    _declared[node].append(entry)
    return options


def read_options(node: Node, cls: type[Options], prefix: str = '') -> Options:
    """Return the present values of the options that `declare_options` declared."""
    for entry in _declared.get(node, ()):
        if entry.cls is cls and entry.prefix == prefix:
            return cls(**_values(entry, partial(_read, node, {})))
    raise ValueError(f"{cls.__name__} is not declared under '{prefix}'")


def with_request(options: Options, request: Any) -> Options:
    """
    Return options with the fields of a request that are called as they are.

    Fields that are 0 or empty leave them.  Raises `SettingsError` for one out of range.
    """
    own = {info.name for info in describe(type(options))}
    names = own.intersection(request.get_fields_and_field_types())
    given = {name: getattr(request, name) for name in names if getattr(request, name)}
    return from_mapping(type(options), {**to_mapping(options), **given})


def _values(entry: _Declared, value: Value, read_only: bool = False) -> dict[str, Any]:
    """Return the values of options by name, from parameters; sections that are off are None."""
    values: dict[str, Any] = {}
    for info in describe(entry.cls):
        # options of a section can change no more than the section itself
        info = replace(info, read_only=info.read_only or read_only)
        name, default = key_path(entry.prefix, info.name), info.default
        if entry.defaults is not None:
            default = getattr(entry.defaults, info.name)
        inner, is_listed = section_of(info.type)
        if inner is not None and not is_listed:
            present = default is not None and default is not MISSING
            is_on = True
            if is_optional(info.type):
                switch = _derived(info, f'Whether to use this: {info.clause}', bool)
                is_on = value(switch, f'{name}.enabled', present)
            section = _Declared(inner, name, default if present else None)
            found = _values(section, value, info.read_only)
            values[info.name] = inner(**found) if is_on else None
        elif inner is not None:
            given = () if default is MISSING else default
            values[info.name] = _entries(info, inner, name, given, value)
        elif _is_supported(info.type):
            values[info.name] = value(info, name, default)
        elif default is not MISSING:
            values[info.name] = default
    return values


def _entries(info: OptionInfo, cls: type, name: str, default: tuple, value: Value) -> tuple:
    """Return the entries named by ``<name>.names``; each has its other fields under its name."""
    key, *others = describe(cls)
    by_name = {getattr(entry, key.name): entry for entry in default}
    doc = f'{info.doc} (the {key.name} of each; its other settings stand under that name)'
    names = _derived(replace(info, read_only=True), doc, tuple[str, ...])
    found = value(names, f'{name}.names', tuple(by_name))
    for entry in found:
        if found.count(entry) > 1:
            raise SettingsError(
                f"'{name}.names' has '{entry}' twice", key=f'{name}.names', remedy='name it once'
            )
    return tuple(
        cls(
            **{key.name: entry},
            **{
                field.name: value(
                    field,
                    f'{name}.{entry}.{field.name}',
                    getattr(by_name[entry], field.name) if entry in by_name else field.default,
                )
                for field in others
                if _is_supported(field.type)
            },
        )
        for entry in found
    )


# -------------------------------------------------------------------------- values of parameters


def _derived(info: OptionInfo, doc: str, kind: Any) -> OptionInfo:
    """Return the option of a parameter that stands for a whole section."""
    return OptionInfo(info.name, MISSING, doc, '', None, None, None, info.read_only, kind)


def _declare(node: Node, info: OptionInfo, name: str, default: Any) -> Any:
    """Declare a parameter, and return its value at the start."""
    value = _override(node, name)
    if value is None:
        if default is MISSING:
            raise SettingsError(f"parameter '{name}' is missing", key=name, remedy=info.clause)
        value = default
    else:
        value = check(info, _plain_value(info, value), name)
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
    return value


def _override(node: Node, name: str) -> Any:
    """
    Return the value from the command line or a parameter file, of whatever type; None for none.

    An empty list has no type there, so that a parameter comes without a value.
    """
    absent = '<nothing given>'
    value = node.declare_parameter(name, absent, ParameterDescriptor(dynamic_typing=True)).value
    node.undeclare_parameter(name)
    return [] if value is None else None if value == absent else value


def _read(node: Node, changes: Mapping[str, Any], info: OptionInfo, name: str, _: Any) -> Any:
    """Return the value of a parameter that is declared, with changes that are asked for."""
    value = changes[name] if name in changes else node.get_parameter(name).value
    return check(info, _plain_value(info, value), name)


def _validate(node: Node, parameters: Sequence[Parameter]) -> SetParametersResult:
    """Accept changes only where the options that they give are valid as a whole."""
    changes = {p.name: p.value for p in parameters}
    for parameter in parameters:
        if parameter.type_ is Parameter.Type.NOT_SET and node.has_parameter(parameter.name):
            reason = f"parameter '{parameter.name}' cannot be unset: write .nan, '' or [] for none"
            return SetParametersResult(successful=False, reason=reason)
    for entry in _declared.get(node, ()):
        if any(_belongs(name, entry) for name in changes):
            try:
                entry.cls(**_values(entry, partial(_read, node, changes)))
            except IdentificationError as error:
                return SetParametersResult(successful=False, reason=str(error))
    return SetParametersResult(successful=True)


def _belongs(name: str, entry: _Declared) -> bool:
    """Return whether a parameter is one of a class's, or of its sections'."""
    start = f'{entry.prefix}.' if entry.prefix else ''
    own = name.removeprefix(start).partition('.')[0]
    return name.startswith(start) and own in {field.name for field in fields(entry.cls)}


def _convert(node: Node, parameters: list[Parameter]) -> list[Parameter]:
    """Turn whole numbers into floats where the parameter is one, and type empty lists."""
    kinds, converted = Parameter.Type, []
    for p in parameters:
        declared = node.describe_parameter(p.name).type if node.has_parameter(p.name) else 0
        if p.type_ is kinds.INTEGER and declared == kinds.DOUBLE.value:
            p = Parameter(p.name, kinds.DOUBLE, float(p.value))
        elif declared == kinds.DOUBLE_ARRAY.value and (
            p.type_ is kinds.INTEGER_ARRAY or p.value == []
        ):
            p = Parameter(p.name, kinds.DOUBLE_ARRAY, [float(v) for v in p.value])
        elif declared == kinds.STRING_ARRAY.value and p.value == []:
            p = Parameter(p.name, kinds.STRING_ARRAY, [])
        converted.append(p)
    return converted


# ---------------------------------------------------------------------------------------- types

_SCALARS: dict[Any, Parameter.Type] = {
    bool: Parameter.Type.BOOL,
    int: Parameter.Type.INTEGER,
    float: Parameter.Type.DOUBLE,
    str: Parameter.Type.STRING,
}
_ARRAYS = {entry: Parameter.Type[f'{kind.name}_ARRAY'] for entry, kind in _SCALARS.items()}
_LARGEST_INT = 2**63 - 1  # of an integer parameter


def _is_supported(annotation: Any) -> bool:
    """Return whether a parameter can have values of this type."""
    return any(kind in _SCALARS or entry_type(kind) in _ARRAYS for kind in value_types(annotation))


def _static_type(annotation: Any) -> Parameter.Type | None:
    """Return the one type that the parameter always has, or None where it may change."""
    kinds = value_types(annotation)
    if len(kinds) != 1 or (is_optional(annotation) and kinds[0] in (int, bool)):
        return None
    return _SCALARS.get(kinds[0]) or _ARRAYS.get(entry_type(kinds[0]))


def _plain_value(info: OptionInfo, value: Any) -> Any:
    """Turn a parameter's value into the one that the options class takes (None, lists)."""
    if not isinstance(value, (str, bool, int, float)):
        value = list(value)
    if is_optional(info.type):
        nan = isinstance(value, float) and math.isnan(value)
        if nan or (isinstance(value, (str, list)) and len(value) == 0):
            return None
    return value


def _parameter(info: OptionInfo, name: str, value: Any, kind: Parameter.Type | None) -> Parameter:
    """Return an option's value as a parameter of type ``kind``, or, for None, of its own type."""
    if value is None:
        value = _none(info.type)
    if isinstance(value, (tuple, list)):
        own = _ARRAYS[type(value[0])] if value else Parameter.Type.DOUBLE_ARRAY
        return Parameter(name, kind or own, list(value))
    return Parameter(name, kind, value) if kind else Parameter(name, value=value)


def _none(annotation: Any) -> Any:
    """Return the value of a parameter that stands for None."""
    kinds = value_types(annotation)
    if float in kinds:
        return math.nan
    return [] if any(entry_type(kind) in _ARRAYS for kind in kinds) else ''


def _descriptor(info: OptionInfo, kind: Parameter.Type | None) -> ParameterDescriptor:
    """Return what ``ros2 param describe`` shows of an option: words, range, and so on."""
    unit = f' [{info.unit}]' if info.unit else ''
    descriptor = ParameterDescriptor(
        description=f'{info.doc}{unit}',
        additional_constraints=_constraints(info),
        read_only=info.read_only,
        dynamic_typing=kind is None,
    )
    if kind is not None:
        descriptor.type = kind.value
    low, high = info.minimum, info.maximum
    # rclpy takes NaN, which stands for None, to be out of every range
    if (low is None and high is None) or is_optional(info.type):
        return descriptor
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
    """Return in words what values are allowed."""
    parts = []
    if info.choices is not None:
        parts.append(f'one of {", ".join(map(str, info.choices))}')
    if info.minimum is not None:
        parts.append(f'at least {info.minimum}')
    if info.maximum is not None:
        parts.append(f'at most {info.maximum}')
    if is_optional(info.type):
        none = _none(info.type)
        parts.append(f'{".nan" if isinstance(none, float) else repr(none)} for none')
    return ', '.join(parts)
