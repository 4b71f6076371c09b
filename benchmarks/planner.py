# SPDX-License-Identifier: Apache-2.0
"""
Time and quality of a planned excitation.

    .venv/bin/python -m benchmarks planner
"""

from __future__ import annotations

from pathlib import Path
import time
import warnings

import numpy as np
from robot_identification.base_parameters import structure
from robot_identification.excitation import plan, PlannerSettings
from robot_identification.excitation.objective import FeasibleSeries
from robot_identification.excitation.planner import condition_number
from robot_identification.model.robot import Robot
from robot_identification.regressor import build

from .harness import Section, Table

URDF = Path(__file__).resolve().parent.parent / 'urdf'
ROBOTS = ('zollo_planar_2r', 'gautier_khalil_3r', 'szabo_3r', 'puma560', 'tx40')
SEEDS = 1


def section() -> Section:
    """Plan for each robot."""
    lines = []
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        for name in ROBOTS:
            robot = Robot.from_urdf(URDF / f'{name}.urdf')
            for seed in range(SEEDS):
                settings = PlannerSettings(seed=seed)
                begin = time.process_time()
                made = plan(robot, settings)
                seconds = time.process_time() - begin
                lines.append(
                    [
                        robot.name,
                        str(robot.n_joints),
                        f'{chance(robot, settings, made):.1f}',
                        f'{made.history[0]:.1f}',
                        f'{made.condition_number:.1f}',
                        str(len(made.history)),
                        f'{seconds:.1f}',
                    ]
                )
    return Section(
        title='Planning a motion',
        text='Condition number of the column-scaled base regressor: of random feasible motions '
        "(median), at the optimiser's start and in the end, and the time of one core.",
        tables=[Table(['robot', 'joints', 'random', 'first', 'planned', 'steps', 's'], lines)],
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
