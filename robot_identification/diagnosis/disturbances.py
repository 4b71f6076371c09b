# SPDX-License-Identifier: Apache-2.0
"""
Disturbed times: efforts that no parameters explain together with those of the other times.

A brake, a contact, a load that is picked up, drives that are off, or a recording of another robot
spoil the fit of everything else.  They are looked for before anything is chosen or explained.
Windows in a row count as disturbed where

- by the fit to the other windows their residual at a joint is several times that of these, with
  what this fit does not know of them counted in (the leverage of their rows), and
- the others are fitted better by themselves than together with them, or the first is larger still.

Both are needed: fast motions have larger residuals, and parameters that only they excite, but do
not spoil the fit of slow ones.  Of all windows in a row those are taken that raise the likelihood
most where they have a residual of their own; then the others are searched again.

A joint at rest tells little, since friction or a brake holds it: there only efforts are judged
that are none at any joint, where gravity asks for more than the friction that the fit has found.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ..data.recording import RecordingSource, source_name
from ..errors import one_of
from ..model.robot import Robot
from ..regressor.settings import ModelSettings
from .recording_faults import RecordingFault, TRIM
from .time_windows import FreeFit, residual_of, time_windows, TimeWindows, WINDOWS


@dataclass(frozen=True)
class DisturbanceCriteria:
    """Constants of the search."""

    fewest: int = 8
    """Windows, and samples of a joint that moves, below which nothing is judged."""
    most: float = 0.5
    """Share of all windows that may be disturbed at once."""
    rounds: int = 4
    """Disturbances that are looked for, at most."""
    floor: float = 0.03
    """Relative residual below which models of real robots are not distinguished."""
    independent: float = 100.0
    """Rows that each joint counts for, since residuals are not white."""
    decisive: float = 25.0
    """Gain above which windows are disturbed [nats]."""
    apart: float = 4.0
    """Residual, by the expected one, above which they are where they spoil the others' fit."""
    spoilt: float = 1.4
    """Residual of the others, fitted together with them, by that of their own fit."""
    spoilt_elsewhere: float = 2.0
    """The same at another joint."""
    far_apart: float = 10.0
    """Residual, by the expected one, above which they are in any case."""
    uncertain: float = 5.0
    """Variance of parameters of real robots by what their covariance says."""
    own: float = 0.25
    """Residual by parameters of their own above which these do not explain windows."""
    half: float = 0.34
    """Share of all windows above which it is not known which of two robots is meant."""
    most_of_recording: float = 0.5
    """Share of its recording above which a disturbance is another robot's or load's."""
    whole: float = 0.9
    """The same above which nothing worth reading is left."""
    held: float = 0.15
    """Residual at rest beyond the band of friction, by the deviation of the effort."""
    nothing: float = 0.02
    """Effort, by its deviation, up to which there is none."""
    near: float = 0.5
    """Time between disturbances up to which they are one [s]."""


CRITERIA = DisturbanceCriteria()


@dataclass(frozen=True)
class Disturbance:
    """
    Time whose efforts do not belong to the others.

    Attributes
    ----------
    place, source:
        Its recording: number among those that were searched, and name.
    begin, end:
        Stamps of the recording [s].
    joints:
        At which it shows, the worst one first.
    error, usual:
        Residual of the worst one by the fit to the other times, there and at these, by the
        deviation of its effort.
    share, of_recording:
        Of all times, and of those of its recording.
    kind:
        ``no_effort`` where no joint has any; ``other_robot`` for most of a recording, and where
        parameters of their own explain so much that it is not known which of two robots is meant;
        else ``disturbed``.

    """

    place: int
    source: str
    begin: float
    end: float
    joints: tuple[str, ...]
    error: float
    usual: float
    share: float
    of_recording: float = 0.0
    kind: str = 'disturbed'

    @property
    def left_out(self) -> bool:
        """True where it is known which robot is meant, and something of the recording is left."""
        return self.kind != 'other_robot' and self.of_recording < CRITERIA.whole

    @property
    def fault(self) -> RecordingFault:
        """Fault of the recording, in words."""
        when = f'from {self.begin:.10g} to {self.end:.10g} s of {self.source}'
        misses = (
            f'the efforts of {one_of(self.joints)} miss what the other times say by '
            f'{100.0 * self.error:.3g} % of their spread (by {100.0 * self.usual:.2g} % there)'
        )
        evidence = {
            'no_effort': f'{when} no joint has an effort, as where drives are off and brakes on',
            'disturbed': f'{when} {misses}: a brake, a contact, a load or a cable may act there',
            'other_robot': 'the recordings may be of two robots, or of one with two loads: '
            f'{when} {misses}',
        }
        remedy = f'set leave_out: [[{self.begin:.10g}, {self.end:.10g}]] beside the recording'
        if self.kind == 'other_robot':
            remedy = 'identify each part by itself (time_range, or leave_out), with its own load'
        return RecordingFault(self.kind, evidence[self.kind], remedy, self.joints)


