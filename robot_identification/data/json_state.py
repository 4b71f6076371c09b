# SPDX-License-Identifier: Apache-2.0
"""
Joint states in JSON, as Foxglove writes them to mcap, into serialised ``sensor_msgs/JointState``.

Messages are those of ROS as JSON objects, or ``foxglove.JointStates``: a ``timestamp`` and a list
``joints`` of name, position, velocity and effort, each of which but the name may be missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
import json
import math
import struct
from typing import Any

from .messages import Messages

JSON_KINDS = tuple(
    f'{kind} in json'
    for kind in (
        'foxglove.JointStates',
        'sensor_msgs/msg/JointState',
        'sensor_msgs/JointState',
        'sensor_msgs.JointState',
    )
)
"""Types with their encoding, as `mcap_records.type_of` returns them."""

_NANOSECONDS = ('nanosec', 'nsec', 'nsecs')


def from_json(messages: Messages) -> Messages:
    """
    Return messages in JSON as serialised joint states.

    A message without a stamp has the time of its receipt.  Raises ValueError for other contents.
    """
    return Messages.of(
        [_cdr(json.loads(messages[k]), int(messages.times[k])) for k in range(len(messages))],
        messages.times,
    )


def _cdr(state: Any, received: int) -> bytes:
    if not isinstance(state, Mapping):
        raise ValueError('a message is no JSON object')
    header = state.get('header')
    stamp = state.get('timestamp', header.get('stamp') if isinstance(header, Mapping) else None)
    names, signals = state.get('name', ()), {s: state.get(s, ()) for s in _SIGNALS}
    if 'joints' in state:
        names = [joint['name'] for joint in state['joints']]
        signals = {s: [joint.get(s) for joint in state['joints']] for s in _SIGNALS}
    parts = bytearray(struct.pack('<iII', *_time(stamp, received), 1) + b'\0')
    _align(parts, 4)
    parts += struct.pack('<I', len(names))
    for name in names:
        text = str(name).encode() + b'\0'
        _align(parts, 4)
        parts += struct.pack('<I', len(text)) + text
    for values in signals.values():
        numbers = _numbers(values)
        _align(parts, 4)
        parts += struct.pack('<I', len(numbers))
        if numbers:
            _align(parts, 8)
            parts += struct.pack(f'<{len(numbers)}d', *numbers)
    return b'\x00\x01\x00\x00' + bytes(parts)


_SIGNALS = ('position', 'velocity', 'effort')


def _time(stamp: Any, received: int) -> tuple[int, int]:
    """Return seconds and nanoseconds."""
    if isinstance(stamp, Mapping):
        seconds = stamp.get('sec', stamp.get('secs'))
        rest = next((stamp[key] for key in _NANOSECONDS if key in stamp), 0)
        whole = isinstance(seconds, int) and isinstance(rest, int)
        if whole and -(2**31) <= seconds < 2**31 and 0 <= rest < 10**9:
            return seconds, rest
        raise ValueError('a message has a stamp that is none')
    if stamp is not None:
        raise ValueError('a message has a stamp that is none')
    return divmod(received, 10**9)


def _numbers(values: Sequence[Any]) -> list[float]:
    """Return numbers, NaN for a missing one; none where all are missing."""
    if all(value is None for value in values):
        return []
    return [math.nan if value is None else float(value) for value in values]


def _align(parts: bytearray, size: int) -> None:
    parts += bytes(-len(parts) % size)
