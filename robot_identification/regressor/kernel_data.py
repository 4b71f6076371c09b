# SPDX-License-Identifier: Apache-2.0
"""
Regressor as data for the compiled kernel: all columns as dense rows, or certain entries.

The kernel's functions of the state are, joint by joint, the positions, their cosines and sines,
the velocities and the accelerations; then 1; then the signs of the velocities, the signs of other
speeds, and whatever else the terms bring.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from ..data.recording import Motion
from .joint_terms import (
    ACCELERATION,
    Combination,
    COSINE,
    ONE,
    OTHER,
    SIGN,
    SINE,
    SPEED_SIGN,
    VELOCITY,
)
from .rigid import into_frame, RigidBodies, Tree

PART = 1008
"""Samples that are evaluated at once, so that sines and cosines stay in a core's cache."""


@dataclass(frozen=True, eq=False)
class KernelData:
    """
    Input of the compiled kernel.

    Attributes
    ----------
    dense, size:
        Whether the kernel makes whole rows (of ``size`` = n p numbers a sample) or ``size``
        entries.
    joints:
        (n, 7) for each joint of the tree: place of its parent's link (0 is the base), number of
        joints on its path, the two functions that its frame depends on, its velocity and
        acceleration among the functions, and whether entries of its link are wanted.
    frames:
        (n, 12, 3) the rotation into each joint's frame (by rows) and the translation [m]: constant
        part and coefficients of the two functions.
    axes:
        (n, 6) unit motion of each joint in its frame.
    gravity:
        (3,) acceleration of free fall [m/s^2].
    sums:
        (e, 2) range of the summands of each entry that is not of a link.
    functions, weights:
        Function of the state and coefficient of each summand.
    places:
        (10 pairs + e,) places of the entries among the numbers of a sample, -1 for those that are
        not wanted: the ten of each link for each joint on its path, then those of ``sums``.
    missing:
        Places of entries that are zero for every motion.
    combinations:
        The terms that the other entries come from.

    """

    dense: bool
    size: int
    joints: np.ndarray
    frames: np.ndarray
    axes: np.ndarray
    gravity: np.ndarray
    sums: np.ndarray
    functions: np.ndarray
    weights: np.ndarray
    places: np.ndarray
    missing: np.ndarray
    combinations: tuple[Combination, ...]

    def evaluate(self, motion: Motion, out: np.ndarray, threads: int = 1) -> None:
        """
        Evaluate the rows or entries of a motion of m states, on at most ``threads`` threads.

        ``out`` is contiguous: m rows of ``size`` numbers, or ``size`` rows of m for entries.
        """
        m = len(motion)
        out = out.reshape((m, self.size) if self.dense else (self.size, m))
        if not self.dense and self.missing.size:
            out[self.missing] = 0.0
        starts = range(0, m, PART)
        if threads == 1 or len(starts) < 2:
            for start in starts:
                self._evaluate_part(motion, start, out)
        else:
            with ThreadPoolExecutor(threads) as pool:
                list(pool.map(lambda start: self._evaluate_part(motion, start, out), starts))

    def _evaluate_part(self, motion: Motion, start: int, out: np.ndarray) -> None:
        # imported here because Numba is optional
        from .kernel import evaluate

        evaluate(
            self.joints,
            self.frames,
            self.axes,
            self.gravity,
            self.sums,
            self.functions,
            self.weights,
            self.places,
            self.states(motion, slice(start, start + PART)),
            out,
            start,
            self.dense,
        )

    def states(self, motion: Motion, part: slice) -> np.ndarray:
        """Return (f, m) values of the functions of the state, in the order above."""
        motion = motion.rows(part.start, part.stop)
        q, dq, ddq = motion.position.T, motion.velocity.T, motion.acceleration.T
        n, m = q.shape
        speeds = [c.speed_signs(dq.T).T for c in self.combinations if c.speeds]
        others = [c.other(motion).T for c in self.combinations if c.other is not None]
        states = np.empty((6 * n + 1 + sum(map(len, speeds + others)), m))
        states[:n] = q
        np.cos(states[:n], out=states[n : 2 * n])
        np.sin(states[:n], out=states[2 * n : 3 * n])
        states[3 * n : 4 * n] = dq
        states[4 * n : 5 * n] = ddq
        states[5 * n] = 1.0
        np.sign(states[3 * n : 4 * n], out=states[5 * n + 1 : 6 * n + 1])
        first = 6 * n + 1
        for functions in speeds + others:
            states[first : first + len(functions)] = functions
            first += len(functions)
        return states


