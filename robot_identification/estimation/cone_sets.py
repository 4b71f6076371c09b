# SPDX-License-Identifier: Apache-2.0
"""
Sets of standard parameters around an estimate that bodies and drives can have.

They are drawn from the normal distribution of the estimate, cut off at the cone of bodies with a
positive definite pseudo-inertia and of drives without negative friction and rotor inertia, by
elliptical slice sampling (Murray, Adams and MacKay, "Elliptical slice sampling", AISTATS 2010).
A set x inside becomes ``x cos(a) + y sin(a)`` with a new y of the distribution, and a is drawn
nearer to 0 until the result is inside.

Sums stay as well known as they are.  In logarithmic coordinates, which have no cone to leave, two
masses that are known to 30 % each would make errors of some percent of a sum known to 1 %.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from ..model.consistency import pseudo_inertia
from ..model.parameters import body_links, INERTIAL_SYMBOLS, ParameterSet
from ..regressor import ModelSettings
from .estimate import Estimate
from .physical_fit import drive_signs
from .prior import regrouping_inverse
from .spread import inflated_covariance
from .system import LinearSystem

STEPS = 100
"""Steps of each chain, which begins at the estimate; without bounds some ten are enough."""

LEAST = 1e-6
"""Least pivot of a body's pseudo-inertia relative to the estimate's."""

_UNITS = np.array([pseudo_inertia(unit) for unit in np.eye(len(INERTIAL_SYMBOLS))])


@dataclass(frozen=True)
class PhysicalCone:
    """
    Standard parameters that bodies and drives can have.

    Attributes
    ----------
    places:
        (k, 10) of the inertial parameters of each body.
    relative:
        (k, 10, 4, 4) pseudo-inertias of a unit of each, relative to the estimate's body.
    signs:
        (s, p) rows whose products with the parameters are not negative.

    """

    places: np.ndarray
    relative: np.ndarray
    signs: np.ndarray

    @classmethod
    def around(cls, standard: ParameterSet, model: ModelSettings) -> PhysicalCone | None:
        """Return the cone in units of the bodies of an estimate; None where it is not inside."""
        links = body_links(standard.layout)
        try:
            roots = [np.linalg.cholesky(pseudo_inertia(standard.inertial(link))) for link in links]
        except np.linalg.LinAlgError:
            return None
        inverses = [solve_triangular(root, np.eye(4), lower=True) for root in roots]
        signs = drive_signs(standard.layout, model)
        if (signs @ standard.values < 0.0).any():
            return None
        places = [
            np.arange(len(standard.layout))[standard.layout.slice_of(link)] for link in links
        ]
        return cls(
            np.array(places, dtype=int).reshape(-1, len(INERTIAL_SYMBOLS)),
            np.array([inverse @ _UNITS @ inverse.T for inverse in inverses]).reshape(-1, 10, 4, 4),
            signs,
        )

    def inside(self, values: np.ndarray) -> np.ndarray:
        """Return which of the parameters, (m, p), are inside, (m,) bool."""
        kept = np.flatnonzero((values @ self.signs.T >= 0.0).all(axis=1))
        bodies = values[kept][:, self.places].transpose(1, 0, 2) @ self.relative.reshape(
            -1, 10, 16
        )
        left = bodies.reshape(len(self.places), -1, 4, 4)
        for _ in range(4):  # pivots of the factorisation without square roots
            positive = (left[..., 0, 0] > LEAST).all(axis=0)
            kept, left = kept[positive], left[:, positive]
            row = left[..., 0, 1:]
            left = left[..., 1:, 1:] - row[..., :, None] * (row / left[..., :1, 0])[..., None, :]
        found = np.zeros(len(values), dtype=bool)
        found[kept] = True
        return found


def estimate_covariance(
    estimate: Estimate, system: LinearSystem, inflation: float, scale: np.ndarray | None = None
) -> np.ndarray:
    """
    Return the covariance of the standard parameters that sets are drawn with, (p, p).

    That of the method, or else of the base parameters, which move the standard parameters as
    `standard` does; what has no deviation stays as it is.

    Parameters
    ----------
    estimate, system:
        The estimate and its rows.
    inflation:
        By how much parts of the recordings differ more than their deviations say.
    scale:
        (p,) sizes by which changes of standard parameters are measured, as in `standard`.

    """
    found = inflated_covariance(estimate, inflation)
    if found is None:
        inverse = regrouping_inverse(system.structure, scale)
        known = inverse @ np.nan_to_num(estimate.uncertainty.covariance) @ inverse.T
        found = inflation**2 * np.nan_to_num(known)
    return found


def drawn_sets(
    cone: PhysicalCone,
    mean: np.ndarray,
    covariance: np.ndarray,
    count: int,
    random: np.random.Generator,
) -> np.ndarray:
    """
    Draw sets of parameters inside the cone, (count, p).

    Parameters
    ----------
    cone:
        Has the mean inside.
    mean, covariance:
        (p,) and (p, p) of the normal distribution that the cone cuts.
    count:
        Number of sets, each the end of a chain of its own.
    random:
        Source of random numbers.

    """
    root = _root(covariance)
    change = np.zeros((count, len(mean)))
    for _ in range(STEPS):
        other = random.standard_normal((count, root.shape[1])) @ root.T
        high = random.uniform(0.0, 2.0 * np.pi, count)
        low, angle = high - 2.0 * np.pi, high.copy()
        left = np.arange(count)
        moved = change.copy()
        while left.size:
            turned = angle[left, None]
            tried = np.cos(turned) * change[left] + np.sin(turned) * other[left]
            found = cone.inside(mean + tried)
            moved[left[found]] = tried[found]
            left = left[~found]
            below = angle[left] < 0.0
            low[left[below]], high[left[~below]] = angle[left[below]], angle[left[~below]]
            angle[left] = random.uniform(low[left], high[left])
        change = moved
    return mean + change


def _root(covariance: np.ndarray) -> np.ndarray:
    """Return (p, r) whose product with its transpose is the covariance."""
    scale = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    units = np.where(scale > 0.0, scale, 1.0)
    values, vectors = np.linalg.eigh(covariance / units[:, None] / units)
    kept = values > 0.0
    return np.asarray(scale[:, None] * vectors[:, kept] * np.sqrt(values[kept]))
