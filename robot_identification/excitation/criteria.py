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

from collections.abc import Callable

import numpy as np
import scipy

from .point_cost import log_spread

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

_TINY = 1e-200


def covariance(information: np.ndarray) -> np.ndarray:
    """
    Return the inverse of an information matrix (b, b), of the same shape.

    What the motion does not tell has a variance that is very large, not infinite.
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


CRITERIA: dict[str, Callable[[np.ndarray], tuple[float, np.ndarray]]] = {
    'deviations': deviations,
    'log_det': log_det,
    'trace': trace,
    'largest': largest,
    'frobenius': frobenius,
}
"""What can be minimised, functions of the covariance (k, k), by the name in the settings."""


def excess(chosen: np.ndarray, targets: np.ndarray) -> tuple[float, np.ndarray]:
    """
    Return the largest excess of the deviations over targets, by logarithms, and its gradient.

    A power mean stands for the largest.  The worst parameter tells how long the motion has to be.

    Parameters
    ----------
    chosen:
        (k, k) covariance.
    targets:
        (k,) wanted standard deviations.

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
    Return the `excess` over targets plus a share of `deviations`, and its gradient.

    Without the latter joints that the targets do not need would hardly move, and what a model
    lacks at low speeds, as of friction, would contradict other motions.

    Parameters
    ----------
    chosen:
        (b, b) covariance.
    places, targets:
        (k,) of the parameters with targets, and their wanted standard deviations.

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
    Return a function of the covariance and its gradient by the information.

    Parameters
    ----------
    information:
        (b, b).
    places:
        (k,) of the parameters whose covariance counts; the others are estimated, too.
    function:
        One of `CRITERIA`.

    Returns
    -------
    tuple
        Value and gradient (b, b).

    """
    whole = covariance(information)
    value, slope = function(whole[np.ix_(places, places)])
    columns = whole[:, places]
    return value, -(columns @ slope) @ columns.T


def frobenius_condition_number(gram: np.ndarray) -> tuple[float, np.ndarray]:
    r"""
    Return the logarithm of the Frobenius condition number, :math:`\|G\|_F \|G^{-1}\|_F`.

    It weighs parameters by their units: a small one in large units counts as little as the paper's
    friction coefficients make of inertias.
    """
    value, gradient = frobenius(gram)
    return 2.0 * value, 2.0 * gradient


def column_scaled_condition_number(matrix: np.ndarray) -> float:
    """
    Return the condition number of a matrix whose columns are scaled to unit length.

    Parameters
    ----------
    matrix:
        (n_rows, n_columns); a column of zeros makes it infinite.

    """
    length = np.linalg.norm(matrix, axis=0)
    if not (length > 0.0).all():
        return np.inf
    # the singular values of R are those of the matrix, and R is small
    values = np.linalg.svd(np.linalg.qr(matrix / length, mode='r'), compute_uv=False)
    return float(values[0] / values[-1]) if values[-1] > 0.0 else np.inf
