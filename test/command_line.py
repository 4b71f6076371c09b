# SPDX-License-Identifier: Apache-2.0
"""The command ``robot-identification`` in the tests' own process, as a user would see it."""

from __future__ import annotations

import contextlib
import io
import os
from pathlib import Path
from subprocess import CompletedProcess

from robot_identification.cli.main import main


def run_command(folder: Path, *arguments: object, expect: int | None = 0) -> CompletedProcess:
    """
    Run ``robot-identification`` in a folder; return its exit code and what it printed.

    A start of Python would take longer than most commands; `test_terminal` starts processes.

    Parameters
    ----------
    folder:
        The working directory meanwhile.
    arguments:
        Words of the command line.
    expect:
        The exit code that is required; None takes any.

    """
    words, before = list(map(str, arguments)), os.getcwd()
    with (
        contextlib.redirect_stdout(io.StringIO()) as out,
        contextlib.redirect_stderr(io.StringIO()) as err,
    ):
        os.chdir(folder)
        try:
            code = main(words)
        except SystemExit as end:  # argparse's, after help and version
            code = end.code or 0
        finally:
            os.chdir(before)
    assert expect in (None, code), f'{out.getvalue()}\n{err.getvalue()}'
    return CompletedProcess(words, code, out.getvalue(), err.getvalue())
