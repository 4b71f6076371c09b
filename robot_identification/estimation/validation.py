# SPDX-License-Identifier: Apache-2.0
"""
Efforts that identified parameters predict, and their fit to recordings that they have not seen.

Filters work on a uniform grid of time.  The predictions there are brought back to the recording's
stamps by the cubic polynomials that brought its samples to the grid.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..base_parameters import BaseStructure
from ..data.sampling import interpolated
from ..model.parameters import ParameterSet
from ..regressor import Regressor
from ..signals import RecordingSource, SignalSettings
from .estimate import Estimate, Fit, fit_table
from .least_squares import evaluate
from .plot_samples import FitTrace
from .rows import driven_rows, require_order, row_blocks, RowBlock
from .system import LinearSystem, system_of

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
    blocks = row_blocks(source, regressor, structure, whole)
    grid = _PredictionGrid(blocks, np.asarray(base.values))
    for part in source.blocks(_BLOCK):
        if len(part):
            predicted = grid.at(part.time)[:, driven]
            yield PredictedEfforts(part.time, part.effort[:, driven], predicted, joints)


@dataclass
class _GridStretch:
    """Predictions (k, n) at consecutive points of a grid."""

    segment: int
    time: np.ndarray
    values: np.ndarray


class _PredictionGrid:
    """Predictions at the grid of a recording, of which it holds what stamps still need."""

    def __init__(self, blocks: Iterator[RowBlock], base: np.ndarray) -> None:
        self._blocks, self._base = blocks, base
        self._stretches: list[_GridStretch] = []
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
            first = max(0, int(np.searchsorted(stretch.time, stamps[-1])) - _BEFORE)
            stretch.time, stretch.values = stretch.time[first:], stretch.values[first:]
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
                last = self._stretches[-1]
                last.time = np.concatenate((last.time, block.time))
                last.values = np.concatenate((last.values, values))
            else:
                self._stretches.append(_GridStretch(block.segment, block.time, values))


@dataclass(frozen=True)
class Validation(Fit):
    """
    Prediction of other recordings by an estimate.

    Attributes
    ----------
    trace:
        Measured and predicted effort, evenly thinned, for plots.
    sources:
        Names of the recordings.
    highest_speed:
        Of each joint of the robot [rad/s or m/s]; NaN where it is not known, empty where no
        recording was asked for it.

    """

    trace: FitTrace
    sources: tuple[str, ...] = ()
    highest_speed: tuple[float, ...] = ()

    def summary(self) -> str:
        """Return a table for people, 100 columns wide."""
        title = f'Validation on {", ".join(self.sources)}' if self.sources else 'Validation'
        return '\n'.join([title, *fit_table(self)])

    def to_dict(self) -> dict[str, Any]:
        """Return the figures in the shape of the result file's ``validation``."""
        own = {'sources': list(self.sources), 'highest_speed': list(self.highest_speed)}
        return {**own, **super().to_dict()}


def validate(
    estimate: Estimate | ParameterSet,
    sources: RecordingSource | Sequence[RecordingSource],
    regressor: Regressor,
    structure: BaseStructure,
    signals: SignalSettings,
) -> Validation:
    """
    Predict the effort of recordings and compare it with what was measured.

    Parameters
    ----------
    estimate:
        An estimate, or its base parameters alone.
    sources:
        One recording source or several, with the regressor's joints; their rows count together.
    regressor, structure, signals:
        As in the identification, so that the figures can be compared.

    Raises
    ------
    RecordingError
        naming a recording that is too short or whose effort is missing.

    """
    return validation_of(estimate, system_of(sources, regressor, structure, signals))


def validation_of(estimate: Estimate | ParameterSet, system: LinearSystem) -> Validation:
    """
    Hold an estimate against the linear system of recordings.

    Parameters
    ----------
    estimate:
        An estimate, or its base parameters alone.
    system:
        Of recordings that the estimate has not seen.

    """
    base = estimate.base if isinstance(estimate, Estimate) else estimate
    if base.layout.names != system.structure.base_layout.names:
        raise ValueError('the estimate has other base parameters than the structure')
    return Validation(
        **vars(evaluate(system, base.values)),
        trace=system.trace.fit(np.asarray(base.values)),
        sources=system.sources,
        highest_speed=tuple(system.factor.highest_speed.tolist()),
    )
