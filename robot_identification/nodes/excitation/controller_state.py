# SPDX-License-Identifier: Apache-2.0
"""States, progress and ending of a motion as its controller reports them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
import time
from typing import Any

import numpy as np
from rclpy.node import Node
from rclpy.serialization import deserialize_message

from ...online.latest_states import LATEST
from ..common.joint_states import FetchedMessages, waiting_time
from ..common.messages import nanoseconds, seconds

QUEUE = 10
"""Messages of the controller's state that may wait to be fetched."""

STALE = 5.0
"""Age from which a state shows no rest [s]."""


@dataclass(frozen=True)
class ControllerState:
    """State that a controller publishes, or gives as feedback on its goal."""

    elapsed: float
    """Time on the trajectory [s]; 0 where it is not reported."""
    reference: np.ndarray
    measured: np.ndarray
    error: np.ndarray
    """(n_joints,) wanted and measured positions, and their difference [rad or m]."""
    velocity: np.ndarray
    """(n_joints,) that it measures, and brakes from; NaN where it does not [rad/s or m/s]."""
    stamp: int
    """When it was made, by the controller's clock [ns]; 0 where it is not reported."""
    received: float
    """When it arrived, by this machine's steady clock [s]."""
    speed: float = 1.0
    """Rate at which it lets the time of a trajectory pass."""

    @classmethod
    def from_message(
        cls, message: Any, joints: Sequence[str], received: float
    ) -> ControllerState | None:
        """Return that of a state or a feedback, in the order of ``joints``; None without them."""
        wanted, measured = (
            (message.reference, message.feedback)
            if hasattr(message, 'reference')
            else (message.desired, message.actual)
        )
        names = list(message.joint_names)
        parts = wanted.positions, measured.positions, message.error.positions, measured.velocities
        count = len(names)
        if not set(joints) <= set(names) or any(len(each) != count for each in parts[:3]):
            return None
        columns = [names.index(joint) for joint in joints]
        reference, at, error = (np.array(each)[columns] for each in parts[:3])
        if not np.isfinite([reference, at, error]).all():
            return None
        unknown = np.full(count, np.nan)
        velocity = (np.array(parts[3]) if len(parts[3]) == count else unknown)[columns]
        elapsed, stamp = seconds(wanted.time_from_start), nanoseconds(message.header.stamp)
        speed = getattr(message, 'speed_scaling_factor', 1.0)
        return cls(elapsed, reference, at, error, velocity, stamp, received, speed)


@dataclass(frozen=True)
class Ending:
    """End of the goal: its status, the name of the result's code, and the controller's words."""

    status: int
    code: str = ''
    text: str = ''

    @property
    def words(self) -> str:
        """Reason that the controller gives."""
        return ', '.join(filter(None, (self.code, self.text))) or 'it gives no reason'


class PublishedState:
    """The controller's state, fetched from its topic when it is looked at."""

    def __init__(self, node: Node, topic: str) -> None:
        from control_msgs.msg import JointTrajectoryControllerState as Kind

        self._kind = Kind
        self._messages = FetchedMessages(node, topic, Kind, depth=QUEUE, reliable=False)
        self._latest: tuple[Any, float] | None = None

    def latest(self, joints: Sequence[str] = ()) -> ControllerState | None:
        """Return the newest state of joints, or of all; None where there is none of them."""
        for data, info in self._messages.taken():
            received = time.monotonic() - waiting_time(info)
            self._latest = deserialize_message(data, self._kind), received
        if self._latest is None:
            return None
        message, received = self._latest
        return ControllerState.from_message(message, joints or message.joint_names, received)


class ControllerRest:
    """Watch on the controller's own state, which shows whether the robot rests."""

    def __init__(self, latest: Callable[[], ControllerState | None]) -> None:
        self._latest = latest
        self._begin = time.monotonic()
        self._since: ControllerState | None = None

    def seen(self, tolerance: float) -> bool:
        """Return whether wanted and measured positions have stayed for `rest_seconds`."""
        state, since = self._latest(), self._since
        if state is None or max(self._begin, time.monotonic() - STALE) > state.received:
            return False
        # a clock that was set back begins again, as a robot that has moved
        if since is None or state.stamp < since.stamp or _moved(since, state) > tolerance:
            self._since = state
            return False
        stamps = 1e-9 * (state.stamp - since.stamp)
        passed = min(stamps, state.received - since.received)
        return passed >= LATEST.rest_seconds


def _moved(since: ControllerState, state: ControllerState) -> float:
    """Return how far the reference or the measured position has moved."""
    moved = state.reference - since.reference, state.measured - since.measured
    return float(np.abs(moved).max())
