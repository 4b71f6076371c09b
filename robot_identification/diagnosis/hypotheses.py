# SPDX-License-Identifier: Apache-2.0
"""
Hypotheses on what is wrong with recordings, and faults: those that fit, in words.

A hypothesis is one correction, which would undo the fault; a fault tells what fits better, by how
much, and which key mends it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from ..data.recording import Motion
from ..model.robot import Robot
from .recording_faults import DiagnosisSamples, LIMITS, RecordingFault


@dataclass(frozen=True)
class Candidates:
    """Changes that are tried."""

    neighbours: int = 2
    """Joints further apart than that are not exchanged on robots of many joints."""
    many: int = 8
    """More joints than that are many."""
    angles: tuple[float, ...] = (-135.0, -90.0, -45.0, -20.0, 20.0, 45.0, 90.0, 135.0, 180.0)
    """Offsets of a joint that turns [degrees]."""
    scales: tuple[float, ...] = (1.0 / 64.0, 1.0 / 16.0, 0.25, 0.78, 1.28, 4.0, 16.0, 64.0)
    """Factors of one joint's effort."""
    common_scales: tuple[float, ...] = (1e-3, 1e-2, 0.1, 1.0 / 3.0, 3.0, 10.0, 100.0, 1000.0)
    """Factors of all efforts."""
    around_moderate: float = 2.2
    """Factor around a moderate one."""
    around: tuple[float, float] = (np.radians(25.0), 4.0)
    """Angle [rad] and factor around those tried, where sizes are looked for."""
    moderate: float = 2.0
    """Factor of one joint's effort up to which it is moderate."""
    on_axis: float = 2.0
    """Angle to an axis below which gravity is along it: tilts are estimated [degrees]."""
    by_masses: float = 1.3
    """Improvement of the fit below which it is the masses that show it."""


CANDIDATES = Candidates()


@dataclass(frozen=True)
class Correction:
    """
    A change of the samples or of gravity that undoes a fault; joints are columns.

    Attributes
    ----------
    code:
        Kind of the fault.
    joints:
        That it concerns; empty for all.
    size:
        In the unit of its kind: s, rad, or a factor; 0 where it has none.
    position, effort:
        (n, n), from what was recorded to what would have been without the fault; None as it is.
    offset:
        (n,) added to the positions after that [rad]; None for nothing.
    gravity:
        (3,) in the base frame [m/s^2]; None as it is.

    """

    code: str
    joints: tuple[int, ...] = ()
    size: float = 0.0
    position: np.ndarray | None = None
    effort: np.ndarray | None = None
    offset: np.ndarray | None = None
    gravity: tuple[float, ...] | None = None

    @property
    def moves(self) -> bool:
        """True if the motion is another one."""
        return self.position is not None or self.offset is not None

    def motion(self, motion: Motion) -> Motion:
        """Return the motion without the fault."""
        states = motion.position, motion.velocity, motion.acceleration
        if self.position is not None:
            states = tuple(state @ self.position.T for state in states)
        offset = 0.0 if self.offset is None else self.offset
        return Motion(states[0] + offset, *states[1:])

    def efforts(self, observed: DiagnosisSamples) -> np.ndarray:
        """Return the (m, n) efforts without the fault."""
        effort = observed.moved[self.size if self.code == 'effort_delay' else 0.0]
        return effort if self.effort is None else effort @ self.effort.T

    def effort_columns(self, n: int) -> np.ndarray:
        """Return the columns of the n joints' recorded efforts."""
        return np.arange(n) if self.effort is None else np.abs(self.effort).argmax(axis=1)

    def resized(self, step: float) -> Correction | None:
        """Return the same by another size, for steps from -1 to 1; None where it has no size."""
        angle, factor = CANDIDATES.around
        if self.offset is not None:
            return position_offset(self.offset.size, self.joints[0], self.size + step * angle)
        if self.effort is None or self.code not in ('effort_scale', 'effort_kind'):
            return None
        if self.joints and 1.0 / CANDIDATES.moderate < self.size < CANDIDATES.moderate:
            factor = CANDIDATES.around_moderate
        return effort_scale(len(self.effort), self.joints, self.size * factor**step)


NONE = Correction('none')
"""Nothing is wrong."""


