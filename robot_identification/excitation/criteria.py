# SPDX-License-Identifier: Apache-2.0
r"""
Criteria of excitation, as functions of the normal matrix of the regressor.

With the base regressor W of a motion, ``G = W^T W``.  Columns are scaled to unit length, so that
the units of the parameters do not count: ``D^-1 G D^-1`` with ``D = diag(G)^(1/2)``; but for the
Frobenius condition number, which is that of G as it is.

References
----------
Gautier, Khalil, "Exciting trajectories for the identification of base inertial parameters of
robots", Int. J. Robotics Research 11(4), 1992: the condition number as the criterion.
Szabó, Szádeczky-Kardoss, "Dynamic parameter identification method for robotic arms with static
friction modelling", Acta IMEKO 10(3), 2021, eq. (20): its Frobenius form.

"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .conditioning import log_spread

POWER = 4
"""p of `smooth_condition_number`."""

_TINY = 1e-14

Criterion = Callable[[np.ndarray], tuple[float, np.ndarray]]
"""Turns G (b, b) into the value to be minimised and its gradient (b, b), both symmetric."""


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


def smooth_condition_number(gram: np.ndarray) -> tuple[float, np.ndarray]:
    r"""
    Return a smooth upper bound of the logarithm of the column-scaled condition number.

    The condition number itself has kinks where singular values cross, which is where its minimum
    tends to be.  With the eigenvalues :math:`\lambda = s^2` of the scaled normal matrix,

    .. math:: \frac{1}{2p} \log \Big( \sum_i \lambda_i^p \sum_i \lambda_i^{-p} \Big)

    is the logarithm of a condition number in Schatten norms (for p = 1 the Frobenius condition
    number that Gautier and Khalil found to converge best, for large p the spectral one).
    """
    scaled, length = _scaled(gram)
    values, vectors = np.linalg.eigh(scaled)
    values = np.maximum(values, _TINY)
    up, down = (values / values[-1]) ** POWER, (values / values[0]) ** -POWER
    value = 0.5 * (np.log(values[-1] / values[0]) + np.log(up.sum() * down.sum()) / POWER)
    slope = 0.5 * (up / up.sum() - down / down.sum()) / values
    return float(value), _through_scaling((vectors * slope) @ vectors.T, scaled, length)


def log_det(gram: np.ndarray) -> tuple[float, np.ndarray]:
    r"""
    Return minus the mean logarithm of the eigenvalues of G, :math:`-\log \det G / b`.

    The D-optimal criterion: for equal noise on all rows it minimises the volume of the parameters'
    confidence ellipsoid.  Units only add a constant to it.
    """
    scaled, length = _scaled(gram)
    values, vectors = np.linalg.eigh(scaled)
    values = np.maximum(values, _TINY)
    size = len(gram)
    value = -(np.log(values).sum() + 2.0 * np.log(length).sum()) / size
    inverse = (vectors / values) @ vectors.T
    return float(value), -inverse / np.outer(length, length) / size


def frobenius_condition_number(gram: np.ndarray) -> tuple[float, np.ndarray]:
    r"""
    Return the logarithm of the Frobenius condition number, :math:`\|G\|_F \|G^{-1}\|_F`.

    It weighs parameters by their units: a small one in large units counts as little as the paper's
    friction coefficients make of inertias.
    """
    values, vectors = np.linalg.eigh(gram)
    values = np.maximum(values, _TINY * values[-1])
    value, slope = log_spread(values, 1.0)
    return float(value), (vectors * slope) @ vectors.T


def _scaled(gram: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    length = np.sqrt(np.maximum(np.diagonal(gram), _TINY))
    return gram / np.outer(length, length), length


def _through_scaling(gradient: np.ndarray, scaled: np.ndarray, length: np.ndarray) -> np.ndarray:
    """Turn a gradient with respect to the scaled matrix into one with respect to the matrix."""
    result = gradient / np.outer(length, length)
    # the diagonal also scales its row and column
    result[np.diag_indices_from(result)] -= (gradient * scaled).sum(axis=1) / length**2
    return result


CRITERIA: dict[str, Criterion] = {
    'condition_number': smooth_condition_number,
    'log_det': log_det,
    'frobenius': frobenius_condition_number,
}
"""What can be minimised, by the name in the settings."""
