"""Plans through points: within the limits, free of collision, for any robot."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from robot_identification.errors import ExcitationError, SettingsError
from robot_identification.excitation import path, plans, sequence
from robot_identification.excitation.collisions import collision_model
from robot_identification.excitation.constraints import check_trajectory, LimitViolation
from robot_identification.excitation.limits import motion_limits
from robot_identification.excitation.planner import plan
from robot_identification.excitation.point_planner import energy_equations
from robot_identification.excitation.sequence import (
    EnergyEquations,
    PointBounds,
    WaypointSet,
)
from robot_identification.excitation.settings import Obstacle, PlannerSettings, PointSettings
from robot_identification.excitation.trajectories import PointTrajectory, to_points, Trajectory
from robot_identification.model.robot import Robot
from robot_identification.options.fields import from_mapping
from robot_identification.regressor import ModelSettings

URDF = Path(__file__).resolve().parents[2] / 'urdf'
QUICK = PlannerSettings(
    method='points', points=PointSettings(starts=4, rounds=0), max_iterations=80
)


def quick_plan(robot, settings, **options):
    """Plan by searches that end with hardly any polish."""
    hasty = sequence.WaypointSearchConstants(
        selection=((2.0, 60, 3), (8.0, 100, 2), (40.0, 100, 1)), finish=((100.0, 100, 1),)
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sequence, 'WAYPOINTS', hasty)
        return plan(robot, settings, **options)


@pytest.fixture(scope='module')
def planar():
    return Robot.from_urdf(URDF / 'zollo_planar_2r.urdf')


@pytest.fixture(scope='module')
def planar_plan(planar):
    return quick_plan(planar, QUICK)


@pytest.fixture(scope='module')
def folding():
    """Return a robot whose third joint cannot pass from one side of its range to the other."""
    return Robot.from_urdf(URDF / 'gautier_khalil_3r.urdf')


@pytest.fixture(scope='module')
def folding_plan(folding):
    return plan(folding, QUICK)


def test_a_plan_through_points_keeps_every_limit_and_its_distance(folding, folding_plan):
    made = folding_plan
    assert isinstance(made.trajectory, PointTrajectory)
    assert made.amplitude == 1.0
    # twice as many equations as base parameters with an energy: 15, and the third rotor
    assert made.trajectory.time.size == 2 * 16 + 3
    check_trajectory(
        folding,
        made.trajectory,
        motion_limits(folding, QUICK),
        rate=5000.0,
        collisions=collision_model(folding, 0.01),
    )
    # it hurries: in each segment, some limit is all but reached
    time = made.trajectory.time
    dense = made.trajectory.sample((time[:-1, None] + np.diff(time)[:, None] * GRID).ravel())
    use = np.maximum(
        np.abs(dense.velocity) / made.limits.velocity,
        np.abs(dense.acceleration) / made.limits.acceleration,
    )
    assert (use.max(axis=1).reshape(-1, GRID.size).max(axis=1) > 0.99).all()


GRID = np.linspace(0.0, 1.0, 200)


def test_a_plan_through_points_tells_the_parameters_apart(folding, folding_plan):
    limits = folding_plan.limits
    bounds = PointBounds(limits.lower, limits.upper, limits.velocity)
    equations = energy_equations(folding, ModelSettings(), bounds, 'typical')
    random = np.random.default_rng(0)
    chance = [np.linalg.cond(equations.matrix(bounds.random(random, 33))) for _ in range(50)]
    points = folding_plan.trajectory.position[1:-1], folding_plan.trajectory.velocity[1:-1]
    number = np.linalg.cond(equations.matrix(WaypointSet(*points)))
    assert folding_plan.points_condition_number == pytest.approx(number)
    assert number < min(chance)
    # with friction, by the efforts along the motion
    assert folding_plan.condition_number < 20.0
    assert '35 points' in folding_plan.summary()


def test_points_for_a_controller_make_the_same_motion(folding_plan):
    trajectory = folding_plan.trajectory
    resampled = to_points(trajectory, 50.0)
    time = np.linspace(0.0, trajectory.duration, 3001)
    expected, got = trajectory.sample(time), resampled.sample(time)
    assert np.diff(resampled.time).max() <= 0.02 + 1e-12
    for name in ('position', 'velocity', 'acceleration'):
        size = np.abs(getattr(expected, name)).max()
        np.testing.assert_allclose(
            getattr(got, name), getattr(expected, name), atol=1e-9 * size, err_msg=name
        )


def test_plans_are_the_same_for_the_same_seed_only(planar, planar_plan):
    first, second = planar_plan, quick_plan(planar, QUICK)
    np.testing.assert_array_equal(first.trajectory.position, second.trajectory.position)
    assert first.history == second.history
    other = quick_plan(planar, replace(QUICK, seed=1))
    assert np.abs(other.trajectory.position - first.trajectory.position).max() > 0.1


def test_jerks_are_kept_by_the_times_between_points(planar):
    smooth = replace(QUICK, jerk_time=0.1)
    made = quick_plan(planar, smooth)
    found = check_trajectory(planar, made.trajectory, motion_limits(planar, smooth))
    assert found.use.quantities['jerk'].max() == pytest.approx(1.0, abs=1e-6)
    rough = quick_plan(planar, replace(QUICK, jerk_time=None))
    with pytest.raises(LimitViolation, match='jerk of joint'):
        check_trajectory(planar, rough.trajectory, motion_limits(planar, smooth))


def test_sliding_and_continuous_joints_and_friction_are_planned_for():
    links = ''.join(
        f'<link name="link_{i}"><inertial><origin xyz="0.05 0.02 0.1"/><mass value="2"/>'
        '<inertia ixx="0.02" iyy="0.03" izz="0.02" ixy="0" ixz="0" iyz="0.001"/></inertial></link>'
        for i in (1, 2, 3)
    )
    joints = ''.join(
        f'<joint name="joint_{i}" type="{kind}"><parent link="{parent}"/><child link="link_{i}"/>'
        f'<origin xyz="0.2 0 0.1" rpy="{rpy}"/><axis xyz="0 0 1"/>'
        f'<limit {range_} velocity="{speed}" effort="200"/></joint>'
        for i, kind, parent, rpy, range_, speed in (
            (1, 'prismatic', 'base', '0 0 0', 'lower="0" upper="0.6"', 0.8),
            (2, 'continuous', 'link_1', '1.5708 0 0', '', 2.0),
            (3, 'revolute', 'link_2', '0 1.2 0', 'lower="-2" upper="1"', 3.0),
        )
    )
    robot = Robot.from_urdf(f'<robot name="gantry"><link name="base"/>{links}{joints}</robot>')
    model = ModelSettings(friction=('viscous', 'stiction', 'stribeck'))
    made = quick_plan(robot, QUICK, model=model)
    check_trajectory(robot, made.trajectory, motion_limits(robot, QUICK))
    assert np.isfinite(made.condition_number)


def test_a_weak_robot_is_planned_for_within_its_efforts(planar, planar_plan):
    text = planar.urdf
    for effort in planar.limits.effort:
        text = text.replace(f'effort="{effort:g}"', f'effort="{0.4 * effort:g}"')
    weak = Robot.from_urdf(text)
    assert (weak.limits.effort < planar.limits.effort).all()
    made = quick_plan(weak, QUICK)
    with pytest.raises(LimitViolation, match='effort'):
        check_trajectory(weak, planar_plan.trajectory, motion_limits(weak, QUICK))
    check_trajectory(weak, made.trajectory, motion_limits(weak, QUICK))


def test_progress_is_told_and_a_canceled_planning_has_the_best_so_far(planar):
    told = []
    plan(planar, QUICK, progress=lambda share, text: told.append((share, text)))
    shares = [share for share, _ in told]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert 'cost of the points' in told[0][1]
    asked = []
    made = plan(planar, QUICK, canceled=lambda: asked.append(1) or len(asked) > 5)
    assert any('on request' in note for note in made.warnings)
    check_trajectory(planar, made.trajectory, made.limits)
    assert (made.deviations.std > 0.0).all()


def test_the_time_budget_ends_the_search_with_a_plan(planar):
    eager = replace(QUICK, time_budget=1e-3, points=PointSettings(rounds=10_000))
    made = plan(planar, eager)
    assert len(made.history) < 5
    assert any('time_budget' in note for note in made.warnings)
    check_trajectory(planar, made.trajectory, made.limits)


def test_the_start_is_where_it_begins_and_ends(planar):
    made = quick_plan(planar, replace(QUICK, start=(0.4, -0.3)))
    assert isinstance(made.trajectory, Trajectory)
    ends = made.trajectory.sample(np.array([0.0, made.trajectory.duration]))
    np.testing.assert_allclose(ends.position, [[0.4, -0.3]] * 2, atol=1e-12)
    np.testing.assert_allclose(ends.velocity, 0.0, atol=1e-12)


def test_wrong_settings_are_named(planar):
    with pytest.raises(SettingsError, match="'points.equations' is 3, but there are") as caught:
        plan(planar, replace(QUICK, points=PointSettings(equations=3)))
    assert caught.value.key == 'points.equations'
    weightless = PointSettings(condition_weight=0.0)
    with pytest.raises(SettingsError, match='both 0') as caught:
        plan(planar, replace(QUICK, points=weightless))
    assert caught.value.key == 'points.condition_weight'
    with pytest.raises(SettingsError, match=r"'points\.measure'"):
        from_mapping(PlannerSettings, {'points': {'measure': 'x'}})


class WorkClock:
    """A clock that the planner's work drives: each piece of work takes its time."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now

    def charged(self, function, seconds):
        def work(*arguments, **named):
            self.now += seconds
            return function(*arguments, **named)

        return work


