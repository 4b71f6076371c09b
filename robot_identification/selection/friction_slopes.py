# SPDX-License-Identifier: Apache-2.0
"""
The slopes of stiction and Stribeck friction: a search around the linear fit.

Szabo and Szadeczky-Kardoss (Acta IMEKO 10(3), 2021) give the slopes of their friction model (9);
here they are found where the settings leave them open.  For given slopes the model is linear, so
what is minimised is the residual of the least squares of one joint's rows, as a function of that
joint's one or two slopes alone (variable projection).

One pass over the recordings is enough.  The column ``2/pi atan(e^s v)`` is an analytic function of
s, so that its values at a few Chebyshev points give it, by interpolation, at every s of the range.
The columns at these points go through the same filters as all others and into one R factor a
joint, whose size does not depend on the recording, and from which the residual comes at once for
any slopes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from numpy.polynomial import chebyshev
import scipy
from scipy.linalg import block_diag

from ..data.recording import Motion
from ..errors import one_of
from ..estimation.factor import GrowingTriangle
from ..estimation.least_squares import range_basis, TOLERANCE
from ..estimation.rows import driven_rows, require_order, row_blocks
from ..model.friction import arctan_shape, SLOPES
from ..model.parameters import ParameterLayout
from ..regressor import Regressor
from ..regressor.base_parameters import BaseStructure
from ..regressor.joint_terms import slopes_of, SYMBOLS
from ..regressor.settings import ModelSettings
from ..signals import RecordingSource, SignalSettings

RANGE = (0.5, 5000.0)
"""
Slopes that are looked at [s/rad or s/m].

