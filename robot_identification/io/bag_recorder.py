# SPDX-License-Identifier: Apache-2.0
"""
Record serialised messages into a bag while they arrive.

Whoever receives messages only appends them to a bounded queue; a thread of its own reads their
stamps and writes them, in batches, so that neither a slow disk nor the interpreter's lock holds up
the next message.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
import os
from pathlib import Path
import struct
import threading
import time

from ..errors import RecordingError
from .mcap_writer import BagWriter, Topic
from .stamps import StampStatistics

_BATCH_SECONDS = 0.1


@dataclass(frozen=True)
class RecordingStatus:
    """
    How a recording goes, or went.

    Attributes
    ----------
    path:
        Folder of the bag.
    messages:
        Messages written.
    dropped:
        Messages known to be lost.
    gaps:
        Times at which the stamps skip one or more samples, over all topics.
    rate:
        Mean message rate of the first topic by its stamps [Hz].
    longest_gap:
        Longest time between two successive stamps of a topic [s].
    duration:
        Time covered by the stamps of the first topic [s].
    message:
        What the user should know; empty where nothing is wrong.

    """

    path: Path
    messages: int
    dropped: int
    gaps: int
    rate: float
    longest_gap: float
    duration: float
    message: str


class BagRecorder:
    """
    Writes what `offer` takes into a bag, from its making until `stop`.

    Parameters
    ----------
    folder:
        The bag's directory; must not exist.
    topics:
        What is recorded; messages start with a ``std_msgs/Header``.
    capacity:
        Messages that may wait for the disk; more are dropped and counted.
    flush_period:
        Time between two hand-overs to the operating system [s].  A killed process loses at most
        what came after the last one.

    Raises
    ------
    RecordingError
        where the bag cannot be made.

    """

    def __init__(
        self,
        folder: str | os.PathLike,
        topics: Sequence[Topic],
        *,
        capacity: int = 100_000,
        flush_period: float = 0.5,
    ) -> None:
        self.error: RecordingError | None = None
        self._writer = BagWriter(folder, topics)
        self._stamps = [StampStatistics() for _ in topics]
        self._queue: deque[tuple[int, int, int, bytes]] = deque()
        self._capacity = capacity
        self._flush_period = flush_period
        self._overflow = 0
        self._lost = 0
        self._broken = 0
        self._stop = threading.Event()
        self._offered = time.monotonic()
        self._thread = threading.Thread(target=self._run, name='bag writer', daemon=True)
        self._thread.start()

    @property
    def folder(self) -> Path:
        """The bag's directory."""
        return self._writer.folder

    def offer(self, topic: int, log_time: int, publish_time: int, data: bytes) -> None:
        """
        Take a message; never waits.

        Parameters
        ----------
        topic:
            Its place among the topics.
        log_time, publish_time:
            When it was received and sent [ns].
        data:
            CDR with its encapsulation header.

        """
        if len(self._queue) >= self._capacity or self.error is not None:
            self._overflow += 1
            return
        self._queue.append((topic, log_time, publish_time, data))
        self._offered = time.monotonic()

    def count_lost(self, messages: int) -> None:
        """Count messages that the middleware lost on the way here."""
        self._lost += messages

    def stop(self) -> RecordingStatus:
        """
        Write everything that was offered, close the bag and return how it went.

        Raises
        ------
        RecordingError
            where the disk failed; what was written before stays readable.

        """
        self._stop.set()
        self._thread.join()
        if self.error is None:
            try:
                self._writer.close()
            except RecordingError as error:
                self.error = error
        if self.error is not None:
            self._writer.abandon()
            raise self.error
        return self.status()

    def status(self) -> RecordingStatus:
        """Return how the recording goes."""
        first = self._stamps[0]
        dropped = self._overflow + self._lost
        return RecordingStatus(
            path=self.folder,
            messages=self._writer.messages,
            dropped=dropped,
            gaps=sum(stamps.gaps for stamps in self._stamps),
            rate=first.rate,
            longest_gap=max(1e-9 * stamps.longest for stamps in self._stamps),
            duration=first.duration,
            message=self._remarks(),
        )

    def _remarks(self) -> str:
        if self.error is not None:
            return str(self.error)
        remarks = []
        silence = time.monotonic() - self._offered
        if not self._stop.is_set() and silence > 1.0:
            remarks.append(f'no message for {silence:.1f} s')
        if self._lost:
            remarks.append(f'the middleware lost {self._lost} messages')
        if self._overflow:
            remarks.append(f'the disk was too slow for {self._overflow} messages')
        if gaps := sum(stamps.gaps for stamps in self._stamps):
            remarks.append(f'the stamps have {gaps} gaps')
        if backward := sum(stamps.backward for stamps in self._stamps):
            remarks.append(f'{backward} stamps are not later than the one before')
        if self._broken:
            remarks.append(f'{self._broken} messages are too short to have a stamp')
        return '; '.join(remarks)

    def _run(self) -> None:
        flushed = time.monotonic()
        try:
            while not self._stop.wait(_BATCH_SECONDS):
                self._write_waiting()
                if time.monotonic() - flushed >= self._flush_period:
                    self._writer.flush()
                    flushed = time.monotonic()
            self._write_waiting()
        except RecordingError as error:
            self.error = error

    def _write_waiting(self) -> None:
        while self._queue:
            topic, log_time, publish_time, data = self._queue.popleft()
            stamp = header_stamp(data)
            if stamp is None:
                self._broken += 1
            else:
                self._stamps[topic].add(stamp)
            self._writer.write(topic, log_time, data, publish_time=publish_time)


def header_stamp(data: bytes) -> int | None:
    """Return the stamp of a serialised message that starts with a Header [ns]; None if cut."""
    if len(data) < 12:
        return None
    # the second byte of the encapsulation header tells the byte order
    form = '<iI' if data[1] & 1 else '>iI'
    seconds, nanoseconds = struct.unpack_from(form, data, 4)
    return seconds * 1_000_000_000 + nanoseconds
