# SPDX-License-Identifier: Apache-2.0
"""Polynomials between the points of a trajectory, as ros2_control interpolates them."""

from __future__ import annotations

import numpy as np


def spline_coefficients(
    time: np.ndarray,
    position: np.ndarray,
    velocity: np.ndarray | None = None,
    acceleration: np.ndarray | None = None,
) -> np.ndarray:
    """
    Return the polynomials that join successive points.

    Linear with positions alone, cubic with velocities, quintic with accelerations: what the points
    give is met at both ends of each segment.

    Parameters
    ----------
    time:
        (m,) strictly increasing [s].
    position, velocity, acceleration:
        (m, n_joints) at these times [rad, rad/s, rad/s^2; m, m/s, m/s^2]; an acceleration needs a
        velocity.

    Returns
    -------
    np.ndarray
        (m - 1, 6, n_joints) coefficients of ascending powers of the time in the segment.

    """
    step = np.diff(time)[:, None]
    change = np.diff(position, axis=0)
    coefficients = np.zeros((step.size, 6, position.shape[1]))
    coefficients[:, 0] = position[:-1]
    if velocity is None:
        coefficients[:, 1] = change / step
        return coefficients
    v0, v1 = velocity[:-1], velocity[1:]
    coefficients[:, 1] = v0
    if acceleration is None:
        coefficients[:, 2] = (3.0 * change / step - 2.0 * v0 - v1) / step
        coefficients[:, 3] = (-2.0 * change / step + v0 + v1) / step**2
        return coefficients
    a0, a1 = acceleration[:-1], acceleration[1:]
    coefficients[:, 2] = 0.5 * a0
    # position, velocity and acceleration that are left over at the segment's end
    p = change - v0 * step - 0.5 * a0 * step**2
    v = v1 - v0 - a0 * step
    a = a1 - a0
    coefficients[:, 3] = 10.0 * p / step**3 - 4.0 * v / step**2 + 0.5 * a / step
    coefficients[:, 4] = -15.0 * p / step**4 + 7.0 * v / step**3 - a / step**2
    coefficients[:, 5] = 6.0 * p / step**5 - 3.0 * v / step**4 + 0.5 * a / step**3
    return coefficients
