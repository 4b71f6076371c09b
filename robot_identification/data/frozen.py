# SPDX-License-Identifier: Apache-2.0
"""Efforts that a driver reads no more: they stay while their joint goes back and forth."""

from __future__ import annotations

from dataclasses import dataclass
import warnings

import numpy as np

from ..errors import Omission
from .recording import Recording


@dataclass(frozen=True)
class FrozenConstants:
    """Constants by which frozen efforts are told from coarse ones."""

    fewest_samples: int = 50
    """Samples in a row of one effort."""
    moved_share: float = 0.2
    """Share of the joint's range that it goes in both directions meanwhile."""
    least_motion: float = 0.05
    """Way in both directions below which a joint hardly moves [rad or m]."""


FROZEN = FrozenConstants()


def warn_of_frozen_efforts(part: Recording) -> None:
    """
    Warn of efforts that stay exactly the same while their joint moves back and forth.

    Friction alone changes the sign of a joint's effort where it turns round, however coarsely it
    is measured.

    Warns
    -----
    Omission
        naming the joint and the longest such stretch of this part of a recording.

    """
    if len(part) < FROZEN.fewest_samples:
        return
    for j, joint in enumerate(part.joints):
        effort, position = part.effort[:, j], part.position[:, j]
        starts = np.flatnonzero(np.diff(effort, prepend=np.nan) != 0.0)
        counts = np.diff(starts, append=len(effort))
        start = int(starts[counts.argmax()])
        rows = slice(start, start + int(counts.max()))
        least = max(FROZEN.least_motion, FROZEN.moved_share * float(np.ptp(position)))
        if counts.max() < FROZEN.fewest_samples or _back_and_forth(position[rows]) < least:
            continue
        first, last = part.time[rows][[0, -1]]
        warnings.warn(
            Omission(
                f"{part.source}: the effort of joint '{joint}' stays at {effort[start]:.4g} from "
                f'{first:.4g} to {last:.4g} s while it moves, as where a driver reads it no '
                'more: leave that time out (rows, time_range)'
            ),
            stacklevel=3,
        )


def _back_and_forth(position: np.ndarray) -> float:
    """Return how far a joint goes in both directions, one after the other [rad or m]."""
    rise = position - np.minimum.accumulate(position)
    fall = np.maximum.accumulate(position) - position
    return float(min(rise.max(), fall.max()))
