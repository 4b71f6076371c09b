# SPDX-License-Identifier: Apache-2.0
"""Declared obstacles: closed-form distances, refusals by key, tools at a link, and the floor."""

from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
from robot_identification.errors import ExcitationError, SettingsError
from robot_identification.excitation import sequence
from robot_identification.excitation.collisions import collision_model
from robot_identification.excitation.constraints import (
    check_collisions,
    CollisionError,
)
from robot_identification.excitation.limits import motion_limits
from robot_identification.excitation.planner import plan, plan_limits, start_poses
from robot_identification.excitation.settings import (
    Obstacle,
    PlannerSettings,
    PointSettings,
    with_floor,
)
from robot_identification.excitation.trajectories import point_to_point
from robot_identification.model.robot import Robot
from robot_identification.options.fields import from_mapping

URDF = Path(__file__).resolve().parents[2] / 'urdf'
LINK = (
    '<link name="{0}"><inertial><mass value="1"/>'
    '<inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'
    '<collision><origin xyz="1 0 0"/><geometry><sphere radius="0.1"/></geometry></collision>'
    '</link>'
)
JOINT = (
    '<joint name="j{1}" type="revolute"><parent link="{0}"/><child link="l{1}"/>'
    '<origin xyz="{2} 0 0"/><axis xyz="0 0 1"/>'
    '<limit lower="-3" upper="3" velocity="1" effort="1000"/></joint>'
)


def ball_on_arms(n=1):
    """Arms of 1 m that turn about z, each with a ball of 0.1 m at its end."""
    links = '<link name="base"/>' + ''.join(LINK.format(f'l{i + 1}') for i in range(n))
    joints = ''.join(
        JOINT.format('base' if i == 0 else f'l{i}', i + 1, 0 if i == 0 else 1) for i in range(n)
    )
    return Robot.from_urdf(f'<robot name="arms">{links}{joints}</robot>')


def closest(model, position):
    """All pairs in a position, the nearest first."""
    pairs = np.arange(len(model.pairs))
    found = model.measure(np.tile(position, (pairs.size, 1)), pairs)
    return sorted(found, key=lambda contact: contact.distance)


def nearest(robot, obstacle, position=(0.0,), clearance=0.01):
    model = collision_model(robot, clearance, [obstacle])
    (contact,) = closest(model, position)
    assert {contact.first, contact.second} == {'l1', obstacle.name}
    return contact


@pytest.mark.parametrize(
    ('fields', 'distance', 'points'),
    [
        # the ball is at (1, 0, 0), its surface 0.1 from there
        ({'size': (0.4, 1.0, 1.0), 'position': (2.0, 0.0, 0.0)}, 0.7, [(1.1, 0, 0), (1.8, 0, 0)]),
        (
            # turned by 45 degrees its edge is nearest, half a diagonal from its middle
            {'size': (0.4, 0.4, 1.0), 'position': (2, 0, 0), 'orientation': (0, 0, np.pi / 4)},
            0.9 - 0.2 * np.sqrt(2.0),
            [(1.1, 0, 0), (2.0 - 0.2 * np.sqrt(2.0), 0, 0)],
        ),
        (
            {'kind': 'sphere', 'size': (0.3,), 'position': (1.0, 1.0, 0.0)},
            0.6,
            [(1, 0.1, 0), (1, 0.7, 0)],
        ),
        (
            {'kind': 'cylinder', 'size': (0.2, 1.0), 'position': (1.0, -1.0, 0.0)},
            0.7,
            [(1, -0.1, 0), (1, -0.8, 0)],
        ),
        (
            # lying along x, its end is nearest
            {
                'kind': 'cylinder',
                'size': (0.2, 1.0),
                'position': (2.0, 0.0, 0.0),
                'orientation': (0.0, np.pi / 2, 0.0),
            },
            0.4,
            [(1.1, 0, 0), (1.5, 0, 0)],
        ),
        (
            {'kind': 'plane', 'normal': (0.0, 0.0, 5.0), 'offset': -0.5},
            0.4,
            [(1, 0, -0.1), (1, 0, -0.5)],
        ),
        (
            # a wall at x = 1.5, whose free side is towards the robot
            {'kind': 'plane', 'normal': (-1.0, 0.0, 0.0), 'offset': -1.5},
            0.4,
            [(1.1, 0, 0), (1.5, 0, 0)],
        ),
    ],
)
def test_distances_are_those_of_the_shapes(fields, distance, points):
    contact = nearest(ball_on_arms(), Obstacle('thing', **fields))
    assert contact.distance == pytest.approx(distance, abs=1e-5)
    here = contact.points if contact.first == 'l1' else contact.points[::-1]
    if fields.get('kind') != 'cylinder' and fields.get('size') != (0.4, 1.0, 1.0):
        np.testing.assert_allclose(here, points, atol=1e-3)


