# SPDX-License-Identifier: Apache-2.0
"""
Steps of the window: calls of the library, with texts and plain values for a page.

They run in a process beside the server (`worker`), write the files that the command line writes,
and raise its errors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, cycle, islice
from pathlib import Path
from typing import Any

from ..config.experiment_file import experiment_from, load_experiment
from ..config.problem import planned_robot
from ..data.column_names import ColumnGuess
from ..diagnosis.recording_faults import read_first_rows, saturated_times
from ..drafting.draft import draft
from ..drafting.entry_guess import file_columns
from ..drafting.experiment_text import flow
from ..drafting.requirements import require_order
from ..drafting.settings import DraftSettings
from ..errors import collected_warnings, IdentificationError, SettingsError, unique_texts
from ..excitation.collisions import planned_collisions
from ..excitation.plan_page import save_plan
from ..excitation.planner import plan
from ..excitation.planning_settings import load_planning
from ..excitation.robot_page import robot_html
from ..exports.formats import export, export_sets, FORMATS, formats_of, predictions_of
from ..exports.saving import require_writable, save, saved_screen
from ..figures.page import write_figures
from ..figures.signal_plots import Band, envelope, signal_figures
from ..identification.pipeline import identify
from ..identification.reduction import recordings_among
from ..model.robot_check import check_robot
from ..model.urdf_repair import robot_with_inertia
from ..options.document import parse_document, plain
from ..results.result import Result
from ..results.stored_result import read_result
from ..support.progress import Progress
from ..untrusted.writing import write_named
from .values import (
    Choice,
    Drafted,
    Export,
    FileColumns,
    Identified,
    Planned,
    RobotSeen,
    settings_of,
    Step,
    xacro_of,
)


@dataclass(frozen=True)
class Running:
    """Report of a step on its progress, and the question if it is to end with what it has."""

    progress: Progress
    stopped: Callable[[], bool]


LISTS = ('gear_ratios', 'position_offsets', 'gains', 'gravity')
NUMBERS = ('rate', 'ticks')
"""Facts of a draft that are lists of numbers, and numbers."""


def look_at_robot(run: Running, source: str, xacro: str, page: str) -> RobotSeen:
    """Read a robot, check its bodies, and write the page that shows it."""
    run.progress(0.1, 'reading the robot')
    with collected_warnings() as notes:
        robot = robot_with_inertia(source, xacro_arguments=xacro_of(xacro))
        check = check_robot(robot)
        run.progress(0.5, 'drawing it')
        write_named(Path(page), robot_html(robot, check))
    findings = check.findings()
    return RobotSeen(robot.name, robot.joints, findings, unique_texts(robot.warnings, notes))


def look_at_columns(
    run: Running,
    urdf: str,
    files: Sequence[str],
    xacro: str,
    columns: Mapping[str, FileColumns],
) -> tuple[FileColumns, ...]:
    """Return the columns of tables, as they are given or recognised."""
    if not columns.keys() ^ set(files):
        return tuple(columns.values())
    with collected_warnings():  # the draft shows them
        joints = robot_with_inertia(urdf, xacro_arguments=xacro_of(xacro)).joints
    found = []
    for file in files:
        if file in columns:
            found.append(columns[file])
            continue
        with suppress(IdentificationError):  # the draft says it
            choices, guess = file_columns(Path(file), joints)
            of = {s: dict(zip(guess.joints, c, strict=True)) for s, c in guess.columns.items()}
            found.append(FileColumns(file, joints, choices, guess.time, of))
    return tuple(found)


def given_columns(columns: FileColumns) -> ColumnGuess:
    """Return columns as they are given to a draft, of the joints that have all its signals."""
    found = {
        signal: {joint: c for joint, c in each.items() if c is not None}
        for signal, each in columns.columns.items()
    }
    found = {signal: each for signal, each in found.items() if each}
    joints = tuple(j for j in columns.joints if found and all(j in e for e in found.values()))
    of = {signal: tuple(each[joint] for joint in joints) for signal, each in found.items()}
    return ColumnGuess(columns.time, of if joints else {}, joints, given=True)


def draft_experiment(
    run: Running,
    urdf: str,
    files: Sequence[str],
    xacro: str,
    columns: Mapping[str, FileColumns],
    facts: Mapping[str, Any],
    experiment: str,
) -> Drafted:
    """Draft an experiment from recordings as `init` does, and write its file."""
    if not files:
        raise SettingsError('there is no recording', remedy='drop one, or name its file')
    robot, recordings, path = Path(urdf), [Path(file) for file in files], Path(experiment)
    require_order(robot, recordings)
    require_writable(path.parent)
    guesses = {file: given_columns(each) for file, each in columns.items()}
    settings = replace(draft_settings(facts), xacro_arguments=xacro_of(xacro), columns=guesses)
    run.progress(0.1, 'looking at the recordings')
    found = draft(robot, recordings, settings)
    proposed, changes = '', {}
    if found.proposal is not None:
        proposed = str(found.proposal)
        changes = {name: fact_of(value) for name, value in found.proposal.changes.items()}
    text = ''
    if settings.effort_kind is not None:
        text = found.text(robot, path.parent)
        save_experiment(run, experiment, text)
    return Drafted(found.summary(), proposed, changes, text)


def draft_settings(facts: Mapping[str, Any]) -> DraftSettings:
    """Return the settings of a draft from texts by name; empty ones are left out."""
    values: dict[str, Any] = {}
    for name, text in facts.items():
        if not text:
            continue
        option = f'--{name.replace("_", "-")}'
        try:
            if name in LISTS:
                values[name] = tuple(map(float, text.replace(',', ' ').split()))
            elif name in NUMBERS:
                values[name] = float(text)
            else:
                values[name] = text
        except ValueError:
            what = 'numbers' if name in LISTS else 'a number'
            raise SettingsError(
                f"'{option} {text}' is not {what}", value=text, remedy='for example 32'
            ) from None
        if name in NUMBERS and not values[name] > 0.0:
            raise SettingsError(f"'{option} {text}' is not above 0", value=text)
    if len(values.get('gravity', (0, 0, 0))) != 3:
        raise SettingsError(
            "'--gravity' has not three numbers", value=values['gravity'], remedy='give x, y and z'
        )
    return DraftSettings(**values)


def fact_of(value: Any) -> str:
    """Return a setting of a draft as the text of a fact."""
    return value if isinstance(value, str) else ' '.join(f'{number:g}' for number in value)


def save_experiment(run: Running, path: str, text: str) -> None:
    """Check an experiment file as `identify` does, and write it if it can be used."""
    require_writable(Path(path).parent)
    experiment_from(parse_document(text, path), Path(path).parent)
    write_named(Path(path), text)


def draw_signals(
    run: Running,
    experiment: str,
    page: str,
    bands: Sequence[tuple[str, float, float, str, tuple[str, ...]]],
) -> str:
    """
    Write the page with the signals of an experiment's recordings; return their sizes.

    Times whose efforts are limited are marked, and those of ``bands``, see `Identified`.
    """
    found = load_experiment(experiment)
    with collected_warnings():  # the draft has shown them
        robot = found.build_robot()
    kinds = ('identification', 'validation')
    sources = recordings_among(
        tuple(chain.from_iterable(found.sources(kind, robot.joints) for kind in kinds))
    )
    envelopes = []
    for k, source in enumerate(sources):
        run.progress(k / len(sources), f'reading {getattr(source, "source", "a recording")}')
        read = envelope(source)
        found_here = (Band(*each[1:]) for each in bands if each[0] == read.name)
        saturated = saturated_times(robot, read_first_rows([source]))
        more = (
            Band(first, last, f'at {f.level:.3g}', (joint,))
            for joint, f in saturated
            for _, first, last in (f.longest,)
        )
        envelopes.append(replace(read, bands=(*read.bands, *found_here, *more)))
    units = ['rad' if unit == 'N m' else 'm' for unit in robot.effort_units]
    columns = max((len(each.joints) for each in envelopes), default=0)
    figures = signal_figures(envelopes, list(islice(cycle(units), columns)))
    said = '; '.join(f'{each.name}: {each.rows} samples' for each in envelopes)
    write_figures(page, 'Recorded signals at the joints', said, figures)
    return said


def plan_motion(
    run: Running,
    source: str,
    settings: str,
    xacro: str,
    folder: str,
) -> Planned:
    """Plan a motion as `plan` does, for a URDF or an experiment file."""
    planning = load_planning(None, settings_of(settings))
    robot, model = planned_robot(source, planning, xacro_of(xacro))
    require_writable(folder)
    with collected_warnings() as notes:
        made = plan(robot, planning.planner, run.progress, run.stopped, model=model)
        collisions = planned_collisions(robot, planning.planner)
        files = save_plan(folder, made, robot, model, collisions)
    texts = unique_texts(made.warnings, notes)
    return Planned(made.summary(), texts, tuple(map(str, files)))


def identify_experiment(run: Running, experiment: str, settings: str) -> Identified:
    """Identify by an experiment file as `identify` does, and write the result."""
    read = load_experiment(experiment, settings_of(settings))
    if read.robot.servo is not None:
        raise SettingsError(
            'recordings of position servos are not identified in the window',
            key='robot.effort_kind',
            remedy=f'robot-identification identify {experiment}',
        )
    folder = read.output_folder or Path(experiment).parent / 'results'
    require_writable(folder)
    result = identify(read, progress=run.progress)
    run.progress(1.0, 'writing the results')
    saved = save(result, folder)
    first, warnings = saved_screen(result, saved, experiment)
    return Identified(
        first.text(),
        first.level,
        tuple(map(str, saved.files)),
        str(saved.report or ''),
        (*saved.failures, *warnings),
        tuple(_choices(result)),
        tuple(_exports(result)),
        tuple(
            (d.source, d.begin, d.end, d.kind.replace('_', ' '), d.joints)
            for d in result.recorded.disturbances
        ),
    )


def _choices(result: Result) -> Sequence[Choice]:
    choices = () if result.selection is None else result.selection.choices
    settings = {} if result.selection is None else result.selection.settings()
    reasons = {each.key: str(each) for each in choices}  # of several steps the last one
    values = {each.key: each.value for each in choices}
    return [
        Choice(key, flow(plain(settings.get(key, values[key]))), reason)
        for key, reason in reasons.items()
    ]


def _exports(result: Result) -> Sequence[Export]:
    robots = formats_of(result)
    alone = [name for name, each in FORMATS.items() if each.write_sets and name not in robots]
    return [
        Export(
            name,
            FORMATS[name].doc,
            predictions_of(result, name) if name in robots else (),
            name in alone,
        )
        for name in (*robots, *alone)
    ]


def export_result(run: Running, result: str, format: str, samples: str, out: str) -> str:
    """Write an identified robot, or sets of its parameters, as `export` does; return the file."""
    if samples and not (samples.isdecimal() and int(samples)):
        raise SettingsError(
            f"'--samples {samples}' is no number of sets", value=samples, remedy='for example 100'
        )
    found = read_result(result)
    suffix = FORMATS[format].suffix or format
    name = 'samples' if samples else 'robot'
    path = Path(out) / f'{name}_{format}.{_SUFFIXES.get(format, suffix)}'
    text = export_sets(found, int(samples), format) if samples else export(found, format)
    write_named(path, text)
    return str(path)


_SUFFIXES = {'isaaclab': 'py', 'mjlab': 'py', 'moveit': 'yaml', 'plotjuggler': 'xml'}
"""Of files whose format names none."""

STEPS: dict[Step, Callable[..., Any]] = {
    step.__name__: step  # type: ignore[misc]
    for step in (
        look_at_robot, look_at_columns, draft_experiment, save_experiment, draw_signals,
        plan_motion, identify_experiment, export_result,
    )
}  # fmt: skip
"""The steps by their names."""
