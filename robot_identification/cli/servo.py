# SPDX-License-Identifier: Apache-2.0
"""Identification from commands, as parts of the commands ``init`` and ``identify``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import SettingsError
from ..model.targets import TARGETS
from ..support.progress import progress_bar
from .command import (
    argument,
    EXIT_OK,
    experiment_of,
    flag,
    output_folder,
    positive,
    show,
    warn,
)

if TYPE_CHECKING:
    from ..config.experiment import Experiment
    from ..data.commands import CommandRecording
    from ..results.servo_result import StoredServoResult

TARGET = argument(
    '--for',
    'simulator or description that the parameters are for (simulation.target): no friction and '
    'springs are estimated that it lacks',
    choices=tuple(TARGETS),
    dest='target',
)

COMMANDS = (
    argument(
        '--kp',
        'proportional gain of the position servos of recordings with commands [N m/rad], one or '
        'one a joint',
        positive,
        'KP',
        nargs='+',
    ),
    argument('--kd', 'their derivative gain [N m s/rad] (default: 0)', float, 'KD', nargs='+'),
    argument(
        '--bam',
        "both gains from parameter files of Rhoban's bam, one or one a joint; with "
        '--volts-per-rad',
        Path,
        'FILE',
        nargs='+',
    ),
    argument(
        '--volts-per-rad',
        'voltage of the motors by position error: supply voltage x P x factor of the firmware',
        positive,
        'V',
    ),
    TARGET,
    argument(
        '--timestep',
        "step of that simulator (default: the robot file's, if it is MJCF; else none, and least "
        'squares in place of rollouts)',
        positive,
        'S',
    ),
)
"""Arguments of ``init`` for recordings with commands."""

REPLAYED_COMMANDS = (
    flag('--commands', 'play commands; taken for granted where the result is of servos'),
    argument(
        '--out',
        'page with the measured and simulated positions of each joint by commands, .html',
        Path,
        'FILE',
    ),
)
"""Arguments of ``replay`` for results of servos."""


def gains_of_bam(options: argparse.Namespace) -> tuple[str, ...]:
    """Set gains to those of bam's files; return what else these have."""
    from ..servo.bam import read_bam

    if (options.bam is None) != (options.volts_per_rad is None):
        given, other = ('bam', 'volts-per-rad') if options.bam else ('volts-per-rad', 'bam')
        raise SettingsError(f"'--{given}' needs '--{other}'", remedy='give both, or --kp and --kd')
    if options.bam is None:
        return ()
    if options.kp or options.kd:
        text = "'--bam' is given beside gains"
        raise SettingsError(text, remedy='leave out either it, or --kp and --kd')
    servos = [read_bam(path, options.volts_per_rad) for path in options.bam]
    options.kp = [servo.stiffness for servo in servos]
    options.kd = [servo.damping for servo in servos]
    return tuple(dict.fromkeys(servo.remark for servo in servos))


def identify_commands(options: argparse.Namespace, experiment: Experiment) -> int:
    """Identify servos as an experiment file states, print the result and write its files."""
    from ..exports.saving import require_writable
    from ..exports.servo_exports import save_servo_result
    from ..identification.servo_pipeline import identify_servo
    from ..pages.first_screen import names_in_line, Places
    from ..pages.summary import screen, summary
    from ..untrusted.writing import reported_failures

    for name, why in (
        ('factors', 'recordings of commands have no factors'),
        ('require', 'masses and inertia stay those of the robot file'),
    ):
        if getattr(options, name):
            raise SettingsError(
                f"'--{name}' is given, but 'robot.effort_kind' is servo_command",
                key='robot.effort_kind',
                remedy=f'leave it out: {why}',
            )
    folder = output_folder(options, experiment)
    require_writable(folder)
    with progress_bar(enabled=not options.quiet) as progress:
        result = identify_servo(experiment, progress=progress)
        progress(1.0, 'writing the results')
        with reported_failures(folder):
            written = save_servo_result(result, folder)
    brief = not (options.quiet or options.verbose)
    if brief:
        paths = {path.name: str(path) for path in written}
        places = Places(
            experiment=str(options.experiment),
            result=paths['result.yaml'],
            product=paths['identified.xml'],
            details=paths['report.html'],
        )
        show(screen(result, places, warnings=len(result.warnings)).text())
    elif options.verbose:
        show(summary(result))
    if not brief:
        warn(result.warnings)
    for line in names_in_line(written) if brief else map('wrote {}'.format, written):
        print(line)
    return EXIT_OK


def replay_servo(options: argparse.Namespace) -> int:
    """Play recorded commands to both robots of a result, and print and draw how they move."""
    from ..exports.servo_exports import motion_figures
    from ..figures.page import write_figures
    from ..identification.servo_replay import replay_commands
    from ..results.servo_result import read_servo_result

    if options.horizon is not None:
        raise SettingsError(
            f"'--horizon' is given, but '{options.result}' is of servos",
            remedy='leave it out: by commands, the robot follows whole recordings',
        )
    result = read_servo_result(options.result)
    played = replay_commands(result, _recordings(options, result))
    show(played.summary())
    if options.out is not None:
        title = f'Motion of {result.robot.name} by commands'
        figures = motion_figures(played.traces, played.joints)
        summary = played.summary()
        page = write_figures(options.out, title, played.sources[0], figures, summary)
        print(f'wrote {page}')
    return EXIT_OK


def _recordings(
    options: argparse.Namespace, result: StoredServoResult
) -> tuple[CommandRecording, ...]:
    """Return the recordings of an experiment file, or a file with columns as ``init`` finds."""
    from ..config.commands import read_commands
    from ..drafting.command_columns import command_entry
    from ..drafting.requirements import require_units

    joints = result.robot.joints
    if options.recordings.suffix not in ('.yaml', '.yml') or options.recordings.is_dir():
        if options.overrides:
            text, remedy = '--set needs an experiment file', 'name one in place of the recording'
            raise SettingsError(text, remedy=remedy)
        entry = command_entry(options.recordings, joints, None)
        recording = read_commands(entry, joints, None, Path('.'))
        remedy = 'name an experiment file with its unit (robot.drives) in place of the recording'
        require_units(result.robot, [recording], remedy)
        return (recording,)
    options.experiment = options.recordings
    experiment = experiment_of(options)
    kind = 'validation' if experiment.data.validation else 'identification'
    drives, base = experiment.robot.drives, experiment.base
    entries = experiment.data.entries(kind)
    return tuple(read_commands(entry, joints, drives, base) for _, entry in entries)
