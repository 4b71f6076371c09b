# SPDX-License-Identifier: Apache-2.0
"""Plans: within the limits, at rest at both ends, better than chance, the same each time."""

from dataclasses import replace
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pinocchio as pin
import pytest
from robot_identification.base_parameters import structure
from robot_identification.errors import ExcitationError, SettingsError
from robot_identification.excitation import planner
from robot_identification.excitation.collision_check import CollisionError
from robot_identification.excitation.collisions import collision_model
from robot_identification.excitation.constraints import check_trajectory
from robot_identification.excitation.limits import motion_limits
from robot_identification.excitation.objective import FeasibleSeries
from robot_identification.excitation.obstacles import with_floor
from robot_identification.excitation.planner import plan
from robot_identification.excitation.plans import limits_and_start, PlanningCanceled
from robot_identification.excitation.points import to_points
from robot_identification.excitation.settings import PlannerSettings
from robot_identification.model.robot import Robot
from robot_identification.options.fields import from_mapping
from robot_identification.regressor import build, ModelSettings

URDF = Path(__file__).resolve().parents[2] / 'urdf'
QUICK = PlannerSettings(duration=6.0, harmonics=5, max_iterations=15)


@pytest.fixture(scope='module')
def arm():
    return Robot.from_urdf(URDF / 'demo_arm.urdf')


@pytest.fixture(scope='module')
def planar():
    return Robot.from_urdf(URDF / 'zollo_planar_2r.urdf')


# ----------------------------------------------------------------------- feasible by construction


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    size=st.floats(0.01, 1e3),
    duration=st.floats(2.0, 30.0),
    periods=st.floats(0.6, 4.0),
    harmonics=st.integers(3, 10),
)
def test_no_variables_lead_out_of_the_limits(seed, size, duration, periods, harmonics):
    robot = Robot.from_urdf(URDF / 'szabo_3r.urdf')
    limits = motion_limits(robot, PlannerSettings(margin=0.05, jerk_time=0.3))
    rng = np.random.default_rng(seed)
    start = rng.uniform(0.9 * limits.lower, 0.9 * limits.upper)
    series = FeasibleSeries(limits, start, duration, periods / duration, harmonics)
    x = series.random(rng)
    motion = series.trajectory(size * x).sample(np.linspace(0, duration, 4001))
    assert (motion.position <= limits.upper + 1e-12).all()
    assert (motion.position >= limits.lower - 1e-12).all()
    assert (np.abs(motion.velocity) <= limits.velocity + 1e-12).all()
    assert (np.abs(motion.acceleration) <= limits.acceleration + 1e-12).all()
    omega = 2.0 * np.pi * series.frequency * np.arange(1, harmonics + 1)
    angle = np.multiply.outer(np.linspace(0, duration, 4001), omega)
    sine, cosine = np.split(series.coefficients(size * x), 2)
    jerk = -(np.cos(angle) * omega**2) @ sine - (np.sin(angle) * omega**2) @ cosine
    assert (np.abs(jerk) <= limits.jerk + 1e-9).all()


def test_large_variables_use_the_limits_nearly_up():
    robot = Robot.from_urdf(URDF / 'szabo_3r.urdf')
    limits = motion_limits(robot, PlannerSettings())
    series = FeasibleSeries(limits, np.zeros(3), 10.0, 0.1, 5)
    x = 50.0 * series.random(np.random.default_rng(0))
    motion = series.trajectory(x).sample(np.linspace(0, 10, 2001))
    use = np.max(
        [
            np.abs(motion.velocity / limits.velocity).max(axis=0),
            np.abs(motion.acceleration / limits.acceleration).max(axis=0),
            (motion.position / limits.upper).max(axis=0),
            (motion.position / limits.lower).max(axis=0),
        ],
        axis=0,
    )
    assert (use > 0.85).all()


def test_a_gradient_is_pulled_back_through_the_scaling():
    robot = Robot.from_urdf(URDF / 'szabo_3r.urdf')
    limits = motion_limits(robot, PlannerSettings())
    series = FeasibleSeries(limits, np.zeros(3), 10.0, 0.1, 5)
    rng = np.random.default_rng(4)
    x = 1.5 * series.random(rng)
    weight, change = rng.standard_normal((10, 3)), rng.standard_normal(x.shape)
    step = 1e-6
    ends = [(series.coefficients(x + s * change) * weight).sum() for s in (step, -step)]
    slope = (series.pull_back(x, weight) * change).sum()
    assert slope == pytest.approx((ends[0] - ends[1]) / (2.0 * step), rel=1e-5)


@pytest.mark.parametrize('criterion', ['condition_number', 'log_det'])
@pytest.mark.parametrize(
    ('distances', 'step', 'tolerance'),
    # distances come out of an iteration that ends at 1e-6 m
    [(False, 1e-6, 1e-4), (True, 1e-4, 1e-2)],
)
def test_the_objectives_gradient_holds_with_its_penalties(
    arm, criterion, distances, step, tolerance
):
    chosen = replace(QUICK, criterion=criterion, clearance=0.2)
    collisions = collision_model(arm, 0.2, with_floor((), 0.0)) if distances else None
    limits, start = limits_and_start(arm, chosen, None)
    # efforts that are sure to be exceeded
    limits = replace(limits, effort=0.3 * limits.effort)
    objective = planner._objective(arm, chosen, ModelSettings(), limits, start, collisions)
    rng = np.random.default_rng(1)
    x = objective.series.random(rng)
    value, gradient = objective.gradient(x)
    motion = objective.motion(x)
    assert objective._effort_penalty(objective.rows(motion))[0] > 0.01
    assert (objective._distance_penalty(motion)[0] > 0.01) is distances
    assert value.total == pytest.approx(objective.value(x).total)
    change = rng.standard_normal(x.shape)
    ahead, behind = (objective.value(x + s * change).total for s in (step, -step))
    difference = (ahead - behind) / (2.0 * step)
    assert (gradient * change).sum() == pytest.approx(difference, rel=tolerance)


