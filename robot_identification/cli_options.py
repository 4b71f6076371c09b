# SPDX-License-Identifier: Apache-2.0
"""Options that the parsers of several commands share."""

from __future__ import annotations

import argparse
from collections.abc import Callable
import sys
import textwrap
from typing import Any

Run = Callable[[argparse.Namespace], int]
"""Does a command's work and returns the exit code."""

EXIT_BAD_INPUT = 2


class Parser(argparse.ArgumentParser):
    """Keeps the line breaks of the help texts, and says errors in one line."""

    def __init__(self, **options: Any) -> None:
        options.setdefault('formatter_class', argparse.RawDescriptionHelpFormatter)
        for name in ('description', 'epilog'):
            if options.get(name):
                options[name] = textwrap.dedent(options[name]).strip()
        super().__init__(**options)

    def error(self, message: str) -> Any:
        """End the program."""
        sys.stderr.write(f"error: {message} (see '{self.prog} --help')\n")
        raise SystemExit(EXIT_BAD_INPUT)


def add_command(commands: Any, name: str, run: Run, summary: str, **texts: str) -> Any:
    """Add a command to ``commands`` and return its parser."""
    parser = commands.add_parser(name, help=summary, **texts)
    parser.set_defaults(run=run)
    return parser


def positive(text: str) -> float:
    """Read a number above 0."""
    number = float(text)
    if not number > 0.0:
        raise argparse.ArgumentTypeError(f'{text} is not above 0')
    return number


def not_negative(text: str) -> float:
    """Read a number that is not below 0."""
    number = float(text)
    if not number >= 0.0:
        raise argparse.ArgumentTypeError(f'{text} is below 0')
    return number


def whole(text: str) -> int:
    """Read a whole number from 0 on."""
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f'{text} is below 0')
    return number


def count(text: str) -> int:
    """Read a whole number from 1 on."""
    if (number := whole(text)) == 0:
        raise argparse.ArgumentTypeError('there has to be one at least')
    return number


def add_overrides(parser: argparse.ArgumentParser) -> None:
    """Add ``--set``."""
    parser.add_argument(
        '--set',
        dest='overrides',
        action='append',
        default=[],
        metavar='KEY=VALUE',
        help='replace a setting of the experiment file, for example signals.cutoff=20; may be '
        'given several times',
    )


def add_quiet(parser: argparse.ArgumentParser) -> None:
    """Add ``--quiet``."""
    parser.add_argument('--quiet', action='store_true', help='no progress bar, no tables')
