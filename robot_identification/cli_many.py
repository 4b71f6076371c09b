# SPDX-License-Identifier: Apache-2.0
"""Parsers of the commands for many recordings: reduce and fleet."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from .cli_options import add_command, add_overrides, add_quiet, count, Run, whole


def add_reduce(commands: Any, run: Run) -> None:
    """Add ``reduce``."""
    parser = add_command(
        commands,
        'reduce',
        run,
        'fold recordings into small factors, and factors into one',
        description="""
            Fold each recording into its factor: a file whose size does not depend on the
            recording's length, and that gives the same parameters. Factors of one problem merge
            into one, in any order and on any machine.

            With an experiment file first: reduces the recordings that follow, read as the first
            one of its data.identification, or without any those that are listed there; one factor
            for each into the folder --out, or all merged where --out is named *.factor.
            With factors alone: merges them into the file --out.
            """,
        epilog="""
            examples:
              robot-identification reduce experiment.yaml --out runs
              robot-identification reduce experiment.yaml monday.mcap tuesday.mcap --out runs
              robot-identification reduce runs/*.factor --out all.factor
              robot-identification identify experiment.yaml --factors all.factor
            """,
    )
    parser.add_argument(
        'inputs',
        type=Path,
        nargs='+',
        metavar='FILE',
        help='an experiment file and recordings, or factors',
    )
    parser.add_argument(
        '--out',
        type=Path,
        required=True,
        metavar='PATH',
        help='folder for one factor a recording, or the file *.factor for all of them merged',
    )
    add_overrides(parser)
    add_quiet(parser)


def add_fleet(commands: Any, run: Run) -> None:
    """Add ``fleet``."""
    parser = add_command(
        commands,
        'fleet',
        run,
        'identify many robots from many recordings, and test which differ from the others',
        description="""
            Reduce thousands of recordings to factors on many processors, merge them by robot and
            over the fleet, identify each robot, and tell which robots differ significantly from
            the others and which change over time. The experiment file says what the robot is and
            how its first recording is read; all recordings are read like that one.

            A run that was stopped or killed goes on where it was when the same command is given
            again: finished factors are kept. Recordings that cannot be used are set aside with
            their reasons, and tried again by the next run.

            Writes into the folder:
              fleet.yaml        everything that was found, for programs
              fleet.html        plots and tables, for people
              set-aside.yaml    recordings that cannot be used, and why
              fleet.factor      all recordings, merged; robots/*.factor those of each robot
              factors/          one factor a recording; journal.jsonl lists them

            Whose a recording is: the name of the folder that it is in, or what --serial finds in
            its path, or its bag's custom data (fleet.serial_key in the experiment file). When it
            was made: its bag's first message, or fleet.stamp, or the file's last change.
            """,
        epilog="""
            exit codes: 0 all recordings were used; 4 some were set aside; 2 bad input; 1 stopped

            examples:
              robot-identification fleet recordings/ --experiment arm.yaml --out fleet
              robot-identification fleet 'data/*/*.mcap' --experiment arm.yaml --out fleet \\
                  --serial 'data/([^/]+)/' --scheduler tcp://cluster:8786
            """,
    )
    parser.add_argument(
        'recordings',
        nargs='+',
        metavar='RECORDING',
        help='files, rosbag2 folders, folders with them, or quoted patterns',
    )
    parser.add_argument(
        '--experiment',
        type=Path,
        required=True,
        metavar='FILE',
        help='the experiment file (docs/experiment.md)',
    )
    parser.add_argument('--out', type=Path, metavar='DIR', help="default: the file's own folder")
    parser.add_argument(
        '--scheduler',
        metavar='NAME',
        help='dask or processes, for processes of this machine; or the address of a Dask '
        'scheduler, tcp://HOST:PORT (default: dask where it is installed, else one process)',
    )
    parser.add_argument(
        '--workers',
        type=count,
        metavar='N',
        help='processes on this machine (default: its cores)',
    )
    parser.add_argument(
        '--retries',
        type=whole,
        default=2,
        metavar='N',
        help='times that a recording is tried again when its worker was lost or the file system '
        'failed (default: %(default)s)',
    )
    parser.add_argument(
        '--serial',
        metavar='REGEX',
        help="finds the robot's serial number in a recording's path: its first group, or all that "
        'it matches (default: fleet.serial of the experiment file, or the folder)',
    )
    parser.add_argument(
        '--keep-going',
        action=argparse.BooleanOptionalAction,
        default=True,
        help='set aside recordings that cannot be used (default), or end with the first one',
    )
    add_overrides(parser)
    add_quiet(parser)
