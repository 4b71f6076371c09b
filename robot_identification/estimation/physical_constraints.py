# SPDX-License-Identifier: Apache-2.0
"""
Constraints of physical consistency on standard parameters: bodies, signs, centres of mass.

A link's pseudo-inertia P (see `robot_identification.model.consistency`) is compared with that of a
reference body, ``P0 = L L^T``: the eigenvalues of ``X = L^-1 P L^-T`` have no units and do not
depend on the frame that P is taken in, and X is the identity for the reference body itself.
Wensing, Kim and Slotine, "Linear matrix inequalities for physically consistent inertial parameter
identification" (RA-L 2018), have P positive semidefinite.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from ..model.consistency import JOINT_SYMBOLS, pseudo_inertia
from ..model.parameters import (
    INERTIAL_SYMBOLS,
    ParameterLayout,
    ParameterSet,
)
from ..model.robot import Robot
from ..regressor.settings import ModelSettings

_LEAST_SPREAD = 1e-2
"""
Smallest second moment of a reference body's mass, relative to its largest and to the robot's mean:
a tenth of the length.
"""

_ROUNDING = 1e-9

_RADIUS = 0.05
"""Spread of a body of which nothing is known [m]."""

# the pseudo-inertias of unit parameters, which those of all others are sums of
_UNITS = np.array([pseudo_inertia(unit) for unit in np.eye(len(INERTIAL_SYMBOLS))])


@dataclass(frozen=True)
class Body:
    """
    The reference body of a link.

    Attributes
    ----------
    link:
        Its name.
    mass:
        [kg].
    pseudo_inertia:
        (4, 4), positive definite.
    repaired:
        Whether the prior is no physical body, so that this is another one.

    """

    link: str
    mass: float
    pseudo_inertia: np.ndarray
    repaired: bool

    @property
    def moment(self) -> float:
        """Second moment of the mass about its centre: mass times radius of gyration squared."""
        moment = self.pseudo_inertia[:3, 3]
        return float(np.trace(self.pseudo_inertia[:3, :3]) - moment @ moment / self.mass)

    def relative(self, vectors: np.ndarray) -> np.ndarray:
        """
        Return ``L^-1 P L^-T`` of inertial parameters, (..., 4, 4).

        Parameters
        ----------
        vectors:
            (..., 10) in the order of `INERTIAL_SYMBOLS`.

        """
        factor = np.linalg.cholesky(self.pseudo_inertia)
        inverse = solve_triangular(factor, np.eye(4), lower=True)
        return np.asarray(inverse @ np.tensordot(vectors, _UNITS, axes=1) @ inverse.T)


def body_links(layout: ParameterLayout) -> tuple[str, ...]:
    """Links that have all ten inertial parameters."""
    return tuple(
        link
        for link in layout.links
        if all(f'{link}.{symbol}' in layout for symbol in INERTIAL_SYMBOLS)
    )


def reference_bodies(robot: Robot, prior: ParameterSet) -> tuple[Body, ...]:
    """
    Return the reference body of each link.

    It is the prior's; the URDF's where the prior is no physical body; and where that is none
    either, a ball of the mean mass and size of the others.  Where it is thinner than a tenth of
    its length or of the links' mean size, it is thickened to that.

    Parameters
    ----------
    robot:
        Gives the URDF's inertias.
    prior:
        Standard parameters.

    """
    links = body_links(prior.layout)
    urdf = robot.prior
    own = {link: _spread(prior.inertial(link)) for link in links}
    drawn = {
        link: _spread(urdf.inertial(link)) if f'{link}.m' in urdf.layout else None
        for link in links
    }
    known = [body for body in (*own.values(), *drawn.values()) if body is not None]
    square = _RADIUS**2
    if known:
        square = float(np.mean([np.trace(body.spread) / body.mass for body in known])) / 3.0
    mean_mass = float(np.mean([body.mass for body in known])) if known else 1.0
    ball = _Spread(mean_mass, np.zeros(3), mean_mass * square * np.eye(3))
    return tuple(
        Body(
            link=link,
            mass=(body := own[link] or drawn[link] or ball).mass,
            pseudo_inertia=body.thickened(square),
            repaired=own[link] is None,
        )
        for link in links
    )


def relative_units(bodies: tuple[Body, ...]) -> np.ndarray:
    """Return (n, 10, 4, 4) relative pseudo-inertias of a unit of each parameter of each body."""
    units = np.eye(len(INERTIAL_SYMBOLS))
    return np.array([body.relative(units) for body in bodies]).reshape(-1, 10, 4, 4)


def drive_signs(
    layout: ParameterLayout, model: ModelSettings
) -> tuple[np.ndarray, tuple[str, ...]]:
    """
    Return rows whose products with the parameters must not be negative.

    These are rotor inertias and friction, and the rotor inertia of each coupled joint less the
    coupled motor's share: the inertia matrix of all rotors is positive definite only if
    ``Ia_j >= ratio_j^2 Iam``, which holds if every rotor has an inertia of its own.

    Parameters
    ----------
    layout:
        Of the p standard parameters.
    model:
        Gives the coupled drives.

    Returns
    -------
    tuple
        (k, p) rows, and the name of each.

    """
    places = [i for i, name in enumerate(layout) if name.rpartition('.')[2] in JOINT_SYMBOLS]
    rows, names = list(np.eye(len(layout))[places]), [layout.names[i] for i in places]
    for joint, row in _own_rotors(layout, model).items():
        rows.append(row)
        names.append(f"{joint}.Ia less the coupled motors'")
    return np.array(rows).reshape(-1, len(layout)), tuple(names)


def centre_bounds(link: str, faces: np.ndarray, layout: ParameterLayout) -> np.ndarray:
    """
    Return rows whose products are the distances of a link's centre of mass from faces, times mass.

    Parameters
    ----------
    link:
        Its name.
    faces:
        (k, 4) outward unit normals and offsets: ``normal @ centre + offset <= 0`` inside [m].
    layout:
        Of the p standard parameters.

    Returns
    -------
    np.ndarray
        (k, p).

    """
    rows = np.zeros((len(faces), len(layout)))
    start = layout.of(link).start
    rows[:, start] = -faces[:, 3]
    rows[:, start + 1 : start + 4] = -faces[:, :3]
    return rows


def _own_rotors(layout: ParameterLayout, model: ModelSettings) -> dict[str, np.ndarray]:
    """Rows that give each coupled joint's rotor inertia without the coupled motors' shares."""
    rows: dict[str, np.ndarray] = {}
    for drive in model.coupled_drives:
        separate = f'{drive.motor}.Iam' in layout
        source = f'{drive.motor}.{"Iam" if separate else "Ia"}'
        if source not in layout:
            continue
        own = drive.ratios[drive.joints.index(drive.motor)]
        for joint, ratio in zip(drive.joints, drive.ratios, strict=True):
            if joint == drive.motor and not separate:
                continue  # nothing but this motor is in it
            if joint not in rows:
                rows[joint] = np.zeros(len(layout))
                rows[joint][layout.index(f'{joint}.Ia')] = 1.0
            rows[joint][layout.index(source)] -= ratio**2 / (1.0 if separate else own**2)
    return rows


@dataclass(frozen=True)
class _Spread:
    """Mass, centre of mass and second moments about it."""

    mass: float
    centre: np.ndarray
    spread: np.ndarray

    def thickened(self, square: float) -> np.ndarray:
        """Return the pseudo-inertia, at least `_LEAST_SPREAD` thick; ``square``: mean [m^2]."""
        values, axes = np.linalg.eigh(self.spread)
        values = np.maximum(values, _LEAST_SPREAD * max(values[-1], self.mass * square))
        matrix = np.empty((4, 4))
        matrix[:3, 3] = matrix[3, :3] = self.mass * self.centre
        matrix[3, 3] = self.mass
        shift = self.mass * np.outer(self.centre, self.centre)
        matrix[:3, :3] = (axes * values) @ axes.T + shift
        return matrix


def _spread(vector: np.ndarray) -> _Spread | None:
    """Take a body apart; None where it is no physical one, but that it may be flat or a point."""
    matrix = pseudo_inertia(vector)
    mass = float(matrix[3, 3])
    if not mass > 0.0:
        return None
    centre = matrix[:3, 3] / mass
    spread = matrix[:3, :3] - mass * np.outer(centre, centre)
    size = float(np.abs(np.linalg.eigvalsh(matrix[:3, :3])).max())
    if np.linalg.eigvalsh(spread)[0] < -_ROUNDING * size:
        return None
    return _Spread(mass, centre, spread)