def dense_data(
    rigid: RigidBodies, combinations: Sequence[Combination], n_columns: int
) -> KernelData:
    """Return the kernel's input for whole rows of ``n_columns`` columns."""
    size = len(rigid.tree.joints) * n_columns

    def place(row: int, column: int) -> int:
        return row * n_columns + column

    return _kernel_data(rigid, combinations, place, size, dense=True)


def entries_data(
    rigid: RigidBodies,
    combinations: Sequence[Combination],
    rows: Iterable[int],
    columns: Iterable[int],
) -> KernelData:
    """Return the kernel's input for the (K,) entries at ``rows`` and ``columns``."""
    wanted = {place: i for i, place in enumerate(zip(rows, columns, strict=True))}

    def place(row: int, column: int) -> int:
        return wanted.get((row, column), -1)

    return _kernel_data(rigid, combinations, place, len(wanted), dense=False)


def carried_links(tree: Tree) -> list[tuple[int, int]]:
    """Return the columns of the joint and of the link, for each link and joint that moves it."""
    return [
        (tree.joints[place].column, joint.column) for joint in tree.joints for place in joint.path
    ]


def _kernel_data(
    rigid: RigidBodies,
    combinations: Sequence[Combination],
    place_of: Callable[[int, int], int],
    size: int,
    *,
    dense: bool,
) -> KernelData:
    pairs = carried_links(rigid.tree)
    places = [place_of(row, 10 * link + c) for row, link in pairs for c in range(10)]
    seen = {link for i, (_, link) in enumerate(pairs) if max(places[10 * i : 10 * i + 10]) >= 0}
    sums: list[tuple[int, int]] = []
    summands: list[tuple[int, float]] = []
    for entry, parts in _summands(combinations, len(rigid.tree.joints)).items():
        place = place_of(*entry)
        if place >= 0:
            places.append(place)
            sums.append((len(summands), len(summands) + len(parts)))
            summands += parts
    joints, frames, axes = _tree_tables(rigid, seen)
    return KernelData(
        dense=dense,
        size=size,
        joints=joints,
        frames=frames,
        axes=axes,
        gravity=rigid.tree.gravity,
        sums=np.array(sums, dtype=np.int64).reshape(-1, 2),
        functions=np.array([function for function, _ in summands], dtype=np.int64),
        weights=np.array([weight for _, weight in summands], dtype=float),
        places=np.array(places, dtype=np.int64),
        missing=np.setdiff1d(np.arange(size), places),
        combinations=tuple(combinations),
    )


def _summands(
    combinations: Sequence[Combination], n: int
) -> dict[tuple[int, int], list[tuple[int, float]]]:
    """Return functions and coefficients that add up to the entry of each row and column."""
    first = {
        VELOCITY: 3 * n,
        COSINE: n,
        SINE: 2 * n,
        ACCELERATION: 4 * n,
        ONE: 5 * n,
        SIGN: 5 * n + 1,
    }
    first[SPEED_SIGN] = first[SIGN] + n
    first[OTHER] = first[SPEED_SIGN] + sum(len(c.speeds) for c in combinations)
    found: dict[tuple[int, int], list[tuple[int, float]]] = {}
    for combination in combinations:
        for entry in combination.entries:
            for kind, place, coefficient in entry.parts:
                function = first[kind] + (0 if kind == ONE else place)
                found.setdefault((entry.row, entry.column), []).append((function, coefficient))
        first[SPEED_SIGN] += len(combination.speeds)
        if combination.other is not None:
            first[OTHER] += combination.other(Motion(*np.zeros((3, 1, n)))).shape[1]
    return found


def _tree_tables(
    rigid: RigidBodies, seen: Collection[int]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return ``joints``, ``frames``, ``axes``; ``seen`` are the links whose entries are wanted."""
    n = len(rigid.tree.joints)
    joints = np.zeros((n, 7), dtype=np.int64)
    frames, axes = np.zeros((n, 12, 3)), np.zeros((n, 6))
    for i, joint in enumerate(rigid.tree.joints):
        column = joint.column
        # a turning frame depends on cosine and sine, a sliding one on the position alone
        position = (n + column, 2 * n + column) if joint.revolute else (column, 5 * n)
        functions = *position, 3 * n + column, 4 * n + column
        joints[i] = joint.parent + 1, len(joint.path), *functions, column in seen
        for part, turn in enumerate(into_frame(joint)):
            frames[i, :9, part] = turn.ravel()
        frames[i, 9:, 0] = joint.translation
        if joint.revolute:
            axes[i, :3] = joint.axis
        else:
            axes[i, 3:] = joint.axis
            frames[i, 9:, 1] = joint.rotation @ joint.axis
    return joints, frames, axes
