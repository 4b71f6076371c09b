# SPDX-License-Identifier: Apache-2.0
"""Newton's method for log-det divergences: derivatives, closed forms, another formulation."""

from dataclasses import replace

import numpy as np
import pytest
from robot_identification.estimation import log_det
from robot_identification.estimation.log_det import LogDetProblem, minimise
from robot_identification.model.consistency import from_pseudo_inertia, pseudo_inertia
from scipy.optimize import minimize

UNITS = np.array([pseudo_inertia(unit) for unit in np.eye(10)])


def body(rng):
    """Return a pseudo-inertia of some kilograms and decimetres."""
    root = np.diag([0.3, 0.2, 0.25, 1.5]) + 0.05 * rng.normal(size=(4, 4))
    return root @ root.T


def problem_of(seed=0, weight=2.0, rows=14):
    """Return a problem of two bodies and two scalars, and a start inside."""
    rng = np.random.default_rng(seed)
    priors = [body(rng), body(rng)]
    roots = [np.linalg.inv(np.linalg.cholesky(prior)) for prior in priors]
    matrix = rng.normal(size=(rows, 22))
    problem = LogDetProblem(
        matrix=matrix,
        target=3.0 * rng.normal(size=rows),
        places=np.arange(20).reshape(2, 10),
        units=np.array([root @ UNITS @ root.T for root in roots]),
        weight=weight,
        positive=np.eye(22)[20:],
        barrier=1e-2,
    )
    start = np.concatenate([*map(from_pseudo_inertia, priors), [0.5, 2.0]])
    return problem, start


def test_the_start_is_the_prior_itself_whose_divergence_is_zero():
    problem, start = problem_of()
    np.testing.assert_allclose(problem.bodies(start), np.broadcast_to(np.eye(4), (2, 4, 4)),
                               atol=1e-9)  # fmt: skip
    bare = replace(problem, matrix=0.0 * problem.matrix, target=0.0 * problem.target, barrier=0.0)
    assert bare.value(start) == pytest.approx(0.0, abs=1e-9)


def test_derivatives_are_those_of_the_value():
    problem, start = problem_of()
    rng = np.random.default_rng(1)
    chi = start * (1.0 + 0.05 * rng.normal(size=start.size))
    gradient, rows = problem.derivatives(chi)
    step = 1e-6 * np.maximum(np.abs(chi), 0.01)
    for i in range(chi.size):
        move = np.zeros(chi.size)
        move[i] = step[i]
        slope = (problem.value(chi + move) - problem.value(chi - move)) / (2.0 * step[i])
        assert slope == pytest.approx(gradient[i], rel=1e-4, abs=1e-4)
        turned = (problem.derivatives(chi + move)[0] - problem.derivatives(chi - move)[0]) / (
            2.0 * step[i]
        )
        np.testing.assert_allclose(turned, rows.T @ rows[:, i], rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize('shared', [False, True])
def test_the_hessian_is_that_of_its_square_roots(shared):
    """Also where two bodies have the same columns, and some changes alone are allowed."""
    problem, start = problem_of()
    if shared:
        places = np.tile(np.arange(10), (2, 1))
        directions = np.random.default_rng(2).normal(size=(22, 7))
        start[10:20] = 0.0
        problem = replace(problem, places=places, directions=directions)
    gradient, rows = problem.derivatives(start)
    found, hessian = problem.hessian(start)
    np.testing.assert_allclose(found, gradient, rtol=1e-9)
    np.testing.assert_allclose(hessian, rows.T @ rows, rtol=1e-9, atol=1e-9)


def test_columns_that_nearly_depend_on_each_other_cost_no_accuracy(monkeypatch):
    problem, start = problem_of(weight=1e-7, rows=30)
    matrix = problem.matrix.copy()
    matrix[:, 1] = matrix[:, 0] + 1e-6 * matrix[:, 1]
    problem = replace(problem, matrix=matrix)
    found = minimise(problem, start)
    monkeypatch.setattr(log_det, 'NEWTON', replace(log_det.NEWTON, clear=np.inf))
    by_rows_alone = minimise(problem, start)
    # standard deviations: rounding leaves 1e-7 of one, steps by the Hessian alone 2e-4
    assert np.linalg.norm(by_rows_alone.root @ (found.chi - by_rows_alone.chi)) < 1e-5


def log_cholesky(theta):
    """Return parameters of physical bodies from numbers that are free, and their slopes."""
    lower, parts = np.tril_indices(4), []
    for some in (theta[:10], theta[10:20]):
        root = np.zeros((4, 4))
        root[lower] = np.where(lower[0] == lower[1], np.exp(some), some)
        parts.append(from_pseudo_inertia(root @ root.T))
    return np.concatenate([*parts, np.exp(theta[20:])])


@pytest.mark.parametrize(
    'seed', [0, *(pytest.param(s, marks=pytest.mark.soak) for s in (1, 2, 3))]
)
@pytest.mark.parametrize('weight', [0.1, 10.0])
def test_another_formulation_finds_the_same_minimum(seed, weight):
    """Unconstrained minimisation over Cholesky factors (Rucker and Wensing, RA-L 2022)."""
    problem, start = problem_of(seed, weight)
    found = minimise(problem, start)
    assert found.decrement < 1e-6
    theta, lower = np.zeros(22), np.tril_indices(4)
    for k, part in enumerate((start[:10], start[10:20])):
        root = np.linalg.cholesky(pseudo_inertia(part))[lower]
        theta[10 * k : 10 * k + 10] = np.where(lower[0] == lower[1], np.log(np.abs(root)), root)
    theta[20:] = np.log(start[20:])
    other = minimize(
        lambda theta: problem.value(log_cholesky(theta)), theta, method='BFGS',
        options={'gtol': 1e-7, 'maxiter': 5000},
    )  # fmt: skip
    ours = problem.value(found.chi)
    assert ours <= other.fun + 1e-9
    assert other.fun - ours < 1e-6 * max(1.0, ours)


def test_scalars_have_their_closed_form():
    """One row and one logarithm: x (a x - b) a = barrier."""
    problem, start = problem_of()
    row = np.zeros((1, 22))
    row[0, 20] = 4.0
    alone = replace(
        problem, matrix=np.vstack([row, np.eye(22)[21:]]), target=np.array([-3.0, 1.0])
    )
    found = minimise(alone, start, 1e-10).chi[20]
    assert found > 0.0
    assert 4.0 * found * (4.0 * found + 3.0) == pytest.approx(alone.barrier, rel=1e-8)


def test_the_covariance_is_the_inverse_of_the_hessian():
    problem, start = problem_of(weight=50.0)
    found = minimise(problem, start)
    _, rows = problem.derivatives(found.chi)
    further = np.eye(22)[:3]
    for more in (further[:0], further):
        hessian = rows.T @ rows + more.T @ more
        np.testing.assert_allclose(found.covariance(more) @ hessian, np.eye(22), atol=1e-6)


def test_bodies_stay_physical_whatever_the_rows_say():
    problem, start = problem_of()
    against = replace(problem, matrix=np.eye(22), target=-100.0 * np.abs(start), weight=1e-3)
    found = minimise(against, start).chi
    for part in (found[:10], found[10:20]):
        assert np.linalg.eigvalsh(pseudo_inertia(part))[0] > 0.0
    assert (found[20:] > 0.0).all()


def test_a_start_outside_is_refused():
    problem, start = problem_of()
    assert problem.value(-start) == np.inf
    with pytest.raises(ValueError, match='outside'):
        minimise(problem, -start)
