# SPDX-License-Identifier: Apache-2.0
"""
Commanded and measured positions from two topics of a bag.

Commands are joint states or trajectory points, which have no names: their values are in the order
of the joints.  Positions are interpolated at the stamps of the commands, which are held.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
import re
import struct

import numpy as np

from ..errors import one_of
from .bag import bag_messages, bag_topics, joint_state_messages, joint_state_topics
from .controller_states import CdrReader, ControllerStates
from .delivery_order import DeliveryOrder
from .joint_state import decode, JointStates
from .recording import recording_error, SIGNALS

TRAJECTORY_POINT = 'trajectory_msgs/msg/JointTrajectoryPoint'

_COMMAND_WORDS = re.compile(
    r'(^|[^a-z])(command|commands|cmd|desired|target|targets|goal)([^a-z]|$)'
)


def command_topics(bag: Path) -> tuple[str, ...]:
    """Return the topics of commands: trajectory points, and joint states of such names."""
    points = [name for name, kind in bag_topics(bag).items() if kind == TRAJECTORY_POINT]
    states = [name for name in joint_state_topics(bag) if _COMMAND_WORDS.search(name.lower())]
    return (*points, *states)


def read_command_topics(
    bag: Path, joints: Sequence[str], commands: str, states: str
) -> ControllerStates:
    """
    Read commands and positions of two topics.

    Stamps are those of the headers; receive times where messages of either topic have none.

    Parameters
    ----------
    bag:
        A bag's folder, or a file of it.
    joints:
        Names of the joints in the messages, in the order of the columns.
    commands, states:
        Names of the topics.

    Raises
    ------
    RecordingError
        for a damaged bag, a topic that is missing, or one without positions of a joint.

    """
    measured = _joint_states(bag, states, joints)
    if commands in bag_topics(bag) and bag_topics(bag)[commands] == TRAJECTORY_POINT:
        at, signals = _points(bag, commands, len(joints))
        stamps = measured.received
    else:
        sent = _joint_states(bag, commands, joints)
        signals = sent.values
        stamped = sent.stamp.any() and measured.stamp.any()
        at = sent.stamp if stamped else sent.received
        stamps = measured.stamp if stamped else measured.received
    rows, kept = (np.unique(times, return_index=True)[1] for times in (stamps, at))
    time, at = stamps[rows], at[kept]
    inside = (at >= time[0]) & (at <= time[-1])
    kept, at = kept[inside], at[inside]
    if len(at) < 2:
        raise recording_error(
            bag,
            f"topics '{commands}' and '{states}' have no time in common",
            'record both at once, with stamps of one clock',
        )

    def interpolated(values: np.ndarray) -> np.ndarray:
        zero = time[0]
        since = (time - zero).astype(float)
        columns = [np.interp((at - zero).astype(float), since, c) for c in values[rows].T]
        return np.column_stack(columns)

    def commanded(name: str) -> np.ndarray | None:
        values = signals[name][kept]
        return values if np.isfinite(values).all() and values.any() else None

    velocity = measured.values['velocity']
    return ControllerStates(
        1e-9 * (at - at[0]),
        signals['position'][kept],
        interpolated(measured.values['position']),
        interpolated(velocity) if np.isfinite(velocity).all() else None,
        commanded('velocity'),
        commanded('effort'),
    )


def _joint_states(bag: Path, topic: str, joints: Sequence[str]) -> JointStates:
    """Return the messages that have positions of all joints, without those delivered late."""
    wanted = dict.fromkeys(SIGNALS, tuple(joints))
    try:
        parts = [decode(messages, wanted) for messages in joint_state_messages(bag, topic)]
    except ValueError as error:
        raise recording_error(bag, f"topic '{topic}': {error}", 'record it again') from error
    if not parts:
        raise recording_error(bag, f"topic '{topic}' has no messages", 'record it again')
    states = JointStates.concatenate(parts)
    whole = np.isfinite(states.values['position']).all(axis=1)
    if not whole.any():
        missing = [joint for joint in joints if joint not in states.names]
        text = f"has no joint '{missing[0]}'" if missing else 'has no positions of all joints'
        raise recording_error(
            bag,
            f"topic '{topic}' {text}",
            f'it has {one_of(states.names)}; name them in robot.joints, or in the columns',
        )
    states = states.select(whole)
    order = DeliveryOrder(bag, topic)
    states = states.select(order.take(states.stamp, states.received))
    order.finish()
    return states


def _points(bag: Path, topic: str, count: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Return receive times [ns] and signals of trajectory points; NaN for what they lack."""
    times: list[int] = []
    rows: dict[str, list[np.ndarray]] = {name: [] for name in SIGNALS}
    for messages in bag_messages(bag, topic, (TRAJECTORY_POINT,)):
        for data, received in zip(messages, messages.times.tolist(), strict=True):
            try:
                position, velocity, _, effort = CdrReader(data).doubles(4)
            except (struct.error, ValueError) as error:
                text = f"a point of topic '{topic}' cannot be read ({error})"
                raise recording_error(bag, text, 'record it again') from error
            if len(position) != count:
                raise recording_error(
                    bag,
                    f"topic '{topic}' has points of {len(position)} positions for {count} joints",
                    'name the joints in their order in robot.joints',
                )
            times.append(received)
            for name, values in (
                ('position', position),
                ('velocity', velocity),
                ('effort', effort),
            ):
                rows[name].append(values if len(values) == count else np.full(count, np.nan))
    if not times:
        raise recording_error(bag, f"topic '{topic}' has no messages", 'record it again')
    return np.array(times), {name: np.array(values) for name, values in rows.items()}
