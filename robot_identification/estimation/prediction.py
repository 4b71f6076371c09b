# SPDX-License-Identifier: Apache-2.0
"""
Efforts that identified parameters predict, at the stamps of a recording.

Filters work on a uniform grid of time.  The predictions there are brought back to the recording's
stamps by the cubic polynomials that brought its samples to the grid.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from ..base_parameters import BaseStructure
from ..data.sampling import interpolated
from ..model.parameters import ParameterSet
from ..regressor import Regressor
from ..signals import RecordingSource, SignalSettings
from .row_block import RowBlock
from .rows import driven_rows, require_order, row_blocks

_BLOCK = 16384
_SETTLED = 1  # grid points beyond the next one that the prediction at a stamp depends on
_BEFORE = 3  # grid points before the next one that are kept


@dataclass(frozen=True)
class PredictedEfforts:
    """
    Measured and predicted efforts of consecutive samples of a recording.

    Attributes
    ----------
    time:
        (m,) stamps, as recorded [s].
    measured, predicted:
        (m, n) effort at the joint [N m or N]; ``predicted`` is NaN where no motion is known.
    joints:
        Names of the joints that have an effort, in the order of the columns.

    """

    time: np.ndarray
    measured: np.ndarray
    predicted: np.ndarray
    joints: tuple[str, ...]


def predicted_efforts(
    base: ParameterSet,
    source: RecordingSource,
    regressor: Regressor,
    structure: BaseStructure,
    signals: SignalSettings,
) -> Iterator[PredictedEfforts]:
    """
    Predict the effort at every sample of a recording, block by block.

    Parameters
    ----------
    base:
        Base parameters.
    source:
        A recording with the regressor's joints; read by two readers side by side.
    regressor, structure:
        As in the identification.
    signals:
        As in the identification, but for decimation, dead zone and trim, which there are none of:
        predictions reach to both ends of a stretch, where the filter knows one side only.

    Yields
    ------
    Blocks that together hold every sample.  There is no prediction for the samples of a stretch
    between gaps that is too short to be filtered, nor where the windows of
    ``polynomial_approximation`` do not reach.

    Raises
    ------
    SettingsError, RecordingError
        as `row_blocks`.

    """
    require_order(source, structure, regressor)
    driven = driven_rows(regressor)
    joints = tuple(name for name, has in zip(source.joints, driven, strict=True) if has)
    whole = replace(signals, decimate_to=None, dead_zone=0.0, trim=0.0)
    grid = _Grid(row_blocks(source, regressor, structure, whole), np.asarray(base.values))
    for part in source.blocks(_BLOCK):
        if len(part):
            predicted = grid.at(part.time)[:, driven]
            yield PredictedEfforts(part.time, part.effort[:, driven], predicted, joints)


@dataclass
class _Stretch:
    """Predictions (k, n) at consecutive points of a grid."""

    segment: int
    time: np.ndarray
    values: np.ndarray

    def add(self, time: np.ndarray, values: np.ndarray) -> None:
        self.time = np.concatenate((self.time, time))
        self.values = np.concatenate((self.values, values))

    def forget(self, before: float) -> None:
        first = max(0, int(np.searchsorted(self.time, before)) - _BEFORE)
        self.time, self.values = self.time[first:], self.values[first:]


class _Grid:
    """Predictions at the grid of a recording, of which it holds what stamps still need."""

    def __init__(self, blocks: Iterator[RowBlock], base: np.ndarray) -> None:
        self._blocks, self._base = blocks, base
        self._stretches: list[_Stretch] = []
        self._n_columns = 0

    def at(self, stamps: np.ndarray) -> np.ndarray:
        """Return (m, n) predictions at stamps that follow those of the last call."""
        self._read(float(stamps[-1]))
        found = np.full((stamps.size, self._n_columns), np.nan)
        for stretch in self._stretches:
            time = stretch.time
            period = float(time[1] - time[0]) if time.size > 1 else 0.0
            # the grid ends at the last of its points that is not behind the last sample
            within = (stamps > time[0] - 0.5 * period) & (stamps < time[-1] + period)
            wanted = np.clip(stamps[within], time[0], time[-1])
            found[within] = (
                interpolated(time, stretch.values, wanted) if time.size > 1 else stretch.values
            )
        # the last one may have been begun while stamps of the one before it are to come
        self._stretches = self._stretches[-2:]
        for stretch in self._stretches:
            stretch.forget(float(stamps[-1]))
        return found

    def _read(self, until: float) -> None:
        """Predict until the stamps up to ``until`` [s] have their points on both sides."""
        while not self._stretches or self._stretches[-1].time[-1 - _SETTLED :][0] <= until:
            block = next(self._blocks, None)
            if block is None:
                return
            self._n_columns = block.effort.shape[1]
            if not len(block.time):
                continue
            values = block.pattern.product(block.entries, self._base)
            if self._stretches and self._stretches[-1].segment == block.segment:
                self._stretches[-1].add(block.time, values)
            else:
                self._stretches.append(_Stretch(block.segment, block.time, values))
