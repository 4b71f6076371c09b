# SPDX-License-Identifier: Apache-2.0
"""The collision model: closed-form distances, pairs that count, gradients, missing meshes."""

from pathlib import Path
import re

import numpy as np
import pinocchio as pin
import pytest
from robot_identification.errors import IdentificationWarning
from robot_identification.excitation.collisions import collision_model, DistancePenalty
from robot_identification.excitation.settings import with_floor
from robot_identification.model.robot import Robot

ROOT = Path(__file__).resolve().parents[2]


def balls(mesh='', gap_joint='revolute'):
    """Three links in a chain of 1 m steps along x, each with a ball of 0.1 m at its end."""
    links, joints = [], []
    for i in range(4):
        shape = mesh if i == 3 and mesh else '<sphere radius="0.1"/>'
        place = '0 0 0' if i == 0 else '1 0 0'
        links.append(
            f'<link name="l{i}"><inertial><mass value="1"/>'
            '<inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'
            f'<collision><origin xyz="{place}"/><geometry>{shape}</geometry></collision></link>'
        )
        if i:
            offset = '0 0 0' if i == 1 else '1 0 0'
            joints.append(
                f'<joint name="j{i}" type="revolute"><parent link="l{i - 1}"/>'
                f'<child link="l{i}"/><origin xyz="{offset}"/><axis xyz="0 0 1"/>'
                '<limit lower="-3.1" upper="3.1" velocity="1" effort="1000"/></joint>'
            )
    return f'<robot name="balls">{"".join(links)}{"".join(joints)}</robot>'


@pytest.fixture(scope='module')
def chain():
    return collision_model(Robot.from_urdf(balls()), 0.01)


def test_only_links_that_no_joint_joins_are_looked_at(chain):
    assert set(chain.pairs) == {('l0', 'l2'), ('l0', 'l3'), ('l1', 'l3')}


def test_distances_are_those_of_the_balls(chain):
    # stretched: nothing is near
    assert not list(chain.contacts(np.zeros((1, 3))))
    # l1's ball at (1, 0), l2's at (1, 0) + (cos, sin): l0 and l2 touch when it folds back
    fold = np.pi - 0.1
    expected = np.hypot(1.0 + np.cos(fold), np.sin(fold)) - 0.2
    (contact,) = list(chain.contacts(np.array([[0.0, 0.0, 0.0], [0.0, fold, 0.0]])))
    assert {contact.first, contact.second} == {'l0', 'l2'}
    assert contact.sample == 1
    assert contact.distance == pytest.approx(expected, abs=1e-6)


def test_the_clearance_is_kept(chain):
    for gap, touching in ((0.009, True), (0.011, False)):
        # the balls' centres are 2 cos(angle / 2) apart
        angle = 2.0 * np.arccos((0.2 + gap) / 2.0)
        found = list(chain.contacts(np.array([[0.0, angle, 0.0]])))
        assert bool(found) is touching


def test_the_reach_bounds_how_far_a_point_can_be_from_an_axis(chain):
    # the ball at the tip: 3, 2 and 1 m of links and its radius, at most sqrt(3) for its box
    np.testing.assert_allclose(chain.reach, [3.1, 2.1, 1.1], atol=0.08)
    assert (chain.reach >= [3.1, 2.1, 1.1]).all()


@pytest.fixture(scope='module')
def arm():
    robot = Robot.from_urdf(ROOT / 'urdf' / 'demo_arm.urdf')
    return collision_model(robot, 0.01, with_floor((), -0.3))


def distances(model, position):
    """Measure all pairs by Pinocchio alone."""
    robot, geometry = model.robot, model.geometry
    data, shapes = robot.model.createData(), geometry.createData()
    found = []
    for q in robot.configuration(position):
        pin.computeDistances(robot.model, data, geometry, shapes, q)
        found.append([result.min_distance for result in shapes.distanceResults])
    return np.array(found)


