# SPDX-License-Identifier: Apache-2.0
"""
Trajectories: what a robot is to do, as functions of time with exact derivatives.

Every trajectory starts at time 0 and rests at its ends outside [0, duration].  `fourier` and
`points` have the kinds that there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from ..errors import ExcitationError
from ..recording import Motion


@runtime_checkable
class Trajectory(Protocol):
    """A motion of named joints from time 0 to `duration`; what makes motions has these three."""

    @property
    def joints(self) -> tuple[str, ...]:
        """Names, in the order of the columns."""

    @property
    def duration(self) -> float:
        """Length in time [s]."""

    def sample(self, time: np.ndarray) -> Motion:
        """
        Return positions and their exact derivatives.

        Parameters
        ----------
        time:
            (n_samples,) [s]; outside [0, duration] the trajectory rests at its ends.

        Returns
        -------
        Motion
            (n_samples, n_joints) each.

        """


def inside(time: np.ndarray, duration: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the times clipped to the trajectory, and which ones lie outside it."""
    time = np.atleast_1d(np.asarray(time, dtype=float))
    return np.clip(time, 0.0, duration), (time < 0.0) | (time > duration)


def resting(
    position: np.ndarray, velocity: np.ndarray, acceleration: np.ndarray, outside: np.ndarray
) -> Motion:
    """Return the motion, at rest where it is ``outside`` of its duration."""
    if outside.any():
        velocity[outside] = 0.0
        acceleration[outside] = 0.0
    return Motion(position, velocity, acceleration)


@dataclass(frozen=True)
class Concatenation:
    """Trajectories one after the other; made by `concatenate`."""

    parts: tuple[Trajectory, ...]

    @property
    def joints(self) -> tuple[str, ...]:
        """Names of the joints."""
        return self.parts[0].joints

    @property
    def duration(self) -> float:
        """Sum of the parts' durations [s]."""
        return float(sum(part.duration for part in self.parts))

    def sample(self, time: np.ndarray) -> Motion:
        """Return positions and their exact derivatives at ``time`` (n_samples,) [s]."""
        time, outside = inside(time, self.duration)
        q, v, a = (np.empty((time.size, len(self.joints))) for _ in range(3))
        begins = np.concatenate([[0.0], np.cumsum([part.duration for part in self.parts])])
        owner = np.searchsorted(begins, time, side='right') - 1
        owner = np.clip(owner, 0, len(self.parts) - 1)
        for i, part in enumerate(self.parts):
            mine = owner == i
            motion = part.sample(np.minimum(time[mine] - begins[i], part.duration))
            q[mine], v[mine], a[mine] = motion.position, motion.velocity, motion.acceleration
        return resting(q, v, a, outside)


def concatenate(parts: Sequence[Trajectory], tolerance: float = 1e-6) -> Trajectory:
    """
    Put trajectories one after the other.

    Parameters
    ----------
    parts:
        At least one; of the same joints.
    tolerance:
        Largest jump of position, velocity and acceleration from one to the next.

    Raises
    ------
    ExcitationError
        naming the joint and the jump, where they do not fit together.

    """
    parts = tuple(parts)
    if not parts:
        raise ExcitationError('no trajectory to concatenate', remedy='give at least one')
    for i, (first, second) in enumerate(zip(parts[:-1], parts[1:], strict=True)):
        if first.joints != second.joints:
            raise ExcitationError(
                f'parts {i} and {i + 1} move different joints',
                value=(first.joints, second.joints),
                remedy='give trajectories of the same joints in the same order',
            )
        end, begin = first.sample(np.array([first.duration])), second.sample(np.zeros(1))
        for name in ('position', 'velocity', 'acceleration'):
            jump = np.abs(getattr(begin, name) - getattr(end, name))[0]
            if jump.max() > tolerance:
                joint = first.joints[int(jump.argmax())]
                raise ExcitationError(
                    f"{name} of joint '{joint}' jumps by {jump.max():.3g} between parts {i} and "
                    f'{i + 1}',
                    joint=joint,
                    value=float(jump.max()),
                    remedy='let the second start where the first ends',
                )
    return parts[0] if len(parts) == 1 else Concatenation(parts)
