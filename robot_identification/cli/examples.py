# SPDX-License-Identifier: Apache-2.0
"""The command ``examples``: shipped recordings, experiment files and robots."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..untrusted.writing import write_named
from .command import argument, command, EXIT_OK

SHARED = ('examples', 'urdf')
"""Folders that are copied: experiment files name their robots relative to themselves."""

GENERATED = {'__pycache__', 'results'}


@command(argument('folder', 'folder to copy them to', Path, 'DIR', nargs='?', default=Path('.')))
def examples(options: argparse.Namespace) -> int:
    """
    Copy the shipped examples into a folder.

    Copy the examples (recordings, experiment files, notebooks) and their robots to the
    folders 'examples' and 'urdf' below DIR. Files that exist already stay as they are.

    Examples
    --------
    robot-identification examples
    robot-identification identify examples/demo_arm/experiment.yaml --out results
    """
    from ..model.urdf_files import shared_folder

    shared = shared_folder()
    names = [
        path.relative_to(shared)
        for top in SHARED
        for path in sorted((shared / top).rglob('*'))
        if path.is_file() and not GENERATED & set(path.relative_to(shared).parts)
    ]
    missing = [name for name in names if not (options.folder / name).exists()]
    for name in missing:
        write_named(options.folder / name, (shared / name).read_bytes(), with_folder=True)
    folders = ' and '.join(f"'{options.folder / top}'" for top in SHARED)
    print(f'{folders}: {len(missing)} files written, {len(names) - len(missing)} there already')
    return EXIT_OK
