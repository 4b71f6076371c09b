# SPDX-License-Identifier: Apache-2.0
"""Limits that a motion has to keep: those of the URDF or the settings, less the margin."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..errors import ExcitationError
from ..model.robot import Robot
from ..model.robot_size import other_unit, RobotSize
from .settings import PlannerSettings

CONTINUOUS_RANGE = np.pi
"""How far from its start a plan lets a joint without position limits move [rad]."""


@dataclass(frozen=True)
class Limits:
    """
    Limits of a robot's joints; infinite where there is none.

    Attributes
    ----------
    joints:
        Names of the joints.
    units:
        ``rad`` or ``m`` for each joint.
    lower, upper:
        (n_joints,) position [rad or m].
    velocity, acceleration:
        (n_joints,) [rad/s, rad/s^2; m/s, m/s^2].
    effort:
        (n_joints,) [N m or N].
    jerk:
        (n_joints,) [rad/s^3 or m/s^3]; infinite, where None is given.

    """

    joints: tuple[str, ...]
    units: tuple[str, ...]
    lower: np.ndarray
    upper: np.ndarray
    velocity: np.ndarray
    acceleration: np.ndarray
    effort: np.ndarray
    jerk: np.ndarray = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if self.jerk is None:
            object.__setattr__(self, 'jerk', np.full(len(self.joints), np.inf))

    @property
    def middle(self) -> np.ndarray:
        """(n_joints,) middle of the position ranges; NaN or infinite where there is none."""
        with np.errstate(invalid='ignore'):
            return (self.lower + self.upper) / 2.0

    @property
    def half_range(self) -> np.ndarray:
        """(n_joints,) half of the position ranges; infinite where there is none."""
        return (self.upper - self.lower) / 2.0

    def unit(self, quantity: str, joint: int) -> str:
        """Return the unit of a quantity of the joint in place ``joint``."""
        length = self.units[joint]
        return {
            'position': length,
            'velocity': f'{length}/s',
            'acceleration': f'{length}/s^2',
            'jerk': f'{length}/s^3',
            'effort': 'N m' if length == 'rad' else 'N',
        }[quantity]


def motion_limits(robot: Robot, settings: PlannerSettings, margin: float | None = None) -> Limits:
    """
    Return the limits of a robot that the settings leave.

    Parameters
    ----------
    robot:
        Gives the limits that the settings do not.
    settings:
        Limits, scales and margin.
    margin:
        Instead of the settings' margin; with 0, efforts still have the settings' effort margin.

    Raises
    ------
    ExcitationError
        naming the joint, where a list has the wrong length or a limit leaves no room to move.

    """
    margin = settings.margin if margin is None else margin
    free = 1.0 - margin
    lower = by_joint(robot, settings, 'lower_limits', robot.limits.lower)
    upper = by_joint(robot, settings, 'upper_limits', robot.limits.upper)
    _require_range(robot, lower, upper)
    bounded = np.isfinite(lower) & np.isfinite(upper)
    with np.errstate(invalid='ignore'):
        middle, half = (lower + upper) / 2.0, (upper - lower) / 2.0
    velocity = _positive(robot, settings, 'velocity', robot.limits.velocity)
    default = velocity / settings.acceleration_time
    acceleration = _positive(robot, settings, 'acceleration', default)
    time = settings.jerk_time
    jerk = np.full_like(acceleration, np.inf) if time is None else acceleration / time
    if settings.jerk_limits:
        jerk = _positive(robot, settings, 'jerk', jerk)
    return Limits(
        joints=robot.joints,
        units=joint_units(robot),
        lower=np.where(bounded, middle - free * half, lower),
        upper=np.where(bounded, middle + free * half, upper),
        velocity=free * settings.velocity_scale * velocity,
        acceleration=free * acceleration,
        effort=free * (1.0 - settings.effort_margin) * robot.limits.effort,
        jerk=free * jerk,
    )


def _common(one: tuple, other: tuple) -> tuple:
    return tuple(each for each in one if each in other)


STRICTER: dict[str, Callable[[Any, Any], Any]] = {
    'effort_margin': max,
    'check_rate': max,
    'check_collisions': max,
    'clearance': max,
    'tracking_tolerance': lambda one, other: tuple(np.minimum(one, other).tolist()),
    'unchecked_links': _common,
    'allowed_pairs': _common,
    'floor': lambda one, other: max((z for z in (one, other) if z is not None), default=None),
    # of one name there may be different ones
    'obstacles': lambda one, other: (
        *one,
        *(replace(each, name=f'{each.name} (present)') for each in other if each not in one),
    ),
}
"""Functions that return the stricter of two values, by the setting; limits have their own."""


def stricter(
    robot: Robot, planned: PlannerSettings, present: PlannerSettings
) -> tuple[PlannerSettings, tuple[str, ...]]:
    """
    Return a plan's settings with the stricter of its own and the present bounds on motions.

    Returns
    -------
    settings:
        The plan's, with all limits, tolerances and obstacles of both.
    changed:
        Names of the settings whose present value is stricter than the plan's.

    """
    own, other = (motion_limits(robot, each, margin=0.0) for each in (planned, present))
    changes: dict[str, Any] = {}
    changed: list[str] = []
    for kind in ('lower', 'upper', 'velocity', 'acceleration', 'jerk'):
        key, mine = f'{kind}_limits', getattr(own, kind)
        both = (np.maximum if kind == 'lower' else np.minimum)(mine, getattr(other, kind))
        changes[key] = tuple(both.tolist()) if np.isfinite(both).any() else ()
        changed += [key] if (both != mine).any() else []
    for key, rule in STRICTER.items():
        changes[key] = rule(getattr(planned, key), getattr(present, key))
        changed += [key] if changes[key] != getattr(planned, key) else []
    # the velocities have the scale in them
    settings = replace(planned, **changes, velocity_scale=1.0, jerk_time=None)
    return settings, tuple(changed)


def start_position(robot: Robot, settings: PlannerSettings, limits: Limits) -> np.ndarray:
    """
    Return the start (n_joints,) of the settings, or the middle of the ranges [rad or m].

    Raises `ExcitationError` naming the joint whose start is outside its limits, or the wrong
    number of values.
    """
    bounded = np.isfinite(limits.half_range)
    middle = np.where(bounded, limits.middle, np.clip(0.0, limits.lower, limits.upper))
    start = by_joint(robot, settings, 'start', middle)
    for i, joint in enumerate(robot.joints):
        if not limits.lower[i] <= start[i] <= limits.upper[i]:
            raise ExcitationError(
                f"start of joint '{joint}' is {start[i]:.6g} {limits.units[i]}, outside of its "
                f'limits {limits.lower[i]:.6g} to {limits.upper[i]:.6g} (margin included)',
                joint=joint,
                key='start',
                value=float(start[i]),
                remedy='start inside of them, or lower the margin',
            )
    return start


def by_joint(robot: Robot, settings: PlannerSettings, key: str, default: np.ndarray) -> np.ndarray:
    """
    Return the values (n_joints,) of a setting, or the default where it is empty.

    Raises `ExcitationError` where it has not one value for each joint.
    """
    return one_a_joint(robot.joints, key, getattr(settings, key) or default)


def one_a_joint(
    joints: Sequence[str], key: str, values: Sequence[float] | np.ndarray
) -> np.ndarray:
    """Return values (n_joints,); raise `ExcitationError` where there is not one a joint."""
    if len(values) != len(joints):
        raise ExcitationError(
            f"'{key}' has {len(values)} values, the robot {len(joints)} joints",
            key=key,
            value=tuple(values),
            remedy=f'give one for each of {", ".join(joints)}',
        )
    return np.array(values, dtype=float)


def _require_range(robot: Robot, lower: np.ndarray, upper: np.ndarray) -> None:
    """Raise `ExcitationError` for limits without room, and those of the URDF in another unit."""
    length = RobotSize.from_robot(robot).length
    for joint, low, high in zip(robot.joints, lower, upper, strict=True):
        given = robot.contents.joints[joint]
        by_urdf = low == given.lower and high == given.upper
        if by_urdf and (unit := other_unit(given, length)):
            right = 'm' if unit == 'mm' else 'rad'
            raise ExcitationError(
                f"position limits of joint '{joint}', {low:.6g} to {high:.6g} {right}, seem to be "
                f'in {unit}',
                joint=joint,
                value=max(high, -low),
                remedy=f'write them in {right} in the URDF, or give lower_limits and upper_limits',
            )
        if not low < high:
            raise ExcitationError(
                f"position limits of joint '{joint}' leave no room: lower is {low:.6g}, upper is "
                f'{high:.6g}',
                joint=joint,
                key='position',
                value=(float(low), float(high)),
                remedy='correct them in the URDF or give lower_limits and upper_limits',
            )


def _positive(
    robot: Robot, settings: PlannerSettings, quantity: str, default: np.ndarray
) -> np.ndarray:
    """Return the limits of a quantity, which have to be positive and finite."""
    key = f'{quantity}_limits'
    values = by_joint(robot, settings, key, default)
    for joint, value in zip(robot.joints, values, strict=True):
        if not (0.0 < value < np.inf):
            what = 'is missing' if np.isinf(value) else f'is {value:.6g}'
            raise ExcitationError(
                f"{quantity} limit of joint '{joint}' {what}",
                joint=joint,
                key=key,
                value=float(value),
                remedy=f"give a positive one in the URDF or in '{key}'",
            )
    return values


def joint_units(robot: Robot) -> tuple[str, ...]:
    """Return the unit of position of each joint, ``rad`` or ``m``."""
    kinds = (robot.model.joints[index].shortname() for index in robot.joint_ids)
    return tuple('m' if kind.startswith('JointModelP') else 'rad' for kind in kinds)
