# SPDX-License-Identifier: Apache-2.0
"""
Tells from the residuals of a running identification that the robot has changed, and in what.

Three things are told apart: a payload, which adds to the last link's ten inertial parameters;
friction of one joint; and a collision, which is short and explained by neither.

*The test.*  Over a window, each hypothesis h has k_h parameters that may have changed, and
explains ``Q_h = S^T M^-1 S`` of the squared residuals (see `scores`), each joint's counted by its
usual variance.  Were residuals white, Q_h would be chi-square with k_h degrees of freedom.  They
are not: windows of the filter overlap, and what the model does not know comes and goes slowly.  So
the usual ``c_h``, the mean of Q_h / k_h, is learned from windows without change, and

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
from dataclasses import replace
import math

import numpy as np

from ..errors import ModelError
from ..model.parameters import body_links
from .change import (
    Carried,
    Change,
    ChangeSettings,
    COLLISION,
    FRICTION,
    PAYLOAD,
    Spike,
    UNEXPLAINED,
)
from .change_statistics import (
    Baseline,
    BATCHES,
    change_of,
    ChangeColumns,
    Learner,
    Scores,
    total,
)
from .identifier import OnlineIdentifier, Update

_EXPLAINED = 0.5
_PER_WINDOW = 8  # samples of a filter's window that are looked at: the others tell nothing new


class ChangeDetector:
    """
    Watches the updates of an identifier.

    Its memory and its time a sample do not grow.  A running estimate would follow a change, and so
    hide it.  Frozen (`OnlineIdentifier.freeze`), it does not; where it goes on learning, residuals
    are those of the estimate that there was after the setting `settle`, which has to have
    converged by then, and after `relearn`.  That of the identifier is then a mixture of the robot
    before and after a change.

    Parameters
    ----------
    identifier:
        Makes the updates.
    settings:
        See `ChangeSettings`.
    link:
        Whose inertial parameters a payload adds to; the last one where None.

    Raises
    ------
    ModelError
        where the model does not have the ten inertial parameters of the link.

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
        self._joints = identifier.joints
        links = body_links(identifier.structure.layout)
        if not links or (link is not None and link not in links):
            raise ModelError(
                f"the model does not have the ten inertial parameters of link '{link}'",
                link=link,
                remedy='name a link of the model',
            )
        self._link = links[-1] if link is None else link
        self._columns = ChangeColumns(
            identifier.pattern, identifier.structure, self._joints, self._link
        )
        self._pattern, self._n = identifier.pattern, len(self._joints)
        self._step = identifier.step
        # half for windows, half for single samples [1/s]
        self._rate = 0.5 * self._settings.false_alarms / 3600.0
        self._taps = identifier.taps
        self._ahead = math.ceil(identifier.lag / self._step)
        self._stride = max(1, self._taps // _PER_WINDOW)
        quarter = self._settings.window / BATCHES
        self._batch_samples = max(1, round(quarter / (self._stride * self._step)))
        self._quarter = self._batch_samples * self._stride * self._step
        self.relearn()

    @property
    def usual(self) -> Baseline | None:
        """Baseline of the residuals; None while it is being learned."""
        return self._usual

    @property
    def settling(self) -> bool:
        """True while the reference estimate settles."""
        return not self._identifier.frozen and self._reference is None

    @property
    def learning(self) -> float:
        """Share of the learning that is done."""
        if self._usual is not None:
            return 1.0
        wanted = self._settings.learning / self._quarter
        return min(1.0, len(self._learner.parts) / wanted)

    @property
    def change(self) -> Change | None:
        """The lasting change that there is, by all residuals since it began."""
        return self._change

    def relearn(self) -> None:
        """Forget everything; learn what is usual anew."""
        self._reference: np.ndarray | None = None
        self._in_motion = 0
        self._usual: Baseline | None = None
        self._learner = Learner(self._n)
        k, f = self._columns.widths
        self._normal_payload, self._normal_friction = np.zeros(k), np.zeros((self._n, f))
        self._normal = False
        self._carried: Carried | None = None
        self._begin()

    def accept(self) -> None:
        """Take the lasting change for the new normal, and watch for the next one."""
        change = self._change
        if change is not None and change.kind == PAYLOAD:
            assert self._usual is not None
            sums = self._changed.weighed_payload(self._usual.precision)
            self._carried = Carried(self._normal_payload, *sums)
            self._normal_payload = self._normal_payload + change.values
            self._normal = True
        elif change is not None and change.kind == FRICTION:
            joint = self._joints.index(change.name)
            self._normal_friction[joint, : change.values.size] += change.values
            self._normal = True
        elif change is not None:
            self.relearn()
        self._begin()

    def _begin(self) -> None:
        """Watch for the next change."""
        self._change: Change | None = None
        self._recent: deque[Scores] = deque(maxlen=BATCHES)
        self._normals: deque[np.ndarray] = deque(maxlen=BATCHES)
        self._held: deque[Update] = deque()
        self._steady = np.zeros(self._n, dtype=int)
        self._waiting = 0
        self._spike: Spike | None = None
        self._count = 0
        self._since = np.nan
        self._batch = self._zero()
        self._changed = self._zero()

    def _zero(self) -> Scores:
        return Scores.zero(self._n, *self._columns.widths)

    # ---------------------------------------------------------------------------------- residuals

    def push(self, update: Update) -> Change | None:
        """
        Take an update.

        Returns
        -------
        Change or None
            A change that was found just now; `change` follows it from then on.

        """
        if self.settling:
            self._settle(update)
            return None
        settled = self._settled(update)
        if settled is None:
            return None
        update, kept = settled
        self._count += 1
        looked_at = self._count % self._stride == 0
        residual = self._residual(update)
        if looked_at or self._normal:
            payload, friction = self._columns(update.entries)
            if self._normal:
                residual = residual - payload @ self._normal_payload
                residual = residual - np.sum(friction * self._normal_friction, axis=1)
        if self._usual is None:
            self._learner.watch(residual, kept)
        elif self._change is None:
            self._watch_level(residual, kept, update.stamp)
        if not looked_at:
            return None
        self._batch.add(payload, friction, residual, kept)
        if self._batch.samples < self._batch_samples:
            return None
        batch, self._batch = self._batch, self._zero()
        return self._take(batch, update.stamp)

    def _settle(self, update: Update) -> None:
        """Keep the estimate once it has learned long enough."""
        self._in_motion += bool(update.moving.any())
        settle = self._settings.settle
        if settle is not None and self._in_motion * self._step >= settle:
            self._reference = update.values.copy()

    def _residual(self, update: Update) -> np.ndarray:
        """(n,) what the estimate that changes are held against leaves of the effort."""
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
            turned = (update.velocity > 0.0) != (held[-1].velocity > 0.0)
            self._steady[turned] = 0
        self._steady += 1
        self._steady[~update.moving] = 0
        held.append(update)
        if len(held) <= self._ahead:
            return None
        return held.popleft(), self._steady > self._taps

    def _watch_level(self, residual: np.ndarray, kept: np.ndarray, stamp: float) -> None:
        assert self._usual is not None
        ratios = np.abs(residual) * kept / self._usual.level
        j = int(np.argmax(ratios))
        if ratios[j] > 1.0 and (self._spike is None or ratios[j] > self._spike.ratio):
            self._spike = Spike(float(ratios[j]), stamp, j, float(residual[j]))

    def _take(self, batch: Scores, stamp: float) -> Change | None:
        """Take a quarter of a window."""
        if self._usual is None:
            if batch.rows.any():
                self._learner.parts.append(batch)
            if self.learning >= 1.0 and len(self._learner.parts) >= 2 * BATCHES:
                self._usual = self._learner.usual(self._rate / self._n, self._step)
                self._learner = Learner(self._n)
            return None
        if self._change is not None:
            self._follow(batch, stamp)
            return None
        self._recent.append(batch)
        self._normals.append(self._normal_payload)
        if self._waiting:
            self._waiting -= 1
            return None if self._waiting else self._decide(stamp)
        full = len(self._recent) == BATCHES
        if full and (self._spike is not None or self._speaks(list(self._recent)).any()):
            self._waiting = BATCHES - 1
            self._since = stamp - self._quarter
        elif full and self._carried is not None:
            # what has been beyond doubt for a whole window
            self._normal_payload = self._carried.add(
                self._recent[0], self._normals[0], self._usual.precision
            )
        return None

    def _speaks(self, parts: list[Scores]) -> np.ndarray:
        """(1 + n,) bool, the hypotheses that residuals speak for: payload and each friction."""
        assert self._usual is not None
        return self._usual.exceeded(total(parts), self._rate * self._quarter)

    def _decide(self, stamp: float) -> Change | None:
        """Say what has happened, three quarters after the first sign of it."""
        usual, spike = self._usual, self._spike
        assert usual is not None
        late = total(list(self._recent)[1:])
        self._spike = None
        exceeded = self._speaks(list(self._recent)[1:])
        if not exceeded.any():
            if spike is None:
                return None
            return self._collision(spike, stamp)
        explained, ranks = late.explained(usual.precision)
        gain = explained - usual.inflation * ranks * math.log(max(2.0, late.rows.sum()))
        best = int(np.argmax(np.where(exceeded, gain, -np.inf)))
        excess = float(usual.precision @ late.energy - late.rows[usual.precision > 0.0].sum())
        kind = PAYLOAD if best == 0 else FRICTION
        if explained[best] < _EXPLAINED * excess:
            kind = UNEXPLAINED
            share = usual.precision * late.energy / np.maximum(late.rows, 1.0)
            best = 1 + int(np.argmax(share))
        self._changed = late
        self._change = self._described(kind, best, stamp)
        return self._change

    def _collision(self, spike: Spike, stamp: float) -> Change:
        none = np.zeros(0)
        return Change(
            kind=COLLISION,
            name=self._joints[spike.joint],
            since=spike.stamp,
            stamp=stamp,
            size=spike.size,
            std=float('nan'),
            parameters=(),
            values=none,
            covariance=none.reshape(0, 0),
        )

    def _follow(self, batch: Scores, stamp: float) -> None:
        """Take later residuals into account, too."""
        change = self._change
        assert change is not None
        self._changed = self._changed + batch
        best = 0 if change.kind == PAYLOAD else 1 + self._joints.index(change.name)
        self._change = replace(self._described(change.kind, best, stamp), since=change.since)
        patience = self._settings.accept_after
        if patience is not None and stamp - change.since > patience:
            self.accept()

    def _described(self, kind: str, best: int, stamp: float) -> Change:
        """Return the change by the residuals since it began."""
        usual, sums, joint = self._usual, self._changed, best - 1
        assert usual is not None
        if kind == PAYLOAD:
            name, parameters = self._link, self._columns.payload
            values, covariance = change_of(*sums.weighed_payload(usual.precision))
            size, direction = float(values[0]), np.eye(values.size)[0]
        else:
            name, parameters = self._joints[joint], self._columns.friction[joint]
            f = len(parameters)
            whole, right = sums.friction[joint, :f, :f], sums.friction_right[joint, :f]
            values, covariance = change_of(whole, right)
            covariance = covariance / max(usual.precision[joint], 1e-300)
            # the change at the RMS of the columns, offset and viscous part against each other
            mean = np.sqrt(np.diag(whole) / max(sums.rows[joint], 1.0))
            signs = np.array([not parameter.endswith('.off') for parameter in parameters])
            direction = mean * signs
            size = float(direction @ values)
        covariance = usual.inflation[best] * covariance
        std = float(np.sqrt(max(0.0, direction @ covariance @ direction)))
        if kind == UNEXPLAINED:
            size, std = math.sqrt(sums.energy[joint] / max(sums.rows[joint], 1.0)), float('nan')
        return Change(kind, name, self._since, stamp, size, std, parameters, values, covariance)
