# SPDX-License-Identifier: Apache-2.0
"""Honest intervals of masses: simulated arms with model error, and the real runs of a UR10e."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from robot_identification.config.problem import IdentificationProblem
from robot_identification.data.recording import Motion, Recording
from robot_identification.estimation.estimators import EstimationSettings
from robot_identification.estimation.physical_fit import body_links
from robot_identification.identification.pipeline import identify_sources
from robot_identification.model.parameters import ParameterSet
from robot_identification.model.robot import Robot
from robot_identification.regressor import build, ModelSettings, predict
from robot_identification.results.result import Result
from robot_identification.selection.model_selection import choose_model
from robot_identification.signals import SignalSettings
from robot_identification.simulation import SimulationSettings
from robot_identification.simulation.truth import truth
from scipy.signal import lfilter

from .harness import Figure, Section, Table
from .real_recordings import DATA
from .synthetic import panda, sines

ROOT = Path(__file__).resolve().parents[1]
MODEL = ModelSettings()
SECONDS, RATE = 30.0, 200.0
SINES = 6
ROBOTS = 50
"""Seeds of each arm."""

PERTURBATION = 0.15
"""Relative standard deviation by which masses and shapes differ from the URDF's."""

UR10E = DATA / 'ur10e'
NO_UR10E = 'the recordings of the UR10e are not beside the repository'
RUNS = ('excite_30s_a', 'excite_50s_a', 'excite_50s_b', 'excite_20s_8harm')
GAINS = (14.87, 13.26, 11.13, 10.62, 11.03, 11.47)
UR10E_JOINTS = ('shoulder_pan', 'shoulder_lift', 'elbow', 'wrist_1', 'wrist_2', 'wrist_3')


@dataclass(frozen=True)
class ModelError:
    """
    Errors that the model of the identification lacks, relative to each joint's effort.

    Attributes
    ----------
    noise:
        Standard deviation of coloured noise.
    memory:
        How long it stays alike [s].
    friction:
        Size of friction as the cube root of speed, in Coulomb frictions.
    spring:
        Amplitude of a torque over the joint's angle, such as that of a cable.

    """

    noise: float = 0.03
    memory: float = 0.1
    friction: float = 0.3
    spring: float = 0.02


def arms() -> dict[str, Robot]:
    """Return arms of 3 to 7 joints."""
    demo = ROOT / 'urdf' / 'demo_arm.urdf'
    joints = tuple(f'joint_{i}' for i in range(1, 7))
    return {
        'szabo_3r': Robot.from_urdf(ROOT / 'urdf' / 'szabo_3r.urdf'),
        'demo_arm, 4 joints': Robot.from_urdf(
            demo, joints[:4], locked=dict.fromkeys(joints[4:], 0.0)
        ),
        'demo_arm': Robot.from_urdf(demo, joints),
        'panda': panda(),
    }


def problem(robot: Robot) -> IdentificationProblem:
    """Return the problem that a URDF alone states."""
    return IdentificationProblem(robot)


def identified(robot: Robot, recorded: Recording) -> Result:
    """Return what the command line identifies: settings chosen from the recording, defaults."""
    plain = problem(robot)
    chosen = choose_model([recorded], robot, plain.model, plain.signals, frozenset())
    return identify_sources(plain.with_selection(chosen), [recorded])


def true_parameters(robot: Robot, seed: int) -> ParameterSet:
    """Return the parameters of an arm that differs from its URDF."""
    return truth(robot, SimulationSettings(seed=seed, perturbation=PERTURBATION))


def within(result: Result, masses: Mapping[str, float]) -> list[bool]:
    """Tell of each link with an interval of its mass if that holds the true one."""
    places = result.standard.layout.indices([f'{link}.m' for link in masses])
    std = result.standard_std[places]
    off = np.abs(result.standard.values[places] - np.array(list(masses.values())))
    return (off <= 1.96 * std)[np.isfinite(std)].tolist()


