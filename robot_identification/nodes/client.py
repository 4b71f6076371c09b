# SPDX-License-Identifier: Apache-2.0
"""
Client of the nodes' services, actions and status topics, typed by the message definitions.

It does what `ros2 service call`, `ros2 action send_goal` and `ros2 topic echo` do, without
ros2cli. On Ctrl-C it cancels the goal and waits until the motion has come to rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
import math
import time
from typing import Any

from action_msgs.msg import GoalStatus, GoalStatusArray
from action_msgs.srv import CancelGoal
from rclpy.action import ActionClient, get_action_names_and_types
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile
from rclpy.task import Future

from ..errors import IdentificationError
from .common import LATCHED
from .common.messages import goal_mark, nanoseconds
from .common.processes import client_node, stop_signals
from .common.requests import SERVICES
from .excitation.controller_state import ControllerRest, PublishedState

PATIENCE = 60.0
"""Time for a canceled motion to come to rest [s]."""

_START = 10.0
"""Time to wait for the publisher of a topic [s]."""

_LATCHED_WAIT = 1.0
"""Time for latched messages to arrive [s]."""

_STATUS_WAIT = 3.5
"""Time for a controller's latched statuses [s]: Fast DDS sends lost ones again every 3 s."""

_REPEAT = 1.0
"""Period of requests to stop [s]."""

_REST_TOLERANCE = 0.003
"""How much joints that rest may move [rad or m]."""

_REST_WAIT = 5.0
"""Longest time to wait for rest after the end of all goals [s]."""

_GONE = 3.0
"""How long a service has to be missing until it has gone, and not only its discovery [s]."""

_ACTIVE = (GoalStatus.STATUS_ACCEPTED, GoalStatus.STATUS_EXECUTING, GoalStatus.STATUS_CANCELING)


@contextmanager
def _caller() -> Iterator[ServiceCaller]:
    """Give a caller with a node of its own; Ctrl-C and SIGTERM interrupt it between messages."""
    with stop_signals() as stopped, client_node('robot_identification_client') as node:

        def check() -> None:
            if stopped.is_set():
                raise KeyboardInterrupt

        yield ServiceCaller(node, check)


def request(
    kind: type[Any],
    name: str,
    fields: Mapping[str, Any],
    show: Callable[[Any], None],
    *,
    namespace: str = '',
    timeout: float = 600.0,
    feedback: Callable[[Any], None] = lambda _: None,
) -> None:
    """
    Send a request to a service or an action and show the answer; initialises and shuts down ROS.

    Fields that are left out are 0, empty or false.  The answer has to come within the timeout [s];
    ``feedback`` is called with an action's feedback.

    Raises `RequestFailedError` where no node answers in time, or the answer is a refusal.
    """
    name = _place(name, namespace)
    with _caller() as caller:
        if hasattr(kind, 'Goal'):
            show(caller.act(kind, name, timeout, feedback, patience=PATIENCE, **fields))
        else:
            show(caller.call(kind, name, timeout, **fields))


def watch(
    kind: type[Any],
    topic: str,
    show: Callable[[Any], None],
    *,
    namespace: str = '',
    once: bool = False,
) -> None:
    """
    Pass on messages of a topic until Ctrl-C; initialises and shuts down ROS.

    ``show`` is called with each message; with ``once`` the first one ends it.
    Where several nodes latch their latest message, the first one is the newest of these.

    Raises `RequestFailedError` where no node publishes it.
    """
    name = _place(topic, namespace)
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
        node.create_subscription(kind, name, waiting.append, quality)
        caller.wait_for(lambda: bool(waiting), math.inf, f"topic '{name}'")
        if offered.durability == DurabilityPolicy.TRANSIENT_LOCAL:
            caller.spin(lambda: len(waiting) >= len(publishers), _LATCHED_WAIT)
        show(max(waiting, key=_stamp))
        waiting.clear()
        while not once:
            caller.wait_for(lambda: bool(waiting), math.inf, f"topic '{name}'")
            show(waiting.pop(0))


