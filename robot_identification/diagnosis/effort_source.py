# SPDX-License-Identifier: Apache-2.0
"""
Origin of recorded efforts: measured at the joints, made by a model, or from elsewhere.

A command, a feed-forward or a simulation of the URDF gives efforts that the URDF's own bodies
explain as well as any others, without friction; no real joint does.  External torques, as drivers
estimate them, have neither gravity nor inertia; efforts of another run have both, but not those of
the recorded positions.  In both cases no parameters explain them: of the former, stretches of time
that a fit has not seen are missed with bodies as much as by friction alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .recording_faults import RecordingFault


@dataclass(frozen=True)
class SourceCriteria:
    """Constants of what efforts are taken for."""

    same_size: float = 0.05
    """Logarithm of the size of efforts by the URDF's, up to which they are as large."""
    frictionless: float = 0.03
    """Share of friction in a joint's effort up to which there is none."""
    as_good: float = 1.5
    """Residual of the URDF's bodies by that of free parameters up to which it is as small."""
    most: float = 0.15
    """Residual of the URDF's bodies above which these do not explain efforts."""
    unexplained: float = 0.6
    """Residual of free parameters, at every joint, above which nothing explains efforts."""
    small: float = 0.3
    """Size of efforts by the URDF's below which they are none of a moving robot."""
    nothing: float = 0.75
    """Residual with bodies by that of friction alone, at every joint, above which none show."""
    ridge: float = 1e-4
    """Of these fits, relative to the squares of their columns."""


SOURCE = SourceCriteria()


def source_faults(
    effort: np.ndarray,
    velocity: np.ndarray,
    expected: np.ndarray,
    free: np.ndarray,
    by_bodies: np.ndarray,
) -> Iterator[RecordingFault]:
    """
    Iterate over what efforts are, if not measured at the joints.

    Parameters
    ----------
    effort, velocity:
        (m, n) at low-passed samples [N m or N; rad/s or m/s].
    expected:
        (m, n) of the URDF's bodies, without friction.
    free:
        (n,) relative residuals of free parameters.
    by_bodies:
        (n,) residuals with bodies by those of friction alone, see `with_bodies`.

    """
    spread = np.maximum(effort.std(axis=0), 1e-12)
    residual = effort - expected
    size = np.sqrt((effort**2).mean(axis=0) / (expected**2).mean(axis=0).clip(1e-300))
    missed = np.sqrt((residual**2).mean(axis=0)) / spread
    if np.median(size) < SOURCE.small and by_bodies.min() > SOURCE.nothing:
        yield RecordingFault(
            'external_torque',
            f'the efforts are {np.median(size):.2g} times as large as the URDF says, and no '
            'bodies explain them by the motion: neither gravity nor inertia shows',
            'record the efforts of the motors or joints: these are external torques, or what '
            'a driver has left of them',
        )
    elif free.min() > SOURCE.unexplained:
        yield RecordingFault(
            'unrelated_efforts',
            f'no parameters explain the efforts by the motion ({100.0 * free.min():.2g} % or '
            'more is left at every joint): they are of another run, of other joints, or none',
            'check that positions and efforts are of the same time and in their columns',
        )
    elif (
        np.abs(np.log(size)).max() < SOURCE.same_size
        and missed.max() < SOURCE.most
        and (missed < SOURCE.as_good * free + SOURCE.same_size).all()
        and (_friction(residual, velocity) < SOURCE.frictionless * spread).all()
    ):
        yield RecordingFault(
            'modelled_efforts',
            "the efforts are those of the URDF's own bodies, without friction, to "
            f'{100.0 * missed.max():.2g} %: a command, a feed-forward or a simulation, and no '
            'measurement',
            'record measured efforts (torque sensors or motor currents)',
        )


def with_bodies(
    rows: np.ndarray, effort: np.ndarray, fold: np.ndarray, inertial: np.ndarray
) -> np.ndarray:
    """
    Return (n,) residuals of folds that fits have not seen, with bodies by those without.

    Parameters
    ----------
    rows, effort:
        (m, n, p) and (m, n) at the samples.
    fold:
        (m,) int, the stretch of time of each.
    inertial:
        (p,) whether columns are those of bodies.

    """
    squares = [_held_out(each, effort, fold) for each in (rows, rows[:, :, ~inertial])]
    return np.asarray(np.sqrt(squares[0] / np.maximum(squares[1], 1e-300)))


def _held_out(rows: np.ndarray, effort: np.ndarray, fold: np.ndarray) -> np.ndarray:
    """Return (n,) sums of squares of folds by fits to the others, joints weighed by spread."""
    spread = np.maximum(effort.std(axis=0), 1e-12)
    weighed, target = rows / spread[:, None], effort / spread
    square = np.zeros(effort.shape[1])
    for k in np.unique(fold):
        matrix = weighed[fold != k].reshape(-1, rows.shape[2])
        scale = np.maximum(np.linalg.norm(matrix, axis=0), 1e-300)
        gram = matrix.T @ matrix / scale[:, None] / scale
        gram += SOURCE.ridge * np.eye(len(gram))
        found = np.linalg.solve(gram, matrix.T @ target[fold != k].ravel() / scale) / scale
        square += ((target[fold == k] - weighed[fold == k] @ found) ** 2).sum(axis=0)
    return square


def _friction(residual: np.ndarray, velocity: np.ndarray) -> np.ndarray:
    """Return (n,) mean size of what the direction and speed of a joint explain."""
    found = []
    for left, speed in zip(residual.T, velocity.T, strict=True):
        moves = np.abs(speed) > 0.1 * np.sqrt((speed**2).mean())
        rows = np.stack([np.sign(speed[moves]), speed[moves]], axis=1)
        explained = rows @ np.linalg.lstsq(rows, left[moves], rcond=None)[0]
        found.append(np.abs(explained).mean() if moves.any() else 0.0)
    return np.array(found)
