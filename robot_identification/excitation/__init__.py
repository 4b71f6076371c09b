# SPDX-License-Identifier: Apache-2.0
"""Exciting trajectories: planned to tell the parameters apart, checked before a robot moves."""

from .collisions import collision_model, CollisionModel
from .constraints import check_trajectory, CollisionError, LimitViolation
from .fourier import FourierTrajectory
from .limits import Limits, motion_limits
from .planner import plan
from .plans import Plan, PlanningCanceled
from .points import point_to_point, Points, PointTrajectory, to_points
from .settings import PlannerSettings, PointSettings
from .stopping import slow_down
from .trajectories import concatenate, Trajectory

__all__ = [
    'check_trajectory',
    'collision_model',
    'CollisionError',
    'CollisionModel',
    'concatenate',
    'FourierTrajectory',
    'Limits',
    'LimitViolation',
    'motion_limits',
    'Plan',
    'plan',
    'PlannerSettings',
    'PlanningCanceled',
    'point_to_point',
    'Points',
    'PointSettings',
    'PointTrajectory',
    'slow_down',
    'to_points',
    'Trajectory',
]
