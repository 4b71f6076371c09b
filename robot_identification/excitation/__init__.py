# SPDX-License-Identifier: Apache-2.0
"""
Exciting trajectories: planned to distinguish the parameters, checked before a robot moves.

The names below are imported when they are first used.
"""

from typing import TYPE_CHECKING

from .. import lazily

__all__ = [
    'check_trajectory',
    'collision_model',
    'CollisionError',
    'concatenate',
    'FourierTrajectory',
    'Limits',
    'LimitViolation',
    'motion_limits',
    'Obstacle',
    'Plan',
    'plan',
    'PlannerSettings',
    'PlanningCanceled',
    'point_to_point',
    'PointSettings',
    'PointTrajectory',
    'to_points',
    'Trajectory',
]

if TYPE_CHECKING:
    from .bases import FourierTrajectory
    from .collisions import collision_model
    from .constraints import check_trajectory, CollisionError, LimitViolation
    from .limits import Limits, motion_limits
    from .planner import plan
    from .plans import Plan, PlanningCanceled
    from .settings import Obstacle, PlannerSettings, PointSettings
    from .trajectories import concatenate, point_to_point, PointTrajectory, to_points, Trajectory
else:
    _MODULES = {
        'collisions': ('collision_model',),
        'constraints': ('check_trajectory', 'CollisionError', 'LimitViolation'),
        'bases': ('FourierTrajectory',),
        'limits': ('Limits', 'motion_limits'),
        'planner': ('plan',),
        'plans': ('Plan', 'PlanningCanceled'),
        'settings': ('Obstacle', 'PlannerSettings', 'PointSettings'),
        'trajectories': (
            'concatenate',
            'point_to_point',
            'PointTrajectory',
            'to_points',
            'Trajectory',
        ),
    }
    __getattr__ = lazily(__name__, _MODULES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
