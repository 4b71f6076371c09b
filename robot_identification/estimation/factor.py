# SPDX-License-Identifier: Apache-2.0
"""
All that estimation needs of any number of rows, as a value that merges.

With W_j the rows of joint j (base columns) and tau_j its effort, a `QRFactor` holds R of
[W_j | tau_j] for each joint beside a few sums.  Its size depends on the numbers of joints and base
parameters alone, and the factor of two recordings comes from the factors of each: a reduction that
may be done in any order, on any number of machines.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.linalg import lapack

from ..data.recording import Motion
from ..errors import IdentificationError, ModelError, one_of, SettingsError
from ..model.floating_base import has_floating_base
from ..regressor import Regressor
from ..regressor.base_parameters import BaseStructure
from ..regressor.inverse_dynamics import RowPattern
from .plot_samples import read_only

BLOCK_ROWS = 512
"""Rows that are folded into R at a time: enough to be fast, few enough to stay in cache."""

_PANELS = ((8, 150), (16, np.inf))
"""Reflections that are applied at once, up to a number of columns; as measured."""


def append_rows(factor: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """
    Return R of the matrix whose R was ``factor``, (k, k), with ``rows``, (m, k), below it.

    It is upper triangular, with ``R.T @ R == factor.T @ factor + rows.T @ rows``.
    """
    if rows.shape[0] == 0:
        return factor
    return np.triu(_folded(np.array(factor, order='F'), np.array(rows, dtype=float, order='F')))


def _folded(factor: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Fold (m, k) rows into (k, k) R, both in Fortran order; neither survives."""
    width = factor.shape[0]
    # LAPACK's leading dimensions are at least 1, and so is the panel's width
    panel = max(1, min(width, next(size for size, most in _PANELS if width <= most)))
    grown, _, _, info = lapack.dtpqrt(0, panel, factor, rows, overwrite_a=1, overwrite_b=1)
    if info != 0:
        raise ValueError(f'LAPACK tpqrt refused its argument {-info}')
    return np.asarray(grown)


class GrowingTriangle:
    """
    R of all rows that were pushed, (k, k) upper triangular.

    Parameters
    ----------
    columns:
        Number of columns k.
    block:
        Rows to collect before they are folded in.

    """

    def __init__(self, columns: int, block: int = BLOCK_ROWS) -> None:
        # nothing ever writes below the diagonal
        self._factor = np.zeros((columns, columns), order='F')
        self._waiting = np.empty((columns, block))
        self._count = 0
        self.rows = 0

    def push(self, rows: np.ndarray) -> None:
        """Append ``rows``, (m, k)."""
        self.push_columns(rows.T)

    def push_columns(self, *columns: np.ndarray) -> None:
        """Append rows that are given as columns, one below another: (w, m) arrays, k in all."""
        total = columns[0].shape[1]
        self.rows += total
        start = 0
        while start < total:
            stop = min(total, start + self._waiting.shape[1] - self._count)
            place = slice(self._count, self._count + stop - start)
            first = 0
            for part in columns:
                self._waiting[first : first + len(part), place] = part[:, start:stop]
                first += len(part)
            self._count, start = place.stop, stop
            if self._count == self._waiting.shape[1]:
                self._fold()

    def result(self) -> np.ndarray:
        """Return R of everything pushed so far."""
        self._fold()
        return np.array(self._factor, order='C')

    def _fold(self) -> None:
        if self._count:
            waiting = np.asfortranarray(self._waiting[:, : self._count].T)
            self._factor = _folded(self._factor, waiting)
            self._count = 0


