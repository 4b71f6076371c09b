# SPDX-License-Identifier: Apache-2.0
"""
The inertial parameters of a load, from runs with and without it.

A load that is fixed to a link adds its ten parameters p to the link's, so that with the columns
G_L of the regrouping that belong to the link, the rows of both runs are

    W_b beta = tau                 without the load,
    W_b beta + W_b G_L p = tau     with it.

Robot and load are estimated together: what the run without the load knows of beta enters with its
own uncertainty, and the covariance of p is right although beta is not known exactly.  Everything
comes from the R factors of the two systems.  The approach with all rows in one system is that of
Khalil, Gautier and Lemoine, "Identification of the payload inertial parameters of industrial
manipulators" (ICRA 2007).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
import pinocchio as pin

from ..errors import IdentifiabilityError, ModelError, RecordingError
from ..estimation.bootstrap import part_scores, sum_covariance
from ..estimation.estimate import Fit, IDENTIFIED, NOT_EXCITED, ParameterEstimate
from ..estimation.least_squares import evaluate, identifiability, joint_weights, range_basis, solve
from ..estimation.log_det import LogDetProblem, minimise
from ..estimation.physical_fit import Body, relative_units
from ..estimation.plot_samples import read_only
from ..estimation.system import LinearSystem
from ..model.consistency import (
    check,
    from_pseudo_inertia,
    inertia_at_com,
    LinkConsistency,
    pseudo_inertia,
)
from ..model.friction import FRICTION_SYMBOLS
from ..model.parameters import (
    body_links,
    INERTIAL_SYMBOLS,
    INERTIAL_UNITS,
    ParameterLayout,
    ParameterSet,
)
from ..model.robot import Robot
from ..model.robot_size import RobotSize
from ..options.document import plain
from ..options.fields import option
from ..regressor.base_parameters import expression
from ..regressor.base_search import coefficients, greedy_basis


@dataclass(frozen=True)
class LoadFitConstants:
    """Constants of the fit of a load."""

    rank_tolerance: float = 1e-6
    """Distance of a column of norm 1 from the span of others below which it depends on them."""
    range_tolerance: float = 1e-9
    """Relative singular value below which columns are dependent."""
    readable_share: float = 1e-3
    """Share of a parameter in another one below which it is left out."""
    radius: float = 0.05
    """Spread of a body of which nothing is known [m]."""
    prior_weight: float = 1e-4
    """Weight of the prior: it decides only what the recordings do not determine."""


FIT = LoadFitConstants()


_FRICTION = (*FRICTION_SYMBOLS, 'fvm', 'fcm')
_ORDER = (0, 1, 2, 3, 4, 6, 9, 5, 7, 8)  # mass, first moments, moments, products of inertia


@dataclass(frozen=True)
class PayloadSettings:
    """Settings of the identification of a payload."""

    own_friction: bool = option(
        False,
        doc='Whether friction may be another one in the runs with the load (another temperature, '
        'another day); costs certainty',
    )


@dataclass(frozen=True)
class PayloadBody:
    """
    The load as a rigid body.

    Attributes
    ----------
    mass:
        [kg].
    center_of_mass:
        (3,) in the payload's frame [m].
    inertia:
        (3, 3) about the centre of mass, along the axes of the payload's frame [kg m^2].

    """

    mass: float
    center_of_mass: np.ndarray
    inertia: np.ndarray

    @classmethod
    def from_parameters(cls, vector: np.ndarray) -> PayloadBody:
        """Make a body of ten inertial parameters with a positive mass."""
        return cls(float(vector[0]), vector[1:4] / vector[0], inertia_at_com(vector))

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers; the inertia as Ixx, Ixy, Iyy, Ixz, Iyz, Izz."""
        entries = self.inertia[[0, 0, 1, 0, 1, 2], [0, 1, 1, 2, 2, 2]]
        return {
            'mass': self.mass,
            'center_of_mass': self.center_of_mass.tolist(),
            'inertia': entries.tolist(),
        }


