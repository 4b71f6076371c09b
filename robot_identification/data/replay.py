# SPDX-License-Identifier: Apache-2.0
"""Part of a bag's joint states, as it is played."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ..errors import RecordingError, SettingsError
from .bag import bag_duration, joint_state_messages


def part_of_bag(
    bag: Path, topic: str, offset: float = 0.0, duration: float | None = None
) -> Iterator[tuple[int, bytes]]:
    """
    Iterate over the serialised joint states of a part of a bag, each with its receive time [ns].

    It begins ``offset`` after the first one, and has a ``duration`` [s], None for all the rest.
    """
    first = None
    for block in joint_state_messages(bag, topic):
        for place, moment in enumerate(block.times.tolist()):
            first = moment if first is None else first
            since = 1e-9 * (moment - first) - offset
            if duration is not None and since > duration:
                return
            if since >= 0.0:
                yield moment, block[place]


def part_length(
    bag: Path, topic: str, offset: float = 0.0, duration: float | None = None
) -> float:
    """
    Return how long such a part is [s].

    Raises
    ------
    RecordingError
        where the bag is missing, cannot be read or has no message.
    SettingsError
        where the offset is beyond the recording's end.

    """
    if not bag.exists():
        raise RecordingError(
            f"recording '{bag}' does not exist", file=str(bag), remedy='correct the path'
        )
    if next(part_of_bag(bag, topic, offset, duration), None) is None:
        if next(part_of_bag(bag, topic), None) is not None:
            raise SettingsError(
                f"'{bag}' has no joint states {offset:g} s after its first one",
                value=offset,
                remedy='give a shorter start offset',
            )
        raise RecordingError(
            f"'{bag}' has no joint states on topic '{topic}'",
            file=str(bag),
            remedy='name another recording or another --topic',
        )
    length = max(0.0, bag_duration(bag) - offset)
    return length if duration is None else min(length, duration)
