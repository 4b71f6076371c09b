# SPDX-License-Identifier: Apache-2.0
"""Exciting trajectories: planned to tell the parameters apart, checked before a robot moves."""

from .collisions import collision_model, CollisionModel
from .constraints import check_trajectory, Findings, LimitUse, LimitViolation
from .fourier import FourierTrajectory
from .horizons import stoppable, StoppablePath
from .limits import Limits, motion_limits
from .obstacles import Obstacle
from .planner import plan
from .plans import Plan, PlanningCanceled
from .points import point_to_point, Points, PointTrajectory, to_points
from .settings import PlannerSettings, PointSettings
from .sweeping import CollisionError, Nearest
from .trajectories import concatenate, Trajectory

__all__ = [
    'check_trajectory',
    'collision_model',
    'CollisionError',
    'CollisionModel',
    'concatenate',
    'Findings',
    'FourierTrajectory',
    'Limits',
    'LimitUse',
    'LimitViolation',
    'motion_limits',
    'Nearest',
    'Obstacle',
    'Plan',
    'plan',
    'PlannerSettings',
    'PlanningCanceled',
    'point_to_point',
    'Points',
    'PointSettings',
    'PointTrajectory',
    'stoppable',
    'StoppablePath',
    'to_points',
    'Trajectory',
]
