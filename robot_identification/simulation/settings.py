# SPDX-License-Identifier: Apache-2.0
"""Settings of a simulated robot: drives, deviation from its URDF, and measurement."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import SettingsError
from ..options.fields import option
from ..regressor import ElasticJoints


@dataclass(frozen=True)
class SimulationSettings:
    """
    Drive, truth and measurement of a simulated robot.

    Lists of one number a joint may also hold one number for all joints, or none at all for the
    default that their description names.

    Raises
    ------
    SettingsError
        where the servo's rate is not a whole multiple of the rate of the joint states.

    """

    rate: float = option(
        1000.0,
        doc='Rate of the joint states; servo_rate divided by a whole number',
        unit='Hz',
        minimum=1.0,
        maximum=10000.0,
        read_only=True,
    )
    servo_rate: float = option(
        1000.0,
        doc="Rate of the drives' servo, which holds the effort in between",
        unit='Hz',
        minimum=100.0,
        maximum=10000.0,
        read_only=True,
    )
    substeps: int = option(
        1,
        doc="Steps of the physics in a servo period; one of a millisecond is exact to the servo's "
        'own resolution',
        minimum=1,
        maximum=100,
        read_only=True,
    )
    bandwidth: float = option(
        20.0,
        doc='Bandwidth of the servo: computed torque with the URDF as its model',
        unit='Hz',
        minimum=0.1,
        maximum=200.0,
        read_only=True,
    )
    damping: float = option(
        0.8, doc='Damping ratio of the servo', minimum=0.1, maximum=5.0, read_only=True
    )
    seed: int = option(
        1,
        doc='Seed of everything random: how the truth differs from the URDF, and the noise',
        minimum=0,
        read_only=True,
    )
    perturbation: float = option(
        0.1,
        doc='How far the true inertial parameters are from the URDF (relative standard deviation '
        "of a body's stretch along each direction, of its mass, and, in radii of gyration, of "
        'its centre of mass)',
        minimum=0.0,
        maximum=0.5,
        read_only=True,
    )
    friction_perturbation: float = option(
        0.2,
        doc='How far the true friction is from the URDF (relative standard deviation)',
        minimum=0.0,
        maximum=1.0,
        read_only=True,
    )
    rotor_inertia: tuple[float, ...] = option(
        (),
        doc='True rotor inertia as seen at the joint; empty: what the effort limit can accelerate '
        'at 500 rad/s^2',
        unit='kg m^2',
        minimum=0.0,
        read_only=True,
    )
    viscous: tuple[float, ...] = option(
        (),
        doc="True viscous friction; empty: the URDF's damping, perturbed",
        unit='N m s/rad',
        minimum=0.0,
        read_only=True,
    )
    coulomb: tuple[float, ...] = option(
        (),
        doc="True Coulomb friction; empty: the URDF's friction, perturbed",
        unit='N m',
        minimum=0.0,
        read_only=True,
    )
    stiction: tuple[float, ...] = option(
        (),
        doc='True stiction ts, in place of Coulomb friction; empty: Coulomb friction applies',
        unit='N m',
        minimum=0.0,
        read_only=True,
    )
    stribeck: tuple[float, ...] = option(
        (),
        doc='True Stribeck friction tsc, mostly negative: Coulomb friction less stiction; empty: '
        'none',
        unit='N m',
        read_only=True,
    )
    stiction_slope: tuple[float, ...] = option(
        (100.0,),
        doc='True slope of stiction',
        unit='s/rad',
        minimum=0.001,
        read_only=True,
    )
    stribeck_slope: tuple[float, ...] = option(
        (5.0,),
        doc='True slope of Stribeck friction, less than that of stiction',
        unit='s/rad',
        minimum=0.001,
        read_only=True,
    )
    offset: tuple[float, ...] = option(
        (),
        doc='True offset of the friction; empty: random, with friction_perturbation times the '
        'Coulomb friction as standard deviation',
        unit='N m',
        read_only=True,
    )
    elastic: ElasticJoints | None = option(
        None,
        doc='The motors of a robot with elastic joints, whose friction and rotor inertia are then '
        'the ones given here; null for stiff joints',
        read_only=True,
    )
    stiffness: tuple[float, ...] = option(
        (10000.0,),
        doc='True stiffness of the transmissions of elastic joints',
        unit='N m/rad',
        minimum=1.0,
        read_only=True,
    )
    transmission_damping: tuple[float, ...] = option(
        (0.0,),
        doc='True damping of the transmissions of elastic joints',
        unit='N m s/rad',
        minimum=0.0,
        read_only=True,
    )
    encoder_counts: float = option(
        2.0**20,
        doc='Counts of the position encoders per revolution (per metre of a prismatic joint); 0 '
        'for no quantisation',
        minimum=0.0,
        read_only=True,
    )
    velocity_noise: float = option(
        0.0,
        doc='Standard deviation of the noise on the measured velocity',
        unit='rad/s',
        minimum=0.0,
        read_only=True,
    )
    effort_noise: float = option(
        0.002,
        doc='Standard deviation of the noise on the measured effort, relative to the effort limit',
        minimum=0.0,
        maximum=1.0,
        read_only=True,
    )
    effort_noise_std: tuple[float, ...] = option(
        (),
        doc='Standard deviation of the noise on the measured effort; empty: effort_noise applies',
        unit='N m',
        minimum=0.0,
        read_only=True,
    )
    effort_delay: float = option(
        0.0,
        doc='How late the measured effort is behind position and velocity of the same stamp',
        unit='s',
        minimum=0.0,
        maximum=1.0,
        read_only=True,
    )
    initial_position: tuple[float, ...] = option(
        (),
        doc='Joint positions at the start; empty: 0, or the nearest position within the limits',
        unit='rad',
        read_only=True,
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
class Payload:
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
