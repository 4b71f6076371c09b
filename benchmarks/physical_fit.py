# SPDX-License-Identifier: Apache-2.0
"""Physically consistent fit: our Newton method against other ways to solve the same program."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
from robot_identification.estimation import (
    physical,
    PhysicalSettings,
    wls,
)
from robot_identification.estimation.interior_point import Infeasible, minimise
from robot_identification.estimation.physical import physical_problem
from robot_identification.estimation.semidefinite_program import (
    SemidefiniteProgram,
    svec,
    unpack,
)
from robot_identification.pipeline import identify_sources
from scipy.optimize import least_squares

from .harness import Figure, interleaved, Section, Table
from .papers.beyond import by
from .papers.beyond_robots import known

ROBOTS = {'panda': (7, 0.025), 'talos': (30, 0.5)}
"""Links, and seconds that ours is held to."""

TIGHT = {'tol_gap_abs': 1e-10, 'tol_gap_rel': 1e-10, 'tol_feas': 1e-10}
TOLERANCE = 1e-3
LARGEST = 50.0
LOG_CHOLESKY = 'log-Cholesky least squares'
OURS = "ours (Newton's method)"


@dataclass(frozen=True)
class Case:
    """The same program for everyone, and the whole of our estimation from the factor on."""

    program: SemidefiniteProgram
    estimate: Callable[[], object]
    settings: PhysicalSettings

    def distance(self, z: np.ndarray, other: np.ndarray) -> float:
        """Return how far apart two answers are: standard deviations, closeness to the prior."""
        return float(np.linalg.norm(self.program.matrix @ (z - other)))

    def loss(self, z: np.ndarray) -> float:
        """Return what is minimised."""
        return self.program.loss(z)

    def violation(self, z: np.ndarray) -> float:
        """Return how far an answer is outside of the constraints, in the links' own sizes."""
        least = [np.linalg.eigvalsh(unpack(f(z)))[0] for f in self.program.semidefinite]
        return float(max(0.0, -min([*least, *self.program.nonnegative(z)])))


def case_of(name: str) -> Case:
    """Let a robot with known parameters move, and fold what was recorded."""
    robot = known(name)
    found = identify_sources(by(robot, 'wls').problem, [robot.recording(7, duration=10.0)])
    system, settings = found.system, PhysicalSettings()
    free = wls(system, prior=found.prior)
    problem = physical_problem(
        system, free, found.robot, found.prior, settings, found.model, 'body'
    )
    return Case(
        problem.program,
        lambda: physical(system, found.robot, found.prior, settings, model=found.model),
        settings,
    )


def ours(case: Case) -> np.ndarray:
    """Solve by the interior point method of the package."""
    tolerance = case.settings.tolerance * np.sqrt(case.settings.weight)
    return minimise(case.program, tolerance).z


def by_cvxpy(case: Case, solver: str, **options: Any) -> np.ndarray:
    """Write the program down as it is, and leave it to a solver with its own settings."""
    import cvxpy

    problem = case.program
    z = cvxpy.Variable(problem.matrix.shape[1])
    constraints = [problem.nonnegative.matrix @ z + problem.nonnegative.offset >= 0]
    for function in problem.semidefinite:
        packed = function.matrix @ z + function.offset
        units = unpack(np.eye(len(function.offset))).reshape(len(function.offset), -1)
        square = cvxpy.reshape(units.T @ packed, (4, 4), order='C')
        constraints.append(square >> 0)
    loss = cvxpy.sum_squares(problem.matrix @ z - problem.target)
    cvxpy.IdentificationProblem(cvxpy.Minimize(loss), constraints).solve(solver=solver, **options)
    if z.value is None:
        raise Infeasible
    return np.asarray(z.value)


