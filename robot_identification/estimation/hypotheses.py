# SPDX-License-Identifier: Apache-2.0
"""
Hypotheses on what is wrong with recordings, and findings: those that fit, in words.

A hypothesis is one change, which would undo the fault; a finding tells what fits better, by how
much, and which key mends it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import combinations
from typing import Any

import numpy as np

from ..data.recording import Motion
from ..model.robot import Robot


@dataclass(frozen=True)
class Finding:
    """
    A fault that was found.

    Attributes
    ----------
    code:
        Its kind, one of those in docs/how_to/diagnosis.md.
    evidence:
        One sentence, with its number.
    remedy:
        The key of the experiment file, or the change, that mends it.
    change:
        What fits better, in a few words.
    joints:
        That it concerns; empty for all.
    improvement:
        How many times better held-out efforts are fitted with the change; None where no fit tells.
    alternatives:
        Findings that explain the recordings nearly as well.

    """

    code: str
    evidence: str
    remedy: str
    change: str
    joints: tuple[str, ...] = ()
    improvement: float | None = None
    alternatives: tuple[Finding, ...] = ()

    def __str__(self) -> str:
        changes = [other.change for other in self.alternatives]
        others = f' (or {", or ".join(changes)})' if changes else ''
        return f'{self.evidence}{others}: {self.remedy}'

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain numbers and texts."""
        return asdict(self)


_NEIGHBOURS, _MANY = 2, 8
"""Joints further apart than that are not exchanged on robots with more joints than that."""

_ANGLES = np.radians([-135.0, -90.0, -40.0, 40.0, 90.0, 135.0, 180.0])
_SCALES = (1.0 / 64.0, 1.0 / 16.0, 0.25, 4.0, 16.0, 64.0)
_COMMON = (1e-3, 1e-2, 0.1, 1.0 / 3.0, 3.0, 10.0, 100.0, 1000.0)
DELAYS = (-0.1, -0.07, -0.05, -0.03, -0.015, 0.015, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2)
"""By which efforts may be late [s]."""

_LOADS = (0.02, 0.06, 0.2, 0.6)


@dataclass(frozen=True)
class Observation:
    """
    Samples at the joints, few and evenly spread, low-passed.

    Attributes
    ----------
    motion:
        m samples.
    effort:
        (m, n) [N m or N].
    moved:
        (m, n) efforts so much later, by time [s].
    fold:
        (m,) int, the stretch of time that each is in, from 0 on.

    """

    motion: Motion
    effort: np.ndarray
    moved: Mapping[float, np.ndarray]
    fold: np.ndarray


@dataclass(frozen=True)
class Change:
    """
    A change that undoes a fault; joints are columns.

    Attributes
    ----------
    code:
        Kind of the fault.
    joints:
        That it concerns; empty for all.
    size:
        In the unit of its kind; 0 where it has none.
    position, effort:
        Column that is really a joint's, where it is another one.
    position_scale, position_offset, effort_scale:
        By joint, applied after that; positions as scale times position plus offset.
    gravity:
        (3,) in the base frame [m/s^2]; None as it is.
    load:
        Mass on the last link [kg].
    delay:
        By which all efforts are late [s].

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
    load: float = 0.0
    delay: float = 0.0

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

    def efforts(self, observed: Observation) -> np.ndarray:
        """Return the (m, n) efforts without the fault."""
        effort = observed.moved[self.delay] if self.delay else observed.effort
        n = effort.shape[1]
        scale = np.array([self.effort_scale.get(j, 1.0) for j in range(n)])
        return np.asarray(effort[:, [self.effort.get(j, j) for j in range(n)]] * scale)


NONE = Change('none')
"""Nothing is wrong."""


def hypotheses(gravity: np.ndarray, revolute: tuple[bool, ...], mass: float) -> Iterator[Change]:
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
        yield Change('effort_sign', (j,), effort_scale={j: -1.0})
        yield Change('position_sign', (j,), position_scale={j: -1.0})
        yield Change('axis_reversed', (j,), position_scale={j: -1.0}, effort_scale={j: -1.0})
        for scale in _SCALES:
            yield effort_scale(j, scale)
    yield from _exchanges(n)
    for j in np.flatnonzero(revolute).tolist():
        for angle in _ANGLES:
            yield position_offset(j, angle)
    for scale in _COMMON:
        yield effort_kind(n, scale)
    for late in DELAYS:
        yield Change('effort_delay', size=late, delay=late)
    turning = np.flatnonzero(revolute).tolist()
    if turning:
        yield Change('degrees', position_scale=dict.fromkeys(turning, np.pi / 180.0))
    for share in _LOADS:
        yield Change('payload', load=share * mass, size=share * mass)
    size = float(np.linalg.norm(gravity))
    yield along((0.0, 0.0, 0.0))
    if size > 0.0:
        directions = {tuple(-gravity), *(tuple(s * size * e) for e in np.eye(3) for s in (1, -1))}
        for direction in sorted(directions - {tuple(gravity)}):
            yield along(direction)
    else:
        for e in np.eye(3):
            yield along(tuple(9.81 * e))
            yield along(tuple(-9.81 * e))


def position_offset(joint: int, angle: float) -> Change:
    """Return the change that adds an angle to a position [rad]."""
    return Change('position_offset', (joint,), float(angle), position_offset={joint: float(angle)})


def effort_scale(joint: int, scale: float) -> Change:
    """Return the change that multiplies one joint's effort."""
    return Change('effort_scale', (joint,), float(scale), effort_scale={joint: float(scale)})


