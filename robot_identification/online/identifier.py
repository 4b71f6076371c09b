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
from ..errors import IdentificationError, ModelError, SettingsError
from ..estimation import ModelSignature
from ..estimation.factor import fixed_test_vector
from ..estimation.least_squares import prior_base
from ..estimation.recursive.mrls import learner_of
from ..estimation.recursive.rls import RecursiveEstimate, RecursiveSettings, RecursiveState
from ..estimation.rows import driven_rows
from ..model.parameters import ParameterLayout, ParameterSet
from ..regressor import Regressor
from ..regressor.base_parameters import BaseStructure
from ..regressor.base_search import structure
from ..regressor.inverse_dynamics import entries, row_pattern, RowPattern
from ..regressor.joint_terms import DryFriction
from ..regressor.projection import forms
from ..signals import (
    by_joint,
    channel_kernel,
    decimation_factor,
    independence,
    ParallelDecimator,
    SignalSettings,
)
from ..signals.windows import Windows
from ..untrusted.compressed import ArrayArchive, DAMAGED
from ..untrusted.files import open_regular
from ..untrusted.writing import whole_file
from .filters import GridRow, OnlineChannel, OnlineGrid, OnlineWindows, StreamCounts

_FORMAT = 'robot_identification online 1'


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
        self._columns = structure.independent
        self.pattern: RowPattern = row_pattern(regressor, self._columns)
        other = forms(regressor, self._columns).other
        self._filtered = np.flatnonzero(np.isin(self.pattern.places, other))
        self.step = period if signals.sample_rate is None else 1.0 / signals.sample_rate
        windows = Windows.from_settings(signals, 1.0 / self.step)
        self._grid = OnlineGrid(2 * n, period, self.step)
        self.counts: StreamCounts = self._grid.counts
        self._windows = OnlineWindows(
            windows,
            n,
            self._filtered.size,
            trim=signals.ends,
            breakaway=getattr(regressor, 'breakaway', None),
        )
        self.taps, self.lag = windows.operator.taps, windows.operator.instant
        kernel = windows.operator.value(hold=signals.polynomial_approximation.effort_hold)
        factor = decimation_factor(signals, 1.0 / self.step)
        self._independence = min(independence(factor, kernel), factor * self.step / period)
        self._factor = factor
        self._decimator = ParallelDecimator(factor)
        driven = driven_rows(regressor)
        self._zones = np.zeros(n)
        movers = tuple(joint for joint, has in zip(self.joints, driven, strict=True) if has)
        self._zones[driven] = by_joint(signals, 'dead_zone', movers)
        delays, low_passes = np.zeros((2, n))
        delays[driven] = by_joint(signals, 'effort_delay', movers)
        low_passes[driven] = by_joint(signals, 'effort_low_pass', movers)
        self._channel = _channel(delays, low_passes, self.step, self.pattern)
        # what is learned goes through the channel after the decimation, as it does offline
        self._slow_channel = None
        if factor > 1:
            self._slow_channel = _channel(delays, low_passes, factor * self.step, self.pattern)
        waits = 0 if self._channel is None else self._channel.ahead
        self._age = self._windows.delay + waits * self.step
        self.delay = self._age + self._grid.delay
        self._weights = np.ones(n) if weights is None else np.array(weights, dtype=float)
        self._memory = 1.0 if memory is None else math.exp(-0.5 * factor * self.step / memory)
        self._learner = learner_of(structure, settings, prior)
        self._sample = np.empty(2 * n)
        self.frozen = False
        self._none = np.zeros(n, dtype=bool)
        self._solution = self._learner.solution()

    # --------------------------------------------------------------------------------- the stream

    def push(self, stamp: float, position: np.ndarray, effort: np.ndarray) -> Update | None:
        """
        Add a sample.

        Parameters
        ----------
        stamp:
            When it was taken [s].  Jitter, lost samples and other rates are evened out; a gap of
            more than five periods or a clock that goes back lets the filters fill anew; samples
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
        if row.first:
            self._windows.restart()
            self._decimator = ParallelDecimator(self._factor)
            for channel in (self._channel, self._slow_channel):
                if channel is not None:
                    channel.restart()
        state = self._windows.push(row.values)
        if state is None:
            return None
        found = entries(self._regressor, state.motion, self._columns, self.pattern)
        now = self._windows.filtered(found, self._filtered)
        if now is None:
            return None
        every = np.concatenate((now, state.effort, state.motion.velocity[0]))
        delayed = every if self._channel is None else self._channel.push(every)
        if delayed is not None:
            rows, effort, velocity = self._separated(delayed)
            moving = np.abs(velocity) >= self._zones
            learned = moving if self._factor == 1 else self._none
            residual = self._learn(rows, effort, learned)
        if self._factor > 1:
            self._learn_decimated(every)
        if delayed is None:
            return None
        return Update(
            row.stamp - self._age,
            self._solution.values,
            self._solution.flags,
            residual,
            effort,
            velocity,
            moving,
            rows,
        )

    def _learn_decimated(self, every: np.ndarray) -> None:
        """Learn from the row that a sample's entries, effort and velocity complete, if any."""
        for output in self._decimator.push(every[:, None]).T:
            joined = output if self._slow_channel is None else self._slow_channel.push(output)
            if joined is not None:
                rows, effort, velocity = self._separated(joined)
                self._learn(rows, effort, np.abs(velocity) >= self._zones)

    def _separated(self, joined: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return entries, effort and velocity of what has been filtered together."""
        k, n = self.pattern.width, self._n
        return joined[:k], joined[k : k + n], joined[k + n :]

    def _learn(self, rows: np.ndarray, effort: np.ndarray, kept: np.ndarray) -> np.ndarray:
        """Learn from the rows that count; return the residual of the parameters before."""
        residual, self._solution = self._learner.step(
            self.pattern,
            self._weights,
            rows,
            effort,
            self._none if self.frozen else kept,
            self._solution,
            independence=self._independence,
            memory=self._memory,
        )
        return residual

    # -------------------------------------------------------------------------------- the estimate

    @property
    def values(self) -> np.ndarray:
        """(b,) base parameters by all rows so far."""
        return self._solution.values

    @property
    def flags(self) -> np.ndarray:
        """(b,) int: 1 identified; 0 not excited; -1 dependent on the parameters before it."""
        return self._solution.flags

    @property
    def rows(self) -> int:
        """Rows that have been learned from."""
        return self._learner.rows

    def estimate(self) -> RecursiveEstimate:
        """Return the estimate with its covariance; this takes longer than an update."""
        return self._learner.estimate()

    # ------------------------------------------------------------------------------------ control

    def freeze(self) -> None:
        """Keep the estimate as it is; residuals go on."""
        self.frozen = True

    def resume(self) -> None:
        """Learn again."""
        self.frozen = False

    def restart(self) -> None:
        """Take the next sample for the first of a new stretch: the filters fill anew."""
        self._grid.restart()

    def save(self, path: str | Path) -> None:
        """
        Write what has been learned to a file, a NumPy archive, for `load`.

        The samples in the filters are not kept: they fill anew.

        Raises
        ------
        IdentificationError
            where the file cannot be written.

        """
        _save(Path(path), self._learner.state, self._signature(), self._weights)

    def load(self, path: str | Path) -> None:
        """
        Go on from what another identifier of the same problem has learned.

        Raises
        ------
        IdentificationError
            where the file cannot be read, or is of another robot, model or weights; nothing is
            changed then.

        """
        state = _load(path, self._signature(), self._weights)
        self._learner.restore(state)
        self._solution = self._learner.solution()

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
        initial = self._learner.initial if prior is None else prior_base(self.structure, prior)
        self._learner.reset(initial)
        self._solution = self._learner.solution()


def _save(
    path: Path, state: RecursiveState, signature: ModelSignature, weights: np.ndarray
) -> None:
    """Write the state of a model with (n,) weights of the joints; the file is replaced at once."""
    try:
        with whole_file(path) as file:
            np.savez(
                file,
                format=_FORMAT,
                joints=signature.joints,
                parameters=signature.parameters,
                base=signature.base,
                regrouping=signature.regrouping,
                fixed=signature.rows,
                weights=weights,
                accumulated=state.accumulated,
                initial=state.initial,
                rows=state.rows,
                independent=state.independent,
            )
    except OSError as error:
        raise IdentificationError(
            f"cannot write '{path}': {error.strerror or error}",
            file=str(path),
            remedy='choose another file, or make room',
        ) from error


def _load(path: str | Path, signature: ModelSignature, weights: np.ndarray) -> RecursiveState:
    """Read a state that was written for the same model and weights."""
    try:
        with open_regular(path) as stream:
            archive = ArrayArchive(stream)
            held = {name: archive.array(name) for name in archive.arrays}
        if str(held['format']) != _FORMAT:
            raise ValueError(f"its format is '{held['format']}'")
        joints, parameters, base = (
            tuple(held[key].tolist()) for key in ('joints', 'parameters', 'base')
        )
        found = ModelSignature(joints, parameters, base, held['regrouping'], held['fixed'])
        state = RecursiveState(
            held['accumulated'], held['initial'], int(held['rows']), float(held['independent'])
        )
    except DAMAGED as error:
        reason = getattr(error, 'strerror', None) or str(error)
        raise IdentificationError(
            f"cannot read '{path}' as the state of an online identification: {reason}",
            file=str(path),
            remedy='name a file that the online identification has saved',
        ) from error
    other = signature.difference(found)
    if other is not None:
        raise ModelError(f"'{path}' is of another model: {other.message}", file=str(path))
    if not np.array_equal(held['weights'], weights):
        raise SettingsError(
            f"the rows in '{path}' were weighted differently",
            file=str(path),
            value=held['weights'].tolist(),
            remedy='use these weights, or start anew',
        )
    return state


def _channel(
    delays: np.ndarray, low_passes: np.ndarray, step: float, pattern: RowPattern
) -> OnlineChannel | None:
    """Return the effort channel of rows with this step [s]; None where there is none."""
    if not (delays.any() or low_passes.any()):
        return None
    pairs = zip(delays.tolist(), low_passes.tolist(), strict=True)
    kernels = [channel_kernel(delay, low_pass, 1.0 / step) for delay, low_pass in pairs]
    columns = [pattern.row_entries(row) for row in range(len(kernels))]
    return OnlineChannel(kernels, columns, pattern.width + 2 * len(kernels))


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
