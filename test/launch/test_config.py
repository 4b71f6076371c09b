# SPDX-License-Identifier: Apache-2.0
"""The parameter files: each key is a parameter of its node, and has the value that is written."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / 'config').glob('*.yaml'))


def sections(path):
    """Return node name -> parameters by dotted name."""
    document = yaml.safe_load(path.read_text())
    return {
        pattern.removeprefix('/**/'): flat(section['ros__parameters'])
        for pattern, section in document.items()
    }


def flat(tree, prefix=''):
    values = {}
    for key, value in tree.items():
        name = f'{prefix}{key}'
        values.update(flat(value, f'{name}.') if isinstance(value, dict) else {name: value})
    return values


CASES = [(path, node) for path in FILES for node in sections(path)]


def test_there_is_a_file_for_each_launch_file_that_names_one():
    named = {'simulation.yaml', 'identification.yaml'}
    assert {path.name for path in FILES} == named


@pytest.mark.parametrize('path', FILES, ids=lambda path: path.stem)
def test_every_section_is_that_of_a_node_in_any_namespace(path):
    for pattern in yaml.safe_load(path.read_text()):
        prefix, _, node = pattern.rpartition('/')
        assert prefix == '/**'
        assert (ROOT / 'robot_identification' / 'nodes' / f'{node}_node.py').is_file()


@pytest.mark.parametrize(('path', 'node'), CASES, ids=[f'{p.stem}-{n}' for p, n in CASES])
def test_the_node_takes_every_parameter(ros, path, node):
    process = ros.start(node, '--params-file', str(path), namespace='/cell')
    declared = ros.get_parameters(f'/cell/{node}')
    for name, value in sections(path)[node].items():
        assert name in declared, f'{path.name}: {node} has no parameter {name}'
        found = declared[name]
        assert (list(found) if isinstance(value, list) else found) == value
    assert process.stop() == 0
    assert 'Traceback' not in process.output
