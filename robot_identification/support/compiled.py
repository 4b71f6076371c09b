# SPDX-License-Identifier: Apache-2.0
"""
Machine code by Numba, with the options that all compiled functions share.

Numba is optional, and importing it takes half a second.  So the modules with compiled functions
(`MODULES`) are imported by the function that needs them, if Numba is `available`; every caller has
another way in NumPy.  ``python -m robot_identification.support.compiled`` compiles all of them
into the cache.

Numba keeps machine code beside the source or in the user's cache; ``NUMBA_CACHE_DIR`` names
another folder.  It compiles again after a change of the file that holds the function, not of other
files: what a function is compiled from must stand in one file, callees first.
"""

from __future__ import annotations

from collections.abc import Callable
import functools
from importlib import import_module
from typing import Any

MODULES = ('regressor.kernel', 'estimation.recursive.rls_kernel')
"""Modules with compiled functions."""

_OPTIONS: dict[str, Any] = {
    # threads run side by side
    'nogil': True,
    'error_model': 'numpy',
    # a product and a sum may round once; nothing else about floating point changes
    'fastmath': {'contract'},
}


@functools.cache
def available() -> bool:
    """Return True if Numba can be imported and is not switched off (``NUMBA_DISABLE_JIT``)."""
    try:
        import numba
    except ImportError:  # missing, or made for another NumPy
        return False
    return not getattr(numba.config, 'DISABLE_JIT', False)


def compiled(*arguments: Any) -> Callable[[Callable[..., Any]], Any]:
    """
    Return a decorator that compiles a function.

    Machine code lets go of Python's global lock.

    Parameters
    ----------
    arguments:
        Numba's types of the arguments, for a function that Python calls: its first call compiles
        it, or loads it from the cache; a call with other types raises a TypeError.  If none are
        given, the function becomes part of the compiled functions of the same file that call it.

    """
    from numba import njit

    def decorated(function: Callable[..., Any]) -> Any:
        if not arguments:
            return njit(**_OPTIONS)(function)

        @functools.cache
        def machine_code() -> Any:
            try:
                return njit(arguments, cache=True, **_OPTIONS)(function)
            except (OSError, RuntimeError):  # the cache cannot be written, or the disk is full
                return njit(arguments, **_OPTIONS)(function)

        @functools.wraps(function)
        def call(*values: Any) -> Any:
            return machine_code()(*values)

        call.machine_code = machine_code  # type: ignore[attr-defined]
        return call

    return decorated


def constant(dtype: Any, dimensions: int) -> Any:
    """Return Numba's type of a contiguous array that is only read, and may be read-only."""
    from numba import types

    return types.Array(dtype, dimensions, 'C', readonly=True)


def compile_all() -> None:
    """Compile all functions into the cache."""
    for module in MODULES if available() else ():
        for function in vars(import_module(f'robot_identification.{module}')).values():
            if hasattr(function, 'machine_code'):
                function.machine_code()


if __name__ == '__main__':
    compile_all()
