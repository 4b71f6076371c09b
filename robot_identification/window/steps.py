# SPDX-License-Identifier: Apache-2.0
"""
Steps of the window: calls of the library, with texts and plain values for a page.

They run in a process beside the server (`worker`), write the files that the command line writes,
and raise its errors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass, replace
from pathlib import Path
import shlex
from typing import Any

from ..config.experiment import Experiment
from ..config.experiment_file import load_experiment
from ..data.column_names import ColumnGuess
from ..drafting.any_draft import check_text, draft_of, fixed_robot, lacks_effort_kind
from ..drafting.draft import Draft
from ..drafting.entry_guess import file_columns
from ..drafting.experiment_text import flow
from ..drafting.requirements import require_order
from ..drafting.settings import as_text, stated
from ..errors import collected_warnings, IdentificationError, SettingsError, unique_texts
from ..excitation.planning_settings import load_planning
from ..excitation.robot_page import robot_html
from ..exports.formats import export, export_sets, FORMATS, formats_of, predictions_of, sets_of
from ..exports.saving import require_writable, save, saved_screen
from ..figures.signal_plots import Band
from ..identification.motion_planning import motion_task, planned_experiment
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
    Bands,
    Choice,
    Drafted,
    Export,
    Exported,
    FileColumns,
    Given,
    Identified,
    Planned,
    PROGRAM,
    RobotSeen,
)  # fmt: skip


@dataclass(frozen=True)
class Running:
    """Report of a step on its progress, and the question if it is to end with what it has."""

    progress: Progress
    stopped: Callable[[], bool]


def look_at_robot(run: Running, given: Given, page: str) -> RobotSeen:
    """Read a robot, check its bodies, and write the page that shows it."""
    run.progress(0.1, 'reading the robot')
    with collected_warnings() as notes:
        robot = fixed_robot(given.urdf, xacro_of(given.xacro))
        check = check_robot(robot)
        run.progress(0.5, 'drawing it')
        write_named(Path(page), robot_html(robot, check))
    changed = unique_texts(robot.warnings, notes)
    words = 'check', given.urdf, *_xacro(given)
    return RobotSeen(robot.name, robot.joints, check.findings(), changed, command=words)


def look_at_columns(run: Running, given: Given) -> tuple[FileColumns, ...]:
    """Return the columns of tables, as they are given or recognised."""
    with collected_warnings():  # the draft shows them
        joints = fixed_robot(given.urdf, xacro_of(given.xacro)).joints
    found = []
    for file in given.recordings:
        if file in given.columns:
            found.append(given.columns[file])
            continue
        with suppress(IdentificationError):  # the draft says it
            choices, guess = file_columns(Path(file), joints)
            of = {s: dict(zip(guess.joints, c, strict=True)) for s, c in guess.columns.items()}
            found.append(FileColumns(file, joints, choices, guess.time, of))
    return tuple(found)


def draft_experiment(run: Running, given: Given, experiment: str) -> Drafted:
    """Draft an experiment from recordings as `init` does, and write its file."""
    files = given.recordings
    if not files:
        raise SettingsError('there is no recording', remedy='drop one, or name its file')
    robot, recordings, folder = Path(given.urdf), [*map(Path, files)], Path(experiment).parent
    require_order(robot, recordings)
    require_writable(folder)
    by_hand = (given.columns[file] for file in files if file in given.columns)
    columns = {
        e.file: ColumnGuess.given_by_hand(e.joints, e.columns, e.time, e.time_unit)
        for e in by_hand
    }
    xacro = xacro_of(given.xacro)
    settings = replace(stated(given.facts), xacro_arguments=xacro, columns=columns)
    run.progress(0.1, 'looking at the recordings')
    found = draft_of(robot, recordings, settings)
    proposed, changes = '', {}
    if isinstance(found, Draft) and found.proposal is not None:
        proposed = str(found.proposal)
        changes = {name: as_text(value) for name, value in found.proposal.changes.items()}
    if lacks_effort_kind(found):
        return Drafted(found.summary(), proposed, changes, '', command=())
    text = found.text(robot, folder)
    save_experiment(run, experiment, text)
    words = 'init', given.urdf, *files, *_facts(given.facts), *_xacro(given), '--out', experiment
    return Drafted(found.summary(), proposed, changes, text, command=words)


def save_experiment(run: Running, path: str, text: str) -> None:
    """Check an experiment file as `identify` does, and write it if it can be used."""
    require_writable(Path(path).parent)
    check_text(text, Path(path))
    write_named(Path(path), text)


def draw_signals(run: Running, experiment: str, page: str, bands: Bands | None) -> str:
    """Write the page with an experiment's signals, ``bands`` of `Identified` marked."""
    read = load_experiment(experiment, check_data=False)
    known = {name: [Band(*band) for band in each] for name, each in (bands or {}).items()}
    return write_signals(read, page, None if bands is None else known, run.progress)


