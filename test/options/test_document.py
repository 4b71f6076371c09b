# SPDX-License-Identifier: Apache-2.0
"""The strict YAML reader: scalars, lines, and each kind of error as one line."""

import math

import pytest
from robot_identification.errors import SettingsError
from robot_identification.options.document import (
    Document,
    parent,
    parse_document,
    parse_scalar,
    read_document,
)


@pytest.mark.parametrize(
    ('text', 'value'),
    [
        ('1e-3', 1e-3),
        ('1e3', 1000.0),
        ('-.5', -0.5),
        ('5.', 5.0),
        ('12', 12),
        ('-12', -12),
        ('+7', 7),
        ('010', 10),
        ('0o10', 8),
        ('0x1F', 31),
        ('true', True),
        ('False', False),
        ('null', None),
        ('~', None),
        ('', None),
        # text in YAML 1.2, but not in 1.1
        ('off', 'off'),
        ('no', 'no'),
        ('yes', 'yes'),
        ('1:30', '1:30'),
        ('2026-01-31', '2026-01-31'),
        ('1_000', '1_000'),
        ('.', '.'),
        ('e5', 'e5'),
        ("'12'", '12'),
        ('[1, off, 2e0]', [1, 'off', 2.0]),
        ('{a: [.inf]}', {'a': [math.inf]}),
    ],
)
def test_scalars_of_yaml_1_2(text, value):
    read = parse_document(f'key: {text}').content['key']
    assert read == value
    assert type(read) is type(value)


def test_lines_of_every_key():
    document = parse_document('a: 1\nb:\n  c: [1,\n    2]\n  d:\n    - {e: 5}\n', 'f.yaml')
    lines = {'a': 1, 'b': 2, 'b.c': 3, 'b.c[0]': 3, 'b.c[1]': 4, 'b.d': 5, 'b.d[0].e': 6}
    assert {key: document.lines[key] for key in lines} == lines
    # a key that is missing has the line of what should hold it
    assert document.where('b.d[0].nothing') == 'f.yaml:6'
    assert document.where('b.x.y') == 'f.yaml:2'
    assert document.where('z') == 'f.yaml'
    assert Document({}, {'a': 3}).where('a') == 'line 3'
    assert [parent(key) for key in ('a.b[0]', 'a.b', 'a')] == ['a.b', 'a', '']


@pytest.mark.parametrize(
    ('text', 'words'),
    [
        ('a: 1\na: 2\n', ['f.yaml:2', "'a' occurs twice", 'line 1']),
        ('a:\n  b: 1\n  c: 2\n  b: 3\n', ['f.yaml:4', "'a.b' occurs twice", 'line 2']),
        ('a: [1, 2\nb: 3\n', ['f.yaml:2', 'column', 'not YAML']),
        ('a:\n\tb: 1\n', ['f.yaml:2, column 1', 'tab']),
        ('a: *other\n', ['f.yaml:1, column 4', 'other']),
        ('a: "open\n', ['f.yaml', 'not YAML']),
        ('a: &x\n  b: *x\n', ['f.yaml:2', 'contains itself']),
        ('? [1, 2]\n: 3\n', ['f.yaml:1', 'plain text']),
        ('a: !!python/object:os.system x\n', ['f.yaml:1', 'not YAML']),
        ('a: 1\n---\nb: 2\n', ['f.yaml:2', 'not YAML']),
    ],
)
def test_errors_are_one_line_with_the_place(text, words):
    with pytest.raises(SettingsError) as caught:
        parse_document(text, 'f.yaml')
    message = str(caught.value)
    assert '\n' not in message
    for word in words:
        assert word in message


def test_anchors_and_merged_keys():
    text = 'base: &base {a: 1, b: 2}\nother:\n  <<: *base\n  b: 3\n'
    assert parse_document(text).content['other'] == {'a': 1, 'b': 3}


def test_files(tmp_path):
    for name, content, words in (
        ('no.yaml', None, 'does not exist'),
        ('binary.yaml', b'\x7fELF\xd0\xff', 'UTF-8'),
    ):
        path = tmp_path / name
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(SettingsError, match=words) as caught:
            read_document(path)
        assert caught.value.file == str(path)
    with pytest.raises(SettingsError, match='cannot read'):
        read_document(tmp_path)
    (tmp_path / 'marked.yaml').write_bytes(b'\xef\xbb\xbfa: 1\n')
    assert read_document(tmp_path / 'marked.yaml').content == {'a': 1}
    (tmp_path / 'empty.yaml').write_text('# nothing\n')
    assert read_document(tmp_path / 'empty.yaml').content == {}


def test_parse_scalar():
    assert parse_scalar('[0.1, 2]', 'k') == [0.1, 2]
    with pytest.raises(SettingsError) as caught:
        parse_scalar('[1', 'signals.cutoff')
    assert caught.value.key == 'signals.cutoff'