def disturbances(
    robot: Robot, sources: Sequence[RecordingSource], model: ModelSettings
) -> tuple[Disturbance, ...]:
    """
    Return the disturbed times of recordings of one robot, in their order.

    Parameters
    ----------
    robot:
        A tree of stiff joints; for others nothing is found.
    sources:
        Recordings at the joints; each is read once.
    model:
        Terms of the dynamics, of which coupled drives count.

    """
    if robot.passive or model.delta is not None or model.loops or model.elastic is not None:
        return ()
    windows = time_windows(robot, sources, model)
    if windows is None:
        return ()
    kept = np.ones(len(windows), dtype=bool)
    names = tuple(map(source_name, sources)), robot.joints
    found: list[Disturbance] = []
    for _ in range(CRITERIA.rounds):
        worst = _Search(windows, kept).worst()
        if worst is None:
            break
        kept[worst.begin : worst.end] = False
        found.append(_described(windows, worst, *names))
    found += _at_rest(windows, kept, *names)
    return tuple(_merged(sorted(found, key=lambda each: (each.place, each.begin))))


def times_left_out(found: Sequence[Disturbance], place: int) -> tuple[tuple[float, float], ...]:
    """Return the times to leave out of a recording, by its place, [first, last] each [s]."""
    return tuple((each.begin, each.end) for each in found if each.place == place and each.left_out)


@dataclass(frozen=True)
class _Run:
    """
    Windows in a row, from ``begin`` to before ``end``, against the others.

    Attributes
    ----------
    inside:
        (n,) residuals of them by the fit to the others.
    apart:
        (n,) the same by the expected ones.
    fit:
        To the others.
    gain:
        Of the likelihood [nats].

    """

    begin: int
    end: int
    inside: np.ndarray
    apart: np.ndarray
    fit: FreeFit
    gain: float


