# SPDX-License-Identifier: Apache-2.0
"""Command ``replay``."""

from __future__ import annotations

import argparse
from typing import Any

from .options import add_command, add_overrides, add_recordings, positive, recordings_of
from .output import EXIT_OK


def add_parser(commands: Any) -> None:
    """Add ``replay`` to the commands."""
    parser = add_command(
        commands,
        'replay',
        run,
        'play recorded efforts to the robot in MuJoCo, before and after the identification',
        description="""
            Play the efforts of recordings to the robot in MuJoCo, by its prior and as identified,
            and print how far it ends from the recorded motion. After every horizon the robot is
            put back onto the recording.
            """,
        epilog="""
            examples:
              robot-identification replay results/result.yaml recordings/second_run
              robot-identification replay results/result.yaml experiment.yaml --horizon 0.2
            """,
    )
    add_recordings(parser)
    parser.add_argument(
        '--horizon',
        type=positive,
        default=0.5,
        metavar='SECONDS',
        help='time that the robot moves by efforts alone (default: %(default)s)',
    )
    add_overrides(parser)


def run(options: argparse.Namespace) -> int:
    """Do ``replay`` and return the exit code."""
    from ..reduction import recordings_among
    from ..results.result import read_result
    from ..simulation.replay import replay

    result = read_result(options.result)
    sources, signals = recordings_of(options, result)
    played = replay(result, recordings_among(sources), signals=signals, horizon=options.horizon)
    print(played.summary())
    return EXIT_OK
