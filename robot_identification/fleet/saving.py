# SPDX-License-Identifier: Apache-2.0
"""Write what was found about a fleet into its folder."""

from __future__ import annotations

from pathlib import Path
import warnings

from ..errors import IdentificationWarning
from ..results.result_yaml import dump
from .report import html
from .result import FleetResult
from .store import write_bytes


def save_fleet(result: FleetResult, folder: Path | str) -> tuple[Path, ...]:
    """
    Write ``fleet.yaml`` and ``fleet.html`` into ``folder``, the numbers first.

    Returns
    -------
    tuple of Path
        The files.

    Raises
    ------
    IdentificationError
        naming a file that cannot be written.

    Warns
    -----
    IdentificationWarning
        where the report cannot be drawn; then there is none.

    """
    numbers, report = Path(folder) / 'fleet.yaml', Path(folder) / 'fleet.html'
    write_bytes(numbers, dump(result.to_dict()).encode())
    try:
        text = html(result)
    except Exception as error:  # the numbers are worth more than a picture of them
        report.unlink(missing_ok=True)
        failure = f'{report.name} is not written: {type(error).__name__}: {error}'
        warnings.warn(failure, IdentificationWarning, stacklevel=2)
        return (numbers,)
    write_bytes(report, text.encode())
    return numbers, report
