# SPDX-License-Identifier: Apache-2.0
"""
A disk that is full: every service that writes says so, and leaves no half file under a real name.

The nodes run in a mount namespace of their own, where a small file system in memory lies over the
folder for the results; the tests see it through ``/proc``.  Where that is not permitted, a limit
on the size of files stands for the full disk.
"""

from __future__ import annotations

import os
from pathlib import Path
import resource
import subprocess
import sys

import pytest

pytest.importorskip('rclpy', reason='needs ROS 2 (rclpy)')
pytest.importorskip('rosbags')

from robot_identification.nodes.common.messages import time_message
from robot_identification_msgs.msg import OnlineStatus
from robot_identification_msgs.srv import ExportUrdf, Validate
from sensor_msgs.msg import JointState
from std_msgs.msg import Header
from std_srvs.srv import Trigger
import yaml

MOUNT = 'mount -t tmpfs -o size=16m none "$0" && exec "$@"'


def may_mount():
    """Return whether a namespace with a file system of its own can be made here."""
    command = ['unshare', '--user', '--map-root-user', '--mount']
    command += ['mount', '-t', 'tmpfs', 'none', '/mnt']
    try:
        return subprocess.run(command, capture_output=True, timeout=10.0).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


class SmallDisk:
    """A small file system for one process, and whatever fills it."""

    def __init__(self, folder):
        self.folder = folder
        self.pid = 0

    def command(self, *command):
        words = ['unshare', '--user', '--map-root-user', '--mount', 'sh', '-c', MOUNT]
        return [*words, str(self.folder), *command]

    def seen(self, path):
        """Return where we see what the process sees as ``path``."""
        return Path(f'/proc/{self.pid}/root{path}')

    def fill(self, left=0):
        """Leave ``left`` bytes."""
        room = os.statvfs(self.seen(self.folder))
        self.filler.write_bytes(bytes(max(room.f_bavail * room.f_frsize - left, 0)))

    def make_room(self):
        self.filler.unlink()

    def hardly_enough(self, sizes):
        """Return for how much room the last of several files is too much."""
        page = resource.getpagesize()
        return page * (sum(-(-size // page) for size in sizes) - 1)

    @property
    def filler(self):
        return self.seen(self.folder) / '.filler'


class SmallFiles:
    """A limit on the size of one process's files, in place of a small disk."""

    def __init__(self, folder):
        self.pid = 0

    def command(self, *command):
        return list(command)

    def seen(self, path):
        return Path(path)

    def fill(self, left=0):
        resource.prlimit(self.pid, resource.RLIMIT_FSIZE, (left, resource.RLIM_INFINITY))

    def hardly_enough(self, sizes):
        return max(sizes) - 1

    def make_room(self):
        endless = resource.RLIM_INFINITY
        resource.prlimit(self.pid, resource.RLIMIT_FSIZE, (endless, endless))


@pytest.fixture(scope='module')
def small(module_ros, arm, tmp_path_factory):
    """Start an identification node whose results go to a small disk; return disk and node."""
    folder = tmp_path_factory.mktemp('small')
    disk = SmallDisk(folder) if may_mount() else SmallFiles(folder)
    module = 'robot_identification.nodes.identification_node'
    parameters = {
        **arm.parameters,
        'output': str(folder / 'results'),
        'data_directories': [str(folder), str(arm.bags['first'].parent)],
        'online.enabled': True,
        'online.publish_rate': 20.0,
        'online.state_rate': 250.0,
    }
    process = module_ros.start_command(
        'identification', disk.command(sys.executable, '-m', module), parameters=parameters
    )
    disk.pid = process.pid
    return disk, module_ros, folder


def files_in(folder):
    return {path.name: path.read_bytes() for path in folder.rglob('*') if path.is_file()}


def test_the_numbers_are_written_first_and_each_file_is_whole_or_not_there(small, identify, arm):
    disk, ros, folder = small
    first = identify(ros, arm.bags['short'])
    assert first.success, first.message
    results = disk.seen(folder / 'results')
    before = files_in(results)
    assert set(before) == {'result.yaml', 'verdict.json', 'report.html', 'identified.urdf'}
    # for the numbers there is room, for the report beside them there is not
    disk.fill(len(before['result.yaml']) + 20_000)
    other = identify(ros, arm.bags['second'])
    assert other.success, other.message
    assert 'report.html is not written: ' in other.message
    assert 'No space left' in other.message or 'File too large' in other.message
    assert other.result_path.endswith('second_physical')
    made = files_in(results / 'second_physical')
    assert 'result.yaml' in made and 'report.html' not in made
    assert yaml.safe_load(made['result.yaml'])['parameters']
    # where there is no room for the numbers, they are in the answer, and all files as before
    disk.make_room()
    disk.fill(0)
    again = identify(ros, arm.bags['short'], options=[('signals.cutoff', '15')])
    assert again.success and again.base.parameters
    assert 'cannot write results' in again.message and 'make room' in again.message
    assert not again.result_path
    assert files_in(results / 'short_physical') == before
    # with room all goes on, from the latest estimate
    disk.make_room()
    checked = ros.call(
        Validate, 'identification/validate', timeout=60.0, source=str(arm.bags['second'])
    )
    assert checked.success, checked.message
    written = yaml.safe_load((results / 'short_physical' / 'result.yaml').read_text())
    assert len(written['validation']) == 1


def test_an_exported_urdf_is_whole_or_as_before(small):
    disk, ros, folder = small
    path = folder / 'arm.urdf'
    disk.seen(path).write_text('the one of before')
    disk.fill(1000)
    answer = ros.call(ExportUrdf, 'identification/export_urdf', path=str(path))
    assert not answer.success
    assert str(path) in answer.message and 'make room' in answer.message
    assert disk.seen(path).read_text() == 'the one of before'
    assert not list(disk.seen(folder).glob('.arm*'))
    disk.make_room()
    answer = ros.call(ExportUrdf, 'identification/export_urdf', path=str(path))
    assert answer.success, answer.message
    assert disk.seen(path).read_text() == answer.urdf
    # what is no file is not replaced by one, whoever the node runs as
    for path in ('/dev/null', str(folder)):
        answer = ros.call(ExportUrdf, 'identification/export_urdf', path=path)
        assert not answer.success
        assert path in answer.message
    assert Path('/dev/null').is_char_device()


def test_a_live_estimate_is_saved_whole_or_not_at_all(small, arm):
    disk, ros, folder = small
    status = ros.latched(OnlineStatus, '/identification/online/status')
    publisher = ros.publisher(JointState, 'joint_states', 1000, wait_for_subscribers=1, timeout=30)
    for time, position, velocity, effort in zip(*arm.states(1, 1.0)):
        header = Header(stamp=time_message(10**9 + round(1e9 * time)))
        names = list(arm.robot.joints)
        publisher.publish(
            JointState(
                header=header, name=names, position=position, velocity=velocity, effort=effort
            )
        )
    ros.wait_until(lambda: status[-1].rows, what='a live estimate')
    results = disk.seen(folder / 'results')
    before = set(results.iterdir())
    answer = ros.call(Trigger, 'identification/online/save')
    assert answer.success, answer.message
    (made,) = set(results.iterdir()) - before
    sizes = {path.name: path.stat().st_size for path in made.iterdir()}
    assert set(sizes) >= {'online.yaml', 'state.npz'}
    before = set(results.iterdir())
    for left in (100, disk.hardly_enough(sizes.values())):
        disk.fill(left)
        answer = ros.call(Trigger, 'identification/online/save')
        assert not answer.success
        assert 'cannot write' in answer.message and 'make room' in answer.message
        disk.make_room()
        assert set(results.iterdir()) == before
    assert ros.call(Trigger, 'identification/online/save').success
