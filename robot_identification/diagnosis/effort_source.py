# SPDX-License-Identifier: Apache-2.0
"""
Origin of recorded efforts: measured at the joints, made by a model, or from elsewhere.

A command, a feed-forward or a simulation of the URDF gives efforts that the URDF's own bodies
explain as well as any others, without friction; no real joint does.  External torques, as drivers
estimate them, have neither gravity nor inertia; efforts of another run have both, but not those of
the recorded positions.  In both cases no parameters explain them.
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


SOURCE = SourceCriteria()


def source_faults(
    effort: np.ndarray, velocity: np.ndarray, expected: np.ndarray, free: np.ndarray
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

    """
    spread = np.maximum(effort.std(axis=0), 1e-12)
    residual = effort - expected
    size = np.sqrt((effort**2).mean(axis=0) / (expected**2).mean(axis=0).clip(1e-300))
    missed = np.sqrt((residual**2).mean(axis=0)) / spread
    if free.min() > SOURCE.unexplained:
        left = f'no parameters explain the efforts by the motion ({100.0 * free.min():.2g} % or '
        left += 'more is left at every joint)'
        if np.median(size) < SOURCE.small:
            yield RecordingFault(
                'external_torque',
                f'{left}, and they are {np.median(size):.2g} times as large as the URDF says: '
                'neither gravity nor inertia shows',
                'record the efforts of the motors or joints: these are external torques, or what '
                'a driver has left of them',
            )
        else:
            yield RecordingFault(
                'unrelated_efforts',
                f'{left}: they are of another run, of other joints, or none',
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


def _friction(residual: np.ndarray, velocity: np.ndarray) -> np.ndarray:
    """Return (n,) mean size of what the direction and speed of a joint explain."""
    found = []
    for left, speed in zip(residual.T, velocity.T, strict=True):
        moves = np.abs(speed) > 0.1 * np.sqrt((speed**2).mean())
        rows = np.stack([np.sign(speed[moves]), speed[moves]], axis=1)
        explained = rows @ np.linalg.lstsq(rows, left[moves], rcond=None)[0]
        found.append(np.abs(explained).mean() if moves.any() else 0.0)
    return np.array(found)
