# SPDX-License-Identifier: Apache-2.0
"""
The tables of the nodes' parameters, made from the nodes themselves.

``python -m robot_identification.nodes.reference docs/ros.md`` brings the page up to date; with
``--check`` it only says whether it is.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
import os
from pathlib import Path
import re
import sys

import rclpy
from rclpy.node import Node
from rclpy.parameter import Parameter

from .excitation_node import ExcitationNode
from .identification_node import IdentificationNode
from .recorder_node import RecorderNode
from .regressor_node import RegressorNode
from .simulation_node import SimulationNode

NODES: dict[str, Callable[[], Node]] = {
    'simulation': SimulationNode,
    'excitation': ExcitationNode,
    'recorder': RecorderNode,
    'regressor': RegressorNode,
    'identification': IdentificationNode,
}
"""What makes each node, by its name."""

_FOREIGN = re.compile(r'use_sim_time|start_type_description_service|qos_overrides\..*')
"""Parameters that every ROS node has."""


def parameter_table(node: Node) -> str:
    """Return a Markdown table of a node's parameters, with their defaults."""
    rows = ['| parameter | default | meaning |', '|---|---|---|']
    for name, parameter in node.get_parameters_by_prefix('').items():
        if _FOREIGN.fullmatch(name):
            continue
        meaning = node.describe_parameter(name).description.replace('|', '\\|')
        rows.append(f'| `{name}` | {_value(parameter)} | {meaning} |')
    return '\n'.join(rows)


def updated(page: str) -> str:
    """
    Return a page with the tables between its marks made anew.

    Raises
    ------
    ValueError
        where the page has no marks for one of the nodes.

    """
    for name, make in NODES.items():
        begin, end = f'<!-- parameters of {name} -->', f'<!-- end of {name} -->'
        before, found, rest = page.partition(begin)
        _, closed, after = rest.partition(end)
        if not found or not closed:
            raise ValueError(f'the page has no lines {begin} and {end}')
        node = make()
        try:
            page = f'{before}{begin}\n\n{parameter_table(node)}\n\n{end}{after}'
        finally:
            node.destroy_node()
    return page


def main(arguments: list[str] | None = None) -> int:
    """Bring a page up to date, or check it; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or '').strip().split('\n')[0])
    parser.add_argument('page', type=Path, help='Markdown file with the marks')
    parser.add_argument('--check', action='store_true', help='change nothing')
    options = parser.parse_args(arguments)
    os.environ.setdefault('ROS_AUTOMATIC_DISCOVERY_RANGE', 'OFF')
    rclpy.init(args=['--ros-args', '--log-level', 'error'])
    try:
        old = options.page.read_text(encoding='utf-8')
        new = updated(old)
    finally:
        rclpy.try_shutdown()
    if options.check:
        return 0 if new == old else 1
    options.page.write_text(new, encoding='utf-8')
    return 0


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