@dataclass(frozen=True)
class Payload:
    """
    A load, identified from runs with and without it.

    Attributes
    ----------
    link:
        The identified link that carries it.
    frame:
        The link of the URDF in whose frame its parameters are.
    base:
        What any motion determines of its ten parameters, alone or in combination; those that these
        recordings do not determine are 0.
    expressions:
        What each entry of ``base`` stands for.
    covariance:
        Of ``base``, by blocks of time where the rows came with it; NaN in rows and columns of what
        is not determined.  Errors that all runs have in common, those of drive gains above all,
        are not in it.
    classical_std:
        Standard deviations of ``base`` were its rows independent.
    reasons:
        Why an entry is not determined; empty where it is.
    standard:
        The ten parameters of the physical body that fits best, with the mass that fits best
        where that is determined; see ``physical``.
    determined:
        (10,) bool, which of the ten parameters these recordings determine alone.
    consistency:
        Whether the ten parameters that fit best could belong to a body by themselves; None where
        they are not all determined.
    physical:
        Whether ``standard`` is a physical body.
    residual_std:
        Square root of the residual variance of the weighted rows.
    fit, fit_without:
        Of the runs with the load, by the parameters of robot and load together, and by the
        robot's alone.
    recordings:
        Names of the runs with the load.
    by_gains:
        True for efforts by gains of drives, whose errors are in it.
    robot_size:
        Size of the robot that it is judged by; None for unknown.

    """

    link: str
    frame: str
    base: ParameterSet
    expressions: tuple[str, ...]
    covariance: np.ndarray
    classical_std: np.ndarray
    reasons: tuple[str, ...]
    standard: np.ndarray
    determined: np.ndarray
    consistency: LinkConsistency | None
    physical: bool
    residual_std: float
    fit: Fit
    fit_without: Fit
    recordings: tuple[str, ...] = ()
    by_gains: bool = False
    robot_size: RobotSize | None = None

    def __post_init__(self) -> None:
        read_only(self)

    @property
    def std(self) -> np.ndarray:
        """Standard deviations of ``base``; NaN where not determined."""
        return np.sqrt(np.diag(self.covariance))

    @property
    def body(self) -> PayloadBody | None:
        """The load as a body; None where ``standard`` is none."""
        return PayloadBody.from_parameters(self.standard) if self.standard[0] > 0.0 else None

    @property
    def mass(self) -> float:
        """Mass that fits best [kg]; NaN where it is not determined alone."""
        return float(self.base['load.m']) if self.determined[0] else float('nan')

    @property
    def mass_std(self) -> float:
        """Standard deviation of the mass [kg]; NaN where it is not determined alone."""
        return (
            float(self.std[self.base.layout.index('load.m')])
            if self.determined[0]
            else float('nan')
        )

    @property
    def center_of_mass_std(self) -> np.ndarray:
        """(3,) standard deviations of the centre of mass [m]; NaN where not determined."""
        std = np.full(3, np.nan)
        for i, symbol in enumerate(INERTIAL_SYMBOLS[1:4]):
            if self.determined[0] and self.determined[i + 1] and self.mass > 0.0:
                places = self.base.layout.indices(['load.m', f'load.{symbol}'])
                mass, moment = self.base.values[places]
                slope = np.array([-moment / mass**2, 1.0 / mass])
                std[i] = np.sqrt(slope @ self.covariance[np.ix_(places, places)] @ slope)
        return std

    def __iter__(self) -> Iterator[ParameterEstimate]:
        layout = self.base.layout
        with np.errstate(divide='ignore', invalid='ignore'):
            relative = 100.0 * self.std / np.abs(self.base.values)
        for i, name in enumerate(layout.names):
            yield ParameterEstimate(
                name=name,
                expression=self.expressions[i],
                unit=layout.units[i],
                value=float(self.base.values[i]),
                std=float(self.std[i]),
                relative_std=float(relative[i]),
                essential=None,
                state=NOT_EXCITED if self.reasons[i] else IDENTIFIED,
            )

    def standard_rows(self) -> list[dict[str, Any]]:
        """Return a row for each of the ten parameters of ``standard``."""
        keys = ('name', 'unit', 'value', 'determined')
        names = (f'load.{symbol}' for symbol in INERTIAL_SYMBOLS)
        columns = (names, INERTIAL_UNITS, self.standard.tolist(), self.determined.tolist())
        return [dict(zip(keys, row, strict=True)) for row in zip(*columns, strict=True)]

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, texts and lists in the shape of the result file."""
        return {
            'link': self.link,
            'frame': self.frame,
            'recordings': list(self.recordings),
            'parameters': [parameter.to_dict() for parameter in self],
            'standard_parameters': self.standard_rows(),
            'body': None if self.body is None else self.body.to_dict(),
            'mass_std': plain(self.mass_std),
            'classical_std': plain(self.classical_std),
            'center_of_mass_std': plain(self.center_of_mass_std),
            'physical': self.physical,
            'consistency': None if self.consistency is None else asdict(self.consistency),
            'residual_std': plain(self.residual_std),
            'by_gains': self.by_gains,
            **self.fit.to_dict(),
            'relative_error_without_load': plain(self.fit_without.relative_error),
            'covariance': [plain(row[: i + 1]) for i, row in enumerate(self.covariance)],
        }


@dataclass(frozen=True)
class _PayloadRuns:
    """The rows of both runs by their R factors, weighted, one below the other."""

    without: LinearSystem
    loaded: LinearSystem
    weights: tuple[np.ndarray, np.ndarray]  # (n,) of the joints' rows in either
    robot: np.ndarray  # (m, r) columns of the base parameters, and of the loaded runs' friction
    load: np.ndarray  # (m, k)
    effort: np.ndarray  # (m,)
    friction: list[int]  # base parameters that the loaded runs have of their own

    @classmethod
    def from_systems(
        cls,
        without: LinearSystem,
        loaded: LinearSystem,
        columns: np.ndarray,
        settings: PayloadSettings,
    ) -> _PayloadRuns:
        """Stack the rows; ``columns``, (b, k), are what the load adds to the base parameters."""
        light = heavy = joint_weights(without)
        with suppress(RecordingError):  # so short that its residuals do not show its noise
            heavy = joint_weights(loaded)
        names = without.structure.base_layout.names if settings.own_friction else ()
        friction = [i for i, name in enumerate(names) if name.rpartition('.')[2] in _FRICTION]
        first, second = without.stacked(light), loaded.stacked(heavy)
        runs = ((first, 0.0), (second, 1.0))
        rows = np.vstack([_columns(r[:, :-1], friction, columns, share) for r, share in runs])
        size = without.factor.n_base + len(friction)
        effort = np.concatenate([first[:, -1], second[:, -1]])
        weights = light, heavy
        return cls(without, loaded, weights, rows[:, :size], rows[:, size:], effort, friction)

    @property
    def timed(self) -> bool:
        """True if the rows came with time."""
        return self.without.blocks is not None and self.loaded.blocks is not None

    def projected(self) -> tuple[np.ndarray, float]:
        """Return R of [load | effort] beside the robot's columns, and its independent rows."""
        basis = range_basis(self.robot, FIT.range_tolerance)
        rest = np.column_stack([self.load, self.effort])
        for _ in range(2):
            rest = rest - basis @ (basis.T @ rest)
        independent = (
            self.without.factor.n_independent + self.loaded.factor.n_independent - basis.shape[1]
        )
        return np.asarray(np.linalg.qr(rest, mode='r')), independent

    def covariance(self, columns: np.ndarray, determined: np.ndarray) -> np.ndarray:
        """
        Return the (k, k) covariance of k parameters of the load by blocks of time.

        ``columns``, (b, k), are what they add to the base parameters, ``determined`` their places.
        """
        design = np.hstack([self.robot, self.load[:, determined]])
        found, norms = _least_squares(design, self.effort), _norms(design)
        inverse = np.linalg.pinv(design / norms, rcond=FIT.range_tolerance) / norms[:, None]
        influence = inverse[self.robot.shape[1] :] @ inverse.T
        covariance = np.zeros((determined.size, determined.size))
        for system, weights, share in zip(
            (self.without, self.loaded), self.weights, (0.0, 1.0), strict=True
        ):
            expanded = partial(_columns, friction=self.friction, load=columns, share=share)
            scores = part_scores(system, weights, found, expanded)
            covariance += sum_covariance(scores @ influence.T)
        return covariance

    def fits(self, load: np.ndarray, added: np.ndarray) -> tuple[Fit, Fit]:
        """
        Return the fit of the loaded runs with the load, and by the other runs alone.

        ``load``, (k,), are its parameters, ``added``, (b,), what they add to the base parameters.
        """
        together = _least_squares(self.robot, self.effort - self.load @ load)
        base = together[: added.size] + added
        base[self.friction] += together[added.size :]
        alone = self.without.stacked(self.weights[0])
        unloaded = _least_squares(alone[:, :-1], alone[:, -1])
        return evaluate(self.loaded, base), evaluate(self.loaded, unloaded)


