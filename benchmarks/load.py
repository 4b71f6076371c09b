# SPDX-License-Identifier: Apache-2.0
"""
Record and follow seven joints at 1 kHz while two busy processes take both cores.

    LOAD_SECONDS=600 .venv/bin/python -m benchmarks load

The sender is a process of normal priority, too; its messages are numbered by their stamps, so that
those in the file and those that it published can be compared one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
import contextlib
from dataclasses import asdict, dataclass
import json
import math
import os
from pathlib import Path
import signal
import struct
import subprocess
import sys
import tempfile
import time
from typing import Any

import numpy as np

from .harness import Figure, Section, Table
from .publishing import call, processor_time, published, SETTLING, until

SECONDS = float(os.environ.get('LOAD_SECONDS', '600'))
RATE = 1000.0
BUSY = 2
"""Processes that take all the time that they get, one bound to each core in turn."""

START = 1_700_000_000_000_000_000
"""Stamp of the first message [ns]."""

PERIOD = round(1e9 / RATE)
MOTION = 30.0
"""Seconds of the motion that is published again and again."""

DOMAIN = 1 + os.getpid() % 100
MODULE = 'benchmarks.load'
WAYS = {'as installed': None, 'without any priority': 0}
"""Parameters ``priority`` and ``online.priority``, by what the rows of the table are called."""


@dataclass(frozen=True)
class Found:
    """
    Counts of the messages.

    Attributes
    ----------
    sent:
        Messages published.
    late:
        The most that the sender was late [s].
    recorded, reported:
        Messages of these in the file, and those missing by the recorder's own account.
    transit:
        The longest time from publishing to reception by the recorder [s].
    followed, lost, late_updates:
        What the live identification says of itself.
    update_999, longest:
        The time that 99.9 % of its updates stay below, and the longest one [s].
    recorder, follower, busy:
        Processor time for a second of time; of the busy processes together.

    """

    sent: int
    late: float
    recorded: int
    reported: int
    transit: float
    followed: int
    lost: int
    late_updates: int
    update_999: float
    longest: float
    recorder: float
    follower: float
    busy: float

    @property
    def missing(self) -> int:
        """Messages that were published and are not in the file."""
        return self.sent - self.recorded

    @property
    def skipped(self) -> int:
        """Messages that were published and did not reach the live identification."""
        return self.sent - self.followed


def section() -> Section:
    """Measure everything."""
    from .recorded import serialised
    from .synthetic import panda, recording

    robot = panda()
    found = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made_up = recording(robot, MOTION)
        signals = np.stack((made_up.position, np.zeros_like(made_up.effort), made_up.effort))
        np.save(folder / 'messages.npy', serialised(signals))
        (folder / 'panda.urdf').write_text(robot.urdf)
        environment = {
            **os.environ,
            'ROS_DOMAIN_ID': str(DOMAIN),
            'ROS_AUTOMATIC_DISCOVERY_RANGE': 'LOCALHOST',
            'ROS_LOG_DIR': str(folder / 'log'),
        }
        for way, priority in WAYS.items():
            command = [sys.executable, '-m', MODULE, 'drive', str(folder), json.dumps(priority)]
            limit = 2.0 * SECONDS + 300.0
            subprocess.run(command, env=environment, check=True, timeout=limit)
            found[way] = Found(**json.loads((folder / 'found.json').read_text()))
    columns = ['', 'sent', 'recorded', 'missing', 'followed', 'missing', 'late updates']
    columns += ['update 99.9 %, ms', 'longest, ms', 'transit, ms', 'sender late, ms']
    columns += ['recorder, core', 'follower, core', 'busy, cores']
    installed, plain = found.values()
    return Section(
        'Under load',
        f'A process publishes joint states of seven joints at 1 kHz for {SECONDS:.0f} s, with the '
        "QoS of ros2_control's joint_state_broadcaster (reliable, the system's default depth). "
        'The recorder node and a live identification listen, and beside them '
        f'{BUSY} processes of normal priority, one bound to each core, count as fast as they can. '
        'Every message has a number; *missing* are those that were published and are not in the '
        'file, or that the live identification did not take. An update is late where it takes '
        'longer than 1 ms. *Transit* is the longest time from publishing to reception by the '
        'recorder, *sender late* the most by which the sender was behind its own schedule; both '
        'tell how long processes wait for a core. *As installed* the nodes have the real-time '
        'priorities that they ask for, where the system allows that; *without any priority* they '
        'compete on equal terms. Other work on the machine counts as load, too.',
        [Table(columns, [_row(way, each) for way, each in found.items()])],
        [
            Figure('recorder, missing', installed.missing, at_most=0.0),
            Figure('recorder, missing without any priority', plain.missing, at_most=0.0),
            Figure('live identification, missing', installed.skipped, at_most=0.0),
            Figure(
                'live identification, missing without any priority', plain.skipped, at_most=0.0
            ),
        ],
    )


def _row(way: str, found: Found) -> list[str]:
    counts = [found.sent, found.recorded, found.missing, found.followed, found.skipped]
    times = [found.update_999, found.longest, found.transit, found.late]
    return [
        way,
        *(f'{count:,}' for count in [*counts, found.late_updates]),
        *(f'{1e3 * seconds:.1f}' for seconds in times),
        *(f'{core:.2f}' for core in (found.recorder, found.follower, found.busy)),
    ]


# ------------------------------------------------------------------------ the processes with ROS


def drive(folder: Path, priority: int | None, seconds: float = SECONDS) -> Found:
    """
    Start the nodes, have joint states published beside busy processes, and compare.

    Parameters
    ----------
    folder:
        Has ``messages.npy`` and ``panda.urdf``; gets the bag.
    priority:
        Of both nodes; None leaves it to them.
    seconds:
        How long.

    """
    import rclpy
    from robot_identification.support.processes import NodeProcesses
    from robot_identification_msgs.srv import StartRecording, StopRecording

    rclpy.init()
    node = rclpy.create_node('observer')
    statuses = _statuses(node)
    with NodeProcesses(folder / 'log') as nodes:
        nodes.start('recorder', {'output': str(folder / 'bags'), **_given('priority', priority)})
        nodes.start('identification', _follower(folder, priority))
        started = call(node, StartRecording, '/recorder/start')
        until(lambda: statuses[-1:] and statuses[-1].state == statuses[-1].WAITING, node)
        pids = {'recorder': nodes.pid('recorder')}
        pids['follower'] = child_of(nodes.pid('identification'))
        with busy_processes() as busy:
            pids |= {f'busy {number}': pid for number, pid in enumerate(busy)}
            before = {name: processor_time(pid) for name, pid in pids.items()}
            begin = time.perf_counter()
            sender = send(folder / 'messages.npy', seconds)
            took = time.perf_counter() - begin
            cores = {name: (processor_time(pid) - before[name]) / took
                     for name, pid in pids.items()}  # fmt: skip
        until(lambda: math.isnan(statuses[-1].rate), node)  # no more messages come
        stopped = call(node, StopRecording, '/recorder/stop')
    status = statuses[-1]
    recorded, transit = compared(Path(started.path), sender['sent'])
    node.destroy_node()
    rclpy.try_shutdown()
    return Found(
        sent=sender['sent'],
        late=sender['late'],
        recorded=recorded,
        reported=stopped.dropped,
        transit=transit,
        followed=status.messages,
        lost=status.lost,
        late_updates=status.late_updates,
        update_999=status.update_999,
        longest=status.update_longest,
        recorder=cores.pop('recorder'),
        follower=cores.pop('follower'),
        busy=sum(cores.values()),
    )


def _given(name: str, value: int | None) -> dict[str, int]:
    return {} if value is None else {name: value}


def _follower(folder: Path, priority: int | None) -> dict[str, Any]:
    return {
        'robot_description': str(folder / 'panda.urdf'),
        'joints': [f'panda_joint{number}' for number in range(1, 8)],
        'output': str(folder / 'results'),
        'online.enabled': True,
        **_given('online.priority', priority),
    }


def _statuses(node: Any) -> list[Any]:
    from rclpy.qos import DurabilityPolicy, QoSProfile
    from robot_identification_msgs.msg import OnlineStatus

    latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
    statuses: list[Any] = []
    topic = '/identification/online/status'
    node.create_subscription(OnlineStatus, topic, statuses.append, latched)
    return statuses


def send(messages: Path, seconds: float, listeners: int = 2) -> dict[str, Any]:
    """Publish numbered joint states from another process; return how many, and how late."""
    command = [sys.executable, '-m', MODULE, 'send', str(messages), str(seconds), str(listeners)]
    limit = 2.0 * seconds + 120.0
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=limit)
    return json.loads(done.stdout.splitlines()[-1])


@contextlib.contextmanager
def busy_processes(count: int = BUSY) -> Iterator[list[int]]:
    """Have processes count as fast as they can, bound to the cores in turn; yield their ids."""
    cores = sorted(os.sched_getaffinity(0))
    processes = [
        subprocess.Popen([sys.executable, '-c', 'while True: pass']) for _ in range(count)
    ]
    try:
        for number, process in enumerate(processes):
            os.sched_setaffinity(process.pid, {cores[number % len(cores)]})
        yield [process.pid for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()


def compared(bag: Path, sent: int) -> tuple[int, float]:
    """Return how many of the numbered messages a bag has, and the longest transit [s]."""
    from mcap.reader import make_reader

    numbers, transit = set(), 0
    with open(next(bag.glob('*.mcap')), 'rb') as stream:
        for *_, message in make_reader(stream).iter_messages(log_time_order=False):
            seconds, nanoseconds = struct.unpack_from('<iI', message.data, 4)
            numbers.add((seconds * 10**9 + nanoseconds - START) // PERIOD)
            transit = max(transit, message.log_time - message.publish_time)
    return len(numbers & set(range(sent))), 1e-9 * transit


def child_of(parent: int) -> int:
    """Return the one child of a process."""
    children: set[str] = set()
    for task in Path(f'/proc/{parent}/task').iterdir():
        children.update((task / 'children').read_text().split())
    (child,) = children
    return int(child)


def _send(path: Path, seconds: float, listeners: int) -> None:
    import rclpy
    from rclpy.qos import qos_profile_system_default
    from sensor_msgs.msg import JointState

    rclpy.init()
    node = rclpy.create_node('robot')
    publisher = node.create_publisher(JointState, 'joint_states', qos_profile_system_default)
    end = time.monotonic() + 60.0
    while publisher.get_subscription_count() < listeners:
        if time.monotonic() > end:
            raise SystemExit(f'{publisher.get_subscription_count()} listeners after 60 s')
        time.sleep(0.05)
    time.sleep(SETTLING)  # until they know the publisher, too
    sent, late = 0, 0.0
    numbered = published(publisher, np.load(path), RATE, round(seconds * RATE), first=START)
    for left in numbered:
        sent += 1
        late = max(late, -left)
        if left > 0.0:
            time.sleep(left)
    time.sleep(1.0)  # until the last ones are there
    sys.stdout.write(json.dumps({'sent': sent, 'late': late}) + '\n')


if __name__ == '__main__':
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    if sys.argv[1] == 'send':
        _send(Path(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]))
    else:
        place = Path(sys.argv[2])
        result = drive(place, json.loads(sys.argv[3]))
        (place / 'found.json').write_text(json.dumps(asdict(result)))
