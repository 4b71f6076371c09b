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

from collections.abc import Sequence
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
from ..estimation.system import reported_blocks
from ..model.friction import arctan_shape, SLOPES
from ..model.parameters import ParameterLayout
from ..regressor import Regressor
from ..regressor.base_parameters import BaseStructure
from ..regressor.joint_terms import slopes_of, SYMBOLS
from ..regressor.settings import ModelSettings
from ..signals import RecordingSource, SignalSettings
from ..support.progress import no_progress, Progress

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
    terms = [term for term in SLOPES if term in model.friction]
    return tuple(term for term in terms if getattr(model, SLOPES[term]) is None)


def find_slopes(
    sources: Sequence[RecordingSource],
    regressor: Regressor,
    structure: BaseStructure,
    model: ModelSettings,
    signals: SignalSettings,
    *,
    progress: Progress = no_progress,
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
    progress:
        Called with the share of each recording that is done, and the seconds that are read.

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
        blocks = row_blocks(source, candidates, columns, signals)
        for block in reported_blocks(blocks, source, progress):
            augmented = np.concatenate([block.matrix, block.effort[:, :, None]], axis=2)
            for row, factor in factors.items():
                kept = block.keep[:, row]
                factor.push(augmented[kept, row])
                counted[row] += block.independence * kept.sum()
    slopes = {term: values.copy() for term, values in slopes_of(model, tuple(owners)).items()}
    spread = {term: np.full(len(owners), np.nan) for term in terms}
    notes = []
    # Stribeck friction falls where it is not alone
    alone = {'coulomb', 'stiction'}.isdisjoint(model.friction)
    signs = np.array([1.0 if term == 'stiction' or alone else -1.0 for term in terms])
    for place, (owner, row) in enumerate(owners.items()):
        profile = _Profile.from_factor(factors[row].result(), counted[row], signs)
        given = {term: slopes[term][place] for term in SLOPES if term in model.friction}
        found, deviation = _best(profile, terms, given)
        for term, value, std in zip(terms, found, deviation, strict=True):
            slopes[term][place], spread[term][place] = value, std
        notes.append(_note(owner, terms, found, deviation))
    return FrictionSlopes(slopes, spread, tuple(notes))


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

    def residual(self, logs: np.ndarray) -> np.ndarray:
        """(k,) what the linear fit leaves for logarithms of slopes, with amplitudes' signs."""
        columns = self.candidates @ _interpolation(logs).T * self.signs
        return self.effort - columns @ scipy.optimize.nnls(columns, self.effort)[0]


def _interpolation(logs: np.ndarray) -> np.ndarray:
    """(m, NODES) weights of the points for the column at (m,) logarithms."""
    x = (np.asarray(logs) - _MIDDLE) / _HALF
    return chebyshev.chebvander(x, NODES - 1) @ _COEFFICIENTS


def _best(
    profile: _Profile, terms: Sequence[str], given: dict[str, float]
) -> tuple[np.ndarray, np.ndarray]:
    """Return slopes of ``terms`` with the smallest residual, and their relative deviations."""
    least, m = np.log(LEAST_RATIO), len(terms)
    low, high, turn = np.full(m, _LOW), np.full(m, _HIGH), np.eye(m)
    if m == 2:
        # by how much stiction is steeper, and Stribeck friction's own slope
        turn[0, 1] = 1.0
        low[0], high[:] = least, (_HIGH - _LOW, _HIGH - least)
    elif terms[0] == 'stiction' and 'stribeck' in given:
        low[0] = np.clip(np.log(given['stribeck']) + least, _LOW, _HIGH - least)
    elif terms[0] == 'stribeck' and 'stiction' in given:
        high[0] = np.clip(np.log(given['stiction']) - least, _LOW + least, _HIGH)

    def slopes(x: np.ndarray) -> np.ndarray:
        return np.minimum(turn @ x, _HIGH)

    tried = product(np.linspace(_LOW, _HIGH, _GRID), repeat=m)
    allowed = [np.array(logs) for logs in tried if m < 2 or logs[0] - logs[1] >= least]
    start = min(allowed, key=lambda logs: float(np.sum(profile.residual(logs) ** 2)))
    search = scipy.optimize.least_squares(
        lambda x: profile.residual(slopes(x)),
        np.clip(np.linalg.solve(turn, start), low + 1e-9, high - 1e-9),
        bounds=(low, high),
        jac='3-point',
        x_scale=1.0,
        xtol=1e-10,
        ftol=1e-14,
        gtol=None,
    )
    # standard deviations of the logarithms by the residual's derivatives with respect to them
    triangle = np.linalg.qr(search.jac @ np.linalg.inv(turn), mode='r')
    inverse = np.linalg.pinv(triangle, rcond=1e-14)
    variance = 2.0 * search.cost / max(1.0, profile.freedom - 2 * m)
    known = np.diag(triangle) != 0.0
    std = np.where(known, np.sqrt(variance * (inverse**2).sum(axis=1)), np.inf)
    return np.exp(slopes(search.x)), std


def _note(joint: str, terms: Sequence[str], slopes: np.ndarray, relative_std: np.ndarray) -> str:
    """Say what was found for a joint."""
    known = relative_std < LOOSE
    parts = [
        f'{term}_slope {slope:.4g}' + (f' (± {100 * std:.2g} %)' if tight else '')
        for term, slope, std, tight in zip(terms, slopes, relative_std, known, strict=True)
    ]
    loose = [f'{term}_slope' for term, tight in zip(terms, known, strict=True) if not tight]
    text = f'{joint}: {" and ".join(parts)} fit its recorded efforts best'
    if loose:
        text += f'; the recordings hardly determine {one_of(loose)}'
    return text
