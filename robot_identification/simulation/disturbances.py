# SPDX-License-Identifier: Apache-2.0
"""Changes of a simulated robot while it runs: a payload, more friction."""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import numpy as np
import pinocchio as pin

from ..options.fields import option
from .plant import set_inertia
from .simulator import Simulator
from .truth import per_joint


@dataclass(frozen=True)
class Payload:
    """A load at the last link, of small extent."""

    mass: float = option(
        0.0, doc='Mass of a payload at the last link; 0 puts it down', unit='kg', minimum=0.0
    )
    position: tuple[float, float, float] = option(
        (0.0, 0.0, 0.0), doc="Where its centre of mass is, in the last link's frame", unit='m'
    )


@dataclass(frozen=True)
class Wear:
    """Friction that is not what it was."""

    friction: tuple[float, ...] = option(
        (1.0,),
        doc='Factor of the true friction of each joint; one number for all of them',
        minimum=0.0,
    )


class Disturbances:
    """
    Changes a simulated robot between two steps of it; its servo is not told.

    Parameters
    ----------
    simulator:
        The robot.

    """

    def __init__(self, simulator: Simulator) -> None:
        self._simulator, self._plant = simulator, simulator.plant
        self._link = simulator.robot.links[-1]
        self._empty = _inertial(self._plant.model, self._plant.model.body(self._link).id)

    def carry(self, payload: Payload) -> None:
        """Have the last link carry this payload, in place of the one before."""
        r = np.array(payload.position)
        body = payload.mass * (r @ r * np.eye(3) - np.outer(r, r))
        load = [payload.mass, *(payload.mass * r), *body[[0, 0, 1, 0, 1, 2], [0, 1, 1, 2, 2, 2]]]
        model = self._plant.model
        set_inertia(model, model.body(self._link).id, self._empty + load)
        # of a copy of the state, since this would put the robot into its reference position
        mujoco.mj_setConst(model, mujoco.MjData(model))

    def wear(self, wear: Wear) -> None:
        """Multiply the true friction of the joints."""
        self._plant.scale_friction(self.factors(wear))

    def factors(self, wear: Wear) -> np.ndarray:
        """
        Return (n_joints,) factors.

        Raises
        ------
        SettingsError
            where there is neither one value nor one a joint.

        """
        robot = self._simulator.robot
        factors = per_joint(wear.friction, robot, 'wear.friction')
        return np.ones(robot.n_joints) if factors is None else factors


def _inertial(model: mujoco.MjModel, body: int) -> np.ndarray:
    """(10,) inertial parameters of a body of MuJoCo's model, as `set_inertia` takes them."""
    w, *vector = model.body_iquat[body]
    turned = pin.Quaternion(w, *vector).matrix()
    mass, centre = float(model.body_mass[body]), model.body_ipos[body]
    inertia = turned @ np.diag(model.body_inertia[body]) @ turned.T
    inertia += mass * (centre @ centre * np.eye(3) - np.outer(centre, centre))
    return np.array([mass, *(mass * centre), *inertia[[0, 0, 1, 0, 1, 2], [0, 1, 1, 2, 2, 2]]])
