# SPDX-License-Identifier: Apache-2.0
"""YAML within limits: the same data as PyYAML's safe loader, and one error for all else."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
import pytest
from robot_identification.data.bag import (
    bag_duration,
    bag_info,
    BagInfo,
)
from robot_identification.errors import IdentificationError, SettingsError
from robot_identification.estimation.bounds import read_boxes
from robot_identification.options.document import parse_document, parse_scalar
from robot_identification.results.result import read_result
from robot_identification.untrusted.files import load_yaml, MAX_DEPTH
import yaml

scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text(max_size=8)
data = st.recursive(
    scalars | st.floats(allow_nan=False),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=30,
)


@given(data)
def test_sound_yaml_is_read_as_by_the_safe_loader(value):
    text = yaml.safe_dump(value, allow_unicode=True)
    assert load_yaml(text) == yaml.safe_load(text)


def test_aliases_and_merges_of_a_usual_size_are_read():
    text = 'a: &a {x: 1, y: [1, 2]}\nb: {<<: *a, y: 3}\nc: [*a, *a]\n'
    assert load_yaml(text) == yaml.safe_load(text)
    assert parse_document(text).content == yaml.safe_load(text)


def nested(lines, opening):
    previous = 'a'
    text = '&a0 x' if opening is None else f'a0: &a0 {opening}\n'
    for i in range(1, lines):
        text += f'a{i}: &a{i} [{", ".join(9 * [f"*{previous}{i - 1}"])}]\n'
    return text


DEEP = {
    'lists': '[' * 100_000,
    'mappings': '{a: ' * 50_000,
    'blocks': '- ' * 100_000,
    'keys': '? ' * 50_000,
    'closed': '[' * 5000 + ']' * 5000,
}
LAUGHS = {
    'lists': nested(10, '[x, x, x]'),
    'merges': nested(10, '{x: 1}').replace('[*', '{<<: [*').replace(']\n', ']}\n'),
}


@pytest.mark.parametrize('text', DEEP.values(), ids=DEEP)
def test_deep_nesting_is_refused(text):
    with pytest.raises(yaml.YAMLError, match=f'nested deeper than {MAX_DEPTH}'):
        load_yaml(text)
    with pytest.raises(SettingsError, match='nested deeper'):
        parse_document(text)
    with pytest.raises(SettingsError, match='not YAML'):
        parse_scalar(text, 'key')


@pytest.mark.parametrize('text', LAUGHS.values(), ids=LAUGHS)
def test_aliases_that_expand_are_refused(text):
    with pytest.raises(yaml.YAMLError, match='aliases stand for more'):
        load_yaml(text)
    with pytest.raises(SettingsError, match='aliases stand for more'):
        parse_document(text)


@pytest.mark.parametrize('text', ['&a [*a]', 'x: &a {b: [1, *a]}'])
def test_what_contains_itself_is_refused(text):
    with pytest.raises(yaml.YAMLError, match='contains itself'):
        load_yaml(text)
    with pytest.raises(SettingsError):
        parse_scalar(text, 'key')


@pytest.mark.parametrize(
    'text',
    [
        '9' * 5000,
        '0x' + 'f' * 5000,
        '-' + '1' * 41,
        '2001-99-99',
        '!!int x',
        '!!int ""',
        '!!float ""',
        '!!bool x',
        '!!timestamp x',
        '!!binary a',
        '!!python/object/apply:os.system [x]',
        '!!map x',
        '\0',
        '? [a]\n: b',
    ],
)
def test_what_does_not_fit_is_an_error_of_yaml(text):
    with pytest.raises(yaml.YAMLError):
        load_yaml(text)


@pytest.mark.parametrize('text', ['9' * 5000, '0x' + 'f' * 5000, '!!int x', '!!binary a', 'a: \0'])
def test_settings_name_the_line_of_what_does_not_fit(text):
    with pytest.raises(SettingsError, match='^x.yaml.*not YAML'):
        parse_document(text, 'x.yaml')


@pytest.mark.parametrize('text', [*DEEP.values(), *LAUGHS.values(), '&a [*a]', '!!int x', '\0'])
def test_no_reader_is_felled(tmp_path, text):
    path = tmp_path / 'metadata.yaml'
    path.write_text(text)
    for read in (read_result, lambda file: read_boxes(str(file))):
        with pytest.raises(IdentificationError) as caught:
            read(path)
        assert '\n' not in str(caught.value)
    # who reads the bag's messages says what is wrong
    assert bag_info(tmp_path) == BagInfo()
    assert bag_duration(Path(tmp_path)) == 0.0
