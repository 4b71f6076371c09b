# SPDX-License-Identifier: Apache-2.0
"""
Physical consistency: whether bodies and drives with given parameters can exist.

A link's ten inertial parameters belong to some distribution of mass in space exactly if the 4x4
pseudo-inertia matrix

    P = [[S, h], [h^T, m]],   S = tr(I) / 2 * 1 - I = integral of r r^T dm,   h = integral of r dm,

is positive definite (Wensing, Kim and Slotine 2018), which means: the mass is positive, the
inertia at the centre of mass is positive definite, and no principal moment exceeds the sum of the
other two (the triangle inequality; it is the condition that the older literature leaves out).
Flat and pointlike bodies lie on the boundary and do not count.

The count of Gautier and Venture (2013), Table III, is given beside it: how many links have an
inertia at the centre of mass, equation (36), that a Cholesky factorisation with a tolerance
accepts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .parameters import INERTIAL_SYMBOLS, ParameterSet

CHOLESKY_TOLERANCES = (0.0, -0.01, -0.02, -0.04)
"""Tolerances of Gautier and Venture's Table III [kg m^2]."""

JOINT_SYMBOLS = {
    'Ia': 'rotor inertia',
    'Iam': 'coupled rotor inertia',
    'fv': 'viscous friction',
    'fvm': "coupled motor's viscous friction",
    'fc': 'Coulomb friction',
    'fcm': "coupled motor's Coulomb friction",
    'ts': 'stiction',
    'fr': 'friction by the cube root of the speed',
    'fl': 'load-dependent friction',
    'k': 'stiffness',
    'd': 'damping of the transmission',
}
"""Parameters of joints that cannot be negative; offsets are free."""


@dataclass(frozen=True)
class LinkConsistency:
    """
    Physical consistency of the parameters of one link.

    Attributes
    ----------
    link:
        Its name.
    mass_positive, inertia_positive_definite, triangle_inequality:
        The three conditions; the latter two are about the inertia at the centre of mass, and do
        not hold where there is no positive mass.
    pseudo_inertia_positive_definite:
        All of them at once.
    smallest_eigenvalue:
        Of the pseudo-inertia matrix, whose entries are kg, kg m and kg m^2.
    message:
        What is wrong and by how much; empty where nothing is.

    """

    link: str
    mass_positive: bool
    inertia_positive_definite: bool
    triangle_inequality: bool
    pseudo_inertia_positive_definite: bool
    smallest_eigenvalue: float
    message: str

    @property
    def physical(self) -> bool:
        """True if all conditions hold."""
        return (
            self.mass_positive
            and self.inertia_positive_definite
            and self.triangle_inequality
            and self.pseudo_inertia_positive_definite
        )


@dataclass(frozen=True)
class JointProblem:
    """
    A parameter of a joint that no real drive has.

    Attributes
    ----------
    joint, parameter, value:
        Whose, which (its full name) and how much.
    message:
        The same in words.

    """

    joint: str
    parameter: str
    value: float
    message: str


@dataclass(frozen=True)
class ConsistencyReport:
    """
    Physical consistency of all links and joints, the result of `check`.

    Attributes
    ----------
    links:
        One entry for each link that has inertial parameters.
    joints:
        Parameters of joints with an impossible sign; empty where there are none.
    tolerance:
        An eigenvalue, mass or friction counts as positive above minus this.
    cholesky_counts:
        Pairs of tolerance [kg m^2] and number of links whose inertia at the centre of mass passes
        the Cholesky factorisation with it.

    """

    links: tuple[LinkConsistency, ...]
    joints: tuple[JointProblem, ...]
    tolerance: float
    cholesky_counts: tuple[tuple[float, int], ...]

    @property
    def physical(self) -> bool:
        """True if all conditions hold."""
        return not self.joints and all(link.physical for link in self.links)

    @property
    def problems(self) -> tuple[str, ...]:
        """Everything that is wrong, a line each."""
        links = tuple(f'{link.link}: {link.message}' for link in self.links if not link.physical)
        return links + tuple(problem.message for problem in self.joints)

    def summary(self) -> str:
        """Return a table of the links, the joints' problems and the Cholesky counts."""
        width = max([len('link'), *(len(link.link) for link in self.links)])
        verdict = 'consistent' if self.physical else 'NOT consistent'
        lines = [f'Physical consistency: {verdict} (tolerance {self.tolerance:g})']
        if self.links:
            lines.append(
                f'{"link":<{width}}  mass  inertia  triangle  pseudo-inertia  smallest eigenvalue'
            )
        for link in self.links:
            lines.append(
                f'{link.link:<{width}}  {_word(link.mass_positive):<4}  '
                f'{_word(link.inertia_positive_definite):<7}  '
                f'{_word(link.triangle_inequality):<8}  '
                f'{_word(link.pseudo_inertia_positive_definite):<14}  '
                f'{link.smallest_eigenvalue:19.3e}'
            )
        lines += self.problems
        counts = ', '.join(
            f'{count} at {tolerance:g}' for tolerance, count in self.cholesky_counts
        )
        if self.links:
            lines.append(
                f'of {len(self.links)} inertia matrices a Cholesky factorisation passes with a '
                f'tolerance: {counts}'
            )
        return '\n'.join(lines)


