# SPDX-License-Identifier: Apache-2.0
"""Settings of position servos and of the simulator that their parameters belong to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import SettingsError
from ..model.targets import TARGETS
from ..options.fields import key_error, option

SERVO_COMMAND = 'servo_command'
"""Kind of recordings that have commanded positions in place of efforts."""

INTEGRATORS = ('euler', 'rk4', 'implicit', 'implicitfast')
"""MuJoCo's integrators, in the order of its enumeration."""

FRICTION_STIFFNESS = 2.0
"""Time constant of the friction constraint in steps: the least that MuJoCo takes."""

ASSUMED = (0.001, 'implicitfast')
"""Step [s] and integrator of rollouts where no simulator is named."""

PerJoint = float | tuple[float, ...]


@dataclass(frozen=True)
class ServoSettings:
    """
    Settings of the position servos of a robot, and what is free in their model.

    The servo's effort is ``stiffness (command - position) + damping (command_velocity -
    velocity) + feedforward``, within the limit; commands act later than their stamps by one delay.
    """

    stiffness: PerJoint = option(
        doc='Proportional gain kp; one number, or one a joint',
        unit='N m/rad or N/m',
        minimum=1e-9,
    )
    damping: PerJoint = option(
        0.0,
        doc='Derivative gain kd; one number, or one a joint',
        unit='N m s/rad or N s/m',
        minimum=0.0,
    )
    limit: PerJoint | None = option(
        None,
        doc='Largest effort of the servo; one number, or one a joint; null for none',
        unit='N m or N',
        minimum=1e-9,
    )
    gains: str = option(
        'given',
        doc='Whether the gains are taken as given, or a factor on each is estimated (scale): that '
        'of damping only where velocities are commanded, since otherwise only the sum of damping '
        'and viscous friction acts',
        choices=('given', 'scale'),
    )
    bodies: str = option(
        'first_moments',
        doc='What is free of the links: the centre of mass of each, with a prior '
        '(first_moments), or nothing (given); masses are never free, since such recordings do not '
        'determine them',
        choices=('first_moments', 'given'),
    )
    center_of_mass_std: float = option(
        0.02,
        doc='Standard deviation of the prior of each coordinate of a centre of mass',
        unit='m',
        minimum=1e-6,
        maximum=10.0,
    )
    offset: bool = option(
        False, doc='Whether each joint has a constant effort beside gravity, such as a spring'
    )
    friction: str = option(
        'coulomb',
        doc='Coulomb friction of each joint: a constant (coulomb), or linear in the position '
        '(coulomb_by_position), which MJCF has no element for',
        choices=('coulomb', 'coulomb_by_position'),
    )
    play: str = option(
        'auto',
        doc='Whether joints have play between motor and measured position where it lowers the '
        'error of blocks from which it was not estimated (auto), or none; rollouts alone',
        choices=('auto', 'none'),
    )
    buses: tuple[tuple[str, ...], ...] | None = option(
        None,
        doc='Joints of each bus, whose commands have a delay of their own; null for one delay of '
        'all commands',
    )
    commands: str = option(
        'held',
        doc='How commands act between their stamps: held from one to the next, as a controller '
        'does, or interpolated, for recordings that were thinned below its rate; the delay then '
        'has an unknown share of the thinning',
        choices=('held', 'interpolated'),
    )

    def per_joint(self, name: str, joints: Sequence[str]) -> np.ndarray:
        """
        Return (n_joints,) values of a setting; no limit is an infinite one.

        Raises SettingsError if it has another number of them.
        """
        given = getattr(self, name)
        values = np.atleast_1d(np.asarray(np.inf if given is None else given, dtype=float))
        if values.size not in (1, len(joints)):
            remedy = f'give one number, or one for each of {", ".join(joints)}'
            text = f'has {values.size} numbers for {len(joints)} joints'
            raise key_error(f'robot.servo.{name}', text, remedy, value=given)
        return np.broadcast_to(values, (len(joints),)).copy()

    def bus_numbers(self, joints: Sequence[str]) -> np.ndarray:
        """
        Return (n_joints,) numbers of the joints' buses, from 0 in the order of the joints.

        Raises SettingsError unless every joint is in one bus.
        """
        buses = (tuple(joints),) if self.buses is None else self.buses
        named = [joint for bus in buses for joint in bus]
        for joint in (*joints, *named):
            count = named.count(joint)
            if count != 1 or joint not in joints:
                text = f"has joint '{joint}' {count} times"
                remedy = f'give each of {", ".join(joints)} once'
                raise key_error('robot.servo.buses', text, remedy, value=self.buses)
        in_order = sorted(filter(None, buses), key=lambda bus: min(map(joints.index, bus)))
        return np.array([[joint in bus for bus in in_order].index(True) for joint in joints])


@dataclass(frozen=True)
class SimulatorSettings:
    """Settings of the simulator that parameters are for; those of servos hold for its step."""

    target: str | None = option(
        None,
        doc='Simulator or description that parameters are for: terms that it lacks are not '
        'chosen by `auto`, and refused where they are asked for; null for any',
        choices=tuple(TARGETS),
    )
    timestep: float | None = option(
        None,
        doc='Step of the simulator; null for that of the MJCF, and for least squares alone where '
        'there is none',
        unit='s',
        minimum=1e-5,
        maximum=0.05,
    )
    integrator: str | None = option(
        None, doc="MuJoCo's integrator; null for that of the MJCF", choices=INTEGRATORS
    )

    @property
    def named(self) -> bool:
        """True if there is a simulator."""
        return (self.target, self.timestep, self.integrator) != (None, None, None)

    def step(self) -> tuple[float, str]:
        """Return step [s] and integrator; where no simulator is named, `ASSUMED`."""
        return self.require() if self.named else ASSUMED

    def require(self) -> tuple[float, str]:
        """Return step [s] and integrator; raises SettingsError for one that is not known."""
        for name in ('timestep', 'integrator'):
            if getattr(self, name) is None:
                raise SettingsError(
                    f"key 'simulation.{name}' is missing: parameters of a servo hold for one "
                    'step and integrator',
                    key=f'simulation.{name}',
                    remedy='give that of the simulator that the parameters are for',
                )
        return float(self.timestep or 0.0), str(self.integrator)
