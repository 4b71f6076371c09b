# SPDX-License-Identifier: Apache-2.0
"""Layouts for Foxglove and PlotJuggler: every topic and field is one that the nodes publish."""

from __future__ import annotations

from importlib import import_module
import json
from pathlib import Path
import re
import xml.etree.ElementTree as ElementTree

import pytest
from robot_identification.exports.robot_export import plotjuggler_layout

pytest.importorskip('rclpy', reason='needs ROS 2 (rclpy)')

ROOT = Path(__file__).resolve().parents[2]
FOXGLOVE, PLOTJUGGLER = (ROOT / 'config' / name for name in ('foxglove.json', 'plotjuggler.xml'))


def get_message(kind):
    """Return the class of a type, as ``std_msgs/msg/Bool``."""
    package, _, name = kind.split('/')
    return getattr(import_module(f'{package}.msg'), name)


def published():
    """Return the types of the topics by full name, from the page that is made from the nodes."""
    rows = re.findall(
        r'<!-- made from (\w+)|^\| publishes \| `(\S+)` \| \[?`(\S+)`',
        (ROOT / 'docs' / 'reference' / 'nodes.md').read_text(),
        re.MULTILINE,
    )
    topics, node = {}, ''
    for begun, name, kind in rows:
        node = begun or node
        if name:
            topics['/' + name.replace('~', node).lstrip('/')] = get_message(kind)
    return topics


def require_field(message, fields):
    """Follow names of fields, with or without an index, down to a number or a text."""
    for field in fields:
        name, index = re.fullmatch(r'(\w+)(\[[^\]]+\])?', field).groups()
        types = message.get_fields_and_field_types()
        assert name in types, f'{message.__name__} has no {name}'
        element = re.fullmatch(r'sequence<(.+)>', types[name])
        assert (element is None) == (index is None), f'{name} of {message.__name__}: {index}'
        kind = element[1] if element else types[name]
        if '/' in kind:
            package, _, name = kind.partition('/')
            message = get_message(f'{package}/msg/{name}')


def strings(value):
    """Iterate over all texts in a document."""
    if isinstance(value, dict):
        for each in value.values():
            yield from strings(each)
    elif isinstance(value, list):
        for each in value:
            yield from strings(each)
    elif isinstance(value, str):
        yield value


def test_foxglove_shows_what_the_nodes_publish():
    document, topics = json.loads(FOXGLOVE.read_text()), published()
    paths = {text for text in strings(document['configById']) if text.startswith('/')}
    for path in paths:
        topic, *fields = path.split('.')
        assert topic in topics, path
        require_field(topics[topic], fields)
        for variable in re.findall(r'\$(\w+)', path):
            assert variable in document['globalVariables']
    require_all({path.partition('.')[0] for path in paths})


def test_foxglove_has_a_place_for_every_panel():
    document = json.loads(FOXGLOVE.read_text())
    panels = document['configById']
    tabs = [tab['layout'] for panel in panels.values() for tab in panel.get('tabs', ())]
    places = [text for text in strings([document['layout'], *tabs]) if '!' in text]
    assert sorted(places) == sorted(panels)


def test_plotjuggler_shows_what_the_nodes_publish_of_any_robot():
    joints = ('pan & tilt', 'elbow', 'slide')
    root, topics = ElementTree.fromstring(plotjuggler_layout(joints).encode()), published()
    # what PlotJuggler's ROS plugin reads
    selected = set(root.find('.//selected_topics').get('value').split(';'))
    shown, named = set(), set()
    for curve in root.iter('curve'):
        name = curve.get('name')
        (topic,) = (topic for topic in topics if name.startswith(f'{topic}/'))
        fields = name.removeprefix(f'{topic}/').split('/')
        if topics[topic].__name__ == 'JointState':  # by the joint's name, without an index
            named.add(fields[0])
            fields = [f'{fields[1]}[0]']
        require_field(topics[topic], fields)
        shown.add(topic)
    assert shown == selected
    assert named == {*joints}
    require_all(selected)
    for splitter in root.iter('DockSplitter'):  # counts that PlotJuggler indexes by
        count = int(splitter.get('count'))
        assert count == len(splitter.findall('DockArea')) == len(splitter.get('sizes').split(';'))


def test_plotjuggler_layout_in_config_is_that_of_the_demonstration():
    assert PLOTJUGGLER.read_text() == plotjuggler_layout([f'joint_{k}' for k in range(1, 7)])


def require_all(topics):
    """Live fit, parameters with their uncertainty, external efforts, the recorder's state."""
    assert topics >= {
        '/identification/fit',
        '/identification/online/parameters',
        '/identification/parameters',
        '/observer/external_effort',
        '/observer/external_effort_threshold',
        '/recorder/status',
    }
