# SPDX-License-Identifier: Apache-2.0
"""The last check: limits between samples, collisions between looks, and what errors name."""

from dataclasses import replace
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pinocchio as pin
import pytest
from robot_identification.data.recording import Motion
from robot_identification.errors import ExcitationError
from robot_identification.excitation import constraints
from robot_identification.excitation.collisions import collision_model, Coverage
from robot_identification.excitation.constraints import (
    check_collisions,
    check_trajectory,
    CollisionError,
    Findings,
    LimitUse,
    LimitViolation,
    TrajectoryWay,
)
from robot_identification.excitation.distance_search import FINEST
from robot_identification.excitation.extremes import check_times, nominal_effort
from robot_identification.excitation.limits import Limits, motion_limits
from robot_identification.excitation.settings import Obstacle, PlannerSettings, with_floor
from robot_identification.excitation.trajectories import point_to_point, PointTrajectory
from robot_identification.model.robot import Robot

URDF = Path(__file__).resolve().parents[2] / 'urdf'


@pytest.fixture(scope='module')
def arm():
    return Robot.from_urdf(URDF / 'demo_arm.urdf')


@pytest.fixture(scope='module')
def limits(arm):
    return motion_limits(arm, PlannerSettings(), margin=0.0)


@pytest.fixture(scope='module')
def collisions(arm):
    return collision_model(arm, 0.01)


def way(arm, goal, start=None, share=0.3, limits=None):
    limits = limits or motion_limits(arm, PlannerSettings(), margin=0.0)
    start = np.zeros(6) if start is None else start
    return point_to_point(
        arm.joints, start, goal, share * limits.velocity, share * limits.acceleration
    )


def test_a_motion_within_the_limits_passes(arm, limits, collisions):
    trajectory = way(arm, np.array([0.5, 0.6, -0.7, 0.5, 0.4, 1.0]))
    found = check_trajectory(arm, trajectory, limits, collisions=collisions)
    assert [n.distance >= collisions.clearance for n in found.nearest] == [True]


@pytest.mark.parametrize(
    ('quantity', 'change', 'joint'),
    [
        ('position', {'upper': [2.9, 0.5, 2.5, 2.9, 2.0, 3.0]}, 'joint_2'),
        ('position', {'lower': [-2.9, -2.1, -0.6, -2.9, -2.0, -3.0]}, 'joint_3'),
        ('velocity', {'velocity': [0.1, 2.2, 2.8, 4.0, 4.0, 5.5]}, 'joint_1'),
        ('acceleration', {'acceleration': [9.0, 9.0, 9.0, 9.0, 0.05, 9.0]}, 'joint_5'),
        ('jerk', {'jerk': [90.0, 90.0, 90.0, 90.0, 0.01, 90.0]}, 'joint_5'),
        ('effort', {'effort': [220.0, 15.0, 160.0, 45.0, 40.0, 20.0]}, 'joint_2'),
    ],
)
def test_each_violation_is_named(arm, limits, quantity, change, joint):
    trajectory = way(arm, np.array([0.5, 0.6, -0.7, 0.5, 0.4, 1.0]))
    changed = replace(limits, **{key: np.array(value) for key, value in change.items()})
    with pytest.raises(LimitViolation) as caught:
        check_trajectory(arm, trajectory, changed)
    error = caught.value
    assert (error.joint, error.key) == (joint, quantity)
    assert abs(error.value) > abs(error.limit)
    key = next(iter(change))
    assert error.limit == changed.__dict__[key][arm.joint_index(joint)]
    assert 0.0 <= error.time <= trajectory.duration
    assert joint in str(error) and quantity in str(error) and f'{error.time:.3f} s' in str(error)
    # the value is that of the trajectory at that time
    motion = trajectory.sample(np.array([error.time]))
    # the jerk is largest in the first and in the last moment
    inner = trajectory.sample(np.array([min(error.time + 1e-6, trajectory.duration - 1e-6)]))
    jerk = 1e6 * np.abs(inner.acceleration - (error.time < 1e-3) * motion.acceleration)
    values = {**motion.__dict__, 'effort': nominal_effort(arm)(motion), 'jerk': jerk}
    assert error.value == pytest.approx(values[quantity][0, arm.joint_index(joint)], abs=1e-3)


