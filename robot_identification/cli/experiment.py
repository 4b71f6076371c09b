# SPDX-License-Identifier: Apache-2.0
"""
Commands on experiment files.

``schema`` helps to write them, ``structure``, ``filters`` and ``diagnose`` show what they lead to,
and ``identify`` carries them out.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
import sys
from typing import TYPE_CHECKING

from ..errors import missing, one_of, SettingsError, suggestion
from ..support.progress import progress_bar
from ..version import page
from .command import (
    argument,
    command,
    EXIT_NOT_WRITTEN,
    EXIT_OK,
    EXPERIMENT,
    experiment_of,
    fail,
    flag,
    output_folder,
    OVERRIDES,
    overrides_of,
    positive,
    QUIET,
    require,
    REQUIREMENTS,
    show,
    VERBOSE,
    warn,
    without_collection,
)
from .servo import identify_commands, TARGET

if TYPE_CHECKING:
    from ..config.experiment import Experiment
    from ..results.result import Result


@command()
def schema(options: argparse.Namespace) -> int:
    """
    Print the JSON schema of the experiment file.

    Print the JSON schema of the experiment file. Editors with a YAML language server
    complete and check files whose first line names it. 'init' writes its address in the
    repository; of this version, and without a network, it is a file beside yours:
      robot-identification schema > experiment.schema.json
      # yaml-language-server: $schema=experiment.schema.json
    """
    from ..config.experiment_file import schema_text

    sys.stdout.write(schema_text())
    return EXIT_OK


@command(EXPERIMENT, OVERRIDES)
def structure(options: argparse.Namespace) -> int:
    """
    Print which parameters motions can identify.

    Print the parameters of the robot and the model that an experiment file describes by
    what can be known of them at best: those that can be identified alone, those that can
    in combination with others, with the combinations, and those that act in no motion.
    No recording is read.

    Examples
    --------
    robot-identification structure experiment.yaml --set robot.gravity='[0, -9.81, 0]'
    """
    from ..regressor import build
    from ..regressor.base_search import structure

    experiment = experiment_of(options)
    robot, model = experiment.build_robot(), experiment.robot.model
    print(structure(build(robot, model), robot, grouping=model.grouping).summary())
    return EXIT_OK


@command(
    EXPERIMENT,
    argument('--rate', "sampling rate (default: the first recording's)", positive, 'HZ'),
    argument(
        '--compare',
        'show another signals.method, too; may be given several times',
        action='append',
        default=[],
        metavar='METHOD',
    ),
    argument('--out', 'page with the curves to write, .html', Path, 'FILE'),
    OVERRIDES,
    page=page('explanation/filters'),
)
def filters(options: argparse.Namespace) -> int:
    r"""
    Show what an experiment file's filter does to motions and noise.

    Print the frequency response of the method that signals.method names: what it makes of
    the position, velocity, acceleration and effort of a sine, as a share of the true ones,
    and how much noise it lets through. How to choose by it:
    {page}

    Examples
    --------
    robot-identification filters experiment.yaml
    robot-identification filters experiment.yaml --compare butterworth \
        --set signals.method=polynomial_approximation --out filters.html
    """
    from ..figures.fit_plots import curve_frequencies, response_figures
    from ..figures.page import write_figures
    from ..signals import sample_rate
    from ..signals.responses import decimated_nyquist, frequency_response
    from ..signals.settings import METHODS

    experiment = experiment_of(options)
    signals = experiment.signals
    rate = options.rate or signals.sample_rate or sample_rate(experiment.sources()[0])
    methods = dict.fromkeys((signals.method, *options.compare))
    for method in methods:
        if method not in METHODS:
            raise SettingsError(
                f"'--compare {method}' is no method",
                remedy=f'{suggestion(method, METHODS)}there are {one_of(METHODS)}',
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


@command(EXPERIMENT, OVERRIDES)
def diagnose(options: argparse.Namespace) -> int:
    """
    Diagnose faults of the recordings of an experiment file.

    Try single explanations of what the recordings of data.identification show: degrees or
    milliseconds, an effort with the wrong sign or scale, joints in the wrong columns, a
    zero offset, another direction of gravity, efforts that are late or without gravity, a
    load that the URDF lacks, and more. Print those that fit decisively better, each with
    its evidence and the key that mends it.

    Examples
    --------
    robot-identification diagnose experiment.yaml
    robot-identification diagnose experiment.yaml --set 'robot.gravity=[0, 0, 9.81]'
    """
    from ..config.problem import IdentificationProblem
    from ..diagnosis.diagnose import diagnose
    from ..identification.reduction import recordings_among

    experiment = experiment_of(options)
    problem = IdentificationProblem.from_experiment(experiment)
    sources = recordings_among(experiment.sources('identification', problem.robot.joints))
    if not sources:
        raise SettingsError(
            f"{options.experiment}: 'data.identification' names no recording",
            key='data.identification',
            file=str(options.experiment),
            remedy='add one; factors do not have the samples that a diagnosis takes',
        )
    found = diagnose(problem.robot, sources, problem.model, problem.prior())
    nothing = 'diagnosis: nothing found that is wrong with the recordings'
    print('\n  '.join(['diagnosis:', *map(str, found)]) if found else nothing)
    return EXIT_OK


@command(
    argument(
        'experiment',
        'the experiment file, or a factor, which brings robot and settings with it',
        Path,
    ),
    argument(
        '--factors',
        'identify from these factors in place of data.identification',
        Path,
        'FILE',
        nargs='+',
        default=[],
    ),
    argument('--out', "folder for the results (default: the file's own)", Path, 'DIR'),
    TARGET,
    OVERRIDES,
    flag(
        '--no-auto',
        'take the defaults of the settings that the file leaves out, and choose none of them '
        'from the recordings',
    ),
    *REQUIREMENTS,
    VERBOSE,
    QUIET,
    page=page('how_to/commands'),
)
def identify(options: argparse.Namespace) -> int:
    r"""
    Identify the parameters from the recordings that an experiment file names.

    Identify a robot's dynamic parameters as an experiment file states: read the
    recordings, filter them, build the regressor from the URDF, estimate the base
    parameters with their standard deviations, find the standard parameters nearest to the
    prior, check their physical consistency, and predict the recordings kept for
    validation.

    Print a verdict on one screen: what the result is good for, the errors to expect, one
    reason a use, and one next step. With --verbose print all reasons and the tables, too:
    choices, parameters, fit, consistency, links, warnings; the report has them as well.
    Write into the output folder:
      result.yaml       everything that was found, for programs
      verdict.json      the verdict, its reasons and next steps, and the links
      identified.urdf   the robot's URDF with the identified inertials and joint dynamics
      report.html       plots and tables, for people

    From commands of position servos (effort_kind: servo_command), identify armature,
    friction and delay of the joints, and write identified.xml, an MJCF, in place of
    verdict.json: {page}

    Examples
    --------
    robot-identification identify experiment.yaml
    robot-identification identify experiment.yaml --out results/try \
        --set signals.cutoff=20 --set estimation.method=ols
    robot-identification identify experiment.yaml --factors runs/*.factor
    robot-identification identify all.factor --out results
    """
    with without_collection():
        from ..estimation.factor_file import SUFFIX
        from ..exports.saving import remarks, require_writable, save, saved_screen
        from ..pages.first_screen import names_in_line
        from ..pages.summary import summary

    if options.target is not None:
        options.overrides = [*options.overrides, f'simulation.target={options.target}']
    if options.no_auto:
        options.overrides = [*options.overrides, 'auto=false']
    experiment = None
    if options.experiment.suffix != SUFFIX:
        experiment = experiment_of(options, check_data=not options.factors)
        if experiment.robot.by_commands:
            return identify_commands(options, experiment)
    run = _identification(options, experiment)
    folder = output_folder(options, experiment)
    require_writable(folder)
    if not options.quiet and find_spec('numba') is None:
        warn([f'{missing("numba")}; without it regressors take longer'])
    with progress_bar(enabled=not options.quiet) as progress:
        result = run(progress=progress)
        progress(1.0, 'writing the results')
        saved = save(result, folder)
    brief = not (options.quiet or options.verbose)
    texts = remarks(result, saved, overview=not options.quiet)
    if brief:
        name = '' if experiment is None else str(options.experiment)
        show(saved_screen(result, saved, name)[0].text())
    elif options.verbose:
        show(summary(result, verbose=True))
    if not brief:
        warn(texts)
    for line in names_in_line(saved.files) if brief else map('wrote {}'.format, saved.files):
        print(line)
    code = require(
        options.require, physical=result.consistency.physical, plausible=result.plausible
    )
    return fail('; '.join(saved.failures), EXIT_NOT_WRITTEN) if saved.failures else code


def _identification(
    options: argparse.Namespace, experiment: Experiment | None
) -> Callable[..., Result]:
    """Return what identifies by an experiment file, or by factors alone."""
    from ..estimation.estimators import EstimationSettings
    from ..estimation.factor_file import read_factor
    from ..identification.pipeline import identify, identify_factors
    from ..identification.reduction import with_factors
    from ..options.document import read_section

    if experiment is not None:
        return partial(identify, with_factors(experiment, options.factors))
    factors = [read_factor(path) for path in (options.experiment, *options.factors)]
    estimation = read_section(EstimationSettings, 'estimation', overrides_of(options))
    return partial(identify_factors, factors, estimation)
