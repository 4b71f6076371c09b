# SPDX-License-Identifier: Apache-2.0
"""
Base parameters: the combinations of standard parameters that any motion can tell at most.

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
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
import math
import warnings

import numpy as np

from .errors import IdentifiabilityError, IdentificationWarning
from .parameters import INERTIAL_SYMBOLS, ParameterLayout, ParameterSet
from .recording import Motion
from .regressors import Regressor
from .regressors.tree import tree_of, TreeJoint
from .robot import Robot

CATEGORIES = ('unidentifiable', 'combined', 'alone')
"""
What any motion can tell about a standard parameter: nothing, only a combination with others, or
the parameter itself.
"""

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

_NOISE = 1e-10
"""Columns and coefficients this much smaller than the largest are rounding noise."""

_SMALL_COLUMN = 0.1
"""Columns this much smaller than the largest of their kind are not scaled up any further."""

_UNREADABLE = 1e-5
"""Terms that are this small a part of a column are left out of expressions, which are rounded."""


@dataclass(frozen=True)
class BaseStructure:
    """
    How a robot's standard parameters combine into base parameters.

    With b base parameters of p standard parameters, for every motion ``W @ standard`` equals
    ``W[:, independent] @ (regrouping @ standard)``.

    Attributes
    ----------
    layout:
        The p standard parameters.
    independent:
        (b,) columns that stand for the base parameters, in ascending order.
    dependent:
        (d,) columns that are combinations of these.
    unidentifiable:
        (u,) columns that are zero for every motion.
    regrouping:
        (b, p) coefficients of the standard parameters in each base parameter.
    singular_values:
        Of the regressor with its columns scaled to norm 1, zero columns left out; descending.
    gap:
        Ratio of the smallest singular value that counts to the largest that does not; infinite
        where no column is dependent.
    expressions:
        Each base parameter in words, such as ``link_2.Ixx - link_2.Iyy - 0.0506 link_3.m``.
    warnings:
        What is doubtful.

    """

    layout: ParameterLayout
    independent: np.ndarray
    dependent: np.ndarray
    unidentifiable: np.ndarray
    regrouping: np.ndarray
    singular_values: np.ndarray
    gap: float
    expressions: tuple[str, ...]
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in (
            'independent',
            'dependent',
            'unidentifiable',
            'regrouping',
            'singular_values',
        ):
            array = np.array(getattr(self, name))
            array.setflags(write=False)
            object.__setattr__(self, name, array)

    @property
    def n_standard(self) -> int:
        """Number of standard parameters."""
        return len(self.layout)

    @property
    def n_base(self) -> int:
        """Number of base parameters."""
        return self.independent.size

    @cached_property
    def base_layout(self) -> ParameterLayout:
        """Base parameters under the names of their independent columns, with units."""
        return self.layout.select(self.independent)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the independent columns."""
        return self.base_layout.names

    @cached_property
    def categories(self) -> tuple[str, ...]:
        """One of `CATEGORIES` for each standard parameter."""
        categories = np.full(self.n_standard, 'combined', dtype=object)
        categories[self.unidentifiable] = 'unidentifiable'
        single = np.count_nonzero(self.regrouping, axis=1) == 1
        categories[self.independent[single]] = 'alone'
        return tuple(categories)

    def category(self, name: str) -> str:
        """
        Say what any motion can tell about a standard parameter, one of `CATEGORIES`.

        Raises
        ------
        IdentificationError
            where there is no such parameter.

        """
        return self.categories[self.layout.index(name)]

    def columns(self, rows: np.ndarray) -> np.ndarray:
        """Columns of the base parameters out of regressor rows, (n_rows, p) to (n_rows, b)."""
        return rows[..., self.independent]

    def project(self, parameters: ParameterSet) -> ParameterSet:
        """Return the base parameters that standard parameters amount to."""
        if parameters.layout.names != self.layout.names:
            raise ValueError('the parameters are not in the layout of the structure')
        return ParameterSet(self.base_layout, self.regrouping @ parameters.values)


