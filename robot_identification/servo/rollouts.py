# SPDX-License-Identifier: Apache-2.0
"""
Errors of full-horizon rollouts, from the first measured state of each stretch.

The Jacobian comes from finite differences.  On a fixed base the branches of the robot do not
couple, so that one rollout perturbs a kind of parameter at the same place of all branches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..data.commands import CommandRecording
from .fit import FIT, PositionErrors
from .model import ServoModel
from .parameters import FreeParameters, ServoParameters

DIFFERENCE = 0.001
"""
Finite differences in scales of the parameters: a change of efforts by a ten-thousandth.

Larger ones change when a joint sticks; such jumps look like knowledge of parameters that the
recordings do not determine, above all of gains.
"""


class Rollouts(PositionErrors):
    """
    Errors of simulated positions where they count.

    Parameters
    ----------
    model:
        Of robot and simulator.
    recordings:
        Stretches without gaps.
    free:
        The free parameters; its base is the start.
    changes:
        Sizes of parameters by kind, by which they are scaled.

    Attributes
    ----------
    latest:
        The last Jacobian; None before there was one.

    """

    tolerance = 1.0

    def __init__(
        self,
        model: ServoModel,
        recordings: Sequence[CommandRecording],
        free: FreeParameters,
        changes: Mapping[str, np.ndarray],
    ) -> None:
        self.recordings, self.changes = recordings, changes
        self.latest: np.ndarray | None = None
        counted = [np.flatnonzero(recording.counted()) for recording in recordings]
        stride = max(1, -(-sum(map(len, counted)) // FIT.rows))
        self.rows = [rows[::stride] for rows in counted]
        self.measured = np.concatenate(
            [r.position[rows] for r, rows in zip(recordings, self.rows, strict=True)]
        )
        period = stride * recordings[0].period
        super().__init__(model, free, free.vector(changes.__getitem__), period, len(self.measured))
        # groups of columns that one rollout perturbs
        groups: dict[tuple[str, int, int], list[int]] = {}
        branches = model.branches
        for column, (kind, joints, component) in enumerate(free):
            j = joints[0]
            # buses may share branches
            place = j if kind == 'delay' else int((branches[:j] == branches[j]).sum())
            groups.setdefault((kind, place, component), []).append(column)
        self.colours = list(groups.values())

    def blocks(self, length: float) -> np.ndarray:
        """Return (n_samples,) numbers of blocks of a length [s], from 0."""
        parts, first = [], 0
        for recording, rows in zip(self.recordings, self.rows, strict=True):
            time = recording.time[rows]
            parts.append(first + ((time - recording.time[0]) // length).astype(int))
            first = int(parts[-1].max(initial=first)) + 1
        return np.concatenate(parts)

    def errors_of(self, sets: Sequence[ServoParameters]) -> np.ndarray:
        """Return (n_sets, n_samples, n) errors of positions simulated with sets of parameters."""
        return self._simulated(sets) - self.measured

    def _positions(self, vectors: Sequence[np.ndarray]) -> np.ndarray:
        """Return (n_vectors, n_samples, n) positions."""
        return self._simulated([self.free.parameters(vector * self.scale) for vector in vectors])

    def _simulated(self, sets: Sequence[ServoParameters]) -> np.ndarray:
        """Return (n_sets, n_samples, n) positions."""
        self.rollouts += len(sets) * len(self.recordings)
        parts = [
            [position[rows] for position in self.model.rollouts(sets, recording)]
            for recording, rows in zip(self.recordings, self.rows, strict=True)
        ]
        return np.concatenate(parts, axis=1)

    def error(self, vector: np.ndarray) -> np.ndarray:
        """Return (n_samples, n) errors of positions."""
        return np.asarray(self._positions([vector])[0] - self.measured)

    def jacobian(self, vector: np.ndarray) -> np.ndarray:
        """Return the (n_samples, n, p) derivative of `error` by finite differences."""
        self.latest = self.columns(vector, self.colours, DIFFERENCE)
        return self.latest

    def columns(
        self, vector: np.ndarray, groups: Sequence[list[int]], difference: float
    ) -> np.ndarray:
        """Return the derivative of `error` by scaled differences, 0 but for columns in groups."""
        moved = np.tile(vector, (1 + len(groups), 1))
        for other, columns in zip(moved[1:], groups, strict=True):
            other[columns] += difference
        at, *others = self._positions([*moved])
        branches = self.model.branches
        moving = [np.isin(branches, branches[joints]) for _, joints, _ in self.free]
        jacobian = np.zeros((*at.shape, len(vector)))
        for columns, position in zip(groups, others, strict=True):
            for column in columns:
                jacobian[..., column] = moving[column] * (position - at) / difference
        return jacobian
