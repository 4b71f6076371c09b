# SPDX-License-Identifier: Apache-2.0
"""
Newton's method for semidefinite programs, a primal-dual interior point method.

With multipliers Y, the conditions of optimality of a `SemidefiniteProgram` are

    A^T (A z - b) + w sum_k grad tr X_k = sum S_j^* Y_j + sum X_k^* Y_k,
    S_j Y_j = mu 1,    X_k Y_k = w 1,

for mu = 0.  Newton's method solves them for a falling sequence of mu, with the scaling of
Nesterov and Todd and Mehrotra's predictor and corrector (Vandenberghe, "The CVXOPT linear and
quadratic cone program solvers", 2010).  So an entropic term is a constraint X_k >= 0 whose mu
stops at w.

Newton steps are taken in coordinates in which the quadratic part is round: with the QR
factorisation A = Q T, ``dz = T^-1 dv`` changes the loss by ``||dv||^2 / 2``.  So the tolerance is
counted in units of the loss (standard deviations, if A and b are divided by theirs), whatever
units z has.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve, null_space, solve_triangular
from scipy.linalg.lapack import dpotrf, dpotrs

from .semidefinite_program import (
    Affine,
    SemidefiniteProgram,
    svec,
    unpack,
)

TOLERANCE = 1e-4
"""Bound on the distance from the minimum, in the units of the loss."""

_ITERATIONS, _PATIENCE, _LATE = 100, 1, 1e-6
"""Newton steps at most, and without progress once mu has fallen to this part of its start."""

_ROUNDING = 1e-14

_RESIDUAL, _FEASIBLE = 1e-9, 1e-6
"""Largest residual of the slacks in a solution, and in one that rounding ends before."""

_INSIDE, _RIDGE, _START = 0.1, 1e-9, 0.03
"""Of the starting point: least eigenvalue, regularisation, and share of the loss in mu."""

_TO_BOUNDARY = 0.98
"""Share of the way to the boundary of the cone that a step may take."""

_SHORT_STEP = 0.1
"""Step length below which the iterate is centred instead."""


class Infeasible(Exception):
    """No z satisfies all constraints."""


@dataclass(frozen=True)
class Minimum:
    """
    Solution of a `SemidefiniteProgram`.

    Attributes
    ----------
    z:
        (p,).
    error:
        Bound on the distance of z from the minimum, in the units of the loss: root of twice the
        duality gap.
    gradient:
        Norm of the Lagrangian's gradient, in the units of the loss.
    iterations:
        Number of Newton steps.

    """

    z: np.ndarray
    error: float = 0.0
    gradient: float = 0.0
    iterations: int = 0


def minimise(program: SemidefiniteProgram, tolerance: float = TOLERANCE) -> Minimum:
    """
    Solve a program.

    Parameters
    ----------
    program:
        What is minimised, and the constraints.
    tolerance:
        Bound on the distance from the minimum, in the units of the loss.  Where rounding ends
        the iterations before, `Minimum.error` is larger.

    Raises
    ------
    Infeasible
        if no z satisfies the constraints.

    """
    changes, free = _round_coordinates(program)
    rows = program.matrix @ changes
    hessian = rows.T @ rows
    cones = _Cones(program, changes, free)
    traces = cones.adjoint(cones.weight * cones.identity)
    z = _start(program, cones)
    best, best_merit, feasible, first_mu = Minimum(z), np.inf, False, 0.0
    for iteration in range(_ITERATIONS):
        slope = rows.T @ (program.matrix @ z - program.target) + traces
        # in round coordinates, this is how far the loss is above its minimum without constraints
        excess = 0.5 * float(slope @ slope)
        if iteration == 0:
            cones.start(z, max(_START * excess / cones.degree, 1.0))
            first_mu = cones.mu()
        cones.linearise(z)
        gradient = slope - cones.adjoint(cones.multiplier)
        size = float(np.linalg.norm(gradient))
        error = float(np.sqrt(2.0 * cones.gap() + size**2))
        goal = max(tolerance, np.sqrt(2.0 * _ROUNDING * excess))
        merit = max(error / goal, cones.residual / _RESIDUAL)
        if merit < best_merit:
            best, best_merit = Minimum(z, error, size, iteration), merit
            feasible = cones.residual <= _FEASIBLE
        stalled = cones.mu() < _LATE * first_mu and iteration > best.iterations + _PATIENCE
        if merit <= 1.0 or (feasible and stalled):
            break
        try:
            # multipliers of contradictory constraints grow without bound
            with np.errstate(over='ignore', invalid='ignore'):
                step, length = _newton_step(rows, hessian, gradient, cones)
                cones.move(length)
        except np.linalg.LinAlgError:
            break
        z = z + length * (changes @ step)
    if not feasible:
        raise Infeasible
    return best


def _round_coordinates(program: SemidefiniteProgram) -> tuple[np.ndarray, np.ndarray]:
    """
    Return coordinates in which the quadratic part is round.

    Returns
    -------
    tuple
        Changes of z that keep ``zero``, (p, q), and the minimum without constraints, (p,).

    """
    p, root = program.matrix.shape[1], float(np.sqrt(program.weight))
    # an entropic term is w/2 ||X - 1||^2 near X = 1
    expanded = [root * function.matrix for function in program.entropic]
    targets = [root * (_packed_identity(f) - f.offset) for f in program.entropic]
    stacked = np.vstack([program.matrix, *expanded])
    norms = np.linalg.norm(stacked, axis=0)
    joined = np.column_stack([stacked / norms, np.concatenate([program.target, *targets])])
    triangle = np.asarray(np.linalg.qr(joined, mode='r'))
    factor, changes = triangle[:p, :p], np.eye(p)
    if program.zero.offset.size:
        equations = program.zero.matrix / norms
        changes = null_space(solve_triangular(factor, equations.T, trans='T').T)
    found = solve_triangular(factor, np.column_stack([changes, triangle[:p, p]])) / norms[:, None]
    return found[:, :-1], found[:, -1]


def _start(program: SemidefiniteProgram, cones: _Cones) -> np.ndarray:
    """Return z with ``zero(z) = 0`` at which the matrices of the cones are nearest to 1."""
    p = program.matrix.shape[1]
    rows = cones.matrix.reshape(-1, p)
    square = rows.T @ rows
    square[np.diag_indices(p)] += _RIDGE * max(np.diag(square).max(), 1.0)
    z = cho_solve(cho_factor(square), rows.T @ (svec(cones.identity) - cones.offset).ravel())
    equal = program.zero
    return np.asarray(z - np.linalg.lstsq(equal.matrix, equal(z), rcond=None)[0])


def _newton_step(
    rows: np.ndarray, hessian: np.ndarray, gradient: np.ndarray, cones: _Cones
) -> tuple[np.ndarray, float]:
    """Return the step by Mehrotra's predictor and corrector, (q,), and how much of it to take."""
    factor, failed = dpotrf(hessian + cones.rows.T @ cones.rows)
    if failed:  # the same factor without squaring the condition number
        factor = np.asfortranarray(np.linalg.qr(np.vstack([rows, cones.rows]), mode='r'))

    def towards(target: np.ndarray) -> tuple[np.ndarray, float]:
        """Solve for a step of S and Y, and return it with its length to the boundary."""
        step = dpotrs(factor, cones.right_side(target) - gradient)[0]
        return step, min(1.0, _TO_BOUNDARY * cones.aim(step, target))

    mu = cones.mu()
    _, length = towards(cones.target(0.0))
    centring = min(max(cones.mu(length) / mu, 1.0 - length), 1.0) ** 3 if mu > 0.0 else 0.0
    step, length = towards(cones.target(centring * mu, cones.second_order()))
    if length < _SHORT_STEP:
        step, length = towards(cones.target(mu))
    return step, length


