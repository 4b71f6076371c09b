# SPDX-License-Identifier: Apache-2.0
"""The pages of the nodes and the messages against the nodes."""

from __future__ import annotations

from pathlib import Path
import re
import subprocess
import sys

from access_policy import allowed, used
import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / 'docs' / 'reference'
PAGE, MESSAGES = FOLDER / 'nodes.md', FOLDER / 'messages.md'
GUIDE = ROOT / 'docs' / 'how_to' / 'ros.md'
COMMAND = [sys.executable, str(ROOT / 'scripts' / 'nodes_page.py')]


def test_the_pages_of_nodes_and_messages_are_up_to_date(ros, tmp_path):
    for page in (PAGE, MESSAGES):
        (tmp_path / page.name).write_text(page.read_text())
    subprocess.run([*COMMAND, str(tmp_path)], cwd=ROOT, check=True)
    for page in (PAGE, MESSAGES):
        fresh = (tmp_path / page.name).read_text()
        assert fresh == page.read_text(), f'run: {" ".join(COMMAND)} {FOLDER}'


def test_descriptions_begin_with_a_capital_and_end_without_a_full_stop():
    nodes = '\n'.join(re.findall(r'<!-- made from .*?<!-- end of', PAGE.read_text(), re.DOTALL))
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
    from node_interfaces import Interface, Role
    from nodes_page import interface_table

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
    from messages_page import message_reference

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


def seen(ros, node):
    """Return {(role, name): type} of a running node, as other processes see it over DDS."""
    from rclpy.action import get_action_server_names_and_types_by_node

    place, found = (node, '/'), {}
    for role, entries in (
        ('publishes', ros.node.get_publisher_names_and_types_by_node(*place)),
        ('subscribes', ros.node.get_subscriber_names_and_types_by_node(*place)),
        ('service', ros.node.get_service_names_and_types_by_node(*place)),
        ('action', get_action_server_names_and_types_by_node(ros.node, *place)),
    ):
        for name, (kind, *_) in entries:
            found[role, name] = kind
    return found


ON_DEMAND = {
    ('simulation', 'publishes', '/motor_states'),
    ('excitation', 'subscribes', '/recorder/status'),
}
"""What the nodes have with other parameters, or at work only."""

OF_EVERY_NODE = re.compile(
    r'/rosout|/parameter_events|.*/_action/.*|/clock|/\w+/'
    r'(get_type_description|(describe|get|list|set)_parameters(_atomically)?|get_parameter_types)'
)


def test_what_other_processes_see_of_the_nodes_is_on_the_page(ros, tmp_path):
    from robot_identification_msgs.msg import Regressor

    urdf = ROOT / 'urdf' / 'szabo_3r.urdf'
    output = {'output': str(tmp_path)}
    nodes = {
        'simulation': {'robot_description': str(urdf), 'rate': 100.0},
        'recorder': output,
        'regressor': None,
        'excitation': None,
        'observer': None,
        'identification': {'online.enabled': True, **output},
    }
    for node, parameters in nodes.items():
        ros.start(node, parameters=parameters, wait=False)
    for node in nodes:
        ros.wait_for_node(f'/{node}')
    ros.subscribe(Regressor, '/regressor/regressor', 10)
    ros.wait_for_node('/identification_online', timeout=60.0)
    rows = re.findall(
        r'^\| (publishes|subscribes|service|action) \| `(\S+)` \| \[?`(\S+)`|'
        r'<!-- made from (\w+)',
        PAGE.read_text(),
        re.MULTILINE,
    )
    described, node = {}, ''
    for role, name, kind, begun in rows:
        node = begun or node
        if role:
            own = re.sub('^~', f'/{node}', name)
            described.setdefault(node, {})[role, f'/{own.lstrip("/")}'] = kind

    def found(node):
        live = seen(ros, f'{node}_online') if node == 'identification' else {}
        everything = {**seen(ros, node), **live}
        return {k: v for k, v in everything.items() if not OF_EVERY_NODE.fullmatch(k[1])}

    ros.wait_until(
        lambda: (
            ('subscribes', '/joint_states') in found('regressor')
            and ('subscribes', '/joint_states') in found('identification')
        ),
        what='the live regressor and the live identification',
    )
    for node in nodes:
        for place, kind in found(node).items():
            assert described[node].get(place) == kind, f'{node}: {place}'
        named = {k for k in described[node] if not OF_EVERY_NODE.fullmatch(k[1])}
        missing = {(node, *place) for place in named - set(found(node))}
        assert missing <= ON_DEMAND
        may = allowed()[f'/robot_identification/{node}']
        children = ['identification_online'] if node == 'identification' else []
        for each in (node, *children):
            denied = used(ros, each) - may
            assert not denied, f'security/policy.xml denies {each}: {denied}'


def test_the_page_names_the_diagnostics_that_there_are():
    told = set(re.findall(r'`<node>: (\w+)`', PAGE.read_text()))
    sources = (ROOT / 'robot_identification' / 'nodes').rglob('*.py')
    made = {
        name
        for source in sources
        for name in re.findall(r"diagnostic_status\(node, '(\w+)'", source.read_text())
    }
    assert told == made


def test_the_guide_names_error_codes_that_there_are():
    codes = set(re.findall(r'^\| `([A-Z_]+)` \| \d+ \|', MESSAGES.read_text(), re.MULTILINE))
    rows = GUIDE.read_text().partition('## When something is wrong')[2].splitlines()
    named = {word for row in rows for word in re.findall(r'`([A-Z]+(?:_[A-Z]+)*)`', row[:60])}
    assert len(named) > 10
    assert named <= codes
