# SPDX-License-Identifier: Apache-2.0
"""
Kinds of robots by their mechanisms: the table of what is done with each.

Regressors of all kinds are identified alike.  Whatever asks for more than rows and parameters asks
the kind for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..model.robot import Robot
from .settings import ModelSettings


@dataclass(frozen=True, eq=False)
class RobotKind:
    """
    Kind of a robot.

    Attributes
    ----------
    name:
        In tables.
    text:
        What such robots have, in messages.
    stiff_tree:
        Whether rows are the equations of single joints on a tree of stiff links that stands still.
        Then `auto` chooses settings and leaves disturbed times out, faults of recordings are
        explained, and what exported files predict alone is known.
    diagnosed:
        Whether recordings are searched for faults at all.
    signals:
        Settings of the signals that `auto` takes where none are given.

    """

    name: str
    text: str
    stiff_tree: bool = False
    diagnosed: bool = True
    signals: Mapping[str, float] = field(default_factory=dict)


STIFF_TREE = RobotKind('tree', 'stiff joints', stiff_tree=True)
ELASTIC = RobotKind('elastic', 'elastic joints')
LOOPS = RobotKind('loops', 'closed loops')
DELTA = RobotKind('delta', "a delta robot's own model")
FLOATING = RobotKind(
    'floating',
    'a floating base',
    diagnosed=False,
    # impacts of feet have frequencies above the cut-off [Hz]; a joint that reverses sticks for a
    # while, with any friction up to its Coulomb friction, unknown below this speed [rad/s]
    signals={'cutoff': 8.0, 'dead_zone': 0.005},
)

KINDS = (STIFF_TREE, ELASTIC, LOOPS, DELTA, FLOATING)
"""All kinds."""


def kind_of(robot: Robot, model: ModelSettings) -> RobotKind:
    """Return the kind of a robot with a model."""
    if model.elastic is not None:
        return ELASTIC
    if robot.floating:
        return FLOATING
    if model.delta is not None:
        return DELTA
    return LOOPS if model.loops or robot.passive else STIFF_TREE
