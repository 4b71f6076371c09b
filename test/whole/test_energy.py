# SPDX-License-Identifier: Apache-2.0
"""From a plan through points to parameters by energies, results and report."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from robot_identification.data.recording import Recording
from robot_identification.estimation.energy import EnergySettings
from robot_identification.estimation.estimators import EstimationSettings
from robot_identification.excitation import plan, PlannerSettings
from robot_identification.excitation.settings import PointSettings
from robot_identification.exports.saving import save
from robot_identification.identification.pipeline import IdentificationProblem, identify_sources
from robot_identification.model.robot import Robot
from robot_identification.regressor import build, ModelSettings, predict, prior
from robot_identification.results.stored_result import read_result
from robot_identification.signals import SignalSettings
import yaml

URDF = Path(__file__).resolve().parents[2] / 'urdf' / 'szabo_3r.urdf'
MODEL = ModelSettings(friction=('viscous', 'coulomb'))
RATE = 500.0


@pytest.fixture(scope='module')
def robot():
    return Robot.from_urdf(URDF)


@pytest.fixture(scope='module')
def trajectory(robot):
    points = PointSettings(starts=2, rounds=0)
    settings = PlannerSettings(
        method='points', points=points, max_iterations=60, check_collisions=False
    )
    return plan(robot, settings, model=MODEL).trajectory


def recording(robot, trajectory, truth, seed):
    time = np.arange(int(trajectory.duration * RATE)) / RATE
    motion = trajectory.sample(time)
    effort = predict(build(robot, MODEL), motion, truth)
    effort += 0.05 * np.random.default_rng(seed).standard_normal(effort.shape)
    return Recording(time, motion.position, effort, robot.joints, motion.velocity)


def test_from_a_plan_through_points_to_a_report(robot, trajectory, tmp_path):
    truth = prior(robot, MODEL)
    truth = truth.updated({f'{j}.fc': 0.8 for j in robot.joints})
    truth = truth.updated({f'{j}.fv': 0.4 for j in robot.joints})
    problem = IdentificationProblem(
        robot,
        MODEL,
        SignalSettings(method='measured_velocity', cutoff=100.0, decimate_to=None),
        EstimationSettings(equations='energy', energy=EnergySettings(0.05)),
    )
    sources = [recording(robot, trajectory, truth, seed) for seed in (0, 1)]
    result = identify_sources(problem, sources[:1], sources[1:])
    expected = result.structure.project(truth).values
    found = result.estimate.base.values
    assert np.linalg.norm(found - expected) < 0.03 * np.linalg.norm(expected)
    # by inverse dynamics, joint by joint, as good as inverse dynamics' own
    by_efforts = replace(problem, estimation=EstimationSettings())
    best = identify_sources(by_efforts, sources[:1], sources[1:]).validations[0]
    seen = result.validations[0]
    assert [fit.joint for fit in seen.joints] == list(robot.joints)
    assert seen.relative_error < best.relative_error + 1.0

    save(result, tmp_path)
    document = yaml.safe_load((tmp_path / 'result.yaml').read_text())
    assert list(document['identification']['joints']) == ['energy']
    assert list(document['validation'][0]['joints']) == list(robot.joints)
    assert any(
        'energy equations over 0.05 s' in note for note in document['identification']['notes']
    )
    report = (tmp_path / 'report.html').read_text()
    assert 'energy equations over 0.05 s' in report
    assert '<td class="unit">J</td>' in report
    stored = read_result(tmp_path / 'result.yaml')
    np.testing.assert_allclose(stored.base.values, found, rtol=1e-6)
