# SPDX-License-Identifier: Apache-2.0
"""Commands that make files of recordings: ``reduce`` and ``repair``."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..errors import RecordingError, SettingsError
from ..progress import progress_bar
from .options import argument, command, experiment_of, OVERRIDES, QUIET
from .output import EXIT_BAD_INPUT, EXIT_OK, fail


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
    from ..reduction import reduce_experiment
    from ..results.factor_file import read_factor, SUFFIX, write_factors
    from ..results.saving import require_writable

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
        'a rosbag2 folder, an .mcap file, or a folder of such folders',
        Path,
        'RECORDING',
        nargs='+',
    )
)
def repair(options: argparse.Namespace) -> int:
    """
    Complete recordings whose recorder was killed, lost its power or found the disk full.

    Complete recordings (rosbag2 in mcap) that were cut off, whoever recorded them: what is
    left is written anew with index and end, metadata.yaml is made, and the old file stays
    as unfinished/*.mcap.unfinished beside it. Recordings that are complete, or that are
    still being recorded, stay as they are.

    Examples
    --------
    robot-identification repair recordings/first
    robot-identification repair recordings
    """
    from ..data.bag_repair import recordings_in, repair_bag

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
