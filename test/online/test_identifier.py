# SPDX-License-Identifier: Apache-2.0
"""The online identifier against the offline method on the same samples."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from robot_identification.base_parameters import BaseStructure, structure
from robot_identification.errors import SettingsError
from robot_identification.estimation import mrls, row_blocks, system_of
from robot_identification.parameters import ParameterSet
from robot_identification.problem import Problem
from robot_identification.recording import Motion, Recording
from robot_identification.regressors import Regressor
from robot_identification.regressors.inverse_dynamics import predict
from robot_identification.robot import Robot
from robot_identification.signals import SignalSettings

URDF = Path(__file__).resolve().parents[2] / 'urdf' / 'demo_arm.urdf'
SIGNALS = SignalSettings(
    method='polynomial_approximation', decimate_to=None, dead_zone=0.05, trim=0.0
)
FRICTION = {'fv': 2.0, 'fc': 3.0, 'off': 0.5}


@dataclass(frozen=True)
class Case:
    """A robot, its true parameters and a recording."""

    problem: Problem
    regressor: Regressor
    base: BaseStructure
    truth: ParameterSet
    recording: Recording

    def online(self, **keys):
        return self.problem.online(1e-3, base=self.base, **keys)

    def offline(self, recording=None):
        source = self.recording if recording is None else recording
        given = (source, self.regressor, self.base, self.problem.signals)
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
    problem = Problem(robot, signals=SIGNALS)
    regressor, prior = problem.regressor(), problem.prior()
    symbols = [name.rpartition('.')[2] for name in prior.layout]
    values = [FRICTION.get(s, v) for s, v in zip(symbols, prior.values, strict=True)]
    truth = ParameterSet(prior.layout, np.array(values))
    time = np.arange(3000) * 1e-3
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


def run(online, recording):
    """Push a recording; return the updates."""
    samples = zip(recording.time, recording.position, recording.effort, strict=True)
    return [u for u in (online.push(*sample) for sample in samples) if u is not None]


def test_rows_are_those_of_the_offline_method(case):
    online = case.online()
    updates = run(online, case.recording)
    blocks = list(row_blocks(case.recording, case.regressor, case.base, SIGNALS))
    matrix, effort, keep, time = (
        np.concatenate([getattr(b, name) for b in blocks])
        for name in ('matrix', 'effort', 'keep', 'time')
    )
    # the last two samples wait for those after them
    assert len(updates) == len(time) - 2
    found = online.pattern.expand(np.array([u.entries for u in updates]).T)
    np.testing.assert_allclose(found, matrix[:-2], rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose([u.effort for u in updates], effort[:-2], rtol=1e-9, atol=1e-11)
    assert (np.array([u.moving for u in updates]) == keep[:-2]).all()
    np.testing.assert_allclose([u.stamp for u in updates], time[:-2], rtol=0, atol=1e-9)
    assert online.delay == pytest.approx(case.recording.time[-1] - updates[-1].stamp, abs=1e-9)


def test_another_method_is_refused(case):
    problem = replace(case.problem, signals=replace(SIGNALS, method='butterworth'))
    with pytest.raises(SettingsError, match='knows the future'):
        problem.online(1e-3, base=case.base)
