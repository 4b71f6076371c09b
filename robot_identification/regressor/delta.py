# SPDX-License-Identifier: Apache-2.0
"""
The delta robot with the thirteen parameters of Lomakin and Deutscher's Table I.

Arm i turns by q_i about a level axis, from level outwards (0) downwards; g is gravity, s_i leads
from the elbow e_i to the platform p, so |s_i| is the length of the forearm, and b_i = de_i/dq_i.
The paper does not print the equations; they are

    tau_i = fc_i sign(dq_i) + fv_i dq_i + J_i ddq_i - mr_i (b_i / L)^T g + m4 [Jp^T (ddp - g)]_i,

with the arm's length L and, from the derivatives of s_i^T s_i = const,

    S dp = diag(s_i^T b_i) dq = S Jp dq,    S = (s_1, s_2, s_3)^T,
    s_i^T ddp = s_i^T b_i ddq_i + (ds_i^T b_i + s_i^T db_i) dq_i - ds_i^T dp.

J_i holds the arm and its drive, mr_i the arm's first moment along itself, m4 is the platform.  The
rods of a forearm count as two halves: one at the elbow, in J_i and mr_i, and one in m4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
import math

import numpy as np

from ..data.recording import Motion
from ..errors import ModelError, RecordingError, SettingsError
from ..model.mechanisms import DeltaSettings
from ..model.parameters import ParameterLayout
from ..model.robot import Robot
from .rigid import cross

PLATFORM = 'platform'
"""Owner of the platform's parameter m4."""

SINGULAR = 1e-4
"""Volume of the three forearms' directions below which they do not determine the platform."""

REGULAR = 0.1
"""The same volume that random states have at least."""


@dataclass(frozen=True)
class PlatformMotion:
    """
    Motion of the platform.

    Position, velocity and acceleration are (n_samples, 3) of its centre in the base frame [m, m/s,
    m/s^2]; ``jacobian`` (n_samples, 3, 3) is the velocity by the arms' velocities [m], ``arm``
    (n_samples, 3, 3) b_i by arm and coordinate [m].
    """

    position: np.ndarray
    velocity: np.ndarray
    acceleration: np.ndarray
    jacobian: np.ndarray
    arm: np.ndarray


@dataclass(frozen=True)
class DeltaKinematics:
    """Platform position of a delta robot, by the intersection of three spheres."""

    settings: DeltaSettings

    def elbows(self, position: np.ndarray) -> np.ndarray:
        """
        Return the spheres' centres: the elbows, moved inwards by the platform's radius.

        From the angles of the arms (n_samples, 3) [rad], (n_samples, 3, 3) by arm and coordinate
        [m].
        """
        reach = self.settings.radius + self.settings.arm_length * np.cos(position)
        return self._outwards(reach, -self.settings.arm_length * np.sin(position))

    def platform(self, position: np.ndarray) -> np.ndarray:
        """Return the platform's centre below the arms, (n_samples, 3) [m]; NaN out of reach."""
        return self._platform(self.elbows(position))

    def _platform(self, elbows: np.ndarray) -> np.ndarray:
        a, b = elbows[:, 1] - elbows[:, 0], elbows[:, 2] - elbows[:, 0]
        normal = cross(a, b)
        area = _dot(normal, normal)
        with np.errstate(invalid='ignore', divide='ignore'):
            centre = cross(_dot(a, a)[:, None] * b - _dot(b, b)[:, None] * a, normal)
            centre /= 2.0 * area[:, None]
            height = np.sqrt((self.settings.forearm_length**2 - _dot(centre, centre)) / area)
        return elbows[:, 0] + centre + self._side * height[:, None] * normal

    def motion(self, motion: Motion) -> PlatformMotion:
        """Return the platform's motion; NaN out of reach."""
        q, dq, ddq = motion.position, motion.velocity, motion.acceleration
        length = self.settings.arm_length
        level, down = length * np.cos(q), length * np.sin(q)
        b, db = self._outwards(-down, -level), self._outwards(-level, down) * dq[:, :, None]
        elbows = self.elbows(q)
        p = self._platform(elbows)
        s = p[:, None] - elbows
        slope = _dot(s, b)
        inverse = self._inverse(s)
        dp = (inverse @ (slope * dq)[:, :, None])[:, :, 0]
        ds = dp[:, None] - b * dq[:, :, None]
        right = slope * ddq + (_dot(ds, b) + _dot(s, db)) * dq - _dot(ds, dp[:, None])
        ddp = (inverse @ right[:, :, None])[:, :, 0]
        return PlatformMotion(p, dp, ddp, inverse * slope[:, None], b)

    def volume(self, position: np.ndarray) -> np.ndarray:
        """Volume that the directions of the forearms span, 0 to 1, (n_samples,); NaN likewise."""
        elbows = self.elbows(position)
        s = self._platform(elbows)[:, None] - elbows
        volume = _dot(s[:, 0], cross(s[:, 1], s[:, 2]))
        return np.abs(volume) / self.settings.forearm_length**3

    @cached_property
    def _side(self) -> float:
        """Sign of the normal that points down with level arms; the branch keeps it."""
        outwards = self._outwards(np.ones((1, 3)), np.zeros((1, 3)))[0]
        return -float(np.sign(np.linalg.det(outwards + [0.0, 0.0, 1.0])))

    def _outwards(self, reach: np.ndarray, up: np.ndarray) -> np.ndarray:
        """Vectors in the arms' planes from their parts outwards and up, (n_samples, 3, 3)."""
        cosine, sine = self._directions
        return np.stack([reach * cosine, reach * sine, up], axis=2)

    @cached_property
    def _directions(self) -> tuple[np.ndarray, np.ndarray]:
        angles = np.array(self.settings.angles)
        return np.cos(angles), np.sin(angles)

    def _inverse(self, s: np.ndarray) -> np.ndarray:
        """Inverse of S by cofactors, which are cross products of its rows; NaN where singular."""
        with np.errstate(invalid='ignore', divide='ignore'):
            columns = cross(s[:, [1, 2, 0]], s[:, [2, 0, 1]])
            determinant = _dot(s[:, 0], columns[:, 0])
            return columns.transpose(0, 2, 1) / determinant[:, None, None]


