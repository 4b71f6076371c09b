# SPDX-License-Identifier: Apache-2.0
"""Data of the 3D scene: surfaces of shapes, thinned meshes, and what belongs to which joint."""

import base64
from pathlib import Path

import coal
import numpy as np
import pytest
from robot_identification.excitation.robot_scene import (
    MOST_TRIANGLES,
    packed,
    scene,
)
from robot_identification.excitation.settings import Obstacle
from robot_identification.figures.link_shapes import mesh_of, thinned
from robot_identification.model.robot import Robot

URDF = Path(__file__).resolve().parents[2] / 'urdf' / 'demo_arm.urdf'


def area(vertices, faces):
    a, b, c = (vertices[faces[:, k]] for k in range(3))
    return 0.5 * np.linalg.norm(np.cross(b - a, c - a), axis=1).sum()


@pytest.mark.parametrize(
    ('shape', 'expected'),
    [
        (coal.Box(1.0, 2.0, 3.0), 22.0),
        (coal.Sphere(0.5), np.pi),
        (coal.Cylinder(0.5, 2.0), 2.5 * np.pi),
        (coal.Capsule(0.5, 2.0), 3.0 * np.pi),
        (coal.Cone(3.0, 4.0), 24.0 * np.pi),
        (coal.Halfspace(np.array([0.0, 0.6, 0.8]), 0.2), 9.0),
    ],
)
def test_a_shape_has_the_area_that_geometry_gives_it(shape, expected):
    vertices, faces = mesh_of(shape)
    assert area(vertices, faces) == pytest.approx(expected, rel=0.01)


def test_an_ellipsoid_keeps_its_ends():
    vertices, _ = mesh_of(coal.Ellipsoid(1.0, 2.0, 3.0))
    assert vertices.max(axis=0) == pytest.approx([1.0, 2.0, 3.0], rel=0.01)


def test_a_plate_lies_in_its_plane():
    normal = np.array([0.0, 0.6, 0.8])
    vertices, _ = mesh_of(coal.Halfspace(normal, 0.2))
    assert vertices @ normal == pytest.approx(np.full(4, 0.2))


def test_thinning_keeps_the_shape_of_a_large_mesh():
    count = 120
    grid = np.arange(count * count).reshape(count, count)
    x, y = np.meshgrid(np.linspace(0, 1, count), np.linspace(0, 1, count))
    vertices = np.column_stack([x.ravel(), y.ravel(), np.zeros(count * count)])
    a, b, c, d = (
        part.ravel() for part in (grid[:-1, :-1], grid[1:, :-1], grid[:-1, 1:], grid[1:, 1:])
    )
    faces = np.vstack([np.column_stack([a, b, c]), np.column_stack([b, d, c])])
    few, left = thinned(vertices, faces, 2000)
    assert 500 < len(left) <= 2000
    assert area(few, left) == pytest.approx(1.0, rel=0.1)
    assert left.max() == len(few) - 1


def test_thinning_merges_equal_vertices_alone_where_the_mesh_is_small():
    """An STL file has three vertices for each triangle."""
    corners = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]], float)
    vertices, faces = thinned(corners, np.arange(6).reshape(2, 3), 100)
    assert len(vertices) == 4 and len(faces) == 2
    assert area(vertices, faces) == pytest.approx(1.0)


def test_a_mesh_without_triangles_is_drawn_as_nothing():
    vertices, faces = thinned(np.zeros((3, 3)), np.zeros((0, 3), int), 10)
    assert len(vertices) == len(faces) == 0


@pytest.fixture(scope='module')
def arm():
    return Robot.from_urdf(URDF)


def vertices_of(shape):
    raw = np.frombuffer(base64.b64decode(shape['vertices']), '<u2').reshape(-1, 3) / 65535.0
    matrix = np.array(shape['matrix']).reshape(4, 4).T
    return raw @ matrix[:3, :3].T + matrix[:3, 3]


def test_shapes_stand_where_the_urdf_puts_them(arm):
    """The base is a cylinder upon the ground, whose axis is z."""
    drawn = scene(arm, np.zeros((2, 6)), 1.0)['robot']
    base = np.vstack([vertices_of(s) for s in drawn['shapes'] if s['joint'] == 0])
    assert base[:, 2].min() == pytest.approx(0.0, abs=1e-4)
    assert base[:, :2].mean(axis=0) == pytest.approx([0.0, 0.0], abs=1e-3)
    assert {s['joint'] for s in drawn['shapes']} == set(range(7))
    triangles = sum(len(base64.b64decode(s['faces'])) // 6 for s in drawn['shapes'])
    assert 100 < triangles <= MOST_TRIANGLES


def test_links_without_visual_shapes_are_drawn_by_their_collision_shapes(arm):
    bare = Robot.from_urdf(arm.urdf.replace('<visual', '<!--').replace('</visual>', '-->'))
    with_both, alone = (
        scene(each, np.zeros((2, 6)), 1.0)['robot']['shapes'] for each in (arm, bare)
    )
    assert len(alone) == len(with_both)
    assert all(shape['colour'] is None for shape in alone)
    assert any(shape['colour'] for shape in with_both)


def test_tools_move_with_their_link_and_other_obstacles_stand_still(arm):
    tool = Obstacle('tool', 'sphere', size=(0.1,), position=(0.0, 0.0, 0.2), link='tool_flange')
    table = Obstacle('table', size=(1.0, 1.0, 0.1), position=(1.0, 0.0, 0.3))
    floor = Obstacle('floor', 'plane')
    drawn = scene(arm, np.zeros((2, 6)), 1.0, (tool, table, floor))
    carried = [shape for shape in drawn['robot']['shapes'] if shape.get('obstacle')]
    assert [shape['joint'] for shape in carried] == [6]
    standing = drawn['shapes']
    assert [shape['plane'] for shape in standing] == [False, True]
    assert vertices_of(standing[0]).max(axis=0) == pytest.approx([1.5, 0.5, 0.35], abs=1e-4)


def test_a_scene_is_as_large_as_the_motion(arm):
    still = np.zeros((2, 6))
    bent = np.array([still[0], [0.0, 1.5, 0.0, 0.0, 0.0, 0.0]])
    radius = scene(arm, still, 1.0)['radius']
    assert scene(arm, bent, 1.0)['radius'] > radius
    # and as the last link, whose end no joint marks
    pole = Obstacle('pole', size=(0.05, 0.05, 2.0), position=(0.0, 0.0, 1.0), link='tool_flange')
    assert scene(arm, still, 1.0, (pole,))['radius'] > radius + 0.9


def test_arrays_are_packed_as_little_endian_numbers():
    values = np.array([[1.5, -2.0]])
    assert np.frombuffer(base64.b64decode(packed(values)), '<f4').tolist() == [1.5, -2.0]
