# SPDX-License-Identifier: Apache-2.0
"""
The inverse dynamics regressor, the entries of its rows that are not zero, and its adjoint.

Its columns are those of rigid bodies, rotor inertia, friction, springs and coupled drives.  The
adjoint turns gradients by the rows into gradients by the motion.  Of open chains it is exact, and
costs about as much as two evaluations of the rows (`kernel`); of mechanisms and without Numba it
comes from differences.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, runtime_checkable
from weakref import WeakKeyDictionary

import numpy as np

from ..data.recording import Motion
from ..model.parameters import ParameterLayout, ParameterSet
from ..support.compiled import available
from .closed_chain import ClosedBodies
from .delta import DeltaBodies
from .joint_terms import (
    JointTerm,
    summands,
    Term,
)
from .kernel_data import carried_links, dense_data, entries_data, KernelData
from .rigid import RigidBodies

PREDICTION_BLOCK = 4096
"""Samples whose regressor is held at once to predict efforts."""


@runtime_checkable
class Regressor(Protocol):
    """Model that is linear in its parameters: ``effort = rows(motion) @ parameters``."""

    @property
    def layout(self) -> ParameterLayout:
        """Names and units of the columns."""

    @property
    def n_joints(self) -> int:
        """Number of rows of a sample."""

    def rows(self, motion: Motion) -> np.ndarray:
        """Rows for a motion, (n_samples * n_joints, len(layout)), a sample's rows together."""


@dataclass(frozen=True)
class InverseDynamicsRegressor:
    """
    Regressor of the efforts at the joints; made by `build`.

    Attributes
    ----------
    layout:
        The standard parameters: ten a link, then rotor inertia and friction joint by joint, then
        the springs and the coupled drives.
    n_joints:
        Number of joints, hence of rows a sample.
    terms:
        Groups of columns.

    """

    layout: ParameterLayout
    n_joints: int
    terms: tuple[Term, ...]

    def rows(
        self, motion: Motion, *, out: np.ndarray | None = None, threads: int = 1
    ) -> np.ndarray:
        """
        Evaluate the regressor.

        Beside the result, memory does not grow with the number of samples.

        Parameters
        ----------
        motion:
            States of n_samples, joints in the robot's order [rad, rad/s, rad/s^2].
        out:
            Contiguous array of the result's shape to write to; made if None.
        threads:
            Most threads that share the work of the compiled kernel.

        Returns
        -------
        np.ndarray
            (n_samples * n_joints, len(layout)), the rows of a sample together, in SI units.

        Raises
        ------
        ValueError
            if the motion has another number of joints, or ``out`` does not fit.

        """
        n_samples, n_joints = motion.position.shape
        if n_joints != self.n_joints:
            raise ValueError(f'the motion has {n_joints} joints, the regressor {self.n_joints}')
        out = _result_array((n_samples * n_joints, len(self.layout)), out)
        data = self.kernel_data
        if data is not None:
            data.evaluate(motion, out, threads)
            return out
        out[:] = 0.0
        each = out.reshape(n_samples, n_joints, len(self.layout))
        for term in self.terms:
            term.fill(motion, each)
        return out

    @property
    def breakaway(self) -> np.ndarray | None:
        """(n_joints,) displacement of dry friction [rad or m]; None without one."""
        found = (term.breakaway for term in self.terms if isinstance(term, JointTerm))
        return next(found, None)

    @property
    def kernel_data(self) -> KernelData | None:
        """All columns as data for the compiled kernel; None without it, or for a mechanism."""
        return self._kernel_data if available() else None

    @cached_property
    def _kernel_data(self) -> KernelData | None:
        return dense_data(*self.compilable, len(self.layout)) if self.compilable else None

    @cached_property
    def compilable(self) -> tuple[RigidBodies, tuple[JointTerm, ...]] | None:
        """The terms, if the compiled kernel can evaluate them all."""
        rigid, *others = self.terms
        known = tuple(term for term in others if isinstance(term, JointTerm))
        return (rigid, known) if isinstance(rigid, RigidBodies) else None


@dataclass(frozen=True)
class MechanismRegressor(InverseDynamicsRegressor):
    """Regressor of the actuated joints of a robot that is no tree; made by `build`."""

    @property
    def bodies(self) -> ClosedBodies | DeltaBodies:
        """The term of the mechanism."""
        bodies = self.terms[0]
        assert isinstance(bodies, (ClosedBodies, DeltaBodies))
        return bodies

    @property
    def joints(self) -> tuple[str, ...]:
        """Names of the actuated joints."""
        return self.bodies.joints[: self.n_joints]

    def random_motion(self, random: np.random.Generator, samples: int) -> Motion:
        """Return random states that the robot can have."""
        return self.bodies.random_motion(random, samples)


def _result_array(shape: tuple[int, int], out: np.ndarray | None) -> np.ndarray:
    """
    Return ``out``, or a new array if it is None.

    Raises ValueError if ``out`` is another than a contiguous array of doubles of this shape.
    """
    if out is None:
        return np.empty(shape)
    if out.shape != shape or out.dtype != np.float64 or not out.flags.c_contiguous:
        kind = '' if out.flags.c_contiguous else ', not contiguous'
        raise ValueError(f'out is {out.dtype} {out.shape}{kind}, expected float64 {shape}')
    return out


