# SPDX-License-Identifier: Apache-2.0
"""Names of a package that are imported when they are first used (PEP 562)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
import sys
from typing import Any


def lazily(package: str, modules: Mapping[str, tuple[str, ...]]) -> Callable[[str], Any]:
    """
    Return the ``__getattr__`` of a package.

    Parameters
    ----------
    package:
        Its ``__name__``.
    modules:
        The names that each of its modules has for it.

    """
    module_of = {name: module for module, names in modules.items() for name in names}

    def get(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        value = getattr(import_module(f'.{module_of[name]}', package), name)
        # a module may have the name that it is asked for: the function comes before it
        setattr(sys.modules[package], name, value)
        return value

    return get