@pytest.mark.parametrize(
    ('fields', 'key', 'words'),
    [
        ({'size': (0.1, 0.2)}, 'size', 'a box has 3 positive value'),
        ({'size': (0.1, 0.2, 0.0)}, 'size', 'lengths along x, y and z'),
        ({'kind': 'sphere', 'size': (0.1, 0.1)}, 'size', 'a sphere has 1'),
        ({'kind': 'cylinder'}, 'size', 'radius and length'),
        ({'kind': 'plane', 'size': (1.0,)}, 'size', 'a plane has no end'),
        ({'kind': 'plane', 'normal': (0.0, 0.0, 0.0)}, 'normal', 'give a direction'),
        ({'kind': 'plane', 'normal': (0.0, 1.0)}, 'normal', 'give three values'),
        ({'kind': 'plane', 'link': 'l1'}, 'link', 'take a box'),
        ({'size': (1.0, 1.0, 1.0), 'position': (1.0,)}, 'position', 'give three values'),
        ({'size': (1.0, 1.0, 1.0), 'orientation': ()}, 'orientation', 'roll, pitch and yaw'),
    ],
)
def test_what_is_no_shape_is_refused_by_its_key(fields, key, words):
    with pytest.raises(SettingsError, match=words) as caught:
        Obstacle('table', **fields)
    assert caught.value.key == f'obstacles.table.{key}'
    assert f"'obstacles.table.{key}'" in str(caught.value)


def test_settings_take_obstacles_from_a_mapping():
    made = from_mapping(
        PlannerSettings,
        {'floor': -0.1, 'obstacles': [{'name': 'table', 'size': [1.0, 2.0, 0.1]}]},
    )
    assert made.obstacles == (Obstacle('table', size=(1.0, 2.0, 0.1)),)
    assert [o.name for o in made.all_obstacles] == ['table', 'floor']
    with pytest.raises(SettingsError, match="'obstacles.*kind' is 'pyramid'.*box"):
        from_mapping(PlannerSettings, {'obstacles': [{'name': 'x', 'kind': 'pyramid'}]})
    with pytest.raises(SettingsError, match=r'a box has 3 positive'):
        from_mapping(PlannerSettings, {'obstacles': [{'name': 'x', 'size': [1.0]}]})


def test_names_are_of_one_thing_each():
    ball = Obstacle('ball', 'sphere', (0.1,))
    with pytest.raises(SettingsError, match="called 'ball', and another one"):
        with_floor([ball, ball], None)
    with pytest.raises(SettingsError, match='the floor has this one'):
        with_floor([Obstacle('floor', 'plane')], 0.0)
    robot = ball_on_arms(2)
    with pytest.raises(ExcitationError, match="'l2' as a link") as caught:
        collision_model(robot, 0.01, [Obstacle('l2', 'sphere', (0.1,))])
    assert caught.value.key == 'obstacles.l2'
    with pytest.raises(ExcitationError, match="'hand', which the robot has not: .*l1.*l2"):
        collision_model(robot, 0.01, [Obstacle('tool', 'sphere', (0.1,), link='hand')])


def test_every_link_that_moves_is_kept_from_an_obstacle():
    robot = ball_on_arms(3)
    # it is where the first ball always is, within its reach: no such pair may be left out
    ring = Obstacle('ring', 'cylinder', (1.2, 0.1))
    pairs = set(collision_model(robot, 0.01, [ring]).pairs)
    assert {frozenset(pair) for pair in pairs} >= {
        frozenset({'ring', link}) for link in ('l1', 'l2', 'l3')
    }


