# SPDX-License-Identifier: Apache-2.0
"""Receive buffers of sockets: what is asked for, what is granted, and what overflowed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
import os
import signal
import socket
import time

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='needs ROS 2 (rclpy)')

from robot_identification.nodes.common import receive_buffers
from robot_identification.nodes.common.receive_buffers import (
    BUFFER_SIZE,
    enlarge_receive_buffers,
    overflowed_packets,
    prefer_sockets,
    PROFILE,
    SHARED_MEMORY_SIZE,
)
from robot_identification_msgs.srv import StartRecording, StopRecording
from sensor_msgs.msg import JointState

from benchmarks.load import busy_processes, compared, send
from benchmarks.recorded import motion, serialised


@pytest.fixture
def small_socket():
    """Give a UDP socket that is bound on this machine, with the smallest buffer that there is."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as each:
        each.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        each.bind(('127.0.0.1', 0))
        yield each


def test_a_socket_gets_the_buffer_that_is_asked_for(small_socket):
    size = 1 << 16
    assert enlarge_receive_buffers(size) == ''
    assert small_socket.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) == 2 * size
    assert enlarge_receive_buffers(size // 2) == '', 'a larger one stays'
    assert small_socket.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) == 2 * size


def test_the_lack_of_a_buffer_is_noted_with_its_remedy(small_socket):
    granted = int(receive_buffers._LIMIT.read_text())
    assert enlarge_receive_buffers(2 * granted) == (
        f'the receive buffers have {granted // 1024} KiB instead of {2 * granted // 1024} KiB: '
        'messages that arrive while the machine is busy can get lost; allow more by '
        f'`sudo sysctl -w net.core.rmem_max={2 * granted}`'
    )


def test_packets_without_room_are_counted(small_socket):
    before = overflowed_packets()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for _ in range(200):
            sender.sendto(bytes(500), small_socket.getsockname())
    small_socket.setblocking(False)
    received = 0
    while True:
        try:
            small_socket.recv(1000)
        except BlockingIOError:
            break
        received += 1
    assert 0 < received < 200
    assert overflowed_packets() - before == 200 - received


@pytest.fixture
def environment(monkeypatch, tmp_path):
    """Give an environment without profiles, and a system whose limit can be set."""
    for name in (*receive_buffers._VARIABLES, 'ROS_DISTRO'):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    limit = tmp_path / 'rmem_max'
    monkeypatch.setattr(receive_buffers, '_LIMIT', limit)
    limit.write_text(f'{BUFFER_SIZE}\n')
    # what the function sets is taken back, too
    monkeypatch.setattr(receive_buffers.os, 'environ', dict(os.environ))
    return limit


def test_the_old_name_is_left_where_it_is_deprecated(environment):
    receive_buffers.os.environ['ROS_DISTRO'] = 'kilted'
    assert prefer_sockets()
    names = {name for name in receive_buffers.os.environ if name.endswith('PROFILES_FILE')}
    assert names == {'FASTDDS_DEFAULT_PROFILES_FILE'}


def test_sockets_are_preferred_where_they_hold_more(environment):
    assert prefer_sockets()
    assert receive_buffers.os.environ['FASTRTPS_DEFAULT_PROFILES_FILE'] == str(PROFILE)
    assert PROFILE.is_file()


def test_shared_memory_stays_where_sockets_hold_less(environment):
    environment.write_text('212992\n')
    assert 2 * SHARED_MEMORY_SIZE > 212992
    assert not prefer_sockets()
    assert 'FASTRTPS_DEFAULT_PROFILES_FILE' not in receive_buffers.os.environ


def test_a_profile_of_the_user_stays(environment, tmp_path):
    (tmp_path / 'DEFAULT_FASTRTPS_PROFILES.xml').write_text('<profiles/>')
    assert not prefer_sockets()
    (tmp_path / 'DEFAULT_FASTRTPS_PROFILES.xml').unlink()
    receive_buffers.os.environ['FASTRTPS_DEFAULT_PROFILES_FILE'] = 'mine.xml'
    assert not prefer_sockets()
    assert receive_buffers.os.environ['FASTRTPS_DEFAULT_PROFILES_FILE'] == 'mine.xml'


# ------------------------------------------------------------------------ the recorder under load


@pytest.fixture
def messages(tmp_path):
    """Give a file of serialised joint states of seven joints."""
    np.save(tmp_path / 'messages.npy', serialised(motion(1000)))
    return tmp_path / 'messages.npy'


@pytest.fixture
def record(ros, tmp_path, messages):
    """
    Return a function that records 2,000 numbered messages, published at 1 kHz.

    The recorder has no priority, the publisher keeps one message, and ``trouble`` is called with
    the recorder's process while messages come.
    """

    def run(trouble):
        parameters = {'output': str(tmp_path / 'bags'), 'priority': 0}
        process = ros.start('recorder', parameters=parameters)
        begun = ros.subscribe(JointState, 'joint_states', 5000)
        started = ros.call(StartRecording, '/recorder/start', name='run')
        assert started.success, started.message
        with ThreadPoolExecutor(1) as pool:
            sender = pool.submit(send, messages, 2.0, listeners=2)
            ros.wait_until(lambda: len(begun) > 100, what='joint states')
            trouble(process, sender)
        assert sender.result()['sent'] == 2000
        stopped = ros.call(StopRecording, '/recorder/stop', timeout=30.0)
        assert (stopped.messages, stopped.dropped) == (2000, 0), stopped.message
        recorded, transit = compared(tmp_path / 'bags' / 'run', 2000)
        assert recorded == 2000
        return transit

    return run


def test_nothing_is_lost_beside_busy_processes(record):
    def load(_, sender):
        with busy_processes():
            sender.result(60.0)

    record(load)


@pytest.mark.skipif(
    int(receive_buffers._LIMIT.read_text()) < BUFFER_SIZE,
    reason='the system does not allow receive buffers of 4 MiB (net.core.rmem_max)',
)
def test_nothing_is_lost_while_the_recorder_gets_no_processor_time(record):
    def stall(process, _):
        os.kill(process.pid, signal.SIGSTOP)
        time.sleep(1.2)
        os.kill(process.pid, signal.SIGCONT)

    assert record(stall) > 1.0, 'messages waited in the buffer'
