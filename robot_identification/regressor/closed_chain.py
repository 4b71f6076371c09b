# SPDX-License-Identifier: Apache-2.0
"""
Rigid-body columns of robots with closed loops.

The loops are cut open at the declared joints.  What is left is a tree, whose regressor Y has rows
for the actuated joints and for the passive ones.  By the principle of virtual work the forces in
the cut joints, which do no work, drop out of

    tau_a = Y_a p + G^T Y_p p,    G = dq_p/dq_a,

evaluated at the motion of all joints that the loops make of that of the actuated ones (Khalil and
Dombre, "Modeling, Identification and Control of Robots", 2002, chapter 10).  Friction in passive
joints is projected likewise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..data.recording import Motion
from ..errors import ModelError, RecordingError
from ..model.parameters import INERTIAL_SYMBOLS, ParameterLayout
from ..model.robot import Robot
from .closure import Closure, Jacobians, SINGULAR
from .friction import unit_of
from .loops import Loops
from .rigid import RigidBodies
from .settings import ModelSettings

BLOCK = 512
"""Samples whose regressor of the tree is held at once."""

REGULAR = 0.5
"""Conditioning of the loops, relative to its median, that random states have at least."""


@dataclass(frozen=True)
class ClosedBodies:
    """
    Columns of the links of a robot with closed loops, and of friction in its passive joints.

    Attributes
    ----------
    layout:
        Ten parameters a link that has mass, then ``<joint>.fv`` of the passive joints if asked.
    joints:
        Names of all joints: the actuated ones, then the passive ones.
    closure:
        Solver of the loops.
    bodies, columns:
        Columns of the tree with its loops cut open, and their places in ``layout``'s order.
    viscous:
        Whether passive joints have viscous friction.
    limits:
        (2, n_actuated) range of positions for random states [rad or m].

    """

    layout: ParameterLayout
    joints: tuple[str, ...]
    closure: Closure
    bodies: RigidBodies
    columns: np.ndarray
    viscous: bool
    limits: np.ndarray

    @classmethod
    def of(cls, robot: Robot, settings: ModelSettings) -> ClosedBodies:
        """
        Close the loops of a robot with passive joints.

        Raises
        ------
        ModelError
            if the robot has no passive joints, a loop names a link that it does not have or cannot
            be closed, or the loops do not determine the passive joints.

        """
        if not robot.passive:
            raise ModelError(
                f"robot '{robot.name}' has loops but no passive joint that they could move",
                remedy='name the joints that have drives, and those alone, in robot.joints',
            )
        opened = robot.opened
        loops = Loops.of(robot, settings.loops)
        near = np.zeros(opened.n_joints)
        for joint, position in settings.assembly.items():
            near[opened.joint_index(joint)] = position
        closure = Closure.of(loops, opened.joints, robot.n_joints, near)
        bodies = RigidBodies.of(opened)
        columns = _massive(robot, bodies.layout)
        layout = bodies.layout.select(columns)
        if settings.passive_viscous:
            layout = layout + _viscous(loops, robot)
        return cls(
            layout=layout,
            joints=opened.joints,
            closure=closure,
            bodies=bodies,
            columns=columns,
            viscous=settings.passive_viscous,
            limits=_reach(robot, closure),
        )

    @property
    def n_joints(self) -> int:
        """Number of actuated joints."""
        return self.closure.actuated

    def fill(self, motion: Motion, out: np.ndarray) -> None:
        """
        Write the columns of a motion, as `inverse_dynamics.Term` asks.

        Raises
        ------
        RecordingError
            naming the loop and the sample where it cannot be closed or is singular.

        """
        for start in range(0, len(motion), BLOCK):
            part = motion.rows(start, start + BLOCK)
            whole, jacobians = self.complete(part, start)
            self._fill_block(whole, jacobians, out[start : start + BLOCK])

    def complete(self, motion: Motion, first: int = 0) -> tuple[Motion, Jacobians]:
        """
        Return the motion of all joints, and how the passive ones depend on the actuated ones.

        ``first`` is the number of the motion's first sample, for the messages of `fill`.
        """
        position, closed = self.closure.solve(motion.position)
        if not closed.all():
            raise self._unclosed(motion, int(np.argmin(closed)), first)
        jacobians = self.closure.jacobians(position, motion.velocity)
        regular = jacobians.conditioning >= SINGULAR
        if not regular.all():
            row = int(np.argmin(jacobians.conditioning))
            raise self._singular(motion, position[row], row, first)
        return _completed(position, motion, jacobians), jacobians

    def random_motion(self, random: np.random.Generator, samples: int) -> Motion:
        """
        Return random states in which the loops are closed and well away from singular.

        Raises ModelError if there are hardly any.
        """
        low, high = self.limits
        found: list[np.ndarray] = []
        count = drawn = 0
        while count < samples:
            if drawn > 100 * samples:
                raise ModelError(
                    f'hardly any random position closes the loops: {count} of {drawn}',
                    remedy='give the actuated joints <limit lower upper> within which they close',
                )
            wanted = random.uniform(low, high, (samples, low.size))
            position, closed = self.closure.solve(wanted, ordered=False)
            drawn += samples
            if closed.any():
                # near singular states a few large rows would hide all others
                jacobian = self.closure.loops.jacobian(position[closed])
                conditioning = self.closure.conditioning(jacobian)
                found.append(wanted[closed][conditioning >= REGULAR * np.median(conditioning)])
                count += len(found[-1])
        shape = (samples, low.size)
        return Motion(
            position=np.concatenate(found)[:samples],
            velocity=random.uniform(-3.0, 3.0, shape),
            acceleration=random.uniform(-10.0, 10.0, shape),
        )

    def _fill_block(self, motion: Motion, jacobians: Jacobians, out: np.ndarray) -> None:
        n, c = self.n_joints, self.columns.size
        tree = np.zeros((len(motion), len(self.joints), len(self.bodies.layout)))
        self.bodies.fill(motion, tree)
        tree = tree[:, :, self.columns]
        turned = jacobians.ratio.transpose(0, 2, 1)
        out[:, :, :c] = tree[:, :n] + turned @ tree[:, n:]
        if self.viscous:
            out[:, :, c : len(self.layout)] = turned * motion.velocity[:, None, n:]

    def _unclosed(self, motion: Motion, row: int, first: int) -> RecordingError:
        position, loop = self.closure.nearest(motion.position[row])
        if loop is None:
            return self._singular(motion, position, row, first)
        return RecordingError(
            f"loop '{loop}' cannot be closed {self._where(motion, row, first)}",
            value=loop,
            remedy='check units, signs and offsets of the positions, the points of the loop, and '
            'robot.assembly',
        )

    def _singular(
        self, motion: Motion, position: np.ndarray, row: int, first: int
    ) -> RecordingError:
        loop = self.closure.singular_loop(position)
        return RecordingError(
            f"loop '{loop}' is singular {self._where(motion, row, first)}, or on the way there: "
            'the passive joints do not follow from the actuated ones',
            value=loop,
            remedy='cut these rows from the recording, and keep away from that place',
        )

    def _where(self, motion: Motion, row: int, first: int) -> str:
        pairs = zip(self.joints, motion.position[row], strict=False)
        positions = ', '.join(f'{joint} = {value:.4g}' for joint, value in pairs)
        return f'at {motion.where(row, first)} ({positions})'


def _completed(position: np.ndarray, motion: Motion, jacobians: Jacobians) -> Motion:
    ratio = jacobians.ratio
    velocity = (ratio @ motion.velocity[:, :, None])[:, :, 0]
    acceleration = (ratio @ motion.acceleration[:, :, None])[:, :, 0] + jacobians.drift
    return Motion(
        position=position,
        velocity=np.concatenate([motion.velocity, velocity], axis=1),
        acceleration=np.concatenate([motion.acceleration, acceleration], axis=1),
    )


def _massive(robot: Robot, layout: ParameterLayout) -> np.ndarray:
    """Columns of all links but the passive ones without mass, which stand for a joint's parts."""
    opened = robot.opened
    kept = [
        link
        for place, link in enumerate(opened.links)
        if place < robot.n_joints or opened.prior.inertial(link).any()
    ]
    return layout.indices([f'{link}.{symbol}' for link in kept for symbol in INERTIAL_SYMBOLS])


def _viscous(loops: Loops, robot: Robot) -> ParameterLayout:
    turning = loops.tree.revolute[robot.n_joints :]
    return ParameterLayout(
        tuple(f'{joint}.fv' for joint in robot.passive),
        tuple(unit_of('fv', revolute=turns) for turns in turning),
    )


def _reach(robot: Robot, closure: Closure) -> np.ndarray:
    """Range of positions to look for random states in: the limits, or half a turn or a length."""
    n = robot.n_joints
    middle = closure.assembly[:n]
    reach = np.where(closure.loops.tree.revolute[:n], np.pi, closure.loops.scale)
    lower, upper = robot.limits.lower, robot.limits.upper
    return np.array(
        [
            np.where(np.isfinite(lower), lower, middle - reach),
            np.where(np.isfinite(upper), upper, middle + reach),
        ]
    )
