# SPDX-License-Identifier: Apache-2.0
"""
Plans on disk: ``plan.yaml``, which can be read back, and points for controllers.

A Fourier series is stored by its coefficients, every other motion by points with velocities and
accelerations, between which quintics are the motion itself.  What is read is untrusted: its sizes
are limited, and limits, obstacles and efforts are to be checked again against the URDF.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from io import StringIO
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from ..errors import ExcitationError, IdentificationError, reading_failure, SettingsError
from ..model.robot import Robot
from ..model.robot_document import robot_document
from ..options.document import dump, plain
from ..options.fields import from_mapping, option, to_mapping
from ..regressor import ModelSettings
from ..untrusted.files import load_yaml, read_text
from ..untrusted.names import csv_line
from .bases import FourierTrajectory
from .joint_trajectory import STATES
from .plans import Plan
from .settings import Obstacle, PlannerSettings
from .trajectories import (
    least_rate,
    POINT_ARRAYS,
    PointTrajectory,
    to_points,
    Trajectory,
)

FORMAT = 'robot_identification plan 1'

LARGEST_FILE = 16 << 20
"""Largest size of a plan file [bytes]."""

MOST_POINTS = 200_000
"""Points of a motion that is checked."""

MOST_OBSTACLES = 200
"""Obstacles of a plan: each is checked against every link."""

LEAST_RATE = 50.0
"""Points per second that stand for a series, at least [Hz]."""


@dataclass(frozen=True, kw_only=True)
class StoredRobot:
    """Section ``robot`` of a plan: the one that it was made for (`Robot.from_urdf`)."""

    name: str = option(doc="The URDF's robot name")
    joints: tuple[str, ...] = option(doc='Joints that move, in the order of the columns')
    locked: Mapping[str, float] = option(factory=dict, doc='Other joints and their positions')
    gravity: tuple[float, float, float] = option(doc='In the base frame', unit='m/s^2')
    sha256: str = option('', doc='Of the URDF')


@dataclass(frozen=True, kw_only=True)
class _StoredTrajectory:
    """Section ``trajectory``; a series has the second group of keys, points have the third."""

    kind: str = option(doc='Kind of the trajectory', choices=('fourier', 'points'))

    duration: float = option(0.0, doc='Length', unit='s', minimum=0.0, maximum=3600.0)
    frequency: float = option(0.0, doc='Fundamental frequency', unit='Hz', minimum=0.0)
    start: tuple[float, ...] = option((), doc='Position at time 0', unit='rad or m')
    coefficients: tuple[tuple[float, ...], ...] = option(
        (), doc='Sine, then cosine coefficients, a row each with one value a joint'
    )

    time: tuple[float, ...] = option((), doc='Times of the points', unit='s')
    position: tuple[tuple[float, ...], ...] = option((), doc='A row a point')
    velocity: tuple[tuple[float, ...], ...] = option((), doc='A row a point')
    acceleration: tuple[tuple[float, ...], ...] = option((), doc='A row a point')

    def trajectory(self, joints: tuple[str, ...]) -> Trajectory:
        """Return the motion; raises ValueError or ExcitationError where it is none."""
        if self.kind == 'fourier':
            if not (self.duration > 0.0 and self.frequency > 0.0 and self.coefficients):
                raise ValueError('duration, frequency and coefficients have to be given')
            return FourierTrajectory(
                joints,
                self.duration,
                self.frequency,
                np.array(self.start),
                self._table('coefficients'),
            )
        arrays = (self._table(name) for name in POINT_ARRAYS)
        return PointTrajectory(joints, np.array(self.time), *arrays)

    def _table(self, name: str) -> np.ndarray:
        rows = getattr(self, name)
        if len({len(row) for row in rows}) > 1:
            raise ValueError(f"rows of 'trajectory.{name}' have different lengths")
        return np.array(rows, dtype=float).reshape(len(rows), -1 if len(rows) else 0)


@dataclass(frozen=True)
class StoredPlan:
    """A plan that was read from a file; nothing of it has been checked against a robot."""

    robot: StoredRobot
    """The one that it was made for."""
    trajectory: Trajectory
    obstacles: tuple[Obstacle, ...]
    """The floor among them."""
    tracking_tolerance: tuple[float, ...] = ()
    stop_deceleration: tuple[float, ...] = ()
    """Settings of the planner that it was made with; empty where the file has none."""

    def is_of(self, robot: Robot) -> bool:
        """Return whether the plan was made with the very URDF of a robot."""
        return bool(robot_document(robot)['sha256'] == self.robot.sha256)


def plan_text(plan: Plan, robot: Robot, model: ModelSettings) -> str:
    """Return the content of ``plan.yaml``; all but the trajectory is for the reader's use."""
    stored = robot_document(robot)
    limits = {
        name: getattr(plan.limits, name)
        for name in ('lower', 'upper', 'velocity', 'acceleration', 'jerk', 'effort')
    }
    document: dict[str, Any] = {
        'format': FORMAT,
        'robot': {key: stored[key] for key in ('name', 'joints', 'locked', 'gravity', 'sha256')},
        'trajectory': _trajectory_document(plan.trajectory),
        'limits': limits,
        'settings': {'planner': to_mapping(plan.settings), 'robot': to_mapping(model)},
        'found': {
            'condition_number': plan.condition_number,
            'amplitude': plan.amplitude,
            'seconds': plan.seconds,
            'warnings': list(plan.warnings),
        },
    }
    if plan.deviations is not None:
        document['deviations'] = plan.deviations.rows()
    return dump(plain(document))


