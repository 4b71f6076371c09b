# SPDX-License-Identifier: Apache-2.0
"""Page of the signals of an experiment's recordings, with the times at which something shows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np

from ..config.commands import read_commands
from ..config.experiment import Experiment
from ..config.wrenches import read_wrench
from ..data.commands import CommandRecording
from ..data.drives import Drives
from ..data.floating_recording import FloatingRecording
from ..data.recording import source_name
from ..diagnosis.recording_faults import (
    read_first_rows,
    revolute,
    saturated_times,
    saturation_fault,
)
from ..errors import collected_warnings
from ..figures.page import write_figures
from ..figures.signal_plots import Band, Envelope, envelope, signal_figures, thinned_envelope
from ..loads.tool import UNITS as WRENCH_UNITS
from ..model.robot import Robot
from ..support.progress import no_progress, Progress
from .reduction import recordings_among

MOST_STEPS = 200
"""Times of a foot off the ground that are marked in a recording, the longest ones."""


def write_signals(
    experiment: Experiment,
    page: Path | str,
    known: Mapping[str, Sequence[Band]] | None = None,
    progress: Progress = no_progress,
) -> str:
    """
    Write a page of an experiment's recorded signals by joint.

    Parameters
    ----------
    experiment:
        Of efforts, of servos, or of a tool, whose wrenches stand in place of efforts.
    page:
        The file.
    known:
        Times to mark by the name of their recording, as an identification has found them; those of
        exact limits are found here where there are none.  Feet off the ground are always marked.
    progress:
        Called with the share that is done, and what is being done.

    Returns
    -------
    The recordings and their samples in words; empty where nothing is drawn.

    """
    with collected_warnings():  # the draft has shown them
        robot = experiment.build_robot()
        found = [
            replace(each, bands=(*each.bands, *(known or {}).get(each.name, ())))
            for each in _envelopes(experiment, robot, known is None, progress)
        ]
    if not found:
        return ''
    units = ['rad' if turns else 'm' for turns in revolute(robot)][-len(robot.driven_joints) :]
    wrenches = [each for each in found if 'wrench' in each.signals]
    found = [each for each in found if 'wrench' not in each.signals]
    columns = max(len(each.joints) for each in found)
    said = '; '.join(f'{each.name}: {each.rows} samples' for each in found)
    figures = signal_figures(found, list(islice(cycle(units), columns)))
    figures += signal_figures(wrenches, WRENCH_UNITS)
    write_figures(page, 'Recorded signals at the joints', said, figures)
    return said


def _envelopes(
    experiment: Experiment, robot: Robot, limits: bool, progress: Progress
) -> Iterator[Envelope]:
    """Iterate over the recordings, thinned, with what is marked; limits of efforts if asked."""
    kinds = ('identification', 'validation')
    if experiment.data.tool is not None:
        yield from _of_tool(experiment, robot, progress)
    if experiment.robot.by_commands:
        entries = [entry for kind in kinds for _, entry in experiment.data.entries(kind)]
        for k, entry in enumerate(entries):
            progress(k / len(entries), f'reading {entry.name}')
            yield _of_commands(
                read_commands(entry, robot.joints, experiment.robot.drives, experiment.base)
            )
        return
    sources = recordings_among(
        tuple(s for kind in kinds for s in experiment.sources(kind, robot.joints))
    )
    for k, source in enumerate(sources):
        progress(k / len(sources), f'reading {source_name(source)}')
        read = envelope(source)
        if isinstance(source, FloatingRecording):
            yield _of_driven(read, robot, tuple(feet_lifted(source, robot, experiment)))
        elif limits:
            yield replace(read, bands=tuple(_limits(source, robot)))
        else:
            yield read


def _of_commands(recording: CommandRecording) -> Envelope:
    """Return a recording of servos, thinned."""
    signals = {'position': recording.position, 'command': recording.command}
    if recording.velocity is not None:
        signals['velocity'] = recording.velocity
    return thinned_envelope(recording.source, recording.joints, recording.time, signals)


def _of_tool(experiment: Experiment, robot: Robot, progress: Progress) -> Iterator[Envelope]:
    """Iterate over the recordings of a tool, thinned, those of joints and those of wrenches."""
    section, drives = experiment.data.tool, experiment.robot.drives or Drives()
    assert section is not None
    n, entries = robot.n_joints, list(experiment.data.entries('tool'))
    for k, (_, entry) in enumerate(entries):
        progress(k / len(entries), f'reading {entry.name}')
        read = read_wrench(entry, robot.joints, drives, experiment.base, section.topic)
        signals = {'position': read.position[:, :n]}
        if read.velocity is not None:
            signals['velocity'] = read.velocity[:, :n]
        wrench = {'wrench': read.effort[:, n:]}
        yield thinned_envelope(read.source, read.joints[:n], read.time, signals)
        yield thinned_envelope(read.source, read.joints[n:], read.time, wrench)


def _of_driven(read: Envelope, robot: Robot, bands: tuple[Band, ...]) -> Envelope:
    """Return a recording without the columns of the floating base, which are 0."""
    base = len(read.joints) - len(robot.driven_joints)
    signals = {name: values[:, base:] for name, values in read.signals.items()}
    return replace(read, joints=read.joints[base:], signals=signals, bands=bands)


def _limits(source: Any, robot: Robot) -> Iterator[Band]:
    """Iterate over the times at which efforts are limited whatever the motion is."""
    recordings = read_first_rows([source])
    for joint, found in saturated_times(robot, recordings):
        fault = saturation_fault(joint, found, recordings)
        for _, first, last in fault.times:
            yield Band(first, last, f'at {found.level:.3g}', (joint,))


def feet_lifted(
    recording: FloatingRecording, robot: Robot, experiment: Experiment
) -> Iterator[Band]:
    """Iterate over the times of each foot off the ground, marked at the joints of its leg."""
    for contact, held in zip(experiment.robot.contacts, recording.stance.T, strict=True):
        edges = np.flatnonzero(np.diff(np.concatenate([[0], ~held, [0]]).astype(np.int8)))
        times = [
            (float(recording.time[a]), float(recording.time[b - 1]))
            for a, b in edges.reshape(-1, 2)
        ]
        times.sort(key=lambda each: each[0] - each[1])
        for k, (first, last) in enumerate(times[:MOST_STEPS]):
            text = f'{contact.frame} lifted' if k == 0 else ''
            yield Band(first, last, text, _leg(robot, contact.frame), everywhere=False)


def _leg(robot: Robot, frame: str) -> tuple[str, ...]:
    """Return the driven joints between a link and the floating base."""
    model = robot.model
    carrying = {model.names[k] for k in model.supports[robot.link_frames[frame].parentJoint]}
    return tuple(joint for joint in robot.driven_joints if joint in carrying)
