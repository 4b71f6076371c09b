# SPDX-License-Identifier: Apache-2.0
"""Hypotheses on what is wrong with recordings: corrections that would undo faults."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, permutations

import numpy as np

from ..data.recording import Motion
from .recording_faults import DELAYS, DiagnosisSamples


@dataclass(frozen=True)
class Candidates:
    """Changes that are tried."""

    neighbours: int = 2
    """Joints further apart than that are not exchanged on robots of many joints."""
    many: int = 8
    """More joints than that are many."""
    angles: tuple[float, ...] = (-135.0, -90.0, -45.0, -20.0, 20.0, 45.0, 90.0, 135.0, 180.0)
    """Offsets of a joint that turns [degrees]."""
    scales: tuple[float, ...] = (1e-3, 1 / 64, 1 / 12, 0.35, 0.78, 1.28, 2.8, 12.0, 64.0, 1e3)
    """Factors of one joint's effort."""
    common_scales: tuple[float, ...] = (1e-3, 1e-2, 0.1, 1.0 / 3.0, 3.0, 10.0, 100.0, 1000.0)
    """Factors of all efforts."""
    time_scales: tuple[float, ...] = (0.05, 0.1, 0.2, 0.5, 0.7, 1.4, 2.0, 5.0, 10.0, 20.0)
    """Factors of the rate at which samples were taken."""
    gears: tuple[float, ...] = (0.1, 0.5, 0.75, 1.33, 2.0, 10.0)
    """Factors of one joint's position."""
    couplings: tuple[float, ...] = (-1.0, -0.4, 0.4, 1.0)
    """Shares of the effort of one motor that another one bears."""
    closer: float = 1.4
    """Factor around those of time and position, where sizes are looked for."""
    around: tuple[float, float] = (np.radians(25.0), 3.2)
    """Angle [rad] and factor around those tried, where sizes are looked for."""
    on_axis: float = 2.0
    """Angle to an axis below which gravity is along it: tilts are estimated [degrees]."""


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
    rate:
        Factor of the rate at which samples were taken.
    weight:
        Share of the prior's gravity that is added to the efforts.

    """

    code: str
    joints: tuple[int, ...] = ()
    size: float = 0.0
    position: np.ndarray | None = None
    effort: np.ndarray | None = None
    offset: np.ndarray | None = None
    gravity: tuple[float, ...] | None = None
    rate: float = 1.0
    weight: float = 0.0

    @property
    def moves(self) -> bool:
        """True where the motion is another one with it, and not the efforts alone."""
        return self.position is not None or self.offset is not None or self.rate != 1.0

    def motion(self, motion: Motion) -> Motion:
        """Return the motion without the fault."""
        states = motion.position, motion.velocity, motion.acceleration
        if self.position is not None:
            states = tuple(state @ self.position.T for state in states)
        offset = 0.0 if self.offset is None else self.offset
        return Motion(states[0] + offset, self.rate * states[1], self.rate**2 * states[2])

    def efforts(self, observed: DiagnosisSamples) -> np.ndarray:
        """Return the (m, n) efforts without the fault."""
        recorded = self.recorded(observed)
        if observed.weight is None or not self.weight:
            return recorded
        return recorded + self.weight * observed.weight

    def recorded(self, observed: DiagnosisSamples) -> np.ndarray:
        """Return the (m, n) part of these that was recorded: residuals are by its spread."""
        effort = observed.moved[self.size if self.code == 'effort_delay' else 0.0]
        return effort if self.effort is None else effort @ self.effort.T

    def effort_columns(self, n: int) -> np.ndarray:
        """Return the columns of the n joints' recorded efforts."""
        return np.arange(n) if self.effort is None else np.abs(self.effort).argmax(axis=1)

    def in_words(self, names: Sequence[str]) -> tuple[str, str]:
        """Return what undoes the fault, and what mends it, for all joints' names."""
        joints = [names[j] for j in self.joints]
        words = {
            'joint': joints[0] if joints else '',
            'second': joints[-1] if joints else '',
            'both': ' and '.join(joints),
            'size': f'{self.size:.3g}',
            'minus': f'{-self.size:.3g}',
            'milliseconds': f'{1e3 * abs(self.size):.0f}',
            'way': 'late' if self.size > 0.0 else 'early',
            'degrees': f'{np.degrees(self.size):.3g}',
            'gravity': _vector(nearest_axis(np.array(self.gravity or np.zeros(3)))),
        }
        what, remedy = (text.format(**words) for text in _WORDS[self.code])
        return what, remedy

    def resized(self, step: float) -> Correction | None:
        """Return the same by another size, for steps from -1 to 1; None where it has no size."""
        angle, factor = CANDIDATES.around
        if self.offset is not None:
            return position_offset(self.offset.size, self.joints[0], self.size + step * angle)
        if self.code == 'time_scale':
            return time_scale(self.size * CANDIDATES.closer**step)
        if self.code == 'position_scale' and self.position is not None:
            return position_scale(
                len(self.position), self.joints[0], self.size * CANDIDATES.closer**step
            )
        if self.code in _COUPLED and self.effort is not None:
            driven, other = self.joints
            size = self.size * CANDIDATES.closer ** float(step * np.sign(self.size))
            return _COUPLED[self.code](len(self.effort), driven, other, size)
        if self.effort is None or self.code not in ('effort_scale', 'effort_kind'):
            return None
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
    for j in every:
        for scale in CANDIDATES.gears:
            yield position_scale(n, j, scale)
    if n <= CANDIDATES.many:
        for a, b in permutations(every, 2):
            if abs(a - b) == 1:
                for coefficient in CANDIDATES.couplings:
                    yield coupled_drives(n, a, b, coefficient)
    for scale in CANDIDATES.time_scales:
        yield time_scale(scale)
    yield Correction('effort_signs', effort=_scaled(n, every, -1.0))
    for scale in CANDIDATES.common_scales:
        yield effort_scale(n, (), scale)
    for late in DELAYS:
        yield Correction('effort_delay', size=late)
    if turning:
        yield Correction('degrees', position=_scaled(n, turning, np.pi / 180.0))
    size = float(np.linalg.norm(gravity)) or 9.81
    axes = (tuple(sign * size * axis) for axis in np.eye(3) for sign in (1, -1))
    yield gravity_change((0.0, 0.0, 0.0))
    # a driver's model of gravity may be as wrong as the URDF's
    yield Correction('gravity_compensated', weight=1.0)
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


