# SPDX-License-Identifier: Apache-2.0
"""
A simulated robot made from the same URDF: what a real one would send, with a known truth.

`truth` gives the true parameters, `Simulator` moves and measures the robot, `simulate` records a
whole trajectory.
"""

from .plant import Plant
from .servo import Servo, TrajectoryFollower, Waypoints
from .simulator import simulate, SimulatedSample, Simulator
from .truth import perturb, SimulatedPayload, SimulationSettings, truth, Wear

__all__ = [
    'perturb',
    'Plant',
    'Servo',
    'simulate',
    'SimulatedPayload',
    'SimulatedSample',
    'SimulationSettings',
    'Simulator',
    'TrajectoryFollower',
    'truth',
    'Waypoints',
    'Wear',
]
