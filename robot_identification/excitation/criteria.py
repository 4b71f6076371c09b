# SPDX-License-Identifier: Apache-2.0
r"""
Criteria of excitation: functions of the information that a motion gives, with exact gradients.

With W the base regressor along a motion and S the deviations of the efforts' noise, the
information is :math:`J = \sum W^T S^{-2} W + J_0`, where :math:`J_0` is that of earlier
recordings.  The covariance of the estimate is :math:`C = J^{-1}`, so what a parameter's standard
deviation will be, :math:`\sqrt{C_{ii}}`, is known before the robot has moved.

Other units of a parameter move the logarithms of its deviation and of the determinant by a
constant.  No other scaling is used: a condition number of columns that are scaled by what the
motion makes of them can fall while every deviation grows.

References
----------
Swevers, Ganseman, Tükel, De Schutter, Van Brussel, "Optimal robot excitation and identification",
IEEE Trans. Robotics and Automation 13(5), 1997: the covariance as the criterion.
Szabó, Szádeczky-Kardoss, "Dynamic parameter identification method for robotic arms with static
friction modelling", Acta IMEKO 10(3), 2021, eq. (20): the Frobenius condition number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy

from ..errors import ExcitationError


def log_spread(sizes: np.ndarray, power: float) -> tuple[np.ndarray, np.ndarray]:
    r"""
    Return the logarithm of the ratio of the largest to the smallest size, smoothed from above.

    .. math:: \frac{1}{2p} \log \Big( \sum_i s_i^{2p} \sum_i s_i^{-2p} \Big)

    is above the logarithm of the ratio of the extremes, and comes down to it as p grows.

    Parameters
    ----------
    sizes:
        (..., k) positive, or NaN for what does not count.
    power:
        p; infinity takes the extremes themselves.

    Returns
    -------
    tuple of np.ndarray
        Values (...) and gradients (..., k).

    """
    largest = np.nanmax(sizes, axis=-1, keepdims=True)
    smallest = np.nanmin(sizes, axis=-1, keepdims=True)
    extremes = np.log(largest / smallest)[..., 0]
    if np.isinf(power):
        slope = (sizes == largest) / largest - (sizes == smallest) / smallest
        return extremes, slope
    up = np.nan_to_num((sizes / largest) ** (2.0 * power))
    down = np.nan_to_num((smallest / sizes) ** (2.0 * power))
    above, below = up.sum(axis=-1, keepdims=True), down.sum(axis=-1, keepdims=True)
    value = extremes + np.log(above * below)[..., 0] / (2.0 * power)
    return value, np.nan_to_num((up / above - down / below) / sizes)


LEAST = 1e-12
"""Least eigenvalue of an information matrix with ones on its diagonal: below it is rounding."""

POWER = 8.0
"""p of the power mean that stands for the largest eigenvalue, or excess over targets."""

TARGET_WIDTH = 0.05
"""Width of the kink where the deviations come down to the targets, in their logarithm."""

GENERAL = 0.3
"""
Weight of all deviations beside the excess over targets.

With 1, what the targets need takes an eighth more time; with 0.1, joints of no use to them stand.
"""

_TINY = 1e-200  # in place of 0, by which nothing can be divided


def covariance(information: np.ndarray) -> np.ndarray:
    """
    Return the inverse of an information matrix (b, b), of the same shape.

    What the motion does not determine has a variance that is very large, not infinite.
    """
    size = np.sqrt(np.maximum(np.diagonal(information), _TINY))
    scaled = information / np.outer(size, size)
    scaled[np.diag_indices_from(scaled)] += LEAST * len(scaled)
    factor, failed = scipy.linalg.lapack.dpotrf(scaled, lower=1)
    if failed:
        values, vectors = np.linalg.eigh(scaled)
        inverse = (vectors / np.maximum(values, LEAST)) @ vectors.T
    else:
        inverse, _ = scipy.linalg.lapack.dpotri(factor, lower=1)
        inverse = np.tril(inverse) + np.tril(inverse, -1).T
    return inverse / np.outer(size, size)


def deviations(chosen: np.ndarray) -> tuple[float, np.ndarray]:
    """Return the mean logarithm of the standard deviations, and its gradient."""
    variances = np.diagonal(chosen)
    size = len(chosen)
    return 0.5 * float(np.log(variances).mean()), np.diag(0.5 / (size * variances))


def log_det(chosen: np.ndarray) -> tuple[float, np.ndarray]:
    """Return half the logarithm of the covariance's determinant by parameter (D), and gradient."""
    size = len(chosen)
    length = np.sqrt(np.diagonal(chosen))
    values, vectors = np.linalg.eigh(chosen / np.outer(length, length))
    values = np.maximum(values, LEAST)
    inverse = (vectors / values) @ vectors.T / np.outer(length, length)
    value = 0.5 * float(np.log(values).sum()) + float(np.log(length).sum())
    return value / size, 0.5 / size * inverse


