# SPDX-License-Identifier: Apache-2.0
"""A simulated arm of two joints and the node that moves it, over DDS."""

from __future__ import annotations

from pathlib import Path

import pytest

URDF = Path(__file__).resolve().parents[3] / 'urdf'
PLANAR = str(URDF / 'zollo_planar_2r.urdf')

PARAMETERS = {
    'use_sim_time': True,
    'execute': True,
    'move_speed': 0.8,
    # a busy machine may hold up the simulation; a driver that dies is told all the same
    'stale_timeout': 1.0,
    'horizon': 1.0,
    'planner.duration': 4.0,
    'planner.harmonics': 4,
    'planner.max_iterations': 3,
}
"""Of the excitation node."""


class Cell:
    """
    A client, a simulated arm, and the node that moves it.

    Attributes
    ----------
    ros:
        The client.
    arm, node:
        Processes.
    states, sent:
        Joint states and trajectories so far.

    """

    def __init__(self, ros, urdf=PLANAR, rate=200.0, **parameters):
        from sensor_msgs.msg import JointState
        from trajectory_msgs.msg import JointTrajectory

        self.ros = ros
        arm = {'robot_description': urdf, 'rate': rate, 'clock_rate': 50.0}
        self.arm = ros.start('simulation', parameters=arm, wait=False)
        self.node = ros.start('excitation', parameters={**PARAMETERS, **parameters})
        self.states = ros.subscribe(JointState, 'joint_states', 1000)
        self.sent = ros.subscribe(JointTrajectory, 'joint_trajectory', 100)
        ros.wait_until(lambda: self.states, 20.0, what='joint states')
        ros.wait_until(
            lambda: 'with joints' in self.node.output, 20.0, what='the robot in excitation'
        )

    def excite(self, cancel_when=None, **fields):
        """Send a goal; return status, result and feedback."""
        from robot_identification_msgs.action import Excite

        return self.ros.act(Excite, 'excitation/excite', cancel_when=cancel_when, **fields)


@pytest.fixture
def own_cell(ros):
    """Give a function that starts nodes for one test."""
    return lambda **options: Cell(ros, **options)
