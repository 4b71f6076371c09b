# SPDX-License-Identifier: Apache-2.0
"""
Cross-validation over contiguous stretches of the recordings.

The rows of the recordings are cut into `FOLDS` stretches.  Base parameters are fitted to all but
one and predict that one; normal matrices of each stretch and joint make that cheap.

One file: stretches and scores of one comparison.
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

FOLDS = 5
"""Stretches that are held out in turn."""

WORKING_RATE = 50.0
"""Rate of the rows in all comparisons [Hz], so that all predict the same efforts."""

BANDWIDTHS = 2.5
"""Rate of the rows that are fitted in the end, by the cut-off frequency."""

TERM_COST = 0.01
"""Cost of a term of one joint: the logarithm of the residual that it has to save."""

SURE, HINT, ALIKE = 2.0, 0.5, 1.0
"""Standard errors by which choices for single joints have to pay, those for all, and filters."""

TILT_STD = np.radians(1.0)
"""Standard deviation of the base's tilt before anything is measured [rad]."""

INDEPENDENT_RATE = 2.0
"""Rows that count as independent beside the model's error [1/s]."""

LONGEST = 600.0
"""Time that is looked at of each recording [s]."""

_MOST_BLOCKS = int(LONGEST * 1000.0 / 512.0)  # of `LONGEST` at a rate of a kilohertz
_LEAST = 1e-3  # share of the effort below which residuals are not compared
_LEAST_GAIN = 1e-3  # of the logarithm of the residual
_PULL = 1e-5  # of the scaled normal matrix, towards the prior
_RIDGE = 1e-10  # for columns that nothing moves
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
    Rows of the identification recordings at `WORKING_RATE`, in memory.

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
        (n, b) bool, columns of a joint's own friction and spring.
    driven:
        (n,) bool.
    rate:
        Of the rows [Hz].
    stretches:
        The rows.
    structure:
        Base parameters of the columns.
    moving:
        (n,) speed from which on a joint moves for sure [rad/s or m/s].
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

    def determined(self, cutoff: float) -> bool:
        """Return whether what a filter [Hz] leaves of a joint is enough for its parameters."""
        most = max(columns.size for columns in self.columns)
        # the fit leaves out rows at both ends, where the filter has samples of one side only
        periods = cutoff * self._duration - 2.0 * ONE_SIDED * len(self.stretches)
        return BANDWIDTHS * independence(2) * periods >= ENOUGH * most

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
        rate = WORKING_RATE
        for source in sources:
            blocks = row_blocks(source, regressor, base, signals)
            for _, group in itertools.groupby(blocks, key=lambda block: block.segment):
                parts = list(itertools.islice(group, _MOST_BLOCKS))
                pattern = parts[0].pattern
                time = np.concatenate([block.time for block in parts])
                if time.size < 2:
                    continue
                rate = 1.0 / float(np.median(np.diff(time)))
                others = ('effort', 'position', 'velocity')
                stretches.append(
                    Stretch(
                        np.hstack([block.entries for block in parts]),
                        *(np.vstack([getattr(block, name) for block in parts]) for name in others),
                    )
                )
        assert pattern is not None
        speeds = np.abs(np.vstack([stretch.velocity for stretch in stretches]))
        values = base.regrouping @ urdf_prior(robot, model).values
        owners = [name.rpartition('.')[::2] for name in base.names]
        own = [[owner == j and symbol in _OWN for owner, symbol in owners] for j in robot.joints]
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

    def through(self, delays: np.ndarray, low_passes: np.ndarray) -> FoldedRows:
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

    def mixed(self, others: Sequence[FoldedRows]) -> FoldedRows:
        """Take each joint's normal matrices from others, that differ by their channels alone."""
        rows = replace(self, stretches=())
        for name in ('_held', '_fitted'):
            grams = [getattr(other, name)[..., j, :, :] for j, other in enumerate(others)]
            vars(rows)[name] = np.stack(grams, axis=-3)
        return rows

    def with_gravity(
        self, robot: Robot, model: ModelSettings, directions: Sequence[np.ndarray]
    ) -> FoldedRows:
        """
        Add the columns of gravity along other directions, for the present fit.

        Their coefficients are the shares of gravity along the directions.
        """
        rigid = np.where(self.own.any(axis=0), 0.0, self.fit())
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
        std = TILT_STD * np.sqrt(max(1.0, self._duration * INDEPENDENT_RATE))
        return replace(
            self,
            columns=tuple(np.append(columns, added) for columns in self.columns),
            width=self.width + len(directions),
            prior=np.append(self.prior, np.zeros(len(directions))),
            stds=np.append(self.stds, np.full(len(directions), std)),
            own=np.hstack([self.own, np.zeros((self.n_joints, len(directions)), dtype=bool)]),
            stretches=tuple(stretches),
        )

    def _by_joint(self, stretch: Stretch) -> list[np.ndarray]:
        """Return the entries of each joint's rows."""
        return np.split(stretch.signals, np.cumsum([c.size for c in self.columns])[:-1])

    def grams(self, zone: np.ndarray | None = None) -> np.ndarray:
        """Return (FOLDS, n, b + 1, b + 1) normal matrices of rows faster than the dead zone."""
        zone = self.zone if zone is None else zone
        effort, velocity = (
            np.vstack([getattr(stretch, key) for stretch in self.stretches])
            for key in ('effort', 'velocity')
        )
        by_joint = [np.hstack(parts) for parts in zip(*map(self._by_joint, self.stretches))]
        found = np.zeros((FOLDS, self.n_joints, self.width + 1, self.width + 1))
        bounds = np.linspace(0, len(effort), FOLDS + 1).astype(int)
        for fold, (first, last) in enumerate(itertools.pairwise(bounds)):
            for joint, entries in enumerate(by_joint):
                rows = np.vstack([entries[:, first:last], effort[first:last, joint]])
                if zone[joint] > 0.0:
                    rows = rows[:, np.abs(velocity[first:last, joint]) >= zone[joint]]
                places = np.append(self.columns[joint], self.width)
                found[fold, joint][np.ix_(places, places)] = rows @ rows.T
        return found

    @cached_property
    def _held(self) -> np.ndarray:
        """Normal matrices of the rows that are predicted: all, and those that move for sure."""
        return np.stack([self.grams(np.zeros(self.n_joints)), self.grams(self.moving)])

    @cached_property
    def _fitted(self) -> np.ndarray:
        """Normal matrices of the rows that parameters are fitted to."""
        return self.grams() if self.zone.any() else self._held[0]

    def cost(self) -> np.ndarray:
        """
        Return the logarithm of the held-out residual of each stretch and driven joint.

        Returns
        -------
        (2, FOLDS, n) of all rows, and of those that move for sure.

        """
        weights = self._weights(self._fitted.sum(axis=0))
        costs = np.empty((2, FOLDS, self.n_joints))
        for fold in range(FOLDS):
            base = self._solve(self._fitted.sum(axis=0) - self._fitted[fold], weights)
            for part, held in enumerate(self._held):
                costs[part, fold] = _log_residual(held[fold], base)
        return costs[:, :, self.driven]

    def fit(self) -> np.ndarray:
        """Return the base parameters of all rows, (b,)."""
        grams = self._fitted.sum(axis=0)
        return self._solve(grams, self._weights(grams))

    def own_costs(self, base: np.ndarray, *, sure: bool = False) -> np.ndarray:
        """
        Return the cost of each joint where its own friction alone is fitted.

        Parameters
        ----------
        base:
            (b,) the other parameters.
        sure:
            Whether rows that move for sure alone are fitted and predicted.

        Returns
        -------
        (FOLDS, n) logarithm of the held-out residual.

        """
        grams = (self._held[1], self._held[1]) if sure else (self._fitted, *self._held)
        costs = np.empty((len(grams) - 1, FOLDS, self.n_joints))
        for joint in range(self.n_joints):
            own = np.flatnonzero(self.own[joint])
            # what the other parameters predict is taken from the effort
            rest = np.append(-np.where(self.own[joint], 0.0, base), 1.0)
            fitted, *held = (
                (part[:, joint][:, own[:, None], own], ahead[:, own], ahead @ rest)
                for part in grams
                for ahead in (part[:, joint] @ rest,)
            )
            train = [part.sum(axis=0) - part for part in fitted[:2]]
            found = -_solved(*train)
            for part, (matrix, right, energy) in enumerate(held):
                squares = energy + 2.0 * np.einsum('fi,fi->f', found, right)
                squares += np.einsum('fi,fij,fj->f', found, matrix, found)
                costs[part, :, joint] = _log_share(squares, grams[part + 1][:, joint, -1, -1])
        return np.asarray(costs.mean(axis=0))

    def _weights(self, grams: np.ndarray) -> np.ndarray:
        """Return the joints' weights, iterated from the residuals of the joint fit, (n,)."""
        efforts = np.sqrt(np.maximum(grams[:, -1, -1], 1e-30))
        weights = self.driven / efforts
        for _ in range(4):
            base = self._solve(grams, weights)
            residual = np.exp(_log_residual(grams, base))
            weights = self.driven / residual
        return np.asarray(weights)

    def _solve(self, grams: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Solve the weighted normal equations of all joints with the pull towards the prior."""
        total = np.einsum('j,jkl->kl', weights**2, grams)
        pull = np.diag(total)[:-1] * _PULL + 1.0 / self.stds**2
        pull[pull == 0.0] = 1.0
        matrix = total[:-1, :-1] + np.diag(pull)
        return _solved(matrix, total[:-1, -1] + pull * self.prior)


def _solved(matrix: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Solve (..., k, k) normal equations for (..., k)."""
    scale = 1.0 / np.sqrt(np.maximum(np.diagonal(matrix, axis1=-2, axis2=-1), 1e-30))
    scaled = matrix * scale[..., None, :] * scale[..., :, None] + _RIDGE * np.eye(scale.shape[-1])
    return np.asarray(scale * np.linalg.solve(scaled, (scale * right)[..., None])[..., 0])


def _log_residual(grams: np.ndarray, base: np.ndarray) -> np.ndarray:
    """Return the logarithm of each joint's residual, (n,)."""
    ahead = np.append(base, -1.0)
    squares = np.einsum('k,jkl,l->j', ahead, grams, ahead)
    return np.asarray(_log_share(squares, grams[:, -1, -1]))


def _log_share(squares: np.ndarray, energy: np.ndarray) -> np.ndarray:
    """Return half the logarithm of squares, not below a small share of the effort's."""
    least = _LEAST**2 * np.asarray(energy) + 1e-30
    return np.asarray(0.5 * np.log(np.maximum(squares, 0.0) + least))


def standard_error(difference: np.ndarray) -> float:
    """Return the standard error of the mean over stretches."""
    return float(difference.std(ddof=1) / np.sqrt(difference.size))


def better(
    cost: np.ndarray,
    than: np.ndarray,
    terms: float,
    least: float = _LEAST_GAIN,
    both: bool = True,
    sure: float = HINT,
) -> bool:
    """
    Return whether a cost is lower by some standard errors and that of its terms a joint.

    Parameters
    ----------
    cost, than:
        (2, FOLDS, n), see `FoldedRows.cost`.
    terms:
        Number of further terms a joint.
    least:
        Logarithm of the residual that is to be saved at least.
    both:
        Whether half of the terms' cost has to be saved of all rows, and of those that move.
    sure:
        Standard errors.

    """
    difference = (cost - than).mean(axis=2)  # (2, folds)
    mean = difference.mean(axis=0)
    needed = max(sure * standard_error(mean), least, _LEAST_GAIN) + TERM_COST * terms
    pays = not both or difference.mean(axis=1).max() < -0.5 * TERM_COST * terms
    return bool(mean.mean() < -needed and pays)


def simplest(
    costs: np.ndarray, terms: Sequence[float] | np.ndarray | None = None, sure: float = HINT
) -> int:
    """Return the first candidate within some standard errors of the best; costs (c, folds)."""
    if terms is not None:
        costs = costs + TERM_COST * np.asarray(terms)[:, None]
    best = int(np.argmin(costs.mean(axis=1)))
    for place, cost in enumerate(costs):
        difference = cost - costs[best]
        if difference.mean() <= max(sure * standard_error(difference), _LEAST_GAIN):
            return place
    return best


def relative_gain(cost: np.ndarray, reference: np.ndarray) -> float:
    """Return the change of the residual in per cent."""
    return 100.0 * float(np.expm1(cost.mean() - reference.mean()))
