# SPDX-License-Identifier: Apache-2.0
"""
The true parameters of a simulated robot, and comparison of results with them.

The truth is the URDF's, as bodies differ from their drawings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..base_parameters import structure
from ..errors import ModelError, SettingsError
from ..model.consistency import from_pseudo_inertia, inertia_at_com, pseudo_inertia
from ..model.parameters import body_links, ParameterSet
from ..model.robot import Robot
from ..regressor import build, ElasticJoints, ModelSettings, prior
from ..regressor.joint_terms import slopes_of
from ..regressor.rigid import tree_of
from ..results.result import StoredResult
from .settings import SimulationSettings

_SPRINGS = {'kc': 'spring_cosine', 'ks': 'spring_sine'}

ROTOR_ACCELERATION = 500.0
"""Acceleration at which a default rotor takes the whole effort limit [rad/s^2]."""

SIGNIFICANT = 5.0
"""A parameter is significant where its relative standard deviation is below this [%]."""

BAND = 1.96
"""Half the width of a 95 % interval [standard deviations]."""


def truth(robot: Robot, settings: SimulationSettings | None = None) -> ParameterSet:
    """
    Return the true standard parameters of the simulated robot.

    They are in the layout of ``regressor.prior(robot, true_model(...))``: ten parameters a link,
    then ``Ia``, ``fv``, ``fc`` (or ``ts`` and ``tsc``), ``off`` and, if they are given, ``fr`` and
    ``fl`` joint by joint, then ``kc`` and ``ks``; these are the motors' if joints are elastic,
    which have their stiffness ``k`` and damping ``d``.

    Raises
    ------
    SettingsError
        if a list has neither one entry nor one a joint.
    ModelError
        naming the link whose nominal inertia no simulation can take.

    """
    settings = settings or SimulationSettings()
    model = true_model(robot, settings)
    nominal = prior(robot, replace(model, elastic=None))
    random = np.random.default_rng([settings.seed, 0])
    values: dict[str, float] = {}
    for link in robot.links:
        perturbed = perturb(nominal.inertial(link), settings.perturbation, random)
        require_movable(perturbed, link)
        names = nominal.layout.names[nominal.layout.of(link)]
        values.update(zip(names, perturbed, strict=True))
    joint_values = _friction(robot, settings, nominal, random)
    joint_values['Ia'] = _rotor_inertia(robot, settings)
    for symbol, key in (('fr', 'root'), ('fl', 'load'), *_SPRINGS.items()):
        given = per_joint(getattr(settings, key), robot, key)
        if given is not None:
            joint_values[symbol] = given
    for symbol, entries in joint_values.items():
        named = {f'{j}.{symbol}': v for j, v in zip(robot.joints, entries, strict=True)}
        # joints that slide have no springs
        values.update({name: v for name, v in named.items() if name in nominal.layout})
    if model.elastic is None:
        return nominal.updated(values)
    return prior(robot, model).updated(_of_elastic(robot, model.elastic, settings, values))


def true_model(robot: Robot, settings: SimulationSettings) -> ModelSettings:
    """
    Return the model that the simulated robot obeys: its friction, springs and breakaway.

    Raises SettingsError if both Coulomb friction and stiction are given, slopes or breakaway do
    not fit the robot, or Stribeck friction has no stiction.
    """
    elastic = settings.elastic
    if elastic is not None:
        damped = any(value > 0.0 for value in settings.transmission_damping)
        elastic = replace(elastic, damping=elastic.damping or damped)
    further = tuple(term for term in ('root', 'load') if getattr(settings, term))
    breakaway = per_joint(settings.breakaway, robot, 'breakaway')
    springs = any(getattr(settings, key) for key in _SPRINGS.values())
    turning = zip(robot.joints, tree_of(robot).revolute, strict=True)
    model = ModelSettings(
        friction=('viscous', 'coulomb', 'offset', *further),
        elastic=elastic,
        breakaway=0.0 if breakaway is None else tuple(breakaway.tolist()),
        joint_springs=tuple(joint for joint, turns in turning if springs and turns),
    )
    if not settings.stiction:
        if settings.stribeck:
            raise SettingsError(
                "'stribeck' is given without 'stiction'",
                key='stribeck',
                value=settings.stribeck,
                remedy='give stiction, too: Stribeck friction is what it falls by',
            )
        return model
    if settings.coulomb:
        raise SettingsError(
            "both 'coulomb' and 'stiction' are given",
            key='coulomb',
            value=settings.coulomb,
            remedy='give one of them; stiction + stribeck is the Coulomb friction',
        )
    model = replace(
        model,
        friction=('viscous', 'stiction', 'stribeck', 'offset', *further),
        stiction_slope=settings.stiction_slope,
        stribeck_slope=settings.stribeck_slope,
    )
    slopes_of(model, robot.joints)
    return model


def per_joint(values: Sequence[float], robot: Robot, key: str) -> np.ndarray | None:
    """
    Return one value a joint, (n_joints,); None if ``values`` is empty.

    Raises SettingsError, naming ``key``, if there is neither one value nor one a joint.
    """
    if not len(values):
        return None
    if len(values) not in (1, robot.n_joints):
        raise SettingsError(
            f"'{key}' has {len(values)} values, but the robot has {robot.n_joints} joints",
            key=key,
            value=tuple(values),
            remedy=f'give one value for each of {", ".join(robot.joints)}, or one for all',
        )
    return np.broadcast_to(np.asarray(values, dtype=float), robot.n_joints).copy()


def perturb(inertial: np.ndarray, relative: float, random: np.random.Generator) -> np.ndarray:
    """
    Return the (10,) inertial parameters of a body that is a little different.

    The body is deformed as a whole, :math:`x' = A x + t` with a scaled density, which acts on its
    4x4 pseudo-inertia as :math:`P' = B P B^T`: physical parameters stay physical.  ``relative`` is
    the standard deviation of the entries of A - 1, of the mass's logarithm, and of t in radii of
    gyration.
    """
    draws = relative * random.standard_normal(13)
    mass, first = inertial[0], inertial[1:4]
    if mass <= 0.0:
        return inertial.copy()
    pseudo = pseudo_inertia(inertial)
    spread = np.trace(pseudo[:3, :3]) / mass - first @ first / mass**2
    change = np.eye(4)
    change[:3, :3] += draws[:9].reshape(3, 3)
    change[:3, 3] = draws[9:12] * np.sqrt(max(spread, 0.0))
    return from_pseudo_inertia(np.exp(draws[12]) * change @ pseudo @ change.T)


def require_movable(inertial: np.ndarray, link: str) -> None:
    """
    Raise `ModelError` where a body would not resist its acceleration.

    A link without any inertia of its own is let through: it moves those behind it.
    """
    if not inertial.any():
        return
    mass = float(inertial[0])
    smallest = np.linalg.eigvalsh(inertia_at_com(inertial))[0] if mass > 0.0 else -np.inf
    # a body without extent has a zero that comes out a rounding error below 0
    if mass <= 0.0 or smallest < -1e-9 * max(np.abs(inertial[4:]).max(), 1e-9):
        what = (
            f'a mass of {mass:g} kg'
            if mass <= 0.0
            else f'an inertia of {smallest:.3g} kg m^2 at its centre of mass'
        )
        raise ModelError(
            f"link '{link}' cannot be simulated: it has {what}",
            link=link,
            value=mass if mass <= 0.0 else float(smallest),
            remedy='correct its <inertial>',
        )


def _of_elastic(
    robot: Robot, elastic: ElasticJoints, settings: SimulationSettings, values: Mapping[str, float]
) -> dict[str, float]:
    """Give the joints' own parameters to their motors, and add those of the transmissions."""
    motors = dict(zip(robot.joints, elastic.motor_names(robot.joints), strict=True))
    owned = {}
    for name, value in values.items():
        owner, _, symbol = name.rpartition('.')
        owned[f'{motors.get(owner, owner)}.{symbol}'] = value
    given = {'k': 'stiffness'} | ({'d': 'transmission_damping'} if elastic.damping else {})
    for symbol, key in given.items():
        entries = per_joint(getattr(settings, key), robot, key)
        if entries is None:
            raise SettingsError(
                f"'{key}' is empty", key=key, remedy='give one for every joint, or one for all'
            )
        owned.update({f'{j}.{symbol}': v for j, v in zip(robot.joints, entries, strict=True)})
    return owned


