# SPDX-License-Identifier: Apache-2.0
"""
Disturbed times: efforts that no parameters explain together with those of the other times.

A brake, a contact, a load that is picked up, drives that are off, or a recording of another robot
spoil the fit of everything else.  They are looked for before anything is chosen or explained: the
windows in a row that do not belong to the others (`run_search`), then among these again; and loads
that are too small for that (`run_changes`).

A joint at rest tells little, since friction or a brake holds it: there only efforts are judged
that are none at any joint, where gravity asks for more than the friction that the fit has found.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..data.recording import RecordingSource, source_name
from ..model.robot import Robot
from ..regressor.kinds import kind_of
from ..regressor.settings import ModelSettings
from .disturbance import Disturbance, KINDS
from .recording_faults import TRIM
from .run_changes import brake_in, largest_load, load_in, RunChange
from .run_search import KeptWindows, RUN, Run, worst_run
from .time_windows import FreeFit, time_windows, TimeWindows, WINDOWS


@dataclass(frozen=True)
class DisturbanceCriteria:
    """Constants of the search."""

    rounds: int = 4
    """Disturbances that are looked for, at most."""
    ends: int = 4
    """Windows of a run above which those at its ends are not asked what explains it."""
    own: float = 0.25
    """Residual by parameters of their own above which these do not explain windows."""
    half: float = 0.34
    """Share of all windows above which it is not known which of two robots is meant."""
    most_of_recording: float = 0.5
    """Share of its recording above which a disturbance is another robot's or load's."""
    held: float = 0.15
    """Residual at rest beyond the band of friction, by the deviation of the effort."""
    nothing: float = 0.02
    """Effort, by its deviation, up to which there is none."""
    near: float = 0.5
    """Time between disturbances up to which they are one [s]."""


CRITERIA = DisturbanceCriteria()


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
    if not kind_of(robot, model).stiff_tree:
        return ()
    windows = time_windows(robot, sources, model)
    if windows is None:
        return ()
    kept = np.ones(len(windows), dtype=bool)
    names = tuple(map(source_name, sources)), robot.joints
    found = list(_foreign(windows, kept, names))
    found += _at_rest(windows, kept, *names)
    return tuple(_merged(sorted(found, key=lambda each: (each.place, each.begin))))


def _foreign(
    windows: TimeWindows, kept: np.ndarray, names: tuple[tuple[str, ...], tuple[str, ...]]
) -> Iterator[Disturbance]:
    """Iterate over disturbed windows, and strike them out of those that are kept."""
    for _ in range(CRITERIA.rounds):
        among = KeptWindows.of(windows, kept)
        if among is None:
            return
        run, load = worst_run(among), largest_load(among)
        if load is not None and (run is None or load.gain > run.gain):
            run = Run.of(among, (load.begin, load.end))
        else:
            load = None
        if run is None:
            return
        change = _explained(windows, kept, run)
        kept[run.begin : run.end] = False
        found = _described(windows, run, change or load, names)
        yield found
        if found.kind == 'other_robot':  # what is left is too little to be judged
            return


def _explained(windows: TimeWindows, kept: np.ndarray, run: Run) -> RunChange | None:
    """Return the brake or load that explains a run; None where none of both does."""
    begin, end, clear = run.begin, run.end, kept.copy()
    if end - begin > CRITERIA.ends:  # windows at its ends are partly of the other times
        clear[[max(begin - 1, 0), begin, end - 1, min(end, len(clear) - 1)]] = False
        begin, end = begin + 1, end - 1
        clear[begin:end] = True
    among = KeptWindows.of(windows, clear)
    if among is None:
        return None
    return brake_in(among, (begin, end)) or load_in(among, (begin, end))


def _described(
    windows: TimeWindows,
    run: Run,
    change: RunChange | None,
    names: tuple[tuple[str, ...], tuple[str, ...]],
) -> Disturbance:
    """Return the disturbance of a run that a brake or a load explains, or none of both."""
    sources, joints = names
    samples = np.flatnonzero((windows.window >= run.begin) & (windows.window < run.end))
    found = _of_samples(windows, samples, run.apart, RUN.apart, sources, joints)
    worst = joints.index(found.joints[0])
    found = replace(
        found,
        error=float(run.inside[worst]),
        usual=float(run.fit.residual[worst]),
        change=change,
    )
    if found.kind != 'disturbed':
        return found
    if change is not None and change.kind == 'brake':
        return replace(found, kind='brake', joints=(change.owner,))
    most = found.of_recording > CRITERIA.most_of_recording
    if most or _of_another_robot(windows, run, change):
        return replace(found, kind='other_robot')
    return found if change is None else replace(found, kind='load')


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
    if samples[0] == recording[0]:
        starts_at_zero = abs(begin - TRIM) < beyond - TRIM
        begin = 0.0 if starts_at_zero else begin - beyond
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


def _of_another_robot(windows: TimeWindows, run: Run, load: RunChange | None) -> bool:
    """Return whether parameters of its own explain a long run at an end of its recording."""
    numbers = np.flatnonzero(windows.place == windows.place[run.begin])
    at_end = run.begin == numbers[0] or run.end == numbers[-1] + 1
    if not at_end or run.end - run.begin < CRITERIA.half * len(windows):
        return False
    gram = windows.grams[run.begin : run.end].sum(axis=0)
    counts = windows.counts[run.begin : run.end].sum(axis=0)
    own = FreeFit.of(gram, counts, (counts >= RUN.fewest).astype(float))
    worst = int(np.argmax(run.apart))
    return load is not None or bool(own.residual[worst] < CRITERIA.own * run.inside[worst])


def _at_rest(
    windows: TimeWindows, kept: np.ndarray, sources: tuple[str, ...], joints: tuple[str, ...]
) -> Iterator[Disturbance]:
    """
    Iterate over times at rest without efforts, though gravity asks for some.

    Other efforts at rest are not judged: brakes and friction hold robots at any of them.
    """
    gram, counts = windows.grams[kept].sum(axis=0), windows.counts[kept].sum(axis=0)
    enough = counts >= RUN.fewest
    if not enough.any():
        return
    fit = FreeFit.of(gram, counts, enough.astype(float))
    residual = np.abs(windows.effort - windows.rows @ fit.parameters)
    # friction at rest has any sign, and may be larger than that of motion
    band = 1.5 * np.abs(windows.friction @ fit.parameters) + 3.0 * fit.residual + RUN.floor
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
            kind=(kind := min(current.kind, each.kind, key=tuple(KINDS).index)),
            change=worse.change if kind == worse.kind else None,
        )
    if current is not None:
        yield current
