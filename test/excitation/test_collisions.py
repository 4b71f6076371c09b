# SPDX-License-Identifier: Apache-2.0
"""The collision model: closed-form distances, pairs that count, gradients, missing meshes."""

from dataclasses import replace
from itertools import combinations, product
from pathlib import Path
import re

import numpy as np
import pinocchio as pin
import pytest
from robot_identification.errors import ExcitationError, IdentificationWarning
from robot_identification.excitation.collision_geometry import random_positions
from robot_identification.excitation.collisions import collision_model, Coverage
from robot_identification.excitation.constraints import (
    check_collisions,
    CollisionError,
    Nearest,
    too_close,
)
from robot_identification.excitation.distance_penalty import DistancePenalty
from robot_identification.excitation.settings import with_floor
from robot_identification.excitation.trajectories import point_to_point
from robot_identification.model.link_geometry import read_shapes
from robot_identification.model.robot import Robot

from benchmarks.excitation import FETCHED

ROOT = Path(__file__).resolve().parents[2]
UR5 = FETCHED / 'ur_description' / 'urdf' / 'ur5_robot.urdf'


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


def test_pairs_that_are_always_equally_far_apart_need_no_look(chain):
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
    reach = chain.shape_reach.max(axis=0)
    np.testing.assert_allclose(reach, [3.1, 2.1, 1.1], atol=0.08)
    assert (reach >= [3.1, 2.1, 1.1]).all()


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


@pytest.mark.parametrize('n_samples', [1, 7, 200])
def test_contacts_are_the_pairs_below_the_clearance(arm, n_samples):
    rng = np.random.default_rng(n_samples)
    position = rng.uniform(-2.5, 2.5, (n_samples, 6))
    model = replace(arm, clearance=0.1)
    found = [(c.sample, (c.first, c.second), c.distance) for c in model.contacts(position)]
    measured = distances(arm, position)
    rows = np.argwhere(measured < 0.1).tolist()
    assert [f[:2] for f in found] == [(sample, arm.pairs[pair]) for sample, pair in rows]
    expected = [measured[sample, pair] for sample, pair in rows]
    np.testing.assert_allclose([f[2] for f in found], expected, atol=1e-5)


@pytest.mark.parametrize('tolerance', [(0.05,), (0.08, 0.0, 0.02, 0.05, 0.0, 0.05)])
def test_distances_are_the_least_that_tracking_errors_leave(tolerance):
    robot = Robot.from_urdf(ROOT / 'urdf' / 'demo_arm.urdf')
    model = collision_model(robot, 0.01, with_floor((), -0.1), tolerance)
    rng = np.random.default_rng(7)
    position = rng.uniform(0.8 * robot.limits.lower, 0.8 * robot.limits.upper, (400, 6))
    samples, pairs = np.nonzero(model.lower_bounds(position) < 0.03)
    found = model.measure(position[samples], pairs)
    near = [k for k, c in enumerate(found) if -0.02 < c.distance < 0.06][:80]
    assert len(near) > 40
    corners = np.array(list(product((-1.0, 1.0), repeat=6)))
    errors = np.concatenate([corners, rng.uniform(-1.0, 1.0, (64, 6))]) * model.tolerance
    excess, drops = [], []
    for k in near:
        all_errors = model.measured(position[samples[k]] + errors, np.repeat(pairs[k], 128))
        least = all_errors.distance.min()
        excess.append(found[k].distance - least)
        drops.append(found[k].planned - least)
        # what is known without measuring is below it
        assert model.lower_bounds(position[samples[k]][None])[0, pairs[k]] <= least + 1e-6
    # nothing that may happen is closer, and little is taken off beside it
    assert max(excess) < 1e-3
    assert np.mean(excess) > -2e-3
    assert np.mean(drops) > 2e-3


def test_a_joint_that_moves_both_links_alike_takes_nothing_off(chain):
    robot = Robot.from_urdf(balls())
    model = collision_model(robot, 0.01, (), (0.5, 0.0, 0.0))
    found = model.measure(np.array([[0.3, 1.0, 1.0]]), np.array([model.pairs.index(('l1', 'l3'))]))
    assert found[0].distance == found[0].planned
    np.testing.assert_array_equal(model.pair_tolerance[model.pairs.index(('l1', 'l3'))], 0.0)


