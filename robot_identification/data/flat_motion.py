# SPDX-License-Identifier: Apache-2.0
"""Motions in flat arrays, as messages have them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..errors import one_of, RecordingError, SettingsError
from .recording import Motion

MOST_VALUES = 5_000_000
"""Values of a regressor in one answer: 40 MB."""


def motion_of(
    joints: Sequence[str],
    position: Sequence[float],
    velocity: Sequence[float],
    acceleration: Sequence[float],
    *,
    given: Sequence[str] = (),
) -> Motion:
    """
    Return the motion in flat arrays of (n_samples * n_joints,), sample by sample.

    Parameters
    ----------
    joints:
        Names in the order of the motion's columns.
    position, velocity, acceleration:
        The arrays [rad, rad/s, rad/s^2; m, m/s, m/s^2 for prismatic joints].
    given:
        Names in the order of the arrays; empty for that of ``joints``.

    Raises
    ------
    SettingsError
        where the names are others than ``joints``.
    RecordingError
        where an array is empty, of another length, or has values that are not finite.

    """
    names = tuple(given) or tuple(joints)
    if sorted(names) != sorted(joints):
        raise SettingsError(
            f"'joints' are {one_of(names)}",
            key='joints',
            value=names,
            remedy=f'name each of {one_of(joints)} once, or none',
        )
    signals = {'position': position, 'velocity': velocity, 'acceleration': acceleration}
    arrays = {name: np.asarray(values, dtype=float) for name, values in signals.items()}
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
            joint = names[place % len(joints)]
            raise RecordingError(
                f"{name} of joint '{joint}' is {values[place]} in sample {place // len(joints)}",
                joint=joint,
                value=float(values[place]),
                remedy='give finite numbers',
            )
    order = [names.index(joint) for joint in joints]
    return Motion(*(values.reshape(-1, len(joints))[:, order] for values in arrays.values()))


def require_size(n_samples: int, n_joints: int, n_parameters: int) -> None:
    """Raise `RecordingError` where the rows at so many samples are more than one answer takes."""
    values = n_samples * n_joints * n_parameters
    if values > MOST_VALUES:
        most = MOST_VALUES // (n_joints * n_parameters)
        raise RecordingError(
            f'{n_samples} samples give {n_samples * n_joints} rows of {n_parameters} columns, '
            f'{MOST_VALUES} values are the most in an answer',
            value=n_samples,
            remedy=f'ask for at most {most} samples at a time',
        )
