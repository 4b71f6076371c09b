# SPDX-License-Identifier: Apache-2.0
"""
Play of joints, between the motor and the link whose position is measured.

Whether a joint has play is asked where rollouts without it have converged: rollouts with a few
widths show which joints could have some.  It stays where it lowers the joint's error on blocks of
the recordings from which it was not estimated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from ..support.progress import no_progress, Progress
from .fit import fit, ServoFit
from .parameters import FreeParameters, PLAY, ServoParameters
from .rollouts import Rollouts
from .settings import ServoSettings


@dataclass(frozen=True)
class PlayConstants:
    """Constants of the search for play."""

    widths: tuple[float, ...] = (0.004, 0.01, 0.02, 0.04)
    """Plays that are tried [rad or m]."""
    damping_share: float = 0.1
    """Damping within a play that is tried, by the joint's viscous friction."""
    least_damping: float = 0.01
    """Likewise, by the gain kp, of a joint without viscous friction [s]."""
    rounds: int = 3
    """Largest number of rounds in which they are tried, by fewer joints each."""
    promising: float = 0.85
    """Ratio of a joint's errors with and without play below which play is estimated."""
    pays: float = 0.85
    """Ratio of a joint's errors on blocks that judge below which its play stays."""
    block_time: float = 1.0
    """Length of the blocks, every second one of which judges [s]."""
    steps: tuple[int, int] = (3, 5)
    """Largest numbers of steps of an estimate that is judged, and of the last one."""
    white: float = 0.3
    """Correlation of neighbouring errors up to which they are noise, of which none is play's."""
    difference: float = 0.3
    """Finite differences of play in its scales: it acts by impacts, which small ones miss."""


PLAYS = PlayConstants()


class PlayRollouts(Rollouts):
    """
    Errors of rollouts with play, whose derivatives by other parameters are taken as known.

    Parameters
    ----------
    without, free:
        The errors without play, of which the Jacobian is known, and the free parameters, those of
        play last.
    used:
        (n_samples,) True for samples that act; other errors are 0.

    """

    tolerance = 1.0

    def __init__(self, without: Rollouts, free: FreeParameters, used: np.ndarray) -> None:
        super().__init__(without.model, without.recordings, free, without.changes)
        assert without.latest is not None  # it has been fitted
        self.known, self.used = without.latest, used

    def error(self, vector: np.ndarray) -> np.ndarray:
        """Return errors of simulated positions, 0 where they do not act."""
        return np.asarray(super().error(vector) * self.used[:, None])

    def jacobian(self, vector: np.ndarray) -> np.ndarray:
        """Return the derivative of `error`, in which only the columns of play are new."""
        first = self.known.shape[-1]
        groups = [columns for columns in self.colours if columns[0] >= first]
        new = self.columns(vector, groups, PLAYS.difference)[..., first:]
        return np.concatenate((self.known, new), axis=-1) * self.used[:, None, None]


def with_play(
    rollouts: Rollouts,
    found: ServoFit,
    settings: ServoSettings,
    *,
    progress: Progress = no_progress,
) -> ServoFit:
    """
    Return the estimate with play of the joints whose play pays, or the one that is given.

    Parameters
    ----------
    rollouts, found:
        Errors without play, and the estimate from them.
    settings:
        Of the servos.
    progress:
        Called with the share that is done, and what is being done.

    """
    measured = rollouts.error(found.vector / rollouts.scale)
    progress(0.1, 'play')
    blocks = rollouts.blocks(PLAYS.block_time)
    used = blocks % 2 == 0
    start = _promising(rollouts, found.parameters, measured, blocks)
    while start.playing:
        progress(0.4, 'play')
        tried = _fitted(rollouts, start, used, settings, PLAYS.steps[0])
        rollouts.rollouts += tried.rollouts
        vector = tried.vector
        judged = PlayRollouts(rollouts, tried.free, ~used)
        after = judged.error(vector / judged.scale)
        rollouts.rollouts += judged.rollouts
        ratio = _ratio(after[~used], measured[~used], blocks[~used])
        kept = [j for j in start.playing if ratio[j] < PLAYS.pays]
        if len(kept) == len(start.playing):
            progress(0.7, 'play')
            last = _fitted(
                rollouts, tried.parameters, np.ones_like(used), settings, PLAYS.steps[1]
            )
            return replace(
                last,
                free=replace(last.free, base=found.free.base),
                rollouts=rollouts.rollouts + last.rollouts,
                std=np.maximum(last.std, _resolution(last.free, rollouts.changes)),
            )
        start = start.with_play(kept)
    return replace(found, rollouts=rollouts.rollouts)


def _promising(
    rollouts: Rollouts, parameters: ServoParameters, measured: np.ndarray, blocks: np.ndarray
) -> ServoParameters:
    """Return parameters with the plays, one of those tried each, that lower a joint's error."""
    neighbours = np.sum(measured[1:] * measured[:-1], axis=0) / np.sum(measured**2, axis=0)
    coloured = neighbours > PLAYS.white
    none = parameters.without_play()
    if not coloured.any():
        return none
    gains = rollouts.model.stiffness * parameters.stiffness
    damping = np.maximum(
        PLAYS.damping_share * parameters.viscous,
        PLAYS.damping_share * PLAYS.least_damping * gains,
    )
    playing, widths = coloured, np.array(PLAYS.widths)
    for _ in range(PLAYS.rounds):
        sets = [
            replace(none, play=np.where(playing, width, 0.0), play_damping=playing * damping)
            for width in widths
        ]
        ratios = np.array([_ratio(each, measured, blocks) for each in rollouts.errors_of(sets)])
        # the play of one joint disturbs the others, until those without it are left out
        kept = playing & (ratios.min(axis=0) < 1.0)
        if not kept.any() or (kept == playing).all():
            break
        playing = kept
    joints = np.flatnonzero(kept & (ratios.min(axis=0) < PLAYS.promising))
    start = replace(none, play=widths[ratios.argmin(axis=0)], play_damping=damping)
    return start.with_play(joints.tolist())


def _fitted(
    rollouts: Rollouts,
    start: ServoParameters,
    used: np.ndarray,
    settings: ServoSettings,
    steps: int,
) -> ServoFit:
    """Return the estimate with play from a start by a number of steps, from some samples."""
    free = FreeParameters(
        rollouts.free.kinds + PLAY, start, rollouts.free.joints, rollouts.free.bus, start.playing
    )
    return fit(PlayRollouts(rollouts, free, used), settings, steps=steps)


def _resolution(free: FreeParameters, changes: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return (p,) differences by which play was sought, no better than which it is known."""
    return PLAYS.difference * free.vector(lambda kind: changes[kind] if kind in PLAY else 0.0)


def _ratio(after: np.ndarray, before: np.ndarray, blocks: np.ndarray) -> np.ndarray:
    """Return (n,) ratios of root mean squares, without the block that speaks most for play."""
    numbers = np.unique(blocks, return_inverse=True)[1]
    squares = np.zeros((2, numbers.max(initial=0) + 1, after.shape[1]))
    for sums, errors in zip(squares, (after, before), strict=True):
        np.add.at(sums, numbers, errors**2)
    best = (squares[1] - squares[0]).argmax(axis=0)[None, None]
    rest = squares.sum(axis=1) - np.take_along_axis(squares, best, axis=1)[:, 0]
    return np.asarray(np.sqrt(rest[0] / np.maximum(rest[1], 1e-300)))