def test_a_robot_that_stands_beyond_its_limits_is_to_be_brought_back(arm, limits):
    start = np.array([0.0, 0.0, 0.0, 0.0, 0.0, limits.upper[5] + 0.1])
    with pytest.raises(LimitViolation, match='begins there: bring the robot within its limits'):
        check_trajectory(arm, way(arm, np.zeros(6), start), limits)
    with pytest.raises(LimitViolation, match='plan within the limits'):
        check_trajectory(arm, way(arm, start), limits)


def test_a_spike_between_two_close_points_is_found(arm, limits):
    # 1 ms apart, far less than the period of the check
    time = np.array([0.0, 1.0, 1.0005, 1.001, 2.0])
    position = np.zeros((5, 6))
    velocity = np.zeros((5, 6))
    velocity[2, 3] = 50.0
    trajectory = PointTrajectory(arm.joints, time, position, velocity, np.zeros((5, 6)))
    with pytest.raises(LimitViolation) as caught:
        check_trajectory(arm, trajectory, limits)
    assert (caught.value.joint, caught.value.key) == ('joint_4', 'velocity')
    assert caught.value.time == pytest.approx(1.0005, abs=1e-6)


@settings(max_examples=40)
@given(
    quantity=st.sampled_from(['position', 'velocity', 'acceleration', 'jerk', 'effort']),
    joint=st.integers(0, 5),
    cell=st.integers(0, 9),
    place=st.floats(0.15, 0.85),
    sign=st.sampled_from([-1.0, 1.0]),
)
def test_a_violation_between_samples_alone_is_found(quantity, joint, cell, place, sign):
    # 0.5 s per point; between two of them one joint goes away from the line and back
    arm = Robot.from_urdf(URDF / 'demo_arm.urdf')
    time = np.append(np.arange(11) * 0.5, [0.5 * cell + 0.5 * place])
    order = np.argsort(time)
    excursion = np.zeros((12, 6))
    excursion[11, joint] = 0.05 * sign
    velocity = np.zeros((12, 6))
    velocity[11, joint] = 0.3 * sign
    trajectory = PointTrajectory(
        arm.joints, time[order], excursion[order], velocity[order], np.zeros((12, 6))
    )
    found = check_trajectory(arm, trajectory, _wide(arm))
    samples = trajectory.sample(time[:11])
    effort = nominal_effort(arm)
    dense = trajectory.sample(np.linspace(0.5 * cell, 0.5 * cell + 0.5, 4001))
    values = {**dense.__dict__, 'jerk': _jerk(trajectory), 'effort': effort(dense)}
    largest = values[quantity][:, joint]
    seen = {**samples.__dict__, 'jerk': 0.0 * samples.position, 'effort': effort(samples)}
    peak, before = np.abs(largest).max(), np.abs(seen[quantity][:, joint]).max()
    assert before < 0.999 * peak
    limit = np.full(6, np.inf)
    limit[joint] = 0.5 * (peak + max(before, 0.99 * peak))
    change = {'upper': limit, 'lower': -limit} if quantity == 'position' else {quantity: limit}
    with pytest.raises(LimitViolation) as caught:
        check_trajectory(arm, trajectory, replace(_wide(arm), **change))
    assert (caught.value.joint, caught.value.key) == (arm.joints[joint], quantity)
    assert abs(caught.value.value) == pytest.approx(peak, rel=0.01)
    if quantity not in ('position', 'effort'):
        # what is reported as used is that, too
        use = found.use.quantities[quantity][joint]
        assert use * getattr(_wide(arm), quantity)[joint] == pytest.approx(peak, rel=0.01)


def _jerk(trajectory):
    """Jerks all along, on both sides of each point."""
    rows = []
    for length, c in zip(np.diff(trajectory.time), trajectory.coefficients, strict=True):
        t = np.linspace(0.0, length, 1001)[:, None]
        rows.append(6.0 * c[3] + 24.0 * c[4] * t + 60.0 * c[5] * t**2)
    return np.concatenate(rows)


def _wide(arm):
    full = np.ones(6)
    return Limits(
        arm.joints, ('rad',) * 6, -9.0 * full, 9.0 * full, 1e3 * full, 1e4 * full, 1e5 * full,
        1e7 * full,
    )  # fmt: skip


