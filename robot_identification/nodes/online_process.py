# SPDX-License-Identifier: Apache-2.0
"""
Process of the live identification, started by the identification node, and its messages.

Its one thread for messages has nothing else to do, so that neither an offline identification nor
the node's parameter services delay an update.  The node sends it a task over a pipe, then
commands; it publishes under the node's names, and ends with the node.
"""

from __future__ import annotations

import contextlib
import gc
import math
from multiprocessing.connection import Connection
import os
import signal
import sys
import threading
import time
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
import numpy as np
from rclpy.event_handler import SubscriptionEventCallbacks
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.serialization import serialize_message
from rclpy.subscription import Subscription
from robot_identification_msgs.msg import OnlineStatus, Parameter, ParameterSet
from sensor_msgs.msg import JointState
from std_msgs.msg import Header

from ..errors import IdentificationError
from ..estimation.recursive.elimination import ACCEPTED, WEAK
from ..online import DelayRows, DelayWatch
from ..online.counts import MessageCounts
from ..online.follower import ChangeWatch, Follower, Snapshot
from ..online.settings import OnlineTask
from ..online.status import rate_between, StatusSample, troubles_between
from ..support.processes import prioritise
from .common import explain, LATCHED, run, steady_timer
from .common.messages import diagnostic_status, diagnostics, parameter_set_message, time_message
from .common.processes import EXIT_USER_ERROR, NO_SERVICES
from .common.receive_buffers import enlarge_receive_buffers, prefer_sockets
from .player import follower_name

DEPTH = 5000
"""Joint states that may wait: several seconds of them."""

DELAY_SECONDS = 5.0
"""Time between two determinations of the delays of efforts [s]."""

_AT_ONCE = 100  # messages that are handled before timers and commands get their turn


STATES = {
    OnlineStatus.OFF: 'off',
    OnlineStatus.STARTING: 'starting',
    OnlineStatus.WAITING: 'waiting for joint states',
    OnlineStatus.LEARNING: 'learning',
    OnlineStatus.FROZEN: 'frozen',
}
"""States in words."""


