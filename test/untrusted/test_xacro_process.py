# SPDX-License-Identifier: Apache-2.0
"""Xacro files are expanded within limits of time and memory, or refused in one line."""

import os
from pathlib import Path
import sys
import time

import pytest
from robot_identification.errors import ModelError
from robot_identification.model.urdf_files import read_urdf
from robot_identification.untrusted import xacro_process

xacro = pytest.importorskip('xacro', reason='needs xacro, which pip and ROS have')

TEXT = """\
<robot name="arm" xmlns:xacro="http://www.ros.org/wiki/xacro">
  <xacro:arg name="side" default="left"/>
  <link name="$(arg side)_${VALUE}"/>
</robot>
"""


def write(folder, value):
    path = folder / 'arm.urdf.xacro'
    path.write_text(TEXT.replace('VALUE', value))
    return path


def test_a_file_expands_as_by_the_library(tmp_path):
    path = write(tmp_path, '2 ** 3')
    text, where = read_urdf(path, {'side': 'right'})
    document = xacro.process_file(str(path), mappings={'side': 'right'})
    assert (text, where) == (document.toprettyxml(indent='  '), path)
    assert 'right_8' in text


def test_a_file_expands_where_the_package_is_not_on_the_path(tmp_path, monkeypatch):
    """An editable installation is found by an import hook, which the child does not have."""
    root = Path(xacro_process.__file__).resolve().parents[2]
    elsewhere = [entry for entry in sys.path if Path(entry).resolve() != root]
    monkeypatch.setattr(sys, 'path', elsewhere)
    monkeypatch.chdir(tmp_path)
    assert 'left_8' in read_urdf(write(tmp_path, '2 ** 3'))[0]


def refusal(path):
    with pytest.raises(ModelError, match='xacro cannot expand') as caught:
        read_urdf(path)
    assert '\n' not in str(caught.value)
    assert str(path) in str(caught.value)
    return str(caught.value)


def test_a_program_that_does_not_end_is_killed(tmp_path, monkeypatch):
    monkeypatch.setattr(xacro_process, 'TIME_LIMIT', 1.5)
    begin = time.monotonic()
    assert 'longer than 2 s' in refusal(write(tmp_path, '9**9**9'))
    assert time.monotonic() - begin < 60.0


@pytest.mark.parametrize('value', ["'x' * 10**10", '[0] * 10**9', '(lambda: [1] * 2**40)()'])
def test_a_program_does_not_take_all_memory(tmp_path, value):
    assert 'memory' in refusal(write(tmp_path, value)).lower()


@pytest.mark.parametrize('value', ['1/0', 'unknown', '().__class__', '1 +'])
def test_what_is_wrong_is_told(tmp_path, value):
    assert 'correct the file' in refusal(write(tmp_path, value))


def test_an_included_pipe_is_not_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(xacro_process, 'TIME_LIMIT', 1.5)
    os.mkfifo(tmp_path / 'pipe')
    path = write(tmp_path, '1')
    path.write_text(path.read_text().replace('<link', '<xacro:include filename="pipe"/><link'))
    assert 'longer than' in refusal(path)
