# SPDX-License-Identifier: Apache-2.0
"""
Recordings in windows of time, each folded into Gram matrices of rows and efforts.

A fit to any choice of windows costs one small solution, whatever the number of samples.  Its
parameters are free: combinations of standard parameters that the samples show, without a prior.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ..data.recording import Motion, RecordingSource
from ..model.robot import Robot
from ..regressor import build
from ..regressor.settings import ModelSettings
from .recording_faults import filtered

SHOWN = 1e-3
"""Singular value, by the largest, below which a combination of parameters is not shown."""
RIDGE = 3e-6
"""Of a fit, relative to the mean square of its columns."""


@dataclass(frozen=True)
class WindowSettings:
    """Sizes of windows, and what counts as motion."""

    windows: int = 100
    """Windows of all recordings together, about."""
    shortest: float = 0.4
    """Length of a window, at least [s]."""
    rows: int = 25
    """Samples of a window."""
    still: float = 0.1
    """Speed, by its root mean square, below which a joint is held by friction."""
    slow: float = 0.02
    """The same in any case [rad/s or m/s]."""


WINDOWS = WindowSettings()


@dataclass(frozen=True)
class TimeWindows:
    """
    Samples of recordings in k windows; efforts and rows are by the deviation of each effort.

    Attributes
    ----------
    time:
        (m,) stamps [s].
    effort, moving:
        (m, n) efforts, and whether a joint moves.
    deviation:
        (n,) of the efforts [N m or N].
    rows:
        (m, n, p) of the combinations of parameters; without dry friction where a joint is at rest.
    friction:
        (n, p) combinations to Coulomb friction.
    bodies, drives:
        By last link, (p, 10) parameters of a body more on it to combinations; by joint, (p, 2)
        the same of Coulomb and viscous friction.
    window:
        (m,) window of each sample, in their order.
    place:
        (k,) recording of each window.
    grams, counts:
        (k, n, p + 1, p + 1) and (k, n): sums of [rows | effort]' [rows | effort] over the samples
        at which a joint moves, and the number of these.

    """

    time: np.ndarray
    effort: np.ndarray
    moving: np.ndarray
    deviation: np.ndarray
    rows: np.ndarray
    friction: np.ndarray
    bodies: Mapping[str, np.ndarray]
    drives: Mapping[str, np.ndarray]
    window: np.ndarray
    place: np.ndarray
    grams: np.ndarray
    counts: np.ndarray

    def __len__(self) -> int:
        return len(self.place)


def time_windows(
    robot: Robot, sources: Sequence[RecordingSource], model: ModelSettings
) -> TimeWindows | None:
    """
    Return the windows of recordings, each of which is read once; None for no samples.

    Parameters
    ----------
    robot:
        A tree of stiff joints.
    sources:
        Recordings at the joints.
    model:
        Terms of the dynamics, of which coupled drives count.

    """
    parts = [(i, part) for i, source in enumerate(sources) for part in filtered(source)]
    total = sum(part.time[-1] - part.time[0] for _, part in parts)
    length = max(WINDOWS.shortest, total / WINDOWS.windows)
    time, states, efforts, window = [], [], [], []
    place: list[int] = []
    for i, part in parts:
        count = max(1, round((part.time[-1] - part.time[0]) / length))
        chosen = np.linspace(0, len(part) - 1, min(len(part), count * WINDOWS.rows)).astype(int)
        states.append([part.position[chosen], part.velocity[chosen], part.acceleration[chosen]])
        time.append(part.time[chosen])
        efforts.append(part.effort[chosen])
        window.append(len(place) + np.arange(len(chosen)) * count // len(chosen))
        place += count * [i]
    if not place:
        return None
    position, velocity, acceleration = (
        np.concatenate(arrays) for arrays in zip(*states, strict=True)
    )
    effort, numbers = np.concatenate(efforts), np.concatenate(window)
    deviation = np.where((std := effort.std(axis=0)) > 0.0, std, np.inf)
    speed = np.sqrt((velocity**2).mean(axis=0))
    moving = np.abs(velocity) > np.maximum(WINDOWS.slow, WINDOWS.still * speed)
    regressor = build(robot, ModelSettings(coupled_drives=model.coupled_drives))
    motion = Motion(position, velocity, acceleration)
    standard = regressor.rows(motion).reshape(*effort.shape, -1) / deviation[:, None]
    names = regressor.layout.names
    dry = [names.index(f'{joint}.fc') for joint in robot.joints]
    for j, column in enumerate(dry):  # the sign of a velocity that is noise
        standard[~moving[:, j], j, column] = 0.0
    shown, seen = _shown(standard * moving[:, :, None])
    rows = standard @ shown
    both = np.concatenate([rows, (effort / deviation)[:, :, None]], axis=2)
    both = (both * moving[:, :, None]).transpose(1, 0, 2)  # (n, m, p + 1)
    edges = list(pairwise(np.searchsorted(numbers, np.arange(len(place) + 1)).tolist()))
    return TimeWindows(
        time=np.concatenate(time),
        effort=effort / deviation,
        moving=moving,
        deviation=deviation,
        rows=rows,
        friction=shown[dry] / deviation[:, None],
        bodies={each: seen[:, regressor.layout.slice_of(each)] for each in robot.end_links},
        drives={j: seen[:, [names.index(f'{j}.{x}') for x in ('fc', 'fv')]] for j in robot.joints},
        window=numbers,
        place=np.array(place),
        grams=np.stack([(r := both[:, a:b]).transpose(0, 2, 1) @ r for a, b in edges]),
        counts=np.stack([moving[a:b].sum(axis=0) for a, b in edges]).astype(float),
    )


def _shown(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (q, p) the combinations of q parameters that (m, n, q) rows show, and the inverse."""
    flat = rows.reshape(-1, rows.shape[-1])
    gram = flat.T @ flat
    size = np.sqrt(np.diag(gram))
    scale = np.divide(1.0, size, out=np.zeros_like(size), where=size > 1e-9 * size.max())
    values, vectors = np.linalg.eigh(gram * scale[:, None] * scale)
    vectors = vectors[:, values > SHOWN**2 * values[-1]]
    return scale[:, None] * vectors, vectors.T * np.where(scale > 0.0, size, 0.0)


