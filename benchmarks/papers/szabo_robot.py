# SPDX-License-Identifier: Apache-2.0
"""
The three-joint robot of Szabo and Szadeczky-Kardoss (Acta IMEKO 10(3), 2021), in their parameters.

Their frames stand at the ends of links (standard Denavit-Hartenberg), a URDF's at the joints, so
that inertias, first moments and the grouping differ; `PaperRegressor` brings ours into theirs.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

import numpy as np
import pinocchio as pin
from robot_identification.data.recording import Motion
from robot_identification.excitation.bases import FourierBasis, FourierTrajectory
from robot_identification.excitation.criteria import frobenius
from robot_identification.excitation.families import MotionFamily
from robot_identification.excitation.limits import Limits
from robot_identification.excitation.objective import IdentificationGoal, Objective
from robot_identification.model.consistency import from_pseudo_inertia, pseudo_inertia
from robot_identification.model.parameters import ParameterLayout, ParameterSet
from robot_identification.model.robot import Robot
from robot_identification.regressor import build, ModelSettings, prior, Regressor
from robot_identification.regressor.base_parameters import BaseStructure
from robot_identification.regressor.base_search import structure
from scipy.optimize import minimize

URDF = Path(__file__).resolve().parents[2] / 'urdf' / 'szabo_3r.urdf'

STICTION_SLOPE, STRIBECK_SLOPE = 100.0, 5.0
"""K_v and delta, which the paper does not print."""

NOISE = (0.5, 0.3, 0.7)
"""Standard deviation of the torques' noise, joint by joint [N m]."""

FRICTION = {
    'joint_1.ts': 2.0,
    'joint_2.ts': 1.0,
    'joint_3.ts': 2.0,
    'joint_1.fv': 0.5,
    'joint_2.fv': 0.277,
    'joint_3.fv': 0.03,
    'joint_1.tsc': -0.3,
    'joint_2.tsc': -0.2,
    'joint_3.tsc': -0.3,
}
"""Table 2; the paper writes tau_s, tau_v and tau_sc."""

TABLE_2 = {
    # name: (combination, exact value, LS mean, LS variance, WLS mean, WLS variance)
    'link_2.Ixx': ({'2.Ixx': 1, '2.Iyy': -1, '2.mx': -0.5}, 0.059, 0.059, 8.27e-4, 0.059, 6.25e-4),
    'link_3.Ixx': ({'3.Ixx': 1, '3.Iyy': -1, '3.mx': -0.5}, 0.059, 0.057, 8.09e-4, 0.058, 6.18e-4),
    'link_2.Ixy': ({'2.Ixy': 1}, 0.0, 0.002, 3.23e-4, 0.001, 2.27e-4),
    'link_3.Ixy': ({'3.Ixy': 1}, 0.0, -0.000, 2.04e-4, -0.000, 1.47e-4),
    'link_1.Iyy': (
        {'1.Iyy': 1, '2.Iyy': 1, '3.Iyy': 1, '2.mx': 0.5, '3.mx': 0.5},
        *(-0.117, -0.115, 5.25e-4, -0.115, 4.30e-4),
    ),
    'link_2.Ixz': (
        {'2.Ixz': 1, '2.mz': -0.5, '3.mz': -0.5},
        *(0.0, 0.001, 2.06e-4, 0.000, 1.50e-4),
    ),
    'link_3.Ixz': ({'3.Ixz': 1, '3.mz': -0.5}, 0.0, -0.001, 1.60e-4, -0.000, 1.14e-4),
    'link_2.Iyz': ({'2.Iyz': 1}, 0.0, -0.001, 1.32e-4, -0.000, 1.06e-4),
    'link_3.Iyz': ({'3.Iyz': 1}, 0.0, 0.001, 7.56e-5, 0.001, 5.49e-5),
    'link_2.Izz': ({'2.Izz': 1, '2.mx': 0.5}, -0.059, -0.060, 3.68e-4, -0.060, 2.68e-4),
    'link_3.Izz': ({'3.Izz': 1, '3.mx': 0.5}, -0.059, -0.057, 3.30e-4, -0.058, 2.21e-4),
    'link_2.m': ({'2.m': 1, '2.mx': 2, '3.mx': -2}, 1.414, 1.415, 1.50e-4, 1.414, 6.01e-5),
    'link_3.m': ({'3.m': 1, '3.mx': 2}, 0.707, 0.706, 3.82e-5, 0.707, 1.42e-5),
    'joint_1.ts': ({}, 2.0, 1.998, 7.97e-4, 1.998, 7.80e-4),
    'joint_2.ts': ({}, 1.0, 0.999, 1.42e-4, 0.999, 1.41e-4),
    'joint_3.ts': ({}, 2.0, 1.998, 2.36e-3, 1.998, 2.34e-3),
    'joint_1.fv': ({}, 0.5, 0.505, 8.26e-3, 0.506, 7.89e-3),
    'joint_2.fv': ({}, 0.277, 0.243, 9.26e-4, 0.244, 8.08e-4),
    'joint_3.fv': ({}, 0.030, 0.034, 1.60e-2, 0.035, 1.54e-2),
    'joint_1.tsc': ({}, -0.3, -0.302, 1.45e-2, -0.303, 1.39e-2),
    'joint_2.tsc': ({}, -0.2, -0.176, 1.67e-3, -0.177, 1.65e-3),
    'joint_3.tsc': ({}, -0.3, -0.306, 3.56e-2, -0.307, 3.45e-2),
    'link_2.my': ({'2.my': 1}, 0.0, 0.000, 3.82e-6, 0.000, 2.24e-6),
    'link_3.my': ({'3.my': 1}, 0.0, 0.000, 4.67e-6, 0.000, 2.37e-6),
}
"""The 24 identifiable parameters, named after the column that leads each, as Table 2 has them."""


