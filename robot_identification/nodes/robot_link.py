# SPDX-License-Identifier: Apache-2.0
"""
Link of a program with a page to the nodes of a robot: what they publish, and requests to them.

It commands no controller.  A motion is a goal of the excitation node, which checks, executes and
stops it; a recording is the recorder's.  Each of two threads spins a node of its own and makes
blocking calls by it, so that a motion and its cancel wait for no other request.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

import numpy as np
import rclpy
from rclpy.exceptions import NameValidationException
from rclpy.node import Node
from rclpy.serialization import deserialize_message
from sensor_msgs.msg import JointState

from ..data.joint_state import decode, Messages
from ..data.recording import SIGNALS
from ..errors import IdentificationError, SettingsError
from ..excitation.plan_file import as_points, read_plan
from .client import PATIENCE, ServiceCaller
from .common import FetchedMessages, LATCHED, steady_timer
from .common.messages import message_of
from .common.processes import client_node, leave, NO_SERVICES
from .interfaces import REQUESTS, TOPICS

NAME = 'robot_identification_window'

PERIOD = 0.2
"""Time between two looks at the joint states [s]."""

DRAWN_RATE = 20.0
"""Joint states a second that are kept for drawing, at most [Hz]."""

SHOWN = 30.0
"""Time of the joint states that are kept for drawing [s]."""

GAP = 1.0
"""Time without joint states across which no line is drawn [s]."""

_LONGEST = 7200.0
"""Longest time of a motion with its checks [s]."""

_ANSWER = 15.0
"""Longest time for the answer to a request [s]."""

ENDS = 'the window ends'
"""Answer to requests that come too late."""

MOST_JOINTS = 500
"""Names in joint states that are kept."""

_FETCHED = ('joint_states', 'external_effort')
"""Topics at the robot's rate, whose messages are fetched; all others are latched."""


@dataclass(frozen=True)
class MotionRequest:
    """
    A motion that the excitation node is asked for.

    Attributes
    ----------
    source:
        Name of a plan of the node, or a ``plan.yaml``.
    speed:
        Share of the planned speed, above 0 up to 1.
    recording:
        Name of the recording; empty for none.

    """

    source: str
    speed: float = 1.0
    recording: str = ''

    @classmethod
    def of_texts(cls, source: str, speed: str, recording: str) -> MotionRequest:
        """Return the request of fields of a form; raises SettingsError for one that is wrong."""
        source, speed = source.strip(), speed.strip() or '1'
        if not source:
            raise SettingsError('there is no motion', remedy='plan one, or name a plan.yaml')
        try:
            share = float(speed)
        except ValueError:
            share = 0.0
        if not 0.0 < share <= 1.0:
            raise SettingsError(
                f"'--speed {speed}' is no share of the planned speed",
                value=speed,
                remedy='give more than 0, up to 1',
            )
        return cls(source, share, recording.strip())

    def fields(self) -> dict[str, Any]:
        """Return the goal's fields; raises IdentificationError for a file that is no plan."""
        path = Path(self.source).expanduser()
        motion = {'plan_id': self.source}
        if path.suffix in ('.yaml', '.yml') or path.is_file():
            motion = {'trajectory': message_of(as_points(read_plan(path).trajectory))}
        record = {'record': bool(self.recording), 'recording_name': self.recording}
        return {**motion, 'speed': self.speed, **record}


@dataclass(frozen=True)
class States:
    """Joint states of late: (n,) times before the newest [s], (n, n_joints) signals, rate [Hz]."""

    joints: tuple[str, ...]
    time: np.ndarray
    signals: dict[str, np.ndarray]
    rate: float


