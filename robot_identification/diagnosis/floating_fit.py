# SPDX-License-Identifier: Apache-2.0
"""
Fits of robots on their feet that are judged by rows that they have not seen.

Of each recording, the pieces with most motion are taken.  Parameters are fitted to every other
piece, and what they leave of the rows between these is the error.  Contacts take up a part of the
noise of a row: errors are by what they leave of it, so that a contact more makes nothing better by
itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ..data.floating_recording import FloatingRecording
from ..errors import RecordingError
from ..estimation.floating_rows import projected_rows
from ..model.floating_base import BASE_JOINTS
from ..regressor.base_parameters import BaseStructure
from ..regressor.floating import FloatingRegressor
from ..signals import SignalSettings

PIECE = 4.0
"""Duration of a piece [s]: long against the ends that filters leave out."""

_BASE = len(BASE_JOINTS)

_FEWEST = 1e-6
"""Share of the noise of a row below which contacts leave nothing of it."""

Change = Callable[
    [FloatingRecording, FloatingRegressor], tuple[FloatingRecording, FloatingRegressor]
]
"""Returns recording and regressor with something changed."""


def unchanged(
    recording: FloatingRecording, regressor: FloatingRegressor
) -> tuple[FloatingRecording, FloatingRegressor]:
    """Return both as they are."""
    return recording, regressor


# ----------------------------------------------------------------------------------- the pieces


def moving_pieces(recording: FloatingRecording, seconds: float) -> list[FloatingRecording]:
    """
    Return the pieces of a recording that move most, in their order of time.

    Parameters
    ----------
    recording:
        Split evenly, into pieces of about `PIECE`, two at least.
    seconds:
        Duration of all pieces together, about [s].

    """
    duration = float(recording.time[-1] - recording.time[0])
    count = max(2, round(duration / PIECE))
    wanted = min(count, max(2, round(seconds * count / max(duration, 1e-9))))
    edges = np.linspace(recording.time[0], recording.time[-1], count + 1)
    rows = np.searchsorted(recording.time, edges)
    rows[-1] = len(recording)
    energy = motion_energy(recording, rows)
    taken = np.sort(np.argsort(-energy, kind='stable')[:wanted])
    pieces = [recording.rows(int(rows[i]), int(rows[i + 1])) for i in taken]
    return [piece for piece in pieces if isinstance(piece, FloatingRecording)]


def thinned(recording: FloatingRecording, rate: float) -> FloatingRecording:
    """Return means over samples of a recording, at a rate of about ``rate`` [Hz], or its own."""
    step = float(np.median(np.diff(recording.time))) if len(recording) > 1 else 1.0
    size = max(1, int(1.0 / (rate * step)))
    count = len(recording) // size
    if size == 1 or count < 2:
        return recording
    groups = np.arange(count * size).reshape(count, size)

    def mean(values: np.ndarray | None) -> np.ndarray | None:
        return None if values is None else values[groups].mean(axis=1)

    changed = {name: mean(getattr(recording, name)) for name in recording.continuous}
    stance = recording.stance[groups[:, size // 2]]
    return replace(recording, time=mean(recording.time), stance=stance, **changed)  # type: ignore[arg-type]


def motion_energy(recording: FloatingRecording, rows: np.ndarray) -> np.ndarray:
    """
    Return (k,) how much base and joints move between (k + 1,) rows.

    It is the mean, over joints and the axes of IMU, of the mean square of each about its mean in
    the piece, by that over the whole recording.
    """
    signals = np.hstack(
        [recording.position[:, _BASE:], recording.gyroscope, recording.accelerometer]
    )
    whole = signals.var(axis=0)
    moving = whole > 0.0
    energy = np.zeros(len(rows) - 1)
    for i, (first, last) in enumerate(zip(rows[:-1], rows[1:], strict=True)):
        if last - first > 1:
            part = signals[first:last].var(axis=0)
            energy[i] = float(np.mean(part[moving] / whole[moving])) if moving.any() else 0.0
    return energy


# ------------------------------------------------------------------------------------- the rows


@dataclass(frozen=True, eq=False)
class Rows:
    """
    Rows of pieces without contact forces.

    Attributes
    ----------
    matrix, effort:
        (m, n, b) base columns, and (m, n) efforts that belong to them.
    share:
        (m, n) share of the noise of each row that contacts leave.
    piece:
        (m,) number of the piece.

    """

    matrix: np.ndarray
    effort: np.ndarray
    share: np.ndarray
    piece: np.ndarray

    @property
    def fitted(self) -> np.ndarray:
        """(m,) bool, rows that parameters are fitted to; the others judge."""
        return self.piece % 2 == 0

    def left(self, base: np.ndarray) -> np.ndarray:
        """Return (m, n) what parameters (b,) leave of the efforts."""
        return np.asarray(self.effort - self.matrix @ base)


@dataclass(frozen=True)
class Judgement:
    """
    Errors of a fit on rows that it has not seen.

    Attributes
    ----------
    errors:
        (n,) root mean squares by row [N, N m]; NaN where contacts leave nothing.
    weights:
        (n,) rows' shares of the noise, which count.
    agreement:
        Product of the efforts and those by the bodies of the URDF, by the square of the first;
        below 0 where all masses would be.

    """

    errors: np.ndarray
    weights: np.ndarray
    agreement: float

    def gain(self, after: Judgement, rows: Sequence[int] = ()) -> float:
        """Return how many times smaller errors are after a change, of some rows or the robot's."""
        own = np.isin(np.arange(self.errors.size), list(rows)) if len(rows) else True
        both = np.isfinite(self.errors) & np.isfinite(after.errors) & own
        if not both.any():
            return 1.0
        ratio = np.log(np.maximum(self.errors, 1e-300) / np.maximum(after.errors, 1e-300))
        return float(np.exp(np.average(ratio[both], weights=self.weights[both])))