def check(parameters: ParameterSet, tolerance: float = 0.0) -> ConsistencyReport:
    """
    Check whether standard parameters could belong to a real robot.

    Parameters
    ----------
    parameters:
        Links that lack some of their ten inertial parameters are passed over, and so are
        parameters about which there is nothing to say.
    tolerance:
        What counts as positive: more than minus this [kg, kg m or kg m^2, N m s/rad, N m].

    Raises
    ------
    ValueError
        where the tolerance is negative.

    """
    if not tolerance >= 0.0:
        raise ValueError(f'the tolerance is {tolerance}, expected 0 or more')
    bodies = {
        link: vector
        for link in parameters.layout.links
        if (vector := _body(parameters, link)) is not None
    }
    return ConsistencyReport(
        links=tuple(_check_link(link, vector, tolerance) for link, vector in bodies.items()),
        joints=tuple(_joint_problems(parameters, tolerance)),
        tolerance=float(tolerance),
        cholesky_counts=tuple(
            (limit, sum(passes_cholesky(vector, limit) for vector in bodies.values()))
            for limit in CHOLESKY_TOLERANCES
        ),
    )


def inertia_matrix(vector: np.ndarray) -> np.ndarray:
    """
    Return the inertia at the joint frame of a link's ten parameters.

    Parameters
    ----------
    vector:
        (10,) in the order of `INERTIAL_SYMBOLS`.

    Returns
    -------
    np.ndarray
        (3, 3) [kg m^2].

    """
    xx, xy, yy, xz, yz, zz = np.asarray(vector, dtype=float)[4:]
    return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])


def inertia_at_com(vector: np.ndarray) -> np.ndarray:
    """
    Return the inertia at the centre of mass, by Huygens' theorem.

    Gautier and Venture (2013), equation (36).

    Parameters
    ----------
    vector:
        (10,) in the order of `INERTIAL_SYMBOLS`.

    Returns
    -------
    np.ndarray
        (3, 3) [kg m^2], along the axes of the joint frame; NaN where the mass is 0 and the first
        moment is not.

    """
    vector = np.asarray(vector, dtype=float)
    mass, moment = vector[0], vector[1:4]
    if mass == 0.0:
        return inertia_matrix(vector) if not moment.any() else np.full((3, 3), np.nan)
    shift = moment @ moment * np.eye(3) - np.outer(moment, moment)
    return inertia_matrix(vector) - shift / mass


def pseudo_inertia(vector: np.ndarray) -> np.ndarray:
    """
    Return the pseudo-inertia matrix of a link's ten parameters.

    Parameters
    ----------
    vector:
        (10,) in the order of `INERTIAL_SYMBOLS`.

    Returns
    -------
    np.ndarray
        (4, 4): the second moments of mass [kg m^2] bordered by the first ones [kg m] and the mass
        [kg].

    """
    vector = np.asarray(vector, dtype=float)
    inertia = inertia_matrix(vector)
    matrix = np.empty((4, 4))
    matrix[:3, :3] = 0.5 * np.trace(inertia) * np.eye(3) - inertia
    matrix[:3, 3] = matrix[3, :3] = vector[1:4]
    matrix[3, 3] = vector[0]
    return matrix


def from_pseudo_inertia(matrix: np.ndarray) -> np.ndarray:
    """
    Return the ten parameters of a pseudo-inertia matrix, the inverse of `pseudo_inertia`.

    Parameters
    ----------
    matrix:
        (4, 4) symmetric.

    Returns
    -------
    np.ndarray
        (10,) in the order of `INERTIAL_SYMBOLS`.

    """
    second = np.asarray(matrix, dtype=float)[:3, :3]
    inertia = np.trace(second) * np.eye(3) - second
    entries = inertia[[0, 0, 1, 0, 1, 2], [0, 1, 1, 2, 2, 2]]
    return np.concatenate([[matrix[3, 3]], matrix[:3, 3], entries])


