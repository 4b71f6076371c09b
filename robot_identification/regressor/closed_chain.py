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

The loops are equations c(q_a, q_p) = 0.  Positions come from Newton's method, along a path: from a
state that is closed the actuated joints move straight to where they are wanted, in steps so short
that the passive joints cannot leave the branch that they are on.  So the passive positions are a
function of the actuated ones, the branch of the configured assembly, whatever the order of the
samples.  With J = dc/dq, velocities and accelerations follow from

    dq_p = G dq_a,    G = -J_p^+ J_a,    ddq_p = G ddq_a - J_p^+ (dJ/dt dq),

where J_p^+ is the pseudo-inverse: mechanisms such as planar linkages have more equations than
passive joints, and the surplus ones agree.  Joint positions are compared in metres: angles times
the robot's size.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import scipy

from ..data.recording import Motion
from ..errors import ModelError, RecordingError
from ..model.parameters import INERTIAL_SYMBOLS, ParameterLayout
from ..model.robot import Robot
from .joint_terms import unit_of
from .loops import Loops
from .rigid import RigidBodies
from .settings import ModelSettings


@dataclass(frozen=True)
class LoopConstants:
    """Constants by which loops are closed."""

    closed_share: float = 1e-13
    """Loops open by less than this share of the robot's size are closed."""
    singular_ratio: float = 1e-4
    """
    Ratio of the extreme singular values of J_p below which the passive joints are not determined:
    their velocities would be ten thousand times the actuated ones.
    """
    longest_step: float = 0.25
    """Longest step of the actuated joints, in shares of the robot's size."""
    shortest_step: float = 1e-4
    """Shortest step of the same."""
    correction_share: float = 0.5
    """Share of a step's own length by which Newton's method may correct it."""
    newton_steps: int = 5
    """Newton steps after which a step along the path counts as too long."""


LOOPS = LoopConstants()


@dataclass(frozen=True)
class Jacobians:
    """
    Jacobians of the passive joints with respect to the actuated joints.

    ``ratio`` (n_samples, n_passive, n_actuated) is G = dq_p/dq_a, ``drift`` (n_samples, n_passive)
    the accelerations of the passive joints, -J_p^+ dJ/dt dq, if the actuated ones have none, and
    ``conditioning`` (n_samples,) smallest over largest singular value of J_p in metres.
    """

    ratio: np.ndarray
    drift: np.ndarray
    conditioning: np.ndarray


