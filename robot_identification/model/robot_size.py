# SPDX-License-Identifier: Apache-2.0
"""
Bounds of limits, lengths, masses and loads by the robot's own size.

Exporters write degrees for rad, mm for m, g mm^2 for kg m^2, and sensors raw counts for newtons:
factors of 50 and more, which one robot cannot have beside its other numbers.  The length of a
robot is that of its longest chain of joints, its mass that of the links that they move.  Bounds
are wide: what passes them is hardly a matter of design.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ..errors import one_of
from .plausibility import DENSEST, plausibility, PlausibilityFinding, robot_reach
from .robot import Robot
from .urdf import UrdfJoint


@dataclass(frozen=True)
class SizeConstants:
    """Constants of the bounds."""

    limit: float = 8.0 * np.pi
    """Absolute position of a joint that turns: four turns [rad]."""
    far: float = 20.0
    """Distance of a centre of mass from its joint, or range of a slide, by the length."""
    thinnest: float = 1e-3
    """Mass by the cube of the length [kg/m^3]: a thousandth of air."""
    load: float = 10.0
    """Mass of a load by that of the robot."""


SIZE = SizeConstants()

LIMITS = 'limits'
"""Quantity of findings on position limits."""


@dataclass(frozen=True)
class RobotSize:
    """
    Size of a robot.

    Attributes
    ----------
    length:
        Of the longest chain of its joints [m]; 0 where their axes meet in one point.
    mass:
        Of the links that they move [kg]; 0 where the URDF has placeholders alone.

    """

    length: float
    mass: float

    @classmethod
    def from_robot(cls, robot: Robot) -> RobotSize:
        """Return the size of a robot by its URDF."""
        model, masses = robot.opened.model, robot.opened.prior
        lengths = [0.0] * model.njoints
        for index in range(1, model.njoints):
            parent = int(model.parents[index])
            step = np.linalg.norm(model.jointPlacements[index].translation)
            lengths[index] = lengths[parent] + (float(step) if parent else 0.0)
        total = sum(masses[f'{link}.m'] for link in robot.opened.links)
        return cls(max(lengths), 0.0 if robot.bodies_alike else float(total))

    def faults_of_load(self, mass: float, centre: np.ndarray) -> Iterator[str]:
        """Say what is too large of a load: its ``mass`` [kg], its centre (3,) in its frame [m]."""
        if 0.0 < SIZE.load * self.mass < mass:
            yield (
                f'a load of {mass:.4g} kg is {mass / self.mass:.3g} times as heavy as all links '
                f'of the robot, {self.mass:.3g} kg'
            )
        distance = float(np.linalg.norm(centre))
        if 0.0 < SIZE.far * self.length < distance:
            yield (
                f'a centre of mass {distance:.4g} m from its frame is '
                f'{distance / self.length:.3g} times as far as the robot is long'
            )


def implausible_sizes(robot: Robot) -> tuple[PlausibilityFinding, ...]:
    """Return what limits, lengths and masses of a URDF cannot be in rad, m and kg."""
    size = RobotSize.from_robot(robot)
    found = [*_limits(robot, size), *_centres(robot, size)]
    heaviest = DENSEST * size.length**3
    lightest = SIZE.thinnest * size.length**3
    if not found and 0.0 < size.mass < lightest:
        text = (
            f'the links have {size.mass:.4g} kg together and their joints a chain of '
            f'{size.length:.4g} m: the origins seem to be in mm'
        )
        found.append(PlausibilityFinding('', 'length', size.mass, lightest, heaviest, 'kg', text))
    return tuple(found)


def size_findings(robot: Robot) -> tuple[PlausibilityFinding, ...]:
    """Return what sizes of a URDF are implausible, radii of gyration among them."""
    bodies = plausibility(robot.opened.prior, reach=robot_reach(robot)).findings
    large = [finding for finding in bodies if finding.value > finding.upper]
    return (*implausible_sizes(robot), *large)


def other_unit(joint: UrdfJoint, length: float) -> str:
    """
    Return the unit that position limits of a joint seem to be in; empty for that of URDFs.

    ``length`` is that of the robot [m].
    """
    if joint.type == 'prismatic':
        room = joint.upper - joint.lower
        return 'mm' if np.isfinite(room) and 0.0 < SIZE.far * length < room else ''
    ends = [abs(end) for end in (joint.lower, joint.upper) if np.isfinite(end)]
    return 'degrees' if max(ends, default=0.0) > SIZE.limit else ''


def _limits(robot: Robot, size: RobotSize) -> Iterator[PlausibilityFinding]:
    """Iterate over position limits that leave no room or far too much."""
    joints = [robot.contents.joints[name] for name in robot.opened.joints]
    for joint in joints:
        if joint.lower > joint.upper:
            text = (
                f"position limits of joint '{joint.name}' leave no room: lower is "
                f'{joint.lower:.6g}, upper is {joint.upper:.6g}'
            )
            yield _of_limits(joint, joint.lower, text)
    for unit, bound in (('degrees', SIZE.limit), ('mm', SIZE.far * size.length)):
        found = [joint for joint in joints if other_unit(joint, size.length) == unit]
        if found:
            first = found[0]
            text = (
                f'position limits of {one_of(joint.name for joint in found)} seem to be in '
                f'{unit}: those of {first.name} are {first.lower:.6g} to {first.upper:.6g} '
                f'{"m" if unit == "mm" else "rad"}'
            )
            yield _of_limits(first, bound, text)


def _of_limits(joint: UrdfJoint, bound: float, text: str) -> PlausibilityFinding:
    unit = joint.unit
    return PlausibilityFinding('', LIMITS, joint.upper, -bound, bound, unit, text)


def _centres(robot: Robot, size: RobotSize) -> Iterator[PlausibilityFinding]:
    """Iterate over centres of mass that are far from their joints."""
    tree, bound = robot.opened, SIZE.far * size.length
    for index, link in zip(tree.joint_ids, tree.links, strict=True):
        distance = float(np.linalg.norm(tree.model.inertias[index].lever))
        if 0.0 < bound < distance:
            text = (
                f'{link}: centre of mass {distance:.4g} m from its joint, '
                f'{distance / size.length:.3g} times as far as the robot is long '
                f'({size.length:.3g} m): it seems to be in mm'
            )
            yield PlausibilityFinding(link, 'centre_of_mass', distance, 0.0, bound, 'm', text)