@dataclass(frozen=True)
class FreeFit:
    """
    Fit of free parameters to sums over windows, joints weighed by their residuals.

    Attributes
    ----------
    parameters:
        (p,) combinations.
    weights:
        (n,) of the joints; 0 for those that do not move enough.
    residual:
        (n,) root mean square, by the deviation of the effort.
    inverse:
        (p, p) of the matrix of the normal equations.

    """

    parameters: np.ndarray
    weights: np.ndarray
    residual: np.ndarray
    inverse: np.ndarray

    @classmethod
    def of(
        cls, gram: np.ndarray, counts: np.ndarray, weights: np.ndarray, rounds: int = 3
    ) -> FreeFit:
        """
        Fit to a sum of Gram matrices.

        Parameters
        ----------
        gram, counts:
            (n, p + 1, p + 1) and (n,), sums over windows.
        weights:
            (n,) to begin with; joints with 0 are left out.
        rounds:
            Fits between which joints are weighed again.

        """
        p = gram.shape[-1] - 1
        for _ in range(rounds):
            total = np.tensordot(weights, gram, axes=1)
            matrix = total[:p, :p]
            # where no joint counts, any ridge will do
            ridge = RIDGE * np.trace(matrix) / max(p, 1) or 1.0
            inverse = np.linalg.inv(matrix + ridge * np.eye(p))
            parameters = inverse @ total[:p, p]
            residual = residual_of(gram, counts, parameters)
            before, weights = weights, np.where(weights > 0.0, 1.0 / (residual**2 + 1e-4), 0.0)
        return cls(parameters, before, residual, inverse)

    def leverage(self, gram: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """Return (n,) mean variance of predictions, by that of the residual, of other windows."""
        p = len(self.inverse)
        total = np.einsum('jab,ba->j', gram[:, :p, :p], self.inverse)
        return np.asarray(self.weights * total / counts.clip(1.0))


def residual_of(gram: np.ndarray, counts: np.ndarray, parameters: np.ndarray) -> np.ndarray:
    """Return (n,) root mean squares of residuals over windows, by the deviation of the effort."""
    vector = np.append(parameters, -1.0)
    return np.asarray(np.sqrt(np.maximum(0.0, gram @ vector @ vector) / counts.clip(1.0)))
