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
from trajectory_msgs.msg import JointTrajectoryPoint

from ...online.latest_states import LATEST
from ..common.joint_states import FetchedMessages, waiting_time
from ..common.messages import seconds

QUEUE = 10
"""Messages of the controller's state that may wait to be fetched."""

STALE = 5.0
"""Age from which a state shows no rest [s]."""


@dataclass(frozen=True)
class ControllerState:
    """State that the controller publishes."""

    reference: np.ndarray
    measured: np.ndarray
    """(n_joints,) positions that it wants and measures [rad or m]."""
    velocity: np.ndarray
    """(n_joints,) that it measures, and brakes from; NaN where it does not [rad/s or m/s]."""
    time: float
    """By its stamp [s]."""
    received: float
    """When it arrived, by this machine's steady clock [s]."""


@dataclass(frozen=True)
class Progress:
    """Feedback of the controller on the goal."""

    elapsed: float
    """Time on the trajectory [s]; 0 where the controller does not report it."""
    desired: np.ndarray
    actual: np.ndarray
    error: np.ndarray
    """(n_joints,) wanted and measured positions, and their difference [rad or m]."""
    velocity: np.ndarray
    """(n_joints,) as of `ControllerState`."""
    received: float
    """When it arrived, by this machine's steady clock [s]."""
    stamp: int = 0
    """When it was made, by the controller's clock [ns]; 0 where it is not reported."""


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
        columns = columns_of(message.joint_names, joints or message.joint_names)
        values = message.reference.positions, message.feedback.positions
        if columns is None or any(len(each) != len(message.joint_names) for each in values):
            return None
        reference, measured = (np.array(each)[columns] for each in values)
        if not np.isfinite([reference, measured]).all():
            return None
        velocity = velocities_of(message.feedback, columns)
        stamp = seconds(message.header.stamp)
        return ControllerState(reference, measured, velocity, stamp, received)


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
        if since is None or state.time < since.time or _moved(since, state) > tolerance:
            self._since = state
            return False
        passed = min(state.time - since.time, state.received - since.received)
        return passed >= LATEST.rest_seconds


def _moved(since: ControllerState, state: ControllerState) -> float:
    """Return how far the reference or the measured position has moved."""
    moved = state.reference - since.reference, state.measured - since.measured
    return float(np.abs(moved).max())


def columns_of(theirs: Sequence[str], joints: Sequence[str]) -> list[int] | None:
    """Return where the joints are in the controller's order; None where one is missing."""
    order = {name: place for place, name in enumerate(theirs)}
    return [order[name] for name in joints] if order.keys() >= set(joints) else None


def velocities_of(point: JointTrajectoryPoint, columns: Sequence[int]) -> np.ndarray:
    """Return the velocities of some columns; NaN where the point has none."""
    found = np.array(point.velocities)
    return found[columns] if found.size > max(columns) else np.full(len(columns), np.nan)
