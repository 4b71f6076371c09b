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

from action_msgs.msg import GoalStatus, GoalStatusArray
from action_msgs.srv import CancelGoal
from rclpy.action import ActionClient
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile
from rclpy.task import Future

from ..errors import IdentificationError, one_of
from ..model.urdf_files import package_folders
from ..progress import Progress, silent
from .common import LATCHED
from .common.messages import nanoseconds
from .common.processes import client_node
from .common.requests import SERVICES

PATIENCE = 60.0
"""Time for a canceled motion to come to rest [s]."""

_START = 10.0
"""Time to wait for the publisher of a topic [s]."""

_LATCHED_WAIT = 1.0
"""Time for latched messages to arrive [s]."""

_REPEAT = 1.0
"""Period of requests to stop [s]."""

_GONE = 3.0
"""How long a service has to be missing until it has gone, and not only its discovery [s]."""

_ACTIVE = (GoalStatus.STATUS_ACCEPTED, GoalStatus.STATUS_EXECUTING, GoalStatus.STATUS_CANCELING)

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
    'end': Interface(f'{_OWN}/srv/StopRecording', 'recorder/stop'),
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

    previous = signal.signal(signal.SIGINT, lambda number, _: interrupted.append(number))
    try:
        with client_node('robot_identification_client') as node:
            yield ServiceCaller(node, check)
    finally:
        signal.signal(signal.SIGINT, previous)


