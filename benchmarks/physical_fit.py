# SPDX-License-Identifier: Apache-2.0
"""Physically consistent fit: one minimum, the whole method, and other ways to the same minimum."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
from robot_identification.estimation.least_squares import wls
from robot_identification.estimation.link_constraints import PhysicalSettings
from robot_identification.estimation.log_det import LogDetProblem, minimise
from robot_identification.estimation.physical import physical
from robot_identification.estimation.physical_fit import PhysicalFit
from robot_identification.identification.pipeline import identify_sources

from .harness import Figure, interleaved, Section, Table
from .papers.beyond import by
from .papers.beyond_robots import known

ROBOTS = {'panda': (7, 0.1), 'talos': (30, 0.9)}
"""Links, and the share of cvxpy's time that one minimum is held to."""

WEIGHT = 30.0
OURS = "Newton's method (ours)"
CVXPY = 'cvxpy, Clarabel'


@dataclass(frozen=True)
class Case:
    """The same problem for everyone, a start inside of it, and the whole method."""

    problem: LogDetProblem
    start: np.ndarray
    method: Callable[[], object]


def case_of(name: str) -> Case:
    """Let a robot with known parameters move, and fold what was recorded."""
    robot = known(name)
    task = by(robot, 'physical').problem
    found = identify_sources(task, [robot.recording(7, duration=10.0)])
    settings = PhysicalSettings(weight=WEIGHT)
    free = wls(found.system, prior=found.prior)
    fit = PhysicalFit.from_system(
        found.system, found.robot, found.prior, settings, found.settings.model
    )
    factor = found.system.stacked(free.rows.weights) / free.rows.residual_std
    problem, start = fit.problem(factor, WEIGHT)
    return Case(
        problem,
        start,
        lambda: physical(
            found.system, found.robot, found.prior, PhysicalSettings(), model=found.settings.model
        ),
    )


def by_newton(case: Case) -> np.ndarray:
    """Minimise by the package."""
    return minimise(case.problem, case.start).chi


def by_cvxpy(case: Case) -> np.ndarray:
    """Write the problem down as it is, and leave it to a conic solver."""
    import cvxpy

    problem = case.problem
    chi = cvxpy.Variable(problem.matrix.shape[1])
    loss = 0.5 * cvxpy.sum_squares(problem.matrix @ chi - problem.target)
    for place, units in zip(problem.places, problem.units, strict=True):
        body = cvxpy.reshape(units.reshape(10, 16).T @ chi[place], (4, 4), order='C')
        loss += 0.5 * problem.weight * (cvxpy.trace(body) - cvxpy.log_det(body))
    loss -= problem.barrier * cvxpy.sum(cvxpy.log(problem.positive @ chi))
    cvxpy.Problem(cvxpy.Minimize(loss)).solve(solver='CLARABEL')
    return np.asarray(chi.value)


def of_robot(name: str) -> tuple[Table, list[Figure]]:
    """Time everyone on one robot."""
    links, limit = ROBOTS[name]
    case = case_of(name)
    ways: dict[str, Callable[[Case], np.ndarray]] = {OURS: by_newton}
    if find_spec('cvxpy') is not None:
        ways[CVXPY] = by_cvxpy
    answers: dict[str, np.ndarray] = {}

    def work(title: str) -> Callable[[], None]:
        def solve() -> None:
            answers[title] = ways[title](case)

        return solve

    fast = interleaved(
        {OURS: work(OURS), 'all of method physical': case.method}, repeats=5 if links < 10 else 2
    )
    slow = interleaved({title: work(title) for title in ways if title != OURS}, repeats=1, warm=0)
    least = case.problem.value(answers[OURS])
    rows = []
    for title, timing in {**fast, **slow}.items():
        above = ''
        if title in answers:
            above = f'{case.problem.value(answers[title]) - least:.1e}'
        rows.append([title, f'{1e3 * timing.median:.1f}', above])
    figures = [
        Figure(f'{name} one minimum', fast[OURS].median, 's'),
        Figure(f'{name} method physical', fast['all of method physical'].median, 's'),
    ]
    for title, answer in answers.items():
        if title != OURS:
            share = fast[OURS].median / slow[title].median
            figures.append(Figure(f'{name} time by {title}', share, at_most=limit))
            off = (least - case.problem.value(answer)) / max(1.0, abs(least))
            figures.append(Figure(f'{name} value over that by {title}', off, '', at_most=1e-6))
    title = f'{name}: {links} links, {case.start.size} parameters'
    return Table(['way', 'ms', 'value above ours'], rows, title), figures


def section() -> Section:
    """Compare on both robots."""
    tables, figures = zip(*(of_robot(name) for name in ROBOTS), strict=True)
    text = (
        'One minimum is that of the problem in '
        '[physical parameters](../explanation/physical.md), for rows and '
        f'a weight ({WEIGHT:g}) that are the same for everyone. *All of method physical* is the '
        'whole estimation from the factor of the recording on: weighted least squares, block '
        'bootstrap, cross-validation of the weight, iteration of the noise, and the posterior '
        'covariance.'
    )
    if find_spec('cvxpy') is None:
        text += ' cvxpy is not installed here, so that nothing is compared with it.'
    return Section(
        'The physically consistent fit', text, tables, [f for part in figures for f in part]
    )
