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

from ..errors import SettingsError
from ..model.consistency import JOINT_SYMBOLS, pseudo_inertia
from ..model.parameters import body_links, INERTIAL_SYMBOLS, ParameterLayout, ParameterSet
from ..model.plausibility import joined_links, nearest_body, repaired_body, robot_shapes, Spread
from ..model.robot import Robot
from ..regressor.settings import ModelSettings

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
    remark:
        What stands in place of the prior, where that is no physical body; else empty.

    """

    link: str
    mass: float
    pseudo_inertia: np.ndarray
    remark: str = ''

    @property
    def repaired(self) -> bool:
        """True if the prior is no physical body, so that this is another one."""
        return bool(self.remark)

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


def reference_bodies(robot: Robot, prior: ParameterSet) -> tuple[Body, ...]:
    """
    Return the reference body of each link.

    It is the prior's, or, where that is no physical body, its repair (`prior_repair`): the nearest
    one; without a positive mass the URDF's, one that fills the shapes, or one that is small beside
    its neighbours.  Where it is thinner than a tenth of its length or of the links' mean size, it
    is thickened to that.

    Parameters
    ----------
    robot:
        Gives the URDF's inertias and shapes.
    prior:
        Standard parameters.

    """
    own = {link: prior.inertial(link) for link in body_links(prior.layout)}
    vectors, remarks = _repaired(robot, own)
    bodies = {link: body for link in own if (body := Spread.of(vectors[link])) is not None}
    square = float(np.mean([body.square for body in bodies.values()])) if bodies else 0.0
    return tuple(
        Body(
            link=link,
            mass=body.mass,
            pseudo_inertia=body.thickened(square or _RADIUS**2),
            remark=remarks.get(link, ''),
        )
        for link, body in bodies.items()
    )


def _repaired(
    robot: Robot, own: dict[str, np.ndarray]
) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Return the bodies with those that are impossible replaced, and what was done, by link."""
    wrong = [link for link, vector in own.items() if not _physical(vector)]
    vectors, remarks = dict(own), {}
    urdf = robot.prior
    for link in wrong:
        drawn = urdf.inertial(link) if f'{link}.m' in urdf.layout else None
        if drawn is not None and _physical(drawn) and nearest_body(own[link]) is None:
            vectors[link], remarks[link] = drawn, "the URDF's body"
    wrong = [link for link in wrong if link not in remarks]
    if not wrong:
        return vectors, remarks
    shapes, joined = robot_shapes(robot), joined_links(robot)
    sound = {link: body for link in own if (body := nearest_body(vectors[link])) is not None}
    for link in wrong:
        near = [sound[other] for other in joined.get(link, ()) if other in sound]
        near = near or list(sound.values())
        vectors[link], remarks[link] = repaired_body(own[link], shapes.get(link), near)
    return vectors, remarks


def _physical(vector: np.ndarray) -> bool:
    body = Spread.of(vector)
    return body is not None and body.physical


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
    ``Ia_j >= ratio_j^2 Iam``, which holds if every rotor has an inertia of its own.  Stribeck
    friction falls with the speed, but not below zero: ``-tsc`` and ``ts + tsc`` (or ``fc + tsc``).

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
    for joint in (name[:-4] for name in layout if name.endswith('.tsc')):
        falls, lasts = np.zeros((2, len(layout)))
        falls[layout.index(f'{joint}.tsc')] = -1.0
        dry = [name for s in ('ts', 'fc') if (name := f'{joint}.{s}') in layout]
        lasts[layout.indices([*dry, f'{joint}.tsc'])] = 1.0
        if dry:  # else tsc is all the dry friction that there is
            rows.append(falls)
            names.append(f'-{joint}.tsc')
        rows.append(lasts)
        names.append(' + '.join([*dry, f'{joint}.tsc']))
    return np.array(rows).reshape(-1, len(layout)), tuple(names)


def signed_start(
    rows: np.ndarray, start: np.ndarray, typical: np.ndarray, free: np.ndarray
) -> np.ndarray:
    """
    Return parameters whose products with the rows of `drive_signs` are positive.

    Parameters
    ----------
    rows:
        (k, p).
    start:
        (p,) parameters that are kept as far as possible.
    typical:
        (p,) positive sizes that parameters with a sign have at least.
    free:
        (p,) bool, parameters that may change.

    """
    single = np.count_nonzero(rows, axis=1) == 1
    sign = np.where(free, rows[single].sum(axis=0), 0.0)
    start = np.where(sign > 0.0, np.maximum(start, typical), start)
    start = np.where(sign < 0.0, np.minimum(start, -0.5 * typical), start)
    for row in rows[~single]:  # a coupled rotor above its motor's share
        lack = float(row @ start)
        first = int(np.argmax(np.where(free, row, 0.0)))
        if lack <= 0.0 and row[first] > 0.0:
            start[first] += (1e-6 - 2.0 * lack) / row[first]
    return start


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


def require_points(points: dict[str, np.ndarray], links: tuple[str, ...], choice: str) -> None:
    """
    Check that every link has a shape.

    Raises
    ------
    SettingsError
        naming the first link that has none.

    """
    for link in links:
        if link not in points:
            raise SettingsError(
                f"'estimation.physical.center_of_mass' is {choice}, but link '{link}' has no "
                'collision or visual shape in the URDF that can be read',
                key='estimation.physical.center_of_mass',
                link=link,
                value=choice,
                remedy='give it one, make its mesh files available, or set it to free',
            )


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
