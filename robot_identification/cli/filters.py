# SPDX-License-Identifier: Apache-2.0
"""Command ``filters``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ..errors import one_of, SettingsError
from .options import add_command, add_overrides, overrides_of, positive
from .output import EXIT_OK


def add_parser(commands: Any) -> None:
    """Add ``filters`` to the commands."""
    parser = add_command(
        commands,
        'filters',
        run,
        "show what an experiment file's filter does to motions and noise",
        description="""
            Print the frequency response of the method that signals.method names: what it makes of
            the position, velocity, acceleration and effort of a sine, as a share of the true ones,
            and how much noise it lets through. docs/explanation/filters.md explains how to
            choose by it.
            """,
        epilog="""
            examples:
              robot-identification filters experiment.yaml
              robot-identification filters experiment.yaml --compare butterworth \\
                  --set signals.method=polynomial_approximation --out filters.html
            """,
    )
    parser.add_argument(
        'experiment', type=Path, help='the experiment file (docs/reference/experiment.md)'
    )
    parser.add_argument(
        '--rate',
        type=positive,
        metavar='HZ',
        help="sampling rate (default: the first recording's)",
    )
    parser.add_argument(
        '--compare',
        action='append',
        default=[],
        metavar='METHOD',
        help='show another signals.method, too; may be given several times',
    )
    parser.add_argument(
        '--out', type=Path, metavar='FILE', help='page with the curves to write, .html'
    )
    add_overrides(parser)


def run(options: argparse.Namespace) -> int:
    """Do ``filters`` and return the exit code."""
    from dataclasses import replace

    from ..config.experiment_file import load_experiment
    from ..results.report.filters import curve_frequencies, response_figures
    from ..results.report.html import write_figures
    from ..signals import sample_rate
    from ..signals.responses import decimated_nyquist, frequency_response
    from ..signals.settings import METHODS

    experiment = load_experiment(options.experiment, overrides_of(options.overrides))
    signals = experiment.signals
    rate = options.rate or signals.sample_rate or sample_rate(experiment.sources()[0])
    methods = dict.fromkeys((signals.method, *options.compare))
    for method in methods:
        if method not in METHODS:
            raise SettingsError(
                f"'--compare {method}' is no method", remedy=f'there are {one_of(METHODS)}'
            )
    chosen = [replace(signals, method=method) for method in methods]
    print('\n\n'.join(frequency_response(each, rate).table() for each in chosen))
    if options.out is not None:
        curves = [frequency_response(each, rate, curve_frequencies(rate)) for each in chosen]
        figures = response_figures(curves, decimated_nyquist(signals, rate))
        text = f'Shares of the true signals at {rate:g} Hz'
        page = write_figures(options.out, 'Frequency response of the filters', text, figures)
        print(f'\nwrote {page}')
    return EXIT_OK
