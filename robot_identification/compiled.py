# SPDX-License-Identifier: Apache-2.0
"""
Functions that Numba compiles at their first call, where Numba is installed.

    @compiled('const f8[:, ::1]', 'f8[::1]')
    def add_rows(rows, out): ...

Nothing is imported or compiled before the first call.  Machine code is kept beside the source or
in the user's cache (Numba's rules, ``NUMBA_CACHE_DIR`` names another place); where neither can be
written, each process compiles for itself.  Compiled code lets go of Python's global lock, so that
threads run side by side.  Without Numba, or with ``NUMBA_DISABLE_JIT=1``, the same Python function
runs as it is: right, but slow, so that who has a faster way asks `available` first.

``python -m robot_identification.compiled`` compiles all of the package into the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
import functools
import importlib
from pathlib import Path
import re
import threading
import types
from typing import Any
import zlib

_OPTIONS: dict[str, Any] = {
    'nogil': True,
    'error_model': 'numpy',
    # a product and a sum may round once; nothing else about floating point changes
    'fastmath': {'contract'},
}

_INLINE: dict[str, Any] = {
    'forceinline': True,
    'no_cpython_wrapper': True,
    'no_cfunc_wrapper': True,
}

_lock = threading.RLock()


@functools.cache
def available() -> bool:
    """Tell whether functions are compiled: Numba can be imported and is not switched off."""
    try:
        import numba
    except ImportError:  # not there, or of no use with this NumPy
        return False
    return not getattr(numba.config, 'DISABLE_JIT', False)


class Compiled:
    """
    A function that is compiled when it is first called; made by `compiled`.

    Parameters
    ----------
    function:
        Works on arrays and numbers; may call other compiled functions.
    arguments:
        Numba's types of its arguments; without, it is compiled for whatever it meets, and not
        cached.
    inline:
        Whether it becomes part of what calls it, and cannot be called from Python once compiled.

    """

    def __init__(
        self,
        function: Callable[..., Any],
        arguments: tuple[str, ...] = (),
        *,
        inline: bool = False,
    ) -> None:
        assert isinstance(function, types.FunctionType)
        functools.update_wrapper(self, function)
        self._function, self._arguments = function, arguments
        self._options = _OPTIONS | (_INLINE if inline else {})
        self._ready: Callable[..., Any] | None = None

    def __call__(self, *arguments: Any) -> Any:
        """Call it, compiled where that is possible."""
        return (self._ready or self.ready())(*arguments)

    def ready(self) -> Callable[..., Any]:
        """
        Compile it, if that is possible and has not been done.

        Returns
        -------
        callable
            What a call leads to; a loop that counts microseconds calls this instead.

        """
        with _lock:
            if self._ready is None:
                self._ready = self._compile() if available() else self._function
            return self._ready

    def sources(self) -> set[str]:
        """Files of the function and of the compiled functions that it calls."""
        found = {self._function.__code__.co_filename}
        for callee in _callees(self._function).values():
            found |= callee.sources()
        return found

    def _compile(self) -> Callable[..., Any]:
        import numba

        function = _with_compiled_globals(self._function)
        if not self._arguments:
            return numba.jit(nopython=True, **self._options)(function)
        # the cache goes by name and the time of the one file; this goes by all sources
        function.__qualname__ += f'_{_digest(self.sources()):08x}'
        signature = tuple(_type(text, numba.types) for text in self._arguments)
        try:
            return numba.jit(signature, nopython=True, cache=True, **_OPTIONS)(function)
        except (OSError, RuntimeError) as error:
            # no place that can be written, or one that has run full
            if isinstance(error, RuntimeError) and 'cannot cache function' not in str(error):
                raise
            return numba.jit(signature, nopython=True, **_OPTIONS)(function)


def compiled(*arguments: Any, inline: bool = False) -> Any:
    """
    Compile a function at its first call.

    Used as ``@compiled('const f8[:, ::1]', 'i8')`` for what is called from Python, with Numba's
    types of the arguments (``const`` for arrays that are only read: only these take read-only
    ones), so that there is one machine code that can be cached; and plainly as ``@compiled`` for
    what such a function calls, in any module; as ``@compiled(inline=True)`` where the call itself
    would cost too much.
    """
    if len(arguments) == 1 and isinstance(arguments[0], types.FunctionType):
        return Compiled(arguments[0])
    return lambda function: Compiled(function, arguments, inline=inline)


def warm() -> int:
    """Compile all that the package calls from Python; return how many functions these are."""
    if not available():
        return 0
    root = Path(__file__).parent
    count = 0
    for path in sorted(root.rglob('*.py')):
        if not re.search(r'^@compiled\(', path.read_text(encoding='utf-8'), re.MULTILINE):
            continue
        name = '.'.join([root.name, *path.relative_to(root).with_suffix('').parts])
        for member in vars(importlib.import_module(name)).values():
            if isinstance(member, Compiled) and member._arguments:
                member.ready()
                count += 1
    return count


def _with_compiled_globals(function: types.FunctionType) -> types.FunctionType:
    """Copy a function so that Numba finds machine code under the names of compiled functions."""
    found = dict(function.__globals__)
    found.update((name, callee.ready()) for name, callee in _callees(function).items())
    copy = types.FunctionType(
        function.__code__, found, function.__name__, function.__defaults__, function.__closure__
    )
    functools.update_wrapper(copy, function)
    del copy.__wrapped__  # type: ignore[attr-defined]
    return copy


def _callees(function: types.FunctionType) -> dict[str, Compiled]:
    """Compiled functions that a function names."""
    named = {name: function.__globals__.get(name) for name in function.__code__.co_names}
    return {name: callee for name, callee in named.items() if isinstance(callee, Compiled)}


def _digest(files: Iterable[str]) -> int:
    digest = 0
    for file in sorted(files):
        digest = zlib.crc32(Path(file).read_bytes(), digest)
    return digest


def _type(text: str, known: types.ModuleType) -> Any:
    """Return Numba's type of an argument."""
    name = text.removeprefix('const ')
    found = eval(name, {'__builtins__': {}}, vars(known))
    return found if name == text else found.copy(readonly=True)


if __name__ == '__main__':
    # the package's own module, not this copy of it
    importlib.import_module('robot_identification.compiled').warm()
