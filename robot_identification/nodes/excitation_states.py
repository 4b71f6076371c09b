# SPDX-License-Identifier: Apache-2.0
"""Where the robot is: the present joint state, how old it is, and whether the robot is at rest."""

from __future__ import annotations

from collections import deque
from itertools import takewhile
import time

import numpy as np
from rclpy.callback_groups import CallbackGroup
from rclpy.node import Node
from rclpy.qos import QoSProfile
from rclpy.qos_overriding_options import QoSOverridingOptions
from sensor_msgs.msg import JointState

from ..errors import RecordingError
from .motion_messages import joint_sample, JointSample

LOOKS = 3
"""Looks without a message in between that are silence; after fewer, it may wait in the queue."""

JUMP_SECONDS = 1.0
"""Step of the stamps that no delay explains: a clock was set, or a simulation begun anew [s]."""

REST_SECONDS = 0.15
"""Time over which the positions are compared to tell rest from motion [s]."""


class StateWatch:
    """
    The latest joint state.

    The subscription's queue is short on purpose: what counts here is the present, and the recorder
    keeps the past.  Messages that tell nothing new of all joints are passed over, so that a driver
    that repeats itself, sends NaN or loses a joint counts as silent.

    Parameters
    ----------
    node:
        The node that listens to ``joint_states``.
    group:
        Callback group of the subscription.

    """

    def __init__(self, node: Node, group: CallbackGroup) -> None:
        self._node = node
        self._joints: tuple[str, ...] = ()
        self._sample: JointSample | None = None
        self._received = -np.inf
        self._looks = 0
        self.jump = 0.0
        self._fault: RecordingError | None = None
        self._past: deque[tuple[float, np.ndarray]] = deque(maxlen=64)
        self._efforts: deque[tuple[float, np.ndarray]] = deque(maxlen=1024)
        node.create_subscription(
            JointState,
            'joint_states',
            self._arrived,
            QoSProfile(depth=5),
            callback_group=group,
            qos_overriding_options=QoSOverridingOptions.with_default_policies(),
        )

    def _arrived(self, message: JointState) -> None:
        if not self._joints:
            return
        try:
            sample = joint_sample(message, self._joints)
        except RecordingError as error:
            self._fault = error
            return
        if not np.isfinite(sample.position).all():
            self._fault = RecordingError(
                'the joint states have no finite positions', remedy='repair the driver'
            )
        elif self._sample is None or not sample.stamp or sample.stamp != self._sample.stamp:
            self._note_jump(sample.stamp)
            self._sample, self._received, self._fault = sample, time.monotonic(), None
            self._looks = 0
            if sample.effort is not None:
                self._efforts.append((self._received, sample.effort))

    def _note_jump(self, stamp: int) -> None:
        if self._sample is None or not stamp or not self._sample.stamp:
            return
        step = 1e-9 * (stamp - self._sample.stamp)
        # a simulation may be some times as fast as the wall's clock
        if not -JUMP_SECONDS <= step <= JUMP_SECONDS + 10.0 * self.age:
            self.jump = step

    def watch(self, joints: tuple[str, ...]) -> None:
        """Look at ``joints``, in this order."""
        if joints != self._joints:
            self._joints, self._sample, self._received = joints, None, -np.inf
            self._past.clear()
            self._efforts.clear()

    @property
    def age(self) -> float:
        """Time since the latest joint state arrived [s]; infinite where none has."""
        return time.monotonic() - self._received

    def silent(self, seconds: float) -> bool:
        """
        Whether no joint state has come for ``seconds``.

        Where it is this process that was held up, on a busy machine, the messages of that time are
        still to be read: they are, between one look and the next.
        """
        return self.age > seconds and self._looks >= LOOKS

    @property
    def fault(self) -> str:
        """What is wrong with the messages that come, if any do; otherwise empty."""
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
            topic = self._node.resolve_topic_name('joint_states')
            raise self._fault or RecordingError(
                f"no joint states have arrived on '{topic}'",
                remedy='start the driver or the joint_state_broadcaster, or remap the topic',
            )
        return self._sample

    def now(self) -> int:
        """Return the present time in the clock of the joint states [ns]."""
        stamp = self.sample().stamp
        if stamp == 0:
            return self._node.get_clock().now().nanoseconds
        return stamp + int(1e9 * self.age)

    def look(self) -> None:
        """Remember the present position, for `at_rest`; called some 100 times a second."""
        self._looks += 1
        if self._sample is not None:
            self._past.append((self._received, self._sample.position))

    def at_rest(self, tolerance: float) -> bool:
        """Whether no joint has moved by more than ``tolerance`` for `REST_SECONDS`."""
        latest = self._past[-1][0] if self._past else 0.0
        # a longer window for slow joint states, but none with a gap in it
        window = [item for item in self._past if latest - item[0] <= 2.0 * REST_SECONDS]
        if not window or latest - window[0][0] < 0.9 * REST_SECONDS:
            return False
        first = max(i for i, (when, _) in enumerate(window) if latest - when >= 0.9 * REST_SECONDS)
        recent = [position for _, position in window[first:]]
        return float(np.ptp(recent, axis=0).max()) <= tolerance

    def velocity(self) -> np.ndarray:
        """Return how fast the joints move: as measured, or from the latest positions (n,)."""
        measured = self.sample().velocity
        if measured is not None and np.isfinite(measured).all():
            return measured
        zero = np.zeros(len(self._joints))
        if not self._past:
            return zero
        end, there = self._past[-1]
        begin, here = next(item for item in self._past if end - item[0] <= 0.06)
        return zero if end <= begin else (there - here) / (end - begin)

    def effort(self, seconds: float) -> np.ndarray | None:
        """Return the mean of the efforts measured in the last ``seconds`` (n_joints,), if any."""
        since = time.monotonic() - seconds
        latest_first = takewhile(lambda item: item[0] >= since, reversed(self._efforts))
        recent = [effort for _, effort in latest_first]
        if not recent:
            latest = self._sample
            return None if latest is None else latest.effort
        return np.mean(recent, axis=0)

    def forget(self) -> None:
        """Forget the past positions and jumps of time, so that `at_rest` looks anew."""
        self._past.clear()
        self.jump = 0.0
