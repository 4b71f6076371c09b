# SPDX-License-Identifier: Apache-2.0
"""Decoding of ``sensor_msgs/msg/JointState`` messages one by one, as they arrive."""

from __future__ import annotations

from collections.abc import Sequence
import math
from typing import NamedTuple

import numpy as np

from ..errors import one_of, RecordingError
from .joint_state import NotJointState, Shape, shape_of, STAMP, STAMP_PLACE

_LITTLE_ENDIAN = b'\x00\x01'


class ForeignStateError(RecordingError):
    """Joint state of another device: it has none of the joints."""


class MissingEffortError(RecordingError):
    """Joint state whose efforts are not one a name: none at all, mostly."""


class JointValues(NamedTuple):
    """
    One joint state: stamp [ns]; (n,) position and effort in the order that was asked for.

    The effort is empty where it is missing and that is allowed.
    """

    stamp: int
    position: np.ndarray
    effort: np.ndarray


class JointStateStream:
    """
    Decoder of the messages of one topic as they arrive.

    A message that equals the one before in all but stamp and numbers is not parsed again.

    Parameters
    ----------
    joints:
        Names of the n joints, in the order wanted.
    needs_effort:
        Whether a message without efforts is refused.

    """

    def __init__(self, joints: Sequence[str], needs_effort: bool = True) -> None:
        self._joints, self._needs_effort = tuple(joints), needs_effort
        self._shape: Shape | None = None
        self._fixed = b''
        self._order = np.arange(0)

    def read(self, message: bytes) -> JointValues:
        """
        Decode a message.

        Raises
        ------
        RecordingError
            naming the joint or signal that is missing, or for what is no joint state.
        ForeignStateError, MissingEffortError
            for a message with none of the joints, or without efforts.

        """
        shape = self._shape
        alike = shape is not None and len(message) == len(shape.mask)
        if shape is None or not alike or _fixed(message, shape) != self._fixed:
            shape = self._learn(message)
        seconds, nanoseconds = STAMP.unpack_from(message, STAMP_PLACE)
        begin, count = shape.places['position']
        position = np.frombuffer(message, '<f8', count, begin)[self._order]
        begin, count = shape.places.get('effort', (0, 0))
        effort = np.frombuffer(message, '<f8', count, begin)[self._order[:count]]
        return JointValues(seconds * 1_000_000_000 + nanoseconds, position, effort)

    def _learn(self, message: bytes) -> Shape:
        """Parse a message, and keep it to compare others with."""
        self._shape = None
        try:
            if bytes(message[:2]) != _LITTLE_ENDIAN:
                raise NotJointState(0, 'byte order')
            shape = shape_of(bytes(message))
        except NotJointState as error:
            raise RecordingError(
                f'a message of {len(message)} bytes is no joint state of this byte order '
                f'({error.reason})',
                value=len(message),
                remedy='see who publishes what on the topic',
            ) from error
        self._require_joints(shape)
        self._order = np.array([shape.names.index(joint) for joint in self._joints])
        self._shape, self._fixed = shape, _fixed(message, shape)
        return shape

    def _require_joints(self, shape: Shape) -> None:
        names, they_have = shape.names, f'they have {one_of(shape.names)}'
        if not set(names).intersection(self._joints):
            joint = self._joints[0]
            text = f"joint '{joint}' is not in the joint states, nor is any other one"
            raise ForeignStateError(text, joint=joint, remedy=they_have)
        for joint in self._joints:
            if joint not in names:
                text = f"joint '{joint}' is not in the joint states"
                raise RecordingError(text, joint=joint, remedy=they_have)
            if names.count(joint) > 1:
                text = f"joint '{joint}' is named twice in the joint states"
                remedy = 'repair the driver, or see who else publishes on the topic'
                raise RecordingError(text, joint=joint, remedy=remedy)
        for signal in ('position', 'effort'):
            count = shape.places.get(signal, (0, 0))[1]
            is_spare = signal == 'effort' and not (count or self._needs_effort)
            if count != len(names) and not is_spare:
                text = f'the joint states have {len(names)} names but {count} values of {signal}'
                remedy = 'have the driver publish one value a name'
                kind = MissingEffortError if signal == 'effort' else RecordingError
                raise kind(text, value=count, remedy=remedy)


def _fixed(message: bytes, shape: Shape) -> bytes:
    """Return the bytes that messages of a shape have in common, with zeros between them."""
    return (np.frombuffer(message, np.uint8) & shape.mask).tobytes()


def require_numbers(
    values: np.ndarray, signal: str, joints: Sequence[str], bound: float = math.inf
) -> None:
    """Raise `RecordingError` naming a joint whose value, of (n,), is not below a bound."""
    wrong = np.flatnonzero(~(np.abs(values) < bound))
    if wrong.size:
        joint, value = joints[wrong[0]], float(values[wrong[0]])
        raise RecordingError(
            f"{signal} of joint '{joint}' is {value:g} in the joint states",
            joint=joint,
            value=value,
            remedy='see what the driver reports',
        )
