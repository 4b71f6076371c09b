# SPDX-License-Identifier: Apache-2.0
"""
Regressors projected by the polynomial approximation operator (Lomakin and Deutscher, section IV).

``P{Y} X = P{tau}`` (28) holds without error, whatever the window; what differs from column to
column is how well ``P{Y}`` is found from measured positions:

- Columns that are linear in velocity and acceleration with constant coefficients (rotor inertia,
  viscous friction, offset) are exact at the projected motion (19).
- Those of rigid bodies are ``sum_k A_k(q) ddq_k + sum_(k<=l) B_kl(q) dq_k dq_l + G(q)``.  By
  composition (21) they are evaluated at the projected motion, which is an approximation.  By
  products (22) each factor but the last is expanded in polynomials of the window, and the last one
  takes its derivatives in the kernel; ``P{G(q)}`` is no approximation at all, because q is
  measured.  The coefficients A, B and G are the regressor itself, at rest and at unit speeds and
  accelerations; so this holds for any regressor of that form, loops and elastic joints included.
- Any other columns (Coulomb friction, Stribeck curves) are evaluated at every sample, at a motion
  without phase shift, and filtered by P.

Which columns are of which form is found by trying.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from ..data.recording import Motion, Samples
from ..signals.polynomial_approximation import apply, PolynomialOperator
from ..signals.windows import WindowedSamples
from .inverse_dynamics import entries, random_states, Regressor, row_pattern, RowPattern

_STATES = 6  # random states for the forms of the columns
_EXACT = 1e-9  # of a column's size
_PIECE = 2048  # samples of the windows that are worked on at once, at least


class _Term(NamedTuple):
    """A coefficient of ddq_k, dq_k dq_l or dq_k, and which entries of the columns it has."""

    joints: tuple[int, ...]
    orders: tuple[int, ...]
    entries: np.ndarray


@dataclass(frozen=True)
class Forms:
    """
    Columns of a regressor as functions of velocity and acceleration.

    ``linear``, ``quadratic`` and ``other`` are places among the columns asked for; ``terms`` are
    the coefficients of the quadratic ones that are not zero everywhere.
    """

    linear: np.ndarray
    quadratic: np.ndarray
    other: np.ndarray
    terms: tuple[_Term, ...]


class Projection:
    """Evaluation of ``P{Y}`` for the samples of windows, and of ``Y`` for others."""

    def __init__(self, regressor: Regressor, columns: np.ndarray) -> None:
        self._regressor, self._columns = regressor, np.asarray(columns)

    @cached_property
    def _forms(self) -> Forms:
        return forms(self._regressor, self._columns)

    @cached_property
    def pattern(self) -> RowPattern:
        """The entries of the rows that are not zero for every motion."""
        return row_pattern(self._regressor, self._columns)

    def entries(self, samples: Samples, out: np.ndarray | None = None) -> np.ndarray:
        """Evaluate the entries of `pattern`, (K, m) and contiguous, into ``out`` if given."""
        if not isinstance(samples, WindowedSamples):
            return entries(self._regressor, samples, self._columns, self.pattern, out)
        found = self.pattern.gather(self.rows(samples))
        if out is None:
            return found
        out[...] = found
        return out

    def rows(self, samples: Samples) -> np.ndarray:
        """
        Evaluate the columns, (m, n_joints, b).

        Samples of windows are projected as their settings say.
        """
        rows = self._evaluate(samples)  # their times name a state that the robot cannot have
        if not isinstance(samples, WindowedSamples) or not len(samples):
            return rows
        size = max(1, _PIECE // samples.stride)
        for start in range(0, len(samples), size):
            self._project(samples.rows(start, start + size), rows[start : start + size])
        return rows

    def _evaluate(self, motion: Motion) -> np.ndarray:
        shape = (len(motion), self._regressor.n_joints, -1)
        return self._regressor.rows(motion).reshape(shape)[:, :, self._columns]

    def _project(self, samples: WindowedSamples, rows: np.ndarray) -> None:
        """Replace the columns in ``rows`` that are not evaluated at the projected motion."""
        other, quadratic = self._forms.other, self._forms.quadratic
        m, n, _ = rows.shape
        if other.size:
            raw = self._evaluate(samples.raw)[:, :, other].reshape(len(samples.raw), -1)
            kernels = _kernels(samples.operator, samples.settings.product_degree)
            filtered = apply(kernels.value, raw, stride=samples.stride)
            rows[:, :, other] = filtered.reshape(m, n, -1)
        if quadratic.size and samples.settings.projection == 'products':
            rows[:, :, quadratic] = self._products(samples).reshape(m, n, -1)

    def _products(self, samples: WindowedSamples) -> np.ndarray:
        """``P`` of the quadratic columns by (22), (m, n_joints * columns)."""
        position, stride = samples.raw.position, samples.stride
        kernels = _kernels(samples.operator, samples.settings.product_degree)
        factors = _Factors(kernels, position - position[0], stride)
        evaluate = _AtUnitSpeeds(self._regressor, self._columns[self._forms.quadratic], position)
        total = apply(kernels.value, evaluate.rest, stride=stride)
        for term in self._forms.terms:
            values = evaluate.coefficient(term)
            expanded = apply(kernels.coefficients[0], values, stride=stride)
            total[:, term.entries] += np.einsum('im,ime->me', factors.of_term(term), expanded)
        return total


class _AtUnitSpeeds:
    """The quadratic columns at given positions, at rest and at unit speeds and accelerations."""

    def __init__(self, regressor: Regressor, columns: np.ndarray, position: np.ndarray) -> None:
        self._regressor, self._columns, self._position = regressor, columns, position
        self.rest = self._rows({}, {})
        self._single: dict[tuple[int, float], np.ndarray] = {}

    def coefficient(self, term: _Term) -> np.ndarray:
        """Coefficient of a term, (samples, entries)."""
        k, entries = term.joints[0], term.entries
        if term.orders == (2,):
            return (self._rows({}, {k: 1.0}) - self.rest)[:, entries]
        forward, backward = self._speed(k, 1.0), self._speed(k, -1.0)
        if term.orders == (1,):
            return 0.5 * (forward - backward)[:, entries]
        if term.joints[1] == k:
            return (0.5 * (forward + backward) - self.rest)[:, entries]
        second = term.joints[1]
        both = self._rows({k: 1.0, second: 1.0}, {})
        return (both - forward - self._speed(second, 1.0) + self.rest)[:, entries]

    def _speed(self, joint: int, speed: float) -> np.ndarray:
        if (joint, speed) not in self._single:
            self._single[joint, speed] = self._rows({joint: speed}, {})
        return self._single[joint, speed]

    def _rows(self, velocity: dict[int, float], acceleration: dict[int, float]) -> np.ndarray:
        rates = np.zeros((2, *self._position.shape))
        for derivative, values in zip(rates, (velocity, acceleration), strict=True):
            for joint, value in values.items():
                derivative[:, joint] = value
        rows = self._regressor.rows(Motion(self._position, *rates))
        shape = (len(self._position), self._regressor.n_joints, rows.shape[1])
        return rows.reshape(shape)[:, :, self._columns].reshape(len(self._position), -1)


class _Kernels(NamedTuple):
    """
    Kernels of products to the degree N*.

    ``value`` (taps,) is that of P, ``coefficients`` (2, N* + 1, taps) those of c_i{x} and c_i{dx},
    ``once`` (2, N* + 1, taps) of P{P_i dx} and P{P_i ddx}, ``twice`` (N* + 1, N* + 1, taps) of
    P{P_i P_j dx}.
    """

    value: np.ndarray
    coefficients: np.ndarray
    once: np.ndarray
    twice: np.ndarray


@lru_cache(maxsize=4)
def _kernels(operator: PolynomialOperator, degree: int) -> _Kernels:
    indices = range(degree + 1)
    return _Kernels(
        operator.value(),
        np.array([[operator.coefficient(i, k) for i in indices] for k in (0, 1)]),
        np.array([[operator.modified(i, order=k) for i in indices] for k in (1, 2)]),
        np.array([[operator.modified(i, j, order=1) for j in indices] for i in indices]),
    )


class _Factors:
    """Factors of the coefficients c_i of A, B and C, for every window."""

    def __init__(self, kernels: _Kernels, position: np.ndarray, stride: int) -> None:
        self._speed = apply(kernels.coefficients[1], position, stride=stride)
        self._once = [apply(table, position, stride=stride) for table in kernels.once]
        count, _, taps = kernels.twice.shape
        twice = apply(kernels.twice.reshape(-1, taps), position, stride=stride)
        self._twice = twice.reshape(count, count, *twice.shape[1:])

    def of_term(self, term: _Term) -> np.ndarray:
        """Return the factors of a term, (N* + 1, windows)."""
        k = term.joints[0]
        if len(term.joints) == 1:
            return self._once[term.orders[0] - 1][:, :, k]
        second = term.joints[1]
        return np.einsum('jm,ijm->im', self._speed[:, :, k], self._twice[:, :, :, second])


def forms(regressor: Regressor, columns: np.ndarray) -> Forms:
    """Return the dependence of (b,) columns on velocity and acceleration, by random states."""
    motion = random_states(regressor, _STATES)
    q, v, a = motion.position, motion.velocity, motion.acceleration
    none = np.zeros_like(v)

    def rows_at(velocity: np.ndarray, acceleration: np.ndarray) -> np.ndarray:
        rows = regressor.rows(Motion(q, velocity, acceleration))
        return rows.reshape(_STATES, regressor.n_joints, -1)[:, :, columns]

    rest, once, accelerated = rows_at(none, none), rows_at(v, none), rows_at(none, a)
    # a cubic in the speed has a third difference, a term of both has a mixed one
    cubic = rows_at(2.0 * v, none) - 3.0 * once + 3.0 * rest - rows_at(-v, none)
    bent = rows_at(none, 2.0 * a) - 2.0 * accelerated + rest
    mixed = rows_at(v, a) - once - accelerated + rest
    size = np.max([np.abs(x).max(axis=(0, 1)) for x in (rest, once, accelerated)], axis=0)
    faults = np.max([np.abs(x).max(axis=(0, 1)) for x in (cubic, bent, mixed)], axis=0)
    other = faults > _EXACT * size
    # constant coefficients: the same at all positions, for one velocity and acceleration
    alike = rows_at(np.broadcast_to(v[:1], v.shape), np.broadcast_to(a[:1], a.shape))
    odd = rows_at(v, none) + rows_at(-v, none) - 2.0 * rest
    varying = np.max([np.abs(x).max(axis=(0, 1)) for x in (alike - alike[:1], odd)], axis=0)
    linear = ~other & (varying <= _EXACT * size)
    quadratic = np.flatnonzero(~other & ~linear)
    return Forms(
        linear=np.flatnonzero(linear),
        quadratic=quadratic,
        other=np.flatnonzero(other),
        terms=_terms(regressor, np.asarray(columns)[quadratic], q),
    )


def _terms(regressor: Regressor, columns: np.ndarray, position: np.ndarray) -> tuple[_Term, ...]:
    """Find the coefficients that are not zero at all of some random positions."""
    if not columns.size:
        return ()
    n = position.shape[1]
    pairs = [((k, second), (1, 1)) for k in range(n) for second in range(k, n)]
    single = [((k,), (order,)) for order in (2, 1) for k in range(n)]
    evaluate = _AtUnitSpeeds(regressor, columns, position)
    every = np.arange(evaluate.rest.shape[1])
    found = [
        (joints, orders, np.abs(evaluate.coefficient(_Term(joints, orders, every))).max(axis=0))
        for joints, orders in (*single, *pairs)
    ]
    # what is small beside the largest coefficient of its column is rounding
    sizes = np.max([size for *_, size in found], axis=0).reshape(-1, columns.size).max(axis=0)
    least = np.tile(_EXACT * sizes, every.size // columns.size)
    terms = (_Term(j, o, np.flatnonzero(size > least)) for j, o, size in found)
    return tuple(term for term in terms if term.entries.size)