def test_a_tolerance_for_some_joints_alone_is_named():
    with pytest.raises(ExcitationError, match='has 2 values, the robot 3 joints'):
        collision_model(Robot.from_urdf(balls()), 0.01, (), (0.05, 0.05))


def test_pairs_that_are_left_out_do_not_grow_with_the_tolerance():
    robot = Robot.from_urdf(ROOT / 'urdf' / 'demo_arm.urdf')
    without = collision_model(robot, 0.01, with_floor((), 0.0))
    tolerant = collision_model(robot, 0.01, with_floor((), 0.0), (0.2,))
    assert tolerant.coverage.in_contact == without.coverage.in_contact
    assert set(tolerant.pairs) >= set(without.pairs)


def test_a_locked_joint_joins_its_links():
    robot = Robot.from_urdf(balls(), ['j1', 'j3'], locked={'j2': 0.5})
    model = collision_model(robot, 0.01)
    # l1 and l2 move as one; j3 turns the ball of l3 around that of l2, but not around l1's
    assert set(model.pairs) == {('l0', 'l3'), ('l1', 'l3')}


def test_links_that_overlap_at_every_pose_are_left_out_by_name():
    # l1's ball is large enough to hold l3's foot at any angle
    text = balls().replace('<origin xyz="1 0 0"/><geometry><sphere radius="0.1"/>', '@', 1)
    text = text.replace('@', '<origin xyz="1 0 0"/><geometry><sphere radius="2.5"/>')
    model = collision_model(Robot.from_urdf(text), 0.01)
    assert ('l1', 'l3') not in model.pairs
    assert ('l0', 'l2') in model.pairs
    (warning,) = model.warnings
    assert warning.startswith('touch in every position, so they are not kept apart: ')
    assert "'l1' and 'l3'" in warning and "'l1' and 'l3'" in model.coverage.summary()


MISSING = '<mesh filename="package://nowhere/meshes/tool.stl"/>'


def test_a_missing_mesh_ends_it_with_the_remedy():
    robot = Robot.from_urdf(balls(MISSING))
    with pytest.raises(ExcitationError, match=r"tool\.stl' of link 'l3' is not found") as caught:
        collision_model(robot, 0.01)
    for remedy in ('--package-path', 'ROS_PACKAGE_PATH', "'planner.unchecked_links: [l3]'"):
        assert remedy in caught.value.remedy
    with pytest.raises(ExcitationError, match="names 'l7', which robot 'balls' has not"):
        collision_model(robot, 0.01, unchecked=('l3', 'l7'))


def test_a_link_that_need_not_be_checked_is_counted_and_the_rest_is_checked():
    robot = Robot.from_urdf(balls(MISSING))
    with pytest.warns(IdentificationWarning, match=r"tool\.stl' of link 'l3' is not found"):
        model = collision_model(robot, 0.01, unchecked=('l3',))
    assert len(model.warnings) == 1
    assert set(model.pairs) == {('l0', 'l2')}
    # of six pairs of four balls, two lie on a joint's axis and three are the last one's
    assert model.coverage == Coverage(1, 2, 0, ('l3',), 3)
    assert not model.coverage.complete
    assert model.coverage.summary() == (
        '1 of 6 pairs of shapes checked (2 always equally far apart; 3 of links without their '
        'meshes: l3)'
    )


def test_the_error_of_a_link_without_all_its_meshes_names_the_pairs_that_may_touch(chain):
    first, second = chain.pairs[0]
    near = Nearest(first, second, 0.001, 0.02, 0, np.zeros((2, 3)), time=0.0, position=np.zeros(3))
    assert 'allowed_pairs' not in too_close(chain, near).remedy
    for name, named in ((second, True), ('l9', False)):
        lost = replace(chain, coverage=replace(chain.coverage, unchecked=(name,)))
        for stop in (False, True):
            assert ('allowed_pairs' in too_close(lost, near, stop=stop).remedy) is named


