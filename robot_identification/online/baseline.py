# SPDX-License-Identifier: Apache-2.0
"""Baseline of residuals, and tests against it; `changes` describes them."""

from __future__ import annotations

from dataclasses import dataclass
import math

import numpy as np
from scipy.special import fdtrc

from .change_settings import BATCHES
from .change_statistics import Scores, total

_GUARD = 1.2


@dataclass(frozen=True)
class Baseline:
    """
    Baseline of the residuals.

    Attributes
    ----------
    precision:
        (n,) one over their variances; 0 for joints that have not moved.
    inflation:
        (1 + n,) c_h of the payload and of each joint's friction.
    windows:
        nu, the number of separate windows that it was learned from.
    level:
        (n,) sizes that are taken for spikes [N m or N].

    """

    precision: np.ndarray
    inflation: np.ndarray
    windows: float
    level: np.ndarray

    def exceeded(self, window: Scores, chance: float) -> np.ndarray:
        """
        Return which hypotheses the residuals of a window speak for.

        Parameters
        ----------
        window:
            Sums over it.
        chance:
            How probable an exceedance may be, for all hypotheses together, where there is no
            change.

        Returns
        -------
        np.ndarray
            (1 + n,) bool: the payload, and each joint's friction.

        """
        explained, ranks = window.explained(self.precision)
        degrees = np.maximum(ranks, 1)
        found = fdtrc(degrees, self.windows, explained / (degrees * self.inflation))
        return np.asarray((ranks > 0) & (found < chance / explained.size))


class Learner:
    """
    Learns what is usual, in memory that the time of learning bounds.

    Parameters
    ----------
    n:
        Number of joints.

    """

    def __init__(self, n: int) -> None:
        self.parts: list[Scores] = []
        self._crossings, self._kept, self._peaks = np.zeros((3, n))
        self._signs = np.zeros(n, dtype=bool)

    def watch(self, residual: np.ndarray, kept: np.ndarray) -> None:
        """Take in (n,) residuals of a sample, and which of them count."""
        signs = residual > 0.0
        self._crossings += kept & signs & ~self._signs
        self._signs = signs
        self._kept += kept
        np.maximum(self._peaks, np.abs(residual) * kept, out=self._peaks)

    def usual(self, rate: float, step: float) -> Baseline:
        """
        Return what was usual.

        Parameters
        ----------
        rate:
            How often levels may be exceeded where nothing has changed [1/s].
        step:
            Time between samples [s].

        """
        rows = np.sum([part.rows for part in self.parts], axis=0)
        energy = np.sum([part.energy for part in self.parts], axis=0)
        known = (rows > 0) & (energy > 0.0)
        precision = np.where(known, rows / np.where(known, energy, 1.0), 0.0)
        found = [
            total(self.parts[i : i + BATCHES]).explained(precision)
            for i in range(len(self.parts) - BATCHES + 1)
        ]
        explained, ranks = (np.sum(part, axis=0) for part in zip(*found, strict=True))
        inflation = np.where(ranks > 0, explained / np.maximum(ranks, 1), 1.0)
        upward = np.maximum(self._crossings, 1.0) / (np.maximum(self._kept, 1.0) * step)
        # Rice: 2 upward exp(-u^2 / 2) crossings a second of either side's level u
        often = np.maximum(2.0 * upward * rows.size / rate, math.e)
        level = np.sqrt(2.0 * np.log(often) / np.where(known, precision, 1.0))
        return Baseline(
            precision=precision,
            inflation=np.maximum(inflation, 1e-12),
            windows=len(found) / BATCHES,
            level=np.where(known, np.maximum(level, _GUARD * self._peaks), np.inf),
        )
