# SPDX-License-Identifier: Apache-2.0
"""Command ``wait``."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from ..errors import IdentificationError, SettingsError
from .options import add_command, positive
from .output import EXIT_OK
from .play import FOLLOWER_WAIT


def add_parser(commands: Any) -> None:
    """Add ``wait`` to the commands."""
    parser = add_command(
        commands,
        'wait',
        run,
        'run a command when a live identification is ready for joint states',
        description="""
            Wait until the live identification of a node takes joint states, or is switched off,
            and then run a command, such as 'ros2 bag play'.
            """,
        epilog="""
            example:
              robot-identification wait /identification -- ros2 bag play recordings/first --clock
            """,
    )
    parser.add_argument('node', help='full name of the identification node')
    parser.add_argument(
        '--timeout',
        type=positive,
        default=FOLLOWER_WAIT,
        metavar='S',
        help='seconds after which the command is not run (default: %(default)s)',
    )
    parser.add_argument(
        'command', nargs=argparse.REMAINDER, help='the command and its words, after --'
    )


def run(options: argparse.Namespace) -> int:
    """Do ``wait`` and return the exit code."""
    try:
        from ..nodes.player import wait_for_identification
    except ImportError as error:
        raise IdentificationError(
            f'waiting for a node needs ROS 2 ({error})',
            remedy="run 'make setup' in the sources, or source your ROS 2 workspace",
        ) from error
    # argparse drops the first -- or not, as its version is
    command = options.command[options.command[:1] == ['--'] :]
    if command and command[0].startswith('-'):
        raise SettingsError(
            f"'{command[0]}' stands behind the node",
            value=command[0],
            remedy='give options before the node and the command after --',
        )
    wait_for_identification(options.node, options.timeout)
    if command:
        sys.stdout.flush()
        try:
            os.execvp(command[0], command)
        except OSError as error:
            raise IdentificationError(
                f"cannot run '{command[0]}': {error.strerror}",
                value=command[0],
                remedy='name a program that is installed and on PATH',
            ) from error
    return EXIT_OK
