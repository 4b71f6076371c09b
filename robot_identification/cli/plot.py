# SPDX-License-Identifier: Apache-2.0
"""Command ``plot``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ..errors import one_of, SettingsError
from ..progress import progress_bar
from .options import add_command, add_overrides, add_quiet, recordings_of
from .output import EXIT_OK


def add_parser(commands: Any) -> None:
    """Add ``plot`` to the commands."""
    parser = add_command(
        commands,
        'plot',
        run,
        'draw measured and predicted efforts of chosen joints',
        description="""
            Predict recordings by a result, and draw the measured and predicted effort of chosen
            joints over time with their difference, on a page to zoom in. Without RECORDING these
            are the result's own: those it was validated on, or else those it was identified from.
            """,
        epilog="""
            examples:
              robot-identification plot results/result.yaml --joint joint_2 joint_3
              robot-identification plot results/result.yaml recordings/second --out second.html
            """,
    )
    parser.add_argument('result', type=Path, help='a result.yaml')
    parser.add_argument(
        'recordings',
        type=Path,
        nargs='?',
        metavar='RECORDING',
        help='a rosbag2 folder or file, or an experiment file, whose data.validation is taken',
    )
    parser.add_argument(
        '--joint', nargs='+', default=[], metavar='JOINT', help='joints to draw (default: all)'
    )
    parser.add_argument(
        '--topic', default='/joint_states', help='topic of the bag (default: %(default)s)'
    )
    parser.add_argument(
        '--out',
        type=Path,
        default=Path('efforts.html'),
        metavar='FILE',
        help='page to write, .html; several recordings are numbered (default: %(default)s)',
    )
    add_overrides(parser)
    add_quiet(parser)


def run(options: argparse.Namespace) -> int:
    """Do ``plot`` and return the exit code."""
    from dataclasses import replace

    from ..results.prediction_file import numbered
    from ..results.report.fit_plots import effort_figures
    from ..results.report.html import write_figures
    from ..results.result import read_result
    from ..revalidation import validate_stored

    result = read_result(options.result)
    joints = result.robot.joints
    for joint in options.joint:
        if joint not in joints:
            raise SettingsError(
                f"'--joint {joint}' is no joint of the result",
                value=joint,
                remedy=f'its joints are {one_of(joints)}',
            )
    options.motor_topic = None
    sources, signals = (
        _own(options, result) if options.recordings is None else recordings_of(options, result)
    )
    with progress_bar(enabled=not options.quiet) as progress:
        found = validate_stored(result, sources, signals=signals, progress=progress)
    chosen = [joints.index(joint) for joint in options.joint or joints]
    units = result.robot.effort_units
    for file, seen in zip(numbered(options.out, len(found)), found, strict=True):
        trace = replace(
            seen.trace,
            measured=seen.trace.measured[:, chosen],
            predicted=seen.trace.predicted[:, chosen],
            keep=seen.trace.keep[:, chosen],
        )
        figures = effort_figures(
            trace, [seen.joints[j] for j in chosen], [units[j] for j in chosen], time='recording'
        )
        page = write_figures(
            file, f'Efforts of {result.robot.name}', ', '.join(seen.sources), figures
        )
        print(f'wrote {page}')
    return EXIT_OK


def _own(options: argparse.Namespace, result: Any) -> tuple[tuple[Any, ...], Any]:
    """Return the recordings that the result names, and how they are filtered."""
    from dataclasses import replace

    from ..config.experiment_file import load_experiment
    from .options import overrides_of

    if not result.document.get('experiment'):
        raise SettingsError(
            f"'{options.result}' names no recordings",
            file=str(options.result),
            remedy='name one behind it',
        )
    experiment = load_experiment(options.result, overrides_of(options.overrides))
    experiment = replace(experiment, robot=replace(experiment.robot, drives=result.drives))
    kind = 'validation' if experiment.data.validation else 'identification'
    return experiment.sources(kind, result.robot.joints), result.signals
