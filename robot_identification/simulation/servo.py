# SPDX-License-Identifier: Apache-2.0
"""Servos of the drives: computed torque of the nominal model, within the effort limits."""

from __future__ import annotations

import numpy as np
import pinocchio as pin

from ..model.parameters import ParameterSet
from ..model.robot import Robot

CREEP = 0.02
"""Reference velocity at which the friction feed-forward reaches three quarters [rad/s]."""

SERVO_SHARE = 0.25
"""How much of a rotor's speed the servo's damping may take in one period, halved."""


class Servo:
    r"""
    Efforts that make a robot follow a reference.

    The acceleration :math:`\ddot q_d + 2 \zeta \omega \dot e + \omega^2 e` goes through the
    inverse dynamics of the nominal robot, and the nominal friction at the reference is added, as
    drives with a model do; so the motion is accurate but shows that the model is not the robot.

    Parameters
    ----------
    robot:
        The nominal robot; gives the effort limits too.
    parameters:
        ``Ia`` (known to a drive), ``fv`` and ``fc`` of the joints; what is missing is 0.
    bandwidth, damping:
        Natural frequency [Hz] and damping ratio of the error.

    """

    def __init__(
        self, robot: Robot, parameters: ParameterSet, bandwidth: float, damping: float
    ) -> None:
        omega = 2.0 * np.pi * bandwidth
        self._stiffness, self._damping = omega**2, 2.0 * damping * omega
        self._robot = robot
        self._data = robot.model.createData()
        self._limit = robot.limits.effort
        self._rotor, self._viscous, self._coulomb = (
            np.array([parameters.get(f'{joint}.{symbol}') for joint in robot.joints])
            for symbol in ('Ia', 'fv', 'fc')
        )

    def restart(self) -> None:
        """Forget the reference before, after a jump."""

    def effort(
        self, reference: np.ndarray, position: np.ndarray, velocity: np.ndarray
    ) -> np.ndarray:
        """
        Return the efforts for the next period, (n_joints,) within the effort limits [N m or N].

        ``reference`` is (3, n_joints) position, velocity and acceleration wanted of the links;
        position and velocity are measured of the motors, (n_joints,).
        """
        error, rate = reference[0] - position, reference[1] - velocity
        acceleration = reference[2] + self._stiffness * error + self._damping * rate
        rigid = self._rigid(position, velocity, acceleration)
        return self._limited(rigid + self._rotor * acceleration + self._friction(reference[1]))

    def _rigid(
        self, position: np.ndarray, velocity: np.ndarray, acceleration: np.ndarray
    ) -> np.ndarray:
        robot = self._robot
        states = robot.tangent(velocity), robot.tangent(acceleration)
        efforts = pin.rnea(robot.model, self._data, robot.configuration(position), *states)
        return np.asarray(efforts[robot.columns])

    def _friction(self, velocity: np.ndarray) -> np.ndarray:
        return self._viscous * velocity + self._coulomb * np.tanh(velocity / CREEP)

    def _limited(self, effort: np.ndarray) -> np.ndarray:
        return np.clip(effort, -self._limit, self._limit)


class ElasticServo(Servo):
    """
    Efforts of the motors that make a robot with elastic joints follow a reference.

    The inverse dynamics of the nominal robot with stiff joints is fed forward, and the motors are
    held, stiffly and with damping, where the twist under that effort has them.  Feedback of the
    motors' own motion is stable for any stiffness (Tomei 1991); the inertia that it reckons with
    is bounded, so that it stays so at the servo's rate.

    Parameters
    ----------
    robot:
        The nominal robot; gives the effort limits too.
    parameters:
        ``Ia``, ``fv`` and ``fc`` of the motors, by their joints' names; what is missing is 0.
    stiffness:
        (n_joints,) of the transmissions [N m/rad or N/m].
    bandwidth, damping, rate:
        Natural frequency [Hz] and damping ratio of the motors' error; rate of the servo [Hz].

    """

    def __init__(
        self,
        robot: Robot,
        parameters: ParameterSet,
        stiffness: np.ndarray,
        bandwidth: float,
        damping: float,
        rate: float,
    ) -> None:
        super().__init__(robot, parameters, bandwidth, damping)
        self._spring, self._rate = stiffness, rate
        self._most = SERVO_SHARE * self._rotor * rate / (damping * 2.0 * np.pi * bandwidth)
        self._last: np.ndarray | None = None

    def restart(self) -> None:
        """Forget the reference before, after a jump."""
        self._last = None

    def effort(
        self, reference: np.ndarray, position: np.ndarray, velocity: np.ndarray
    ) -> np.ndarray:
        """Return the efforts of the motors for the next period, as `Servo.effort`."""
        robot = self._robot
        rigid = self._rigid(*reference)
        configuration = robot.configuration(reference[0])
        inertia = np.diag(pin.crba(robot.model, self._data, configuration))[robot.columns]
        wanted = reference[0] + rigid / self._spring
        rate = reference[1] if self._last is None else (wanted - self._last) * self._rate
        self._last = wanted
        error = self._stiffness * (wanted - position) + self._damping * (rate - velocity)
        feedback = np.minimum(self._rotor + inertia, self._most) * error
        return self._limited(rigid + self._rotor * reference[2] + self._friction(rate) + feedback)
