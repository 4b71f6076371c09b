# SPDX-License-Identifier: Apache-2.0
"""
The last word before a robot moves: whether a trajectory keeps all limits and is free of collision.

Nothing here trusts the planner; any trajectory can be checked, however it came about.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..errors import ExcitationError
from ..model.robot import Robot
from .collision_check import check_collisions, Nearest, nearest_first
from .collisions import CollisionModel
from .extremes import (
    Effort,
    Extremes,
    extremes,
    largest_efforts,
    LEAST_RATE,
    nominal_effort,
    QUANTITIES,
)
from .limits import Limits
from .trajectories import Trajectory

JUMP_SECONDS = 1e-4
"""Jumps of the acceleration are rounding where the jerk limit makes them in this time [s]."""

_ROUNDING = 1e-9
_JERK_ROUNDING = 1e-6


class LimitViolation(ExcitationError):
    """
    A trajectory that leaves a limit.

    Beside `joint`, `key` is the quantity and `value` its value; `limit` and `time` [s] say more.
    """

    limit: float
    time: float


@dataclass(frozen=True)
class LimitUse:
    """
    Largest share of each limit that a trajectory uses, 1 being all of it.

    Attributes
    ----------
    joints:
        Names.
    position:
        (n_joints,) largest distance from the middle of the range, over half of the range.
    velocity, acceleration, jerk, effort:
        (n_joints,) largest size over the limit; 0 where there is no limit.

    """

    joints: tuple[str, ...]
    position: np.ndarray
    velocity: np.ndarray
    acceleration: np.ndarray
    jerk: np.ndarray
    effort: np.ndarray

    @property
    def quantities(self) -> dict[str, np.ndarray]:
        """The shares by the name of their quantity."""
        return {name: getattr(self, name) for name in (*QUANTITIES, 'effort')}

    def summary(self) -> str:
        """Say in a line which joint uses most of each limit."""
        parts = []
        for name, shares in self.quantities.items():
            joint = int(np.argmax(shares))
            parts.append(f'{name} {100.0 * shares[joint]:.0f} % ({self.joints[joint]})')
        return f'limits used: {", ".join(parts)}'

    def joined(self, other: LimitUse) -> LimitUse:
        """Return the larger share of both."""
        pairs = (
            (name, np.maximum(a, getattr(other, name))) for name, a in self.quantities.items()
        )
        return LimitUse(self.joints, **dict(pairs))


@dataclass(frozen=True)
class Findings:
    """
    Findings of a check that a trajectory has passed.

    Attributes
    ----------
    use:
        Shares of the limits.
    nearest:
        Where links came closest to each other, and where to an obstacle, the nearest first; empty
        where that was not checked.

    """

    use: LimitUse
    nearest: tuple[Nearest, ...] = ()

    def summary(self) -> str:
        """Return a line on both."""
        near = ', '.join(nearest.summary() for nearest in self.nearest)
        return self.use.summary() + (f'; smallest distance {near}' if near else '')

    def joined(self, later: Findings, delay: float) -> Findings:
        """Return what was found on this and then, after ``delay`` [s], on another trajectory."""
        delayed = [nearest.delayed(delay) for nearest in later.nearest]
        return Findings(self.use.joined(later.use), nearest_first([*self.nearest, *delayed]))


def check_trajectory(
    robot: Robot,
    trajectory: Trajectory,
    limits: Limits,
    *,
    rate: float = 500.0,
    effort: Effort | None = None,
    collisions: CollisionModel | None = None,
) -> Findings:
    """
    Check every limit and, where ``collisions`` is given, that links keep their distance.

    Positions, velocities, accelerations and jerks are checked at all times: between points, a
    motion is a polynomial, whose extremes are known (`extremes`).

    Parameters
    ----------
    robot:
        The robot.
    trajectory:
        Any trajectory of its joints, in its order; it has to begin and end at rest.
    limits:
        Limits in force.
    rate:
        Samples per second, at least 250 [Hz], at which efforts are looked at, and more densely
        where they come near their limits (`largest_efforts`); and of a trajectory that is not made
        of polynomials.
    effort:
        Predicts efforts; default by the URDF's parameters.
    collisions:
        The robot's collision model.  Positions are looked at so densely that no point of the robot
        moves by more than the clearance from one to the next (`sweep`), so the shapes stay clear
        of each other in between.

    Returns
    -------
    Findings
        Shares of the limits, and the smallest distance.

    Raises
    ------
    LimitViolation
        naming joint, quantity, value, limit and time.
    CollisionError
        naming the links and the time.
    ExcitationError
        where the joints are not the robot's, or the ends are not at rest.

    """
    if trajectory.joints != robot.joints:
        raise ExcitationError(
            f'the trajectory moves {", ".join(trajectory.joints)}',
            value=trajectory.joints,
            remedy=f'it has to move {", ".join(robot.joints)}, in this order',
        )
    check_rest(trajectory)
    reached = extremes(trajectory, max(rate, LEAST_RATE))
    check_motion(reached, limits)
    efforts, times = largest_efforts(
        trajectory, effort or nominal_effort(robot), limits.effort, rate
    )
    _require('effort', efforts, times, limits.effort, limits)
    nearest = check_collisions(trajectory, collisions) if collisions is not None else ()
    return Findings(_use(reached, efforts, limits), nearest)


def check_rest(trajectory: Trajectory, tolerance: float = 1e-6) -> None:
    """Raise `ExcitationError` where the trajectory's first or last velocity is not zero."""
    motion = trajectory.sample(np.array([0.0, trajectory.duration]))
    for row, end in enumerate(('start', 'end')):
        speed = np.abs(motion.velocity[row])
        if speed.max() > tolerance:
            joint = trajectory.joints[int(speed.argmax())]
            raise ExcitationError(
                f"joint '{joint}' moves at {speed.max():.3g} at the {end} of the trajectory",
                joint=joint,
                key='velocity',
                value=float(speed.max()),
                remedy='begin and end at rest',
            )


