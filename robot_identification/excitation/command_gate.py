# SPDX-License-Identifier: Apache-2.0
"""
The last check of commands before they are sent to a robot.

All commands of all kinds of controllers pass here: trajectories through `CommandGate.admit`,
single commands of streams through `CommandLimiter`.  Both hold a command against the limits and
against the last command that was sent, never against what is measured, which may be false.
"""

from __future__ import annotations

import numpy as np

from ..errors import ExcitationError
from .limits import Limits
from .points import PointTrajectory

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