@dataclass(frozen=True)
class Stopped:
    """Outcome of a request to stop goals of a controller."""

    goals: int
    """Number of goals that were in execution."""
    canceling: int = 0
    """
    Number of them that stay CANCELING while the arm rests, as joint_trajectory_controller
    leaves a goal whose cancel came within 50 ms of its end.
    """
    at_rest: bool = False
    """Whether the arm was seen at rest."""
    others: int = 0
    """Number of goals of other clients, which go on."""

    def __str__(self) -> str:
        text = f'{self.goals} goal{"s"[: self.goals != 1]} canceled'
        if not self.goals:
            text = 'no goal to cancel'
        if self.canceling:
            stay = f'stay{"s"[: self.canceling == 1]}'
            text += f', of which {self.canceling} {stay} CANCELING, as after a cancel at the end'
        if self.others:
            text += f'; {self.others} of other clients not canceled, which --all cancels'
        if not self.goals:
            return text
        if self.at_rest:
            return f'{text}; the arm is at rest'
        return f'{text}; the arm was not seen at rest: use the emergency stop if it moves'


def stop(
    controller: str = '',
    *,
    namespace: str = '',
    timeout: float = 10.0,
    node: str = 'excitation',
    everyone: bool = False,
) -> dict[str, Stopped]:
    """
    Cancel the goals of trajectory controllers that a node has sent.

    Initialises and shuts down ROS.  The node need not run any more: its goals are known by their
    ids.  The requests are repeated until the goals have ended; how a robot comes to rest is its
    controller's matter.  Whether it does is seen by the controller's state.

    Parameters
    ----------
    controller:
        Name of the controller; empty: all of the namespace that offer the action.
    namespace:
        Namespace where the name is relative or empty, and of the node.
    timeout:
        Time for a controller to appear, and for the goals to end [s].
    node:
        Name of the node that has sent the goals.
    everyone:
        Whether all other goals are canceled, too.

    Returns
    -------
    stopped:
        What came of it, by the controllers' names.

    Raises
    ------
    RequestFailedError
        where no controller answers, or goals do not end.

    """
    controller = controller and _place(controller.rstrip('/'), namespace)
    mark = b'' if everyone else goal_mark(f'/{_place(node, namespace).lstrip("/")}')
    found: dict[str, _Goals] = {}

    with _caller() as caller:

        def look() -> bool:
            """Take in controllers that have appeared, and return whether all there are answer."""
            names = [controller] if controller else _controllers(caller.node, namespace)
            for name in names:
                if name not in found:
                    found[name] = _Goals(caller.node, name, mark)
            return bool(found) and all(each.answers() for each in found.values())

        def ended() -> bool:
            look()
            every = list(found.values())
            caller.spin(lambda: all(each.listened for each in every), _STATUS_WAIT)
            for each in every:
                each.listened = True  # there may be no statuses
            asked = [answer for each in every for answer in each.cancel()]
            caller.spin(lambda: all(answer.done() for answer in asked), _REPEAT)
            caller.spin(lambda: not any(each.left() for each in every), _REPEAT)
            # one may have appeared meanwhile, with goals of its own
            return look() and all(each.ended() for each in found.values())

        what = _place(controller or _ACTION, namespace)
        try:
            caller.wait_for(look, timeout, what)
            caller.wait_for(ended, timeout, what)
        except RequestFailedError as error:
            reasons = [each.reason(timeout) for each in found.values() if not each.ended()]
            space = namespace.strip('/')
            place = f" in the namespace '/{space}'" if space else ' outside of namespaces'
            reasons = reasons or [f"no action '{_ACTION}'{place} in {timeout:g} s"]
            raise RequestFailedError(
                f'use the emergency stop if the robot moves: {"; ".join(reasons)}',
                remedy='then see whether the controller runs, in which namespace, and in the same '
                'ROS_DOMAIN_ID',
            ) from error
        if any(each.stopped for each in found.values()):
            moving = [each for each in found.values() if each.stopped]
            caller.spin(lambda: all(each.at_rest() for each in moving), _REST_WAIT)
        return {
            name: Stopped(len(each.stopped), len(each.left()), each.at_rest(), each.others)
            for name, each in found.items()
        }


_ACTION = 'follow_joint_trajectory'
"""What a controller's action is called below its own name."""