def hypotheses(gravity: np.ndarray, revolute: tuple[bool, ...]) -> Iterator[Correction]:
    """
    Iterate over all that is tried at first.

    Parameters
    ----------
    gravity:
        (3,) that the robot is said to have [m/s^2].
    revolute:
        (n,) whether joints turn.

    """
    n, every = len(revolute), range(len(revolute))
    turning = np.flatnonzero(revolute).tolist()
    for j in every:
        minus = _scaled(n, [j], -1.0)
        yield Correction('effort_sign', (j,), effort=minus)
        yield Correction('position_sign', (j,), position=minus)
        yield Correction('axis_reversed', (j,), position=minus, effort=minus)
        for scale in CANDIDATES.scales:
            yield effort_scale(n, (j,), scale)
    for a, b in combinations(every, 2):
        if n <= CANDIDATES.many or b - a <= CANDIDATES.neighbours:
            order = exchanged(n, a, b)
            yield Correction('positions_swapped', (a, b), position=order)
            yield Correction('efforts_swapped', (a, b), effort=order)
            yield Correction('joints_swapped', (a, b), position=order, effort=order)
    for j in turning:
        for angle in np.radians(CANDIDATES.angles):
            yield position_offset(n, j, float(angle))
    yield Correction('effort_signs', effort=_scaled(n, every, -1.0))
    for scale in CANDIDATES.common_scales:
        yield effort_scale(n, (), scale)
    for late in LIMITS.delays:
        yield Correction('effort_delay', size=late)
    if turning:
        yield Correction('degrees', position=_scaled(n, turning, np.pi / 180.0))
    size = float(np.linalg.norm(gravity)) or 9.81
    axes = (tuple(sign * size * axis) for axis in np.eye(3) for sign in (1, -1))
    yield gravity_change((0.0, 0.0, 0.0))
    for direction in sorted({tuple(-gravity), *axes} - {tuple(gravity)}):
        yield gravity_change(direction)


def _scaled(n: int, joints: Sequence[int], factor: float) -> np.ndarray:
    """Return (n, n) that multiplies the columns of some joints."""
    matrix = np.eye(n)
    matrix[joints, joints] = factor
    return matrix


def exchanged(n: int, first: int, second: int) -> np.ndarray:
    """Return (n, n) that exchanges the columns of two joints."""
    order = np.arange(n)
    order[[first, second]] = second, first
    return np.eye(n)[order]


def effort_scale(n: int, joints: tuple[int, ...], factor: float) -> Correction:
    """Return the change that multiplies the efforts of n joints, or of some of them."""
    effort = _scaled(n, joints or range(n), factor)
    return Correction('effort_scale' if joints else 'effort_kind', joints, factor, effort=effort)


def position_offset(n: int, joint: int, angle: float) -> Correction:
    """Return the change that adds an angle to a position of n [rad]."""
    return Correction('position_offset', (joint,), angle, offset=angle * np.eye(n)[joint])


def gravity_change(gravity: tuple[float, ...] | np.ndarray) -> Correction:
    """Return the change to another gravity [m/s^2]."""
    vector = tuple(float(value) + 0.0 for value in gravity)
    return Correction(
        'gravity_direction' if any(vector) else 'gravity_compensated', gravity=vector
    )


def nearest_axis(gravity: np.ndarray) -> np.ndarray:
    """Return gravity along an axis of the base that is within two degrees, or as it is."""
    axis, size = int(np.argmax(np.abs(gravity))), float(np.linalg.norm(gravity))
    if abs(gravity[axis]) < np.cos(np.radians(CANDIDATES.on_axis)) * size:
        return gravity
    found = np.zeros(3)
    found[axis] = np.copysign(size, gravity[axis])
    return found


def _vector(values: np.ndarray) -> str:
    return '[' + ', '.join(f'{value + 0.0:.2f}' for value in values) + ']'


def fault_of(
    robot: Robot,
    change: Correction,
    joint: str,
    residuals: tuple[float, float],
    masses: tuple[float, float],
    whole: float,
    gain: float,
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
    whole:
        Improvement of all efforts together.
    gain:
        How much less the correction costs [nats].

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
    improvement = before / max(after, 1e-6)
    if masses_tell := change.code == 'effort_kind':
        evidence = (
            f'the masses fitted are {masses[0]:.3g} kg together, those of the URDF '
            f'{masses[1]:.3g} kg; they agree with {what}'
        )
    elif improvement < CANDIDATES.by_masses:
        evidence = f'the links come much nearer to the URDF with {what}'
    else:
        evidence = (
            f'fits {improvement:.2g} times better with {what}: the residual of {joint} falls from '
            f'{100.0 * before:.3g} to {100.0 * after:.3g} % of its effort'
        )
    factor, deviation = None, None
    if change.code == 'effort_scale':
        # of a cost that is quadratic around its minimum
        factor = change.size
        deviation = float(factor * abs(np.log(factor)) / np.sqrt(2.0 * gain))
        evidence += f' (standard deviation of the factor {deviation:.2g})'
    return RecordingFault(
        change.code,
        evidence,
        remedy,
        tuple(joints),
        what,
        improvement=None if masses_tell or improvement < CANDIDATES.by_masses else improvement,
        whole=None if masses_tell else whole,
        factor=factor,
        deviation=deviation,
    )


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
}
"""A correction in a few words, and what mends the fault."""

EXPLANATIONS = frozenset({*_WORDS, 'payload'})
"""Codes of the faults that corrections undo, and of a load that was forgotten."""
