# SPDX-License-Identifier: Apache-2.0
"""Quintics of a joint_trajectory_controller through the points that are sent, held to the plan."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from robot_identification.excitation.planner import plan
from robot_identification.excitation.settings import PlannerSettings
from robot_identification.excitation.trajectories import to_points
from robot_identification.model.robot import Robot

URDF = Path(__file__).resolve().parents[2] / 'urdf' / 'zollo_planar_2r.urdf'
RATE = 50.0
"""Default of the parameter `publish_rate` [Hz]."""


def through(points, time):
    """Return (3, n, n_joints) on the quintics through points, each from its six conditions."""
    found = []
    for moment in time:
        i = min(int(np.searchsorted(points.time, moment, side='right')) - 1, points.time.size - 2)
        # stamps on the wire are whole nanoseconds
        begin, end = np.round(points.time[i : i + 2], 9)
        length, t = end - begin, moment - begin

        def rows(at):
            powers = np.arange(6)
            value = at**powers
            slope = powers * at ** np.maximum(powers - 1, 0)
            curve = powers * (powers - 1) * at ** np.maximum(powers - 2, 0)
            return np.array([value, slope, curve])

        conditions = np.vstack([rows(0.0), rows(1.0)])
        scale = length ** np.arange(3)[:, None]
        states = [
            scale * np.array([points.position[k], points.velocity[k], points.acceleration[k]])
            for k in (i, i + 1)
        ]
        coefficients = np.linalg.solve(conditions, np.vstack(states))
        found.append(rows(t / length) @ coefficients / scale)
    return np.array(found).transpose(1, 0, 2)


@pytest.mark.parametrize(
    ('method', 'speed'),
    [
        ('fourier', 1.0),
        ('spline', 1.0),
        ('points', 0.2),
        *(
            pytest.param(method, speed, marks=pytest.mark.soak)
            for method, speed in (('points', 1.0), ('fourier', 0.2), ('spline', 0.2))
        ),
    ],
)
def test_a_controllers_quintics_are_the_planned_path(method, speed):
    settings = PlannerSettings(method=method, duration=4.0, max_iterations=2, seed=3)
    if method == 'points':
        few = replace(settings.points, equations=10, starts=3, rounds=0)
        settings = replace(settings, points=few)
    made = plan(Robot.from_urdf(URDF), settings).trajectory
    # as plans are kept, and as they are sent
    points = to_points(to_points(made, RATE).slower(speed), RATE)
    time = np.random.default_rng(1).uniform(0.0, points.duration, 400)
    position, velocity, acceleration = through(points, time)
    planned = made.sample(time * speed)
    np.testing.assert_allclose(position, planned.position, atol=2e-6)
    np.testing.assert_allclose(velocity, speed * planned.velocity, atol=2e-4)
    largest = np.abs(planned.acceleration).max()
    np.testing.assert_allclose(
        acceleration, speed**2 * planned.acceleration, atol=5e-3 * largest * speed**2
    )
    # and what the checks look at is what the controller does
    checked = points.sample(time)
    np.testing.assert_allclose(position, checked.position, atol=1e-8)
    np.testing.assert_allclose(velocity, checked.velocity, atol=1e-6)
