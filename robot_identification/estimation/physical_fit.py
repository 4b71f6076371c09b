# SPDX-License-Identifier: Apache-2.0
"""
The physically consistent fit for given noise and strength of the prior: a log-det problem.

A link's pseudo-inertia P (see `robot_identification.model.consistency`) is compared with that of a
reference body, ``P0 = L L^T``: the eigenvalues of ``X = L^-1 P L^-T`` have no units and do not
depend on the frame that P is taken in, and X is the identity for the reference body itself.
Wensing, Kim and Slotine, "Linear matrix inequalities for physically consistent inertial parameter
identification" (RA-L 2018), have P positive semidefinite.

The problem is built once of robot, prior and settings; the rows enter by their R factor.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import solve_triangular

from ..errors import SettingsError
from ..model.consistency import falls_from, from_pseudo_inertia, JOINT_SYMBOLS, pseudo_inertia
from ..model.friction import FALLING, FRICTION, friction_symbols
from ..model.link_geometry import box_faces, hull_faces, interior_point, link_points
from ..model.parameters import body_links, INERTIAL_SYMBOLS, ParameterLayout, ParameterSet
from ..model.plausibility import (
    joined_links,
    nearest_body,
    repaired_body,
    robot_shapes,
    small_body,
    Spread,
)
from ..model.robot import Robot
from ..regressor.joint_terms import SPRING_SYMBOLS
from ..regressor.settings import ModelSettings
from .bounds import Bounds, box_bounds, contradiction, Interval
from .link_constraints import is_body, PhysicalSettings, StatedLinks
from .log_det import feasible_start, LogDetMinimum, LogDetProblem, minimise
from .system import LinearSystem

_RADIUS = 0.05
"""Spread of a body of which nothing is known [m]."""

_BARRIER = 1e-3
"""Weight of the logarithms that keep rotor inertias, friction and bounds positive."""

FRICTION_SHARES = {FRICTION['coulomb'].symbol: 1.0, FRICTION['offset'].symbol: 0.3}
"""
Standard deviations of friction before anything is measured, by symbol.

As shares of the joint's RMS effort: Coulomb friction may be all of it, offsets are smaller.
"""

EFFORT_SHARES = {**dict.fromkeys(SPRING_SYMBOLS, 1.0), **FRICTION_SHARES}
"""The same of all parameters that have the unit of an effort."""

LOAD_FRICTION_SPREAD = 0.2
"""
Standard deviation of friction by load, as a share of the load, before anything is measured.

Gears lose 2 to 20 %.  A joint that carries next to nothing would have any value otherwise.
"""

URDF_BODY = "the URDF's body"
"""Remark on a link whose prior is no physical body, but the URDF's is."""

_MOUNTED = 0.1
"""Least standard deviation of a link's mass, relative to the mean mass of the links."""

_REPAIRED = 1.0
"""Standard deviation of a mass that stands in for one that the URDF lacks, relative to it."""

_AT_ZERO = 2.0 * np.sqrt(_BARRIER)
"""Share of its deviation below which a parameter is at 0; the barrier alone makes half of it."""

_UNSEEN = 1e-6
"""Share of the largest column of drives below which the recordings do not see another one."""

_CENTRE = 'estimation.physical.center_of_mass'

# the pseudo-inertias of unit parameters, which those of all others are sums of
_UNITS = np.array([pseudo_inertia(unit) for unit in np.eye(len(INERTIAL_SYMBOLS))])


@dataclass(frozen=True)
class Body:
    """
    The reference body of a link.

    Attributes
    ----------
    link:
        Name of the link.
    pseudo_inertia:
        (4, 4), positive definite.
    remark:
        What stands in place of the prior, where that is no physical body; else empty.

    """

    link: str
    pseudo_inertia: np.ndarray
    remark: str = ''

    @property
    def repaired(self) -> bool:
        """True if neither prior nor URDF have a body that can exist."""
        return self.remark not in ('', URDF_BODY)

    @property
    def mass(self) -> float:
        """Mass [kg]."""
        return float(self.pseudo_inertia[3, 3])

    def relative(self, vectors: np.ndarray) -> np.ndarray:
        """Return ``L^-1 P L^-T``, (..., 4, 4), of inertial parameters, (..., 10)."""
        factor = np.linalg.cholesky(self.pseudo_inertia)
        inverse = solve_triangular(factor, np.eye(4), lower=True)
        return np.asarray(inverse @ np.tensordot(vectors, _UNITS, axes=1) @ inverse.T)