def test_shares_are_what_is_left_to_the_limits(arm, limits):
    goal = np.array([0.5, 0.6, -0.7, 0.5, 0.4, 1.0])
    trajectory = way(arm, goal)
    use = check_trajectory(arm, trajectory, limits).use
    tight = replace(
        limits,
        velocity=use.quantities['velocity'] * limits.velocity,
        acceleration=use.quantities['acceleration'] * limits.acceleration,
        jerk=use.quantities['jerk'] * limits.jerk,
        # a look that is closer, since the limit is near, finds a little more
        effort=1.0001 * use.quantities['effort'] * limits.effort,
    )
    again = check_trajectory(arm, trajectory, tight).use
    for shares in (
        again.quantities['velocity'],
        again.quantities['acceleration'],
        again.quantities['jerk'],
        again.quantities['effort'],
    ):
        np.testing.assert_allclose(shares, 1.0, rtol=2e-4)
    middle, half = (limits.upper + limits.lower) / 2, (limits.upper - limits.lower) / 2
    expected = np.maximum(np.abs(goal - middle), np.abs(middle)) / half
    np.testing.assert_allclose(use.quantities['position'], expected)
    assert use.joints == arm.joints
    fastest = arm.joints[int(use.quantities['velocity'].argmax())]
    assert f'velocity {100 * use.quantities["velocity"].max():.0f} % ({fastest})' in use.summary()


def test_jumps_of_the_acceleration_are_refused_where_jerks_are_limited(arm, limits):
    time = np.array([0.0, 1.0, 2.0])
    position = np.zeros((3, 6))
    position[1, 3] = 0.2
    cubic = PointTrajectory(arm.joints, time, position, np.zeros((3, 6)))
    with pytest.raises(LimitViolation, match=r"of joint 'joint_4' jumps by 1\.2 .*infinite") as e:
        check_trajectory(arm, cubic, limits)
    assert (e.value.key, e.value.value) == ('jerk', np.inf)
    assert e.value.limit == limits.jerk[3]
    free = motion_limits(arm, PlannerSettings(jerk_time=None), margin=0.0)
    assert np.isinf(free.jerk).all()
    assert check_trajectory(arm, cubic, free).use.quantities['jerk'].max() == 0.0
    # a jump that a controller's period makes a ramp of, as rounding leaves it, is none
    acceleration = np.zeros((3, 6))
    acceleration[2, 3] = 0.5e-4 * limits.jerk[3]
    nearly = PointTrajectory(arm.joints, time, position, np.zeros((3, 6)), acceleration)
    check_trajectory(arm, nearly, limits)


def test_efforts_keep_a_margin_of_their_own(arm):
    settings_ = PlannerSettings(margin=0.2, effort_margin=0.25)
    np.testing.assert_allclose(
        motion_limits(arm, settings_).effort, 0.8 * 0.75 * arm.limits.effort
    )
    np.testing.assert_allclose(
        motion_limits(arm, settings_, margin=0.0).effort, 0.75 * arm.limits.effort
    )
    trajectory = way(arm, np.array([0.5, 1.3, -0.7, 0.5, 0.4, 1.0]))
    none = replace(settings_, effort_margin=0.0)
    used = check_trajectory(arm, trajectory, motion_limits(arm, none, margin=0.0)).use.quantities[
        'effort'
    ]
    enough = replace(settings_, effort_margin=1.0 - 1.001 * used.max())
    check_trajectory(arm, trajectory, motion_limits(arm, enough, margin=0.0))
    too_much = replace(settings_, effort_margin=1.0 - 0.999 * used.max())
    with pytest.raises(LimitViolation, match='effort of joint .*effort_margin'):
        check_trajectory(arm, trajectory, motion_limits(arm, too_much, margin=0.0))


def test_other_joints_and_moving_ends_are_refused(arm, limits):
    other = point_to_point(('a', 'b'), np.zeros(2), np.ones(2), np.ones(2), np.ones(2))
    with pytest.raises(ExcitationError, match='moves a, b: it has to move joint_1'):
        check_trajectory(arm, other, limits)
    for row, end in enumerate(('start', 'end')):
        velocity = np.zeros((2, 6))
        velocity[row, 2] = 0.1
        moving = PointTrajectory(
            arm.joints, np.array([0.0, 1.0]), np.zeros((2, 6)), velocity, np.zeros((2, 6))
        )
        with pytest.raises(ExcitationError, match=f"'joint_3' moves at 0.1 at the {end}"):
            check_trajectory(arm, moving, limits)