def recording(
    robot: Robot,
    seed: int,
    error: ModelError | None = None,
    motion: int = 0,
    speeds: np.ndarray | None = None,
) -> tuple[Recording, dict]:
    """
    Simulate an arm that differs from its URDF and from the model; give its true masses.

    The same arm makes another ``motion`` by another number, smaller where a joint would be faster
    than ``speeds`` (n,).
    """
    error = error or ModelError()
    random = np.random.default_rng([seed, 7, motion])
    known = true_parameters(robot, seed)
    time = np.arange(round(SECONDS * RATE)) / RATE
    n = robot.n_joints
    terms = (
        (2.0 * np.pi * k / 10.0, random.uniform(0.1, 0.5, n) / np.sqrt(k),
         random.uniform(0.0, 6.28, n))
        for k in range(1, SINES + 1)
    )  # fmt: skip
    states = sines(time, terms)
    if speeds is not None:
        factor = np.minimum(1.0, speeds / np.abs(states[1]).max(axis=0))
        states = tuple(factor * state for state in states)
    effort = predict(build(robot, MODEL), Motion(*states), known)
    scale = np.sqrt(np.mean(effort**2, axis=0))
    dry = np.array([known[f'{joint}.fc'] for joint in robot.joints])
    a = np.exp(-1.0 / (error.memory * RATE)) if error.memory else 0.0
    white = random.normal(size=effort.shape)
    noise = lfilter([np.sqrt(1.0 - a * a)], [1.0, -a], white, axis=0)
    phase = np.random.default_rng([seed, 8]).uniform(0.0, 6.28, n)
    measured = (
        effort
        + error.noise * scale * noise
        + error.friction * dry * np.cbrt(states[1])
        + error.spring * scale * np.sin(states[0] + phase)
    )
    masses = {link: known[f'{link}.m'] for link in body_links(known.layout)}
    return Recording(time, states[0], measured, robot.joints, source=f'arm {seed}'), masses


def ur10e(name: str, robot: Robot) -> Recording:
    """Read a run of the UR10e, its currents times the published gains."""
    table = np.loadtxt(UR10E / f'{name}.csv', delimiter=',', skiprows=1)
    time, position, velocity, current = np.split(table[:, :19], [1, 7, 13], axis=1)
    return Recording(
        time[:, 0],
        position,
        current * np.array(GAINS),
        robot.joints,
        velocity=velocity,
        source=name,
    )


def real_spread() -> dict[str, float]:
    """
    Compare the spread of base parameters over the runs of a UR10e with what is stated.

    Birge's ratio: root of the mean square, over runs and parameters, of the distance from the
    runs' weighted mean in standard deviations, with one run less for that mean; 1 is honest.

    Returns
    -------
    dict
        By kind of the standard deviation.

    """
    joints = tuple(f'{name}_joint' for name in UR10E_JOINTS)
    robot = Robot.from_urdf(UR10E / 'ur10e.urdf', joints)
    signals = SignalSettings(method='measured_velocity', cutoff=7.5, decimate_to=20.0)
    settings = EstimationSettings(method='wls')
    states = IdentificationProblem(robot, signals=signals, estimation=settings)
    estimates = [identify_sources(states, [ur10e(name, robot)]).estimate for name in RUNS]
    values = np.array([estimate.base.values for estimate in estimates])
    deviations = [estimate.uncertainty for estimate in estimates]
    return {
        'bootstrap': birge_ratio(values, np.array([one.std for one in deviations])),
        'classical': birge_ratio(values, np.array([one.classical_std for one in deviations])),
    }


def birge_ratio(values: np.ndarray, std: np.ndarray) -> float:
    """Return by how much values scatter more than their std says, both (runs, parameters)."""
    known = np.isfinite(std).all(axis=0)
    values, weights = values[:, known], std[:, known] ** -2.0
    mean = (weights * values).sum(axis=0) / weights.sum(axis=0)
    squares = (weights * (values - mean) ** 2).sum(axis=0) / (len(values) - 1)
    return float(np.sqrt(squares.mean()))


def section(robots: int = ROBOTS) -> Section:
    """Count true masses within their intervals."""
    rows, figures = [], []
    for name, robot in arms().items():
        held: list[bool] = []
        physical = 0
        for seed in range(1, robots + 1):
            recorded, masses = recording(robot, seed)
            result = identified(robot, recorded)
            held += within(result, masses)
            physical += bool(result.consistency.physical)
        share = 100.0 * float(np.mean(held))
        rows.append([name, str(len(held)), f'{share:.1f}', f'{physical} of {robots}'])
        figures.append(Figure(f'masses within intervals, {name}', share, '%', at_least=90.0))
    heads = ['arm', 'masses', 'within 95 % intervals %', 'physical']
    text = (
        f'Arms whose masses and shapes differ from their URDF by {100 * PERTURBATION:.0f} %, with '
        'friction as the cube root of speed and torques over the angle that the model lacks, and '
        'coloured noise; everything else by default.'
    )
    tables = [Table(heads, rows, 'Masses', text)]
    if UR10E.is_dir():
        ratio = real_spread()
        cells = [[kind, f'{value:.2f}'] for kind, value in ratio.items()]
        heads = ['standard deviation', 'spread over four runs by it']
        tables.append(Table(heads, cells, 'A real UR10e'))
        figures.append(
            Figure(
                'spread over the runs of a UR10e by std',
                ratio['bootstrap'],
                at_least=0.7,
                at_most=1.5,
            )
        )
    return Section('Honest intervals', '', tables, figures)