def payload(
    without: LinearSystem,
    loaded: LinearSystem,
    robot: Robot,
    *,
    frame: str | None = None,
    settings: PayloadSettings | None = None,
) -> Payload:
    """
    Identify a load.

    Parameters
    ----------
    without, loaded:
        Rows of the runs without and with it, of the same regressor and base parameters.
    robot:
        The robot.
    frame:
        Link of the URDF that the load is fixed to and in whose frame it is wanted; None for the
        last identified joint's link.
    settings:
        See `PayloadSettings`.

    Raises
    ------
    ModelError
        where the URDF has no such link, no identified joint moves it, or the model does not have
        the ten inertial parameters of the link that carries it.
    IdentifiabilityError
        where the recordings determine nothing of the load.
    RecordingError
        where there are too few rows.

    """
    structure = without.structure
    link, placement = robot.attachment(frame)
    if link not in body_links(structure.layout):
        raise ModelError(
            f"the model does not have the ten inertial parameters of link '{link}'",
            link=link,
            remedy='name another link in data.payload.frame',
        )
    columns = structure.regrouping[:, structure.layout.slice_of(link)] @ _moved(placement)
    runs = _PayloadRuns.from_systems(without, loaded, columns, settings or PayloadSettings())
    return load_of(
        runs,
        columns,
        link=link,
        frame=frame or link,
        remedy='move the joints before it, with and without the load',
        recordings=loaded.sources,
        robot_size=RobotSize.from_robot(robot),
    )


