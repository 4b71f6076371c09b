# SPDX-License-Identifier: Apache-2.0
"""
Search for a robot's base parameters, the identifiable combinations of standard parameters.

The columns of the regressor W of a robot's standard parameters are linearly dependent whatever the
motion.  A set of independent columns W_b is chosen, the others are W_d = W_b B, and

    W p = W_b (p_b + B p_d)

makes ``p_b + B p_d`` the base parameters (Gautier and Khalil 1990; Gautier 1991).  The dependences
are found numerically from random states, not from data, so a poor recording cannot change the
model: W is analytic in the state, so its generic rank is the same on every open set of states.

Which columns are called independent is a matter of taste, and the numerical rank-revealing
factorisations decide it by rounding.  Here it is decided by a fixed order of preference: columns
are taken one after the other, and a column is independent if it does not lie in the span of those
taken before.  So neither the random states nor the order of the joints in the data change the
names.  The order follows Khalil's and Gautier's grouping, where a link's mass, the first moment
along its joint's axis and one principal moment go to the links before it:

1. inertias and first moments of each link but those below, from the base to the tips; friction;
2. of links on a turning joint: the second of the two moments of inertia across the axis (Iyy for
   an axis z) and the first moment along it (mz); of links on a sliding joint: all inertias, which
   only turning joints before it can see;
3. rotor inertias;
4. masses.

Beside this grouping, called ``preferred``, there is ``echelon``: columns are taken from left to
right, which gives the leading columns and the coefficients of the reduced row echelon form (Szabo
and Szadeczky-Kardoss, Acta IMEKO 10(3), 2021, equations (10) to (12)).  It groups other parameters
into equally many combinations of the same span.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
import math
from typing import Any
import warnings

import numpy as np

from ..data.recording import Motion
from ..errors import IdentifiabilityError, IdentificationWarning, one_of, SettingsError
from ..model.parameters import INERTIAL_SYMBOLS, ParameterLayout
from ..model.robot import Robot
from . import Regressor
from .base_parameters import BaseStructure, expression
from .joint_terms import SPRING_SYMBOLS
from .rigid import tree_of, TreeJoint
from .settings import GROUPINGS

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
        of_link[robot.links[joint.link]] = of_joint[robot.joints[joint.link]] = depth, joint
    ranks = []
    for place, name in enumerate(layout):
        owner, _, symbol = name.rpartition('.')
        if symbol in INERTIAL_SYMBOLS:
            depth, joint = of_link[owner]
        else:
            owner = motors.get(owner, owner)
            if owner not in of_joint and owner not in of_link:
                ranks.append((4, 0, place))  # of a sensor
                continue
            depth, joint = of_joint[owner] if owner in of_joint else of_link[owner]
        if symbol in SPRING_SYMBOLS:
            level = 4
        elif symbol == 'm':
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
    Return the places (p,) at which columns stand from left to right.

    Columns named in ``first`` stand before all others, in this order.  The others follow link by
    link, each link's inertial parameters as in `ECHELON_ORDER`, then the joints' parameters.
    Raises IdentificationError naming a column that there is none of.
    """
    names = list(first)
    for link in layout.links:
        names += [f'{link}.{symbol}' for symbol in ECHELON_ORDER]
    ordered = list(dict.fromkeys([*names, *layout]))
    places = np.empty(len(layout), dtype=int)
    places[layout.indices(ordered)] = np.arange(len(layout))
    return places


def drawn_states(
    robot: Robot,
    regressor: Regressor,
    random: np.random.Generator | np.random.RandomState,
    samples: int,
) -> Motion:
    """
    Return random states that show every dependence well.

    A regressor whose states are not those of free joints draws them itself, by its own
    ``random_motion(random, samples)``.  Limits are left aside on purpose: the rank is the same on
    every open set of states, and over a narrow range different functions of the position look
    alike.
    """
    own = getattr(regressor, 'random_motion', None)
    if own is not None:
        return own(random, samples)
    shape = (samples, regressor.n_joints)
    reach = np.where(tree_of(robot).revolute, np.pi, 1.0)
    # speeds and accelerations at which the terms of gravity, velocity and acceleration weigh alike
    return Motion(
        position=random.uniform(-reach, reach, shape),
        velocity=random.uniform(-3.0, 3.0, shape),
        acceleration=random.uniform(-10.0, 10.0, shape),
    )


@dataclass(frozen=True)
class RankConstants:
    """Constants of the choice of independent columns."""

    noise: float = 1e-10
    """Columns and coefficients this much smaller than the largest are rounding noise."""
    tolerance: float = 1e-4
    """
    A column (of unit norm) this close to the span of others counts as dependent on them.

    Robots' true dependences hold to rounding and true independence shows as 0.1 or more, in every
    robot that was looked at.  What lies in between comes from rounded angles in URDFs: 1.5708 for
    pi/2 makes columns differ by 4e-6, which no recording resolves.
    """
    weak: float = 1e-2
    """A singular value below this, though it counts, is worth a warning."""
    tilted_share: float = 0.1
    """The same by the angle of gravity with the nearest axis of the base, as it shows more."""
    clear_gap: float = 1e3
    """Ratio of neighbouring singular values that puts the rank beyond doubt."""
    least_gap: float = 10.0
    """The same that is needed."""
    small_column: float = 0.1
    """Columns this much smaller than the largest of their kind are not scaled up any further."""
    unreadable: float = 1e-5
    """Terms that are this small a part of a column are left out of (rounded) expressions."""