def reference_bodies(robot: Robot, prior: ParameterSet) -> tuple[Body, ...]:
    """
    Return the reference body of each link.

    It is the prior's, or, where that is no physical body, its repair (`plausibility`): the nearest
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
    bodies = {
        link: body for link in own if (body := Spread.from_parameters(vectors[link])) is not None
    }
    square = float(np.mean([body.square for body in bodies.values()])) if bodies else 0.0
    return tuple(
        Body(link, body.thickened(square or _RADIUS**2), remarks.get(link, ''))
        for link, body in bodies.items()
    )


def _repaired(
    robot: Robot, own: dict[str, np.ndarray]
) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Return the bodies with those that are impossible replaced, and what was done, by link."""
    wrong = [link for link, vector in own.items() if not is_body(vector)]
    vectors, remarks = dict(own), {}
    urdf = robot.prior
    for link in wrong:
        drawn = urdf.inertial(link) if f'{link}.m' in urdf.layout else None
        if drawn is not None and is_body(drawn) and nearest_body(own[link]) is None:
            vectors[link], remarks[link] = drawn, URDF_BODY
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


def _without(body: Body, fixed: np.ndarray) -> Body:
    """Return the reference body of a link without (10,) bodies that are pinned to it."""
    own = nearest_body(from_pseudo_inertia(body.pseudo_inertia) - fixed)
    return replace(
        body, pseudo_inertia=pseudo_inertia(small_body([fixed]) if own is None else own)
    )


def relative_units(bodies: tuple[Body, ...]) -> np.ndarray:
    """Return (n, 10, 4, 4) relative pseudo-inertias of a unit of each parameter of each body."""
    units = np.eye(len(INERTIAL_SYMBOLS))
    return np.array([body.relative(units) for body in bodies]).reshape(-1, 10, 4, 4)


def drive_signs(layout: ParameterLayout, model: ModelSettings) -> np.ndarray:
    """
    Return rows whose products with the parameters must not be negative, (k, p).

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

    """
    unit = dict(zip(layout, np.eye(len(layout)), strict=True))
    rows = [row for name, row in unit.items() if name.rpartition('.')[2] in JOINT_SYMBOLS]
    own_rotors: dict[str, np.ndarray] = {}
    for drive in model.coupled_drives:
        separate = f'{drive.motor}.Iam' in layout
        source = f'{drive.motor}.{"Iam" if separate else "Ia"}'
        if source not in layout:
            continue
        own = drive.ratios[drive.joints.index(drive.motor)]
        for joint, ratio in zip(drive.joints, drive.ratios, strict=True):
            if joint == drive.motor and not separate:
                continue  # nothing but this motor is in it
            row = own_rotors.setdefault(joint, unit[f'{joint}.Ia'].copy())
            row -= ratio**2 / (1.0 if separate else own**2) * unit[source]
    rows += own_rotors.values()
    for name in layout:
        joint, _, symbol = name.rpartition('.')
        if symbol not in friction_symbols(sign=FALLING):
            continue
        dry = [unit[f'{joint}.{s}'] for s in falls_from(joint, layout)]
        if dry:  # else it is all the dry friction that there is
            rows.append(-unit[name])
        rows.append(sum(dry, unit[name]))
    return np.array(rows).reshape(-1, len(layout))


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


def centre_bounds(link: str, faces: np.ndarray, layout: ParameterLayout) -> Bounds:
    """
    Return rows of the distances of a link's centre of mass from faces, times mass.

    The (k, 4) faces are outward unit normals and offsets: ``normal @ centre + offset <= 0`` inside
    [m].
    """
    rows = np.zeros((len(faces), len(layout)))
    rows[:, layout.slice_of(link)][:, :4] = -faces[:, [3, 0, 1, 2]]
    return Bounds(rows, np.zeros(len(rows)), (_CENTRE,) * len(rows))


