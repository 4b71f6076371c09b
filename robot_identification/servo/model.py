# SPDX-License-Identifier: Apache-2.0
"""
MuJoCo's model of a robot with position servos, and its rollouts under recorded commands.

The model is that of the simulator which the parameters are for: its step, its integrator, and its
friction, with a constraint as stiff as the step allows (`FRICTION_STIFFNESS`).  The base is fixed,
and there are no contacts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
import copy
from functools import cached_property
import os
from typing import Any

import numpy as np
from scipy.interpolate import CubicHermiteSpline

from ..data.commands import CommandRecording
from ..errors import importing, ModelError
from ..model.mujoco_model import mujoco_model
from ..model.robot import Robot
from .parameters import ServoParameters
from .settings import FRICTION_STIFFNESS, INTEGRATORS, ServoSettings, SimulatorSettings

with importing('mujoco'):
    import mujoco
    from mujoco import rollout

BATCH = 8_000_000
"""Numbers of the states of rollouts that are held at once."""

FRICTION_STEP = 0.02
"""Time after which a Coulomb friction that depends on the position is set again [s]."""


class ServoModel:
    """
    Robot with position servos in MuJoCo.

    Attributes
    ----------
    robot:
        The robot; its passive joints are refused.
    stiffness, damping, limit:
        (n,) gains [N m/rad, N m s/rad] and largest efforts, infinite for none [N m].
    timestep, integrator:
        Of the simulator; assumed ones where none is named.
    held:
        Whether commands are held between their stamps, or interpolated.
    reference:
        (n,) positions at which `ServoParameters.coulomb` holds [rad or m].

    Raises
    ------
    SettingsError
        for gains that do not fit the joints, or a step of the simulator that is not known.
    ModelError
        for a robot with closed loops.

    """

    def __init__(
        self,
        robot: Robot,
        servo: ServoSettings,
        simulator: SimulatorSettings,
        reference: np.ndarray | None = None,
    ) -> None:
        robot.require_tree()
        self.robot = robot
        self.stiffness, self.damping, self.limit = (
            servo.per_joint(name, robot.joints) for name in ('stiffness', 'damping', 'limit')
        )
        self.timestep, self.integrator = simulator.step()
        self.held = servo.commands == 'held'
        self.reference = np.zeros(robot.n_joints) if reference is None else reference

    @cached_property
    def compiled(self) -> Any:
        """MuJoCo's model without armature and friction; raises ModelError if MuJoCo refuses it."""
        model = mujoco_model(self.robot, self.robot.prior, self._add_actuators)
        model.opt.timestep = self.timestep
        model.opt.integrator = INTEGRATORS.index(self.integrator)
        model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT
        model.jnt_limited[:] = 0
        model.dof_solref[:] = (FRICTION_STIFFNESS * self.timestep, 1.0)
        if model.nv != self.robot.n_joints:
            raise ModelError(
                f"robot '{self.robot.name}' has {model.nv} degrees of freedom in MuJoCo for "
                f'{self.robot.n_joints} joints',
                remedy='lock joints that have no servo (robot.locked)',
            )
        return model

    def _add_actuators(self, spec: Any) -> None:
        """Add affine actuators in the order of the joints: effort = control - kp q - kd v."""
        for joint, limit in zip(self.robot.joints, self.limit, strict=True):
            spec.add_actuator(
                name=joint,
                target=joint,
                trntype=mujoco.mjtTrn.mjTRN_JOINT,
                biastype=mujoco.mjtBias.mjBIAS_AFFINE,
                forcelimited=bool(np.isfinite(limit)),
                forcerange=np.nan_to_num([-limit, limit], posinf=0.0, neginf=0.0),
            )

    @cached_property
    def dofs(self) -> np.ndarray:
        """(n,) degrees of freedom of MuJoCo's model in the order of the joints."""
        return np.array([self.compiled.joint(joint).dofadr[0] for joint in self.robot.joints])

    @cached_property
    def branches(self) -> np.ndarray:
        """(n,) kinematic branch of each joint; on a fixed base, branches do not couple."""
        return np.asarray(self.compiled.dof_treeid[self.dofs])

    def with_parameters(self, parameters: ServoParameters) -> Any:
        """Return MuJoCo's model with the parameters of the joints."""
        model, dofs = copy.copy(self.compiled), self.dofs
        model.dof_armature[dofs] = parameters.armature
        model.dof_damping.reshape(model.nv, -1)[dofs, 0] = parameters.viscous
        model.dof_frictionloss[dofs] = parameters.coulomb
        model.actuator_biasprm[:, 0] = -parameters.offset
        model.actuator_biasprm[:, 1] = -self.stiffness * parameters.stiffness
        model.actuator_biasprm[:, 2] = -self.damping * parameters.damping
        for link, shift in zip(self.robot.links, parameters.centers, strict=True):
            model.body_ipos[model.body(link).id] += shift
        # without it, the friction's constraint keeps the inertia that was compiled
        mujoco.mj_setConst(model, mujoco.MjData(model))
        return model

    def commanded(
        self,
        recording: CommandRecording,
        stiffness: np.ndarray | float = 1.0,
        damping: np.ndarray | float = 1.0,
    ) -> np.ndarray:
        """Return (n_samples, n) commanded parts of the efforts, by factors on the gains."""
        effort = stiffness * self.stiffness * recording.command
        if recording.command_velocity is not None:
            effort += damping * self.damping * recording.command_velocity
        if recording.feedforward is not None:
            effort += recording.feedforward
        return np.asarray(effort)

    def controls(self, parameters: ServoParameters, recording: CommandRecording) -> np.ndarray:
        """
        Return (n_steps, n) controls: the means of the late commands over the simulator's steps.

        A mean is a smooth function of the delay, as an instantaneous value of held commands is
        not.  Before its first stamp, a command is the first.
        """
        signal = self.commanded(recording, parameters.stiffness, parameters.damping)
        stamps = recording.time - recording.time[0]
        steps = np.arange(self.n_steps(recording) + 1) * self.timestep
        edges = steps[:, None] - parameters.delay
        if not self.held:
            return interpolated(0.5 * (edges[1:] + edges[:-1]), stamps, signal)
        # the first command and the last one are held for longer than any delay
        knots = np.concatenate(([-1.0], stamps[1:], [stamps[-1] + 1.0]))
        integral = np.cumsum(signal * np.diff(knots)[:, None], axis=0)
        inside = interpolated(edges, knots, np.vstack((np.zeros(signal.shape[1]), integral)))
        return np.diff(inside, axis=0) / self.timestep

    def n_steps(self, recording: CommandRecording) -> int:
        """Return the number of steps that cover a recording."""
        return int(np.ceil((recording.time[-1] - recording.time[0]) / self.timestep - 1e-9))

    def rollouts(
        self, sets: Sequence[ServoParameters], recording: CommandRecording
    ) -> Iterator[np.ndarray]:
        """
        Iterate over (n_samples, n) positions at a recording's stamps, one array a parameter set.

        Each rollout begins from the first measured state and sees commands alone after that.
        """
        size = max(1, BATCH // (self.n_steps(recording) * (1 + 2 * self.robot.n_joints)))
        for first in range(0, len(sets), size):
            with _without_log():
                states = self._simulate(sets[first : first + size], recording)
            for state in states:
                yield self._at_stamps(state, recording)

    def _simulate(
        self, sets: Sequence[ServoParameters], recording: CommandRecording
    ) -> np.ndarray:
        """Return (n_sets, 1 + n_steps, 1 + 2 n) time, positions and velocities."""
        n, steps = self.robot.n_joints, self.n_steps(recording)
        positions, velocities = 1 + self.dofs, 1 + n + self.dofs
        models = [self.with_parameters(each) for each in sets]
        controls = np.stack([self.controls(each, recording) for each in sets])
        coulomb, slope = (
            np.stack([each.values(kind) for each in sets]) for kind in ('coulomb', 'slope')
        )
        states = np.zeros((len(sets), 1 + steps, 1 + 2 * n))
        states[:, 0, positions] = recording.position[0]
        states[:, 0, velocities] = recording.initial_velocity
        threads = min(len(sets), len(os.sched_getaffinity(0)))
        data = [mujoco.MjData(self.compiled) for _ in range(threads)]
        piece = max(1, round(FRICTION_STEP / self.timestep)) if slope.any() else steps
        with rollout.Rollout(nthread=threads if threads > 1 else 0) as pool:
            for first in range(0, steps, piece):
                start = np.ascontiguousarray(states[:, first])
                # friction is that at the middle of the piece, if the velocity stays
                ahead = start[:, positions] + 0.5 * piece * self.timestep * start[:, velocities]
                friction = np.maximum(coulomb + slope * (ahead - self.reference), 0.0)
                for model, values in zip(models, friction, strict=True):
                    model.dof_frictionloss[self.dofs] = values
                part = np.ascontiguousarray(controls[:, first : first + piece])
                after = np.empty((len(sets), part.shape[1], 1 + 2 * n))
                # the checks of many pieces take as long as the steps
                pool.rollout(
                    models, data, start, part, nstep=part.shape[1], state=after, skip_checks=True
                )
                states[:, first + 1 : first + 1 + part.shape[1]] = after
        return states

    def _at_stamps(self, state: np.ndarray, recording: CommandRecording) -> np.ndarray:
        """Return positions at the stamps, by cubics between the states of the steps."""
        time, n = self.timestep * np.arange(len(state)), self.robot.n_joints
        q, v = state[:, 1 + self.dofs], state[:, 1 + n + self.dofs]
        return np.asarray(CubicHermiteSpline(time, q, v)(recording.time - recording.time[0]))


@contextmanager
def _without_log() -> Iterator[None]:
    """Keep MuJoCo from writing a log file into the working folder, where a rollout is unstable."""
    before = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(lambda text: None)
    try:
        yield
    finally:
        mujoco.set_mju_user_warning(before)


def interpolated(at: np.ndarray, knots: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return (n, k) values between knots at (n, k) or (n, 1) places, column by column."""
    columns = zip(np.broadcast_to(at, (len(at), values.shape[1])).T, values.T, strict=True)
    return np.column_stack([np.interp(places, knots, column) for places, column in columns])
