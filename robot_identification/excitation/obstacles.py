# SPDX-License-Identifier: Apache-2.0
"""
Obstacles around the robot: planes, boxes, cylinders and spheres.

They stand in the base frame; one that names a link moves with it, as a tool that the URDF lacks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import coal
import numpy as np
import pinocchio as pin

from ..errors import SettingsError
from ..options.fields import option

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

    Raises
    ------
    SettingsError
        naming an obstacle whose name is taken.

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
