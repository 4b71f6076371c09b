# SPDX-License-Identifier: Apache-2.0
"""
Exciting trajectories: planned to distinguish the parameters, checked before a robot moves.

The names in ``__init__.pyi`` are imported when they are first used.
"""

from ..support.lazy_names import lazy_attributes

__getattr__, __dir__, __all__ = lazy_attributes(__name__, __file__)
