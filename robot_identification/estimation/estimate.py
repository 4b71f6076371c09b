# SPDX-License-Identifier: Apache-2.0
"""Result of an estimator: base parameters, their uncertainty, and the fit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
import math
from typing import Any

import numpy as np

from ..model.parameters import ParameterSet
from ..options.document import plain
from .system import LinearSystem

NOT_COVERED = (
    'The error that the model makes on other motions, and that of gains and geometry, is not '
    'covered: hold the result against other recordings.'
)
"""What standard deviations do not say."""

IDENTIFIED, NOT_EXCITED = 'IDENTIFIED', 'NOT_EXCITED'


@dataclass(frozen=True)
class JointFit:
    """
    Fit of the predicted effort to the measured effort of one joint.

    Attributes
    ----------
    joint:
        Name of the joint.
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
class Bootstrap:
    """
    Scatter of the parameters over bootstrap replicates.

    Attributes
    ----------
    std:
        (b,) standard deviations; NaN where a parameter is not estimated.
    low, high:
        (b,) bounds of the percentile intervals.
    level:
        Share of the replicates between them [%].
    replicates:
        How many there are.
    block:
        Length of the stretches that were drawn [s].
    stretches:
        How many make a replicate.
    lost:
        Replicates that do not determine all parameters, left out.
    covariance:
        (b, b) of the replicates; NaN in rows and columns of what is not estimated.

    """

    std: np.ndarray
    low: np.ndarray
    high: np.ndarray
    level: float
    replicates: int
    block: float
    stretches: int
    lost: int = 0
    covariance: np.ndarray | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return how it was done; the parameters' figures stand with the parameters."""
        names = ('level', 'replicates', 'block', 'stretches', 'lost')
        return {name: getattr(self, name) for name in names}

    @property
    def described(self) -> str:
        """Description of the resampling, in words."""
        left_out = f', {self.lost} left out as they do not determine all parameters'
        lost = left_out if self.lost else ''
        return (
            f'std is by the block bootstrap, {self.replicates} replicates of {self.stretches} '
            f'stretches of {self.block:.3g} s{lost}; low and high are bounds of {self.level:g} % '
            'intervals'
        )


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
        Standard deviation [unit], by the block bootstrap unless that is switched off; NaN where
        the value is not estimated.
    relative_std:
        100 std / |value| [%]; NaN where the value is not estimated.
    essential:
        Whether the parameter is among the essential ones; None where that was not asked.
    state:
        ``IDENTIFIED`` or ``NOT_EXCITED``.
    classical_std:
        Standard deviation where the errors of rows were independent [unit].
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
    classical_std: float = math.nan
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


def _freeze(owner: Any, kind: type = float, **shapes: tuple[int, ...]) -> None:
    """Make arrays of a frozen dataclass read-only; raises ValueError for another shape."""
    for name, shape in shapes.items():
        value = getattr(owner, name)
        if value is None:
            continue
        array: np.ndarray = np.array(value, dtype=kind)
        if array.shape != shape:
            raise ValueError(f'{name} has shape {array.shape}, expected {shape}')
        array.setflags(write=False)
        object.__setattr__(owner, name, array)


@dataclass(frozen=True)
class Identifiability:
    """
    Identifiability of the parameters from a recording.

    Attributes
    ----------
    excited:
        (b,) bool, whether the recording determines the parameter.
    reasons:
        (b,) why not, in words; empty where excited.

    """

    excited: np.ndarray
    reasons: tuple[str, ...]

    def __post_init__(self) -> None:
        _freeze(self, bool, excited=(len(self.reasons),))

    @property
    def rank(self) -> int:
        """Number of parameters that are determined."""
        return int(self.excited.sum())


@dataclass(frozen=True)
class Uncertainty:
    """
    Standard deviations of the base parameters, and where they come from.

    Attributes
    ----------
    covariance:
        (b, b) of the estimation error; NaN in rows and columns of what was not estimated.
    std:
        (b,) standard deviations, in the units of the parameters, by the block bootstrap unless
        that is switched off or impossible; NaN where not estimated.
    bootstrap:
        Standard deviations and intervals by the block bootstrap; None where ``std`` is classical.
    classical_std:
        (b,) standard deviations where the errors of rows were independent; None where ``std`` is
        that.
    growth:
        (b,) by how much the block bootstrap's standard deviations of the plain least squares
        exceed the classical ones; None where ``std`` is classical.

    """

    covariance: np.ndarray
    std: np.ndarray
    bootstrap: Bootstrap | None = None
    classical_std: np.ndarray | None = None
    growth: np.ndarray | None = None

    def __post_init__(self) -> None:
        b = len(self.std)
        _freeze(self, covariance=(b, b), std=(b,), classical_std=(b,), growth=(b,))


