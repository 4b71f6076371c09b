# SPDX-License-Identifier: Apache-2.0
"""The command ``tool``: identification behind a force-torque sensor."""

from __future__ import annotations

import argparse
from pathlib import Path

from .command import (
    argument,
    command,
    EXIT_OK,
    EXPERIMENT,
    experiment_of,
    output_folder,
    OVERRIDES,
    QUIET,
    show,
    VERBOSE,
    warn,
)


@command(
    EXPERIMENT,
    argument('--out', "folder for the result (default: the file's own)", Path, 'DIR'),
    OVERRIDES,
    VERBOSE,
    QUIET,
)
def tool(options: argparse.Namespace) -> int:
    """
    Identify a tool from a force-torque sensor at the wrist.

    Read joint states and wrenches of data.tool, and print a verdict on one screen, with
    --verbose mass, centre of mass, inertia and the six offsets of the sensor with their
    standard deviations, too. Write tool.yaml, which `export` turns into calls of
    controllers and parameters of filters.

    Examples
    --------
    robot-identification tool experiment.yaml --out results
    robot-identification tool experiment.yaml --set data.tool.rotation=true
    robot-identification export results/tool.yaml --format gravity
    """
    from ..exports.saving import require_writable
    from ..identification.tool_pipeline import identify_tool, save_tool
    from ..pages.first_screen import Places
    from ..pages.summary import screen, summary
    from ..verdicts.verdict import verdict

    experiment = experiment_of(options, check_data=False)
    folder = output_folder(options, experiment)
    require_writable(folder)
    result = identify_tool(experiment)
    if options.quiet:
        warn(reason.text for reason in verdict(result.identified).reasons)
    elif options.verbose:
        show(summary(result.identified))
    saved = save_tool(result, folder)
    if not (options.quiet or options.verbose):
        places = Places(
            experiment=str(options.experiment),
            result=str(saved),
            product=str(saved),
            product_command=f'robot-identification export {saved} --format gravity',
        )
        show(screen(result.identified, places).text())
    print(f'wrote {saved}')
    return EXIT_OK