class RobotLink:
    """
    Link to the nodes of a namespace; initialises ROS, which `close` shuts down.

    Attributes
    ----------
    latest:
        Newest message by the topics' names in `TOPICS`.
    moving:
        Feedback of the motion or dry run that is under way; None for none.
    executing:
        Whether that is a motion.

    """

    def __init__(self, namespace: str = '') -> None:
        self._stack = ExitStack()
        try:
            node = self._stack.enter_context(client_node(NAME, namespace=namespace or None))
        except NameValidationException as error:
            raise SettingsError(
                f"'{namespace}' is no namespace: {error}", value=namespace
            ) from error
        mover = rclpy.create_node(f'{NAME}_motion', namespace=namespace or None, **NO_SERVICES)
        self.latest: dict[str, Any] = {}
        self.moving: Any = None
        self._canceled = self.executing = False
        self._parts: deque[tuple[np.ndarray, dict[str, np.ndarray]]] = deque()
        self._joints: tuple[str, ...] = ()
        self._newest = 0.0
        self._rates: deque[float] = deque(maxlen=10)
        self._fetched = {name: FetchedMessages(node, TOPICS[name].name) for name in _FETCHED}
        for name in TOPICS.keys() - set(_FETCHED):
            self._listen(node, name)
        steady_timer(node, PERIOD, self._fetch)
        steady_timer(node, 1.0, self._follow)
        self._calls, self._motions = _Lane(node), _Lane(mover)

    def _listen(self, node: Node, name: str) -> None:
        def keep(message: Any) -> None:
            self.latest[name] = message

        node.create_subscription(TOPICS[name].type, TOPICS[name].name, keep, LATCHED)

    # ------------------------------------------------------------------------------ joint states

    def _follow(self) -> None:
        for each in self._fetched.values():
            each.follow_publishers()

    def _fetch(self) -> None:
        """Take what has arrived, and keep the extremes of it."""
        for data, _ in list(self._fetched['external_effort'].taken())[-1:]:
            self.latest['external_effort'] = deserialize_message(data, JointState)
        taken = [data for data, _ in self._fetched['joint_states'].taken()]
        if not taken:
            return
        messages = Messages.from_bytes(taken, np.zeros(len(taken)))
        try:
            found = decode(messages, dict.fromkeys(SIGNALS, self._joints))
            if not set(found.names) <= set(self._joints):
                every = tuple(dict.fromkeys((*self._joints, *found.names)))
                self._joints = every[-MOST_JOINTS:]
                self._parts.clear()
                found = decode(messages, dict.fromkeys(SIGNALS, self._joints))
        except ValueError:
            return  # names that no URDF can have
        time = 1e-9 * found.stamp
        if time[-1] < self._newest:  # as where a simulation begins again
            self._parts.clear()
        elif self._parts and time[-1] > self._newest:
            self._rates.append(len(time) / (time[-1] - self._newest))
        self._newest = float(time[-1])
        # the newest of each period, the last one always
        _, first = np.unique(np.floor(DRAWN_RATE * time[::-1]), return_index=True)
        kept = np.sort(len(time) - 1 - first)
        self._parts.append((time[kept], {name: v[kept] for name, v in found.values.items()}))
        while self._parts[0][0][-1] < self._newest - SHOWN:
            self._parts.popleft()

    def states(self) -> States | None:
        """Return the joint states of late, thinned; None before the first."""
        parts = list(self._parts)
        if not parts:
            return None
        time = np.concatenate([time for time, _ in parts])
        signals = {name: np.concatenate([values[name] for _, values in parts]) for name in SIGNALS}
        rate = float(np.median(self._rates)) if self._rates else 0.0
        return States(self._joints, *with_gaps(time - self._newest, signals), rate)

    # ---------------------------------------------------------------------------------- requests

    def ask(self, verb: str, **fields: Any) -> Future:
        """Call a service by its verb in `REQUESTS`; the future has its response or its refusal."""
        service = REQUESTS[verb]
        return self._calls.do(
            lambda call: call.call(service.type, service.name, _ANSWER, **fields)
        )

    def move(self, motion: Mapping[str, Any], *, dry_run: bool) -> Future:
        """
        Have a motion (`MotionRequest.fields`) checked, or executed, by the excitation node.

        The future has the action's result, or the error that the node gives; one motion at a time.
        """
        action = REQUESTS['excite']
        self._canceled, self.executing = False, not dry_run
        self.moving = action.type.Feedback(phase='starting')

        def note(feedback: Any) -> None:
            self.moving = feedback

        def work(caller: ServiceCaller) -> Any:
            try:
                return caller.act(
                    action.type, action.name, _LONGEST, note, patience=PATIENCE,
                    canceled=lambda: self._canceled, dry_run=dry_run, **motion,
                )  # fmt: skip
            finally:
                self.moving = None

        return self._motions.do(work)

    def cancel(self) -> None:
        """Cancel the motion or the dry run; the excitation node brings the robot to rest."""
        self._canceled = True

    def close(self, say: Callable[[str], None] = lambda text: None) -> None:
        """
        Cancel a motion, wait for rest, and leave; what goes on without this program is said.

        For the main thread, as all that leaves ROS.
        """
        if self.moving is not None and self.executing:
            say('canceling the motion; Ctrl-C again leaves at once, and does not stop the robot')
            self.cancel()
            say(outcome(self._motions.last, PATIENCE))
        status = self.latest.get('recorder')
        if status is not None and status.recording:
            say(
                f"the recorder goes on recording '{status.path}': robot-identification node end "
                'ends it'
            )
        for lane in (self._calls, self._motions):
            lane.close()
        with self._stack:
            leave(self._motions.node)


def with_gaps(
    time: np.ndarray, signals: Mapping[str, np.ndarray]
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Return (n,) times [s] and (n, n_joints) signals, with a row of NaN in each gap."""
    places = np.flatnonzero(np.diff(time) > GAP) + 1
    broken = {name: np.insert(values, places, np.nan, axis=0) for name, values in signals.items()}
    return np.insert(time, places, time[places]), broken


def outcome(motion: Future, patience: float) -> str:
    """Return in a line how a motion has ended, for which it may take so long [s]."""
    wait([motion], patience)
    if not motion.done():
        return 'the motion has not ended: use the emergency stop if the robot moves'
    error = motion.exception()
    return 'the motion was at its end' if error is None else str(error)


class _Lane:
    """Thread that spins a node, and makes blocking calls by it, one after the other."""

    def __init__(self, node: Node) -> None:
        self.node, self.last = node, Future[Any]()
        self._work: SimpleQueue[tuple[Future, Callable[[ServiceCaller], Any]]] = SimpleQueue()
        self._ended = False
        self._thread = Thread(target=self._run, name=node.get_name(), daemon=True)
        self._thread.start()

    def do(self, work: Callable[[ServiceCaller], Any]) -> Future:
        """Have a call made in the thread; the future has what it returns or raises."""
        self.last = Future()
        self.last.set_running_or_notify_cancel()  # who waits for it may leave
        self._work.put((self.last, work))
        if self._ended:
            self._refuse()
        return self.last

    def close(self) -> None:
        """End the thread, and the call that it makes; those that wait for it are refused."""
        self._ended = True
        self._thread.join()
        self._refuse()

    def _check(self) -> None:
        if self._ended:
            raise IdentificationError(ENDS)

    def _refuse(self) -> None:
        with suppress(Empty):
            while True:
                self._work.get_nowait()[0].set_exception(IdentificationError(ENDS))

    def _run(self) -> None:
        caller = ServiceCaller(self.node, self._check)
        while not self._ended:
            caller.spin(lambda: self._ended or not self._work.empty(), 1.0)
            if self._work.empty():
                continue
            future, work = self._work.get()
            try:
                future.set_result(work(caller))
            except Exception as error:
                future.set_exception(error)
