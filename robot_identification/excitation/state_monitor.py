# SPDX-License-Identifier: Apache-2.0
"""
Plausibility of joint states, one after the other.

A joint state is accepted if the robot can have come to it from the last accepted one.  Messages
may be false: of a second publisher, a driver that repeats or mixes up values, a stamp that
jitters.  Only accepted states count for those who command the robot.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from ..errors import ExcitationError
from .limits import joint_units, Limits, motion_limits

if TYPE_CHECKING:
    # both load Pinocchio, which the process that streams commands does not need
    from ..model.robot import Robot
    from .settings import PlannerSettings

POSITION_SLACK = 0.05
"""How far outside the URDF's position limits a robot may stand [rad or m]."""

POSITION_NOISE = 0.02
"""Difference of positions that is explained by noise and quantisation [rad or m]."""

MOTION_FACTOR = 1.5
"""Factor on velocity and acceleration limits within which a motion is believed."""

SPEED_SPAN = 0.05
"""Time over which the speed before a joint state is determined [s]."""

STAMP_SLACK = 0.05
"""How far ahead of the time that has passed a stamp may be, at least [s]."""

STAMP_PERIODS = 3.0
"""The same, in periods of the joint states."""

STAMP_RATE = 3.0
"""How much faster than before the time of the stamps may pass."""

RATE_SPAN = 0.2
"""Time over which the rate of the stamps is determined, at least [s]."""

KEPT_STATES = 128
"""Accepted joint states that are kept, at least."""

MOST_KEPT = 4096
"""The same, at most."""


def state_bounds(robot: Robot, settings: PlannerSettings) -> Limits:
    """
    Return the bounds of a robot's joint states, infinite where there is none.

    Parameters
    ----------
    robot:
        Gives the position limits.
    settings:
        Give velocity and acceleration limits where the URDF does not.  Where neither does, or they
        contradict each other, motions are not bounded: none is executed then, either.

    """
    velocity = acceleration = infinite = np.full(robot.n_joints, np.inf)
    with suppress(ExcitationError):
        limits = motion_limits(robot, settings, margin=0.0)
        velocity = np.maximum(limits.velocity, robot.limits.velocity)
        acceleration = limits.acceleration
    urdf = robot.limits
    units = joint_units(robot)
    return Limits(robot.joints, units, urdf.lower, urdf.upper, velocity, acceleration, infinite)


class StateMonitor:
    r"""
    Acceptance of joint states by what the robot can have done since the last accepted one.

    With the last accepted position :math:`q_0`, speed :math:`|v_0|` and the time :math:`t` since
    then, a position :math:`q` is reachable if

    .. math:: |q - q_0| \le \epsilon + f t \min(v_{max}, |v_0| + f a_{max} t)

    with `POSITION_NOISE` :math:`\epsilon` and `MOTION_FACTOR` :math:`f`.  A robot that stops
    abruptly, in a collision, stays within that.

    Parameters
    ----------
    bounds:
        Limits of the robot.

    """

    def __init__(self, bounds: Limits) -> None:
        self._bounds = bounds
        self.restart()

    def restart(self) -> None:
        """Forget the states so far: the next one within the position limits is accepted."""
        self._accepted: deque[tuple[float, float, np.ndarray]] = deque(maxlen=MOST_KEPT)

    def fault(self, stamp: float, published: float, position: np.ndarray) -> str:
        """
        Return why a joint state is not accepted; accept it and return '' otherwise.

        Parameters
        ----------
        stamp:
            Of the message; NaN for none [s].
        published:
            When it was published, by a steady clock [s].
        position:
            (n_joints,) finite [rad or m].

        """
        fault = self._outside(position)
        if not fault and self._accepted:
            fault = self._mistimed(stamp, published) or self._unreachable(
                stamp, published, position
            )
        if not fault:
            self._accept(stamp, published, position)
        return fault

    def _accept(self, stamp: float, published: float, position: np.ndarray) -> None:
        """Keep a joint state, and those before it for twice `RATE_SPAN`."""
        accepted = self._accepted
        accepted.append((stamp, published, position))
        while len(accepted) > KEPT_STATES and published - accepted[1][1] >= 2.0 * RATE_SPAN:
            accepted.popleft()

    def _outside(self, position: np.ndarray) -> str:
        lower, upper = self._bounds.lower, self._bounds.upper
        beyond = np.maximum(lower - position, position - upper)
        worst = int(beyond.argmax())
        if beyond[worst] <= POSITION_SLACK:
            return ''
        return (
            f"joint '{self._bounds.joints[worst]}' is at {position[worst]:.4g}, outside its "
            f'position limits of {lower[worst]:.4g} to {upper[worst]:.4g}'
        )

    def _mistimed(self, stamp: float, published: float) -> str:
        """Return what is wrong with the stamp; '' for nothing, or where there are no stamps."""
        before, then, _ = self._accepted[-1]
        step = stamp - before
        if not np.isfinite(step):
            mixed = np.isfinite(stamp) or np.isfinite(before)
            return 'some joint states have stamps, others have none' if mixed else ''
        if step <= 0.0:
            return f'a stamp is {-step:.3g} s before the one before it'
        first, last = self._accepted[0], self._accepted[-1]
        if last[1] - first[1] < RATE_SPAN:
            return ''  # how fast the stamps' time passes, that of a simulation, is not yet known
        rate = (last[0] - first[0]) / (last[1] - first[1])
        slack = max(STAMP_SLACK, STAMP_PERIODS * (last[0] - first[0]) / (len(self._accepted) - 1))
        passed = max(published - then, 0.0)
        if step <= slack + STAMP_RATE * max(rate, 1.0) * passed:
            return ''
        # the last one may itself have been published late: compare with the others, too
        rate = self._rate_before_last()
        if any(stamp - each[0] <= slack + rate * (published - each[1]) for each in self._accepted):
            return ''
        return f'a stamp is {step:.3g} s after the one before it, which came {passed:.3g} s ago'

    def _rate_before_last(self) -> float:
        """Return how fast the time of the stamps passed up to the last accepted state but one."""
        first, last = self._accepted[0], self._accepted[-2]
        return (last[0] - first[0]) / max(last[1] - first[1], 1e-9)

    def _unreachable(self, stamp: float, published: float, position: np.ndarray) -> str:
        bounds, (_, _, before) = self._bounds, self._accepted[-1]
        passed = self._passed(self._accepted[-1], stamp, published)
        speed = np.minimum(
            bounds.velocity, self._speed() + MOTION_FACTOR * bounds.acceleration * passed
        )
        with np.errstate(invalid='ignore'):
            reach = POSITION_NOISE + MOTION_FACTOR * speed * passed
        away = np.abs(position - before)
        beyond = away - np.where(np.isnan(reach), np.inf, reach)
        worst = int(beyond.argmax())
        if beyond[worst] <= 0.0:
            return ''
        return (
            f"joint '{bounds.joints[worst]}' is {away[worst]:.4g} from where it was "
            f'{passed:.3g} s before, farther than its limits allow'
        )

    def _speed(self) -> np.ndarray:
        """Return the speed at the last accepted state (n_joints,); the limit where unknown."""
        last = self._accepted[-1]
        for earlier in reversed(self._accepted):
            passed = self._passed(earlier, *last[:2])
            if passed >= SPEED_SPAN:
                return np.abs(last[2] - earlier[2]) / passed
        return self._bounds.velocity

    @staticmethod
    def _passed(earlier: tuple[float, float, np.ndarray], stamp: float, published: float) -> float:
        step = stamp - earlier[0]
        return max(step if np.isfinite(step) else published - earlier[1], 0.0)
