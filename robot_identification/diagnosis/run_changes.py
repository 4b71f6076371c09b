# SPDX-License-Identifier: Apache-2.0
"""
Changes of a robot for some time: a load on a last link, or a brake that drags at a joint.

Both are parameters more in a run of windows: ten of a body, whose columns are those of the link
that bears it, or two of friction.  Fitted together with the parameters of the robot, which stay,
they tell a load or a brake from what nothing of the kind explains, and say the mass.  A load that
is too small to stand out by a residual of several times the usual one shows by the gain of that
fit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .run_search import Ends, KeptWindows, RUN
from .time_windows import FreeFit, residual_of


@dataclass(frozen=True)
class ChangeCriteria:
    """Constants of what explains a run."""

    decisive: float = 50.0
    """Gain above which a change explains it: ten parameters gain by chance, too [nats]."""
    explained: float = 1.5
    """Residual of the run by that of the other times, up to which nothing else is in it."""
    significant: float = 3.0
    """Deviations from zero above which a mass or a friction is said."""
    less: float = 0.2
    """Share of all windows up to which less load is rather a contact that bears some weight."""


CHANGE = ChangeCriteria()


@dataclass(frozen=True)
class RunChange:
    """
    Parameters more in a run of windows.

    Attributes
    ----------
    kind:
        ``load`` or ``brake``.
    begin, end:
        Windows, to before the last one.
    owner:
        Link that bears a load, or joint with friction.
    size, deviation:
        Mass [kg] or Coulomb friction [N m or N] more than in the other times, negative where only
        these have it, and its standard deviation.
    gain:
        Of the likelihood by it [nats].
    inside, outside:
        (n,) relative residuals with it, in the run and elsewhere.

    """

    kind: str
    begin: int
    end: int
    owner: str
    size: float
    deviation: float
    gain: float
    inside: np.ndarray
    outside: np.ndarray

    @classmethod
    def of(
        cls,
        among: KeptWindows,
        ends: Ends,
        kind: str,
        owner: str,
        columns: np.ndarray,
        rounds: int = 3,
    ) -> RunChange:
        """
        Fit the robot to all windows, and more parameters to some of them.

        Parameters
        ----------
        among, ends:
            Windows, and those with more parameters.
        kind, owner, columns:
            Of these, (p, k) to combinations; the first one is the size.
        rounds:
            Fits between which joints are weighed again.

        """
        inside = among.windows.grams[slice(*ends)].sum(axis=0)
        counts = among.windows.counts[slice(*ends)].sum(axis=0)
        p, k = columns.shape
        # columns as long as if all windows had them
        total = np.tensordot(among.together.weights, among.gram, axes=1)[:p, :p]
        length = np.sqrt(np.einsum('pi,pq,qi->i', columns, total, columns) / np.trace(total))
        unit = np.divide(1.0, length, out=np.zeros_like(length), where=length > 0.0)
        within = _extended(inside, inside, columns * unit)
        gram = _extended(among.gram, inside, columns * unit)
        fit = FreeFit.of(gram, among.counts, among.together.weights, rounds)
        floor = RUN.floor**2
        logs = np.log((among.together.residual**2 + floor) / (fit.residual**2 + floor))
        # residuals are not white: each joint counts for a few rows
        rows = max(1.0, float(among.counts[among.joints].mean()) / RUN.independent)
        variance = rows * float(fit.inverse[p, p]) * unit[0] ** 2
        return cls(
            kind,
            *ends,
            owner,
            size=float(fit.parameters[p] * unit[0]),
            deviation=float(np.sqrt(max(variance, 0.0))),
            gain=0.5 * RUN.independent * float(logs[among.joints].sum()),
            inside=residual_of(within, counts, fit.parameters) * (counts >= RUN.fewest),
            outside=residual_of(gram - within, among.counts - counts, fit.parameters),
        )

    @property
    def significant(self) -> bool:
        """True where its size is not zero."""
        return abs(self.size) > CHANGE.significant * self.deviation > 0.0

    @property
    def explains(self) -> bool:
        """True where its size is not zero, and nothing is left of the run."""
        left = np.hypot(self.inside, RUN.floor) / np.hypot(self.outside, RUN.floor)
        gains = self.gain > CHANGE.decisive and self.significant
        gains &= bool(np.median(self.outside) < RUN.unexplained)
        return gains and bool(left.max() < CHANGE.explained)


def _extended(gram: np.ndarray, inside: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Return (n, p + k + 1, p + k + 1) Gram matrices with columns that act inside of a run."""
    p, k = columns.shape
    old, new = [*range(p), p + k], slice(p, p + k)
    further = inside[..., :p] @ columns
    found = np.empty((len(gram), p + k + 1, p + k + 1))
    found[:, np.array(old)[:, None], old] = gram
    found[:, old, new] = further
    found[:, new, old] = further.transpose(0, 2, 1)
    found[:, new, new] = columns.T @ further[:, :p]
    return found


def load_in(among: KeptWindows, ends: Ends) -> RunChange | None:
    """
    Return the load that explains a run; None where none does.

    Less load for a while, between times with it or at an end, is rather a contact that bears some
    weight.
    """
    found = _best(among, ends, 'load')
    if found is None or not found.explains:
        return None
    short = ends[1] - ends[0] < CHANGE.less * among.kept.sum()
    return None if found.size < 0.0 and (short or not among.at_end(ends)) else found


def brake_in(among: KeptWindows, ends: Ends) -> RunChange | None:
    """Return the joint whose friction explains a run, larger there; None where none does."""
    found = _best(among, ends, 'brake')
    return found if found is not None and found.explains and found.size > 0.0 else None


def largest_load(among: KeptWindows) -> RunChange | None:
    """Return the load that explains most, wherever it is; None where there is none."""
    gains: dict[Ends, float] = {}

    def gain(ends: Ends) -> float:
        if ends not in gains:
            found = _best(among, ends, 'load', rounds=1)
            gains[ends] = found.gain if found is not None else 0.0
        return gains[ends]

    ends = among.best(gain)
    return load_in(among, ends) if ends is not None else None


def _best(among: KeptWindows, ends: Ends, kind: str, rounds: int = 3) -> RunChange | None:
    """Return the change of a run that gains most; None without any."""
    owners = among.windows.bodies if kind == 'load' else among.windows.drives
    fits = (RunChange.of(among, ends, kind, *each, rounds) for each in owners.items())
    return max(fits, key=lambda each: each.gain, default=None)
