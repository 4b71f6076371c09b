# SPDX-License-Identifier: Apache-2.0
"""Measured and predicted efforts as CSV, so that anyone can judge a result by own means."""

from __future__ import annotations

from collections.abc import Iterable
import csv
from itertools import chain
import os
from pathlib import Path

import numpy as np

from ..errors import IdentificationError
from ..estimation.validation import PredictedEfforts

KINDS = ('measured', 'predicted')
"""Columns of each joint, called ``<joint>.<kind>``."""


def write_predictions(path: Path, blocks: Iterable[PredictedEfforts]) -> None:
    """
    Write a table with the columns ``time``, ``<joint>.measured`` and ``<joint>.predicted``.

    The file appears whole or not at all.  A cell without a prediction is empty; numbers have all
    their digits.

    Parameters
    ----------
    path:
        The file.
    blocks:
        What it holds, one block at a time.

    Raises
    ------
    IdentificationError
        naming the file that cannot be written.

    """
    blocks = iter(blocks)
    first = next(blocks)  # errors of the recording come before there is a file
    temporary = path.with_name(f'.{path.name}.{os.getpid()}')
    try:
        with temporary.open('w', newline='', encoding='utf-8') as stream:
            table = csv.writer(stream, lineterminator='\n')
            names = (f'{joint}.{kind}' for joint in first.joints for kind in KINDS)
            table.writerow(['time', *names])
            for block in chain((first,), blocks):
                table.writerows(_rows(block))
        os.replace(temporary, path)
    except OSError as error:
        raise IdentificationError(
            f"cannot write predictions to '{path}': {error.strerror or error}",
            file=str(path),
            remedy='choose another file, or make room',
        ) from error
    finally:
        temporary.unlink(missing_ok=True)


def numbered(path: Path, count: int) -> tuple[Path, ...]:
    """Return the files of several recordings: ``a.csv`` alone, or ``a_1.csv``, ``a_2.csv``, ..."""
    if count == 1:
        return (path,)
    return tuple(path.with_stem(f'{path.stem}_{number}') for number in range(1, count + 1))


def _rows(block: PredictedEfforts) -> list[list[float | str]]:
    """Return the lines of a block, without numbers where there is no prediction."""
    pairs = np.stack((block.measured, block.predicted), axis=2).reshape(len(block.time), -1)
    rows = np.column_stack((block.time, pairs))
    lines: list[list[float | str]] = rows.tolist()
    for row, column in np.argwhere(np.isnan(rows)):
        lines[row][column] = ''
    return lines
