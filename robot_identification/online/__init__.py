# SPDX-License-Identifier: Apache-2.0
"""
Identification beside a running robot: one sample in, one estimate out, in constant time.

The names in ``__init__.pyi`` are imported when they are first used: who counts messages needs
nothing to compute with.
"""

from ..support.lazy_names import lazy_attributes

__getattr__, __dir__, __all__ = lazy_attributes(__name__, __file__)
