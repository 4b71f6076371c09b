# SPDX-License-Identifier: Apache-2.0
"""Settings of closed loops, the delta robot, elastic joints, contacts and IMUs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..errors import one_of, SettingsError
from ..options.fields import option

LOOP_KINDS = ('ball', 'universal', 'revolute', 'rod')
"""
Constraints between the two links of a loop: a point; a point and two axes at right angles; a point
and a common axis; or a massless rod between two points.
"""

_WITH_AXES = ('universal', 'revolute')


@dataclass(frozen=True)
class LoopSettings:
    """
    A joint that closes a loop of the robot's links, where the URDF's tree was cut open.

    Raises
    ------
    SettingsError
        if the kind is unknown, or an axis or a length is missing, impossible or out of place.

    """

    name: str = option(doc='Its name in messages')
    link_a: str = option(doc='Link on one side')
    link_b: str = option(doc='Link on the other side; the base counts, too')
    kind: str = option(
        'ball',
        doc='Constraint between them: ball, two points coincide; universal, and two axes stay at '
        'right angles; revolute, and two axes stay parallel; rod, two points keep their distance',
        choices=LOOP_KINDS,
    )
    point_a: tuple[float, float, float] = option(
        (0.0, 0.0, 0.0), doc="Its place in the frame of link_a, the URDF's", unit='m'
    )
    point_b: tuple[float, float, float] = option(
        (0.0, 0.0, 0.0), doc='Its place in the frame of link_b', unit='m'
    )
    axis_a: tuple[float, float, float] | None = option(
        None, doc='Axis in the frame of link_a, for universal and revolute'
    )
    axis_b: tuple[float, float, float] | None = option(
        None, doc='Axis in the frame of link_b, for universal and revolute'
    )
    length: float | None = option(
        None, doc='Distance of the points, for rod', unit='m', minimum=0.0
    )

    def __post_init__(self) -> None:
        for name in ('point_a', 'point_b', 'axis_a', 'axis_b'):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, tuple(float(entry) for entry in value))
        if self.kind not in LOOP_KINDS:
            raise self._fault('kind', self.kind, f'it has to be one of {one_of(LOOP_KINDS)}')
        for name in ('axis_a', 'axis_b'):
            axis = getattr(self, name)
            if self.kind in _WITH_AXES and (axis is None or not np.any(axis)):
                raise self._fault(name, axis, f'a {self.kind} joint needs an axis on both links')
            if self.kind not in _WITH_AXES and axis is not None:
                raise self._fault(name, axis, f'a {self.kind} has no axis; leave it out')
        if self.kind == 'rod' and not (self.length or 0.0) > 0.0:
            raise self._fault('length', self.length, 'give the length of the rod, above 0')
        if self.kind != 'rod' and self.length is not None:
            raise self._fault('length', self.length, 'only a rod has one; leave it out')
        if self.link_a == self.link_b:
            raise self._fault('link_b', self.link_b, 'a loop needs two different links')

    def _fault(self, key: str, value: object, remedy: str) -> SettingsError:
        return SettingsError(
            f"{key} of loop '{self.name}' is {value!r}", key='loops', value=value, remedy=remedy
        )


@dataclass(frozen=True)
class DeltaSettings:
    """
    Geometry of a delta robot: three arms, forearms of parallel rods, a platform that translates.

    The axes of the arms lie level on a circle around the base's centre; an arm at 0 points level
    outwards and turns down for positive angles.

    Raises
    ------
    SettingsError
        if the forearms cannot reach from the arms to the platform, or two arms are at the same
        place.

    """

    base_radius: float = option(
        0.0,
        doc="Distance of the arms' axes from the base's centre",
        unit='m',
        minimum=0.0,
    )
    arm_length: float = option(
        0.0, doc='From the axis of an arm to its elbow; has to be given', unit='m'
    )
    forearm_length: float = option(
        0.0, doc='From the elbow to the platform; has to be given', unit='m'
    )
    platform_radius: float = option(
        0.0, doc="Distance of the forearms' ends from the platform's centre", unit='m', minimum=0.0
    )
    angles: tuple[float, float, float] = option(
        (0.0, 2 * np.pi / 3, 4 * np.pi / 3),
        doc='Direction of each arm around the vertical, in the order of the joints',
        unit='rad',
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, 'angles', tuple(float(angle) for angle in self.angles))
        for key, length in (
            ('arm_length', self.arm_length),
            ('forearm_length', self.forearm_length),
        ):
            if not length > 0.0:
                raise SettingsError(
                    f"'{key}' of the delta robot is {length:g}",
                    key=f'delta.{key}',
                    value=length,
                    remedy='give a length above 0',
                )
        directions = np.exp(1j * np.array(self.angles))
        if min(abs(directions - np.roll(directions, 1))) < 1e-3:
            raise SettingsError(
                f"'angles' of the delta robot are {list(self.angles)}",
                key='delta.angles',
                value=self.angles,
                remedy='two arms cannot have one direction',
            )
        if self.forearm_length <= abs(self.radius + self.arm_length):
            raise SettingsError(
                f'forearms of {self.forearm_length:g} m do not reach from arms of '
                f'{self.arm_length:g} m on a base that is {self.radius:g} m wider than the '
                'platform',
                key='delta.forearm_length',
                value=self.forearm_length,
                remedy='with level arms the forearms have to hang down to the platform',
            )

    @property
    def radius(self) -> float:
        """Radius of the base minus that of the platform [m]; the kinematics need only this."""
        return self.base_radius - self.platform_radius


MOTOR_POSITIONS = ('reduced', 'motor')
"""Kinds of recorded motor positions: divided by the gear ratio, or as the motor turns."""

_KEY = 'robot.elastic'


@dataclass(frozen=True)
class ElasticJoints:
    """
    Elastic transmissions between the motors and the joints, one for each joint.

    The state of a robot with n joints has 2n entries then: the positions q of the links and the
    positions theta of the motors, reduced to the joints.  A motor turns by ``k_i theta_i`` where
    k_i is its gear ratio, and ``q_i - theta_i`` is the twist of the transmission.  Efforts
    of the motors are reduced likewise: the motor's own torque times k_i.

    Raises
    ------
    SettingsError
        if a gear ratio is 0, an axis has no direction, or a motor is named twice.

    """

    motors: tuple[str, ...] = option(
        (),
        doc="Names of the motors' columns in the recordings, one for each joint; they name the "
        "motors' parameters, too; empty: the joints' names with _motor behind",
    )
    gear_ratios: tuple[float, ...] = option(
        (),
        doc='Turns of each motor for one turn of its joint, negative where it turns the other way '
        '(rad/m for a joint that slides); empty: 1 for all of them',
    )
    motor_position: str = option(
        'reduced',
        doc='Kind of the recorded positions and velocities of the motors: reduced, divided by '
        'the gear ratio already; motor, as the motors turn',
        choices=MOTOR_POSITIONS,
    )
    stators: tuple[str, ...] = option(
        (),
        doc='Link that each motor is mounted on; empty: for all of them the link before its joint',
    )
    rotor_axes: tuple[tuple[float, float, float], ...] = option(
        (),
        doc='Axis of each rotor in the frame of the link that it is mounted on; empty: for all of '
        "them the joint's own axis, as it stands at position 0",
    )
    coupling: bool = option(
        True,
        doc='Whether a rotor that spins acts on the links that carry it, and is acted on by them '
        '(gyroscopic terms); without, it feels its own spin alone',
    )
    damping: bool = option(
        False, doc='Whether the transmissions have a damping, too: d times the speed of the twist'
    )

    def __post_init__(self) -> None:
        for name in ('motors', 'gear_ratios', 'stators', 'rotor_axes'):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        for motor in self.motors:
            if self.motors.count(motor) > 1:
                remedy = 'give each motor a name of its own'
                raise _elastic_error('motors', f"names '{motor}' twice", motor, remedy)
        for ratio in self.gear_ratios:
            if not np.isfinite(ratio) or ratio == 0.0:
                remedy = 'give the turns of the motor for one turn of its joint'
                raise _elastic_error('gear_ratios', f'has {ratio:g}', ratio, remedy)
        for axis in self.rotor_axes:
            if np.shape(axis) != (3,) or not 0.0 < np.linalg.norm(axis) < np.inf:
                remedy = 'give three numbers, not all of them 0'
                raise _elastic_error('rotor_axes', f'has {list(axis)}', axis, remedy)
        if self.motor_position not in MOTOR_POSITIONS:
            kind, remedy = self.motor_position, f'it has to be one of {one_of(MOTOR_POSITIONS)}'
            raise _elastic_error('motor_position', f"is '{kind}'", kind, remedy)

    def motor_names(self, joints: tuple[str, ...]) -> tuple[str, ...]:
        """
        Return the names of the motors of ``joints``, (n_joints,).

        Raises SettingsError if their number is wrong, or a motor has the name of a joint.
        """
        names = self._one_each('motors', joints) or tuple(f'{joint}_motor' for joint in joints)
        for name in names:
            if name in joints:
                raise SettingsError(
                    f"motor '{name}' has the name of a joint",
                    joint=name,
                    key=f'{_KEY}.motors',
                    value=name,
                    remedy="name the motors' columns differently from the joints'",
                )
        return names

    def columns(self, joints: tuple[str, ...]) -> tuple[str, ...]:
        """Names of the 2n columns of a recording: the joints', then the motors'."""
        return (*joints, *self.motor_names(joints))

    def ratios(self, joints: tuple[str, ...]) -> np.ndarray:
        """
        Return the gear ratios of ``joints``, (n_joints,) [rad/rad, or rad/m].

        Raises SettingsError if there is not one for each joint.
        """
        return np.array(self._one_each('gear_ratios', joints) or np.ones(len(joints)), dtype=float)

    def position_scale(self, joints: tuple[str, ...]) -> np.ndarray:
        """
        Factors from recorded motor positions and velocities to reduced ones, (n_joints,).

        They are 1 where the recording has reduced positions, 1 / k_i where it has the motors' own.
        """
        ratios = self.ratios(joints)
        return 1.0 / ratios if self.motor_position == 'motor' else np.ones_like(ratios)

    def stator(self, place: int, joints: tuple[str, ...]) -> str | None:
        """Link that the motor of joint number ``place`` is mounted on, None for the default."""
        stators = self._one_each('stators', joints)
        return stators[place] if stators else None

    def rotor_axis(self, place: int, joints: tuple[str, ...]) -> np.ndarray | None:
        """(3,) unit axis of the rotor of joint number ``place``, None for the default."""
        axes = self._one_each('rotor_axes', joints)
        return np.array(axes[place]) / np.linalg.norm(axes[place]) if axes else None

    def _one_each(self, name: str, joints: tuple[str, ...]) -> tuple:
        """Return a setting that is empty or has one value a joint."""
        values: tuple = getattr(self, name)
        if values and len(values) != len(joints):
            problem = f'has {len(values)} entries for {len(joints)} joints'
            raise _elastic_error(name, problem, values, f'give one for each of {one_of(joints)}')
        return values


def _elastic_error(name: str, problem: str, value: object, remedy: str) -> SettingsError:
    key = f'{_KEY}.{name}'
    return SettingsError(f"'{key}' {problem}", key=key, value=value, remedy=remedy)


CONTACT_KINDS = ('point', 'sphere', 'flat')
"""Contacts: a point of a link; a ball that rolls on level ground; a sole that takes moments."""


@dataclass(frozen=True)
class ContactSettings:
    """
    A contact of a floating-base robot with its surroundings: a foot, a hand, a rope's end.

    Raises
    ------
    SettingsError
        if the kind is unknown, or radius or torsion do not fit it.

    """

    frame: str = option(
        doc='Link of the URDF whose origin is the contact (the centre of a sphere)'
    )
    kind: str = option(
        'point',
        doc='Kind of contact: point, a force at the origin; sphere, a force where a ball touches '
        'level ground; flat, a force and a moment',
        choices=CONTACT_KINDS,
    )
    radius: float = option(0.0, doc='Radius of the sphere', unit='m', minimum=0.0, maximum=10.0)
    sole: tuple[float, float] = option(
        (0.0, 0.0),
        doc='Half length and half width of a flat foot, within which plans keep the balance',
        unit='m',
    )
    torsion: bool = option(
        False,
        doc='Whether a point or sphere takes a moment about the normal of the ground, too, as '
        'soft feet and feet that stand on an area do',
    )

    def __post_init__(self) -> None:
        if self.kind not in CONTACT_KINDS:
            raise self._fault('kind', self.kind, f'it has to be one of {one_of(CONTACT_KINDS)}')
        if (self.kind == 'sphere') != (self.radius > 0.0):
            remedy = 'give a radius above 0 for a sphere, and only for that'
            raise self._fault('radius', self.radius, remedy)
        if self.torsion and self.kind == 'flat':
            remedy = 'leave it out: a flat contact takes all moments'
            raise self._fault('torsion', self.torsion, remedy)

    @property
    def components(self) -> int:
        """Number of components of its wrench."""
        return 6 if self.kind == 'flat' else 3 + self.torsion

    def _fault(self, key: str, value: object, remedy: str) -> SettingsError:
        text = f"'{key}' of the contact at '{self.frame}' is {value!r}"
        return SettingsError(
            text, link=self.frame, key=f'contacts.{key}', value=value, remedy=remedy
        )


@dataclass(frozen=True)
class ImuSettings:
    """Place of the IMU on the root link of a floating-base robot."""

    frame: str | None = option(
        None, doc="Link of the URDF that is the IMU's frame; null for the root link's own"
    )
    xyz: tuple[float, float, float] = option(
        (0.0, 0.0, 0.0), doc='Its origin in that frame', unit='m'
    )
    rpy: tuple[float, float, float] = option(
        (0.0, 0.0, 0.0), doc='Its axes in that frame: roll, pitch and yaw', unit='rad'
    )
