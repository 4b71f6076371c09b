# SPDX-License-Identifier: Apache-2.0
"""Screening: times whose efforts are not those of the robot, left out of the recordings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast
import warnings

import numpy as np

from ..config.problem import IdentificationProblem, Recordings
from ..config.sources import FileSource, Source
from ..data.floating_recording import FloatingRecording
from ..data.recording import Recording, source_name
from ..diagnosis.disturbance import Disturbance, KINDS, times_left_out
from ..diagnosis.disturbances import disturbances
from ..diagnosis.recording_faults import RecordingFault
from ..errors import collected_warnings, Omission
from ..figures.signal_plots import Band, Envelope, envelope
from .prepare import Prepared
from .reduction import is_factor, recordings_among

LABELS = {'saturation': 'limit', **{code: kind.label for code, kind in KINDS.items()}}
"""Faults that show at times, in a few words."""


def screen(prepared: Prepared) -> Prepared:
    """
    Leave disturbed times out of the recordings, where `auto` may choose.

    Those of the validation are judged beside what is left to identify from.  What is left out is
    said, and stands in the experiment file of the result.  Times of which it is not known whether
    they or the others are the robot's stay, and are a fault.  Errors are those of
    `robot_identification.identification.prepare.prepare`.
    """
    experiment, recordings = prepared.experiment, prepared.recordings
    sources = (*recordings.identification, *recordings.validation)
    if experiment is None or not experiment.auto or any(map(is_factor, sources)):
        return prepared
    with collected_warnings() as notes:
        found = _found(prepared.problem, recordings)
        for each in found:
            if each.left_out:
                text = each.fault.evidence
                warnings.warn(Omission(text, f'time of {each.source}', (text,)), stacklevel=2)
    kept, count = _without(sources, found), len(recordings.identification)
    return replace(
        prepared,
        recordings=replace(recordings, identification=kept[:count], validation=kept[count:]),
        disturbances=found,
        whole=recordings,
        notes=prepared.notes.joined(notes),
    )


def marked_signals(prepared: Prepared, faults: Sequence[RecordingFault]) -> Iterator[Envelope]:
    """Iterate over recordings in which something shows at a time, with these times marked."""
    recordings = prepared.whole or prepared.recordings
    sources = recordings_among((*recordings.identification, *recordings.validation))
    found = prepared.disturbances or ()
    known = {each.fault.times for each in found}
    for place, source in enumerate(sources):
        bands = [
            Band(each.begin, each.end, each.label, each.joints)
            for each in found
            if each.place == place
        ]
        bands += [
            Band(first, last, LABELS[fault.code], fault.joints, fault.code in KINDS)
            for fault in faults
            if fault.times not in known
            for name, first, last in fault.times
            if name == source_name(source)
        ]
        if isinstance(source, FloatingRecording):
            bands += _lifted(source, prepared.problem)
            source = source.select(prepared.problem.robot.driven_joints)
        if bands:
            yield replace(envelope(source), bands=tuple(bands))


MOST_WORDS = 12
"""Times in the air of a foot up to which each has its words."""


def _lifted(recording: FloatingRecording, problem: IdentificationProblem) -> Iterator[Band]:
    """Iterate over the times in which contacts are in the air, in figures of their joints."""
    robot = problem.robot
    names = dict(zip(robot.joint_ids, robot.joints, strict=True))
    for contact, stands in zip(problem.model.contacts, recording.stance.T, strict=True):
        above = robot.model.supports[robot.link_frames[contact.frame].parentJoint]
        joints = tuple(names[i] for i in above if i in names and names[i] in robot.driven_joints)
        edges = np.flatnonzero(np.diff(np.concatenate([[0], (~stands).astype(int), [0]])))
        runs = edges.reshape(-1, 2)
        text = f'{contact.frame} in the air' if len(runs) <= MOST_WORDS else ''
        for first, last in runs:
            begin, end = recording.time[first], recording.time[last - 1]
            yield Band(float(begin), float(end), text, joints, everywhere=False)


def leave_out(data: Mapping[str, Any], found: Sequence[Disturbance] | None) -> None:
    """Put the times that were left out into the section ``data`` of an experiment file."""
    listed = [list(data.get(kind) or ()) for kind in ('identification', 'validation')]
    entries = [entry for kind in listed for entry in kind]
    for each in found or ():
        if each.left_out and each.place < len(entries):
            entry = entries[each.place]
            entry['leave_out'] = [*(entry.get('leave_out') or ()), [each.begin, each.end]]


def _found(problem: IdentificationProblem, recordings: Recordings) -> tuple[Disturbance, ...]:
    """Return the disturbed times of the recordings to identify from, then of the validation."""
    robot, model = problem.robot, problem.model
    first = disturbances(robot, recordings_among(recordings.identification), model)
    if not recordings.validation or not all(each.left_out for each in first):
        return first
    kept = _without(recordings.identification, first)
    both = disturbances(robot, recordings_among((*kept, *recordings.validation)), model)
    return (*first, *(each for each in both if each.place >= len(kept)))


def _without(sources: Sequence[Source], found: Sequence[Disturbance]) -> tuple[Source, ...]:
    """Return recordings without their disturbed times."""
    return tuple(
        cast(Recording | FileSource, source).without(times) if times else source
        for i, source in enumerate(sources)
        for times in [times_left_out(found, i)]
    )
