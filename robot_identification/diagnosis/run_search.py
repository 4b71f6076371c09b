# SPDX-License-Identifier: Apache-2.0
"""
Search for windows in a row that do not belong to the others.

Windows in a row, a run, count as disturbed where

- by the fit to the other windows their residual at a joint is several times that of these, with
  what this fit does not know of them counted in (the leverage of their rows), and
- the others are fitted better by themselves than together with them, or the first is larger still.

Where no parameters explain the others, nothing is said.

Both are needed: fast motions have larger residuals, and parameters that only they excite, but do
not spoil the fit of slow ones.  Of all runs that one is taken that raises the likelihood most
where it has a residual of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from .time_windows import FreeFit, residual_of, TimeWindows


@dataclass(frozen=True)
class RunCriteria:
    """Constants of the search."""

    fewest: int = 8
    """Windows, and samples of a joint that moves, below which nothing is judged."""
    most: float = 0.5
    """Share of all windows that may be disturbed at once."""
    floor: float = 0.03
    """Relative residual below which models of real robots are not distinguished."""
    independent: float = 100.0
    """Rows that each joint counts for, since residuals are not white."""
    decisive: float = 25.0
    """Gain above which windows are disturbed [nats]."""
    apart: float = 4.0
    """Residual, by the expected one, above which they are where they spoil the others' fit."""
    spoilt: float = 1.4
    """Residual of the others, fitted together with them, by that of their own fit."""
    spoilt_elsewhere: float = 2.0
    """The same at another joint."""
    far_apart: float = 10.0
    """Residual, by the expected one, above which they are in any case."""
    unexplained: float = 0.4
    """Relative residual of the others above which nothing is said of any run."""
    uncertain: float = 5.0
    """Variance of parameters of real robots by what their covariance says."""


RUN = RunCriteria()

Ends = tuple[int, int]
"""First window of a run, and the one behind its last."""


