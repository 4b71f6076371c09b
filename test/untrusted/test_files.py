# SPDX-License-Identifier: Apache-2.0
"""Only regular files of a usual size are read, whatever a path names."""

import os
from pathlib import Path
import socket

from hypothesis import given
from hypothesis import strategies as st
import pytest
from robot_identification.data.bag import (
    bag_duration,
    bag_info,
    BagInfo,
    joint_state_messages,
)
from robot_identification.errors import IdentificationError, SettingsError
from robot_identification.estimation.bounds import read_boxes
from robot_identification.estimation.factor_file import read_factor
from robot_identification.model.urdf_files import read_urdf
from robot_identification.options.document import parse_document, parse_scalar, read_document
from robot_identification.results.stored_result import read_result
from robot_identification.untrusted.files import (
    load_yaml,
    MAX_DEPTH,
    open_regular,
    plain_name,
    read_bytes,
    read_text,
    require_regular,
    user_path,
)
import yaml


@pytest.fixture(params=['pipe', 'device', 'socket', 'folder', 'link to a pipe'])
def irregular(request, tmp_path):
    path = tmp_path / 'file'
    if request.param == 'pipe':
        os.mkfifo(path)
    elif request.param == 'device':
        path.symlink_to('/dev/zero')
    elif request.param == 'socket':
        with socket.socket(socket.AF_UNIX) as held:
            held.bind(str(path))
    elif request.param == 'folder':
        path.mkdir()
    else:
        os.mkfifo(tmp_path / 'pipe')
        path.symlink_to(tmp_path / 'pipe')
    return path


@pytest.mark.timeout(20)
def test_what_is_no_regular_file_is_not_opened(irregular):
    for read in (open_regular, require_regular, read_bytes, read_text):
        with pytest.raises(OSError, match='not a regular file'):
            read(irregular)


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ('read', 'name'),
    [
        (read_document, 'file.yaml'),
        (read_result, 'file.yaml'),
        (read_factor, 'file.factor'),
        (read_urdf, 'file.urdf'),
        (read_urdf, 'file.xacro'),
        (read_boxes, 'file.yaml'),
        (lambda path: list(joint_state_messages(path, 'joint_states')), 'file.mcap'),
        (lambda path: list(joint_state_messages(path, 'joint_states')), 'file.db3'),
    ],
)
def test_no_reader_waits_for_a_pipe(tmp_path, read, name):
    path = tmp_path / name
    os.mkfifo(path)
    with pytest.raises(IdentificationError, match='regular file|cannot be read') as caught:
        read(str(path) if read is read_boxes else path)
    assert '\n' not in str(caught.value)


@pytest.mark.timeout(20)
def test_no_reader_waits_for_a_pipe_in_a_bag(tmp_path):
    (tmp_path / 'run_0.mcap').write_bytes(b'')
    os.mkfifo(tmp_path / 'metadata.yaml')
    with pytest.raises(IdentificationError, match='metadata.yaml'):
        list(joint_state_messages(tmp_path, 'joint_states'))
    assert bag_duration(tmp_path) == 0.0


def test_larger_files_than_their_kind_are_not_read(tmp_path):
    path = tmp_path / 'file'
    path.write_bytes(bytes(1001))
    assert len(read_bytes(path, 1001)) == 1001
    with pytest.raises(OSError, match='more than the 0 MB'):
        read_bytes(path, 1000)
    with path.open('r+b') as stream:
        stream.truncate(1 << 40)  # takes no room on the disk
    with pytest.raises(OSError, match='1099512 MB'):
        read_text(path)
    with pytest.raises(SettingsError, match='1099512 MB'):
        read_document(path)


@pytest.mark.parametrize('path', ['a\0b', '~nobody_of_that_name/file', 'a\ud800'])
def test_what_is_no_path_is_named(path):
    with pytest.raises(SettingsError, match='is not a path') as caught:
        user_path(path)
    assert '\0' not in str(caught.value)
    str(caught.value).encode()


def test_paths_of_users(monkeypatch, tmp_path):
    monkeypatch.setenv('HOME', str(tmp_path))
    assert user_path('~/run.csv') == tmp_path / 'run.csv'
    assert str(user_path('../run.csv')) == '../run.csv'


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
    # PyYAML 6.0.4 has a limit of its own, which it meets where it reads ahead
    refused = f'nested deeper than {MAX_DEPTH}|exceeded maximum nesting depth'
    with pytest.raises(yaml.YAMLError, match=refused):
        load_yaml(text)
    with pytest.raises(SettingsError, match=refused):
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


@pytest.mark.parametrize('name', ['', 'run 7', ' run ', 'Ärm-7_(left).b', 'a~', 'x' * 200])
def test_plain_names_stay(name):
    assert plain_name(name, 'the name') == name.strip()


@pytest.mark.parametrize(
    'name',
    [
        *(
            '-rf',
            '~',
            '~root',
            '.hidden',
            '.',
            '..',
            ' -rf',
            'a/b',
            'a\\b',
            '/',
            'x' * 201,
            'ä' * 101,
        ),
        *('a\nb', 'a\rb', 'a\tb', 'a\x1b[2Jb', 'a\0b', '\u202eb', 'run\udcff'),
    ],
)
def test_other_names_are_refused_in_one_line(name):
    with pytest.raises(SettingsError, match="the name is '.*give a plain name") as caught:
        plain_name(name, 'the name', 'key')
    assert str(caught.value).isprintable()
    assert caught.value.key == 'key'
