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
from pathlib import Path
from typing import Any

from ..config.experiment import Experiment
from ..config.experiment_file import load_experiment
from ..config.problem import planned_robot
from ..data.column_names import ColumnGuess
from ..drafting.any_draft import check_text, draft_of, fixed_robot, lacks_effort_kind
from ..drafting.draft import Draft
from ..drafting.entry_guess import file_columns
from ..drafting.experiment_text import flow
from ..drafting.requirements import require_order
from ..drafting.settings import as_text, stated
from ..errors import collected_warnings, IdentificationError, SettingsError, unique_texts
from ..excitation.collisions import planned_collisions
from ..excitation.plan_page import save_plan
from ..excitation.planner import plan
from ..excitation.planning_settings import load_planning
from ..excitation.robot_page import robot_html
from ..exports.formats import export, export_sets, FORMATS, formats_of, predictions_of, sets_of
from ..exports.saving import require_writable, save, saved_screen
from ..figures.signal_plots import Band
from ..identification.pipeline import identify
from ..identification.signal_page import write_signals
from ..identification.tool_pipeline import identify_tool, read_any_result, save_tool
from ..model.robot_check import check_robot
from ..options.document import plain
from ..options.texts import settings_of, xacro_of
from ..pages.first_screen import Places
from ..pages.summary import screen, summary
from ..results.result import Result
from ..results.servo_result import ServoResult
from ..support.progress import Progress
from ..untrusted.writing import write_named
from .values import (
    Choice,
    Drafted,
    Export,
    FileColumns,
    Identified,
    Planned,
    PROGRAM,
    RobotSeen,
)


@dataclass(frozen=True)
class Running:
    """Report of a step on its progress, and the question if it is to end with what it has."""

    progress: Progress
    stopped: Callable[[], bool]


def look_at_robot(run: Running, source: str, xacro: str, page: str) -> RobotSeen:
    """Read a robot, check its bodies, and write the page that shows it."""
    run.progress(0.1, 'reading the robot')
    with collected_warnings() as notes:
        robot = fixed_robot(source, xacro_of(xacro))
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
        joints = fixed_robot(urdf, xacro_of(xacro)).joints
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
    return ColumnGuess(
        columns.time, of if joints else {}, joints, given=True, time_unit=columns.time_unit
    )


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
    settings = replace(stated(facts), xacro_arguments=xacro_of(xacro), columns=guesses)
    run.progress(0.1, 'looking at the recordings')
    found = draft_of(robot, recordings, settings)
    proposed, changes = '', {}
    if isinstance(found, Draft) and found.proposal is not None:
        proposed = str(found.proposal)
        changes = {name: as_text(value) for name, value in found.proposal.changes.items()}
    text = ''
    if not lacks_effort_kind(found):
        text = found.text(robot, path.parent)
        save_experiment(run, experiment, text)
    return Drafted(found.summary(), proposed, changes, text)


def save_experiment(run: Running, path: str, text: str) -> None:
    """Check an experiment file as `identify` does, and write it if it can be used."""
    require_writable(Path(path).parent)
    check_text(text, Path(path))
    write_named(Path(path), text)


def draw_signals(
    run: Running, experiment: str, page: str, bands: Sequence[tuple[Any, ...]] | None
) -> str:
    """Write the page with an experiment's signals, ``bands`` of `Identified` marked."""
    known: dict[str, list[Band]] = {}
    for name, *band in bands or ():
        known.setdefault(name, []).append(Band(*band))
    read = load_experiment(experiment, check_data=False)
    return write_signals(read, page, None if bands is None else known, run.progress)


def plan_motion(
    run: Running,
    source: str,
    settings: str,
    xacro: str,
    folder: str,
) -> Planned:
    """Plan a motion as `plan` does, for a URDF or an experiment file."""
    if source.endswith(('.yaml', '.yml')):
        _require_trajectories(load_experiment(source, check_data=False), source)
    planning = load_planning(None, settings_of(settings.splitlines()))
    robot, model = planned_robot(source, planning, xacro_of(xacro))
    require_writable(folder)
    with collected_warnings() as notes:
        made = plan(robot, planning.planner, run.progress, run.stopped, model=model)
        collisions = planned_collisions(robot, planning.planner)
        files = save_plan(folder, made, robot, model, collisions)
    more = (f'warning: {text}' for text in unique_texts(notes) if text not in made.warnings)
    return Planned('\n'.join([made.summary(), *more]), tuple(map(str, files)))