def request(
    interface: Interface,
    fields: Mapping[str, Any],
    show: Callable[[dict[str, Any]], None],
    *,
    namespace: str = '',
    timeout: float = 600.0,
    progress: Progress = silent,
) -> None:
    """
    Send a request and show the answer as plain values; initialises and shuts down ROS.

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
        show(plain(answer))


def watch(
    topic: str, show: Callable[[dict[str, Any]], None], *, namespace: str = '', once: bool = False
) -> None:
    """
    Pass on messages of a topic of `TOPICS` until Ctrl-C; initialises and shuts down ROS.

    ``show`` is called with each message as plain values; with ``once`` the first one ends it.
    Where several nodes latch their latest message, the first one is the newest of these.

    Raises
    ------
    RequestFailedError
        where no node publishes it.

    """
    interface, name = TOPICS[topic], _name(TOPICS[topic], namespace)
    waiting: list[Any] = []
    with _caller() as caller:
        node = caller.node
        caller.wait_for(lambda: node.count_publishers(name) > 0, _START, f"topic '{name}'")
        # as the publisher offers it: late subscribers of a status get the last message
        publishers = node.get_publishers_info_by_topic(name)
        offered = publishers[0].qos_profile
        quality = QoSProfile(
            depth=10, durability=offered.durability, reliability=offered.reliability
        )
        node.create_subscription(interface.type, name, waiting.append, quality)
        caller.wait_for(lambda: bool(waiting), math.inf, f"topic '{name}'")
        if offered.durability == DurabilityPolicy.TRANSIENT_LOCAL:
            caller.spin(lambda: len(waiting) >= len(publishers), _LATCHED_WAIT)
        show(plain(max(waiting, key=_stamp)))
        waiting.clear()
        while not once:
            caller.wait_for(lambda: bool(waiting), math.inf, f"topic '{name}'")
            show(plain(waiting.pop(0)))


def stop(controller: str, *, namespace: str = '', timeout: float = 10.0) -> int:
    """
    Cancel all goals of a trajectory controller; initialises and shuts down ROS.

    The request is repeated until the goals have ended; how the robot comes to rest is the
    controller's matter.

    Parameters
    ----------
    controller, namespace:
        Name of the controller, and its namespace where the name is relative.
    timeout:
        Time for the controller to appear, and for its goals to end [s].

    Returns
    -------
    int
        Number of goals that were in execution.

    Raises
    ------
    RequestFailedError
        where the controller does not answer, or goals do not end.

    """
    action = _place(f'{controller.rstrip("/")}/follow_joint_trajectory', namespace)
    statuses: dict[bytes, int] = {}
    stopped: set[bytes] = set()

    def take(message: GoalStatusArray) -> None:
        statuses.update((bytes(s.goal_info.goal_id.uuid), s.status) for s in message.status_list)

    def have_ended() -> bool:
        stopped.update(goal for goal, status in statuses.items() if status in _ACTIVE)
        return not any(statuses.get(goal, _ACTIVE[0]) in _ACTIVE for goal in stopped)

    with _caller() as caller:
        caller.node.create_subscription(GoalStatusArray, f'{action}/_action/status', take, LATCHED)
        service = caller.node.create_client(CancelGoal, f'{action}/_action/cancel_goal')

        def cancel() -> bool:
            # with neither a goal nor a time it means all goals
            answer = service.call_async(CancelGoal.Request())
            caller.spin(answer.done, _REPEAT)
            if not answer.done():
                return False
            stopped.update(bytes(each.goal_id.uuid) for each in answer.result().goals_canceling)
            caller.spin(lambda: bool(statuses), _LATCHED_WAIT)
            caller.spin(have_ended, _REPEAT)
            return have_ended()

        try:
            caller.wait_for(service.service_is_ready, timeout, action)
            caller.wait_for(cancel, timeout, action)
        except RequestFailedError as error:
            raise RequestFailedError(
                f"use the emergency stop: action '{action}' "
                + ('does not end its goals' if stopped else f'does not answer in {timeout:g} s'),
                remedy='then see whether the controller runs, in which namespace, and in the same '
                'ROS_DOMAIN_ID',
            ) from error
    return len(stopped)


def _stamp(message: Any) -> int:
    """Return the stamp of a message [ns]; 0 of one without."""
    return nanoseconds(message.header.stamp) if hasattr(message, 'header') else 0


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
    return _place(interface.name, namespace)


def _place(name: str, namespace: str) -> str:
    """Return a name in a namespace, unless it is absolute."""
    space = namespace.strip('/')
    return f'/{space}/{name}' if space and not name.startswith('/') else name


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
            where there is no answer in time, the service goes, or the response has
            ``success: false``.

        """
        # the answers to other clients of the service arrive here, too
        make = partial(self.node.create_client, qos_profile=SERVICES)
        client = self._client(kind, name, make)
        what = f"service '{name}'"
        self.wait_for(client.service_is_ready, seconds, what)
        answer = client.call_async(kind.Request(**fields))
        response = self._result(answer, seconds, what, client.service_is_ready)
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
            where the goal is refused, not done in time (it is canceled then), the action goes, or
            its ``error_code`` is not 0.

        """
        client = self._client(kind, name, partial(ActionClient, self.node))
        what = f"action '{name}'"
        sent = None
        try:
            self.wait_for(client.server_is_ready, 30.0, what)
            sent = client.send_goal_async(
                kind.Goal(**fields), feedback_callback=lambda message: feedback(message.feedback)
            )
            handle = self._result(sent, 30.0, what, client.server_is_ready)
            if not handle.accepted:
                raise RequestFailedError(f'{what}: the goal is refused')
            done = handle.get_result_async()
            result = self._result(done, seconds, what, client.server_is_ready).result
            sent = None
        finally:
            if sent is not None:
                self._cancel(sent, patience, client.server_is_ready)
        if result.error_code:
            raise RequestFailedError(f'{what} fails: {result.error_msg}', value=result.error_code)
        return result

    def _cancel(self, sent: Future, patience: float, is_there: Callable[[], bool]) -> None:
        """Cancel a goal, whose acceptance may be on its way, and wait for its end."""
        self.spin(sent.done, min(patience, 5.0))
        handle = sent.result() if sent.done() else None
        if handle is None or not handle.accepted:
            return
        handle.cancel_goal_async()
        ended = handle.get_result_async()
        self.spin(lambda: ended.done() or not is_there(), patience)

    def spin(self, condition: Callable[[], bool], seconds: float) -> None:
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

    def _result(
        self, future: Future, seconds: float, what: str, is_there: Callable[[], bool]
    ) -> Any:
        """Wait for an answer, for as long as the one who is to give it is there."""
        seen = time.monotonic()

        def is_done() -> bool:
            nonlocal seen
            now = time.monotonic()
            if future.done():
                return True
            if is_there():
                seen = now
            elif now > seen + _GONE:
                raise RequestFailedError(
                    f'{what}: the node has gone without an answer', remedy="see the node's log"
                )
            return False

        self.wait_for(is_done, seconds, what)
        return future.result()
