# SPDX-License-Identifier: Apache-2.0
"""
Limits of efforts under noise: a level that the efforts keep to, and the motion asks to exceed.

Noise on a limit spreads the efforts over a layer, which alone could be dry friction or a smooth
peak.  A fit to the efforts below that layer tells them apart: of measured efforts those at the top
are rather above what it predicts, since noise has put them there; limited ones are below.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ..data.recording import Recording
from ..model.robot import Robot
from ..regressor.settings import ModelSettings
from .recording_faults import RecordingFault, saturation_fault
from .saturation import layers, saturation
from .time_windows import time_windows, TimeWindows


@dataclass(frozen=True)
class NoisyLimitCriteria:
    """Constants of the comparison with the fit to lower efforts."""

    top: float = 0.08
    """Efforts that are predicted from the others, by the range."""
    fewest: int = 10
    """Samples of these below which nothing is judged."""
    longer: float = 2.5
    """Times as long in the first layer as in the second, at least: a parabola's 2.4."""
    decisive: float = 7.5
    """Product of that with what predictions exceed the limit by, in standard deviations."""
    floor: float = 0.03
    """Relative residual below which fits are not distinguished."""
    uncertain: float = 5.0
    """Variance of parameters of real robots by what their covariance says."""
    ridge: float = 1e-5
    """Of the fit, by the mean square of its columns."""


NOISY = NoisyLimitCriteria()


def noisy_limits(
    robot: Robot, recordings: Sequence[Recording], model: ModelSettings
) -> Iterator[RecordingFault]:
    """
    Iterate over joints whose efforts keep to a level under noise.

    Parameters
    ----------
    robot:
        A tree of stiff joints.
    recordings:
        At the joints; exact limits are among the `recording_faults` already.
    model:
        Terms of the dynamics, of which coupled drives count.

    """
    windows = time_windows(robot, recordings, model)
    if windows is None:
        return
    for j, joint in enumerate(robot.joints):
        if (limit := saturation(recordings, j)) is not None:
            if not limit.exact:
                yield saturation_fault(joint, limit)
            continue
        found = [(side.ratio, side) for side in layers(recordings, j)]
        ratio, side = max(found, key=lambda each: each[0], default=(0.0, None))
        if side is None or ratio < NOISY.longer:
            continue
        if ratio * exceeded(windows, j, side.sign) > NOISY.decisive:
            yield saturation_fault(joint, side.found(moving=True))


def exceeded(windows: TimeWindows, joint: int, sign: float) -> float:
    """Return by how many deviations the largest efforts of a sign are below their prediction."""
    rows, effort = windows.rows[:, joint], sign * windows.effort[:, joint]
    moving = windows.moving[:, joint]
    top = effort > effort.max() - NOISY.top * np.ptp(effort)
    below = moving & ~top
    top &= moving
    p = rows.shape[1]
    if below.sum() < 1.2 * p or top.sum() < NOISY.fewest:
        return 0.0
    gram = rows[below].T @ rows[below]
    inverse = np.linalg.inv(gram + NOISY.ridge * np.trace(gram) / p * np.eye(p))
    missed = rows @ (inverse @ (rows[below].T @ effort[below])) - effort
    square = float((missed[below] ** 2).mean()) + NOISY.floor**2
    leverage = float(np.einsum('ij,jk,ik->i', rows[top], inverse, rows[top]).mean())
    expected = np.sqrt(square * (1.0 + NOISY.uncertain * leverage))
    return float(missed[top].mean() / expected)
