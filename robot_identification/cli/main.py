# SPDX-License-Identifier: Apache-2.0
"""The command ``robot-identification``: its parser, and its end."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
import os
import sys

from ..errors import ConsistencyError, IdentificationError
from ..version import __version__
from .command import (
    EXIT_BAD_INPUT,
    EXIT_INTERRUPTED,
    EXIT_NOT_PHYSICAL,
    EXIT_STOPPED,
    fail,
    Parser,
    plain_warnings,
)
from .experiment import diagnose, filters, identify, init, schema, structure
from .motion import calibrate, plan, preview
from .recordings import fleet, reduce, repair
from .results import check, compare, export, plot, replay, validate
from .ros import demo, node, play, wait

COMMANDS = (
    init, identify, diagnose, reduce, validate, compare, plot, check, replay, export, structure,
    filters, fleet, plan, preview, calibrate, node, play, wait, repair, schema, demo,
)  # fmt: skip
"""In the order of the help text."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line (None: that of the process) and return the exit code."""
    parser = build_parser()
    if '_ARGCOMPLETE' in os.environ:  # the shell asks for completions
        complete(parser)
    options = parser.parse_args(arguments)
    # small matrices: threads of the linear algebra cost more than they give (read by NumPy later)
    os.environ.setdefault('OMP_NUM_THREADS', '1')
    os.environ.setdefault('OPENBLAS_NUM_THREADS', '1')
    try:
        with plain_warnings():
            return options.run(options)
    except ConsistencyError as error:
        return fail(error, EXIT_NOT_PHYSICAL)
    except IdentificationError as error:
        return fail(error, EXIT_BAD_INPUT)
    except KeyboardInterrupt:
        return fail('interrupted', EXIT_INTERRUPTED)
    except BrokenPipeError:
        # the reader of our output has gone (as `| head` does)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_STOPPED


def complete(parser: argparse.ArgumentParser) -> None:
    """Answer the shell's question for completions by argcomplete, if that is installed."""
    try:
        from argcomplete import autocomplete
    except ImportError:
        return
    autocomplete(parser)


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of ``robot-identification``; the parsed options have ``run``."""
    parser = Parser(
        prog='robot-identification',
        description='Dynamic parameter identification for robots: from excitation trajectories '
        'and\nrecordings to a validated, physically consistent URDF.',
        epilog="'robot-identification COMMAND --help' explains a command.",
    )
    parser.add_argument('--version', action='version', version=f'%(prog)s {__version__}')
    commands = parser.add_subparsers(title='commands', metavar='COMMAND', required=True)
    for command in COMMANDS:
        command.add_to(commands)
    return parser
