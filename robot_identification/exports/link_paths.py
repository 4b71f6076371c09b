# SPDX-License-Identifier: Apache-2.0
"""Paths of a robot's links along a motion, for those who look at it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pinocchio as pin

from ..excitation.trajectories import Trajectory
from ..model.robot import Robot

PATH_RATE = 25.0
"""Points a second of the lines [Hz]."""

PATH_POINTS = 1000
"""Most points of a line."""


@dataclass(frozen=True)
class LinkPaths:
    """
    Paths of the origins of links along a motion.

    Attributes
    ----------
    base:
        The robot's root link, in whose frame the places are.
    links:
        Names of the links; the last ones are those at the ends of the robot's chains.
    tips:
        How many of the last ones are ends.
    time:
        (n_points,) [s].
    place:
        (n_points, n_links, 3) [m].
    speed:
        (n_points, n_links) [m/s].

    """

    base: str
    links: tuple[str, ...]
    tips: int
    time: np.ndarray
    place: np.ndarray
    speed: np.ndarray

    def place_at(self, time: float) -> np.ndarray:
        """Return the place (3,) of the last link at about ``time`` [s]."""
        row = int(np.clip(np.searchsorted(self.time, time), 0, self.time.size - 1))
        return np.asarray(self.place[row, -1])


def link_paths(robot: Robot, trajectory: Trajectory) -> LinkPaths:
    """Return the paths of the moved links, and of the ends of the robot's chains."""
    model, data = robot.model, robot.model.createData()
    tips = _tips(robot)
    bodies = {f.name: i for i, f in enumerate(model.frames) if f.type == pin.FrameType.BODY}
    names = [link for link in robot.links if link not in tips] + tips
    frames = [bodies[name] for name in names]
    count = int(np.clip(np.ceil(trajectory.duration * PATH_RATE) + 1, 2, PATH_POINTS))
    time = np.linspace(0.0, trajectory.duration, count)
    motion = trajectory.sample(time)
    place, speed = np.empty((count, len(frames), 3)), np.empty((count, len(frames)))
    rows = zip(robot.configuration(motion.position), robot.tangent(motion.velocity), strict=True)
    for row, (q, v) in enumerate(rows):
        pin.forwardKinematics(model, data, q, v)
        for column, frame in enumerate(frames):
            place[row, column] = pin.updateFramePlacement(model, data, frame).translation
            velocity = pin.getFrameVelocity(model, data, frame, pin.ReferenceFrame.LOCAL)
            speed[row, column] = np.linalg.norm(velocity.linear)
    base = next(name for name, frame in bodies.items() if model.frames[frame].parentJoint == 0)
    return LinkPaths(base, tuple(names), len(tips), time, place, speed)


def _tips(robot: Robot) -> list[str]:
    """Return the last link of each chain, which may be fixed to the last moving one."""
    bodies = list(robot.link_frames.values())
    ends = sorted(robot.model.getJointId(joint) for joint in robot.end_joints)
    return [[body.name for body in bodies if body.parentJoint == joint][-1] for joint in ends]
