# SPDX-License-Identifier: Apache-2.0
"""Symmetric bodies: reflections at planes and quarter turns about axes of the joint frame."""

from __future__ import annotations

import numpy as np

from ..model.consistency import from_pseudo_inertia, pseudo_inertia
from ..model.parameters import INERTIAL_SYMBOLS

SYMMETRIES = ('x', 'y', 'z', 'yz', 'xz', 'xy')
"""Axes and planes."""


def symmetry_of(kind: str, point: tuple[float, float, float]) -> np.ndarray:
    """
    Return the transformation that leaves a symmetric body as it is.

    Parameters
    ----------
    kind:
        One of `SYMMETRIES`.
    point:
        (3,) of the axis or plane [m].

    Returns
    -------
    np.ndarray
        (4, 4) homogeneous.

    """
    first, second, third = ('xyz'.index(letter) for letter in (kind + _others(kind)))
    turn = np.eye(3)
    if len(kind) == 1:  # a quarter turn about the first axis
        turn[[second, third], [second, third]] = 0.0
        turn[second, third], turn[third, second] = -1.0, 1.0
    else:
        turn[third, third] = -1.0
    whole = np.eye(4)
    whole[:3, :3] = turn
    whole[:3, 3] = np.asarray(point) - turn @ np.asarray(point)
    return whole


def symmetric(matrix: np.ndarray, transformation: np.ndarray) -> np.ndarray:
    """Return the mean of a (4, 4) pseudo-inertia over the turns or reflections of a symmetry."""
    images, image = [matrix], transformation @ matrix @ transformation.T
    for _ in range(3):  # a reflection's are counted twice
        images.append(image)
        image = transformation @ image @ transformation.T
    return np.asarray(np.mean(images, axis=0))


def symmetry_equations(transformation: np.ndarray) -> np.ndarray:
    """Return (10, 10) rows that are zero on the parameters of symmetric bodies."""
    columns = []
    for unit in np.eye(len(INERTIAL_SYMBOLS)):
        matrix = pseudo_inertia(unit)
        columns.append(from_pseudo_inertia(transformation @ matrix @ transformation.T - matrix))
    return np.array(columns).T


def _others(kind: str) -> str:
    return ''.join(letter for letter in 'xyz' if letter not in kind)
