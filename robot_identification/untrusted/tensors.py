# SPDX-License-Identifier: Apache-2.0
"""
Tensors in files of ``torch.save`` (``.pt``), read without torch.

Such a file is a ZIP archive with one pickle and the bytes of each storage.  The pickle is checked
opcode by opcode before anything is made of it, and of its globals only those that describe tensors
of numbers are taken, as functions of this module: it can neither call nor import anything else.
"""

from __future__ import annotations

from collections.abc import Callable
import io
import math
import pickle
import pickletools
from typing import Any, IO

import numpy as np

from .compressed import ArrayArchive

MAX_PICKLE = 1 << 20
"""Largest size of the pickle, which describes the tensors [bytes]."""

_OPCODES = frozenset(
    (
        *('PROTO', 'FRAME', 'STOP', 'MARK', 'NONE', 'NEWTRUE', 'NEWFALSE'),
        *('BININT', 'BININT1', 'BININT2', 'LONG1', 'BINFLOAT', 'BINUNICODE', 'SHORT_BINUNICODE'),
        *('EMPTY_DICT', 'EMPTY_LIST', 'EMPTY_TUPLE', 'TUPLE', 'TUPLE1', 'TUPLE2', 'TUPLE3'),
        *('APPEND', 'APPENDS', 'SETITEM', 'SETITEMS', 'BINPUT', 'LONG_BINPUT'),
        *('BINGET', 'LONG_BINGET', 'MEMOIZE', 'GLOBAL', 'STACK_GLOBAL', 'BINPERSID', 'REDUCE'),
    )
)
"""Opcodes of numbers, texts, containers and tensors."""

_STORAGES = {
    'DoubleStorage': '<f8',
    'FloatStorage': '<f4',
    'HalfStorage': '<f2',
    'LongStorage': '<i8',
    'IntStorage': '<i4',
    'ShortStorage': '<i2',
    'CharStorage': '<i1',
    'ByteStorage': '<u1',
    'BoolStorage': '<u1',
}
"""Classes of storages by name, with the kinds of their numbers."""


class TensorArchive:
    """
    Tensors by name in a file of ``torch.save`` that stays open.

    Names in nested mappings are joined by dots.  Raises one of `compressed.DAMAGED`.
    """

    def __init__(self, file: IO[bytes]) -> None:
        archive = ArrayArchive(file)
        members = [name for name in archive.members if name.endswith('/data.pkl')]
        if len(members) != 1:
            raise ValueError('it has not been written by torch.save of version 1.6 or later')
        folder = members[0].removesuffix('data.pkl')
        order = f'{folder}byteorder'
        if order in archive and archive.read(order) != b'little':
            raise ValueError('its numbers are not in little endian')
        data = archive.read(members[0])
        _require_harmless(data)
        reader = _Unpickler(data, lambda key: archive.read(f'{folder}data/{key}'))
        try:
            content = reader.load()
        except (pickle.UnpicklingError, TypeError, AttributeError, IndexError) as error:
            raise ValueError(f'its description of tensors cannot be read ({error})') from error
        if not isinstance(content, dict):
            raise ValueError('it is no mapping of names to tensors')
        self._arrays: dict[str, np.ndarray] = {}
        self._collect(content, '', 0)

    def _collect(self, content: dict, prefix: str, depth: int) -> None:
        if depth > 8:
            raise ValueError('its mappings are nested too deeply')
        for key, value in content.items():
            if isinstance(value, dict):
                self._collect(value, f'{prefix}{key}.', depth + 1)
            elif isinstance(value, np.ndarray):
                self._arrays[f'{prefix}{key}'] = value

    @property
    def arrays(self) -> tuple[str, ...]:
        """Names of the tensors."""
        return tuple(self._arrays)

    def array(self, name: str) -> np.ndarray:
        """Return a tensor as an array."""
        return self._arrays[name]


def _require_harmless(data: bytes) -> None:
    """Raise ValueError for a pickle with other opcodes than those of tensors."""
    if len(data) > MAX_PICKLE:
        raise ValueError(f'its description of tensors has {len(data)} bytes')
    for opcode, argument, _ in pickletools.genops(data):
        if opcode.name not in _OPCODES:
            raise ValueError(f'it has more than tensors in it (pickle opcode {opcode.name})')
        # a place in the memo takes memory up to it
        if opcode.name in ('BINPUT', 'LONG_BINPUT') and int(argument or 0) > len(data):
            raise ValueError(f'its description of tensors has no place {argument}')


class _Unpickler(pickle.Unpickler):
    """Unpickler of tensors alone."""

    def __init__(self, data: bytes, read: Callable[[str], bytes]) -> None:
        super().__init__(io.BytesIO(data))
        self._read = read
        self._storages: dict[str, np.ndarray] = {}
        self._total = 0

    def find_class(self, module: str, name: str) -> Any:
        """Return what stands in for a global of torch; raises ValueError for any other."""
        if (module, name) == ('torch._utils', '_rebuild_tensor_v2'):
            return self._tensor
        if (module, name) == ('torch._utils', '_rebuild_parameter'):
            return lambda tensor, *_: tensor
        if (module, name) == ('collections', 'OrderedDict'):
            return lambda: {}
        if module in ('torch', 'torch.storage') and name in _STORAGES:
            return np.dtype(_STORAGES[name])
        raise ValueError(f'it has more than tensors of numbers in it ({module}.{name})')

    def persistent_load(self, pid: Any) -> np.ndarray:
        """Return the numbers of a storage."""
        kind, dtype, key, _, count = pid
        if kind != 'storage' or not isinstance(dtype, np.dtype) or not isinstance(key, str):
            raise ValueError('it has more than tensors of numbers in it')
        if key not in self._storages:
            self._storages[key] = np.frombuffer(self._read(key), dtype)
        storage = self._storages[key]
        if storage.dtype != dtype or storage.size != count:
            raise ValueError(f"storage '{key}' has another size than is declared")
        return storage

    def _tensor(self, storage: Any, offset: int, size: Any, stride: Any, *_: Any) -> np.ndarray:
        """Return the tensor of numbers of a storage."""
        if not isinstance(storage, np.ndarray) or len(size) != len(stride):
            raise ValueError('a tensor has no storage')
        count, least = math.prod(size), min((offset, *size, *stride))
        last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
        # strides of 0 repeat numbers that are stored once
        self._total += count
        stored = 1000 + sum(each.size for each in self._storages.values())
        if least < 0 or (count and last >= storage.size) or self._total > 2 * stored:
            raise ValueError('a tensor has another size than its storage')
        steps = tuple(storage.itemsize * step for step in stride)
        return np.lib.stride_tricks.as_strided(
            storage[offset:], tuple(size), steps, writeable=False
        ).copy()