def _require_trajectories(experiment: Experiment, source: str) -> None:
    """Require a robot whose motions the window can show; raises SettingsError."""
    servos = experiment.robot.servo is not None
    if servos or experiment.robot.base == 'floating':
        what = 'commands for servos' if servos else 'motions of robots on their feet'
        raise SettingsError(
            f'{what} are not planned in the window',
            remedy=f'{PROGRAM} plan {source}' + ' --rate HZ' * servos,
        )


def identify_experiment(run: Running, experiment: str, settings: str) -> Identified:
    """Identify by an experiment file as `identify` or `tool` does, and write the result."""
    overruled = settings_of(settings.splitlines())
    read = load_experiment(experiment, overruled, check_data=False)
    folder = read.output_folder or Path(experiment).parent / 'results'
    if read.data.tool is not None and not read.data.identification:
        require_writable(folder)
        return _tool(read, folder, experiment)
    read = load_experiment(experiment, overruled)
    require_writable(folder)
    way: Callable[..., Result | ServoResult] = identify
    if read.robot.by_commands:
        from ..identification.servo_pipeline import identify_servo  # MuJoCo is an extra

        way = identify_servo
    result = way(read, progress=run.progress)
    run.progress(1.0, 'writing the results')
    saved = save(result, folder)
    first, warnings = saved_screen(result, saved, experiment)
    bands: tuple[tuple[Any, ...], ...] = ()
    if isinstance(result, Result):
        bands = tuple(
            (each.name, band.first, band.last, band.text, band.joints, band.everywhere)
            for each in result.recorded.signals
            for band in each.bands
        )
    return Identified(
        first.text(),
        first.level,
        tuple(map(str, saved.files)),
        str(saved.report or ''),
        first.text(),
        (*saved.failures, *warnings),
        tuple(_choices(result)),
        _exports(result),
        bands,
    )


def _tool(read: Experiment, folder: Path, experiment: str) -> Identified:
    with collected_warnings() as notes:
        result = identify_tool(read)
    path = str(save_tool(result, folder))
    places = Places(experiment, path, path, f'{PROGRAM} export {path} --format gravity')
    first, table = screen(result.identified, places), summary(result.identified)
    exports = _exports(result)
    return Identified(first.text(), first.level, (path,), '', table, tuple(notes), (), exports, ())


def _choices(result: Result | ServoResult) -> Sequence[Choice]:
    selection = result.selection if isinstance(result, Result) else None
    if selection is None:
        return ()
    settings = selection.settings()
    latest = {each.key: each for each in selection.choices}  # of several steps the last one
    return [
        Choice(key, flow(plain(settings.get(key, each.value))), str(each))
        for key, each in latest.items()
    ]


def _exports(result: Any) -> tuple[Export, ...]:
    whole = formats_of(result)
    names = (*whole, *(name for name in sets_of(result) if name not in whole))
    return tuple(
        Export(
            name,
            FORMATS[name].doc,
            predictions_of(result, name) if name in whole else (),
            name not in whole,
        )
        for name in names
    )


def export_result(
    run: Running, result: str, format: str, samples: str, out: str
) -> tuple[str, tuple[str, ...]]:
    """
    Write an identified robot, or sets of its parameters, as `export` does.

    Returns
    -------
    The file, and what it cannot hold.

    """
    if samples and not (samples.isdecimal() and int(samples)):
        raise SettingsError(
            f"'--samples {samples}' is no number of sets", value=samples, remedy='for example 100'
        )
    found = read_any_result(result)
    suffix = FORMATS[format].suffix or format
    name = 'samples' if samples else 'robot'
    path = Path(out) / f'{name}_{format}.{_SUFFIXES.get(format, suffix)}'
    require_writable(path.parent)
    with collected_warnings() as notes:
        text = export_sets(found, int(samples), format) if samples else export(found, format)
    write_named(path, text)
    return str(path), unique_texts(notes)


_SUFFIXES = {'isaaclab': 'py', 'mjlab': 'py', 'moveit': 'yaml', 'plotjuggler': 'xml'}
"""Of files whose format names none."""
