# SPDX-License-Identifier: Apache-2.0
"""Recordings that are none: each is refused with its name and a remedy, and the node goes on."""

from __future__ import annotations

import os
import shutil
import sys
import time

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='needs ROS 2 (rclpy)')
pytest.importorskip('rosbags')

from robot_identification_msgs.srv import Identify, Validate

NODES = 'robot_identification.nodes'

AS_ANYBODY = """
import ctypes, os, sys
PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 24, 1, 2
for capability in CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH:
    ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, capability)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""
"""Runs a program for which permissions hold, even where the tests run as root."""

SENSIBLE = 800
"""Characters that a message may have: one that quotes a whole file helps nobody."""


def nothing(path):
    pass


def empty_folder(path):
    path.mkdir()


def empty_file(path):
    path.touch()


def text(path):
    path.write_text('the recording of Tuesday, 3 pm\n' * 50)


def noise(path):
    path.write_bytes(np.random.default_rng(1).bytes(300_000))


def noise_called_mcap(path):
    path.mkdir()
    noise(path / 'run_0.mcap')


def noise_called_db3(path):
    path.mkdir()
    noise(path / 'run_0.db3')


def magic_and_noise(path):
    path.mkdir()
    magic = b'\x89MCAP0\r\n'
    noise(path / 'run_0.mcap')
    content = (path / 'run_0.mcap').read_bytes()
    (path / 'run_0.mcap').write_bytes(magic + content + magic)


def metadata_alone(path):
    path.mkdir()
    (path / 'metadata.yaml').write_text('rosbag2_bagfile_information: {version: 9}\n')


def metadata_of_rubbish(path):
    path.mkdir()
    (path / 'metadata.yaml').write_text('{[:,\n\t- !!python/object:os.system "true"\n' * 20)


def metadata_of_a_list(path):
    path.mkdir()
    (path / 'metadata.yaml').write_text('- 1\n- 2\n')


def metadata_of_a_missing_file(path):
    path.mkdir()
    (path / 'metadata.yaml').write_text(
        'rosbag2_bagfile_information:\n  version: 9\n  storage_identifier: mcap\n'
        '  relative_file_paths: [gone_0.mcap]\n  duration: {nanoseconds: 0}\n'
        '  starting_time: {nanoseconds_since_epoch: 0}\n  message_count: 0\n'
        '  topics_with_message_count: []\n  compression_format: ""\n  compression_mode: ""\n'
        '  files: []\n  custom_data: {}\n  ros_distro: jazzy\n'
    )


def huge(path):
    """Make a terabyte that takes no room."""
    path.mkdir()
    with open(path / 'run_0.mcap', 'wb') as file:
        file.truncate(1 << 40)


def dangling_link(path):
    path.symlink_to(path.parent / 'unplugged')


def link_to_itself(path):
    path.symlink_to(path)


def pipe(path):
    """Make one: who opens it to read waits for somebody who writes."""
    os.mkfifo(path)


def pipe_in_a_folder(path):
    path.mkdir()
    os.mkfifo(path / 'run_0.mcap')


def empty_table(path):
    path.touch()


KINDS = {
    function.__name__ + suffix: function
    for function, suffix in (
        (nothing, ''),
        (empty_folder, ''),
        (empty_file, ''),
        (empty_file, '.mcap'),
        (text, ''),
        (text, '.db3'),
        (noise, ''),
        (noise, '.mcap'),
        (noise, '.npz'),
        (noise_called_mcap, ''),
        (noise_called_db3, ''),
        (magic_and_noise, ''),
        (metadata_alone, ''),
        (metadata_of_rubbish, ''),
        (metadata_of_a_list, ''),
        (metadata_of_a_missing_file, ''),
        (huge, ''),
        (dangling_link, ''),
        (link_to_itself, ''),
        (pipe, ''),
        (pipe, '.mcap'),
        (pipe_in_a_folder, ''),
        (empty_table, '.csv'),
    )
}


def ask(node, service, source):
    """Ask for a recording; check that the answer helps, and comes in good time."""
    kind = {'identify': Identify, 'validate': Validate}[service]
    begin = time.monotonic()
    answer = node.call(kind, f'identification/{service}', timeout=30.0, source=str(source))
    took = time.monotonic() - begin
    print(f'{took:.2f} s: {answer.message}')
    assert not answer.success
    return answer.message


def require_helpful(message, name):
    assert name in message
    assert ': ' in message, 'what is wrong, and what to do'
    assert 'internal error' not in message
    assert '\n' not in message
    assert len(message) < SENSIBLE, message


@pytest.fixture(scope='module')
def estimating_node(module_ros, identify, arm, tmp_path_factory):
    """Give a node with an estimate, as validation needs one; nothing is open to it unasked."""
    command = [sys.executable, '-c', AS_ANYBODY, '-m', f'{NODES}.identification_node']
    parameters = {**arm.parameters, 'output': str(tmp_path_factory.mktemp('results'))}
    module_ros.start_command('identification', command, parameters=parameters)
    answer = identify(module_ros, arm.bags['short'])
    assert answer.success, answer.message
    return module_ros


@pytest.mark.parametrize('kind', KINDS)
def test_what_is_no_recording_is_refused(estimating_node, tmp_path, kind):
    path = tmp_path / kind
    KINDS[kind](path)
    for service in ('identify', 'validate'):
        require_helpful(ask(estimating_node, service, path), kind)
    assert estimating_node.processes[0].returncode is None


@pytest.mark.parametrize('kind', ['folder', 'file', 'in a folder', 'file in a bag'])
def test_what_may_not_be_read_is_refused(estimating_node, arm, tmp_path, kind):
    path = tmp_path / 'closed'
    shutil.copytree(arm.bags['short'], path)
    file = next(path.glob('*.mcap'))
    source = {'folder': path, 'file': file, 'in a folder': file, 'file in a bag': path}[kind]
    closed = path if 'folder' in kind else file
    closed.chmod(0)
    try:
        for service in ('identify', 'validate'):
            message = ask(estimating_node, service, source)
            require_helpful(message, source.name)
            assert 'Permission denied' in message
    finally:
        closed.chmod(0o755)


STRANGE = [
    '/dev/zero',
    '/dev/null',
    '/proc',
    '/proc/kmsg',
    'a\x01b',
    'x' * 5000,
    '~~',
]


@pytest.mark.parametrize('source', STRANGE, ids=lambda source: ascii(source[:20]))
def test_what_can_be_no_recording_is_refused(estimating_node, source):
    # what does not print is escaped
    require_helpful(ask(estimating_node, 'identify', source), source[:20].replace('\x01', r'\x01'))


def test_bags_of_something_else_are_refused(estimating_node, tmp_path):
    from rosbags.rosbag2 import StoragePlugin, Writer
    from rosbags.typesys import get_typestore, Stores

    types = get_typestore(Stores.ROS2_JAZZY)
    kind = types.types['std_msgs/msg/String']
    for topic in ('/chatter', '/joint_states'):
        path = tmp_path / f'talk{topic.replace("/", "_")}'
        with Writer(path, version=9, storage_plugin=StoragePlugin.MCAP) as writer:
            connection = writer.add_connection(topic, kind.__msgtype__, typestore=types)
            writer.write(connection, 1, types.serialize_cdr(kind(data='x'), kind.__msgtype__))
        for service in ('identify', 'validate'):
            message = ask(estimating_node, service, path)
            require_helpful(message, path.name)
            assert 'JointState' in message


def test_afterwards_the_node_identifies_as_before(estimating_node, identify, arm):
    answer = identify(estimating_node, arm.bags['short'])
    assert answer.success, answer.message