def _rotor_inertia(robot: Robot, settings: SimulationSettings) -> np.ndarray:
    given = per_joint(settings.rotor_inertia, robot, 'rotor_inertia')
    if given is not None:
        return given
    return finite_effort(robot) / ROTOR_ACCELERATION


def finite_effort(robot: Robot) -> np.ndarray:
    """Return (n_joints,) effort limits, 0 for joints without."""
    return np.where(np.isfinite(robot.limits.effort), robot.limits.effort, 0.0)


def _friction(
    robot: Robot, settings: SimulationSettings, nominal: ParameterSet, random: np.random.Generator
) -> dict[str, np.ndarray]:
    # drawn in any case, so that giving one list does not change the others
    draws = settings.friction_perturbation * random.standard_normal((3, robot.n_joints))

    def given(key: str, default: np.ndarray) -> np.ndarray:
        found = per_joint(getattr(settings, key), robot, key)
        return default if found is None else found

    friction = {}
    dry = ('ts', 'stiction') if settings.stiction else ('fc', 'coulomb')
    for symbol, key, draw in (('fv', 'viscous', draws[0]), (*dry, draws[1])):
        guess = np.array([nominal[f'{joint}.{symbol}'] for joint in robot.joints])
        friction[symbol] = given(key, guess * np.exp(draw))
    friction['off'] = given('offset', friction[dry[0]] * draws[2])
    if settings.stiction:
        friction['tsc'] = given('stribeck', np.zeros(robot.n_joints))
    return friction


