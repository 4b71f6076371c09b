# SPDX-License-Identifier: Apache-2.0
"""Command ``repair``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from .options import add_command
from .output import EXIT_BAD_INPUT, EXIT_OK, fail


def add_parser(commands: Any) -> None:
    """Add ``repair`` to the commands."""
    parser = add_command(
        commands,
        'repair',
        run,
        'complete recordings whose recorder was killed, lost its power or found the disk full',
        description="""
            Complete recordings (rosbag2 in mcap) that were cut off, whoever recorded them: what is
            left is written anew with index and end, metadata.yaml is made, and the old file stays
            as unfinished/*.mcap.unfinished beside it. Recordings that are complete, or that are
            still being recorded, stay as they are.
            """,
        epilog="""
            examples:
              robot-identification repair recordings/first
              robot-identification repair recordings
            """,
    )
    parser.add_argument(
        'recordings',
        type=Path,
        nargs='+',
        metavar='RECORDING',
        help='a rosbag2 folder, an .mcap file, or a folder of such folders',
    )


def run(options: argparse.Namespace) -> int:
    """Do ``repair`` and return the exit code."""
    from ..data.bag_repair import recordings_in, repair_bag
    from ..errors import RecordingError

    code = EXIT_OK
    for path in options.recordings:
        for bag in recordings_in(path):
            try:
                done = repair_bag(bag) or ('is complete, nothing to do',)
            except RecordingError as error:
                code = fail(error, EXIT_BAD_INPUT)
                continue
            for line in done:
                print(f'{bag}: {line}', flush=True)
    return code
