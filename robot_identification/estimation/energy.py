# SPDX-License-Identifier: Apache-2.0
"""
From a recording to the rows of energy equations, one for each interval of time.

Gautier and Khalil (1992), equations (1) to (10): over an interval, the work of the efforts is what
the robot's energy grows by and what friction takes.  No accelerations are needed, the integral
damps the noise of the efforts instead of a filter, and a row is a sum over all joints.  What that
costs is the joints' separate equations: which joint an effort belongs to is known by their motion
alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ..data.recording import Samples
from ..errors import IdentifiabilityError, SettingsError
from ..options.fields import option
from ..regressor import Regressor
from ..regressor.base_parameters import BaseStructure
from ..regressor.energy import energy_of, EnergyRegressor
from ..signals import by_joint, RecordingSource, sample_rate, SignalSettings, stretches
from .least_squares import STILL
from .row_block import RowBlock
from .rows import time_step
from .system import LinearSystem

ENERGY = 'energy'
"""What stands in place of a joint's name where rows are energy equations."""

_PIECE = 4096  # steps whose energies are held at once, for the sake of memory


@dataclass(frozen=True)
class EnergySettings:
    """Settings of the energy equations."""

    interval: float = option(
        0.1,
        doc='Time over which each equation reaches, rounded to whole samples (to an even number '
        'of them for simpson); short ones keep apart what happens one after the other, long ones '
        'let the noise of the efforts cancel out',
        unit='s',
        minimum=1e-4,
        maximum=3600.0,
    )
    quadrature: str = option(
        'simpson',
        doc='How power is integrated: trapezoid, straight lines between samples; simpson, '
        'parabolas through three of them',
        choices=('trapezoid', 'simpson'),
    )


def quadrature_weights(quadrature: str, steps: int) -> np.ndarray:
    """
    Return the weights, (steps + 1,), of samples in the integral over an interval of some steps.

    Their sum is ``steps``; ``simpson`` takes an even number of them, ``trapezoid`` any.
    """
    if quadrature == 'trapezoid':
        weights = np.ones(steps + 1)
        weights[[0, -1]] = 0.5
        return weights
    if steps % 2:
        raise ValueError(f'an interval of {steps} steps is not even')
    weights = np.full(steps + 1, 2.0 / 3.0)
    weights[1::2] = 4.0 / 3.0
    weights[[0, -1]] = 1.0 / 3.0
    return weights


def energy_blocks(
    source: RecordingSource,
    regressor: Regressor,
    structure: BaseStructure,
    signals: SignalSettings,
    settings: EnergySettings | None = None,
) -> Iterator[RowBlock]:
    """
    Iterate over the energy equations that a recording gives, in blocks of a bounded size.

    Parameters
    ----------
    source:
        A recording, or anything with ``joints`` and ``blocks(size)``, with the regressor's joints.
    regressor:
        Inverse dynamics of a tree of rigid links; its energies are taken.
    structure:
        Its independent columns are the ones that are kept.
    signals:
        Filter and dead zone: an interval in which all joints stay in it is left out.  There is
        nothing to decimate.
    settings:
        Interval and quadrature.

    Raises
    ------
    SettingsError
        where the robot or the filter has no energy equations, or the interval is too long.

    """
    settings, rows = settings or EnergySettings(), 0
    if signals.method == 'polynomial_approximation':
        raise SettingsError(
            "'estimation.equations' is energy, for which 'signals.method' "
            'polynomial_approximation has no operator',
            key='signals.method',
            value=signals.method,
            remedy='take butterworth, or inverse_dynamics equations',
        )
    energy = energy_of(regressor)
    zones = by_joint(signals, 'dead_zone', tuple(source.joints))
    recorded = np.inf if signals.sample_rate is None else sample_rate(source)
    independent = structure.independent
    for segment, samples in enumerate(stretches(source, signals)):
        intervals = _Intervals.from_settings(settings, time_step(samples), recorded)
        for piece in intervals.pieces(samples):
            block = intervals.block(piece, energy, independent, zones, segment)
            rows += len(block.time)
            yield block
    if not rows:
        raise SettingsError(
            f"'estimation.energy.interval' is {settings.interval:g} s, longer than any stretch of "
            f'{getattr(source, "source", "recording")} without a gap',
            key='estimation.energy.interval',
            value=settings.interval,
            remedy='shorten it, or record for longer',
        )


def require_movers(system: LinearSystem, joints: Sequence[str]) -> None:
    """Raise `IdentifiabilityError` for a joint that does not move: energies do not show it."""
    for joint, moved in zip(joints, system.factor.position_range, strict=True):
        if moved < STILL:
            raise IdentifiabilityError(
                f"joint '{joint}' does not move in the recording",
                joint=joint,
                value=float(moved),
                remedy='record a motion of it, or leave it out of robot.joints and lock it',
            )


@dataclass(frozen=True)
class _Intervals:
    """
    Intervals of a stretch of samples.

    Attributes
    ----------
    weights:
        (steps + 1,) of the samples of an interval in an integral over it [s].
    independence:
        Independent rows that an interval counts for.

    """

    weights: np.ndarray
    independence: float

    @classmethod
    def from_settings(cls, settings: EnergySettings, step: float, recorded: float) -> _Intervals:
        """Make them for samples that are ``step`` [s] apart, ``recorded`` a second."""
        steps = max(1, round(settings.interval / step)) if step > 0.0 else 1
        if settings.quadrature == 'simpson':
            steps = 2 * max(1, round(steps / 2))
        # intervals shorter than a recorded sample add nothing
        independence = min(1.0, recorded * steps * step)
        return cls(step * quadrature_weights(settings.quadrature, steps), independence)

    def pieces(self, samples: Samples) -> Iterator[Samples]:
        """Iterate over samples in whole intervals; the end of one is the beginning of the next."""
        steps = self.weights.size - 1
        size = steps * max(1, _PIECE // steps)
        last = (len(samples) - 1) // steps * steps
        for start in range(0, last, size):
            yield samples.rows(start, min(start + size, last) + 1)

    def block(
        self,
        samples: Samples,
        energy: EnergyRegressor,
        independent: np.ndarray,
        zones: np.ndarray,
        segment: int,
    ) -> RowBlock:
        """Return the rows of whole intervals."""
        position, velocity = samples.position, samples.velocity
        efforts = (samples.effort, samples.measured_effort)
        power = [np.einsum('sj,sj->s', effort, velocity)[:, None] for effort in efforts]
        taken = energy.powers(position, velocity)[:, independent]
        moving = (np.abs(velocity) >= zones).any(axis=1)
        steps = self.weights.size - 1
        inside = np.arange(0, len(samples) - 1, steps)[:, None] + np.arange(steps + 1)
        work = np.einsum('k,rkc->rc', self.weights, np.hstack([*power, taken])[inside])
        ends = slice(None, None, steps)
        stored = energy.rows(position[ends], velocity[ends])[:, independent]
        after = slice(steps, None, steps)
        return RowBlock.from_matrix(
            (np.diff(stored, axis=0) + work[:, 2:])[:, None],
            time=samples.time[after],
            position=position[after],
            velocity=velocity[after],
            effort=work[:, :1],
            keep=moving[inside].any(axis=1)[:, None],
            raw_effort=work[:, 1:2],
            segment=segment,
            independence=self.independence,
        )
