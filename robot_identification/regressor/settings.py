# SPDX-License-Identifier: Apache-2.0
"""Settings of the model beside rigid bodies: friction, rotor inertia, coupled drives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

from ..errors import one_of, SettingsError
from ..model.mechanisms import DeltaSettings, ElasticJoints, LoopSettings
from ..options.fields import option

FRICTION_TERMS = ('viscous', 'coulomb', 'offset', 'stiction', 'stribeck', 'root', 'load')
"""Terms of the friction model, which is linear but for the slopes of the last two."""

SLOPES = {'stiction': 'stiction_slope', 'stribeck': 'stribeck_slope'}
"""Friction terms with a constant that shapes them, and the setting that gives it."""

COUPLED_INERTIA = ('separate', 'tied')
"""Whether a coupled motor's inertia is a parameter of its own or its joint's ``Ia``."""


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
        doc='Friction terms of every joint: viscous (fv dq), coulomb (fc sign dq), offset (off), '
        'stiction (ts 2/pi atan(stiction_slope dq), in place of coulomb), stribeck '
        '(tsc 2/pi atan(stribeck_slope dq)), root (fr |dq|^(1/3) sign dq, which grows less and '
        'less), load (fl |tau| sign dq, of gears under load; tau is the effort of the bodies of '
        'the URDF)',
        choices=FRICTION_TERMS,
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
    delta: DeltaSettings | None = option(
        None,
        doc='Geometry of a delta robot, in place of urdf and loops: its model has four parameters '
        'an arm (J, mr, fv, fc) and m4; null for other robots',
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, 'friction', tuple(self.friction))
        object.__setattr__(self, 'loops', tuple(self.loops))
        object.__setattr__(self, 'coupled_drives', tuple(self.coupled_drives))
        for term in self.friction:
            if term not in FRICTION_TERMS or self.friction.count(term) > 1:
                fault = 'unknown' if term not in FRICTION_TERMS else 'named twice'
                raise SettingsError(
                    f"friction term '{term}' is {fault}",
                    key='friction',
                    value=term,
                    remedy=f'name each of {one_of(FRICTION_TERMS)} once at most',
                )
        if {'coulomb', 'stiction'} <= {*self.friction}:
            raise SettingsError(
                "friction has both 'coulomb' and 'stiction', which no recording can separate",
                key='friction',
                value=self.friction,
                remedy='leave coulomb out: stiction is the same with a finite slope at rest',
            )
        if not isinstance(self.breakaway, (int, float)):
            object.__setattr__(self, 'breakaway', tuple(float(v) for v in self.breakaway))
        for key in SLOPES.values():
            self._check_slope(key)
        self._check_springs()
        self._check_mechanism()
        motors = [drive.motor for drive in self.coupled_drives]
        for motor in motors:
            if motors.count(motor) > 1:
                raise SettingsError(
                    f"motor '{motor}' has two coupled drives",
                    joint=motor,
                    key='coupled_drives',
                    remedy='describe it once',
                )

    def _check_springs(self) -> None:
        """Raise where a joint with a spring is named twice, or joints are elastic."""
        springs = tuple(self.joint_springs)
        object.__setattr__(self, 'joint_springs', springs)
        if len(set(springs)) < len(springs):
            raise SettingsError(
                'joint_springs names a joint twice',
                key='joint_springs',
                value=springs,
                remedy='name each joint once at most',
            )
        if springs and self.elastic is not None:
            raise SettingsError(
                'the model has elastic joints and joint_springs',
                key='joint_springs',
                value=springs,
                remedy='leave one of them out',
            )

    def _check_mechanism(self) -> None:
        """Raise where settings for robots of different kinds stand beside each other."""
        kinds = {'elastic': self.elastic, 'loops': self.loops or None, 'delta': self.delta}
        given = [key for key, value in kinds.items() if value is not None]
        if len(given) > 1:
            raise SettingsError(
                f"'{given[0]}' and '{given[1]}' are given together",
                key=given[1],
                remedy='leave one of them out',
            )
        names = [loop.name for loop in self.loops]
        for name in names:
            if names.count(name) > 1:
                raise SettingsError(
                    f"two loops are called '{name}'",
                    key='loops',
                    value=name,
                    remedy='give each a name of its own',
                )
        if self.passive_viscous and not self.loops:
            raise SettingsError(
                "'passive_viscous' is true, but there are no loops, and so no passive joints",
                key='passive_viscous',
                remedy='declare the loops, or leave it out',
            )
        if self.delta is not None and self.coupled_drives:
            raise SettingsError(
                'a delta robot has coupled drives',
                key='coupled_drives',
                remedy='leave them out, or describe the robot by urdf and loops',
            )

    def _check_slope(self, key: str) -> None:
        """Raise where a slope is not positive; make a list of them a tuple."""
        value = getattr(self, key)
        if value is None:
            return
        several = not isinstance(value, (int, float))
        values = tuple(float(v) for v in value) if several else (float(value),)
        if not values or not all(0.0 < v < inf for v in values):
            raise SettingsError(
                f"'{key}' is {value}",
                key=key,
                value=value,
                remedy='give a positive number, one for each joint, or null to have it found',
            )
        object.__setattr__(self, key, values if several else values[0])
