# SPDX-License-Identifier: Apache-2.0
"""Plans: within the limits, at rest at both ends, better than chance, the same each time."""

from dataclasses import replace
from pathlib import Path

import coal
import numpy as np
import pinocchio as pin
import pytest
from robot_identification.errors import ExcitationError, SettingsError
from robot_identification.excitation.bases import FourierBasis
from robot_identification.excitation.collisions import collision_model
from robot_identification.excitation.constraints import (
    check_collisions,
    check_trajectory,
    CollisionError,
    LimitViolation,
)
from robot_identification.excitation.criteria import EarlierInformation
from robot_identification.excitation.families import MotionFamily
from robot_identification.excitation.limits import motion_limits
from robot_identification.excitation.planner import plan, plan_limits
from robot_identification.excitation.plans import condition_number, PlanChecks, PlanningCanceled
from robot_identification.excitation.settings import PlannerSettings, with_floor
from robot_identification.excitation.stops import check_stops
from robot_identification.excitation.trajectories import to_points
from robot_identification.model.robot import Robot
from robot_identification.options.fields import from_mapping
from robot_identification.regressor import build
from robot_identification.regressor.base_search import structure
import yaml

URDF = Path(__file__).resolve().parents[2] / 'urdf'
QUICK = PlannerSettings(duration=6.0, harmonics=5, max_iterations=120)


@pytest.fixture(scope='module')
def arm():
    return Robot.from_urdf(URDF / 'demo_arm.urdf')


@pytest.fixture(scope='module')
def planar():
    return Robot.from_urdf(URDF / 'zollo_planar_2r.urdf')


# ------------------------------------------------------------------------------------------ plans


def test_a_plan_keeps_every_limit_and_its_number_is_true(arm):
    chosen = replace(QUICK, floor=0.0, seed=3)
    made = plan(arm, chosen)
    check_trajectory(
        arm,
        made.trajectory,
        motion_limits(arm, chosen),
        collisions=collision_model(arm, 0.01, with_floor((), 0.0), chosen.tracking_tolerance),
    )
    assert made.history == tuple(sorted(made.history, reverse=True))
    # the condition number once more, by Pinocchio's regressor
    regressor = build(arm)
    base = structure(regressor, arm)
    time = (np.arange(600) + 0.5) / 600 * 6.0
    motion = made.trajectory.sample(time)
    data = arm.model.createData()
    rows = []
    for q, v, a in zip(motion.position, motion.velocity, motion.acceleration, strict=True):
        joint_terms = np.zeros((6, 24))
        for j in range(6):
            joint_terms[j, 4 * j : 4 * j + 4] = a[j], v[j], np.sign(v[j]), 1.0
        rigid = pin.computeJointTorqueRegressor(arm.model, data, q, v, a)
        rows.append(np.hstack([rigid, joint_terms]))
    W = np.vstack(rows)[:, base.independent]
    expected = np.linalg.cond(W / np.linalg.norm(W, axis=0))
    assert made.condition_number == pytest.approx(expected, rel=0.05)
    assert 'condition number' in made.summary()
    # the deviations once more, with a hundred samples a second
    time = np.arange(0.0, 6.0, 0.01)
    noise = 0.01 * arm.limits.effort
    rows = regressor.rows(made.trajectory.sample(time))[:, base.independent]
    weighed = (rows.reshape(time.size, 6, -1) / noise[:, None]).reshape(rows.shape)
    expected = np.sqrt(np.diagonal(np.linalg.inv(weighed.T @ weighed)))
    np.testing.assert_allclose(made.deviations.std, expected, rtol=0.02)
    assert made.history[-1] == pytest.approx(np.exp(np.log(expected).mean()), rel=0.1)
    assert 'predicted deviations' in made.summary()
    # what was found on the way is told, with the closest link and obstacle
    assert made.findings.use.quantities['effort'].max() <= 1.0 and 'limits used' in made.summary()
    assert "to 'floor' at" in made.summary() or "'floor' to" in made.summary()


