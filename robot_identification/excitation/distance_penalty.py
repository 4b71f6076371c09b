# SPDX-License-Identifier: Apache-2.0
"""Penalty that keeps a search away from motions on which links come close to each other."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ..data.recording import Motion
from .collision_geometry import BoundingSpheres, random_positions
from .collisions import CollisionModel


@dataclass(frozen=True)
class DistancePenaltyConstants:
    """Constants of the penalty."""

    weight: float = 10.0
    """Factor of the mean penalty of short distances."""
    room_share: float = 0.25
    """Share of its room above the clearance that a pair's buffer takes at most."""
    measured_positions: int = 100
    """Random positions in which distances are measured."""
    bounded_positions: int = 1000
    """Random positions in which distances are bounded."""
    far_apart: float = 0.15
    """Bound of the distance above which a pair is far apart [m]."""
    unsure_share: float = 0.05
    """Share of the distances to measure above which bounding spheres are quicker."""


PENALTY = DistancePenaltyConstants()


@dataclass(frozen=True)
class DistancePenalty:
    """Penalty of short distances along a motion."""

    collisions: CollisionModel
    """Shapes and pairs."""
    deceleration: np.ndarray | None = None
    """(n_joints,) of a controller's stops (`stops.decelerations`); None where it holds at once."""
    # positions and distances of the motion before, and of the ends of its stops
    _last: dict[bool, tuple[np.ndarray, np.ndarray]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @cached_property
    def _watched(self) -> tuple[np.ndarray, BoundingSpheres]:
        """
        Pairs (k,) whose distances a penalty looks at, with bounds of them.

        Pairs that are far apart in all of many random positions are left to the last check.
        """
        everyone, robot = np.arange(len(self.collisions.pairs)), self.collisions.robot
        nearest = np.full(everyone.size, np.inf)
        for part in np.array_split(random_positions(robot, PENALTY.bounded_positions), 10):
            nearest = np.minimum(nearest, self.collisions.spheres.distances(part).min(axis=1))
        near = everyone[nearest < PENALTY.far_apart]
        return near, BoundingSpheres.from_geometry(robot, self.collisions.geometry, near.tolist())

    def buffers(self, buffer: float) -> np.ndarray:
        """
        Return the distance (n_pairs,) above which each pair counts as close [m].

        Pairs that never come far apart have one of their own, a little above the clearance: theirs
        would be a penalty that few motions avoid.  Those that are always closer than the buffer,
        and always keep the clearance, are left to the last check.  Where tracking errors count,
        all are larger by what these take from the pair's distance on average.
        """
        least, farthest, allowance = self._distances
        clearances = self.collisions.clearances
        kept = clearances + allowance
        own = kept + PENALTY.room_share * np.maximum(farthest - kept, 0.0)
        own[(least > clearances) & (farthest < buffer + allowance)] = 0.0
        return np.asarray(np.minimum(own, buffer + allowance))

    @cached_property
    def _distances(self) -> np.ndarray:
        """
        Distances of the watched pairs in random positions, (3, n_pairs) [m].

        They are the least with tracking errors, the largest without, and what these errors take on
        average.
        """
        watched, _ = self._watched
        count = PENALTY.measured_positions
        position = random_positions(self.collisions.robot, count)
        found = self.collisions.measure(
            np.repeat(position, watched.size, axis=0), np.tile(watched, count)
        )
        measured = np.array([(c.distance, c.planned) for c in found]).reshape(count, -1, 2)
        least, planned = np.moveaxis(measured, 2, 0)
        result = np.zeros((3, len(self.collisions.pairs)))
        result[:, watched] = least.min(axis=0), planned.max(axis=0), (planned - least).mean(axis=0)
        return result

    def of_motion(self, motion: Motion, buffer: float) -> tuple[float, np.ndarray, np.ndarray]:
        """Return the penalty of positions and of where stops end, and its gradients by q and v."""
        value, by_position = self.at_positions(motion.position, buffer)
        if self.deceleration is None:
            return value, by_position, np.zeros_like(by_position)
        turn = np.abs(motion.velocity) / self.deceleration
        end = motion.position + 0.5 * motion.velocity * turn
        more, by_end = self.at_positions(end, buffer, ends=True)
        return value + more, by_position + by_end, turn * by_end

    def at_positions(
        self, position: np.ndarray, buffer: float, *, ends: bool = False
    ) -> tuple[float, np.ndarray]:
        r"""
        Return how much the links come closer than ``buffer``, and its gradient.

        The mean over the positions of the sum over the pairs of :math:`(1 - d / b)^2` where the
        distance d is below the buffer b (`buffers`), times `PENALTY.weight`.  A distance changes
        with the positions as the nearest points move along the line that joins them.  Only pairs
        that may be closer are measured (`_lower_bounds`).

        Parameters
        ----------
        position:
            (n_samples, n_joints) [rad or m].
        buffer:
            b, larger than the clearance [m].
        ends:
            True for ends of stops.

        Returns
        -------
        tuple of float and np.ndarray
            Value [-] and gradient (n_samples, n_joints).

        """
        gradient = np.zeros_like(position)
        buffers, (watched, _) = self.buffers(buffer), self._watched
        lower = self._lower_bounds(position, buffers[watched], self._last.get(ends))
        near = (lower < buffers[watched, None]) & (buffers[watched, None] > 0.0)
        samples, places = np.nonzero(near.T)
        pairs = watched[places]
        measured = self.collisions.measured(position[samples], pairs, jacobians=True)
        lower[places, samples] = measured.distance
        self._last[ends] = position, lower
        short = 1.0 - measured.distance / buffers[pairs]
        close = np.flatnonzero(short > 0.0)
        if not close.size:
            return 0.0, gradient
        short, pairs = short[close], pairs[close]
        slopes = self.collisions.slopes(pairs, measured.lines[close], measured.jacobians[close])
        weight = PENALTY.weight / len(position)
        by_position = (2.0 * weight * short / buffers[pairs])[:, None] * slopes
        np.subtract.at(gradient, samples[close], by_position)
        return weight * float(short @ short), gradient

    def _lower_bounds(
        self,
        position: np.ndarray,
        buffers: np.ndarray,
        last: tuple[np.ndarray, np.ndarray] | None,
    ) -> np.ndarray:
        """
        Return lower bounds (k, n_samples) of the distances of the watched pairs [m].

        They are those of the motion before, less what the joints have moved since then can change.
        Where this leaves many unsure, bounding spheres say more.
        """
        watched, spheres = self._watched
        lower = np.full((watched.size, len(position)), -np.inf)
        if last and last[0].shape == position.shape:
            moved = np.abs(position - last[0])
            lower = last[1] - self.collisions.pair_reach[watched] @ moved.T
        if watched.size and (lower < buffers[:, None]).mean() > PENALTY.unsure_share:
            lower = np.maximum(lower, spheres.distances(position))
        return np.asarray(lower)
