# SPDX-License-Identifier: Apache-2.0
"""Command ``fleet``."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from ..progress import progress_bar
from .options import (
    argument,
    command,
    count,
    experiment_of,
    output_folder,
    OVERRIDES,
    QUIET,
    whole,
)
from .output import EXIT_INTERRUPTED, EXIT_OK, EXIT_REJECTED, fail, warn


@command(
    argument(
        'recordings',
        'files, rosbag2 folders, folders with them, or quoted patterns',
        nargs='+',
        metavar='RECORDING',
    ),
    argument(
        '--experiment',
        'the experiment file (docs/reference/experiment.md)',
        Path,
        'FILE',
        required=True,
    ),
    argument('--out', "default: the file's own folder", Path, 'DIR'),
    argument(
        '--scheduler',
        'dask or processes, for processes of this machine; or the address of a Dask '
        'scheduler, tcp://HOST:PORT (default: dask where it is installed, else one process)',
        metavar='NAME',
    ),
    argument('--workers', 'processes on this machine (default: its cores)', count, 'N'),
    argument(
        '--retries',
        'times that a recording is tried again when its worker was lost or the file system '
        'failed (default: %(default)s)',
        whole,
        'N',
        default=2,
    ),
    argument(
        '--serial',
        "finds the robot's serial number in a recording's path: its first group, or all that "
        'it matches (default: fleet.serial of the experiment file, or the folder)',
        metavar='REGEX',
    ),
    argument(
        '--keep-going',
        'go on without recordings that cannot be used (default), or end with the first one',
        action=argparse.BooleanOptionalAction,
        default=True,
    ),
    OVERRIDES,
    QUIET,
)
def fleet(options: argparse.Namespace) -> int:
    r"""
    Identify many robots from many recordings, and test which differ from the others.

    Reduce thousands of recordings to factors on many processors, merge them by robot and
    over the fleet, identify each robot, and report which robots differ significantly from
    the others and which change over time. The experiment file says what the robot is and
    how its first recording is read; all recordings are read like that one.

    A run that was stopped or killed goes on where it was when the same command is given
    again: finished factors are kept. Recordings that cannot be used are rejected with
    their reasons, and tried again by the next run.

    Writes into the folder:
      fleet.yaml        everything that was found, for programs
      fleet.html        plots and tables, for people
      rejected.yaml     recordings that cannot be used, and why
      fleet.factor      all recordings, merged; robots/*.factor those of each robot
      factors/          one factor a recording; journal.jsonl lists them

    Whose a recording is: the name of the folder that it is in, or what --serial finds in
    its path, or its bag's custom data (fleet.serial_key in the experiment file). When it
    was made: its bag's first message, or fleet.stamp, or the file's last change.

    Exit codes: 0 all recordings were used; 4 some were rejected; 2 bad input;
    130 interrupted.

    Examples
    --------
    robot-identification fleet recordings/ --experiment arm.yaml --out fleet
    robot-identification fleet 'data/*/*.mcap' --experiment arm.yaml --out fleet \
        --serial 'data/([^/]+)/' --scheduler tcp://cluster:8786
    """
    from ..fleet import identify_fleet, save_fleet

    experiment = experiment_of(options, check_data=False)
    if options.serial is not None:
        # not by an override: a regular expression is no YAML
        settings = replace(experiment.fleet, serial=options.serial, serial_key=None)
        experiment = replace(experiment, fleet=settings)
    folder = output_folder(options, experiment)
    try:
        with progress_bar(enabled=not options.quiet) as progress:
            result = identify_fleet(
                experiment,
                options.recordings,
                folder,
                scheduler=options.scheduler,
                workers=options.workers,
                retries=options.retries,
                keep_going=options.keep_going,
                progress=progress,
            )
    except KeyboardInterrupt:
        return fail('interrupted; the same command goes on with what is left', EXIT_INTERRUPTED)
    saved = save_fleet(result, folder)
    if options.quiet:
        warn(result.warnings)
    else:
        print(result.summary())
    for path in saved:
        print(f'wrote {path}')
    if not result.rejected:
        return EXIT_OK
    count = len(result.rejected)
    what = '1 recording is' if count == 1 else f'{count} recordings are'
    warn([f"{what} rejected: see '{folder / 'rejected.yaml'}'"])
    return EXIT_REJECTED
