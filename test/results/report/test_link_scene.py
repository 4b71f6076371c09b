# SPDX-License-Identifier: Apache-2.0
"""Ellipsoids have the inertia that they stand for, and are where Pinocchio has the link."""

from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
from robot_identification.model.robot import Robot
from robot_identification.regressor import ModelSettings, prior
from robot_identification.results.report.link_scene import ellipsoid, link_figure

ARM = Path(__file__).resolve().parents[3] / 'urdf' / 'demo_arm.urdf'


@pytest.fixture(scope='module')
def robot():
    return Robot.from_urdf(ARM)


def test_the_ellipsoid_is_that_of_pinocchio():
    """A uniform ellipsoid of known semi-axes and pose comes back from its ten parameters."""
    axes = np.array([0.1, 0.3, 0.2])
    pose = pin.SE3(pin.Quaternion(0.5, 0.5, -0.1, 0.7).normalized().matrix(), np.ones(3))
    inertia = pose.act(pin.Inertia.FromEllipsoid(2.0, *axes))
    inertial = inertia.toDynamicParameters()
    vertices, faces = ellipsoid(inertial)
    local = (vertices - pose.translation) @ pose.rotation
    np.testing.assert_allclose(((local / axes) ** 2).sum(axis=1), 1.0, atol=1e-9)
    np.testing.assert_allclose(np.ptp(local, axis=0), 2.0 * axes, rtol=0.05)
    assert faces.min() == 0 and faces.max() == len(vertices) - 1


def test_an_inconsistent_inertia_has_none():
    inertial = pin.Inertia.FromEllipsoid(2.0, 0.1, 0.3, 0.2).toDynamicParameters()
    inertial[9] += 1.0
    assert ellipsoid(inertial) is None


def test_centres_of_mass_are_where_pinocchio_has_them(robot):
    before = prior(robot, ModelSettings())
    figure = link_figure(robot, before, before.updated({f'{robot.links[-1]}.m': 0.0}))
    old, new = (part for part in figure.traces if part['type'] == 'scatter3d')
    data = robot.model.createData()
    pin.forwardKinematics(robot.model, data, pin.neutral(robot.model))
    for k, index in enumerate(robot.joint_ids):
        expected = data.oMi[index].act(robot.model.inertias[index].lever)
        np.testing.assert_allclose([old[axis][k] for axis in 'xyz'], expected, atol=1e-12)
    # everything is within the axes, which have one scale
    scene = figure.layout['scene']
    scales = []
    for axis in 'xyz':
        low, high = scene[f'{axis}axis']['range']
        assert all(low < part[axis].min() and part[axis].max() < high for part in figure.traces)
        scales.append(scene['aspectratio'][axis] / (high - low))
    np.testing.assert_allclose(scales, scales[0])
    # what has no mass has no centre of mass
    assert len(new['x']) == len(old['x']) - 1
    assert f'{before[f"{robot.links[0]}.m"]:.4g} kg' in old['customdata'][0]
    surfaces = [part['name'] for part in figure.traces if part['type'] == 'mesh3d']
    n = robot.n_joints
    assert surfaces == ['shapes', *['inertia before'] * n, *['inertia after'] * (n - 1)]
