# SPDX-License-Identifier: Apache-2.0
"""
A regressor as data for the compiled kernel.

A `Program` says what the kernel evaluates: all columns as dense rows, or certain entries.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..lanes import LANES
from ..recording import Motion
from .kernel import evaluate
from .rigid import into_frame, RigidBodies
from .state_functions import ACCELERATION, Combination, ONE, OTHER, SIGN, VELOCITY
from .tree import Tree

_MOTION = 6 * LANES
_NO_OTHER = np.empty((0, 0))
_PART = 4096
"""Samples that a thread has at least to itself."""


@dataclass(frozen=True, eq=False)
class Program:
    """
    What the kernel reads.

    Attributes
    ----------
    dense:
        Whether it makes whole rows; else entries.
    size:
        Numbers of a sample: n p, or K.
    links:
        (n, 6) for each joint of the tree: its column, where the kernel keeps the motions of its
        parent's link and of its own, how many motions it has from the parent (velocity,
        acceleration and unit motions), whether it turns, whether its link's columns are wanted.
    constants:
        (n + 1, 36) for each joint: the rotation into its frame as constant, cosine and sine part
        of nine entries, translation, axis, and the way in the parent's frame that a unit of its
        position takes it.  Last, gravity.
    places:
        (pairs, 10) for each link and joint on its path: where its ten entries go among the
        numbers of a sample; -1 where they are not wanted.
    sums:
        (e, 3) for each other entry: its place, and which functions add up to it; by place.
    functions, weights:
        Places among the functions of the state, and their coefficients.
    missing:
        Places of entries that are zero for every motion; None for none.
    others:
        What gives the functions that the kernel does not make.

    """

    dense: bool
    size: int
    links: np.ndarray
    constants: np.ndarray
    places: np.ndarray
    sums: np.ndarray
    functions: np.ndarray
    weights: np.ndarray
    missing: np.ndarray | None
    others: tuple[Callable[[np.ndarray], np.ndarray], ...]

    def run(self, motion: Motion, out: np.ndarray, threads: int = 1) -> None:
        """
        Evaluate a motion.

        Parameters
        ----------
        motion:
            m states, of as many joints as there are links.
        out:
            Contiguous, m rows of ``size`` numbers; or ``size`` rows of m for entries.
        threads:
            How many at most share the samples.

        """
        q = np.ascontiguousarray(motion.position)
        dq = np.ascontiguousarray(motion.velocity)
        ddq = np.ascontiguousarray(motion.acceleration)
        other = np.hstack([f(dq) for f in self.others]) if self.others else _NO_OTHER
        m = len(q)
        if self.missing is not None:
            out.reshape(self.size, m)[self.missing] = 0.0
        inputs = *self._tables, q, dq, ddq, other, out.reshape(-1), int(self.dense)
        parts = 1 if threads == 1 else min(threads, m // _PART)
        if m and parts <= 1:
            evaluate(*inputs, 0, m)
        elif m:
            step = LANES * -(-m // (parts * LANES))
            with ThreadPoolExecutor(parts) as pool:
                starts = range(0, m, step)
                list(pool.map(lambda i: evaluate(*inputs, i, min(i + step, m)), starts))

    @cached_property
    def _tables(self) -> tuple[np.ndarray, ...]:
        """In the kernel's order."""
        return self.links, self.constants, self.places, self.sums, self.functions, self.weights


def dense_program(
    rigid: RigidBodies, combinations: Sequence[Combination], n_columns: int
) -> Program:
    """
    Return what makes whole rows.

    Parameters
    ----------
    rigid, combinations:
        The regressor's terms.
    n_columns:
        Number p of its columns.

    """
    n = len(rigid.tree.joints)
    return _program(
        rigid,
        combinations,
        lambda row, column: row * n_columns + column,
        n * n_columns,
        dense=True,
    )