class JointTriangles:
    """
    R of [W_j | tau_j] of every joint j, growing row by row.

    Parameters
    ----------
    pattern:
        Which of the b columns each of the n joints sees.

    """

    def __init__(self, pattern: RowPattern) -> None:
        self.pattern = pattern
        self._triangles = [GrowingTriangle(places.size + 1) for places in pattern.columns]

    @property
    def rows(self) -> np.ndarray:
        """(n,) int, rows that were pushed."""
        return np.array([triangle.rows for triangle in self._triangles], dtype=int)

    def push(self, joint: int, entries: np.ndarray, effort: np.ndarray) -> None:
        """Append m rows of a joint: (w, m) entries of its columns and (m,) efforts."""
        self._triangles[joint].push_columns(entries, effort[None])

    def result(self, joint: int) -> np.ndarray:
        """Return R of a joint's rows, (w + 1, w + 1)."""
        return self._triangles[joint].result()

    def all_columns(self) -> np.ndarray:
        """Return R of each joint with all columns, (n, b + 1, b + 1)."""
        return expand_to_all_columns(
            self.pattern, [triangle.result() for triangle in self._triangles]
        )

    def stacked(self) -> np.ndarray:
        """Return R of the rows of all joints together, (b + 1, b + 1)."""
        factor = np.zeros((self.pattern.size + 1,) * 2)
        for places, triangle in zip(self.pattern.columns, self._triangles, strict=True):
            rows = np.zeros((places.size + 1, self.pattern.size + 1))
            rows[:, np.append(places, self.pattern.size)] = triangle.result()
            factor = append_rows(factor, rows)
        return factor


def expand_to_all_columns(pattern: RowPattern, squares: list[np.ndarray]) -> np.ndarray:
    """Spread (w + 1, w + 1) matrices of the joints' columns and effort to (n, b + 1, b + 1)."""
    b = pattern.size
    whole = np.zeros((len(squares), b + 1, b + 1))
    for out, places, square in zip(whole, pattern.columns, squares, strict=True):
        seen = np.append(places, b)
        out[np.ix_(seen, seen)] = square
    return whole


_SUMMED = (
    'rows', 'independent_rows', 'available_rows', 'column_sums', 'effort_sums', 'raw_gram',
    'raw_rows',
)  # fmt: skip

ROUNDING = 1e-7
"""Largest difference of numbers from arithmetic, relative to the largest of them."""

_MISSING = object()