def predict(regressor: Regressor, motion: Motion, parameters: ParameterSet) -> np.ndarray:
    """
    Return the efforts of a motion, (n_samples, n_joints) [N m or N].

    Raises ValueError if the parameters are not in the regressor's layout.
    """
    if parameters.layout.names != regressor.layout.names:
        raise ValueError('the parameters are not those of the regressor')
    effort = np.empty(motion.position.shape)
    for start in range(0, len(motion), PREDICTION_BLOCK):
        part = motion.rows(start, start + PREDICTION_BLOCK)
        rows = regressor.rows(part)
        effort[start : start + len(part)] = (rows @ parameters.values).reshape(len(part), -1)
    return effort


_STATES = 12
"""Random states at which an entry has to be exactly zero to count as zero for every motion."""


@dataclass(frozen=True, eq=False)
class RowPattern:
    """
    Places of the entries of a sample's rows that can differ from zero.

    A joint's effort depends on the links that it carries alone, so that most of a sample's rows
    are zero.  ``columns`` has the ascending places of each of n rows among the ``size`` = b
    columns asked for.
    """

    columns: tuple[np.ndarray, ...]
    size: int

    @classmethod
    def full(cls, n_rows: int, size: int) -> RowPattern:
        """Return the pattern of rows that may have entries everywhere."""
        return cls((np.arange(size),) * n_rows, size)

    @cached_property
    def offsets(self) -> np.ndarray:
        """(n + 1,) where the entries of each row begin and end among those of a sample."""
        return np.cumsum([0, *(places.size for places in self.columns)])

    def row_entries(self, row: int) -> slice:
        """Places of the entries of a row."""
        return slice(*self.offsets[row : row + 2].tolist())

    @property
    def width(self) -> int:
        """Number K of entries of a sample."""
        return int(self.offsets[-1])

    @cached_property
    def rows(self) -> np.ndarray:
        """(K,) the row of each entry."""
        return np.repeat(np.arange(len(self.columns)), np.diff(self.offsets))

    @cached_property
    def places(self) -> np.ndarray:
        """(K,) the column of each entry, among those asked for."""
        return np.concatenate([*self.columns, np.zeros(0, dtype=int)]).astype(int)

    def same(self, other: RowPattern) -> bool:
        """Return whether entries of both patterns mean the same."""
        if self is other:
            return True
        alike = self.size == other.size and np.array_equal(self.offsets, other.offsets)
        return alike and np.array_equal(self.places, other.places)

    def gather(self, rows: np.ndarray) -> np.ndarray:
        """Return the entries (K, m), contiguous, of whole rows (m, n, b); inverse of `expand`."""
        return np.ascontiguousarray(rows[:, self.rows, self.places].T)

    def product(self, entries: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Multiply the rows of entries (K, m) with values (b,) of their columns, (m, n)."""
        out = np.empty((len(self.columns), entries.shape[1]))
        for j, places in enumerate(self.columns):
            out[j] = values[places] @ entries[self.row_entries(j)]
        return out.T

    def expand(self, entries: np.ndarray) -> np.ndarray:
        """Return the whole rows (m, n, b) of entries (K, m)."""
        dense = np.zeros((entries.shape[1], len(self.columns), self.size))
        dense[:, self.rows, self.places] = entries.T
        return dense


def row_pattern(regressor: Regressor, columns: np.ndarray) -> RowPattern:
    """
    Find the entries in (b,) columns of a regressor that are not zero for every motion.

    If the compiled kernel could evaluate it, they follow from its structure: a link's columns are
    in the rows of the joints that move it.  Other regressors are tried at random states.
    """
    compilable = regressor.compilable if isinstance(regressor, InverseDynamicsRegressor) else None
    if compilable is None:
        rows = regressor.rows(random_states(regressor, _STATES))
        occupied = np.asarray(rows.reshape(_STATES, regressor.n_joints, -1).any(axis=0))
    else:
        occupied = np.zeros((regressor.n_joints, len(regressor.layout)), dtype=bool)
        rigid, terms = compilable
        for row, link in carried_links(rigid.tree):
            occupied[row, 10 * link : 10 * link + 10] = True
        for place in summands(terms, regressor.n_joints):
            occupied[place] = True
    wanted = occupied[:, columns]
    return RowPattern(tuple(np.flatnonzero(row) for row in wanted), wanted.shape[1])


def random_states(regressor: Regressor, samples: int) -> Motion:
    """Return random states, the same ones each time, that the robot can have."""
    random = np.random.default_rng(0)
    own = getattr(regressor, 'random_motion', None)
    if own is not None:
        return own(random, samples)
    return Motion(*random.uniform(-3.0, 3.0, (3, samples, regressor.n_joints)))


def entries(
    regressor: Regressor,
    motion: Motion,
    columns: np.ndarray,
    pattern: RowPattern,
    out: np.ndarray | None = None,
    *,
    threads: int = 1,
) -> np.ndarray:
    """
    Evaluate the entries of a pattern, (K, m) and contiguous.

    Row j's part ``[offsets[j]:offsets[j + 1]]`` of the result is the matrix (m, w_j) of its
    columns in Fortran's order, as LAPACK takes it.  The compiled kernel forms these entries alone;
    without it, the dense rows of the motion exist meanwhile.

    Parameters
    ----------
    regressor, columns, pattern:
        As for and from `row_pattern`.
    motion:
        States of m samples, a few thousand at most.
    out:
        (K, m), contiguous, to write to; made if None.
    threads:
        Most threads that share the work of the compiled kernel.

    Raises
    ------
    ValueError
        if the motion has another number of joints than the regressor, or ``out`` does not fit.

    """
    m, n = motion.position.shape
    data = _kernel_input(regressor, columns, pattern) if available() else None
    if data is not None:
        if n != regressor.n_joints:
            raise ValueError(f'the motion has {n} joints, the regressor {regressor.n_joints}')
        out = _result_array((data.size, m), out)
        data.evaluate(motion, out, threads)
        return out
    out = _result_array((pattern.width, m), out)
    dense = regressor.rows(motion).reshape(m, len(pattern.columns), -1)
    out[...] = dense[:, pattern.rows, np.asarray(columns)[pattern.places]].T
    return out


_Kept = tuple[Regressor, np.ndarray, KernelData]
_kernel_inputs: WeakKeyDictionary[RowPattern, _Kept] = WeakKeyDictionary()
"""The latest input of the compiled kernel for each pattern: online, it serves every sample."""


def _kernel_input(
    regressor: Regressor, columns: np.ndarray, pattern: RowPattern
) -> KernelData | None:
    """Return the entries of a pattern as data for the compiled kernel; None if it has none."""
    if not isinstance(regressor, InverseDynamicsRegressor) or regressor.compilable is None:
        return None
    kept = _kernel_inputs.get(pattern)
    if kept is None or kept[0] is not regressor or kept[1] is not columns:
        places = np.asarray(columns)[pattern.places]
        kept = regressor, columns, entries_data(*regressor.compilable, pattern.rows, places)
        _kernel_inputs[pattern] = kept
    return kept[2]


Slopes = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Gradients (n_samples, n_joints) by position, velocity and acceleration."""

STEPS = 1e-6, 1e-5, 1.0
"""
Steps of differences by position, velocity and acceleration.

Rows are quadratic in the velocity and linear in the acceleration.
"""


def pull_back(regressor: Regressor, motion: Motion, by_rows: np.ndarray) -> Slopes:
    """
    Turn a gradient (n_samples, n_joints, p) by a regressor's rows into one by the motion.

    The sign of a velocity has no slope.
    """
    data = regressor.kernel_data if isinstance(regressor, InverseDynamicsRegressor) else None
    if data is None:
        return by_differences(regressor.rows, motion, by_rows)
    slopes = data.pull_back(motion, by_rows)
    n, m = regressor.n_joints, len(motion)
    start = 6 * n + 1 + sum(len(term.speeds) for term in data.terms)
    by_function = np.zeros((start + sum(term.n_other for term in data.terms), m))
    for (row, column), parts in summands(data.terms, n).items():
        for function, coefficient in parts:
            by_function[function] += coefficient * by_rows[:, row, column]
    by_cosine, by_sine, by_velocity, by_acceleration = by_function[n : 5 * n].reshape(4, n, m)
    position = motion.position.T
    slopes[0] += (np.cos(position) * by_sine - np.sin(position) * by_cosine).T
    slopes[1] += by_velocity.T
    slopes[2] += by_acceleration.T
    for term in data.terms:
        if term.other is not None:
            slopes += by_differences(term.other, motion, by_function[start:][: term.n_other].T)
            start += term.n_other
    return slopes[0], slopes[1], slopes[2]


def by_differences(
    function: Callable[[Motion], np.ndarray], motion: Motion, by_values: np.ndarray
) -> Slopes:
    """
    Turn a gradient by a function's values (n_samples, ...) into one by the motion, by differences.

    Each joint's state is moved a little for all samples at once: a sample's values depend on that
    sample's state alone, so 3 n_joints evaluations give the derivatives of all of them.
    """
    size = len(motion)
    arrays = motion.position, motion.velocity, motion.acceleration
    values, by_values = function(motion).reshape(size, -1), by_values.reshape(size, -1)
    slopes = tuple(np.empty_like(array) for array in arrays)
    for kind, step in enumerate(STEPS):
        for joint in range(motion.position.shape[1]):
            moved = [array.copy() if i == kind else array for i, array in enumerate(arrays)]
            moved[kind][:, joint] += step
            change = function(Motion(*moved)).reshape(size, -1) - values
            slopes[kind][:, joint] = np.einsum('sp,sp->s', change, by_values) / step
    return slopes[0], slopes[1], slopes[2]