@pytest.mark.parametrize('rate', [50.0, 200.0])
def test_plans_pass_as_they_are_sent_without_their_margin(planar, rate):
    # jerks so small that they are what decides
    for jerk_time in (0.02, 0.5):
        chosen = replace(QUICK, jerk_time=jerk_time)
        made = plan(planar, chosen)
        sent = to_points(made.trajectory, rate)
        found = check_trajectory(planar, sent, motion_limits(planar, chosen, margin=0.0))
        assert (found.use.quantities['jerk'] <= 1.0 - 0.9 * chosen.margin).all()
    assert (found.use.quantities['jerk'] > 0.5).all() and found.use.quantities[
        'acceleration'
    ].max() < 0.8


def test_a_motion_that_does_not_pass_is_not_kept(planar, monkeypatch):
    def size(trajectory):
        return np.abs(trajectory.coefficients).max()

    passes, whole = PlanChecks.passes, size(plan(planar, QUICK).trajectory)
    monkeypatch.setattr(
        PlanChecks, 'passes', lambda checks, t: size(t) < 0.5 * whole and passes(checks, t)
    )
    assert size(plan(planar, QUICK).trajectory) < 0.5 * whole


def test_a_plan_is_better_than_chance(planar):
    made = plan(planar, QUICK)
    limits, _ = plan_limits(planar, QUICK)
    basis = FourierBasis(QUICK.duration, QUICK.frequency, QUICK.harmonics)
    family = MotionFamily(basis, limits, made.trajectory.start, np.arange(2))
    regressor = build(planar)
    base = structure(regressor, planar)
    rng = np.random.default_rng(99)
    noise = 0.01 * planar.limits.effort

    def mean_deviation(trajectory):
        rows = regressor.rows(trajectory.sample(np.arange(0.0, 6.0, 0.01)))[:, base.independent]
        weighed = (rows.reshape(-1, 2, base.n_base) / noise[:, None]).reshape(rows.shape)
        return np.exp(np.log(np.diagonal(np.linalg.inv(weighed.T @ weighed))).mean() / 2.0)

    chance = [mean_deviation(family.trajectory(3.0 * family.random(rng))) for _ in range(40)]
    deviation = mean_deviation(made.trajectory)
    assert deviation < min(min(chance), 0.6 * np.median(chance))
    first = plan(planar, replace(QUICK, max_iterations=1))
    assert deviation < 0.8 * mean_deviation(first.trajectory)
    assert condition_number(made.trajectory, regressor, base.independent) < 100.0


def test_a_limit_is_used_up_by_every_joint(arm):
    use = plan(arm, QUICK).findings.use
    largest = np.max([use.quantities['velocity'], use.quantities['acceleration']], axis=0)
    # a joint that none of these stops has reached its position limit
    assert ((largest > 0.95) | (use.quantities['position'] > 0.9)).all()


def test_plans_are_the_same_for_the_same_seed_only(planar):
    first, second = plan(planar, QUICK), plan(planar, QUICK)
    np.testing.assert_array_equal(first.trajectory.coefficients, second.trajectory.coefficients)
    assert first.history == second.history
    other = plan(planar, replace(QUICK, seed=1))
    assert np.abs(other.trajectory.coefficients - first.trajectory.coefficients).max() > 0.1


def test_a_tight_effort_limit_is_kept(arm):
    tight = tuple(arm.limits.effort * [0.6, 0.6, 0.6, 0.7, 0.7, 0.7])
    text = arm.urdf
    for i, (old, new) in enumerate(zip(arm.limits.effort, tight, strict=True)):
        assert f'effort="{old:g}"' in text, i
        text = text.replace(f'effort="{old:g}"', f'effort="{new:g}"')
    robot = Robot.from_urdf(text)
    made = plan(robot, replace(QUICK, check_collisions=False))
    check_trajectory(robot, made.trajectory, motion_limits(robot, made.settings))


@pytest.mark.parametrize('criterion', ['log_det', 'trace', 'largest', 'frobenius'])
def test_other_criteria_can_be_minimised_instead(planar, criterion):
    made = plan(planar, replace(QUICK, criterion=criterion))
    assert made.history[-1] < made.history[0]
    check_trajectory(planar, made.trajectory, made.limits)


def test_it_starts_where_it_is_told(planar):
    made = plan(planar, replace(QUICK, start=(0.4, -0.3), base_frequency=0.37))
    ends = made.trajectory.sample(np.array([0.0, 6.0]))
    np.testing.assert_allclose(ends.position[0], [0.4, -0.3], atol=1e-15)
    np.testing.assert_allclose(ends.velocity, 0.0, atol=1e-12)


