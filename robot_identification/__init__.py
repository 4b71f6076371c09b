# SPDX-License-Identifier: Apache-2.0
"""
Identification of a robot's dynamic parameters, after its URDF and recordings of its motion.

The names in ``__init__.pyi`` are imported when they are first used, so that importing the package
costs nothing.
"""

from .support.lazy_names import lazy_attributes

__getattr__, __dir__, __all__ = lazy_attributes(__name__, __file__)
