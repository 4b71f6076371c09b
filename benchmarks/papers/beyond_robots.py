# SPDX-License-Identifier: Apache-2.0
"""Robots with known parameters and recordings of them, and what simulators say of a URDF."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import mujoco
import numpy as np
import pinocchio as pin
from robot_identification.data.recording import Motion, Recording
from robot_identification.estimation.physical_fit import reference_bodies
from robot_identification.identification.pipeline import IdentificationProblem
from robot_identification.model.consistency import from_pseudo_inertia
from robot_identification.model.parameters import INERTIAL_SYMBOLS, ParameterSet
from robot_identification.model.robot import Robot
from robot_identification.regressor import predict
from robot_identification.regressor import prior as urdf_prior
from robot_identification.results.result import Result
from robot_identification.results.stored_result import StoredResult

ROOT = Path(__file__).resolve().parents[2]
OTHERS = Path(pin.__file__).parents[4] / 'share' / 'example-robot-data' / 'robots'
ROBOTS = {
    'demo_arm': ROOT / 'urdf' / 'demo_arm.urdf',
    'panda': OTHERS / 'panda_description' / 'urdf' / 'panda.urdf',
    'talos': OTHERS / 'talos_data' / 'robots' / 'talos_full_v2.urdf',
}
RATE = 500.0


@dataclass(frozen=True)
class Known:
    """
    A robot whose parameters are known.

    Attributes
    ----------
    problem:
        What is to be identified.
    truth:
        Standard parameters: the URDF's bodies changed by about a third, and drives.

    """

    problem: IdentificationProblem
    truth: ParameterSet

    @property
    def robot(self) -> Robot:
        """The robot as its URDF says."""
        return self.problem.robot

    def recording(
        self,
        seed: int,
        *,
        duration: float = 20.0,
        noise: float = 0.1,
        load: tuple[str, pin.Inertia] | None = None,
    ) -> Recording:
        """
        Let the robot move; the effort is measured with noise.

        Parameters
        ----------
        seed:
            Of motion and noise.
        duration:
            [s].
        noise:
            Standard deviation, relative to the root mean square of each joint's effort without
            load.
        load:
            A link and the body that it carries, at the link's joint frame.

        """
        motion, time = _motion(self.robot.n_joints, duration, np.random.default_rng(seed))
        regressor, truth = self.problem.regressor(), self.truth
        # the sensors' noise does not know of the load
        size = noise * np.sqrt(np.mean(predict(regressor, motion, truth) ** 2, axis=0))
        if load is not None:
            part = truth.layout.slice_of(load[0])
            heavy = truth.values[part] + load[1].toDynamicParameters()
            truth = truth.updated(dict(zip(truth.layout.names[part], heavy, strict=True)))
        effort = predict(regressor, motion, truth)
        rng = np.random.default_rng([seed, 1])
        effort = effort + size * rng.standard_normal(effort.shape)
        return Recording(time, motion.position, effort, self.robot.joints, source=f'run {seed}')


def known(name: str, seed: int = 0) -> Known:
    """
    Make a robot with known parameters.

    Parameters
    ----------
    name:
        One of `ROBOTS`; without fingers and grippers.
    seed:
        Of the parameters.

    """
    names = list(pin.buildModelFromUrdf(str(ROBOTS[name])).names)[1:]
    joints = [joint for joint in names if 'finger' not in joint and 'gripper' not in joint]
    locked = {joint: 0.0 for joint in names if joint not in joints}
    robot = Robot.from_urdf(ROBOTS[name], joints, locked=locked)
    rng = np.random.default_rng(seed)
    prior = urdf_prior(robot)
    values = prior.values.copy()
    for body in reference_bodies(robot, prior):
        root = np.linalg.cholesky(body.pseudo_inertia)
        change = np.eye(4) + 0.3 * rng.normal(size=(4, 4))
        values[prior.layout.slice_of(body.link)] = from_pseudo_inertia(
            root @ change @ change.T @ root.T
        )
    drives = {'Ia': (0.02, 0.1), 'fv': (0.1, 1.0), 'fc': (0.1, 1.0)}
    truth = ParameterSet(prior.layout, values).updated(
        {
            f'{joint}.{symbol}': rng.uniform(*limits)
            for joint in joints
            for symbol, limits in drives.items()
        }
    )
    return Known(IdentificationProblem(robot), truth)


def rotor_matrix(result: Result | StoredResult) -> np.ndarray:
    """(n, n) inertia of the rotors as seen at the joints, with the coupled motors'."""
    joints, found = result.robot.joints, result.standard
    matrix = np.diag([found[f'{joint}.Ia'] for joint in joints])
    for drive in result.settings.model.coupled_drives:
        ratios = np.zeros(len(joints))
        ratios[[joints.index(joint) for joint in drive.joints]] = drive.ratios
        coupling = np.outer(ratios, ratios) * found[f'{drive.motor}.Iam']
        matrix += coupling - np.diag(np.diag(coupling))
    return matrix


