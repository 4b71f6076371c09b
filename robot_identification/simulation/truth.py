# SPDX-License-Identifier: Apache-2.0
"""
Settings and true parameters of a simulated robot: drives, deviation from its URDF, measurement.

The truth is the URDF's, as bodies differ from their drawings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ..errors import ModelError, SettingsError
from ..model.consistency import from_pseudo_inertia, inertia_at_com, pseudo_inertia
from ..model.friction import DRY, FRICTION, POSITIVE, SMOOTH
from ..model.parameters import ParameterSet
from ..model.robot import Robot
from ..options.fields import option, with_fields
from ..regressor import ElasticJoints, ModelSettings, prior
from ..regressor.joint_terms import slopes_of
from ..regressor.rigid import tree_of

_FURTHER = tuple(
    name
    for name, term in FRICTION.items()
    if name not in ('viscous', 'coulomb') and term.kind in (SMOOTH, DRY)
)

_SPRINGS = {'kc': 'spring_cosine', 'ks': 'spring_sine'}

ROTOR_ACCELERATION = 500.0
"""Acceleration at which a default rotor takes the whole effort limit [rad/s^2]."""

_fixed = partial(option, read_only=True)


def _per_joint(
    doc: str, minimum: float | None = 0.0, default: tuple[float, ...] = (), **limits: Any
) -> Any:
    """Return an option of one number a joint, or one for all joints."""
    return _fixed(default, doc=doc, minimum=minimum, **limits)


@dataclass(frozen=True)
@with_fields(
    {
        name: (
            tuple[float, ...],
            _per_joint(
                f'True {term.title}; empty: none',
                unit=term.units[0],
                minimum=0.0 if term.sign == POSITIVE else None,
            ),
        )
        for name, term in FRICTION.items()
    }
)
class SimulationSettings:
    """
    Drive, truth and measurement of a simulated robot.

    Lists of one number a joint may also hold one number for all joints, or none at all for the
    default that their description names.

    Raises
    ------
    SettingsError
        if the servo's rate is not a whole multiple of the rate of the joint states.

    """

    rate: float = _fixed(
        1000.0,
        doc='Rate of the joint states; servo_rate divided by a whole number',
        unit='Hz',
        minimum=1.0,
        maximum=10000.0,
    )
    servo_rate: float = _fixed(
        1000.0,
        doc="Rate of the drives' servo, which holds the effort in between",
        unit='Hz',
        minimum=100.0,
        maximum=10000.0,
    )
    substeps: int = _fixed(
        1,
        doc="Steps of the physics in a servo period; one of a millisecond is exact to the servo's "
        'own resolution',
        minimum=1,
        maximum=100,
    )
    bandwidth: float = _fixed(
        20.0,
        doc='Bandwidth of the servo: computed torque with the URDF as its model',
        unit='Hz',
        minimum=0.1,
        maximum=200.0,
    )
    damping: float = _fixed(0.8, doc='Damping ratio of the servo', minimum=0.1, maximum=5.0)
    seed: int = _fixed(
        1,
        doc='Seed of everything random: how the truth differs from the URDF, and the noise',
        minimum=0,
    )
    perturbation: float = _fixed(
        0.1,
        doc='How far the true inertial parameters are from the URDF (relative standard deviation '
        "of a body's stretch along each direction, of its mass, and, in radii of gyration, of "
        'its centre of mass)',
        minimum=0.0,
        maximum=0.5,
    )
    friction_perturbation: float = _fixed(
        0.2,
        doc='How far the true friction is from the URDF (relative standard deviation)',
        minimum=0.0,
        maximum=1.0,
    )
    rotor_inertia: tuple[float, ...] = _per_joint(
        'True rotor inertia as seen at the joint; empty: what the effort limit can accelerate '
        'at 500 rad/s^2',
        unit='kg m^2',
    )
    viscous: tuple[float, ...] = _per_joint(
        "True viscous friction; empty: the URDF's damping, perturbed", unit='N m s/rad'
    )
    coulomb: tuple[float, ...] = _per_joint(
        "True Coulomb friction; empty: the URDF's friction, perturbed", unit='N m'
    )
    stiction: tuple[float, ...] = _per_joint(
        'True stiction ts, in place of Coulomb friction; empty: Coulomb friction applies',
        unit='N m',
    )
    stribeck: tuple[float, ...] = _per_joint(
        'True Stribeck friction tsc, mostly negative: Coulomb friction less stiction; empty: none',
        unit='N m',
        minimum=None,
    )
    stiction_slope: tuple[float, ...] = _per_joint(
        'True slope of stiction', unit='s/rad', minimum=0.001, default=(100.0,)
    )
    stribeck_slope: tuple[float, ...] = _per_joint(
        'True slope of Stribeck friction, less than that of stiction',
        unit='s/rad',
        minimum=0.001,
        default=(5.0,),
    )
    root: tuple[float, ...] = _per_joint(
        'True friction fr by the cube root of the speed; empty: none', unit='N m (s/rad)^(1/3)'
    )
    load: tuple[float, ...] = _per_joint(
        "True friction fl by load, a share of the effort of the URDF's bodies; empty: none",
        maximum=0.9,
    )
    breakaway: tuple[float, ...] = _per_joint(
        'True displacement within which dry friction (coulomb, load) turns from one direction '
        'to the other (Dahl); empty, or 0: it has the sign of the velocity, and sticks',
        unit='rad',
        maximum=1.0,
    )
    spring_cosine: tuple[float, ...] = _per_joint(
        'True effort kc of springs by the cosine of the position; empty: none',
        unit='N m',
        minimum=None,
    )
    spring_sine: tuple[float, ...] = _per_joint(
        'True effort ks of springs by the sine of the position; empty: none',
        unit='N m',
        minimum=None,
    )
    offset: tuple[float, ...] = _per_joint(
        'True offset of the friction; empty: random, with friction_perturbation times the '
        'Coulomb friction as standard deviation',
        unit='N m',
        minimum=None,
    )
    elastic: ElasticJoints | None = _fixed(
        None,
        doc='The motors of a robot with elastic joints, whose friction and rotor inertia are then '
        'the ones given here; null for stiff joints',
    )
    stiffness: tuple[float, ...] = _per_joint(
        'True stiffness of the transmissions of elastic joints',
        unit='N m/rad',
        minimum=1.0,
        default=(10000.0,),
    )
    transmission_damping: tuple[float, ...] = _per_joint(
        'True damping of the transmissions of elastic joints', unit='N m s/rad', default=(0.0,)
    )
    encoder_counts: float = _fixed(
        2.0**20,
        doc='Counts of the position encoders per revolution (per metre of a prismatic joint); 0 '
        'for no quantisation',
        minimum=0.0,
    )
    velocity_noise: float = _fixed(
        0.0,
        doc='Standard deviation of the noise on the measured velocity',
        unit='rad/s',
        minimum=0.0,
    )
    effort_noise: float = _fixed(
        0.002,
        doc='Standard deviation of the noise on the measured effort, relative to the effort limit',
        minimum=0.0,
        maximum=1.0,
    )
    effort_noise_std: tuple[float, ...] = _per_joint(
        'Standard deviation of the noise on the measured effort; empty: effort_noise applies',
        unit='N m',
    )
    effort_delay: float | tuple[float, ...] = _fixed(
        0.0,
        doc='How late the measured effort is behind position and velocity of the same stamp, in '
        'whole servo periods; one number, or one a joint',
        unit='s',
        minimum=0.0,
        maximum=1.0,
    )
    effort_low_pass: float | tuple[float, ...] = _fixed(
        0.0,
        doc='Cut-off frequency of the smoothing of the measured effort: two filters of order 1 in '
        'a row, which make it later by 1/(pi effort_low_pass), too; 0 for none; one number, or '
        'one a joint',
        unit='Hz',
        minimum=0.0,
        maximum=1e6,
    )
    base_tilt: tuple[float, float, float] = _fixed(
        (0.0, 0.0, 0.0),
        doc='True tilt of the base, a rotation vector of gravity that the servo does not model',
        unit='rad',
    )
    initial_position: tuple[float, ...] = _per_joint(
        'Joint positions at the start; empty: 0, or the nearest position within the limits',
        unit='rad',
        minimum=None,
    )

    def __post_init__(self) -> None:
        ratio = self.servo_rate / self.rate
        if ratio < 1.0 or abs(ratio - round(ratio)) > 1e-9:
            raise SettingsError(
                f'a rate of {self.rate:g} Hz does not divide the servo rate of '
                f'{self.servo_rate:g} Hz',
                key='rate',
                value=self.rate,
                remedy='choose the servo rate divided by a whole number',
            )

    @property
    def decimation(self) -> int:
        """Servo periods in one period of the joint states."""
        return round(self.servo_rate / self.rate)


@dataclass(frozen=True)
class SimulatedPayload:
    """A load at the last link, of small extent, while the robot runs."""

    mass: float = option(
        0.0, doc='Mass of a payload at the last link; 0 puts it down', unit='kg', minimum=0.0
    )
    position: tuple[float, float, float] = option(
        (0.0, 0.0, 0.0), doc="Where its centre of mass is, in the last link's frame", unit='m'
    )


@dataclass(frozen=True)
class Wear:
    """Change of the friction while the robot runs."""

    friction: tuple[float, ...] = option(
        (1.0,),
        doc='Factor of the true friction of each joint; one number for all of them',
        minimum=0.0,
    )


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
    for link in robot.carriers.links:
        perturbed = perturb(nominal.inertial(link), settings.perturbation, random)
        require_movable(perturbed, link)
        names = nominal.layout.names[nominal.layout.slice_of(link)]
        values.update(zip(names, perturbed, strict=True))
    joint_values = _friction(robot, settings, nominal, random)
    rotors = finite_effort(robot) / ROTOR_ACCELERATION
    joint_values['Ia'] = given(settings, robot, 'rotor_inertia', rotors)
    further = {FRICTION[name].symbol: name for name in _FURTHER}
    for symbol, key in {**further, **_SPRINGS}.items():
        entries = per_joint(getattr(settings, key), robot, key)
        if entries is not None:
            joint_values[symbol] = entries
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
    further = tuple(term for term in _FURTHER if getattr(settings, term))
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


def given(settings: SimulationSettings, robot: Robot, key: str, default: np.ndarray) -> np.ndarray:
    """Return a setting of one value a joint, (n_joints,); the default where it is empty."""
    found = per_joint(getattr(settings, key), robot, key)
    return default if found is None else found


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
    keys = {'k': 'stiffness'} | ({'d': 'transmission_damping'} if elastic.damping else {})
    for symbol, key in keys.items():
        entries = per_joint(getattr(settings, key), robot, key)
        if entries is None:
            raise SettingsError(
                f"'{key}' is empty", key=key, remedy='give one for every joint, or one for all'
            )
        owned.update({f'{j}.{symbol}': v for j, v in zip(robot.joints, entries, strict=True)})
    return owned


def finite_effort(robot: Robot) -> np.ndarray:
    """Return (n_joints,) effort limits, 0 for joints without."""
    return np.where(np.isfinite(robot.limits.effort), robot.limits.effort, 0.0)


def _friction(
    robot: Robot, settings: SimulationSettings, nominal: ParameterSet, random: np.random.Generator
) -> dict[str, np.ndarray]:
    # drawn in any case, so that giving one list does not change the others
    draws = settings.friction_perturbation * random.standard_normal((3, robot.n_joints))
    friction = {}
    dry = ('ts', 'stiction') if settings.stiction else ('fc', 'coulomb')
    for symbol, key, draw in (('fv', 'viscous', draws[0]), (*dry, draws[1])):
        guess = np.array([nominal[f'{joint}.{symbol}'] for joint in robot.joints])
        friction[symbol] = given(settings, robot, key, guess * np.exp(draw))
    friction['off'] = given(settings, robot, 'offset', friction[dry[0]] * draws[2])
    if settings.stiction:
        friction['tsc'] = given(settings, robot, 'stribeck', np.zeros(robot.n_joints))
    return friction
