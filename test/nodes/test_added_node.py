# SPDX-License-Identifier: Apache-2.0
"""A node added as CONTRIBUTING.md describes: a module of its own, and the lines of its page."""

import os
from pathlib import Path
import shutil
import subprocess
import sys

import pytest

pytest.importorskip('rclpy')

ROOT = Path(__file__).resolve().parents[2]

NODE = '''# SPDX-License-Identifier: Apache-2.0
"""Node ``mirror``: publishes joint states again."""

from __future__ import annotations

import sys

from rclpy.node import Node
from sensor_msgs.msg import JointState

from .common import run


class MirrorNode(Node):
    """Publisher of what it receives."""

    def __init__(self) -> None:
        super().__init__('mirror')
        out = self.create_publisher(JointState, '~/joint_states', 10)
        self.create_subscription(JointState, 'joint_states', out.publish, 10)


def main(args: list[str] | None = None) -> int:
    """Run the node; return its exit code."""
    return run(MirrorNode, args)


if __name__ == '__main__':
    sys.exit(main())
'''

LINES = """    'mirror': (
        _subscribes('joint_states', 'What is published again'),
        _publishes('~/joint_states', 'The joint states that it receives'),
    ),
}
\"\"\"Interfaces of each node"""

SECTION = '\n## mirror\n\n<!-- made from mirror -->\n<!-- end of mirror -->\n'

ENTRY_POINTS = """
from distutils.core import run_setup
print(*run_setup('setup.py', stop_after='init').entry_points['console_scripts'], sep='\\n')
"""


@pytest.fixture(scope='module')
def place(tmp_path_factory):
    """Return a copy of the sources with the node; folders that do not change are linked."""
    place = tmp_path_factory.mktemp('mirror')
    copied, left = {'robot_identification', 'scripts'}, {'docs', 'build', 'log', '.git'}
    for path in ROOT.iterdir():
        if path.name in copied:
            ignored = shutil.ignore_patterns('__pyc*')
            shutil.copytree(path, place / path.name, ignore=ignored)
        elif path.is_file():
            shutil.copy(path, place)
        elif path.name not in left:
            (place / path.name).symlink_to(path)
    (place / 'robot_identification' / 'nodes' / 'mirror_node.py').write_text(NODE)
    table = place / 'scripts' / 'node_interfaces.py'
    text = table.read_text()
    end = '}\n"""Interfaces of each node'
    assert text.count(end) == 1
    table.write_text(text.replace(end, LINES))
    reference = place / 'docs' / 'reference'
    reference.mkdir(parents=True)
    for name, more in (('nodes.md', SECTION), ('messages.md', '')):
        page = (ROOT / 'docs' / 'reference' / name).read_text()
        (reference / name).write_text(page + more)
    return place


@pytest.fixture(scope='module')
def python(place):
    """Give a function that runs Python in that folder and returns what it printed."""
    environment = {**os.environ, 'PYTHONPATH': str(place), 'ROS_AUTOMATIC_DISCOVERY_RANGE': 'OFF'}

    def run(*words):
        done = subprocess.run(
            [sys.executable, *words],
            cwd=place,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_the_set_up_installs_it(python):
    line = 'mirror_node = robot_identification.nodes.mirror_node:main'
    assert line in python('-c', ENTRY_POINTS).splitlines()


def test_the_page_of_the_nodes_has_it(place, python):
    python('scripts/nodes_page.py', 'docs/reference')
    page = (place / 'docs' / 'reference' / 'nodes.md').read_text()
    section = page.partition('<!-- made from mirror -->')[2]
    assert '| subscribes | `joint_states` | `sensor_msgs/msg/JointState` |' in section
    assert '| publishes | `~/joint_states` | `sensor_msgs/msg/JointState` |' in section
    # the other nodes' parts are as before
    old = (ROOT / 'docs' / 'reference' / 'nodes.md').read_text()
    assert page.startswith(old)


def test_it_is_known_as_a_program(python):
    check = 'from robot_identification.nodes import _PROGRAM, NODES; '
    check += "print('mirror' in NODES, bool(_PROGRAM.fullmatch('mirror_node')))"
    assert python('-c', check).split() == ['True', 'True']
