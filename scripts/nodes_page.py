# SPDX-License-Identifier: Apache-2.0
"""
Pages of the nodes and of the messages, made from the nodes and the definitions themselves.

``python scripts/nodes_page.py docs/reference`` brings ``nodes.md`` and ``messages.md`` in that
folder up to date; with ``--check`` it only says whether they are.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
import contextlib
from importlib import import_module
from multiprocessing import Pipe
import os
from pathlib import Path
import re
import sys
import textwrap
import time

from messages_page import anchor, message_reference
from node_interfaces import Interface, INTERFACES, Role
import rclpy
from rclpy.action import (
    get_action_client_names_and_types_by_node,
    get_action_server_names_and_types_by_node,
)
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.qos import DurabilityPolicy, QoSProfile
from robot_identification.config.experiment import Experiment
from robot_identification.config.problem import IdentificationProblem
from robot_identification.model.robot import Robot
from robot_identification.nodes import NODES
from robot_identification.nodes.online_process import OnlineNode
from robot_identification.nodes.simulation_node import SimulationNode
from robot_identification.online.follower import Follower
from robot_identification.online.settings import OnlineOptions, OnlineTask
from robot_identification.options.fields import walk
from robot_identification.support.processes import use_normal_priority

VARIANTS: dict[str, tuple[tuple[str, ...], ...]] = {
    'simulation': (('elastic.enabled:=true', 'elastic.coupling:=false', 'substeps:=10'),),
}
"""Parameters with which a node has more topics, services or actions than without."""

_NAMESPACE = '/namespace'
"""Where the nodes are made, so that a relative name can be told from an absolute one."""

_ROBOT = 'package://robot_identification/urdf/demo_arm.urdf'

_FOREIGN = re.compile(r'use_sim_time|start_type_description_service|qos_overrides\..*')
"""Parameters that every ROS node has."""

_SHARED = 'Keys of the [experiment file](experiment.md), with its meanings and defaults:'
"""What comes before the parameters that have no row of their own."""

_FOREIGN_TYPES = ('rcl_interfaces/', 'type_description_interfaces/')
"""Beginnings of the types of services and topics that every ROS node has."""


def parameter_table(node: Node) -> str:
    """
    Return a Markdown table of a node's parameters, with their defaults.

    Those that are keys of the experiment file are named below it: their page has the rest.
    """
    rows, shared = ['| parameter | default | meaning |', '|---|---|---|'], []
    keys = {key: info.doc for key, info in walk(Experiment)}
    for name, parameter in node.get_parameters_by_prefix('').items():
        description = node.describe_parameter(name).description
        if description.startswith(keys.get(name, '\n')):
            shared.append(f'`{name}`')
        elif not _FOREIGN.fullmatch(name):
            rows.append(f'| `{name}` | {_value(parameter)} | {_cell(description)} |')
    if shared:
        rows += ['', _SHARED, *textwrap.wrap(', '.join(shared), 110, break_on_hyphens=False)]
    return '\n'.join(rows)


def interface_table(name: str, found: Iterable[Interface]) -> str:
    """
    Return a Markdown table of a node's topics, services and actions.

    Parameters
    ----------
    name:
        Of the node.
    found:
        What the node has, without meanings.

    Raises
    ------
    ValueError
        naming what is in the node and not in `INTERFACES`, or the other way round.

    """
    types = {(one.role, one.name): one for one in found}
    rows = ['| | name | type | QoS | |', '|---|---|---|---|---|']
    for known in INTERFACES[name]:
        one = types.pop((known.role, known.name), known)
        if not one.kind:
            raise ValueError(f"the node '{name}' has no '{known.name}' that it {known.role.value}")
        meaning = _cell(known.meaning)
        rows.append(
            f'| {one.role.value} | `{one.name}` | {anchor(one.kind)} | {one.qos} | {meaning} |'
        )
    if types:
        rest = ', '.join(f"'{one}' ({role.value})" for role, one in types)
        raise ValueError(f"scripts/node_interfaces.py needs a line for these of '{name}': {rest}")
    return '\n'.join(rows)


def interfaces_of(node: Node, own: str = '') -> Iterator[Interface]:
    """
    Iterate over what a node has, names as in the code.

    Parameters
    ----------
    node:
        Made, not spun.
    own:
        Full name for which ``~`` stands; empty for the node's.

    """
    own, space = own or node.get_fully_qualified_name(), node.get_namespace()
    place = (node.get_name(), space)
    qos = {
        one.topic_name: _qos(one.qos_profile) for one in (*node.publishers, *node.subscriptions)
    }
    # the node's own part of the graph is known without any traffic
    for role, entries in (
        (Role.PUBLISHES, node.get_publisher_names_and_types_by_node(*place)),
        (Role.SUBSCRIBES, node.get_subscriber_names_and_types_by_node(*place)),
        (Role.SERVICE, node.get_service_names_and_types_by_node(*place)),
        (Role.CALLS, node.get_client_names_and_types_by_node(*place)),
        (Role.ACTION, get_action_server_names_and_types_by_node(node, *place)),
        (Role.CALLS, get_action_client_names_and_types_by_node(node, *place)),
    ):
        for name, (kind, *_) in entries:
            foreign = kind.startswith(_FOREIGN_TYPES) and name.count('/') <= own.count('/') + 1
            if not foreign and '/_action/' not in name:
                yield Interface(role, _short(name, own, space), '', kind, qos.get(name, ''))


def node_reference(name: str) -> str:
    """Return the tables of a node: its interfaces and its parameters."""
    with _made(name) as node:
        own, found = node.get_fully_qualified_name(), set(interfaces_of(node))
        parameters = parameter_table(node)
    for variant in VARIANTS.get(name, ()):
        with _made(name, *variant) as node:
            found.update(interfaces_of(node))
    if name == 'regressor':
        found |= _with_a_listener(name, f'{own}/regressor')
    if name == 'identification':
        found |= _of_the_live_process(own)
    return f'{interface_table(name, found)}\n\n{parameters}'


def updated(page: str, messages: str) -> tuple[str, str]:
    """
    Return both pages with what stands between their marks made again.

    Raises
    ------
    ValueError
        where a page has no marks for a part, or something has no description.

    """
    for name in NODES:
        page = _replaced(page, name, node_reference(name))
    return page, _replaced(messages, 'messages', message_reference())


def main(arguments: list[str] | None = None) -> int:
    """Bring the pages up to date, or check them; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or '').strip().split('\n')[0])
    parser.add_argument('folder', type=Path, help='Folder of the pages with the marks')
    parser.add_argument('--check', action='store_true', help='change nothing')
    options = parser.parse_args(arguments)
    # a node of the same name that was made before would be found in its place
    os.environ['ROS_AUTOMATIC_DISCOVERY_RANGE'] = 'OFF'
    pages = [options.folder / name for name in ('nodes.md', 'messages.md')]
    old = tuple(page.read_text(encoding='utf-8') for page in pages)
    try:
        new = updated(*old)
    except ValueError as error:
        sys.stderr.write(f'error: {error}\n')
        return 2
    if options.check:
        return 0 if new == old else 1
    for page, text in zip(pages, new, strict=True):
        page.write_text(text, encoding='utf-8')
    return 0


