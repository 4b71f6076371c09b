# SPDX-License-Identifier: Apache-2.0
"""
Modified recursive least squares (MRLS): block by block from a prior, in constant time and memory.

Lomakin and Deutscher, "Identification of dynamic parameters for rigid robots based on polynomial
approximation" (IROS 2020), sections V and VI, Fig. 1.  Where the paper's eq. (41) can be read in
two ways, Y^T Y and Y^T tau are accumulated alike, theta = theta_0 + K^-1 (Y^T tau - K theta_0):
the least squares of all rows so far, conditional on the rejected parameters' initial values,
whatever was rejected or clipped on the way.  With the block's own Y and tau instead, that holds
only as long as nothing but exactly dependent columns was ever rejected.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, TYPE_CHECKING

import numpy as np

from ...errors import one_of, RecordingError, SettingsError
from ...model.parameters import ParameterLayout
from ...options.fields import option
from ...regressor.inverse_dynamics import RowPattern
from ...support.compiled import available
from ..bounds import by_precedence, named
from ..factor import append_rows
from .elimination import (
    ACCEPTED,
    Elimination,
    gauss_jordan,
    GramElimination,
    inverse_of_free,
    triangular,
    WEAK,
    within,
)

if TYPE_CHECKING:
    from .rls_kernel import Stepper

FORMULATIONS = ('factor', 'gram')
"""How rows are accumulated: as R of [Y | tau], or as the paper's Y^T Y and Y^T tau."""

BOUNDED = ('clip', 'least_squares')

_PARTNER = 0.1  # of the largest share in a column, above which a parameter is named


@dataclass(frozen=True)
class RecursiveSettings:
    """Settings of the recursive estimator: bounds, and when a parameter counts as identified."""

    threshold: float = option(
        1e-4,
        doc='A parameter is identified once the part of its column that is orthogonal to those '
        'before it has an RMS above this, relative to the largest RMS of a column of the same '
        'unit; before that it keeps its prior value',
        minimum=0.0,
    )
    thresholds: Mapping[str, float] = option(
        factory=dict,
        doc='Other thresholds for some parameters, by name (link_3.mx) or symbol (fc)',
    )
    block: int = option(
        500,
        doc='Rows after which the parameters are estimated again',
        minimum=1,
        maximum=1_000_000,
    )
    formulation: str = option(
        'factor',
        doc='What is accumulated: an R factor (factor), or the Gram matrix as in the paper '
        '(gram), which squares the condition number',
        choices=FORMULATIONS,
    )
    weights: str = option(
        'none',
        doc='Rows count all alike (none), or those of each joint by its residual as in wls (wls)',
        choices=('none', 'wls'),
    )
    bounds: Mapping[str, tuple[float | None, float | None]] = option(
        factory=dict,
        doc='Lowest and highest value of standard parameters, by name (link_3.m) or symbol (m); '
        'null leaves an end open',
    )
    bounds_file: str | None = option(
        None, doc='YAML file of more such bounds; those of `bounds` go before its entries'
    )
    bounded: str = option(
        'least_squares',
        doc='What bounds do: the best fit within them (least_squares), or the free fit cut at '
        'them, as in the paper (clip)',
        choices=BOUNDED,
    )

    def __post_init__(self) -> None:
        for name, value in self.thresholds.items():
            if value < 0.0:
                key = f'estimation.mrls.thresholds.{name}'
                raise SettingsError(
                    f"'{key}' is {value:g}", key=key, value=value, remedy='allowed is [0, inf]'
                )


class RecursiveSolution(NamedTuple):
    """
    Parameters that the rows so far determine.

    Attributes
    ----------
    values:
        (b,) parameters.
    flags:
        (b,) int: 1 identified; 0 not excited; -1 not distinguished from the parameters before it.
    at_bound:
        (b,) bool, whether a bound holds the parameter.

    """

    values: np.ndarray
    flags: np.ndarray
    at_bound: np.ndarray


