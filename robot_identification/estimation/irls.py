# SPDX-License-Identifier: Apache-2.0
"""
Iteratively reweighted least squares (IRLS): estimates that single bad samples cannot pull away.

M-estimation with Huber's or Tukey's loss (Huber and Ronchetti, "Robust Statistics", 2nd ed. 2009,
chapter 7; Beaton and Tukey, Technometrics 16, 1974).  The residuals of each joint are measured in
that joint's own scale, the median absolute residual, which half of the rows would have to be wrong
to spoil.  Every iteration is one pass over the rows, and holds as much of them as fits into a
bounded memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy.linalg import solve_triangular

from ..model.parameters import ParameterSet
from ..options.fields import option
from .estimate import Estimate, nan_padded
from .factor import JointTriangles
from .least_squares import (
    assemble,
    Identifiability,
    identifiability,
    joint_weights,
    prior_base,
    require_motion,
    require_some,
    Solution,
    solve,
)
from .row_block import RowBlock, RowCache
from .rows import Predict, Repair
from .system import LinearSystem

LOSSES = ('huber', 'tukey')

_DECIMATED = 1.5
"""More samples than rows by this factor: an outlier is spread over several rows."""

_ROUNDS, _SETTLED = 4, 0.1
"""Times that samples are judged at most; a change [standard deviations] that needs no other."""

_LEAST_SLOPE = 0.05
"""Smallest mean of psi' that is believed; it is 0.8 or more where most rows are good."""


@dataclass(frozen=True)
class IrlsSettings:
    """Settings of the robust weights."""

    loss: str = option(
        'huber',
        doc='What residuals count: huber bounds the pull of each, with one solution; tukey takes '
        'rows with large residuals out altogether, starting from the solution of huber',
        choices=LOSSES,
    )
    huber: float = option(
        1.345,
        doc='Residual, in standard deviations of its joint, from which the pull grows no further; '
        '1.345 costs 5 % of efficiency on Gaussian noise',
        minimum=0.1,
    )
    tukey: float = option(
        4.685,
        doc='Residual, in standard deviations of its joint, from which a row does not count; '
        '4.685 costs 5 % of efficiency on Gaussian noise',
        minimum=1.0,
    )
    max_iterations: int = option(
        50, doc='Passes over the rows at most, for each loss', minimum=1, maximum=1000
    )
    tolerance: float = option(
        1e-3,
        doc='The iteration ends where no parameter moves by more than this many of its standard '
        'deviations, and no scale by more than this share',
        minimum=1e-12,
    )

    @property
    def losses(self) -> tuple[Loss, ...]:
        """Losses that are minimised, one after the other."""
        huber = Loss('huber', self.huber)
        return (huber,) if self.loss == 'huber' else (huber, Loss('tukey', self.tukey))


@dataclass(frozen=True)
class Loss:
    """
    Loss of a residual u, in standard deviations.

    Attributes
    ----------
    name:
        ``huber`` or ``tukey``.
    constant:
        Its tuning constant.

    """

    name: str
    constant: float

    def weight(self, u: np.ndarray) -> np.ndarray:
        """Return psi(u) / u, the weight of a row in the next least squares."""
        t = np.abs(u) / self.constant
        if self.name == 'huber':
            return 1.0 / np.maximum(t, 1.0)
        return np.where(t < 1.0, (1.0 - t**2) ** 2, 0.0)

    def slope(self, u: np.ndarray) -> np.ndarray:
        """Return psi'(u)."""
        t = np.abs(u) / self.constant
        if self.name == 'huber':
            return (t <= 1.0).astype(float)
        return np.where(t < 1.0, (1.0 - t**2) * (1.0 - 5.0 * t**2), 0.0)

    @property
    def half(self) -> float:
        """Residual at which the weight is one half."""
        share = 2.0 if self.name == 'huber' else np.sqrt(1.0 - np.sqrt(0.5))
        return self.constant * float(share)


_NORMAL = 0.6744897501960817
"""Median of the magnitude of a standard normal variable."""


class Magnitudes:
    """Sizes of the residuals of one joint, evenly thinned where there are too many."""

    limit = 1 << 17

    def __init__(self) -> None:
        self._parts: list[np.ndarray] = []
        self._stride, self._seen, self._held = 1, 0, 0

    def push(self, sizes: np.ndarray) -> None:
        """Take in residuals without their signs."""
        part = sizes[-self._seen % self._stride :: self._stride]
        self._seen += sizes.size
        self._parts.append(part)
        self._held += part.size
        while self._held > self.limit:
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


