# SPDX-License-Identifier: Apache-2.0
"""The command ``feedforward``: efforts for the points of a trajectory."""

from __future__ import annotations

import argparse
from pathlib import Path

from .command import argument, command, EXIT_OK, RESULT, warn, write


@command(
    RESULT,
    argument(
        'trajectory', 'a JointTrajectory in YAML, as `ros2 topic echo --once` prints it', Path
    ),
    argument('--out', 'file to write (default: standard output)', Path, 'FILE'),
)
def feedforward(options: argparse.Namespace) -> int:
    """
    Write the efforts that a trajectory takes into its points.

    Compute the efforts of the identified robot at each point of a trajectory, from its
    positions, velocities and accelerations, and write them into the point's effort, which
    joint_trajectory_controller feeds forward where it commands efforts.

    Examples
    --------
    robot-identification feedforward results/result.yaml trajectory.yaml --out with_efforts.yaml
    """
    from ..exports.feedforward import read_trajectory, with_efforts
    from ..options.document import dump
    from ..results.stored_result import read_result

    made, remarks = with_efforts(read_result(options.result), read_trajectory(options.trajectory))
    warn(remarks)
    if options.out is None:
        print(dump(made), end='')
    else:
        write(options.out, dump(made))
    return EXIT_OK
