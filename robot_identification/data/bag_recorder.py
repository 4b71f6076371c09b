# SPDX-License-Identifier: Apache-2.0
"""
Recording of serialised messages into a bag as they arrive.

The receiver only appends messages to a bounded queue; one thread writes them in batches, so that a
slow disk delays no reception.  A second thread waits for the disk once a second, so that this wait
keeps no message from the operating system, which outlives a killed process.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
import os
from pathlib import Path
import shutil
import struct
import threading
import time
from typing import Any

from ..errors import RecordingError
from .bag import MARK
from .bag_writer import BagWriter, Qos, Topic
from .sampling import StampStatistics

_BATCH_SECONDS = 0.1  # between two looks at what has arrived
_SCARCE_SECONDS = 600.0  # of recording that are left, below which space is scarce
_RATE_SECONDS = 5.0  # above which the rate of writing is known
_SET_BACK = 10**9  # ns, by which times of reception go back where a clock was set


@dataclass(frozen=True)
class RecordingStatus:
    """
    Status of a recording.

    Attributes
    ----------
    path:
        Folder of the bag.
    messages, lost, overflowed, waiting:
        Messages written, lost by the middleware, dropped because of the disk, and in the queue.
    disordered:
        Stamps that are not later than the one before.
    gaps:
        Steps between stamps that skip samples, over all topics.
    rate, duration:
        Mean rate [Hz] and covered time [s] by the stamps of the first topic.
    jitter:
        RMS deviation of the first topic's steps from whole periods [s]; NaN without steps.
    longest_gap:
        Longest step between stamps of a topic [s].
    size:
        Size of the file [bytes].
    message:
        Remarks for the user; empty if nothing is wrong.

    """

    path: Path
    messages: int = 0
    lost: int = 0
    overflowed: int = 0
    waiting: int = 0
    disordered: int = 0
    gaps: int = 0
    rate: float = 0.0
    jitter: float = 0.0
    longest_gap: float = 0.0
    duration: float = 0.0
    size: int = 0
    message: str = ''

    @property
    def dropped(self) -> int:
        """Messages known to be missing."""
        return self.lost + self.overflowed


class BagRecorder:
    """
    Recorder of the messages given to `offer`, until `stop`.

    Parameters
    ----------
    folder:
        The bag's folder; must not exist.
    topics:
        Topics of messages that start with a ``std_msgs/Header``.
    capacity:
        Messages that may wait for the disk; more are dropped and counted.
    flush_period, sync_period:
        Periods of handing messages to the operating system, and of waiting until the disk has them
        [s]: a killed process and a power loss cost at most what came after the last time.  0 for
        ``sync_period`` leaves it to the system.

    Attributes
    ----------
    error:
        Reason of an end by itself; None before.
    lost:
        Messages lost by the middleware, counted by the receiver.

    Raises
    ------
    RecordingError
        if the bag cannot be made.

    """

    def __init__(
        self,
        folder: str | os.PathLike,
        topics: Sequence[Topic],
        *,
        capacity: int = 100_000,
        flush_period: float = 0.5,
        sync_period: float = 1.0,
    ) -> None:
        self.error: RecordingError | None = None
        self.lost = 0
        self._trouble: RecordingError | None = None
        self._writer = BagWriter(folder, topics)
        self._stamps = [StampStatistics() for _ in topics]
        self._reading = threading.Lock()
        self._queue: deque[tuple[int, int, int, bytes]] = deque()
        self._capacity = capacity
        self._flush_period = flush_period
        self._received = [(0, 0) for _ in topics]
        self._overflow = self._taken = 0
        self._broken = 0
        self._stop = threading.Event()
        self._ended = threading.Event()
        self._began = self._offered = time.monotonic()
        self._syncing = threading.Thread(
            target=self._sync, args=(sync_period or None,), name='bag sync', daemon=True
        )
        self._writing = threading.Thread(target=self._run, name='bag writer', daemon=True)
        self._syncing.start()
        self._writing.start()

    @classmethod
    def in_new_folder(cls, folder: Path, topics: Sequence[Topic], **settings: Any) -> BagRecorder:
        """Begin in a folder that does not exist, with a number behind its name if it is taken."""
        for number in count():
            fresh = folder.with_name(f'{folder.name}_{number}') if number else folder
            try:
                return cls(fresh, topics, **settings)
            except RecordingError as error:
                # only making it shows that: another recorder may have been faster
                if not isinstance(error.__cause__, FileExistsError):
                    raise
        raise AssertionError

    @property
    def folder(self) -> Path:
        """The bag's directory, where it is now."""
        return self._writer.folder

    def offer(self, topic: int, log_time: int, publish_time: int, data: bytes) -> None:
        """Queue a message without waiting; parameters as for `BagWriter.write`."""
        if self._waiting >= self._capacity or self.error is not None:
            self._overflow += 1
            return
        self._taken += 1
        self._queue.append((topic, self._in_order(topic, log_time), publish_time, data))
        self._offered = time.monotonic()

    def _in_order(self, topic: int, log_time: int) -> int:
        """
        Return a time of reception [ns] that is not before the last one of the topic.

        Readers sort by it: where a clock was set back, what came after would be among what came
        before.  So time goes on from there.
        """
        last, shift = self._received[topic]
        if log_time + shift < last - _SET_BACK:
            shift = last - log_time
        last = max(last, log_time + shift)
        self._received[topic] = last, shift
        return last

    def offered(self, topic: int, qos: Sequence[Qos]) -> None:
        """Set the publishers' quality of service of a topic, before its first message."""
        self._writer.offered(topic, qos)

    def stop(self, mark: str = '') -> RecordingStatus:
        """
        Write the queue, close the bag and return the last status.

        Parameters
        ----------
        mark:
            Remark for later readers; kept in the bag.

        Raises
        ------
        RecordingError
            if the disk failed; what was written before stays readable.

        """
        self._stop.set()
        self._writing.join()
        if mark:
            self._writer.custom_data[MARK] = mark
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
        """Return the status."""
        first = self._stamps[0]
        # what the disk refused when it failed was taken, but is not there
        refused = 0 if self.error is None else self._waiting
        with self._reading:
            return RecordingStatus(
                path=self.folder,
                messages=self._writer.messages,
                lost=self.lost,
                overflowed=self._overflow + refused,
                waiting=0 if self.error else self._waiting,
                disordered=sum(stamps.backward for stamps in self._stamps),
                gaps=sum(stamps.gaps for stamps in self._stamps),
                rate=first.rate,
                jitter=first.jitter,
                longest_gap=max(1e-9 * stamps.longest for stamps in self._stamps),
                duration=first.duration,
                size=self._writer.size,
                message=self._remarks(),
            )

    @property
    def _waiting(self) -> int:
        return self._taken - self._writer.messages

    def _remarks(self) -> str:
        if self.error is not None:
            return str(self.error)
        remarks = []
        silence = time.monotonic() - self._offered
        if not self._stop.is_set() and silence > 1.0:
            remarks.append(f'no message for {silence:.1f} s')
        if self.lost:
            remarks.append(f'the middleware lost {self.lost} messages')
        if self._overflow:
            remarks.append(f'the disk was too slow for {self._overflow} messages')
        if gaps := sum(stamps.gaps for stamps in self._stamps):
            remarks.append(f'the stamps have {gaps} gaps')
        if backward := sum(stamps.backward for stamps in self._stamps):
            remarks.append(f'{backward} stamps are not later than the one before')
        if self._broken:
            remarks.append(f'{self._broken} messages are too short to have a stamp')
        room = self._room()
        if room is not None:
            remarks.append(f'the disk has room for {room / 60.0:.1f} min more')
        return '; '.join(remarks)

    def _room(self) -> float | None:
        """Return the time until the disk is full [s]; None if that is long or unknown."""
        elapsed = time.monotonic() - self._began
        if self._stop.is_set() or elapsed < _RATE_SECONDS or not self._writer.size:
            return None
        try:
            free = shutil.disk_usage(self.folder).free
        except OSError:
            return None
        seconds = free * elapsed / self._writer.size
        return seconds if seconds < _SCARCE_SECONDS else None

    def _run(self) -> None:
        try:
            self._write()
        except RecordingError as error:
            self._trouble = error
        finally:
            self._ended.set()
            self._syncing.join()
            if self._trouble is not None:
                # closed, so that it can be read and copied
                self._writer.abandon()
                self.error = self._trouble

    def _write(self) -> None:
        flushed = time.monotonic()
        while not self._stop.wait(_BATCH_SECONDS) and self._trouble is None:
            self._write_waiting()
            if time.monotonic() - flushed >= self._flush_period:
                self._writer.flush()
                flushed = time.monotonic()
        if self._trouble is None:
            self._write_waiting()
            self._writer.flush()

    def _write_waiting(self) -> None:
        batch = [self._queue.popleft() for _ in range(len(self._queue))]
        with self._reading:
            for topic, _, _, data in batch:
                stamp = header_stamp(data)
                if stamp is None:
                    self._broken += 1
                else:
                    self._stamps[topic].add(stamp)
        for topic, log_time, publish_time, data in batch:
            self._writer.write(topic, log_time, data, publish_time=publish_time)

    def _sync(self, period: float | None) -> None:
        while not self._ended.wait(period):
            try:
                self._writer.sync()
            except OSError as error:
                self._trouble = RecordingError(
                    f"the disk failed under the bag '{self.folder}': {error.strerror or error}",
                    file=str(self.folder),
                    remedy='record on another disk',
                )
                return


def header_stamp(data: bytes) -> int | None:
    """Return the stamp of a serialised message that starts with a Header [ns]; None if cut."""
    if len(data) < 12:
        return None
    # the second byte of the encapsulation header is the byte order
    form = '<iI' if data[1] & 1 else '>iI'
    seconds, nanoseconds = struct.unpack_from(form, data, 4)
    return seconds * 1_000_000_000 + nanoseconds