def plan_motion(run: Running, given: Given, source: str, folder: str) -> Planned:
    """Plan a motion as `plan` does, for a URDF or an experiment file."""
    fields = {name: text for name, text in given.planner.items() if text}
    rate = {'rate': fields.pop('rate', '')}
    experiment, others = planned_experiment(source, _settings(given.planner_settings))
    standing = experiment is not None and experiment.robot.base == 'floating'
    section = 'standing' if standing else 'planner'
    named = {f'{section}.{name}': text for name, text in fields.items()}
    planning = load_planning(None, {**named, **others})
    with collected_warnings() as notes:
        task = motion_task(source, experiment, planning, stated(rate).rate, xacro_of(given.xacro))
        require_writable(folder)
        made = task.write(folder, run.progress, run.stopped)
    more = (f'warning: {text}' for text in unique_texts(notes) if text not in made.summary)
    sets = _sets({**named, **_settings(given.planner_settings)})
    words = 'plan', source, *_facts(rate), *sets, *_xacro(given), '--out', folder
    files = tuple(map(str, made.files))
    return Planned('\n'.join([made.summary, *more]), files, command=words)


def identify_experiment(run: Running, given: Given, experiment: str) -> Identified:
    """Identify by an experiment file as `identify` or `tool` does, and write the result."""
    overruled = _settings(given.settings)
    read = load_experiment(experiment, overruled, check_data=False)
    folder = read.output_folder or Path(experiment).parent / 'results'
    require_writable(folder)
    words = experiment, *_sets(overruled)
    if read.data.tool is not None and not read.data.identification:
        return _tool(read, folder, words)
    read = load_experiment(experiment, overruled)
    way: Callable[..., Result | ServoResult] = identify
    if read.robot.by_commands:
        from ..identification.servo_pipeline import identify_servo  # MuJoCo is an extra

        way = identify_servo
    result = way(read, progress=run.progress)
    run.progress(1.0, 'writing the results')
    saved = save(result, folder)
    first, warnings = saved_screen(result, saved, experiment)
    signals = result.recorded.signals if isinstance(result, Result) else ()
    return Identified(
        first.text(),
        first.level,
        tuple(map(str, saved.files)),
        _exports(result),
        report=str(saved.report or ''),
        details='' if saved.report else summary(result),
        warnings=(*saved.failures, *warnings),
        choices=tuple(_choices(result)),
        bands={each.name: [astuple(band) for band in each.bands] for each in signals},
        command=('identify', *words),
    )


def _tool(read: Experiment, folder: Path, words: tuple[str, ...]) -> Identified:
    with collected_warnings() as notes:
        result = identify_tool(read)
    path = str(save_tool(result, folder))
    places = Places(words[0], path, path, f'{PROGRAM} export {path} --format gravity')
    first, details = screen(result.identified, places), summary(result.identified)
    return Identified(
        first.text(),
        first.level,
        (path,),
        _exports(result),
        details=details,
        warnings=tuple(notes),
        command=('tool', *words),
    )


def _choices(result: Result | ServoResult) -> Sequence[Choice]:
    if not isinstance(result, Result) or result.selection is None:
        return ()
    settings = result.selection.settings()
    # of several steps the last one
    latest = {each.key: each for each in result.selection.choices}
    return [
        Choice(key, flow(plain(settings.get(key, each.value))), str(each))
        for key, each in latest.items()
    ]


def _exports(result: Any) -> tuple[Export, ...]:
    whole = formats_of(result)
    names = (*whole, *(name for name in sets_of(result) if name not in whole))
    told = {name: predictions_of(result, name) for name in whole}
    return tuple(
        Export(name, FORMATS[name].doc, told.get(name, ()), name not in whole) for name in names
    )


def export_result(run: Running, result: str, format: str, samples: str, out: str) -> Exported:
    """Write an identified robot, or sets of its parameters, as `export` does."""
    if samples and not (samples.isdecimal() and int(samples)):
        raise SettingsError(
            f"'--samples {samples}' is no number of sets", value=samples, remedy='for example 100'
        )
    found = read_any_result(result)
    suffix = _SUFFIXES.get(format, FORMATS[format].suffix or format)
    path = Path(out) / f'{"samples" if samples else "robot"}_{format}.{suffix}'
    require_writable(path.parent)
    with collected_warnings() as notes:
        text = export_sets(found, int(samples), format) if samples else export(found, format)
    write_named(path, text)
    words = 'export', result, '--format', format, *_facts({'samples': samples})
    return Exported(format, str(path), unique_texts(notes), command=(*words, '--out', str(path)))


_SUFFIXES = {'isaaclab': 'py', 'mjlab': 'py', 'moveit': 'yaml', 'plotjuggler': 'xml'}
"""Of files whose format names none."""


# ------------------------------------------------------------------------- words of command lines


def _xacro(given: Given) -> list[str]:
    return ['--xacro', *shlex.split(given.xacro)] if given.xacro.strip() else []


def _facts(facts: Mapping[str, Any]) -> Iterator[str]:
    for name, text in facts.items():
        if text:
            yield f'--{name.replace("_", "-")}'
            yield from () if text is True else text.replace(',', ' ').split()


def _settings(lines: str) -> dict[str, str]:
    return settings_of(lines.splitlines())


def _sets(settings: Mapping[str, str]) -> Iterator[str]:
    for key, text in settings.items():
        yield from ('--set', f'{key}={text}')
