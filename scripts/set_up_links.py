# SPDX-License-Identifier: Apache-2.0
"""
Link what an editable installation leaves out: shared files and programs, where ROS looks for them.

As the other scripts of set-up: the standard library alone, in the syntax of Python 3.6.
"""

from configparser import ConfigParser
import shutil

SHARED = ('config', 'examples', 'launch', 'package.xml', 'urdf')
LEFT_OUT = {'__pycache__', 'results'}


def files_in(folder):
    """List the files below a folder, in order."""
    return [path for path in sorted(folder.rglob('*')) if path.is_file()]


def shared_files(root):
    """List the package's shared files, relative to the repository."""
    found = []
    for name in SHARED:
        paths = files_in(root / name) if (root / name).is_dir() else [root / name]
        found += [path.relative_to(root).as_posix() for path in paths if path.is_file()]
    return [name for name in found if not LEFT_OUT & set(name.split('/'))]


def link_shared_files(root, share):
    """
    Link the files in ``share/robot_identification`` to their sources: they are never out of date.

    An editable installation leaves these files out.  With the entry in ament's index, ROS tools
    find the package when AMENT_PREFIX_PATH names the environment.  The folders are real ones:
    ``ros2 launch`` looks for files without following links to folders.

    Parameters
    ----------
    root : Path
        The repository.
    share : Path
        The environment's folder of the package's shared files; made anew.
    """
    shutil.rmtree(str(share), ignore_errors=True)
    share.mkdir(parents=True)
    for name in shared_files(root):
        link = share / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(root / name)
    index = share.parent / 'ament_index' / 'resource_index' / 'packages'
    index.mkdir(parents=True, exist_ok=True)
    (index / share.name).touch()


def link_programs(venv, site_packages):
    """Link the package's programs where ``ros2 run`` and launch files look for them."""
    folder = venv / 'lib' / 'robot_identification'
    shutil.rmtree(str(folder), ignore_errors=True)
    folder.mkdir(parents=True)
    for listed in site_packages.glob('robot_identification-*-info/entry_points.txt'):
        entries = ConfigParser()
        entries.optionxform = str
        entries.read(str(listed))
        for name in entries['console_scripts']:
            (folder / name).symlink_to(venv / 'bin' / name)
