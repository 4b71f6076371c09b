# SPDX-License-Identifier: Apache-2.0
"""
Planned motions: what they tell, what they use of the limits, and their time.

    .venv/bin/python -m benchmarks excitation

Logdet is the log-determinant of the base parameters' information: 20 s at 100 Hz, noise of 1 % of
each joint's effort limit; rotor inertia, viscous and Coulomb friction and offset.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
import time
import warnings

import numpy as np
import pinocchio as pin
from robot_identification import identify
from robot_identification.data.recording import Recording
from robot_identification.errors import ExcitationError
from robot_identification.excitation import Plan, plan, PlannerSettings
from robot_identification.excitation.bases import FourierBasis
from robot_identification.excitation.collisions import collision_model
from robot_identification.excitation.criteria import EarlierInformation
from robot_identification.excitation.extremes import nominal_effort
from robot_identification.excitation.families import MotionFamily
from robot_identification.excitation.plans import PlanChecks, shrink_until_feasible
from robot_identification.excitation.search import scaled_to_limits
from robot_identification.model.robot import Robot
from robot_identification.regressor import build, prior
from robot_identification.regressor.base_search import structure
from robot_identification.simulation.plant import Plant

from .harness import Figure, Section, Table

URDF = Path(__file__).resolve().parent.parent / 'urdf'
FETCHED = Path(pin.__file__).parents[4] / 'share' / 'example-robot-data' / 'robots'
RANDOM, RANDOM_HARMONICS = 21, 8
"""Random motions from where the plan starts, of which the median counts, and their harmonics."""

LEAST_SHARE = 0.5
"""Share to which a random motion may be scaled to pass the checks; others are left out."""

SEEDS = 8
"""Recordings with noise from which the parameters are identified."""

BUDGET = 0.85
"""Share of a plan's time that its search gets; the rest is for the last checks."""

LONG = 60.0
"""Processor time of the search that the default one is held against [s]."""


@dataclass(frozen=True)
class Arm:
    """
    An arm and what its plan is held to.

    Attributes
    ----------
    name, path, joints:
        Of the arm; all joints where empty.
    seconds:
        For the plan [s].
    logdet:
        Least one.
    former:
        Mean deviation of a plan of 20 s by the condition number (commit 4be5a05^, default settings
        without a time budget), by how many times the plan's has to be smaller; None for others.

    """

    name: str
    path: str
    joints: tuple[str, ...]
    seconds: float
    logdet: float
    former: tuple[float, float] | None = None


def _numbered(pattern: str) -> tuple[str, ...]:
    return tuple(pattern.format(i) for i in range(1, 8))


ARMS = (
    Arm('UR10', 'ur_description/urdf/ur10_robot.urdf', (), 12.0, 583.0, (0.02004, 2.4)),
    Arm(
        'Panda', 'panda_description/urdf/panda.urdf', _numbered('panda_joint{}'), 12.0, 840.0,
        (0.007136, 2.2),
    ),
    Arm('demonstration arm', '', (), 12.0, 630.0, (0.01189, 2.3)),
    Arm(
        'xArm7', 'xarm_description/urdf/xarm7.urdf', _numbered('joint{}'), 12.0, 904.0,
        (0.004141, 2.3),
    ),
    Arm('UR3', 'ur_description/urdf/ur3_robot.urdf', (), 10.0, 578.0),
    Arm(
        'TALOS arm', 'talos_data/robots/talos_reduced.urdf', _numbered('arm_left_{}_joint'),
        10.0, 958.0,
    ),
    Arm(
        'Baxter arm', 'baxter_description/urdf/baxter.urdf',
        ('left_s0', 'left_s1', 'left_e0', 'left_e1', 'left_w0', 'left_w1', 'left_w2'), 10.0, 834.0,
    ),
    Arm(
        'TIAGo arm', 'tiago_description/robots/tiago.urdf', _numbered('arm_{}_joint'),
        15.0, 875.0,
    ),
)  # fmt: skip