def irls(
    system: LinearSystem,
    rows: Callable[[], Iterator[RowBlock]],
    settings: IrlsSettings | None = None,
    *,
    prior: ParameterSet | None = None,
    robot: str = '',
    repaired: Callable[[Repair], Iterator[RowBlock]] | None = None,
) -> Estimate:
    """
    Estimate robustly against outliers.

    Where rows are decimated, samples whose residual exceeds ``settings.tukey`` standard deviations
    of their joint's samples are first replaced by what the model predicts: the decimation would
    make a dozen bad rows of one bad sample.

    Parameters
    ----------
    system:
        The folded rows, for the start and the covariance.
    rows:
        Starts a pass over the same rows one by one.
    settings:
        The loss.
    prior:
        Standard or base parameters; what the recording does not reach keeps their values.
    robot:
        Name for the summary.
    repaired:
        Starts a pass in which a function changes the samples' efforts, see `SpikeRepair`; None
        where that cannot be.

    Returns
    -------
    Estimate
        with the covariance of the M-estimator, and the share of doubtful rows of each joint in
        its notes.

    Raises
    ------
    IdentifiabilityError, RecordingError
        as `least_squares.wls`.

    """
    require_motion(system)
    found = _Iteration(system, settings or IrlsSettings(), prior_base(system.structure, prior))
    if (
        repaired is None
        or system.factor.raw_rows <= _DECIMATED * system.factor.available_rows.max()
    ):
        found.fit(RowCache(rows))
        return found.estimate(robot)
    # rows without the samples that are far off, until these stay the same ones
    spikes = SpikeRepair(found.solution.base, np.full(system.factor.n_joints, np.inf))
    for _ in repaired(spikes):
        pass
    for _ in range(_ROUNDS):
        before = found.solution.base
        spikes = SpikeRepair(before, found.settings.tukey * spikes.measured())
        found.fit(RowCache(partial(repaired, spikes)))
        std = np.sqrt(np.diag(found.solution.covariance))
        if np.nanmax(np.abs(found.solution.base - before) / std) < _SETTLED:
            break
    return found.estimate(robot, spikes)