def check_motion(reached: Extremes, limits: Limits) -> None:
    """
    Check position, velocity, acceleration and jerk.

    Parameters
    ----------
    reached:
        What the motion reaches.
    limits:
        Limits in force.

    Raises
    ------
    LimitViolation
        where a limit is exceeded most.

    """
    slack = _ROUNDING * np.maximum(1.0, np.abs(reached.highest[0]))
    over = reached.highest[0] - slack > limits.upper
    _raise_worst(
        'position', over, reached.highest[0], reached.highest_time[0], limits.upper, limits
    )
    slack = _ROUNDING * np.maximum(1.0, np.abs(reached.lowest[0]))
    under = reached.lowest[0] + slack < limits.lower
    _raise_worst(
        'position', under, reached.lowest[0], reached.lowest_time[0], limits.lower, limits
    )
    _require('velocity', *reached.largest(1), limits.velocity, limits)
    _require('acceleration', *reached.largest(2), limits.acceleration, limits)
    _check_jumps(reached, limits)
    _require('jerk', *reached.largest(3), limits.jerk, limits, _JERK_ROUNDING)


def _check_jumps(reached: Extremes, limits: Limits) -> None:
    """Refuse jumps of the acceleration, which no drive can follow, where jerks are limited."""
    with np.errstate(invalid='ignore'):
        excess = reached.jump - JUMP_SECONDS * limits.jerk
    j = int(np.argmax(excess))
    if excess[j] <= 0.0:
        return
    unit = limits.unit('acceleration', j)
    error = LimitViolation(
        f"acceleration of joint '{limits.joints[j]}' jumps by {reached.jump[j]:.6g} {unit} at "
        f'{reached.jump_time[j]:.3f} s: its jerk is infinite there, and its limit is '
        f'{limits.jerk[j]:.6g} {limits.unit("jerk", j)}',
        joint=limits.joints[j],
        key='jerk',
        value=float('inf'),
        remedy='give the points accelerations, zero at both ends, or no jerk limit '
        '(jerk_limits empty, jerk_time none)',
    )
    error.limit, error.time = float(limits.jerk[j]), float(reached.jump_time[j])
    raise error


def _require(
    quantity: str,
    values: np.ndarray,
    times: np.ndarray,
    limit: np.ndarray,
    limits: Limits,
    rounding: float = _ROUNDING,
) -> None:
    over = np.abs(values) * (1.0 - rounding) > limit
    _raise_worst(quantity, over, values, times, limit, limits)


def _raise_worst(
    quantity: str,
    over: np.ndarray,
    values: np.ndarray,
    times: np.ndarray,
    limit: np.ndarray,
    limits: Limits,
) -> None:
    """Raise for the joint that is ``over`` its limit by most, if any is."""
    if not over.any():
        return
    excess = np.where(over, np.abs(np.abs(values) - np.abs(limit)), -np.inf)
    j = int(np.argmax(excess))
    unit = limits.unit(quantity, j)
    error = LimitViolation(
        f"{quantity} of joint '{limits.joints[j]}' is {values[j]:.6g} {unit} at "
        f'{times[j]:.3f} s, beyond its limit of {limit[j]:.6g} {unit}',
        joint=limits.joints[j],
        key=quantity,
        value=float(values[j]),
        remedy=_remedy(quantity),
    )
    error.limit, error.time = float(limit[j]), float(times[j])
    raise error


def _remedy(quantity: str) -> str:
    if quantity == 'effort':
        return 'move slower or with less reach, or correct inertias, limit or effort_margin'
    return 'plan within the limits, or correct the limit if it is wrong'


def _use(reached: Extremes, efforts: np.ndarray, limits: Limits) -> LimitUse:
    bounded = np.isfinite(limits.lower) & np.isfinite(limits.upper)
    with np.errstate(invalid='ignore'):
        middle, half = (limits.lower + limits.upper) / 2.0, (limits.upper - limits.lower) / 2.0
        away = np.maximum(reached.highest[0] - middle, middle - reached.lowest[0]) / half
    velocity, acceleration, jerk = (
        np.abs(reached.largest(order)[0]) / limit
        for order, limit in ((1, limits.velocity), (2, limits.acceleration), (3, limits.jerk))
    )
    return LimitUse(
        joints=limits.joints,
        position=np.where(bounded, away, 0.0),
        velocity=velocity,
        acceleration=acceleration,
        jerk=jerk,
        effort=np.abs(efforts) / limits.effort,
    )
