# SPDX-License-Identifier: Apache-2.0
"""
Adjoint of the regressor: gradients by its rows turned into gradients by the motion.

Of open chains it is exact, and costs about as much as two evaluations of the rows (`kernel`); of
mechanisms and without Numba it comes from differences.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..data.recording import Motion
from .friction import ACCELERATION, Combination, COSINE, OTHER, SINE, VELOCITY
from .inverse_dynamics import InverseDynamicsRegressor, Regressor
from .kernel_data import carried_links, KernelData, PART
from .kinematics import Tree

STEPS = 1e-6, 1e-5, 1.0
"""
Steps of differences by position, velocity and acceleration.

Rows are quadratic in the velocity and linear in the acceleration.
"""

Slopes = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Gradients (n_samples, n_joints) by position, velocity and acceleration."""


def pull_back(regressor: Regressor, motion: Motion, by_rows: np.ndarray) -> Slopes:
    """
    Turn a gradient by a regressor's rows into one by the motion.

    The sign of a velocity has no slope.

    Parameters
    ----------
    regressor:
        Any.
    motion:
        States of n_samples.
    by_rows:
        (n_samples, n_joints, n_parameters) gradient by the rows.

    Returns
    -------
    tuple of np.ndarray
        (n_samples, n_joints) by position, velocity and acceleration.

    """
    data = compilable = None
    if isinstance(regressor, InverseDynamicsRegressor):
        data, compilable = regressor.kernel_data, regressor.compilable
    if data is None or compilable is None:
        return by_differences(lambda moved: regressor.rows(moved), motion, by_rows)
    rigid, combinations = compilable
    slopes = _of_bodies(rigid.tree, data, motion, np.ascontiguousarray(by_rows))
    for combination in combinations:
        _add_combination(combination, motion, by_rows, slopes)
    return slopes


def _of_bodies(tree: Tree, data: KernelData, motion: Motion, by_rows: np.ndarray) -> Slopes:
    # imported here because Numba is optional
    from .kernel import pull_back as compiled_pull_back

    rows = np.array([row for row, _ in carried_links(tree)])
    slopes = np.empty((3, *motion.position.shape))
    for start in range(0, len(motion), PART):
        part = slice(start, start + PART)
        states = data.states(motion, part)
        out = np.empty((3, data.joints.shape[0], states.shape[1]))
        compiled_pull_back(
            data.joints, data.frames, data.axes, data.gravity, rows, states, by_rows[part], out
        )
        slopes[:, part] = out.transpose(0, 2, 1)
    return slopes[0], slopes[1], slopes[2]


def _add_combination(
    combination: Combination, motion: Motion, by_rows: np.ndarray, slopes: Slopes
) -> None:
    """Add what the functions of a combination have for slopes."""
    by_position, by_velocity, by_acceleration = slopes
    by_other = None
    if combination.other is not None:
        by_other = np.zeros_like(combination.other(motion))
    for entry in combination.entries:
        weight = by_rows[:, entry.row, entry.column]
        for kind, place, coefficient in entry.parts:
            if kind == ACCELERATION:
                by_acceleration[:, place] += coefficient * weight
            elif kind == VELOCITY:
                by_velocity[:, place] += coefficient * weight
            elif kind == COSINE:
                by_position[:, place] -= coefficient * np.sin(motion.position[:, place]) * weight
            elif kind == SINE:
                by_position[:, place] += coefficient * np.cos(motion.position[:, place]) * weight
            elif kind == OTHER and by_other is not None:
                by_other[:, place] += coefficient * weight
    if by_other is not None and combination.other is not None:
        for total, part in zip(
            slopes, by_differences(combination.other, motion, by_other), strict=True
        ):
            total += part


def by_differences(
    function: Callable[[Motion], np.ndarray], motion: Motion, by_values: np.ndarray
) -> Slopes:
    """
    Turn a gradient by what a function makes of a motion into one by the motion, by differences.

    Each joint's state is moved a little for all samples at once: a sample's values depend on that
    sample's state alone, so 3 n_joints evaluations give the derivatives of all of them.

    Parameters
    ----------
    function:
        Takes a motion to (n_samples, ...) values, such as efforts or regressor rows.
    motion:
        Where.
    by_values:
        (n_samples, ...) gradient by the values.

    Returns
    -------
    tuple of np.ndarray
        (n_samples, n_joints) by position, velocity and acceleration.

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
