# SPDX-License-Identifier: Apache-2.0
"""Only regular files of a usual size are read, whatever a path names."""

import os
import socket

import pytest
from robot_identification.data.bag import bag_duration, joint_state_messages
from robot_identification.errors import IdentificationError, SettingsError
from robot_identification.estimation.bounds import read_boxes
from robot_identification.model.urdf_files import read_urdf
from robot_identification.options.document import read_document
from robot_identification.results.factor_file import read_factor
from robot_identification.results.result import read_result
from robot_identification.untrusted.files import (
    open_regular,
    read_bytes,
    read_text,
    require_regular,
    user_path,
)


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
