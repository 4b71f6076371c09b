# SPDX-License-Identifier: Apache-2.0
"""Settings of robots that are no trees: closed loops, and the delta robot."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..errors import one_of, SettingsError
from ..options.fields import option

LOOP_KINDS = ('ball', 'universal', 'revolute', 'rod')
"""
What holds the two links of a loop together: a point; a point and two axes at right angles; a point
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
        where the kind is unknown, or an axis or a length is missing, impossible or out of place.

    """

    name: str = option(doc='What messages call it')
    link_a: str = option(doc='Link on one side')
    link_b: str = option(doc='Link on the other side; the base counts, too')
    kind: str = option(
        'ball',
        doc='What holds them together: ball, two points coincide; universal, and two axes stay at '
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
        where the forearms cannot reach from the arms to the platform, or two arms are at the same
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
        for key in ('arm_length', 'forearm_length'):
            if not getattr(self, key) > 0.0:
                raise SettingsError(
                    f"'{key}' of the delta robot is {getattr(self, key):g}",
                    key=f'delta.{key}',
                    value=getattr(self, key),
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
