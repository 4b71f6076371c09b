# SPDX-License-Identifier: Apache-2.0
"""
A load as the difference of two results.

A load adds its ten parameters to those of the link that carries it.  Base parameters differ by
``B x`` then, with B the load's columns in the combinations: x is found by least squares, weighed
by the covariance of the difference.  Standard masses do not show it: which link has a mass that
gravity shows in a sum alone is for the prior to say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..model.parameters import INERTIAL_SYMBOLS
from ..results.stored_result import StoredResult


@dataclass(frozen=True)
class LoadConstants:
    """Constants of the decision for a load."""

    explained: float = 0.5
    """Share of the squared difference, in deviations, that a load has to explain."""
    deviations: float = 3.0
    """Standard deviations of its mass that it differs from nothing by."""
    least: float = 1e-9
    """Share of the largest variance, or singular value, below which another one is rounding."""


LOAD = LoadConstants()


@dataclass(frozen=True)
class LoadBetween:
    """
    Load that tells one result from another.

    Attributes
    ----------
    link:
        Last link, which carries it.
    mass, std:
        Mass, negative where the other result has it, and its standard deviation [kg].
    explained:
        Share of the squared difference of the base parameters, in deviations, that it explains.
    by_gains:
        True for efforts by gains of drives, whose errors are in the mass, not in its deviation.

    """

    link: str
    mass: float
    std: float
    explained: float
    by_gains: bool = False

    def __str__(self) -> str:
        """Return a sentence."""
        which = 'more' if self.mass > 0.0 else 'less'
        return (
            f'a load of {abs(self.mass):.3g} +- {1.96 * self.std:.2g} kg {which} at {self.link} '
            f'explains {100.0 * self.explained:.0f} % of the difference'
            + ('; an error of the gains of the drives goes one to one into it' * self.by_gains)
        )


def load_between(first: StoredResult, other: StoredResult) -> LoadBetween | None:
    """
    Return the load that ``other`` has more than ``first``; None where none explains enough.

    The parameters that both have are compared.  Errors that both have in common, those of drive
    gains above all, scale the load and are not in its deviation.

    Parameters
    ----------
    first, other:
        Results of the same joints.  Without covariances there is nothing to weigh by.

    Raises
    ------
    IdentificationError
        naming a file whose covariance or combinations are damaged.

    """
    if not all(each.document.get('covariance') for each in (first, other)):
        return None
    places = {text: place for place, text in enumerate(other.expressions)}
    pairs = [(i, places[text]) for i, text in enumerate(first.expressions) if text in places]
    if not pairs:
        return None
    one, two = map(list, zip(*pairs, strict=True))
    difference = other.base.values[two] - first.base.values[one]
    covariance = first.covariance[np.ix_(one, one)] + other.covariance[np.ix_(two, two)]
    known = np.isfinite(np.diag(covariance)) & (np.diag(covariance) > 0.0)
    if not known.any():
        return None
    stored = first.combinations
    combinations = [stored[i] for i in one]
    whiten = _whitening(covariance[np.ix_(known, known)])
    target = whiten @ difference[known]
    found = [
        candidate
        for link in first.robot.end_links
        if (candidate := _load(link, whiten, target, combinations, known)) is not None
    ]
    if not found:
        return None
    by_gains = any(each.settings.effort_kind != 'joint_torque' for each in (first, other))
    return replace(max(found, key=lambda each: each.explained), by_gains=by_gains)


def _load(
    link: str,
    whiten: np.ndarray,
    target: np.ndarray,
    combinations: Sequence[Mapping[str, float]],
    known: np.ndarray,
) -> LoadBetween | None:
    """Fit the load of a link; None where it explains too little, or its mass is not shown."""
    names = [f'{link}.{symbol}' for symbol in INERTIAL_SYMBOLS]
    columns = np.array([[row.get(name, 0.0) for name in names] for row in combinations])[known]
    matrix = whiten @ columns
    u, sizes, vt = np.linalg.svd(matrix, full_matrices=False)
    seen = sizes > LOAD.least * sizes.max(initial=0.0)
    mass = np.eye(len(names))[0]
    if not seen.any() or np.linalg.norm(vt[seen].T @ (vt[seen] @ mass) - mass) > 1e-6:
        return None
    values = vt[seen].T @ ((u[:, seen].T @ target) / sizes[seen])
    before = float(target @ target)
    rest = target - matrix @ values
    explained = 1.0 - float(rest @ rest) / max(before, 1e-300)
    # what is left says how far deviations hold
    scale = np.sqrt(max(1.0, float(rest @ rest) / max(1, len(target) - int(seen.sum()))))
    std = float(scale * np.linalg.norm((vt[seen] @ mass) / sizes[seen]))
    certain = abs(values[0]) > LOAD.deviations * std
    if explained < LOAD.explained or not certain:
        return None
    return LoadBetween(link, float(values[0]), std, explained)


def _whitening(covariance: np.ndarray) -> np.ndarray:
    """Return a matrix that makes errors of a covariance independent, of unit variance."""
    scale = np.sqrt(np.diag(covariance))
    values, vectors = np.linalg.eigh(covariance / scale[:, None] / scale)
    values = np.maximum(values, LOAD.least * values[-1])
    return np.asarray((vectors / np.sqrt(values)).T / scale)
