# SPDX-License-Identifier: Apache-2.0
"""
Commanded and measured positions from the states of a trajectory controller in a bag.

ros2_control's joint_trajectory_controller publishes ``~/controller_state``: the reference that its
drives get and the feedback that it has of them, under one stamp.  Of the message only what all
versions share is read: header, names, reference (once ``desired``), feedback (``actual``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
import struct
from typing import NamedTuple

import numpy as np

from ..errors import one_of
from .bag import bag_messages, bag_topics
from .delivery_order import DeliveryOrder
from .joint_state import Messages
from .recording import recording_error

CONTROLLER_STATE = 'control_msgs/msg/JointTrajectoryControllerState'

_LONGEST = 10_000
"""Most names or values of a message."""


class ControllerStates(NamedTuple):
    """
    States of a controller, in the order of their stamps.

    ``time`` is (n,) [s], counted from the first one; ``command``, ``position`` and ``velocity``
    are (n, n_joints) [rad or m, and per s]; a velocity that is not published is None, and so are
    velocities and efforts that are not commanded.
    """

    time: np.ndarray
    command: np.ndarray
    position: np.ndarray
    velocity: np.ndarray | None
    command_velocity: np.ndarray | None = None
    feedforward: np.ndarray | None = None


def controller_state_topics(bag: Path) -> tuple[str, ...]:
    """
    Return the topics with states of trajectory controllers in a bag.

    Raises
    ------
    RecordingError
        as `bag.bag_topics`.

    """
    return tuple(name for name, kind in bag_topics(bag).items() if kind == CONTROLLER_STATE)


def read_controller_states(
    bag: Path, joints: Sequence[str], topic: str | None = None
) -> ControllerStates:
    """
    Read the states of a trajectory controller.

    Parameters
    ----------
    bag:
        A bag's folder, or a file of it.
    joints:
        Names of the joints in the messages, in the order of the columns.
    topic:
        Name of the topic; None for the only one of its type.

    Raises
    ------
    RecordingError
        for a damaged bag, a topic that is missing or not the only one, a joint that the messages
        do not have, and a message that cannot be read.

    """
    topic = topic or _only_topic(bag)
    rows: dict[int, tuple[np.ndarray, ...]] = {}
    measured = True
    order = DeliveryOrder(bag, topic)
    for messages in bag_messages(bag, topic, (CONTROLLER_STATE,)):
        decoded = zip(messages.times.tolist(), _decoded(messages, bag), strict=True)
        for received, (stamp, names, reference, feedback) in decoded:
            if not order.counts(stamp, received):
                continue
            missing = [joint for joint in joints if joint not in names]
            if missing:
                raise recording_error(
                    bag,
                    f"topic '{topic}' has no joint '{missing[0]}'",
                    f'it has {one_of(names)}; name them in robot.joints, or in the columns',
                    value=missing[0],
                )
            places = [names.index(joint) for joint in joints]
            wanted = [reference[0], feedback[0]]
            if any(len(values) != len(names) for values in wanted):
                raise recording_error(
                    bag,
                    f"topic '{topic}' has no positions for each joint at {1e-9 * stamp:.9f} s",
                    'record a controller that has a position state interface',
                )
            velocity = feedback[1] if len(feedback[1]) == len(names) else None
            measured = measured and velocity is not None
            # of several messages with one stamp the last one counts
            kept = [*wanted, np.full(len(names), np.nan) if velocity is None else velocity]
            rows[stamp] = tuple(values[places] for values in kept)
    order.finish()
    if len(rows) < 2:
        raise recording_error(
            bag, f"topic '{topic}' has fewer than two states", 'record it while the robot moves'
        )
    command, position, velocity = (np.array(values) for values in zip(*rows.values(), strict=True))
    stamps = np.array(list(rows))
    time = 1e-9 * (stamps - stamps[0])
    return ControllerStates(time, command, position, velocity if measured else None)


def _only_topic(bag: Path) -> str:
    topics = controller_state_topics(bag)
    if len(topics) == 1:
        return topics[0]
    problem = f'has the controllers {one_of(topics)}' if topics else 'has no state of a controller'
    remedy = (
        'name one in data.identification[].topic'
        if topics
        else 'record <controller>/controller_state, or give a table or arrays'
    )
    raise recording_error(bag, problem, remedy)


_Point = tuple[np.ndarray, np.ndarray]


def _decoded(
    messages: Messages, bag: Path
) -> Iterator[tuple[int, tuple[str, ...], _Point, _Point]]:
    """Iterate over stamp [ns], names, reference and feedback (positions, velocities)."""
    for data in messages:
        try:
            reader = CdrReader(data)
            seconds, nanoseconds = reader.numbers('iI', 1)[0]
            reader.text()
            names = tuple(reader.text() for _ in range(reader.count()))
            points = [reader.point() for _ in range(2)]
        except (struct.error, ValueError, UnicodeDecodeError) as error:
            raise recording_error(
                bag, f'a state of a controller cannot be read ({error})', 'record it again'
            ) from error
        yield seconds * 1_000_000_000 + nanoseconds, names, points[0], points[1]


class CdrReader:
    """Reader of values from a message in CDR, of either order of bytes."""

    def __init__(self, data: bytes) -> None:
        if len(data) < 4 or data[0] != 0 or data[1] not in (0, 1):
            raise ValueError('it is not in CDR')
        self._order = '<' if data[1] else '>'
        self._data, self._place = data[4:], 0

    def numbers(self, kinds: str, count: int) -> list[tuple[int, ...]]:
        """Read integers of four bytes, ``count`` times those of ``kinds``."""
        self._align(4)
        layout = struct.Struct(self._order + kinds)
        end = self._place + count * layout.size
        found = list(layout.iter_unpack(self._data[self._place : end]))
        if len(found) != count:
            raise ValueError('it ends early')
        self._place = end
        return found

    def count(self) -> int:
        """Read a length."""
        ((count,),) = self.numbers('I', 1)
        if count > _LONGEST:
            raise ValueError(f'it has {count} values')
        return count

    def text(self) -> str:
        """Read a string."""
        length = self.count()
        text = self._data[self._place : self._place + length]
        if len(text) != length:
            raise ValueError('it ends early')
        self._place += length
        return text.rstrip(b'\x00').decode()

    def point(self) -> _Point:
        """Read a trajectory point; return its positions and velocities."""
        parts = self.doubles(4)
        self.numbers('iI', 1)
        return parts[0], parts[1]

    def doubles(self, count: int) -> list[np.ndarray]:
        """Read sequences of numbers."""
        return [self._doubles() for _ in range(count)]

    def _doubles(self) -> np.ndarray:
        count = self.count()
        return self.values(count) if count else np.empty(0)

    def values(self, count: int) -> np.ndarray:
        """Read numbers of eight bytes, without a length before them."""
        self._align(8)
        end = self._place + 8 * count
        if end > len(self._data):
            raise ValueError('it ends early')
        values = np.frombuffer(self._data[self._place : end], f'{self._order}f8')
        self._place = end
        return values.astype(float)

    def _align(self, size: int) -> None:
        self._place += -self._place % size