def combination(name: str) -> dict[str, float]:
    """Return the standard parameters and their coefficients behind an entry of `TABLE_2`."""
    terms = TABLE_2[name][0]
    return {f'link_{key}': float(value) for key, value in terms.items()} or {name: 1.0}


class PaperRegressor:
    """
    The regressor of the robot in the paper's parameters.

    Parameters
    ----------
    slopes:
        K_v and delta.

    Attributes
    ----------
    robot, model, layout, n_joints:
        As for any regressor; the layout's names are ours, their meaning is the paper's.
    standard:
        The true parameters.

    """

    def __init__(self, slopes: tuple[float, float] = (STICTION_SLOPE, STRIBECK_SLOPE)) -> None:
        self.robot = Robot.from_urdf(URDF)
        self.model = ModelSettings(
            friction=('viscous', 'stiction', 'stribeck'),
            rotor_inertia=False,
            stiction_slope=slopes[0],
            stribeck_slope=slopes[1],
        )
        self._own: Regressor = build(self.robot, self.model)
        self.layout: ParameterLayout = self._own.layout
        self.n_joints = self.robot.n_joints
        to_joints = np.eye(len(self.layout))
        for link, frame in zip(self.robot.links, _frames(), strict=True):
            place = self.layout.slice_of(link)
            to_joints[place, place] = _to_joint(frame)
        self._to_joints = to_joints
        own = prior(self.robot, self.model).updated(FRICTION).values
        self.standard = ParameterSet(self.layout, np.linalg.solve(to_joints, own))

    def rows(self, motion: Motion) -> np.ndarray:
        """Rows for a motion, in the paper's parameters."""
        return self._own.rows(motion) @ self._to_joints

    @cached_property
    def base(self) -> BaseStructure:
        """Base parameters from left to right, as the paper finds them."""
        return structure(self, self.robot, grouping='echelon')

    @property
    def exact(self) -> ParameterSet:
        """The true base parameters."""
        return self.base.project(self.standard)


def _frames() -> tuple[pin.SE3, ...]:
    """Frame at the end of each link, seen from the one at its joint (Table 1)."""
    first = pin.SE3(pin.rpy.rpyToMatrix(np.pi / 2.0, 0.0, 0.0), np.array([0.0, 0.0, 0.3]))
    along = pin.SE3(np.eye(3), np.array([0.5, 0.0, 0.0]))
    return first, along, along


