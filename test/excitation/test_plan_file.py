# SPDX-License-Identifier: Apache-2.0
"""Plan files: read back as they were written, refused by name where they are no plans."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from robot_identification.errors import ExcitationError, SettingsError
from robot_identification.excitation.bases import FourierTrajectory
from robot_identification.excitation.criteria import PredictedDeviations
from robot_identification.excitation.limits import motion_limits
from robot_identification.excitation.plan_file import (
    as_points,
    MOST_OBSTACLES,
    plan_text,
    points_csv,
    points_yaml,
    read_plan,
)
from robot_identification.excitation.plans import Plan
from robot_identification.excitation.settings import PlannerSettings
from robot_identification.excitation.trajectories import point_to_point, PointTrajectory, to_points
from robot_identification.model.robot import Robot
from robot_identification.regressor import ModelSettings
import yaml

URDF = Path(__file__).resolve().parents[2] / 'urdf' / 'szabo_3r.urdf'
SETTINGS = PlannerSettings(duration=5.0, jerk_time=None, floor=-0.5)
MODEL = ModelSettings(friction=('viscous',))


@pytest.fixture(scope='module')
def robot():
    return Robot.from_urdf(URDF)


def series(robot, frequency=0.2, duration=5.0):
    coefficients = np.random.default_rng(1).normal(size=(8, robot.n_joints))
    return FourierTrajectory(robot.joints, duration, frequency, np.full(3, 0.1), coefficients)


def hops(robot):
    position = np.outer([0.0, 1.0, 0.3], np.ones(3))
    velocity = np.outer([0.0, 0.5, 0.0], [1.0, -1.0, 2.0])
    return PointTrajectory(
        robot.joints, np.array([0.0, 1.5, 2.9]), position, velocity, np.zeros((3, 3))
    )


def plan_of(robot, trajectory):
    limits = motion_limits(robot, SETTINGS)
    return Plan(trajectory, limits, 12.5, (), 1.0, SETTINGS, 2.0)


def stored(tmp_path, robot, trajectory):
    path = tmp_path / 'plan.yaml'
    path.write_text(plan_text(plan_of(robot, trajectory), robot, MODEL))
    return path


@pytest.mark.parametrize('make', [series, hops])
def test_a_plan_reads_back_as_the_same_motion_of_the_same_robot(tmp_path, robot, make):
    trajectory = make(robot)
    read = read_plan(stored(tmp_path, robot, trajectory))
    time = np.linspace(0.0, trajectory.duration, 501)
    wanted, found = trajectory.sample(time), read.trajectory.sample(time)
    for name in ('position', 'velocity', 'acceleration'):
        assert getattr(found, name) == pytest.approx(getattr(wanted, name), abs=1e-9)
    assert read.robot.joints == robot.joints and read.is_of(robot)
    assert read.obstacles == SETTINGS.all_obstacles
    assert not read.is_of(robot.from_urdf(robot.urdf.replace('<robot', '<!-- x --><robot')))


@pytest.mark.parametrize(
    ('old', 'new', 'named'),
    [
        ('format: robot_identification plan 1', 'format: 2', 'format'),
        ('kind: fourier', 'kind: rocket', 'trajectory.kind'),
        ('duration: 5.0', 'duration: -5.0', 'trajectory.duration'),
        ('duration: 5.0', 'duration: .nan', 'trajectory.duration'),
        ('frequency: 0.2', 'frequency: 0.0', 'frequency'),
        ('start: [0.1, 0.1, 0.1]', 'start: [0.1, 0.1]', 'start (2,)'),
        ('start: [0.1, 0.1, 0.1]', 'start: here', 'trajectory.start'),
        ('  gravity:', '  weight:', 'robot.weight'),
        ('floor: -0.5', 'floor: low', 'settings.planner.floor'),
        ('trajectory:', 'trajectory: []\nx:', 'trajectory'),
    ],
)
def test_what_is_no_plan_is_refused_by_its_key(tmp_path, robot, old, new, named):
    path = stored(tmp_path, robot, series(robot))
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(SettingsError) as refused:
        read_plan(path)
    message = str(refused.value)
    assert str(path) in message and named in message and '\n' not in message


def test_settings_of_another_version_do_not_matter(tmp_path, robot):
    path = stored(tmp_path, robot, series(robot))
    text = path.read_text()
    path.write_text(text.replace('    seed:', '    mood: good\n    seed:'))
    assert read_plan(path).obstacles == SETTINGS.all_obstacles


def test_rows_of_different_lengths_are_refused(tmp_path, robot):
    path = stored(tmp_path, robot, series(robot))
    document = yaml.safe_load(path.read_text())
    document['trajectory']['coefficients'][3].pop()
    path.write_text(yaml.safe_dump(document))
    with pytest.raises(SettingsError, match="rows of 'trajectory.coefficients' have different"):
        read_plan(path)


def test_a_thousand_obstacles_are_refused(tmp_path, robot):
    path = stored(tmp_path, robot, series(robot))
    document = yaml.safe_load(path.read_text())
    ball = {'kind': 'sphere', 'size': [0.1]}
    many = [{'name': f'ball {i}', **ball} for i in range(MOST_OBSTACLES + 1)]
    document['settings']['planner']['obstacles'] = many
    path.write_text(yaml.safe_dump(document))
    with pytest.raises(SettingsError, match='obstacles'):
        read_plan(path)


def test_missing_files_and_folders_are_refused(tmp_path):
    for path in (tmp_path, tmp_path / 'none.yaml'):
        with pytest.raises(SettingsError, match='cannot read plan'):
            read_plan(path)


def test_a_fast_series_is_looked_at_as_densely_as_it_moves(robot):
    """At 50 points a second, a series of 50 Hz would seem to rest."""
    points = as_points(series(robot, frequency=50.0))
    assert np.ptp(points.position, axis=0).min() > 1e-3
    assert as_points(series(robot)).time.size == 251


def test_a_series_of_millions_of_points_is_refused(robot):
    with pytest.raises(ExcitationError, match='too many'):
        as_points(series(robot, frequency=1e5))


def test_the_message_is_a_joint_trajectory_in_yaml(robot):
    points = to_points(hops(robot), 10.0)
    message = yaml.safe_load(points_yaml(points))
    assert message['joint_names'] == list(robot.joints)
    found = message['points']
    stamps = [p['time_from_start']['sec'] + 1e-9 * p['time_from_start']['nanosec'] for p in found]
    assert stamps == pytest.approx(points.time, abs=1e-9)
    for name, key in (
        ('position', 'positions'),
        ('velocity', 'velocities'),
        ('acceleration', 'accelerations'),
    ):
        rows = np.array([p[key] for p in found])
        assert rows == pytest.approx(getattr(points, name), abs=1e-6)


def test_predicted_deviations_are_listed_by_parameter(robot):
    deviations = PredictedDeviations(
        ('a', 'b'), ('kg', 'N m'), np.array([0.1, np.inf]), np.array([2.0, 0.0])
    )
    plan = replace(plan_of(robot, series(robot)), deviations=deviations)
    text = plan_text(plan, robot, MODEL)
    assert yaml.safe_load(text)['deviations'] == [
        {'parameter': 'a', 'unit': 'kg', 'urdf': 2.0, 'std': 0.1},
        {'parameter': 'b', 'unit': 'N m', 'urdf': 0.0, 'std': None},
    ]


@pytest.mark.parametrize('name', ['a, b', 'x: y', '"q"', "it's", '[1]', 'é'])
def test_names_of_joints_survive_in_the_message(name):
    points = point_to_point([name], np.zeros(1), np.ones(1), np.ones(1), np.ones(1))
    assert yaml.safe_load(points_yaml(points))['joint_names'] == [name]


def test_the_csv_has_a_column_for_each_quantity_of_each_joint(tmp_path, robot):
    points = to_points(series(robot), 100.0)
    path = tmp_path / 'trajectory.csv'
    path.write_text(points_csv(points))
    table = np.genfromtxt(path, delimiter=',', names=True, deletechars='')
    assert table['time'] == pytest.approx(points.time)
    assert table['joint_2.velocity'] == pytest.approx(points.velocity[:, 1], rel=1e-8)
    assert len(table.dtype.names) == 1 + 3 * robot.n_joints