def effort_kind(n: int, scale: float) -> Change:
    """Return the change that multiplies all efforts."""
    return Change('effort_kind', (), float(scale), effort_scale=dict.fromkeys(range(n), scale))


def along(gravity: tuple[float, ...] | np.ndarray) -> Change:
    """Return the change to another gravity [m/s^2]."""
    vector = tuple(float(value) + 0.0 for value in gravity)
    return Change('gravity_direction' if any(vector) else 'gravity_compensated', gravity=vector)


def neighbours(change: Change, ratio: float) -> tuple[Change, ...]:
    """
    Return changes of the same kind, a step smaller and larger; none where it has no size.

    Parameters
    ----------
    change:
        With a size.
    ratio:
        Step, by the first one of its kind.

    """
    if change.code == 'position_offset':
        step = np.radians(15.0) * ratio
        (joint,) = change.joints
        return tuple(position_offset(joint, change.size + s * step) for s in (-1, 1))
    factor = 4.0**ratio
    if change.code == 'effort_scale':
        (joint,) = change.joints
        return tuple(effort_scale(joint, change.size * f) for f in (1.0 / factor, factor))
    if change.code == 'effort_kind':
        n = len(change.effort_scale)
        return tuple(effort_kind(n, change.size * f) for f in (1.0 / factor, factor))
    if change.code == 'payload':
        loads = (change.size / factor, change.size * factor)
        return tuple(replace(change, size=load, load=load) for load in loads)
    return ()


def _exchanges(n: int) -> Iterator[Change]:
    for a, b in combinations(range(n), 2):
        if n > _MANY and b - a > _NEIGHBOURS:
            continue
        order = {a: b, b: a}
        yield Change('positions_swapped', (a, b), position=order)
        yield Change('efforts_swapped', (a, b), effort=order)
        yield Change('joints_swapped', (a, b), position=order, effort=order)


_PRIOR_TELLS = 1.3
"""Improvement of the fit below which it is the masses that tell."""


def finding_of(robot: Robot, numbers: dict[str, Any]) -> Finding:
    """Return the finding with the numbers of `Trial.numbers`."""
    change: Change = numbers['change']
    what = named(robot, change)
    improvement = numbers['before'] / max(numbers['after'], 1e-6)
    fits = (
        f'fits {improvement:.2g} times better with {what}: the residual of '
        f'{numbers["joint"]} falls from {100.0 * numbers["before"]:.3g} to '
        f'{100.0 * numbers["after"]:.3g} % of its effort'
    )
    masses = (
        f'the masses fitted are {numbers["total_mass"]:.3g} kg together, those of the URDF '
        f'{numbers["prior_total_mass"]:.3g} kg'
    )
    if change.code == 'payload':
        evidence = (
            f'the last link, {robot.links[-1]}, has {numbers["mass"]:.3g} kg by the efforts, '
            f'{numbers["prior_mass"]:.3g} kg by the URDF'
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
