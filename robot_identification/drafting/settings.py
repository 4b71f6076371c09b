# SPDX-License-Identifier: Apache-2.0
"""Facts on recordings that are given to a draft, and what an experiment file has of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..data.column_names import ColumnGuess
from ..data.drives import Drives, EffortDrive, PositionDrive
from ..diagnosis.recording_faults import revolute
from ..errors import SettingsError
from ..model.robot import Robot
from ..model.urdf_repair import robot_with_inertia

EARTH_GRAVITY = (0.0, 0.0, -9.81)
"""Gravity in the base frame of a robot that stands upright [m/s^2]."""


@dataclass(frozen=True, kw_only=True)
class DraftSettings:
    """
    Facts on recordings that the files do not contain.

    Attributes
    ----------
    effort_kind:
        One of `robot_identification.data.drives.EFFORT_KINDS`; None if it is not known yet.
    rate:
        Sampling rate of tables without a time column [Hz].
    gear_ratios:
        (n_joints,) turns of the motor by turn of the joint, of data recorded at the motors; of a
        joint that slides, recorded positions by metre (rad by metre with ``ticks``).
    position_offsets:
        (n_joints,) positions of the joints where the recorded ones are 0 [rad or m].
    gains:
        (n_joints,) effort at the joint by recorded effort, for example [N m/A].
    degrees:
        True if positions of joints that turn are in degrees.
    ticks:
        Ticks of the encoders by turn, of positions in ticks; None for rad.
    target:
        One of `robot_identification.model.targets.TARGETS`, whose terms alone are estimated; None
        for any.
    gravity:
        (3,) acceleration of free fall in the base frame [m/s^2].
    xacro_arguments:
        Arguments for a xacro file.
    columns:
        Columns of tables by their files as they are named, in place of what is recognised.
    kp, kd:
        Gains of position servos whose commands were recorded, one or one a joint; None for those
        in the first recording [N m/rad, N m s/rad].
    timestep:
        Step of the simulator that parameters of servos are for [s]; None for that of an MJCF, or
        for no simulator.
    floating:
        True if the robot stands on its feet; recognised otherwise.
    tool:
        True if the recordings have wrenches of the tool that is identified.

    """

    effort_kind: str | None = None
    rate: float | None = None
    gear_ratios: tuple[float, ...] | None = None
    position_offsets: tuple[float, ...] | None = None
    gains: tuple[float, ...] | None = None
    degrees: bool = False
    ticks: float | None = None
    target: str | None = None
    gravity: tuple[float, ...] = EARTH_GRAVITY
    xacro_arguments: Mapping[str, str] = field(default_factory=dict)
    columns: Mapping[str, ColumnGuess] = field(default_factory=dict)
    kp: tuple[float, ...] | None = None
    kd: tuple[float, ...] | None = None
    timestep: float | None = None
    floating: bool = False
    tool: bool = False

    def robot(
        self,
        urdf: Path,
        joints: Sequence[str] | None = None,
        locked: Mapping[str, float] | None = None,
    ) -> Robot:
        """Read the robot of a file; raises ModelError as `robot_with_inertia`."""
        return robot_with_inertia(
            str(urdf),
            joints,
            locked=locked,
            gravity=self.gravity,
            xacro_arguments=self.xacro_arguments,
        )


_LISTS = ('gear_ratios', 'position_offsets', 'gains', 'gravity', 'kp', 'kd')
_NUMBERS = ('rate', 'ticks', 'timestep')
"""Facts that are lists of numbers, and numbers above 0."""


def stated(facts: Mapping[str, Any]) -> DraftSettings:
    """
    Return the settings of a draft by texts, as the options of `init` take them.

    Parameters
    ----------
    facts:
        By name; lists are numbers apart by spaces or commas, and what is empty is left out.

    Raises
    ------
    SettingsError
        naming the option whose text is wrong.

    """
    values: dict[str, Any] = {}
    for name, text in facts.items():
        if not text:
            continue
        option = f'--{name.replace("_", "-")}'
        try:
            if name in _LISTS:
                values[name] = tuple(map(float, text.replace(',', ' ').split()))
            else:
                values[name] = float(text) if name in _NUMBERS else text
        except ValueError:
            what = 'numbers' if name in _LISTS else 'a number'
            raise SettingsError(
                f"'{option} {text}' is not {what}", value=text, remedy='for example 32'
            ) from None
        if name in _NUMBERS and not values[name] > 0.0:
            raise SettingsError(f"'{option} {text}' is not above 0", value=text)
    if len(values.get('gravity', EARTH_GRAVITY)) != 3:
        raise SettingsError(
            "'--gravity' has not three numbers", value=values['gravity'], remedy='give x, y and z'
        )
    return DraftSettings(**values)


def as_text(value: Any) -> str:
    """Return a fact as a text that `stated` takes."""
    return value if isinstance(value, str) else ' '.join(f'{number:g}' for number in value)


def check_settings(settings: DraftSettings, joints: tuple[str, ...]) -> None:
    """Require settings that fit the joints and each other; raises SettingsError."""
    for name in ('gear_ratios', 'position_offsets', 'gains'):
        given = getattr(settings, name)
        zero = given is not None and name != 'position_offsets' and 0.0 in given
        if given is not None and (len(given) != len(joints) or zero):
            text = f'has {len(given)} numbers for {len(joints)} joints'
            text += ', one of them 0' if zero else ''
            remedy = 'give one number a joint, in the order of the URDF'
            message = f"'--{name.replace('_', '-')}' {text}"
            raise SettingsError(message, value=given, remedy=remedy)
    if settings.degrees and settings.ticks is not None:
        raise SettingsError(
            "'--degrees' and '--ticks' are both given", remedy='give the one that positions have'
        )
    if settings.effort_kind == 'motor_torque' and not (settings.gear_ratios or settings.gains):
        raise SettingsError(
            "'--effort-kind motor_torque' needs the gear ratios",
            remedy='give --gear-ratios, or --gains where positions are those of the joints',
        )


def of_joints(settings: DraftSettings, chosen: Sequence[int]) -> DraftSettings:
    """Return the settings of chosen joints."""
    names = ('gear_ratios', 'position_offsets', 'gains')
    given: dict[str, Any] = {name: getattr(settings, name) for name in names}
    for name, values in given.items():
        given[name] = None if values is None else tuple(values[j] for j in chosen)
    return replace(settings, **given)


def position_drives(
    settings: DraftSettings, joints: tuple[str, ...], robot: Robot
) -> Drives | None:
    """Return the map from recorded positions to those of joints of a robot; None for none."""
    drives = drafted_drives(replace(settings, gains=None), joints, robot)
    return None if drives is None else Drives(drives.position)


def effort_gains(settings: DraftSettings, n_joints: int) -> np.ndarray:
    """Return (n_joints,) efforts at the joints by recorded ones; 1 for unknown."""
    ratios = np.array(settings.gear_ratios or np.ones(n_joints))
    by_ratio = settings.effort_kind == 'motor_torque' or settings.gains is None
    return np.array(settings.gains or np.ones(n_joints)) * (ratios if by_ratio else 1.0)


def drafted_drives(
    settings: DraftSettings, joints: tuple[str, ...], robot: Robot
) -> Drives | None:
    """Return the map from recorded signals to joints of a robot; None if there is none."""
    n_joints = len(joints)
    ratios = np.array(settings.gear_ratios or np.ones(n_joints))
    unit = 1.0 if settings.ticks is None else 2.0 * np.pi / settings.ticks
    scale = np.full(n_joints, unit) / ratios
    if settings.degrees:
        turning = dict(zip(robot.joints, revolute(robot), strict=True))
        scale[[turning[joint] for joint in joints]] *= np.radians(1.0)
    gains = effort_gains(settings, n_joints)
    offset = settings.position_offsets
    mapped = (scale != 1.0).any() or offset is not None
    position = PositionDrive(_diagonal(scale), offset) if mapped else None
    known = settings.gains is not None or settings.effort_kind == 'motor_torque'
    effort = EffortDrive(_diagonal(gains)) if known else None
    return None if position is None and effort is None else Drives(position, effort)


def _diagonal(values: np.ndarray) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(row) for row in np.diag(values).tolist())