@contextlib.contextmanager
def _made(name: str, *parameters: str) -> Iterator[Node]:
    """Make a node, with parameters ``<name>:=<value>``, for a while."""
    words = ['--ros-args', '-r', f'__ns:={_NAMESPACE}', '--log-level', 'fatal']
    rclpy.init(args=[*words, *(word for p in parameters for word in ('-p', p))])
    try:
        module = import_module(f'robot_identification.nodes.{name}_node')
        node: Node = getattr(module, f'{name.title()}Node')()
        # the recorder's real-time priority is not for the nodes that are made after it
        use_normal_priority()
        try:
            yield node
        finally:
            if isinstance(node, SimulationNode):
                node.on_shutdown()  # its physics must not publish any more
            node.destroy_node()
    finally:
        rclpy.try_shutdown()


def _with_a_listener(name: str, topic: str) -> set[Interface]:
    """Return what a node has once somebody subscribes to its topic."""
    with _made(name) as node:
        (kind,) = (p.msg_type for p in node.publishers if p.topic_name == topic)
        listener = rclpy.create_node('listener')
        listener.create_subscription(kind, topic, print, 1)
        end, before = time.monotonic() + 5.0, len(list(node.subscriptions))
        while len(list(node.subscriptions)) == before and time.monotonic() < end:
            rclpy.spin_once(node, timeout_sec=0.1)
        listener.destroy_node()
        return set(interfaces_of(node))


def _of_the_live_process(own: str) -> set[Interface]:
    """Return what the process that follows the robot has, in the name of its node."""
    task = OnlineTask(
        problem=IdentificationProblem(Robot.from_urdf(_ROBOT)),
        options=OnlineOptions(),
        node=own,
        joint_states=f'{_NAMESPACE}/joint_states',
        parameters=f'{own}/online/parameters',
        status=f'{own}/online/status',
        system_stamps=False,
    )
    rclpy.init(args=['--ros-args', '--log-level', 'fatal'])
    try:
        node = OnlineNode(
            task, Pipe()[0], Follower(task.problem, task.options, task.system_stamps), ''
        )
        try:
            return set(interfaces_of(node, own))
        finally:
            node.destroy_node()
    finally:
        rclpy.try_shutdown()


def _replaced(page: str, name: str, text: str) -> str:
    begin, end = f'<!-- made from {name} -->', f'<!-- end of {name} -->'
    before, found, rest = page.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f'the page has no lines {begin} and {end}')
    return f'{before}{begin}\n\n{text}\n\n{end}{after}'


def _short(name: str, own: str, namespace: str) -> str:
    """Return a full name as it stands in the code: private, relative or absolute."""
    if name.startswith(f'{own}/'):
        return f'~{name[len(own) :]}'
    start = f'{namespace.rstrip("/")}/'
    return name[len(start) :] if name.startswith(start) else name


def _qos(profile: QoSProfile) -> str:
    latched = profile.durability is DurabilityPolicy.TRANSIENT_LOCAL
    durability = 'latched' if latched else 'volatile'
    return f'{profile.reliability.name.lower().replace("_", " ")}, {durability}, {profile.depth}'


def _cell(text: str) -> str:
    return text.replace('|', '\\|')


def _value(parameter: Parameter) -> str:
    value = parameter.value
    if isinstance(value, str):
        return f'`{value}`' if value else "`''`"
    if isinstance(value, bool):
        return f'`{str(value).lower()}`'
    if value is None or isinstance(value, (int, float)):
        return f'`{value}`'
    return f'`[{", ".join(str(item) for item in value)}]`'


if __name__ == '__main__':
    sys.exit(main())
