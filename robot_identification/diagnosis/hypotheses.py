# SPDX-License-Identifier: Apache-2.0
"""
Hypotheses on what is wrong with recordings, and faults: those that fit, in words.

A hypothesis is one correction, which would undo the fault; a fault tells what fits better, by how
much, and which key mends it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations

import numpy as np

from ..data.recording import Motion
from ..model.robot import Robot
from .recording_faults import DELAYS, DiagnosisSamples, RecordingFault

_NEIGHBOURS, _MANY = 2, 8
"""Joints further apart than that are not exchanged on robots with more joints than that."""

_ANGLES = np.radians([-135.0, -90.0, -45.0, -20.0, 20.0, 45.0, 90.0, 135.0, 180.0])
_SCALES = (1.0 / 64.0, 1.0 / 16.0, 0.25, 4.0, 16.0, 64.0)
_COMMON = (-1.0, 1e-3, 1e-2, 0.1, 1.0 / 3.0, 3.0, 10.0, 100.0, 1000.0)
_LOADS = (0.02, 0.06, 0.2, 0.6)


@dataclass(frozen=True)
class Correction:
    """
    A change of the samples, of gravity or of the load that undoes a fault; joints are columns.

    Attributes
    ----------
    code:
        Kind of the fault.
    joints:
        That it concerns; empty for all.
    size:
        In the unit of its kind: kg, s, rad, or a factor; 0 where it has none.
    position, effort:
        Column that is really a joint's, where it is another one.
    position_scale, position_offset, effort_scale:
        By joint, applied after that; positions as scale times position plus offset.
    gravity:
        (3,) in the base frame [m/s^2]; None as it is.

    """

    code: str
    joints: tuple[int, ...] = ()
    size: float = 0.0
    position: Mapping[int, int] = field(default_factory=dict)
    effort: Mapping[int, int] = field(default_factory=dict)
    position_scale: Mapping[int, float] = field(default_factory=dict)
    position_offset: Mapping[int, float] = field(default_factory=dict)
    effort_scale: Mapping[int, float] = field(default_factory=dict)
    gravity: tuple[float, ...] | None = None

    @property
    def load(self) -> float:
        """Mass on the last link [kg]."""
        return self.size if self.code == 'payload' else 0.0

    @property
    def moves(self) -> bool:
        """True if the motion is another one."""
        return bool(self.position or self.position_scale or self.position_offset)

    def motion(self, motion: Motion) -> Motion:
        """Return the motion without the fault."""
        n = motion.position.shape[1]
        order = [self.position.get(j, j) for j in range(n)]
        scale = np.array([self.position_scale.get(j, 1.0) for j in range(n)])
        offset = np.array([self.position_offset.get(j, 0.0) for j in range(n)])
        return Motion(
            motion.position[:, order] * scale + offset,
            motion.velocity[:, order] * scale,
            motion.acceleration[:, order] * scale,
        )

    def efforts(self, observed: DiagnosisSamples) -> np.ndarray:
        """Return the (m, n) efforts without the fault."""
        effort = observed.moved[self.size if self.code == 'effort_delay' else 0.0]
        n = effort.shape[1]
        scale = np.array([self.effort_scale.get(j, 1.0) for j in range(n)])
        return np.asarray(effort[:, self.effort_columns(n)] * scale)

    def effort_columns(self, n: int) -> list[int]:
        """Return the columns of the n joints' recorded efforts."""
        return [self.effort.get(j, j) for j in range(n)]


NONE = Correction('none')
"""Nothing is wrong."""


