# SPDX-License-Identifier: Apache-2.0
"""Motions in flat arrays, as messages have them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..errors import RecordingError
from .recording import Motion


def motion_of(
    joints: Sequence[str],
    position: Sequence[float],
    velocity: Sequence[float],
    acceleration: Sequence[float],
) -> Motion:
    """
    Return the motion in flat arrays of (n_samples * n_joints,), sample by sample.

    Raises
    ------
    RecordingError
        where an array is empty, of another length, or has values that are not finite.

    """
    given = {'position': position, 'velocity': velocity, 'acceleration': acceleration}
    arrays = {name: np.asarray(values, dtype=float) for name, values in given.items()}
    size = arrays['position'].size
    for name, values in arrays.items():
        if not size or values.size != size or size % len(joints):
            raise RecordingError(
                f'{name} has {values.size} values',
                value=values.size,
                remedy=f'give each of {len(joints)} joints one value for every sample, '
                'in position, velocity and acceleration',
            )
        if not np.isfinite(values).all():
            place = int(np.flatnonzero(~np.isfinite(values))[0])
            joint = joints[place % len(joints)]
            raise RecordingError(
                f"{name} of joint '{joint}' is {values[place]} in sample {place // len(joints)}",
                joint=joint,
                value=float(values[place]),
                remedy='give finite numbers',
            )
    return Motion(*(values.reshape(-1, len(joints)) for values in arrays.values()))
