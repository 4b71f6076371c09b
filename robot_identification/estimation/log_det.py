# SPDX-License-Identifier: Apache-2.0
"""
Least squares with log-det divergences from prior bodies, by Newton's method.

Minimised over the parameters chi is

    1/2 |A chi - b|^2 + weight/2 sum_k [tr X_k - log det X_k - 4]
                      - barrier sum_i log(c_i' chi + o_i)

with ``X_k = L_k^-1 P_k(chi) L_k^-T``, P_k the pseudo-inertia of link k without bodies that are
fixed to it and known, and ``L_k L_k^T`` that of its prior body (Lee, Wensing and Park, "Geometric
robot dynamic identification: a convex programming approach", T-RO 2020).  The divergence knows
neither frames nor units and keeps every P_k positive definite; the logarithms keep
``c_i' chi + o_i`` positive.  Equations leave a subspace to move in.  The sum is convex and
self-concordant, so that damped Newton steps reach its minimum from any point inside (Boyd and
Vandenberghe, Convex Optimization, 9.6).  Steps come from a Cholesky factorisation of the Hessian,
or, where columns are nearly dependent, from a QR factorisation of its stacked square roots, whose
condition number is the root of the Hessian's.

A point inside (phase I) is found by relaxing all rows by a common t, relative to the parameters'
sizes; t is pulled below zero while the bodies stay near their priors (section 11.4 there).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.linalg import block_diag, lapack, solve_triangular


@dataclass(frozen=True)
class NewtonConstants:
    """Constants of Newton's method."""

    steps: int = 200
    """Largest number of steps."""
    first_weight: float = 1e5
    """Weight of the first stage: bodies are near their priors."""
    rough_distance: float = 0.3
    """Distance from the minimum that ends all stages but the last [standard deviations]."""
    decrease_share: float = 0.1
    """Share of the decrease that the slope promises which a step has to bring."""
    least_step: float = 1e-12
    """Share of a Newton step below which rounding hides any descent."""
    clear: float = 1e-4
    """Least diagonal of a Cholesky factor of unit columns that is taken for exact enough."""


NEWTON = NewtonConstants()


_ROWS, _COLUMNS = np.triu_indices(4)
_PACKING = np.where(_ROWS == _COLUMNS, 1.0, np.sqrt(2.0))


