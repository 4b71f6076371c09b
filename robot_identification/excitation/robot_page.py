# SPDX-License-Identifier: Apache-2.0
"""Page of a robot as its URDF has it: links in 3D, sliders of joints, findings of the check."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..model.robot import Robot
from ..model.robot_check import RobotCheck
from .limits import joint_units
from .robot_scene import render_scene, scene

ENDLESS = {'rad': np.pi, 'm': 1.0}
"""Range of sliders of joints without limits, to both sides [rad or m]."""

_POSES = 50  # by which the view is chosen


def robot_html(robot: Robot, check: RobotCheck) -> str:
    """Return the page as the text of an HTML document; links with findings have another colour."""
    findings = check.findings()
    rows = list(_joints(robot))
    low, high = (np.array([row[end] for row in rows]) for end in ('low', 'high'))
    # the sliders put the joints; the view has room for all that they reach
    reached = np.random.default_rng(0).uniform(low, high, (_POSES, len(rows)))
    reached[0] = [row['value'] for row in rows]
    marked = {link for link, _ in findings if link in robot.link_frames}
    return render_scene(
        'robot.html',
        scene(robot, reached, 1.0, marked=marked, bodies=True),
        robot=robot,
        rows=rows,
        findings=findings,
        remarks=check.plausibility.remarks,
    )


def _joints(robot: Robot) -> Iterator[dict[str, Any]]:
    """Iterate over name, unit, range and first value of each joint's slider."""
    limits = robot.limits
    for joint, unit, low, high in zip(
        robot.joints, joint_units(robot), limits.lower, limits.upper, strict=True
    ):
        bounded = bool(np.isfinite(low) and np.isfinite(high) and low < high)
        low, high = (low, high) if bounded else (-ENDLESS[unit], ENDLESS[unit])
        value = float(np.clip(0.0, low, high))
        yield {
            'joint': joint,
            'unit': unit,
            'low': float(low),
            'high': float(high),
            'value': value,
            'bounded': bounded,
        }
