# SPDX-License-Identifier: Apache-2.0
"""
Calibration of simulated robots until every essential parameter is known to 5 %.

Both ways have the same goal: what is essential is told by the true parameters.

    .venv/bin/python -m benchmarks calibration
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
import warnings

import numpy as np
from robot_identification.calibration.calibrate import (
    automatic_choice,
    calibrate,
    next_motion,
    PlanMotion,
)
from robot_identification.calibration.goal import Calibration, CalibrationSettings, MET
from robot_identification.config.problem import IdentificationProblem
from robot_identification.estimation.factor_file import StoredFactor
from robot_identification.excitation import Plan, plan, PlannerSettings
from robot_identification.model.parameters import ParameterSet
from robot_identification.model.robot import Robot
from robot_identification.regressor import build, ModelSettings
from robot_identification.regressor.base_search import structure
from robot_identification.simulation import SimulationSettings, truth
from robot_identification.simulation.simulator import SimulatedExecutor

from .harness import Figure, Section, Table

URDF = Path(__file__).resolve().parent.parent / 'urdf' / 'demo_arm.urdf'

SEEDS = tuple(range(1, 11))
"""Of the simulated robots, which differ from the URDF and from each other."""

NOISE = 0.01
"""Of the efforts, as share of their limits, which is what plans assume [-]."""

FIXED = 20.0
"""Duration of the plans that know nothing of the results [s]."""

MOTIONS = 20
"""Motions at most."""

LEAST_SHARE = 1.0
"""Share of a joint's effort that makes a parameter essential [%]."""


PLANNER = PlannerSettings(floor=0.0, duration=FIXED, time_budget=0.0)
"""Of both ways; searches end by their evaluations, so that all is the same each time."""


def needed_motion(
    problem: IdentificationProblem,
    settings: PlannerSettings,
    factors: Sequence[StoredFactor],
    targets: Mapping[str, float],
) -> Plan:
    """Plan a motion as `calibrate` does by default; the first one is for all parameters alike."""
    return next_motion(problem, replace(settings, parameters=()), factors, targets)


def fixed_motion(
    problem: IdentificationProblem,
    settings: PlannerSettings,
    factors: Sequence[StoredFactor],
    targets: Mapping[str, float],
) -> Plan:
    """Plan a motion of a fixed duration for all parameters alike; seeds differ."""
    return needed_motion(problem, replace(settings, duration=FIXED), (), {})


def essential(robot: Robot, reference: Plan, simulation: SimulationSettings) -> tuple[str, ...]:
    """Return the base parameters that have their share of some joint's effort in a motion."""
    regressor = build(robot, ModelSettings())
    base = structure(regressor, robot)
    real = truth(robot, simulation)
    values = np.array([real.get(name, 0.0) for name in base.layout.names])
    moments = np.linspace(0.0, reference.trajectory.duration, 2000)
    rows = regressor.rows(reference.trajectory.sample(moments))[:, base.independent]
    parts = rows * base.project(ParameterSet(base.layout, values)).values
    parts = parts.reshape(len(moments), robot.n_joints, -1)
    efforts = np.linalg.norm(parts.sum(axis=2), axis=0)
    share = 100.0 * (np.linalg.norm(parts, axis=0) / efforts[:, None]).max(axis=0)
    return tuple(np.array(base.names)[share >= LEAST_SHARE].tolist())


def calibrated(
    robot: Robot, simulation: SimulationSettings, goal: tuple[str, ...], motion: PlanMotion
) -> Calibration:
    """Calibrate a simulated robot until the parameters of the goal are known."""
    problem = IdentificationProblem(robot)
    with TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter('ignore')
        return calibrate(
            folder,
            problem,
            SimulatedExecutor(robot, simulation),
            CalibrationSettings(motions=MOTIONS, least_share=0.0),
            planner=replace(PLANNER, parameters=goal),
            plan_motion=motion,
            choose=automatic_choice(problem),
        )


def section() -> Section:
    """Calibrate each robot in both ways."""
    robot = Robot.from_urdf(URDF)
    rows, reached, spent = [], 0, np.zeros(2)
    # neither way executes it: seeds of their plans are those of the motions' numbers
    reference = plan(robot, PLANNER)
    for seed in SEEDS:
        simulation = SimulationSettings(seed=seed, effort_noise=NOISE)
        goal = essential(robot, reference, simulation)
        planned, fixed = (
            calibrated(robot, simulation, goal, way) for way in (needed_motion, fixed_motion)
        )
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
        f'deviation of 5 %. Essential is what has {LEAST_SHARE:g} % of the effort of some joint '
        'by the true parameters, over a motion that neither way executes. *calibrate* plans each '
        'motion for what is open; *fixed plans* are of '
        f'{FIXED:g} s and plan each for all parameters, with a seed of its own. In both ways a '
        'motion starts where the one before ended. Searches end by the default number of '
        'evaluations.',
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