class _Cones:
    """
    Positive semidefinite matrices X_k(z), their slacks S_k and their multipliers Y_k.

    All are d x d: entries that must not be negative are the diagonals of some.  Slacks and
    multipliers are kept in the scaling R in which both are diagonal and the same,
    ``R^-1 S R^-T = R^T Y R = diag(eigenvalues)``.

    Attributes
    ----------
    matrix, offset:
        (n, k, p) and (n, k), of X_k packed by `svec`.
    weight:
        (n, 1, 1), final value of mu: 0 for a constraint, w for an entropic term.
    identity:
        (n, d, d).
    degree:
        n d.
    rows:
        (r, q), derivative of the scaled X_k by the step, without rows of zeros.
    multiplier:
        (n, d, d), Y_k.
    residual:
        Largest entry of X_k(z) - S_k.

    """

    def __init__(
        self, program: SemidefiniteProgram, changes: np.ndarray, free: np.ndarray
    ) -> None:
        several = (*program.semidefinite, *program.entropic)
        d = unpack(several[0].offset).shape[-1] if several else 1
        k, p, n = d * (d + 1) // 2, len(changes), len(several)
        diagonal = np.flatnonzero(svec(np.eye(d)))
        bounds = _in_own_units(program.nonnegative, changes, free)
        # as many rows as fill whole matrices; the constant 1 is in the cone
        n_bounds = -(-bounds.offset.size // d)
        fill = Affine(np.zeros((n_bounds * d, p)), np.ones(n_bounds * d))
        filled = Affine.stack([bounds, fill], p).rows(slice(n_bounds * d))
        self.matrix, self.offset = np.zeros((n + n_bounds, k, p)), np.zeros((n + n_bounds, k))
        for i, function in enumerate(several):
            self.matrix[i], self.offset[i] = function.matrix, function.offset
        self.matrix[n:, diagonal] = filled.matrix.reshape(n_bounds, d, p)
        self.offset[n:, diagonal] = filled.offset.reshape(n_bounds, d)
        self.weight = np.zeros((n + n_bounds, 1, 1))
        self.weight[len(program.semidefinite) : n] = program.weight
        self.identity = np.broadcast_to(np.eye(d), (n + n_bounds, d, d))
        self.degree = max((n + n_bounds) * d, 1)
        self._used = np.ones((n + n_bounds, k), dtype=bool)
        self._used[n:] = np.isin(np.arange(k), diagonal)
        self._turned = self.matrix @ changes

    def adjoint(self, matrices: np.ndarray) -> np.ndarray:
        """Return the gradient of ``sum tr(X_k matrices_k)`` by the step, (q,)."""
        flat = self._turned.reshape(-1, self._turned.shape[-1])
        return np.asarray(svec(matrices).ravel() @ flat)

    def start(self, z: np.ndarray, mu: float) -> None:
        """Set the slacks to X_k(z), moved into the cone, and the multipliers for ``S Y = mu``."""
        values, axes = np.linalg.eigh(unpack(self.matrix @ z + self.offset))
        values = np.maximum(values, _INSIDE)[:, None]
        slack = (axes * values) @ _turn(axes)
        multiplier = (axes * (np.maximum(mu, self.weight) / values)) @ _turn(axes)
        self._rescale(self.identity, self.identity, np.stack([slack, multiplier]))

    def linearise(self, z: np.ndarray) -> None:
        """Compute what depends on z and the scaling: rows, multipliers, residual."""
        inverse = self._inverse
        units = unpack(np.eye(self.offset.shape[1]))
        scaling = svec(inverse[:, None] @ units @ _turn(inverse)[:, None])
        self.rows = (_turn(scaling) @ self._turned)[self._used]
        self.multiplier = (_turn(inverse) * self._eigenvalues[:, None]) @ inverse
        slack = (self._scaling * self._eigenvalues[:, None]) @ _turn(self._scaling)
        residual = unpack(self.matrix @ z + self.offset) - slack
        self.residual = float(np.abs(residual).max(initial=0.0))
        self._residual = unpack(svec(inverse @ residual @ _turn(inverse)))

    def mu(self, length: float = 0.0) -> float:
        """Return the mean distance of S Y from its final value after a part of the step."""
        if not length:
            excess = self._eigenvalues**2 - self.weight[:, 0]
        else:
            slack, multiplier = self._diagonal + length * self._steps
            excess = np.sum(slack * multiplier - self.weight * self.identity, axis=1)
        return float(np.abs(excess.sum(axis=1)).sum()) / self.degree

    def gap(self) -> float:
        """Return the duality gap of a feasible point."""
        products, weight = self._eigenvalues**2, self.weight[:, 0]
        ratios = products / np.where(weight > 0.0, weight, 1.0)
        terms = np.where(weight > 0.0, weight * (ratios - 1.0 - np.log(ratios)), products)
        return float(terms.sum())

    def target(self, mu: float, second_order: float | np.ndarray = 0.0) -> np.ndarray:
        """Return the sum of the scaled steps of S and Y that leads to ``S Y = mu``."""
        values = self._eigenvalues
        right = np.maximum(mu, self.weight) * self.identity - self._diagonal**2 - second_order
        return np.asarray(2.0 * right / (values[:, :, None] + values[:, None]))

    def second_order(self) -> np.ndarray:
        """Return what the linearisation of S Y leaves out for the present step."""
        product = self._steps[0] @ self._steps[1]
        return 0.5 * (product + _turn(product))

    def right_side(self, target: np.ndarray) -> np.ndarray:
        """Return the cones' part in the equations of the step, (q,)."""
        return np.asarray(svec(target - self._residual)[self._used] @ self.rows)

    def aim(self, step: np.ndarray, target: np.ndarray) -> float:
        """Set the scaled steps of S and Y, and return the length at which one gets singular."""
        packed = np.zeros(self.offset.shape)
        packed[self._used] = self.rows @ step
        slack = unpack(packed) + self._residual
        self._steps = np.stack([slack, target - slack])
        root = np.sqrt(self._eigenvalues)
        relative = self._steps / (root[:, :, None] * root[:, None])
        return 1.0 / max(-float(np.linalg.eigvalsh(relative).min(initial=0.0)), _ROUNDING)

    def move(self, length: float) -> None:
        """Take a part of the step."""
        self._rescale(self._scaling, self._inverse, self._diagonal + length * self._steps)

    def _rescale(self, scaling: np.ndarray, inverse: np.ndarray, pair: np.ndarray) -> None:
        """Take scaled slacks and multipliers, (2, n, d, d), into the scaling that they ask for."""
        slack, multiplier = np.linalg.cholesky(pair)
        left, self._eigenvalues, right = np.linalg.svd(_turn(multiplier) @ slack)
        root = np.sqrt(self._eigenvalues)
        self._scaling = scaling @ slack @ _turn(right) / root[:, None]
        self._inverse = _turn(multiplier @ left) @ inverse / root[:, :, None]
        self._diagonal = self._eigenvalues[:, :, None] * self.identity


def _in_own_units(function: Affine, changes: np.ndarray, free: np.ndarray) -> Affine:
    """Divide entries by their values at the free minimum, or by what changes the loss by 1/2."""
    slopes = np.linalg.norm(function.matrix @ changes, axis=1)
    units = np.maximum(function(free), np.where(slopes > 0.0, slopes, 1.0))
    return Affine(function.matrix / units[:, None], function.offset / units)


def _packed_identity(function: Affine) -> np.ndarray:
    """Return the identity, packed as the matrices of a function are."""
    return svec(np.eye(unpack(function.offset).shape[-1]))


def _turn(matrix: np.ndarray) -> np.ndarray:
    """Return the transposed matrices."""
    return np.swapaxes(matrix, -1, -2)
