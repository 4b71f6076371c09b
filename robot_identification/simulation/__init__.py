# SPDX-License-Identifier: Apache-2.0
"""
A simulated robot made from the same URDF: what a real one would send, with a known truth.

`truth` gives the true parameters, `Simulator` moves and measures the robot, `simulate` records a
whole trajectory.
"""

from .disturbances import (
    Disturbances,
    Payload,
    Wear,
)
from .following import TrajectoryFollower, Waypoints
from .plant import mujoco_model, Plant
from .servo import Servo
from .settings import SimulationSettings
from .simulator import (
    simulate,
    SimulatedSample,
    Simulator,
)
from .truth import perturb, truth

__all__ = [
    'Disturbances',
    'mujoco_model',
    'Payload',
    'perturb',
    'Plant',
    'Servo',
    'simulate',
    'SimulatedSample',
    'SimulationSettings',
    'Simulator',
    'TrajectoryFollower',
    'truth',
    'Waypoints',
    'Wear',
]