def trace(chosen: np.ndarray) -> tuple[float, np.ndarray]:
    """Return half the logarithm of the mean variance (A), in SI units, and its gradient."""
    total = float(np.trace(chosen))
    return 0.5 * float(np.log(total / len(chosen))), 0.5 / total * np.eye(len(chosen))


def largest(chosen: np.ndarray) -> tuple[float, np.ndarray]:
    """Return half the logarithm of the largest eigenvalue (E), in SI units, and its gradient."""
    values, vectors = np.linalg.eigh(chosen)
    shares = (np.maximum(values, 0.0) / values[-1]) ** POWER
    value = 0.5 * (np.log(values[-1]) + np.log(shares.sum()) / POWER)
    slope = 0.5 * shares / shares.sum() / np.maximum(values, _TINY)
    return float(value), (vectors * slope) @ vectors.T


def frobenius(chosen: np.ndarray) -> tuple[float, np.ndarray]:
    """Return half the logarithm of |C|_F |C^-1|_F, in SI units, and its gradient."""
    values, vectors = np.linalg.eigh(chosen)
    values = np.maximum(values, LEAST * values[-1])
    value, slope = log_spread(values, 1.0)
    return 0.5 * float(value), (vectors * (0.5 * slope)) @ vectors.T


@dataclass(frozen=True)
class Criterion:
    """Member of the table of criteria."""

    doc: str
    """What it is, for the description of the setting."""
    function: Callable[[np.ndarray], tuple[float, np.ndarray]]
    """Its value and gradient (k, k) by the covariance (k, k)."""


CRITERIA = {
    'deviations': Criterion('the geometric mean of the predicted standard deviations', deviations),
    'log_det': Criterion("the covariance's determinant", log_det),
    'trace': Criterion('its trace', trace),
    'largest': Criterion('its largest eigenvalue', largest),
    'frobenius': Criterion('its Frobenius condition number', frobenius),
}
"""What can be minimised, by the name that `PlannerSettings.criterion` gives it."""


def excess(chosen: np.ndarray, targets: np.ndarray) -> tuple[float, np.ndarray]:
    """
    Return the largest excess of the deviations over targets (k,), by logarithms, and its gradient.

    A power mean stands for the largest.  The worst one decides how long a motion is.
    """
    variances = np.diagonal(chosen)
    over = 0.5 * np.log(variances) - np.log(targets)
    value = float(scipy.special.logsumexp(POWER * over)) / POWER
    kink = value / TARGET_WIDTH
    slope = scipy.special.expit(kink) * scipy.special.softmax(POWER * over)
    return TARGET_WIDTH * float(np.logaddexp(0.0, kink)), np.diag(0.5 * slope / variances)


def excess_and_deviations(
    chosen: np.ndarray, places: np.ndarray, targets: np.ndarray
) -> tuple[float, np.ndarray]:
    """
    Return the `excess` over targets in ``places`` plus a share of `deviations`, and its gradient.

    Without the latter joints that the targets do not need would hardly move, and what a model
    lacks at low speeds, as of friction, would contradict other motions.
    """
    value, gradient = deviations(chosen)
    over, slope = excess(chosen[np.ix_(places, places)], targets)
    gradient = GENERAL * gradient
    gradient[np.ix_(places, places)] += slope
    return over + GENERAL * value, gradient


def by_information(
    information: np.ndarray,
    places: np.ndarray,
    function: Callable[[np.ndarray], tuple[float, np.ndarray]],
) -> tuple[float, np.ndarray]:
    """
    Return one of the `CRITERIA` and its gradient (b, b) by the information (b, b).

    The covariance of the parameters in ``places`` (k,) counts; the others are estimated, too.
    """
    whole = covariance(information)
    value, slope = function(whole[np.ix_(places, places)])
    columns = whole[:, places]
    return value, -(columns @ slope) @ columns.T


