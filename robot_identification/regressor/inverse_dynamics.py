# SPDX-License-Identifier: Apache-2.0
"""The inverse dynamics regressor: rigid bodies, rotor inertia, friction and coupled drives."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol, runtime_checkable

import numpy as np

from ..compiled import available
from ..data.recording import Motion
from ..errors import ModelError
from ..model.parameters import ParameterLayout, ParameterSet
from ..model.robot import Robot
from .closed_chain import ClosedBodies
from .delta import DeltaBodies
from .drives import DriveTerms
from .elastic import build_elastic
from .friction import Combination, JointTerms, PriorEffort
from .kernel_data import dense_data, KernelData
from .kinematics import tree_of
from .rigid import RigidBodies
from .settings import ModelSettings
from .springs import SpringTerms

PREDICTION_BLOCK = 4096
"""Samples whose regressor is held at once to predict efforts."""


@runtime_checkable
class Regressor(Protocol):
    """Model that is linear in its parameters: ``effort = rows(motion) @ parameters``."""

    @property
    def layout(self) -> ParameterLayout:
        """Names and units of the columns."""

    @property
    def n_joints(self) -> int:
        """Number of rows of a sample."""

    def rows(self, motion: Motion) -> np.ndarray:
        """Rows for a motion, (n_samples * n_joints, len(layout)), a sample's rows together."""


class Term(Protocol):
    """A group of columns of a regressor."""

    @property
    def layout(self) -> ParameterLayout:
        """Names and units of the columns that the term brings."""

    def fill(self, motion: Motion, out: np.ndarray) -> None:
        """
        Write the term's columns of a motion.

        ``out`` is (n_samples, n_joints, n_parameters) and has zeros there; entries that are zero
        for every motion are left alone.
        """


@dataclass(frozen=True)
class InverseDynamicsRegressor:
    """
    Regressor of the efforts at the joints; made by `build`.

    Attributes
    ----------
    layout:
        The standard parameters: ten a link, then rotor inertia and friction joint by joint, then
        the springs and the coupled drives.
    n_joints:
        Number of joints, hence of rows a sample.
    terms:
        Groups of columns.

    """

    layout: ParameterLayout
    n_joints: int
    terms: tuple[Term, ...]

    def rows(
        self, motion: Motion, *, out: np.ndarray | None = None, threads: int = 1
    ) -> np.ndarray:
        """
        Evaluate the regressor.

        Beside the result, memory does not grow with the number of samples.

        Parameters
        ----------
        motion:
            States of n_samples, joints in the robot's order [rad, rad/s, rad/s^2].
        out:
            Contiguous array of the result's shape to write to; made if None.
        threads:
            Most threads that share the work of the compiled kernel.

        Returns
        -------
        np.ndarray
            (n_samples * n_joints, len(layout)), the rows of a sample together, in SI units.

        Raises
        ------
        ValueError
            if the motion has another number of joints, or ``out`` does not fit.

        """
        n_samples, n_joints = motion.position.shape
        if n_joints != self.n_joints:
            raise ValueError(f'the motion has {n_joints} joints, the regressor {self.n_joints}')
        out = result_array((n_samples * n_joints, len(self.layout)), out)
        data = self.kernel_data
        if data is not None:
            data.evaluate(motion, out, threads)
            return out
        out[:] = 0.0
        each = out.reshape(n_samples, n_joints, len(self.layout))
        for term in self.terms:
            term.fill(motion, each)
        return out

    @property
    def breakaway(self) -> np.ndarray | None:
        """(n_joints,) displacement of dry friction [rad or m]; None without one."""
        found = (t.breakaway for t in self.terms if isinstance(t, JointTerms))
        return next(found, None)

    @property
    def kernel_data(self) -> KernelData | None:
        """All columns as data for the compiled kernel; None without it, or for a mechanism."""
        return self._kernel_data if available() else None

    @cached_property
    def _kernel_data(self) -> KernelData | None:
        if self.compilable is None:
            return None
        return dense_data(*self.compilable, len(self.layout))

    @cached_property
    def compilable(self) -> tuple[RigidBodies, tuple[Combination, ...]] | None:
        """The terms, if the compiled kernel can evaluate them all."""
        rigid, *others = self.terms
        kinds = JointTerms, SpringTerms, DriveTerms
        known = [term for term in others if isinstance(term, kinds)]
        if not isinstance(rigid, RigidBodies) or len(known) < len(others):
            return None
        return rigid, tuple(term.combination for term in known)


@dataclass(frozen=True)
class MechanismRegressor(InverseDynamicsRegressor):
    """Regressor of the actuated joints of a robot that is no tree; made by `build`."""

    @property
    def bodies(self) -> ClosedBodies | DeltaBodies:
        """The term of the mechanism."""
        bodies = self.terms[0]
        assert isinstance(bodies, (ClosedBodies, DeltaBodies))
        return bodies

    @property
    def joints(self) -> tuple[str, ...]:
        """Names of the actuated joints."""
        return self.bodies.joints[: self.n_joints]

    def random_motion(self, random: np.random.Generator, samples: int) -> Motion:
        """Return random states that the robot can have."""
        return self.bodies.random_motion(random, samples)