@dataclass(frozen=True, eq=False)
class ModelSignature:
    """
    Identifies a problem: robot, model and settings.

    Attributes
    ----------
    joints:
        What the n rows of a sample are called: the joints' names, or that of the energy.
    parameters:
        Names of the standard parameters, the columns of the regressor.
    base:
        (b,) names of the base parameters.
    regrouping:
        (b,) the structure's regrouping times a fixed vector.
    rows:
        (n, s) the regressor's rows of s fixed motions times a fixed vector, for geometry and
        gravity; (n, 0) where that is not known.
    settings:
        All settings that the rows depend on, nested, as plain values.

    """

    joints: tuple[str, ...]
    parameters: tuple[str, ...]
    base: tuple[str, ...]
    regrouping: np.ndarray
    rows: np.ndarray
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        read_only(self)

    @classmethod
    def from_structure(
        cls,
        structure: BaseStructure,
        joints: Sequence[str],
        *,
        regressor: Regressor | None = None,
        motion: Motion | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> ModelSignature:
        """
        Return the signature of a problem.

        Without a regressor and fixed motions it is that of base parameters and joints alone;
        ``joints`` are what the rows of a sample are called.
        """
        rows = np.empty((len(joints), 0))
        if regressor is not None and motion is not None:
            flat = regressor.rows(motion) @ fixed_test_vector(structure.n_standard)
            rows = flat.reshape(-1, regressor.n_joints).T
            if len(rows) != len(joints):
                # one row for all joints together
                rows = rows.sum(axis=0, keepdims=True)
        return cls(
            joints=tuple(joints),
            parameters=structure.layout.names,
            base=structure.names,
            regrouping=structure.regrouping @ fixed_test_vector(structure.n_standard),
            rows=rows,
            settings={} if settings is None else settings,
        )

    def difference(self, other: ModelSignature) -> IdentificationError | None:
        """
        Return the first difference of two problems as an error that names it; None without one.

        It is a `SettingsError` with the key of a setting, else a `ModelError`.
        """
        if self is other:
            return None
        for what, mine, others in (
            ('joints', self.joints, other.joints),
            ('parameters', self.parameters, other.parameters),
            ('base parameters', self.base, other.base),
        ):
            if mine != others:
                return _other_names(what, mine, others)
        for key, mine, others in _differing(self.settings, other.settings):
            return SettingsError(
                f"'{key}' is {_shown(mine)} here and {_shown(others)} there",
                key=key,
                value=mine,
                remedy='reduce the recordings again, all with the same settings',
            )
        name = _apart(self.base, self.regrouping, other.regrouping)
        if name is not None:
            return ModelError(
                f"base parameter '{name}' is another combination of standard parameters here than "
                'there: the robots differ in their geometry',
                value=name,
                remedy='keep robots of different geometry apart',
            )
        joint = _apart(self.joints, self.rows, other.rows)
        if joint is not None:
            return ModelError(
                f"the same motion gives joint '{joint}' other rows here than there: the robots "
                'differ in geometry, gravity or friction',
                joint=joint,
                remedy='keep robots of different geometry or mounting apart',
            )
        return None


def fixed_test_vector(size: int) -> np.ndarray:
    """Return the fixed vector that matrices are multiplied with, (size,) between 0.5 and 1.5."""
    golden = 0.5 * (np.sqrt(5.0) - 1.0)
    return 0.5 + np.mod(golden * np.arange(1, size + 1), 1.0)


def _other_names(what: str, mine: tuple[str, ...], others: tuple[str, ...]) -> ModelError:
    """Return the error for names that are not the same."""
    here = [name for name in mine if name not in others]
    there = [name for name in others if name not in mine]
    if not here and not there:
        text = f'the {what} are in another order: {one_of(mine)} here, {one_of(others)} there'
    else:
        parts = [
            f'{one_of(names, 4)} {"is" if len(names) == 1 else "are"} {place} only'
            for names, place in ((here, 'here'), (there, 'there'))
            if names
        ]
        text = f'the {what} are not the same: {", ".join(parts)}'
    return ModelError(
        text, value=tuple(here or there or mine), remedy='keep different models apart'
    )


def _differing(
    mine: Mapping[str, Any], others: Mapping[str, Any], path: str = ''
) -> Iterator[tuple[str, Any, Any]]:
    """Iterate over key paths with different values."""
    for key in dict.fromkeys((*mine, *others)):
        place = f'{path}.{key}' if path else str(key)
        one, two = mine.get(key, _MISSING), others.get(key, _MISSING)
        if isinstance(one, Mapping) and isinstance(two, Mapping):
            yield from _differing(one, two, place)
        elif one is not two and one != two:
            yield place, one, two


def _apart(names: tuple[str, ...], mine: np.ndarray, others: np.ndarray) -> str | None:
    """Name the first of the numbers that differ by more than rounding."""
    if mine.shape != others.shape:
        return names[0] if names else ''
    scale = max(np.abs(mine).max(initial=0.0), np.abs(others).max(initial=0.0))
    far = np.argwhere(~(np.abs(mine - others) <= ROUNDING * scale))
    return names[far[0, 0]] if far.size else None


def _shown(value: Any) -> str:
    return 'missing' if value is _MISSING else repr(value)


@dataclass(frozen=True, eq=False)
class QRFactor:
    """
    Sufficient statistics of the rows ``W beta = tau``, joint by joint.

    Attributes
    ----------
    fingerprint:
        What the rows are rows of.
    triangles:
        (n, b + 1, b + 1) R of [W_j | tau_j] over the rows that are kept; no row begins with a
        negative diagonal entry.
    rows:
        (n,) int, rows that are kept.
    independent_rows:
        (n,) rows that they count for: less where decimation has filtered them.
    available_rows:
        (n,) int, rows before the dead zone.
    column_sums, effort_sums:
        (n, b) and (n,) sums over the kept rows; they give the bias.
    raw_gram:
        (n, b + 1, b + 1) [W_j | tau_j]^T [W_j | tau_j] over all samples before decimation and dead
        zone, with the effort as measured; for ``raw_relative_error`` only, never for the estimate.
    raw_rows:
        Samples that ``raw_gram`` is taken over.
    position_range:
        Of each joint of the robot, largest minus smallest position [rad or m]; of several
        recordings the largest.
    driven:
        (n,) bool, which joints have an effort; the rows of the others are an equilibrium.
    highest_speed:
        Of each joint of the robot over the rows [rad/s or m/s]; of several recordings the largest;
        NaN where it is not known.

    """

    fingerprint: ModelSignature
    triangles: np.ndarray
    rows: np.ndarray
    independent_rows: np.ndarray
    available_rows: np.ndarray
    column_sums: np.ndarray
    effort_sums: np.ndarray
    raw_gram: np.ndarray
    raw_rows: int
    position_range: np.ndarray
    driven: np.ndarray
    highest_speed: np.ndarray

    def __post_init__(self) -> None:
        object.__setattr__(self, 'triangles', _with_signs(self.triangles))
        read_only(self)

    @property
    def joints(self) -> tuple[str, ...]:
        """Names of the n joints."""
        return self.fingerprint.joints

    @property
    def n_joints(self) -> int:
        """Number of joints."""
        return len(self.fingerprint.joints)

    @property
    def n_base(self) -> int:
        """Number of base parameters."""
        return self.triangles.shape[-1] - 1

    @property
    def n_rows(self) -> int:
        """Rows of all joints together."""
        return int(self.rows.sum())

    @property
    def n_independent(self) -> float:
        """Independent rows of all joints together."""
        return float(self.independent_rows.sum())

    def stacked(self, weights: np.ndarray | None = None) -> np.ndarray:
        """(b + 1, b + 1) R of [W | tau] of all joints, (n,) ``weights`` times those of each."""
        weights = np.ones(self.n_joints) if weights is None else weights
        total = np.zeros_like(self.triangles[0])
        for weight, part in zip(weights, self.triangles, strict=True):
            total = append_rows(total, weight * part[part.any(axis=1)])
        return total

    @property
    def mixed(self) -> bool:
        """True if each row is of all joints, as projected ones of floating bases are."""
        return has_floating_base(self.joints)

    def residual_norms(self, base: np.ndarray) -> np.ndarray:
        """(n,) norms of tau_j - W_j base over the rows that are kept, for (b,) ``base``."""
        return np.linalg.norm(self.triangles @ np.append(base, -1.0), axis=1)

    def merge(self, other: QRFactor) -> QRFactor:
        """
        Return the factor of the rows of both, which have to be rows of the same problem.

        Grouping and order change the result by rounding alone.

        Raises
        ------
        SettingsError
            naming a setting that is not the same in both.
        ModelError
            naming joints or parameters that are not the same in both, or what shows that the
            robots are not.

        """
        difference = self.fingerprint.difference(other.fingerprint)
        if difference is not None:
            raise difference
        pairs = zip(self.triangles, other.triangles, strict=True)
        return replace(
            self,
            triangles=np.array([_stacked(a, b) for a, b in pairs]),
            position_range=np.maximum(self.position_range, other.position_range),
            highest_speed=np.maximum(self.highest_speed, other.highest_speed),
            **{name: getattr(self, name) + getattr(other, name) for name in _SUMMED},
        )


def merge_all(factors: Iterable[QRFactor]) -> QRFactor:
    """
    Merge factors in a balanced tree that depends on their order alone.

    The tree keeps rounding small, at most log2(N) merges deep, and the result is the same wherever
    and whenever the factors were made: what the library of linear algebra rounds differently by
    where arrays lie in memory is less than 1e-14 of the largest entry.

    Parameters
    ----------
    factors:
        At least one; taken one by one, so that about log2(N) of them are in memory at a time.

    Raises
    ------
    ValueError
        where there is no factor.
    SettingsError, ModelError
        as `QRFactor.merge`.

    """
    # a binary counter: each entry is the factor of 2^k inputs, with k falling along the list
    waiting: list[tuple[int, QRFactor]] = []
    for factor in factors:
        size = 1
        while waiting and waiting[-1][0] == size:
            factor, size = waiting.pop()[1].merge(factor), 2 * size
        waiting.append((size, factor))
    if not waiting:
        raise ValueError('there is no factor to merge')
    _, total = waiting.pop()
    while waiting:
        total = waiting.pop()[1].merge(total)
    return total


def _stacked(upper: np.ndarray, lower: np.ndarray) -> np.ndarray:
    """Return R of one triangle on top of another, taken over the columns that either sees."""
    if not upper.any() or not lower.any():
        return upper if upper.any() else lower
    seen = np.flatnonzero(_entered(upper) | _entered(lower))
    square = np.ix_(seen, seen)
    joined = np.zeros_like(upper)
    joined[square] = append_rows(upper[square], lower[square])
    return joined


def _entered(triangle: np.ndarray) -> np.ndarray:
    """Return which rows and columns of a triangle have entries; (k,) bool."""
    return np.asarray(triangle.any(axis=0) | triangle.any(axis=1))


def _with_signs(triangles: np.ndarray) -> np.ndarray:
    """Turn rows around whose diagonal entry is negative: R is unique then, where it is regular."""
    negative = np.diagonal(triangles, axis1=-2, axis2=-1) < 0.0
    return np.where(negative[..., None], -triangles, triangles) + 0.0
