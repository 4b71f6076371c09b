# SPDX-License-Identifier: Apache-2.0
"""
Saturation: efforts that stay at a level, whatever the motion asks for.

Around its largest value a smooth signal stays, within a thin layer, about 2.4 times as long as in
the layer below it, as a parabola does; at the limit of a drive it stays there, and crosses the
next layer quickly.  No layer is thinner than the resolution of the effort, so that efforts in
steps are not taken for limited ones; thick layers find a limit with noise on it.  Dry friction
stays at a level, too, but has the sign of the velocity: a limit is met in both directions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ..data.recording import Recording


@dataclass(frozen=True)
class SaturationCriteria:
    """Constants of the search for limited efforts."""

    layers: tuple[float, ...] = (1e-6, 0.005, 0.01, 0.02, 0.04)
    """Thickness of a layer by the range of the effort."""
    thickest: float = 0.1
    """The same above which the resolution hides a limit."""
    fine: float = 0.001
    """Resolution by the range below which equal efforts in a row are no steps."""
    braking: float = 0.1
    """Share of such samples with a velocity of the other sign, below which it is friction."""
    longer: float = 8.0
    """Times as long in the first layer as in the second, above which an effort is limited."""
    run: int = 4
    """Samples in a row in the first layer."""
    share: float = 0.003
    """Share of samples in such runs during motion that is too much."""
    noisy: float = 0.01
    """The same in thick layers."""
    moving: float = 0.1
    """Speed, by its root mean square, above which a joint moves."""
    window: float = 0.04
    """Time over which speeds are taken [s]."""
    both: float = 0.02
    """Share of samples at the same level on both sides that is too much, motion or not."""


SATURATION = SaturationCriteria()


@dataclass(frozen=True)
class Saturation:
    """
    Effort that is limited.

    Attributes
    ----------
    level:
        Limit [N m or N].
    share:
        Of the samples.
    runs:
        Such times: recording by its number, first and last stamp [s].
    exact:
        Whether it is exactly the same, though efforts have no or fine steps: a limit whatever
        the motion is.

    """

    level: float
    share: float
    runs: tuple[tuple[int, float, float], ...]
    exact: bool

    @property
    def longest(self) -> tuple[int, float, float]:
        """The longest of these times."""
        return max(self.runs, key=lambda run: run[2] - run[1])


def saturation(recordings: Sequence[Recording], joint: int) -> Saturation | None:
    """Return where the effort of a joint, by its column, is limited; None where it is not."""
    found = (_in_layers(recordings, joint, share) for share in SATURATION.layers)
    return next((each for each in found if each is not None), None)


def layers(recordings: Sequence[Recording], joint: int) -> Iterator[EffortLayers]:
    """Iterate over thick layers at a joint's largest efforts of both signs in which it moves."""
    for share in SATURATION.layers[1:]:
        for sign in (1.0, -1.0):
            side = EffortLayers.of(recordings, joint, sign, share)
            if not side.thick and side.share(moving=True) > SATURATION.noisy:
                yield side


def _in_layers(recordings: Sequence[Recording], joint: int, share: float) -> Saturation | None:
    """Return where the effort of a joint is limited, by layers of a share of its range."""
    sides = [EffortLayers.of(recordings, joint, sign, share) for sign in (1.0, -1.0)]
    for side in sides:
        enough = side.share(moving=True) > SATURATION.share
        if enough and side.limited(moving=True) and not side.friction:
            return side.found(moving=True)
    # a joint that hangs at its limit hardly moves: a limit is the same on both sides
    alike = abs(sides[0].level - sides[1].level) <= 2.0 * max(each.layer for each in sides)
    more, less = sorted(sides, key=lambda each: -each.share(moving=False))
    shares = [each.share(moving=False) for each in (more, less)]
    enough = shares[0] > SATURATION.both and shares[1] > SATURATION.share / 2.0
    limited = all(each.limited(moving=False) for each in sides)
    return more.found(moving=False) if alike and limited and enough else None


