# SPDX-License-Identifier: Apache-2.0
"""A delta robot as a URDF with loops, from its geometry alone."""

from __future__ import annotations

from collections.abc import Sequence
import math

import numpy as np

from ..errors import SettingsError
from ..model.mechanisms import DeltaSettings, LoopSettings
from ..model.robot import Robot
from .delta import PLATFORM

ARMS = ('arm_1', 'arm_2', 'arm_3')
"""Names of the arms' joints where none are given; the links are called ``<joint>_link``."""

_HEAD = """\
<robot name="delta">
  <!-- The masses are placeholders. The forearms are rods without mass that robot.loops adds; the
       platform slides along three axes because they let it translate only. -->
  <link name="base_link"/>
"""

_ARM = """\
  <joint name="{joint}" type="revolute">
    <parent link="base_link"/>
    <child link="{joint}_link"/>
    <origin xyz="{x:.17g} {y:.17g} 0" rpy="0 0 {angle:.17g}"/>
    <axis xyz="0 1 0"/>
    <limit lower="-1.5707963267948966" upper="1.5707963267948966" velocity="0" effort="0"/>
  </joint>
  <link name="{joint}_link">
    <inertial>
      <origin xyz="{half:.15g} 0 0"/>
      <mass value="0.5"/>
      <inertia ixx="1e-4" ixy="0" ixz="0" iyy="{moment:.17g}" iyz="0" izz="{moment:.17g}"/>
    </inertial>
  </link>
"""

_PLATFORM = """\
  <joint name="platform_x" type="prismatic">
    <parent link="base_link"/>
    <child link="platform_slide_x"/>
    <origin xyz="0 0 {height:.17g}"/>
    <axis xyz="1 0 0"/>
    <limit lower="-{reach:.17g}" upper="{reach:.17g}" velocity="0" effort="0"/>
  </joint>
  <link name="platform_slide_x"/>
  <joint name="platform_y" type="prismatic">
    <parent link="platform_slide_x"/>
    <child link="platform_slide_y"/>
    <axis xyz="0 1 0"/>
    <limit lower="-{reach:.17g}" upper="{reach:.17g}" velocity="0" effort="0"/>
  </joint>
  <link name="platform_slide_y"/>
  <joint name="platform_z" type="prismatic">
    <parent link="platform_slide_y"/>
    <child link="{platform}"/>
    <axis xyz="0 0 1"/>
    <limit lower="-{reach:.17g}" upper="{reach:.17g}" velocity="0" effort="0"/>
  </joint>
  <link name="{platform}">
    <inertial>
      <mass value="0.5"/>
      <inertia ixx="2e-4" ixy="0" ixz="0" iyy="2e-4" iyz="0" izz="3e-4"/>
    </inertial>
  </link>
</robot>
"""

_PASSIVE = ('platform_x', 'platform_y', 'platform_z')


def delta_urdf(settings: DeltaSettings, joints: Sequence[str] = ARMS) -> str:
    """
    Write a delta robot as a URDF: the arms, and the platform on three slides.

    The platform is where it is with level arms when all positions are 0.  The inertias are
    placeholders.
    """
    height = math.sqrt(settings.forearm_length**2 - (settings.radius + settings.arm_length) ** 2)
    arms = [
        _ARM.format(
            joint=joint,
            x=settings.base_radius * math.cos(angle),
            y=settings.base_radius * math.sin(angle),
            angle=angle,
            half=0.5 * settings.arm_length,
            moment=0.5 * settings.arm_length**2 / 12 + 1e-4,
        )
        for joint, angle in zip(joints, settings.angles, strict=True)
    ]
    reach = settings.arm_length + settings.forearm_length
    platform = _PLATFORM.format(height=-height, reach=reach, platform=PLATFORM)
    return ''.join([_HEAD, *arms, platform])


def delta_loops(settings: DeltaSettings, joints: Sequence[str] = ARMS) -> tuple[LoopSettings, ...]:
    """Return the forearms of `delta_urdf`'s robot as loops: one rod an arm."""
    ends = settings.platform_radius * np.exp(1j * np.array(settings.angles))
    return tuple(
        LoopSettings(
            name=f'forearm of {joint}',
            kind='rod',
            link_a=f'{joint}_link',
            point_a=(settings.arm_length, 0.0, 0.0),
            link_b=PLATFORM,
            point_b=(end.real, end.imag, 0.0),
            length=settings.forearm_length,
        )
        for joint, end in zip(joints, ends, strict=True)
    )


def delta_robot(
    settings: DeltaSettings,
    joints: Sequence[str] | None = None,
    *,
    gravity: Sequence[float] = (0.0, 0.0, -9.81),
) -> Robot:
    """
    Return a delta robot.

    Parameters
    ----------
    settings:
        Its geometry.
    joints:
        Names of the arms' joints, in the order of the data and of ``settings.angles``; None:
        `ARMS`.
    gravity:
        (3,) in the base frame, which has z up where the robot hangs as usual [m/s^2].

    Raises
    ------
    SettingsError
        where there are not three names.

    """
    joints = ARMS if joints is None else tuple(joints)
    if len(joints) != 3:
        raise SettingsError(
            f'a delta robot has three arms, but robot.joints names {len(joints)}',
            key='robot.joints',
            value=joints,
            remedy='name three, in the order of the data',
        )
    return Robot.from_urdf(delta_urdf(settings, joints), joints, passive=_PASSIVE, gravity=gravity)
