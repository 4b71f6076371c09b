# SPDX-License-Identifier: Apache-2.0
"""
Sets of parameters for domain randomisation, and the share of unseen motion that they cover.

A set is drawn from the spread over blocks of the recordings, which has what differs between
motions.  The covariance of the estimate describes noise alone; it is not a range.  Even so, sets
of parameters do not cover all that a model lacks, so that each joint's residual belongs beside
them, as noise of the position.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..data.commands import CommandRecording, stretches_of
from ..estimation.coverage import Coverage, coverage_of
from .fit import jackknife_std
from .parameters import FreeParameters, ServoParameters

if TYPE_CHECKING:  # MuJoCo is an extra
    from .model import ServoModel


def parameter_sets(
    free: FreeParameters,
    vector: np.ndarray,
    blocks: np.ndarray,
    count: int,
    random: np.random.Generator,
) -> tuple[ServoParameters, ...]:
    """
    Draw sets of parameters from the spread over blocks.

    Differences of the estimates without one block are scaled to those of single blocks, and
    combined at random, so that sets keep the correlations between parameters.

    Parameters
    ----------
    free, vector, blocks:
        The free parameters, their estimate (p,), and (n_blocks, p) estimates with one block left
        out, as of `fit.ServoFit`.
    count:
        Number of sets.
    random:
        Source of the random numbers.

    """
    n_blocks = len(blocks)
    low, high = free.bounds()
    if n_blocks < 2 or not jackknife_std(blocks).any():
        return (free.parameters(vector),) * count
    single = (n_blocks - 1) * (blocks - blocks.mean(axis=0)) / np.sqrt(n_blocks)
    weights = random.standard_normal((count, n_blocks))
    vectors = np.clip(vector + weights @ single, low, high)
    return tuple(free.parameters(each) for each in vectors)


def coverage(
    model: ServoModel,
    recordings: Sequence[CommandRecording],
    sets: Sequence[ServoParameters],
    rmse: np.ndarray,
    *,
    held_out: bool = False,
) -> Coverage:
    """
    Return the share of measured positions that parameter sets cover.

    Parameters
    ----------
    model, recordings:
        Of the robot; recordings that the fit has not seen.
    sets:
        Parameters of all joints, one set a simulation.
    rmse:
        (n,) residuals of the joints, as noise [rad or m].
    held_out:
        Whether the samples count that are held out, or the others.

    """

    def parts() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for stretch in stretches_of(recordings):
            counted = stretch.counted(held_out)
            positions = np.stack([q[counted] for q in model.rollouts(sets, stretch)])
            yield positions, stretch.position[counted]

    return coverage_of(parts(), rmse, len(sets))[0]
