# SPDX-License-Identifier: Apache-2.0
"""Files that the package writes: whole or not at all, through no link, under random names."""

import errno
import os
import resource
import signal
import stat

import pytest
from robot_identification.untrusted import writing
from robot_identification.untrusted.writing import (
    open_new,
    open_own,
    private_folder,
    whole_file,
    write_together,
    write_whole,
)

OLD = 'the good old file'


@pytest.fixture
def old(tmp_path):
    path = tmp_path / 'robot.urdf'
    path.write_text(OLD)
    return path


@pytest.fixture
def full_disk():
    """Give no file more than 64 kB, as a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, handler)


@pytest.fixture
def umask():
    before = os.umask(0o027)
    yield
    os.umask(before)


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_a_full_disk_leaves_the_old_file_alone(old, full_disk):
    with pytest.raises(OSError) as raised:
        write_whole(old, 'x' * (1 << 20))
    assert raised.value.errno == errno.EFBIG
    assert old.read_text() == OLD
    assert os.listdir(old.parent) == [old.name]


def test_of_several_files_a_full_disk_leaves_all_alone(old, full_disk):
    other = old.with_name('plan.yaml')
    other.write_text(OLD)
    with pytest.raises(OSError):
        write_together({other: 'new', old: 'x' * (1 << 20)})
    assert other.read_text() == old.read_text() == OLD
    assert sorted(os.listdir(old.parent)) == sorted([old.name, other.name])


def test_an_error_while_writing_leaves_the_old_file_alone(old):
    with pytest.raises(KeyboardInterrupt), whole_file(old) as stream:
        stream.write(b'half of it')
        raise KeyboardInterrupt
    assert old.read_text() == OLD
    assert os.listdir(old.parent) == [old.name]


def test_a_link_at_the_place_is_replaced_and_what_it_names_left_alone(old):
    link = old.with_name('link')
    link.symlink_to(old)
    write_whole(link, 'new')
    assert (link.read_text(), old.read_text()) == ('new', OLD)
    assert not link.is_symlink()


def test_a_link_of_the_temporary_name_is_not_written_through(old, monkeypatch):
    monkeypatch.setattr(writing.secrets, 'token_hex', lambda size: 'guessed')
    old.with_name('.guessed.new').symlink_to(old)
    with pytest.raises(FileExistsError):
        write_whole(old.with_name('new.urdf'), 'new')
    assert old.read_text() == OLD


def test_temporary_names_cannot_be_guessed(tmp_path):
    names = []
    for _ in range(2):
        with whole_file(tmp_path / 'a') as stream:
            names.append(stream.name)
    assert names[0] != names[1]
    assert all(len(os.path.basename(each)) >= 16 for each in names)


def test_permissions_are_those_that_the_umask_leaves(tmp_path, umask):
    write_whole(tmp_path / 'new', '')
    with open_new(tmp_path / 'bag'), open_own(tmp_path / 'lock'):
        pass
    assert {mode(tmp_path / name) for name in ('new', 'bag', 'lock')} == {0o640}


def test_permissions_of_the_replaced_file_stay(old, umask):
    old.chmod(0o600)
    write_whole(old, 'new')
    assert (mode(old), old.read_text()) == (0o600, 'new')


@pytest.mark.skipif(os.getuid() == 0, reason='root may write to every file')
def test_a_file_that_must_not_be_written_stays(old):
    old.chmod(0o400)
    with pytest.raises(PermissionError):
        write_whole(old, 'new')
    assert old.read_text() == OLD


@pytest.mark.parametrize('make', [os.mkfifo, os.mkdir])
def test_what_is_no_regular_file_is_not_replaced(tmp_path, make):
    path, link = tmp_path / 'special', tmp_path / 'link'
    make(path)
    link.symlink_to(path)
    for each in (path, link):
        with pytest.raises(OSError, match='not a regular file|directory'):
            write_whole(each, 'new')
    assert link.is_symlink()


def test_a_name_as_long_as_names_can_be(tmp_path):
    path = tmp_path / ('ä' * 127)
    write_whole(path, 'new')
    assert path.read_text() == 'new'


def test_bytes_of_a_path_that_are_no_text_are_written_as_escapes(tmp_path):
    write_whole(tmp_path / 'a', os.fsdecode(b'run\xff'))
    assert (tmp_path / 'a').read_text() == 'run\\udcff'


def test_what_was_promised_is_on_the_disk(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(writing.os, 'fsync', lambda number: synced.append(os.fstat(number)))
    write_whole(tmp_path / 'a', 'new', sync=True)
    kinds = [stat.S_ISREG(status.st_mode) for status in synced]
    assert kinds == [True, False]  # the file, then its folder
    assert synced[0].st_ino == (tmp_path / 'a').stat().st_ino


@pytest.mark.parametrize('opened', [open_new, open_own])
def test_files_to_go_on_with_are_opened_through_no_link(old, opened):
    link = old.with_name('journal')
    link.symlink_to(old)
    with pytest.raises(OSError):
        opened(link)
    link.unlink()
    os.mkfifo(link)
    with pytest.raises(OSError):
        opened(link)


def test_a_folder_of_somebody_else_is_not_taken_for_ours(tmp_path):
    mine = private_folder(tmp_path / 'logs')
    assert (mine, mode(mine)) == (tmp_path / 'logs', 0o700)
    assert private_folder(mine) == mine
    mine.chmod(0o777)
    (tmp_path / 'link').symlink_to(tmp_path)
    for path in (mine, tmp_path / 'link'):
        other = private_folder(path)
        assert other != path
        assert mode(other) == 0o700
