# SPDX-License-Identifier: Apache-2.0
"""The preview over DDS: the checks, what RViz gets to see, and the ghost; nothing moves."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='needs ROS 2 (rclpy): run `make test`')
pytest.importorskip('visualization_msgs', reason='needs visualization_msgs')

import pinocchio as pin
from robot_identification.excitation.collisions import collision_model
from robot_identification.excitation.settings import Obstacle
from robot_identification.excitation.trajectories import point_to_point, to_points
from robot_identification.model.robot import Robot
from robot_identification.nodes.common import LATCHED
from robot_identification.nodes.common.messages import message_of, trajectory_points
from robot_identification_msgs.action import Excite, PlanExcitation
from robot_identification_msgs.srv import Preview
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory
from visualization_msgs.msg import Marker, MarkerArray

URDF = Path(__file__).resolve().parents[3] / 'urdf' / 'demo_arm.urdf'
JOINTS = tuple(f'joint_{i}' for i in range(1, 7))
TABLE = {'size': (0.5, 0.6, 0.05), 'position': (0.75, 0.0, 0.3)}
GOAL = np.array([1.2, 0.4, -0.5, 0.3, 0.4, 0.8])
PARAMETERS = {
    'robot_description': str(URDF),
    'execute': False,
    'settle_time': 0.1,  # nothing to wait for: most tests have no joint states
    'planner.duration': 4.0,
    'planner.harmonics': 4,
    'planner.max_iterations': 3,
    'planner.floor': 0.0,
    'planner.obstacles.names': ['table', 'wall', 'hose'],
    'planner.obstacles.table.size': list(TABLE['size']),
    'planner.obstacles.table.position': list(TABLE['position']),
    'planner.obstacles.wall.kind': 'plane',
    'planner.obstacles.wall.normal': [0.0, 1.0, 0.0],
    'planner.obstacles.wall.offset': -1.5,
    'planner.obstacles.hose.kind': 'cylinder',
    'planner.obstacles.hose.size': [0.05, 0.2],
    'planner.obstacles.hose.link': 'link_3',
}


def way(goal, start=None, share=0.5):
    robot = Robot.from_urdf(URDF)
    limits = robot.limits.velocity
    start = np.zeros(6) if start is None else start
    return point_to_point(JOINTS, start, goal, share * limits, 4.0 * share * limits)


def message(trajectory):
    return message_of(to_points(trajectory, 50.0))


@pytest.fixture(scope='module')
def viewer(request, ros_domain):
    """Start the node once; `viewer.markers`, `.path` and `.ghost` are what it has published."""
    plugins = request.config.pluginmanager.get_plugins()
    ros = next(plugin.Ros for plugin in plugins if hasattr(plugin, 'Ros'))()
    try:
        ros.process = ros.start('excitation', parameters=PARAMETERS)
        ros.wait_until(lambda: 'with joints' in ros.process.output, what='the robot')
        ros.markers = ros.subscribe(MarkerArray, 'excitation/preview/markers', LATCHED)
        ros.path = ros.subscribe(JointTrajectory, 'excitation/preview/trajectory', LATCHED)
        ros.ghost = ros.subscribe(JointState, 'excitation/preview/joint_states')
        yield ros
    finally:
        ros.close()


@pytest.fixture
def show(viewer):
    """Give a function that calls the service and waits for the markers, where there are any."""

    def call(markers=True, return_points=True, **fields):
        for messages in (viewer.markers, viewer.path, viewer.ghost):
            messages.clear()
        fields['return_points'] = return_points
        answer = viewer.call(Preview, 'excitation/preview', timeout=30.0, **fields)
        if markers:
            viewer.wait_until(lambda: viewer.markers, what='markers')
        return answer

    return call


def by_name(markers):
    return {(m.ns, m.id): m for m in markers.markers}


def test_a_plan_is_shown_as_it_is_sent(viewer, show):
    planned = viewer.act(PlanExcitation, 'excitation/plan', return_points=True)[1]
    answer = show(plan_id=planned.plan_id)
    assert answer.success, answer.message
    assert 'limits used: position' in answer.message
    viewer.wait_until(lambda: viewer.path, what='the trajectory')
    assert viewer.path[0].points == answer.trajectory.points
    points, plans = (trajectory_points(a.trajectory, JOINTS) for a in (answer, planned))
    for name in ('time', 'position', 'velocity', 'acceleration'):
        np.testing.assert_allclose(getattr(points, name), getattr(plans, name), atol=1e-9)
    short = show(plan_id=planned.plan_id, return_points=False)
    assert tuple(short.trajectory.joint_names) == JOINTS and not short.trajectory.points
    viewer.wait_until(lambda: viewer.path, what='the trajectory')
    assert viewer.path[0].points == answer.trajectory.points
    assert tuple(answer.joints) == JOINTS
    for name in ('position', 'velocity', 'acceleration', 'jerk', 'effort'):
        shares = np.array(getattr(answer, f'{name}_share'))
        assert shares.shape == (6,)
        assert ((shares > 0.0) & (shares < 1.0)).all()
    largest = np.abs(points.velocity).max(axis=0) / Robot.from_urdf(URDF).limits.velocity
    np.testing.assert_allclose(answer.velocity_share, largest, rtol=0.01)
    # nothing of what is sampled comes closer than what is answered, as long as looks are as dense
    obstacles = [Obstacle('table', **TABLE)]
    model = collision_model(Robot.from_urdf(URDF), 0.01, obstacles)
    samples = np.repeat(points.position, len(model.pairs), axis=0)
    pairs = np.tile(np.arange(len(model.pairs)), len(points.position))
    closest = model.measured(samples, pairs).distance.min()
    assert 0.01 < answer.smallest_distance <= closest + 1e-4
    assert len(answer.nearest) == 2


def test_half_the_speed_takes_twice_as_long_and_half_of_the_velocity(show):
    full, half = (show(trajectory=message(way(GOAL)), speed=s) for s in (0.0, 0.5))
    np.testing.assert_allclose(half.velocity_share, 0.5 * np.array(full.velocity_share), rtol=1e-6)
    np.testing.assert_allclose(half.jerk_share, 0.125 * np.array(full.jerk_share), rtol=1e-3)
    np.testing.assert_allclose(half.position_share, full.position_share, rtol=1e-9)
    ends = [a.trajectory.points[-1].time_from_start for a in (full, half)]
    assert ends[1].sec + 1e-9 * ends[1].nanosec == pytest.approx(
        2.0 * (ends[0].sec + 1e-9 * ends[0].nanosec)
    )


def test_markers_show_paths_ends_obstacles_and_the_nearest_pair(viewer, show):
    trajectory = way(GOAL)
    answer = show(trajectory=message(trajectory))
    assert answer.success, answer.message
    first, *others = viewer.markers[0].markers
    assert first.action == Marker.DELETEALL
    assert all(m.action == Marker.ADD for m in others)
    assert len({(m.ns, m.id) for m in others}) == len(others)
    found = by_name(viewer.markers[0])
    assert {m.header.frame_id for m in others} == {'base_link', 'link_3'}
    lines = {i: m for (ns, i), m in found.items() if ns == 'path'}
    assert all(m.type == Marker.LINE_STRIP and len(m.points) == len(m.colors) for m in
               lines.values())  # fmt: skip
    # the last line is that of the tool's flange, by Pinocchio's kinematics
    robot = Robot.from_urdf(URDF)
    data = robot.model.createData()
    tip = lines[max(lines)]
    for point, time in ((tip.points[0], 0.0), (tip.points[-1], trajectory.duration)):
        q = robot.configuration(trajectory.sample(np.array([time])).position[0])
        pin.framesForwardKinematics(robot.model, data, q)
        place = data.oMf[robot.model.getFrameId('tool_flange')].translation
        np.testing.assert_allclose([point.x, point.y, point.z], place, atol=1e-9)
    # blue at rest, red where it is fastest
    assert tip.colors[0].b > 0.9 and tip.colors[0].r < 0.2
    reds = [color.r for line in lines.values() for color in line.colors]
    assert max(reds) == pytest.approx(1.0)
    start, end = found['start', max(lines)], found['end', max(lines)]
    assert start.pose.position == tip.points[0] and end.pose.position == tip.points[-1]
    shapes = {m.text: m for (ns, _), m in found.items() if ns == 'obstacles'}
    assert set(shapes) == {'table', 'wall', 'hose', 'floor'}
    table = shapes['table']
    assert (table.scale.x, table.scale.y, table.scale.z) == TABLE['size']
    assert (table.pose.position.x, table.pose.position.z) == (0.75, 0.3)
    wall = shapes['wall']
    turn = pin.Quaternion(
        *(getattr(wall.pose.orientation, name) for name in 'wxyz')
    ).toRotationMatrix()
    np.testing.assert_allclose(turn[:, 2], [0.0, 1.0, 0.0], atol=1e-9)
    assert wall.pose.position.y == pytest.approx(-1.5, abs=0.01)
    hose = shapes['hose']
    assert (hose.type, hose.header.frame_id, hose.frame_locked) == (
        Marker.CYLINDER,
        'link_3',
        True,
    )
    # the closest links, and the closest link and obstacle
    assert ('nearest', 2) in found
    (a, b), words = found['nearest', 0].points, found['nearest', 1].text
    gap = np.linalg.norm([a.x - b.x, a.y - b.y, a.z - b.z])
    # the line is drawn in the planned position
    assert gap >= answer.smallest_distance - 1e-6
    assert all(name in words for name in answer.nearest)
    # the same motion has the same markers
    before = viewer.markers[0]
    show(trajectory=message(trajectory))
    assert [(m.ns, m.id, m.points) for m in viewer.markers[0].markers] == [
        (m.ns, m.id, m.points) for m in before.markers
    ]


def test_what_does_not_hold_is_told_and_shown_where(viewer, show):
    into = way(np.array([0.0, 1.3, 0.5, 0.0, 0.0, 0.0]))
    answer = show(trajectory=message(into))
    assert not answer.success
    assert "and obstacle 'table' are" in answer.message
    assert np.isnan(answer.smallest_distance) and not answer.trajectory.points
    found = by_name(viewer.markers[0])
    assert 'table' in found['fault', 1].text
    assert {'table'} <= set(found['nearest', 1].text.replace(',', '').split())
    assert any(ns == 'path' for ns, _ in found)
    assert not viewer.path
    # what fails here fails a dry run, by the same words
    result = viewer.act(Excite, 'excitation/excite', trajectory=message(into), dry_run=True)[1]
    assert (result.error_code, result.error_msg) == (Excite.Result.COLLISION, answer.message)
    quick = show(trajectory=message(way(GOAL, share=1.5)))
    assert not quick.success and 'velocity of joint' in quick.message
    assert ('fault', 0) in by_name(viewer.markers[0])


def test_obstacles_are_parameters_that_are_checked_when_they_change(viewer, show):
    name = 'planner.obstacles.table'
    accepted, reason = viewer.set_parameter('excitation', f'{name}.size', [0.5, 0.6])
    assert not accepted
    assert "'obstacles.table.size' is [0.5, 0.6]" in reason and 'a box has 3' in reason
    accepted, reason = viewer.set_parameter('excitation', f'{name}.kind', 'sphere')
    assert not accepted and 'a sphere has 1' in reason
    # the place takes effect with the next check
    into = message(way(np.array([0.0, 1.3, 0.5, 0.0, 0.0, 0.0])))
    assert viewer.set_parameter('excitation', f'{name}.position', [5.0, 0.0, 0.3])[0]
    try:
        assert show(trajectory=into).success
    finally:
        assert viewer.set_parameter('excitation', f'{name}.position', [0.75, 0.0, 0.3])[0]
    assert not show(trajectory=into).success


def test_what_is_no_motion_is_told_without_markers(show):
    for fields, words in (
        ({}, 'neither a plan_id nor a trajectory'),
        ({'plan_id': 'plan_99'}, "no plan is called 'plan_99'"),
        ({'trajectory': message(way(GOAL)), 'speed': 2.0}, 'speed is 2'),
    ):
        answer = show(markers=False, **fields)
        assert not answer.success
        assert words in answer.message
        assert np.isnan(answer.smallest_distance)


def test_the_ghost_goes_through_the_motion_and_rests_or_begins_again(viewer, show):
    trajectory = way(0.3 * GOAL, share=0.8)
    show(trajectory=message(trajectory))

    def rests():
        return viewer.ghost and np.allclose(viewer.ghost[-1].position, 0.3 * GOAL, atol=1e-9)

    viewer.wait_until(rests, timeout=20.0, what='the end of the motion')
    assert tuple(viewer.ghost[-1].name) == JOINTS
    shares = [g.position[0] / (0.3 * GOAL[0]) for g in viewer.ghost]
    # the former motion's ghost may have been on its way
    shares = shares[int(np.argmin(shares)) :]
    assert shares == sorted(shares)
    assert any(0.01 < share < 0.99 for share in shares)
    assert viewer.set_parameter('excitation', 'preview.ghost', 'loop')[0]
    show(trajectory=message(trajectory))
    viewer.wait_until(rests, timeout=20.0, what='the end of the motion')
    count = len(viewer.ghost)
    viewer.wait_until(
        lambda: any(g.position[0] < 0.1 * GOAL[0] for g in viewer.ghost[count:]),
        timeout=20.0,
        what='the motion once more',
    )
    assert viewer.set_parameter('excitation', 'preview.ghost', 'off')[0]
    show(trajectory=message(trajectory))
    # what was under way when the answer came is still to arrive
    viewer.spin(0.3)
    viewer.ghost.clear()
    viewer.spin(0.3)
    assert not viewer.ghost


def test_the_way_to_the_start_is_shown_and_checked_where_the_robot_is_known(viewer, show):
    start = np.array([-0.6, 0.2, -0.3, 0.0, 0.2, 0.0])
    here = np.zeros(6)
    publisher = viewer.node.create_publisher(JointState, 'joint_states', 10)
    trajectory = message(way(GOAL, start))

    def beat():
        stamp = viewer.node.get_clock().now().to_msg()
        state = JointState(name=list(JOINTS), position=here.tolist())
        state.header.stamp = stamp
        publisher.publish(state)

    timer = viewer.node.create_timer(0.02, beat)
    try:
        viewer.wait_until(
            lambda: publisher.get_subscription_count() > 0, what='the node to listen'
        )
        viewer.spin(0.5)
        answer = show(trajectory=trajectory)
        assert answer.success, answer.message
        points = trajectory_points(answer.trajectory, JOINTS)
        np.testing.assert_allclose(points.position[0], here, atol=1e-9)
        assert points.time[-1] > trajectory_points(trajectory, JOINTS).time[-1] + 0.5
        np.testing.assert_allclose(points.position[-1], GOAL, atol=1e-9)
        # the tip's line begins where the robot is
        tip = by_name(viewer.markers[0])['path', 6]
        assert len(tip.points) > 10
        # from below the table, the way up leads through it
        here[:] = [0.0, 2.0, 0.55, 0.0, -1.0, 0.0]
        viewer.spin(0.5)
        answer = show(trajectory=trajectory)
        assert not answer.success
        assert answer.message.startswith('on the way to the start: link')
        assert ('fault', 0) in by_name(viewer.markers[0])
    finally:
        viewer.node.destroy_timer(timer)
        viewer.node.destroy_publisher(publisher)
