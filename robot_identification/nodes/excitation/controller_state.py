# SPDX-License-Identifier: Apache-2.0
"""States, progress and ending of a motion as its controller reports them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
import time
from typing import Any

import numpy as np
from rclpy.node import Node
from rclpy.qos import QoSProfile

from ..common.joint_states import BEST_EFFORT, ManualCallbackGroup, waited
from ..common.messages import (
    seconds,
)

QUEUE = 10
"""Messages of the controller's state that may wait to be fetched."""


@dataclass(frozen=True)
class ControllerState:
    """
    State that the controller publishes.

    Attributes
    ----------
    reference, measured:
        (n_joints,) positions that it wants and measures [rad or m].
    time:
        By its stamp [s].
    received:
        When it arrived, by this machine's steady clock [s].

    """

    reference: np.ndarray
    measured: np.ndarray
    time: float
    received: float


@dataclass(frozen=True)
class Progress:
    """
    Feedback of the controller on the goal.

    Attributes
    ----------
    elapsed:
        Time on the trajectory [s]; 0 where the controller does not report it.
    desired, actual, error:
        (n_joints,) wanted and measured positions, and their difference [rad or m].
    received:
        When it arrived, by this machine's steady clock [s].
    stamp:
        When it was made, by the controller's clock [ns]; 0 where it is not reported.

    """

    elapsed: float
    desired: np.ndarray
    actual: np.ndarray
    error: np.ndarray
    received: float
    stamp: int = 0


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
        from control_msgs.msg import JointTrajectoryControllerState

        self._kind, self.topic = JointTrajectoryControllerState, topic
        self._subscription = node.create_subscription(
            self._kind,
            topic,
            lambda _: None,
            QoSProfile(depth=QUEUE, reliability=BEST_EFFORT),
            callback_group=ManualCallbackGroup(),
        )
        self._latest: tuple[Any, float] | None = None

    def latest(self, joints: Sequence[str]) -> ControllerState | None:
        """Return the newest state of joints; None where there is none of them."""
        for _ in range(QUEUE):
            taken = self._subscription.handle.take_message(self._kind, False)
            if taken is None:
                break
            self._latest = taken[0], time.monotonic() - waited(taken[1])
        if self._latest is None:
            return None
        message, received = self._latest
        columns = columns_of(message.joint_names, joints)
        values = message.reference.positions, message.feedback.positions
        if columns is None or any(len(each) != len(message.joint_names) for each in values):
            return None
        reference, measured = (np.array(each)[columns] for each in values)
        if not np.isfinite([reference, measured]).all():
            return None
        return ControllerState(reference, measured, seconds(message.header.stamp), received)


def columns_of(theirs: Sequence[str], joints: Sequence[str]) -> list[int] | None:
    """Return where the joints are in the controller's order; None where one is missing."""
    order = {name: place for place, name in enumerate(theirs)}
    return [order[name] for name in joints] if order.keys() >= set(joints) else None
