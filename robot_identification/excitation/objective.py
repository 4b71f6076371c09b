# SPDX-License-Identifier: Apache-2.0
"""
Objective of the planner with its gradient, in unconstrained variables.

`Objective` is a criterion of the information along a motion of a family that keeps its limits by
construction, with penalties for what cannot be had so: too large efforts (`effort_penalty`), and
links that come close to each other or to an obstacle (`DistancePenalty`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pinocchio as pin

from ..data.recording import Motion
from ..model.parameters import ParameterSet
from ..regressor import Regressor
from ..regressor.inverse_dynamics import pull_back
from .collisions import CollisionModel
from .distance_bounds import BoundingSpheres, random_positions
from .families import Matrices, MotionFamily

WEIGHT = 10.0
"""Factor of the mean penalty of short distances."""

ROOM_SHARE = 0.25
"""Share of its room above the clearance that a pair's buffer takes at most."""

FEW, MANY = 100, 1000
"""Random positions in which distances are measured, and in which they are bounded."""

FAR_APART = 0.15
"""Bound of the distance above which a pair is far apart [m]."""

UNSURE = 0.05
"""Share of the distances to measure above which bounding spheres are quicker."""

EFFORT_SHARE = 0.99
"""Share of an effort limit from which on the penalty grows."""

EFFORT_WEIGHT = 1000.0
"""Factor of the mean squared excess over the effort limits."""

SIGN_WIDTH = 0.05
"""Share of a velocity limit over which the sign of the velocity is smoothed."""

Criterion = Callable[[np.ndarray], tuple[float, np.ndarray]]
"""Turns an information matrix (b, b) into the value to be minimised and its gradient (b, b)."""