@dataclass(frozen=True)
class PhysicalFit:
    """
    The parts of the problem that do not depend on the rows.

    Attributes
    ----------
    regrouping:
        (b, p) from standard to base parameters.
    prior:
        (p,) standard parameters.
    start:
        (p,) parameters with bodies inside of their constraints.
    bodies:
        Reference bodies of the n links that are not pinned.
    signs:
        (s, p) rows of drives whose products with the parameters are positive.
    bounds:
        Further rows, with their keys.
    spreads:
        (p,) standard deviations of the drives' parameters before anything is measured; infinite
        for those without.
    drives:
        (p,) bool, False for the inertial parameters of links.
    unseen:
        Columns of masses that no motion shows, which keep the prior's value.
    known, known_values:
        (m, p) and (m,) further rows in standard deviations: masses, and a total that was weighed.
    shared:
        (m,) relative variance of these, where the divergence says so much, too; else 0.
    rowless:
        The problem without rows.

    """

    regrouping: np.ndarray
    prior: np.ndarray
    start: np.ndarray
    bodies: tuple[Body, ...]
    signs: np.ndarray
    bounds: Bounds
    spreads: np.ndarray
    drives: np.ndarray
    known: np.ndarray
    known_values: np.ndarray
    shared: np.ndarray
    unseen: np.ndarray
    rowless: LogDetProblem

    @classmethod
    def from_system(
        cls, system: LinearSystem, robot: Robot, prior: ParameterSet,
        settings: PhysicalSettings, model: ModelSettings,
        boxes: Mapping[str, Interval] | None = None,
    ) -> PhysicalFit:  # fmt: skip
        """Set up the fit; raises `SettingsError` where settings cannot be met."""
        layout = prior.layout
        references = reference_bodies(robot, prior)
        stated = StatedLinks.from_settings(robot, prior, settings.links, settings.relative_mass)
        bodies = tuple(
            _without(body, stated.fixed[body.link]) if body.link in stated.fixed else body
            for body in references
            if body.link not in stated.pinned
        )
        places = np.array([_columns(layout, body.link) for body in bodies], dtype=int)
        places = places.reshape(-1, len(INERTIAL_SYMBOLS))
        faces = _centre_faces(robot, bodies, settings)
        start, fixed = _inside(prior, bodies, places, stated, faces)
        box, held = box_bounds(layout, boxes or {}, start)
        bounds = stated.mass_bounds(layout) + box
        for link, planes in faces.items():
            bounds += centre_bounds(link, planes, layout)
        unseen = _unseen_masses(system.structure.regrouping, layout, stated, settings)
        held[unseen] = True
        signs = drive_signs(layout, model)
        signs = signs[(signs[:, ~held] != 0.0).any(axis=1)]
        directions = stated.directions(layout, held)
        known, values, shared = _known_masses(robot, prior, references, stated, settings)
        return cls(
            regrouping=system.structure.regrouping,
            prior=np.array(prior.values),
            start=start,
            bodies=bodies,
            signs=signs,
            bounds=bounds,
            spreads=_spreads(system, layout),
            drives=_of_drives(layout),
            known=known,
            known_values=values,
            shared=shared,
            unseen=unseen,
            rowless=LogDetProblem(
                matrix=np.zeros((0, len(layout))),
                target=np.zeros(0),
                places=places,
                units=relative_units(bodies),
                weight=0.0,
                positive=np.vstack([signs, bounds.rows]),
                barrier=_BARRIER,
                offsets=np.append(np.zeros(len(signs)), bounds.offsets),
                fixed=fixed,
                directions=None if directions.shape[1] == len(layout) else directions,
            ),
        )

    def problem(self, factor: np.ndarray, weight: float) -> tuple[LogDetProblem, np.ndarray]:
        """
        Return the problem of rows with R ``factor`` of unit noise, and a start inside of it.

        Parameters of drives that no row sees are held at the prior; weak rows measure the others
        there, which decides combinations that no motion distinguishes.  For springs, these rows
        have their own standard deviation, so that gravity on bodies and springs share what the
        recordings do not distinguish as their priors have it.
        """
        matrix, target = factor[:, :-1] @ self.regrouping, factor[:, -1]
        norms = np.linalg.norm(matrix, axis=0)
        drives = self.drives
        unseen = drives & (norms <= _UNSEEN * norms[drives].max(initial=0.0))
        directions = self.rowless.directions
        free = drives if directions is None else drives & directions.any(axis=1)
        # a hundredth of the effort each, or the prior
        sizes = 0.01 * np.linalg.norm(target) / np.where(norms > 0.0, norms, 1.0)
        typical = np.where(unseen, 1e-3, sizes)
        start = signed_start(self.signs, self.start.copy(), typical, free)
        strict = 1.0 / np.maximum(np.abs(self.prior), 1e-3)
        weak = np.maximum(_UNSEEN * norms, 1.0 / self.spreads)
        held = np.diag(np.where(unseen, strict, weak))[drives]
        # the divergence says 2 weight of a scale of a body: rows of masses say the rest
        rest = np.sqrt(np.maximum(0.0, 1.0 - 2.0 * weight * self.shared))
        problem = replace(
            self.rowless,
            matrix=np.vstack([matrix, rest[:, None] * self.known, held]),
            target=np.concatenate([target, rest * self.known_values, held @ self.prior]),
            weight=weight,
        )
        inside = feasible_start(problem, start)
        if inside is None:
            raise contradiction(problem.margins(start)[len(self.signs) :], self.bounds)
        return problem, inside

    def solve(
        self,
        factor: np.ndarray,
        weight: float,
        start: np.ndarray | None = None,
        tolerance: float = 1e-6,
    ) -> LogDetMinimum:
        """Return the fit to rows with R ``factor`` of unit noise."""
        problem, inside = self.problem(factor, weight)
        near = start is not None
        return minimise(problem, inside if start is None else start, tolerance, near=near)

    def at_zero(self, chi: np.ndarray, std: np.ndarray) -> np.ndarray:
        """
        Return which drives' parameters are held at 0 by their sign, (p,) bool.

        There the barrier makes both the value and its deviation, and the ratio of the two.

        Parameters
        ----------
        chi, std:
            (p,) the fit and its standard deviations; what has none is not held.

        """
        single = self.signs[np.count_nonzero(self.signs, axis=1) == 1]
        near = np.abs(chi) < _AT_ZERO * np.nan_to_num(std)
        return np.asarray(near & single.any(axis=0))


