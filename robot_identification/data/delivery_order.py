# SPDX-License-Identifier: Apache-2.0
"""
Messages of a bag that were delivered late, and clocks that were set back.

Messages that are older than one before were delivered late, such as by a middleware that still
discovers paths, and are passed over with a warning.  Where the messages after them are received
late, too, or many are older, the clock was set back, and the recording is refused.
"""

from __future__ import annotations

import warnings

import numpy as np

from ..errors import Omission, RecordingError
from .recording import recording_error

_NANOSECOND = 1e-9  # s

_SET_BACK = 0.5
"""Share of a step back by which messages after it are received later if the clock was set back."""

_FEW_LATE = 0.1
"""Share of the messages of a recording up to which they may be late."""


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