@dataclass(frozen=True, eq=False)
class FloatingFit:
    """
    Fits of pieces of recordings with something changed.

    Attributes
    ----------
    pieces:
        Of the recordings.
    regressor, structure, signals:
        As they were fitted.

    """

    pieces: Sequence[FloatingRecording]
    regressor: FloatingRegressor
    structure: BaseStructure
    signals: SignalSettings

    @cached_property
    def nominal(self) -> np.ndarray:
        """(b,) base parameters of the URDF's bodies, without friction."""
        bodies = np.zeros(len(self.regressor.layout))
        bodies[: self.regressor.bodies.size] = self.regressor.bodies
        return np.asarray(self.structure.regrouping @ bodies)

    @cached_property
    def first(self) -> Judgement:
        """The fit without a change."""
        return self.judged(self.still)

    @cached_property
    def still(self) -> Rows:
        """Rows without a change."""
        return self.rows(unchanged)

    def rows(self, change: Change) -> Rows:
        """Return the rows with a change; raises RecordingError where too few are left."""
        found: list[tuple[np.ndarray, ...]] = []
        for number, piece in enumerate(self.pieces):
            # without the samples that the piece keeps: they are those of other changes
            recording, regressor = change(replace(piece), self.regressor)
            for block, share in projected_rows(recording, regressor, self.structure, self.signals):
                m = len(block.time)
                shares = np.broadcast_to(share, (m, share.size))
                found.append((block.matrix, block.effort, shares, np.full(m, number)))
        if not found:
            raise self._too_few()
        rows = Rows(*(np.concatenate(parts) for parts in zip(*found, strict=True)))
        for some in (rows.fitted, ~rows.fitted):
            if rows.share[some].sum() < len(self.nominal):
                raise self._too_few()
        return rows

    def _too_few(self) -> RecordingError:
        name = self.pieces[0].source if self.pieces else 'recording'
        return RecordingError(
            f'{name}: too few rows are left to fit and to judge by', file=name,
            remedy='record longer, or with fewer changes of the contacts',
        )  # fmt: skip

    def solve(self, rows: Rows) -> np.ndarray:
        """
        Return (b,) parameters of the rows that are fitted.

        What they do not tell stays near the URDF's bodies: the ridge is the variance of the noise
        by that of the parameters' share of the efforts.
        """
        return self.solved(rows.matrix[rows.fitted], rows.effort[rows.fitted])

    def solved(
        self, matrix: np.ndarray, effort: np.ndarray, nominal: np.ndarray | None = None
    ) -> np.ndarray:
        """Return parameters of (m, n, b) columns and (m, n) efforts; see `solve`."""
        nominal = self.nominal if nominal is None else nominal
        columns = (matrix / self.regressor.noise[:, None]).reshape(-1, matrix.shape[2])
        wanted = (effort / self.regressor.noise).ravel() - columns @ nominal
        size = np.linalg.norm(columns, axis=0)
        scaled = np.divide(columns, size, out=np.zeros_like(columns), where=size > 0.0)
        # of a fit that only judges, normal equations are good enough, and fast
        values, basis = np.linalg.eigh(scaled.T @ scaled)
        along, whole = basis.T @ (scaled.T @ wanted), float(wanted @ wanted)
        seen = values > _RANK * values[-1]
        explained = float(np.sum(along[seen] ** 2 / values[seen]))
        noise = max(whole - explained, 0.0) / max(wanted.size, 1)
        ridge = noise / max(whole / max(nominal.size, 1), 1e-300)
        step = basis @ np.where(seen, along / np.where(seen, values + ridge, 1.0), 0.0)
        return np.asarray(nominal + np.divide(step, size, out=np.zeros_like(step), where=size > 0))

    def judged(self, rows: Rows, on: Rows | None = None) -> Judgement:
        """Fit rows, and return the errors of those that were not seen, of other rows if given."""
        base, judge = self.solve(rows), rows if on is None else on
        unseen = ~judge.fitted
        share = judge.share[unseen].sum(axis=0)
        squares = (judge.left(base)[unseen] ** 2).sum(axis=0)
        known = share > _FEWEST * unseen.sum()
        errors = np.sqrt(np.divide(squares, share, out=np.full(share.size, np.nan), where=known))
        noise = self.regressor.noise
        effort = rows.effort / noise
        product = float(np.sum(effort * ((rows.matrix @ self.nominal) / noise)))
        agreement = product / max(float(np.sum(effort**2)), 1e-300)
        return Judgement(errors, np.where(known, share, 0.0), agreement)

    def compared(
        self, change: Change, shared: Change | None = None
    ) -> tuple[Judgement, Judgement]:
        """
        Return the judgements without a change and with it.

        Where it is of contacts, both are judged by rows without the forces of any: ``shared`` is
        the change to those.
        """
        changed = self.rows(change)
        if shared is None:
            return self.first, self.judged(changed)
        judge = self.rows(shared)
        return self.judged(self.still, judge), self.judged(changed, judge)

    def found(self, change: Callable[[np.ndarray], Change], units: np.ndarray) -> np.ndarray:
        """
        Return the numbers (k,) with which a change lets the fitted rows fit best.

        Parameters
        ----------
        change:
            Of rows and efforts, linear in its numbers.
        units:
            (k,) numbers that change rows by some per cent.

        """
        still = self.rows(change(np.zeros(units.size)))
        moved = [self.rows(change(unit)) for unit in np.diag(units)]
        fitted, base = still.fitted, self.solve(still)
        number = np.zeros(units.size)
        for _ in range(_ROUNDS):
            # what a unit of each number changes of the rows' residuals
            slopes = np.stack([each.left(base) - still.left(base) for each in moved], axis=2)
            matrix = still.matrix + sum(
                x * (each.matrix - still.matrix) for x, each in zip(number, moved, strict=True)
            )
            effort = still.effort + sum(
                x * (each.effort - still.effort) for x, each in zip(number, moved, strict=True)
            )
            columns = np.concatenate([matrix, -slopes], axis=2)[fitted]
            start = np.concatenate([self.nominal, np.zeros(units.size)])
            wanted = (effort - np.einsum('mnk,k->mn', slopes, number))[fitted]
            both = self.solved(columns, wanted, start)
            base, number = both[: base.size], both[base.size :]
        return np.asarray(number * units)


_RANK = 1e-12
"""Eigenvalues of the scaled normal equations, by the largest, that are rounding."""

_ROUNDS = 4
"""Rounds in which a change and the parameters are found, one beside the other."""
