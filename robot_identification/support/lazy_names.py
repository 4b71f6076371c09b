# SPDX-License-Identifier: Apache-2.0
"""Names of a package that are imported when they are first used."""

import ast
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
import sys
from typing import Any


def lazy_attributes(
    package: str, file: str
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """
    Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package.

    Its names stand once, in the imports ``from .module import name as name`` of the stub
    ``__init__.pyi`` beside it, which type checkers read.

    Parameters
    ----------
    package, file:
        Its ``__name__`` and ``__file__``.

    """
    tree = ast.parse(Path(file).with_suffix('.pyi').read_text(encoding='utf-8'))
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    module_of = {alias.name: node.module for node in imports for alias in node.names}

    def get(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        value = getattr(import_module(f'.{module_of[name]}', package), name)
        # a module may have the name that it is asked for: the function comes before it
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *module_of})

    return get, names, [name for name in module_of if not name.startswith('_')]
