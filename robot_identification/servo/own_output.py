# SPDX-License-Identifier: Apache-2.0
"""
Recorded efforts that are the servo's own output, and no feed-forward.

Many controllers log ``kp (command - position) - kd velocity`` beside the command.  Added as a
feed-forward, it acts twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
import warnings

import numpy as np

from ..data.commands import CommandRecording
from ..errors import IdentificationWarning
from .settings import ServoSettings

EXPLAINED = 0.95
"""Share of the squares of efforts above which they are the servo's own output."""
FACTORS = (0.7, 1.4)
"""Ratios of the gain that the efforts show to the given one, within which they are its own."""
LAGS = (-1, 0, 1)
"""Samples by which efforts may be recorded later than positions."""


def is_own_output(recording: CommandRecording, servo: ServoSettings) -> bool:
    """
    Return whether the feed-forward efforts of a recording are the servo's own output.

    They are where position and velocity errors explain them, with gains near the given ones: a
    feed-forward has no cause to follow the error.
    """
    effort = recording.feedforward
    if effort is None or not effort.any() or len(recording) < 20:
        return False
    stiffness = servo.per_joint('stiffness', recording.joints)
    limit = servo.per_joint('limit', recording.joints)
    time, position = recording.time, recording.position
    velocities = [np.gradient(position, time, axis=0)]
    if recording.velocity is not None:
        velocities.append(recording.velocity)
    commanded = 0.0 if recording.command_velocity is None else recording.command_velocity
    error = recording.command - position
    best = max(
        (_explained(effort, error, commanded - velocity, limit, lag)
         for velocity in velocities for lag in LAGS),
        key=lambda each: each[0],
    )  # fmt: skip
    share, gains = best
    ratio = np.median(gains / stiffness[effort.any(axis=0)])
    return bool(share > EXPLAINED and FACTORS[0] < ratio < FACTORS[1])


def _explained(
    effort: np.ndarray, error: np.ndarray, rate: np.ndarray, limit: np.ndarray, lag: int
) -> tuple[float, np.ndarray]:
    """Return the share of efforts that errors explain, and the gains of joints with efforts."""
    inner = slice(2, -2)
    moved = np.roll(effort, -lag, axis=0)[inner]
    error, rate = error[inner], rate[inner]
    left, gains = [], []
    for j in np.flatnonzero(effort.any(axis=0)):
        # at its limit, an output is no longer in proportion to the errors
        free = np.abs(moved[:, j]) < 0.98 * limit[j]
        columns = np.column_stack((error[free, j], rate[free, j]))
        values, *_ = np.linalg.lstsq(columns, moved[free, j], rcond=None)
        squares = float(np.sum(moved[free, j] ** 2))
        rest = float(np.sum((moved[free, j] - columns @ values) ** 2))
        left.append(rest / squares if squares > 0.0 else 0.0)
        gains.append(values[0])
    return 1.0 - float(np.mean(left)), np.array(gains)


def without_own_output(
    recordings: Sequence[CommandRecording], servo: ServoSettings
) -> list[CommandRecording]:
    """Return recordings without efforts that are the servo's own output; it warns of them."""
    kept = []
    for recording in recordings:
        if is_own_output(recording, servo):
            warnings.warn(
                f"{recording.source}: the efforts in 'feedforward' are the servo's own output, "
                'kp times the position error less kd times the velocity: they are left out, and '
                'not added a second time',
                IdentificationWarning,
                stacklevel=2,
            )
            recording = replace(recording, feedforward=None)
        kept.append(recording)
    return kept
