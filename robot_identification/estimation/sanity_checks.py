# SPDX-License-Identifier: Apache-2.0
"""Signs that a recording is not what it is said to be: wrong units, signs or columns."""

from __future__ import annotations

import numpy as np

from ..errors import one_of
from ..model.robot import Robot
from . import Estimate, LinearSystem

BEYOND = 1.1
"""Share of a joint's range of positions that a recording may cover, with limits that are rough."""

SURE = 3.0
"""Standard deviations below zero from which a friction is taken for negative."""


def warn_of_implausible(robot: Robot, system: LinearSystem, estimate: Estimate) -> tuple[str, ...]:
    """
    Return what a person should look at before the result is trusted, in words.

    Parameters
    ----------
    robot:
        Its limits say which positions are possible.
    system:
        The recordings that the estimate comes from.
    estimate:
        Its friction shows whether efforts and velocities have signs that go together.

    """
    return (
        *_wide(robot, system),
        *_negative_friction(tuple(dict.fromkeys((*robot.joints, *system.joints))), estimate),
    )


def _wide(robot: Robot, system: LinearSystem) -> list[str]:
    room = robot.limits.upper - robot.limits.lower
    return [
        f"joint '{joint}' moves over {moved:.4g} in the recordings, its limits in the URDF are "
        f'{left:.4g} apart: are the positions in rad (or m), and in the right columns?'
        # of elastic joints, behind these, the motors have no limits in the URDF
        for joint, moved, left in zip(robot.joints, system.position_range, room, strict=False)
        if moved > BEYOND * left > 0.0
    ]


def _negative_friction(joints: tuple[str, ...], estimate: Estimate) -> list[str]:
    names = estimate.base.layout.names
    sure = {
        name: value < -SURE * std
        for name, value, std in zip(names, estimate.base.values, estimate.std, strict=True)
        if np.isfinite(std)
    }
    found = [
        joint
        for joint in joints
        if any(sure.get(f'{joint}.{symbol}', False) for symbol in ('fv', 'fc', 'ts'))
    ]
    if not found:
        return []
    return [
        f'friction that drives instead of braking is found at {one_of(found)}: has the effort the '
        'sign of the position, and the right column?'
    ]
