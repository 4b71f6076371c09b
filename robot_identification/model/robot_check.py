# SPDX-License-Identifier: Apache-2.0
"""Check of the bodies that a robot's file gives it: whether they can be, and are likely."""

from __future__ import annotations

from dataclasses import dataclass, replace

from .consistency import check, ConsistencyReport
from .plausibility import plausibility, PlausibilityReport, robot_reach, robot_shapes
from .robot import Robot
from .robot_size import implausible_sizes


@dataclass(frozen=True)
class RobotCheck:
    """Physical consistency of a robot's links and joints, and what is not plausible about them."""

    consistency: ConsistencyReport
    plausibility: PlausibilityReport

    def findings(self) -> tuple[tuple[str, str], ...]:
        """Return what was found as pairs: the link or joint, empty for the robot, and a text."""
        bodies = [(each.link, each.message) for each in self.consistency.links if each.message]
        joints = [(each.joint, each.message) for each in self.consistency.joints]
        likely = [(each.link, each.message) for each in self.plausibility.findings]
        return (*bodies, *joints, *likely)


def check_robot(robot: Robot, tolerance: float = 0.0) -> RobotCheck:
    """
    Check the bodies of a robot as its file has them, beside its shapes and its own size.

    Parameters
    ----------
    robot:
        Read from a URDF.
    tolerance:
        An eigenvalue counts as positive above minus this.

    """
    parameters = robot.prior
    likely = plausibility(parameters, None, robot_shapes(robot), reach=robot_reach(robot))
    likely = replace(likely, findings=(*implausible_sizes(robot), *likely.findings))
    return RobotCheck(check(parameters, tolerance), likely)
