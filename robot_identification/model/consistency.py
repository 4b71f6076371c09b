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

from .friction import FALLING, FRICTION, friction_symbols, POSITIVE
from .parameters import body_links, ParameterLayout, ParameterSet

CHOLESKY_TOLERANCES = (0.0, -0.01, -0.02, -0.04)
"""Tolerances of Gautier and Venture's Table III [kg m^2]."""

JOINT_SYMBOLS = {
    'Ia': 'rotor inertia',
    'Iam': 'coupled rotor inertia',
    **{term.symbol: term.title for term in FRICTION.values() if term.sign == POSITIVE},
    'fvm': "coupled motor's viscous friction",
    'fcm': "coupled motor's Coulomb friction",
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
        Name of the link.
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
        return self.pseudo_inertia_positive_definite and (
            self.mass_positive and self.inertia_positive_definite and self.triangle_inequality
        )


@dataclass(frozen=True)
class JointProblem:
    """Parameter of a joint that no real drive has; ``parameter`` is its full name."""

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
        verdict = 'consistent' if self.physical else 'NOT consistent'
        lines = [f'Physical consistency: {verdict} (tolerance {self.tolerance:g})']
        width = max([len('link'), *(len(link.link) for link in self.links)])
        if self.links:
            title = 'link'.ljust(width)
            lines.append(f'{title}  mass  inertia  triangle  pseudo-inertia  smallest eigenvalue')
        for link in self.links:
            lines.append(
                f'{link.link:<{width}}  {_word(link.mass_positive):<4}  '
                f'{_word(link.inertia_positive_definite):<7}  '
                f'{_word(link.triangle_inequality):<8}  '
                f'{_word(link.pseudo_inertia_positive_definite):<14}  '
                f'{link.smallest_eigenvalue:19.3e}'
            )
        lines += self.problems
        if self.links:
            counts = ', '.join(f'{count} at {limit:g}' for limit, count in self.cholesky_counts)
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
    bodies = {link: parameters.inertial(link) for link in body_links(parameters.layout)}
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
    """Return the inertia (3, 3) [kg m^2] at the joint frame of ten parameters."""
    return np.asarray(vector, dtype=float)[[[4, 5, 7], [5, 6, 8], [7, 8, 9]]]


def inertia_at_com(vector: np.ndarray) -> np.ndarray:
    """
    Return the inertia (3, 3) [kg m^2] at the centre of mass of ten parameters.

    Huygens' theorem, Gautier and Venture (2013), equation (36).  The axes are those of the joint
    frame; NaN where the mass is 0 and the first moment is not.
    """
    vector = np.asarray(vector, dtype=float)
    mass, moment = vector[0], vector[1:4]
    if mass == 0.0:
        return inertia_matrix(vector) if not moment.any() else np.full((3, 3), np.nan)
    shift = moment @ moment * np.eye(3) - np.outer(moment, moment)
    return inertia_matrix(vector) - shift / mass


def pseudo_inertia(vector: np.ndarray) -> np.ndarray:
    """
    Return the pseudo-inertia matrix (4, 4) of a link's ten parameters.

    It has the second moments of mass [kg m^2], bordered by the first ones [kg m] and the mass
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
    """Return the ten parameters of a pseudo-inertia matrix (4, 4)."""
    second = np.asarray(matrix, dtype=float)[:3, :3]
    inertia = np.trace(second) * np.eye(3) - second
    entries = inertia[[0, 0, 1, 0, 1, 2], [0, 1, 1, 2, 2, 2]]
    return np.concatenate([[matrix[3, 3]], matrix[:3, 3], entries])


def passes_cholesky(vector: np.ndarray, tolerance: float = 0.0) -> bool:
    """
    Return whether a Cholesky factorisation accepts the inertia of ten parameters.

    The inertia is the one at the centre of mass; without a positive mass nothing passes.  Gautier
    and Venture (2013) do not print what the tolerance, 0 or less [kg m^2], is compared with; here
    it is the pivots of the square-root-free factorisation ``L D L^T``, all of which exceed it.
    """
    if not vector[0] > 0.0:
        return False
    matrix = inertia_at_com(vector)
    for i in range(3):
        pivot = matrix[i, i]
        if not pivot > tolerance:
            return False
        # a pivot of exactly 0 that the tolerance accepts leaves nothing to eliminate
        if pivot != 0.0:
            matrix = matrix - np.outer(matrix[i], matrix[i]) / pivot
    return True


def _check_link(link: str, vector: np.ndarray, tolerance: float) -> LinkConsistency:
    mass = float(vector[0])
    smallest = float(np.linalg.eigvalsh(pseudo_inertia(vector))[0])
    faults = []
    massive, positive = mass > -tolerance, smallest > -tolerance
    # without a positive mass there is no centre of mass to take the inertia at
    definite = triangle = mass > 0.0
    if not massive:
        faults.append(f'the mass is {mass:.4g} kg')
    elif not mass > 0.0:
        faults.append(f'the mass is {mass:.4g} kg, so that there is no centre of mass')
    else:
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
    if not positive and not faults:
        faults.append(f'the pseudo-inertia matrix has the eigenvalue {smallest:.4g}')
    return LinkConsistency(
        link, massive, definite, triangle, positive, smallest, ', '.join(faults)
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
    for (name, value), unit in zip(
        parameters.as_dict().items(), parameters.layout.units, strict=True
    ):
        joint, _, symbol = name.rpartition('.')
        what = f'{JOINT_SYMBOLS.get(symbol)} {symbol}'
        if symbol in friction_symbols(sign=FALLING):
            # what dry friction falls to as the joint gets faster
            dry = falls_from(joint, parameters.layout)
            what = f'Coulomb friction {" + ".join((*dry, symbol))}'
            value += sum(parameters[f'{joint}.{each}'] for each in dry)
        elif symbol not in JOINT_SYMBOLS:
            continue
        if not value >= -tolerance:
            text = f'{joint}: the {what} is {value:.4g} {unit}'
            yield JointProblem(joint, name, value, text)


def falls_from(joint: str, layout: ParameterLayout) -> tuple[str, ...]:
    """Return the symbols of the dry friction of a joint that Stribeck friction falls from."""
    found = (
        s for s in friction_symbols(sign=POSITIVE, mjcf='frictionloss') if f'{joint}.{s}' in layout
    )
    return tuple(found)


def _word(holds: bool) -> str:
    return 'ok' if holds else 'NO'
