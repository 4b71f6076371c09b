# SPDX-License-Identifier: Apache-2.0
"""Search paths of packages for tests and the nodes that they start."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
import sys

import pytest

ROOT = Path(__file__).resolve().parents[1]

INTERFACES = Path(sys.prefix, 'test-interfaces')
"""Interfaces that no wheel brings, which set-up has built for tests; there with wheels alone."""


def add_interfaces():
    """
    Add the interfaces for tests to this process's environment, where ROS is from wheels.

    Returns
    -------
    bool
        Whether this process has to be started anew: the library path counts as it is at its start.
        Workers of xdist get the paths with the environment.

    """
    wheels = importlib.util.find_spec('ros_wheels_bootstrapper') is not None
    libraries = str(INTERFACES / 'lib')
    if not wheels or libraries in os.environ.get('LD_LIBRARY_PATH', '').split(os.pathsep):
        return False
    if not INTERFACES.is_dir():
        raise pytest.UsageError('the interfaces for tests are not built: run `make setup`')
    # Last in the paths: where the caller names real ones, they are taken.
    append('LD_LIBRARY_PATH', libraries)
    append('PYTHONPATH', *INTERFACES.glob('lib/python3.*/site-packages'))
    return True


def python_path():
    """Return where nodes look for packages: in these sources, and where PYTHONPATH has it."""
    # A sourced ROS names its packages there.
    return joined(ROOT, os.environ.get('PYTHONPATH'))


def append(variable, *paths):
    """Put paths behind those of a variable of this process's environment."""
    os.environ[variable] = joined(os.environ.get(variable), *paths)


def joined(*paths):
    """Join search paths; an empty one, which would mean the working folder, is left out."""
    return os.pathsep.join(str(path) for path in paths if path)
