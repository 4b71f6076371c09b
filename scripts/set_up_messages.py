# SPDX-License-Identifier: Apache-2.0
"""
Build interface packages with colcon: the suite's own, and what its tests need of others.

As the other scripts of set-up: the standard library alone, in the syntax of Python 3.6.
"""

import os
import shutil

from set_up_checks import clean_environment, has_cmake

CONSTRAINTS = 'constraints.txt'
MESSAGES = 'robot_identification_msgs'
TEST_INTERFACES = 'test/interfaces'
"""Packages of the names of ROS packages that have no wheels, for tests alone."""

OVERLAY = 'test-interfaces'
"""Folder in the environment that the tests add to their paths, and nobody else."""


def pip_install(root, venv):
    """Return the beginning of a command that installs something with the environment's pip."""
    command = [venv / 'bin' / 'python', '-m', 'pip', 'install', '--no-input']
    command += ['--disable-pip-version-check', '--progress-bar', 'off']
    return command + ['-c', root / 'requirements' / CONSTRAINTS]


def build_environment(environment, venv):
    """Return the variables with which CMake finds the ROS wheels of an environment."""
    return dict(
        clean_environment(environment),
        AMENT_PREFIX_PATH=str(venv),
        CMAKE_PREFIX_PATH=str(venv),
        LD_LIBRARY_PATH=str(venv / 'lib'),
        PATH=os.pathsep.join([str(venv / 'bin'), environment.get('PATH', os.defpath)]),
        VIRTUAL_ENV=str(venv),
    )


def build_messages(root, venv, python, run):
    """Build ``robot_identification_msgs``, into the environment itself."""
    build = root / 'build' / 'messages'
    colcon_build(root, venv, run, [root / MESSAGES], build, venv, MESSAGES)


def build_test_interfaces(root, venv, python, run):
    """
    Build the interfaces that tests need of packages without wheels, into a folder of their own.

    A package that the environment has is left out: then tests use the real one.
    """
    prefix, build = venv / OVERLAY, root / 'build' / OVERLAY
    shutil.rmtree(str(prefix), ignore_errors=True)
    packages = [path.parent for path in sorted((root / TEST_INTERFACES).glob('*/package.xml'))]
    packages = [path for path in packages if not (venv / 'share' / path.name).is_dir()]
    if packages:
        colcon_build(root, venv, run, packages, build, prefix, 'the interfaces for tests')
    # Tests take an environment without it for one that was made for users.
    prefix.mkdir(exist_ok=True)


def colcon_build(root, venv, run, packages, build, prefix, what):
    """
    Build packages with the ROS wheels of an environment.

    Parameters
    ----------
    root, venv : Path
        The repository and the environment.
    run : callable
        As `set_up.Runner`.
    packages : list of Path
        Their folders.
    build, prefix : Path
        The folder to build in, which is emptied first, and the one to install into.
    what : str
        What is built, for the error.
    """
    environment = build_environment(os.environ, venv)
    if not has_cmake(environment):
        wheel = ['--ignore-installed', '-r', root / 'requirements' / 'cmake.txt']
        run(pip_install(root, venv) + wheel, 'Installing CMake', root)
    # A build folder remembers its compiler, CMake and Python: the next may be others.
    shutil.rmtree(str(build), ignore_errors=True)
    command = [venv / 'bin' / 'colcon', '--log-base', root / 'log' / 'colcon', 'build']
    command += ['--base-paths'] + packages + ['--build-base', build, '--install-base', prefix]
    command += ['--merge-install', '--event-handlers', 'console_direct+']
    command += ['--cmake-args', '-DBUILD_TESTING=OFF', '-DCMAKE_BUILD_TYPE=Release']
    command += ['-DPython3_EXECUTABLE={}'.format(venv / 'bin' / 'python')]
    run(command, 'Building {}'.format(what), root, environment)
