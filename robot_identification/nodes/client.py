# SPDX-License-Identifier: Apache-2.0
"""
Client of the nodes' services, actions and status topics, typed by the message definitions.

It does what `ros2 service call`, `ros2 action send_goal` and `ros2 topic echo` do, without
ros2cli. On Ctrl-C it cancels the goal and waits until the motion has come to rest.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
import math
from pathlib import Path
import signal
import sys
import time
from typing import Any

import rclpy
from rclpy.action import ActionClient
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import QoSProfile
from rclpy.signals import SignalHandlerOptions
from rclpy.task import Future

from ..errors import IdentificationError, one_of
from ..model.urdf_files import package_folders
from ..progress import Progress, silent
from .common.requests import SERVICES

PATIENCE = 60.0
"""Time for a canceled motion to come to rest [s]."""

_START = 10.0
"""Time to wait for the publisher of a topic [s]."""

_LONG, _TEXT = 24, 1000
"""Entries of a list, and characters of a text, from which on they are only counted."""


@dataclass(frozen=True)
class Interface:
    """
    One service, action or topic of a node.

    Attributes
    ----------
    kind, name:
        Type as ROS names it, such as ``robot_identification_msgs/srv/Identify``; name below the
        namespace.
    main:
        Field that needs no name on a command line; empty for none.

    """

    kind: str
    name: str
    main: str = ''
    fixed: Mapping[str, Any] | None = None

    @property
    def type(self) -> Any:
        """The class of the interface."""
        package, group, name = self.kind.split('/')
        return getattr(import_module(f'{package}.{group}'), name)

    @property
    def request(self) -> Any:
        """The class of its request or goal."""
        return self.type.Goal if '/action/' in self.kind else self.type.Request


_OWN = 'robot_identification_msgs'
VERBS: Mapping[str, Interface] = {
    'plan': Interface(f'{_OWN}/action/PlanExcitation', 'excitation/plan'),
    'preview': Interface(f'{_OWN}/srv/Preview', 'excitation/preview', 'plan_id'),
    'excite': Interface(f'{_OWN}/action/Excite', 'excitation/excite', 'plan_id'),
    'calibrate': Interface(f'{_OWN}/action/Calibrate', 'excitation/calibrate', 'folder'),
    'confirm': Interface('std_srvs/srv/SetBool', 'excitation/confirm', 'data'),
    'record': Interface(f'{_OWN}/srv/StartRecording', 'recorder/start', 'name'),
    'stop': Interface(f'{_OWN}/srv/StopRecording', 'recorder/stop'),
    'identify': Interface(f'{_OWN}/srv/Identify', 'identification/identify', 'source'),
    'validate': Interface(f'{_OWN}/srv/Validate', 'identification/validate', 'source'),
    'check': Interface(f'{_OWN}/srv/CheckConsistency', 'identification/check_consistency'),
    'export': Interface(f'{_OWN}/srv/ExportUrdf', 'identification/export_urdf', 'path'),
    'online': Interface('std_srvs/srv/SetBool', 'identification/online/enable', 'data'),
    'freeze': Interface('std_srvs/srv/SetBool', 'identification/online/freeze', 'data'),
    'save': Interface('std_srvs/srv/Trigger', 'identification/online/save'),
}
"""Requests by the verbs of the command line."""

TOPICS: Mapping[str, Interface] = {
    'joint_states': Interface('sensor_msgs/msg/JointState', 'joint_states'),
    'recorder': Interface(f'{_OWN}/msg/RecorderStatus', 'recorder/status'),
    'online': Interface(f'{_OWN}/msg/OnlineStatus', 'identification/online/status'),
    'parameters': Interface(f'{_OWN}/msg/ParameterSet', 'identification/online/parameters'),
    'contact': Interface('std_msgs/msg/Bool', 'observer/contact'),
    'external_effort': Interface('sensor_msgs/msg/JointState', 'observer/external_effort'),
}
"""Topics that can be watched."""

_SCALARS: Mapping[str, Callable[[str], Any]] = {'double': float, 'float': float, 'string': str}


def add_fields(parser: argparse.ArgumentParser, interface: Interface) -> None:
    """Add an option for each field of a request that a command line can give."""
    request, meaning = interface.request, comments(interface.kind)
    for field, kind in request.get_fields_and_field_types().items():
        name = field if field == interface.main else f'--{field.replace("_", "-")}'
        options: dict[str, Any] = {'default': argparse.SUPPRESS}
        if field == interface.main:
            options['nargs'] = '?'
        else:
            options['dest'] = field
        if kind == 'boolean' and field != interface.main:
            options['action'] = argparse.BooleanOptionalAction
        elif kind == 'boolean':
            options |= {'type': _switch, 'metavar': 'on|off'}
        elif kind in _SCALARS:
            options |= {'type': _SCALARS[kind], 'metavar': kind}
        elif kind.startswith(('int', 'uint')):
            named = _constants(request)
            options |= {
                'type': _whole(named),
                'metavar': '|'.join(n.lower() for n in named) or kind,
            }
        elif kind == 'sequence<string>':
            options |= {'nargs': '*', 'metavar': 'text'}
        elif kind == 'sequence<diagnostic_msgs/KeyValue>':
            options |= {'action': 'append', 'type': _key_value, 'metavar': 'KEY=VALUE'}
        else:
            continue  # trajectories and arrays of numbers are for programs
        if field == interface.main:
            options['metavar'] = options.get('metavar') if kind == 'boolean' else field
        told = meaning.get(field, kind).replace('%', '%%')
        parser.add_argument(name, help=told, **options)


def comments(kind: str) -> dict[str, str]:
    """Return the comments on the fields of a request, where its definition is installed."""
    package, group, name = kind.split('/')
    folders = [*package_folders(), Path(sys.prefix, 'share')]
    paths = [folder / package / group / f'{name}.{group}' for folder in folders]
    path = next((path for path in paths if path.is_file()), None)
    if path is None:
        return {}
    found, lines = {}, []
    # the request is what comes before the first line of dashes
    text = '\n' + path.read_text(encoding='utf-8')
    for line in text.partition('\n---')[0].splitlines():
        if line.startswith('#'):
            lines.append(line.strip('# '))
            continue
        if line.strip():
            found[line.split()[1]] = ' '.join(lines).rstrip('.')
        lines = []
    return found


def _constants(request: Any) -> dict[str, int]:
    """Return the constants of a message by name."""
    # a field with a default has a further attribute, as METHOD__DEFAULT; constants have no `__`
    names = [name for name in dir(request) if name.isupper() and '__' not in name]
    found = {name: getattr(request, name) for name in names}
    numbers = {name: value for name, value in found.items() if isinstance(value, int)}
    return dict(sorted(numbers.items(), key=lambda item: item[1]))


def _whole(named: Mapping[str, int]) -> Callable[[str], int]:
    def whole_number(text: str) -> int:
        if text.upper() in named:
            return named[text.upper()]
        if not text.isdecimal():
            choices = one_of(name.lower() for name in named) or 'a whole number'
            raise argparse.ArgumentTypeError(f"'{text}' is none of: {choices}")
        return int(text)

    return whole_number


def _switch(text: str) -> bool:
    words = {'on': True, 'true': True, 'off': False, 'false': False}
    if text not in words:
        raise argparse.ArgumentTypeError(f"'{text}' is neither on nor off")
    return words[text]


def _key_value(text: str) -> Any:
    key, sign, value = text.partition('=')
    if not sign:
        raise argparse.ArgumentTypeError(f"'{text}' is not KEY=VALUE")
    return import_module('diagnostic_msgs.msg').KeyValue(key=key, value=value)


@contextmanager
def _caller() -> Iterator[ServiceCaller]:
    """Give a caller with a node of its own; Ctrl-C interrupts it between two messages."""
    interrupted: list[int] = []

    def check() -> None:
        if interrupted:
            raise KeyboardInterrupt

    rclpy.init(args=[], signal_handler_options=SignalHandlerOptions.NO)
    previous = signal.signal(signal.SIGINT, lambda number, _: interrupted.append(number))
    try:
        yield ServiceCaller(rclpy.create_node('robot_identification_client'), check)
    finally:
        signal.signal(signal.SIGINT, previous)
        rclpy.try_shutdown()


def request(
    interface: Interface,
    fields: Mapping[str, Any],
    *,
    namespace: str = '',
    timeout: float = 600.0,
    progress: Progress = silent,
) -> dict[str, Any]:
    """
    Send a request and return the answer as plain values; initialises and shuts down ROS.

    The interface is one of `VERBS`; fields that are left out are 0, empty or false.  The answer
    has to come within the timeout [s]; ``progress`` is called with an action's feedback.

    Raises
    ------
    RequestFailedError
        where no node answers in time, or the answer is a refusal.

    """
    name = _name(interface, namespace)

    def told(feedback: Any) -> None:
        share, text = share_of(feedback, fields)
        progress(share, text)

    with _caller() as caller:
        if '/action/' in interface.kind:
            answer = caller.act(interface.type, name, timeout, told, patience=PATIENCE, **fields)
        else:
            answer = caller.call(interface.type, name, timeout, **fields)
    return plain(answer)


def watch(
    topic: str, show: Callable[[dict[str, Any]], None], *, namespace: str = '', once: bool = False
) -> None:
    """
    Pass on messages of a topic of `TOPICS` until Ctrl-C; initialises and shuts down ROS.

    ``show`` is called with each message as plain values; with ``once`` the first one ends it.

    Raises
    ------
    RequestFailedError
        where no node publishes it.

    """
    interface, seen = TOPICS[topic], []

    def take(message: Any) -> None:
        seen.append(True)
        show(plain(message))

    name = _name(interface, namespace)
    with _caller() as caller:
        node = caller.node
        caller.wait_for(lambda: node.count_publishers(name) > 0, _START, f"topic '{name}'")
        # as the publisher offers it: late subscribers of a status get the last message
        offered = node.get_publishers_info_by_topic(name)[0].qos_profile
        quality = QoSProfile(
            depth=10, durability=offered.durability, reliability=offered.reliability
        )
        node.create_subscription(interface.type, name, take, quality)
        caller.wait_for(lambda: once and bool(seen), math.inf, f"topic '{name}'")


def share_of(feedback: Any, fields: Mapping[str, Any]) -> tuple[float, str]:
    """Return the share that is done by an action's feedback, and its other values as text."""
    values = plain(feedback)
    share = values.pop('progress', None)
    if share is None and 'iteration' in values:
        share = values['iteration'] / (fields.get('max_iterations') or math.inf)
    phase = str(values.pop('phase', '')).replace('_', ' ')
    rest = [f'{key.replace("_", " ")} {_short(value)}' for key, value in values.items()]
    return float(share or 0.0), phase or ', '.join(rest)