def robot_of(arm: Arm) -> Robot | None:
    """Return the robot, or None where its description is not there."""
    path = FETCHED / arm.path if arm.path else URDF / 'demo_arm.urdf'
    if not path.is_file():
        return None
    return Robot.from_urdf(path, joints=list(arm.joints) or None)


def information(robot: Robot, made: Plan) -> np.ndarray:
    """Return the information of the base parameters along a plan."""
    regressor = build(robot)
    base = structure(regressor, robot)
    motion = made.trajectory.sample(np.arange(0.0, made.trajectory.duration, 0.01))
    rows = regressor.rows(motion)[:, base.independent].reshape(len(motion), robot.n_joints, -1)
    flat = (rows / (0.01 * robot.limits.effort)[:, None]).reshape(-1, base.n_base)
    return flat.T @ flat


def logdet(matrix: np.ndarray) -> float:
    """Return the log-determinant of an information matrix, by its scaled Cholesky factor."""
    size = np.sqrt(np.diagonal(matrix))
    factor = np.linalg.cholesky(matrix / np.outer(size, size))
    return float(2.0 * (np.log(size).sum() + np.log(np.diagonal(factor)).sum()))


def mean_deviation(matrix: np.ndarray) -> float:
    """Return the geometric mean of the standard deviations."""
    return float(np.exp(0.5 * np.log(np.diagonal(np.linalg.inv(matrix))).mean()))


def timed(robot: Robot, settings: PlannerSettings) -> tuple[Plan, float]:
    """Return a plan and the processor time that it took [s]."""
    begin = time.process_time()
    made = plan(robot, settings)
    return made, time.process_time() - begin


def random_ratio(robot: Robot, made: Plan) -> float:
    """Return the deviations of random feasible motions by those of a plan, the median."""
    settings = made.settings
    collisions = collision_model(robot, settings.clearance)
    start = made.trajectory.sample(np.zeros(1)).position[0]
    basis = FourierBasis(settings.duration, settings.frequency, RANDOM_HARMONICS)
    family = MotionFamily(basis, made.limits, start, np.arange(robot.n_joints))
    checks = PlanChecks(robot, made.limits, settings, collisions, nominal_effort(robot))
    rng = np.random.default_rng(0)
    means: list[float] = []
    while len(means) < RANDOM:
        motion = scaled_to_limits(family.trajectory(family.random(rng)), made.limits)
        try:
            share, motion = shrink_until_feasible(motion, checks, lambda: True)
        except ExcitationError:
            continue
        if share >= LEAST_SHARE:
            means.append(mean_deviation(information(robot, replace(made, trajectory=motion))))
    return float(np.median(means)) / mean_deviation(information(robot, made))


def complement_ratio(robot: Robot) -> float:
    """Return the deviations of a poor motion done twice by those with a second, planned one."""
    poor = plan(robot, PlannerSettings(max_iterations=1, time_budget=0.0))
    known = information(robot, poor)
    names = structure(build(robot), robot).names
    earlier = EarlierInformation(names, known, 0.01 * robot.limits.effort)
    second = plan(robot, PlannerSettings(time_budget=12.0), earlier=earlier)
    both = known + information(robot, second)
    return mean_deviation(2.0 * known) / mean_deviation(both)


