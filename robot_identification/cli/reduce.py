# SPDX-License-Identifier: Apache-2.0
"""Command ``reduce``."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..errors import SettingsError
from ..progress import progress_bar
from .options import add_command, add_overrides, add_quiet, overrides_of
from .output import EXIT_OK


def add_parser(commands: Any) -> None:
    """Add ``reduce`` to the commands."""
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


def run(options: argparse.Namespace) -> int:
    """Do ``reduce`` and return the exit code."""
    from ..config.experiment_file import load_experiment
    from ..reduction import reduce_experiment
    from ..results.factor_file import read_factor, SUFFIX, write_factors
    from ..results.saving import require_writable

    first, *others = options.inputs
    merging = options.out.suffix == SUFFIX
    if first.suffix == SUFFIX and not merging:
        raise SettingsError(
            f"'--out {options.out}' does not end in {SUFFIX}",
            remedy='name the file for the merged factor',
        )
    require_writable(options.out.parent if merging else options.out)
    with progress_bar(enabled=not options.quiet) as progress:
        if first.suffix == SUFFIX:
            factors: Iterator[Any] = map(read_factor, options.inputs)
        else:
            overrides = overrides_of(options.overrides)
            experiment = load_experiment(first, overrides, check_data=not others)
            factors = reduce_experiment(experiment, others, progress=progress)
        told = [f'wrote {p}: {s.summary()}' for p, s in write_factors(factors, options.out)]
    print('\n'.join(told))
    return EXIT_OK
