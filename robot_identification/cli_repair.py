# SPDX-License-Identifier: Apache-2.0
"""Parser of the command ``repair``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .cli_options import add_command, Run


def add_repair(commands: Any, run: Run) -> None:
    """Add ``repair``."""
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