# ------------------------------------------------------------------------------------------ plans


def test_a_plan_keeps_every_limit_and_its_number_is_true(arm):
    chosen = replace(QUICK, floor=0.0, seed=3)
    made = plan(arm, chosen)
    check_trajectory(
        arm,
        made.trajectory,
        motion_limits(arm, chosen),
        collisions=collision_model(arm, 0.01, with_floor((), 0.0)),
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
    assert made.condition_number < 30.0
    assert 'condition number' in made.summary()
    # what was found on the way is told, with the closest link and obstacle
    assert made.findings.use.effort.max() <= 1.0 and 'limits used' in made.summary()
    assert "to 'floor' at" in made.summary() or "'floor' to" in made.summary()


@pytest.mark.parametrize('rate', [50.0, 200.0])
def test_plans_pass_as_they_are_sent_without_their_margin(planar, rate):
    # jerks so small that they are what decides
    for jerk_time in (0.02, 0.5):
        chosen = replace(QUICK, jerk_time=jerk_time)
        made = plan(planar, chosen)
        sent = to_points(made.trajectory, rate)
        found = check_trajectory(planar, sent, motion_limits(planar, chosen, margin=0.0))
        assert (found.use.jerk <= 1.0 - 0.9 * chosen.margin).all()
    assert (found.use.jerk > 0.5).all() and found.use.acceleration.max() < 0.8


def test_a_plan_is_better_than_chance(planar):
    chosen = replace(QUICK, max_iterations=60)
    made = plan(planar, chosen)
    limits, start = limits_and_start(planar, chosen, None)
    series = FeasibleSeries(limits, start, chosen.duration, chosen.frequency, chosen.harmonics)
    regressor = build(planar)
    base = structure(regressor, planar)
    rng = np.random.default_rng(99)
    chance = [
        planner.condition_number(series.trajectory(3.0 * series.random(rng)), regressor, base)
        for _ in range(40)
    ]
    assert made.condition_number < min(chance)
    assert made.condition_number < 0.5 * np.median(chance)


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


def test_log_det_can_be_minimised_instead(planar):
    made = plan(planar, replace(QUICK, criterion='log_det'))
    assert made.history[-1] < made.history[0]
    check_trajectory(planar, made.trajectory, made.limits)


def test_it_starts_where_it_is_told(planar):
    made = plan(planar, replace(QUICK, start=(0.4, -0.3), base_frequency=0.37))
    ends = made.trajectory.sample(np.array([0.0, 6.0]))
    np.testing.assert_allclose(ends.position[0], [0.4, -0.3], atol=1e-15)
    np.testing.assert_allclose(ends.velocity, 0.0, atol=1e-12)


def test_progress_is_told_and_planning_can_be_canceled(planar):
    told, iterations = [], []
    plan(
        planar,
        QUICK,
        progress=lambda share, text: told.append((share, text)),
        on_iteration=lambda count, best: iterations.append((count, best)),
    )
    shares = [share for share, _ in told]
    assert shares == sorted(shares) and shares[-1] == 1.0
    assert 'condition_number' in told[0][1]
    assert [count for count, _ in iterations] == list(range(1, len(iterations) + 1))
    with pytest.raises(PlanningCanceled):
        plan(planar, QUICK, canceled=lambda: len(told) > 0)


def test_the_time_budget_ends_the_search_with_a_plan(planar):
    made = plan(planar, replace(QUICK, max_iterations=100_000, time_budget=0.01))
    assert len(made.history) < 100
    assert any('time_budget' in note for note in made.warnings)
    check_trajectory(planar, made.trajectory, made.limits)


def test_what_cannot_be_planned_is_named(arm, planar):
    with pytest.raises(ExcitationError, match="start of joint 'joint_2'.*no room") as caught:
        limits = motion_limits(planar, QUICK)
        plan(planar, replace(QUICK, start=(0.0, float(limits.upper[1]))))
    assert (caught.value.joint, caught.value.key) == ('joint_2', 'start')
    folded = (0.0, 1.7, 2.2, 0.0, 1.5, 0.0)
    with pytest.raises(CollisionError, match=r"'base_link' and 'link_6' .* at the start"):
        plan(arm, replace(QUICK, start=folded))
    weak = Robot.from_urdf(arm.urdf.replace('effort="330"', 'effort="5"'))
    with pytest.raises(ExcitationError, match='gravity takes') as caught:
        plan(weak, replace(QUICK, start=(0.0, 1.0, 0.0, 0.0, 0.0, 0.0)))
    assert (caught.value.joint, caught.value.key) == ('joint_2', 'effort')


@pytest.mark.parametrize(
    ('key', 'value'),
    [('harmonics', 2), ('margin', 1.0), ('duration', 0.0), ('criterion', 'x'), ('seed', -1)],
)
def test_settings_out_of_range_are_refused(key, value):
    with pytest.raises(SettingsError, match=f"'{key}'"):
        from_mapping(PlannerSettings, {key: value})
