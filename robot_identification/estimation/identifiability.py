# SPDX-License-Identifier: Apache-2.0
"""
Base parameters that the rows of a recording determine.

Base parameters are chosen on random motions, so that a poor recording cannot change the model.  A
recording may still leave some of them open: a joint that only ever turned one way, for example,
does not tell Coulomb friction from offset.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import one_of
from ..model.parameters import ParameterLayout

TOLERANCE = 1e-10
"""Relative singular value of the column-scaled regressor below which columns are dependent."""

NEGLIGIBLE = 1e-6
"""
Norm of a column, relative to the largest among parameters of the same unit, below which the motion
does not reach it: what is left is rounding, or angles in the URDF that are nearly right.
"""

_PARTNER = 0.1
_CANDIDATE = 0.5


@dataclass(frozen=True)
class Identifiability:
    """
    Identifiability of the parameters from a recording.

    Attributes
    ----------
    excited:
        (b,) bool.
    reasons:
        (b,) why not, in words; empty where excited.

    """

    excited: np.ndarray
    reasons: tuple[str, ...]

    @property
    def rank(self) -> int:
        """Number of parameters that are determined."""
        return int(self.excited.sum())


def identifiability(factor: np.ndarray, rows: int, layout: ParameterLayout) -> Identifiability:
    """
    Decide which base parameters the rows determine.

    On the columns scaled to norm 1, a direction with singular value s is known to sigma / s, where
    sigma is the standard deviation of the residual: in units of effort, since a scaled parameter's
    size is the norm of its own share of the effort.  The direction is open where s is below
    `TOLERANCE` relative to the largest, or where a parameter's share is uncertain by more than the
    norm of the whole effort.  For each open direction one parameter is given up, the last one in
    order that plays a main part in it (offsets before friction before inertia).  The others are
    then known as far as the value that the given up one is held at is true.

    Parameters
    ----------
    factor:
        (b + 1, b + 1) R of [W | tau].
    rows:
        Number of rows of W.
    layout:
        The b parameters.

    """
    matrix, effort = factor[:, :-1], factor[:, -1]
    norms = np.linalg.norm(matrix, axis=0)
    excited = norms > NEGLIGIBLE * _largest_of_kind(norms, layout.units)
    reasons = ['' if seen else 'the motion has no effect on it' for seen in excited]
    noise = None
    while excited.any():
        columns = np.flatnonzero(excited)
        u, s, vt = np.linalg.svd(matrix[:, columns] / norms[columns], full_matrices=False)
        if noise is None:
            noise = _noise(u[:, s > TOLERANCE * s[0]], effort, rows)
        part = np.abs(vt[-1])
        uncertain = noise * part.max() > s[-1] * np.linalg.norm(effort)
        if s[-1] > TOLERANCE * s[0] and not uncertain:
            break
        given_up = np.flatnonzero(part >= _CANDIDATE * part.max())[-1]
        partners = np.flatnonzero(part >= _PARTNER * part.max())
        others = [layout.names[columns[i]] for i in partners if i != given_up]
        excited[columns[given_up]] = False
        reasons[columns[given_up]] = (
            f'the motion does not separate it from {one_of(others, 4)}'
            if others
            else 'its effect is lost in the noise'
        )
    return Identifiability(excited, tuple(reasons))


def _largest_of_kind(norms: np.ndarray, units: Sequence[str]) -> np.ndarray:
    """(b,) largest norm among the parameters that share each one's unit."""
    largest: dict[str, float] = {}
    for norm, unit in zip(norms, units, strict=True):
        largest[unit] = max(norm, largest.get(unit, 0.0))
    return np.array([largest[unit] for unit in units])


def _noise(range_basis: np.ndarray, effort: np.ndarray, rows: int) -> float:
    """Residual standard deviation of the least squares fit with all columns."""
    residual = effort - range_basis @ (range_basis.T @ effort)
    freedom = max(1, rows - range_basis.shape[1])
    return float(np.linalg.norm(residual) / np.sqrt(freedom))