def test_nominal_efforts_are_those_of_rnea_and_the_urdfs_friction(arm):
    rng = np.random.default_rng(0)
    motion = Motion(*rng.standard_normal((3, 20, 6)))
    rigid = np.array(
        [
            pin.rnea(arm.model, arm.model.createData(), q, v, a)
            for q, v, a in zip(motion.position, motion.velocity, motion.acceleration, strict=True)
        ]
    )
    damping = np.array([9.0, 11.0, 6.0])
    friction = np.array([8.0, 10.0, 5.5])
    expected = rigid[:, :3] + damping * motion.velocity[:, :3]
    expected += friction * np.sign(motion.velocity[:, :3])
    np.testing.assert_allclose(nominal_effort(arm)(motion)[:, :3], expected, rtol=1e-9)


def test_links_that_touch_on_the_way_are_named_with_the_time(arm, limits, collisions):
    # the elbow folds the forearm down into the base, and opens again
    folded = np.array([0.0, 1.9, 2.4, 0.0, 0.0, 0.0])
    start = np.zeros(6)
    trajectory = way(arm, folded, start)
    with pytest.raises(CollisionError) as caught:
        check_trajectory(
            arm, trajectory, limits, collisions=collisions, effort=lambda m: m.position * 0
        )
    error = caught.value
    assert error.value < collisions.clearance
    assert all(link in str(error) for link in error.links)
    pose = trajectory.sample(np.array([error.time])).position
    there = [c for c in collisions.contacts(pose) if (c.first, c.second) == error.links]
    assert min(c.distance for c in there) == pytest.approx(error.value, abs=1e-5)


def test_the_floor_is_kept_clear(arm, limits):
    floor = collision_model(arm, 0.01, with_floor((), 0.0))
    down = way(arm, np.array([0.0, 2.0, 0.0, 0.0, 0.0, 0.0]))
    with pytest.raises(CollisionError) as caught:
        check_collisions(down, floor)
    assert 'floor' in caught.value.links
    check_collisions(down, collision_model(arm, 0.01))


@settings(max_examples=15)
@given(seed=st.integers(0, 1000))
def test_no_pair_changes_its_distance_by_more_than_joints_move_back_and_forth(seed):
    arm = Robot.from_urdf(URDF / 'demo_arm.urdf')
    model = collision_model(arm, 0.02)
    rng = np.random.default_rng(seed)
    position = rng.uniform(-1.0, 1.0, (6, 6))
    position[[0, -1]] = position[0]
    rest = np.zeros((6, 6))
    forth_and_back = PointTrajectory(arm.joints, 0.3 * np.arange(6.0), position, rest, rest)
    way = TrajectoryWay(forth_and_back)
    places = np.sort(rng.uniform(0.0, 1.5, 40))
    everyone = np.arange(len(model.pairs))
    measured = [
        [c.distance for c in model.measure(np.repeat(q[None], everyone.size, axis=0), everyone)]
        for q in way.positions(places)
    ]
    for i, j in ((0, 39), (3, 4), (10, 20), (17, 38)):
        moved = way.moved(places[i : i + 1], places[j : j + 1])[0]
        within = np.abs(np.array(measured[i : j + 1]) - measured[i]).max(axis=0)
        assert (within <= model.pair_reach @ moved + 1e-5).all()
    whole = way.moved(np.zeros(1), np.array([1.5]))[0]
    np.testing.assert_allclose(whole, np.abs(np.diff(position, axis=0)).sum(axis=0), rtol=1e-6)


def test_a_robot_that_hardly_moves_is_checked_too(arm, collisions):
    folded = np.array([0.0, 1.9, 2.4, 0.0, 0.0, 0.0])
    for way in (0.0, 1e-5):
        position = np.array([folded, folded + way])
        still = PointTrajectory(
            arm.joints, np.array([0.0, 1.0]), position, np.zeros((2, 6)), np.zeros((2, 6))
        )
        with pytest.raises(CollisionError):
            check_collisions(still, collisions)


def test_points_are_looked_at_besides_the_grid():
    trajectory = PointTrajectory(
        ('a',), np.array([0.0, 0.3137, 1.0]), np.zeros((3, 1)), np.zeros((3, 1)), np.zeros((3, 1))
    )
    times = check_times(trajectory, 10.0)
    assert 0.3137 in times
    assert np.diff(times).max() <= 1.0 / 250.0 + 1e-12


DEMO_ARM = Path(__file__).resolve().parents[2] / 'urdf' / 'demo_arm.urdf'


