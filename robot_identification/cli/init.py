# SPDX-License-Identifier: Apache-2.0
"""Command ``init``."""

from __future__ import annotations

import argparse
from pathlib import Path
import sys
from typing import Any

from ..errors import SettingsError
from .options import add_command, positive
from .output import EXIT_OK

KINDS = ('joint_torque', 'motor_torque', 'motor_current')


def add_parser(commands: Any) -> None:
    """Add ``init`` to the commands."""
    parser = add_command(
        commands,
        'init',
        run,
        'write an experiment file from a URDF and recordings',
        description="""
            Look at recordings (csv, npz, rosbag2), find the columns of time, positions, velocities
            and efforts of the URDF's joints, the unit and rate of the stamps, and write an
            experiment file with comments, from which 'identify' runs. Of several recordings the
            last one is kept for validation. What the effort is (joint torque, motor torque, motor
            current) no recording tells for certain: it is asked for, with what speaks for which.
            """,
        epilog="""
            examples:
              robot-identification init robot.urdf run1.csv run2.csv
              robot-identification init robot.urdf recordings/first recordings/second \\
                  --effort-kind joint_torque
              robot-identification init ur.urdf run.csv --effort-kind motor_current \\
                  --gains 14.9 13.3 11.1 10.6 11.0 11.5
            """,
    )
    parser.add_argument('urdf', type=Path, help='the URDF, xacro or MJCF file of the robot')
    parser.add_argument(
        'recordings', type=Path, nargs='+', metavar='RECORDING', help='files or rosbag2 folders'
    )
    parser.add_argument(
        '--effort-kind',
        choices=KINDS,
        help='kind of the recorded efforts (default: asked for)',
    )
    parser.add_argument(
        '--gains',
        type=float,
        nargs='+',
        metavar='K',
        help='effort at the joint by recorded effort [N m/A], one a joint; without them the gains '
        'of motor currents are found from the recordings',
    )
    parser.add_argument(
        '--gear-ratios',
        type=float,
        nargs='+',
        metavar='N',
        help='of data recorded at the motors: motor turns by joint turn, one a joint',
    )
    parser.add_argument(
        '--position-offsets',
        type=float,
        nargs='+',
        metavar='Q',
        help='positions of the joints in the URDF where the recorded ones are 0 [rad or m]',
    )
    parser.add_argument('--degrees', action='store_true', help='positions are in degrees')
    parser.add_argument(
        '--rate', type=positive, metavar='HZ', help='sampling rate of tables without time stamps'
    )
    parser.add_argument(
        '-o',
        '--out',
        type=Path,
        default=Path('experiment.yaml'),
        metavar='FILE',
        help='file to write (default: %(default)s)',
    )
    parser.add_argument('--force', action='store_true', help='replace the file if it exists')


def run(options: argparse.Namespace) -> int:
    """Do ``init`` and return the exit code."""
    from dataclasses import replace

    from ..config.draft import draft, DraftSettings
    from ..config.experiment_file import experiment_from
    from ..options.document import parse_document
    from ..results.saving import require_writable

    if options.out.exists() and not options.force:
        raise SettingsError(
            f"'{options.out}' exists already",
            file=str(options.out),
            remedy='name another file with --out, or give --force',
        )
    require_writable(options.out.parent)
    settings = DraftSettings(
        effort_kind=options.effort_kind,
        rate=options.rate,
        gear_ratios=options.gear_ratios and tuple(options.gear_ratios),
        position_offsets=options.position_offsets and tuple(options.position_offsets),
        gains=options.gains and tuple(options.gains),
        degrees=options.degrees,
    )
    found = draft(options.urdf, options.recordings, settings)
    print(found.summary())
    if settings.effort_kind is None:
        found = replace(found, settings=replace(settings, effort_kind=_asked()))
    text = found.text(options.urdf, options.out.parent)
    experiment_from(parse_document(text, str(options.out)), options.out.parent)
    options.out.write_text(text, encoding='utf-8')
    print(f'\nwrote {options.out}\nnext: robot-identification identify {options.out}')
    return EXIT_OK


def _asked() -> str:
    """Ask for the kind of effort on a terminal."""
    if sys.stdin.isatty():
        print('\nWhat is the effort in the recordings?')
        for number, kind in enumerate(KINDS, 1):
            print(f'  {number}  {kind}')
        print('number: ', end='', flush=True)
        answer = sys.stdin.readline().strip()
        if answer in map(str, range(1, len(KINDS) + 1)):
            return KINDS[int(answer) - 1]
        if answer in KINDS:
            return answer
    raise SettingsError(
        'the kind of the recorded effort is not given',
        key='robot.effort_kind',
        remedy='see the documentation of the driver, and give --effort-kind '
        'joint_torque, motor_torque or motor_current',
    )
