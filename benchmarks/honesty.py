# SPDX-License-Identifier: Apache-2.0
"""Honest intervals of masses: simulated arms with model error, and the real runs of a UR10e."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from robot_identification.data.recording import Motion, Recording
from robot_identification.estimation.physical_constraints import body_links
from robot_identification.model.robot import Robot
from robot_identification.regressor import build, ModelSettings, predict
from robot_identification.simulation import SimulationSettings
from robot_identification.simulation.truth import truth
from scipy.signal import lfilter

from .synthetic import panda

ROOT = Path(__file__).resolve().parents[1]
MODEL = ModelSettings()
SECONDS, RATE = 30.0, 200.0
SINES = 6


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


def recording(robot: Robot, seed: int, error: ModelError | None = None) -> tuple[Recording, dict]:
    """Simulate an arm that differs from its URDF and from the model; give its true masses."""
    error = error or ModelError()
    random = np.random.default_rng([seed, 7])
    known = truth(robot, SimulationSettings(seed=seed, perturbation=0.15))
    time = np.arange(round(SECONDS * RATE)) / RATE
    n = robot.n_joints
    states = np.zeros((3, time.size, n))
    for k in range(1, SINES + 1):
        omega = 2.0 * np.pi * k / 10.0
        size, phase = random.uniform(0.1, 0.5, n) / np.sqrt(k), random.uniform(0.0, 6.28, n)
        angle = omega * time[:, None] + phase
        states[0] += size * np.sin(angle)
        states[1] += size * omega * np.cos(angle)
        states[2] -= size * omega**2 * np.sin(angle)
    effort = predict(build(robot, MODEL), Motion(*states), known)
    scale = np.sqrt(np.mean(effort**2, axis=0))
    dry = np.array([known[f'{joint}.fc'] for joint in robot.joints])
    a = np.exp(-1.0 / (error.memory * RATE)) if error.memory else 0.0
    white = random.normal(size=effort.shape)
    noise = lfilter([np.sqrt(1.0 - a * a)], [1.0, -a], white, axis=0)
    phase = random.uniform(0.0, 6.28, n)
    measured = (
        effort
        + error.noise * scale * noise
        + error.friction * dry * np.cbrt(states[1])
        + error.spring * scale * np.sin(states[0] + phase)
    )
    masses = {link: known[f'{link}.m'] for link in body_links(known.layout)}
    return Recording(time, states[0], measured, robot.joints, source=f'arm {seed}'), masses