@dataclass(frozen=True)
class DistancePenalty:
    """
    Penalty of short distances along a motion.

    Attributes
    ----------
    collisions:
        Shapes and pairs.

    """

    collisions: CollisionModel
    _last: list[np.ndarray] = field(default_factory=list, init=False, repr=False, compare=False)

    @cached_property
    def _watched(self) -> tuple[np.ndarray, BoundingSpheres | None]:
        """
        Pairs (k,) whose distances a penalty looks at, with bounds of them.

        Pairs that are far apart in all of many random positions are left to the last check.
        """
        everyone = np.arange(len(self.collisions.pairs))
        robot, spheres = self.collisions.robot, self.collisions.spheres
        if spheres is None:
            return everyone, None
        nearest = np.full(everyone.size, np.inf)
        for part in np.array_split(random_positions(robot, MANY), 10):
            nearest = np.minimum(nearest, spheres.distances(part).min(axis=1))
        near = everyone[nearest < FAR_APART]
        return near, BoundingSpheres.of(robot, self.collisions.geometry, near.tolist())

    def buffers(self, buffer: float) -> np.ndarray:
        """
        Return the distance (n_pairs,) from which on each pair counts as close [m].

        Pairs that never come far apart have one of their own, a little above the clearance: theirs
        would be a penalty that few motions avoid.  Those that are always closer than the buffer,
        and always keep the clearance, are left to the last check.
        """
        nearest, farthest = self._distances
        clearance = self.collisions.clearance
        own = clearance + ROOM_SHARE * np.maximum(farthest - clearance, 0.0)
        own[(nearest > clearance) & (farthest < buffer)] = 0.0
        return np.minimum(own, buffer)

    @cached_property
    def _distances(self) -> tuple[np.ndarray, np.ndarray]:
        """Smallest and largest distance (n_pairs,) of each pair in random positions [m]."""
        robot, geometry = self.collisions.robot, self.collisions.geometry
        model, data, shapes = robot.model, robot.model.createData(), geometry.createData()
        nearest, farthest = np.full((2, len(self.collisions.pairs)), [[np.inf], [-np.inf]])
        for q in robot.configuration(random_positions(robot, FEW)):
            pin.computeDistances(model, data, geometry, shapes, q)
            found = [result.min_distance for result in shapes.distanceResults]
            nearest, farthest = np.minimum(nearest, found), np.maximum(farthest, found)
        return nearest, farthest

    def of(self, position: np.ndarray, buffer: float) -> tuple[float, np.ndarray]:
        r"""
        Return how much the links come closer than ``buffer``, and its gradient.

        The mean over the positions of the sum over the pairs of :math:`(1 - d / b)^2` where the
        distance d is below the buffer b (`buffers`), times `WEIGHT`.  A distance changes with the
        positions as the nearest points move along the line that joins them.  Only pairs that may
        be closer are measured (`_lower_bounds`).

        Parameters
        ----------
        position:
            (n_samples, n_joints) [rad or m].
        buffer:
            b, larger than the clearance [m].

        Returns
        -------
        tuple of float and np.ndarray
            Value [-] and gradient (n_samples, n_joints).

        """
        gradient = np.zeros_like(position)
        if not self.collisions.pairs:
            return 0.0, gradient
        robot, geometry = self.collisions.robot, self.collisions.geometry
        model, data, shapes = robot.model, robot.model.createData(), geometry.createData()
        buffers, (watched, _) = self.buffers(buffer), self._watched
        lower = self._lower_bounds(position, buffers[watched])
        near = (lower < buffers[watched, None]) & (buffers[watched, None] > 0.0)
        samples, places = np.nonzero(near.T)
        pairs = watched[places]
        configurations, last = robot.configuration(position), -1
        measured: list[float] = []
        found: list[tuple[int, int, float]] = []
        lines: list[np.ndarray] = []
        jacobians: list[np.ndarray] = []
        for sample, pair in zip(samples.tolist(), pairs.tolist(), strict=True):
            if sample != last:
                q, jacobian, last = configurations[sample], None, sample
                pin.updateGeometryPlacements(model, data, geometry, shapes, q)
            result = pin.computeDistance(geometry, shapes, pair)
            measured.append(result.min_distance)
            short = 1.0 - result.min_distance / buffers[pair]
            if short > 0.0:
                found.append((sample, pair, short))
                nearest = result.getNearestPoint1(), result.getNearestPoint2()
                # copied: the next measurement of the pair writes to the same memory
                lines.append(np.array([*nearest, result.normal]))
                if jacobian is None:
                    jacobian = pin.computeJointJacobians(model, data)[:, robot.columns]
                jacobians.append(jacobian)
        lower[places, samples] = measured
        self._last[:] = position, lower
        if not found:
            return 0.0, gradient
        sample, pair, short = (np.array(entry) for entry in zip(*found, strict=True))
        slopes = self._slopes(pair, np.array(lines), np.array(jacobians))
        factor = WEIGHT / len(position)
        np.subtract.at(gradient, sample, (2.0 * factor * short / buffers[pair])[:, None] * slopes)
        return factor * float(short @ short), gradient

    def _lower_bounds(self, position: np.ndarray, buffers: np.ndarray) -> np.ndarray:
        """
        Return lower bounds (k, n_samples) of the distances of the watched pairs [m].

        They are those of the motion before, less what the joints have moved since then can change.
        Where this leaves many unsure, bounding spheres tell more.
        """
        watched, spheres = self._watched
        lower = np.full((watched.size, len(position)), -np.inf)
        if self._last and self._last[0].shape == position.shape:
            moved = np.abs(position - self._last[0])
            lower = self._last[1] - self.collisions.pair_reach[watched] @ moved.T
        if spheres is not None and watched.size and (lower < buffers[:, None]).mean() > UNSURE:
            lower = np.maximum(lower, spheres.distances(position))
        return np.asarray(lower)

    def _slopes(self, pairs: np.ndarray, lines: np.ndarray, jacobians: np.ndarray) -> np.ndarray:
        """
        Return the derivatives (k, n_joints) of distances of ``pairs`` (k,) by the positions.

        A distance changes by how far the nearest points move along the normal, which is the
        product of a unit force at the point with the Jacobian of the joints that carry the shape.
        ``lines`` (k, 3, 3) are the nearest point of either shape and the normal, ``jacobians``
        (k, 6, n_joints) those of all joints for the point at the base frame's origin.
        """
        normal = lines[:, 2]
        slopes = np.zeros((len(pairs), jacobians.shape[2]))
        for side, sign in ((0, -1.0), (1, 1.0)):
            wrench = np.hstack([normal, np.cross(lines[:, side], normal)])
            along = np.einsum('ki,kij->kj', wrench, jacobians)
            slopes += sign * along * self._carried[side][pairs]
        return slopes

    @cached_property
    def _carried(self) -> np.ndarray:
        """(2, n_pairs, n_joints): which joints carry the first and second shape of each pair."""
        robot, geometry = self.collisions.robot, self.collisions.geometry
        carried = np.zeros((2, len(geometry.collisionPairs), robot.n_joints), dtype=bool)
        for number, pair in enumerate(geometry.collisionPairs):
            for side, index in enumerate((pair.first, pair.second)):
                joint = geometry.geometryObjects[index].parentJoint
                supports = list(robot.model.supports[joint])
                carried[side, number] = np.isin(robot.joint_ids, supports)
        return carried


