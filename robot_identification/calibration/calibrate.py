# SPDX-License-Identifier: Apache-2.0
"""
Calibration: motions until the parameters are known well enough.

Plan, execute, identify, compare with the goal, plan the next.  `calibrate` knows neither ROS nor a
simulator: it is given what plans and what executes.  Each motion has a folder of its own with
plan, page, recording and factor, so that a calibration that was interrupted goes on where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Protocol

import numpy as np

from ..config.experiment_file import load_experiment
from ..config.problem import IdentificationProblem
from ..config.sources import open_recording, Source
from ..data.bag import joint_state_topics
from ..data.recording_config import RecordingEntry
from ..errors import ExcitationError, RecordingError
from ..estimation.factor_file import read_factor, StoredFactor, write_factor
from ..excitation.collisions import CollisionModel, planned_collisions
from ..excitation.constraints import check_trajectory, Findings
from ..excitation.limits import motion_limits
from ..excitation.objective import parameter_places
from ..excitation.plan_file import as_points, read_plan
from ..excitation.plan_page import save_plan
from ..excitation.planner import plan
from ..excitation.plans import Plan
from ..excitation.settings import PlannerSettings
from ..excitation.trajectories import PointTrajectory
from ..exports.saving import save
from ..identification.pipeline import identify_factors, identify_sources
from ..identification.reduction import earlier_information, FactorBuilder, recordings_among
from ..options.document import dump, plain, read_document
from ..options.fields import from_mapping, to_mapping
from ..selection.model_selection import can_choose, choose_model
from ..signals import SignalSettings
from ..support.progress import Progress
from ..untrusted.writing import reported_failures, write_whole
from .goal import (
    Calibration,
    CalibrationProgress,
    CalibrationSettings,
    DECLINED,
    first_duration,
    MET,
    needed_duration,
    shortest_duration,
    SPENT,
    sufficient_share,
    UNREACHABLE,
    unreachable_targets,
)

PlanMotion = Callable[
    [IdentificationProblem, PlannerSettings, Sequence[StoredFactor], Mapping[str, float]], Plan
]
"""Plans a motion as `next_motion` does."""


def next_motion(
    problem: IdentificationProblem,
    settings: PlannerSettings,
    factors: Sequence[StoredFactor],
    targets: Mapping[str, float],
    *,
    progress: Progress | None = None,
    canceled: Callable[[], bool] | None = None,
) -> Plan:
    """
    Plan a motion that complements those whose recordings' ``factors`` are given.

    The targets are wanted standard deviations by base parameter, in its unit; empty for all alike.
    The rest is as for `excitation.planner.plan`.
    """
    return plan(
        problem.robot,
        settings,
        progress,
        canceled,
        model=problem.model,
        earlier=earlier_information(factors) if factors else None,
        targets=dict(targets),
    )


SHORTER = 0.8
"""Share of a planned duration below which a shorter motion is planned in its place."""


Choose = Callable[
    [IdentificationProblem, Sequence[Source], SignalSettings | None], IdentificationProblem
]
"""
Fills in settings of the problem from all recordings so far.

Its last argument is the settings that were chosen from the recordings before the latest.
"""


class Executor(Protocol):
    """Executor of motions, which keeps their recordings in the motions' folders."""

    def find(self, folder: Path) -> Source | None:
        """Return the recording of a motion that was executed before; None where there is none."""

    def execute(self, trajectory: PointTrajectory, folder: Path) -> Source:
        """Move the robot and return the recording."""


RECORDING = 'recording.yaml'
"""File in a motion's folder with the path of its bag."""


def keep_recording(folder: Path, bag: Path) -> None:
    """
    Keep path and topic of a motion's bag in its folder; raises `IdentificationError`.

    The topic is the first one with joint states, which the recorder has from its namespace.
    """
    topic = next(iter(joint_state_topics(bag)), RecordingEntry.topic)
    entry = {'file': str(bag), 'format': 'rosbag2', 'topic': topic}
    with reported_failures(folder):
        write_whole(folder / RECORDING, dump(entry))


def kept_recording(folder: Path, problem: IdentificationProblem) -> Source | None:
    """Return the recording in a motion's folder; None where it has none."""
    kept = folder / RECORDING
    if not kept.exists():
        return None
    entry = from_mapping(RecordingEntry, read_document(kept).content)
    joints, elastic = problem.robot.joints, problem.model.elastic
    return open_recording(entry, joints, problem.drives, folder, elastic=elastic)


