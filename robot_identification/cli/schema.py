# SPDX-License-Identifier: Apache-2.0
"""Command ``schema``."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from .options import add_command
from .output import EXIT_OK


def add_parser(commands: Any) -> None:
    """Add ``schema`` to the commands."""
    add_command(
        commands,
        'schema',
        run,
        'print the JSON schema of the experiment file',
        description="""
            Print the JSON schema of the experiment file. Editors with a YAML language server
            complete and check files whose first line is
              # yaml-language-server: $schema=PATH
            as 'init' writes it.
            """,
    )


def run(options: argparse.Namespace) -> int:
    """Do ``schema`` and return the exit code."""
    from ..config.experiment_file import schema_text

    sys.stdout.write(schema_text())
    return EXIT_OK