@dataclass(frozen=True)
class KeptWindows:
    """
    Windows that are searched, and the fit to all of them.

    Attributes
    ----------
    windows:
        All windows.
    kept:
        (k,) those that are searched.
    gram, counts:
        Their sums, (n, p + 1, p + 1) and (n,).
    joints:
        (n,) those that move enough.
    together:
        Fit to all of them.

    """

    windows: TimeWindows
    kept: np.ndarray
    gram: np.ndarray
    counts: np.ndarray
    joints: np.ndarray
    together: FreeFit

    @classmethod
    def of(cls, windows: TimeWindows, kept: np.ndarray) -> KeptWindows | None:
        """Return the windows that are kept; None where they are too few to judge."""
        gram, counts = windows.grams[kept].sum(axis=0), windows.counts[kept].sum(axis=0)
        joints = counts >= RUN.fewest
        if kept.sum() < RUN.fewest or not joints.any():
            return None
        together = FreeFit.of(gram, counts, joints.astype(float))
        return cls(windows, kept, gram, counts, joints, together)

    def ends(self) -> Iterator[Ends]:
        """Iterate over runs of lengths that grow by a half, and those at ends of recordings."""
        length = 1.0
        while length <= RUN.most * self.kept.sum():
            size = int(length)
            for begin in range(0, len(self.windows) - size + 1, max(1, size // 3)):
                if self._admitted(begin, begin + size):
                    yield begin, begin + size
            length = max(length + 1.0, 1.5 * length)
        place = self.windows.place
        for number in np.unique(place):
            first, last = np.flatnonzero(place == number)[[0, -1]].tolist()
            for cut in range(first + 1, last + 2):
                for ends in {(first, cut), (cut, last + 1)}:
                    if self._admitted(*ends):
                        yield ends

    def best(self, gain: Callable[[Ends], float]) -> Ends | None:
        """Return the run that gains most, with its ends moved until nothing is gained."""
        best = max(self.ends(), key=gain, default=None)
        while best is not None:
            near = [(best[0] + i, best[1] + j) for i in (-1, 0, 1) for j in (-1, 0, 1)]
            better = max((each for each in near if self._admitted(*each)), key=gain)
            if gain(better) <= gain(best):
                return best
            best = better
        return None

    def at_end(self, ends: Ends) -> bool:
        """Return whether none of a recording's other windows are kept before a run, or behind."""
        begin, end = ends
        alike = self.kept & (self.windows.place == self.windows.place[begin])
        return not (alike[:begin].any() and alike[end:].any())

    def _admitted(self, begin: int, end: int) -> bool:
        """Return whether a run is kept, of one recording, and not too long."""
        few = end - begin <= RUN.most * self.kept.sum()
        if not (0 <= begin < end <= len(self.windows) and few and self.kept[begin:end].all()):
            return False
        return bool(self.windows.place[begin] == self.windows.place[end - 1])


@dataclass(frozen=True)
class Run:
    """
    Windows in a row, from ``begin`` to before ``end``, against the others.

    Attributes
    ----------
    begin, end:
        Windows.
    inside:
        (n,) residuals of them by the fit to the others.
    apart:
        (n,) the same by the expected ones.
    fit:
        To the others.
    gain:
        Of the likelihood [nats].

    """

    begin: int
    end: int
    inside: np.ndarray
    apart: np.ndarray
    fit: FreeFit
    gain: float

    @classmethod
    def of(cls, among: KeptWindows, ends: Ends) -> Run:
        """Return a run with the fit to the others."""
        inside = among.windows.grams[slice(*ends)].sum(axis=0)
        counts = among.windows.counts[slice(*ends)].sum(axis=0)
        rest = among.counts - counts
        # a joint that only this run moves tells nothing of it
        judged = among.joints & (rest >= RUN.fewest)
        weights = np.where(judged, among.together.weights, 0.0)
        fit = FreeFit.of(among.gram - inside, rest, weights, rounds=2)
        there = residual_of(inside, counts, fit.parameters)
        there *= judged & (counts >= RUN.fewest)
        floor, share = RUN.floor**2, counts / among.counts.clip(1.0)
        usual = fit.residual**2 + floor
        larger = np.maximum(there, fit.residual) ** 2 + floor
        logs = np.log(among.together.residual**2 + floor) - share * np.log(larger)
        logs -= (1.0 - share) * np.log(usual)
        expected = usual * (1.0 + RUN.uncertain * fit.leverage(inside, counts))
        gain = 0.5 * RUN.independent * float(logs[judged].sum())
        return cls(*ends, there, there / np.sqrt(expected), fit, gain)

    def disturbs(self, among: KeptWindows) -> bool:
        """Return whether it differs from the others by more than models do."""
        inside = slice(self.begin, self.end)
        gram = among.gram - among.windows.grams[inside].sum(axis=0)
        counts = among.counts - among.windows.counts[inside].sum(axis=0)
        spoilt = residual_of(gram, counts, among.together.parameters)
        ratio = np.hypot(spoilt, RUN.floor) / np.hypot(self.fit.residual, RUN.floor)
        ratio = np.where(self.fit.weights > 0.0, ratio, 0.0)
        differs = (self.apart > RUN.apart) & (ratio > RUN.spoilt)
        known = self.fit.residual < RUN.unexplained
        apart = ((self.apart > RUN.apart) & known).any()
        elsewhere = apart and (ratio > RUN.spoilt_elsewhere).any()
        differs |= self.apart > RUN.far_apart
        differs &= known
        return bool((differs.any() or elsewhere) and self.gain > RUN.decisive)


def worst_run(among: KeptWindows) -> Run | None:
    """Return the run that disturbs the others most; None where none does."""
    found: dict[Ends, Run] = {}

    def gain(ends: Ends) -> float:
        if ends not in found:
            found[ends] = Run.of(among, ends)
        return found[ends].gain

    ends = among.best(gain)
    return found[ends] if ends is not None and found[ends].disturbs(among) else None