def passes_cholesky(vector: np.ndarray, tolerance: float = 0.0) -> bool:
    """
    Tell whether a Cholesky factorisation with a tolerance accepts the inertia of a link.

    The inertia is the one at the centre of mass.

    Gautier and Venture (2013) do not print what the tolerance is compared with; here it is the
    pivots of the square-root-free factorisation ``L D L^T``, all of which have to exceed it.

    Parameters
    ----------
    vector:
        (10,) in the order of `INERTIAL_SYMBOLS`; without a positive mass nothing passes.
    tolerance:
        0 or less [kg m^2].

    """
    if not vector[0] > 0.0:
        return False
    matrix = inertia_at_com(vector)
    for i in range(3):
        pivot = matrix[i, i]
        if not pivot > tolerance:
            return False
        if i < 2:
            column = matrix[i + 1 :, i].copy()
            # a pivot of exactly 0 that the tolerance accepts leaves nothing to eliminate
            if pivot != 0.0:
                matrix[i + 1 :, i + 1 :] -= np.outer(column, column) / pivot
    return True


def _body(parameters: ParameterSet, link: str) -> np.ndarray | None:
    names = [f'{link}.{symbol}' for symbol in INERTIAL_SYMBOLS]
    if not all(name in parameters.layout for name in names):
        return None
    return parameters.values[parameters.layout.indices(names)]


def _check_link(link: str, vector: np.ndarray, tolerance: float) -> LinkConsistency:
    mass = float(vector[0])
    smallest = float(np.linalg.eigvalsh(pseudo_inertia(vector))[0])
    faults = []
    massive = mass > -tolerance
    # without a positive mass there is no centre of mass to take the inertia at
    definite = triangle = mass > 0.0
    if not massive:
        faults.append(f'the mass is {mass:.4g} kg')
    if mass > 0.0:
        low, middle, high = np.linalg.eigvalsh(inertia_at_com(vector))
        definite = bool(low > -tolerance)
        triangle = bool(low + middle - high > -tolerance)
        if not definite:
            faults.append(
                'the smallest principal moment of inertia at the centre of mass '
                f'is {low:.4g} kg m^2'
            )
        elif not triangle:
            # a negative moment breaks the inequality too, and is the plainer fault
            faults.append(_triangle_fault(low, middle, high))
    elif massive:
        faults.append(f'the mass is {mass:.4g} kg, so that there is no centre of mass')
    positive = smallest > -tolerance
    if not positive and not faults:
        faults.append(f'the pseudo-inertia matrix has the eigenvalue {smallest:.4g}')
    return LinkConsistency(
        link=link,
        mass_positive=massive,
        inertia_positive_definite=definite,
        triangle_inequality=triangle,
        pseudo_inertia_positive_definite=positive,
        smallest_eigenvalue=smallest,
        message=', '.join(faults),
    )


def _triangle_fault(low: float, middle: float, high: float) -> str:
    excess = high - low - middle
    if abs(excess) <= 1e-12 * abs(high):
        return 'the body has no thickness (one principal moment equals the sum of the other two)'
    return (
        f'the principal moment {high:.4g} kg m^2 exceeds the sum of the other two '
        f'by {excess:.4g} kg m^2'
    )


def _joint_problems(parameters: ParameterSet, tolerance: float) -> Iterator[JointProblem]:
    for name, value in parameters.as_dict().items():
        joint, _, symbol = name.rpartition('.')
        if symbol in JOINT_SYMBOLS and not value >= -tolerance:
            unit = parameters.layout.units[parameters.layout.index(name)]
            text = f'{joint}: the {JOINT_SYMBOLS[symbol]} {symbol} is {value:.4g} {unit}'
            yield JointProblem(joint, name, value, text)
        elif symbol == 'tsc':
            # what dry friction falls to as the joint gets faster
            dry = 'fc' if f'{joint}.fc' in parameters.layout else 'ts'
            coulomb = value + parameters.get(f'{joint}.{dry}')
            if not coulomb >= -tolerance:
                unit = parameters.layout.units[parameters.layout.index(name)]
                text = f'{joint}: the Coulomb friction {dry} + tsc is {coulomb:.4g} {unit}'
                yield JointProblem(joint, name, coulomb, text)


def _word(holds: bool) -> str:
    return 'ok' if holds else 'NO'
