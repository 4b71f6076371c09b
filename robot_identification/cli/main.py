# SPDX-License-Identifier: Apache-2.0
"""The command ``robot-identification``: its parser, and its end."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
import os
import sys

from ..errors import ConsistencyError, IdentificationError, refusal
from ..untrusted.streams import abandon, lost_output, open_streams, require_folder
from ..version import __version__, page
from .command import (
    EXIT_BAD_INPUT,
    EXIT_INTERRUPTED,
    EXIT_NOT_PHYSICAL,
    EXIT_STOPPED,
    fail,
    Parser,
    plain_warnings,
)
from .examples import examples
from .experiment import diagnose, filters, identify, schema, structure
from .feedforward import feedforward
from .init import init
from .limits import limits
from .motion import calibrate, plan, preview
from .recordings import fleet, reduce
from .result_robots import check, export
from .results import compare, plot, replay, validate
from .ros import demo, node, play, wait
from .tool import tool
from .window import window

COMMANDS = (
    examples, init, identify, tool, diagnose, reduce, validate, compare, plot, check, replay,
    export, feedforward, limits, structure, filters, fleet, plan, preview, calibrate, node, play,
    wait, window, schema, demo,
)  # fmt: skip
"""In the order of the help text."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line (None: that of the process) and return the exit code."""
    open_streams()
    code = _end_of(arguments)
    lost = lost_output()
    if lost is None:
        return code
    if not isinstance(lost, BrokenPipeError):  # its reader has gone (as `| head` does)
        fail(f'cannot write to standard output: {lost.strerror}', EXIT_STOPPED)
    abandon(sys.stdout)
    return code or EXIT_STOPPED


def _end_of(arguments: Sequence[str] | None) -> int:
    """Run the command line; return the exit code, of which standard error has the reason."""
    try:
        return _run(arguments)
    except ConsistencyError as error:
        return fail(error, EXIT_NOT_PHYSICAL)
    except IdentificationError as error:
        return fail(error, EXIT_BAD_INPUT)
    except KeyboardInterrupt:
        return fail('interrupted', EXIT_INTERRUPTED)
    except BrokenPipeError:
        return EXIT_STOPPED
    except UnicodeEncodeError as error:
        return fail(refusal(error), EXIT_BAD_INPUT)
    except OSError as error:
        return EXIT_STOPPED if lost_output() else fail(refusal(error), EXIT_STOPPED)


def _run(arguments: Sequence[str] | None) -> int:
    parser = build_parser()
    if '_ARGCOMPLETE' in os.environ:  # the shell asks for completions
        complete(parser)
    words = sys.argv[1:] if arguments is None else list(arguments)
    try:
        options = parser.parse_args(words or ['--help'])
    except SystemExit as end:  # help, version, and errors, which are printed already
        return int(end.code or 0)
    require_folder()
    # small matrices: threads of the linear algebra cost more than they give (read by NumPy later)
    os.environ.setdefault('OMP_NUM_THREADS', '1')
    os.environ.setdefault('OPENBLAS_NUM_THREADS', '1')
    with plain_warnings():
        return int(options.run(options))


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
        epilog=f"'robot-identification COMMAND --help' explains a command; pages: {page('index')}",
    )
    parser.add_argument('--version', action='version', version=f'%(prog)s {__version__}')
    commands = parser.add_subparsers(title='commands', metavar='COMMAND', required=True)
    for command in COMMANDS:
        command.add_to(commands)
    return parser
