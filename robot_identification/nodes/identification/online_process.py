# SPDX-License-Identifier: Apache-2.0
"""
Process of the live identification, started by the identification node.

Its one thread for messages has nothing else to do, so that neither an offline identification nor
the node's parameter services delay an update.  The node sends it a task over a pipe, then
commands; it publishes under the node's names, and ends with the node.
"""

from __future__ import annotations

import gc
import math
from multiprocessing.connection import Connection
import os
import signal
import sys
import threading
import time
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray
from rclpy.event_handler import SubscriptionEventCallbacks
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.serialization import serialize_message
from rclpy.subscription import Subscription
from robot_identification_msgs.msg import OnlineStatus, Parameter, ParameterSet
from sensor_msgs.msg import JointState
from std_msgs.msg import Header

from ...errors import IdentificationError
from ...online import DelayWatch
from ..common import explain, LATCHED, run, steady_timer
from ..common.joint_states import enlarge_receive_buffers, prefer_sockets
from ..common.messages import time_message
from ..common.node_main import EXIT_USER_ERROR
from ..common.processes import prioritise
from ..player import follower_name
from .messages import (
    change_diagnostic,
    diagnostic,
    ParameterMessages,
    status_message,
    StatusSample,
)
from .online_follower import Follower, OnlineTask

DEPTH = 5000
"""Joint states that may wait: several seconds of them."""

DELAY_SECONDS = 5.0
"""Time between two determinations of the delays of efforts [s]."""

_AT_ONCE = 100  # messages that are handled before timers and commands get their turn


