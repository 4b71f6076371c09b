# SPDX-License-Identifier: Apache-2.0
"""
Guards between the planned motion and the robot: commands that go to it, states that come from it.

All commands of all kinds of controllers pass here before they are sent: trajectories through
`CommandGate.admit`, single commands of streams through `CommandLimiter`.  Both hold a command
against the limits and against the last command that was sent, never against what is measured,
which may be false.

A joint state is accepted if the robot can have come to it from the last accepted one
(`StateMonitor`).  Messages may be false: of a second publisher, a driver that repeats or mixes up
values, a stamp that jitters.  Only accepted states count for those who command the robot.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from ..errors import ExcitationError
from .limits import joint_units, Limits, motion_limits
from .trajectories import PointTrajectory

if TYPE_CHECKING:
    # both load Pinocchio, which the process that streams commands does not need
    from ..model.robot import Robot
    from .settings import PlannerSettings

TOLERANCE = 1.05
"""Factor on the limits of velocity and acceleration that a command may reach."""

POSITION_TOLERANCE = 1e-3
"""How far beyond the position limits a command may be [rad or m]."""

SWITCH_WINDOW = 0.05
"""Time around the present within which a controller takes a new trajectory over [s]."""

SWITCH_TIME = 0.01
"""Time in which the acceleration limits have to explain the step between two trajectories [s]."""

LOOKS = 5
"""Samples of each polynomial that are held against the limits."""

SOFT = 0.5
"""Share of the acceleration limits with which an unreachable command is approached."""

BEHIND = 1.5
"""Periods of a stream whose motion one command may contain, at most."""


class UnsafeCommandError(ExcitationError):
    """A command beyond the limits, or not reachable from the last one that was sent."""


class CommandGate:
    """
    Check of trajectories against the limits and against the trajectory that was sent last.

    Parameters
    ----------
    limits:
        Limits in force.
    position:
        (n_joints,) where the robot rests, before anything is sent [rad or m].

    Attributes
    ----------
    reference:
        The trajectory that was sent last; None before the first.

    """

    def __init__(self, limits: Limits, position: np.ndarray) -> None:
        self._limits = limits
        self._rest = np.array(position, dtype=float)
        self.reference: PointTrajectory | None = None

    def admit(self, new: PointTrajectory, elapsed: float, speed: float = 1.0) -> None:
        """
        Admit a trajectory that is to replace the last one.

        Parameters
        ----------
        new:
            Ends at rest, with accelerations; its times as given are those of the path.
        elapsed:
            Present time of the path [s].
        speed:
            How fast the controller lets the path's time pass; 1 is real time.

        Raises
        ------
        UnsafeCommandError
            naming joint and quantity, where the robot would have to leap or to exceed a limit.

        """
        if new.joints != self._limits.joints:
            raise UnsafeCommandError('command refused: its joints are not those of the limits')
        self._require_limits(new, elapsed)
        self._require_rest(new)
        if self.reference is None:
            self._require_way(self._rest, new, new.begin - elapsed)
        elif new.begin > elapsed:
            self._require_not_begun(self.reference, elapsed)
            self._require_way(self.reference.state(elapsed)[0, 0], new, new.begin - elapsed)
        else:
            self._require_continuity(self.reference, new, elapsed, speed)
        self.reference = new

    def _require_limits(self, new: PointTrajectory, elapsed: float) -> None:
        """Hold all that is still to come against the limits."""
        limits, time = self._limits, new.begin + new.time
        first = max(int(np.searchsorted(time, elapsed - SWITCH_WINDOW)) - 1, 0)
        knots = time[min(first, time.size - 2) :]
        share = np.linspace(0.0, 1.0, LOOKS)
        # the acceleration may step at a knot: the looks stay inside of each polynomial
        inside = knots[:-1, None] + np.diff(knots)[:, None] * (1e-6 + (1.0 - 2e-6) * share)
        position, velocity, acceleration = new.state(inside.ravel())
        low, high = limits.lower - POSITION_TOLERANCE, limits.upper + POSITION_TOLERANCE
        for quantity, excess in (
            ('position', np.maximum(low - position, position - high)),
            ('velocity', np.abs(velocity) - TOLERANCE * limits.velocity),
            ('acceleration', np.abs(acceleration) - TOLERANCE * limits.acceleration),
        ):
            self._require(excess, quantity, 'would leave its limits')

    def _require_rest(self, new: PointTrajectory) -> None:
        self._require(np.abs(new.velocity[-1:]) - 1e-6, 'velocity', 'does not end')

    def _require_not_begun(self, old: PointTrajectory, elapsed: float) -> None:
        """Refuse a trajectory that is still to begin while another one moves the robot."""
        around = elapsed + SWITCH_WINDOW * np.linspace(-1.0, 1.0, LOOKS)
        moving = np.abs(old.state(around)[1])
        self._require(moving - SWITCH_TIME * self._limits.acceleration, 'velocity', 'would leap')

    def _require_way(self, rest: np.ndarray, new: PointTrajectory, lead: float) -> None:
        """
        Require that a robot at rest reaches a first point in time.

        A controller goes there by a quintic: 15/8 of the mean velocity, 10/sqrt(3) of distance
        over time squared.
        """
        limits = self._limits
        moving = np.abs(new.velocity[:1])
        self._require(moving - SWITCH_TIME * limits.acceleration, 'velocity', 'would leap')
        away = np.abs(new.position[0] - rest)[None]
        lead = max(lead, 0.0)
        free = 0.5 * limits.acceleration * SWITCH_TIME**2
        by_velocity = TOLERANCE * limits.velocity * lead * 8.0 / 15.0
        by_acceleration = TOLERANCE * limits.acceleration * lead**2 * np.sqrt(3.0) / 10.0
        reach = np.maximum(np.minimum(by_velocity, by_acceleration), free)
        self._require(away - reach, 'position', 'would leap')

    def _require_continuity(
        self, old: PointTrajectory, new: PointTrajectory, elapsed: float, speed: float
    ) -> None:
        """Require that around the present both trajectories are the same motion."""
        around = elapsed + speed * SWITCH_WINDOW * np.linspace(-1.0, 1.0, LOOKS)
        # before its first point, what a trajectory continues is not in it
        around = around[around >= min(max(new.begin, old.begin), elapsed)]
        step = np.abs(new.state(around) - old.state(around))
        acceleration = self._limits.acceleration
        self._require(step[0] - 0.5 * acceleration * SWITCH_TIME**2, 'position', 'would leap')
        self._require(speed * step[1] - acceleration * SWITCH_TIME, 'velocity', 'would leap')

    def _require(self, excess: np.ndarray, quantity: str, words: str) -> None:
        """Raise where an excess (n, n_joints) is positive or not a number."""
        bad = ~(excess <= 0.0)
        if not bad.any():
            return
        joint = int(np.flatnonzero(bad.any(axis=0))[0])
        name, unit = self._limits.joints[joint], self._limits.unit(quantity, joint)
        amount = float(np.nanmax(np.append(excess[:, joint], 0.0)))
        raise UnsafeCommandError(
            f"command refused: the {quantity} of joint '{name}' {words}, by {amount:.3g} {unit}",
            joint=name,
            key=quantity,
            value=amount,
            remedy='this is a fault of this software: report it with the log',
        )


class CommandLimiter:
    """
    Single commands that keep the limits and follow from the last one that was sent.

    A command that does is passed on as it is; otherwise the nearest one that the limits allow
    takes its place.

    Parameters
    ----------
    limits:
        Limits in force.
    position:
        (n_joints,) last commanded position [rad or m].
    speed:
        (n_joints,) last commanded velocity; None for a robot at rest [rad/s or m/s].

    """

    def __init__(
        self, limits: Limits, position: np.ndarray, speed: np.ndarray | None = None
    ) -> None:
        self._limits = limits
        self._position = self._wanted = np.array(position, dtype=float)
        self._velocity = np.zeros_like(self._position) if speed is None else np.array(speed)
        self._step = 0.0

    def position(self, wanted: np.ndarray, passed: float, period: float) -> np.ndarray:
        """
        Return the position to be sent (n_joints,).

        Parameters
        ----------
        wanted:
            (n_joints,) [rad or m].
        passed:
            Time since the last command [s].
        period:
            Time from one command to the next where none is late [s].

        """
        step = min(max(passed, 0.0), BEHIND * period)
        if step == 0.0:
            return self._position
        if passed > 10.0 * period + SWITCH_WINDOW:
            # without commands the robot has stopped
            self._velocity = np.zeros_like(self._velocity)
        # a target that stands still is approached so that the robot can stop there
        wanted = np.clip(wanted, self._limits.lower, self._limits.upper)
        away, moved = wanted - self._position, np.abs(wanted - self._wanted) / step
        braking = np.sqrt(SOFT * self._limits.acceleration * np.abs(away))
        velocity = np.clip(away / step, -(moved + braking), moved + braking)
        # mean velocities of two steps are as far apart in time as the middles of the steps
        velocity = self._reachable(velocity, 0.5 * (step + self._step))
        position = self._position + velocity * step
        position = np.clip(position, self._limits.lower, self._limits.upper)
        self._velocity, self._step = (position - self._position) / step, step
        self._position, self._wanted = position, wanted
        return position

    def velocity(self, wanted: np.ndarray, passed: float, period: float) -> np.ndarray:
        """Return the velocity to be sent (n_joints,) [rad/s or m/s]; as `position`."""
        step = min(max(passed, 0.0), BEHIND * period)
        self._velocity = self._reachable(wanted, step)
        return self._velocity

    def _reachable(self, velocity: np.ndarray, step: float) -> np.ndarray:
        """Return the nearest velocity (n_joints,) that the limits allow after ``step`` [s]."""
        velocity = np.where(np.isfinite(velocity), velocity, 0.0)
        most = TOLERANCE * self._limits.velocity
        velocity = np.clip(velocity, -most, most)
        change = velocity - self._velocity
        allowed = self._limits.acceleration * step
        sudden = np.abs(change) > TOLERANCE * allowed
        soft = self._velocity + np.clip(change, -SOFT * allowed, SOFT * allowed)
        return np.where(sudden, soft, velocity)


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
