# SPDX-License-Identifier: Apache-2.0
"""Write what an identification found into a folder: for programs, for simulators, for people."""

from __future__ import annotations

from collections.abc import Callable, Iterable
import csv
from dataclasses import dataclass, replace
from functools import partial
from io import TextIOWrapper
from itertools import chain
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING

import numpy as np

from ..errors import collected_warnings, IdentificationError, unique_texts
from ..estimation.validation import PredictedEfforts
from ..options.document import dump
from ..pages.first_screen import FirstScreen, Places
from ..pages.report import html
from ..pages.summary import screen
from ..results.result import Result
from ..untrusted.names import csv_cell
from ..untrusted.writing import reported_failures, whole_file, write_whole
from ..verdicts.document import verdict_json
from .formats import export

if TYPE_CHECKING:
    from ..results.servo_result import ServoResult

KINDS = ('measured', 'predicted')
"""Columns of each joint in a table of predictions, called ``<joint>.<kind>``."""

_NOT_WRITTEN = ' is not written: '

_TARGETS = {
    'mjcf': ('mjcf', 'identified.xml'),
    'mjlab': ('mjcf', 'identified.xml'),
    'sdf': ('sdf', 'identified.sdf'),
    'isaaclab': ('isaaclab', 'actuators.py'),
}
"""Format and file beside the URDF for each target of an experiment."""