@dataclass(frozen=True)
class WeightedRows:
    """
    The rows as the estimator weighted them.

    Attributes
    ----------
    count:
        Rows of all joints together.
    weights:
        (n_joints,) factors that the rows of each joint were multiplied with; 1 for ols.
    residual_std:
        Square root of the residual variance of the weighted rows, eq. (10) of Gautier and Venture.
    condition_number:
        2-norm condition number of the weighted regressor after scaling its columns to norm 1.
    raw_condition_number:
        That of the weighted regressor as it is.
    factor:
        (b + 1, b + 1) R of [W | tau] of the rows as the method weighted them one by one, for what
        is estimated from them afterwards; None where the joints' ``weights`` say it all.

    """

    count: int
    weights: np.ndarray
    residual_std: float
    condition_number: float
    raw_condition_number: float
    factor: np.ndarray | None = None

    def __post_init__(self) -> None:
        _freeze(self, weights=(len(self.weights),))
        if self.factor is not None:
            _freeze(self, factor=(len(self.factor), len(self.factor)))

    def triangle(self, system: LinearSystem) -> np.ndarray:
        """Return (b + 1, b + 1) R of [W | tau] of ``system``'s rows as they were weighted."""
        return system.stacked(self.weights) if self.factor is None else self.factor


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
    method:
        Name of the estimator.
    identifiability:
        Which parameters the recording determines.
    uncertainty:
        Standard deviations.
    rows:
        The rows and their weights.
    fit:
        Fit to the efforts of the recordings.
    essential:
        (b,) bool, which parameters are essential; None where that was not asked.
    standard:
        The standard parameters where the method itself finds them (``physical``), else None.
    standard_covariance:
        (p, p) of their errors; None where the method does not find them.
    data_covariance:
        (p, p) share of it that errors of the rows make, not the prior; None where it is all.
    robot:
        The robot's name, where known.
    notes:
        In words, what the method found out by the way, such as the share of outliers.
    warnings:
        In words, what a user should know.

    """

    base: ParameterSet
    expressions: tuple[str, ...]
    method: str
    identifiability: Identifiability
    uncertainty: Uncertainty
    rows: WeightedRows
    fit: Fit
    essential: np.ndarray | None = None
    standard: ParameterSet | None = None
    standard_covariance: np.ndarray | None = None
    data_covariance: np.ndarray | None = None
    robot: str = ''
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        b = len(self.base.layout)
        _freeze(self, bool, essential=(b,))
        sizes = {
            'expressions': len(self.expressions),
            'identifiability': len(self.identifiability.reasons),
            'uncertainty': len(self.uncertainty.std),
        }
        if self.rows.factor is not None:
            sizes['rows.factor'] = len(self.rows.factor) - 1
        for name, size in sizes.items():
            if size != b:
                raise ValueError(f'{name} is of {size} parameters, expected {b}')
        if len(self.rows.weights) != len(self.fit.joints):
            raise ValueError(
                f'rows.weights is of {len(self.rows.weights)} joints, expected '
                f'{len(self.fit.joints)}'
            )

    @property
    def std(self) -> np.ndarray:
        """(b,) standard deviations; NaN where not estimated."""
        return self.uncertainty.std

    @property
    def relative_std(self) -> np.ndarray:
        """(b,) 100 std / |value| [%]; NaN where not estimated."""
        with np.errstate(divide='ignore', invalid='ignore'):
            return np.asarray(100.0 * self.std / np.abs(self.base.values))

    @property
    def rank(self) -> int:
        """Number of parameters that the recording reaches, and that were not dropped."""
        return int(self.was_free.sum())

    @property
    def was_free(self) -> np.ndarray:
        """(b,) bool, which parameters were free in the estimation."""
        return np.isfinite(self.std)

    @property
    def standard_std(self) -> np.ndarray | None:
        """(p,) standard deviations of ``standard``; None where the method does not find them."""
        covariance = self.standard_covariance
        return None if covariance is None else np.sqrt(np.diag(covariance))

    def __iter__(self) -> Iterator[ParameterEstimate]:
        layout, drawn = self.base.layout, self.uncertainty.bootstrap
        classical = self.uncertainty.classical_std
        classical = self.std if classical is None else classical
        relative_std = self.relative_std
        for i, name in enumerate(layout.names):
            yield ParameterEstimate(
                name=name,
                expression=self.expressions[i],
                unit=layout.units[i],
                value=float(self.base.values[i]),
                std=float(self.std[i]),
                relative_std=float(relative_std[i]),
                essential=None if self.essential is None else bool(self.essential[i]),
                state=IDENTIFIED if self.identifiability.excited[i] else NOT_EXCITED,
                classical_std=float(classical[i]),
                bootstrap_std=None if drawn is None else float(drawn.std[i]),
                bootstrap_low=None if drawn is None else float(drawn.low[i]),
                bootstrap_high=None if drawn is None else float(drawn.high[i]),
            )

    def __len__(self) -> int:
        return len(self.base.layout)

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, texts and lists; NaN and infinity become None."""
        drawn = self.uncertainty.bootstrap
        return {
            'method': self.method,
            'rows': self.rows.count,
            'rank': self.rank,
            'condition_number': plain(self.rows.condition_number),
            'raw_condition_number': plain(self.rows.raw_condition_number),
            'residual_std': plain(self.rows.residual_std),
            'weights': dict(
                zip(
                    (fit.joint for fit in self.fit.joints), self.rows.weights.tolist(), strict=True
                )
            ),
            **self.fit.to_dict(),
            **({} if drawn is None else {'bootstrap': drawn.to_dict()}),
            'parameters': [parameter.to_dict() for parameter in self],
            'notes': list(self.notes),
            'warnings': list(self.warnings),
        }


def nan_padded(values: np.ndarray, free: np.ndarray) -> np.ndarray:
    """Return (b,) or (b, b) with the ``values`` of the (b,) ``free`` parameters, else NaN."""
    whole = np.full((free.size,) * values.ndim, np.nan)
    whole[np.ix_(*[free] * values.ndim)] = values
    return whole


def with_scaled_std(estimate: Estimate, growth: np.ndarray) -> Estimate:
    """Return an estimate whose standard deviations are multiplied, (b,) factors."""
    before = estimate.uncertainty
    after = Uncertainty(
        covariance=growth[:, None] * before.covariance * growth,
        std=growth * before.std,
        classical_std=before.std,
        growth=growth,
    )
    return replace(estimate, uncertainty=after)
