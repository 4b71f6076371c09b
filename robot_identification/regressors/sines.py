# SPDX-License-Identifier: Apache-2.0
"""
Sine and cosine of angles of any size, for compiled functions, to one unit in the last place.

An angle is taken to within pi/4 of 0 by a multiple of pi/2 in three parts (Cody and Waite 1980),
where a polynomial is enough.
"""

from __future__ import annotations

import math

import numpy as np

from ..compiled import compiled
from ..lanes import LANES, Lanes, load

FAR = 1e6
"""Angles [rad] from which on the sine is the system's: below, k pi/2 is exact to twice 53 bits."""

# pi/2 in three parts, the first two of 33 bits so that small multiples of them are exact
_HALF_PI = (1.5707963267341256, 6.077100506303966e-11, 2.0222662487959506e-21)
_QUARTERS = 2.0 / math.pi
_INTEGER = 6755399441055744.0  # 1.5 2^52: added and taken away again, it rounds to an integer

# (sin y / y - 1) / y^2 and (cos y - 1 + y^2 / 2) / y^4 as polynomials in y^2, for |y| <= pi/4:
# interpolated at Chebyshev's nodes, to 2^-57 of the sine and 2^-59 of the cosine
_SINE = (
    -0.16666666666666666,
    0.008333333333333331,
    -0.00019841269841265063,
    2.7557319219337312e-06,
    -2.5052106231802837e-08,
    1.6058531516797758e-10,
    -7.586691094197958e-13,
)
_COSINE = (
    0.041666666666666664,
    -0.0013888888888887398,
    2.480158729876456e-05,
    -2.7557317271145144e-07,
    2.087614614655861e-09,
    -1.1382623647474604e-11,
)


@compiled(inline=True)
def sine_and_cosine(x: Lanes) -> tuple[Lanes, Lanes]:
    """Return sine and cosine of lanes, nearer to 0 than `FAR`."""
    a, b, c = _HALF_PI
    k = x * _QUARTERS + _INTEGER - _INTEGER
    first = x - k * a
    second = first - k * b
    tail = k * c - (first - second - k * b)
    y = second - tail
    low = second - y - tail
    z = y * y
    s0, s1, s2, s3, s4, s5, s6 = _SINE
    sine = z * y * (s0 + z * (s1 + z * (s2 + z * (s3 + z * (s4 + z * (s5 + z * s6))))))
    sine = y + (sine + low)
    c0, c1, c2, c3, c4, c5 = _COSINE
    cosine = z * z * (c0 + z * (c1 + z * (c2 + z * (c3 + z * (c4 + z * c5)))))
    half = 0.5 * z
    most = 1.0 - half
    cosine = most + ((1.0 - most - half) + (cosine - y * low))
    # quadrant k: the parts change places where it is odd, signs where k // 2 is
    pair = k * 0.5 - 0.25 + _INTEGER - _INTEGER
    odd = k - 2.0 * pair
    even = 1.0 - odd
    sign = 1.0 - 2.0 * (pair - 2.0 * (pair * 0.5 - 0.25 + _INTEGER - _INTEGER))
    return sign * (even * sine + odd * cosine), sign * (even * cosine - odd * sine)


@compiled(inline=True)
def sine_and_cosine_of_any(
    states: np.ndarray, at: int, scratch: np.ndarray
) -> tuple[Lanes, Lanes]:
    """Return sine and cosine of the lanes at place ``at``, whatever their size."""
    near = True
    for t in range(LANES):
        near = near and abs(states[at + t]) <= FAR
    if near:
        return sine_and_cosine(load(states, at))
    for t in range(LANES):
        scratch[t] = math.sin(states[at + t])
        scratch[LANES + t] = math.cos(states[at + t])
    return load(scratch, 0), load(scratch, LANES)
