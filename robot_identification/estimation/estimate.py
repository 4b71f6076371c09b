# SPDX-License-Identifier: Apache-2.0
"""Result of an estimator: base parameters, their uncertainty, and the fit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
import math
from typing import Any, TYPE_CHECKING

import numpy as np

from ..parameters import ParameterSet

if TYPE_CHECKING:
    from .bootstrap import Bootstrap
    from .system import LinearSystem

IDENTIFIED = 'IDENTIFIED'
NOT_EXCITED = 'NOT_EXCITED'


@dataclass(frozen=True)
class JointFit:
    """
    Fit of the predicted effort to the measured effort of one joint.

    Attributes
    ----------
    joint:
        Its name.
    rows:
        Rows that the figures are taken over (without those in the dead zone).
    rmse:
        Root mean square of the residual [N m or N].
    relative_error:
        100 ||tau - tau_hat|| / ||tau|| on the processed signals [%]; NaN where the rows have no
        effort, such as those of links on elastic joints.
    raw_relative_error:
        The same on the measured effort before any filter, over all samples [%].
    bias:
        Mean of tau - tau_hat on the processed signals [N m or N].

    """

    joint: str
    rows: int
    rmse: float
    relative_error: float
    raw_relative_error: float
    bias: float

    def to_dict(self) -> dict[str, Any]:
        """Return the figures by name, without the joint's own name; NaN becomes None."""
        return {f.name: plain(getattr(self, f.name)) for f in fields(self) if f.name != 'joint'}


@dataclass(frozen=True)
class Fit:
    """
    Fit of the predicted efforts to the measured efforts of all joints.

    Attributes
    ----------
    joints:
        Each joint's own fit, in the order of the identified joints.
    relative_error, raw_relative_error:
        As in `JointFit`, over the rows of all joints together that have an effort [%].

    """

    joints: tuple[JointFit, ...]
    relative_error: float
    raw_relative_error: float

    def to_dict(self) -> dict[str, Any]:
        """Return the figures in the shape of the result file's ``identification``."""
        return {
            'joints': {fit.joint: fit.to_dict() for fit in self.joints},
            'relative_error': plain(self.relative_error),
            'raw_relative_error': plain(self.raw_relative_error),
        }


@dataclass(frozen=True)
class ParameterEstimate:
    """
    One base parameter with its uncertainty.

    Attributes
    ----------
    name, unit, value:
        As in the layout of the base parameters.
    expression:
        The combination of standard parameters that the value stands for.
    std:
        Standard deviation [unit]; NaN where the value is not estimated.
    relative_std:
        100 std / |value| [%]; NaN where the value is not estimated.
    essential:
        Whether the parameter is among the essential ones; None where that was not asked.
    state:
        ``IDENTIFIED`` or ``NOT_EXCITED``.
    bootstrap_std, bootstrap_low, bootstrap_high:
        Standard deviation and interval by the bootstrap [unit]; None where that was not asked.

    """

    name: str
    expression: str
    unit: str
    value: float
    std: float
    relative_std: float
    essential: bool | None
    state: str
    bootstrap_std: float | None = None
    bootstrap_low: float | None = None
    bootstrap_high: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the fields by name, the bootstrap's if asked for; NaN and infinity are None."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        asked = self.bootstrap_std is not None
        return {
            name: plain(value)
            for name, value in values.items()
            if asked or not name.startswith('bootstrap_')
        }