def test_all_pairs_are_counted(chain, arm):
    assert chain.coverage == Coverage(3, 3) and chain.coverage.complete
    counted = arm.coverage
    joints = [shape.parentJoint for shape in arm.geometry.geometryObjects]
    total = sum(a != b for a, b in combinations(joints, 2))
    assert counted.checked == len(arm.pairs)
    assert counted.checked + counted.steady + counted.touching == total
    nothing = Robot.from_urdf(re.sub('<collision>.*?</collision>', '', balls(), flags=re.S))
    with pytest.warns(IdentificationWarning, match='has no collision shapes'):
        assert not collision_model(nothing, 0.01).coverage.complete


def test_moving_links_without_shapes_are_counted():
    """Links without a shape are kept from nothing: the check is no full one."""
    text = balls()
    bare = re.sub('<collision>.*?</collision>', '', text.partition('<link name="l2">')[2], count=1,
                  flags=re.S)  # fmt: skip
    robot = Robot.from_urdf(text.partition('<link name="l2">')[0] + '<link name="l2">' + bare)
    coverage = collision_model(robot, 0.01).coverage
    assert coverage.bare == ('l2',) and coverage.checked and not coverage.complete
    assert coverage.summary().endswith('none of l2, without collision shapes')


@pytest.mark.parametrize('content', [b'', b'solid x\n facet normal 0 0', bytes(90)])
def test_a_mesh_that_cannot_be_read_is_named_and_can_be_accepted(tmp_path, content):
    (tmp_path / 'tool.stl').write_bytes(content)
    urdf = tmp_path / 'arm.urdf'
    urdf.write_text(balls('<mesh filename="tool.stl"/>'))
    robot = Robot.from_urdf(urdf)
    with pytest.raises(ExcitationError, match=r"tool\.stl' of link 'l3' cannot be read") as caught:
        collision_model(robot, 0.01)
    assert "correct the file, or accept it by name: 'planner.unchecked_links: [l3]'" in (
        caught.value.remedy
    )
    with pytest.warns(IdentificationWarning, match='cannot be read, so it is not checked'):
        assert collision_model(robot, 0.01, unchecked=('l3',)).coverage.unchecked == ('l3',)


def test_meshes_of_a_package_that_is_not_found_are_taken_from_the_urdfs_folder_and_that_is_said(
    tmp_path,
):
    urdf = tmp_path / 'deep' / 'proj' / 'urdf' / 'arm.urdf'
    urdf.parent.mkdir(parents=True)
    urdf.write_text(balls('<mesh filename="package://nowhere/meshes/tip.stl"/>'))
    write_mesh(tmp_path / 'deep' / 'meshes' / 'tip.stl')
    with pytest.raises(ExcitationError, match='is not found'):  # perhaps another robot's
        collision_model(Robot.from_urdf(urdf), 0.01)
    write_mesh(tmp_path / 'deep' / 'proj' / 'meshes' / 'tip.stl')
    with pytest.warns(IdentificationWarning, match="'nowhere' is not found: its meshes are taken"):
        assert collision_model(Robot.from_urdf(urdf), 0.01).warnings
    write_mesh(tmp_path / 'nowhere' / 'meshes' / 'tip.stl')
    assert not collision_model(Robot.from_urdf(urdf), 0.01).warnings


CORNERS = np.array([[0, 0, 0], [0.1, 0, 0], [0, 0.1, 0], [0, 0, 0.1]])
TETRAHEDRON = CORNERS[[[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]]]

RIM = 0.5 * np.array([[1, 1], [-1, 1], [-1, -1], [1, -1], [1, 1]])
BOWL = np.array(
    [
        [[*a, low], [*b, -low], [*(b if low < 0 else a), low if low < 0 else -low]]
        for a, b in zip(RIM[:-1], RIM[1:], strict=True)
        for low in (-0.3, 0.3)
    ]
)
"""Four walls around the z axis, each of two triangles, 0.5 m from it."""


def write_mesh(mesh, triangles=TETRAHEDRON):
    """Write triangles (n, 3, 3) as STL."""
    mesh.parent.mkdir(parents=True, exist_ok=True)
    record = np.dtype([('normal', '<f4', 3), ('corners', '<f4', (3, 3)), ('attribute', '<u2')])
    faces = np.zeros(len(triangles), dtype=record)
    faces['corners'] = triangles
    mesh.write_bytes(bytes(80) + np.uint32(len(triangles)).tobytes() + faces.tobytes())


