# SPDX-License-Identifier: Apache-2.0
"""
Time the live identification inside the node: seven joints at 1 kHz over DDS.

    .venv/bin/python -m benchmarks online_node

Three processes beside this one: a publisher, the node, and the process in which the node follows
the robot.
"""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
import subprocess
import sys
import tempfile
import time
from typing import Any

import numpy as np

from .harness import Figure, Section, Table
from .publishing import memory, processor_time, published
from .recorded import serialised, write_mcap
from .synthetic import panda, recording

QUIET, BUSY, PLAIN = 30.0, 12.0, 12.0
"""Seconds of following alone, while the node identifies from a bag, and without priority."""

BAG = 10.0
"""Seconds of the recording that is identified meanwhile, again and again."""

DOMAIN = 1 + os.getpid() % 100
NODE = '/identification'
JOINTS = 7


def section() -> Section:
    """Measure everything."""
    robot = panda()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made_up = recording(robot, QUIET)
        signals = np.stack((made_up.position, np.zeros_like(made_up.effort), made_up.effort))
        np.save(folder / 'messages.npy', serialised(signals))
        write_mcap(folder / 'run.mcap', serialised(signals[:, : round(1e3 * BAG)]), '')
        (folder / 'panda.urdf').write_text(robot.urdf)
        found = _measured(folder)
    rows = [
        _row('alone', found['quiet']),
        _row('while the node identifies from a bag', found['busy']),
        _row('the same without real-time priority', found['plain']),
    ]
    columns = ['', 'messages', 'lost', 'late', 'median', '99 %', '99.9 %', 'longest']
    columns += ['stamp to done', '99.9 %', 'core']
    memory = [found['quiet']['memory'], found['busy']['memory']]
    quiet = found['quiet']
    return Section(
        'Live identification in the node',
        f'A Panda with seven joints publishes `joint_states` at 1 kHz over DDS from another '
        f'process, for {QUIET:.0f} s. The times of an update [ms] run from the message taken to '
        'the parameters known (decoding, filters, regressor, recursion); an update is late where '
        'it takes longer than 1 ms. From the stamp to the end of the update there are DDS and '
        f'waiting, too. Then the same for {BUSY:.0f} s, while the service `~/identify` of the '
        f'same node works on a bag of {BAG:.0f} s ({found["requests"]} times), and once more '
        'with `online.priority: 0`. Elsewhere the process has the real-time priority that it '
        'asks for, where the system allows that. `core` is '
        'processor time for a second of time. The first 200 messages, which tell the rate, are '
        'worked up together and not counted as updates.',
        [Table(columns, rows, text=f'Memory of the process: {memory[0]:.0f} MB, then '
               f'{memory[1]:.0f} MB.')],
        [
            Figure('update, median', 1e3 * quiet['update_median'], 'ms'),
            Figure('update, 99.9 %', 1e3 * quiet['update_999'], 'ms'),
            Figure(
                'update, 99.9 %, while the node identifies from a bag',
                1e3 * found['busy']['update_999'],
                'ms',
            ),
            Figure('late updates', quiet['late_updates'], at_most=1e-3 * quiet['updates']),
            Figure('messages lost', quiet['lost'] + found['busy']['lost'], at_most=0.0),
            Figure('messages skipped', quiet['skipped'] + found['busy']['skipped'], at_most=0.0),
        ],
    )  # fmt: skip


def _row(name: str, found: dict[str, Any]) -> list[str]:
    times = [found[f'update_{part}'] for part in ('median', '99', '999', 'longest')]
    times += [found['latency_median'], found['latency_999']]
    counts = [found['messages'], found['lost'], found['late_updates']]
    return [
        name,
        *(f'{count:,}' for count in counts),
        *(f'{1e3 * seconds:.3f}' for seconds in times),
        f'{found["core"]:.2f}',
    ]


def _measured(folder: Path) -> dict[str, Any]:
    """Have another process, which may load ROS, publish and ask."""
    environment = {
        **os.environ,
        'ROS_DOMAIN_ID': str(DOMAIN),
        'ROS_AUTOMATIC_DISCOVERY_RANGE': 'LOCALHOST',
        'ROS_LOG_DIR': str(folder / 'log'),
    }
    found: dict[str, Any] = {}
    for way in ('quiet', 'plain'):
        command = [sys.executable, '-m', 'benchmarks.online_node', str(folder), way]
        subprocess.run(command, env=environment, check=True)
        found.update(json.loads((folder / 'found.json').read_text()))
    return found


# ------------------------------------------------------------------------ the process that has ROS