def _trajectory_document(trajectory: Trajectory) -> dict[str, Any]:
    if isinstance(trajectory, FourierTrajectory):
        return {
            'kind': 'fourier',
            'duration': trajectory.duration,
            'frequency': trajectory.frequency,
            'start': trajectory.start,
            'coefficients': trajectory.coefficients,
        }
    points = as_points(trajectory)
    arrays = {name: getattr(points, name) for name in POINT_ARRAYS}
    return {'kind': 'points', 'time': points.time, **arrays}


def as_points(trajectory: Trajectory) -> PointTrajectory:
    """
    Return a trajectory as the points that are sent, quintics in between.

    Raises `ExcitationError` where it has more instants than a check can look at.
    """
    if isinstance(trajectory, PointTrajectory) and trajectory.acceleration is not None:
        return trajectory
    columns = 2 * trajectory.harmonics if isinstance(trajectory, FourierTrajectory) else 1
    points = trajectory.duration * least_rate(trajectory, LEAST_RATE)
    if points * max(columns, 100) > 100 * MOST_POINTS:
        raise ExcitationError(
            f'the trajectory takes {points:.3g} points, too many to be checked',
            value=points,
            remedy='plan a shorter motion, or one of lower frequency',
        )
    return to_points(trajectory, LEAST_RATE)


def read_plan(path: str | os.PathLike) -> StoredPlan:
    """
    Read a plan file.

    Raises `SettingsError` naming the file, and the key that is missing, of a wrong type or out of
    range.
    """
    path = Path(path)
    try:
        document = load_yaml(read_text(path, LARGEST_FILE))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise _wrong(path, reading_failure(error)) from error
    if not isinstance(document, dict) or document.get('format') != FORMAT:
        raise _wrong(path, f"it is no plan: its key 'format' is not '{FORMAT}'")
    try:
        robot = from_mapping(StoredRobot, document.get('robot'), 'robot')
        motion = from_mapping(_StoredTrajectory, document.get('trajectory'), 'trajectory')
        obstacles, tolerances = _kept_settings(document.get('settings'))
        trajectory = motion.trajectory(robot.joints)
    except (IdentificationError, ValueError) as error:
        raise _wrong(path, getattr(error, 'message', str(error))) from error
    return StoredPlan(robot, trajectory, obstacles, *tolerances)


def _kept_settings(settings: Any) -> tuple[tuple[Obstacle, ...], list[tuple[float, ...]]]:
    """Return obstacles, tolerance and decelerations of a plan; other settings are ignored."""
    planner = settings.get('planner') if isinstance(settings, dict) else None
    given = planner if isinstance(planner, dict) else {}
    names = ('tracking_tolerance', 'stop_deceleration')
    known = {key: given[key] for key in ('floor', 'obstacles', *names) if key in given}
    read = from_mapping(PlannerSettings, known, 'settings.planner')
    if len(read.all_obstacles) > MOST_OBSTACLES:
        raise ValueError(f'{len(read.all_obstacles)} obstacles, {MOST_OBSTACLES} are the most')
    return read.all_obstacles, [getattr(read, name) if name in known else () for name in names]


def _wrong(path: Path, reason: str) -> SettingsError:
    return SettingsError(
        f"cannot read plan '{path}': {reason}",
        file=str(path),
        remedy="give a plan.yaml that 'robot-identification plan' wrote",
    )


# ------------------------------------------------------------------------------------- the points


def points_csv(trajectory: PointTrajectory) -> str:
    """
    Return points as CSV.

    Columns are ``time`` [s] and ``<joint>.position``, ``.velocity`` and ``.acceleration`` of every
    joint [rad, rad/s, rad/s^2; m for a prismatic joint].
    """
    text = StringIO()
    header = ['time', *(f'{joint}.{name}' for name in POINT_ARRAYS for joint in trajectory.joints)]
    rows = np.column_stack(
        [trajectory.time, *(getattr(trajectory, name) for name in POINT_ARRAYS)]
    )
    text.write(csv_line(header))
    np.savetxt(text, rows, fmt='%.9g', delimiter=',')
    return text.getvalue()


def points_yaml(trajectory: PointTrajectory) -> str:
    """
    Return points as a ``trajectory_msgs/msg/JointTrajectory`` in YAML's flow style.

    Such a text is an argument of ``ros2 topic pub``, and a part of one of ``ros2 action
    send_goal``.
    """
    # JSON's text is YAML's, whatever a name has in it
    names = ', '.join(json.dumps(name) for name in trajectory.joints)
    lines = []
    for i, time in enumerate(trajectory.time):
        sec, nanosec = divmod(round(1e9 * float(time)), 10**9)
        values = (
            f'{name}: [{", ".join(f"{value:.7g}" for value in getattr(trajectory, field)[i])}]'
            for name, field in zip(STATES, POINT_ARRAYS, strict=True)
        )
        stamp = f'time_from_start: {{sec: {sec}, nanosec: {nanosec}}}'
        lines.append(f'{{{", ".join(values)}, {stamp}}}')
    points = ',\n  '.join(lines)
    return f'{{joint_names: [{names}], points: [\n  {points}]}}\n'
