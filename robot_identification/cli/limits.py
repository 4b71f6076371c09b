# SPDX-License-Identifier: Apache-2.0
"""The command ``limits``: accelerations that a planner may ask for."""

from __future__ import annotations

import argparse
from pathlib import Path

from .command import argument, command, EXIT_OK, EXIT_REJECTED, RESULT, write


@command(
    RESULT,
    argument('--share', "of the efforts' limits that is used [%%] (default: 80)", float, 'SHARE'),
    argument(
        '--percentile',
        'share of the states in which efforts have to suffice [%%] (default: 95)',
        float,
        'PERCENTILE',
    ),
    argument('--check', 'joint_limits.yaml to check in place of writing one', Path, 'FILE'),
    argument('--out', 'file to write (default: standard output)', Path, 'FILE'),
)
def limits(options: argparse.Namespace) -> int:
    """
    Write the accelerations that a planner may ask for, or check given ones.

    Compute, from the efforts of the identified robot in random states of its workspace, the
    acceleration of each joint for which efforts suffice, and write them as MoveIt's
    joint_limits.yaml.  With --check, print in how many states efforts suffice for those of a file.

    Examples
    --------
    robot-identification limits results/result.yaml --out joint_limits.yaml
    robot-identification limits results/result.yaml --check joint_limits.yaml
    """
    from ..exports.joint_limits import moveit_limits, PERCENTILE, report_on, SHARE
    from ..results.stored_result import read_result

    result = read_result(options.result)
    share = SHARE if options.share is None else options.share
    percentile = PERCENTILE if options.percentile is None else options.percentile
    if options.check is not None:
        text, suffices = report_on(result, options.check, share, percentile)
        print(text, end='')
        return EXIT_OK if suffices else EXIT_REJECTED
    text = moveit_limits(result, share, percentile)
    if options.out is None:
        print(text, end='')
    else:
        write(options.out, text)
    return EXIT_OK