def entries_program(
    rigid: RigidBodies,
    combinations: Sequence[Combination],
    rows: Iterable[int],
    columns: Iterable[int],
) -> Program:
    """
    Return what makes certain entries.

    Parameters
    ----------
    rigid, combinations:
        The regressor's terms.
    rows, columns:
        (K,) of the entries, in the order of the output.

    """
    wanted = {place: i for i, place in enumerate(zip(rows, columns, strict=True))}
    return _program(
        rigid,
        combinations,
        lambda row, column: wanted.get((row, column), -1),
        len(wanted),
        dense=False,
    )


def carried_links(tree: Tree) -> list[tuple[int, int]]:
    """Columns of the joint and of the link, for each link and joint that moves it."""
    return [
        (tree.joints[place].column, joint.column) for joint in tree.joints for place in joint.path
    ]


def _program(
    rigid: RigidBodies,
    combinations: Sequence[Combination],
    place_of: Callable[[int, int], int],
    size: int,
    *,
    dense: bool,
) -> Program:
    tree = rigid.tree
    pairs = carried_links(tree)
    places = np.array(
        [[place_of(row, 10 * link + c) for c in range(10)] for row, link in pairs], dtype=np.int64
    )
    seen = {link for (_, link), own in zip(pairs, places, strict=True) if (own >= 0).any()}
    sums: list[tuple[int, int, int]] = []
    functions: list[int] = []
    weights: list[float] = []
    for entry, parts in _summed(combinations, len(tree.joints)).items():
        if place_of(*entry) >= 0:
            sums.append((place_of(*entry), len(functions), len(functions) + len(parts)))
            functions += [function for function, _ in parts]
            weights += [weight for _, weight in parts]
    made = [*places.ravel().tolist(), *(place for place, *_ in sums)]
    missing = np.setdiff1d(np.arange(size), made)
    links, constants = _tables(rigid, seen)
    return Program(
        dense=dense,
        size=size,
        links=links,
        constants=constants,
        places=places,
        sums=np.array(sorted(sums), dtype=np.int64).reshape(-1, 3),
        functions=np.array(functions, dtype=np.int64),
        weights=np.array(weights, dtype=float),
        missing=missing if missing.size and not dense else None,
        others=tuple(c.other for c in combinations if c.other is not None),
    )


def _summed(
    combinations: Sequence[Combination], n: int
) -> dict[tuple[int, int], list[tuple[int, float]]]:
    """Places among the functions of the state and coefficients, for each row and column."""
    first = {ACCELERATION: n, VELOCITY: 2 * n, SIGN: 3 * n, ONE: 4 * n, OTHER: 4 * n + 1}
    found: dict[tuple[int, int], list[tuple[int, float]]] = {}
    for combination in combinations:
        for entry in combination.entries:
            parts = found.setdefault((entry.row, entry.column), [])
            for kind, place, coefficient in entry.parts:
                function = first[kind] + (0 if kind == ONE else place)
                parts.append((function, coefficient))
        if combination.other is not None:
            first[OTHER] += combination.other(np.zeros((1, n))).shape[1]
    return {place: parts for place, parts in found.items() if parts}


def _tables(rigid: RigidBodies, seen: Collection[int]) -> tuple[np.ndarray, np.ndarray]:
    """Return ``links`` and ``constants``; ``seen`` are the links with columns that are wanted."""
    joints = rigid.tree.joints
    links = np.zeros((len(joints), 6), dtype=np.int64)
    constants = np.zeros((len(joints) + 1, 36))
    own = 2 * _MOTION  # after the base's
    for i, joint in enumerate(joints):
        known = 1 + len(joint.path)
        parent = 0 if joint.parent < 0 else links[joint.parent, 2]
        links[i] = joint.column, parent, own, known, joint.revolute, joint.column in seen
        own += (known + 1) * _MOTION
        turns = into_frame(joint)
        for part, turn in enumerate(turns):
            constants[i, part:27:3] = turn.ravel()
        constants[i, 27:30], constants[i, 30:33] = joint.translation, joint.axis
        if not joint.revolute:
            constants[i, 33:36] = joint.rotation @ joint.axis
    constants[-1, :3] = rigid.tree.gravity
    return links, constants
