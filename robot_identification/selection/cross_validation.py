# SPDX-License-Identifier: Apache-2.0
"""
Cross-validation over contiguous stretches of the recordings.

The rows of the recordings are cut into stretches.  Base parameters are fitted to all but one and
predict that one; normal matrices of each stretch and joint make that cheap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
import itertools

import numpy as np

from ..data.recording import Motion
from ..estimation.least_squares import ENOUGH
from ..estimation.rows import driven_rows, row_blocks
from ..model.friction import FRICTION_SYMBOLS
from ..model.robot import Robot
from ..regressor import build, ModelSettings, Regressor
from ..regressor import prior as urdf_prior
from ..regressor.base_parameters import BaseStructure
from ..regressor.inverse_dynamics import RowPattern
from ..regressor.joint_terms import SPRING_SYMBOLS
from ..signals import channel_kernel, EffortChannel, independence, RecordingSource, SignalSettings
from ..signals.settings import ONE_SIDED


@dataclass(frozen=True)
class ComparisonConstants:
    """Constants of a comparison of settings."""

    folds: int = 5
    """Stretches that are held out in turn."""
    rate: float = 50.0
    """Rate of the rows in all comparisons [Hz], so that all predict the same efforts."""
    bandwidths: float = 2.5
    """Rate of the rows that are fitted in the end, by the cut-off frequency."""
    term: float = 0.01
    """Cost of a term of one joint: the logarithm of the residual that it has to save."""
    required_stds: float = 2.0
    """Standard errors by which choices for single joints have to pay."""
    hint: float = 0.5
    """Those by which choices for all joints have to pay."""
    alike: float = 1.0
    """Those within which filters count as equally good."""
    tilt_std: float = np.radians(1.0)
    """Standard deviation of the base's tilt before anything is measured [rad]."""
    independent_rate: float = 2.0
    """Rows that count as independent beside the model's error [1/s]."""
    least_residual: float = 1e-3
    """Share of the effort below which residuals are not compared."""
    least_gain: float = 1e-3
    """Logarithm of the residual below which nothing is better."""
    pull: float = 1e-5
    """Weak pull towards the prior, relative to the scaled normal matrix."""
    ridge: float = 1e-10
    """The same for columns that nothing moves."""
    rounds: int = 3
    """Rounds of a search over joints."""


COMPARISON = ComparisonConstants()

_OWN = (*FRICTION_SYMBOLS, *SPRING_SYMBOLS)


@dataclass(frozen=True)
class Stretch:
    """
    Rows of consecutive moments.

    Attributes
    ----------
    signals:
        (K, m) entries of the rows, joint by joint, and the columns added to them.
    effort, position, velocity:
        (m, n).

    """

    signals: np.ndarray
    effort: np.ndarray
    position: np.ndarray
    velocity: np.ndarray