def test_no_more_than_a_second_of_work_follows_the_time_budget(folding, monkeypatch):
    clock = WorkClock()
    for place, name, seconds in (
        (EnergyEquations, 'linearised', 0.05),
        (path, 'allowed_times', 0.05),
        (plans, 'check_trajectory', 0.1),
    ):
        monkeypatch.setattr(place, name, clock.charged(getattr(place, name), seconds))
    points = PointSettings(starts=4, rounds=10_000, equilibrium_weight=0.1)
    settings = replace(QUICK, points=points, time_budget=0.3)
    made = plan(folding, settings, clock=clock)
    assert 0.3 < made.seconds < 1.3
    assert any('time_budget' in note for note in made.warnings)
    check_trajectory(
        folding,
        made.trajectory,
        motion_limits(folding, QUICK),
        rate=5000.0,
        collisions=collision_model(folding, 0.01),
    )


# sweeps and poses: within all limits, at constant speed or at rest, and informative


@pytest.fixture(scope='module')
def arm():
    return Robot.from_urdf(URDF / 'demo_arm.urdf')


def checked_simple(arm, **settings):
    made = plan(arm, PlannerSettings(**settings))
    check_trajectory(arm, made.trajectory, made.limits, collisions=collision_model(arm, 0.01))
    assert made.trajectory.duration <= made.settings.duration
    return made


