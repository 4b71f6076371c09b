# SPDX-License-Identifier: Apache-2.0
"""The page of the nodes against the nodes."""

from __future__ import annotations

from pathlib import Path
import re
import subprocess
import sys

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / 'docs' / 'ros.md'
COMMAND = [sys.executable, '-m', 'robot_identification.nodes.reference']


def test_the_page_of_the_nodes_is_up_to_date(ros, tmp_path):
    fresh = tmp_path / 'ros.md'
    fresh.write_text(PAGE.read_text())
    subprocess.run([*COMMAND, str(fresh)], cwd=ROOT, check=True)
    assert fresh.read_text() == PAGE.read_text(), f'run: {" ".join(COMMAND)} docs/ros.md'


def test_descriptions_begin_with_a_capital_and_end_without_a_full_stop():
    page, _, _ = PAGE.read_text().partition('<!-- made from messages -->')
    nodes = '\n'.join(re.findall(r'<!-- made from .*?<!-- end of', page, re.DOTALL))
    parameters = re.findall(
        r'^\| `([\w.]+)` \| .* \| (.*?)(?: \[[^\]]*\])? \|$', nodes, re.MULTILINE
    )
    interfaces = re.findall(r'^\| \w+ \| `([~/\w]+)` \| .* \| (.*?) \|$', nodes, re.MULTILINE)
    assert len(parameters) > 50
    assert len(interfaces) > 30
    for name, words in parameters + interfaces:
        assert words[0].isupper(), name
        assert not words.endswith('.'), name


def test_an_interface_without_a_line_and_a_line_without_an_interface_are_told():
    pytest.importorskip('rclpy')
    from robot_identification.nodes.interfaces import Interface, Role
    from robot_identification.nodes.reference import interface_table

    found = [
        Interface(Role.PUBLISHES, '~/status', '', 'a/msg/Status', 'reliable, volatile, 1'),
        Interface(Role.SUBSCRIBES, 'joint_states', '', 'a/msg/State', 'reliable, volatile, 1'),
        Interface(Role.SERVICE, '~/start', '', 'a/srv/Start'),
        Interface(Role.SERVICE, '~/stop', '', 'a/srv/Stop'),
    ]
    assert interface_table('recorder', found).count('\n') == 5
    with pytest.raises(ValueError, match="'~/pause' \\(service\\)"):
        interface_table('recorder', [*found, Interface(Role.SERVICE, '~/pause', '', 'a/srv/P')])
    with pytest.raises(ValueError, match="'recorder' has no '~/stop'"):
        interface_table('recorder', found[:3])
    # a topic that is read is not a topic that is written
    turned = Interface(Role.SUBSCRIBES, '~/status', '', 'a/msg/Status')
    with pytest.raises(ValueError, match="has no '~/status' that it publishes"):
        interface_table('recorder', [turned, *found[1:]])


def test_a_definition_without_comments_is_refused(tmp_path):
    pytest.importorskip('rosidl_adapter')
    from robot_identification.nodes.reference_messages import message_reference

    (tmp_path / 'srv').mkdir()
    path = tmp_path / 'srv' / 'Ask.srv'
    path.write_text(
        '# Ask.\n\n# What [m].\nfloat64 x\n---\n# It was done.\nbool done\nbool told\n'
    )
    text = message_reference(tmp_path)
    assert '`robot_identification_msgs/srv/Ask`: Ask.' in text
    assert '| `x` | float64 | What [m] |' in text
    assert '| `done` | bool | It was done. |' in text
    assert '| `told` | bool | It was done. |' in text
    path.write_text('# Ask.\n\nfloat64 x\n---\n# It was done.\nbool done\n')
    with pytest.raises(ValueError, match=r"'x' in Ask\.srv has no comment"):
        message_reference(tmp_path)
