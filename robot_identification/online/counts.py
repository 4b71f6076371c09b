# SPDX-License-Identifier: Apache-2.0
"""Counts of messages that arrived, are missing or are left out, and of run times."""

from __future__ import annotations

from dataclasses import dataclass
import itertools
import math

_FIRST_EDGE, _LAST_EDGE = 1e-7, 1e2
"""Of the histogram of durations [s]."""

_BINS_PER_FACTOR_OF_E = 50  # edges 2 % apart
_BINS = math.ceil(_BINS_PER_FACTOR_OF_E * math.log(_LAST_EDGE / _FIRST_EDGE))


class Durations:
    """Histogram of durations; percentiles come out 2 % too long at most, never too short."""

    def __init__(self) -> None:
        self._counts = [0] * (_BINS + 1)
        self.total = 0
        self.longest = math.nan

    def add(self, seconds: float) -> None:
        """Count a duration [s]."""
        place = 0
        if seconds > _FIRST_EDGE:
            place = math.ceil(_BINS_PER_FACTOR_OF_E * math.log(seconds / _FIRST_EDGE))
        self._counts[min(place, _BINS)] += 1
        self.total += 1
        if not seconds <= self.longest:
            self.longest = seconds

    def below(self, share: float) -> float:
        """Return the duration that this share of them does not exceed [s]; NaN without any."""
        if self.total == 0:
            return math.nan
        so_far = itertools.accumulate(self._counts)
        place = next(i for i, count in enumerate(so_far) if count >= share * self.total)
        return min(_FIRST_EDGE * math.exp(place / _BINS_PER_FACTOR_OF_E), self.longest)


class LostMessageCounter:
    """
    Counter of missing messages, from the sequence numbers that publishers give them.

    Which publisher a message is from is not known: it belongs to the one whose newest number is
    the nearest below its own.  The first number of a publisher is 1; ``before`` counts what
    publishers had published before the first message that arrived from them.
    """

    _PUBLISHERS = 8
    _LARGEST_GAP = 5_000  # more are not missing: another publisher has begun

    def __init__(self) -> None:
        self._newest: list[int] = []
        self.before = 0

    def missing_before(self, number: int | None, alone: bool = False) -> int:
        """
        Return how many messages were lost before this one; 0 where it has no number.

        Of a publisher that is ``alone`` any number of messages may be missing.
        """
        if number is None:
            return 0
        newest = self._newest
        if newest and newest[-1] == number - 1:
            newest[-1] = number
            return 0
        oldest = 0 if alone else number - self._LARGEST_GAP
        below = [other for other in newest if oldest <= other < number]
        missing = 0
        if below:
            missing = number - max(below) - 1
            newest.remove(max(below))
        else:
            self.before += max(number - 1, 0)
        newest.append(number)
        del newest[: -self._PUBLISHERS]
        return missing


@dataclass
class MessageCounts:
    """
    Counts of the messages so far.

    Attributes
    ----------
    messages, lost, missed, refused, foreign:
        Joint states taken, lost by the middleware, published before the first that arrived, left
        out for what they hold, and left out because they have none of the joints, as those of a
        gripper on the same topic.
    without_effort, saturated:
        Joint states whose effort is missing or not finite, and with one at the joint's limit.
    updates, late:
        Joint states that went through the filters, and those of them that took too long.
    jumps:
        Times at which the stamps went back by more than a gap.

    """

    messages: int = 0
    lost: int = 0
    missed: int = 0
    refused: int = 0
    foreign: int = 0
    without_effort: int = 0
    saturated: int = 0
    updates: int = 0
    late: int = 0
    jumps: int = 0
