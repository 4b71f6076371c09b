# SPDX-License-Identifier: Apache-2.0
"""Command ``demo``."""

from __future__ import annotations

import argparse
from pathlib import Path

from .options import argument, command, needing_ros


@command(
    argument(
        '--out',
        'folder for recordings, results and logs',
        Path,
        'DIR',
        default=Path('demo_results'),
    ),
    argument('--seed', 'of the planner and the noise', int, default=1),
    argument('--duration', 'length of each motion in seconds', float, 'S', default=20.0),
    argument(
        '--max-iterations', 'evaluations of the planner for each motion', int, 'N', default=300
    ),
)
def demo(options: argparse.Namespace) -> int:
    """
    Do all steps on a simulated arm, over ROS 2.

    Start the suite's nodes against an arm simulated in MuJoCo whose true parameters differ
    from its URDF; plan an excitation, execute and record it, identify the parameters,
    check them, validate them on a second motion, and compare them with the true ones.

    The folder afterwards holds:
      recordings/       rosbag2 folders of both motions
      results/          result.yaml, verdict.json, identified.urdf, report.html
      truth.yaml        the simulated robot's true parameters
      logs/             what each node printed
    """
    remedy = "run 'make demo' in the sources, or source your ROS 2 workspace and install mujoco"
    with needing_ros('the demonstration', remedy, 'ROS 2 and MuJoCo'):
        from ..demo import run_demo
    return run_demo(
        options.out,
        seed=options.seed,
        duration=options.duration,
        max_iterations=options.max_iterations,
    )
