# SPDX-License-Identifier: Apache-2.0
"""Bounding spheres: never farther apart than the shapes, for shapes of all kinds."""

from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
from robot_identification.excitation.collision_geometry import BoundingSpheres
from robot_identification.excitation.collisions import collision_model
from robot_identification.excitation.settings import Obstacle
from robot_identification.model.robot import Robot

URDF = Path(__file__).resolve().parents[2] / 'urdf'
FETCHED = Path(pin.__file__).parents[4] / 'share' / 'example-robot-data' / 'robots'
OBSTACLES = (
    Obstacle('floor', 'plane'),
    Obstacle('ball', 'sphere', (0.2,), position=(0.6, 0.2, 0.4)),
    Obstacle('post', 'cylinder', (0.05, 1.0), position=(-0.5, 0.1, 0.5), orientation=(0.3, 1, 0)),
    Obstacle('tool', 'box', (0.05, 0.3, 0.02), position=(0.0, 0.1, 0.1), link=''),
)


@pytest.mark.parametrize(
    'path', [URDF / 'demo_arm.urdf', FETCHED / 'ur_description/urdf/ur10_robot.urdf']
)
def test_bounds_are_below_the_distances(path):
    if not path.is_file():
        pytest.skip(f'example-robot-data has no {path.name}')
    robot = Robot.from_urdf(path)
    model = collision_model(robot, 0.01, OBSTACLES)
    geometry = model.geometry
    spheres = BoundingSpheres.from_geometry(robot, geometry, range(len(model.pairs)))
    low, high = np.maximum(robot.limits.lower, -3.0), np.minimum(robot.limits.upper, 3.0)
    position = np.random.default_rng(0).uniform(low, high, (60, robot.n_joints))
    bounds = spheres.distances(position)
    data, shapes = robot.model.createData(), geometry.createData()
    slack = []
    for sample, q in enumerate(robot.configuration(position)):
        pin.computeDistances(robot.model, data, geometry, shapes, q)
        found = np.array([result.min_distance for result in shapes.distanceResults])
        # of shapes that overlap, a bound says no more than that
        slack.append(np.maximum(found, 0.0) - np.maximum(bounds[:, sample], 0.0))
    assert np.min(slack) > -1e-6
    # and they tell something
    assert np.median(slack) < 0.15
