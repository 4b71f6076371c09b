# SPDX-License-Identifier: Apache-2.0
"""Command ``validate``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ..progress import progress_bar
from .options import (
    add_command,
    add_overrides,
    add_quiet,
    recordings_of,
)
from .output import EXIT_OK


def add_parser(commands: Any) -> None:
    """Add ``validate`` to the commands."""
    parser = add_command(
        commands,
        'validate',
        run,
        'predict the effort of other recordings with identified parameters',
        description="""
            Predict the effort of recordings that the identification has not seen, and print by how
            much the prediction misses what was measured, joint by joint.
            """,
        epilog="""
            examples:
              robot-identification validate results/result.yaml recordings/second_run
              robot-identification validate results/result.yaml experiment.yaml
            """,
    )
    parser.add_argument('result', type=Path, help='a result.yaml')
    parser.add_argument(
        'recordings',
        type=Path,
        help='a rosbag2 folder or file with /joint_states, a factor, or an experiment file, whose '
        'data.validation is taken',
    )
    parser.add_argument(
        '--topic', default='/joint_states', help='topic of the bag (default: %(default)s)'
    )
    parser.add_argument(
        '--motor-topic',
        metavar='TOPIC',
        help="topic with the motors' states where joints are elastic (default: that of --topic)",
    )
    add_overrides(parser)
    add_quiet(parser)


def run(options: argparse.Namespace) -> int:
    """Do ``validate`` and return the exit code."""
    from ..results.result import read_result
    from ..revalidation import validate_stored

    result = read_result(options.result)
    sources, signals = recordings_of(options, result)
    with progress_bar(enabled=not options.quiet) as progress:
        validations = validate_stored(result, sources, signals=signals, progress=progress)
    print('\n\n'.join(validation.summary() for validation in validations))
    return EXIT_OK
