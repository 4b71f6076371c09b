# SPDX-License-Identifier: Apache-2.0
"""What benchmarks of nodes share: publishing at a rate, and what another process takes."""

from __future__ import annotations

from collections.abc import Iterator
import math
from pathlib import Path
import time
from typing import Any

import numpy as np


def published(publisher: Any, messages: np.ndarray, rate: float, count: int) -> Iterator[float]:
    """
    Publish serialised joint states, with stamps of now.

    Parameters
    ----------
    publisher:
        Of rclpy.
    messages:
        (n, length) bytes, which are published again and again; their stamps are changed.
    rate:
        Messages a second.
    count:
        How many.

    Yields
    ------
    After each, the time that is left until the next one [s]; negative where it is late.  Whoever
    iterates waits.

    """
    begin = time.perf_counter()
    for number in range(count):
        data = messages[number % len(messages)]
        data[4:12] = np.array(divmod(time.time_ns(), 10**9), '<u4').view(np.uint8)
        publisher.publish(data.tobytes())
        yield begin + (number + 1) / rate - time.perf_counter()


def processor_time(pid: int) -> float:
    """
    Processor time of a process so far [s].

    By the scheduler's clock: the ticks in ``/proc/<pid>/stat`` miss what wakes with them.
    """
    return time.clock_gettime((~pid << 3) | 2)


def memory(pid: int) -> float:
    """Memory that a process holds [MB]."""
    for line in Path(f'/proc/{pid}/status').read_text().splitlines():
        if line.startswith('VmRSS'):
            return int(line.split()[1]) / 1024.0
    return math.nan
