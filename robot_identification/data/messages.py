# SPDX-License-Identifier: Apache-2.0
"""Serialised messages, many in one buffer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True)
class Messages:
    """
    Serialised messages of one topic, in order.

    Attributes
    ----------
    buffer:
        (m,) bytes of the messages, with anything else between them.
    starts, lengths:
        (n,) first byte and number of bytes of each.
    times:
        (n,) receive times [ns].

    """

    buffer: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray
    times: np.ndarray

    @classmethod
    def of(cls, messages: Sequence[bytes], times: Sequence[int] | np.ndarray) -> Messages:
        """Concatenate separate messages, received at ``times`` [ns]."""
        lengths = np.fromiter(map(len, messages), dtype=np.int64, count=len(messages))
        return cls(
            np.frombuffer(b''.join(messages), dtype=np.uint8),
            np.cumsum(lengths) - lengths,
            lengths,
            np.asarray(times, dtype=np.int64),
        )

    @classmethod
    def joined(cls, parts: Sequence[Messages]) -> Messages:
        """Concatenate messages."""
        shifts = np.cumsum([0] + [len(part.buffer) for part in parts[:-1]])
        return cls(
            np.concatenate([part.buffer for part in parts]),
            np.concatenate([part.starts + shift for part, shift in zip(parts, shifts)]),
            np.concatenate([part.lengths for part in parts]),
            np.concatenate([part.times for part in parts]),
        )

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, place: int) -> bytes:
        start = int(self.starts[place])
        return self.buffer[start : start + int(self.lengths[place])].tobytes()

    def select(self, keep: np.ndarray | slice) -> Messages:
        """Return some of them, in the order of ``keep``; the buffer stays."""
        return replace(
            self,
            starts=self.starts[keep],
            lengths=self.lengths[keep],
            times=self.times[keep],
        )

    def compact(self) -> Messages:
        """Copy them to a buffer of their own."""
        starts = np.cumsum(self.lengths) - self.lengths
        total = int(self.lengths.sum())
        places = np.arange(total) + np.repeat(self.starts - starts, self.lengths)
        return replace(self, buffer=self.buffer[places], starts=starts)

    def rows(self, places: np.ndarray) -> np.ndarray:
        """Return messages of one length as (n, length) bytes; a view if they are equidistant."""
        starts, length = self.starts[places], int(self.lengths[places][0])
        step = int(starts[1] - starts[0]) if len(starts) > 1 else length
        if step > 0 and (np.diff(starts) == step).all():
            return np.ndarray(
                (len(starts), length), np.uint8, self.buffer, int(starts[0]), (step, 1)
            )
        if length == 0:
            return np.empty((len(starts), 0), np.uint8)
        windows = np.lib.stride_tricks.sliding_window_view(self.buffer, length)
        return windows[starts]
