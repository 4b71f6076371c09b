# SPDX-License-Identifier: Apache-2.0
"""
Positions, velocities and accelerations of passive joints from those of the actuated ones.

The loops are equations c(q_a, q_p) = 0.  Positions come from Newton's method, along a path: from a
state that is closed the actuated joints move straight to where they are wanted, in steps so short
that the passive joints cannot leave the branch that they are on.  So the passive positions are a
function of the actuated ones, the branch of the configured assembly, whatever the order of the
samples.  With J = dc/dq, velocities and accelerations follow from

    dq_p = G dq_a,    G = -J_p^+ J_a,    ddq_p = G ddq_a - J_p^+ (dJ/dt dq),

where J_p^+ is the pseudo-inverse: mechanisms such as planar linkages have more equations than
passive joints, and the surplus ones agree.

Joint positions are compared in metres: angles times the robot's size.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import scipy

from ..errors import ModelError
from .loops import Loops

CLOSED = 1e-13
"""Loops open by less than this share of the robot's size are closed."""

SINGULAR = 1e-4
"""
Ratio of the extreme singular values of J_p below which the passive joints are not determined:
their velocities would be ten thousand times the actuated ones.
"""

STEP, SMALLEST_STEP = 0.25, 1e-4
"""Longest and shortest step of the actuated joints, in shares of the robot's size."""

CORRECTION = 0.5
"""Share of a step's own length by which Newton's method may correct it."""

NEWTON = 5
"""Newton steps after which a step along the path counts as too long."""


@dataclass(frozen=True)
class Jacobians:
    """
    Jacobians of the passive joints with respect to the actuated joints.

    Attributes
    ----------
    ratio:
        (n_samples, n_passive, n_actuated) G = dq_p/dq_a.
    drift:
        (n_samples, n_passive) accelerations of the passive joints, -J_p^+ dJ/dt dq, if the
        actuated ones have none.
    conditioning:
        (n_samples,) smallest over largest singular value of J_p in metres.

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
    def of(cls, loops: Loops, joints: tuple[str, ...], actuated: int, near: np.ndarray) -> Closure:
        """
        Close the loops near a guess (n_joints,), with the actuated joints where it has them.

        Raises
        ------
        ModelError
            naming the loop that cannot be closed, a passive joint that stays free, or actuated
            joints that the loops do not let move independently.

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
        marks = _marks(wanted * self.weights[:n], STEP * self.loops.scale)
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
        step = np.minimum(1.0, STEP / np.maximum(length, 1e-300))
        active = np.ones(len(start), dtype=bool) if usable is None else usable.copy()
        reached = np.zeros(len(start), dtype=bool)
        while active.any():
            which = np.flatnonzero(active)
            advance = np.minimum(step[which], 1.0 - done[which])
            moved, fine = self._step(position[which], advance[:, None] * way[which])
            good, bad = which[fine], which[~fine]
            position[good] = moved[fine]
            done[good] += advance[fine]
            step[good] = np.minimum(2.0 * step[good], STEP / np.maximum(length[good], 1e-300))
            step[bad] = 0.5 * advance[~fine]
            ended = done >= 1.0 - 1e-12
            reached |= active & ended
            active &= ~ended & (step * np.maximum(length, SMALLEST_STEP) >= 0.5 * SMALLEST_STEP)
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
        for _ in range(NEWTON):
            change = -self._gauss_newton(self.loops.jacobian(moved), self.loops.residual(moved))
            moved[:, n:] += change
            corrected += change
            small = np.abs(change * self.weights[n:]).max(initial=0.0)
            if small < 1e-9 * self.loops.scale:
                break
        residual = np.abs(self.loops.residual(moved)).max(axis=1)
        closed = residual <= CLOSED * self.loops.scale
        gone = np.linalg.norm(np.hstack([move, tangent]) * self.weights, axis=1)
        correction = np.linalg.norm(corrected * self.weights[n:], axis=1)
        # where the step is next to nothing, so is the correction, but for rounding
        sure = correction <= CORRECTION * gone + 1e-9 * self.loops.scale
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
        if values.size < len(right) or values[-1] < SINGULAR * values[0]:
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
    return None if abs(residual[worst]) <= CLOSED * loops.scale else loops.name_of(worst)


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