def test_progress_is_told_and_a_canceled_planning_has_the_best_so_far(planar):
    told, steps = [], []
    plan(
        planar,
        QUICK,
        progress=lambda share, text: told.append((share, text)),
        on_iteration=lambda count, best: steps.append((count, best)),
    )
    shares = [share for share, _ in told]
    assert shares == sorted(shares) and shares[-1] == 1.0
    assert 'deviations' in told[0][1]
    assert [count for count, _ in steps] == list(range(1, len(steps) + 1))
    steps.clear()
    made = plan(
        planar,
        replace(QUICK, max_iterations=100_000, time_budget=0.0),
        canceled=lambda: len(steps) > 1,
        on_iteration=lambda count, best: steps.append((count, best)),
    )
    assert any('on request' in note for note in made.warnings)
    check_trajectory(planar, made.trajectory, made.limits)
    with pytest.raises(PlanningCanceled):
        plan(planar, QUICK, canceled=lambda: True)


def test_the_time_budget_ends_the_search_with_a_plan(planar):
    ticks = iter(range(10_000))
    # a clock of its own: a tenth of a second at each look
    made = plan(
        planar,
        replace(QUICK, max_iterations=100_000, time_budget=10.0),
        clock=lambda: 0.1 * next(ticks),
    )
    assert any('time_budget' in note for note in made.warnings)
    check_trajectory(planar, made.trajectory, made.limits)


def test_splines_keep_the_limits_and_are_points(arm):
    made = plan(arm, replace(QUICK, method='spline', harmonics=6))
    assert made.trajectory.time.size == 13
    check_trajectory(arm, made.trajectory, made.limits)
    ends = made.trajectory.sample(np.array([0.0, 6.0]))
    np.testing.assert_allclose(ends.position[0], ends.position[1], atol=1e-9)
    np.testing.assert_allclose(ends.acceleration, 0.0, atol=1e-9)


def test_a_part_of_the_parameters_is_told_better_than_with_all(arm):
    whole = plan(arm, replace(QUICK, max_iterations=400, check_collisions=False))
    friction = plan(
        arm, replace(QUICK, max_iterations=400, check_collisions=False, parameters=('friction',))
    )
    places = [n.rpartition('.')[2] in ('fv', 'fc', 'off') for n in whole.deviations.names]
    means = [np.log(made.deviations.std[places]).mean() for made in (friction, whole)]
    assert means[0] < means[1]


def test_a_payloads_motion_moves_the_last_joints(arm):
    made = plan(arm, replace(QUICK, parameters=('payload',)))
    assert len(made.deviations.names) == 10
    assert all(name.startswith(f'{arm.links[-1]}.') for name in made.deviations.names)
    moved = np.ptp(made.trajectory.sample(np.linspace(0.0, 6.0, 50)).position, axis=0)
    assert (moved[:2] < 1e-12).all() and (moved[2:] > 0.1).all()


def test_a_motion_complements_earlier_recordings(planar):
    first = plan(planar, replace(QUICK, parameters=('joint_1',)))
    regressor = build(planar)
    base = structure(regressor, planar)
    noise = 0.01 * planar.limits.effort
    rows = regressor.rows(first.trajectory.sample(np.arange(0.0, 6.0, 0.01)))[:, base.independent]
    weighed = (rows.reshape(-1, 2, base.n_base) / noise[:, None]).reshape(rows.shape)
    known = EarlierInformation(base.names, weighed.T @ weighed, noise)
    alone, second = (plan(planar, replace(QUICK, seed=4), earlier=e) for e in (None, known))
    assert (second.deviations.std < alone.deviations.std + 1e-12).mean() > 0.7
    repeated = np.sqrt(np.diagonal(np.linalg.inv(2.0 * weighed.T @ weighed)))
    assert np.log(second.deviations.std / repeated).mean() < 0.0
    with pytest.raises(ExcitationError, match='not the same'):
        plan(planar, QUICK, earlier=replace(known, names=known.names[:-1]))


