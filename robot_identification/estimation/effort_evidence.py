# SPDX-License-Identifier: Apache-2.0
"""
Evidence for the kind of recorded efforts: the size of gravity in them.

At each joint the recorded effort is fitted by
``s tau_g + r (tau - tau_g) + fv v + fc sign(v) + c`` with the URDF's gravity ``tau_g`` and inverse
dynamics ``tau``.  Torques at the joint have s near 1, motor torques and currents s below it by the
gear ratio or the gain, and efforts that the driver has cleared of gravity s near 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pinocchio as pin

from ..data.recording import Recording
from ..errors import one_of
from ..model.robot import Robot
from .diagnosis import observe

_CLEAR, _NONE = 0.3, 0.05
"""Shares of a joint's effort above which gravity is seen, and below which it is absent."""

_LIKE_JOINTS = 0.5, 2.0
"""Sizes that speak for torques at the joints."""


@dataclass(frozen=True)
class EffortEvidence:
    """
    Size of gravity in recorded efforts.

    Attributes
    ----------
    joints:
        Names of the k joints at which gravity shows.
    size:
        (k,) recorded gravity over that of the URDF; in units of recorded effort per N m.
    without:
        Names of joints whose effort should show gravity and does not.

    """

    joints: tuple[str, ...]
    size: np.ndarray
    without: tuple[str, ...] = ()

    def summary(self) -> str:
        """Return what the sizes speak for, in one line."""
        if not self.joints and self.without:
            return (
                f'gravity does not show at {one_of(self.without)}: speaks for efforts that the '
                'driver has cleared of it, which tell no masses'
            )
        if not self.joints:
            return 'gravity shows at no joint: the recordings say nothing on the kind of effort'
        sizes = ', '.join(
            f'{size:.2g} at {joint}' for joint, size in zip(self.joints, self.size, strict=True)
        )
        middle = float(np.median(np.abs(self.size)))
        low, high = _LIKE_JOINTS
        if low <= middle <= high:
            what = 'joint_torque'
        elif middle < low:
            what = 'motor_current or motor_torque'
        else:
            what = 'efforts in another unit than N m, or a URDF with too small masses'
        return f"gravity in the efforts has this times the URDF's size: {sizes}; speaks for {what}"


def effort_evidence(robot: Robot, recordings: Sequence[Recording]) -> EffortEvidence:
    """
    Return the size of gravity in recorded efforts.

    Parameters
    ----------
    robot:
        The robot as its URDF says; without closed loops.
    recordings:
        Positions at the joints and efforts as recorded, one a joint.

    """
    observed = observe(recordings)
    if observed is None:
        return EffortEvidence((), np.empty(0))
    motion, data = observed.motion, robot.model.createData()
    still = np.zeros(robot.model.nv)
    gravity, dynamics = [], []
    for position, velocity, acceleration in zip(
        robot.configuration(motion.position),
        robot.tangent(motion.velocity),
        robot.tangent(motion.acceleration),
        strict=True,
    ):
        gravity.append(pin.rnea(robot.model, data, position, still, still).copy())
        dynamics.append(pin.rnea(robot.model, data, position, velocity, acceleration).copy())
    weight = np.array(gravity)[:, robot.columns]
    inertial = np.array(dynamics)[:, robot.columns] - weight
    joints, sizes, without = [], [], []
    largest = np.ptp(weight, axis=0).max()
    for j, joint in enumerate(robot.joints):
        speed = motion.velocity[:, j]
        threshold = 0.02 * np.abs(speed).max()
        columns = [weight[:, j], inertial[:, j], speed, np.sign(speed) * (abs(speed) > threshold)]
        rows = np.stack([*columns, np.ones_like(speed)], axis=1)
        if np.ptp(weight[:, j]) <= 0.1 * largest:  # hardly changes, and says nothing
            continue
        found = np.linalg.lstsq(rows, observed.effort[:, j], rcond=None)[0]
        share = np.std(found[0] * weight[:, j]) / max(np.std(observed.effort[:, j]), 1e-300)
        if share > _CLEAR:
            joints.append(joint)
            sizes.append(found[0])
        elif share < _NONE:
            without.append(joint)
    return EffortEvidence(tuple(joints), np.array(sizes), tuple(without))