@dataclass(frozen=True)
class EffortLayers:
    """
    Largest efforts of one sign, in two layers.

    Attributes
    ----------
    sign, level, layer:
        The sign, the largest effort times it, and how thick a layer is.
    at, moving, braking:
        By recording, whether samples are in runs in the first layer, whether the joint moves, and
        whether it moves against the effort.
    below:
        By recording, whether samples are in the second layer.
    thick:
        Whether the resolution hides a limit.
    exact:
        Whether they are exactly the same, though efforts have no steps, or fine ones.
    times:
        Stamps by recording [s].

    """

    sign: float
    level: float
    layer: float
    at: tuple[np.ndarray, ...]
    moving: tuple[np.ndarray, ...]
    braking: tuple[np.ndarray, ...]
    below: tuple[np.ndarray, ...]
    thick: bool
    exact: bool
    times: tuple[np.ndarray, ...]

    @classmethod
    def of(
        cls, recordings: Sequence[Recording], joint: int, sign: float, share: float
    ) -> EffortLayers:
        """Return the largest efforts of recordings."""
        efforts = [sign * each.effort[:, joint] for each in recordings]
        level = max(float(each.max()) for each in efforts)
        spread = level - min(float(each.min()) for each in efforts)
        resolution = _resolution(efforts)
        layer = max(resolution, share * spread)
        exact = resolution < SATURATION.fine * spread and share == SATURATION.layers[0]
        first = [each > level - layer for each in efforts]
        below = [(each > level - 2.0 * layer) & ~top for each, top in zip(efforts, first)]
        at = tuple(map(_in_runs, first))
        thick = not 0.0 < layer < SATURATION.thickest * spread
        times = tuple(each.time for each in recordings)
        speeds = [sign * _speed(each, joint) for each in recordings]
        slow = [SATURATION.moving * np.sqrt((speed**2).mean()) for speed in speeds]
        moving = tuple(np.abs(speed) > least for speed, least in zip(speeds, slow))
        braking = tuple(speed < -least for speed, least in zip(speeds, slow))
        return cls(sign, level, layer, at, moving, braking, tuple(below), thick, exact, times)

    @property
    def friction(self) -> bool:
        """True where the joint hardly ever moves against these efforts, which differ, too."""
        if self.exact:
            return False
        against = sum(int((at & b).sum()) for at, b in zip(self.at, self.braking))
        moves = sum(int((at & m).sum()) for at, m in zip(self.at, self.moving))
        return against < SATURATION.braking * moves

    def limited(self, *, moving: bool) -> bool:
        """Return whether the effort stays in the first layer longer than smooth signals do."""
        count, below = (self._count(each, moving=moving) for each in (self.at, self.below))
        # a few samples in a layer are chance, unless they are exactly the same
        below += 0 if self.exact else SATURATION.run
        return not self.thick and count > SATURATION.longer * below

    @property
    def ratio(self) -> float:
        """Time in the first layer by that in the second, while the joint moves."""
        below = self._count(self.below, moving=True)
        return self._count(self.at, moving=True) / max(SATURATION.run, below)

    def share(self, *, moving: bool) -> float:
        """Return the share of samples in the first layer, those that move or all of them."""
        return self._count(self.at, moving=moving) / max(1, sum(map(len, self.at)))

    def _count(self, rows: tuple[np.ndarray, ...], *, moving: bool) -> int:
        """Count rows, those that move or all of them."""
        counted = (at & moves if moving else at for at, moves in zip(rows, self.moving))
        return sum(int(each.sum()) for each in counted)

    def found(self, *, moving: bool) -> Saturation:
        """Return where the effort is limited."""
        runs = tuple(
            (place, float(time[a]), float(time[b - 1]))
            for place, (time, at) in enumerate(zip(self.times, self.at))
            for a, b in _runs(at)
        )
        level = self.sign * (self.level - 0.5 * self.layer)
        return Saturation(level, self.share(moving=moving), runs, self.exact)


def _resolution(efforts: Sequence[np.ndarray]) -> float:
    """Return the step in which efforts are measured; 0 where they have none."""
    values = np.unique(np.concatenate(efforts))
    if len(values) < 2 or len(values) > 0.2 * sum(map(len, efforts)):
        return 0.0  # nearly every sample is another one
    return 1.01 * float(np.median(np.diff(values)))


def _runs(at: np.ndarray) -> Iterator[tuple[int, int]]:
    """Iterate over first and after the last of rows in a row."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], at.astype(np.int8), [0]])))
    yield from ((int(a), int(b)) for a, b in edges.reshape(-1, 2))


def _in_runs(at: np.ndarray) -> np.ndarray:
    """Return which rows are among enough others; noise may take some of them out."""
    reach = SATURATION.run - 1
    near = np.convolve(at, np.ones(2 * reach + 1))[reach : reach + len(at)]
    return np.asarray(at & (near >= SATURATION.run))


def _speed(recording: Recording, joint: int) -> np.ndarray:
    """Return (n,) speeds of a joint, the lower one of before and after [rad/s or m/s]."""
    position, time = recording.position[:, joint], recording.time
    step = float(np.median(np.diff(time))) if len(time) > 1 else 1.0
    half = max(1, round(0.5 * SATURATION.window / step))
    rows = np.arange(len(time))
    before, after = np.maximum(rows - half, 0), np.minimum(rows + half, len(time) - 1)
    speeds = [
        (position[b] - position[a]) / np.maximum(time[b] - time[a], step)
        for a, b in ((before, rows), (rows, after))
    ]
    return np.where(np.abs(speeds[0]) < np.abs(speeds[1]), *speeds)