def loaded_problem(experiment: str | Path) -> tuple[IdentificationProblem, Choose | None]:
    """Return the problem of an experiment file, and what chooses settings that it leaves open."""
    loaded = load_experiment(experiment, check_data=False)
    problem = IdentificationProblem.from_experiment(loaded)
    return problem, automatic_choice(problem, loaded.given) if loaded.auto else None


@dataclass
class _Motion:
    """A motion that was executed, its recording and the file of the recording's factor."""

    trajectory: PointTrajectory
    source: Source
    archive: Path

    @property
    def factor(self) -> StoredFactor:
        return read_factor(self.archive)


@dataclass
class _Run:
    """Folder and tools of a calibration."""

    folder: Path
    problem: IdentificationProblem
    planner: PlannerSettings
    settings: CalibrationSettings
    plan_motion: PlanMotion
    executor: Executor
    choose: Choose | None
    confirm: Callable[[Path], bool]
    report: Callable[[str], None]
    standings: list[CalibrationProgress] = field(default_factory=list)
    kept: list[_Motion] = field(default_factory=list)
    motions: list[_Motion] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.given = self.problem

    @cached_property
    def collisions(self) -> CollisionModel | None:
        return planned_collisions(self.problem.robot, self.planner)

    def check(self, trajectory: PointTrajectory) -> Findings:
        """Check a motion by the limits that count at execution; raises `ExcitationError`."""
        robot, rate = self.problem.robot, self.planner.check_rate
        limits = motion_limits(robot, self.planner, margin=0.0)
        return check_trajectory(robot, trajectory, limits, rate=rate, collisions=self.collisions)

    def plan(self, number: int, targets: Mapping[str, float]) -> Plan:
        """
        Plan a motion as long as is needed.

        It starts where the one before ended: a way to a better start costs more than that brings.
        """
        planner = replace(self.planner, seed=self.planner.seed + number)
        if not self.motions:
            # how much is needed is known after a look at the robot
            looks_first = self.settings.motions > 1 and self.settings.prediction_error is None
            length = first_duration(planner.duration) if looks_first else planner.duration
            return self.plan_motion(self.problem, replace(planner, duration=length), [], targets)
        factors = [motion.factor for motion in self.motions]
        last, longest = self.standings[-1], planner.duration
        spent = sum(motion.trajectory.duration for motion in self.motions)
        length = needed_duration(last, spent, longest)
        here = self.motions[-1].trajectory.position[-1]
        planner = replace(planner, duration=length, start=tuple(here.tolist()))
        made = self.plan_motion(self.problem, planner, factors, targets)
        share = sufficient_share(last, targets, made.deviations) if made.deviations else 1.0
        shorter = max(shortest_duration(longest), share * length)
        if targets and shorter < SHORTER * length:
            planner = replace(planner, duration=shorter)
            made = self.plan_motion(self.problem, planner, factors, targets)
        return made

    def motion(self, name: str, number: int, targets: Mapping[str, float]) -> _Motion | None:
        """Plan, check and execute a motion, as far as its folder has it not; None if declined."""
        folder = self.folder / name
        if not (folder / 'plan.yaml').exists():
            self.report(f'{name}: planning')
            made = self.plan(number, targets)
            save_plan(folder, made, self.problem.robot, self.problem.model, self.collisions)
        stored = read_plan(folder / 'plan.yaml')
        robot = self.problem.robot
        if not stored.is_of(robot) or stored.robot.joints != robot.joints:
            raise ExcitationError(
                f"'{folder}' is of a calibration of another robot",
                value=str(folder),
                remedy='choose another folder, or take the URDF that it began with',
            )
        trajectory = as_points(stored.trajectory)
        archive = folder / 'motion.factor'
        source = self.executor.find(folder)
        if source is None and archive.exists():
            raise RecordingError(
                f"'{folder}' has a factor, but not the recording that it is of",
                file=str(folder),
                remedy='restore the recording, go on with the robot (or simulation) that the '
                'folder began with, or choose another folder',
            )
        if source is None:
            self.check(trajectory)
            if not self.confirm(folder):
                return None
            self.report(f'{name}: executing {trajectory.duration:.4g} s')
            source = self.executor.execute(trajectory, folder)
        motion = _Motion(trajectory, source, archive)
        if archive.exists() and self.kept:
            if not _made_alike(read_factor(archive), self.problem):
                self.reduce(motion)  # where it ended while factors were made again
        elif archive.exists():
            self.problem = _as_reduced(self.problem, read_factor(archive))
        else:
            self.add(motion)
        self.kept.append(motion)
        return motion

    def add(self, motion: _Motion) -> None:
        """Choose settings from all recordings, as far as they may be; reduce what they change."""
        if self.choose is not None:
            sources = [m.source for m in (*self.kept, motion)]
            present = self.problem.signals if self.kept else None
            self.problem = self.choose(self.given, sources, present)
        for other in self.kept:
            if not _made_alike(other.factor, self.problem):
                self.reduce(other)
        self.reduce(motion)

    def reduce(self, motion: _Motion) -> None:
        """Write the factor of a motion with the settings in force."""
        with reported_failures(motion.archive.parent):
            write_factor(
                FactorBuilder.from_problem(self.problem).reduce(motion.source), motion.archive
            )

    def progress_so_far(self, validation: Sequence[_Motion]) -> CalibrationProgress:
        """Identify from all motions so far; no prior of bodies lowers a deviation."""
        factors = [motion.factor for motion in self.motions]
        estimation = self.problem.estimation
        if estimation.method == 'physical':
            estimation = replace(estimation, method='wls')
        held_out = [motion.factor for motion in validation]
        result = identify_factors(factors, estimation, validation=held_out)
        names = result.structure.names
        places = parameter_places(self.planner.parameters, names, self.problem.robot)
        return CalibrationProgress.from_result(
            result, factors[0].factor.triangles, self.settings, places
        )

    def write(self, outcome: str | None, reasons: Sequence[str] = ()) -> None:
        """Write ``calibration.yaml``."""
        motions = [
            {
                'duration': motion.trajectory.duration,
                'essential': int(standing.essential.sum()),
                'open': list(standing.targets),
                'prediction_error': standing.prediction_error,
            }
            for motion, standing in zip(self.motions, self.standings, strict=True)
        ]
        document = {
            'robot': self.problem.robot.name,
            'settings': to_mapping(self.settings),
            'outcome': outcome,
            'reasons': list(reasons),
            'motions': motions,
        }
        with reported_failures(self.folder):
            write_whole(self.folder / 'calibration.yaml', dump(plain(document)))

    def reasons(self, given_up: np.ndarray) -> tuple[str, ...]:
        """Say for each parameter that stays open how uncertain it is, and what limits it."""
        last, robot = self.standings[-1], self.problem.robot
        use = self.check(self.motions[-1].trajectory).use.quantities
        texts = []
        for i in np.flatnonzero(given_up):
            owner = last.names[i].rpartition('.')[0]
            names = robot.links if owner in robot.links else robot.joints
            text = f'{last.names[i]}: {last.relative_std[i]:.3g} %'
            if owner in names:
                joint = names.index(owner)
                worst = max(use, key=lambda name: use[name][joint])
                share = 100.0 * use[worst][joint]
                text += f'; {robot.joints[joint]} uses {share:.0f} % of its {worst} limit'
            texts.append(text)
        return tuple(texts)