def _to_joint(frame: pin.SE3) -> np.ndarray:
    """(10, 10) that turns inertial parameters at ``frame`` into those where it is seen from."""
    matrix = frame.homogeneous
    columns = [from_pseudo_inertia(matrix @ pseudo_inertia(e) @ matrix.T) for e in np.eye(10)]
    return np.array(columns).T


HARMONICS, DURATION, RATE = 5, 10.0, 100.0
"""M, t_f = 2 pi / w_f [s], and samples a second; none is printed."""


def limits(robot: Robot) -> Limits:
    """Limits (21): 180 degrees, 3 rad/s, 10 rad/s^2; none is printed."""
    full = np.ones(robot.n_joints)
    return Limits(
        joints=robot.joints,
        units=('rad',) * robot.n_joints,
        lower=-np.pi * full,
        upper=np.pi * full,
        velocity=3.0 * full,
        acceleration=10.0 * full,
        effort=np.inf * full,
    )


def excitation(
    paper: PaperRegressor, starts: int, iterations: int = 150
) -> tuple[FourierTrajectory, float, np.ndarray]:
    """
    Optimise the Frobenius condition number of L^T L under the limits, from random starts.

    Returns
    -------
    trajectory : FourierTrajectory
        The best one.
    condition : float
        Its Frobenius condition number.
    random : np.ndarray
        (starts,) those of the motions that the descents started from.

    """
    robot = paper.robot
    basis = FourierBasis(DURATION, 1.0 / DURATION, HARMONICS)
    joints = np.arange(robot.n_joints)
    family = MotionFamily(basis, limits(robot), np.zeros(robot.n_joints), joints)
    base = paper.base
    goal = IdentificationGoal(
        regressor=paper,
        prior=paper.standard,
        columns=base.independent,
        names=base.base_layout.names,
        units=base.base_layout.units,
        values=base.project(paper.standard).values,
        noise=np.ones(robot.n_joints),
        earlier=np.zeros((base.n_base, base.n_base)),
        criterion=frobenius_condition_number,
        moving=robot.joints,
    )
    objective = Objective(
        family=family,
        goal=goal,
        time=np.arange(0.0, DURATION, 0.05),
        effort=limits(robot).effort,
    )

    def cost(flat: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = objective.gradient(flat)
        return value.total, gradient

    random = np.random.default_rng(0)
    best, begun = None, np.empty(starts)
    for start in range(starts):
        x = family.random(random)
        begun[start] = np.exp(objective.value(x).criterion)
        found = minimize(cost, x, jac=True, method='L-BFGS-B', options={'maxiter': iterations})
        if best is None or found.fun < best.fun:
            best = found
    assert best is not None
    trajectory = family.trajectory(best.x)
    return trajectory, frobenius_condition(paper, trajectory), begun


def frobenius_condition_number(gram: np.ndarray) -> tuple[float, np.ndarray]:
    r"""
    Return the logarithm of the Frobenius condition number, :math:`\|G\|_F \|G^{-1}\|_F`.

    It weighs parameters by their units: a small one in large units counts as little as the paper's
    friction coefficients make of inertias.
    """
    value, gradient = frobenius(gram)
    return 2.0 * value, 2.0 * gradient


def frobenius_condition(paper: PaperRegressor, trajectory: FourierTrajectory) -> float:
    """Return Cond_F(L^T L) over the samples of a trajectory."""
    gram = np.einsum('sji,sjk->ik', *[base_rows(paper, trajectory)] * 2)
    return float(np.exp(frobenius_condition_number(gram)[0]))


def base_rows(paper: PaperRegressor, trajectory: FourierTrajectory) -> np.ndarray:
    """Return L along a trajectory, (samples, n_joints, 24)."""
    motion = trajectory.sample(np.arange(0.0, DURATION, 1.0 / RATE))
    rows = paper.base.columns(paper.rows(motion))
    return rows.reshape(len(motion), paper.n_joints, -1)