class LoadRuns(Protocol):
    """Rows that have the ten parameters of a load among others."""

    @property
    def timed(self) -> bool:
        """True if the rows came with time."""

    def projected(self) -> tuple[np.ndarray, float]:
        """Return R of [load | effort] beside the others, and its independent rows."""

    def covariance(self, columns: np.ndarray, determined: np.ndarray) -> np.ndarray:
        """Return the covariance of the load's parameters ``determined``, by blocks of time."""

    def fits(self, load: np.ndarray, added: np.ndarray) -> tuple[Fit, Fit]:
        """Return the fits with the load's parameters, and without any."""


def load_of(
    runs: LoadRuns,
    columns: np.ndarray,
    *,
    link: str,
    frame: str,
    remedy: str,
    recordings: tuple[str, ...] = (),
    robot_size: RobotSize | None = None,
) -> Payload:
    """
    Return the load in rows, ``columns``, (b, 10), being what its parameters amount to there.

    Raises IdentifiabilityError with the remedy where they determine nothing of it.
    """
    layout = ParameterLayout.inertial(('load',))
    whole, independent = runs.projected()
    chosen, regrouping = _combinations(columns)
    chosen_layout = layout.select(chosen)
    factor = whole[:, [*chosen, -1]]
    known = identifiability(factor, int(independent), chosen_layout)
    if not known.excited.any():
        raise IdentifiabilityError(
            f"the recordings do not determine the load on '{link}'",
            link=link,
            remedy=remedy,
        )
    solution = solve(factor, known.excited, np.zeros(len(chosen)), independent)
    covariance = solution.covariance
    if runs.timed:
        determined = chosen[known.excited]
        covariance = np.full(covariance.shape, np.nan)
        covariance[np.ix_(known.excited, known.excited)] = runs.covariance(
            columns[:, determined], determined
        )
    regrouping = _recorded(factor[:, :-1], known.excited) @ regrouping
    alone = (np.count_nonzero(regrouping, axis=1) == 1) & known.excited
    determined = np.isin(np.arange(len(INERTIAL_SYMBOLS)), chosen[alone])
    free = np.zeros(len(INERTIAL_SYMBOLS))
    free[chosen] = solution.base
    consistency = _consistency(free, layout) if determined.all() else None
    noise = max(solution.residual_std, 1e-9 * abs(float(whole[-1, -1])))
    standard = _body(whole / noise, free, covariance, chosen, determined, consistency)
    fit, fit_without = runs.fits(free, columns @ free)
    return Payload(
        link=link,
        frame=frame,
        base=ParameterSet(chosen_layout, solution.base),
        expressions=tuple(
            expression(row, layout.names, first=int(place))
            for row, place in zip(regrouping, chosen, strict=True)
        ),
        covariance=covariance,
        classical_std=np.sqrt(np.diag(solution.covariance)),
        reasons=known.reasons,
        standard=standard,
        determined=determined,
        consistency=consistency,
        physical=_consistency(standard, layout).physical,
        residual_std=solution.residual_std,
        fit=fit,
        fit_without=fit_without,
        recordings=recordings,
        robot_size=robot_size,
    )


def _columns(rows: np.ndarray, friction: list[int], load: np.ndarray, share: float) -> np.ndarray:
    """Return base columns, (m, b), with those of a share of the load and its runs' friction."""
    return np.hstack([rows, share * rows[:, friction], share * (rows @ load)])


