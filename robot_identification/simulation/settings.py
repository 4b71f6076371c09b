# SPDX-License-Identifier: Apache-2.0
"""Settings of a simulated robot: drives, deviation from its URDF, and measurement."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from ..errors import SettingsError
from ..options.fields import option
from ..regressor import ElasticJoints

_fixed = partial(option, read_only=True)


def _per_joint(
    doc: str, minimum: float | None = 0.0, default: tuple[float, ...] = (), **limits: Any
) -> Any:
    """Return an option of one number a joint, or one for all joints."""
    return _fixed(default, doc=doc, minimum=minimum, **limits)


@dataclass(frozen=True)
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
