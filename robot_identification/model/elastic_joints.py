# SPDX-License-Identifier: Apache-2.0
"""Settings of the motors of a robot with elastic joints."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..errors import one_of, SettingsError
from ..options.fields import option

MOTOR_POSITIONS = ('reduced', 'motor')
"""What the recorded position of a motor is: divided by the gear ratio, or as the motor turns."""

_KEY = 'robot.elastic'


@dataclass(frozen=True)
class ElasticJoints:
    """
    Elastic transmissions between the motors and the joints, one for each joint.

    The state of a robot with n joints has 2n entries then: the positions q of the links and the
    positions theta of the motors, reduced to the joints.  A motor turns by ``k_i theta_i`` where
    k_i is its gear ratio, and ``q_i - theta_i`` is what the transmission is twisted by.  Efforts
    of the motors are reduced likewise: the motor's own torque times k_i.

    Raises
    ------
    SettingsError
        where a gear ratio is 0, an axis has no direction, or a motor is named twice.

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
        doc='What the recorded positions and velocities of the motors are: reduced, divided by '
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
                raise SettingsError(
                    f"'{_KEY}.motors' names '{motor}' twice",
                    key=f'{_KEY}.motors',
                    value=motor,
                    remedy='give each motor a name of its own',
                )
        for ratio in self.gear_ratios:
            if not np.isfinite(ratio) or ratio == 0.0:
                raise SettingsError(
                    f"'{_KEY}.gear_ratios' has {ratio:g}",
                    key=f'{_KEY}.gear_ratios',
                    value=ratio,
                    remedy='give the turns of the motor for one turn of its joint',
                )
        for axis in self.rotor_axes:
            if np.shape(axis) != (3,) or not 0.0 < np.linalg.norm(axis) < np.inf:
                raise SettingsError(
                    f"'{_KEY}.rotor_axes' has {list(axis)}",
                    key=f'{_KEY}.rotor_axes',
                    value=axis,
                    remedy='give three numbers, not all of them 0',
                )
        if self.motor_position not in MOTOR_POSITIONS:
            raise SettingsError(
                f"'{_KEY}.motor_position' is '{self.motor_position}'",
                key=f'{_KEY}.motor_position',
                value=self.motor_position,
                remedy=f'it has to be one of {one_of(MOTOR_POSITIONS)}',
            )

    def motor_names(self, joints: tuple[str, ...]) -> tuple[str, ...]:
        """
        Names of the motors of ``joints``, (n_joints,).

        Raises
        ------
        SettingsError
            where their number is wrong, or a motor has the name of a joint.

        """
        names = self.motors or tuple(f'{joint}_motor' for joint in joints)
        self._require_one_each('motors', names, joints)
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
        Gear ratios of ``joints``, (n_joints,) [rad/rad, or rad/m].

        Raises
        ------
        SettingsError
            where there is not one for each joint.

        """
        self._require_one_each('gear_ratios', self.gear_ratios or joints, joints)
        return np.array(self.gear_ratios or np.ones(len(joints)), dtype=float)

    def position_scale(self, joints: tuple[str, ...]) -> np.ndarray:
        """
        Factors from recorded motor positions and velocities to reduced ones, (n_joints,).

        They are 1 where the recording has reduced positions, 1 / k_i where it has the motors' own.
        """
        ratios = self.ratios(joints)
        return 1.0 / ratios if self.motor_position == 'motor' else np.ones_like(ratios)

    def stator(self, place: int, joints: tuple[str, ...]) -> str | None:
        """Link that the motor of joint number ``place`` is mounted on, None for the default."""
        self._require_one_each('stators', self.stators or joints, joints)
        return self.stators[place] if self.stators else None

    def rotor_axis(self, place: int, joints: tuple[str, ...]) -> np.ndarray | None:
        """(3,) unit axis of the rotor of joint number ``place``, None for the default."""
        self._require_one_each('rotor_axes', self.rotor_axes or joints, joints)
        if not self.rotor_axes:
            return None
        axis = np.array(self.rotor_axes[place])
        return axis / np.linalg.norm(axis)

    @staticmethod
    def _require_one_each(name: str, values: tuple, joints: tuple[str, ...]) -> None:
        if len(values) != len(joints):
            raise SettingsError(
                f"'{_KEY}.{name}' has {len(values)} entries for {len(joints)} joints",
                key=f'{_KEY}.{name}',
                value=values,
                remedy=f'give one for each of {one_of(joints)}',
            )
