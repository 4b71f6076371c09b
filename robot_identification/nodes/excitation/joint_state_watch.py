# SPDX-License-Identifier: Apache-2.0
"""The present joint state: its age, its plausibility, and whether the robot is at rest."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from itertools import takewhile
import time

import numpy as np
from rclpy.node import Node
from rclpy.serialization import deserialize_message
from sensor_msgs.msg import JointState

from ...errors import RecordingError
from ...excitation.guards import StateMonitor
from ...excitation.limits import Limits
from ..common.joint_states import FetchedJointStates, waited
from ..common.messages import joint_sample, JointSample
from .options import Code, ExecutionOptions, MotionError, Tick

LOOKS = 3
"""Looks without a message that are silence; after fewer, one may wait in the queue."""

QUEUE = 50
"""Joint states that may wait to be fetched: efforts are averaged over all of them."""

JUMP_SECONDS = 1.0
"""Step of the stamps that no delay explains: a clock was set, or a simulation begun anew [s]."""

STATE_SECONDS = 1.0
"""How long a fresh joint state may take before a motion [s]."""

LATENCY_SECONDS = 10.0
"""For how long the least latency is remembered, at least [s]."""

REST_SECONDS = 0.15
"""Time over which positions are compared to distinguish rest from motion [s]."""

CONTEST_SECONDS = 1.0
"""The same where several publishers could contradict each other [s]."""

CONTRADICTION_SECONDS = 1.0
"""Time over which joint states that are not accepted are counted [s]."""

CONTRADICTION_COUNT = 3
"""So many within that time end a motion; fewer are passed over."""


class StateWatch:
    """
    The latest joint state that is accepted (see `StateMonitor`).

    Messages are fetched by `fetch` alone: an idle node spends no time on them.  Those without news
    of all joints are passed over, so that a driver that repeats itself, sends NaN or loses a joint
    counts as silent.

    Attributes
    ----------
    joints:
        Names of the joints, in the order of all arrays.
    jump:
        Step of the stamps that no delay explains; 0 for none [s].
    published:
        When the latest joint state was published, by this machine's steady clock [s].
    refused:
        Joint states in a row that were not accepted.
    flawless:
        Whether all have been accepted since the motion began.
    moving:
        Whether a motion runs: its time base is kept then, whatever the stamps.

    """

    def __init__(self, node: Node) -> None:
        self._node = node
        # lost messages are of no use, and a reliable reader that is not read may stall for good
        # after a gap in the network
        self._messages = FetchedJointStates(node, depth=QUEUE, reliable=False)
        self.joints: tuple[str, ...] = ()
        self._monitor: StateMonitor | None = None
        self._sample: JointSample | None = None
        self._received = -np.inf
        self._latency = _Latency()
        self._sequence = 0
        self._refusals: deque[float] = deque(maxlen=CONTRADICTION_COUNT)
        self._contests: deque[float] = deque(maxlen=CONTRADICTION_COUNT)
        self._refusal = ''
        self.refused = 0
        self.flawless = True
        self.moving = False
        self.published = -np.inf
        self._looks = 0
        self.jump = 0.0
        self._fault: RecordingError | None = None
        self._past: deque[tuple[float, np.ndarray]] = deque(maxlen=64)
        self._efforts: deque[tuple[float, np.ndarray]] = deque(maxlen=1024)

    def fetch(self) -> None:
        """Take the joint states that have arrived."""
        for message, info in self._messages.taken():
            if self.joints:
                self._arrived(deserialize_message(message, JointState), info)

    def _arrived(self, message: JointState, info: Mapping[str, int]) -> None:
        latency = self._latency.of(info)
        try:
            sample = joint_sample(message, self.joints)
        except RecordingError as error:
            self._fault = error
            return
        self._count_publishers(info.get('publication_sequence_number') or 0)
        if not np.isfinite(sample.position).all():
            self._fault = RecordingError(
                'the joint states have no finite positions', remedy='repair the driver'
            )
        elif self._sample is None or not sample.stamp or sample.stamp != self._sample.stamp:
            now = time.monotonic()
            source = info.get('source_timestamp', 0)
            if self._jumps(sample.stamp) or self._refuse(sample, 1e-9 * source or now):
                return
            self._sample, self._received, self._fault = sample, now - waited(info), None
            self.published = now - latency
            self._looks = 0
            if sample.effort is not None:
                when = 1e-9 * sample.stamp if sample.stamp else self._received
                self._efforts.append((when, sample.effort))

    def _count_publishers(self, sequence: int) -> None:
        """Note that messages of several publishers alternate: each numbers its own."""
        if 0 < sequence <= self._sequence:
            self._contests.append(time.monotonic())
            self.flawless = False
        self._sequence = sequence

    def _refuse(self, sample: JointSample, published: float) -> bool:
        """Return whether a joint state is not accepted, by the clock of its publisher [s]."""
        if self._monitor is None:
            return False
        stamp = 1e-9 * sample.stamp if sample.stamp else np.nan
        fault = self._monitor.fault(stamp, published, sample.position)
        if not fault:
            self.refused = 0
            return False
        self._refusal, self.flawless = fault, False
        self._fault = RecordingError(fault, remedy='see who publishes the joint states')
        self._refusals.append(time.monotonic())
        self.refused += 1
        return True

    @property
    def contradiction(self) -> str:
        """Reason for which the joint states are not trusted; '' while they are."""
        since = time.monotonic() - CONTRADICTION_SECONDS
        if len(self._contests) == CONTRADICTION_COUNT and self._contests[0] >= since:
            return (
                f"several publishers on '{self._messages.topic_name}' have the robot's joints: "
                f'end all but the driver; there are {self._publishers()}'
            )
        if len(self._refusals) == CONTRADICTION_COUNT and self._refusals[0] >= since:
            origin = f'; they come from {self._publishers()}' if self.contested else ''
            return f'the joint states contradict each other or the limits: {self._refusal}{origin}'
        return ''

    def _publishers(self) -> str:
        found = self._node.get_publishers_info_by_topic(self._messages.topic_name)
        names = sorted(f'{each.node_namespace.rstrip("/")}/{each.node_name}' for each in found)
        return ', '.join(names) or 'none in the graph any more'

    @property
    def contested(self) -> bool:
        """True if the topic has several publishers, even of other joints."""
        return self._node.count_publishers(self._messages.topic_name) > 1

    def begin(self) -> None:
        """Begin a motion: forget what was accepted or refused before it."""
        self.fetch()
        if self._monitor is not None:
            self._monitor.restart()
        self._refusals.clear()
        self._contests.clear()
        self._refusal, self.refused, self.flawless = '', 0, True
        self.forget()

    def _jumps(self, stamp: int) -> bool:
        """Note a step of the stamps; return whether the joint state is passed over for that."""
        if self._sample is None or not stamp or not self._sample.stamp:
            return False
        step = 1e-9 * (stamp - self._sample.stamp)
        # a simulation may be some times as fast as the wall's clock
        if -JUMP_SECONDS <= step <= JUMP_SECONDS + 10.0 * self.age:
            return False
        self.jump = step
        if self._monitor is not None:
            self._monitor.restart()
        return self.moving

    def watch(self, joints: tuple[str, ...], bounds: Limits | None = None) -> None:
        """Look at ``joints``, in this order, and accept what the bounds allow; None for all."""
        if joints != self.joints:
            self.joints, self._sample, self._monitor = joints, None, None
            self._received = self.published = -np.inf
            self._past.clear()
            self._efforts.clear()
        if bounds is not None:
            self._monitor = StateMonitor(bounds)

    @property
    def age(self) -> float:
        """Time since the latest joint state arrived [s]; infinite where none has."""
        return time.monotonic() - self._received

    def silent(self, seconds: float) -> bool:
        """
        Return whether no joint state has arrived for ``seconds``.

        Messages from while this process was held up are still to be read: hence `LOOKS`.
        """
        return self.age > seconds and self._looks >= LOOKS

    @property
    def fault(self) -> str:
        """Fault of the messages that arrive; '' without one."""
        return '' if self._fault is None else str(self._fault)

    def sample(self) -> JointSample:
        """
        Return the latest joint state.

        Raises
        ------
        RecordingError
            where none has arrived that has all joints.

        """
        if self._sample is None:
            raise self._fault or RecordingError(
                f"no joint states have arrived on '{self._messages.topic_name}'",
                remedy='start the driver or the joint_state_broadcaster, or remap the topic',
            )
        return self._sample

    def now(self) -> int:
        """
        Return the present time in the clock of the joint states [ns].

        It counts from when the latest joint state was published: after this process was held up,
        old ones may arrive for a while.
        """
        stamp = self.sample().stamp
        if stamp == 0:
            return self._node.get_clock().now().nanoseconds
        return stamp + int(1e9 * (time.monotonic() - self.published))

    def look(self) -> None:
        """Fetch, and remember the present position, for `at_rest`; called 100 times a second."""
        self._looks += 1
        self.fetch()
        if self._sample is None:
            return
        stamp = self._sample.stamp
        when = 1e-9 * stamp if stamp else self._received
        if not self._past or when != self._past[-1][0]:
            self._past.append((when, self._sample.position))

    def at_rest(self, tolerance: float) -> bool:
        """Return whether no joint has moved by more than ``tolerance`` for `REST_SECONDS`."""
        latest = self._past[-1][0] if self._past else 0.0
        old = [i for i, (when, _) in enumerate(self._past) if latest - when >= 0.9 * REST_SECONDS]
        if not old:
            return False
        recent = [position for _, position in list(self._past)[old[-1] :]]
        return float(np.ptp(recent, axis=0).max()) <= tolerance

    def effort(self, seconds: float) -> np.ndarray | None:
        """Return the mean of the latest efforts, of ``seconds`` (n_joints,); None without any."""
        if not self._efforts:
            return None
        since = self._efforts[-1][0] - seconds
        latest_first = takewhile(lambda item: item[0] >= since, reversed(self._efforts))
        return np.mean([effort for _, effort in latest_first], axis=0)

    def forget(self) -> None:
        """Forget the past positions and jumps of time, so that `at_rest` looks anew."""
        self.fetch()  # messages up to now are of the past
        self._past.clear()
        self._efforts.clear()
        self.jump = 0.0


class _Latency:
    """
    Latency of messages above the smallest one of late.

    Only differences count, so that the clocks of two machines need not agree.
    """

    def __init__(self) -> None:
        self._least = [np.inf, np.inf]
        self._renewed = -np.inf

    def of(self, info: Mapping[str, int]) -> float:
        """Return the latency of a message by the middleware's information on it [s]."""
        source = info.get('source_timestamp', 0)
        if not source:
            return 0.0
        whole = time.time() - 1e-9 * source
        if time.monotonic() - self._renewed > LATENCY_SECONDS:
            self._renewed = time.monotonic()
            self._least = [self._least[1], np.inf]
        self._least[1] = min(self._least[1], whole)
        return max(whole - min(self._least), 0.0)


