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
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
import os
from typing import Any

import numpy as np
from scipy.interpolate import CubicHermiteSpline

from ..data.commands import CommandRecording
from ..errors import importing, ModelError
from ..model.mimic_joints import MimicJoints
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

PLAY_STEP = 0.003
"""Time after which feedback of the position behind a play is set again [s]."""

PLAY_ARMATURE = 0.003
"""Inertia of a play by that of its rotor: without any, the equations of a light link are stiff."""


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
        self._mechanisms: dict[tuple[int, ...], _Mechanism] = {}

    @cached_property
    def compiled(self) -> Any:
        """MuJoCo's model without armature and friction; raises ModelError if MuJoCo refuses it."""
        return self._mechanism(()).model

    def _mechanism(self, playing: tuple[int, ...]) -> _Mechanism:
        """Return the mechanism in which some joints, by their numbers, have play."""
        if playing not in self._mechanisms:
            self._mechanisms[playing] = self._compile(playing)
        return self._mechanisms[playing]

    def _compile(self, playing: tuple[int, ...]) -> _Mechanism:
        names = [self.robot.joints[j] for j in playing]

        def extend(spec: Any) -> None:
            self._add_actuators(spec)
            add_play_joints(spec, names)

        model = mujoco_model(self.robot, self.robot.prior, extend)
        model.opt.timestep = self.timestep
        model.opt.integrator = INTEGRATORS.index(self.integrator)
        model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT
        model.jnt_limited[:] = 0
        model.dof_solref[:] = (FRICTION_STIFFNESS * self.timestep, 1.0)
        slack = [model.joint(play_name(name)) for name in names]
        for joint in slack:
            model.jnt_limited[joint.id] = 1
            model.jnt_solref[joint.id] = (FRICTION_STIFFNESS * self.timestep, 1.0)
        moving = self.robot.carriers
        if model.nv != moving.n_joints + len(playing):
            raise ModelError(
                f"robot '{self.robot.name}' has {model.nv - len(playing)} degrees of freedom in "
                f'MuJoCo for {self.robot.n_joints} joints',
                remedy='lock joints that have no servo (robot.locked)',
            )
        dofs = np.array([model.joint(joint).dofadr[0] for joint in moving.joints])
        slack_dofs = np.array([joint.dofadr[0] for joint in slack], dtype=int)
        places = np.array(playing, dtype=int)
        return _Mechanism(model, dofs, places, slack_dofs, self.robot.mimics)

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

    @property
    def dofs(self) -> np.ndarray:
        """(n,) degrees of freedom of `compiled` in the order of the joints."""
        return self._mechanism(()).dofs

    @cached_property
    def branches(self) -> np.ndarray:
        """(n,) kinematic branch of each joint; on a fixed base, branches do not couple."""
        return np.asarray(self.compiled.dof_treeid[self.dofs])

    def with_parameters(self, parameters: ServoParameters) -> Any:
        """Return MuJoCo's model with the parameters of the joints, those with play twice."""
        mechanism = self._mechanism(parameters.playing)
        model, dofs = copy.copy(mechanism.model), mechanism.dofs
        model.dof_armature[dofs] = parameters.armature
        model.dof_damping.reshape(model.nv, -1)[dofs, 0] = parameters.viscous
        model.dof_frictionloss[dofs] = parameters.coulomb
        for dof, j in zip(mechanism.slack, mechanism.playing, strict=True):
            half = 0.5 * parameters.play[j]
            model.jnt_range[model.dof_jntid[dof]] = (-half, half)
            model.dof_damping.reshape(model.nv, -1)[dof, 0] = parameters.play_damping[j]
            model.dof_armature[dof] = PLAY_ARMATURE * parameters.armature[j]
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
        for playing, alike in groupby(sets, key=lambda each: each.playing):
            group = list(alike)
            width = 1 + 2 * (self.robot.carriers.n_joints + len(playing))
            size = max(1, BATCH // (self.n_steps(recording) * width))
            for first in range(0, len(group), size):
                with _without_log():
                    motions = self._simulate(group[first : first + size], recording)
                for position, velocity in zip(*motions, strict=True):
                    yield self._at_stamps(position, velocity, recording)

    def _simulate(
        self, sets: Sequence[ServoParameters], recording: CommandRecording
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return (n_sets, 1 + n_steps, n) positions and velocities, of sets with the same play."""
        mechanism, steps = self._mechanism(sets[0].playing), self.n_steps(recording)
        models = [self.with_parameters(each) for each in sets]
        controls = np.stack([self.controls(each, recording) for each in sets])
        states = np.zeros((len(sets), 1 + steps, 1 + 2 * mechanism.model.nv))
        positions, velocities = mechanism.columns()
        mimics = self.robot.mimics
        states[:, 0, positions] = mimics.positions(np.asarray(recording.position[0]))
        states[:, 0, velocities] = mimics.rates(np.asarray(recording.initial_velocity))
        feedback = _Feedback(self, mechanism, sets)
        threads = min(len(sets), len(os.sched_getaffinity(0)))
        data = [mujoco.MjData(mechanism.model) for _ in range(threads)]
        piece = max(1, round(feedback.time / self.timestep)) if feedback.time else steps
        with rollout.Rollout(nthread=threads if threads > 1 else 0) as pool:
            for first in range(0, steps, piece):
                start = np.ascontiguousarray(states[:, first])
                part = controls[:, first : first + piece].copy()
                if feedback.sloped:
                    feedback.set_friction(models, start, piece)
                if feedback.playing.size:
                    feedback.correct(part, start)
                after = np.empty((len(sets), part.shape[1], states.shape[2]))
                # the checks of many pieces take as long as the steps
                pool.rollout(
                    models, data, start, part, nstep=part.shape[1], state=after, skip_checks=True
                )
                states[:, first + 1 : first + 1 + part.shape[1]] = after
        return mechanism.outputs(states)

    def _at_stamps(
        self, position: np.ndarray, velocity: np.ndarray, recording: CommandRecording
    ) -> np.ndarray:
        """Return positions at the stamps, by cubics between the states of the steps."""
        time = self.timestep * np.arange(len(position))
        spline = CubicHermiteSpline(time, position, velocity)
        return np.asarray(spline(recording.time - recording.time[0]))


@dataclass(frozen=True)
class _Mechanism:
    """
    Compiled model, in which some joints have play.

    Attributes
    ----------
    model:
        MuJoCo's.
    moving:
        (n + followers,) degrees of freedom of the motors' sides of the joints, and of those that
        mimic others.
    playing:
        (k,) numbers of the joints with play.
    slack:
        (k,) degrees of freedom of their play.
    mimics:
        Joints that follow others.

    """

    model: Any
    moving: np.ndarray
    playing: np.ndarray
    slack: np.ndarray
    mimics: MimicJoints

    @property
    def dofs(self) -> np.ndarray:
        """(n,) degrees of freedom of the motors' sides of the joints."""
        return self.moving[: len(self.mimics.joints)]

    def columns(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the columns of a state with positions and velocities of `moving`."""
        return 1 + self.moving, 1 + self.model.nv + self.moving

    def outputs(self, states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (..., n) positions and velocities of the joints' outputs by states."""
        found = []
        for shift in (1, 1 + self.model.nv):
            values = states[..., shift + self.dofs]
            values[..., self.playing] += states[..., shift + self.slack]
            found.append(values)
        return found[0], found[1]


class _Feedback:
    """
    Friction by position and feedback over play, which change between the pieces of rollouts.

    Attributes
    ----------
    time:
        Longest time of a piece [s]; 0 for none.
    sloped:
        Whether friction depends on the position.
    playing:
        (k,) numbers of the joints with play.

    """

    def __init__(
        self, servo: ServoModel, mechanism: _Mechanism, sets: Sequence[ServoParameters]
    ) -> None:
        self.mechanism, self.step, self.reference = mechanism, servo.timestep, servo.reference
        self.coulomb, self.slope = (
            np.stack([each.values(kind) for each in sets]) for kind in ('coulomb', 'slope')
        )
        self.sloped = bool(self.slope.any())
        self.playing = playing = mechanism.playing
        self.slack = (1 + mechanism.slack, 1 + mechanism.model.nv + mechanism.slack)
        self.since = servo.timestep * np.arange(FRICTION_STEP / servo.timestep + 1)[:, None]
        self.half = np.stack([0.5 * each.play[playing] for each in sets])[:, None]
        gains = (servo.stiffness, servo.damping)
        self.kp, self.kd = (
            np.stack([gain * each.values(kind) for each in sets])[:, None, playing]
            for gain, kind in zip(gains, ('stiffness', 'damping'), strict=True)
        )
        self.time = PLAY_STEP if playing.size else FRICTION_STEP if self.sloped else 0.0

    def set_friction(self, models: Sequence[Any], start: np.ndarray, piece: int) -> None:
        """Set the Coulomb friction of a piece that begins from (n_sets, n_state) states."""
        # friction is that at the middle of the piece, if the velocity stays
        position, velocity = self.mechanism.outputs(start)
        ahead = position + 0.5 * piece * self.step * velocity
        friction = np.maximum(self.coulomb + self.slope * (ahead - self.reference), 0.0)
        for model, values in zip(models, friction, strict=True):
            model.dof_frictionloss[self.mechanism.dofs] = values

    def correct(self, controls: np.ndarray, start: np.ndarray) -> None:
        """Change controls to feedback of the outputs, where actuators feed motors' sides back."""
        position, velocity = start[:, None, self.slack[0]], start[:, None, self.slack[1]]
        expected = position + self.since[: controls.shape[1]] * velocity
        expected = np.minimum(np.maximum(expected, -self.half), self.half)
        controls[..., self.playing] -= self.kp * expected + self.kd * velocity


def add_play_joints(spec: Any, joints: Sequence[str]) -> None:
    """Add to a MuJoCo specification a joint of play behind each of some joints."""
    for name in joints:
        joint = spec.joint(name)
        added = joint.parent.add_joint(name=play_name(name), type=joint.type, axis=joint.axis)
        added.limited, added.range = True, [-1.0, 1.0]
        added.armature = 1.0  # MuJoCo warns of equations without any, before it is set


def play_name(joint: str) -> str:
    """Return the name of the joint that is the play of a joint."""
    return f'{joint}_play'


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
