# SPDX-License-Identifier: Apache-2.0
"""Command ``identify``."""

from __future__ import annotations

import argparse
from dataclasses import replace
from functools import partial
from pathlib import Path

from ..errors import once
from ..progress import progress_bar
from .command import (
    argument,
    command,
    EXIT_NOT_WRITTEN,
    experiment_of,
    fail,
    flag,
    output_folder,
    OVERRIDES,
    overrides_of,
    QUIET,
    require,
    REQUIREMENTS,
    show,
    warn,
    without_collection,
)


@command(
    argument(
        'experiment',
        'the experiment file (docs/reference/experiment.md), or a factor, which brings '
        'robot and settings with it (docs/reference/factor_files.md)',
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
    OVERRIDES,
    flag(
        '--no-auto',
        'take the defaults of the settings that the file leaves out, and choose none of them '
        'from the recordings',
    ),
    *REQUIREMENTS,
    QUIET,
)
def identify(options: argparse.Namespace) -> int:
    r"""
    Identify the parameters from the recordings that an experiment file names.

    Identify a robot's dynamic parameters as an experiment file states: read the
    recordings, filter them, build the regressor from the URDF, estimate the base
    parameters with their standard deviations, find the standard parameters nearest to the
    prior, check their physical consistency, and predict the recordings kept for
    validation.

    Print a verdict first, which states what the result is good for, and a table of the
    links before and after. Write into the output folder:
      result.yaml       everything that was found, for programs
      verdict.json      the verdict, its reasons and next steps, and the links
      identified.urdf   the robot's URDF with the identified inertials and joint dynamics
      report.html       plots and tables, for people

    Examples
    --------
    robot-identification identify experiment.yaml
    robot-identification identify experiment.yaml --out results/try \
        --set signals.cutoff=20 --set estimation.method=ols
    robot-identification identify experiment.yaml --factors runs/*.factor
    robot-identification identify all.factor --out results
    """
    with without_collection():
        from ..estimation import EstimationSettings
        from ..options.document import read_section
        from ..pipeline import identify, identify_factors
        from ..reduction import with_factors
        from ..results.factor_file import read_factor, SUFFIX
        from ..results.saving import require_writable, save
        from ..results.verdict import verdict

    if options.no_auto:
        options.overrides = [*options.overrides, 'auto=false']
    if options.experiment.suffix == SUFFIX:
        factors = [read_factor(path) for path in (options.experiment, *options.factors)]
        estimation = read_section(EstimationSettings, 'estimation', overrides_of(options))
        run = partial(identify_factors, factors, estimation)
        folder = output_folder(options, None)
    else:
        experiment = experiment_of(options, check_data=not options.factors)
        experiment = with_factors(experiment, options.factors)
        run = partial(identify, experiment)
        folder = output_folder(options, experiment)
    require_writable(folder)
    with progress_bar(enabled=not options.quiet) as progress:
        result = run(progress=progress)
        progress(1.0, 'writing the results')
        saved = save(result, folder)
    if not options.quiet:
        # warnings are printed in one place, below
        estimate = replace(result.estimate, warnings=())
        parts = [
            verdict(result),
            result.link_table(),
            result.selection,
            estimate,
            *result.validations,
            result.consistency,
            result.plausibility,
            result.drive_gains,
            result.payload,
        ]
        texts = [part.summary() for part in parts if part is not None]
        show('\n\n'.join(text for text in texts if text))
    warnings = once(result.warnings, result.estimate.warnings, saved.warnings)
    warn(text for text in warnings if text not in saved.failures)
    for path in (saved.result, saved.verdict, saved.urdf, saved.report):
        if path is not None:
            print(f'wrote {path}')
    code = require(
        options.require, physical=result.consistency.physical, plausible=result.plausible
    )
    return fail('; '.join(saved.failures), EXIT_NOT_WRITTEN) if saved.failures else code