def _columns(layout: ParameterLayout, link: str) -> np.ndarray:
    """Return the columns of a link's inertial parameters."""
    return np.arange(len(layout))[layout.slice_of(link)]


def _of_drives(layout: ParameterLayout) -> np.ndarray:
    """Return which parameters are of no link, (p,) bool."""
    drives = np.ones(len(layout), dtype=bool)
    for link in layout.links:
        drives[layout.slice_of(link)] = False
    return drives


def _inside(
    prior: ParameterSet,
    bodies: tuple[Body, ...],
    places: np.ndarray,
    stated: StatedLinks,
    faces: Mapping[str, np.ndarray],
) -> tuple[np.ndarray, np.ndarray]:
    """
    Return the prior with the bodies moved inside of what is stated of them.

    Beside these (p,) parameters are the (n, 10) that are pinned to the n bodies.
    """
    start, fixed = np.array(prior.values), np.zeros(places.shape)
    for i, (body, place) in enumerate(zip(bodies, places, strict=True)):
        fixed[i] = stated.fixed.get(body.link, 0.0)
        start[place] = from_pseudo_inertia(stated.body(body.link, body.pseudo_inertia))
        if body.link in faces and body.link not in {*stated.fixed, *stated.symmetries}:
            start[place] = _moved_inside(start[place], faces[body.link])
        start[place] += fixed[i]
    return start, fixed


