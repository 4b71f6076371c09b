# SPDX-License-Identifier: Apache-2.0
"""Regressor as data for the compiled kernel: all columns as dense rows, or certain entries."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from ..data.recording import Motion
from .joint_terms import further_functions, JointTerm, summands
from .rigid import into_frame, RigidBodies, Tree

PART = 1008
"""Samples that are evaluated at once: a thread's share of work."""


@dataclass(frozen=True, eq=False)
class KernelData:
    """
    Input of the compiled kernel.

    Attributes
    ----------
    dense, size:
        Whether the kernel makes whole rows (of ``size`` = n p numbers a sample) or ``size``
        entries.
    tree:
        The joints; n of them move, some of which may follow others.
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
    carried, multipliers:
        (pairs,) column of the joint of each link and joint on its path, and that joint's speed by
        that of its column.
    merges:
        (f, 2) pairs whose entries are multiplied and added to those of another pair, or are
        themselves multiplied, where both are the same.
    terms:
        The terms that the other entries come from.

    """

    dense: bool
    size: int
    tree: Tree
    joints: np.ndarray
    frames: np.ndarray
    axes: np.ndarray
    gravity: np.ndarray
    sums: np.ndarray
    functions: np.ndarray
    weights: np.ndarray
    places: np.ndarray
    missing: np.ndarray
    carried: np.ndarray
    multipliers: np.ndarray
    merges: np.ndarray
    terms: tuple[JointTerm, ...]

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
            return
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(lambda start: self._evaluate_part(motion, start, out), starts))

    def _evaluate_part(self, motion: Motion, start: int, out: np.ndarray) -> None:
        # imported here because Numba is optional
        from .kernel import evaluate

        part = motion.rows(start, start + PART)
        evaluate(
            self.joints,
            self.frames,
            self.axes,
            self.gravity,
            self.sums,
            self.functions,
            self.weights,
            self.places,
            self.merges,
            self.multipliers,
            *_contiguous(self.tree.complete(part)),
            further_functions(self.terms, part),
            out,
            start,
            self.dense,
        )

    def pull_back(self, motion: Motion, by_rows: np.ndarray) -> np.ndarray:
        """
        Turn a gradient by dense rows (m, n, p) into one by the motion, of the rigid bodies alone.

        It is (3, m, n) by position, velocity and acceleration.
        """
        from .kernel import pull_back

        by_rows = np.ascontiguousarray(by_rows)
        tree = self.joints, self.frames, self.axes, self.gravity, self.carried, self.multipliers
        out = np.empty((3, len(self.joints), len(motion)))
        pull_back(*tree, *_contiguous(self.tree.complete(motion)), by_rows, out)
        return np.ascontiguousarray(self.tree.mimics.efforts(out.transpose(0, 2, 1)))


def _contiguous(motion: Motion) -> tuple[np.ndarray, ...]:
    """Return positions, velocities and accelerations as the kernel takes them."""
    states = motion.position, motion.velocity, motion.acceleration
    return tuple(np.ascontiguousarray(array, dtype=float) for array in states)


def dense_data(rigid: RigidBodies, terms: Sequence[JointTerm], n_columns: int) -> KernelData:
    """Return the kernel's input for whole rows of ``n_columns`` columns."""
    n = rigid.tree.n_columns
    places = {
        (row, column): row * n_columns + column for row in range(n) for column in range(n_columns)
    }
    return _kernel_data(rigid, terms, places, dense=True)


def entries_data(
    rigid: RigidBodies, terms: Sequence[JointTerm], rows: Iterable[int], columns: Iterable[int]
) -> KernelData:
    """Return the kernel's input for the (K,) entries at ``rows`` and ``columns``."""
    places = {place: i for i, place in enumerate(zip(rows, columns, strict=True))}
    return _kernel_data(rigid, terms, places, dense=False)


def carried_links(tree: Tree) -> list[tuple[int, int]]:
    """Return the columns of the joint and of the link, for each link and joint that moves it."""
    return [
        (tree.joints[place].column, joint.link) for joint in tree.joints for place in joint.path
    ]


def _kernel_data(
    rigid: RigidBodies,
    terms: Sequence[JointTerm],
    wanted: Mapping[tuple[int, int], int],
    *,
    dense: bool,
) -> KernelData:
    """Return the kernel's input for the entries at certain rows and columns, and their places."""
    pairs = carried_links(rigid.tree)
    ancestors = [rigid.tree.joints[place] for joint in rigid.tree.joints for place in joint.path]
    multipliers = np.array([joint.multiplier for joint in ancestors])
    merges = _merges(pairs, multipliers)
    added = {source for source, target in merges if source != target}
    places = [
        -1 if i in added else wanted.get((row, 10 * link + c), -1)
        for i, (row, link) in enumerate(pairs)
        for c in range(10)
    ]
    seen = {link for i, (_, link) in enumerate(pairs) if max(places[10 * i : 10 * i + 10]) >= 0}
    sums: list[tuple[int, int]] = []
    every: list[tuple[int, float]] = []
    for entry, parts in summands(terms, len(rigid.tree.joints)).items():
        if entry in wanted:
            places.append(wanted[entry])
            sums.append((len(every), len(every) + len(parts)))
            every += parts
    joints, frames, axes = _tree_tables(rigid, seen)
    return KernelData(
        dense=dense,
        size=len(wanted),
        tree=rigid.tree,
        joints=joints,
        frames=frames,
        axes=axes,
        gravity=rigid.tree.gravity,
        sums=np.array(sums, dtype=np.int64).reshape(-1, 2),
        functions=np.array([function for function, _ in every], dtype=np.int64),
        weights=np.array([weight for _, weight in every], dtype=float),
        places=np.array(places, dtype=np.int64),
        missing=np.setdiff1d(np.arange(len(wanted)), places),
        carried=np.array([row for row, _ in pairs]),
        multipliers=multipliers,
        merges=np.array(merges, dtype=np.int64).reshape(-1, 2),
        terms=tuple(terms),
    )


def _merges(pairs: Sequence[tuple[int, int]], multipliers: np.ndarray) -> list[tuple[int, int]]:
    """Return pairs whose entries are multiplied, with the pair that they are added to."""
    first: dict[tuple[int, int], int] = {}
    merges = []
    for i, pair in enumerate(pairs):
        target = first.setdefault(pair, i)
        if target != i or multipliers[i] != 1.0:
            merges.append((i, target))
    return merges


def _tree_tables(
    rigid: RigidBodies, seen: Collection[int]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return ``joints``, ``frames``, ``axes``; ``seen`` are the links whose entries are wanted."""
    n = len(rigid.tree.joints)
    joints = np.zeros((n, 7), dtype=np.int64)
    frames, axes = np.zeros((n, 12, 3)), np.zeros((n, 6))
    for i, joint in enumerate(rigid.tree.joints):
        column = joint.link
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
