# SPDX-License-Identifier: Apache-2.0
"""Interfaces of other packages that tests have to have: the real ones, or some just like them."""

import importlib
import json
from pathlib import Path
import runpy

import pytest
import setuptools

pytest.importorskip('rclpy', reason='needs ROS 2 (rclpy): run `make test`')

from search_paths import INTERFACES

ROOT = Path(__file__).resolve().parents[2]

HASHES = {
    'control_msgs/action/FollowJointTrajectory': (
        'RIHS01_738ebcb7a2d7cfa42f9f1001cc99ce3a4383d1cfe508015d9be8485e4b1c66f6'
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
    """Return the hash that the generator has written beside an interface for tests."""
    package = kind.partition('/')[0]
    module = Path(importlib.import_module(package).__file__)
    if INTERFACES not in module.parents:
        pytest.skip(f'the real {package} is installed, of whatever version')
    text = (INTERFACES / 'share' / f'{kind}.json').read_text(encoding='utf-8')
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


def test_the_interfaces_for_tests_are_nobody_elses():
    folder = ROOT / 'test' / 'interfaces'
    # neither colcon nor rosdep takes them for packages of a workspace
    for name in ('COLCON_IGNORE', 'CATKIN_IGNORE'):
        assert (folder / name).is_file()
    assert not [path for path in shipped() if path.startswith('test')]