def _short(value: Any) -> str:
    return f'{value:.4g}' if isinstance(value, float) else str(value)


def plain(message: Any) -> dict[str, Any]:
    """
    Return a message as mappings, lists and numbers, without what is empty.

    Long lists are only counted, and numbers have seven digits.
    """
    values = {
        field: _plain(getattr(message, field)) for field in message.get_fields_and_field_types()
    }
    return {field: value for field, value in values.items() if value not in ('', [], None)}


def _plain(value: Any) -> Any:
    if hasattr(value, 'points') and not value.points:
        return None  # a trajectory that was not asked for
    if hasattr(value, 'get_fields_and_field_types'):
        return plain(value)
    if isinstance(value, str) and len(value) > _TEXT:
        return f'{len(value)} characters'
    if isinstance(value, float):
        return float(f'{value:.7g}')
    if isinstance(value, (str, bytes, bool, int)):
        return value
    if isinstance(value, Sequence) or hasattr(value, 'tolist'):
        items = value.tolist() if hasattr(value, 'tolist') else list(value)
        if len(items) > _LONG:
            return f'{len(items)} entries'
        return [_plain(item) for item in items]
    return str(value)


def _name(interface: Interface, namespace: str) -> str:
    space = namespace.strip('/')
    return f'/{space}/{interface.name}' if space else interface.name


