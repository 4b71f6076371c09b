# SPDX-License-Identifier: Apache-2.0
"""Goal of a calibration: how well parameters are to be known, how far that is, and the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..excitation.criteria import PredictedDeviations
from ..excitation.settings import LEAST_DURATION
from ..options.fields import option
from ..results.result import Result

HOPELESS = 1.5
"""A deviation that stays above the target by this factor at the end of the budget is given up."""


MET, UNREACHABLE, SPENT, DECLINED = 'met', 'unreachable', 'spent', 'declined'
"""Ends of a calibration."""


@dataclass(frozen=True)
class CalibrationSettings:
    """Goal and budget of a calibration."""

    target: float = option(
        5.0,
        doc='Wanted standard deviation of every essential parameter, relative to its value',
        unit='%',
        minimum=0.01,
        maximum=100.0,
    )
    least_share: float = option(
        1.0,
        doc='A base parameter is essential if its part of the effort of some joint (root mean '
        'square over the first motion, which excites all alike) has at least this share of the '
        'whole',
        unit='%',
        minimum=0.0,
        maximum=100.0,
    )
    prediction_error: float | None = option(
        None,
        doc='Wanted relative error of the efforts predicted for a motion that is executed for '
        'validation alone, in place of target; null executes none',
        unit='%',
        minimum=0.0,
    )
    motions: int = option(8, doc='Motions to identify from, at most', minimum=1, maximum=1000)


@dataclass(frozen=True)
class CalibrationProgress:
    """
    State of knowledge after a number of motions.

    Attributes
    ----------
    names:
        Of the b base parameters.
    values, std:
        (b,) estimates and standard deviations; NaN for parameters that were not excited.
    inflation:
        (b,) of the deviations by the noise's colour: the bootstrap's over the classical ones.
    share:
        (b,) of the effort, as `CalibrationSettings.least_share` [%].
    wanted:
        (b,) bool, parameters that the goal may be about.
    prediction_error:
        On the validation motion [%]; None where there is none.
    settings:
        What is to be reached.

    """

    names: tuple[str, ...]
    values: np.ndarray
    std: np.ndarray
    inflation: np.ndarray
    share: np.ndarray
    wanted: np.ndarray
    prediction_error: float | None
    settings: CalibrationSettings

    @classmethod
    def from_result(
        cls,
        result: Result,
        first: np.ndarray,
        settings: CalibrationSettings,
        places: np.ndarray | None = None,
    ) -> CalibrationProgress:
        """
        Return what a result of all motions says.

        Later motions are made for what is open.  In these the most uncertain parameters have a
        larger share of the effort, so what is essential would change with the search for it:
        ``first`` are the (n_joints, b + 1, b + 1) triangular factors of the first motion's rows
        and efforts.  The goal is about the base parameters in ``places``, or all.
        """
        estimate = result.estimate
        values = estimate.base.values
        lengths = np.linalg.norm(first, axis=1)
        whole = np.maximum(lengths[:, -1:], np.finfo(float).tiny)
        share = (lengths[:, :-1] * np.abs(values) / whole).max(axis=0)
        classical = estimate.uncertainty.classical_std
        classical = estimate.std if classical is None else classical
        with np.errstate(divide='ignore', invalid='ignore'):
            inflation = np.nan_to_num(estimate.std / classical, nan=1.0, posinf=1.0)
        error = result.validations[0].relative_error if result.validations else None
        names = result.structure.names
        every = np.arange(len(names))
        wanted = np.isin(every, every if places is None else places)
        return cls(names, values, estimate.std, inflation, 100.0 * share, wanted, error, settings)

    @property
    def essential(self) -> np.ndarray:
        """(b,) bool, parameters that the goal is about."""
        return np.asarray(self.wanted & (self.share >= self.settings.least_share))

    @property
    def relative_std(self) -> np.ndarray:
        """(b,) 100 std / |value|, infinite where it is not known [%]."""
        with np.errstate(divide='ignore', invalid='ignore'):
            relative = 100.0 * self.std / np.abs(self.values)
        return np.where(np.isfinite(relative), relative, np.inf)

    @property
    def open(self) -> np.ndarray:
        """(b,) bool, essential parameters whose deviation is above the target."""
        return self.essential & (self.relative_std > self.settings.target)

    @property
    def met(self) -> bool:
        """True if the goal is reached."""
        if self.settings.prediction_error is None:
            return not self.open.any()
        error = self.prediction_error
        return error is not None and error <= self.settings.prediction_error

    @property
    def targets(self) -> dict[str, float]:
        """Wanted classical standard deviations of the open parameters, in their units."""
        # a planner predicts classical ones
        relative = 0.01 * self.settings.target / np.maximum(self.inflation, 1.0)
        wanted = relative * np.abs(self.values)
        return {self.names[i]: float(wanted[i]) for i in np.flatnonzero(self.open)}

    def summary(self) -> str:
        """Return a line."""
        essential, relative = self.essential, self.relative_std
        good = (essential & ~self.open).sum()
        text = (
            f'{good} of {essential.sum()} essential parameters within {self.settings.target:g} %'
        )
        if self.open.any():
            worst = int(np.argmax(np.where(self.open, relative, 0.0)))
            text += f', the worst is {self.names[worst]} ({relative[worst]:.3g} %)'
        if self.prediction_error is not None:
            text += f'; prediction error {self.prediction_error:.3g} %'
        return text


@dataclass(frozen=True)
class Calibration:
    """
    End of a calibration.

    Attributes
    ----------
    outcome:
        `MET`, `UNREACHABLE`, `SPENT` or `DECLINED`.
    standings:
        One a motion.
    result:
        From all motions; None where there was none.
    duration:
        Of all motions together [s].
    reasons:
        Why the goal is not reached: parameters and limits.

    """

    outcome: str
    standings: tuple[CalibrationProgress, ...]
    result: Result | None
    duration: float
    reasons: tuple[str, ...] = ()

    def summary(self) -> str:
        """Return the end in a few lines."""
        words = {
            MET: 'the goal is reached',
            UNREACHABLE: 'the goal cannot be reached with the motions of the budget',
            SPENT: 'the budget of motions is spent',
            DECLINED: 'stopped before the next motion',
        }[self.outcome]
        count = f'{len(self.standings)} motion(s), {self.duration:.4g} s'
        return '\n'.join([f'{words}: {count}', *(f'  {reason}' for reason in self.reasons)])


def unreachable_targets(standings: Sequence[CalibrationProgress]) -> np.ndarray:
    """
    Return (b,) bool, open parameters whose target the rest of the budget will not reach.

    Information is 1 / std^2 and adds up; each motion to come is taken to bring as much of it as
    the latest one, which was planned for the open parameters, or as the mean of all.  After one
    motion nothing is hopeless.
    """
    last = standings[-1]
    if len(standings) < 2:
        return np.zeros(len(last.names), dtype=bool)
    left = last.settings.motions - len(standings)
    with np.errstate(divide='ignore', invalid='ignore'):
        now, known = (np.nan_to_num(1.0 / s.std**2) for s in (last, standings[-2]))
        # the terms of the model may have been chosen again
        earlier = dict(zip(standings[-2].names, known, strict=True))
        before = np.array([earlier.get(name, 0.0) for name in last.names])
        at_end = now + left * np.maximum(now - before, now / len(standings))
        relative = 100.0 / (np.sqrt(at_end) * np.abs(last.values))
    return np.asarray(last.open & ~(relative <= HOPELESS * last.settings.target))


FIRST, SHORTEST = 0.5, 0.2
"""Share of the planner's duration that the first motion takes, and each one at least."""


