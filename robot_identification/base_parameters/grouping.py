# SPDX-License-Identifier: Apache-2.0
"""Determination of a robot's base parameters by grouping of standard parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
import math
import warnings

import numpy as np

from ..data.recording import Motion
from ..errors import (
    IdentifiabilityError,
    IdentificationWarning,
    one_of,
    SettingsError,
)
from ..model.parameters import INERTIAL_SYMBOLS, ParameterLayout
from ..model.robot import Robot
from ..regressor import Regressor
from ..regressor.kinematics import tree_of, TreeJoint
from ..regressor.settings import GROUPINGS
from .structure import BaseStructure, expression

ECHELON_ORDER = ('Ixx', 'Iyy', 'Izz', 'Ixy', 'Ixz', 'Iyz', 'm', 'mx', 'my', 'mz')
"""Inertial parameters of a link as Szabo and Szadeczky-Kardoss (2021), eq. (3), list them."""


def preference(
    layout: ParameterLayout, robot: Robot, motors: Mapping[str, str]
) -> list[tuple[int, int, int]]:
    """
    Rank of each parameter in the order of preference, lowest first; see the module's head.

    ``motors`` gives the joint of a motor that has parameters under a name of its own.
    """
    # a joint may have the name of a link that another joint moves
    of_link: dict[str, tuple[int, TreeJoint]] = {}
    of_joint: dict[str, tuple[int, TreeJoint]] = {}
    robot = robot.opened
    for depth, joint in enumerate(tree_of(robot).joints):
        of_link[robot.links[joint.column]] = of_joint[robot.joints[joint.column]] = depth, joint
    ranks = []
    for place, name in enumerate(layout):
        owner, _, symbol = name.rpartition('.')
        if symbol in INERTIAL_SYMBOLS:
            depth, joint = of_link[owner]
        else:
            owner = motors.get(owner, owner)
            depth, joint = of_joint[owner] if owner in of_joint else of_link[owner]
        if symbol == 'm':
            level = 3
        elif symbol in ('Ia', 'Iam'):
            level = 2
        else:
            level = int(symbol in _disfavoured(joint))
        ranks.append((level, depth, place))
    return ranks


def _disfavoured(joint: TreeJoint) -> tuple[str, ...]:
    """Inertial parameters, but the mass, that the links before ``joint`` can take over."""
    if not joint.revolute:
        return tuple(symbol for symbol in INERTIAL_SYMBOLS if symbol.startswith('I'))
    along = int(np.argmax(np.abs(joint.axis)))
    across = 'xyz'[max({0, 1, 2} - {along})]
    return (f'I{across}{across}', f'm{"xyz"[along]}')


def left_to_right(layout: ParameterLayout, first: Sequence[str] = ()) -> np.ndarray:
    """
    Return the places at which columns stand from left to right.

    Parameters
    ----------
    layout:
        The columns.
    first:
        Names of columns that stand before all others, in this order.  The others follow link by
        link, each link's inertial parameters as in `ECHELON_ORDER`, then the joints' parameters.

    Returns
    -------
    np.ndarray
        (p,) int, the place of each column.

    Raises
    ------
    IdentificationError
        naming a column that there is none of.

    """
    names = list(first)
    for link in layout.links:
        names += [f'{link}.{symbol}' for symbol in ECHELON_ORDER]
    ordered = list(dict.fromkeys([*names, *layout]))
    places = np.empty(len(layout), dtype=int)
    places[layout.indices(ordered)] = np.arange(len(layout))
    return places


def random_states(robot: Robot, regressor: Regressor, seed: int, samples: int | None) -> Motion:
    """
    States that show every dependence well.

    A regressor whose states are not those of free joints draws them itself, by its own
    ``random_motion(random, samples)``.

    Limits are left aside on purpose.  The rank is the same on every open set of states, and over a
    narrow range different functions of the position look alike.
    """
    if samples is None:
        # eight times as many rows as columns
        samples = 16 + math.ceil(8 * len(regressor.layout) / regressor.n_joints)
    return drawn_states(robot, regressor, np.random.default_rng(seed), samples)


def drawn_states(
    robot: Robot,
    regressor: Regressor,
    random: np.random.Generator | np.random.RandomState,
    samples: int,
) -> Motion:
    """States as `random_states` gives them, of random numbers of the caller's choice."""
    own = getattr(regressor, 'random_motion', None)
    if own is not None:
        return own(random, samples)
    shape = (samples, regressor.n_joints)
    reach = np.where(_turning(robot), np.pi, 1.0)
    # speeds and accelerations at which the terms of gravity, velocity and acceleration weigh alike
    return Motion(
        position=random.uniform(-reach, reach, shape),
        velocity=random.uniform(-3.0, 3.0, shape),
        acceleration=random.uniform(-10.0, 10.0, shape),
    )


