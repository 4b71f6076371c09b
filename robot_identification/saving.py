# SPDX-License-Identifier: Apache-2.0
"""Write what an identification found into a folder: for programs, for simulators, for people."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryFile

from .errors import collected_warnings, IdentificationError, once
from .io.results import Result, result_document
from .io.results_yaml import dump, write_together
from .io.urdf import identified_urdf
from .report import html


@dataclass(frozen=True)
class SavedFiles:
    """
    Where `save` wrote a result.

    Attributes
    ----------
    result, report:
        ``result.yaml`` and ``report.html``.
    urdf:
        ``identified.urdf``, or None where no URDF can hold the parameters.
    warnings:
        In words, what could not be written.

    """

    result: Path
    report: Path
    urdf: Path | None
    warnings: tuple[str, ...] = ()


def save(result: Result, folder: Path | str) -> SavedFiles:
    """
    Write ``result.yaml``, ``identified.urdf`` and ``report.html`` into ``folder``.

    Where there is no room for all of them, those of before stay as they are.

    Parameters
    ----------
    result:
        What `identify` found.
    folder:
        Made where it does not exist; files of these names are replaced.

    Raises
    ------
    IdentificationError
        naming a folder that cannot be written to.

    """
    folder = Path(folder)
    names = ('result.yaml', 'report.html', 'identified.urdf')
    saved, report, urdf = (folder / name for name in names)
    text, notes = _urdf_text(result, urdf.name)
    result = replace(result, warnings=once(result.warnings, notes))
    files = {saved: dump(result_document(result)), report: html(result)}
    if text is not None:
        files[urdf] = text
    with told_failures(folder):
        folder.mkdir(parents=True, exist_ok=True)
        write_together(files)
        if text is None:
            urdf.unlink(missing_ok=True)
    return SavedFiles(saved, report, None if text is None else urdf, notes)


def require_writable(folder: Path | str) -> None:
    """
    Make a folder for results, and find out before the work whether it can be written to.

    Raises
    ------
    IdentificationError
        as `save`.

    """
    with told_failures(Path(folder)):
        Path(folder).mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass


@contextmanager
def told_failures(folder: Path, *, remedy: str = 'choose another folder') -> Iterator[None]:
    """Tell of files that cannot be written into a folder in one line, and what helps."""
    try:
        yield
    except OSError as error:
        raise IdentificationError(
            f"cannot write results to '{folder}': {error.strerror or error}",
            file=str(folder),
            remedy=f'{remedy}, or make room',
        ) from error


def _urdf_text(result: Result, name: str) -> tuple[str | None, tuple[str, ...]]:
    """Return the URDF; parameters that none can hold are a warning, the result stands anyway."""
    failure = text = None
    with collected_warnings() as notes:
        try:
            text = identified_urdf(result.robot, result.standard, result.model)
        except IdentificationError as error:
            failure = f'{name} is not written: {error}'
    return text, tuple(notes) if failure is None else (*notes, failure)
