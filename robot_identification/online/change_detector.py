# SPDX-License-Identifier: Apache-2.0
"""
Detection of changes of the robot from the residuals of a running identification.

Three changes are distinguished: a payload, which adds to the last link's ten inertial parameters;
friction of one joint; and a collision, which is short and explained by neither.

*The test.*  Over a window, each hypothesis h has k_h parameters that may have changed, and
explains ``Q_h = S^T M^-1 S`` of the squared residuals (see `change_statistics`), each joint's
divided by its variance without a change.  Were residuals white, Q_h would be chi-square with k_h
degrees of freedom.  They are not: windows of the filter overlap, and model errors change slowly.
So ``c_h``, the mean of Q_h / k_h, is learned from windows without change, and

    F = Q_h / (k_h c_h)

is held against the F distribution with k_h and nu degrees of freedom, nu the number of separate
windows that c_h was learned from.  Windows move on by a quarter of their length; with H
hypotheses, a test that is exceeded with the probability ``rate / 2 * quarter / H`` gives at most
``rate / 2`` false alarms in all.

*Spikes.*  A Gaussian residual of standard deviation s crosses the level u s, up or down, ``2 nu_0
exp(-u^2 / 2)`` times a second (Rice), with nu_0 its rate of upward zero crossings, learned too.
The level is set for the other half of the rate, shared by the joints, but not below 1.2 times what
was met while learning.

*The decision.*  After the first quarter in which a test or a level is exceeded, three more are
waited for.  Where a test over these three is exceeded, the change lasts: it is the hypothesis that
explains most, with ``c_h k_h log(rows)`` counted against its k_h parameters (Schwarz), unless that
is less than half of what there is to explain.  Where none is, but a level was, it was a collision.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
import math
from typing import NamedTuple

import numpy as np

from ..errors import ModelError
from ..model.parameters import body_links
from ..options.fields import option
from .change_statistics import (
    Baseline,
    BaselineLearner,
    BATCHES,
    change_of,
    ChangeColumns,
    Scores,
    total,
)
from .identifier import OnlineIdentifier, Update

_EXPLAINED = 0.5  # of the excess, below which neither a payload nor friction explains it
_PER_WINDOW = 8  # samples of a filter's window that are used: others add no information


@dataclass(frozen=True)
class ChangeSettings:
    """Settings of the change detection on the residuals of an online identification."""

    false_alarms: float = option(
        0.1,
        doc='How often, at most, a change is to be reported where there is none',
        unit='1/h',
        minimum=1e-6,
        maximum=1e3,
    )
    window: float = option(
        1.0,
        doc='Time over which residuals are explained; a change is reported after about this long, '
        'and smaller ones are found the longer it is',
        unit='s',
        minimum=0.05,
    )
    settle: float | None = option(
        30.0,
        doc='Time in motion after which changes are looked for while the estimate goes on '
        'learning: against the estimate of that moment; null: only while it is frozen',
        unit='s',
        minimum=1.0,
    )
    learning: float = option(
        20.0,
        doc='Time in motion over which the usual residuals are learned, at the start; at least '
        'ten windows, with motions like those to come',
        unit='s',
        minimum=0.5,
    )
    accept_after: float | None = option(
        5.0,
        doc='Time after which a lasting change is taken for the new normal, so that the next one '
        'is found; null leaves that to a request',
        unit='s',
        minimum=0.0,
    )


PAYLOAD, FRICTION, COLLISION, UNEXPLAINED = 'payload', 'friction', 'collision', 'unexplained'
"""Kinds of change; the last lasts, but neither payload nor friction explains it."""


@dataclass(frozen=True)
class Change:
    """
    A change of the robot.

    Attributes
    ----------
    kind:
        `PAYLOAD`, `FRICTION`, `COLLISION` or `UNEXPLAINED`.
    name:
        The link that carries the payload, else the joint.
    since:
        When it began, to within a quarter of a window [s].
    stamp:
        Moment of the newest residual that is taken into account [s].
    size, std:
        Mass [kg], change of the friction [N m or N] at the joint's RMS speed, or largest residual
        [N m or N], and its standard deviation; NaN where there is none.
    parameters:
        Names of the k parameters that have changed.
    values:
        (k,) by how much.
    covariance:
        (k, k) of the values.

    """

    kind: str
    name: str
    since: float
    stamp: float
    size: float
    std: float
    parameters: tuple[str, ...]
    values: np.ndarray
    covariance: np.ndarray


class Spike(NamedTuple):
    """The largest residual beyond its level, in multiples of that."""

    ratio: float
    stamp: float
    joint: int
    size: float


class ChangeDetector:
    """
    Detects changes from the updates of an identifier.

    Its memory and its time a sample do not grow.  A running estimate would follow a change, and so
    hide it.  Frozen (`OnlineIdentifier.freeze`), it does not; where it goes on learning, residuals
    are those of the estimate that there was after the setting `settle`, which has to have
    converged by then, and after `relearn`.  That of the identifier is then a mixture of the robot
    before and after a change.

    Parameters
    ----------
    identifier:
        Makes the updates.
    link:
        Whose inertial parameters a payload adds to; the last one where None.

    Raises
    ------
    ModelError
        where the model does not have the ten inertial parameters of the link.

    Attributes
    ----------
    baseline:
        Of the residuals; None while it is being learned.
    change:
        The lasting change that there is, by all residuals since it began.

    """

    def __init__(
        self,
        identifier: OnlineIdentifier,
        settings: ChangeSettings | None = None,
        *,
        link: str | None = None,
    ) -> None:
        self._settings = ChangeSettings() if settings is None else settings
        self._identifier = identifier
        self._joints, self._pattern = identifier.joints, identifier.pattern
        links = body_links(identifier.structure.layout)
        if not links or (link is not None and link not in links):
            raise ModelError(
                f"the model does not have the ten inertial parameters of link '{link}'",
                link=link,
                remedy='name a link of the model',
            )
        self._link = links[-1] if link is None else link
        self._columns = ChangeColumns(
            self._pattern, identifier.structure, self._joints, self._link
        )
        self._n, self._step, self._taps = len(self._joints), identifier.step, identifier.taps
        # half for windows, half for single samples [1/s]
        self._rate = 0.5 * self._settings.false_alarms / 3600.0
        self._ahead = math.ceil(identifier.lag / self._step)
        self._stride = max(1, self._taps // _PER_WINDOW)
        quarter = self._settings.window / BATCHES
        self._batch_samples = max(1, round(quarter / (self._stride * self._step)))
        self._quarter = self._batch_samples * self._stride * self._step
        self.relearn()

    @property
    def settling(self) -> bool:
        """True while the reference estimate settles."""
        return not self._identifier.frozen and self._reference is None

    @property
    def learning(self) -> float:
        """Share of the learning that is done."""
        if self.baseline is not None:
            return 1.0
        return min(1.0, len(self._learner.parts) * self._quarter / self._settings.learning)

    def relearn(self) -> None:
        """Forget everything; learn the baseline again."""
        self._reference: np.ndarray | None = None
        self._in_motion = 0
        self.baseline: Baseline | None = None
        self._learner = BaselineLearner(self._n)
        k, f = self._columns.widths
        self._normal_payload, self._normal_friction = np.zeros(k), np.zeros((self._n, f))
        self._is_offset = False
        # sums without the accepted payload, which goes on being estimated, and what was before it
        self._carried: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None
        self._begin()

    def accept(self) -> None:
        """Take the lasting change for the new normal, and look for the next one."""
        change = self.change
        if change is not None and change.kind == PAYLOAD:
            assert self.baseline is not None
            sums = self._changed.weighed_payload(self.baseline.precision)
            self._carried = (*sums, self._normal_payload)
            self._normal_payload = self._normal_payload + change.values
            self._is_offset = True
        elif change is not None and change.kind == FRICTION:
            joint = self._joints.index(change.name)
            self._normal_friction[joint, : change.values.size] += change.values
            self._is_offset = True
        elif change is not None:
            self.relearn()
        self._begin()

    def _begin(self) -> None:
        """Look for the next change."""
        self.change: Change | None = None
        self._recent: deque[Scores] = deque(maxlen=BATCHES)
        self._normals: deque[np.ndarray] = deque(maxlen=BATCHES)
        self._held: deque[Update] = deque()
        self._steady = np.zeros(self._n, dtype=int)
        self._waiting = self._count = 0
        self._spike: Spike | None = None
        self._since = np.nan
        self._batch, self._changed = self._zero(), self._zero()

    def _zero(self) -> Scores:
        return Scores.zero(self._n, *self._columns.widths)

    # ---------------------------------------------------------------------------------- residuals

    def push(self, update: Update) -> Change | None:
        """Add an update; return a change found just now, which `change` follows from then on."""
        if self.settling:
            self._settle(update)
            return None
        settled = self._settled(update)
        if settled is None:
            return None
        update, kept = settled
        self._count += 1
        is_used = self._count % self._stride == 0
        residual = self._residual(update)
        if is_used or self._is_offset:
            payload, friction = self._columns(update.entries)
            if self._is_offset:
                residual = residual - payload @ self._normal_payload
                residual = residual - np.sum(friction * self._normal_friction, axis=1)
        if self.baseline is None:
            self._learner.watch(residual, kept)
        elif self.change is None:
            ratios = np.abs(residual) * kept / self.baseline.level
            j = int(np.argmax(ratios))
            if ratios[j] > (1.0 if self._spike is None else self._spike.ratio):
                self._spike = Spike(float(ratios[j]), update.stamp, j, float(residual[j]))
        if not is_used:
            return None
        self._batch.add(payload, friction, residual, kept)
        if self._batch.samples < self._batch_samples:
            return None
        batch, self._batch = self._batch, self._zero()
        return self._add(batch, update.stamp)

    def _settle(self, update: Update) -> None:
        """Keep the estimate once it has learned long enough."""
        self._in_motion += bool(update.moving.any())
        settle = self._settings.settle
        if settle is not None and self._in_motion * self._step >= settle:
            self._reference = update.values.copy()

    def _residual(self, update: Update) -> np.ndarray:
        """(n,) what the reference estimate leaves of the effort."""
        if self._reference is None:
            return update.residual
        parts = update.entries * self._reference[self._pattern.places]
        model = np.bincount(self._pattern.rows, parts, minlength=self._n)
        return np.asarray(update.effort - model)

    def _settled(self, update: Update) -> tuple[Update, np.ndarray] | None:
        """
        Return the update whose window is clear of what comes after it, and (n,) which rows count.

        Where a joint turns round or rests within the window, its friction is not known well, and
        its residual is no Gaussian one.
        """
        held = self._held
        if held and update.stamp - held[-1].stamp > 1.5 * self._step:
            held.clear()
            self._steady[:] = 0
        if held:
            self._steady[(update.velocity > 0.0) != (held[-1].velocity > 0.0)] = 0
        self._steady += 1
        self._steady[~update.moving] = 0
        held.append(update)
        if len(held) <= self._ahead:
            return None
        return held.popleft(), self._steady > self._taps

    # ----------------------------------------------------------------------------------- decision

    def _add(self, batch: Scores, stamp: float) -> Change | None:
        """Add a quarter of a window."""
        if self.baseline is None:
            if batch.rows.any():
                self._learner.parts.append(batch)
            if self.learning >= 1.0 and len(self._learner.parts) >= 2 * BATCHES:
                self.baseline = self._learner.baseline(self._rate / self._n, self._step)
                self._learner = BaselineLearner(self._n)
            return None
        if self.change is not None:
            self._follow(self.change, batch, stamp)
            return None
        self._recent.append(batch)
        self._normals.append(self._normal_payload)
        if self._waiting:
            self._waiting -= 1
            return None if self._waiting else self._decide(self.baseline, stamp)
        if len(self._recent) < BATCHES:
            return None
        if self._spike is not None or self._exceeded(list(self._recent)).any():
            self._waiting = BATCHES - 1
            self._since = stamp - self._quarter
        elif self._carried is not None:
            # a whole window without any sign of a change: it improves the accepted payload
            M, S, before = self._carried
            more, right = self._recent[0].weighed_payload(self.baseline.precision)
            M, S = M + more, S + right + more @ (self._normals[0] - before)
            self._carried = M, S, before
            self._normal_payload = before + change_of(M, S)[0]
        return None

    def _exceeded(self, parts: list[Scores]) -> np.ndarray:
        """(1 + n,) bool, the hypotheses that residuals speak for: payload and each friction."""
        assert self.baseline is not None
        return self.baseline.exceeded(total(parts), self._rate * self._quarter)

    def _decide(self, baseline: Baseline, stamp: float) -> Change | None:
        """Return the change, three quarters after the first sign of it; None for none."""
        spike, self._spike = self._spike, None
        parts = list(self._recent)[1:]
        late, exceeded = total(parts), self._exceeded(parts)
        if not exceeded.any():
            return None if spike is None else self._collision(spike, stamp)
        explained, ranks = late.explained(baseline.precision)
        gain = explained - baseline.inflation * ranks * math.log(max(2.0, late.rows.sum()))
        best = int(np.argmax(np.where(exceeded, gain, -np.inf)))
        weighed = baseline.precision * late.energy
        excess = float(weighed.sum() - late.rows[baseline.precision > 0.0].sum())
        kind = PAYLOAD if best == 0 else FRICTION
        if explained[best] < _EXPLAINED * excess:
            kind = UNEXPLAINED
            best = 1 + int(np.argmax(weighed / np.maximum(late.rows, 1.0)))
        self._changed = late
        self.change = self._described(kind, best, stamp)
        return self.change

    def _collision(self, spike: Spike, stamp: float) -> Change:
        joint, none = self._joints[spike.joint], np.zeros(0)
        since, size = spike.stamp, spike.size
        return Change(COLLISION, joint, since, stamp, size, math.nan, (), none, np.zeros((0, 0)))

    def _follow(self, change: Change, batch: Scores, stamp: float) -> None:
        """Describe the change by later residuals, too; accept it after a while."""
        self._changed = self._changed + batch
        best = 0 if change.kind == PAYLOAD else 1 + self._joints.index(change.name)
        self.change = replace(self._described(change.kind, best, stamp), since=change.since)
        accept_after = self._settings.accept_after
        if accept_after is not None and stamp - change.since > accept_after:
            self.accept()

    def _described(self, kind: str, best: int, stamp: float) -> Change:
        """Return the change by the residuals since it began."""
        baseline, sums, joint = self.baseline, self._changed, best - 1
        assert baseline is not None
        if kind == PAYLOAD:
            name, parameters = self._link, self._columns.payload
            values, covariance = change_of(*sums.weighed_payload(baseline.precision))
            size, direction = float(values[0]), np.eye(values.size)[0]
        else:
            name, parameters = self._joints[joint], self._columns.friction[joint]
            f = len(parameters)
            M, S = sums.friction[0][joint, :f, :f], sums.friction[1][joint, :f]
            values, covariance = change_of(M, S)
            covariance = covariance / max(baseline.precision[joint], 1e-300)
            # the change at the RMS of the columns, offset and viscous part against each other
            mean = np.sqrt(np.diag(M) / max(sums.rows[joint], 1.0))
            signs = np.array([not parameter.endswith('.off') for parameter in parameters])
            direction = mean * signs
            size = float(direction @ values)
        covariance = baseline.inflation[best] * covariance
        std = float(np.sqrt(max(0.0, direction @ covariance @ direction)))
        if kind == UNEXPLAINED:
            size, std = math.sqrt(sums.energy[joint] / max(sums.rows[joint], 1.0)), math.nan
        return Change(kind, name, self._since, stamp, size, std, parameters, values, covariance)