class OnlineNode(Node):
    """
    Node that follows a robot's joint states with a follower that is warmed up.

    For what goes through the pipe see `live.process`.  A note that is not empty is logged.
    """

    def __init__(self, task: OnlineTask, pipe: Connection, follower: Follower, note: str) -> None:
        namespace, _, name = follower_name(task.node).rpartition('/')
        super().__init__(
            name,
            namespace=namespace or '/',
            use_global_arguments=False,
            enable_rosout=True,
            **NO_SERVICES,
        )
        self._task, self._pipe, self._follower = task, pipe, follower
        self._sending = threading.Lock()
        self._delays_due = 0.0
        self._asked: DelayWatch | None = None
        for each in filter(None, (note, enlarge_receive_buffers())):
            self.get_logger().warning(each)
        self._parameters_out = self.create_publisher(ParameterSet, task.parameters, LATCHED)
        self._status_out = self.create_publisher(OnlineStatus, task.status, LATCHED)
        self._diagnostics_out = self.create_publisher(DiagnosticArray, '/diagnostics', 10)
        self._states = self._subscribe(ReliabilityPolicy.RELIABLE)
        for message in (ParameterSet(parameters=[Parameter()]), OnlineStatus(), DiagnosticArray()):
            serialize_message(message)  # the first one of a kind loads libraries
        self._arrived = time.monotonic()
        self._published = 0
        self._sample = self._diagnosed = StatusSample.from_follower(follower)
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
        self._send((0, None, ''))

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
        since, publishers = now.clock - self._arrived, self._states.get_publisher_count()
        return status_message(self._follower, before, now, since, publishers)

    def _on_publish(self) -> None:
        now, robot = StatusSample.from_follower(self._follower), self._task.problem.robot.name
        if now.account.updates != self._published:
            self._published = now.account.updates
            snapshot = self._follower.snapshot()
            if snapshot is not None:
                self._parameters_out.publish(parameters_message(snapshot, robot))
        self._status_out.publish(self._status(self._sample, now))
        self._sample = now
        gc.collect()

    def _on_diagnostics(self) -> None:
        now = StatusSample.from_follower(self._follower)
        status = self._status(self._diagnosed, now)
        self._diagnosed = now
        self._ask_for_delays(now.clock)
        robot = self._task.problem.robot.name
        entries = [diagnostic(self._task.node, robot, status, self._follower.account)]
        if self._task.options.changes is not None:
            entries.append(change_diagnostic(self._task.node, robot, self._follower.changes))
        self._diagnostics_out.publish(diagnostics(self, *entries))

    def _ask_for_delays(self, clock: float) -> None:
        """Have the node find the delays of efforts, which takes too long for this process."""
        if clock < self._delays_due or self._follower.delays is None:
            return
        rows = self._follower.delays.rows()
        if rows is not None:
            self._delays_due, self._asked = math.inf, self._follower.delays
            # in a thread: these are megabytes
            threading.Thread(target=self._send, args=(rows,), daemon=True).start()

    # ----------------------------------------------------------------------------------- commands

    def _send(self, message: tuple[int, Any, str] | DelayRows) -> None:
        with contextlib.suppress(OSError), self._sending:  # the end of the node ends this, too
            self._pipe.send(message)

    def _listen(self) -> None:
        """Pass commands to the thread that handles messages; end with the node."""
        try:
            while True:
                command = self._pipe.recv()
                assert self.executor is not None
                self.executor.create_task(self._obey, *command)
        except (EOFError, OSError):
            os.kill(os.getpid(), signal.SIGTERM)

    def _obey(self, number: int, name: str, argument: Any) -> None:
        if name == 'delay':
            assert self._asked is not None
            self._asked.found = argument
            self._delays_due = time.monotonic() + DELAY_SECONDS
            return
        try:
            self._send((number, self._answer(name, argument), ''))
        except Exception as error:
            self._send((number, None, explain(self, error)))

    def _answer(self, name: str, argument: Any) -> Any:
        follower = self._follower
        answer: Any = None
        if name == 'reset':
            follower.reset()
            self._published = 0
            self._sample = self._diagnosed = StatusSample.from_follower(follower)
            self._parameters_out.publish(ParameterSet(robot=self._task.problem.robot.name))
        elif name == 'freeze':
            follower.freeze(argument)
        elif name == 'save':
            answer = follower.snapshot()
            if answer is not None:
                follower.save_state(argument)
        return answer


# ------------------------------------------------------------------------------------- messages


def parameters_message(snapshot: Snapshot, robot: str) -> ParameterSet:
    """Return the base parameters of a live estimate."""
    states = {ACCEPTED: Parameter.IDENTIFIED, WEAK: Parameter.NOT_EXCITED}
    base, estimate = snapshot.structure, snapshot.estimate
    return parameter_set_message(
        base.base_layout,
        estimate.values,
        estimate.std,
        [states.get(flag, Parameter.DEPENDENT) for flag in estimate.flags.tolist()],
        stamp=time_message(snapshot.stamp),
        robot=robot,
        expressions=base.expressions,
        covariance=estimate.covariance,
    )