def structure(
    regressor: Regressor,
    robot: Robot,
    *,
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
    seed:
        Of the random states; any seed gives the same result up to rounding.
    samples:
        Number of random states; None for enough.
    tolerance:
        Relative distance from the span of others below which a column counts as dependent.

    Raises
    ------
    IdentifiabilityError
        where the rank cannot be told: singular values go down to rounding without a gap.

    Warns
    -----
    IdentificationWarning
        where the gap is narrow, as it is with angles in the URDF that are nearly right.

    """
    W = regressor.rows(_random_states(robot, regressor, seed, samples))
    norms, scale = _column_scale(W, regressor.layout)
    living = np.flatnonzero(norms)
    # W enters by its R factor alone, which has the same dependences and as many rows as columns
    R = np.asarray(np.linalg.qr(W[:, living] / scale[living], mode='r'))
    ranks = _preference(regressor.layout, robot, getattr(regressor, 'motors', {}))
    order = sorted(range(living.size), key=lambda i: ranks[living[i]])
    chosen = _greedy_basis(R, order, tolerance)
    singular_values = np.linalg.svd(R, compute_uv=False)
    gap, notes = _judge_gap(singular_values, chosen.size)

    rest = np.setdiff1d(np.arange(living.size), chosen)
    B = _coefficients(R, chosen, rest)
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


def expression(
    coefficients: np.ndarray, names: Sequence[str], *, first: int | None = None, digits: int = 3
) -> str:
    """
    Write a combination of parameters in words.

    Parameters
    ----------
    coefficients:
        (p,) numbers; zeros are left out.
    names:
        The p names.
    first:
        Place of the term to begin with; the others follow in order.
    digits:
        Significant digits of the coefficients.

    Returns
    -------
    str
        for example ``link_2.Ixx - link_2.Iyy - 0.0506 link_3.m``; ``0`` for no term.

    """
    places = [int(i) for i in np.flatnonzero(coefficients)]
    places.sort(key=lambda i: (i != first, i))
    text = ''
    for i in places:
        # by way of more digits, so that rounding noise cannot decide a tie such as 0.05185
        number = float(f'{float(f"{coefficients[i]:.10g}"):.{digits}g}')
        magnitude = '' if abs(number) == 1.0 else f'{abs(number):.{digits}g} '
        sign = '-' if number < 0.0 else '+'
        text += f' {sign} {magnitude}{names[i]}'
    if not text:
        return '0'
    return text[3:] if text.startswith(' + ') else f'-{text[3:]}'


def _random_states(robot: Robot, regressor: Regressor, seed: int, samples: int | None) -> Motion:
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
    random = np.random.default_rng(seed)
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


def _column_scale(W: np.ndarray, layout: ParameterLayout) -> tuple[np.ndarray, np.ndarray]:
    """
    Norms of the columns, 0 for rounding noise, and what to divide the columns by.

    Columns get norm 1, but those that are small beside their kind (the parameters of the same
    unit) stay small: otherwise a base that is tilted by rounded angles would make whole columns of
    it.
    """
    norms = np.linalg.norm(W, axis=0)
    norms[norms <= _NOISE * norms.max(initial=0.0)] = 0.0
    scale = norms.copy()
    units = np.array(layout.units)
    for unit in set(layout.units):
        kind = units == unit
        scale[kind] = np.maximum(scale[kind], _SMALL_COLUMN * norms[kind].max())
    scale[scale == 0.0] = 1.0
    return norms, scale


def _coefficients(R: np.ndarray, chosen: np.ndarray, rest: np.ndarray) -> np.ndarray:
    """
    Coefficients that make the columns ``rest`` from the columns ``chosen``.

    They are zero for a column that is too small to count and that the others do not explain.
    """
    B = np.linalg.lstsq(R[:, chosen], R[:, rest], rcond=None)[0]
    B[np.abs(B) < _NOISE * np.abs(B).max(axis=0, initial=0.0)] = 0.0
    unexplained = np.linalg.norm(R[:, rest] - R[:, chosen] @ B, axis=0)
    B[:, unexplained > 0.5 * np.linalg.norm(R[:, rest], axis=0)] = 0.0
    return B


def _turning(robot: Robot) -> np.ndarray:
    """(n_joints,) bool, whether each joint turns, in the order of the data."""
    joints = sorted(tree_of(robot).joints, key=lambda joint: joint.column)
    return np.array([joint.revolute for joint in joints])


def _preference(
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


def _greedy_basis(R: np.ndarray, order: Sequence[int], tolerance: float) -> np.ndarray:
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