def actual_ratio(robot: Robot, made: Plan) -> float:
    """
    Return the errors of identified parameters by the predicted deviations, root mean square.

    The motion is recorded at 100 Hz; MuJoCo gives the efforts of the URDF's bodies, friction comes
    on top, and noise of 1 % of each effort limit.
    """
    time_ = np.arange(0.0, made.trajectory.duration, 0.01)
    motion = made.trajectory.sample(time_)
    true = prior(robot)
    plant = Plant(robot, true, timestep=0.001)
    states = zip(motion.position, motion.velocity, motion.acceleration, strict=True)
    effort = np.array([plant.inverse_dynamics(*state) for state in states])
    for j, joint in enumerate(robot.joints):
        velocity = motion.velocity[:, j]
        effort[:, j] += true[f'{joint}.fv'] * velocity + true[f'{joint}.fc'] * np.sign(velocity)
    settings = {'auto': False, 'estimation': {'method': 'wls', 'bootstrap': None}}
    ratios = []
    for seed in range(SEEDS):
        noise = np.random.default_rng(seed).standard_normal(effort.shape)
        noisy = effort + 0.01 * robot.limits.effort * noise
        recording = Recording(time_, motion.position, noisy, robot.joints)
        result = identify(robot.path, recording, settings=settings)
        found = {parameter.name: parameter.value for parameter in result.estimate}
        predicted = made.deviations
        values = [found[name] for name in predicted.names]
        ratios.append((np.array(values) - predicted.values) / predicted.std)
    return float(np.sqrt(np.mean(np.square(ratios))))


def section() -> Section:
    """Plan for each arm."""
    lines, figures = [], []
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        for arm in ARMS:
            robot = robot_of(arm)
            if robot is None:
                continue
            # the last checks follow the search
            budget = BUDGET * arm.seconds
            made, seconds = timed(robot, PlannerSettings(time_budget=budget))
            found = information(robot, made)
            use = made.findings.use.quantities
            used = float(np.maximum(use['velocity'], use['acceleration']).mean())
            lines.append(
                [
                    arm.name,
                    str(robot.n_joints),
                    f'{logdet(found):.1f}',
                    f'{mean_deviation(found):.3g}',
                    f'{100.0 * used:.0f} %',
                    f'{100.0 * float(use["effort"].max()):.0f} %',
                    f'{made.condition_number:.1f}',
                    f'{seconds:.1f}',
                ]
            )
            figures.append(Figure(f'logdet, {arm.name}', logdet(found), at_least=arm.logdet))
            figures.append(
                Figure(f'processor time by its budget, {arm.name}', seconds / budget, at_most=1.18)
            )
            if arm.former is not None:
                deviation, least = arm.former
                ratio = deviation / mean_deviation(found)
                name = f'deviations by the condition number by these, {arm.name}'
                figures.append(Figure(name, ratio, at_least=least))
            if arm.name == 'demonstration arm':
                ratio = actual_ratio(robot, made)
                figures.append(
                    Figure('actual by predicted deviation', ratio, at_least=0.8, at_most=1.2)
                )
            if arm.name == 'UR10':
                figures.append(Figure('limits used, UR10, mean over joints', used, at_least=0.95))
                figures.append(
                    Figure('random by planned, UR10', random_ratio(robot, made), at_least=3.5)
                )
                best, _ = timed(robot, PlannerSettings(time_budget=LONG, max_iterations=1_000_000))
                ratio = mean_deviation(found) / mean_deviation(information(robot, best))
                figures.append(Figure('10 s by 60 s of search, UR10', ratio, at_most=1.05))
                figures.append(
                    Figure(
                        'a poor motion repeated by a second one planned, UR10',
                        complement_ratio(robot),
                        at_least=3.0,
                    )
                )
    heads = [
        'arm',
        'joints',
        'logdet',
        'mean deviation',
        'limits used',
        'effort',
        'condition',
        's',
    ]
    return Section(
        'Excitation',
        'Plans of 20 s with default settings, collisions among the links included. *logdet*: of '
        'the information of the base parameters, 100 rows a second with noise of 1 % of each '
        'effort limit; *deviation*: geometric mean of their standard deviations; *limits '
        'used*: the larger share of velocity and acceleration limit, mean over the joints; '
        '*effort*: largest share of an effort limit; *condition*: of the column-scaled base '
        'regressor, which is not what is minimised; *s*: processor time, preparation and checks '
        'included. *deviations by the condition number*: of a plan that minimises the '
        'column-scaled condition number, which the planner did before (commit 4be5a05^), '
        'with the same duration and limits.',
        tables=[Table(heads, lines)],
        figures=figures,
    )
