# SPDX-License-Identifier: Apache-2.0
"""Repaired bodies against closed forms and against all others of the same mass."""

from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
from robot_identification.estimation.physical_constraints import reference_bodies
from robot_identification.model.consistency import from_pseudo_inertia, pseudo_inertia
from robot_identification.model.link_geometry import LinkShape
from robot_identification.model.prior_repair import (
    DENSITY,
    joined_links,
    nearest_body,
    repaired_body,
    shape_body,
    small_body,
    Spread,
)
from robot_identification.model.robot import Robot

URDF = Path(__file__).parents[2] / 'urdf'
SIZE = np.array([0.4, 0.1, 0.06])
BOX = 0.5 * SIZE * np.array([(x, y, z) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)])


def body_of(mass, centre, spread):
    matrix = np.empty((4, 4))
    matrix[:3, :3] = spread + mass * np.outer(centre, centre)
    matrix[:3, 3] = matrix[3, :3] = mass * np.asarray(centre)
    matrix[3, 3] = mass
    return from_pseudo_inertia(matrix)


def test_a_box_is_filled_with_the_inertia_of_a_box():
    pose = pin.SE3(pin.rpy.rpyToMatrix(0.3, -0.5, 0.7), np.array([0.1, 0.2, -0.3]))
    points = BOX @ pose.rotation.T + pose.translation
    found = shape_body(LinkShape(points, float(SIZE.prod())), 2000.0)
    mass = 2000.0 * SIZE.prod()
    box = pin.Inertia(mass, np.zeros(3), mass / 12.0 * np.diag(SIZE @ SIZE - SIZE**2))
    np.testing.assert_allclose(found, pose.act(box).toDynamicParameters(), atol=1e-12)


def test_a_pyramid_has_its_centre_a_quarter_up():
    """Its corners' mean is a fifth up."""
    side, height = 0.4, 0.3
    base = [(x, y, 0.0) for x in (-side / 2, side / 2) for y in (-side / 2, side / 2)]
    points = np.array([*base, (0.0, 0.0, height)])
    volume = side**2 * height / 3.0
    found = shape_body(LinkShape(points, volume), 1000.0)
    mass = 1000.0 * volume
    across = mass * (side**2 / 20.0 + 3.0 * height**2 / 80.0)
    pyramid = pin.Inertia(
        mass, np.array([0.0, 0.0, height / 4.0]), np.diag([across, across, mass * side**2 / 10.0])
    )
    np.testing.assert_allclose(found, pyramid.toDynamicParameters(), atol=1e-12)


def test_a_flat_shape_is_not_filled():
    assert shape_body(LinkShape(BOX * [1.0, 1.0, 0.0], 0.0)) is None


def test_the_nearest_body_keeps_mass_and_centre_and_no_other_is_nearer():
    rng = np.random.default_rng(0)
    axes = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    spread = axes @ np.diag([0.3, 0.2, -0.1]) @ axes.T
    centre = np.array([0.1, -0.2, 0.3])
    found = Spread.of(nearest_body(body_of(2.0, centre, spread)))
    assert found.mass == pytest.approx(2.0) and found.physical
    np.testing.assert_allclose(found.centre, centre)
    floor = np.linalg.eigvalsh(found.spread)[0]
    assert 0.0 < floor < 0.02 * np.linalg.eigvalsh(found.spread)[-1]
    least = np.linalg.norm(found.spread - spread)
    for _ in range(500):  # all others are at least as thick
        change = rng.normal(size=(3, 3)) * rng.choice([1e-3, 1e-2, 0.1])
        values, turned = np.linalg.eigh(found.spread + change + change.T)
        other = turned @ np.diag(np.maximum(values, floor)) @ turned.T
        assert np.linalg.norm(other - spread) >= least - 1e-12


def test_a_body_that_is_possible_is_its_own_nearest():
    body = body_of(2.0, [0.1, 0.0, 0.0], np.diag([0.3, 0.2, 0.1]))
    np.testing.assert_allclose(nearest_body(body), body, atol=1e-12)


def test_a_point_mass_becomes_a_ball_of_the_common_density():
    found = nearest_body(body_of(3.0, [0.1, 0.0, 0.0], np.zeros((3, 3))))
    radius = (3.0 * 3.0 / (4.0 * np.pi * DENSITY)) ** (1.0 / 3.0)
    central = Spread.of(found).spread  # 2/5 m r^2 is the sum of two of these
    np.testing.assert_allclose(central, 0.2 * 3.0 * radius**2 * np.eye(3), atol=1e-12)


def test_a_small_body_is_a_tenth_of_its_neighbours_and_as_dense():
    near = body_of(4.0, [0.1, 0.0, 0.0], 4.0 * 0.04 * np.eye(3))
    found = Spread.of(small_body([near, near]))
    assert found.mass == pytest.approx(0.4)
    assert found.square**1.5 / 0.04**1.5 == pytest.approx(0.1)
    assert Spread.of(small_body([])).mass == 1.0


def test_what_is_missing_is_made_of_shapes_or_of_neighbours():
    shape = LinkShape(BOX, float(SIZE.prod()))
    near = body_of(4.0, np.zeros(3), np.eye(3))
    body, words = repaired_body(np.zeros(10), shape, [near])
    assert body[0] == pytest.approx(DENSITY * SIZE.prod()) and '1200 kg/m^3' in words
    body, words = repaired_body(np.zeros(10), None, [near])
    assert body[0] == pytest.approx(0.4) and 'neighbours' in words
    impossible = body_of(2.0, np.zeros(3), np.diag([0.3, 0.2, -0.1]))
    body, words = repaired_body(impossible, shape, [near])
    assert body[0] == pytest.approx(2.0) and 'nearest' in words


def test_links_are_joined_along_the_tree():
    joined = joined_links(Robot.from_urdf(URDF / 'szabo_3r.urdf'))
    assert joined == {'link_1': ('link_2',), 'link_2': ('link_1', 'link_3'), 'link_3': ('link_2',)}


def test_reference_bodies_say_what_stands_in_place_of_which_link():
    text = (URDF / 'szabo_3r.urdf').read_text()
    robot = Robot.from_urdf(text)
    impossible = robot.prior.updated({'link_2.Ixx': -1.0})
    assert np.linalg.eigvalsh(pseudo_inertia(impossible.inertial('link_2')))[0] < 0.0
    first, second, third = reference_bodies(robot, impossible)
    assert not first.repaired and not third.repaired
    assert 'nearest' in second.remark
    assert second.mass == pytest.approx(robot.prior['link_2.m'])
