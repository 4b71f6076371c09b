# SPDX-License-Identifier: Apache-2.0
"""In which order columns are taken as independent ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..parameters import INERTIAL_SYMBOLS, ParameterLayout
from ..regressors.tree import tree_of, TreeJoint
from ..robot import Robot

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
