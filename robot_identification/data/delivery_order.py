# SPDX-License-Identifier: Apache-2.0
"""
Messages of a bag that were delivered late, and clocks that were set back.

Where receive times, too, go back in the order of writing, the clock was that of the receiver.

Messages that are older than one before were delivered late, such as by a middleware that still
discovers paths, and are passed over with a warning.  Where the messages after them are received
late, too, or many are older, the clock was set back, and the recording is refused.
"""

from __future__ import annotations

from itertools import pairwise
import warnings

import numpy as np

from ..errors import Omission, RecordingError
from .recording import recording_error

_NANOSECOND = 1e-9  # s

_SET_BACK = 0.5
"""Share of a step back by which messages after it are received later if the clock was set back."""

_FEW_LATE = 0.1
"""Share of the messages of a recording up to which they may be late."""


_UNORDERED = 500_000_000
"""Step back of receive times, as written, up to which messages are only out of order [ns]."""


class WritingOrder:
    """
    Check of receive times in the order in which a file has them, by topic.

    A recorder whose clock is set back, as a simulator's with ``use_sim_time``, writes the same
    times again: sorted, two motions would be one.
    """

    def __init__(self, source: object) -> None:
        self._source = source
        self._parts: list[tuple[int, int, int, int]] = []

    def take(self, place: int, times: np.ndarray, topics: np.ndarray) -> None:
        """
        Take the receive times (n,) [ns] of a part of the file, as written, and their topics (n,).

        Parts may come in any order of their ``place`` in the file.  Raises as `finish`.
        """
        for topic in np.unique(topics):
            own = times[topics == topic]
            self.require_forward(int(np.diff(own).min(initial=0)), int(own[-1]))
            self._parts.append((int(topic), place, int(own[0]), int(own[-1])))

    def finish(self) -> None:
        """Compare each part with the next one; raises RecordingError if the clock was set back."""
        for before, after in pairwise(sorted(self._parts)):
            if before[0] == after[0]:
                self.require_forward(after[2] - before[3], after[2])

    def require_forward(self, step: int, time: int) -> None:
        """Raise RecordingError for a step [ns] that is too far back; ``time`` is after it."""
        if step < -_UNORDERED:
            raise recording_error(
                self._source,
                f'messages were received {-step * _NANOSECOND:.6g} s before those that were '
                f'written before them, about {time * _NANOSECOND:.9f} s: the clock was set back',
                'record it again, without use_sim_time or with a clock that goes on',
                value=time * _NANOSECOND,
            )


class DeliveryOrder:
    """Check of the messages of a topic, in the order in which they were received."""

    def __init__(self, source: object, topic: str) -> None:
        self._source, self._topic = source, topic
        # the newest message: its stamp, and the time until it was received
        self._newest, self._age = 0, 0
        self._oldest: int | None = None  # of the messages after it, if they are older
        self._late, self._in_time, self._first_late = 0, 0, 0

    def take(self, stamps: np.ndarray, received: np.ndarray) -> np.ndarray:
        """Return (n,) True for messages that count, as `counts`; stamps and times are (n,)."""
        if self._oldest is None and (np.diff(stamps, prepend=self._newest) >= 0).all():
            if len(stamps):
                self._newest = int(stamps[-1])
                self._age = int(received[-1]) - self._newest
                self._in_time += len(stamps)
            return np.ones(len(stamps), dtype=bool)
        times = zip(stamps.tolist(), received.tolist(), strict=True)
        return np.array([self.counts(*each) for each in times])

    def counts(self, stamp: int, received: int) -> bool:
        """
        Return whether a message with a stamp and a receive time [ns] was not delivered late.

        Raises RecordingError if the clock was set back.
        """
        if stamp < self._newest:
            self._first_late = self._first_late if self._late else stamp
            self._late += 1
            self._oldest = stamp if self._oldest is None else min(self._oldest, stamp)
            return False
        age = received - stamp
        if self._oldest is not None:
            if age - self._age > _SET_BACK * (self._newest - self._oldest):
                raise self._goes_back()
            self._oldest = None
        self._newest, self._age = stamp, age
        self._in_time += 1
        return True

    def finish(self) -> None:
        """Warn of messages that were late; raises RecordingError where they are too many."""
        if self._late > _FEW_LATE * self._in_time:
            raise self._goes_back()
        if self._late:
            warnings.warn(
                Omission(
                    f"{self._source}: {self._late} messages of topic '{self._topic}' are older "
                    'than one before and are passed over, the first one at '
                    f'{self._first_late * _NANOSECOND:.9f} s: they were delivered late'
                ),
                stacklevel=3,
            )

    def _goes_back(self) -> RecordingError:
        """Return the error for a clock that was set back."""
        seconds = self._first_late * _NANOSECOND
        return recording_error(
            self._source,
            f"time stamp {seconds:.9f} s of topic '{self._topic}' goes back in time: "
            'the clock was set back',
            'cut the bag there, or record it again',
            value=seconds,
        )