def least_eigenvalues(
    urdf: str, rotors: np.ndarray, postures: int = 10_000
) -> tuple[float, float, float]:
    """
    Load a URDF in Pinocchio and MuJoCo and take the inertia matrix in random postures.

    Parameters
    ----------
    urdf:
        The document; all its moving joints are revolute, in the order of ``rotors``.
    rotors:
        (n, n) inertia of the rotors.

    Returns
    -------
    tuple
        Its smallest eigenvalue over all postures, without and with the rotors [kg m^2], and the
        largest relative difference between the two programs' matrices.

    """
    model = pin.buildModelFromXML(urdf)
    simulated = mujoco.MjModel.from_xml_string(urdf)
    data, state, n = model.createData(), mujoco.MjData(simulated), model.nv
    if simulated.nv != n:
        raise ValueError(f'MuJoCo sees {simulated.nv} joints, Pinocchio {n}')
    matrices = np.empty((2, postures, n, n))
    full = np.empty((n, n))
    for i, posture in enumerate(np.random.default_rng(4).uniform(-np.pi, np.pi, (postures, n))):
        matrices[0, i] = pin.crba(model, data, posture)
        state.qpos[:] = posture
        mujoco.mj_kinematics(simulated, state)
        mujoco.mj_comPos(simulated, state)
        mujoco.mj_crb(simulated, state)
        mujoco.mj_fullM(simulated, state, full)
        matrices[1, i] = full
    upper = np.triu(matrices)
    matrices = upper + np.swapaxes(np.triu(matrices, 1), -1, -2)
    apart = float(np.abs(matrices[0] - matrices[1]).max() / np.abs(matrices[0]).max())
    bare, whole = (np.linalg.eigvalsh(matrices[0] + more).min() for more in (0.0, rotors))
    return float(bare), float(whole), apart


def vector(load: pin.Inertia) -> dict[str, float]:
    """Ten inertial parameters of a body by the names that an identified load's have."""
    names = [f'load.{symbol}' for symbol in INERTIAL_SYMBOLS]
    return dict(zip(names, load.toDynamicParameters().tolist(), strict=True))


def _motion(n_joints: int, duration: float, rng: np.random.Generator) -> tuple[Motion, np.ndarray]:
    """Five harmonics with random sizes and phases."""
    time = np.arange(0.0, duration, 1.0 / RATE)
    q, v, a = np.zeros((3, time.size, n_joints))
    for k in range(1, 6):
        w, phase = 0.4 * np.pi * k / 2.0, rng.uniform(0.0, 2.0 * np.pi, n_joints)
        size, angle = rng.uniform(0.1, 0.4, n_joints), w * time[:, None] + phase
        q += size * np.sin(angle)
        v += size * w * np.cos(angle)
        a -= size * w * w * np.sin(angle)
    return Motion(q, v, a), time
