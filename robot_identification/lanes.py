# SPDX-License-Identifier: Apache-2.0
"""
Arithmetic on `LANES` numbers at once, for compiled functions.

A value of type `lanes` is what `load` returns; ``+``, ``-``, ``*`` work on it, with numbers too.
In machine code it is a vector register (or a few, as the processor has them), so that what a
function does with it is done for `LANES` samples by the same instructions, whether or not a
compiler finds out by itself.  In plain Python it is an array of NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
import functools
import operator
from typing import Any

import numpy as np

from .compiled import Compiled

Lanes = np.ndarray
"""Type of a value, in Python."""

LANES = 8
"""Numbers in a value; an AVX-512 register of doubles."""


class _Primitive(Compiled):
    """A function whose machine code is written here; its Python body says what it does."""

    def __init__(self, function: Callable[..., Any], code: Callable[[], Any]) -> None:
        super().__init__(function)
        self._code = code

    def _compile(self) -> Callable[..., Any]:
        from numba.extending import intrinsic

        return intrinsic(self._code())


def _primitive(code: Callable[[], Any]) -> Callable[[Callable[..., Any]], _Primitive]:
    return lambda function: _Primitive(function, code)


@functools.cache
def _lanes() -> Any:
    """Make Numba know the type and its arithmetic; return the type."""
    from llvmlite import ir
    from numba import types
    from numba.extending import lower_builtin, models, register_model, type_callable

    class Lanes(types.Type):
        def __init__(self) -> None:
            super().__init__(name='lanes')

    lanes = Lanes()

    @register_model(Lanes)
    class Model(models.PrimitiveModel):
        def __init__(self, manager: Any, kind: Any) -> None:
            super().__init__(manager, kind, ir.VectorType(ir.DoubleType(), LANES))

    def wide(builder: Any, value: Any) -> Any:
        return value if isinstance(value.type, ir.VectorType) else _repeated(builder, value)

    def add_binary(operation: Callable[..., Any], name: str) -> None:
        @type_callable(operation)
        def typer(context: Any) -> Any:
            def type_of(a: Any, b: Any) -> Any:
                known = (lanes, types.float64)
                return lanes if lanes in (a, b) and a in known and b in known else None

            return type_of

        def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            a, b = (wide(builder, argument) for argument in arguments)
            return getattr(builder, name)(a, b, flags=('contract',))

        for kinds in ((Lanes, Lanes), (Lanes, types.Float), (types.Float, Lanes)):
            lower_builtin(operation, *kinds)(lower)

    for operation, name in (
        (operator.add, 'fadd'),
        (operator.sub, 'fsub'),
        (operator.mul, 'fmul'),
    ):
        add_binary(operation, name)

    @type_callable(operator.neg)
    def typer(context: Any) -> Any:
        return lambda a: lanes if a == lanes else None

    @lower_builtin(operator.neg, Lanes)
    def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.fneg(*arguments)

    return lanes


def _repeated(builder: Any, number: Any) -> Any:
    from llvmlite import ir

    kind = ir.VectorType(ir.DoubleType(), LANES)
    none = ir.Constant(kind, ir.Undefined)
    first = builder.insert_element(none, number, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(first, none, ir.Constant(_integers(LANES), [0] * LANES))


def _integers(count: int) -> Any:
    from llvmlite import ir

    return ir.VectorType(ir.IntType(32), count)


def _shuffled(builder: Any, a: Any, b: Any, places: list[int]) -> Any:
    from llvmlite import ir

    return builder.shuffle_vector(a, b, ir.Constant(_integers(len(places)), places))


def _pointer(context: Any, builder: Any, kind: Any, array: Any, at: Any, count: int) -> Any:
    """Address of ``count`` doubles of a contiguous array."""
    from llvmlite import ir

    data = context.make_array(kind)(context, builder, array).data
    vector = ir.VectorType(ir.DoubleType(), count)
    return builder.bitcast(builder.gep(data, [at]), vector.as_pointer())


def _load() -> Any:
    from numba import types

    lanes = _lanes()

    def load(typing: Any, array: Any, at: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            array, at = arguments
            place = _pointer(context, builder, signature.args[0], array, at, LANES)
            return builder.load(place, align=8)

        return lanes(array, types.intp), code

    return load


def _store() -> Any:
    from numba import types

    lanes = _lanes()

    def store(typing: Any, array: Any, at: Any, value: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            array, at, value = arguments
            place = _pointer(context, builder, signature.args[0], array, at, LANES)
            builder.store(value, place, align=8)
            return context.get_dummy_value()

        return types.void(array, types.intp, lanes), code

    return store


def _stream() -> Any:
    from llvmlite import ir
    from numba import types

    lanes = _lanes()

    def stream(typing: Any, array: Any, at: Any, value: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            array, at, value = arguments
            place = _pointer(context, builder, signature.args[0], array, at, LANES)
            written = builder.store(value, place, align=8 * LANES)
            one = ir.Constant(ir.IntType(32), 1)
            written.set_metadata('nontemporal', builder.module.add_metadata([one]))
            return context.get_dummy_value()

        return types.void(array, types.intp, lanes), code

    return stream


def _to_line() -> Any:
    from llvmlite import ir
    from numba import types

    def to_line(typing: Any, array: Any, at: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            kind = ir.IntType(64)
            array, at = arguments
            place = _pointer(context, builder, signature.args[0], array, at, 1)
            number = builder.lshr(builder.ptrtoint(place, kind), ir.Constant(kind, 3))
            return builder.and_(builder.neg(number), ir.Constant(kind, LANES - 1))

        return types.int64(array, types.intp), code

    return to_line


def _repeat() -> Any:
    from numba import types

    lanes = _lanes()

    def repeat(typing: Any, number: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return _repeated(builder, arguments[0])

        return lanes(types.float64), code

    return repeat


def _store_rows() -> Any:
    from llvmlite import ir
    from numba import types

    _lanes()

    def store_rows(typing: Any, array: Any, at: Any, stride: Any, values: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            array, at, stride, values = arguments
            columns = [builder.extract_value(values, i) for i in range(len(values.type.elements))]
            for row in range(LANES):
                step = builder.mul(stride, ir.Constant(stride.type, row))
                for first, part in _rows_of(builder, columns, row):
                    offset = builder.add(step, ir.Constant(stride.type, first))
                    place = builder.add(at, offset)
                    width = part.type.count
                    place = _pointer(context, builder, signature.args[0], array, place, width)
                    builder.store(part, place, align=8)
            return context.get_dummy_value()

        return types.void(array, types.intp, types.intp, values), code

    return store_rows


def _rows_of(builder: Any, columns: list[Any], row: int) -> list[tuple[int, Any]]:
    """Parts of a row of the matrix whose columns are lanes, as registers, with their places."""
    parts = []
    first = 0
    while first < len(columns):
        width = max(w for w in (8, 4, 2, 1) if w <= len(columns) - first)
        part = [_shuffled(builder, c, c, [row]) for c in columns[first : first + width]]
        while len(part) > 1:
            count = part[0].type.count
            part = [
                _shuffled(builder, a, b, list(range(2 * count)))
                for a, b in zip(part[::2], part[1::2], strict=True)
            ]
        parts.append((first, part[0]))
        first += width
    return parts


@_primitive(_load)
def load(array: np.ndarray, at: int) -> np.ndarray:
    """Return the `LANES` numbers of a contiguous vector from place ``at`` on."""
    return array[at : at + LANES].copy()


@_primitive(_store)
def store(array: np.ndarray, at: int, value: np.ndarray) -> None:
    """Write a value to a contiguous vector, from place ``at`` on."""
    array[at : at + LANES] = value


@_primitive(_stream)
def stream(array: np.ndarray, at: int, value: np.ndarray) -> None:
    """Write a value past the caches, to a place where a line of them begins (`to_line`)."""
    array[at : at + LANES] = value


@_primitive(_to_line)
def to_line(array: np.ndarray, at: int) -> int:
    """Return how many numbers after place ``at`` of a vector the next line of caches begins."""
    address = array.__array_interface__['data'][0] // 8 + at
    return int(-address % LANES)


@_primitive(_repeat)
def repeat(number: float) -> np.ndarray:
    """Return a value that is the same number everywhere."""
    return np.full(LANES, number)


@_primitive(_store_rows)
def store_rows(array: np.ndarray, at: int, stride: int, values: tuple[np.ndarray, ...]) -> None:
    """
    Write values side by side: lane t of each to places from ``at + t stride`` on.

    Parameters
    ----------
    array:
        Contiguous vector.
    at, stride:
        Place of the first lane's numbers, and from one lane to the next.
    values:
        As many as there are.

    """
    for lane in range(LANES):
        for i, value in enumerate(values):
            array[at + lane * stride + i] = value[lane]