@dataclass(frozen=True)
class Estimate:
    """
    Base parameters found from recordings.

    Attributes
    ----------
    base:
        Values of the b base parameters; those that the recording does not reach keep the prior's
        value, those that were dropped as not essential are 0.
    expressions:
        (b,) combinations of standard parameters that the values stand for.
    covariance:
        (b, b) of the estimation error; NaN in rows and columns of what was not estimated.
    std:
        (b,) standard deviations, in the units of ``base``; NaN where not estimated.
    relative_std:
        (b,) 100 std / |value| [%]; NaN where not estimated.
    joints:
        Fit of each joint.
    relative_error, raw_relative_error:
        Over all joints [%].
    rank:
        Number of parameters that the recording reaches (and that were not dropped).
    condition_number:
        2-norm condition number of the (weighted) regressor after scaling its columns to norm 1.
    raw_condition_number:
        The same without scaling.
    excited:
        (b,) bool, whether the recording tells the parameter.
    reasons:
        (b,) why a parameter is not excited; empty text where it is.
    weights:
        (n_joints,) factors that the rows of each joint were multiplied with; 1 for ols.
    method:
        Name of the estimator.
    rows:
        Rows of all joints together.
    residual_std:
        Square root of the residual variance of the weighted rows, eq. (10) of Gautier and Venture.
    essential:
        (b,) bool, which parameters are essential; None where that was not asked.
    warnings:
        In words, what a user should know.
    robot:
        The robot's name, where known.
    standard:
        The standard parameters where the method itself finds them (``physical``), else None.
    notes:
        In words, what the method found out by the way, such as the share of outliers.
    factor:
        (b + 1, b + 1) R of [W | tau] of the rows as the method weighted them one by one, for what
        is estimated from them afterwards; None where the joints' ``weights`` say it all.
    bootstrap:
        Standard deviations and intervals by the block bootstrap; None where that was not asked.

    """

    base: ParameterSet
    expressions: tuple[str, ...]
    covariance: np.ndarray
    std: np.ndarray
    relative_std: np.ndarray
    joints: tuple[JointFit, ...]
    relative_error: float
    raw_relative_error: float
    rank: int
    condition_number: float
    raw_condition_number: float
    excited: np.ndarray
    reasons: tuple[str, ...]
    weights: np.ndarray
    method: str
    rows: int
    residual_std: float
    essential: np.ndarray | None = None
    warnings: tuple[str, ...] = ()
    robot: str = ''
    standard: ParameterSet | None = None
    notes: tuple[str, ...] = ()
    factor: np.ndarray | None = None
    bootstrap: Bootstrap | None = None

    def __post_init__(self) -> None:
        b = len(self.base.layout)
        shapes = {
            'covariance': (b, b),
            'std': (b,),
            'relative_std': (b,),
            'excited': (b,),
            'essential': (b,),
            'weights': (len(self.joints),),
            'factor': (b + 1, b + 1),
        }
        for name, shape in shapes.items():
            value = getattr(self, name)
            if value is None:
                continue
            kind = bool if name in ('excited', 'essential') else float
            array = np.array(value, dtype=kind)
            if array.shape != shape:
                raise ValueError(f'{name} has shape {array.shape}, expected {shape}')
            array.setflags(write=False)
            object.__setattr__(self, name, array)

    @property
    def fit(self) -> Fit:
        """Fit to the identification recordings."""
        return Fit(self.joints, self.relative_error, self.raw_relative_error)

    def weighted(self, system: LinearSystem) -> np.ndarray:
        """Return (b + 1, b + 1) R of [W | tau] of ``system``'s rows as they were weighted."""
        return system.stacked(self.weights) if self.factor is None else self.factor

    @property
    def estimated(self) -> np.ndarray:
        """(b,) bool, which parameters were free in the estimation."""
        return np.isfinite(self.std)

    def __iter__(self) -> Iterator[ParameterEstimate]:
        layout, drawn = self.base.layout, self.bootstrap
        for i, name in enumerate(layout.names):
            yield ParameterEstimate(
                name=name,
                expression=self.expressions[i],
                unit=layout.units[i],
                value=float(self.base.values[i]),
                std=float(self.std[i]),
                relative_std=float(self.relative_std[i]),
                essential=None if self.essential is None else bool(self.essential[i]),
                state=IDENTIFIED if self.excited[i] else NOT_EXCITED,
                bootstrap_std=None if drawn is None else float(drawn.std[i]),
                bootstrap_low=None if drawn is None else float(drawn.low[i]),
                bootstrap_high=None if drawn is None else float(drawn.high[i]),
            )

    def __len__(self) -> int:
        return len(self.base.layout)

    def summary(self) -> str:
        """Return a table for people, in the manner of a statistics package; 100 columns wide."""
        from .summary import estimate_summary

        return estimate_summary(self)

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, texts and lists; NaN and infinity become None."""
        return {
            'method': self.method,
            'rows': self.rows,
            'rank': self.rank,
            'condition_number': plain(self.condition_number),
            'raw_condition_number': plain(self.raw_condition_number),
            'residual_std': plain(self.residual_std),
            'weights': dict(
                zip((fit.joint for fit in self.joints), self.weights.tolist(), strict=True)
            ),
            **self.fit.to_dict(),
            **({} if self.bootstrap is None else {'bootstrap': self.bootstrap.to_dict()}),
            'parameters': [parameter.to_dict() for parameter in self],
            'notes': list(self.notes),
            'warnings': list(self.warnings),
        }


def plain(value: Any) -> Any:
    """Turn NaN and infinity into None, which every YAML and JSON reader understands."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