def hypotheses(
    gravity: np.ndarray, revolute: tuple[bool, ...], mass: float
) -> Iterator[Correction]:
    """
    Iterate over all that is tried at first.

    Parameters
    ----------
    gravity:
        (3,) that the robot is said to have [m/s^2].
    revolute:
        (n,) whether joints turn.
    mass:
        Of all links by the URDF [kg].

    """
    n = len(revolute)
    for j in range(n):
        yield Correction('effort_sign', (j,), effort_scale={j: -1.0})
        yield Correction('position_sign', (j,), position_scale={j: -1.0})
        yield Correction('axis_reversed', (j,), position_scale={j: -1.0}, effort_scale={j: -1.0})
        for scale in _SCALES:
            yield effort_scale(j, scale)
    for a, b in combinations(range(n), 2):
        if n <= _MANY or b - a <= _NEIGHBOURS:
            order = {a: b, b: a}
            yield Correction('positions_swapped', (a, b), position=order)
            yield Correction('efforts_swapped', (a, b), effort=order)
            yield Correction('joints_swapped', (a, b), position=order, effort=order)
    turning = np.flatnonzero(revolute).tolist()
    for j in turning:
        for angle in _ANGLES:
            yield position_offset(j, angle)
    for scale in _COMMON:
        yield effort_kind(n, scale)
    for late in DELAYS:
        yield Correction('effort_delay', size=late)
    if turning:
        yield Correction('degrees', position_scale=dict.fromkeys(turning, np.pi / 180.0))
    for share in _LOADS:
        yield Correction('payload', size=share * mass)
    size = float(np.linalg.norm(gravity)) or 9.81
    axes = (tuple(sign * size * axis) for axis in np.eye(3) for sign in (1, -1))
    yield along((0.0, 0.0, 0.0))
    for direction in sorted({tuple(-gravity), *axes} - {tuple(gravity)}):
        yield along(direction)


def position_offset(joint: int, angle: float) -> Correction:
    """Return the change that adds an angle to a position [rad]."""
    return Correction(
        'position_offset', (joint,), float(angle), position_offset={joint: float(angle)}
    )


def effort_scale(joint: int, scale: float) -> Correction:
    """Return the change that multiplies one joint's effort."""
    return Correction('effort_scale', (joint,), float(scale), effort_scale={joint: float(scale)})


def effort_kind(n: int, scale: float) -> Correction:
    """Return the change that multiplies all efforts."""
    code = 'effort_kind' if scale > 0.0 else 'effort_signs'
    return Correction(code, (), float(scale), effort_scale=dict.fromkeys(range(n), scale))


def along(gravity: tuple[float, ...] | np.ndarray) -> Correction:
    """Return the change to another gravity [m/s^2]."""
    vector = tuple(float(value) + 0.0 for value in gravity)
    return Correction(
        'gravity_direction' if any(vector) else 'gravity_compensated', gravity=vector
    )


def neighbours(change: Correction, ratio: float) -> tuple[Correction, ...]:
    """
    Return corrections of the same kind, a step smaller and larger; none where it has no size.

    Parameters
    ----------
    change:
        With a size.
    ratio:
        Step, by the first one of its kind.

    """
    size, factor = change.size, 4.0**ratio
    sizes = (size / factor, size * factor)
    if change.code == 'position_offset':
        step = np.radians(15.0) * ratio
        return tuple(position_offset(change.joints[0], s) for s in (size - step, size + step))
    if change.code == 'effort_scale':
        return tuple(effort_scale(change.joints[0], s) for s in sizes)
    if change.code == 'effort_kind':
        return tuple(effort_kind(len(change.effort_scale), s) for s in sizes)
    if change.code == 'payload':
        return tuple(replace(change, size=s) for s in sizes)
    return ()


def nearest_axis(gravity: np.ndarray) -> np.ndarray:
    """Return gravity along an axis of the base that is within two degrees, or as it is."""
    axis, size = int(np.argmax(np.abs(gravity))), float(np.linalg.norm(gravity))
    if abs(gravity[axis]) < np.cos(np.radians(_ON_AXIS)) * size:
        return gravity
    found = np.zeros(3)
    found[axis] = np.copysign(size, gravity[axis])
    return found


def _vector(values: np.ndarray) -> str:
    return '[' + ', '.join(f'{value + 0.0:.2f}' for value in values) + ']'


_ON_AXIS = 2.0
"""Angle to an axis below which gravity is along it: bases tilt, which is estimated [degrees]."""

_PRIOR_TELLS = 1.3
"""Improvement of the fit below which it is the masses that tell."""


