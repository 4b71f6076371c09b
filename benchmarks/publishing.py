# SPDX-License-Identifier: Apache-2.0
"""Parts that benchmarks of nodes share: publishers, service calls, use of a process."""

from __future__ import annotations

from collections.abc import Iterator
import math
from pathlib import Path
import time
from typing import Any

import numpy as np

SETTLING = 1.0
"""Time for two processes that have just met to find the rest of each other's topics [s]."""


def published(
    publisher: Any, messages: np.ndarray, rate: float, count: int, first: int | None = None
) -> Iterator[float]:
    """
    Publish serialised joint states.

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
    first:
        Stamp of the first one [ns]; the others follow at the rate.  None stamps each with now.

    Yields
    ------
    After each, the time that is left until the next one [s]; negative where it is late.  Whoever
    iterates waits.

    """
    begin = time.perf_counter()
    for number in range(count):
        data = messages[number % len(messages)]
        stamp = time.time_ns() if first is None else first + round(number * 1e9 / rate)
        data[4:12] = np.array(divmod(stamp, 10**9), '<u4').view(np.uint8)
        publisher.publish(data.tobytes())
        yield begin + (number + 1) / rate - time.perf_counter()


def until(condition: Any, node: Any, seconds: float = 120.0) -> None:
    """Spin a node until something holds; end the process with a message after some time."""
    import rclpy

    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise SystemExit(f'nothing within {seconds:g} s')
        rclpy.spin_once(node, timeout_sec=0.05)


def call(node: Any, kind: Any, name: str) -> Any:
    """Return the answer of a service; end the process where there is none, or no success."""
    client = node.create_client(kind, name)
    until(client.service_is_ready, node)
    # a server that does not know its client's reader yet drops the answer after 100 ms
    settled = time.monotonic() + SETTLING
    until(lambda: time.monotonic() > settled, node)
    answer = client.call_async(kind.Request())
    until(answer.done, node)
    if not answer.result().success:
        raise SystemExit(answer.result().message)
    return answer.result()


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
