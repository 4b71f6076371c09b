# SPDX-License-Identifier: Apache-2.0
"""
Results of a benchmark, and ways to measure.

A benchmark is a module beside this one with a function ``section() -> Section``.  It compares ways
to do the same thing in one run, turn by turn (`interleaved`), so that whatever else the machine
does meets all of them alike, and tells medians and ratios.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
import gc
import statistics
import time


@dataclass(frozen=True)
class Figure:
    """
    One number that a benchmark found, as it is kept in ``log/benchmarks.json``.

    Attributes
    ----------
    name:
        What it is, unique in its section, such as ``panda ratio to pinocchio in C++``.
    value:
        The number.
    unit:
        Its unit; empty for a ratio or a count.
    at_most, at_least:
        What it is held to; None where it is only told.

    """

    name: str
    value: float
    unit: str = ''
    at_most: float | None = None
    at_least: float | None = None

    @property
    def met(self) -> bool:
        """True if the figure is within its bound."""
        low = self.at_least is None or self.value >= self.at_least
        return low and (self.at_most is None or self.value <= self.at_most)

    @property
    def bound(self) -> str:
        """Bound of the figure, in words."""
        low = '' if self.at_least is None else f'at least {self.at_least:g}'
        high = '' if self.at_most is None else f'at most {self.at_most:g}'
        return ', '.join(filter(None, (low, high)))


@dataclass(frozen=True)
class Table:
    """
    Numbers side by side, as text.

    Attributes
    ----------
    columns:
        Heads.
    rows:
        As many cells each.
    title:
        Above it; empty for none.
    text:
        Between title and table: what is compared, how, and what is notable; Markdown.

    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ''
    text: str = ''


@dataclass(frozen=True)
class Section:
    """
    Results of a benchmark.

    Attributes
    ----------
    title:
        Of its section on the page.
    text:
        What is measured and why, Markdown.
    tables:
        The numbers for readers.
    figures:
        The numbers for programs, and the bounds that they are held to.
    images:
        Plots that it wrote, relative to ``docs/reference``, below the tables.
    page:
        The page in ``docs/reference`` that it is on.

    """

    title: str
    text: str = ''
    tables: Sequence[Table] = ()
    figures: Sequence[Figure] = ()
    images: Sequence[str] = ()
    page: str = 'performance.md'


@dataclass(frozen=True)
class Timing:
    """
    Seconds that repetitions of the same work took.

    Attributes
    ----------
    seconds:
        One number a repetition, in the order of time.

    """

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle one [s]."""
        return statistics.median(self.seconds)

    @property
    def best(self) -> float:
        """The shortest [s]."""
        return min(self.seconds)


def interleaved(
    works: Mapping[str, Callable[[], object]],
    *,
    repeats: int = 7,
    warm: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Timing]:
    """
    Time several ways to do the same thing, turn by turn.

    Parameters
    ----------
    works:
        What to call, by name.
    repeats:
        Rounds that count; in each, every work has its turn.
    warm:
        Rounds before them that do not.
    clock:
        What tells the time [s].

    """
    seconds: dict[str, list[float]] = {name: [] for name in works}
    collecting = gc.isenabled()
    try:
        for count in range(-warm, repeats):
            for name, work in works.items():
                gc.collect()
                gc.disable()
                start = clock()
                work()
                elapsed = clock() - start
                gc.enable()
                if count >= 0:
                    seconds[name].append(elapsed)
    finally:
        if not collecting:
            gc.disable()
    return {name: Timing(tuple(values)) for name, values in seconds.items()}


def ratio(first: Timing, second: Timing) -> float:
    """
    Return how many times longer ``first`` takes: the median over rounds of the ratios.

    Both have to come from the same `interleaved`.
    """
    pairs = zip(first.seconds, second.seconds, strict=True)
    return statistics.median(a / b for a, b in pairs)