def coupled_efforts(n: int, driven: int, other: int, coefficient: float) -> Correction:
    """Return the change that adds so much of another joint's effort to one of n joints."""
    effort = np.eye(n)
    effort[driven, other] = coefficient
    return Correction('coupled_efforts', (driven, other), coefficient, effort=effort)


def coupled_drives(n: int, driven: int, other: int, coefficient: float) -> Correction:
    """Return the same for recordings of motors: positions change so that the power does not."""
    efforts = coupled_efforts(n, driven, other, coefficient)
    position = np.eye(n)
    position[other, driven] = -coefficient
    return replace(efforts, code='coupled_drives', position=position)


def time_scale(factor: float) -> Correction:
    """Return the change to samples that were taken at another rate."""
    return Correction('time_scale', size=factor, rate=factor)


def position_scale(n: int, joint: int, factor: float) -> Correction:
    """Return the change that multiplies the position of one of n joints."""
    return Correction('position_scale', (joint,), factor, position=_scaled(n, [joint], factor))


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


_COUPLED = {'coupled_efforts': coupled_efforts, 'coupled_drives': coupled_drives}


def _vector(values: np.ndarray) -> str:
    return '[' + ', '.join(f'{value + 0.0:.2f}' for value in values) + ']'


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
        f"add it to {_POSITION}.offset (matrix: identity), or mend the joint's zero in the URDF",
    ),
    'position_scale': (
        'the position of {joint} times {size}',
        f'put the factor into {_POSITION}.matrix (gear ratio, ticks a turn)',
    ),
    'coupled_efforts': (
        '{size} times the effort of {second} added to that of {joint}',
        f'put {{size}} into {_EFFORT}.matrix, in the row of {{joint}} and the column of '
        '{second}',
    ),
    'coupled_drives': (
        '{joint} and {second} driven by coupled motors ({size} times the effort of {second} added '
        'to that of {joint})',
        f'put {{size}} into {_EFFORT}.matrix, in the row of {{joint}} and the column of '
        f'{{second}}, and {{minus}} into {_POSITION}.matrix, in the row of {{second}} and the '
        'column of {joint}',
    ),
    'time_scale': (
        'samples taken {size} times as often as the stamps say',
        'mend data.*.rate or the time stamps (time_unit)',
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
