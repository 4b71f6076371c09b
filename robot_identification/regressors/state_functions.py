# SPDX-License-Identifier: Apache-2.0
"""
Columns whose entries are constant combinations of a few functions of the state.

Rotor inertia, friction and coupled drives are of that form: ``sum_f c_f f(dq, ddq)`` with the
functions ``ddq_j``, ``dq_j``, ``sign(dq_j)`` (sign(0) is 0), 1, the signs of a motor's speeds
``sign(sum_k r_k dq_k)``, and what else a term brings.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..recording import Motion

ACCELERATION, VELOCITY, SIGN, ONE, SPEED_SIGN, OTHER = range(6)
"""Kinds of functions; joint j's, but for 1, and for the j-th speed or other of the term."""


@dataclass(frozen=True)
class Entry:
    """
    An entry of the rows: a sum of functions of the state.

    Attributes
    ----------
    row:
        Place of the joint in all data.
    column:
        Place of the parameter in the whole vector.
    parts:
        Kind, place and coefficient of each function.

    """

    row: int
    column: int
    parts: tuple[tuple[int, int, float], ...]


@dataclass(frozen=True)
class Combination:
    """
    The entries of a term.

    Attributes
    ----------
    entries:
        Those that are not zero for every motion.
    speeds:
        For each speed whose sign is a function: joints and ratios that it is the sum of.
    other:
        Gives (m, x) values of the term's own functions for velocities (m, n); None for no such
        functions.

    """

    entries: tuple[Entry, ...]
    speeds: tuple[tuple[tuple[int, float], ...], ...] = ()
    other: Callable[[np.ndarray], np.ndarray] | None = None

    def speed_signs(self, velocity: np.ndarray) -> np.ndarray:
        """Return (m, s) signs of the speeds for velocities (m, n)."""
        speeds = [sum(ratio * velocity[:, k] for k, ratio in speed) for speed in self.speeds]
        return np.sign(np.array(speeds).reshape(len(speeds), len(velocity))).T


def fill(combination: Combination, motion: Motion, out: np.ndarray) -> None:
    """
    Add entries to rows.

    Parameters
    ----------
    combination:
        The entries.
    motion:
        States of n_samples.
    out:
        (n_samples, n_joints, n_parameters).

    """
    velocity = motion.velocity
    other = None if combination.other is None else combination.other(velocity)
    signs = combination.speed_signs(velocity)
    for entry in combination.entries:
        for kind, place, coefficient in entry.parts:
            values = signs[:, place] if kind == SPEED_SIGN else _values(kind, place, motion, other)
            out[:, entry.row, entry.column] += coefficient * values


def _values(kind: int, place: int, motion: Motion, other: np.ndarray | None) -> np.ndarray | float:
    if kind == ACCELERATION:
        return np.asarray(motion.acceleration[:, place])
    if kind == VELOCITY:
        return np.asarray(motion.velocity[:, place])
    if kind == SIGN:
        return np.asarray(np.sign(motion.velocity[:, place]))
    if kind == ONE:
        return 1.0
    assert other is not None
    return np.asarray(other[:, place])