def test_targets_count_until_they_are_met(planar):
    thorough = replace(QUICK, max_iterations=500)
    made = plan(planar, thorough)
    name = made.deviations.names[0]
    aimed = plan(planar, thorough, targets={name: 1e-3 * float(made.deviations.std[0])})
    assert aimed.deviations.std[0] < made.deviations.std[0]
    assert (made.deviations.repetitions(made.deviations.std / 1.5) == 3.0).all()


def test_a_motion_of_little_use_is_told(arm):
    slow = replace(QUICK, velocity_scale=0.1, effort_noise=(100.0,) * 6)
    notes = plan(arm, slow).warnings
    assert any('of little use' in note for note in notes)


def test_what_cannot_be_planned_is_named(arm, planar):
    with pytest.raises(ExcitationError, match="start of joint 'joint_2'.*no room") as caught:
        limits = motion_limits(planar, QUICK)
        plan(planar, replace(QUICK, start=(0.0, float(limits.upper[1]))))
    assert (caught.value.joint, caught.value.key) == ('joint_2', 'start')
    folded = (0.0, 1.7, 2.2, 0.0, 1.5, 0.0)
    with pytest.raises(CollisionError, match=r"'base_link' and 'link_\d' .* at the start"):
        plan(arm, replace(QUICK, start=folded))
    weak = Robot.from_urdf(arm.urdf.replace('effort="330"', 'effort="5"'))
    with pytest.raises(ExcitationError, match='gravity takes') as caught:
        plan(weak, replace(QUICK, start=(0.0, 1.0, 0.0, 0.0, 0.0, 0.0)))
    assert (caught.value.joint, caught.value.key) == ('joint_2', 'effort')


@pytest.mark.parametrize(
    ('key', 'value'),
    [('harmonics', -1), ('margin', 1.0), ('duration', 0.0), ('criterion', 'x'), ('seed', -1)],
)
def test_settings_out_of_range_are_refused(key, value):
    with pytest.raises(SettingsError, match=f"'{key}'"):
        from_mapping(PlannerSettings, {key: value})


@pytest.mark.parametrize(
    ('changes', 'targets', 'message'),
    [
        ({'parameters': ('joint_9',)}, None, "no base parameter 'joint_9'"),
        ({'parameters': ('link_1', 'payload')}, None, "no base parameter 'payload'"),
        ({'moving': ('joint_9',)}, None, "no joint 'joint_9' to move"),
        ({'effort_noise': (1.0,)}, None, "'effort_noise' has 1 values"),
        ({'effort_noise': (1.0, 0.0)}, None, "'effort_noise' is 0"),
        ({}, {'nothing': 1.0}, "no base parameter 'nothing'"),
        ({}, {'joint_1.fv': float('nan')}, "wanted deviation of 'joint_1.fv' is nan"),
    ],
)
def test_goals_that_cannot_be_are_named(planar, changes, targets, message):
    with pytest.raises(ExcitationError, match=message):
        plan(planar, replace(QUICK, **changes), targets=targets)


def test_recordings_without_noise_give_finite_information():
    triangles = np.zeros((2, 3, 3))
    # the efforts are exactly explained
    triangles[:, :2] = [[2.0, 1.0, 3.0], [0.0, 1.0, 1.0]]
    known = EarlierInformation.from_triangles(
        ('a', 'b'), triangles, np.full(2, 9), np.full(2, 9.0), 1.0
    )
    assert np.isfinite(known.information).all() and (known.noise > 0.0).all()


# --------------------------------------------------------------------- tracking errors and stops


def lowest(robot, positions, ground=0.0):
    """Least height of the robot's moving shapes above the ground, by Pinocchio and Coal alone."""
    geometry = pin.buildGeomFromUrdf(robot.model, str(robot.path), pin.GeometryType.COLLISION)
    plane = pin.GeometryObject(
        'ground', 0, 0, pin.SE3.Identity(), coal.Halfspace(np.array([0.0, 0.0, 1.0]), ground)
    )
    place = geometry.addGeometryObject(plane)
    for index, shape in enumerate(geometry.geometryObjects):
        # the base and the first link stand on it
        if shape.parentJoint > 1:
            geometry.addCollisionPair(pin.CollisionPair(index, place))
    data, shapes = robot.model.createData(), geometry.createData()
    least = np.inf
    for q in positions:
        pin.computeDistances(robot.model, data, geometry, shapes, q)
        least = min(least, *(result.min_distance for result in shapes.distanceResults))
    return least