def test_links_that_stand_on_the_floor_are_told():
    robot = ball_on_arms(2)
    model = collision_model(robot, 0.01, with_floor((), 0.0))
    assert model.warnings == (
        "touch in every position, so they are not kept apart: 'l1' and 'floor', 'l2' and 'floor'",
    )
    assert not model.pairs
    # near is not on it: what they can keep is kept
    near = collision_model(robot, 0.5, with_floor((), -0.3))
    # the balls are always 0.8 m apart
    assert near.coverage.steady == 3 and near.reduced[('l1', 'floor')] == pytest.approx(0.2)
    assert "'l1' and 'floor' 200 mm" in near.warnings[0]
    # they turn about the vertical: never nearer to a floor that is far enough below
    below = collision_model(robot, 0.01, with_floor((), -0.2))
    assert below.coverage.steady == 3 and not below.warnings
    # one that is not level is nearer in some positions
    slope = Obstacle('floor', 'plane', normal=(0.1, 0.0, 1.0), offset=-0.4)
    assert {'floor'} <= set(sum(collision_model(robot, 0.01, [slope]).pairs, ()))


def test_a_tool_moves_with_its_link_and_is_within_the_reach():
    robot = ball_on_arms(2)
    tool = Obstacle('tool', 'box', (0.6, 0.05, 0.05), position=(1.3, 0.0, 0.0), link='l2')
    wall = Obstacle('wall', 'plane', normal=(-1.0, 0.0, 0.0), offset=-3.0)
    model = collision_model(robot, 0.01, [tool, wall])
    # stretched, the tool's end is at 2 + 1.6 - 1 = 2.6 from the base
    contact = closest(model, (0.0, 0.0))[0]
    assert contact.obstacle
    assert {contact.first, contact.second} == {'tool', 'wall'}
    assert contact.distance == pytest.approx(3.0 - 2.6, abs=1e-5)
    # folded back, it is beside the first arm's ball
    folded = closest(model, (0.0, np.pi))[0]
    assert {folded.first, folded.second} != {'tool', 'wall'}
    alone = collision_model(robot, 0.01, [wall])
    assert model.shape_reach[:, 1].max() >= 1.6 > alone.shape_reach[:, 1].max()
    assert model.in_words('tool', 'wall') == "obstacle 'tool' and obstacle 'wall'"


def test_a_tool_may_be_at_a_link_that_is_fixed_to_another():
    arm = Robot.from_urdf(URDF / 'demo_arm.urdf')
    data = arm.model.createData()
    pin.framesForwardKinematics(arm.model, data, arm.configuration(np.zeros(6)))
    flange = data.oMf[arm.model.getFrameId('tool_flange')]
    centre = flange.act(np.array([0.0, 0.0, 0.1]))
    ball = Obstacle('ball', 'sphere', (0.02,), position=(0.0, 0.0, 0.1), link='tool_flange')
    pin_ = Obstacle(
        'pin', 'sphere', (0.01,), position=tuple(centre + 0.04 * flange.rotation[:, 2])
    )
    model = collision_model(arm, 0.001, [ball, pin_])
    found = next(c for c in closest(model, np.zeros(6)) if c.obstacle)
    assert {found.first, found.second} == {'ball', 'pin'}
    assert found.distance == pytest.approx(0.04 - 0.02 - 0.01, abs=1e-6)


def test_a_thin_wall_between_two_looks_is_not_jumped_over():
    robot = ball_on_arms()
    wall = Obstacle('wall', size=(0.5, 0.001, 0.5), position=(1.0, 0.7, 0.0))
    model = collision_model(robot, 0.01, [wall])
    quick = point_to_point(
        robot.joints, np.zeros(1), np.array([1.6]), np.full(1, 1e3), np.full(1, 1e5), 0.001
    )
    with pytest.raises(CollisionError, match="link 'l1' and obstacle 'wall'") as caught:
        check_collisions(quick, model)
    assert caught.value.links == ('l1', 'wall')
    assert 0.5 < quick.sample(np.array([caught.value.time])).position < 0.9


def test_the_closest_pair_of_a_path_is_found_with_time_and_place():
    robot = ball_on_arms()
    post = Obstacle('post', 'sphere', (0.05,), position=(0.0, 1.3, 0.0))
    model = collision_model(robot, 0.01, [post])
    way = point_to_point(robot.joints, np.zeros(1), np.array([2.5]), np.ones(1), np.ones(1))
    (found,) = check_collisions(way, model)
    angle = way.sample(np.array([found.time])).position[0, 0]
    assert angle == pytest.approx(np.pi / 2, abs=0.01)
    assert found.distance == pytest.approx(1.3 - 1.0 - 0.1 - 0.05, abs=1e-4)
    np.testing.assert_allclose(found.position, [angle])
    np.testing.assert_allclose(np.sort(found.points[:, 1]), [1.1, 1.25], atol=1e-3)


