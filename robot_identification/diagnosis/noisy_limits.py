# SPDX-License-Identifier: Apache-2.0
"""
Limits of efforts under noise: a level that the efforts keep to, and the motion asks to exceed.

Noise on a limit spreads the efforts over a layer, which alone could be dry friction or a smooth
peak.  A fit to all joints' efforts but those near that layer tells them apart: of measured efforts
those at the top are rather above what it predicts, since noise has put them there; limited ones
are below.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ..data.recording import Recording
from ..model.robot import Robot
from ..regressor.settings import ModelSettings
from .recording_faults import RecordingFault, saturation_fault
from .run_search import RUN
from .saturation import layers, saturation
from .time_windows import FreeFit, time_windows, TimeWindows


@dataclass(frozen=True)
class NoisyLimitCriteria:
    """Constants of the comparison with the fit to lower efforts."""

    layers: float = 2.0
    """Thickness of what is predicted from the others, in layers."""
    fewest: int = 4
    """Samples of these below which nothing is judged."""
    longer: float = 2.0
    """Times as long in the first layer as in the second, at least: a parabola's 2.4."""
    decisive: float = 6.0
    """Product of that with what predictions exceed the limit by, in standard deviations."""


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
                yield saturation_fault(joint, limit, recordings)
            continue
        for side in layers(recordings, j):
            if side.ratio < NOISY.longer:
                continue
            bound = (side.level - NOISY.layers * side.layer) / float(windows.deviation[j])
            if side.ratio * exceeded(windows, j, side.sign, bound) > NOISY.decisive:
                yield saturation_fault(joint, side.found(moving=True), recordings)
                break


def exceeded(windows: TimeWindows, joint: int, sign: float, bound: float) -> float:
    """
    Return by how many deviations efforts at a limit are below their prediction.

    Parameters
    ----------
    windows, joint:
        Samples, and the joint of the limit.
    sign, bound:
        Of the efforts that are predicted, and above which they are so, by their deviation.

    """
    near = np.abs(windows.effort[:, joint]) > bound
    top = windows.moving[:, joint] & (sign * windows.effort[:, joint] > bound)
    used = windows.moving.copy()
    used[near, joint] = False
    counts = used.sum(axis=0).astype(float)
    if top.sum() < NOISY.fewest or counts[joint] < RUN.fewest:
        return 0.0
    both = np.concatenate([windows.rows, windows.effort[:, :, None]], axis=2) * used[:, :, None]
    gram = np.einsum('mjp,mjq->jpq', both, both, optimize=True)
    fit = FreeFit.of(gram, counts, (counts >= RUN.fewest).astype(float))
    rows = windows.rows[top, joint]
    missed = sign * (rows @ fit.parameters - windows.effort[top, joint])
    unknown = float(np.einsum('ij,jk,ik->i', rows, fit.inverse, rows).mean())
    square = float(fit.residual[joint]) ** 2 + RUN.floor**2
    return float(missed.mean() / np.sqrt(square + RUN.uncertain * unknown))