@dataclass(frozen=True)
class Closure:
    """
    The loops of a robot, solved for its passive joints.

    All positions are those of the opened robot: the ``actuated`` joints, then the passive ones.
    ``assembly`` (n_joints,) is a closed state, whose branch is the one that is followed;
    ``weights`` (n_joints,) are metres for a unit of each joint.
    """

    loops: Loops
    actuated: int
    assembly: np.ndarray
    weights: np.ndarray
    _last: list[np.ndarray] = field(default_factory=list, init=False, repr=False, compare=False)

    @classmethod
    def from_loops(
        cls, loops: Loops, joints: tuple[str, ...], actuated: int, near: np.ndarray
    ) -> Closure:
        """
        Close the loops near a guess (n_joints,), with the actuated joints where it has them.

        Raises ModelError naming the loop that cannot be closed, a passive joint that stays free,
        or actuated joints that the loops do not let move independently.
        """
        weights = np.where(loops.tree.revolute, loops.scale, 1.0)
        position, residual = _nearly_closed(loops, near, actuated, weights)
        name = _open_loop(loops, residual)
        if name is not None:
            raise ModelError(
                f"loop '{name}' cannot be closed: it stays open by {np.abs(residual).max():.3g} m",
                value=name,
                remedy='correct its points, or give positions near a closed state in '
                'robot.assembly',
            )
        closure = cls(loops, actuated, position, weights)
        closure._require_determined(joints)
        return closure

    def solve(self, wanted: np.ndarray, *, ordered: bool = True) -> tuple[np.ndarray, np.ndarray]:
        """
        Close the loops for positions (n_samples, n_actuated) of the actuated joints.

        Return (n_samples, n_joints) positions of all joints, and (n_samples,) whether the loops
        are closed there.  ``ordered`` samples are one motion, in parts perhaps: the way to one may
        then lead over others, or from the end of the part before, if the straight one is barred;
        it ends at the first that cannot be reached at all.
        """
        n = self.actuated
        marks = _marks(wanted * self.weights[:n], LOOPS.longest_step * self.loops.scale)
        anchors = np.flatnonzero(np.diff(marks, prepend=-1))
        start = np.broadcast_to(self.assembly, (anchors.size, self.assembly.size))
        turns = self._whole_turns(wanted[anchors])
        known, closed = self._follow(start, wanted[anchors] - turns)
        known[:, :n] += turns
        if ordered:
            self._detour(known, closed, wanted[anchors])
        group = np.searchsorted(anchors, np.arange(len(wanted)), side='right') - 1
        position, reached = self._follow(known[group], wanted, usable=closed[group])
        if ordered and reached.size and reached[-1]:
            self._last[:] = [position[-1]]
        return position, reached

    def jacobians(self, position: np.ndarray, velocity: np.ndarray) -> Jacobians:
        """
        Return the Jacobians at closed positions (n_samples, n_joints).

        ``velocity`` is (n_samples, n_actuated) of the actuated joints.
        """
        n = self.actuated
        jacobian = self.loops.jacobian(position)
        inverse = self._inverse(jacobian)
        ratio = -inverse @ jacobian[:, :, :n]
        passive = (ratio @ velocity[:, :, None])[:, :, 0]
        bias = self.loops.bias(position, np.concatenate([velocity, passive], axis=1))
        drift = -(inverse @ bias[:, :, None])[:, :, 0]
        return Jacobians(ratio, drift, self.conditioning(jacobian))

    def conditioning(self, jacobian: np.ndarray) -> np.ndarray:
        """Smallest over largest singular value of J_p in metres, (n_samples,)."""
        passive = self._passive(jacobian)
        values = np.linalg.svd(passive, compute_uv=False)
        if values.shape[1] < passive.shape[2]:
            return np.zeros(len(values))  # too few equations
        return values[:, -1] / np.where(values[:, 0] > 0.0, values[:, 0], 1.0)

    def nearest(self, wanted: np.ndarray) -> tuple[np.ndarray, str | None]:
        """
        Close the loops as far as possible at one position of the actuated joints.

        Return (n_joints,) positions, and the loop that stays open the most; None if all close.
        """
        near = np.concatenate([wanted, self.assembly[self.actuated :]])
        position, residual = _nearly_closed(self.loops, near, self.actuated, self.weights)
        return position, _open_loop(self.loops, residual)

    def singular_loop(self, position: np.ndarray) -> str:
        """Name the loop that is nearest to singular in one state."""
        passive = self._passive(self.loops.jacobian(position[None]))
        left, _, _ = np.linalg.svd(passive[0], full_matrices=False)
        return self.loops.name_of(int(np.argmax(np.abs(left[:, -1]))))

    def _passive(self, jacobian: np.ndarray) -> np.ndarray:
        """J_p in metres."""
        return jacobian[:, :, self.actuated :] / self.weights[self.actuated :]

    def _inverse(self, jacobian: np.ndarray) -> np.ndarray:
        """Pseudo-inverse of J_p."""
        inverse = np.linalg.pinv(self._passive(jacobian), rcond=1e-12)
        return inverse / self.weights[self.actuated :, None]

    def _whole_turns(self, wanted: np.ndarray) -> np.ndarray:
        """Whole turns of the actuated joints from the assembly on, which change nothing."""
        n = self.actuated
        turns = np.trunc((wanted - self.assembly[:n]) / (2.0 * np.pi)) * (2.0 * np.pi)
        return np.where(self.loops.tree.revolute[:n], turns, 0.0)

    def _detour(self, known: np.ndarray, closed: np.ndarray, wanted: np.ndarray) -> None:
        """Reach in place, from its neighbours or the last motion's end, what is not closed."""
        if self._last and not closed[0]:
            position, fine = self._follow(self._last[0][None], wanted[:1])
            if fine[0]:
                known[0], closed[0] = position[0], True
        last = len(closed) - 1
        for order in (range(1, last + 1), range(last - 1, -1, -1)):
            for i in order:
                before = i - order.step
                if closed[i] or not closed[before]:
                    continue
                near = slice(before, before + 1)
                position, fine = self._follow(known[near], wanted[i : i + 1])
                if not fine[0]:
                    return
                known[i], closed[i] = position[0], True

    def _follow(
        self, start: np.ndarray, wanted: np.ndarray, usable: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """
        Move the actuated joints straight from closed states to where they are wanted.

        Return positions, and which of them were reached with closed loops all the way.
        """
        n, position = self.actuated, start.copy()
        way = wanted - start[:, :n]
        length = np.linalg.norm(way * self.weights[:n], axis=1) / self.loops.scale
        done = np.zeros(len(start))
        step = np.minimum(1.0, LOOPS.longest_step / np.maximum(length, 1e-300))
        active = np.ones(len(start), dtype=bool) if usable is None else usable.copy()
        reached = np.zeros(len(start), dtype=bool)
        while active.any():
            which = np.flatnonzero(active)
            advance = np.minimum(step[which], 1.0 - done[which])
            moved, fine = self._step(position[which], advance[:, None] * way[which])
            good, bad = which[fine], which[~fine]
            position[good] = moved[fine]
            done[good] += advance[fine]
            longest = LOOPS.longest_step / np.maximum(length[good], 1e-300)
            step[good] = np.minimum(2.0 * step[good], longest)
            step[bad] = 0.5 * advance[~fine]
            ended = done >= 1.0 - 1e-12
            reached |= active & ended
            least = LOOPS.shortest_step
            active &= ~ended & (step * np.maximum(length, least) >= 0.5 * least)
        position[reached, :n] = wanted[reached]
        return position, reached

    def _step(self, position: np.ndarray, move: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """One step along the path, by the tangent and Newton's corrections; whether it is sure."""
        n = self.actuated
        jacobian = self.loops.jacobian(position)
        tangent = -self._gauss_newton(jacobian, (jacobian[:, :, :n] @ move[:, :, None])[:, :, 0])
        moved = position.copy()
        moved[:, :n] += move
        moved[:, n:] += tangent
        corrected = np.zeros_like(tangent)
        for _ in range(LOOPS.newton_steps):
            change = -self._gauss_newton(self.loops.jacobian(moved), self.loops.residual(moved))
            moved[:, n:] += change
            corrected += change
            small = np.abs(change * self.weights[n:]).max(initial=0.0)
            if small < 1e-9 * self.loops.scale:
                break
        residual = np.abs(self.loops.residual(moved)).max(axis=1)
        closed = residual <= LOOPS.closed_share * self.loops.scale
        gone = np.linalg.norm(np.hstack([move, tangent]) * self.weights, axis=1)
        correction = np.linalg.norm(corrected * self.weights[n:], axis=1)
        # where the step is next to nothing, so is the correction, but for rounding
        sure = correction <= LOOPS.correction_share * gone + 1e-9 * self.loops.scale
        return moved, closed & sure & np.isfinite(moved).all(axis=1)

    def _gauss_newton(self, jacobian: np.ndarray, residual: np.ndarray) -> np.ndarray:
        """Solve J_p x = residual in the least-squares sense, (n_samples, n_passive)."""
        passive = self._passive(jacobian)
        square = passive.transpose(0, 2, 1) @ passive
        # regular even in a singular state; Newton's method does not mind this little
        floor = 1e-14 * np.trace(square, axis1=1, axis2=2) + 1e-300
        square += floor[:, None, None] * np.eye(square.shape[1])
        right = passive.transpose(0, 2, 1) @ residual[:, :, None]
        return np.linalg.solve(square, right)[:, :, 0] / self.weights[self.actuated :]

    def _require_determined(self, joints: tuple[str, ...]) -> None:
        n = self.actuated
        jacobian = self.loops.jacobian(self.assembly[None])
        _, values, right = np.linalg.svd(self._passive(jacobian)[0])
        if values.size < len(right) or values[-1] < LOOPS.singular_ratio * values[0]:
            loose = joints[n + int(np.argmax(np.abs(right[-1])))]
            raise ModelError(
                f"the loops do not determine passive joint '{loose}' at the assembly",
                joint=loose,
                remedy='name it in robot.joints if it has a drive, lock it, or declare the loop '
                'that moves it; if the assembly is singular give another in robot.assembly',
            )
        inverse = self._inverse(jacobian)
        blocked = jacobian[0][:, :n] - jacobian[0][:, n:] @ inverse[0] @ jacobian[0][:, :n]
        blocked = blocked / self.weights[:n]
        if np.abs(blocked).max(initial=0.0) > 1e-6:
            row, column = np.unravel_index(int(np.argmax(np.abs(blocked))), blocked.shape)
            name = self.loops.name_of(int(row))
            raise ModelError(
                f"loop '{name}' does not let joint '{joints[int(column)]}' move by itself",
                joint=joints[int(column)],
                value=name,
                remedy='leave joints that others determine out of robot.joints',
            )


def _marks(position: np.ndarray, length: float) -> np.ndarray:
    """Count the pieces of ``length`` on the way that leads to each sample."""
    steps = np.linalg.norm(np.diff(position, axis=0, prepend=position[:1]), axis=1)
    return np.floor(np.cumsum(steps) / length).astype(np.int64)


def _open_loop(loops: Loops, residual: np.ndarray) -> str | None:
    """Return the loop that is open the most; None if all are closed."""
    worst = int(np.argmax(np.abs(residual)))
    closed = abs(residual[worst]) <= LOOPS.closed_share * loops.scale
    return None if closed else loops.name_of(worst)


def _nearly_closed(
    loops: Loops, near: np.ndarray, actuated: int, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Close the loops as far as possible; return positions and residual."""

    def residual(passive: np.ndarray) -> np.ndarray:
        position[actuated:] = passive / weights[actuated:]
        return loops.residual(position[None])[0]

    def jacobian(passive: np.ndarray) -> np.ndarray:
        position[actuated:] = passive / weights[actuated:]
        return loops.jacobian(position[None])[0][:, actuated:] / weights[actuated:]

    position = np.array(near, dtype=float)
    start = position[actuated:] * weights[actuated:]
    with np.errstate(invalid='ignore'):  # 0 / 0 in a step that does not move
        found = scipy.optimize.least_squares(
            residual, start, jacobian, ftol=None, xtol=1e-15, gtol=None
        )
    return position, residual(found.x)


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
    def from_robot(cls, robot: Robot, settings: ModelSettings) -> ClosedBodies:
        """
        Close the loops of a robot with passive joints.

        Raises ModelError if the robot has no passive joints, a loop names a link that it does not
        have or cannot be closed, or the loops do not determine the passive joints.
        """
        if not robot.passive:
            raise ModelError(
                f"robot '{robot.name}' has loops but no passive joint that they could move",
                remedy='name the joints that have drives, and those alone, in robot.joints',
            )
        opened = robot.opened
        loops = Loops.from_settings(robot, settings.loops)
        near = np.zeros(opened.n_joints)
        for joint, position in settings.assembly.items():
            near[opened.joint_index(joint)] = position
        closure = Closure.from_loops(loops, opened.joints, robot.n_joints, near)
        bodies = RigidBodies.from_robot(opened)
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
        Write the columns of a motion, as `Term` asks.

        Raises RecordingError naming the loop and the sample where it cannot be closed or is
        singular.
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
        regular = jacobians.conditioning >= LOOPS.singular_ratio
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
