# SPDX-License-Identifier: Apache-2.0
"""Parts that several commands share: the parser, types of options, settings and recordings."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
import textwrap
from typing import Any

from ..errors import SettingsError
from .output import EXIT_BAD_INPUT, fail

Run = Callable[[argparse.Namespace], int]
"""Carries out a command and returns the exit code."""


class Parser(argparse.ArgumentParser):
    """Parser that keeps the line breaks of help texts and prints errors in one line."""

    def __init__(self, **options: Any) -> None:
        options.setdefault('formatter_class', argparse.RawDescriptionHelpFormatter)
        for name in ('description', 'epilog'):
            if options.get(name):
                options[name] = textwrap.dedent(options[name]).strip()
        super().__init__(**options)

    def error(self, message: str) -> Any:
        """End the program."""
        raise SystemExit(fail(f"{message} (see '{self.prog} --help')", EXIT_BAD_INPUT))


def add_command(commands: Any, name: str, run: Run, summary: str, **texts: str) -> Any:
    """Add a command to ``commands`` and return its parser; the parsed options have ``run``."""
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


def add_overrides(
    parser: argparse.ArgumentParser,
    summary: str = 'replace a setting of the experiment file, for example signals.cutoff=20; may '
    'be given several times',
) -> None:
    """Add ``--set``."""
    parser.add_argument(
        '--set',
        dest='overrides',
        action='append',
        default=[],
        metavar='KEY=VALUE',
        help=summary,
    )


def add_recordings(parser: argparse.ArgumentParser) -> None:
    """Add a result and the recordings that it is compared with: see `recordings_of`."""
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


def add_quiet(parser: argparse.ArgumentParser) -> None:
    """Add ``--quiet``."""
    parser.add_argument('--quiet', action='store_true', help='no progress bar, no tables')


def output_folder(options: argparse.Namespace, experiment: Any) -> Path:
    """Return the folder for the results."""
    folder = options.out or (experiment and experiment.output_folder)
    if folder is None:
        raise SettingsError(
            f"{options.experiment}: there is no folder for the results: key 'output' is missing",
            key='output',
            file=str(options.experiment),
            remedy='set it, or give --out DIR',
        )
    return folder


def overrides_of(pairs: Sequence[str]) -> dict[str, str]:
    """Return the values by key that ``--set KEY=VALUE`` gives."""
    overrides = {}
    for pair in pairs:
        key, sign, value = pair.partition('=')
        if not sign or not key:
            raise SettingsError(
                f"'--set {pair}' is not KEY=VALUE", key=key, remedy='for example signals.cutoff=20'
            )
        overrides[key.strip()] = value.strip()
    return overrides


def recordings_of(options: argparse.Namespace, result: Any) -> tuple[tuple[Any, ...], Any]:
    """Return the recordings to validate on, and how to filter them."""
    from ..config.experiment_file import load_experiment
    from ..config.sources import open_recording
    from ..data.recording_config import MotorSide, RecordingEntry

    joints = result.robot.joints
    if options.recordings.suffix in ('.yaml', '.yml') and options.recordings.is_file():
        experiment = load_experiment(options.recordings, overrides_of(options.overrides))
        if experiment.robot.open_gains:  # the result has found them
            robot = replace(experiment.robot, drives=result.drives)
            experiment = replace(experiment, robot=robot)
        sources = experiment.sources('validation', joints)
        if not sources:
            raise SettingsError(
                f"{options.recordings}: 'data.validation' names no recording",
                key='data.validation',
                file=str(options.recordings),
                remedy='add one to the experiment file, or name a bag',
            )
        return sources, _signals(experiment, result.signals)
    if options.overrides:
        raise SettingsError(
            '--set needs an experiment file', remedy='name one in place of the bag'
        )
    entry = RecordingEntry(file=str(options.recordings))
    if not entry.is_factor:
        entry = RecordingEntry(
            file=entry.file,
            format='rosbag2',
            topic=options.topic,
            motor=None if options.motor_topic is None else MotorSide(topic=options.motor_topic),
        )
    source = open_recording(entry, joints, result.drives, elastic=result.model.elastic)
    return (source,), result.signals


def _signals(experiment: Any, own: Any) -> Any:
    """Return a result's own settings of signals with those that an experiment file gives."""
    given = [
        key.removeprefix('signals.') for key in experiment.given if key.startswith('signals.')
    ]
    return replace(own, **{key: getattr(experiment.signals, key) for key in given})