def first_duration(longest: float) -> float:
    """Return how long the first motion is, where motions may take ``longest`` [s]."""
    return max(FIRST * longest, LEAST_DURATION)


def shortest_duration(longest: float) -> float:
    """Return how long each motion is at least, where motions may take ``longest`` [s]."""
    return max(SHORTEST * longest, LEAST_DURATION)


def needed_duration(standing: CalibrationProgress, spent: float, longest: float) -> float:
    """
    Return how long the next motion has to be, ``longest`` at most [s].

    The motions so far took ``spent`` [s] and led to ``standing``.  Deviations fall with the root
    of the time, so the worst open parameter shows what is missing.
    """
    if standing.settings.prediction_error is not None:
        return longest
    worst = float(np.max(standing.relative_std[standing.open], initial=0.0))
    missing = spent * ((worst / standing.settings.target) ** 2 - 1.0)
    return float(np.clip(missing, shortest_duration(longest), longest))


def sufficient_share(
    standing: CalibrationProgress, targets: Mapping[str, float], planned: PredictedDeviations
) -> float:
    """
    Return which share of a planned motion is expected to suffice for the targets.

    Information is 1 / std^2 and grows with the time; the parameter that needs most counts.
    Targets are classical standard deviations; ``planned`` are those predicted for the motions of
    the ``standing`` and the planned one.
    """
    before = dict(zip(standing.names, standing.std / standing.inflation, strict=True))
    after = dict(zip(planned.names, planned.std, strict=True))
    most = 0.0
    for name in targets.keys() & after.keys():
        known = 1.0 / before[name] ** 2 if np.isfinite(before[name]) else 0.0
        brought = 1.0 / after[name] ** 2 - known
        missing = 1.0 / targets[name] ** 2 - known
        most = max(most, missing / brought if brought > 0.0 else np.inf)
    return float(most)