def result_array(shape: tuple[int, int], out: np.ndarray | None) -> np.ndarray:
    """
    Return ``out``, or a new array if it is None.

    Raises ValueError if ``out`` is another than a contiguous array of doubles of this shape.
    """
    if out is None:
        return np.empty(shape)
    if out.shape != shape or out.dtype != np.float64 or not out.flags.c_contiguous:
        kind = '' if out.flags.c_contiguous else ', not contiguous'
        raise ValueError(f'out is {out.dtype} {out.shape}{kind}, expected float64 {shape}')
    return out


def build(robot: Robot, settings: ModelSettings | None = None) -> Regressor:
    """
    Make the regressor of a robot, by default with default settings.

    It is an `InverseDynamicsRegressor`, a `MechanismRegressor` if the settings have closed loops
    or a delta robot, or an `ElasticRegressor` if they have elastic joints.

    Raises
    ------
    SettingsError
        if a coupled drive names a joint that is not identified, or the settings of elastic joints
        do not fit the robot.

    """
    settings = settings or ModelSettings()
    if settings.elastic is not None:
        return build_elastic(robot, settings)
    bodies, kind = _bodies(robot, settings), InverseDynamicsRegressor
    if not isinstance(bodies, RigidBodies):
        kind = MechanismRegressor
    revolute = tree_of(robot.opened).revolute[: robot.n_joints]
    if settings.delta is not None:
        settings = replace(settings, rotor_inertia=False)  # it is part of J
    loads = robot.opened.prior
    known = dict(zip(loads.layout.names, loads.values, strict=True))
    values = np.array([known.get(name, 0.0) for name in bodies.layout])
    joint_terms = JointTerms.of(
        robot.joints,
        revolute,
        settings,
        start=len(bodies.layout),
        effort=PriorEffort(bodies, values, robot.n_joints),
    )
    layout = bodies.layout + joint_terms.layout
    springs = SpringTerms.of(settings.joint_springs, robot.joints, revolute, len(layout))
    terms: list[Term] = [bodies, joint_terms, springs]
    layout = layout + springs.layout
    for drive in settings.coupled_drives:
        term = DriveTerms.of(drive, robot.joints, revolute, settings, layout)
        terms.append(term)
        layout = layout + term.layout
    return kind(layout, robot.n_joints, tuple(terms))


def _bodies(robot: Robot, settings: ModelSettings) -> Term:
    if settings.delta is not None:
        return DeltaBodies.of(robot, settings.delta)
    if settings.loops:
        return ClosedBodies.of(robot, settings)
    if robot.passive:
        raise ModelError(
            f"robot '{robot.name}' has passive joints, but no loops are declared",
            joint=robot.passive[0],
            remedy='declare them in robot.loops, or lock these joints',
        )
    return RigidBodies.of(robot)


def prior(robot: Robot, settings: ModelSettings | None = None) -> ParameterSet:
    """
    Return the standard parameters of the model that the URDF gives.

    Inertial parameters come from ``<inertial>`` (fixed and locked links lumped), ``fv`` and ``fc``
    (or ``ts``) from a joint's ``<dynamics damping friction>``; all others are 0.
    """
    regressor = build(robot, settings)
    layout = regressor.layout
    # where motors have names of their own, the joint's friction is the motor's
    motors = {joint: motor for motor, joint in getattr(regressor, 'motors', {}).items()}
    opened = robot.opened
    values = dict(zip(opened.layout.names, opened.prior.values, strict=True))
    for joint in opened.joints:
        owner, drawn = motors.get(joint, joint), robot.contents.joints[joint]
        values[f'{owner}.fv'] = drawn.damping
        values[f'{owner}.fc'] = values[f'{owner}.ts'] = drawn.friction
    return ParameterSet(layout, np.array([values.get(name, 0.0) for name in layout]))


def predict(regressor: Regressor, motion: Motion, parameters: ParameterSet) -> np.ndarray:
    """
    Return the efforts of a motion, (n_samples, n_joints) [N m or N].

    Raises ValueError if the parameters are not in the regressor's layout.
    """
    if parameters.layout.names != regressor.layout.names:
        raise ValueError('the parameters are not those of the regressor')
    effort = np.empty(motion.position.shape)
    for start in range(0, len(motion), PREDICTION_BLOCK):
        part = motion.rows(start, start + PREDICTION_BLOCK)
        rows = regressor.rows(part)
        effort[start : start + len(part)] = (rows @ parameters.values).reshape(len(part), -1)
    return effort
