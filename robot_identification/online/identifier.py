# SPDX-License-Identifier: Apache-2.0
"""
Identification beside a running robot, sample by sample.

A sample goes onto the uniform grid, through the polynomial approximation (Lomakin and Deutscher,
IROS 2020) and the effort channel, as rows of base parameters into the modified recursive least
squares, and out comes the estimate of all rows so far.  The steps are those of the offline method
``mrls`` with signals by ``polynomial_approximation``, by composition, and so are the numbers; but
every parameter is solved for after each sample.  No step reads a clock, so the same samples give
the same estimates, to the last bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
import math
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..config.problem import IdentificationProblem
from ..data.recording import Motion
from ..errors import SettingsError
from ..estimation.factor import fixed_test_vector, ModelSignature
from ..estimation.least_squares import prior_base
from ..estimation.recursive.mrls import learner_of
from ..estimation.recursive.rls import (
    RecursiveEstimate,
    RecursiveLeastSquares,
    RecursiveSettings,
    RecursiveState,
)
from ..model.parameters import ParameterLayout, ParameterSet
from ..regressor import Regressor
from ..regressor.base_parameters import BaseStructure
from ..regressor.base_search import structure
from ..regressor.inverse_dynamics import RowPattern
from ..regressor.joint_terms import DryFriction
from ..signals import (
    SignalSettings,
)
from .filters import GridRow, OnlineGrid, StreamCounts
from .row_filters import FilteredRow, RowFilters
from .state_file import load_state, save_state


class Update(NamedTuple):
    """
    Result of one sample; all values hold at ``stamp``, some time ago.

    Attributes
    ----------
    stamp:
        Moment that the rows are for [s]: `OnlineIdentifier.delay` before the newest sample.
    values:
        (b,) base parameters by all rows so far.
    flags:
        (b,) int: 1 identified; 0 not excited; -1 dependent on the parameters before it.
    residual:
        (n,) effort less what the parameters before this sample explain [N m or N].
    effort:
        (n,) projected effort [N m or N].
    velocity:
        (n,) projected velocity [rad/s or m/s].
    moving:
        (n,) bool, whether a joint is out of its dead zone; only these rows are learned from.
    entries:
        (K,) entries of the sample's rows, see `OnlineIdentifier.pattern`.

    """

    stamp: float
    values: np.ndarray
    flags: np.ndarray
    residual: np.ndarray
    effort: np.ndarray
    velocity: np.ndarray
    moving: np.ndarray
    entries: np.ndarray


class Learning:
    """
    The recursion, with the solution by all rows so far.

    Parameters
    ----------
    learner:
        The recursion itself.
    pattern:
        Places of the entries of rows.
    weights:
        (n,) factor of each joint's rows.
    independence:
        Share of the rows that counts as independent.
    memory:
        Factor of what was learned before, at each step.

    """

    def __init__(
        self,
        learner: RecursiveLeastSquares,
        pattern: RowPattern,
        weights: np.ndarray,
        *,
        independence: float,
        memory: float,
    ) -> None:
        self.learner, self._pattern, self._weights = learner, pattern, weights
        self._independence, self._memory = independence, memory
        self._none = np.zeros(len(weights), dtype=bool)
        self.frozen = False
        self.solution = learner.solution()

    def step(self, row: FilteredRow, kept: np.ndarray) -> np.ndarray:
        """Learn from the rows that are kept; return the residual of the parameters before."""
        residual, self.solution = self.learner.step(
            self._pattern,
            self._weights,
            row.entries,
            row.effort,
            self._none if self.frozen else kept,
            self.solution,
            independence=self._independence,
            memory=self._memory,
        )
        return residual

    def restore(self, state: RecursiveState) -> None:
        """Go on from a state that was kept."""
        self.learner.restore(state)
        self.solution = self.learner.solution()

    def reset(self, initial: np.ndarray | None) -> None:
        """Forget all rows and start from base parameters; None for those of before."""
        self.learner.reset(self.learner.initial if initial is None else initial)
        self.solution = self.learner.solution()


class OnlineIdentifier:
    """
    Identifies base parameters from a stream of samples.

    Parameters
    ----------
    regressor, structure:
        The model and its base parameters.
    joints:
        Names of the n joints, in the order of the samples.
    signals:
        Method ``polynomial_approximation`` by composition; window, dead zone, trim, decimation and
        effort channel.
    settings:
        Thresholds and bounds of the recursion.
    period:
        Usual time between samples [s].
    prior:
        Standard or base parameters that the recursion starts from; zeros without.
    weights:
        (n,) factor of each joint's rows, such as one over the standard deviation of its residual;
        ones where None.
    memory:
        Time after which a row counts 1/e of a new one [s]; None for all alike.

    Raises
    ------
    SettingsError
        where the signals ask for what cannot be had sample by sample, a threshold or bound names
        what is no parameter, or a time or weight is not positive.

    Attributes
    ----------
    layout:
        Names and units of the base parameters.
    pattern:
        Places of the entries of an update's rows.
    step:
        Time between updates at an even rate [s].
    delay:
        Age of the estimate at the newest sample, at an even rate [s].
    taps, lag:
        Samples in a window of the polynomial approximation, and the time t_d from an update's
        moment to the end of its window [s].

    """

    def __init__(
        self,
        regressor: Regressor,
        structure: BaseStructure,
        joints: Sequence[str],
        signals: SignalSettings,
        settings: RecursiveSettings | None = None,
        *,
        period: float,
        prior: ParameterSet | None = None,
        weights: np.ndarray | None = None,
        memory: float | None = None,
    ) -> None:
        _require_online(signals)
        settings = RecursiveSettings() if settings is None else settings
        self._regressor, self.structure, self.joints = regressor, structure, tuple(joints)
        self.layout: ParameterLayout = structure.base_layout
        n = self._n = regressor.n_joints
        if len(self.joints) != n:
            raise ValueError(f'there are {len(self.joints)} joints, the regressor has {n}')
        _require_numbers(n, period, memory, weights)
        self.step = period if signals.sample_rate is None else 1.0 / signals.sample_rate
        self._grid = OnlineGrid(2 * n, period, self.step)
        self.counts: StreamCounts = self._grid.counts
        self._filters = filters = RowFilters(
            regressor, structure.independent, self.joints, signals, self.step
        )
        self.pattern: RowPattern = filters.pattern
        self.taps, self.lag = filters.taps, filters.lag
        self.delay = filters.age + self._grid.delay
        self._weights = np.ones(n) if weights is None else np.array(weights, dtype=float)
        between = filters.factor * self.step
        self._learning = Learning(
            learner_of(structure, settings, prior),
            self.pattern,
            self._weights,
            independence=min(filters.independence, between / period),
            memory=1.0 if memory is None else math.exp(-0.5 * between / memory),
        )
        self._sample, self._none = np.empty(2 * n), np.zeros(n, dtype=bool)

    # --------------------------------------------------------------------------------- the stream

    def push(self, stamp: float, position: np.ndarray, effort: np.ndarray) -> Update | None:
        """
        Add a sample.

        Parameters
        ----------
        stamp:
            When it was taken [s].  Jitter, lost samples and other rates are evened out; a gap of
            more than five periods or a clock that goes back lets the filters fill again; samples
            that are not later than the one before, or not finite, are left out and counted.
        position:
            (n,) [rad or m].
        effort:
            (n,) [N m or N].

        Returns
        -------
        Update or None
            The newest, where the sample has completed any rows.

        """
        sample = self._sample
        sample[: self._n] = position
        sample[self._n :] = effort
        update = None
        for row in self._grid.push(stamp, sample):
            update = self._filter(row) or update
        return update

    def _filter(self, row: GridRow) -> Update | None:
        """Pass a row of the grid through the filters, and learn from what is completed."""
        now, decimated = self._filters.push(row)
        residual = None
        if now is not None:
            kept = now.moving if self._filters.factor == 1 else self._none
            residual = self._learning.step(now, kept)
        for each in decimated:
            self._learning.step(each, each.moving)
        if now is None or residual is None:
            return None
        return Update(
            row.stamp - self._filters.age,
            self.values,
            self.flags,
            residual,
            now.effort,
            now.velocity,
            now.moving,
            now.entries,
        )

    # -------------------------------------------------------------------------------- the estimate

    @property
    def values(self) -> np.ndarray:
        """(b,) base parameters by all rows so far."""
        return self._learning.solution.values

    @property
    def flags(self) -> np.ndarray:
        """(b,) int: 1 identified; 0 not excited; -1 dependent on the parameters before it."""
        return self._learning.solution.flags

    @property
    def frozen(self) -> bool:
        """True if nothing is learned."""
        return self._learning.frozen

    @frozen.setter
    def frozen(self, frozen: bool) -> None:
        self._learning.frozen = frozen

    @property
    def rows(self) -> int:
        """Rows that have been learned from."""
        return self._learning.learner.rows

    def estimate(self) -> RecursiveEstimate:
        """Return the estimate with its covariance; this takes longer than an update."""
        return self._learning.learner.estimate()

    # ------------------------------------------------------------------------------------ control

    def freeze(self) -> None:
        """Keep the estimate as it is; residuals go on."""
        self.frozen = True

    def resume(self) -> None:
        """Learn again."""
        self.frozen = False

    def restart(self) -> None:
        """Take the next sample for the first of a new stretch: the filters fill again."""
        self._grid.restart()

    def save(self, path: str | Path) -> None:
        """
        Write what has been learned to a file, a NumPy archive, for `load`.

        The samples in the filters are not kept: they fill again.

        Raises
        ------
        IdentificationError
            where the file cannot be written.

        """
        save_state(Path(path), self._learning.learner.state, self._signature(), self._weights)

    def load(self, path: str | Path) -> None:
        """
        Go on from what another identifier of the same problem has learned.

        Raises
        ------
        IdentificationError
            where the file cannot be read, or is of another robot, model or weights; nothing is
            changed then.

        """
        state = load_state(path, self._signature(), self._weights)
        self._learning.restore(state)

    def _signature(self) -> ModelSignature:
        """Return the signature of the model, with the regressor at some fixed states."""
        own = getattr(self._regressor, 'random_motion', None)
        motion = (
            None
            if own is not None
            else Motion(*fixed_test_vector(15 * self._n).reshape(3, 5, self._n))
        )
        breakaway = getattr(self._regressor, 'breakaway', None)
        if motion is not None and breakaway is not None:
            state = DryFriction(breakaway, 1e-3).push(motion.velocity)
            motion = replace(motion, friction_state=state)
        return ModelSignature.from_structure(
            self.structure, self.joints, regressor=self._regressor, motion=motion
        )

    def reset(self, prior: ParameterSet | None = None) -> None:
        """Forget all rows and start again from a prior; None for the one there was."""
        initial = None if prior is None else prior_base(self.structure, prior)
        self._learning.reset(initial)


def _require_numbers(
    n: int, period: float, memory: float | None, weights: np.ndarray | None
) -> None:
    for key, value in (('period', period), ('memory', 1.0 if memory is None else memory)):
        if not (value > 0.0 and math.isfinite(value)):
            text = f"'{key}' is {value}"
            raise SettingsError(text, key=key, value=value, remedy='give a positive time [s]')
    if weights is None:
        return
    if np.shape(weights) != (n,) or not (np.isfinite(weights) & (np.asarray(weights) > 0.0)).all():
        remedy = f'give {n} positive numbers, one for each joint'
        raise SettingsError(f"'weights' is {weights}", key='weights', value=weights, remedy=remedy)


def _require_online(signals: SignalSettings) -> None:
    """Raise where signals cannot be had sample by sample."""
    projection = signals.polynomial_approximation.projection
    if signals.method != 'polynomial_approximation':
        key, value, why = 'signals.method', signals.method, 'is non-causal'
        wanted = 'polynomial_approximation'
    elif projection != 'composition':
        key, value = 'signals.polynomial_approximation.projection', projection
        wanted, why = 'composition', 'takes too long for each sample'
    else:
        return
    raise SettingsError(
        f"'{key}' is {value}, which {why}",
        key=key,
        value=value,
        remedy=f'online it has to be {wanted}',
    )


def identifier_of(
    problem: IdentificationProblem,
    period: float,
    *,
    base: BaseStructure | None = None,
    weights: np.ndarray | None = None,
    memory: float | None = None,
) -> OnlineIdentifier:
    """
    Return what identifies the robot of a problem from a stream of samples.

    Parameters
    ----------
    problem:
        Robot, model and settings.
    period:
        Usual time between samples [s].
    base:
        The base parameters, where they have been found already.
    weights:
        (n,) factor of each joint's rows; ones where None.
    memory:
        Time after which a row counts 1/e of a new one [s]; None for all alike.

    Raises
    ------
    SettingsError
        where the settings ask for what cannot be had sample by sample.

    """
    regressor = problem.regressor()
    if base is None:
        base = structure(regressor, problem.robot, grouping=problem.model.grouping)
    return OnlineIdentifier(
        regressor,
        base,
        getattr(regressor, 'joints', problem.robot.joints),
        problem.signals,
        problem.estimation.mrls,
        period=period,
        prior=problem.prior(),
        weights=weights,
        memory=memory,
    )
