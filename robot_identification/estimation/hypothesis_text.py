# SPDX-License-Identifier: Apache-2.0
"""Findings in words: what fits better, by how much, and which key mends it."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..model.robot import Robot
from .finding import Finding
from .hypotheses import Change

_PRIOR_TELLS = 1.3
"""Improvement of the fit below which it is the masses that tell."""


def finding_of(robot: Robot, told: dict[str, Any]) -> Finding:
    """Return the finding for what `Trial.told` returns."""
    change: Change = told['change']
    what = named(robot, change)
    improvement = told['before'] / max(told['after'], 1e-6)
    fits = (
        f'fits {improvement:.2g} times better with {what}: the residual of {told["joint"]} falls '
        f'from {100.0 * told["before"]:.3g} to {100.0 * told["after"]:.3g} % of its effort'
    )
    masses = (
        f'the masses fitted are {told["total_mass"]:.3g} kg together, those of the URDF '
        f'{told["prior_total_mass"]:.3g} kg'
    )
    if change.code == 'payload':
        evidence = (
            f'the last link, {robot.links[-1]}, has {told["mass"]:.3g} kg by the efforts, '
            f'{told["prior_mass"]:.3g} kg by the URDF'
        )
    elif change.code == 'effort_kind':
        evidence = f'{masses}; they agree with {what}'
    elif improvement < _PRIOR_TELLS:
        evidence = f'the links come much nearer to the URDF with {what}'
    else:
        evidence = fits
    return Finding(
        code=change.code,
        joints=tuple(robot.joints[j] for j in change.joints),
        evidence=evidence,
        remedy=_REMEDIES[change.code].format(
            gravity=_vector(change), degrees=f'{np.degrees(change.size):.3g}'
        ),
        change=what,
        improvement=float(improvement) if evidence is fits else None,
    )


def named(robot: Robot, change: Change) -> str:
    """Return a change in a few words."""
    joints = [robot.joints[j] for j in change.joints]
    return _CHANGES[change.code].format(
        joint=joints[0] if joints else '',
        both=' and '.join(joints),
        size=f'{change.size:.3g}',
        milliseconds=f'{1e3 * abs(change.size):.0f}',
        way='late' if change.size > 0.0 else 'early',
        degrees=f'{np.degrees(change.size):.3g}',
        gravity=_vector(change),
    )


def _vector(change: Change) -> str:
    values = change.gravity or ()
    return '[' + ', '.join(f'{value:.2f}' for value in values) + ']'


_CHANGES = {
    'effort_sign': 'the effort of {joint} negated',
    'position_sign': 'the position of {joint} negated',
    'axis_reversed': 'position and effort of {joint} negated',
    'effort_scale': 'the effort of {joint} times {size}',
    'effort_kind': 'all efforts times {size}',
    'positions_swapped': 'the positions of {both} exchanged',
    'efforts_swapped': 'the efforts of {both} exchanged',
    'joints_swapped': 'positions and efforts of {both} exchanged',
    'position_offset': '{degrees} degrees added to the position of {joint}',
    'degrees': 'positions taken from degrees to radians',
    'effort_delay': 'efforts taken as {milliseconds} ms {way}',
    'gravity_direction': 'gravity along {gravity}',
    'gravity_compensated': 'no gravity in the efforts',
    'payload': 'a load on the last link',
}

_POSITION = 'robot.drives.position'
_EFFORT = 'robot.drives.effort'

_REMEDIES = {
    'effort_sign': f'negate its row in {_EFFORT}.matrix',
    'position_sign': f'negate its row in {_POSITION}.matrix',
    'axis_reversed': f'negate its rows in {_POSITION}.matrix and {_EFFORT}.matrix, or its axis in '
    'the URDF',
    'effort_scale': f'put the factor into {_EFFORT}.matrix (gear ratio, torque constant)',
    'effort_kind': f'set robot.effort_kind, and gear ratios or torque constants in '
    f'{_EFFORT}.matrix',
    'positions_swapped': 'mend the order of the columns in data.*.position, or of robot.joints',
    'efforts_swapped': 'mend the order of the columns in data.*.effort',
    'joints_swapped': 'mend the order of robot.joints',
    'position_offset': f"add it to {_POSITION}.offset, or mend the joint's zero in the URDF",
    'degrees': f'put pi/180 = 0.0174533 into {_POSITION}.matrix',
    'effort_delay': 'record efforts and positions with the same stamps; a low-pass of the efforts '
    'in the driver delays them, too',
    'gravity_direction': 'set robot.gravity to {gravity}, or mend the base of the URDF',
    'gravity_compensated': 'record efforts with gravity, or set robot.gravity to [0, 0, 0]',
    'payload': 'take the load off, or add it to the URDF; recordings with a load belong into '
    'data.payload or data.known_load',
}
