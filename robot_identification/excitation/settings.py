# SPDX-License-Identifier: Apache-2.0
"""
Settings of the planner of exciting trajectories, obstacles among them.

Obstacles are planes, boxes, cylinders and spheres in the base frame; one that names a link moves
with it, as a tool that the URDF lacks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import coal
import numpy as np
import pinocchio as pin

from ..errors import SettingsError
from ..options.fields import option
from .bases import BASES
from .criteria import CRITERIA
from .point_cost import MEASURES

SIZES = {
    'box': ('lengths along x, y and z', 3),
    'sphere': ('radius', 1),
    'cylinder': ('radius and length along z', 2),
    'plane': ('nothing: a plane has no end', 0),
}
"""What `Obstacle.size` holds for each kind, and how many values."""

FLOOR = 'floor'
"""Name of the plane that `PlannerSettings.floor` declares."""


@dataclass(frozen=True)
class Obstacle:
    """
    Something in the robot's way, or at its hand.

    Raises
    ------
    SettingsError
        naming the key, where the size is not that of the kind, or the normal has no direction.

    """

    name: str = option(doc='Name in messages and in the preview')
    kind: str = option(
        'box',
        doc='Shape: box, cylinder (along its z axis), sphere, or plane, whose side away from the '
        'normal is solid',
        choices=tuple(SIZES),
    )
    size: tuple[float, ...] = option(
        (),
        doc='Box: lengths along x, y, z; cylinder: radius and length; sphere: radius; plane: none',
        unit='m',
    )
    position: tuple[float, ...] = option(
        (0.0, 0.0, 0.0), doc='Centre in the base frame, or in that of `link`', unit='m'
    )
    orientation: tuple[float, ...] = option(
        (0.0, 0.0, 0.0), doc='Roll, pitch and yaw, as in a URDF', unit='rad'
    )
    normal: tuple[float, ...] = option(
        (0.0, 0.0, 1.0), doc='Plane: direction of its free side, of any length'
    )
    offset: float = option(
        0.0, doc='Plane: its distance from the origin along the normal', unit='m'
    )
    link: str = option(
        '', doc='Link that it is attached to and moves with, as a tool; empty: it stands still'
    )

    def __post_init__(self) -> None:
        what, count = SIZES.get(self.kind, ('', len(self.size)))
        if len(self.size) != count or any(value <= 0.0 for value in self.size):
            raise self._wrong('size', f'a {self.kind} has {count} positive value(s): {what}')
        for key, meaning in (
            ('position', 'x, y and z'),
            ('orientation', 'roll, pitch and yaw'),
            ('normal', 'x, y and z'),
        ):
            if len(getattr(self, key)) != 3:
                raise self._wrong(key, f'give three values: {meaning}')
        if np.linalg.norm(self.normal) < 1e-9:
            raise self._wrong('normal', 'give a direction, for example [0.0, 0.0, 1.0]')
        if self.kind == 'plane' and self.link:
            raise self._wrong('link', 'a plane has no end, so no link can carry it: take a box')

    def _wrong(self, key: str, remedy: str) -> SettingsError:
        value = getattr(self, key)
        shown = list(value) if isinstance(value, tuple) else repr(value)
        return SettingsError(
            f"'obstacles.{self.name}.{key}' is {shown}",
            key=f'obstacles.{self.name}.{key}',
            value=value,
            remedy=remedy,
        )

    @property
    def direction(self) -> np.ndarray:
        """(3,) normal of a plane, of length 1."""
        return np.array(self.normal) / np.linalg.norm(self.normal)

    @property
    def placement(self) -> pin.SE3:
        """Pose in the base frame or that of the link; that of a plane is its own origin."""
        if self.kind == 'plane':
            return pin.SE3.Identity()
        return pin.SE3(pin.rpy.rpyToMatrix(*self.orientation), np.array(self.position))

    def shape(self) -> coal.CollisionGeometry:
        """Return the shape for collision checks."""
        if self.kind == 'plane':
            return coal.Halfspace(self.direction, self.offset)
        if self.kind == 'sphere':
            return coal.Sphere(self.size[0])
        return (coal.Box if self.kind == 'box' else coal.Cylinder)(*self.size)


def with_floor(obstacles: Sequence[Obstacle], floor: float | None) -> tuple[Obstacle, ...]:
    """
    Return the obstacles, and a horizontal plane at the height ``floor`` where that is one.

    Raises `SettingsError` naming an obstacle whose name is taken.
    """
    declared = tuple(obstacles)
    if floor is not None:
        declared = (*declared, Obstacle(FLOOR, 'plane', offset=floor))
    names = [obstacle.name for obstacle in declared]
    for name in names:
        if not name or names.count(name) > 1:
            raise SettingsError(
                f"an obstacle is called '{name}'" + (', and another one, too' if name else ''),
                key='obstacles',
                value=name,
                remedy='give each a name of its own'
                + ('; the floor has this one' if name == FLOOR else ''),
            )
    return declared


MOST_INSTANTS = 1_000_000
"""Instants of a trajectory that are checked at most: some 1 GB of memory for seven joints."""

LEAST_DURATION = 0.5
"""Shortest trajectory that is planned [s]."""


@dataclass(frozen=True)
class PointSettings:
    """The sequence of points of Gautier and Khalil (1992), and the search for it."""

    equations: int = option(
        0,
        doc='Energy differences of neighbouring points, at least one for each base parameter; 0 '
        'takes twice as many, up to which more are worth while',
        minimum=0,
        maximum=10_000,
    )
    measure: str = option(
        'spectral',
        doc='Condition number that is minimised: spectral, by singular values; qr, the estimate '
        'from QR factors with column pivoting; frobenius, of W^T W',
        choices=tuple(MEASURES),
    )
    condition_weight: float = option(
        1.0, doc='What the condition number counts in the cost (lambda_1)', minimum=0.0
    )
    equilibrium_weight: float = option(
        0.0,
        doc='What the ratio S of the largest to the smallest entry of W counts in the cost '
        '(lambda_2)',
        minimum=0.0,
    )
    columns: str = option(
        'typical',
        doc='What the columns of W are divided by, fixed beforehand: typical, their size at '
        'random points; si, nothing, so that the parameters count in kg, kg m and kg m^2',
        choices=('typical', 'si'),
    )
    starts: int = option(32, doc='Random sequences to start from', minimum=1, maximum=10_000)
    rounds: int = option(
        6,
        doc='Rounds in which points of the best sequences are drawn again',
        minimum=0,
        maximum=1000,
    )


@dataclass(frozen=True)
class PlannerSettings:
    """
    Settings of the planner: the wanted motion, and the effort spent on it.

    A list of limits has one entry a joint, in the robot's order; an empty list takes what the URDF
    gives.  The limits that count are these, shrunk by `margin`.
    """

    method: str = option(
        'fourier',
        doc='Kind of trajectory: '
        + ''.join(f'{name}, {each.doc}; ' for name, each in BASES.items())
        + 'points, quintics through points that condition the energy equations well, in '
        'the shortest time; sweeps, joint after joint at constant speeds, for friction; poses, at '
        'rest, for gravity and offsets',
        choices=(*BASES, 'points', 'sweeps', 'poses'),
    )
    points: PointSettings = option(
        doc='What the sequence of points is like, where method is points', factory=PointSettings
    )
    duration: float = option(
        20.0,
        doc='Length of the trajectory, at most for sweeps and poses; points take as long as they '
        'need',
        unit='s',
        minimum=LEAST_DURATION,
        maximum=3600.0,
    )
    base_frequency: float = option(
        0.0,
        doc='Fundamental frequency of the Fourier series; 0 takes 1 / duration',
        unit='Hz',
        minimum=0.0,
        maximum=1000.0,
    )
    harmonics: int = option(
        0,
        doc='Harmonics in the series of each joint, half the intervals of a spline; 0 takes as '
        'many as the acceleration limits allow',
        minimum=0,
        maximum=100,
    )
    criterion: str = option(
        'deviations',
        doc='What is minimised: '
        + ', '.join(f'{each.doc} ({name})' for name, each in CRITERIA.items())
        + '; units count for trace, largest and frobenius',
        choices=tuple(CRITERIA),
    )
    parameters: tuple[str, ...] = option(
        (),
        doc='Parameters that count: base parameters by name, links, joints, friction, or payload '
        'alone, a load at the last link of a robot that is known; empty: all base parameters',
    )
    moving: tuple[str, ...] = option(
        (), doc='Joints that move; empty: all, for a payload the last four'
    )
    effort_noise: tuple[float, ...] = option(
        (),
        doc='Standard deviation of the efforts at 100 independent samples a second; empty: that '
        'of the residuals of earlier recordings, or 1 % of each effort limit',
        unit='N m or N',
        minimum=0.0,
    )
    seed: int = option(0, doc='Seed of the random start values', minimum=0)
    max_iterations: int = option(
        1500,
        doc='Bound on the evaluations of the criterion with its gradient',
        minimum=1,
        maximum=1_000_000,
    )
    margin: float = option(
        0.1,
        doc='Share of each limit that a plan keeps free; at execution the limits themselves count',
        minimum=0.0,
        maximum=0.95,
    )
    velocity_scale: float = option(
        1.0,
        doc='Share of the velocity limits that is used; lower for the first run on a robot',
        minimum=0.01,
        maximum=1.0,
    )
    velocity_limits: tuple[float, ...] = option(
        (), doc='Velocity limits in place of those of the URDF', unit='rad/s or m/s', minimum=0.0
    )
    acceleration_limits: tuple[float, ...] = option(
        (),
        doc='Acceleration limits; empty: velocity limit / acceleration_time',
        unit='rad/s^2 or m/s^2',
        minimum=0.0,
    )
    acceleration_time: float = option(
        0.25,
        doc='Time in which a joint may reach its velocity limit, where acceleration_limits is '
        'empty (a URDF has no acceleration limits)',
        unit='s',
        minimum=0.01,
    )
    jerk_limits: tuple[float, ...] = option(
        (),
        doc='Jerk limits; empty: acceleration limit / jerk_time',
        unit='rad/s^3 or m/s^3',
        minimum=0.0,
    )
    jerk_time: float | None = option(
        0.02,
        doc='Time in which a joint may reach its acceleration limit, where jerk_limits is empty; '
        'with neither of them any jerk is allowed, and jumps of the acceleration, too',
        unit='s',
        minimum=0.0001,
    )
    effort_margin: float = option(
        0.1,
        doc='Share of each effort limit that is kept free at planning and at execution, since '
        'inertias and friction of a URDF are not quite true; margin comes on top when planning',
        minimum=0.0,
        maximum=0.95,
    )
    lower_limits: tuple[float, ...] = option(
        (), doc='Lower position limits in place of those of the URDF', unit='rad or m'
    )
    upper_limits: tuple[float, ...] = option(
        (), doc='Upper position limits in place of those of the URDF', unit='rad or m'
    )
    start: tuple[float, ...] = option(
        (),
        doc='Position where the trajectory starts and ends; empty: the middle of the ranges, or '
        'the nearest position found that is free of collision',
        unit='rad or m',
    )
    check_rate: float = option(
        500.0,
        doc='Rate at which limits are checked; with the duration it gives at most a million '
        'instants',
        unit='Hz',
        minimum=250.0,
        maximum=10_000.0,
    )
    check_collisions: bool = option(
        True, doc='Whether links are kept from touching each other and obstacles'
    )
    clearance: float = option(
        0.01,
        doc='Distance that links keep from each other and from obstacles, while each joint is '
        'within its tracking_tolerance',
        unit='m',
        minimum=0.001,
    )
    tracking_tolerance: tuple[float, ...] = option(
        (0.05,),
        doc='How far each joint may be from its planned position while the clearance is kept; one '
        'value for all or one a joint. At execution the controller stops a joint that is farther '
        'off, so it has to be larger than what the drives lag behind at full speed',
        unit='rad or m',
        minimum=1e-4,
    )
    stop_deceleration: tuple[float, ...] = option(
        (),
        doc="The controller's constraints.<joint>.max_deceleration_on_cancel, one a joint: stops "
        'then stay within position limits and clearance, too, and no joint accelerates harder. '
        'Empty: the node asks the controller; without one it holds at once',
        unit='rad/s^2 or m/s^2',
        minimum=0.0,
    )
    unchecked_links: tuple[str, ...] = option(
        (),
        doc='Links whose collision meshes may be missing: they are not checked, and the page of '
        'the plan says so; others without their mesh end the planning',
    )
    allowed_pairs: tuple[str, ...] = option(
        (), doc='Pairs of links that may touch, two names with a blank between, as of an SRDF'
    )
    floor: float | None = option(
        None,
        doc='Height of a floor that no link may touch, in the base frame; none where it is null',
        unit='m',
    )
    obstacles: tuple[Obstacle, ...] = option(
        (), doc='What else no link may touch: tables, walls, racks; and tools that the URDF lacks'
    )
    time_budget: float = option(
        60.0,
        doc='Time of the processor after which the best plan so far is taken; 0 for none. A plan '
        'that ends by its evaluations is the same each time, one that ends by this need not be',
        unit='s',
        minimum=0.0,
        maximum=86_400.0,
    )

    def __post_init__(self) -> None:
        if not self.tracking_tolerance:
            raise SettingsError(
                "'tracking_tolerance' is empty",
                key='tracking_tolerance',
                value=self.tracking_tolerance,
                remedy='give one for all joints, or one a joint',
            )
        instants = self.duration * self.check_rate
        if instants > MOST_INSTANTS:
            raise SettingsError(
                f'a duration of {self.duration:g} s at a check_rate of {self.check_rate:g} Hz has '
                f'{instants:.3g} instants to check, {MOST_INSTANTS} are the most',
                key='duration',
                value=self.duration,
                remedy='plan a shorter trajectory, or lower check_rate',
            )

    @property
    def frequency(self) -> float:
        """Fundamental frequency in force [Hz]."""
        return self.base_frequency or 1.0 / self.duration

    @property
    def all_obstacles(self) -> tuple[Obstacle, ...]:
        """Obstacles, the floor among them."""
        return with_floor(self.obstacles, self.floor)
