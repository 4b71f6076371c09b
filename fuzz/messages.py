# SPDX-License-Identifier: Apache-2.0
"""Requests and joint states with mutated fields, sent over DDS to nodes in the same process."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
import math
import os
from pathlib import Path
from random import Random
import threading
import time
from typing import Any

from robot_identification.errors import IdentificationError

from .mutations import INTEGERS, mutate_text, WORDS
from .seeds import bag_folder, Case, EXPERIMENT, JOINTS, urdf

ANSWER_LIMIT = 40.0
"""Time within which every request has to be answered [s]."""

NUMBERS = (0.0, -0.0, 1.0, -1.0, 1e-320, 1e9, 1e308, -1e308, math.inf, -math.inf, math.nan)

_system: Nodes | None = None


class Nodes:
    """The nodes of this process, spun by a thread, and a client of them."""

    def __init__(self, folder: Path) -> None:
        # sources are outside of the folder that is emptied for each input
        self.recordings = folder.with_name(f'{folder.name}_recordings')
        os.environ['ROS_LOG_DIR'] = str(self.recordings / 'log')
        os.environ['ROS_AUTOMATIC_DISCOVERY_RANGE'] = 'OFF'
        # shared memory outlives a process that is killed
        os.environ['FASTDDS_BUILTIN_TRANSPORTS'] = 'UDPv4'
        import rclpy
        from rclpy.executors import MultiThreadedExecutor
        from rclpy.node import Node
        from robot_identification.nodes.excitation_node import ExcitationNode
        from robot_identification.nodes.identification_node import IdentificationNode
        from robot_identification.nodes.recorder_node import RecorderNode
        from robot_identification.nodes.regressor_node import RegressorNode
        from robot_identification_msgs import srv
        from robot_identification_msgs.msg import Regressor
        from sensor_msgs.msg import JointState
        from std_srvs.srv import Trigger

        self.srv, self.JointState = srv, JointState
        for plugin in ('MCAP', 'SQLITE3'):
            for name, data in bag_folder(plugin).items():
                path = self.recordings / plugin / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
        values = {
            'robot_description': urdf().decode(),
            'output': str(self.recordings),
            'robot.effort_kind': 'joint_torque',
            'data_directories': [str(self.recordings)],
            # in one process with the other nodes, the recorder must not keep them from running
            'priority': 0,
        }
        overrides = [rclpy.Parameter(name, value=value) for name, value in values.items()]
        rclpy.init(args=['--ros-args', '--log-level', 'fatal'])
        self.nodes = [
            _with_parameters(kind, overrides)
            for kind in (IdentificationNode, RegressorNode, RecorderNode, ExcitationNode)
        ]
        self.client = Node('fuzz')
        # only then does the regressor node listen to joint states
        self.client.create_subscription(Regressor, 'regressor/regressor', lambda message: None, 10)
        self.states = self.client.create_publisher(JointState, 'joint_states', 1000)
        self.kinds = {
            'identification/identify': srv.Identify,
            'identification/identify_tool': srv.IdentifyTool,
            'identification/check_consistency': srv.CheckConsistency,
            'identification/validate': srv.Validate,
            'identification/export_urdf': srv.ExportUrdf,
            'identification/reset': Trigger,
            'regressor/get_regressor': srv.GetRegressor,
            'recorder/start': srv.StartRecording,
            'recorder/stop': srv.StopRecording,
        }
        self.clients = {name: self.client.create_client(k, name) for name, k in self.kinds.items()}
        self.executor = MultiThreadedExecutor(num_threads=4)
        for node in (*self.nodes, self.client):
            self.executor.add_node(node)
        self.thread = threading.Thread(target=self.executor.spin, daemon=True)
        self.thread.start()
        for name, client in self.clients.items():
            if not client.wait_for_service(30.0):
                raise RuntimeError(f'{name} is not offered')

    def call(self, name: str, request: Any) -> Any:
        """Return the answer to a request; raises TimeoutError where there is none."""
        future = self.clients[name].call_async(request)
        end = time.monotonic() + ANSWER_LIMIT
        while not future.done() and time.monotonic() < end and self.thread.is_alive():
            time.sleep(0.002)
        if not future.done():
            raise TimeoutError(f'{name}: no answer')
        return future.result()


def _with_parameters(kind: Callable[[], Any], overrides: list) -> Any:
    """Make a node whose parameters are overridden, as by a parameter file."""
    from rclpy.node import Node

    plain = Node.__init__

    def begun(self: Any, *arguments: Any, **named: Any) -> None:
        plain(self, *arguments, **{**named, 'parameter_overrides': overrides})

    Node.__init__ = begun
    try:
        return kind()
    finally:
        Node.__init__ = plain


def prepare(folder: Path) -> None:
    """Start the nodes of this process."""
    global _system
    _system = Nodes(folder)


def nodes() -> Nodes:
    """Return the nodes of this process."""
    assert _system is not None
    return _system


def request_input(folder: Path, random: Random) -> None:
    """Send a request with mutated fields; it has to be answered in one line."""
    system = nodes()
    name = random.choice(tuple(system.kinds))
    request = sound_request(name, system, random)
    mutate(request, random)
    answer = system.call(name, request)
    _require_line(answer.message)
    if not answer.success:
        raise IdentificationError(answer.message or 'no reason')


def state_input(folder: Path, random: Random) -> None:
    """Publish joint states with mutated fields; then a request has to be answered."""
    system = nodes()
    stamp = time.time_ns()
    for _ in range(20):
        stamp += random.choice((10_000_000, 10_000_000, 10_000_000, 0, -1, -(10**9), 10**12))
        message = system.JointState()
        message.header.stamp.sec = max(-(2**31), min(2**31 - 1, stamp // 10**9))
        message.header.stamp.nanosec = stamp % 10**9
        message.name = list(JOINTS)
        for signal in ('position', 'velocity', 'effort'):
            setattr(message, signal, [random.uniform(-1.0, 1.0) for _ in JOINTS])
        if random.random() < 0.5:
            mutate(message, random)
        system.states.publish(message)
    request = system.srv.GetRegressor.Request()
    request.position = request.velocity = request.acceleration = [0.1, 0.2]
    answer = system.call('regressor/get_regressor', request)
    if not answer.success:
        raise AssertionError(f'the regressor node no longer answers: {answer.message}')


def sound_request(name: str, system: Nodes, random: Random) -> Any:
    """Return a request that is answered with success, or would be after another one."""
    from diagnostic_msgs.msg import KeyValue
    from robot_identification_msgs.msg import Parameter

    request = system.kinds[name].Request()
    bags = [str(system.recordings / plugin) for plugin in ('MCAP', 'SQLITE3')]
    if name.endswith(('identify', 'validate')):
        request.source = random.choice(bags)
    if name.endswith('identify'):
        request.method = random.choice(('', '', 'ols', 'wls', 'best', '\n'))
        options = ('signals.cutoff: 10.0', 'signals.trim: 0.05', 'robot.friction: [viscous]',
                   'signals.decimate_to: 20.0', 'estimation.prior: urdf')  # fmt: skip
        request.options = [
            KeyValue(key=key, value=value)
            for key, value in (text.split(': ') for text in random.sample(options, 2))
        ]
    elif name.endswith('check_consistency'):
        request.parameters.parameters = [
            Parameter(name=f'link_1.{symbol}', value=value)
            for symbol, value in zip(
                ('m', 'mx', 'my', 'mz', 'Ixx', 'Ixy', 'Iyy', 'Ixz', 'Iyz', 'Izz'),
                (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 1.0),
                strict=True,
            )
        ]
    elif name.endswith('get_regressor'):
        for field in ('position', 'velocity', 'acceleration'):
            setattr(request, field, [random.uniform(-1.0, 1.0) for _ in range(6)])
    elif name.endswith('export_urdf'):
        request.path = str(system.recordings / 'exported.urdf')
    return request


def mutate(message: Any, random: Random) -> None:
    """Change one to three fields of a message, or of what is in it, within their types."""
    for _ in range(random.choice((0, 1, 1, 2, 3))):
        part = message
        while True:
            fields = part.get_fields_and_field_types()
            if not fields:
                return
            name = random.choice(tuple(fields))
            value = getattr(part, name)
            if hasattr(value, 'get_fields_and_field_types'):
                part = value
                continue
            inner = list(value) if isinstance(value, (list, array)) else []
            if inner and hasattr(inner[0], 'get_fields_and_field_types') and random.random() < 0.8:
                part = random.choice(inner)
                continue
            break
        try:
            setattr(part, name, _changed(value, fields[name], random))
        except (AssertionError, UnicodeError):
            continue  # no value of the field's type


def _changed(value: Any, kind: str, random: Random) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return random.choice(INTEGERS) * random.choice((1, -1)) % 2**8
    if isinstance(value, float):
        return random.choice(NUMBERS)
    if isinstance(value, str):
        if random.random() < 0.5:
            return random.choice(WORDS).encode('utf-8', 'replace').decode()
        return mutate_text(value.encode(), random).decode('utf-8', 'replace')
    items = list(value)
    change = random.randrange(5)
    if change == 0 and items:
        at = random.randrange(len(items))
        if isinstance(items[at], (float, str)):
            items[at] = _changed(items[at], kind, random)
        return items
    if change == 1:
        return items[: random.randrange(len(items) + 1)]
    if change == 2:
        return items * random.choice((2, 3, 100, 2000))
    if change == 3:
        random.shuffle(items)
        return items
    return []


def _require_line(text: str) -> None:
    if len(text.splitlines()) > 1:
        raise AssertionError(f'a message of several lines: {text}')


def no_files() -> Sequence[Case]:
    """Return one input without any file."""
    return [Case({'nothing': EXPERIMENT.encode()}, 'nothing')]