def status_message(
    follower: Follower,
    before: StatusSample,
    now: StatusSample,
    since_message: float,
    publishers: int,
) -> OnlineStatus:
    """
    Return the status.

    ``since_message`` is how long ago the newest joint state came [s]; ``publishers`` is how many
    are connected.
    """
    account, counts, identifier = now.account, now.counts, follower.identifier
    durations, latencies, delay = follower.durations, follower.latencies, follower.effort_delay
    unknown = np.full(len(follower.joints), np.nan)
    rate = rate_between(before, now)
    flowing = account.messages and since_message < follower.options.stale and account.updates
    state = OnlineStatus.FROZEN if follower.frozen else OnlineStatus.LEARNING
    return OnlineStatus(
        header=Header(stamp=time_message(0 if now.stamp is None else now.stamp)),
        state=state if flowing else OnlineStatus.WAITING,
        message='; '.join(troubles_between(follower, before, now, rate, since_message)),
        messages=account.messages,
        lost=account.lost,
        missed=account.missed,
        publishers=publishers,
        refused=account.refused + account.foreign + counts.invalid,
        disordered=counts.late,
        gaps=max(0, counts.stretches - 1),
        updates=account.updates,
        late_updates=account.late,
        rows=0 if identifier is None else identifier.rows,
        rate=rate,
        jitter=follower.stamps.jitter,
        longest_gap=follower.longest_gap,
        joints=follower.joints,
        effort_delay=unknown if delay is None else delay.delay,
        effort_delay_std=unknown if delay is None else delay.std,
        update_median=durations.below(0.5),
        update_99=durations.below(0.99),
        update_999=durations.below(0.999),
        update_longest=durations.longest,
        latency_median=latencies.below(0.5),
        latency_999=latencies.below(0.999),
        delay=math.nan if identifier is None else identifier.delay,
        load=(now.processor - before.processor) / max(now.clock - before.clock, 1e-9),
    )


def diagnostic(
    node: str, robot: str, status: OnlineStatus, account: MessageCounts | None = None
) -> DiagnosticStatus:
    """Return the status as rqt_robot_monitor and its like show it; with an account, if any."""
    account = MessageCounts() if account is None else account
    text = STATES[status.state]
    healthy = status.state in (OnlineStatus.LEARNING, OnlineStatus.FROZEN)
    if healthy:
        text = f'{text}, {status.rate:.4g} Hz'
    if status.message:
        text = f'{text}: {status.message}'
    values = {
        'joint states': status.messages,
        'rate [Hz]': f'{status.rate:.6g}',
        'jitter [ms]': _ms(status.jitter),
        'lost': status.lost,
        'missed before the first': status.missed,
        'left out': status.refused,
        'without effort': account.without_effort,
        'with an effort at its limit': account.saturated,
        'not in order': status.disordered,
        'gaps': status.gaps,
        'longest gap [s]': f'{status.longest_gap:.6g}',
        'updates': status.updates,
        'late updates': status.late_updates,
        'update, median [ms]': _ms(status.update_median),
        'update, 99.9 % [ms]': _ms(status.update_999),
        'update, longest [ms]': _ms(status.update_longest),
        'stamp to done, median [ms]': _ms(status.latency_median),
        'stamp to done, 99.9 % [ms]': _ms(status.latency_999),
        'load [%]': f'{100.0 * status.load:.1f}',
    }
    for joint, delay, std in zip(
        status.joints, status.effort_delay, status.effort_delay_std, strict=True
    ):
        shown = 'not known' if math.isnan(delay) else f'{_ms(delay)} +- {_ms(std)}'
        values[f'effort of {joint} late by [ms]'] = shown
    warned = not healthy or bool(status.message)
    return diagnostic_status(node, 'online', text, values, robot=robot, warned=warned)


def change_diagnostic(node: str, robot: str, changes: ChangeWatch) -> DiagnosticStatus:
    """Return what is known about changes of the robot; WARN where there has been one."""
    text, values = changes.described()
    warned = changes.newest is not None and changes.recent
    return diagnostic_status(node, 'change', text, values, robot=robot, warned=warned)


def _ms(seconds: float) -> str:
    return f'{1e3 * seconds:.3f}'


def main() -> int:
    """Take the task from the pipe whose number is the first argument, and follow the robot."""
    pipe = Connection(int(sys.argv[1]))
    task = pipe.recv()
    try:
        follower = Follower(task.problem, task.options, task.system_stamps)
        follower.warm_up()
    except IdentificationError as error:
        pipe.send((0, None, str(error)))
        return EXIT_USER_ERROR
    prefer_sockets()
    note = prioritise(task.options.priority, 'online.priority')
    return run(lambda: OnlineNode(task, pipe, follower, note), [])


if __name__ == '__main__':
    sys.exit(main())