def test_no_distance_changes_by_more_than_the_reach_of_its_pair(arm):
    rng = np.random.default_rng(3)
    begin = rng.uniform(-2.0, 2.0, (300, 6))
    way = rng.uniform(-0.2, 0.2, (300, 6)) * (rng.uniform(size=(300, 6)) < 0.4)
    changes = np.abs(distances(arm, begin + way) - distances(arm, begin))
    bounds = np.abs(way) @ arm.pair_reach.T
    # Coal's distances are good to some micrometres
    assert (changes <= bounds + 1e-5).all()
    # a bound that is far above what happens would be of no use
    assert (changes / np.maximum(bounds, 1e-3)).max() > 0.4


@pytest.mark.parametrize('n_samples', [1, 7, 700])
def test_pairs_are_near_where_their_distance_is_below_the_one_given(arm, n_samples):
    rng = np.random.default_rng(n_samples)
    way = np.cumsum(rng.uniform(-0.02, 0.02, (n_samples, 6)), axis=0)
    position = rng.uniform(-1.5, 1.5, 6) + way
    limits = rng.uniform(0.02, 0.3, len(arm.pairs))
    limits[::3] = -np.inf
    near, pairs = arm.near(position, limits)
    expected = distances(arm, position) < limits
    assert near.tolist() == expected.any(axis=1).tolist()
    assert pairs.tolist() == np.flatnonzero(expected.any(axis=0)).tolist()


def test_a_locked_joint_joins_its_links():
    robot = Robot.from_urdf(balls(), ['j1', 'j3'], locked={'j2': 0.5})
    model = collision_model(robot, 0.01)
    # l1 and l2 move as one, so l1 and l3 are joined by j3, l0 and l2 by j1
    assert set(model.pairs) == {('l0', 'l3')}


def test_links_that_are_always_close_are_left_out():
    # l1's ball is large enough to hold l3's foot at any angle
    text = balls().replace('<origin xyz="1 0 0"/><geometry><sphere radius="0.1"/>', '@', 1)
    text = text.replace('@', '<origin xyz="1 0 0"/><geometry><sphere radius="2.5"/>')
    pairs = set(collision_model(Robot.from_urdf(text), 0.01).pairs)
    assert ('l1', 'l3') not in pairs
    assert ('l0', 'l2') in pairs


def test_a_missing_mesh_is_named_and_the_rest_is_checked():
    mesh = '<mesh filename="package://nowhere/meshes/tool.stl"/>'
    robot = Robot.from_urdf(balls(mesh))
    with pytest.warns(IdentificationWarning, match=r"tool\.stl' of link 'l3' is not found"):
        model = collision_model(robot, 0.01)
    assert len(model.warnings) == 1
    assert set(model.pairs) == {('l0', 'l2')}


def test_meshes_of_a_real_robot_are_found_beside_its_urdf():
    # the package is data only: it lies in the prefix that Pinocchio's own files lie in
    prefix = next(p for p in Path(pin.__file__).parents if p.name == 'cmeel.prefix')
    folder = prefix / 'share' / 'example-robot-data' / 'robots'
    if not folder.is_dir():
        pytest.skip('needs the package example-robot-data')
    robot = Robot.from_urdf(folder / 'ur_description' / 'urdf' / 'ur5_robot.urdf')
    model = collision_model(robot, 0.01)
    assert not model.warnings
    assert ('shoulder_link', 'wrist_3_link') in model.pairs
    folded = np.array([[0.0, -1.5, 2.9, 0.0, 0.0, 0.0]])
    assert list(model.contacts(folded))


def test_no_link_of_the_demonstration_arm_touches_another_at_zero():
    arm = Robot.from_urdf(ROOT / 'urdf' / 'demo_arm.urdf')
    assert not list(
        collision_model(arm, 0.01, obstacles=with_floor((), 0.0)).contacts(np.zeros((1, 6)))
    )


def test_a_robot_without_shapes_is_warned_of():
    text = re.sub('<collision>.*?</collision>', '', balls())
    robot = Robot.from_urdf(text)
    with pytest.warns(IdentificationWarning, match='has no collision shapes'):
        model = collision_model(robot, 0.01)
    assert not list(model.contacts(np.zeros((3, 3))))
    assert DistancePenalty(model).of(np.zeros((3, 3)), 0.1)[0] == 0.0
