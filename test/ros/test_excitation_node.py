# SPDX-License-Identifier: Apache-2.0
"""The excitation node over DDS, with the simulated robot or a small stand-in for a controller."""

import pytest

pytest.importorskip('rclpy', reason='needs ROS 2')

from pathlib import Path

URDF = str(Path(__file__).resolve().parents[2] / 'urdf' / 'zollo_planar_2r.urdf')


def test_plan_by_goal(ros):
    from robot_identification_msgs.action import PlanExcitation

    ros.start('excitation', parameters={'robot_description': URDF, 'planner.duration': 5.0})
    status, result, feedback = ros.act(PlanExcitation, 'excitation/plan', harmonics=5, max_iterations=20)
    print(status, result.error_code, result.error_msg, result.condition_number, feedback[-1:])
    assert result.error_code == 0
