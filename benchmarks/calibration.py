# SPDX-License-Identifier: Apache-2.0
"""
Calibration of simulated robots until every essential parameter is known to 5 %.

    .venv/bin/python -m benchmarks calibration
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
import warnings

import numpy as np
from robot_identification.calibration import (
    automatic_choice,
    calibrate,
    Calibration,
    CalibrationSettings,
    MET,
    next_motion,
)
from robot_identification.config.problem import IdentificationProblem
from robot_identification.excitation import Plan, PlannerSettings
from robot_identification.model.robot import Robot
from robot_identification.results.factor_file import StoredFactor
from robot_identification.simulation.executor import SimulatedExecutor
from robot_identification.simulation.settings import SimulationSettings

from .harness import Figure, Section, Table

URDF = Path(__file__).resolve().parent.parent / 'urdf' / 'demo_arm.urdf'

SEEDS = tuple(range(1, 11))
"""Of the simulated robots, which differ from the URDF and from each other."""

NOISE = 0.01
"""Of the efforts, as share of their limits, which is what plans assume [-]."""

FIXED = 20.0
"""Duration of the plans that know nothing of the results [s]."""

MOTIONS, EVALUATIONS = 20, 300
"""Motions at most, and evaluations of each search, in both ways alike."""


def fixed_motion(
    problem: IdentificationProblem,
    settings: PlannerSettings,
    factors: Sequence[StoredFactor],
    targets: Mapping[str, float],
) -> Plan:
    """Plan a motion of a fixed duration for all parameters alike; seed and start differ."""
    return next_motion(problem, replace(settings, duration=FIXED), (), {})


def calibrated(robot: Robot, seed: int, *, fixed: bool) -> Calibration:
    """Calibrate a simulated robot."""
    problem = IdentificationProblem(robot)
    with TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter('ignore')
        return calibrate(
            folder,
            problem,
            SimulatedExecutor(robot, SimulationSettings(seed=seed, effort_noise=NOISE)),
            CalibrationSettings(motions=MOTIONS),
            planner=PlannerSettings(
                floor=0.0, duration=FIXED, max_iterations=EVALUATIONS, time_budget=0.0
            ),
            plan_motion=fixed_motion if fixed else next_motion,
            choose=automatic_choice(problem),
        )


def section() -> Section:
    """Calibrate each robot in both ways."""
    robot = Robot.from_urdf(URDF)
    rows, reached, spent = [], 0, np.zeros(2)
    for seed in SEEDS:
        planned, fixed = (calibrated(robot, seed, fixed=way) for way in (False, True))
        spent += planned.duration, fixed.duration
        reached += planned.outcome == MET
        for way, ended in (('calibrate', planned), ('fixed plans', fixed)):
            rows.append(
                [
                    str(seed),
                    way,
                    ended.outcome,
                    str(len(ended.standings)),
                    f'{ended.duration:.0f}',
                    f'{int(ended.standings[-1].essential.sum())}',
                    f'{len(ended.standings[-1].targets)}',
                ]
            )
            print(', '.join(rows[-1]), flush=True)
    return Section(
        'Calibration',
        'The demonstration arm in MuJoCo, with friction, rotor inertias and inertias that differ '
        'from the URDF by seed: motion until every essential base parameter has a standard '
        f'deviation of 5 %. *calibrate* plans each motion for what is open; *fixed plans* are of '
        f'{FIXED:g} s and plan each for all parameters, from where the one before ended and with '
        'a seed of its own.',
        tables=[
            Table(['seed', 'way', 'end', 'motions', 'motion time, s', 'essential', 'open'], rows)
        ],
        figures=[
            Figure(
                'motion time of all, calibrate by fixed plans',
                float(spent[0] / spent[1]),
                at_most=0.7,
            ),
            Figure('goals reached', reached, at_least=len(SEEDS)),
        ],
    )