def _made_alike(factor: StoredFactor, problem: IdentificationProblem) -> bool:
    """Return whether a factor was made with the settings of a problem, gravity among them."""
    made = factor.settings
    alike = (made.model, made.signals) == (problem.model, problem.signals)
    return alike and bool(np.array_equal(factor.robot['gravity'], problem.robot.gravity))


def _as_reduced(problem: IdentificationProblem, factor: StoredFactor) -> IdentificationProblem:
    """Return the problem with the settings that a factor was made with."""
    robot = problem.robot.with_gravity(factor.robot['gravity'])
    return replace(
        problem, robot=robot, model=factor.settings.model, signals=factor.settings.signals
    )


def automatic_choice(problem: IdentificationProblem, given: Collection[str] = ()) -> Choose | None:
    """
    Return what chooses settings of signals and model from recordings; None where none can be.

    Parameters
    ----------
    problem:
        Robot and methods.
    given:
        Keys of the settings that are kept.

    """
    keys = frozenset(given)
    if not can_choose(problem.kind, problem.signals, keys):
        return None

    def choose(
        problem: IdentificationProblem, sources: Sequence[Source], present: SignalSettings | None
    ) -> IdentificationProblem:
        return problem.with_selection(
            choose_model(
                recordings_among(sources),
                problem.robot,
                problem.model,
                problem.signals,
                keys,
                present=present,
            )
        )

    return choose


