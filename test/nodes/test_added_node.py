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

SECTION = '\n## mirror\n\n<!-- made from mirror -->\n<!-- end of mirror -->\n'

ENTRY_POINTS = """
from distutils.core import run_setup
print(*run_setup('setup.py', stop_after='init').entry_points['console_scripts'], sep='\\n')
"""


PAGE = """
import sys
sys.path.insert(0, sys.argv[1])
from node_interfaces import _publishes, _subscribes, INTERFACES
INTERFACES['mirror'] = (
    _subscribes('joint_states', 'What is published again'),
    _publishes('~/joint_states', 'The joint states that it receives'),
)
import nodes_page
nodes_page.NODES = ('mirror',)  # to make all others takes half a minute
sys.exit(nodes_page.main(['docs/reference']))
"""


@pytest.fixture(scope='module')
def place(tmp_path_factory):
    """Return a folder with the sources, as links, and the node among them."""
    place = tmp_path_factory.mktemp('mirror')
    left = {'robot_identification', 'docs', 'build', 'log', '.git', 'setup.py'}
    shutil.copy(ROOT / 'setup.py', place)  # which goes by its own place
    _link(place, (path for path in ROOT.iterdir() if path.name not in left))
    package = ROOT / 'robot_identification'
    nodes = place / 'robot_identification' / 'nodes'
    nodes.mkdir(parents=True)
    _link(nodes.parent, (path for path in package.iterdir() if path.name != 'nodes'))
    _link(nodes, (package / 'nodes').iterdir())
    (nodes / 'mirror_node.py').write_text(NODE)
    reference = place / 'docs' / 'reference'
    reference.mkdir(parents=True)
    for name, more in (('nodes.md', SECTION), ('messages.md', '')):
        page = (ROOT / 'docs' / 'reference' / name).read_text()
        (reference / name).write_text(page + more)
    return place


def _link(folder, paths):
    for path in paths:
        if not path.name.startswith('__pyc'):
            (folder / path.name).symlink_to(path)


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
    python('-c', PAGE, ROOT / 'scripts')
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