Below, the arctan of a robot's velocities is hardly more than viscous friction; above, it is the
sign of all velocities but the last millimetres or milliradians a second.
"""

NODES = 48
"""Points in between which the columns are interpolated, to 1e-8."""

LEAST_RATIO = 2.0
"""How much steeper than Stribeck friction stiction is; closer together they are one column."""

LOOSE = 1.0
"""Relative standard deviation from which a slope counts as not identified by the recording."""

_GRID = 32
_LOW, _HIGH = np.log(RANGE)
_HALF, _MIDDLE = 0.5 * (_HIGH - _LOW), 0.5 * (_HIGH + _LOW)
_POINTS = chebyshev.chebpts2(NODES)
_COEFFICIENTS = np.linalg.inv(chebyshev.chebvander(_POINTS, NODES - 1))


@dataclass(frozen=True)
class FrictionSlopes:
    """
    Slopes that fit recordings best.

    Attributes
    ----------
    slopes:
        (n_joints,) for each term, ``stiction`` and ``stribeck``, found or given [s/rad or s/m].
    relative_std:
        (n_joints,) for each term that was searched: standard deviation relative to the slope.
    notes:
        In words, what was found and what the recordings leave open.

    """

    slopes: dict[str, np.ndarray]
    relative_std: dict[str, np.ndarray]
    notes: tuple[str, ...] = ()

    def settings(self, model: ModelSettings) -> ModelSettings:
        """Return the settings of a model with the slopes that were searched filled in."""
        found: Any = {SLOPES[t]: tuple(self.slopes[t].tolist()) for t in self.relative_std}
        return replace(model, **found)


def open_slopes(model: ModelSettings) -> tuple[str, ...]:
    """Return the friction terms of a model whose slopes are left to the recordings."""
    return tuple(
        term
        for term, key in SLOPES.items()
        if term in model.friction and getattr(model, key) is None
    )


def find_slopes(
    sources: Sequence[RecordingSource],
    regressor: Regressor,
    structure: BaseStructure,
    model: ModelSettings,
    signals: SignalSettings,
) -> FrictionSlopes:
    """
    Find the slopes that a model leaves open, in one pass over the recordings.

    Parameters
    ----------
    sources:
        The recordings.
    regressor:
        Of the model, with any slopes.
    structure:
        Its base parameters.
    model:
        Says which slopes are open; there has to be one.
    signals:
        Filter, decimation and dead zone.

    Raises
    ------
    RecordingError
        naming a recording that cannot be used.

    """
    terms = open_slopes(model)
    owners = _owners(regressor, terms[0])
    if not owners:  # a model with friction of its own kind
        return FrictionSlopes({}, {})
    candidates = _Candidates(regressor)
    columns = _with_candidates(structure, candidates.layout, terms)
    factors = {row: GrowingTriangle(columns.n_base + 1) for row in owners.values()}
    counted = dict.fromkeys(factors, 0.0)
    for source in sources:
        require_order(source, structure, regressor)
        for block in row_blocks(source, candidates, columns, signals):
            augmented = np.concatenate([block.matrix, block.effort[:, :, None]], axis=2)
            for row, factor in factors.items():
                kept = block.keep[:, row]
                factor.push(augmented[kept, row])
                counted[row] += block.independence * kept.sum()
    slopes = {term: values.copy() for term, values in slopes_of(model, tuple(owners)).items()}
    spread = {term: np.full(len(owners), np.nan) for term in terms}
    notes = []
    for place, (owner, row) in enumerate(owners.items()):
        profile = _Profile.from_factor(factors[row].result(), counted[row], _signs(model, terms))
        given = {term: slopes[term][place] for term in SLOPES if term in model.friction}
        found, deviation = _best(profile, terms, given)
        for term, value, std in zip(terms, found, deviation, strict=True):
            slopes[term][place], spread[term][place] = value, std
        notes.append(_note(owner, terms, found, deviation))
    return FrictionSlopes(slopes, spread, tuple(notes))


def _signs(model: ModelSettings, terms: Sequence[str]) -> np.ndarray:
    """Signs (m,) that amplitudes can have: Stribeck friction falls where it is not alone."""
    alone = {'coulomb', 'stiction'}.isdisjoint(model.friction)
    return np.array([1.0 if term == 'stiction' or alone else -1.0 for term in terms])


class _Candidates:
    """A regressor with columns at the interpolation points, in the row of every joint its own."""

    def __init__(self, regressor: Regressor) -> None:
        self._regressor = regressor
        names = tuple(f'candidate.{i}' for i in range(NODES))
        self.layout = regressor.layout + ParameterLayout(names, ('',) * NODES)
        self.n_joints = regressor.n_joints
        self.driven = driven_rows(regressor)
        if hasattr(regressor, 'random_motion'):
            self.random_motion = regressor.random_motion
        self._slopes = np.exp(_MIDDLE + _HALF * _POINTS)

    def rows(self, motion: Motion) -> np.ndarray:
        """Rows of the regressor, and the candidates beside them."""
        velocity = motion.velocity.reshape(-1, 1)
        return np.hstack([self._regressor.rows(motion), arctan_shape(velocity, self._slopes)])


def _with_candidates(
    structure: BaseStructure, layout: ParameterLayout, terms: Sequence[str]
) -> BaseStructure:
    """Return base columns in which the candidates stand for the columns of ``terms``."""
    symbols = {SYMBOLS[term] for term in terms}
    kept = [i for i, name in enumerate(structure.names) if name.rpartition('.')[2] not in symbols]
    added = structure.n_standard + np.arange(NODES)
    return replace(
        structure,
        layout=layout,
        independent=np.append(structure.independent[kept], added),
        regrouping=block_diag(structure.regrouping[kept], np.eye(NODES)),
        expressions=(*(structure.expressions[i] for i in kept), *layout.names[added[0] :]),
    )


def _owners(regressor: Regressor, term: str) -> dict[str, int]:
    """Row of the regressor that each joint's friction acts in, by the joint's name."""
    own = getattr(regressor, 'random_motion', None)
    ones = np.ones((1, regressor.n_joints))
    motion = Motion(ones, ones, ones) if own is None else own(np.random.default_rng(0), 1)
    rows = regressor.rows(motion)
    owners = {}
    for column, name in enumerate(regressor.layout):
        owner, _, symbol = name.rpartition('.')
        if symbol == SYMBOLS[term]:
            owners[owner] = int(np.flatnonzero(rows[:, column])[0])
    return owners


@dataclass(frozen=True)
class _Profile:
    """Rows of one joint, orthogonal to all other parameters."""

    candidates: np.ndarray  # (k, NODES) columns at the interpolation points
    effort: np.ndarray  # (k,)
    freedom: float  # independent rows less the other parameters
    signs: np.ndarray  # (m,) that the amplitudes can have

    @classmethod
    def from_factor(cls, factor: np.ndarray, rows: float, signs: np.ndarray) -> _Profile:
        """Make the profile from R of [other columns | candidates | effort]."""
        others = factor[:, : -NODES - 1]
        u = range_basis(others, rounding=TOLERANCE)
        rest = factor[:, -NODES - 1 :]
        for _ in range(2):  # twice, so that what is left is orthogonal to rounding
            rest = rest - u @ (u.T @ rest)
        triangle = np.asarray(np.linalg.qr(rest, mode='r'))
        return cls(triangle[:, :-1], triangle[:, -1], rows - u.shape[1], signs)

    def columns(self, logs: np.ndarray) -> np.ndarray:
        """Columns (k, m) of slopes whose logarithms are given, (m,)."""
        return self.candidates @ _interpolation(logs).T

    def amplitudes(self, logs: np.ndarray) -> np.ndarray:
        """Amplitudes (m,) of the linear fit with slopes whose logarithms are given, signs kept."""
        columns = self.columns(logs) * self.signs
        return np.asarray(self.signs * scipy.optimize.nnls(columns, self.effort)[0])

    def residual(self, logs: np.ndarray) -> np.ndarray:
        """(k,) what that fit leaves, in units of the effort."""
        return self.effort - self.columns(logs) @ self.amplitudes(logs)

    def relative_std(self, logs: np.ndarray) -> np.ndarray:
        """Return standard deviations of the logarithms of slopes, from the linearised model."""
        turned = self.candidates @ _interpolation(logs, derivative=True).T * self.amplitudes(logs)
        squares = float(np.sum(self.residual(logs) ** 2))
        triangle = np.asarray(np.linalg.qr(np.hstack([self.columns(logs), turned]), mode='r'))
        inverse = np.linalg.pinv(triangle, rcond=1e-14)[-len(logs) :]
        known = np.abs(np.diag(triangle))[-len(logs) :] > 0.0
        variance = squares / max(1.0, self.freedom - 2 * len(logs))
        return np.where(known, np.sqrt(variance * (inverse**2).sum(axis=1)), np.inf)


def _interpolation(logs: np.ndarray, *, derivative: bool = False) -> np.ndarray:
    """(m, NODES) weights of the points for the column, or its derivative, at (m,) logarithms."""
    x = (np.asarray(logs) - _MIDDLE) / _HALF
    if derivative:
        return chebyshev.chebvander(x, NODES - 2) @ chebyshev.chebder(_COEFFICIENTS) / _HALF
    return chebyshev.chebvander(x, NODES - 1) @ _COEFFICIENTS


def _best(
    profile: _Profile, terms: Sequence[str], given: dict[str, float]
) -> tuple[np.ndarray, np.ndarray]:
    """Return slopes of ``terms`` with the smallest residual, and their relative deviations."""
    least = np.log(LEAST_RATIO)
    both = len(terms) == 2
    if both:
        # by how much stiction is steeper, and Stribeck friction's own slope
        low, high = [least, _LOW], [_HIGH - _LOW, _HIGH - least]
    elif terms[0] == 'stiction' and 'stribeck' in given:
        low, high = [np.clip(np.log(given['stribeck']) + least, _LOW, _HIGH - least)], [_HIGH]
    elif terms[0] == 'stribeck' and 'stiction' in given:
        low, high = [_LOW], [np.clip(np.log(given['stiction']) - least, _LOW + least, _HIGH)]
    else:
        low, high = [_LOW], [_HIGH]

    def slopes(x: np.ndarray) -> np.ndarray:
        return np.minimum([x[0] + x[1], x[1]], _HIGH) if both else x

    grid = np.linspace(_LOW, _HIGH, _GRID)
    columns = profile.columns(grid)

    def left(places: Iterable[int]) -> float:
        return float(
            scipy.optimize.nnls(columns[:, list(places)] * profile.signs, profile.effort)[1]
        )

    tried = product(range(_GRID), repeat=len(terms))
    allowed = (p for p in tried if not both or grid[p[0]] - grid[p[1]] >= least)
    start = grid[list(min(allowed, key=left))]
    if both:
        start = np.array([start[0] - start[1], start[1]])
    search = scipy.optimize.least_squares(
        lambda x: profile.residual(slopes(x)),
        np.clip(start, np.add(low, 1e-9), np.subtract(high, 1e-9)),
        bounds=(low, high),
        jac='3-point',
        x_scale=1.0,
        xtol=1e-10,
        ftol=1e-14,
        gtol=None,
    )
    logs = slopes(search.x)
    return np.exp(logs), profile.relative_std(logs)


def _note(joint: str, terms: Sequence[str], slopes: np.ndarray, relative_std: np.ndarray) -> str:
    """Say what was found for a joint."""
    parts, loose = [], []
    for term, slope, std in zip(terms, slopes, relative_std, strict=True):
        identified = std < LOOSE
        parts.append(
            f'{term}_slope {slope:.4g}' + (f' (± {100 * std:.2g} %)' if identified else '')
        )
        if not identified:
            loose.append(f'{term}_slope')
    text = f'{joint}: {" and ".join(parts)} fit its recorded efforts best'
    if loose:
        text += f'; the recordings hardly determine {one_of(loose)}'
    return text
