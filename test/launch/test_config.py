# SPDX-License-Identifier: Apache-2.0
"""The parameter files: each key is a parameter of its node, and has the value that is written."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
CONTROLLERS = 'demo_arm_controllers.yaml'
"""Not for nodes of ours: test_gazebo.py holds it against what it configures."""

FILES = sorted(path for path in (ROOT / 'config').glob('*.yaml') if path.name != CONTROLLERS)


def sections(path):
    """Return node name -> parameters by dotted name; those for all nodes are in each."""
    document = yaml.safe_load(path.read_text())
    parameters = {
        pattern: flat(section['ros__parameters']) for pattern, section in document.items()
    }
    common = parameters.pop('/**', {})
    return {pattern.removeprefix('/**/'): {**common, **own} for pattern, own in parameters.items()}


def flat(tree, prefix=''):
    values = {}
    for key, value in tree.items():
        name = f'{prefix}{key}'
        values.update(flat(value, f'{name}.') if isinstance(value, dict) else {name: value})
    return values


def test_there_is_a_file_for_each_launch_file_that_names_one():
    named = {'gazebo.yaml', 'identification.yaml', 'simulation.yaml'}
    assert {path.name for path in FILES} == named


@pytest.mark.parametrize('path', FILES, ids=lambda path: path.stem)
def test_every_section_is_that_of_a_node_in_any_namespace(path):
    for pattern in yaml.safe_load(path.read_text()):
        if pattern == '/**':
            continue
        prefix, _, node = pattern.rpartition('/')
        assert prefix == '/**'
        assert (ROOT / 'robot_identification' / 'nodes' / f'{node}_node.py').is_file()


@pytest.mark.parametrize('path', FILES, ids=lambda path: path.stem)
def test_the_nodes_take_every_parameter(ros, path):
    # all at once: what takes time is that they load their libraries
    processes = {
        node: ros.start(node, '--params-file', str(path), namespace='/cell', wait=False)
        for node in sections(path)
    }
    for node, process in processes.items():
        ros.wait_for_node(f'/cell/{node}', process, timeout=60.0)
        declared = ros.get_parameters(f'/cell/{node}')
        for name, value in sections(path)[node].items():
            if (node, name) == ('recorder', 'gravity'):
                continue  # for all that have a model of the robot
            assert name in declared, f'{path.name}: {node} has no parameter {name}'
            found = declared[name]
            assert (list(found) if isinstance(value, list) else found) == value
    for process in processes.values():
        assert process.stop() == 0
        assert 'Traceback' not in process.output