def column_scaled_condition_number(matrix: np.ndarray) -> float:
    """Return the condition number with columns scaled to unit length; infinite for a zero one."""
    length = np.linalg.norm(matrix, axis=0)
    if not (length > 0.0).all():
        return np.inf
    # the condition number of R is that of the matrix, and R is small
    return float(np.linalg.cond(np.linalg.qr(matrix / length, mode='r')))


# ------------------------------------------------------------------------------------ deviations


ROW_RATE = 100.0
"""Rows per second that count as independent of each other [Hz]."""

NOISELESS = 1e-9
"""Least noise by the size of the efforts."""

UNKNOWN = 1.0
"""Relative deviation above which a motion says little about a parameter."""


@dataclass(frozen=True)
class PredictedDeviations:
    """Predicted standard deviations of the base parameters after a motion."""

    names: tuple[str, ...]
    units: tuple[str, ...]
    """Of the base parameters."""
    std: np.ndarray
    """(b,) standard deviations, those of earlier recordings included."""
    values: np.ndarray
    """(b,) values by the URDF."""

    @property
    def relative(self) -> np.ndarray:
        """(b,) deviations by the size of the values; infinite where the value is 0."""
        with np.errstate(divide='ignore'):
            return self.std / np.abs(self.values)

    def rows(self) -> list[dict[str, Any]]:
        """Return parameter, unit, value by the URDF and deviation of each base parameter."""
        columns = self.names, self.units, self.values.tolist(), self.std.tolist()
        keys = 'parameter', 'unit', 'urdf', 'std'
        return [dict(zip(keys, row, strict=True)) for row in zip(*columns, strict=True)]

    def repetitions(self, target: np.ndarray | float) -> np.ndarray:
        """Return how often (b,) the motion has to run for wanted deviations."""
        return np.ceil((self.std / target) ** 2)

    def summary(self) -> str:
        """Return a line: their geometric mean, and how many parameters are significant."""
        known = self.values != 0.0
        significant = int((self.relative[known] < UNKNOWN).sum())
        mean = float(np.exp(np.log(self.std).mean()))
        return (
            f'predicted deviations: {mean:.3g} in geometric mean; {significant} of '
            f'{int(known.sum())} parameters that the URDF has below 100 % of their value'
        )


@dataclass(frozen=True)
class EarlierInformation:
    """Information of earlier recordings of the same problem."""

    names: tuple[str, ...]
    """Of the base parameters."""
    information: np.ndarray
    """(b, b) of the recordings."""
    noise: np.ndarray
    """(n_joints,) standard deviation of the residual of one of `ROW_RATE` rows per second."""

    @classmethod
    def from_triangles(
        cls,
        names: Sequence[str],
        triangles: np.ndarray,
        rows: np.ndarray,
        independent_rows: np.ndarray,
        duration: float,
    ) -> EarlierInformation:
        """
        Return the information of QR factors, weighed by their own residuals.

        Parameters
        ----------
        names:
            Of the base parameters.
        triangles:
            (n, b + 1, b + 1) R of [W_j | tau_j] of each joint.
        rows, independent_rows:
            (n,) rows of each joint, and how many independent ones they count for.
        duration:
            Of the recordings [s].

        """
        b = triangles.shape[-1] - 1
        noise = np.ones(len(triangles))
        for _ in range(2):
            weighed = triangles / noise[:, None, None]
            stacked = np.concatenate(list(weighed))
            base, *_ = np.linalg.lstsq(stacked[:, :b], stacked[:, b], rcond=1e-12)
            residuals = np.linalg.norm(triangles @ np.append(base, -1.0), axis=1)
            # recordings without noise have residuals of rounding, or none
            least = NOISELESS * max(float(np.abs(triangles[..., b]).max()), 1e-9)
            noise = np.maximum(residuals / np.sqrt(np.maximum(rows, 1)), least)
        shares = np.sqrt(independent_rows / np.maximum(rows, 1)) / noise
        weighed = np.concatenate(list(triangles[..., :b] * shares[:, None, None]))
        per_second = np.maximum(independent_rows, 1.0) / duration
        return cls(tuple(names), weighed.T @ weighed, noise * np.sqrt(ROW_RATE / per_second))

    def require(self, names: tuple[str, ...]) -> None:
        """Raise `ExcitationError` where the base parameters are others than the plan's."""
        if self.names != names:
            raise ExcitationError(
                f'the earlier recordings have {len(self.names)} base parameters, the plan '
                f'{len(names)}, and they are not the same',
                key='earlier',
                remedy='plan with the robot and the model (friction, rotor inertia) that the '
                'recordings were reduced with',
            )