async def require_state(states: StateWatch, options: ExecutionOptions, tick: Tick) -> np.ndarray:
    """
    Wait for fresh joint states of a robot at rest; return its position (n_joints,).

    Raises
    ------
    MotionError
        where there are none, or the robot moves.

    """
    states.begin()
    begin = time.monotonic()
    # other publishers may be slow: whether they have the same joints shows after a while
    rest = CONTEST_SECONDS if states.contested else REST_SECONDS
    while (waited := time.monotonic() - begin) < max(options.settle_time, 2.0 * rest):
        await tick()
        if states.contradiction:
            raise MotionError(Code.UNTRUSTED_STATE, states.contradiction)
        stale = states.age > options.stale_timeout
        if stale and waited > STATE_SECONDS:
            break
        if not stale and waited > rest and states.at_rest(options.rest_tolerance):
            return states.sample().position
    try:
        states.sample()
    except RecordingError as error:
        raise MotionError(Code.STALE_STATE, str(error)) from error
    if states.age > options.stale_timeout:
        raise MotionError(
            Code.STALE_STATE,
            f'the latest joint states are {states.age:.2f} s old: '
            f'{states.fault or "see whether the driver runs"}',
        )
    raise MotionError(Code.NOT_AT_START, 'the robot is moving: wait until it is at rest')
