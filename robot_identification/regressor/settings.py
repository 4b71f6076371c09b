# SPDX-License-Identifier: Apache-2.0
"""Settings of the model beside rigid bodies: friction, rotor inertia, coupled drives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

from ..errors import one_of, SettingsError
from ..model.friction import FRICTION, SLOPES
from ..model.mechanisms import (
    ContactSettings,
    DeltaSettings,
    ElasticJoints,
    ImuSettings,
    LoopSettings,
)
from ..options.fields import option
from ..version import page

COUPLED_INERTIA = ('separate', 'tied')
"""Whether a coupled motor's inertia is a parameter of its own or its joint's ``Ia``."""


BASES = ('fixed', 'floating')
"""Bases of robots: on the ground, or carried by contacts that come and go."""

GROUPINGS = ('preferred', 'echelon')
"""Ways to choose which parameters stand for the base parameters."""


@dataclass(frozen=True)
class CoupledDrive:
    """
    A motor that turns with several joints, such as the last motor of many wrists.

    The motor's speed, seen at the joints, is ``w = sum_k ratio_k dq_k`` over the coupled joints,
    and its torque appears on each of them ``ratio_k`` times.  See Gautier and Venture (2013),
    section IV, where motor 6 of a Staubli TX-40 turns with joints 5 and 6.

    Raises
    ------
    SettingsError
        if the motor's joint is not among the coupled ones, a joint is named twice, fewer than
        two are named, or the ratios do not fit them.

    """

    motor: str = option(doc='Joint that the motor belongs to; it names the parameters')
    joints: tuple[str, ...] = option(doc='Joints that the motor turns with, its own among them')
    inertia: str = option(
        'separate',
        doc='Kind of the coupling inertia: separate, a parameter of its own (Iam); tied, the '
        "rotor inertia Ia of the motor's own joint",
        choices=COUPLED_INERTIA,
    )
    ratios: tuple[float, ...] = option(
        (),
        doc='Speed of the motor for a unit speed of each of the joints; empty: 1 for all of them',
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, 'joints', tuple(self.joints))
        ratios = tuple(float(ratio) for ratio in self.ratios) or (1.0,) * len(self.joints)
        object.__setattr__(self, 'ratios', ratios)
        drive = f"the coupled drive of '{self.motor}'"
        if self.inertia not in COUPLED_INERTIA:
            raise self._error(
                f"inertia of {drive} is '{self.inertia}'",
                self.inertia,
                f'it has to be one of {one_of(COUPLED_INERTIA)}',
            )
        if len(set(self.joints)) != len(self.joints) or len(self.joints) < 2:
            problem = f'{drive} turns with {list(self.joints)}'
            raise self._error(problem, self.joints, 'name two or more different joints')
        if self.motor not in self.joints:
            problem = f"motor '{self.motor}' of a coupled drive is not among its joints"
            raise self._error(problem, self.joints, f'name it beside {one_of(self.joints)}')
        if len(ratios) != len(self.joints) or 0.0 in ratios:
            raise self._error(
                f'{drive} has the ratios {list(ratios)}',
                ratios,
                f'give one ratio other than 0 for each of its {len(self.joints)} joints',
            )

    def _error(self, problem: str, value: object, remedy: str) -> SettingsError:
        return SettingsError(
            problem, joint=self.motor, key='coupled_drives', value=value, remedy=remedy
        )


@dataclass(frozen=True)
class ModelSettings:
    """
    Settings of the terms of a model beside its rigid bodies.

    Raises
    ------
    SettingsError
        if a friction term is unknown or named twice, stiction stands beside Coulomb friction,
        a slope is not positive, or two coupled drives have the same motor.

    """

    friction: tuple[str, ...] = option(
        ('viscous', 'coulomb', 'offset'),
        doc='Friction terms of every joint: '
        + ', '.join(f'{term.name} ({term.formula})' for term in FRICTION.values()),
        choices=tuple(FRICTION),
    )
    rotor_inertia: bool = option(
        True, doc='Whether every joint has a rotor inertia Ia, as seen at the joint'
    )
    coupled_drives: tuple[CoupledDrive, ...] = option(
        (), doc='Motors that turn with several joints'
    )
    elastic: ElasticJoints | None = option(
        None,
        doc='The motors of a robot with elastic joints, which are recorded, too; the friction '
        'terms are theirs; null for stiff joints',
    )
    stiction_slope: float | tuple[float, ...] | None = option(
        None,
        doc='How steeply stiction rises with the velocity; one number, or one a joint; null finds '
        'the slope that fits the recordings best',
        unit='s/rad or s/m',
    )
    stribeck_slope: float | tuple[float, ...] | None = option(
        None,
        doc='How steeply stribeck rises with the velocity, less than stiction; one number, or '
        'one a joint; null finds the slope that fits the recordings best',
        unit='s/rad or s/m',
    )
    breakaway: float | tuple[float, ...] = option(
        0.0,
        doc='Displacement within which dry friction (coulomb, load) turns from one direction to '
        'the other, so that it holds at rest (Dahl); 0 for the sign of the velocity; one number, '
        'or one a joint',
        unit='rad or m',
        minimum=0.0,
        maximum=1.0,
    )
    reversal_speed: float | tuple[float, ...] = option(
        0.0,
        doc='Speed up to which dry friction (coulomb, load, root) rises in proportion to it, so '
        'that predictions at rest do not chatter; 0 for the sign of the velocity; one number, or '
        'one a joint; a joint with a breakaway displacement has that in its place',
        unit='rad/s or m/s',
        minimum=0.0,
        maximum=1e3,
    )
    joint_springs: tuple[str, ...] = option(
        (),
        doc='Joints at which springs, cables or counterweights pull: each has an effort '
        'kc cos q + ks sin q of its position',
    )
    grouping: str = option(
        'preferred',
        doc='Which parameters the base parameters are named after: preferred groups masses and '
        'what else can go there with the links before; echelon takes columns from left to right '
        'as the reduced row echelon form does',
        choices=GROUPINGS,
    )
    loops: tuple[LoopSettings, ...] = option(
        (),
        doc='Joints that close loops of links; all moving joints that are neither identified nor '
        'locked are then passive: they follow from the loops',
    )
    assembly: Mapping[str, float] = option(
        factory=dict,
        doc='Joint positions at which the loops are closed, or nearly: passive ones are corrected '
        'until they are, and select the branch of the assembly; 0 where none is given',
        unit='rad or m',
    )
    passive_viscous: bool = option(
        False, doc='Whether every passive joint has viscous friction fv dq'
    )
    base: str = option(
        'fixed',
        doc='Whether the root link stands still (fixed) or is carried by contacts, as that of '
        f'legged robots (floating, {page("how_to/on_its_feet")})',
        choices=BASES,
    )
    contacts: tuple[ContactSettings, ...] = option(
        (), doc='Where a floating-base robot can touch its surroundings'
    )
    imu: ImuSettings = option(factory=ImuSettings, doc='Place of the IMU of a floating-base robot')
    delta: DeltaSettings | None = option(
        None,
        doc='Geometry of a delta robot, in place of urdf and loops: its model has four parameters '
        'an arm (J, mr, fv, fc) and m4; null for other robots',
    )

    def __post_init__(self) -> None:
        for name in ('friction', 'loops', 'coupled_drives', 'joint_springs', 'contacts'):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        for name in ('breakaway', 'reversal_speed', *SLOPES.values()):
            value = getattr(self, name)
            if value is not None:
                one = isinstance(value, (int, float))
                value = float(value) if one else tuple(float(v) for v in value)
                object.__setattr__(self, name, value)
        for key, value, problem, remedy in self._faults():
            joint = value if key == 'coupled_drives' and isinstance(value, str) else None
            raise SettingsError(problem, joint=joint, key=key, value=value, remedy=remedy)

    def _faults(self) -> Iterator[tuple[str, Any, str, str]]:
        """Iterate over key, value, problem and remedy of what is wrong."""
        for term in self.friction:
            if term not in FRICTION or self.friction.count(term) > 1:
                fault = 'unknown' if term not in FRICTION else 'named twice'
                remedy = f'name each of {one_of(FRICTION)} once at most'
                yield 'friction', term, f"friction term '{term}' is {fault}", remedy
        if {'coulomb', 'stiction'} <= {*self.friction}:
            problem = "friction has both 'coulomb' and 'stiction', which no recording can separate"
            remedy = 'leave coulomb out: stiction is the same with a finite slope at rest'
            yield 'friction', self.friction, problem, remedy
        for key in SLOPES.values():
            value = getattr(self, key)
            each = (value,) if isinstance(value, float) else value
            if each is not None and not (each and all(0.0 < v < inf for v in each)):
                remedy = 'give a positive number, one for each joint, or null to have it found'
                yield key, value, f"'{key}' is {value}", remedy
        springs, leave = self.joint_springs, 'leave one of them out'
        if len(set(springs)) < len(springs):
            remedy = 'name each joint once at most'
            yield 'joint_springs', springs, 'joint_springs names a joint twice', remedy
        if springs and self.elastic is not None:
            problem = 'the model has elastic joints and joint_springs'
            yield 'joint_springs', springs, problem, leave
        kinds = {'elastic': self.elastic, 'loops': self.loops, 'delta': self.delta}
        given = [key for key, value in kinds.items() if value]
        given += [] if self.base == 'fixed' else ['base']
        if len(given) > 1:
            yield given[1], None, f"'{given[0]}' and '{given[1]}' are given together", leave
        names = [loop.name for loop in self.loops]
        for name in names:
            if names.count(name) > 1:
                yield (
                    'loops',
                    name,
                    f"two loops are called '{name}'",
                    'give each a name of its own',
                )
        if self.passive_viscous and not self.loops:
            problem = "'passive_viscous' is true, but there are no loops, and so no passive joints"
            yield 'passive_viscous', None, problem, 'declare the loops, or leave it out'
        if self.delta is not None and self.coupled_drives:
            remedy = 'leave them out, or describe the robot by urdf and loops'
            yield 'coupled_drives', None, 'a delta robot has coupled drives', remedy
        motors = [drive.motor for drive in self.coupled_drives]
        for motor in motors:
            if motors.count(motor) > 1:
                problem = f"motor '{motor}' has two coupled drives"
                yield 'coupled_drives', motor, problem, 'describe it once'