def test_sweeps_move_one_joint_at_constant_speeds(arm):
    made = checked_simple(arm, method='sweeps', duration=120.0)
    time = np.arange(0.0, made.trajectory.duration, 0.01)
    motion = made.trajectory.sample(time)
    steady = (np.abs(motion.acceleration) < 1e-6) & (np.abs(motion.velocity) > 1e-6)
    for joint in range(arm.n_joints):
        speeds = np.unique(np.round(motion.velocity[steady[:, joint], joint], 6))
        # both directions, at three speeds or more
        assert (speeds > 0.0).sum() >= 3 and set(speeds) == set(-speeds)
    assert steady.any(axis=1).mean() > 0.3
    friction = [n.rpartition('.')[2] in ('fv', 'fc') for n in made.deviations.names]
    assert (made.deviations.relative[friction] < 0.2).all()


def test_poses_rest_where_gravity_tells_most(arm):
    made = checked_simple(arm, method='poses', duration=40.0)
    time = np.arange(0.0, made.trajectory.duration, 0.01)
    rest = (np.abs(made.trajectory.sample(time).velocity) < 1e-9).all(axis=1)
    assert rest.mean() > 0.25
    more = checked_simple(arm, method='poses', duration=80.0)
    offsets = [name.endswith('.off') for name in made.deviations.names]
    assert (more.deviations.std[offsets] < made.deviations.std[offsets]).all()


def test_no_time_for_any_is_named(arm):
    for method in ('sweeps', 'poses'):
        with pytest.raises(ExcitationError, match=f'no room or time for {method}'):
            plan(arm, PlannerSettings(method=method, duration=0.6))


def test_no_pose_that_can_be_held_is_named(arm):
    # in a tight shaft around the arm only the start is free of collision
    start = tuple(np.zeros(arm.n_joints))
    shaft = [
        Obstacle(f'wall {i}', 'plane', normal=normal, offset=-0.23)
        for i, normal in enumerate(((1.0, 0, 0), (-1.0, 0, 0), (0, 1.0, 0), (0, -1.0, 0)))
    ]
    with pytest.raises(ExcitationError, match='no room or time for poses'):
        plan(arm, PlannerSettings(method='poses', start=start, obstacles=tuple(shaft)))
