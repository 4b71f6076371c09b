# SPDX-License-Identifier: Apache-2.0
"""Energy equations of points: condition numbers with their gradients, the search, descents."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from robot_identification.errors import SettingsError
from robot_identification.excitation.criteria import log_spread
from robot_identification.excitation.limits import Limits
from robot_identification.excitation.path import PathProblem, shortest_times, trajectory_through
from robot_identification.excitation.point_cost import equilibrium, MEASURES, PointCost
from robot_identification.excitation.point_planner import energy_equations
from robot_identification.excitation.sequence import (
    descend_all,
    PointBounds,
    search,
    WaypointSearchConstants,
    WaypointSet,
)
from robot_identification.model.robot import Robot
from robot_identification.regressor import ModelSettings
from scipy.optimize import minimize, rosen, rosen_der

from benchmarks.papers.gautier_khalil_robot import PointProblem


@pytest.fixture
def matrices():
    return np.random.default_rng(0).standard_normal((3, 9, 5)) * [1.0, 3.0, 0.2, 5.0, 1.0]


def test_the_three_measures_are_those_of_the_paper(matrices):
    values = {name: np.exp(measure(matrices, np.inf)[0]) for name, measure in MEASURES.items()}
    for k, W in enumerate(matrices):
        assert values['spectral'][k] == pytest.approx(np.linalg.cond(W))
        A = W.T @ W
        frobenius = np.linalg.norm(A) * np.linalg.norm(np.linalg.inv(A))
        assert values['frobenius'][k] == pytest.approx(frobenius)
        # an estimate from below, by no more than a small factor
        assert 0.2 * np.linalg.cond(W) < values['qr'][k] <= np.linalg.cond(W)


def test_one_column_is_as_well_conditioned_as_can_be(matrices):
    for name, measure in MEASURES.items():
        value, gradient = measure(matrices[:, :, :1], 2.0)
        np.testing.assert_allclose(value, 0.0, atol=1e-12, err_msg=name)
        np.testing.assert_allclose(gradient, 0.0, atol=1e-12, err_msg=name)


def test_the_equilibrium_is_the_ratio_of_entries_that_are_not_zero(matrices):
    matrices[0, 2, 1] = 0.0
    sizes = np.abs(matrices)
    sizes[0, 2, 1] = np.nan
    expected = np.nanmax(sizes, axis=(1, 2)) / np.nanmin(sizes, axis=(1, 2))
    np.testing.assert_allclose(np.exp(equilibrium(matrices, np.inf)[0]), expected)
    value, gradient = equilibrium(matrices, 3.0)
    assert np.isfinite(value).all()
    assert np.isfinite(gradient).all()
    assert gradient[0, 2, 1] == 0.0


def test_smoothing_comes_down_to_the_ratio_of_the_extremes():
    sizes = np.array([0.3, 4.0, 1.0, 0.7, 3.9])
    values = [float(log_spread(sizes, p)[0]) for p in (1.0, 2.0, 8.0, 40.0, 300.0, np.inf)]
    assert values == sorted(values, reverse=True)
    assert values[-1] == pytest.approx(np.log(4.0 / 0.3))
    assert values[-2] == pytest.approx(values[-1], abs=1e-3)


@pytest.mark.parametrize('power', [2.0, 40.0, np.inf])
@pytest.mark.parametrize('measure', list(MEASURES))
@pytest.mark.parametrize('weight', [0.0, 0.3])
def test_gradients_are_those_of_differences(matrices, measure, power, weight):
    cost = PointCost(measure, 0.7, weight)
    value, gradient = cost.value(matrices, power)
    change = np.random.default_rng(1).standard_normal(matrices.shape)
    step = 1e-7
    ends = [cost.value(matrices + sign * step * change, power)[0] for sign in (1.0, -1.0)]
    slope = (ends[0] - ends[1]) / (2.0 * step)
    np.testing.assert_allclose((gradient * change).sum(axis=(1, 2)), slope, rtol=2e-5)
    alone = cost.value(matrices[1], power)
    np.testing.assert_allclose(alone[0], value[1])
    np.testing.assert_allclose(alone[1], gradient[1])


def test_the_cost_is_the_weighted_sum(matrices):
    W = matrices[0]
    ratio = np.abs(W).max() / np.abs(W).min()
    value = np.exp(PointCost('spectral', 2.0, 0.5).value(W)[0])
    assert value == pytest.approx(2.0 * np.linalg.cond(W) + 0.5 * ratio)


def test_wrong_costs_are_named():
    with pytest.raises(SettingsError, match='both 0'):
        PointCost(condition_weight=0.0)


URDF = Path(__file__).resolve().parents[2] / 'urdf'
BOUNDS = PointBounds(
    np.array([-2.5, -2.3, 0.6]), np.array([2.5, -0.4, 3.0]), np.array([0.9, 0.6, 4.0])
)
LIMITS = Limits(
    joints=('joint_1', 'joint_2', 'joint_3'),
    units=('rad',) * 3,
    lower=BOUNDS.lower,
    upper=BOUNDS.upper,
    velocity=BOUNDS.velocity,
    acceleration=4.0 * BOUNDS.velocity,
    effort=np.full(3, np.inf),
)
START = 0.5 * (BOUNDS.lower + BOUNDS.upper)


@pytest.fixture(autouse=True)
def short_searches(monkeypatch):
    """Let searches be short: what they do is the same."""
    short = WaypointSearchConstants(
        selection=((2.0, 40, 2), (8.0, 80, 2), (40.0, 80, 1)),
        renewal=((8.0, 30, 2), (40.0, 60, 1)),
        finish=((100.0, 80, 1),),
        second=((4.0, 80, 3), (20.0, 80, 1)),
        children=6,
        copies=3,
    )
    monkeypatch.setattr('robot_identification.excitation.sequence.WAYPOINTS', short)


@pytest.fixture(scope='module')
def equations():
    robot = Robot.from_urdf(URDF / 'gautier_khalil_3r.urdf')
    return energy_equations(robot, ModelSettings(rotor_inertia=False), BOUNDS, 'si')


def test_no_variables_lead_out_of_the_limits_and_back_again():
    x = 30.0 * np.random.default_rng(0).standard_normal((4, 2, 9, 3))
    points = BOUNDS.sequence(x)
    assert (points.position >= BOUNDS.lower).all()
    assert (points.position <= BOUNDS.upper).all()
    assert (np.abs(points.velocity) <= BOUNDS.velocity).all()
    again = BOUNDS.sequence(BOUNDS.variables(points))
    np.testing.assert_allclose(again.position, points.position, atol=1e-12)
    np.testing.assert_allclose(again.velocity, points.velocity, atol=1e-12)


def test_rows_are_differences_of_neighbouring_points(equations):
    points = BOUNDS.random(np.random.default_rng(1), 8)
    matrix = equations.matrix(points)
    assert matrix.shape == (7, 15)
    pair = WaypointSet(points.position[3:5], points.velocity[3:5])
    np.testing.assert_allclose(equations.matrix(pair)[0], matrix[3], atol=1e-12)
    # a robot whose first axis is vertical does not tell where that stands
    turned = replace(points, position=points.position + [0.7, 0.0, 0.0])
    np.testing.assert_allclose(equations.matrix(turned), matrix, atol=1e-9)


@pytest.mark.parametrize('weight', [0.0, 0.01])
def test_the_gradient_by_the_variables_is_exact(equations, weight):
    cost = PointCost('spectral', 1.0, weight)
    obstacles = lambda motion: (  # noqa: E731
        float((motion.position**2).sum() + (motion.velocity * motion.acceleration).sum()) / 1e3,
        [2.0 * motion.position / 1e3, motion.acceleration / 1e3, motion.velocity / 1e3],
    )
    path = PathProblem(equations, cost, LIMITS, START, 18, obstacles=obstacles)
    assert path.penalty(path.draw(np.random.default_rng(2), 2)).min() > 1.0
    for problem in (PointProblem(equations, BOUNDS, cost, 18), path):
        random = np.random.default_rng(2)
        x = problem.draw(random, 2)
        function = problem.function(8.0)
        _, gradient = function(x)
        change, step = random.standard_normal(x.shape), 1e-6
        slope = (function(x + step * change)[0] - function(x - step * change)[0]) / (2.0 * step)
        np.testing.assert_allclose((gradient * change).sum(axis=1), slope, rtol=1e-5)


def test_a_search_beats_chance_by_far_and_is_the_same_each_time(equations):
    random = np.random.default_rng(3)
    chance = [np.linalg.cond(equations.matrix(BOUNDS.random(random, 21))) for _ in range(50)]
    problem = PointProblem(equations, BOUNDS, PointCost(), 20)
    found, again = (
        search(problem, np.random.default_rng(0), starts=8, rounds=1) for _ in range(2)
    )
    np.testing.assert_array_equal(found.x, again.x)
    points = BOUNDS.sequence(found.x[0].reshape(2, 21, 3))
    assert found.values[0] == pytest.approx(np.linalg.cond(equations.matrix(points)))
    assert found.values[0] < 40.0 < 0.1 * min(chance)


def test_the_equilibrium_is_had_nearly_for_nothing(equations):
    cost = PointCost('spectral', 1.0, 0.003)
    problems = [PointProblem(equations, BOUNDS, c, 20) for c in (cost.first, cost)]
    found = search(problems[0], np.random.default_rng(0), starts=8, rounds=0, then=problems[1])
    W = equations.matrix(BOUNDS.sequence(found.x[0].reshape(2, 21, 3)))
    assert np.linalg.cond(W) < 60.0
    assert np.abs(W).max() / np.abs(W).min() < 1000.0


def test_a_path_keeps_its_limits_between_the_points(equations):
    path = PathProblem(equations, PointCost(), LIMITS, START, 20)
    found = search(path, np.random.default_rng(0), starts=8, rounds=0)
    points = path.path(found.x[0])
    times = shortest_times(points, LIMITS)
    trajectory = trajectory_through(points, times, LIMITS)
    motion = trajectory.sample(np.linspace(0.0, trajectory.duration, 40_001))
    slack = 1.0 + 1e-9
    assert (motion.position >= LIMITS.lower - 1e-9).all()
    assert (motion.position <= LIMITS.upper + 1e-9).all()
    assert (np.abs(motion.velocity) <= slack * LIMITS.velocity).all()
    assert (np.abs(motion.acceleration) <= slack * LIMITS.acceleration).all()
    inner = WaypointSet(points.position[1:-1], points.velocity[1:-1])
    assert np.linalg.cond(equations.matrix(inner)) < 40.0
    # chance does not find such a path
    random = BOUNDS.random(np.random.default_rng(1), 23)
    assert np.isnan(shortest_times(random, LIMITS)).any()


def test_a_search_ends_early_where_it_is_told_to(equations):
    seen = []
    problem = PointProblem(equations, BOUNDS, PointCost(), 20)

    def look(cost):
        seen.append(cost)
        return len(seen) < 2

    search(problem, np.random.default_rng(0), starts=4, rounds=50, look=look)
    assert len(seen) <= 3
    assert seen == sorted(seen, reverse=True)


# descents from many starts: to the minimum, each on its own, and never up


def rosenbrock(x):
    return np.array([rosen(row) for row in x]), np.array([rosen_der(row) for row in x])


def test_it_finds_what_scipy_finds():
    starts = np.random.default_rng(0).uniform(-2.0, 2.0, (8, 6))
    found = descend_all(rosenbrock, starts, 2000, tolerance=1e-14)
    for x, value, start in zip(found.x, found.values, starts, strict=True):
        reference = minimize(rosen, start, jac=rosen_der, method='BFGS', options={'gtol': 1e-10})
        # Rosenbrock's function has a second minimum in these dimensions
        assert value < 1e-9 or value == pytest.approx(reference.fun, rel=1e-6)
        if value < 1e-9:
            np.testing.assert_allclose(x, 1.0, atol=1e-3)
    assert (found.values < 1e-9).sum() >= 4


def test_the_starts_do_not_know_of_each_other():
    starts = np.random.default_rng(1).uniform(-2.0, 2.0, (5, 4))
    together = descend_all(rosenbrock, starts, 60)
    for k in range(5):
        alone = descend_all(rosenbrock, starts[k : k + 1], 60)
        np.testing.assert_array_equal(alone.x[0], together.x[k])
        assert alone.values[0] == together.values[k]


def test_kinks_and_walls_are_lived_with():
    def edged(x):
        value = np.abs(x).sum(axis=1) + 0.1 * (x**2).sum(axis=1)
        # a region in which the function does not exist
        value[x[:, 0] > 3.0] = np.nan
        return value, np.sign(x) + 0.2 * x

    starts = np.random.default_rng(2).uniform(-3.0, 3.0, (10, 3))
    found = descend_all(edged, starts, 300)
    assert (found.values <= edged(starts)[0]).all()
    assert np.median(found.values) < 0.2


def test_work_ends_when_it_has_to():
    calls = []

    def counted(x):
        calls.append(len(x))
        return rosenbrock(x)

    starts = np.random.default_rng(3).uniform(-2.0, 2.0, (4, 5))
    descend_all(counted, starts, 17)
    assert len(calls) == 17
    calls.clear()
    descend_all(counted, starts, 1000, go_on=lambda: len(calls) < 5)
    assert len(calls) == 5
    calls.clear()
    # who has arrived is not asked again
    descend_all(counted, np.ones((4, 5)), 1000)
    assert len(calls) == 1