def test_meshes_beside_a_urdf_with_a_relative_path_are_found(tmp_path, monkeypatch):
    write_mesh(tmp_path / 'arm' / 'meshes' / 'tip.stl')
    urdf = tmp_path / 'arm' / 'arm.urdf'
    urdf.write_text(balls('<mesh filename="meshes/tip.stl"/>'))
    monkeypatch.chdir(tmp_path)
    for path in (Path('arm/arm.urdf'), urdf):
        assert collision_model(Robot.from_urdf(path), 0.01).coverage == Coverage(3, 3)


def test_meshes_of_a_real_robot_are_found_beside_its_urdf():
    if not UR5.is_file():
        pytest.skip('needs the package example-robot-data')
    robot = Robot.from_urdf(UR5)
    model = collision_model(robot, 0.01)
    assert ('shoulder_link', 'wrist_3_link') in model.pairs
    folded = np.array([[0.0, -1.5, 2.9, 0.0, 0.0, 0.0]])
    assert list(model.contacts(folded))


@pytest.mark.parametrize('clearance', [0.03, 0.1])
def test_no_pair_is_left_out_for_being_near(clearance):
    """Base and upper arm of a UR5 are 17 mm apart at most, and touch in some positions."""
    if not UR5.is_file():
        pytest.skip('needs the package example-robot-data')
    robot = Robot.from_urdf(UR5)
    model = collision_model(robot, clearance, tolerance=(0.05,))
    pair = ('base_link', 'upper_arm_link')
    assert pair in model.pairs and pair in model.mesh_pairs
    kept = model.clearances[model.pairs.index(pair)]
    assert 0.005 < kept == model.reduced[pair] < 0.017
    words = f"'base_link' and 'upper_arm_link' {1e3 * kept:.3g} mm"
    assert words in model.warnings[0] and words in model.coverage.summary()
    # every pair of links is kept apart along a path, always equally far apart, or named
    counted = model.coverage
    total = counted.checked + counted.steady + counted.touching
    joints = [shape.parentJoint for shape in read_shapes(robot).geometry.geometryObjects]
    assert total == sum(a != b for a, b in combinations(joints, 2))
    free = next(q for q in random_positions(robot, 200) if not list(model.contacts(q[None])))
    found = check_collisions(resting(robot, free), model)
    assert all(nearest.distance >= nearest.clearance for nearest in found)
    with pytest.raises(CollisionError, match='closer than the clearance of 0.00'):
        check_collisions(resting(robot, [0.0, 1.5, 0.0, 0.0, 0.0, 0.0]), model)


def resting(robot, position):
    """Return a motion of all but nothing."""
    start = np.array(position)
    return point_to_point(robot.joints, start, start + 1e-6, np.ones(6), np.ones(6))


def test_meshes_decide_where_hulls_overlap_at_every_pose(tmp_path):
    """A ball in a bowl: the hull of the bowl holds it, the bowl itself does not touch it."""
    write_mesh(tmp_path / 'bowl.stl', BOWL)
    text = balls().replace('<sphere radius="0.1"/>', '<mesh filename="bowl.stl"/>', 1)
    # the ball of l1 near the axis goes around in the bowl of l0, 0.03 m from the middle
    ball = '<origin xyz="0.03 0 0"/><geometry><sphere radius="0.02"/>'
    text = text.replace('<origin xyz="1 0 0"/><geometry><sphere radius="0.1"/>', ball, 1)
    urdf = tmp_path / 'arm.urdf'
    urdf.write_text(text)
    robot = Robot.from_urdf(urdf)
    model = collision_model(robot, 0.02)
    assert ('l0', 'l1') not in [*model.reduced, *model.coverage.in_contact]
    wide = collision_model(robot, 0.5)
    assert 0.02 < wide.reduced[('l0', 'l1')] <= 0.4501
    tight = text.replace(ball, ball.replace('0.02"', '0.6"'))
    urdf.write_text(tight)
    model = collision_model(Robot.from_urdf(urdf), 0.02)
    assert "'l0' and 'l1'" in model.coverage.in_contact


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
    assert DistancePenalty(model).at_positions(np.zeros((3, 3)), 0.1)[0] == 0.0
