# SPDX-License-Identifier: Apache-2.0
"""
Time and quality of a planned excitation.

    .venv/bin/python benchmarks/planner.py [URDF ...] [--seeds 2]

For each robot of ``urdf/`` (or those given) and each seed: the condition number of the
column-scaled base regressor of random feasible motions (median), at the optimiser's start and in
the end, and the time on one core.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
import time
import warnings

os.environ.setdefault('OMP_NUM_THREADS', '1')
os.environ.setdefault('OPENBLAS_NUM_THREADS', '1')

import numpy as np
from robot_identification.base_parameters import structure
from robot_identification.excitation import plan, PlannerSettings
from robot_identification.excitation.objective import FeasibleSeries
from robot_identification.excitation.planner import condition_number
from robot_identification.regressors import build
from robot_identification.robot import Robot

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.strip().partition('\n')[0])
    parser.add_argument('urdf', nargs='*', type=Path, default=sorted(ROOT.glob('urdf/*.urdf')))
    parser.add_argument('--seeds', type=int, default=1)
    arguments = parser.parse_args()
    warnings.simplefilter('ignore')
    print(f'{"robot":20}{"seed":>5}{"random":>9}{"first":>8}{"planned":>9}{"steps":>7}{"time":>9}')
    for path in arguments.urdf:
        robot = Robot.from_urdf(path)
        for seed in range(arguments.seeds):
            settings = PlannerSettings(seed=seed)
            begin = time.process_time()
            made = plan(robot, settings)
            seconds = time.process_time() - begin
            print(
                f'{robot.name:20}{seed:5d}{chance(robot, settings, made):9.1f}'
                f'{made.history[0]:8.1f}{made.condition_number:9.1f}{len(made.history):7d}'
                f'{seconds:7.1f} s',
                flush=True,
            )


def chance(robot: Robot, settings: PlannerSettings, made) -> float:
    """Return the median condition number of random motions within the same limits."""
    trajectory = made.trajectory
    series = FeasibleSeries(
        made.limits, trajectory.start, trajectory.duration, trajectory.frequency,
        trajectory.harmonics,
    )  # fmt: skip
    regressor = build(robot)
    base = structure(regressor, robot)
    rng = np.random.default_rng(settings.seed)
    numbers = [
        condition_number(series.trajectory(series.random(rng)), regressor, base, 400)
        for _ in range(21)
    ]
    return float(np.median(numbers))


if __name__ == '__main__':
    main()