def _controllers(node: Node, namespace: str) -> list[str]:
    """Return the controllers of a namespace whose action the graph has, as absolute names."""
    space = namespace.strip('/')
    return sorted(
        controller
        for name, kinds in get_action_names_and_types(node)
        if 'control_msgs/action/FollowJointTrajectory' in kinds
        for controller, _, action in [name.rpartition('/')]
        if action == _ACTION and controller.rpartition('/')[0].strip('/') == space
    )


class _Goals:
    """Goals of a controller whose ids have a mark, and how they end."""

    def __init__(self, node: Node, controller: str, mark: bytes) -> None:
        self._action, self._mark = f'{controller}/{_ACTION}', mark
        self.listened = False
        self.stopped: set[bytes] = set()
        self._statuses: dict[bytes, int] = {}
        self._rest = ControllerRest(PublishedState(node, f'{controller}/controller_state').latest)
        self._service = node.create_client(CancelGoal, f'{self._action}/_action/cancel_goal')
        node.create_subscription(
            GoalStatusArray, f'{self._action}/_action/status', self._note, LATCHED
        )

    def _note(self, message: GoalStatusArray) -> None:
        self.listened = True
        self._statuses.update(
            (bytes(s.goal_info.goal_id.uuid), s.status) for s in message.status_list
        )
        self.stopped.update(goal for goal in self._active() if goal.startswith(self._mark))

    def _active(self) -> dict[bytes, int]:
        return {goal: status for goal, status in self._statuses.items() if status in _ACTIVE}

    def at_rest(self) -> bool:
        """Return whether the controller's state has shown the arm at rest of late."""
        return self._rest.seen(_REST_TOLERANCE)

    def answers(self) -> bool:
        """Return whether the controller is there."""
        return self._service.service_is_ready()

    def cancel(self) -> list[Future]:
        """Ask for the end of the goals that have not ended."""
        sent = []
        for goal in self.stopped.intersection(self._active()):
            request = CancelGoal.Request()
            request.goal_info.goal_id.uuid = list(goal)
            sent.append(self._service.call_async(request))
        return sent

    def left(self) -> list[int]:
        """Return the statuses of goals that have not ended."""
        return [status for goal, status in self._active().items() if goal in self.stopped]

    @property
    def others(self) -> int:
        """Number of other clients' goals that have not ended."""
        return sum(goal not in self.stopped for goal in self._active())

    def ended(self) -> bool:
        """Return whether no goal moves the robot any more."""
        left = self.left()
        # one that stays CANCELING commands nothing once the arm rests
        resting = self.at_rest() and all(s == GoalStatus.STATUS_CANCELING for s in left)
        return self.listened and self.answers() and (not left or resting)

    def reason(self, timeout: float) -> str:
        """Return why the goals have not ended."""
        if not self.stopped:
            return f"action '{self._action}' does not answer in {timeout:g} s"
        names = {_ACTIVE[0]: 'ACCEPTED', _ACTIVE[1]: 'EXECUTING', _ACTIVE[2]: 'CANCELING'}
        left = self.left()
        counts = ', '.join(f'{left.count(s)} {n}' for s, n in names.items() if s in left)
        seen = 'is at rest now' if self.at_rest() else 'was not seen at rest'
        return f"action '{self._action}' does not end its goals ({counts}), and the arm {seen}"


def _stamp(message: Any) -> int:
    """Return the stamp of a message [ns]; 0 of one without."""
    return nanoseconds(message.header.stamp) if hasattr(message, 'header') else 0


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

        Raises `RequestFailedError` where there is no answer in time, the service goes, or the
        response has ``success: false``.
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
        canceled: Callable[[], bool] = lambda: False,
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
        canceled:
            Asked some ten times a second; once it is true the goal is canceled, again each second
            until it has ended, and its result is awaited.

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
            done, asked = handle.get_result_async(), -math.inf

            def is_there() -> bool:
                nonlocal asked
                if canceled() and time.monotonic() > asked + _REPEAT:
                    asked = time.monotonic()
                    handle.cancel_goal_async()
                return bool(client.server_is_ready())

            result = self._result(done, seconds, what, is_there).result
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