def calibrate(
    folder: Path | str,
    problem: IdentificationProblem,
    executor: Executor,
    settings: CalibrationSettings | None = None,
    *,
    planner: PlannerSettings | None = None,
    plan_motion: PlanMotion = next_motion,
    choose: Choose | None = None,
    confirm: Callable[[Path], bool] = lambda folder: True,
    report: Callable[[str], None] = lambda text: None,
) -> Calibration:
    """
    Plan, execute and identify until the parameters are known as well as wanted.

    Parameters
    ----------
    folder:
        Receives the folders ``motion_1``, ``motion_2``, ..., ``validation`` and ``results``, and
        ``calibration.yaml``.  What it has of a calibration that was interrupted is taken over.
    problem:
        Robot and methods; the method of the estimation has to be one that factors are enough for.
    executor:
        Executes motions and finds their recordings.
    settings:
        Goal and budget; defaults where None.
    planner:
        Of the planner, and of the check before each execution; defaults where None.  Motions are
        shorter than ``duration`` where less is expected to suffice.  The goal is about its
        ``parameters`` alone, as far as they are essential.
    plan_motion:
        Plans a motion, with another seed each time, from where the one before ended.
    choose:
        Fills in settings of signals and model from all recordings so far; None leaves them.
    confirm:
        Asked before each motion, with the folder that has its page; False ends the calibration.
    report:
        Called with what happens, a line each.

    Raises
    ------
    IdentificationError
        of the kind that fits, where a motion is refused or a recording cannot be used.

    """
    settings, planner = settings or CalibrationSettings(), planner or PlannerSettings()
    if planner.parameters == ('payload',):
        raise ExcitationError(
            "'payload' is no parameter of a calibration, which is of the robot itself",
            key='parameters',
            value='payload',
            remedy='name the links or base parameters, or plan one motion for the payload by the '
            'command plan',
        )
    run = _Run(
        Path(folder), problem, planner, settings, plan_motion, executor,
        choose, confirm, report,
    )  # fmt: skip
    validation: list[_Motion] = []
    if settings.prediction_error is not None:
        held_out = run.motion('validation', 0, {})
        if held_out is None:
            return Calibration(DECLINED, (), None, 0.0)
        validation.append(held_out)
    given_up: set[str] = set()
    outcome = SPENT
    while len(run.motions) < settings.motions:
        number = len(run.motions) + 1
        targets = run.standings[-1].targets if run.standings else {}
        wanted = {name: std for name, std in targets.items() if name not in given_up}
        motion = run.motion(f'motion_{number}', number, wanted)
        if motion is None:
            outcome = DECLINED
            break
        run.motions.append(motion)
        run.standings.append(run.progress_so_far(validation))
        last = run.standings[-1]
        report(f'motion_{number}: {last.summary()}')
        given_up = {last.names[i] for i in np.flatnonzero(unreachable_targets(run.standings))}
        run.write(None)
        if last.met:
            outcome = MET
            break
        if settings.prediction_error is None and set(last.targets) <= given_up:
            outcome = UNREACHABLE
            break
    return _finish(run, outcome, validation)


def _finish(run: _Run, outcome: str, validation: Sequence[_Motion]) -> Calibration:
    """Identify from all recordings, write the results, and say how it ended."""
    duration = sum(motion.trajectory.duration for motion in run.motions)
    if not run.motions:
        return Calibration(outcome, (), None, duration)
    reasons = () if outcome == MET else run.reasons(run.standings[-1].open)
    run.write(outcome, reasons)
    sources = [motion.source for motion in run.motions]
    result = identify_sources(run.problem, sources, [motion.factor for motion in validation])
    result = replace(result, name=result.name or run.problem.robot.name)
    save(result, run.folder / 'results')
    return Calibration(outcome, tuple(run.standings), result, duration, reasons)