@pytest.mark.parametrize(
    'evaluations', [60, pytest.param(None, marks=pytest.mark.soak, id='as documented')]
)
def test_the_plan_for_gazebo_clears_the_ground_by_more_than_its_tracking_error(arm, evaluations):
    text = (URDF.parent / 'config' / 'gazebo.yaml').read_text()
    given = yaml.safe_load(text)['/**/excitation']['ros__parameters']['planner']
    chosen = from_mapping(PlannerSettings, given)
    # what is measured there is up to 0.053 rad
    assert min(chosen.tracking_tolerance) > 0.053
    if evaluations is not None:
        chosen = replace(chosen, max_iterations=evaluations)
    made = plan(arm, chosen)
    time = np.linspace(0.0, made.trajectory.duration, 2000)
    position = made.trajectory.sample(time).position
    rng = np.random.default_rng(0)
    errors = np.sign(rng.uniform(-1.0, 1.0, (8, *position.shape))) * chosen.tracking_tolerance
    assert lowest(arm, position) > chosen.clearance
    assert lowest(arm, (position + errors).reshape(-1, 6)) > chosen.clearance - 1e-3


@pytest.mark.parametrize('value', [[], [0.0], [0.05, -0.1]])
def test_a_plan_has_a_tolerance_that_a_controller_can_watch(value):
    """Of 0, a controller makes its own one."""
    with pytest.raises(SettingsError, match='tracking_tolerance'):
        from_mapping(PlannerSettings, {'tracking_tolerance': value})


def test_tracking_errors_take_room_from_the_plan_that_does_without_them(arm):
    without = plan(arm, replace(QUICK, floor=0.0, tracking_tolerance=(1e-4,)))
    model = collision_model(arm, 0.01, with_floor((), 0.0), (0.1,))
    with pytest.raises(CollisionError, match='less the tracking tolerance'):
        check_collisions(without.trajectory, model)
    made = plan(arm, replace(QUICK, floor=0.0, tracking_tolerance=(0.1,)))
    found = check_collisions(made.trajectory, model)
    assert all(nearest.planned >= nearest.distance >= 0.01 for nearest in found)
    assert 'as planned' in made.summary()


def test_plans_have_room_for_the_stops_of_a_controller(arm):
    chosen = replace(QUICK, floor=0.0, max_iterations=60, tracking_tolerance=(1e-4,))
    deceleration = 0.15 * motion_limits(arm, chosen, margin=0.0).acceleration
    without = plan(arm, chosen)
    limits = motion_limits(arm, chosen, margin=0.0)
    model = collision_model(arm, 0.01, with_floor((), 0.0))
    with pytest.raises((LimitViolation, CollisionError), match='a stop from'):
        check_stops(arm, without.trajectory, limits, deceleration, model)
    made = plan(arm, replace(chosen, stop_deceleration=tuple(deceleration)))
    longest = check_stops(arm, made.trajectory, limits, deceleration, model)
    assert made.findings.stopping == pytest.approx(longest)
    assert "the controller's stops" in made.summary()
    # once more by hand: ends of stops, which are above the ground and within the limits
    motion = made.trajectory.sample(np.linspace(0.0, made.trajectory.duration, 1000))
    end = motion.position + motion.velocity * np.abs(motion.velocity) / (2.0 * deceleration)
    assert (limits.lower <= end).all() and (end <= limits.upper).all()
    assert lowest(arm, end) > 0.009


def test_no_joint_accelerates_harder_than_it_brakes_in_a_stop(arm):
    weak = tuple(0.1 * motion_limits(arm, PlannerSettings(), margin=0.0).acceleration)
    chosen = replace(QUICK, method='sweeps', duration=25.0, stop_deceleration=weak)
    made = plan(arm, chosen)
    motion = made.trajectory.sample(np.linspace(0.0, made.trajectory.duration, 5000))
    assert (np.abs(motion.acceleration) <= np.array(weak) * (1.0 + 1e-9)).all()
    assert made.findings.stopping > 0.0
    with pytest.raises(
        ExcitationError, match="'stop_deceleration' has 5 values, the robot 6 joints"
    ):
        plan(arm, replace(QUICK, stop_deceleration=weak[:5]))