class _Iteration:
    """
    Reweighted least squares of a system's rows: the present estimate, and sums under it.

    Attributes
    ----------
    factor:
        (b + 1, b + 1) R of the weighted rows that ``solution`` comes from.
    known, solution:
        Which parameters are free, and their weighted least squares.
    scales:
        (n,) standard deviation of each joint's good rows [N m or N].
    squares, slopes, doubtful:
        (n,) sums over the rows of psi(u)^2 and psi'(u), and rows with a weight below one half.

    """

    def __init__(self, system: LinearSystem, settings: IrlsSettings, fixed: np.ndarray) -> None:
        self.system, self.settings, self._fixed = system, settings, fixed
        weights = joint_weights(system)
        self.scales, self.factor = 1.0 / weights, system.stacked(weights)
        self.squares, self.slopes, self.doubtful = np.zeros((3, system.factor.n_joints))
        self._begin(self._identifiable())

    def _identifiable(self) -> Identifiability:
        layout = self.system.structure.base_layout
        return identifiability(self.factor, self.system.factor.n_rows, layout)

    def _begin(self, known: Identifiability) -> None:
        self.known, self._settled = known, False
        self.solution = self._solved()

    def _solved(self) -> Solution:
        return solve(
            self.factor, self.known.excited, self._fixed, self.system.factor.n_independent
        )

    def fit(self, rows: RowCache) -> None:
        """Estimate from rows, beginning at the present estimate."""
        for loss in self.settings.losses:
            self._settle(rows, loss)
        identifiable = self._identifiable()
        if (identifiable.excited != self.known.excited).any():
            # outliers hid what the rows determine, or made it up
            self._begin(identifiable)
            self._settle(rows, self.settings.losses[-1])
        require_some(self.known)

    def _settle(self, rows: RowCache, loss: Loss) -> None:
        """Iterate until the estimate stands still."""
        free, tolerance = self.known.excited, self.settings.tolerance
        for _ in range(self.settings.max_iterations):
            before, scales = self.solution.base, self.scales
            self._pass(rows, loss)
            self.solution = self._solved()
            std = np.sqrt(np.diag(self.solution.covariance)[free])
            step = np.abs(self.solution.base - before)[free] / std
            growth = np.abs(self.scales / scales - 1.0)
            self._settled = bool(max(step.max(initial=0.0), growth.max()) <= tolerance)
            if self._settled:
                break

    def _pass(self, rows: RowCache, loss: Loss) -> None:
        """Weight all rows by their residual; renew R, the scales and the sums."""
        n = self.system.factor.n_joints
        triangles: JointTriangles | None = None
        magnitudes = [Magnitudes() for _ in range(n)]
        squares, slopes, doubtful = np.zeros((3, n))
        for block in rows:
            if triangles is None:
                triangles = JointTriangles(block.pattern)
            keep = block.keep
            residual = block.effort - block.pattern.product(block.entries, self.solution.base)
            u = residual / self.scales
            weight = loss.weight(u)
            _push_weighted(triangles, block, np.sqrt(weight) / self.scales)
            squares += np.where(keep, (weight * u) ** 2, 0.0).sum(axis=0)
            slopes += np.where(keep, loss.slope(u), 0.0).sum(axis=0)
            doubtful += (keep & (weight < 0.5)).sum(axis=0)
            for j in range(n):
                magnitudes[j].push(np.abs(residual[keep[:, j], j]))
        assert triangles is not None
        self.factor = triangles.stacked()
        self.squares, self.slopes, self.doubtful = squares, slopes, doubtful
        # below this the residual is rounding error
        effort = np.linalg.norm(self.system.factor.triangles[:, :, -1]) / np.sqrt(
            self.system.factor.n_rows
        )
        self.scales = np.maximum([each.scale() for each in magnitudes], 1e-12 * effort)

    def estimate(self, robot: str, spikes: SpikeRepair | None = None) -> Estimate:
        """Return the estimate, with the covariance of the M-estimator."""
        covariance = self._covariance()
        factor = self.factor.copy()
        # so that plain least squares on R has the M-estimator's standard deviations
        excess = np.nanmean(np.diag(covariance) / np.diag(self.solution.covariance))
        factor[-1, -1] *= np.sqrt(excess)
        estimate = assemble(
            self.system,
            replace(self.solution, covariance=covariance),
            self.known,
            weights=1.0 / self.scales,
            method='irls',
            robot=robot,
            factor=factor,
        )
        warnings = estimate.warnings
        if not self._settled:
            warnings += (
                f'irls did not settle within {self.settings.max_iterations} iterations: raise '
                'estimation.irls.max_iterations, or take the loss huber',
            )
        return replace(estimate, warnings=warnings, notes=self._notes(spikes))

    def _covariance(self) -> np.ndarray:
        """
        Return the covariance A^-1 B A^-1 (Huber and Ronchetti, section 7.6).

        A sums psi'(u) x x^T and B sums psi(u)^2 x x^T, with the rows x in units of their scale;
        each joint has means of its own, since outliers may sit at one of them.
        """
        system, free = self.system, self.known.excited
        slopes = np.maximum(self.slopes / system.factor.rows, _LEAST_SLOPE)
        share = 1.0 - free.sum() / system.factor.n_independent
        squares = self.squares / (system.factor.independent_rows * share)
        A, B = (
            system.stacked(np.sqrt(factor) / self.scales)[:, :-1][:, free]
            for factor in (slopes, squares)
        )
        norms = np.linalg.norm(A, axis=0)
        R = np.asarray(np.linalg.qr(A / norms, mode='r'))
        half = solve_triangular(R, (B / norms).T, trans='T')
        half = solve_triangular(R, half) / norms[:, None]
        return nan_padded(half @ half.T, free)

    def _notes(self, spikes: SpikeRepair | None) -> tuple[str, ...]:
        limits = self.settings.losses[-1].half * self.scales
        shares = 100.0 * self.doubtful / self.system.factor.rows
        notes = []
        for j, joint in enumerate(self.system.factor.joints):
            text = (
                f"{shares[j]:.2f} % of the rows of '{joint}' have a weight below one half "
                f'(residuals above {limits[j]:.3g} N m or N)'
            )
            if spikes is not None and spikes.samples[j]:
                share = 100.0 * spikes.replaced[j] / spikes.samples[j]
                text += f'; {share:.2f} % of its samples were left out before'
            notes.append(text)
        return tuple(notes)


def _push_weighted(triangles: JointTriangles, block: RowBlock, factors: np.ndarray) -> None:
    """Fold the rows that count in, each multiplied with its factor, (m, n)."""
    for j in range(factors.shape[1]):
        kept = block.keep[:, j]
        entries, effort = block.entries[block.pattern.row_entries(j)], block.effort[:, j]
        factor = factors[:, j]
        if not kept.all():
            entries, effort, factor = entries[:, kept], effort[kept], factor[kept]
        triangles.push(j, entries * factor, effort * factor)
