# SPDX-License-Identifier: Apache-2.0
"""The drives' servo: computed torque with the nominal model, within the drives' effort limits."""

from __future__ import annotations

import numpy as np
import pinocchio as pin

from ..model.parameters import ParameterSet
from ..model.robot import Robot

CREEP = 0.02
"""Reference velocity at which the friction feed-forward reaches three quarters [rad/s]."""


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
        ``Ia`` (a drive knows its rotor), ``fv`` and ``fc`` of the joints; what is missing is 0.
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
        joints = [robot.model.joints[i] for i in robot.joint_ids]
        # the common case, spared the general conversion a thousand times a second
        self._places = [joint.idx_q for joint in joints] if robot.model.nq == len(joints) else None
        self._position = np.zeros(robot.model.nq)
        self._rotor, self._viscous, self._coulomb = (
            np.array([parameters.get(f'{joint}.{symbol}') for joint in robot.joints])
            for symbol in ('Ia', 'fv', 'fc')
        )

    def effort(
        self, reference: np.ndarray, position: np.ndarray, velocity: np.ndarray
    ) -> np.ndarray:
        """
        Efforts for the next period.

        Parameters
        ----------
        reference:
            (3, n_joints) position, velocity and acceleration wanted.
        position, velocity:
            (n_joints,) measured.

        Returns
        -------
        np.ndarray
            (n_joints,) within the effort limits [N m or N].

        """
        robot, wanted = self._robot, reference[1]
        if self._places is None:
            configuration = robot.configuration(position)
        else:
            configuration = self._position
            configuration[self._places] = position
        error, rate = reference[0] - position, wanted - velocity
        acceleration = reference[2] + self._stiffness * error + self._damping * rate
        rigid = pin.rnea(
            robot.model,
            self._data,
            configuration,
            robot.tangent(velocity),
            robot.tangent(acceleration),
        )[robot.columns]
        friction = self._viscous * wanted + self._coulomb * np.tanh(wanted / CREEP)
        effort = rigid + self._rotor * acceleration + friction
        return np.clip(effort, -self._limit, self._limit)