@dataclass(frozen=True)
class SavedFiles:
    """
    Paths of the files of a saved result.

    Attributes
    ----------
    result:
        ``result.yaml``.
    report, urdf, verdict:
        ``report.html``, ``identified.urdf`` and ``verdict.json``; None for one that could not be
        made or written.
    target:
        The robot for ``simulation.target``, such as ``identified.xml``; None for none.
    warnings:
        One remark for each thing that could not be written or drawn.

    """

    result: Path
    report: Path | None
    urdf: Path | None
    verdict: Path | None
    target: Path | None = None
    warnings: tuple[str, ...] = ()

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that are there, numbers and verdict first."""
        paths = self.result, self.verdict, self.urdf, self.target, self.report
        return tuple(path for path in paths if path is not None)

    @property
    def failures(self) -> tuple[str, ...]:
        """Remarks on files that are not written."""
        return tuple(text for text in self.warnings if _NOT_WRITTEN in text)


def remarks(result: Result, saved: SavedFiles, *, overview: bool) -> tuple[str, ...]:
    """
    Return the warnings of a result and its files, each once.

    Failures of files are left out: they are the reason of a command's failure.  Where the
    ``overview`` is printed, what the verdict says was left out is, too.
    """
    said = (*saved.failures, *result.omissions) if overview else saved.failures
    texts = unique_texts(result.warnings, result.estimate.warnings, saved.warnings)
    return tuple(text for text in texts if text not in said)


def saved_screen(
    result: Result | ServoResult, saved: SavedFiles, experiment: str
) -> tuple[FirstScreen, tuple[str, ...]]:
    """
    Return the first screen of a result that was saved, and the warnings that it counts.

    ``experiment`` is the experiment file as its user types it; empty where there is none.
    """
    if isinstance(result, Result):
        texts, product = remarks(result, saved, overview=True), saved.urdf
    else:
        texts, product = result.warnings, saved.target
    places = Places(
        experiment=experiment,
        result=str(saved.result),
        product=str(product or saved.result),
        details=str(saved.report or 'what --verbose prints'),
    )
    return screen(result, places, warnings=len(texts)), texts


def save(result: Result | ServoResult, folder: Path | str) -> SavedFiles:
    """
    Write ``result.yaml``, ``verdict.json``, ``identified.urdf`` and ``report.html`` to ``folder``.

    For servos identified from commands, ``identified.xml`` stands in place of the verdict's file.

    The numbers are written first.  What fails after that, an URDF that cannot express the
    parameters, a figure, a disk that is full, is a remark, and is added to ``result.yaml``.  Where
    ``result.yaml`` cannot be written, all files of before stay as they are.

    The folder is made where it does not exist; files of these names are replaced, or removed where
    there is no new one.

    Raises
    ------
    IdentificationError
        naming a folder that ``result.yaml`` cannot be written to.

    """
    folder = Path(folder)
    if not isinstance(result, Result):
        return _save_servos(result, folder)
    names = ('result.yaml', 'verdict.json', 'identified.urdf', 'report.html')
    saved, judged, urdf, report = (folder / name for name in names)
    with reported_failures(folder):
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(saved, dump(result.to_document()))
        for earlier in (judged, urdf, report):
            earlier.unlink(missing_ok=True)
    notes = unique_texts(
        _write(judged, partial(verdict_json, result)),
        _write(urdf, partial(export, result, 'urdf')),
    )
    target = None
    simulation = (result.experiment or {}).get('simulation') or {}
    if simulation.get('target') in _TARGETS:
        format, name = _TARGETS[simulation['target']]
        target = folder / name
        target.unlink(missing_ok=True)
        notes = unique_texts(notes, _write(target, partial(export, result, format)))
    result = replace(result, warnings=unique_texts(result.warnings, notes))
    notes = unique_texts(notes, _write(report, partial(html, result)))
    if notes:
        result = replace(result, warnings=unique_texts(result.warnings, notes))
        notes = unique_texts(notes, _write(saved, lambda: dump(result.to_document())))
    made_report, made_urdf, made_verdict, made_target = (
        path if path and path.exists() else None for path in (report, urdf, judged, target)
    )
    return SavedFiles(saved, made_report, made_urdf, made_verdict, made_target, notes)


def _save_servos(result: ServoResult, folder: Path) -> SavedFiles:
    from .servo_exports import save_servo_result  # MuJoCo is an extra

    with reported_failures(folder):
        paths = {path.name: path for path in save_servo_result(result, folder)}
    target = paths.get('actuators.py', paths['identified.xml'])
    return SavedFiles(
        paths['result.yaml'], paths['report.html'], paths['identified.urdf'], None, target
    )


def require_writable(folder: Path | str) -> None:
    """Make a folder for results; raises IdentificationError where it cannot be written to."""
    with reported_failures(Path(folder)):
        Path(folder).mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass


def write_predictions(path: Path, blocks: Iterable[PredictedEfforts]) -> None:
    """
    Write a table with the columns ``time``, ``<joint>.measured`` and ``<joint>.predicted``.

    The file appears whole or not at all.  A cell without a prediction is empty; numbers have all
    their digits.  Raises IdentificationError naming the file where it cannot be written.
    """
    blocks = iter(blocks)
    first = next(blocks)  # errors of the recording come before there is a file
    try:
        with whole_file(path) as file:
            stream = TextIOWrapper(file, 'utf-8', newline='')
            table = csv.writer(stream, lineterminator='\n')
            names = (f'{joint}.{kind}' for joint in first.joints for kind in KINDS)
            table.writerow(['time', *map(csv_cell, names)])
            for block in chain((first,), blocks):
                table.writerows(_rows(block))
            stream.detach()
    except OSError as error:
        raise IdentificationError(
            f"cannot write predictions to '{path}': {error.strerror or error}",
            file=str(path),
            remedy='choose another file, or make room',
        ) from error


def numbered(path: Path, count: int) -> tuple[Path, ...]:
    """Return the files of several recordings: ``a.csv`` alone, or ``a_1.csv``, ``a_2.csv``, ..."""
    if count == 1:
        return (path,)
    return tuple(path.with_stem(f'{path.stem}_{number}') for number in range(1, count + 1))


def _write(path: Path, make: Callable[[], str]) -> tuple[str, ...]:
    """Write the text that ``make`` returns; return what it warns of and why there is no file."""
    failure = None
    with collected_warnings() as notes:
        try:
            write_whole(path, make())
        except IdentificationError as error:
            failure = str(error)
        except OSError as error:
            failure = error.strerror or str(error)
        except Exception as error:  # the numbers are safe, and worth more than a picture of them
            failure = f'{type(error).__name__}: {error}'
    return tuple(notes) if failure is None else (*notes, f'{path.name}{_NOT_WRITTEN}{failure}')


def _rows(block: PredictedEfforts) -> list[list[float | str]]:
    """Return the lines of a block, without numbers where there is no prediction."""
    pairs = np.stack((block.measured, block.predicted), axis=2).reshape(len(block.time), -1)
    rows = np.column_stack((block.time, pairs))
    lines: list[list[float | str]] = rows.tolist()
    for row, column in np.argwhere(np.isnan(rows)):
        lines[row][column] = ''
    return lines
