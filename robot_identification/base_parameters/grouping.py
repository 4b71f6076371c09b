# SPDX-License-Identifier: Apache-2.0
"""Determination of a robot's base parameters by grouping of standard parameters."""

from __future__ import annotations

from collections.abc import Sequence
import math
import warnings

import numpy as np

from ..errors import IdentifiabilityError, IdentificationWarning, one_of, SettingsError
from ..parameters import ParameterLayout
from ..regressors import Regressor
from ..regressors.settings import GROUPINGS
from ..robot import Robot
from .base_structure import BaseStructure
from .dependences import coefficients, echelon_basis, greedy_basis, NOISE
from .expressions import expression
from .order import left_to_right, preference
from .states import random_states

TOLERANCE = 1e-4
"""
A column (of unit norm) this close to the span of others counts as dependent on them.

Robots' true dependences hold to rounding and true independence shows as 0.1 or more, in every
robot that was looked at.  What lies in between comes from rounded angles in URDFs: 1.5708 for pi/2
makes columns differ by 4e-6, which no recording can tell.
"""

WEAK = 1e-2
"""A singular value below this, though it counts, is worth a warning."""

CLEAR_GAP, LEAST_GAP = 1e3, 10.0
"""Ratio of neighbouring singular values that puts the rank beyond doubt, and that is needed."""

_SMALL_COLUMN = 0.1
"""Columns this much smaller than the largest of their kind are not scaled up any further."""

_UNREADABLE = 1e-5
"""Terms that are this small a part of a column are left out of expressions, which are rounded."""


def structure(
    regressor: Regressor,
    robot: Robot,
    *,
    grouping: str = 'preferred',
    order: Sequence[str] = (),
    seed: int = 0,
    samples: int | None = None,
    tolerance: float = TOLERANCE,
) -> BaseStructure:
    """
    Find the base parameters of a robot.

    Parameters
    ----------
    regressor:
        The model.
    robot:
        Its robot; tells the joints' kinds and axes, for the order of preference.
    grouping:
        ``preferred`` takes independent columns in the order of preference (`order.preference`),
        ``echelon`` from left to right (`order.left_to_right`), as the reduced row echelon form
        does.  The span is the same.
    order:
        Names of columns to be taken first by ``echelon``.
    seed:
        Of the random states; any seed gives the same result up to rounding.
    samples:
        Number of random states; None for enough.
    tolerance:
        Relative distance from the span of others below which a column counts as dependent.

    Raises
    ------
    SettingsError
        where there is no such grouping.
    IdentificationError
        where ``order`` names what is no parameter.
    IdentifiabilityError
        where the rank cannot be told: singular values go down to rounding without a gap.

    Warns
    -----
    IdentificationWarning
        where the gap is narrow, as it is with angles in the URDF that are nearly right.

    """
    if grouping not in GROUPINGS:
        raise SettingsError(
            f"grouping is '{grouping}'",
            key='grouping',
            value=grouping,
            remedy=f'it has to be one of {one_of(GROUPINGS)}',
        )
    W = regressor.rows(random_states(robot, regressor, seed, samples))
    norms, scale = _column_scale(W, regressor.layout)
    living = np.flatnonzero(norms)
    # W enters by its R factor alone, which has the same dependences and as many rows as columns
    R = np.asarray(np.linalg.qr(W[:, living] / scale[living], mode='r'))
    if grouping == 'echelon':
        ranks = left_to_right(regressor.layout, order)
        places = np.argsort(ranks[living], kind='stable')
        chosen, rest, B = echelon_basis(R, places, tolerance)
    else:
        levels = preference(regressor.layout, robot, getattr(regressor, 'motors', {}))
        chosen = greedy_basis(
            R, sorted(range(living.size), key=lambda i: levels[living[i]]), tolerance
        )
        rest = np.setdiff1d(np.arange(living.size), chosen)
        B = coefficients(R, chosen, rest)
    singular_values = np.linalg.svd(R, compute_uv=False)
    gap, notes = _judge_gap(singular_values, chosen.size)
    lost = ~B.any(axis=0)
    scaled = np.zeros((chosen.size, norms.size))
    scaled[np.arange(chosen.size), living[chosen]] = 1.0
    scaled[:, living[rest]] = B
    regrouping = scaled * scale / scale[living[chosen], None]
    readable = np.where(np.abs(scaled) > _UNREADABLE, regrouping, 0.0)
    return BaseStructure(
        layout=regressor.layout,
        independent=living[chosen],
        dependent=living[rest[~lost]],
        unidentifiable=np.sort([*np.flatnonzero(norms == 0.0), *living[rest[lost]]]).astype(int),
        regrouping=regrouping,
        singular_values=singular_values,
        gap=gap,
        expressions=tuple(
            expression(row, regressor.layout.names, first=place)
            for row, place in zip(readable, living[chosen], strict=True)
        ),
        warnings=notes,
    )


def _column_scale(W: np.ndarray, layout: ParameterLayout) -> tuple[np.ndarray, np.ndarray]:
    """
    Norms of the columns, 0 for rounding noise, and what to divide the columns by.

    Columns get norm 1, but those that are small beside their kind (the parameters of the same
    unit) stay small: otherwise a base that is tilted by rounded angles would make whole columns of
    it.
    """
    norms = np.linalg.norm(W, axis=0)
    norms[norms <= NOISE * norms.max(initial=0.0)] = 0.0
    scale = norms.copy()
    units = np.array(layout.units)
    for unit in set(layout.units):
        kind = units == unit
        scale[kind] = np.maximum(scale[kind], _SMALL_COLUMN * norms[kind].max())
    scale[scale == 0.0] = 1.0
    return norms, scale


def _judge_gap(singular_values: np.ndarray, rank: int) -> tuple[float, tuple[str, ...]]:
    """Return the gap after the first ``rank`` singular values, and a warning where in doubt."""
    last = float(singular_values[rank - 1])
    next_ = float(singular_values[rank]) if rank < singular_values.size else 0.0
    gap = last / next_ if next_ > 0.0 else math.inf
    if gap >= CLEAR_GAP and last >= WEAK:
        return gap, ()
    text = (
        f'the number of base parameters ({rank}) is in doubt: '
        f'singular value {rank} is {last:.1e}, the next one {next_:.1e}'
    )
    remedy = 'look for angles or lengths in the URDF that are nearly right, such as 1.57 for pi/2'
    if gap < LEAST_GAP:
        raise IdentifiabilityError(text, value=gap, remedy=remedy)
    note = f'{text}: {remedy}'
    warnings.warn(note, IdentificationWarning, stacklevel=3)
    return gap, (note,)