@dataclass(frozen=True)
class LogDetProblem:
    """
    A problem of the form above, with p parameters.

    Attributes
    ----------
    matrix, target:
        A, (m, p), and b, (m,).
    places:
        (n, 10) int, columns of the inertial parameters of each body.
    units:
        (n, 10, 4, 4) X of each body for a unit of each of these parameters.
    weight:
        Of the divergence.
    positive:
        (k, p) rows c_i.
    barrier:
        Of the logarithms.
    offsets:
        (k,) o_i, or one for all.
    fixed:
        (n, 10) parameters of known bodies that are part of each body, or 0.
    directions:
        (p, q) basis of the changes that are allowed; None allows all.

    """

    matrix: np.ndarray
    target: np.ndarray
    places: np.ndarray
    units: np.ndarray
    weight: float
    positive: np.ndarray
    barrier: float
    offsets: np.ndarray | float = 0.0
    fixed: np.ndarray | float = 0.0
    directions: np.ndarray | None = None

    def margins(self, chi: np.ndarray) -> np.ndarray:
        """Return what has to be positive, (k,)."""
        return np.asarray(self.positive @ chi + self.offsets)

    def bodies(self, chi: np.ndarray) -> np.ndarray:
        """Return X of each body, (n, 4, 4)."""
        return np.einsum('ni,niab->nab', chi[self.places] - self.fixed, self.units)

    def along(self, rows: np.ndarray) -> np.ndarray:
        """Return rows over p parameters, (m, p), as rows over the allowed changes, (m, q)."""
        return rows if self.directions is None else rows @ self.directions

    def of_parameters(self, changes: np.ndarray) -> np.ndarray:
        """Return allowed changes, (q,) or (q, m), as changes of the parameters."""
        return changes if self.directions is None else self.directions @ changes

    def value(self, chi: np.ndarray) -> float:
        """Return what is minimised; infinite outside of the domain."""
        margins = self.margins(chi)
        if not (margins > 0.0).all():
            return np.inf
        bodies = self.bodies(chi)
        try:
            roots = np.linalg.cholesky(bodies)
        except np.linalg.LinAlgError:
            return np.inf
        log_det = 2.0 * np.log(np.diagonal(roots, axis1=1, axis2=2)).sum()
        trace = np.einsum('naa->', bodies)
        residual = self.matrix @ chi - self.target
        divergence = trace - log_det - 4.0 * len(bodies)
        return float(
            0.5 * residual @ residual
            + 0.5 * self.weight * divergence
            - self.barrier * np.log(margins).sum()
        )

    def derivatives(self, chi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the gradient and rows whose Gram matrix is the Hessian, (q,) and (·, q)."""
        roots = np.linalg.cholesky(self.bodies(chi))
        n, size = len(self.places), chi.size
        inverse = np.linalg.inv(roots)[:, None]
        whitened = inverse @ self.units @ np.swapaxes(inverse, 2, 3)
        slopes = np.einsum('niaa->ni', self.units - whitened)
        packed = whitened[:, :, _ROWS, _COLUMNS] * _PACKING
        curvature = np.zeros((n, 10, size))
        curvature[np.arange(n)[:, None], :, self.places] = packed
        margins = self.margins(chi)
        gradient = self.matrix.T @ (self.matrix @ chi - self.target)
        np.add.at(gradient, self.places, 0.5 * self.weight * slopes)
        gradient -= self.barrier * (self.positive / margins[:, None]).sum(axis=0)
        rows = np.vstack(
            [
                self.matrix,
                np.sqrt(0.5 * self.weight) * curvature.reshape(-1, size),
                np.sqrt(self.barrier) * self.positive / margins[:, None],
            ]
        )
        if self.directions is not None:
            gradient = self.directions.T @ gradient
        return gradient, self.along(rows)

    @cached_property
    def gram(self) -> np.ndarray:
        """(p, p) A^T A."""
        return np.asarray(self.matrix.T @ self.matrix)

    def hessian(self, chi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """
        Return the gradient and the Hessian, (q,) and (q, q).

        This takes a third of the time of `derivatives`, and squares the condition number.
        """
        ratios = np.linalg.inv(self.bodies(chi))[:, None] @ self.units
        slopes = np.einsum('niaa->ni', self.units - ratios)
        n, k = slopes.shape
        flat, turned = ratios.reshape(n, k, 16), np.swapaxes(ratios, 2, 3).reshape(n, k, 16)
        rows = self.positive / self.margins(chi)[:, None]
        hessian = self.gram + self.barrier * rows.T @ rows
        blocks = 0.5 * self.weight * flat @ np.swapaxes(turned, 1, 2)
        for place, block in zip(self.places, blocks, strict=True):  # bodies may share columns
            hessian[place[:, None], place] += block
        gradient = self.matrix.T @ (self.matrix @ chi - self.target)
        np.add.at(gradient, self.places, 0.5 * self.weight * slopes)
        gradient -= self.barrier * rows.sum(axis=0)
        if self.directions is not None:
            gradient = self.directions.T @ gradient
            hessian = self.directions.T @ hessian @ self.directions
        return gradient, hessian


@dataclass(frozen=True)
class LogDetMinimum:
    """
    Minimum that Newton's method has come to.

    Attributes
    ----------
    problem:
        Whose value is least there.
    chi:
        (p,) the parameters.
    root:
        (q, q) upper triangular: ``root^T root`` is the Hessian along the problem's directions.
    decrement:
        Newton decrement: half its square bounds how far the value is from the minimum.

    """

    problem: LogDetProblem
    chi: np.ndarray
    root: np.ndarray
    decrement: float

    def covariance(self, further: np.ndarray) -> np.ndarray:
        """(p, p) inverse of the Hessian with (m, p) further rows: the posterior covariance."""
        rows = np.vstack([self.root, self.problem.along(further)])
        scale = np.linalg.norm(rows, axis=0)
        root = np.linalg.qr(rows / scale, mode='r')
        half = solve_triangular(root, np.eye(len(root))) / scale[:, None]
        half = self.problem.of_parameters(half)
        return np.asarray(half @ half.T)


def minimise(
    problem: LogDetProblem,
    start: np.ndarray,
    tolerance: float = 1e-6,
    *,
    near: bool = False,
) -> LogDetMinimum:
    """
    Return the minimum of a problem.

    Parameters
    ----------
    problem:
        With a Hessian of full rank.
    start:
        (p,) parameters inside the domain: `LogDetProblem.value` is finite there.
    tolerance:
        Newton decrement at which the iterations end: about the distance from the minimum, in
        standard deviations.
    near:
        Whether the start is the minimum of a similar problem.

    Raises
    ------
    ValueError
        where the start is outside.

    """
    if not np.isfinite(problem.value(start)):
        raise ValueError('the start is outside of the domain')
    chi = np.array(start, dtype=float)
    # with small weights the minimum lies near the boundary, and steps from afar end at another
    # place of it, which they leave by small steps alone: larger weights lead there
    for floor in () if near else _floors(problem):
        stage = replace(
            problem,
            weight=max(problem.weight, floor),
            barrier=max(problem.barrier, min(1.0, floor)),
        )
        chi = _descended(stage, chi, NEWTON.rough_distance).chi
    return _descended(problem, chi, tolerance)


def _floors(problem: LogDetProblem) -> np.ndarray:
    """Return least weights of the stages before the last, falling tenfold."""
    weights = [problem.weight, *([problem.barrier] if len(problem.positive) else [])]
    least = min(weight for weight in weights if weight > 0.0)
    first = np.log10(NEWTON.first_weight)
    return 10.0 ** np.arange(first, np.floor(np.log10(least)), -1.0)


def _descended(problem: LogDetProblem, chi: np.ndarray, tolerance: float) -> LogDetMinimum:
    """Take damped Newton steps from a point inside."""
    value, steps, clear = problem.value(chi), 0, True
    while True:
        gradient, root, scale, clear = _factored(problem, chi, clear)
        half = _solved(root, gradient / scale, trans=1)
        decrement = float(np.linalg.norm(half))
        if decrement < tolerance or steps == NEWTON.steps:
            break
        step = problem.of_parameters(-_solved(root, half) / scale)
        length = 1.0
        while length > NEWTON.least_step:
            trial = chi + length * step
            reached = problem.value(trial)
            if reached <= value - NEWTON.decrease_share * length * decrement**2:
                break
            length *= 0.5
        else:  # rounding: no step lowers the value any more
            break
        chi, value, steps = trial, reached, steps + 1
    return LogDetMinimum(problem, chi, np.triu(root) * scale, decrement)


# LAPACK itself: for matrices this small, the checks of NumPy and SciPy take most of the time


def _factored(
    problem: LogDetProblem, chi: np.ndarray, clear: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray, bool]:
    """
    Return gradient, factor R and scale d of the Hessian d R^T R d, and whether it was clear.

    Where columns are nearly dependent, R comes from the rows, whose condition number is the root
    of the Hessian's.
    """
    if clear:
        gradient, hessian = problem.hessian(chi)
        size = hessian.diagonal()
        if (size > 0.0).all():
            scale = np.sqrt(size)
            root, info = lapack.dpotrf(hessian / scale / scale[:, None])
            if info == 0 and root.diagonal().min() > NEWTON.clear:
                return gradient, root, scale, True
    gradient, rows = problem.derivatives(chi)
    scale = np.sqrt(np.einsum('ij,ij->j', rows, rows))
    return gradient, _root(rows / scale), scale, False


def _root(rows: np.ndarray) -> np.ndarray:
    """Return R of the QR factorisation of rows, with something else below the diagonal."""
    size = rows.shape[1]
    factored, _, _, info = lapack.dgeqrf(rows, lwork=max(1, 32 * size))
    assert info == 0
    return np.asarray(factored[:size])


def _solved(root: np.ndarray, right: np.ndarray, trans: int = 0) -> np.ndarray:
    """Solve with an upper triangle, or its transpose; NaN and infinity stay what they are."""
    solution, info = lapack.dtrtrs(root, right, trans=trans)
    if info > 0:
        raise np.linalg.LinAlgError('singular matrix')
    return np.asarray(solution)


@dataclass(frozen=True)
class FeasibleStartConstants:
    """Constants of the search for parameters that meet all constraints."""

    pull: float = 1e2
    """Weight of the relaxation of the constraints, which is to vanish."""
    barrier: float = 1e-2
    """Weight of the logarithms of the relaxed constraints."""
    least_size: float = 1e-3
    """Least size by which the change of a parameter is measured, in its unit."""


START = FeasibleStartConstants()


def feasible_start(problem: LogDetProblem, start: np.ndarray) -> np.ndarray | None:
    """
    Return parameters that meet all constraints, near a start.

    Parameters
    ----------
    problem:
        Its rows of data do not matter.
    start:
        (p,) physical bodies that meet the problem's equations; a start that meets all constraints
        is returned as it is.

    Returns
    -------
    np.ndarray or None
        (p,); None where there are no such parameters.

    """
    margins = problem.margins(start)
    if (margins > 0.0).all():
        return start
    size = np.maximum(np.abs(start), START.least_size)
    size[problem.places] = 1.0 / np.linalg.norm(problem.units, axis=(2, 3))
    scale = np.abs(problem.positive) @ size
    near = np.delete(np.diag(1.0 / size), problem.places.ravel(), axis=0)
    q = start.size if problem.directions is None else problem.directions.shape[1]
    relaxed = replace(
        problem,
        matrix=np.block([[near, np.zeros((len(near), 1))], [np.zeros(start.size), START.pull]]),
        target=np.append(near @ start, -START.pull),
        weight=1.0,
        positive=np.column_stack([problem.positive, scale]),
        directions=block_diag(problem.of_parameters(np.eye(q)), 1.0),
        barrier=START.barrier,
    )
    relaxation = 0.1 + 1.1 * float(np.max(-margins / scale))
    chi = minimise(relaxed, np.append(start, relaxation)).chi[:-1]
    return chi if (problem.margins(chi) > 0.0).all() else None