@dataclass(frozen=True)
class DeltaBodies:
    """
    Columns ``<joint>.J`` and ``<joint>.mr`` of the arms, then ``platform.m4``.

    ``joints`` names the arms' joints; ``gravity`` is (3,) in the base frame [m/s^2].
    """

    layout: ParameterLayout
    joints: tuple[str, ...]
    kinematics: DeltaKinematics
    gravity: np.ndarray

    @classmethod
    def from_robot(cls, robot: Robot, settings: DeltaSettings) -> DeltaBodies:
        """Make the columns; raise `ModelError` if the robot has not three identified joints."""
        if robot.n_joints != 3:
            raise ModelError(
                f'a delta robot has three arms, but {robot.n_joints} joints are identified',
                value=robot.joints,
                remedy='name the joints of its three arms in robot.joints',
            )
        names = [f'{joint}.{symbol}' for joint in robot.joints for symbol in ('J', 'mr')]
        layout = ParameterLayout((*names, f'{PLATFORM}.m4'), ('kg m^2', 'kg m') * 3 + ('kg',))
        return cls(layout, robot.joints, DeltaKinematics(settings), np.array(robot.gravity))

    def fill(self, motion: Motion, out: np.ndarray) -> None:
        """
        Write the columns of a motion, as `inverse_dynamics.Term` asks.

        Raises RecordingError naming the sample where the forearms do not reach or determine the
        platform.
        """
        self._require_regular(motion)
        platform = self.kinematics.motion(motion)
        arms = np.arange(3)
        out[:, arms, 2 * arms] = motion.acceleration
        length = self.kinematics.settings.arm_length
        out[:, arms, 2 * arms + 1] = -(platform.arm @ self.gravity) / length
        lifted = platform.acceleration - self.gravity
        out[:, :, 6] = (platform.jacobian.transpose(0, 2, 1) @ lifted[:, :, None])[:, :, 0]

    def random_motion(self, random: np.random.Generator, samples: int) -> Motion:
        """Return random states well away from singular ones."""
        found = np.empty((0, 3))
        while len(found) < samples:
            position = random.uniform(-0.5 * np.pi, 0.5 * np.pi, (samples, 3))
            regular = np.nan_to_num(self.kinematics.volume(position)) >= REGULAR
            found = np.concatenate([found, position[regular]])
        return Motion(
            position=found[:samples],
            velocity=random.uniform(-3.0, 3.0, (samples, 3)),
            acceleration=random.uniform(-10.0, 10.0, (samples, 3)),
        )

    def _require_regular(self, motion: Motion) -> None:
        volume = self.kinematics.volume(motion.position)
        bad = ~(volume >= SINGULAR)
        if not bad.any():
            return
        row = int(np.argmax(bad))
        angles = ', '.join(
            f'{joint} = {angle:.4g}'
            for joint, angle in zip(self.joints, motion.position[row], strict=True)
        )
        does = 'reach' if np.isnan(volume[row]) else 'determine'
        raise RecordingError(
            f'the forearms do not {does} the platform at {motion.where(row)} ({angles})',
            value=row,
            remedy='check units, signs and offsets of the positions, and the lengths in '
            'robot.delta',
        )


def _dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.einsum('...c,...c->...', a, b)


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


def delta_robot(
    settings: DeltaSettings,
    joints: Sequence[str] | None = None,
    *,
    gravity: Sequence[float] = (0.0, 0.0, -9.81),
) -> Robot:
    """
    Return a delta robot with a geometry.

    ``joints`` names the arms' joints, in the order of the data and of ``settings.angles``; None:
    `ARMS`.  ``gravity`` (3,) is in the base frame, which has z up where the robot hangs as usual
    [m/s^2].  Raises SettingsError if there are not three names.
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
