# SPDX-License-Identifier: Apache-2.0

from .bases import FourierTrajectory as FourierTrajectory
from .collisions import collision_model as collision_model
from .constraints import check_trajectory as check_trajectory
from .constraints import CollisionError as CollisionError
from .constraints import LimitViolation as LimitViolation
from .limits import Limits as Limits
from .limits import motion_limits as motion_limits
from .planner import plan as plan
from .plans import Plan as Plan
from .plans import PlanningCanceled as PlanningCanceled
from .settings import Obstacle as Obstacle
from .settings import PlannerSettings as PlannerSettings
from .settings import PointSettings as PointSettings
from .trajectories import concatenate as concatenate
from .trajectories import point_to_point as point_to_point
from .trajectories import PointTrajectory as PointTrajectory
from .trajectories import to_points as to_points
from .trajectories import Trajectory as Trajectory
