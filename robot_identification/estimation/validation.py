# SPDX-License-Identifier: Apache-2.0
"""
Estimates against other recordings: predicted efforts, their fit, and equality of parameters.

Filters work on a uniform grid of time.  The predictions there are brought back to the recording's
stamps by the cubic polynomials that brought its samples to the grid.

Two QR factors have the same parameters by the general linear hypothesis (Seber and Lee, Linear
Regression Analysis, 2nd ed., section 4.3; with it Chow's test, Econometrica 28, 1960): the
residual of one common set of parameters against those of two separate sets.  With S the sums of
squares of residuals in units of their standard deviation, r the ranks and N the numbers of
independent rows,

    F = ((S_0 - S_1 - S_2) / (r_1 + r_2 - r_0)) / ((S_1 + S_2) / (N_1 + N_2 - r_1 - r_2)).

Only what both factors determine is compared, so that motions may differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..data.sampling import interpolated
from ..errors import IdentifiabilityError
from ..model.parameters import ParameterSet
from ..regressor import Regressor
from ..regressor.base_parameters import BaseStructure
from ..signals import RecordingSource, SignalSettings
from ..support.progress import no_progress, Progress
from .estimate import Estimate, Fit
from .factor import QRFactor
from .least_squares import evaluate, joint_weights, NEGLIGIBLE_COLUMN, TOLERANCE
from .plot_samples import FitTrace, read_only
from .row_block import RowBlock
from .rows import driven_rows, require_order, row_blocks
from .system import LinearSystem, system_of

_BLOCK = 16384  # rows that are predicted at once, for the sake of memory
_SETTLED = 1  # grid points beyond the next one that the prediction at a stamp depends on
_BEFORE = 3  # grid points before the next one that are kept

_ALIASED = 1e-10
"""Share of a parameter (squared) that the rows may leave open while it counts as identified."""


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
            predicted = grid.predicted_at(part.time)[:, driven]
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

    def predicted_at(self, stamps: np.ndarray) -> np.ndarray:
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
    all_rows:
        Relative error of each joint with the rows of the dead zone [%]; empty where not known.

    """

    trace: FitTrace
    sources: tuple[str, ...] = ()
    highest_speed: tuple[float, ...] = ()
    all_rows: tuple[float, ...] = ()

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
    *,
    progress: Progress = no_progress,
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
    progress:
        Called with the share of the recordings that is done, and the seconds that are read.

    Raises
    ------
    RecordingError
        naming a recording that is too short or whose effort is missing.

    """
    found, _ = validated_system(
        estimate, sources, regressor, structure, signals, progress=progress
    )
    return found


def validated_system(
    estimate: Estimate | ParameterSet,
    sources: RecordingSource | Sequence[RecordingSource],
    regressor: Regressor,
    structure: BaseStructure,
    signals: SignalSettings,
    *,
    progress: Progress = no_progress,
) -> tuple[Validation, LinearSystem]:
    """Return what `validate` does, and the rows by which others can be held against it."""
    every = _AllRows(np.asarray(_base_of(estimate, structure).values))
    system = system_of(sources, regressor, structure, signals, progress=progress, read=every.read)
    found = validation_of(estimate, system)
    if not np.any(signals.dead_zone):
        return found, system
    return replace(found, all_rows=every.relative_errors(system.factor.driven)), system


class _AllRows:
    """Errors of base parameters on all rows that are read, those of the dead zone, too."""

    def __init__(self, base: np.ndarray) -> None:
        self._base = base
        self._squares = np.zeros((2, 1))  # of residuals and efforts, (2, n)

    def read(
        self,
        source: RecordingSource,
        regressor: Regressor,
        structure: BaseStructure,
        signals: SignalSettings,
    ) -> Iterator[RowBlock]:
        """Read rows as `row_blocks` does, taking in what goes by."""
        for block in row_blocks(source, regressor, structure, signals):
            rest = block.pattern.product(block.entries, self._base) - block.effort
            self._squares = self._squares + [(rest**2).sum(axis=0), (block.effort**2).sum(axis=0)]
            yield block

    def relative_errors(self, driven: np.ndarray) -> tuple[float, ...]:
        """Return the error of each joint [%]; NaN for those without an effort."""
        rest, effort = self._squares
        share = np.full(driven.size, np.nan)
        np.divide(rest, effort, out=share, where=driven & (effort > 0.0))
        return tuple((100.0 * np.sqrt(share)).tolist())


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
    base = _base_of(estimate, system.structure)
    return Validation(
        **vars(evaluate(system, base.values)),
        trace=system.trace.fit(np.asarray(base.values)),
        sources=system.sources,
        highest_speed=tuple(system.factor.highest_speed.tolist()),
    )


def _base_of(estimate: Estimate | ParameterSet, structure: BaseStructure) -> ParameterSet:
    base = estimate.base if isinstance(estimate, Estimate) else estimate
    if base.layout.names != structure.base_layout.names:
        raise ValueError('the estimate has other base parameters than the structure')
    return base


@dataclass(frozen=True)
class FTest:
    """
    A statistic that follows an F distribution where the parameters are the same.

    Attributes
    ----------
    statistic:
        About 1 where they are; NaN where nothing can be compared.
    freedom, residual_freedom:
        Degrees of freedom of numerator and denominator.
    p_value:
        Probability of a statistic this large where the parameters are the same.

    """

    statistic: float
    freedom: int
    residual_freedom: float
    p_value: float


@dataclass(frozen=True, eq=False)
class Comparison:
    """
    Two factors held together.

    Attributes
    ----------
    names:
        (b,) of the base parameters.
    test:
        Of all joints' rows together.
    joints:
        Of each joint's rows alone, by its name: where the robots differ.
    values, std:
        (2, b) weighted least squares of either factor and its standard deviations; NaN where its
        rows do not determine the parameter.

    """

    names: tuple[str, ...]
    test: FTest
    joints: Mapping[str, FTest]
    values: np.ndarray
    std: np.ndarray

    def __post_init__(self) -> None:
        read_only(self)

    @property
    def difference(self) -> np.ndarray:
        """(b,) the second factor's parameters minus the first's."""
        return self.values[1] - self.values[0]

    @property
    def difference_std(self) -> np.ndarray:
        """(b,) standard deviations of `difference`."""
        return np.hypot(self.std[0], self.std[1])

    @property
    def score(self) -> np.ndarray:
        """(b,) differences in standard deviations."""
        return self.difference / self.difference_std

    def differs(self, significance: float = 0.01) -> bool:
        """
        Return whether the parameters differ significantly.

        Parameters
        ----------
        significance:
            Share of pairs with the same parameters that are taken for different ones.

        """
        return self.test.p_value < significance


@dataclass(frozen=True)
class _IdentifiableSubspace:
    """Information on scaled parameters: ``diag(singular) @ directions @ x = values`` and noise."""

    singular: np.ndarray  # (r,)
    directions: np.ndarray  # (r, k)
    values: np.ndarray  # (r,)
    squares: float  # sum of squares of the residual
    rows: float  # independent ones

    @classmethod
    def from_triangle(cls, triangle: np.ndarray, rows: float) -> _IdentifiableSubspace:
        u, s, vt = np.linalg.svd(triangle[:, :-1], full_matrices=False)
        known = s > TOLERANCE * s.max(initial=0.0)
        u, s, vt = u[:, known], s[known], vt[known]
        values = u.T @ triangle[:, -1]
        residual = triangle[:, -1] - u @ values
        return cls(s, vt, values, float(residual @ residual), rows)

    @property
    def matrix(self) -> np.ndarray:
        return self.singular[:, None] * self.directions

    def estimates(self) -> tuple[np.ndarray, np.ndarray]:
        """Values and standard deviations of the parameters; NaN where they are not identified."""
        values = self.directions.T @ (self.values / self.singular)
        variance = self.squares / max(self.rows - self.singular.size, 1e-300)
        half = self.directions / self.singular[:, None]
        std = np.sqrt(variance * np.einsum('rk,rk->k', half, half))
        known = np.einsum('rk,rk->k', self.directions, self.directions) > 1.0 - _ALIASED
        return np.where(known, values, np.nan), np.where(known, std, np.nan)


def f_test_factors(one: QRFactor, two: QRFactor) -> Comparison:
    """
    Test whether two factors come from the same parameters.

    The rows of each joint are weighed by the standard deviation of their own least squares'
    residual, in either factor by its own: the noise may differ, as long as the parameters do not.

    Parameters
    ----------
    one, two:
        Factors of the same problem.

    Raises
    ------
    SettingsError, ModelError
        naming in what the problems differ, as `QRFactor.merge`.
    RecordingError
        naming a joint with too few rows to know its noise.
    IdentifiabilityError
        where the two determine nothing in common.

    """
    difference = one.fingerprint.difference(two.fingerprint)
    if difference is not None:
        raise difference
    pair, weights = (one, two), (joint_weights(one), joint_weights(two))
    stacked = [factor.stacked(weight) for factor, weight in zip(pair, weights, strict=True)]
    subspaces, seen, scale = _subspaces(stacked, [factor.n_independent for factor in pair])
    test = _test(*subspaces)
    if test.freedom == 0:
        raise IdentifiabilityError(
            'the two factors determine no parameters in common',
            remedy='compare recordings of similar motions',
        )
    estimates = np.full((2, 2, one.n_base), np.nan)
    for i, part in enumerate(subspaces):
        estimates[:, i, seen] = np.array(part.estimates()) / scale
    joints = {}
    for j, joint in enumerate(one.joints):
        triangles = [w[j] * factor.triangles[j] for w, factor in zip(weights, pair, strict=True)]
        rows = [float(factor.independent_rows[j]) for factor in pair]
        joints[joint] = _test(*_subspaces(triangles, rows)[0])
    return Comparison(one.fingerprint.base, test, joints, *estimates)


def _subspaces(
    triangles: list[np.ndarray], rows: list[float]
) -> tuple[list[_IdentifiableSubspace], np.ndarray, np.ndarray]:
    """Return what two triangles determine, the (b,) columns with entries, and their scale."""
    norms = np.linalg.norm(np.concatenate([t[:, :-1] for t in triangles]), axis=0)
    seen = norms > NEGLIGIBLE_COLUMN * norms.max(initial=0.0)
    scale = np.append(norms[seen], 1.0)
    scaled = [triangle[:, np.append(seen, True)] / scale for triangle in triangles]
    subspaces = [
        _IdentifiableSubspace.from_triangle(triangle, count)
        for triangle, count in zip(scaled, rows, strict=True)
    ]
    return subspaces, seen, norms[seen]


def _test(one: _IdentifiableSubspace, two: _IdentifiableSubspace) -> FTest:
    """Test whether the same parameters explain both."""
    from scipy.stats import f

    # what a common set of parameters cannot explain beyond the noise, without a difference of
    # large sums
    u, s, _ = np.linalg.svd(np.concatenate([one.matrix, two.matrix]), full_matrices=False)
    u = u[:, s > TOLERANCE * s.max(initial=0.0)]
    values = np.append(one.values, two.values)
    left = values - u @ (u.T @ values)
    freedom = values.size - u.shape[1]
    rest = one.rows + two.rows - values.size
    if freedom == 0 or rest <= 0.0:
        return FTest(np.nan, freedom, rest, np.nan)
    noise = (one.squares + two.squares) / rest
    statistic = float(left @ left / freedom / noise) if noise > 0.0 else np.inf
    return FTest(statistic, freedom, rest, float(f.sf(statistic, freedom, rest)))