RANK = RankConstants()


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
    B = np.linalg.lstsq(R[:, chosen], R[:, rest], rcond=None)[0]
    B[np.abs(B) < RANK.noise * np.abs(B).max(axis=0, initial=0.0)] = 0.0
    unexplained = np.linalg.norm(R[:, rest] - R[:, chosen] @ B, axis=0)
    B[:, unexplained > 0.5 * np.linalg.norm(R[:, rest], axis=0)] = 0.0
    return B


def structure(
    regressor: Regressor,
    robot: Robot,
    *,
    grouping: str = 'preferred',
    order: Sequence[str] = (),
    seed: int = 0,
    samples: int | None = None,
    tolerance: float = RANK.tolerance,
) -> BaseStructure:
    """
    Find the base parameters of a robot.

    Parameters
    ----------
    regressor, robot:
        The model, and its robot for the kinds and axes of the joints in the order of preference.
    grouping:
        ``preferred`` takes independent columns in the order of `preference`, ``echelon`` in that
        of `left_to_right`, as the reduced row echelon form does.  The span is the same.
    order:
        Names of columns to be taken first by ``echelon``.
    seed, samples:
        Of the random states, and their number, None for enough; any seed gives the same result up
        to rounding.
    tolerance:
        Relative distance from the span of others below which a column counts as dependent.

    Raises
    ------
    SettingsError
        if there is no such grouping.
    IdentificationError
        if ``order`` names what is no parameter.
    IdentifiabilityError
        if the rank is undetermined: singular values go down to rounding without a gap.

    Warns
    -----
    IdentificationWarning
        if the gap is narrow, as it is with angles in the URDF that are nearly right.

    """
    if grouping not in GROUPINGS:
        raise SettingsError(
            f"grouping is '{grouping}'",
            key='grouping',
            value=grouping,
            remedy=f'it has to be one of {one_of(GROUPINGS)}',
        )
    if samples is None:
        # eight times as many rows as columns
        samples = 16 + math.ceil(8 * len(regressor.layout) / regressor.n_joints)
    W = regressor.rows(drawn_states(robot, regressor, np.random.default_rng(seed), samples))
    norms, scale = _column_scale(W, regressor.layout)
    living = np.flatnonzero(norms)
    # W enters by its R factor alone, which has the same dependences and as many rows as columns
    R = np.asarray(np.linalg.qr(W[:, living] / scale[living], mode='r'))
    ranks: list[Any]
    if grouping == 'echelon':
        ranks = left_to_right(regressor.layout, order).tolist()
    else:
        ranks = preference(regressor.layout, robot, getattr(regressor, 'motors', {}))
    wanted = sorted(range(living.size), key=lambda i: ranks[int(living[i])])
    chosen = greedy_basis(R, wanted, tolerance)
    rest = np.setdiff1d(np.arange(living.size), chosen)
    B = coefficients(R, chosen, rest)
    singular_values = np.linalg.svd(R, compute_uv=False)
    gap, remarks = _judge_gap(singular_values, chosen.size, _tilt(robot))
    lost = ~B.any(axis=0)
    scaled = np.zeros((chosen.size, norms.size))
    scaled[np.arange(chosen.size), living[chosen]] = 1.0
    scaled[:, living[rest]] = B
    regrouping = scaled * scale / scale[living[chosen], None]
    readable = np.where(np.abs(scaled) > RANK.unreadable, regrouping, 0.0)
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
        warnings=remarks,
    )


def _column_scale(W: np.ndarray, layout: ParameterLayout) -> tuple[np.ndarray, np.ndarray]:
    """
    Norms of the columns, 0 for rounding noise, and what to divide the columns by.

    Columns get norm 1, but those that are small beside their kind (the parameters of the same
    unit) stay small: otherwise a base that is tilted by rounded angles would make whole columns of
    it.
    """
    norms = np.linalg.norm(W, axis=0)
    norms[norms <= RANK.noise * norms.max(initial=0.0)] = 0.0
    scale = norms.copy()
    units = np.array(layout.units)
    for unit in {*layout.units} - {'1'}:  # numbers have no size to compare by
        kind = units == unit
        scale[kind] = np.maximum(scale[kind], RANK.small_column * norms[kind].max())
    scale[scale == 0.0] = 1.0
    return norms, scale


def _tilt(robot: Robot) -> float:
    """Return the angle of gravity with the nearest axis of the base [rad]."""
    size = float(np.linalg.norm(robot.gravity))
    across = np.sort(np.abs(robot.gravity))[:2]
    return float(np.arcsin(np.linalg.norm(across) / size)) if size > 0.0 else 0.0


def _judge_gap(
    singular_values: np.ndarray, rank: int, tilt: float
) -> tuple[float, tuple[str, ...]]:
    """Return the gap after the first ``rank`` singular values, and a warning where in doubt."""
    last = float(singular_values[rank - 1])
    next_ = float(singular_values[rank]) if rank < singular_values.size else 0.0
    gap = last / next_ if next_ > 0.0 else math.inf
    least = min(RANK.weak, RANK.tilted_share * tilt) if tilt > RANK.tolerance else RANK.weak
    if gap >= RANK.clear_gap and last >= least:
        return gap, ()
    text = (
        f'the number of base parameters ({rank}) is in doubt: '
        f'singular value {rank} is {last:.1e}, the next one {next_:.1e}'
    )
    remedy = 'look for angles or lengths in the URDF that are nearly right, such as 1.57 for pi/2'
    if gap < RANK.least_gap:
        raise IdentifiabilityError(text, value=gap, remedy=remedy)
    remark = f'{text}: {remedy}'
    warnings.warn(remark, IdentificationWarning, stacklevel=3)
    return gap, (remark,)