# ------------------------------------------------------------------------------ blocking calls


class RequestFailedError(IdentificationError):
    """A node answered that it could not do what was asked, or did not answer in time."""


class ServiceCaller:
    """
    Blocking calls to services and actions, by a node that is not spun elsewhere.

    ``check`` is called some ten times a second while waiting; it raises to give up.
    """

    def __init__(self, node: Node, check: Callable[[], None] = lambda: None) -> None:
        self.node = node
        self._check = check
        self._executor = SingleThreadedExecutor(context=node.context)
        self._executor.add_node(node)
        # a client that is destroyed with an answer on its way can bring the process down
        self._clients: dict[tuple[type, str], Any] = {}

    def wait_for(self, condition: Callable[[], bool], seconds: float, what: str) -> None:
        """Spin until ``condition`` holds; raise `RequestFailedError` naming ``what`` if late."""
        end = time.monotonic() + seconds
        while not condition():
            self._check()
            if time.monotonic() > end:
                raise RequestFailedError(
                    f'{what}: no answer within {seconds:.0f} s',
                    remedy='see whether the node runs and is in the same ROS_DOMAIN_ID',
                )
            self._executor.spin_once(timeout_sec=0.1)

    def call(self, kind: type[Any], name: str, seconds: float = 60.0, /, **fields: Any) -> Any:
        """
        Call a service and return its response.

        Raises
        ------
        RequestFailedError
            where there is no answer in time, or the response has ``success: false``.

        """
        # the answers to other clients of the service arrive here, too
        make = partial(self.node.create_client, qos_profile=SERVICES)
        client = self._client(kind, name, make)
        what = f"service '{name}'"
        self.wait_for(client.service_is_ready, seconds, what)
        response = self._result(client.call_async(kind.Request(**fields)), seconds, what)
        if not response.success:
            raise RequestFailedError(f"service '{name}' refuses: {response.message}")
        return response

    def act(
        self,
        kind: type[Any],
        name: str,
        seconds: float,
        feedback: Callable[[Any], None] = lambda _: None,
        /,
        patience: float = 0.0,
        **fields: Any,
    ) -> Any:
        """
        Send a goal with some fields to an action and return its result.

        Parameters
        ----------
        seconds:
            Time for the result.
        feedback:
            Called with each feedback.
        patience:
            Time for a goal that is canceled, by Ctrl-C or because it is late, to end [s].

        Raises
        ------
        RequestFailedError
            where the goal is refused, not done in time (it is canceled then), or its
            ``error_code`` is not 0.

        """
        client = self._client(kind, name, partial(ActionClient, self.node))
        what = f"action '{name}'"
        sent = None
        try:
            self.wait_for(client.server_is_ready, 30.0, what)
            sent = client.send_goal_async(
                kind.Goal(**fields), feedback_callback=lambda message: feedback(message.feedback)
            )
            handle = self._result(sent, 30.0, what)
            if not handle.accepted:
                raise RequestFailedError(f'{what}: the goal is refused')
            result = self._result(handle.get_result_async(), seconds, what).result
            sent = None
        finally:
            if sent is not None:
                self._cancel(sent, patience)
        if result.error_code:
            raise RequestFailedError(f'{what} fails: {result.error_msg}', value=result.error_code)
        return result

    def _cancel(self, sent: Future, patience: float) -> None:
        """Cancel a goal, whose acceptance may be on its way, and wait for its end."""
        self._spin(sent.done, min(patience, 5.0))
        handle = sent.result() if sent.done() else None
        if handle is None or not handle.accepted:
            return
        handle.cancel_goal_async()
        self._spin(handle.get_result_async().done, patience)

    def _spin(self, condition: Callable[[], bool], seconds: float) -> None:
        """Spin until a condition holds, or for a time; at least once."""
        end = time.monotonic() + seconds
        while not condition():
            self._executor.spin_once(timeout_sec=0.1)
            if time.monotonic() > end:
                return

    def _client(self, kind: type, name: str, make: Callable[[type, str], Any]) -> Any:
        if (kind, name) not in self._clients:
            self._clients[kind, name] = make(kind, name)
        return self._clients[kind, name]

    def _result(self, future: Future, seconds: float, what: str) -> Any:
        self.wait_for(future.done, seconds, what)
        return future.result()
