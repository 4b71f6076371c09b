# SPDX-License-Identifier: Apache-2.0
"""Write what was found about a fleet into its folder."""

from __future__ import annotations

from pathlib import Path

from ..io.results_yaml import dump
from .report import html
from .result import FleetResult
from .store import write_bytes


def save_fleet(result: FleetResult, folder: Path | str) -> tuple[Path, ...]:
    """
    Write ``fleet.yaml`` and ``fleet.html`` into ``folder``.

    Returns
    -------
    tuple of Path
        The files.

    Raises
    ------
    IdentificationError
        naming a file that cannot be written.

    """
    folder = Path(folder)
    files = {'fleet.yaml': dump(result.to_dict()), 'fleet.html': html(result)}
    for name, text in files.items():
        write_bytes(folder / name, text.encode())
    return tuple(folder / name for name in files)
