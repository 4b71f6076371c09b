# SPDX-License-Identifier: Apache-2.0
"""A robot, its true parameters and a recording, for the tests of this folder."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from robot_identification.config.problem import IdentificationProblem
from robot_identification.data.recording import Motion, Recording
from robot_identification.estimation.recursive.mrls import mrls
from robot_identification.estimation.rows import row_blocks
from robot_identification.estimation.system import system_of
from robot_identification.model.parameters import ParameterSet
from robot_identification.model.robot import Robot
from robot_identification.online import identifier_of
from robot_identification.regressor import Regressor
from robot_identification.regressor.base_parameters import BaseStructure
from robot_identification.regressor.base_search import structure
from robot_identification.regressor.inverse_dynamics import predict
from robot_identification.signals import SignalSettings

URDF = Path(__file__).resolve().parents[2] / 'urdf' / 'demo_arm.urdf'
SIGNALS = SignalSettings(
    method='polynomial_approximation', decimate_to=None, dead_zone=0.05, trim=0.0
)
FRICTION = {'fv': 2.0, 'fc': 3.0, 'off': 0.5}


@dataclass(frozen=True)
class Case:
    """A robot, its true parameters and a recording."""

    problem: IdentificationProblem
    regressor: Regressor
    base: BaseStructure
    truth: ParameterSet
    recording: Recording
    urdf: Path = URDF

    @staticmethod
    def run(online, recording):
        """Push a recording; return the updates."""
        samples = zip(recording.time, recording.position, recording.effort, strict=True)
        return [u for u in (online.push(*sample) for sample in samples) if u is not None]

    @staticmethod
    def motion(time, n):
        """Return the motion that is recorded, at other times."""
        return motion_of(time, n)

    def online(self, **keys):
        return identifier_of(self.problem, 1e-3, base=self.base, **keys)

    def with_signals(self, **changes):
        signals = replace(self.problem.signals, **changes)
        return replace(self, problem=replace(self.problem, signals=signals))

    def offline(self):
        given = (self.recording, self.regressor, self.base, self.problem.signals)
        return mrls(system_of(*given), row_blocks(*given), prior=self.problem.prior())


def motion_of(time, n, seed=0):
    """Return a sum of three sines for each joint."""
    rng = np.random.default_rng(seed)
    size, angle = rng.uniform(0.3, 0.8, (n, 3)), rng.uniform(0.0, 6.0, (n, 3))
    omega = 2.0 * np.pi * rng.uniform(0.2, 1.5, (n, 3))
    phase = omega * time[:, None, None] + angle
    return Motion(
        np.sum(size * np.sin(phase), axis=2),
        np.sum(size * omega * np.cos(phase), axis=2),
        -np.sum(size * omega**2 * np.sin(phase), axis=2),
    )


@pytest.fixture(scope='module')
def case():
    robot = Robot.from_urdf(URDF)
    problem = IdentificationProblem(robot, signals=SIGNALS)
    regressor, prior = problem.regressor(), problem.prior()
    symbols = [name.rpartition('.')[2] for name in prior.layout]
    values = [FRICTION.get(s, v) for s, v in zip(symbols, prior.values, strict=True)]
    truth = ParameterSet(prior.layout, np.array(values))
    time = np.arange(2000) * 1e-3
    motion = motion_of(time, robot.n_joints)
    rng = np.random.default_rng(1)
    shape = motion.position.shape
    recording = Recording(
        time=time,
        position=motion.position + 1e-6 * rng.normal(size=shape),
        effort=predict(regressor, motion, truth) + 0.1 * rng.normal(size=shape),
        joints=robot.joints,
    )
    return Case(problem, regressor, structure(regressor, robot), truth, recording)
