# SPDX-License-Identifier: Apache-2.0
"""Tests of link bounds: boxes and hulls against closed forms, and the fits within them."""

import numpy as np
import pytest
from robot_identification.data.recording import Motion
from robot_identification.errors import SettingsError
from robot_identification.estimation.link_constraints import PhysicalSettings
from robot_identification.estimation.physical import physical
from robot_identification.estimation.system import from_rows
from robot_identification.model.link_geometry import (
    box_faces,
    hull_faces,
    link_points,
)
from robot_identification.model.robot import Robot
from robot_identification.regressor import build, prior
from robot_identification.regressor.base_search import structure

INERTIAL = (
    '<inertial><origin xyz="0.1 0 0"/><mass value="2"/>'
    '<inertia ixx="0.01" iyy="0.02" izz="0.02" ixy="0" ixz="0" iyz="0"/></inertial>'
)


def robot_with(first='', second='', tool=''):
    """Two turning links and what is fixed to the second."""
    return Robot.from_urdf(
        f"""<robot name="two"><link name="base"/>
        <link name="a">{INERTIAL}{first}</link><link name="b">{INERTIAL}{second}</link>
        <link name="tool">{tool}</link>
        <joint name="j1" type="continuous"><parent link="base"/><child link="a"/>
          <axis xyz="0 0 1"/></joint>
        <joint name="j2" type="continuous"><parent link="a"/><child link="b"/>
          <origin xyz="0.3 0 0" rpy="1.5707963267948966 0 0"/><axis xyz="0 0 1"/></joint>
        <joint name="j3" type="fixed"><parent link="b"/><child link="tool"/>
          <origin xyz="0.2 0 0"/></joint></robot>"""
    )


def shape(kind, geometry, xyz='0 0 0'):
    return f'<{kind}><origin xyz="{xyz}"/><geometry>{geometry}</geometry></{kind}>'


BOX = shape('collision', '<box size="0.2 0.1 0.06"/>', '0.1 0 0')
BALL = shape('visual', '<sphere radius="0.05"/>', '0.1 0.02 0')
ROD = shape('collision', '<cylinder radius="0.02" length="0.4"/>')


def test_boxes_are_those_of_the_shapes_and_of_what_is_fixed_to_the_link():
    points = link_points(robot_with(BOX, BALL, ROD))
    np.testing.assert_allclose(points['a'].min(axis=0), [0.0, -0.05, -0.03], atol=1e-12)
    np.testing.assert_allclose(points['a'].max(axis=0), [0.2, 0.05, 0.03], atol=1e-12)
    # the rod of the tool is a collision shape, so the ball for the eye is not asked
    assert points['b'].max(axis=0)[2] == pytest.approx(0.2)
    assert 0.22 <= points['b'].max(axis=0)[0] < 0.2205


def test_visual_shapes_stand_in():
    assert link_points(robot_with(BOX, BALL))['b'].shape[1] == 3
    assert set(link_points(robot_with(BOX))) == {'a'}


@pytest.mark.parametrize('faces_of', [box_faces, hull_faces])
def test_faces_hold_the_points_and_no_more(faces_of):
    points = link_points(robot_with(BOX, BALL))['a']
    faces = faces_of(points)
    inside = points @ faces[:, :3].T + faces[:, 3]
    assert inside.max() < 1e-9
    assert (np.abs(inside).min(axis=0) < 1e-9).all()
    np.testing.assert_allclose(np.linalg.norm(faces[:, :3], axis=1), 1.0)


def test_a_ball_lies_inside_its_hull_and_fills_it_nearly():
    points = link_points(robot_with(BOX, BALL))['b'] - [0.1, 0.02, 0.0]
    faces = hull_faces(points)
    assert -faces[:, 3].max() >= 0.05 - 1e-9
    assert np.linalg.norm(points, axis=1).max() < 0.06


def test_flat_shapes_get_their_box():
    flat = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 1.0, 0.0]])
    np.testing.assert_allclose(hull_faces(flat), box_faces(flat))


def fitted(robot, choice):
    """Fit rows of a robot whose second link's centre of mass lies outside of its shapes."""
    regressor = build(robot)
    base, start = structure(regressor, robot), prior(robot)
    truth = start.updated({'b.mx': 2.0 * 0.4, 'b.my': -0.3, 'b.Ixx': 0.2, 'b.Iyy': 0.6})
    truth = truth.updated({'b.Izz': 0.7, 'j1.fc': 0.5, 'j1.fv': 0.3, 'j2.fc': 0.4, 'j2.fv': 0.2})
    rng = np.random.default_rng(0)
    q, v, a = rng.uniform(-3.0, 3.0, (3, 400, 2))
    rows = regressor.rows(Motion(q, v, a))
    effort = (rows @ truth.values).reshape(400, 2) + 0.1 * rng.normal(size=(400, 2))
    system = from_rows(base, robot.joints, rows[:, base.independent].reshape(400, 2, -1), effort)
    return physical(system, robot, start, PhysicalSettings(center_of_mass=choice))


@pytest.mark.parametrize(('choice', 'faces_of'), [('box', box_faces), ('hull', hull_faces)])
def test_the_centre_of_mass_stays_inside(choice, faces_of):
    robot = robot_with(BOX, BALL)
    free, found = fitted(robot, 'free').standard, fitted(robot, choice).standard
    points = link_points(robot)

    def beyond(parameters, link):
        vector = parameters.inertial(link)
        faces = faces_of(points[link])
        return (faces[:, :3] @ vector[1:4] / vector[0] + faces[:, 3]).max()

    assert beyond(free, 'b') > 0.02
    for link in robot.links:
        assert beyond(found, link) < 1e-6


def test_a_link_without_shapes_is_named():
    with pytest.raises(SettingsError) as caught:
        fitted(robot_with(BOX), 'hull')
    assert caught.value.link == 'b'
    assert caught.value.key == 'estimation.physical.center_of_mass'
