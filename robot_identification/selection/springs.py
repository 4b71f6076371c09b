# SPDX-License-Identifier: Apache-2.0
"""
A spring at a joint where masses of links are implausible without one.

A counterbalance that nobody named leaves its effort to the masses.  It is looked for where nothing
else is found to be wrong, by identifications with springs at more joints.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from ..estimation.estimate import Estimate
from .model_selection import ModelSelection

LEAST_SHARE = 0.1
"""Least amplitude of a spring that is tried, by the root mean square of its joint's effort."""

MOST_TRIED = 2
"""Joints that are tried, the one with the largest share first."""

LARGEST_ERROR = 1.05
"""Error of the efforts with a spring, by that without, up to which it is taken."""

UNEXPLAINED = (
    'masses of links are implausible, which no spring at a joint explains: the efforts may be '
    'those of a counterbalance of another kind or of a closed mechanism, or the masses of the '
    'URDF be wrong; to predict efforts alone, take estimation.method: wls'
)

Identified = TypeVar('Identified')


@dataclass(frozen=True)
class Trial(Generic[Identified]):
    """
    An identification with springs at some joints.

    Attributes
    ----------
    estimate:
        Its estimate.
    implausible:
        Number of links with an implausible mass.
    identified:
        All of it.

    """

    estimate: Estimate
    implausible: int
    identified: Identified


def find_spring(
    selection: ModelSelection,
    error: float,
    joints: Sequence[str],
    free: Sequence[str],
    tried: Callable[[ModelSelection], Trial[Identified]],
) -> Identified | None:
    """
    Find a spring with which masses are plausible and efforts as well explained.

    Parameters
    ----------
    selection:
        The settings without it.
    error:
        Relative error of the efforts without it [%].
    joints:
        All joints, in order.
    free:
        Joints that may have one.
    tried:
        Identifies with other settings.

    Returns
    -------
    Identified or None
        The identification with the spring; None where none of them explains the masses.

    """
    if not free:
        return None
    # where every joint has a spring, that at a counterbalance pulls, and links stay near the prior
    shares = _spring_effort_shares(tried(selection.with_springs(free, joints)).estimate, free)
    likely = sorted((j for j in free if shares[j] > LEAST_SHARE), key=lambda j: -shares[j])
    for joint in likely[:MOST_TRIED]:
        trial = tried(selection.with_springs([joint], joints))
        worse = trial.estimate.fit.relative_error > LARGEST_ERROR * error
        if not worse and not trial.implausible:
            return trial.identified
    return None


def _spring_effort_shares(estimate: Estimate, joints: Sequence[str]) -> dict[str, float]:
    """Return the amplitudes of joints' springs by the root mean square of their efforts."""
    standard, fits = estimate.standard, estimate.fit.joints
    assert standard is not None
    shares = {fit.joint: 0.01 * fit.relative_error / max(fit.rmse, 1e-300) for fit in fits}
    sizes = {j: float(np.hypot(standard[f'{j}.kc'], standard[f'{j}.ks'])) for j in joints}
    return {joint: size * shares[joint] for joint, size in sizes.items()}
