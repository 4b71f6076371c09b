# SPDX-License-Identifier: Apache-2.0
"""
Record seven joints at 100, 500 and 1000 Hz over DDS, beside a plain callback.

    .venv/bin/python -m benchmarks recording

Three processes beside this one: a publisher, the recorder node, and a node whose callback appends
messages to a list, both of which hear the same messages at the same time.
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any

import numpy as np

from .harness import Figure, Section, Table
from .publishing import call, memory, processor_time, published, until
from .recorded import motion, serialised

RATES = (100.0, 500.0, 1000.0)
SECONDS = 12.0
WARM = 3.0
"""Seconds after which memory is looked at for the first time."""

DOMAIN = 1 + os.getpid() % 100
MODULE = 'benchmarks.recording'


def section() -> Section:
    """Measure everything."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        np.save(folder / 'messages.npy', serialised(motion(1000)))
        environment = {
            **os.environ,
            'ROS_DOMAIN_ID': str(DOMAIN),
            'ROS_AUTOMATIC_DISCOVERY_RANGE': 'LOCALHOST',
            'ROS_LOG_DIR': str(folder / 'log'),
        }
        command = [sys.executable, '-m', MODULE, 'drive', str(folder)]
        limit = len(RATES) * (SECONDS + 300.0)
        subprocess.run(command, env=environment, check=True, timeout=limit)
        found = json.loads((folder / 'found.json').read_text())
    columns = ['', 'rate', 'sent', 'kept', 'missing', 'core', 'memory, MB', 'growth, MB/min']
    fastest = found[-1]
    return Section(
        'Recording',
        f'Joint states of seven joints, published over DDS from another process for '
        f'{SECONDS:.0f} s at each rate. The recorder node writes them to an mcap file, hands it '
        'to the system twice and has it on the disk once a second. The plain callback is '
        '`node.create_subscription(JointState, ..., messages.append, 10)` under `rclpy.spin`, '
        'and keeps them in memory. Both listen at the same time. `core` is processor time for a '
        f'second of time; memory grows from {WARM:.0f} s after the start on.',
        [Table(columns, [_row(way, each) for each in found for way in ('recorder', 'callback')])],
        [
            Figure('missing at 1 kHz', _missing(fastest, 'recorder'), at_most=0.0),
            Figure('missing at 1 kHz, plain callback', _missing(fastest, 'callback')),
            Figure('cores at 1 kHz', fastest['recorder']['core'], at_most=1.0),
            Figure('cores at 1 kHz, plain callback', fastest['callback']['core']),
            Figure(
                'growth of memory at 1 kHz', fastest['recorder']['growth'], 'MB/min', at_most=5.0
            ),
            Figure(
                'growth of memory at 1 kHz, plain callback',
                fastest['callback']['growth'],
                'MB/min',
            ),
        ],
    )


def _missing(found: dict[str, Any], way: str) -> float:
    return float(found['sent'] - found[way]['kept'])


def _row(way: str, found: dict[str, Any]) -> list[str]:
    each = found[way]
    return [
        'recorder node' if way == 'recorder' else 'plain callback',
        f'{found["rate"]:.0f} Hz',
        f'{found["sent"]:,}',
        f'{each["kept"]:,}',
        f'{found["sent"] - each["kept"]:,}',
        f'{each["core"]:.3f}',
        f'{each["memory"]:.0f}',
        f'{each["growth"]:.1f}',
    ]


# ------------------------------------------------------------------------ the processes with ROS


def _drive(folder: Path) -> None:
    """Start the two nodes, publish, and write what was found."""
    import rclpy
    from robot_identification.support.processes import NodeProcesses

    rclpy.init()
    messages = np.load(folder / 'messages.npy')
    found = []
    with NodeProcesses(folder / 'log') as nodes:
        nodes.start('recorder', {'output': str(folder / 'bags')})
        for rate in RATES:
            found.append(_measured(folder, nodes, messages, rate))
    (folder / 'found.json').write_text(json.dumps(found))


def _measured(folder: Path, nodes: Any, messages: np.ndarray, rate: float) -> dict[str, Any]:
    import rclpy
    from rclpy.qos import QoSProfile
    from robot_identification_msgs.srv import StartRecording, StopRecording
    from sensor_msgs.msg import JointState

    node = rclpy.create_node('robot')
    publisher = node.create_publisher(JointState, 'joint_states', QoSProfile(depth=1000))
    (folder / 'kept').unlink(missing_ok=True)
    plain = subprocess.Popen([sys.executable, '-m', MODULE, 'listen', str(folder / 'kept')])
    pids = {'recorder': nodes.pid('recorder'), 'callback': plain.pid}
    try:
        call(node, StartRecording, '/recorder/start')
        # one that was killed is known for some time
        until(lambda: publisher.get_subscription_count() >= 2, node)
        sent = round(SECONDS * rate)
        begin, warm = time.perf_counter(), {}
        before = {way: processor_time(pid) for way, pid in pids.items()}
        for left in published(publisher, messages, rate, sent):
            if not warm and time.perf_counter() - begin > WARM:
                warm = {way: memory(pid) for way, pid in pids.items()}
            if left > 0.0:
                time.sleep(left)
        took = time.perf_counter() - begin
        found = {
            way: {
                'core': (processor_time(pid) - before[way]) / took,
                'memory': memory(pid),
                'growth': (memory(pid) - warm[way]) * 60.0 / (took - WARM),
            }
            for way, pid in pids.items()
        }
        time.sleep(1.0)  # until the last ones are there, and counted
        stopped = call(node, StopRecording, '/recorder/stop')
    finally:
        plain.terminate()
        plain.wait(30.0)
    found['recorder']['kept'] = stopped.messages
    found['callback']['kept'] = int((folder / 'kept').read_text())
    node.destroy_node()
    return {'rate': rate, 'sent': sent, **found}


def _listen(kept: Path) -> None:
    """Append messages to a list, as one would without thinking of it; note how many there are."""
    import rclpy
    from rclpy.executors import ExternalShutdownException
    from sensor_msgs.msg import JointState

    rclpy.init()
    node = rclpy.create_node('listener')
    messages: list[Any] = []
    node.create_subscription(JointState, 'joint_states', messages.append, 10)
    threading.Thread(target=_note, args=(kept, messages), daemon=True).start()
    with contextlib.suppress(ExternalShutdownException):
        rclpy.spin(node)


def _note(kept: Path, messages: list[Any]) -> None:
    while True:
        draft = kept.with_suffix('.draft')
        draft.write_text(str(len(messages)))
        draft.replace(kept)
        time.sleep(0.3)


if __name__ == '__main__':
    {'drive': _drive, 'listen': _listen}[sys.argv[1]](Path(sys.argv[2]))
