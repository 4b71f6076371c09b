# SPDX-License-Identifier: Apache-2.0
"""The table of export formats, as the library and the command line read it."""

from dataclasses import dataclass

import pytest
from robot_identification import export
from robot_identification.cli import main
from robot_identification.errors import SettingsError
from robot_identification.exports import formats
from robot_identification.exports.formats import Format, format_of


@dataclass(frozen=True)
class Result:
    """Result with what a new format reads."""

    name: str = 'arm'


def test_an_added_format_is_written(monkeypatch):
    monkeypatch.setitem(formats.FORMATS, 'name', Format('the name', lambda result: result.name))
    assert export(Result(), 'name') == 'arm'
    assert format_of('name') == 'name'


def test_formats_of_others_are_refused_with_those_that_there_are():
    servos = type('Servos', (), {'servo': None})()
    with pytest.raises(SettingsError, match="'mjlab' is no format of an export: .*plotjuggler"):
        export(Result(), 'mjlab')
    with pytest.raises(SettingsError, match="'sdf' is no format of an export of servos .*mjlab"):
        export(servos, 'sdf')


def test_suffixes_name_formats():
    assert [format_of(suffix) for suffix in ('xml', 'urdf', 'c', 'txt', '')] == [
        'mjcf', 'urdf', 'c', None, None,
    ]  # fmt: skip


def test_the_help_has_all(capsys):
    assert main(['export', '--help']) == 0
    text = ' '.join(capsys.readouterr().out.split())
    for name, each in formats.FORMATS.items():
        assert f'{name} {each.doc}' in text
