# SPDX-License-Identifier: Apache-2.0
"""Commands on many recordings: ``reduce``, ``fleet``."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..errors import SettingsError
from ..support.progress import progress_bar
from .command import (
    argument,
    command,
    count,
    EXIT_INTERRUPTED,
    EXIT_OK,
    EXIT_REJECTED,
    experiment_of,
    fail,
    natural,
    output_folder,
    OVERRIDES,
    QUIET,
    warn,
)


@command(
    argument('inputs', 'an experiment file and recordings, or factors', Path, 'FILE', nargs='+'),
    argument(
        '--out',
        'folder for one factor a recording, or the file *.factor for all of them merged',
        Path,
        'PATH',
        required=True,
    ),
    OVERRIDES,
    QUIET,
)
def reduce(options: argparse.Namespace) -> int:
    """
    Fold recordings into small factors, and factors into one.

    Fold each recording into its factor: a file whose size does not depend on the
    recording's length, and that gives the same parameters. Factors of one problem merge
    into one, in any order and on any machine.

    With an experiment file first: reduces the recordings that follow, read as the first
    one of its data.identification, or without any those that are listed there; one factor
    for each into the folder --out, or all merged where --out is named *.factor.
    With factors alone: merges them into the file --out.

    Examples
    --------
    robot-identification reduce experiment.yaml --out runs
    robot-identification reduce experiment.yaml monday.mcap tuesday.mcap --out runs
    robot-identification reduce runs/*.factor --out all.factor
    robot-identification identify experiment.yaml --factors all.factor
    """
    from ..estimation.factor_file import read_factor, SUFFIX, write_factors
    from ..exports.saving import require_writable
    from ..identification.reduction import reduce_experiment

    options.experiment, *others = options.inputs
    stored = options.experiment.suffix == SUFFIX
    merging = options.out.suffix == SUFFIX
    if stored and not merging:
        raise SettingsError(
            f"'--out {options.out}' does not end in {SUFFIX}",
            remedy='name the file for the merged factor',
        )
    require_writable(options.out.parent if merging else options.out)
    with progress_bar(enabled=not options.quiet) as progress:
        factors: Iterator[Any] = (
            map(read_factor, options.inputs)
            if stored
            else reduce_experiment(
                experiment_of(options, check_data=not others), others, progress=progress
            )
        )
        lines = [f'wrote {p}: {s.summary()}' for p, s in write_factors(factors, options.out)]
    print('\n'.join(lines))
    return EXIT_OK


@command(
    argument(
        'recordings',
        'files, rosbag2 folders, folders with them, or quoted patterns',
        nargs='+',
        metavar='RECORDING',
    ),
    argument(
        '--experiment',
        'the experiment file',
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
        natural,
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
        --serial 'data/([^/]+)/' --scheduler tls://cluster:8786
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