def _turning(robot: Robot) -> np.ndarray:
    """(n_joints,) bool, whether each joint turns, in the order of the data."""
    joints = sorted(tree_of(robot).joints, key=lambda joint: joint.column)
    return np.array([joint.revolute for joint in joints])


NOISE = 1e-10
"""Columns and coefficients this much smaller than the largest are rounding noise."""


def greedy_basis(R: np.ndarray, order: Sequence[int], tolerance: float) -> np.ndarray:
    """
    Take columns in ``order`` that are not in the span of those taken before; ascending places.

    Projections are made twice, which keeps the basis orthogonal to rounding (Giraud and others
    2005), so the distance of a dependent column is rounding too.
    """
    basis = np.empty((R.shape[0], min(R.shape)))
    chosen: list[int] = []
    for column in order:
        vector, taken = R[:, column], basis[:, : len(chosen)]
        for _ in range(2):
            vector = vector - taken @ (taken.T @ vector)
        distance = np.linalg.norm(vector)
        if distance > tolerance and len(chosen) < basis.shape[1]:
            basis[:, len(chosen)] = vector / distance
            chosen.append(column)
    return np.array(sorted(chosen), dtype=int)


def coefficients(R: np.ndarray, chosen: np.ndarray, rest: np.ndarray) -> np.ndarray:
    """
    Coefficients that make the columns ``rest`` from the columns ``chosen``.

    They are zero for a column that is too small to count and that the others do not explain.
    """
    return _without_noise(
        np.linalg.lstsq(R[:, chosen], R[:, rest], rcond=None)[0], R, chosen, rest
    )


def _without_noise(
    B: np.ndarray, R: np.ndarray, chosen: np.ndarray, rest: np.ndarray
) -> np.ndarray:
    """Return coefficients without rounding noise, and without columns that are not explained."""
    B[np.abs(B) < NOISE * np.abs(B).max(axis=0, initial=0.0)] = 0.0
    unexplained = np.linalg.norm(R[:, rest] - R[:, chosen] @ B, axis=0)
    B[:, unexplained > 0.5 * np.linalg.norm(R[:, rest], axis=0)] = 0.0
    return B


def reduced_row_echelon(matrix: np.ndarray, tolerance: float) -> tuple[np.ndarray, np.ndarray]:
    """
    Bring a matrix into reduced row echelon form, from left to right.

    Szabo and Szadeczky-Kardoss (Acta IMEKO 10(3), 2021), equations (10) to (12), by Gauss-Jordan
    elimination; in each column the largest entry left is the pivot.  It makes a basis of noise,
    too, so that it is for matrices without noise only.

    Parameters
    ----------
    matrix:
        (m, n).
    tolerance:
        A column in which no larger entry is left depends on those before it.

    Returns
    -------
    form : np.ndarray
        (rank, n); row i has its leading 1 in column ``leading[i]``, and each column is the sum of
        the leading columns of the matrix with the column's entries as coefficients.
    leading : np.ndarray
        (rank,) int, ascending.

    """
    form = np.array(matrix, dtype=float)
    leading: list[int] = []
    for column in range(form.shape[1]):
        row = len(leading)
        if row == form.shape[0]:
            break
        pivot = row + int(np.abs(form[row:, column]).argmax())
        if np.abs(form[pivot, column]) <= tolerance:
            form[row:, column] = 0.0
            continue
        form[[row, pivot]] = form[[pivot, row]]
        form[row] /= form[row, column]
        others = np.arange(form.shape[0]) != row
        form[others] -= np.outer(form[others, column], form[row])
        leading.append(column)
    return form[: len(leading)], np.array(leading, dtype=int)


def echelon_basis(
    R: np.ndarray, order: np.ndarray, tolerance: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """
    Take independent columns as the reduced row echelon form does.

    Parameters
    ----------
    R:
        (m, n).
    order:
        (n,) its columns from left to right.
    tolerance:
        As for `reduced_row_echelon`.

    Returns
    -------
    chosen, rest : np.ndarray
        Independent and other columns, ascending.
    coefficients : np.ndarray
        That make the latter from the former.

    """
    form, leading = reduced_row_echelon(R[:, order], tolerance)
    chosen = np.sort(order[leading])
    rest = np.setdiff1d(order, chosen)
    place = np.argsort(order)
    B = form[np.argsort(order[leading])][:, place[rest]]
    return chosen, rest, _without_noise(B, R, chosen, rest)


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
    for unit in {*layout.units} - {'1'}:  # numbers have no size to compare by
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
