# SPDX-License-Identifier: Apache-2.0
"""
A robot with elastic joints to try the identification on: Pinocchio's forward dynamics in time.

Each rotor is a body of its own on a joint of its own, so that nothing of the regressor is used.
The motors are under proportional-derivative control with gravity compensation, all in continuous
time, and the equations are stiff (a light wrist on a stiff spring), hence an integrator of high
order with a tight tolerance.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pinocchio as pin
from robot_identification.data.recording import Recording
from robot_identification.model.robot import Robot
from scipy.integrate import solve_ivp
from scipy.interpolate import BSpline, make_interp_spline

STANDSTILL = 1e-3
"""Speed below which dry friction fades out, so that it has no jump [rad/s]."""


@dataclass(frozen=True)
class ElasticRobot:
    """
    A serial robot with turning joints, each motor mounted on the link before its joint.

    Attributes
    ----------
    robot:
        Links, with the stators and rotors that they carry as lumps.
    gears:
        (n,) gear ratios.
    rotors:
        (n,) inertias of the rotors about their axes, on the motors' side [kg m^2].
    stiffness:
        (n,) of the transmissions [N m/rad].
    friction:
        Torque of the motors' friction, reduced to the joints, from the speeds (n,) of the motors,
        reduced likewise.
    model:
        Pinocchio's, with rotors.
    gravity_model:
        Pinocchio's, without.

    """

    robot: Robot
    gears: np.ndarray
    rotors: np.ndarray
    stiffness: np.ndarray
    friction: Callable[[np.ndarray], np.ndarray]
    model: pin.Model
    gravity_model: pin.Model

    @classmethod
    def with_rotors(
        cls,
        robot: Robot,
        gears: np.ndarray,
        rotors: np.ndarray,
        stiffness: np.ndarray,
        friction: Callable[[np.ndarray], np.ndarray],
    ) -> ElasticRobot:
        """Put the rotors of a robot on joints of their own."""
        model = robot.model.copy()
        for index, inertia in zip(robot.joint_ids, rotors, strict=True):
            carrier = robot.model.parents[index]
            axis = robot.model.jointPlacements[index].rotation[:, 2]
            spinning = inertia * np.outer(axis, axis)
            joint = model.addJoint(
                carrier,
                pin.JointModelRevoluteUnaligned(axis),
                pin.SE3.Identity(),
                f'rotor_{index}',
            )
            # massless: what the link has is the whole body, and only the spin is apart
            model.appendBodyToJoint(
                joint, pin.Inertia(0.0, np.zeros(3), spinning), pin.SE3.Identity()
            )
            body = model.inertias[carrier]
            if carrier:
                model.inertias[carrier] = pin.Inertia(
                    body.mass, body.lever, body.inertia - spinning
                )
        return cls(robot, gears, rotors, stiffness, friction, model, robot.model)


@dataclass(frozen=True)
class Control:
    """Gains of the motors' control, (n,) each [N m/rad, N m s/rad]."""

    proportional: np.ndarray
    derivative: np.ndarray


@dataclass(frozen=True)
class Run:
    """
    Exact motion and efforts of a run.

    Attributes
    ----------
    time:
        (m,) [s].
    position, velocity, acceleration:
        (m, 2n) of links and motors, reduced to the joints [rad, rad/s, rad/s^2].
    effort:
        (m, n) torques of the motors, reduced to the joints [N m].
    joints:
        Names of the 2n columns.

    """

    time: np.ndarray
    position: np.ndarray
    velocity: np.ndarray
    acceleration: np.ndarray
    effort: np.ndarray
    joints: tuple[str, ...]

    def recording(self, position: np.ndarray | None = None) -> Recording:
        """Return what a recorder would have, with other positions than the exact ones if given."""
        effort = np.hstack([np.zeros_like(self.effort), self.effort])
        return Recording(
            self.time, self.position if position is None else position, effort, self.joints
        )


def random_spline(
    amplitude: np.ndarray, knots: int, duration: float, seed: int, centre: np.ndarray
) -> BSpline:
    """Return a fifth-order spline through random points that starts and ends at rest."""
    random = np.random.default_rng(seed)
    points = centre + amplitude * random.uniform(-1.0, 1.0, (knots, len(amplitude)))
    still = [(1, np.zeros(len(amplitude))), (2, np.zeros(len(amplitude)))]
    return make_interp_spline(
        np.linspace(0.0, duration, knots), points, k=5, bc_type=(still, still)
    )


def simulate(
    plant: ElasticRobot,
    path: BSpline,
    control: Control,
    *,
    duration: float,
    rate: float = 1000.0,
    tolerance: float = 1e-9,
) -> Run:
    """
    Let the motors follow a path and record everything.

    Parameters
    ----------
    plant:
        The robot; starts at rest on the path, its springs loaded by gravity.
    path:
        Wanted positions of the motors over time.
    control:
        Gains.
    duration, rate:
        Length and sampling rate of the record [s, Hz].
    tolerance:
        Of the integrator, relative and absolute.

    """
    n, model = plant.robot.n_joints, plant.model
    data, still = model.createData(), plant.gravity_model.createData()
    speed = path.derivative()
    reduction = np.concatenate([np.ones(n), plant.gears])
    stiffness, friction = plant.stiffness, plant.friction

    def drive(time: float, theta: np.ndarray, dtheta: np.ndarray) -> np.ndarray:
        gravity = pin.computeGeneralizedGravity(plant.gravity_model, still, theta)
        wanted = control.proportional * (path(time) - theta)
        return wanted + control.derivative * (speed(time) - dtheta) + gravity

    def change(time: float, state: np.ndarray) -> np.ndarray:
        q, theta, velocity = state[:n], state[n : 2 * n], state[2 * n :]
        spring = stiffness * (theta - q)
        motor = drive(time, theta, velocity[n:]) - friction(velocity[n:]) - spring
        torque = np.concatenate([spring, motor / plant.gears])
        acceleration = pin.aba(
            model, data, reduction * state[: 2 * n], reduction * velocity, torque
        )
        return np.concatenate([velocity, acceleration / reduction])

    time = np.arange(round(duration * rate) + 1) / rate
    start = path(0.0)
    loaded = start - pin.computeGeneralizedGravity(plant.gravity_model, still, start) / stiffness
    for _ in range(20):
        load = pin.computeGeneralizedGravity(plant.gravity_model, still, loaded)
        loaded = start - load / stiffness
    solution = solve_ivp(
        change,
        (0.0, time[-1]),
        np.concatenate([loaded, start, np.zeros(2 * n)]),
        method='DOP853',
        t_eval=time,
        rtol=tolerance,
        atol=tolerance * 1e-2,
    )
    states = solution.y.T
    position, velocity = states[:, : 2 * n], states[:, 2 * n :]
    acceleration = [change(t, state)[2 * n :] for t, state in zip(time, states, strict=True)]
    effort = np.array(
        [drive(t, p[n:], v[n:]) for t, p, v in zip(time, position, velocity, strict=True)]
    )
    names = (*plant.robot.joints, *(f'{joint}_motor' for joint in plant.robot.joints))
    return Run(time, position, velocity, np.array(acceleration), effort, names)


def smooth_sign(speed: np.ndarray) -> np.ndarray:
    """Return the direction of a motion, fading out around standstill."""
    return np.tanh(speed / STANDSTILL)


def quantised(position: np.ndarray, counts: int) -> np.ndarray:
    """Return positions as an encoder of so many counts a turn tells them."""
    step = 2.0 * np.pi / counts
    return step * np.round(position / step)