@dataclass(frozen=True)
class RecursiveEstimate:
    """
    Estimate from the rows so far.

    Attributes
    ----------
    values, flags, at_bound:
        As in `RecursiveSolution`.
    covariance:
        (b, b) of the estimation error; NaN for what is not identified or held by a bound.
    residual_std:
        Square root of the residual variance; NaN where there are not more rows than parameters.
    rows:
        Rows so far.

    """

    values: np.ndarray
    flags: np.ndarray
    at_bound: np.ndarray
    covariance: np.ndarray
    residual_std: float
    rows: int

    @property
    def std(self) -> np.ndarray:
        """(b,) standard deviations."""
        return np.sqrt(np.diag(self.covariance))


class RecursiveState(NamedTuple):
    """
    State of the recursion after the rows so far.

    Attributes
    ----------
    accumulated:
        (b + 1, b + 1) R of [Y | tau], or its Gram matrix where that is the formulation.
    initial:
        (b,) values that rejected parameters keep.
    rows:
        Rows so far.
    independent:
        Independent rows that they count for.

    """

    accumulated: np.ndarray
    initial: np.ndarray
    rows: int
    independent: float


class RecursiveLeastSquares:
    """
    Least squares that grows row by row and starts from a prior.

    `update` takes time that depends on the number of parameters alone, and so does `estimate`.

    Parameters
    ----------
    layout:
        The b parameters; units group the columns whose sizes are compared, names appear in
        reasons.
    initial:
        (b,) values to start from; None for zeros.
    settings:
        Thresholds, formulation and what bounds do.
    lower, upper:
        (b,) box of the parameters; None for no bounds.

    """

    def __init__(
        self,
        layout: ParameterLayout,
        initial: np.ndarray | None = None,
        settings: RecursiveSettings | None = None,
        *,
        lower: np.ndarray | None = None,
        upper: np.ndarray | None = None,
    ) -> None:
        b = len(layout)
        self._settings = RecursiveSettings() if settings is None else settings
        self._gram = self._settings.formulation == 'gram'
        self._layout = layout
        self._relative = column_thresholds(layout, self._settings)
        self._groups = np.unique(layout.units, return_inverse=True)[1].reshape(b)
        self._lower = np.full(b, -np.inf) if lower is None else np.asarray(lower, dtype=float)
        self._upper = np.full(b, np.inf) if upper is None else np.asarray(upper, dtype=float)
        self._bounded = bool(np.isfinite(self._lower).any() or np.isfinite(self._upper).any())
        self._stepper: Stepper | None = None
        self.reset(initial)

    @property
    def initial(self) -> np.ndarray:
        """(b,) values that rejected parameters keep."""
        return self._initial.copy()

    @property
    def rows(self) -> int:
        """Rows so far."""
        return self._rows

    def reset(self, initial: np.ndarray | None = None) -> None:
        """Forget all rows and start again from (b,) ``initial``; None for zeros."""
        b = len(self._layout)
        self._initial = np.zeros(b) if initial is None else np.array(initial, dtype=float)
        if self._initial.shape != (b,):
            raise ValueError(f'initial has shape {self._initial.shape}, expected ({b},)')
        self._accumulated = np.zeros((b + 1, b + 1))
        self._rows, self._independent = 0, 0.0
        self._held = np.zeros(b, dtype=int)

    @property
    def state(self) -> RecursiveState:
        """State of the recursion."""
        accumulated = self._accumulated.copy()
        return RecursiveState(accumulated, self.initial, self._rows, self._independent)

    def restore(self, state: RecursiveState) -> None:
        """Go on from the state of an estimator with the same settings."""
        self.reset(state.initial)
        self._accumulated[:] = state.accumulated
        self._rows, self._independent = state.rows, state.independent

    def update(self, rows: np.ndarray, effort: np.ndarray, independence: float = 1.0) -> None:
        """
        Take in rows.

        Parameters
        ----------
        rows:
            (m, b) or (b,) of the regressor.
        effort:
            (m,) [N m or N], or a number.
        independence:
            Independent rows that each counts for, see `signals.independence`.

        Raises
        ------
        RecordingError
            where a number is not finite; nothing is taken in then.

        """
        rows, effort = np.atleast_2d(rows), np.atleast_1d(effort)
        b = len(self._layout)
        if rows.shape != (effort.size, b):
            raise ValueError(f'rows have shape {rows.shape}, expected ({effort.size}, {b})')
        joined = np.column_stack([rows, effort])
        if not np.isfinite(joined).all():
            raise _not_finite()
        if self._gram:
            self._accumulated += joined.T @ joined
        else:
            self._accumulated[:] = append_rows(self._accumulated, joined)
        self._rows += effort.size
        self._independent += independence * effort.size

    def step(
        self,
        pattern: RowPattern,
        weights: np.ndarray,
        entries: np.ndarray,
        effort: np.ndarray,
        kept: np.ndarray,
        before: RecursiveSolution,
        *,
        independence: float = 1.0,
        memory: float = 1.0,
    ) -> tuple[np.ndarray, RecursiveSolution]:
        """
        Take in the rows of one sample and solve for the parameters.

        The same as `update` and `solution`, in compiled code where that is possible: for when
        there is an answer to be had after each sample.

        Parameters
        ----------
        pattern, weights:
            Places of the K entries of n rows, and (n,) factor of each row and its effort.
        entries:
            (K,) entries of the rows.
        effort, kept:
            (n,) [N m or N], and (n,) bool, which rows count.
        before:
            The solution of the rows so far.
        independence:
            As for `update`, which see for the errors, too.
        memory:
            Factor of all earlier rows, where any of these counts; below 1 lets them fade.

        Returns
        -------
        tuple
            (n,) effort less what ``before`` explains [N m or N], and the solution with these rows.

        """
        if self._gram or not available():
            rows = pattern.expand(entries[:, None])[0]
            residual = effort - rows @ before.values
            if not kept.any():
                return residual, before
            self._accumulated *= memory**2 if self._gram else memory
            self._independent *= memory**2
            rows, effort = rows * weights[:, None], effort * weights
            self.update(rows[kept], effort[kept], independence)
            return residual, self.solution()
        stepper, factor = self._stepper, self._accumulated
        columns = pattern.columns
        if stepper is None or stepper.columns is not columns or stepper.weights is not weights:
            # imported here because Numba is optional
            from .rls_kernel import Stepper

            stepper = self._stepper = Stepper(self._relative, self._groups, columns, weights)
        residual = np.empty(effort.size)
        count = stepper.append(factor, entries, effort, kept, memory, before.values, residual)
        if count < 0:
            raise _not_finite()
        if count == 0:
            return residual, before
        self._independent = memory**2 * self._independent + independence * count
        self._rows += count
        values, flags = stepper.solve(factor, self._initial)
        if self._bounded and ((values < self._lower) | (values > self._upper)).any():
            return residual, self._within(stepper, values, flags)
        return residual, RecursiveSolution(values, flags, stepper.free)

    def _within(self, stepper: Stepper, free: np.ndarray, flags: np.ndarray) -> RecursiveSolution:
        """Return the solution within the bounds, from that without."""
        accepted = flags == ACCEPTED
        values: np.ndarray | None
        if self._settings.bounded == 'clip':
            values = np.where(accepted, np.clip(free, self._lower, self._upper), free)
        else:
            box = (self._lower, self._upper, self._held)
            values = stepper.within(self._accumulated, free, accepted, *box)
            if values is None:
                return self.solution()
        at_end = (values <= self._lower) | (values >= self._upper)
        return RecursiveSolution(values, flags, accepted & at_end & (values != free))

    def solution(self) -> RecursiveSolution:
        """Return the parameters of all rows so far, without their covariance: that takes less."""
        elimination = self._eliminated()
        values, at_bound, _ = self._bounded_values(elimination)
        return RecursiveSolution(values, elimination.flags, at_bound)

    def estimate(self) -> RecursiveEstimate:
        """Return the parameters of all rows so far."""
        elimination = self._eliminated()
        accepted, inverse = elimination.accepted, elimination.inverse
        values, at_bound, rest = self._bounded_values(elimination)
        if at_bound.any():
            if self._settings.bounded == 'least_squares':
                small = inverse_of_free(elimination.triangle[0], ~at_bound[accepted])
                inverse[np.ix_(accepted, accepted)] = small
            inverse[at_bound] = inverse[:, at_bound] = np.nan
        freedom = self._independent - int((accepted & ~at_bound).sum())
        variance = rest / freedom if freedom > 0.0 else np.nan
        return RecursiveEstimate(
            values=values,
            flags=elimination.flags,
            at_bound=at_bound,
            covariance=variance * inverse,
            residual_std=float(np.sqrt(variance)),
            rows=self._rows,
        )

    def _eliminated(self) -> Elimination:
        """Decide on the columns, see `elimination`."""
        thresholds, whole = self.thresholds(), self._accumulated
        if not self._gram:
            return triangular(whole, thresholds, self._initial)
        K, right, square = whole[:-1, :-1], whole[:-1, -1], float(whole[-1, -1])
        inverse, flags = gauss_jordan(K, thresholds**2)
        return GramElimination(K, right, square, self._initial, inverse, flags)

    def _bounded_values(self, elimination: Elimination) -> tuple[np.ndarray, np.ndarray, float]:
        """(b,) parameters within their bounds, (b,) which are at one, and the squared residual."""
        accepted, rest = elimination.accepted, elimination.rest
        values = elimination.values.copy()
        at_bound = np.zeros(values.size, dtype=bool)
        if self._bounded and accepted.any():
            free, triangle = values[accepted], elimination.triangle
            low, high = self._lower[accepted], self._upper[accepted]
            if self._settings.bounded == 'clip':
                bounded = np.clip(free, low, high)
            elif ((free < low) | (free > high)).any():
                bounded = within(*triangle, low, high)
            else:
                bounded = free
            # a free minimiser on an end is not held by it
            held = ((bounded <= low) | (bounded >= high)) & (bounded != free)
            at_bound[accepted] = held
            values[accepted] = bounded
            rest += float(np.sum((triangle[0] @ (bounded - free)) ** 2))
        return values, at_bound, rest

    def _norms(self) -> np.ndarray:
        """(b,) norms of the columns of Y."""
        if self._gram:
            return np.asarray(np.sqrt(np.diag(self._accumulated)[:-1]))
        return np.asarray(np.linalg.norm(self._accumulated[:, :-1], axis=0))

    def thresholds(self) -> np.ndarray:
        """(b,) lengths that the columns' orthogonal parts have to exceed, for the rows so far."""
        longest = np.zeros(self._groups.size)
        np.maximum.at(longest, self._groups, self._norms())
        return self._relative * longest[self._groups]

    def reasons(self) -> tuple[str, ...]:
        """(b,) why a parameter is not identified, in words; empty where it is."""
        elimination, norms = self._eliminated(), self._norms()
        accepted = np.flatnonzero(elimination.accepted)
        reasons = []
        for i, flag in enumerate(elimination.flags):
            if flag == ACCEPTED:
                reasons.append('')
            elif flag == WEAK:
                some = norms[i] > 0.0
                reasons.append(
                    'the motion hardly excites it' if some else 'the motion has no effect on it'
                )
            else:
                earlier = accepted[accepted < i]
                share = np.abs(elimination.coefficients(i)[: earlier.size]) * norms[earlier]
                main = earlier[share >= _PARTNER * share.max()]
                others = one_of((self._layout.names[k] for k in main), 4)
                reasons.append(f'the motion does not separate it from {others}')
        return tuple(reasons)


def _not_finite() -> RecordingError:
    return RecordingError(
        'a row is not finite', remedy='leave samples out that have NaN or infinity'
    )


def column_thresholds(layout: ParameterLayout, settings: RecursiveSettings) -> np.ndarray:
    """(b,) relative thresholds; `SettingsError` names an entry that is no parameter."""
    values = np.full(len(layout), settings.threshold)
    for name, value in by_precedence(settings.thresholds):
        values[named(layout, name, 'estimation.mrls.thresholds')] = value
    return values