def fault_of(
    robot: Robot,
    change: Correction,
    joint: str,
    residuals: tuple[float, float],
    masses: tuple[float, float],
    last: tuple[float, float],
) -> RecordingFault:
    """
    Return the fault that a correction undoes.

    Parameters
    ----------
    robot, change:
        The robot, and what fits better.
    joint, residuals:
        The joint that gains most, and its relative residual before and after.
    masses:
        Of all links without the correction by the efforts, and by the URDF [kg].
    last:
        The same of the last link, with the correction [kg].

    """
    joints = [robot.joints[j] for j in change.joints]
    words = {
        'joint': joints[0] if joints else '',
        'both': ' and '.join(joints),
        'size': f'{change.size:.3g}',
        'milliseconds': f'{1e3 * abs(change.size):.0f}',
        'way': 'late' if change.size > 0.0 else 'early',
        'degrees': f'{np.degrees(change.size):.3g}',
    }
    if change.code == 'gravity_direction':
        words['gravity'] = _vector(nearest_axis(np.array(change.gravity)))
    what, remedy = (text.format(**words) for text in _WORDS[change.code])
    before, after = residuals
    improvement = None
    if change.code == 'payload':
        evidence = (
            f'the last link, {robot.links[-1]}, has {last[0]:.3g} kg by the efforts, '
            f'{last[1]:.3g} kg by the URDF'
        )
    elif change.code == 'effort_kind':
        evidence = (
            f'the masses fitted are {masses[0]:.3g} kg together, those of the URDF '
            f'{masses[1]:.3g} kg; they agree with {what}'
        )
    elif before < _PRIOR_TELLS * max(after, 1e-6):
        evidence = f'the links come much nearer to the URDF with {what}'
    else:
        improvement = before / max(after, 1e-6)
        evidence = (
            f'fits {improvement:.2g} times better with {what}: the residual of {joint} falls from '
            f'{100.0 * before:.3g} to {100.0 * after:.3g} % of its effort'
        )
    return RecordingFault(change.code, evidence, remedy, what, tuple(joints), improvement)


_POSITION = 'robot.drives.position'
_EFFORT = 'robot.drives.effort'

_WORDS = {
    'effort_sign': (
        'the effort of {joint} negated',
        f'negate its row in {_EFFORT}.matrix',
    ),
    'position_sign': (
        'the position of {joint} negated',
        f'negate its row in {_POSITION}.matrix',
    ),
    'axis_reversed': (
        'position and effort of {joint} negated',
        f'negate its rows in {_POSITION}.matrix and {_EFFORT}.matrix, or its axis in the URDF',
    ),
    'effort_scale': (
        'the effort of {joint} times {size}',
        f'put the factor into {_EFFORT}.matrix (gear ratio, torque constant)',
    ),
    'effort_kind': (
        'all efforts times {size}',
        f'set robot.effort_kind, and gear ratios or torque constants in {_EFFORT}.matrix',
    ),
    'effort_signs': (
        'all efforts negated',
        f'put -1 on the diagonal of {_EFFORT}.matrix',
    ),
    'positions_swapped': (
        'the positions of {both} exchanged',
        'mend the order of the columns in data.*.position, or of robot.joints',
    ),
    'efforts_swapped': (
        'the efforts of {both} exchanged',
        'mend the order of the columns in data.*.effort',
    ),
    'joints_swapped': (
        'positions and efforts of {both} exchanged',
        'mend the order of robot.joints',
    ),
    'position_offset': (
        '{degrees} degrees added to the position of {joint}',
        f"add it to {_POSITION}.offset, or mend the joint's zero in the URDF",
    ),
    'degrees': (
        'positions taken from degrees to radians',
        f'put pi/180 = 0.0174533 into {_POSITION}.matrix',
    ),
    'effort_delay': (
        'efforts taken as {milliseconds} ms {way}',
        'record efforts and positions with the same stamps; a low-pass of the efforts in the '
        'driver delays them, too',
    ),
    'gravity_direction': (
        'gravity along {gravity}',
        'set robot.gravity to {gravity}, or mend the base of the URDF',
    ),
    'gravity_compensated': (
        'no gravity in the efforts',
        'record efforts with gravity, or set robot.gravity to [0, 0, 0]',
    ),
    'payload': (
        'a load on the last link',
        'take the load off, or add it to the URDF; recordings with a load belong into '
        'data.payload or data.known_load',
    ),
}
"""A correction in a few words, and what mends the fault."""

EXPLANATIONS = frozenset(_WORDS)
"""Codes of the faults that corrections undo."""