def _known_masses(
    robot: Robot,
    prior: ParameterSet,
    references: tuple[Body, ...],
    stated: StatedLinks,
    settings: PhysicalSettings,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """
    Return `PhysicalFit.known`, its values, and `PhysicalFit.shared`: masses, and a stated total.

    The divergence keeps all ten parameters of a link near the prior's by one strength.  Where the
    recordings ask for other inertias, that strength falls, and masses that hardly move an effort
    would take up what the model lacks.  Makers know masses better than inertias.
    """
    layout, rows, values, shared = prior.layout, [], [], []
    column = {body.link: layout.slice_of(body.link).start for body in references}
    if settings.total is not None:
        mass, std = settings.total
        stated.require_total(mass, std, prior)
        rows.append(np.isin(np.arange(len(layout)), list(column.values())) / std)
        values.append(mass / std)
        shared.append(0.0)
    if settings.mass_std is not None and not robot.bodies_alike:
        least = _MOUNTED * float(np.mean([body.mass for body in references] or [0.0]))
        for body in references:
            if body.link in stated.pinned:
                continue
            relative = _REPAIRED if body.repaired else settings.mass_std
            std = max(relative * body.mass, least)
            rows.append((np.arange(len(layout)) == column[body.link]) / std)
            values.append(body.mass / std)
            shared.append((std / body.mass) ** 2)
    return np.array(rows).reshape(-1, len(layout)), np.array(values), np.array(shared)


def _unseen_masses(
    regrouping: np.ndarray,
    layout: ParameterLayout,
    stated: StatedLinks,
    settings: PhysicalSettings,
) -> np.ndarray:
    """
    Return the columns of masses of links that no gravity shows, such as of an upright first link.

    Neither mass nor first moments are in a base parameter there, and the divergence would buy
    inertia that the link needs with mass.  Masses that something is stated of are left to that.
    """
    if settings.total is not None:
        return np.zeros(0, dtype=int)
    known = {*stated.pinned, *stated.masses, *stated.symmetries, *stated.fixed}
    columns = [layout.slice_of(link).start for link in body_links(layout) if link not in known]
    return np.array([c for c in columns if not regrouping[:, c : c + 4].any()], dtype=int)


def _spreads(system: LinearSystem, layout: ParameterLayout) -> np.ndarray:
    """
    Return `PhysicalFit.spreads`: shares of the RMS effort of the joint, and friction by load.

    A joint that turns one way shows the sum of Coulomb friction and offset alone: friction then.
    """
    squares = (system.factor.triangles[:, :, -1] ** 2).sum(axis=1) / np.maximum(
        1, system.factor.rows
    )
    effort_rms = dict(zip(system.factor.joints, np.sqrt(squares).tolist(), strict=True))
    spreads = np.full(len(layout), np.inf)
    for i, name in enumerate(layout):
        joint, _, symbol = name.rpartition('.')
        if symbol in EFFORT_SHARES and effort_rms.get(joint, 0.0) > 0.0:
            spreads[i] = EFFORT_SHARES[symbol] * effort_rms[joint]
        elif symbol == FRICTION['load'].symbol:
            spreads[i] = LOAD_FRICTION_SPREAD
    return spreads


def _centre_faces(
    robot: Robot, bodies: tuple[Body, ...], settings: PhysicalSettings
) -> dict[str, np.ndarray]:
    """Return the faces that bound each link's centre of mass, (k, 4) each."""
    choice = settings.center_of_mass
    if choice == 'free':
        return {}
    points = link_points(robot)
    faces_of = box_faces if choice == 'box' else hull_faces
    faces = {}
    for body in bodies:
        if body.link not in points:
            raise SettingsError(
                f"'{_CENTRE}' is {choice}, but link '{body.link}' has no collision or visual "
                'shape in the URDF that can be read',
                key=_CENTRE,
                link=body.link,
                value=choice,
                remedy='give it one, make its mesh files available, or set it to free',
            )
        faces[body.link] = faces_of(points[body.link])
    return faces


def _moved_inside(inertial: np.ndarray, faces: np.ndarray) -> np.ndarray:
    """Return a body with its centre of mass inside of faces: as it is, or moved there."""
    centre = inertial[1:4] / inertial[0]
    if (faces[:, :3] @ centre + faces[:, 3] < -1e-9).all():
        return inertial
    shift = np.eye(4)
    shift[:3, 3] = interior_point(faces) - centre
    return from_pseudo_inertia(shift @ pseudo_inertia(inertial) @ shift.T)