def test_a_burst_within_one_step_of_the_grid_is_no_way_past_an_obstacle():
    # 1 rad in 30 ms, from rest to rest, and back
    time = np.array([0.0, 1.0, 1.03, 1.06, 2.0])
    position = np.array([[0.0], [0.0], [1.0], [0.0], [0.0]])
    burst = PointTrajectory(('turn',), time, position, np.zeros((5, 1)), np.zeros((5, 1)))
    assert TrajectoryWay(burst).moved(np.zeros(1), np.full(1, 2.0)) == pytest.approx(2.0)
    x = 1.0 + 0.001 + 0.009 + 0.001
    place = (x * np.cos(0.95), x * np.sin(0.95), 0.0)
    post = Obstacle(name='post', size=(0.001,), kind='sphere', position=place)
    with pytest.raises(CollisionError):
        check_collisions(burst, collision_model(Robot.from_urdf(POINTER), 0.01, [post]))


def test_the_nearest_is_found_wherever_on_the_path_it_is(monkeypatch):
    arm = Robot.from_urdf(DEMO_ARM)
    limits = motion_limits(arm, PlannerSettings(), margin=0.0)
    model = collision_model(arm, 0.01, with_floor((), -0.5))
    down, up = np.array([0.0, 0.9, -0.7, 0.5, 0.4, 1.0]), np.zeros(6)
    share = (0.3 * limits.velocity, 0.3 * limits.acceleration)
    for start, goal in ((down, up), (up, down)):
        way = point_to_point(arm.joints, start, goal, *share)
        at_once = check_collisions(way, model)
        with monkeypatch.context() as patch:
            patch.setattr(constraints, '_BLOCK', 16)
            by_parts = check_collisions(way, model)
        assert {nearest.obstacle for nearest in at_once} == {False, True}
        for one, other in zip(at_once, by_parts, strict=True):
            assert (one.first, one.second) == (other.first, other.second)
            assert one.distance == pytest.approx(other.distance, abs=1e-6)
            assert one.time == pytest.approx(other.time, abs=0.05)


POINTER = """
<robot name="pointer">
  <link name="base"/>
  <link name="tip">
    <inertial>
      <mass value="1"/>
      <inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/>
    </inertial>
    <collision>
      <origin xyz="1 0 0"/>
      <geometry><sphere radius="0.001"/></geometry>
    </collision>
  </link>
  <joint name="turn" type="revolute">
    <parent link="base"/>
    <child link="tip"/>
    <axis xyz="0 0 1"/>
    <limit lower="-3" upper="3" velocity="1" effort="10"/>
  </joint>
</robot>"""


@pytest.mark.parametrize('phase', np.linspace(0.0, 1.0, 10, endpoint=False))
def test_the_clearance_is_kept_between_the_looks(phase):
    clearance, small = 0.05, 0.001
    pointer = Robot.from_urdf(POINTER)
    start = -0.5 - phase * clearance
    way = point_to_point(('turn',), [start], [0.5], np.ones(1), np.ones(1))
    for share, kept in ((1.02, True), (1.0 - 1.2 * FINEST, False)):
        # the tip passes it at this distance, between two looks or at one
        x = 1.0 + share * clearance + 2.0 * small
        post = Obstacle(name='post', size=(small,), kind='sphere', position=(x, 0.0, 0.0))
        model = collision_model(pointer, clearance, [post])
        if kept:
            check_collisions(way, model)
        else:
            with pytest.raises(CollisionError, match='closer than the clearance'):
                check_collisions(way, model)


def test_joined_findings_have_the_larger_share_of_each_limit():
    ones, others = np.array([0.2, 0.9]), np.array([0.5, 0.1])
    first = LimitUse(('a', 'b'), {'position': ones, 'effort': others})
    second = LimitUse(('a', 'b'), {'position': others, 'effort': ones})
    both = first.maximum(second).quantities
    np.testing.assert_array_equal([both['position'], both['effort']], [[0.5, 0.9]] * 2)


@pytest.mark.parametrize(
    ('coverage', 'level', 'words'),
    [
        (None, 'weak', 'collisions not checked'),
        (Coverage(0), 'weak', 'collisions checked in part: 0 of 0 pairs of shapes checked'),
        (Coverage(3, unchecked=('tool',), lost=2), 'weak', 'in part: 3 of 5 pairs'),
        (Coverage(3, bare=('tool',)), 'weak', 'none of tool, without collision shapes'),
        (Coverage(3, steady=2), 'good', 'Within all limits and free of collision: 3 of 5 pairs'),
    ],
)
def test_only_what_was_checked_as_a_whole_is_good(coverage, level, words):
    findings = Findings(LimitUse(('j',), {}), coverage=coverage)
    assert findings.level == level and words in findings.verdict()
