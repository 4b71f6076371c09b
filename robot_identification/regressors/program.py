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
from .state_functions import ACCELERATION, Combination, ONE, OTHER, SIGN, SPEED_SIGN, VELOCITY
from .tree import Tree

_MOTION = 6 * LANES
_NO_OTHER = np.empty((0, 0))
_PART = 4096
"""Samples that a thread has at least to itself."""

_PARTS = 8
"""Into how many parts the samples of a thread go."""


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
    speeds:
        (s, 3) for each speed whose sign is a function of the state: that function's place, and
        which functions add up to the speed.
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
    speeds: np.ndarray
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
        # more parts than threads: a core that others need as well does fewer of them
        parts = 1 if threads == 1 else min(_PARTS * threads, m // _PART)
        if m and parts <= 1:
            evaluate(*inputs, 0, m)
        elif m:
            step = LANES * -(-m // (parts * LANES))
            with ThreadPoolExecutor(threads) as pool:
                starts = range(0, m, step)
                list(pool.map(lambda i: evaluate(*inputs, i, min(i + step, m)), starts))

    @cached_property
    def _tables(self) -> tuple[np.ndarray, ...]:
        """In the kernel's order."""
        tables = self.links, self.constants, self.places, self.sums, self.speeds
        return *tables, self.functions, self.weights


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
    summed, motors = _summed(combinations, len(tree.joints))
    wanted = [(place_of(*entry), parts) for entry, parts in summed.items()]
    wanted = [(place, parts) for place, parts in wanted if place >= 0]
    functions: list[int] = []
    weights: list[float] = []
    sums, speeds = (_listed(each, functions, weights) for each in (wanted, motors))
    made = [*places.ravel().tolist(), *sums[:, 0].tolist()]
    missing = np.setdiff1d(np.arange(size), made)
    links, constants = _tables(rigid, seen)
    return Program(
        dense=dense,
        size=size,
        links=links,
        constants=constants,
        places=places,
        sums=sums[np.argsort(sums[:, 0])],
        speeds=speeds,
        functions=np.array(functions, dtype=np.int64),
        weights=np.array(weights, dtype=float),
        missing=missing if missing.size and not dense else None,
        others=tuple(c.other for c in combinations if c.other is not None),
    )


Parts = list[tuple[int, float]]
"""Places among the functions of the state, and coefficients."""


def _summed(
    combinations: Sequence[Combination], n: int
) -> tuple[dict[tuple[int, int], Parts], list[tuple[int, Parts]]]:
    """Return what adds up to each row and column, and to each speed whose sign is a function."""
    first = {ACCELERATION: n, VELOCITY: 2 * n, SIGN: 3 * n, ONE: 4 * n, OTHER: 4 * n + 1}
    others = [0 if c.other is None else c.other(np.zeros((1, n))).shape[1] for c in combinations]
    first[SPEED_SIGN] = first[OTHER] + sum(others)
    found: dict[tuple[int, int], Parts] = {}
    speeds: list[tuple[int, Parts]] = []
    for combination, count in zip(combinations, others, strict=True):
        for entry in combination.entries:
            parts = found.setdefault((entry.row, entry.column), [])
            for kind, place, coefficient in entry.parts:
                function = first[kind] + (0 if kind == ONE else place)
                parts.append((function, coefficient))
        for place, speed in enumerate(combination.speeds):
            parts = [(first[VELOCITY] + joint, ratio) for joint, ratio in speed]
            speeds.append((first[SPEED_SIGN] + place, parts))
        first[OTHER] += count
        first[SPEED_SIGN] += len(combination.speeds)
    return {place: parts for place, parts in found.items() if parts}, speeds


def _listed(
    sums: Iterable[tuple[int, Parts]], functions: list[int], weights: list[float]
) -> np.ndarray:
    """Append parts to the lists; return (e, 3): each sum's place, and where its parts are."""
    rows = []
    for place, parts in sums:
        rows.append((place, len(functions), len(functions) + len(parts)))
        functions += [function for function, _ in parts]
        weights += [weight for _, weight in parts]
    return np.array(rows, dtype=np.int64).reshape(-1, 3)


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
