# SPDX-License-Identifier: Apache-2.0
"""Durations of steps."""

from __future__ import annotations

import time


class Stopwatch:
    """
    Stopwatch of steps that follow each other.

    Attributes
    ----------
    laps:
        Seconds by step.

    """

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, step: str) -> None:
        """Note the time since the last step as that of this one."""
        now = time.perf_counter()
        self.laps[step] = now - self._last
        self._last = now
