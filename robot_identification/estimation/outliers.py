# SPDX-License-Identifier: Apache-2.0
"""
Outliers among samples, before the decimation spreads each of them over several rows.

A sample is told by its residual under an estimate, against the median residual of its joint, and
counts with the effort that the model predicts instead: it pulls nothing.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Predict = Callable[[np.ndarray], np.ndarray]
"""From (b,) base parameters to the (k, n) efforts that they predict."""

Repair = Callable[[Predict, np.ndarray, np.ndarray], np.ndarray]
"""
From what predicts the efforts of k samples, (k, n) measured efforts and (k, n) bool, whether the
joint moves, to the (k, n) efforts to go on with.
"""

_HELD = 1 << 17
"""Residuals of a joint that its scale is taken over; of more, every second, fourth, ... one."""

_NORMAL = 0.6744897501960817
"""Median of the magnitude of a standard normal variable."""


class Magnitudes:
    """Sizes of the residuals of one joint, evenly thinned where there are too many."""

    def __init__(self) -> None:
        self._parts: list[np.ndarray] = []
        self._stride, self._seen, self._held = 1, 0, 0

    def push(self, sizes: np.ndarray) -> None:
        """Take in residuals without their signs."""
        part = sizes[-self._seen % self._stride :: self._stride]
        self._seen += sizes.size
        self._parts.append(part)
        self._held += part.size
        while self._held > _HELD:
            # every second one of an even grid that starts at the first is an even grid again
            self._parts = [np.concatenate(self._parts)[::2]]
            self._held = self._parts[0].size
            self._stride *= 2

    def scale(self) -> float:
        """Return the standard deviation of normal residuals with this median; 0 for none."""
        sizes = np.concatenate(self._parts) if self._parts else np.empty(0)
        return float(np.median(sizes)) / _NORMAL if sizes.size else 0.0


class SpikeRepair:
    """
    Replaces the effort of samples that are far from an estimate.

    It also measures the residuals of the samples in the first pass that it is used for.

    Parameters
    ----------
    base:
        (b,) base parameters.
    limits:
        (n,) size of a residual from which a sample is replaced [N m or N].

    Attributes
    ----------
    replaced, samples:
        (n,) numbers of samples at which each joint moved: those replaced, and all.

    """

    def __init__(self, base: np.ndarray, limits: np.ndarray) -> None:
        self._base, self._limits = base, limits
        self._magnitudes = [Magnitudes() for _ in limits]
        self._measuring = True
        self.replaced = np.zeros(limits.size, dtype=int)
        self.samples = np.zeros(limits.size, dtype=int)

    def __call__(self, predict: Predict, effort: np.ndarray, moving: np.ndarray) -> np.ndarray:
        """Return the efforts to go on with."""
        predicted = predict(self._base)
        size = np.abs(effort - predicted)
        # standing joints stick, which no model of friction knows
        far = moving & (size > self._limits)
        if self._measuring:
            self.replaced += far.sum(axis=0)
            self.samples += moving.sum(axis=0)
            for j, magnitudes in enumerate(self._magnitudes):
                magnitudes.push(size[moving[:, j], j])
        return np.where(far, predicted, effort)

    def measured(self) -> np.ndarray:
        """(n,) standard deviations of the samples' residuals [N m or N]; ends the measuring."""
        self._measuring = False
        return np.array([magnitudes.scale() for magnitudes in self._magnitudes])
