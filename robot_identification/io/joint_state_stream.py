# SPDX-License-Identifier: Apache-2.0
"""
Serialised ``sensor_msgs/msg/JointState`` messages to arrays, one at a time, as they arrive.

A message that has all but its stamp and its numbers in common with the one before it is read from
the same places; any other one is taken apart anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
import struct
from typing import NamedTuple

import numpy as np

from ..errors import one_of, RecordingError
from .joint_state import NotJointState, shape_of, SIGNALS

_STAMP = struct.Struct('<iI')
_HEAD, _LITTLE_ENDIAN = 4, b'\x00\x01'


class ForeignStateError(RecordingError):
    """A joint state of something else: it has none of the joints."""


class MissingEffortError(RecordingError):
    """A joint state whose efforts are not one for each name: none at all, mostly."""


class JointValues(NamedTuple):
    """
    One joint state.

    Attributes
    ----------
    stamp:
        [ns].
    position, effort:
        (n,) in the order that was asked for.

    """

    stamp: int
    position: np.ndarray
    effort: np.ndarray


class _Layout(NamedTuple):
    """Offsets of the numbers in a message, and the bytes that must be equal for them."""

    length: int
    fixed: tuple[tuple[slice, bytes], ...]
    position: tuple[int, int]
    effort: tuple[int, int]


class JointStateStream:
    """
    Reads the messages of one topic.

    Parameters
    ----------
    joints:
        Names of the n joints, in the order wanted.

    """

    def __init__(self, joints: Sequence[str]) -> None:
        self._joints = tuple(joints)
        self._layout: _Layout | None = None
        self._order = np.arange(0)

    def read(self, message: bytes) -> JointValues:
        """
        Read a message.

        Raises
        ------
        RecordingError
            naming the joint or the signal that is missing; saying that it is no joint state.
        ForeignStateError, MissingEffortError
            where it has none of the joints, or no efforts.

        """
        layout = self._layout
        if layout is None or not _fits(message, layout):
            layout = self._learn(message)
        sec, nanosec = _STAMP.unpack_from(message, _HEAD)
        begin, count = layout.position
        position = np.frombuffer(message, '<f8', count, begin)[self._order]
        begin, count = layout.effort
        effort = np.frombuffer(message, '<f8', count, begin)[self._order]
        return JointValues(sec * 1_000_000_000 + nanosec, position, effort)

    def _learn(self, message: bytes) -> _Layout:
        """Take a message apart, and keep what others like it have in common with it."""
        self._layout = None
        try:
            if bytes(message[:2]) != _LITTLE_ENDIAN:
                raise ValueError('byte order')
            shape = shape_of(bytes(message), 0)
        except (NotJointState, ValueError) as error:
            raise RecordingError(
                f'a message of {len(message)} bytes is no joint state of this byte order',
                value=len(message),
                remedy='see who publishes what on the topic',
            ) from error
        names, places = shape.names, shape.places
        self._order = self._columns(names, {name: places.get(name, (0, 0))[1] for name in SIGNALS})
        # all but the stamp and the numbers
        marks = [_HEAD + _STAMP.size]
        for begin, count in sorted(places.values()):
            marks += [begin, begin + 8 * count]
        marks.append(len(message))
        runs = [slice(0, 2)] + [slice(a, b) for a, b in zip(marks[::2], marks[1::2]) if b > a]
        self._layout = _Layout(
            len(message),
            tuple((run, bytes(message[run])) for run in runs),
            places['position'],
            places['effort'],
        )
        return self._layout

    def _columns(self, names: tuple[str, ...], counts: Mapping[str, int]) -> np.ndarray:
        if not set(names).intersection(self._joints):
            raise ForeignStateError(
                f"joint '{self._joints[0]}' is not in the joint states, nor is any other one",
                joint=self._joints[0],
                remedy=f'they have {one_of(names)}',
            )
        for joint in self._joints:
            if names.count(joint) != 1:
                twice = joint in names
                raise RecordingError(
                    f"joint '{joint}' is named twice in the joint states"
                    if twice
                    else f"joint '{joint}' is not in the joint states",
                    joint=joint,
                    remedy='repair the driver, or see who else publishes on the topic'
                    if twice
                    else f'they have {one_of(names)}',
                )
        for signal in ('position', 'effort'):
            if counts[signal] != len(names):
                raise (MissingEffortError if signal == 'effort' else RecordingError)(
                    f'the joint states have {len(names)} names but {counts[signal]} values of '
                    f'{signal}',
                    value=counts[signal],
                    remedy='have the driver publish one value a name',
                )
        return np.array([names.index(joint) for joint in self._joints])


def _fits(message: bytes, layout: _Layout) -> bool:
    return len(message) == layout.length and all(
        message[run] == same for run, same in layout.fixed
    )
