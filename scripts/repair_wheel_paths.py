# SPDX-License-Identifier: Apache-2.0
"""
Make the CMake files of the ROS wheels point at this environment.

The wheels were built in a container. Their exported CMake targets name that
container's include folders, ``/opt/python/cp311-cp311/include/python3.11`` and
``.../site-packages/numpy/_core/include``, which exist on no other machine, and
CMake refuses a target whose include folder is missing. Here each of these
entries is replaced by the environment's own folder. A file that needs no change
is not written, so a second run does nothing.

Run it with the environment's Python: ``.venv/bin/python scripts/repair_wheel_paths.py``.
"""

import os
from pathlib import Path
import re
import sys
import sysconfig

_BUILD_MACHINE = r'/opt/python/cp3\d+-cp3\d+t?'
_PYTHON_INCLUDE = re.compile(_BUILD_MACHINE + r'/include/python3\.\d+t?(?=[;"\s])')
_NUMPY_INCLUDE = re.compile(
    _BUILD_MACHINE + r'/lib/python3\.\d+t?/site-packages/numpy/_?core/include(?=[;"\s])'
)


def repair(share, python_include, numpy_include):
    """
    Rewrite the build machine's include folders in all CMake files below a folder.

    Parameters
    ----------
    share : Path
        The environment's ``share`` folder.
    python_include : str
        Folder that holds ``Python.h``.
    numpy_include : str
        Folder that holds ``numpy/arrayobject.h``.

    Returns
    -------
    list of Path
        The files that were changed.
    """
    changed = []
    for path in sorted(Path(share).rglob('*.cmake')):
        before = path.read_bytes().decode('utf-8', 'surrogateescape')
        after = _PYTHON_INCLUDE.sub(lambda _: python_include, before)
        after = _NUMPY_INCLUDE.sub(lambda _: numpy_include, after)
        if after != before:
            _replace(path, after.encode('utf-8', 'surrogateescape'))
            changed.append(path)
    return changed


def _replace(path, content):
    """Write a new file beside the old one and swap them, so that no half file can remain."""
    fresh = path.with_name(path.name + '.new')
    fresh.write_bytes(content)
    os.replace(fresh, path)


def main():
    """Repair the environment that runs this script."""
    import numpy

    changed = repair(
        Path(sys.prefix) / 'share',
        Path(sysconfig.get_path('include')).as_posix(),
        Path(numpy.get_include()).as_posix(),
    )
    print(f'{len(changed)} files repaired')


if __name__ == '__main__':
    main()