def by_log_cholesky(case: Case) -> np.ndarray:
    """
    Nonlinear least squares over the Cholesky factors of pseudo-inertias.

    As described by Rucker and Wensing, "Smooth parameterization of rigid-body inertia" (RA-L
    2022): the factor's diagonal and what cannot be negative are exponentials; re-created here
    with SciPy and analytic derivatives, from the prior's bodies on.
    """
    problem = case.program
    places = [np.flatnonzero(f.matrix.any(axis=0)) for f in problem.semidefinite]
    maps = [
        np.linalg.inv(f.matrix[:, p]) for f, p in zip(problem.semidefinite, places, strict=True)
    ]
    offsets = [f.offset for f in problem.semidefinite]
    signs = np.flatnonzero((problem.nonnegative.matrix != 0.0).any(axis=0))
    lower = np.tril_indices(4)
    diagonal = lower[0] == lower[1]

    def parameters(theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        z, slope = theta.copy(), np.eye(theta.size)
        z[signs] = slope[signs, signs] = np.exp(np.minimum(theta[signs], LARGEST))
        for place, back, offset in zip(places, maps, offsets, strict=True):
            entries = np.where(diagonal, np.exp(np.minimum(theta[place], LARGEST)), theta[place])
            root, units = np.zeros((4, 4)), np.zeros((10, 4, 4))
            root[lower] = entries
            units[np.arange(10), lower[0], lower[1]] = np.where(diagonal, entries, 1.0)
            z[place] = back @ (svec(root @ root.T) - offset)
            half = units @ root.T
            slope[np.ix_(place, place)] = back @ svec(half + np.swapaxes(half, 1, 2)).T
        return z, slope

    def residual(theta: np.ndarray) -> np.ndarray:
        return problem.matrix @ parameters(theta)[0] - problem.target

    def slopes(theta: np.ndarray) -> np.ndarray:
        return problem.matrix @ parameters(theta)[1]

    start = np.zeros(problem.matrix.shape[1])
    start[signs] = np.log(0.1)
    for place in places:
        start[place] = 0.0
    found = least_squares(residual, start, slopes, x_scale='jac', max_nfev=40)
    return parameters(found.x)[0]


def ways(slow: bool) -> dict[str, Callable[[Case], np.ndarray]]:
    """Return what is compared, as far as it is installed."""
    found: dict[str, Callable[[Case], np.ndarray]] = {
        OURS: ours,
        LOG_CHOLESKY: by_log_cholesky,
    }
    if find_spec('cvxpy') is None:
        return found
    found['cvxpy, Clarabel'] = lambda case: by_cvxpy(case, 'CLARABEL')
    found['cvxpy, Clarabel, 1e-10'] = lambda case: by_cvxpy(case, 'CLARABEL', **TIGHT)
    if find_spec('scs') is not None:
        limit = 3.0 if slow else 1.0
        found['cvxpy, SCS'] = lambda case: by_cvxpy(case, 'SCS', time_limit_secs=limit)
    return found


def of_robot(name: str) -> tuple[Table, list[Figure]]:
    """Time everyone on one robot."""
    links, limit = ROBOTS[name]
    case = case_of(name)
    reference = 'cvxpy, Clarabel, 1e-10'
    answers: dict[str, np.ndarray | None] = {}
    works: dict[str, Callable[[], object]] = {'all of method physical': case.estimate}

    for title, way in ways(links > 10).items():

        def work(title: str = title, way: Callable = way) -> None:
            try:
                answers[title] = way(case)
            except Exception as error:  # a solver that gives up is a row of the table
                answers[title] = None
                failures[title] = type(error).__name__

        works[title] = work
    failures: dict[str, str] = {}
    rare = {LOG_CHOLESKY: works.pop(LOG_CHOLESKY)} if links > 10 else {}
    timings = {
        **interleaved(works, repeats=3 if links > 10 else 7),
        **interleaved(rare, repeats=1, warm=0),
    }
    exact = answers.get(reference)
    if exact is None:
        reference, exact = 'ours', answers[OURS]
    assert exact is not None
    rows = []
    for title, timing in timings.items():
        answer = answers.get(title)
        cells = [title, f'{1e3 * timing.median:.1f}']
        if title in failures:
            cells += [failures[title], '', '']
        elif answer is None:
            cells += ['', '', '']
        else:
            cells += [
                f'{case.distance(answer, exact):.1e}',
                f'{case.loss(answer) - case.loss(exact):.1e}',
                f'{case.violation(answer):.0e}',
            ]
        rows.append(cells)
    heads = [
        'way',
        'ms',
        f'distance from {reference} [std]',
        'loss above it',
        'outside constraints',
    ]
    own = answers[OURS]
    assert own is not None
    figures = [
        Figure(f'{name} method physical', timings['all of method physical'].median, 's', limit),
        Figure(f'{name} semidefinite program', timings[OURS].median, 's'),
    ]
    if reference != 'ours':
        figures.append(
            Figure(
                f'{name} distance from cvxpy', case.distance(own, exact), 'std', at_most=TOLERANCE
            )
        )
    title = f'{name}: {links} links, {len(own)} parameters'
    return Table(heads, rows, title), figures


def section() -> Section:
    """Compare on both robots."""
    tables, figures = zip(*(of_robot(name) for name in ROBOTS), strict=True)
    text = (
        'The same program, least squares on the R factor with physically consistent inertias, '
        'given to everyone. *All of method physical* is our whole estimation from the factor of '
        'the recording on: weighted least squares, writing the program down, solving it, fit and '
        'notes. Distances are counted in standard deviations where the data tell, and in what '
        '`physical.weight` makes of the distance from the prior where they do not.'
    )
    if find_spec('cvxpy') is None:
        text += ' cvxpy is not installed here, so that nothing is compared with it.'
    return Section(
        'The physically consistent fit', text, tables, [f for part in figures for f in part]
    )
