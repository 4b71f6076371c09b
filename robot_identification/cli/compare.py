# SPDX-License-Identifier: Apache-2.0
"""Command ``compare``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ..errors import SettingsError
from ..progress import part, progress_bar
from .options import add_command, add_overrides, add_quiet, recordings_of
from .output import EXIT_OK, show


def add_parser(commands: Any) -> None:
    """Add ``compare`` to the commands."""
    parser = add_command(
        commands,
        'compare',
        run,
        'compare results: parameters that differ significantly, errors on common recordings',
        description="""
            Print the base parameters of results side by side with their 95 % intervals, mark those
            that differ significantly from the first result's, and print the errors of all results
            on recordings: those given with --on, else those that all of them were validated on.
            """,
        epilog="""
            examples:
              robot-identification compare monday/result.yaml tuesday/result.yaml
              robot-identification compare plain/result.yaml other/result.yaml --on experiment.yaml
            """,
    )
    parser.add_argument(
        'results', type=Path, nargs='+', metavar='RESULT', help='result.yaml files'
    )
    parser.add_argument(
        '--on',
        dest='recordings',
        type=Path,
        metavar='RECORDING',
        help='predict these recordings by all results: a rosbag2 folder or file, a factor, or an '
        'experiment file, whose data.validation is taken',
    )
    parser.add_argument(
        '--topic', default='/joint_states', help='topic of the bag (default: %(default)s)'
    )
    parser.add_argument(
        '--significance',
        type=float,
        default=0.01,
        metavar='P',
        help='probability that equal robots show any difference (default: %(default)s)',
    )
    add_overrides(parser)
    add_quiet(parser)


def run(options: argparse.Namespace) -> int:
    """Do ``compare`` and return the exit code."""
    from ..fleet.comparison import compare_results
    from ..results.result import read_result

    if len(options.results) < 2:
        raise SettingsError(
            'there is one result only', remedy='name at least two result.yaml files'
        )
    options.motor_topic = None
    results = [read_result(path) for path in options.results]
    names = [str(path) for path in options.results]
    comparison = compare_results(results, names, _errors(options, results), options.significance)
    show(comparison.summary())
    return EXIT_OK


def _errors(options: argparse.Namespace, results: list[Any]) -> dict[str, Any]:
    """Return the errors on the given recordings, or on those that all results have seen."""
    import numpy as np

    from ..revalidation import validate_stored

    joints = results[0].robot.joints
    by_result: list[dict[str, list[float]]] = []
    with progress_bar(enabled=not options.quiet) as progress:
        for r, result in enumerate(results):
            if options.recordings is None:
                known = result.document.get('validation') or ()
                by_result.append({', '.join(v['sources']): _row(v, joints) for v in known})
                continue
            sources, signals = recordings_of(options, result)
            told = part(progress, r / len(results), (r + 1) / len(results))
            found = validate_stored(result, sources, signals=signals, progress=told)
            by_result.append(
                {
                    source.source: _row(validation.to_dict(), joints)
                    for source, validation in zip(sources, found, strict=True)
                }
            )
    common = [name for name in by_result[0] if all(name in each for each in by_result)]
    return {name: np.array([each[name] for each in by_result]) for name in common}


def _row(validation: Any, joints: tuple[str, ...]) -> list[float]:
    """Return the relative errors of the joints and of all in a stored validation [%]."""
    fits = [validation['joints'].get(joint, {}).get('relative_error') for joint in joints]
    return [
        float('nan') if error is None else error for error in (*fits, validation['relative_error'])
    ]