def test_links_and_obstacles_have_a_closest_pair_each():
    arm = Robot.from_urdf(URDF / 'demo_arm.urdf')
    far = Obstacle('far', 'sphere', (0.05,), position=(0.0, 2.0, 0.5))
    model = collision_model(arm, 0.01, [far])
    goal = np.array([1.0, 0.5, 0.3, 0.0, 0.5, 0.0])
    way = point_to_point(arm.joints, np.zeros(6), goal, np.ones(6), np.ones(6))
    first, second = check_collisions(way, model)
    assert (first.obstacle, second.obstacle) == (False, True)
    assert 'far' in (second.first, second.second) and first.distance < second.distance
    # each is what a search for that one alone finds, measured at all looks
    times = np.linspace(0.0, way.duration, 2000)
    shapes, data = model.geometry.createData(), arm.model.createData()
    least = {False: np.inf, True: np.inf}
    for q in way.sample(times).position:
        pin.computeDistances(arm.model, data, model.geometry, shapes, q)
        for pair, result in zip(model.with_obstacle, shapes.distanceResults, strict=True):
            least[pair] = min(least[pair], result.min_distance)
    assert first.distance == pytest.approx(least[False], abs=1.1e-4)
    assert second.distance == pytest.approx(least[True], abs=1.1e-4)


def test_an_obstacle_at_the_start_is_named():
    arm = Robot.from_urdf(URDF / 'demo_arm.urdf')
    crate = Obstacle('crate', size=(0.5, 0.5, 0.5), position=(0.0, 0.0, 0.9))
    chosen = PlannerSettings(start=(0.0,) * 6, obstacles=(crate,))
    model = collision_model(arm, chosen.clearance, chosen.all_obstacles)
    with pytest.raises(CollisionError, match="obstacle 'crate' .* at the start"):
        start_poses(arm, chosen, plan_limits(arm, chosen)[0], model)
    everywhere = Obstacle('cloud', 'sphere', (9.0,))
    chosen = PlannerSettings(obstacles=(everywhere,))
    arm = Robot.from_urdf(URDF / 'szabo_3r.urdf')
    model = collision_model(arm, chosen.clearance, chosen.all_obstacles)
    with pytest.raises(
        ExcitationError, match="no position free .*obstacle 'cloud'.* 3001 of 3001"
    ):
        start_poses(arm, chosen, plan_limits(arm, chosen)[0], model)


@pytest.mark.parametrize('method', ['fourier', pytest.param('points', marks=pytest.mark.soak)])
def test_plans_keep_clear_of_obstacles(method, monkeypatch):
    # searches that end with hardly any polish
    hasty = sequence.WaypointSearchConstants(
        selection=((2.0, 60, 3), (8.0, 100, 2), (40.0, 100, 1)), finish=((100.0, 100, 1),)
    )
    monkeypatch.setattr(sequence, 'WAYPOINTS', hasty)
    arm = Robot.from_urdf(URDF / 'szabo_3r.urdf')
    free = PlannerSettings(
        method=method,
        duration=6.0,
        harmonics=4,
        max_iterations=10,
        clearance=0.02,
        points=PointSettings(starts=2, rounds=0),
    )
    wall = Obstacle('wall', 'plane', normal=(0.0, -1.0, 0.0), offset=-0.25)
    post = Obstacle('post', 'cylinder', (0.05, 1.0), position=(-0.4, -0.3, 0.5))
    chosen = from_mapping(PlannerSettings, {**vars(free), 'obstacles': (wall, post)})
    model = collision_model(arm, chosen.clearance, chosen.all_obstacles)
    made = plan(arm, chosen)
    found = check_collisions(made.trajectory, model)
    assert [n.obstacle for n in found].count(True) == 1
    assert found[0].distance >= chosen.clearance
    without = plan(arm, free)
    with pytest.raises(CollisionError, match='obstacle'):
        check_collisions(without.trajectory, model)
    assert (
        np.ptp(made.trajectory.sample(np.linspace(0, made.trajectory.duration, 99)).position) > 1
    )
    assert motion_limits(arm, chosen).joints == made.trajectory.joints