@dataclass(frozen=True)
class TruthComparison:
    """
    Identified base parameters (b,) against the true ones.

    ``std`` is NaN where the recording does not determine the parameter.
    """

    expressions: tuple[str, ...]
    units: tuple[str, ...]
    true: np.ndarray
    identified: np.ndarray
    std: np.ndarray

    @property
    def relative_std(self) -> np.ndarray:
        """(b,) 100 std / |identified| [%]."""
        with np.errstate(divide='ignore'):
            return 100.0 * self.std / np.abs(self.identified)

    @property
    def deviation(self) -> np.ndarray:
        """(b,) distance from the true value in standard deviations."""
        with np.errstate(divide='ignore', invalid='ignore'):
            return np.abs(self.identified - self.true) / self.std

    @property
    def significant(self) -> np.ndarray:
        """(b,) bool, true where the parameter is well determined."""
        return self.relative_std < SIGNIFICANT

    @property
    def outside(self) -> np.ndarray:
        """(b,) bool, parameters whose 95 % interval does not contain the true value."""
        return np.isfinite(self.deviation) & (self.deviation > BAND)

    def table(self, width: int = 46) -> str:
        """Return the table as text; ``*`` marks what is significant, ``!`` what is off."""
        lines = [
            f'    {"base parameter":{width}} {"true":>11} {"identified":>11} {"std":>9} '
            f'{"%std":>7} {"off by":>8}'
        ]
        for i, expression in enumerate(self.expressions):
            mark = '!' if self.outside[i] else '*' if self.significant[i] else ' '
            known = np.isfinite(self.std[i])
            spread = f'{self.std[i]:9.2g} {self.relative_std[i]:7.1f}' if known else f'{"-":>17}'
            off = f'{self.deviation[i]:4.1f} std' if known else ''
            lines.append(
                f'  {mark} {_short(expression, width):{width}} {self.true[i]:11.5f} '
                f'{self.identified[i]:11.5f} {spread} {off:>8}'
            )
        return '\n'.join(lines)


def compare(result: StoredResult, truth: Mapping[str, float]) -> TruthComparison:
    """Compare a result with true standard parameters by name; those not named are 0."""
    base = structure(
        build(result.robot, result.model), result.robot, grouping=result.model.grouping
    )
    values = np.array([truth.get(name, 0.0) for name in base.layout.names])
    standard = ParameterSet(base.layout, values)
    return TruthComparison(
        expressions=result.expressions,
        units=result.base.layout.units,
        true=base.project(standard).values,
        identified=result.base.values,
        std=result.base_std,
    )


@dataclass(frozen=True)
class MassComparison:
    """Identified masses of links (n,) against the true ones [kg]."""

    links: tuple[str, ...]
    prior: np.ndarray
    true: np.ndarray
    identified: np.ndarray
    std: np.ndarray

    @property
    def within(self) -> np.ndarray:
        """(n,) bool, links whose 95 % interval contains the true mass."""
        return np.asarray(np.abs(self.identified - self.true) <= BAND * self.std)

    def table(self) -> str:
        """Return the table as text; ``!`` marks intervals that do not contain the true mass."""
        lines = [
            f'    {"link":14} {"URDF kg":>10} {"true kg":>10} {"identified":>11} {"std":>9}'
            f'   {"95 % interval":^21}'
        ]
        rows = zip(self.links, self.prior, self.true, self.identified, self.std, self.within)
        for link, nominal, true, mass, std, within in rows:
            interval = f'{mass - BAND * std:8.3f} to {mass + BAND * std:8.3f}'
            lines.append(
                f'  {" " if within else "!"} {_short(link, 14):14} {nominal:10.3f} {true:10.3f} '
                f'{mass:11.3f} {std:9.3f}   {interval:^21}'
            )
        return '\n'.join(lines)


def compare_masses(result: StoredResult, truth: Mapping[str, float]) -> MassComparison:
    """Compare the masses of links of a result with the true standard parameters by name."""
    links = body_links(result.standard.layout)
    names = [f'{link}.m' for link in links]
    places = result.standard.layout.indices(names)
    return MassComparison(
        links=links,
        prior=result.prior.values[places],
        true=np.array([truth[name] for name in names]),
        identified=result.standard.values[places],
        std=result.standard_std[places],
    )


def _short(text: str, width: int) -> str:
    return text if len(text) <= width else f'{text[: width - 3]}...'