class OnlineNode(Node):
    """
    Node that follows a robot's joint states with a follower that is warmed up.

    Commands come in by the pipe and answers go out; a note that is not empty is logged.
    """

    def __init__(self, task: OnlineTask, pipe: Connection, follower: Follower, note: str) -> None:
        namespace, _, name = follower_name(task.node).rpartition('/')
        super().__init__(
            name,
            namespace=namespace or '/',
            use_global_arguments=False,
            start_parameter_services=False,
            enable_rosout=True,
        )
        self._task, self._pipe, self._follower = task, pipe, follower
        self._sending = threading.Lock()
        self._delays_due = 0.0
        self._asked: DelayWatch | None = None
        for each in filter(None, (note, enlarge_receive_buffers())):
            self.get_logger().warning(each)
        self._messages = ParameterMessages(self._follower.structure, task.problem.robot.name)
        self._parameters_out = self.create_publisher(ParameterSet, task.parameters, LATCHED)
        self._status_out = self.create_publisher(OnlineStatus, task.status, LATCHED)
        self._diagnostics_out = self.create_publisher(DiagnosticArray, '/diagnostics', 10)
        self._states = self._subscribe(ReliabilityPolicy.RELIABLE)
        for message in (ParameterSet(parameters=[Parameter()]), OnlineStatus(), DiagnosticArray()):
            serialize_message(message)  # the first one of a kind loads libraries
        self._arrived = time.monotonic()
        self._published = 0
        self._sample = self._diagnosed = StatusSample.of(follower)
        steady_timer(self, 1.0 / task.options.publish_rate, self._on_publish)
        steady_timer(self, 1.0, self._on_diagnostics)
        self._starter = steady_timer(self, 0.0, self._on_start)

    def _on_start(self) -> None:
        """Begin, once there is an executor."""
        self.destroy_timer(self._starter)
        threading.Thread(target=self._listen, name='commands', daemon=True).start()
        # what exists now is kept: the collector need not visit it again
        gc.collect()
        gc.freeze()
        gc.disable()
        self._send('ready', '')

    # ------------------------------------------------------------------------------- joint states

    def _subscribe(self, reliability: ReliabilityPolicy) -> Subscription:
        return self.create_subscription(
            JointState,
            self._task.joint_states,
            self._on_joint_state,
            QoSProfile(depth=DEPTH, reliability=reliability),
            raw=True,
            event_callbacks=SubscriptionEventCallbacks(
                incompatible_qos=self._on_incompatible, use_default_callbacks=False
            ),
        )

    def _on_incompatible(self, _: Any) -> None:
        """Subscribe best effort, since the driver publishes so."""
        self.get_logger().info('joint states are published best effort: some may be lost')
        self.destroy_subscription(self._states)
        self._states = self._subscribe(ReliabilityPolicy.BEST_EFFORT)

    def _on_joint_state(self, message: bytes, info: dict[str, Any]) -> None:
        """Take this message and those that wait behind it."""
        handle, left = self._states.handle, _AT_ONCE
        start = time.perf_counter()
        while True:
            self._follower.take(message, info.get('publication_sequence_number'), start)
            left -= 1
            taken = handle.take_message(JointState, True) if left else None
            if taken is None:
                break
            start = time.perf_counter()
            message, info = taken
        self._arrived = time.monotonic()

    # ----------------------------------------------------------------------------------- messages

    def _status(self, before: StatusSample, now: StatusSample) -> OnlineStatus:
        return status_message(self._follower, before, now, now.clock - self._arrived)

    def _on_publish(self) -> None:
        now = StatusSample.of(self._follower)
        if now.account.updates != self._published:
            self._published = now.account.updates
            snapshot = self._follower.snapshot()
            if snapshot is not None:
                self._parameters_out.publish(self._messages.of(snapshot))
        self._status_out.publish(self._status(self._sample, now))
        self._sample = now
        gc.collect()

    def _on_diagnostics(self) -> None:
        now = StatusSample.of(self._follower)
        status = self._status(self._diagnosed, now)
        self._diagnosed = now
        self._ask_for_delays(now.clock)
        stamp = time_message(time.time_ns())
        robot = self._task.problem.robot.name
        entries = [diagnostic(self._task.node, robot, status, self._follower.account)]
        if self._task.options.changes is not None:
            entries.append(change_diagnostic(self._task.node, robot, self._follower.changes))
        self._diagnostics_out.publish(DiagnosticArray(header=Header(stamp=stamp), status=entries))

    def _ask_for_delays(self, clock: float) -> None:
        """Have the node find the delays of efforts, which takes too long for this process."""
        if clock < self._delays_due or self._follower.delays is None:
            return
        rows = self._follower.delays.rows()
        if rows is not None:
            self._delays_due, self._asked = math.inf, self._follower.delays
            # in a thread: these are megabytes
            threading.Thread(target=self._send, args=('rows', rows), daemon=True).start()

    # ----------------------------------------------------------------------------------- commands

    def _send(self, kind: str, content: Any) -> None:
        try:
            with self._sending:
                self._pipe.send((kind, content))
        except OSError:
            pass  # the node has ended, which ends this process, too

    def _listen(self) -> None:
        """Pass commands to the thread that handles messages; end with the node."""
        try:
            while True:
                name, argument = self._pipe.recv()
                assert self.executor is not None
                self.executor.create_task(self._obey, name, argument)
        except (EOFError, OSError):
            os.kill(os.getpid(), signal.SIGTERM)

    def _obey(self, name: str, argument: Any) -> None:
        if name == 'delay':
            assert self._asked is not None
            self._asked.found = argument
            self._delays_due = time.monotonic() + DELAY_SECONDS
            return
        try:
            self._send('answer', self._answer(name, argument))
        except Exception as error:
            self._send('error', explain(self, error))

    def _answer(self, name: str, argument: Any) -> Any:
        follower = self._follower
        answer: Any = None
        if name == 'reset':
            follower.reset()
            self._published = 0
            self._sample = self._diagnosed = StatusSample.of(follower)
            self._parameters_out.publish(ParameterSet(robot=self._task.problem.robot.name))
        elif name == 'freeze':
            follower.freeze(argument)
        elif name == 'save':
            answer = follower.snapshot()
            if answer is not None:
                follower.save_state(argument)
        return answer


def main() -> int:
    """Take the task from the pipe whose number is the first argument, and follow the robot."""
    pipe = Connection(int(sys.argv[1]))
    task = pipe.recv()
    try:
        follower = Follower(task)
        follower.warm_up()
    except IdentificationError as error:
        pipe.send(('failed', str(error)))
        return EXIT_USER_ERROR
    prefer_sockets()
    note = prioritise(task.options.priority, 'online.priority')
    return run(lambda: OnlineNode(task, pipe, follower, note), [])


if __name__ == '__main__':
    sys.exit(main())
