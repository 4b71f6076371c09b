# SPDX-License-Identifier: Apache-2.0
"""Identification from commands, as part of the command ``identify``."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ..errors import SettingsError
from ..progress import progress_bar
from .command import EXIT_OK, output_folder, show, warn

if TYPE_CHECKING:
    from ..config.experiment import Experiment


def identify_commands(options: argparse.Namespace, experiment: Experiment) -> int:
    """Identify servos as an experiment file states, print the result and write its files."""
    from ..results.saving import reported_failures, require_writable
    from ..results.servo_exports import save_servo_result
    from ..servo_pipeline import identify_servo

    if options.factors:
        raise SettingsError(
            "'--factors' is given, but 'robot.effort_kind' is servo_command",
            key='robot.effort_kind',
            remedy='leave it out: recordings of commands have no factors',
        )
    folder = output_folder(options, experiment)
    require_writable(folder)
    with progress_bar(enabled=not options.quiet) as progress:
        result = identify_servo(experiment, progress=progress)
        progress(1.0, 'writing the results')
        with reported_failures(folder):
            written = save_servo_result(result, folder)
    if not options.quiet:
        show(result.summary())
    warn(result.warnings)
    for path in written:
        print(f'wrote {path}')
    return EXIT_OK
