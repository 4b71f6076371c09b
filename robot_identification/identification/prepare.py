# SPDX-License-Identifier: Apache-2.0
"""Preparation: what an experiment names, opened, with gains that are open found first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import cast
import warnings

from ..config.experiment import Experiment
from ..config.problem import IdentificationProblem, Recordings
from ..config.recorded_joints import recorded_joints
from ..config.sources import FileSource, Source
from ..data.parts import in_memory
from ..diagnosis.disturbance import Disturbance
from ..diagnosis.locked_joints import faults_of_locked
from ..diagnosis.recording_faults import RecordingFault
from ..errors import collected_warnings, LOCKED, Notes, Omission
from ..estimation.drive_gains import DriveGains
from ..estimation.estimators import require_bounds_kept
from ..signals import RecordingSource
from ..support.progress import no_progress, Progress
from .gains import with_gains
from .reduction import is_factor

_KEPT_BYTES = 64_000_000
"""Samples of recordings that take less than this together are read once, into memory."""


@dataclass(frozen=True)
class Prepared:
    """
    Problem and recordings of an identification.

    Attributes
    ----------
    problem:
        The robot and the settings, as they are given.
    recordings:
        Opened, by what they are for.
    experiment:
        The experiment that they come from, with its gains; None where they come from a program.
    gains:
        Gains of the drives that the experiment left to its recordings; None where it has them.
    locked:
        Locked joints that move or stand elsewhere.
    disturbances:
        Times whose efforts do not belong to the others, see `screen`; None where they were not
        looked for.
    whole:
        The recordings before times were left out of them; None where none were.
    notes:
        Warnings.

    """

    problem: IdentificationProblem
    recordings: Recordings
    experiment: Experiment | None = None
    gains: DriveGains | None = None
    locked: tuple[RecordingFault, ...] = ()
    disturbances: tuple[Disturbance, ...] | None = None
    whole: Recordings | None = None
    notes: Notes = field(default_factory=Notes)


def prepare(experiment: Experiment, *, progress: Progress = no_progress) -> Prepared:
    """
    Open what an experiment names, and find the gains of its drives where they are open.

    Parameters
    ----------
    experiment:
        See `robot_identification.config.experiment_file.load_experiment`.
    progress:
        Called with the share that is done, and what is being done.

    Raises
    ------
    IdentificationError
        of the kind that fits: a recording that cannot be used, settings that do not fit, ...

    """
    gains = None
    progress(0.0, 'opening the recordings')
    with collected_warnings() as notes:
        if experiment.robot.open_gains:
            experiment, gains = with_gains(experiment, progress=progress)
        problem = IdentificationProblem.from_experiment(experiment)
        require_bounds_kept(problem.estimation)
        recordings = Recordings.from_experiment(experiment, problem.robot.joints)
        locked = _locked(problem, recordings)
        recordings = replace(
            recordings,
            identification=_kept(recordings.identification),
            known_load=recordings.known_load if gains is None else (),
        )
    return Prepared(problem, recordings, experiment, gains, locked, notes=notes)


def _kept(sources: Sequence[Source]) -> tuple[Source, ...]:
    """Return recordings, with small ones read into memory."""
    room = _KEPT_BYTES // max(1, len(sources))
    return tuple(s if is_factor(s) else in_memory(cast(RecordingSource, s), room) for s in sources)


def _locked(problem: IdentificationProblem, recordings: Recordings) -> tuple[RecordingFault, ...]:
    """Return locked joints that move or stand elsewhere; warn of those that do not."""
    robot, sources = problem.robot, (*recordings.identification, *recordings.validation)
    files = [source for source in sources if isinstance(source, FileSource)]
    if not ((robot.locked or robot.mimics.followed) and files):
        return ()
    seen = [recorded_joints(source, robot, list(robot.locked)) for source in files]
    faults, remarks = faults_of_locked(robot, seen)
    for remark in remarks:
        warnings.warn(Omission(remark, LOCKED, tuple(robot.locked)), stacklevel=2)
    return tuple(faults)