@dataclass(frozen=True)
class Value:
    """
    Value of the objective.

    Attributes
    ----------
    total:
        What is minimised.
    criterion:
        Without the penalties.
    penalty:
        Of efforts and distances; 0 where all is well.

    """

    total: float
    criterion: float
    penalty: float


@dataclass(frozen=True)
class Objective:
    """
    The criterion along a motion, with penalties.

    Attributes
    ----------
    family:
        What motions there are.
    regressor, prior:
        The model, and the parameters that predict efforts.
    columns:
        (b,) columns of the regressor whose parameters are estimated.
    criterion:
        Function of the information that is minimised.
    noise:
        (n_joints,) standard deviation of the efforts of one of ``time``.
    earlier:
        (b, b) information of earlier recordings.
    time:
        (n_samples,) when the motion is looked at [s].
    effort:
        (n_joints,) limits of the efforts.
    distances:
        Penalty of links that come close; None leaves distances aside.
    buffer:
        Distance from which on links count as close [m].
    weight:
        Factor of the penalties.
    every:
        Each so many samples distances are looked at.

    """

    family: MotionFamily
    regressor: Regressor
    columns: np.ndarray
    prior: ParameterSet
    criterion: Criterion
    noise: np.ndarray
    earlier: np.ndarray
    time: np.ndarray
    effort: np.ndarray
    distances: DistancePenalty | None = None
    buffer: float = 0.0
    weight: float = 1.0
    every: int = 2
    _matrices: Matrices = field(init=False, repr=False, compare=False)
    _coulomb: tuple[tuple[int, int], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, '_matrices', self.family.basis.matrices(self.time))
        names = {name: i for i, name in enumerate(self.regressor.layout.names)}
        places = [(j, names.get(f'{name}.fc')) for j, name in enumerate(self.family.limits.joints)]
        object.__setattr__(self, '_coulomb', tuple(p for p in places if p[1] is not None))

    def motion(self, x: np.ndarray) -> Motion:
        """Return the motion at `time` for variables x."""
        return Motion(*self.family.motion(x, self._matrices))

    def rows(self, motion: Motion) -> np.ndarray:
        """
        Return the regressor as (n_samples, n_joints, n_parameters).

        Coulomb friction's jump is smoothed: a criterion that jumps has no useful gradient, and a
        drive that hardly moves says little about it.
        """
        rows = self.regressor.rows(motion).reshape(len(motion), -1, len(self.regressor.layout))
        for joint, column in self._coulomb:
            rows[:, joint, column] = np.tanh(motion.velocity[:, joint] / self._width(joint))
        return rows

    def _effort(self, rows: np.ndarray) -> np.ndarray:
        """
        Return the efforts (n_samples, n_joints), with friction of either sign near a reversal.

        What is missing of the friction where its sign is smoothed is added to the size: within the
        width the sign changes, and the effort is the larger one of both sides.
        """
        effort = rows @ self.prior.values
        for joint, column in self._coulomb:
            missing = self.prior.values[column] * (1.0 - np.abs(rows[:, joint, column]))
            effort[:, joint] += np.copysign(missing, effort[:, joint])
        return np.asarray(effort)

    def _width(self, joint: int) -> float:
        return SIGN_WIDTH * float(self.family.limits.velocity[joint])

    def information(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the information (b, b) and the weighed base rows (n_samples n_joints, b)."""
        base = rows[:, :, self.columns] / self.noise[:, None]
        flat = base.reshape(-1, self.columns.size)
        return flat.T @ flat + self.earlier, flat

    def value(self, x: np.ndarray) -> Value:
        """Return the value for variables x."""
        motion = self.motion(x)
        rows = self.rows(motion)
        criterion, _ = self.criterion(self.information(rows)[0])
        effort, _ = effort_penalty(self._effort(rows), self.effort)
        distance, _ = self._distance(motion)
        penalty = self.weight * (effort + distance)
        return Value(criterion + penalty, criterion, penalty)

    def gradient(self, x: np.ndarray) -> tuple[Value, np.ndarray]:
        """Return the value and its gradient by the variables."""
        motion = self.motion(x)
        rows = self.rows(motion)
        information, flat = self.information(rows)
        criterion, by_information = self.criterion(information)
        effort, by_effort = effort_penalty(self._effort(rows), self.effort)
        distance, by_position = self._distance(motion)
        by_rows = np.zeros_like(rows)
        if effort > 0.0:
            by_rows += self.weight * by_effort[:, :, None] * self.prior.values
        by_base = (flat @ (2.0 * by_information)).reshape(len(motion), -1, flat.shape[1])
        by_rows[:, :, self.columns] += by_base / self.noise[:, None]
        by_signs = [by_rows[:, joint, column].copy() for joint, column in self._coulomb]
        for joint, column in self._coulomb:
            by_rows[:, joint, column] = 0.0
        by_q, by_dq, by_ddq = pull_back(self.regressor, motion, by_rows)
        by_q += self.weight * by_position
        for (joint, column), by_sign in zip(self._coulomb, by_signs, strict=True):
            bent = (1.0 - rows[:, joint, column] ** 2) / self._width(joint)
            # the missing friction falls as the smoothed sign grows
            missing = np.sign(rows[:, joint, column]) * np.sign(by_effort[:, joint])
            missing *= self.weight * by_effort[:, joint] * self.prior.values[column]
            by_dq[:, joint] += (by_sign - missing) * bent
        penalty = self.weight * (effort + distance)
        value = Value(criterion + penalty, criterion, penalty)
        return value, self.family.pull_back(x, self._matrices, (by_q, by_dq, by_ddq))

    def _distance(self, motion: Motion) -> tuple[float, np.ndarray]:
        """Return the penalty of distances at some samples, and its gradient by all positions."""
        gradient = np.zeros_like(motion.position)
        value, some = 0.0, slice(None, None, self.every)
        if self.distances is not None:
            value, gradient[some] = self.distances.of(motion.position[some], self.buffer)
        return value, gradient


def effort_penalty(effort: np.ndarray, limit: np.ndarray) -> tuple[float, np.ndarray]:
    """Return the mean squared excess over the limits, and its gradient (n_samples, n_joints)."""
    excess = np.maximum(np.abs(effort) / limit - EFFORT_SHARE, 0.0)
    factor = EFFORT_WEIGHT / len(effort)
    gradient = np.where(excess > 0.0, 2.0 * factor * excess * np.sign(effort) / limit, 0.0)
    return float(factor * (excess**2).sum()), gradient