@dataclass
class _Search:
    """Search for the windows in a row that disturb the others most, among those that are kept."""

    windows: TimeWindows
    kept: np.ndarray
    tried: dict[tuple[int, int], _Run] = field(default_factory=dict)

    def worst(self) -> _Run | None:
        """Return the windows that disturb the others; None where none do."""
        self.gram = self.windows.grams[self.kept].sum(axis=0)
        self.counts = self.windows.counts[self.kept].sum(axis=0)
        self.joints = self.counts >= CRITERIA.fewest
        if self.kept.sum() < CRITERIA.fewest or not self.joints.any():
            return None
        self.together = FreeFit.of(self.gram, self.counts, self.joints.astype(float))
        runs = [self._run(*ends) for ends in self._ends()]
        best = self._adjusted(max(runs, key=lambda run: run.gain)) if runs else None
        return best if best is not None and self._disturbs(best) else None

    def _ends(self) -> Iterator[tuple[int, int]]:
        """Iterate over runs of lengths that grow by a half, and those at ends of recordings."""
        length = 1.0
        while length <= CRITERIA.most * self.kept.sum():
            size = int(length)
            for begin in range(0, len(self.windows) - size + 1, max(1, size // 3)):
                if self._admitted(begin, begin + size):
                    yield begin, begin + size
            length = max(length + 1.0, 1.5 * length)
        place = self.windows.place
        for number in np.unique(place):
            first, last = np.flatnonzero(place == number)[[0, -1]].tolist()
            for cut in range(first + 1, last + 2):
                for ends in {(first, cut), (cut, last + 1)}:
                    if self._admitted(*ends):
                        yield ends

    def _admitted(self, begin: int, end: int) -> bool:
        """Return whether a run is kept, of one recording, and not too long."""
        few = end - begin <= CRITERIA.most * self.kept.sum()
        if not (0 <= begin < end <= len(self.windows) and few and self.kept[begin:end].all()):
            return False
        return bool(self.windows.place[begin] == self.windows.place[end - 1])

    def _run(self, begin: int, end: int) -> _Run:
        """Return a run with the fit to the others."""
        if (begin, end) not in self.tried:
            inside = self.windows.grams[begin:end].sum(axis=0)
            counts = self.windows.counts[begin:end].sum(axis=0)
            rest = self.counts - counts
            # a joint that only this run moves tells nothing of it
            judged = self.joints & (rest >= CRITERIA.fewest)
            weights = np.where(judged, self.together.weights, 0.0)
            fit = FreeFit.of(self.gram - inside, rest, weights, rounds=2)
            there = residual_of(inside, counts, fit.parameters)
            there *= judged & (counts >= CRITERIA.fewest)
            floor, share = CRITERIA.floor**2, counts / self.counts.clip(1.0)
            usual = fit.residual**2 + floor
            larger = np.maximum(there, fit.residual) ** 2 + floor
            logs = np.log(self.together.residual**2 + floor) - share * np.log(larger)
            logs -= (1.0 - share) * np.log(usual)
            expected = usual * (1.0 + CRITERIA.uncertain * fit.leverage(inside, counts))
            gain = 0.5 * CRITERIA.independent * float(logs[judged].sum())
            apart = there / np.sqrt(expected)
            self.tried[begin, end] = _Run(begin, end, there, apart, fit, gain)
        return self.tried[begin, end]

    def _adjusted(self, best: _Run) -> _Run:
        """Move the ends of a run until nothing is gained."""
        while True:
            ends = [(best.begin + i, best.end + j) for i in (-1, 0, 1) for j in (-1, 0, 1)]
            near = [self._run(*each) for each in ends if self._admitted(*each)]
            better = max(near, key=lambda run: run.gain)
            if better.gain <= best.gain:
                return best
            best = better

    def _disturbs(self, run: _Run) -> bool:
        """Return whether a run differs from the others by more than models do."""
        inside = slice(run.begin, run.end)
        gram = self.gram - self.windows.grams[inside].sum(axis=0)
        counts = self.counts - self.windows.counts[inside].sum(axis=0)
        spoilt = residual_of(gram, counts, self.together.parameters)
        ratio = np.hypot(spoilt, CRITERIA.floor) / np.hypot(run.fit.residual, CRITERIA.floor)
        ratio = np.where(run.fit.weights > 0.0, ratio, 0.0)
        differs = (run.apart > CRITERIA.apart) & (ratio > CRITERIA.spoilt)
        elsewhere = (run.apart > CRITERIA.apart).any() and (
            ratio > CRITERIA.spoilt_elsewhere
        ).any()
        differs |= run.apart > CRITERIA.far_apart
        return bool((differs.any() or elsewhere) and run.gain > CRITERIA.decisive)


def _described(
    windows: TimeWindows, run: _Run, sources: tuple[str, ...], joints: tuple[str, ...]
) -> Disturbance:
    """Return the disturbance of a run."""
    samples = np.flatnonzero((windows.window >= run.begin) & (windows.window < run.end))
    found = _of_samples(windows, samples, run.apart, CRITERIA.apart, sources, joints)
    worst = joints.index(found.joints[0])
    found = replace(found, error=float(run.inside[worst]), usual=float(run.fit.residual[worst]))
    most = found.of_recording > CRITERIA.most_of_recording
    other = found.kind == 'disturbed' and (most or _of_another_robot(windows, run))
    return replace(found, kind='other_robot') if other else found


def _of_samples(
    windows: TimeWindows,
    samples: np.ndarray,
    sizes: np.ndarray,
    least: float,
    sources: tuple[str, ...],
    joints: tuple[str, ...],
) -> Disturbance:
    """Return a disturbance of consecutive samples, of the joints with (n,) large sizes."""
    order = [int(j) for j in np.argsort(-sizes) if sizes[j] > max(least, 0.3 * sizes.max())]
    order = order or [int(np.argmax(sizes))]
    nothing = np.median(np.abs(windows.effort[samples]), axis=0).max() < CRITERIA.nothing
    place = int(windows.place[windows.window[samples[0]]])
    recording = np.flatnonzero(windows.place[windows.window] == place)
    begin, end = windows.time[samples[[0, -1]]]
    # what the filter left out at the ends of the recording goes with what is beside it
    beyond = TRIM + 0.02
    begin -= beyond if samples[0] == recording[0] else 0.0
    end += beyond if samples[-1] == recording[-1] else 0.0
    return Disturbance(
        place,
        sources[place],
        float(np.floor(100.0 * begin) / 100.0) + 0.0,
        float(np.ceil(100.0 * end) / 100.0),
        tuple(joints) if nothing else tuple(joints[j] for j in order),
        error=0.0,
        usual=0.0,
        share=len(samples) / len(windows.time),
        of_recording=len(samples) / len(recording),
        kind='no_effort' if nothing else 'disturbed',
    )


def _of_another_robot(windows: TimeWindows, run: _Run) -> bool:
    """Return whether parameters of its own explain a long run at an end of its recording."""
    numbers = np.flatnonzero(windows.place == windows.place[run.begin])
    at_end = run.begin == numbers[0] or run.end == numbers[-1] + 1
    if not at_end or run.end - run.begin < CRITERIA.half * len(windows):
        return False
    gram = windows.grams[run.begin : run.end].sum(axis=0)
    counts = windows.counts[run.begin : run.end].sum(axis=0)
    own = FreeFit.of(gram, counts, (counts >= CRITERIA.fewest).astype(float))
    worst = int(np.argmax(run.apart))
    return bool(own.residual[worst] < CRITERIA.own * run.inside[worst])


def _at_rest(
    windows: TimeWindows, kept: np.ndarray, sources: tuple[str, ...], joints: tuple[str, ...]
) -> Iterator[Disturbance]:
    """
    Iterate over times at rest without efforts, though gravity asks for some.

    Other efforts at rest are not judged: brakes and friction hold robots at any of them.
    """
    gram, counts = windows.grams[kept].sum(axis=0), windows.counts[kept].sum(axis=0)
    enough = counts >= CRITERIA.fewest
    if not enough.any():
        return
    fit = FreeFit.of(gram, counts, enough.astype(float))
    residual = np.abs(windows.effort - windows.rows @ fit.parameters)
    # friction at rest has any sign, and may be larger than that of motion
    band = 1.5 * np.abs(windows.friction @ fit.parameters) + 3.0 * fit.residual + CRITERIA.floor
    judged = ~windows.moving & kept[windows.window][:, None] & enough
    beyond = np.where(judged, residual - band, 0.0)
    nothing = (np.abs(windows.effort) < CRITERIA.nothing).all(axis=1)
    wrong = np.asarray((beyond > CRITERIA.held).any(axis=1) & nothing)
    place = windows.place[windows.window]
    breaks = (np.diff(wrong) != 0) | (np.diff(place) != 0)
    edges = [0, *(np.flatnonzero(breaks) + 1).tolist(), len(wrong)]
    for begin, end in zip(edges[:-1], edges[1:], strict=True):
        if wrong[begin] and windows.time[end - 1] - windows.time[begin] >= WINDOWS.shortest:
            samples = np.arange(begin, end)
            sizes = beyond[samples].max(axis=0)
            found = _of_samples(windows, samples, sizes, CRITERIA.held, sources, joints)
            worst = joints.index(found.joints[0])
            yield replace(
                found,
                error=float(residual[samples, worst].max()),
                usual=float(fit.residual[worst]),
            )


def _merged(found: Sequence[Disturbance]) -> Iterator[Disturbance]:
    """Iterate over sorted disturbances, those that overlap or nearly touch as one."""
    current: Disturbance | None = None
    for each in found:
        together = current is not None and each.place == current.place
        if current is None or not together or each.begin > current.end + CRITERIA.near:
            if current is not None:
                yield current
            current = each
            continue
        worse = max(current, each, key=lambda one: one.error)
        current = replace(
            worse,
            begin=current.begin,
            end=max(current.end, each.end),
            joints=tuple(dict.fromkeys((*worse.joints, *current.joints, *each.joints))),
            share=current.share + each.share,
            of_recording=current.of_recording + each.of_recording,
            kind=min(current.kind, each.kind, key=('no_effort', 'other_robot', 'disturbed').index),
        )
    if current is not None:
        yield current
