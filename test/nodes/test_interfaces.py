# SPDX-License-Identifier: Apache-2.0
"""Interfaces of packages without wheels: the real ones, or some just like them."""

import importlib
import json
import os
from pathlib import Path
import runpy
import subprocess
import sys

import pytest
import setuptools

pytest.importorskip('rclpy', reason='needs ROS 2 (rclpy): run `make test`')

ROOT = Path(__file__).resolve().parents[2]

HASHES = {
    'control_msgs/action/FollowJointTrajectory': (
        'RIHS01_738ebcb7a2d7cfa42f9f1001cc99ce3a4383d1cfe508015d9be8485e4b1c66f6'
    ),
    'control_msgs/msg/JointTrajectoryControllerState': (
        'RIHS01_51d8dd89cc624cbe9daaeeb4d80d6de9b86168ffdc3be41fefc0953e3c26e480'
    ),
    'controller_manager_msgs/srv/ListControllers': (
        'RIHS01_4f8e36bb1fa5afdeba45c2d56ae6a2097b1493a253f961dd6290c085033bd189'
    ),
}
"""
The types' hashes in control_msgs 5.8.0 and in ros2_control 4.46.0, both for Jazzy.

Two ends whose types have the same hash have the same fields, so they talk with each other.
"""


def described(kind):
    """Return the hash that the generator has written beside an interface of set-up."""
    package = kind.partition('/')[0]
    module = Path(importlib.import_module(package).__file__)
    share = Path(sys.prefix, 'share')
    manifest = share / package / 'package.xml'
    if (
        Path(sys.prefix) not in module.parents
        or 'robot_identification' not in manifest.read_text()
    ):
        pytest.skip(f'the real {package} is installed, of whatever version')
    text = (share / f'{kind}.json').read_text(encoding='utf-8')
    return next(
        e['hash_string'] for e in json.loads(text)['type_hashes'] if e['type_name'] == kind
    )


@pytest.mark.parametrize('kind', HASHES)
def test_the_interfaces_are_those_of_real_controllers(kind):
    assert described(kind) == HASHES[kind]


def shipped():
    """Return what `setup.py` installs."""
    told = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(setuptools, 'setup', lambda **arguments: told.update(arguments))
        patch.chdir(ROOT)
        runpy.run_path(str(ROOT / 'setup.py'))
    files = [file for _, names in told['data_files'] for file in names]
    return [*told['packages'], *files]


def test_real_interfaces_win(tmp_path):
    for name in ('control_msgs', 'controller_manager_msgs'):
        (tmp_path / name).mkdir()
        (tmp_path / name / '__init__.py').touch()
        # where a sourced ROS names its packages
        found = subprocess.run(
            [sys.executable, '-c', f'import {name}; print({name}.__file__)'],
            env={**os.environ, 'PYTHONPATH': str(tmp_path)},
            capture_output=True,
            text=True,
        )
        assert Path(found.stdout.strip()).parent == tmp_path / name


def test_no_workspace_and_no_wheel_has_the_interfaces_of_set_up():
    folder = ROOT / 'interfaces'
    # neither colcon nor rosdep takes them for packages of a workspace
    for name in ('COLCON_IGNORE', 'CATKIN_IGNORE'):
        assert (folder / name).is_file()
    assert not [path for path in shipped() if path.startswith('interfaces')]