def _drive(folder: Path, way: str) -> None:
    """Start the node, publish, ask for its status, and write what was found."""
    from robot_identification.support.processes import NodeProcesses

    messages = np.load(folder / 'messages.npy')
    with NodeProcesses(folder / 'log') as nodes:
        parameters = {
            'robot_description': str(folder / 'panda.urdf'),
            'joints': [f'panda_joint{number}' for number in range(1, JOINTS + 1)],
            'output': str(folder / 'results'),
            'online.enabled': True,
            **({'online.priority': 0} if way == 'plain' else {}),
        }
        nodes.start('identification', parameters)
        client = _Client(nodes)
        pid = client.process_id(nodes.pid('identification'))
        if way == 'plain':
            found = {'plain': client.play(messages, PLAIN, pid, folder / 'run.mcap')}
        else:
            found = {'quiet': client.play(messages, QUIET, pid)}
            client.reset()
            found['busy'] = client.play(messages, BUSY, pid, folder / 'run.mcap')
            found['requests'] = client.answered
        client.close()
    (folder / 'found.json').write_text(json.dumps(found))


class _Client:
    """Publishes joint states and hears the status."""

    def __init__(self, nodes: Any) -> None:
        import rclpy
        from rclpy.qos import DurabilityPolicy, QoSProfile
        from robot_identification_msgs.msg import OnlineStatus
        from sensor_msgs.msg import JointState

        rclpy.init()
        self._node = rclpy.create_node('robot')
        self._spin = lambda: rclpy.spin_once(self._node, timeout_sec=0.05)
        self._nodes, self.answered = nodes, 0
        self._status: Any = None
        latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        self._node.create_subscription(OnlineStatus, f'{NODE}/online/status', self._hear, latched)
        self._publisher = self._node.create_publisher(
            JointState, 'joint_states', QoSProfile(depth=1000)
        )
        self._until(lambda: self._publisher.get_subscription_count() > 0, 60.0)

    def close(self) -> None:
        self._node.destroy_node()

    def _hear(self, status: Any) -> None:
        self._status = status

    def _until(self, condition: Any, seconds: float) -> None:
        end = time.monotonic() + seconds
        while not condition():
            self._nodes.require_alive()
            if time.monotonic() > end:
                raise SystemExit(f'nothing within {seconds} s; status: {self._status}')
            self._spin()

    def process_id(self, parent: int) -> int:
        """Return the process in which the node follows the robot."""
        children: set[str] = set()
        for task in Path(f'/proc/{parent}/task').iterdir():
            children.update((task / 'children').read_text().split())
        return int(children.pop())

    def reset(self) -> None:
        from std_srvs.srv import Trigger

        client = self._node.create_client(Trigger, f'{NODE}/online/reset')
        self._until(client.service_is_ready, 10.0)
        answer = client.call_async(Trigger.Request())
        self._until(answer.done, 20.0)
        self._until(lambda: self._status.messages == 0, 10.0)

    def play(
        self, messages: np.ndarray, seconds: float, pid: int, bag: Path | None = None
    ) -> dict[str, Any]:
        """Publish for some time, with stamps of now; return the last status by name."""
        from robot_identification_msgs.srv import Identify

        client = self._node.create_client(Identify, f'{NODE}/identify')
        request = None if bag is None else Identify.Request(source=str(bag), method=255)
        answer: Any = None
        wanted, before = round(1e3 * seconds), processor_time(pid)
        begin = time.perf_counter()
        for number, left in enumerate(published(self._publisher, messages, 1e3, wanted)):
            if request is not None and (answer is None or answer.done()):
                answer = client.call_async(request)
            if number % 100 == 0 and request is not None:
                self._take_answer(answer)
            elif left > 0.0:
                time.sleep(left)
        core = (processor_time(pid) - before) / (time.perf_counter() - begin)
        if answer is not None:
            self._until(answer.done, 60.0)
            if not answer.result().success:
                raise SystemExit(answer.result().message)
        status = self._status
        self._until(lambda: self._status is not status, 5.0)
        self._until(lambda: math.isnan(self._status.rate), 10.0)  # no more messages come
        status = self._status
        found = {
            name: value
            for name in status.get_fields_and_field_types()
            if isinstance(value := getattr(status, name), int | float)
        }
        skipped = wanted - status.messages - status.lost + status.refused + status.disordered
        return {**found, 'skipped': skipped, 'core': core, 'memory': memory(pid)}

    def _take_answer(self, answer: Any) -> None:
        import rclpy

        done = answer.done()
        rclpy.spin_once(self._node, timeout_sec=0.0)
        self.answered += answer.done() and not done


if __name__ == '__main__':
    _drive(Path(sys.argv[1]), sys.argv[2])
