# SPDX-License-Identifier: Apache-2.0
"""The JSON schema takes what the experiment file's reader takes, and refuses what it refuses."""

from __future__ import annotations

import copy
from pathlib import Path
import re

import pytest
from robot_identification.config.experiment import Experiment
from robot_identification.config.experiment_file import MODELINE, SCHEMA, schema_text
from robot_identification.options.document import override, read_document
from robot_identification.options.fields import json_schema, walk
from robot_identification.version import REPOSITORY

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / 'examples').rglob('experiment*.yaml'))


def test_the_file_is_up_to_date():
    assert SCHEMA.read_text(encoding='utf-8') == schema_text(), (
        'run .venv/bin/robot-identification schema > robot_identification/config/'
        'experiment.schema.json'
    )


def test_every_key_is_in_the_schema_with_its_description():
    schema = json_schema(Experiment, '')
    for path, info in walk(Experiment):
        node = schema
        for part in re.findall(r'[^.\[\]]+|\[\]', path):
            node = resolved(schema, node)
            if part == '[]':
                node = next(n['items'] for n in alternatives(schema, node) if 'items' in n)
            else:
                of = (n for n in alternatives(schema, node) if part in n.get('properties', {}))
                node = next(of)['properties'][part]
        assert node['description'].startswith(info.doc), path


def resolved(schema, node):
    return schema['definitions'][node['$ref'].rsplit('/', 1)[1]] if '$ref' in node else node


def alternatives(schema, node):
    """Iterate over the schemas that a value may follow."""
    node = resolved(schema, node)
    yield node
    for each in node.get('anyOf', ()):
        yield from alternatives(schema, each)


@pytest.mark.parametrize('path', EXAMPLES, ids=lambda p: f'{p.parent.name}-{p.stem}')
def test_examples_are_valid_and_name_the_schema(path):
    jsonschema = pytest.importorskip('jsonschema')
    jsonschema.Draft7Validator.check_schema(json_schema(Experiment, ''))
    jsonschema.validate(read_document(path).content, json_schema(Experiment, ''))


@pytest.mark.parametrize('path', EXAMPLES, ids=lambda p: f'{p.parent.name}-{p.stem}')
def test_the_first_line_of_examples_leads_to_the_schema(path):
    first = path.read_text(encoding='utf-8').splitlines()[0]
    assert first == MODELINE
    address = re.fullmatch(r'# yaml-language-server: \$schema=(\S+)', first)[1]
    assert ROOT / address.removeprefix(f'{REPOSITORY}/raw/main/') == SCHEMA


@pytest.mark.parametrize(
    ('key', 'value'),
    [
        ('robot.effort_kind', 'torque'),
        ('robot.gravity', [0.0, 9.81]),
        ('signals.cutoff', -1.0),
        ('signals.cut_off', 10.0),
        ('data.identification[0].rate', 'fast'),
        ('auto', 'yes'),
    ],
)
def test_what_the_reader_refuses_is_refused(key, value):
    jsonschema = pytest.importorskip('jsonschema')
    content = copy.deepcopy(read_document(ROOT / 'examples/tx40/experiment.yaml').content)
    override(content, {key: value})
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(content, json_schema(Experiment, ''))