def _norms(matrix: np.ndarray) -> np.ndarray:
    norms = np.linalg.norm(matrix, axis=0)
    return np.where(norms > 0.0, norms, 1.0)


def _least_squares(matrix: np.ndarray, effort: np.ndarray) -> np.ndarray:
    norms = _norms(matrix)
    found, *_ = np.linalg.lstsq(matrix / norms, effort, rcond=FIT.range_tolerance)
    return np.asarray(found / norms)


def _moved(placement: pin.SE3) -> np.ndarray:
    """(10, 10) that takes inertial parameters in a frame to those in the frame it is placed in."""
    transform = placement.homogeneous
    units = np.eye(len(INERTIAL_SYMBOLS))
    return np.array(
        [from_pseudo_inertia(transform @ pseudo_inertia(e) @ transform.T) for e in units]
    ).T


def _combinations(columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the load's parameters that some motion determines, and what joins them, (k, 10)."""
    norms = np.linalg.norm(columns, axis=0)
    living = norms > FIT.rank_tolerance * norms.max(initial=0.0)
    scaled = columns / np.where(living, norms, 1.0)
    chosen = greedy_basis(scaled, [i for i in _ORDER if living[i]], FIT.rank_tolerance)
    rest = np.setdiff1d(np.flatnonzero(living), chosen)
    regrouping = np.zeros((chosen.size, columns.shape[1]))
    regrouping[np.arange(chosen.size), chosen] = 1.0
    part = coefficients(scaled, chosen, rest)
    regrouping[:, rest] = part * norms[rest] / norms[chosen, None]
    return chosen, regrouping


def _recorded(matrix: np.ndarray, excited: np.ndarray) -> np.ndarray:
    """
    Return what the parameters that the recordings determine stand for, (k, k).

    Those that they do not determine are held at 0, and others take over what they explain of them.
    """
    norms = _norms(matrix)
    scaled = matrix / norms
    lost = np.flatnonzero(~excited)
    regrouping = np.eye(excited.size)
    part = np.linalg.lstsq(scaled[:, excited], scaled[:, lost], rcond=None)[0]
    part[np.abs(part) < FIT.readable_share] = 0.0
    regrouping[np.ix_(excited, lost)] = part * norms[lost] / norms[excited, None]
    return regrouping


def _consistency(vector: np.ndarray, layout: ParameterLayout) -> LinkConsistency:
    return check(ParameterSet(layout, vector)).links[0]


def _body(
    factor: np.ndarray,
    free: np.ndarray,
    covariance: np.ndarray,
    chosen: np.ndarray,
    determined: np.ndarray,
    consistency: LinkConsistency | None,
) -> np.ndarray:
    """
    Return the parameters of the physical body that fits best.

    It has the mass that was found: gravity determines it, while a faulty inertia, which takes
    fast motions, would pull it away by many of its deviations.  All else is as close to what was
    found as a body can be, by the covariance.

    ``factor``, (11, 11), is R of [load | effort] in units of the noise; ``covariance`` is of the
    parameters ``chosen``.
    """
    if consistency is not None and consistency.physical:
        return free
    known = bool(determined[0]) and free[0] > 0.0
    ball = Body('load', np.diag([FIT.radius**2] * 3 + [1.0]) * (free[0] if known else 1.0))
    matrix, target = factor[:, :-1], factor[:, -1]
    root = None if consistency is None else _whitening(covariance)
    if root is not None:
        matrix = np.zeros((len(chosen), len(INERTIAL_SYMBOLS)))
        matrix[:, chosen] = root
        target = matrix @ free
    problem = LogDetProblem(
        matrix=matrix,
        target=target,
        places=np.arange(len(INERTIAL_SYMBOLS))[None],
        units=relative_units((ball,)),
        # what the recordings do not determine stays near a ball at the frame's origin
        weight=FIT.prior_weight,
        positive=np.zeros((0, len(INERTIAL_SYMBOLS))),
        barrier=0.0,
        directions=np.eye(len(INERTIAL_SYMBOLS))[:, 1:] if known else None,
    )
    return np.asarray(minimise(problem, from_pseudo_inertia(ball.pseudo_inertia)).chi)


def _whitening(covariance: np.ndarray) -> np.ndarray | None:
    """Return rows whose Gram matrix is the inverse of a covariance; None where it has none."""
    std = np.sqrt(np.diag(covariance))
    values, vectors = np.linalg.eigh(covariance / std[:, None] / std)
    if values[0] < FIT.range_tolerance:
        return None
    return np.asarray(vectors.T / np.sqrt(values)[:, None] / std)