@dataclass(frozen=True)
class FoldedRows:
    """
    Rows of the identification recordings at `ComparisonConstants.rate`, in memory.

    Attributes
    ----------
    columns:
        The columns that each joint's entries stand for.
    width:
        Number b of columns.
    prior:
        (b,) values that the fit is weakly pulled to.
    stds:
        (b,) standard deviation of these values; infinite for those with the weak pull alone.
    own:
        (b,) bool, columns of joints' friction and springs.
    driven:
        (n,) bool.
    rate:
        Of the rows [Hz].
    stretches:
        The rows.
    structure:
        Base parameters of the columns.
    moving:
        (n,) speed above which a joint moves for sure [rad/s or m/s].
    zone:
        (n,) speed below which rows are not fitted [rad/s or m/s]; all are predicted.

    """

    columns: tuple[np.ndarray, ...]
    width: int
    prior: np.ndarray
    stds: np.ndarray
    own: np.ndarray
    driven: np.ndarray
    rate: float
    stretches: tuple[Stretch, ...]
    structure: BaseStructure
    moving: np.ndarray
    zone: np.ndarray

    @property
    def n_joints(self) -> int:
        """Number of joints."""
        return len(self.columns)

    @property
    def _duration(self) -> float:
        """Time that the rows are of [s]."""
        return sum(len(stretch.effort) for stretch in self.stretches) / self.rate

    def admissible(self, zone: np.ndarray) -> np.ndarray:
        """
        Return dead zones, with 0 for those that leave too few of a joint's rows.

        They leave half of them, and enough for the parameters.
        """
        speeds = np.abs(np.vstack([stretch.velocity for stretch in self.stretches]))
        left = independence(2) * np.count_nonzero(speeds >= zone, axis=0)
        enough = ENOUGH * np.array([columns.size for columns in self.columns])
        return np.where((zone <= np.median(speeds, axis=0)) & (left >= enough), zone, 0.0)

    def reversing(self, share: float) -> np.ndarray:
        """Return whether each joint moves with at least a share of its rows either way, (n,)."""
        speeds = np.vstack([stretch.velocity for stretch in self.stretches])
        forward, back = (speeds > self.moving).sum(axis=0), (speeds < -self.moving).sum(axis=0)
        return np.asarray(np.minimum(forward, back) >= share * (forward + back))

    def determined(self, cutoff: float) -> bool:
        """Return whether what a filter [Hz] leaves of a joint is enough for its parameters."""
        # the fit leaves out rows at both ends, where the filter has samples of one side only
        periods = cutoff * self._duration - 2.0 * ONE_SIDED * len(self.stretches)
        rows = COMPARISON.bandwidths * independence(2) * periods
        return rows >= ENOUGH * max(map(len, self.columns))

    @classmethod
    def from_recordings(
        cls,
        sources: Sequence[RecordingSource],
        regressor: Regressor,
        base: BaseStructure,
        robot: Robot,
        model: ModelSettings,
        signals: SignalSettings,
        moving: np.ndarray,
        zone: np.ndarray,
    ) -> FoldedRows:
        """Read the recordings; the regressor and its base parameters are the model's."""
        pattern: RowPattern | None = None
        stretches: list[Stretch] = []
        rate = COMPARISON.rate
        for source in sources:
            blocks = row_blocks(source, regressor, base, signals)
            for _, group in itertools.groupby(blocks, key=lambda block: block.segment):
                parts = list(group)
                pattern = parts[0].pattern
                time = np.concatenate([block.time for block in parts])
                if time.size < 2:
                    continue
                rate = 1.0 / float(np.median(np.diff(time)))
                entries, names = (
                    [block.entries for block in parts],
                    ('effort', 'position', 'velocity'),
                )
                others = (np.vstack([getattr(block, name) for block in parts]) for name in names)
                stretches.append(Stretch(np.hstack(entries), *others))
        assert pattern is not None
        speeds = np.abs(np.vstack([stretch.velocity for stretch in stretches]))
        values = base.regrouping @ urdf_prior(robot, model).values
        own = [name.rpartition('.')[2] in _OWN for name in base.names]
        return cls(
            columns=pattern.columns,
            width=base.n_base,
            prior=values,
            stds=np.full(base.n_base, np.inf),
            own=np.array(own),
            driven=driven_rows(regressor),
            rate=rate,
            stretches=tuple(stretches),
            structure=base,
            moving=np.minimum(moving, np.median(speeds, axis=0)),
            zone=zone,
        )

    def filtered_by_channel(self, delays: np.ndarray, low_passes: np.ndarray) -> FoldedRows:
        """Pass the columns through the joints' channels."""
        if not (np.any(delays) or np.any(low_passes)):
            return self
        pairs = zip(delays.tolist(), low_passes.tolist(), strict=True)
        kernels = [channel_kernel(delay, low_pass, self.rate) for delay, low_pass in pairs]
        groups = np.repeat(np.arange(self.n_joints), [c.size for c in self.columns])
        stretches = []
        for stretch in self.stretches:
            channel = EffortChannel(kernels, groups)
            signals = np.hstack([channel.push(stretch.signals), channel.finish()])
            stretches.append(replace(stretch, signals=signals))
        return replace(self, stretches=tuple(stretches))

    def with_gravity(
        self,
        robot: Robot,
        model: ModelSettings,
        directions: Sequence[np.ndarray],
        likely: np.ndarray | float = 0.0,
        std: float = COMPARISON.tilt_std,
    ) -> FoldedRows:
        """
        Add the columns of gravity along other directions, for the present fit.

        Their coefficients are the shares of gravity along the directions, which are ``likely``
        before anything is measured, with a standard deviation.
        """
        rigid = np.where(self.own, 0.0, self.fit())
        turned = [build(robot.with_gravity(each.tolist()), model) for each in directions]
        stretches = []
        for stretch in self.stretches:
            still, shape = np.zeros_like(stretch.position), (*stretch.position.shape, -1)
            motion = Motion(stretch.position, still, still)
            weights = np.array(
                [
                    each.rows(motion).reshape(shape)[:, :, self.structure.independent] @ rigid
                    for each in turned
                ]
            )  # (directions, m, n)
            parts = [
                np.vstack([part, weights[:, :, joint]])
                for joint, part in enumerate(self._by_joint(stretch))
            ]
            stretches.append(replace(stretch, signals=np.vstack(parts)))
        added = np.arange(self.width, self.width + len(directions))
        # residuals are norms of so many independent rows of a joint
        std = std * np.sqrt(max(1.0, self._duration * COMPARISON.independent_rate))
        return replace(
            self,
            columns=tuple(np.append(columns, added) for columns in self.columns),
            width=self.width + len(directions),
            prior=np.append(self.prior, np.broadcast_to(likely, len(directions))),
            stds=np.append(self.stds, np.full(len(directions), std)),
            own=np.append(self.own, np.zeros(len(directions), dtype=bool)),
            stretches=tuple(stretches),
        )

    def _by_joint(self, stretch: Stretch) -> list[np.ndarray]:
        """Return the entries of each joint's rows."""
        return np.split(stretch.signals, np.cumsum([c.size for c in self.columns])[:-1])

    def grams(self, zone: np.ndarray) -> list[np.ndarray]:
        """Return (folds, k + 1, k + 1) normal matrices of each joint's rows beyond a dead zone."""
        effort, velocity = (
            np.vstack([getattr(stretch, key) for stretch in self.stretches])
            for key in ('effort', 'velocity')
        )
        by_joint = [np.hstack(parts) for parts in zip(*map(self._by_joint, self.stretches))]
        bounds = np.linspace(0, len(effort), COMPARISON.folds + 1).astype(int)
        found = []
        for joint, entries in enumerate(by_joint):
            rows = np.vstack([entries, effort[:, joint]])
            rows = rows * (np.abs(velocity[:, joint]) >= zone[joint])
            parts = [rows[:, first:last] for first, last in itertools.pairwise(bounds)]
            found.append(np.array([part @ part.T for part in parts]))
        return found

    @cached_property
    def _held(self) -> list[np.ndarray]:
        """Normal matrices of the rows that are predicted: all, and those that move for sure."""
        pairs = zip(self.grams(np.zeros(self.n_joints)), self.grams(self.moving), strict=True)
        return list(map(np.array, pairs))

    @cached_property
    def _fitted(self) -> list[np.ndarray]:
        """Normal matrices of the rows that parameters are fitted to."""
        return self.grams(self.zone)

    def cost(self, weights: np.ndarray | None = None) -> np.ndarray:
        """
        Return the logarithm of the held-out residual of each stretch and driven joint.

        Parameters
        ----------
        weights:
            (n,) of the joints; None for those by the residuals.

        Returns
        -------
        (2, folds, n) of all rows, and of those that move for sure.

        """
        weights = self._weighted_fit()[0] if weights is None else weights
        parts = self._total(weights)
        fits = self._solve(parts.sum(axis=0) - parts)
        return self._log_residuals(self._held, fits)[..., self.driven]

    def fit(self) -> np.ndarray:
        """Return the base parameters of all rows, (b,)."""
        return self._weighted_fit()[1]

    def _weighted_fit(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the joints' weights, (n,), iterated from residuals, and their fit, (b,)."""
        whole = [gram.sum(axis=0) for gram in self._fitted]
        efforts = np.sqrt(np.maximum([gram[-1, -1] for gram in whole], 1e-30))
        weights = self.driven / efforts
        for _ in range(5):
            base = self._solve(self._total(weights, whole))
            used, weights = weights, self.driven / np.exp(self._log_residuals(whole, base))
        return used, base

    def _total(self, weights: np.ndarray, grams: Sequence[np.ndarray] | None = None) -> np.ndarray:
        """Return the weighted sum of all joints' normal matrices, (..., b + 1, b + 1)."""
        grams = self._fitted if grams is None else grams
        total = np.zeros((*grams[0].shape[:-2], self.width + 1, self.width + 1))
        for columns, weight, gram in zip(self.columns, weights, grams, strict=True):
            places = np.append(columns, self.width)
            total[..., places[:, None], places] += weight**2 * gram
        return total

    def _log_residuals(self, grams: Sequence[np.ndarray], base: np.ndarray) -> np.ndarray:
        """Return the logarithm of joints' residuals, not below a small share of efforts."""
        ahead = np.concatenate([base, np.full((*base.shape[:-1], 1), -1.0)], axis=-1)
        found = []
        for columns, gram in zip(self.columns, grams, strict=True):
            vector = ahead[..., np.append(columns, self.width)]
            squares = ((gram @ vector[..., None])[..., 0] * vector).sum(axis=-1)
            least = COMPARISON.least_residual**2 * gram[..., -1, -1] + 1e-30
            found.append(0.5 * np.log(np.maximum(squares, 0.0) + least))
        return np.stack(found, axis=-1)

    def _solve(self, total: np.ndarray) -> np.ndarray:
        """Solve the normal equations with the pull towards the prior, (..., b)."""
        diagonal = np.diagonal(total, axis1=-2, axis2=-1)[..., :-1]
        pull = diagonal * COMPARISON.pull + 1.0 / self.stds**2
        pull = np.where(pull == 0.0, 1.0, pull)
        scale = 1.0 / np.sqrt(np.maximum(diagonal + pull, 1e-30))
        matrix = total[..., :-1, :-1] * scale[..., None] * scale[..., None, :]
        matrix = matrix + (pull * scale**2 + COMPARISON.ridge)[..., None] * np.eye(self.width)
        right = scale * (total[..., :-1, -1] + pull * self.prior)
        return np.asarray(scale * np.linalg.solve(matrix, right[..., None])[..., 0])


def standard_error(difference: np.ndarray) -> np.ndarray:
    """Return the standard error of the mean over stretches, the last axis."""
    return np.asarray(difference.std(axis=-1, ddof=1) / np.sqrt(difference.shape[-1]))


def better(
    cost: np.ndarray,
    than: np.ndarray,
    terms: float,
    least: float = COMPARISON.least_gain,
    both: bool = True,
    stds: float = COMPARISON.hint,
) -> bool:
    """
    Return whether a cost is lower by some standard errors and that of its terms a joint.

    Parameters
    ----------
    cost, than:
        (2, folds, n), see `FoldedRows.cost`.
    terms:
        Number of further terms a joint.
    least:
        Logarithm of the residual that is to be saved at least.
    both:
        Whether half of the terms' cost has to be saved of all rows, and of those that move.
    stds:
        Standard errors.

    """
    difference = (cost - than).mean(axis=2)  # (2, folds)
    mean, price = difference.mean(axis=0), COMPARISON.term * terms
    needed = max(stds * float(standard_error(mean)), least, COMPARISON.least_gain) + price
    pays = not both or difference.mean(axis=1).max() < -0.5 * price
    return bool(mean.mean() < -needed and pays)


def picked_by_joint(
    rows: Sequence[FoldedRows], both: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """
    Return the best cost, and (n,) which rows each joint takes for it: the first, or what pays.

    All joints are fitted again beside each; that which saves most is taken first.
    """
    n, mixed = rows[0].n_joints, replace(rows[0], stretches=())
    price = COMPARISON.term / n
    grams = {key: list(getattr(rows[0], key)) for key in ('_held', '_fitted')}
    vars(mixed).update(grams)

    def take(joint: int, which: int) -> FoldedRows:
        for key, each in grams.items():
            each[joint] = getattr(rows[which], key)[joint]
        return mixed

    picked, cost = [0] * n, mixed.cost()
    for _ in range(COMPARISON.rounds):
        known, weights = list(picked), mixed._weighted_fit()[0]
        table = np.empty((n, len(rows), COMPARISON.folds))
        for j, i in np.ndindex(n, len(rows)):
            table[j, i] = take(j, i).cost(weights).mean(axis=(0, 2)) + bool(i) * price
            take(j, picked[j])
        for j in np.argsort(table.mean(axis=2).min(axis=1)).tolist():
            best = simplest(table[j])
            found = take(j, best).cost()
            if better(found, cost, (bool(best) - bool(picked[j])) / n, both=both):
                picked[j], cost = best, found
            take(j, picked[j])
        if picked == known:
            break
    return cost, np.array(picked)


def simplest(costs: np.ndarray, stds: float = COMPARISON.hint) -> int:
    """Return the first candidate within some standard errors of the best; costs (c, folds)."""
    difference = costs - costs[np.argmin(costs.mean(axis=1))]
    needed = np.maximum(stds * standard_error(difference), COMPARISON.least_gain)
    return int(np.argmax(difference.mean(axis=1) <= needed))


def relative_gain(cost: np.ndarray, reference: np.ndarray) -> float:
    """Return the change of the residual in per cent."""
    return 100.0 * float(np.expm1(cost.mean() - reference.mean()))
