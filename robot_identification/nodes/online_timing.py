# SPDX-License-Identifier: Apache-2.0
"""Run times of updates and counts of missing messages, in constant memory."""

from __future__ import annotations

import itertools
import math

_SHORTEST, _LONGEST = 1e-7, 1e2  # [s]
_BINS_PER_FACTOR_OF_E = 50  # edges 2 % apart
_BINS = math.ceil(_BINS_PER_FACTOR_OF_E * math.log(_LONGEST / _SHORTEST))


class Durations:
    """Counts durations; percentiles come out 2 % too long at most, never too short."""

    def __init__(self) -> None:
        self._counts = [0] * (_BINS + 1)
        self.total = 0
        self.longest = math.nan

    def add(self, seconds: float) -> None:
        """Count a duration [s]."""
        place = 0
        if seconds > _SHORTEST:
            place = math.ceil(_BINS_PER_FACTOR_OF_E * math.log(seconds / _SHORTEST))
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
        return min(_SHORTEST * math.exp(place / _BINS_PER_FACTOR_OF_E), self.longest)


class Sequences:
    """
    Tells from the numbers that publishers give their messages how many are missing.

    Which publisher a message is from is not known: it belongs to the one whose newest number is
    the nearest below its own.
    """

    _PUBLISHERS = 8
    _LONGEST = 5_000  # more are not missing: somebody else has begun to publish

    def __init__(self) -> None:
        self._newest: list[int] = []

    def missing_before(self, number: int) -> int:
        """Return how many messages were lost between the one before and this one."""
        newest = self._newest
        if newest and newest[-1] == number - 1:
            newest[-1] = number
            return 0
        below = [other for other in newest if number - self._LONGEST <= other < number]
        missing = 0
        if below:
            missing = number - max(below) - 1
            newest.remove(max(below))
        newest.append(number)
        del newest[: -self._PUBLISHERS]
        return missing
