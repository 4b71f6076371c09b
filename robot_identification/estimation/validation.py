# SPDX-License-Identifier: Apache-2.0
"""An estimate held against recordings that it has not seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base_parameters import BaseStructure
from ..model.parameters import ParameterSet
from ..regressor import Regressor
from ..signals import RecordingSource, SignalSettings
from .estimate import (
    Estimate,
    Fit,
    JointFit,
)
from .least_squares import evaluate
from .plot_samples import FitTrace
from .rows import system_of
from .system import LinearSystem


@dataclass(frozen=True)
class Validation:
    """
    Prediction of other recordings by an estimate.

    Attributes
    ----------
    joints:
        Fit of each joint.
    relative_error, raw_relative_error:
        Over all joints, as in `JointFit` [%].
    trace:
        Measured and predicted effort, evenly thinned, for plots.
    sources:
        Names of the recordings.
    highest_speed:
        Of each joint of the robot [rad/s or m/s]; NaN where it is not known, empty where no
        recording was asked for it.

    """

    joints: tuple[JointFit, ...]
    relative_error: float
    raw_relative_error: float
    trace: FitTrace
    sources: tuple[str, ...] = ()
    highest_speed: tuple[float, ...] = ()

    @property
    def fit(self) -> Fit:
        """The figures alone."""
        return Fit(self.joints, self.relative_error, self.raw_relative_error)

    def summary(self) -> str:
        """Return a table for people, 100 columns wide."""
        from .estimate import fit_table

        title = f'Validation on {", ".join(self.sources)}' if self.sources else 'Validation'
        return '\n'.join([title, *fit_table(self.fit)])

    def to_dict(self) -> dict[str, Any]:
        """Return the figures in the shape of the result file's ``validation``."""
        return {
            'sources': list(self.sources),
            'highest_speed': list(self.highest_speed),
            **self.fit.to_dict(),
        }


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
    fit = evaluate(system, base.values)
    return Validation(
        joints=fit.joints,
        relative_error=fit.relative_error,
        raw_relative_error=fit.raw_relative_error,
        trace=system.trace.fit(np.asarray(base.values)),
        sources=system.sources,
        highest_speed=tuple(system.highest_speed.tolist()),
    )
