# SPDX-License-Identifier: Apache-2.0
"""ROS parameter type, descriptor and value of an option."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import is_dataclass, MISSING
import math
import sys
import types
import typing
from typing import Any

from rcl_interfaces.msg import FloatingPointRange, IntegerRange, ParameterDescriptor
from rclpy.parameter import Parameter

from ...options.fields import OptionInfo

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


def _alternatives(kind: Any) -> tuple[list[Any], bool]:
    """Types that a value may have, and whether it may be None."""
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        kinds = typing.get_args(kind)
        return [k for k in kinds if k is not type(None)], type(None) in kinds
    return [kind], False


def nested(kind: Any) -> tuple[type | None, bool]:
    """Return the options dataclass that a value is, if any, and whether it may be None."""
    kinds, optional = _alternatives(kind)
    nested = len(kinds) == 1 and _is_options(kinds[0])
    return (kinds[0] if nested else None), optional


def listed(kind: Any) -> type | None:
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


def supported(kind: Any) -> bool:
    """Return whether a parameter can have values of this type."""
    return any(k in _SCALARS or _item(k) for k in _alternatives(kind)[0])


def static_type(kind: Any) -> Parameter.Type | None:
    """Return the one type that the parameter always has, or None where it may change."""
    kinds, optional = _alternatives(kind)
    if len(kinds) != 1 or (optional and kinds[0] in (int, bool)):
        return None
    return _SCALARS.get(kinds[0]) or _ARRAYS.get(_item(kinds[0]))


def plain_value(info: OptionInfo, value: Any) -> Any:
    """Turn a parameter's value into the one that the options class takes (None, lists)."""
    kinds, optional = _alternatives(info.type)
    if not isinstance(value, (str, bool, int, float)):
        value = list(value)
    if optional:
        nan = isinstance(value, float) and math.isnan(value)
        if nan or (isinstance(value, (str, list)) and len(value) == 0):
            return None
    return value


def parameter_of(
    info: OptionInfo, name: str, value: Any, kind: Parameter.Type | None
) -> Parameter:
    """Return an option's value as a parameter of type ``kind``, or, for None, of its own type."""
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


def switch_of(info: OptionInfo) -> OptionInfo:
    """Return the option that switches an optional group of options on."""
    return OptionInfo(
        'enabled', MISSING, f'Whether to use this: {info.clause}', '', None, None, None,
        info.read_only, bool,
    )  # fmt: skip


def names_of(info: OptionInfo, key: str) -> OptionInfo:
    """Return the option that lists the entries of a tuple of options dataclasses by ``key``."""
    doc = f'{info.doc} (the {key} of each; its other settings stand under that name)'
    return OptionInfo('names', MISSING, doc, '', None, None, None, True, tuple[str, ...])


def descriptor_of(info: OptionInfo, kind: Parameter.Type | None) -> ParameterDescriptor:
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
