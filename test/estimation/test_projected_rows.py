# SPDX-License-Identifier: Apache-2.0
"""Identification with the polynomial approximation: bias, holds, deviations, real data."""

from dataclasses import replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from robot_identification.config.experiment_file import load_experiment
from robot_identification.data.recording import Recording
from robot_identification.estimation.least_squares import ols
from robot_identification.estimation.system import system_of
from robot_identification.identification.pipeline import (
    IdentificationProblem,
    identify,
    identify_sources,
)
from robot_identification.model.robot import Robot
from robot_identification.regressor import (
    build,
    ModelSettings,
    projection,
)
from robot_identification.regressor.base_search import structure

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope='module')
def arm():
    """Give the benchmark of the planar arm, which is not installed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT)
        return import_module('benchmarks.filters')


@pytest.mark.parametrize(('frequency', 'times'), [(1.0, 50.0), (3.0, 300.0), (8.0, 1000.0)])
def test_inertias_are_less_biased_than_with_savitzky_golay(arm, frequency, times):
    _, plain, _ = arm.errors(arm.SAVITZKY_GOLAY, frequency)
    _, composed, _ = arm.errors(arm.polynomial(), frequency)
    _, products, _ = arm.errors(arm.polynomial(projection='products', stride=1), frequency)
    assert plain > times * composed
    assert plain > times * products
    assert products < composed
    if frequency < 8.0:
        assert products < 2e-6


@pytest.mark.parametrize('frequency', [3.0, 8.0])
def test_the_sign_of_the_projected_velocity_would_bias_coulomb_friction(
    arm, monkeypatch, frequency
):
    _, _, filtered = arm.errors(arm.polynomial(), frequency)
    # all columns at the projected motion
    monkeypatch.setattr(projection.Projection, '_project', lambda *_: None)
    _, _, literal = arm.errors(arm.polynomial(), frequency)
    assert literal > 0.05
    assert filtered < 1e-3


def test_the_products_of_the_pipeline_find_the_arm(arm):
    robot = Robot.from_urdf(arm.ARM)
    problem = IdentificationProblem(
        robot, arm.MODEL, arm.polynomial(projection='products', window=0.06)
    )
    regressor = problem.regressor()
    truth = problem.prior()
    noise = (1e-4, 0.2)
    recordings = [
        arm.record(robot.joints, truth, regressor.rows, 2.0, seed, noise) for seed in (0, 1)
    ]
    signals = replace(problem.signals, decimate_to=25.0)
    result = identify_sources(replace(problem, signals=signals), recordings[:1], recordings[1:])
    wanted = result.structure.project(truth).values
    deviations = (result.estimate.base.values - wanted) / result.estimate.std
    assert np.abs(deviations).max() < 4.0
    assert result.validations[0].relative_error < 2.0
    assert result.estimate.rank == result.structure.n_base == 10


def test_standard_deviations_tell_the_scatter(arm):
    robot = Robot.from_urdf(arm.ARM)
    regressor, truth = build(robot, arm.MODEL), IdentificationProblem(robot, arm.MODEL).prior()
    base = structure(regressor, robot)
    wanted = base.project(truth).values
    ratios = []
    for settings in (arm.polynomial(), arm.polynomial(stride=5, projection='products')):
        deviations = []
        for seed in range(6):
            recording = arm.record(robot.joints, truth, regressor.rows, 2.0, seed, (0.0, 0.5))
            estimate = ols(system_of(recording, regressor, base, settings))
            deviations.append((estimate.base.values - wanted) / estimate.std)
        ratios.append(np.sqrt(np.mean(np.square(deviations))))
    # 60 deviations each; rows that overlap would make it 2
    assert ratios == pytest.approx([1.0, 1.0], abs=0.25)


def held_link(period=0.004, steps=5000):
    """
    Simulate one link that a held torque drives.

    Between two samples ``J ddq + f dq = tau - c`` has a closed solution, exact as long as the
    velocity keeps its sign; there is no Coulomb friction (c = 0) here.
    """
    J, f = 0.4, 0.8
    decay = np.exp(-f * period / J)
    random = np.random.default_rng(5)
    omega = 2 * np.pi * random.uniform(0.5, 4.0, 6)
    phase = random.uniform(0.0, 2.0 * np.pi, 6)
    time = period * np.arange(steps)
    reference = np.sin(omega * time[:, None] + phase) @ (0.5 / omega)
    speed = np.cos(omega * time[:, None] + phase) @ np.full(6, 0.5)
    q, v = reference[0], speed[0]
    position, torque = np.empty((2, steps))
    for i in range(steps):
        tau = 40.0 * (reference[i] - q) + 6.0 * (speed[i] - v)
        position[i], torque[i] = q, tau
        steady = tau / f
        q += steady * period + (v - steady) * J / f * (1.0 - decay)
        v = steady + (v - steady) * decay
    return Recording(time, position[:, None], torque[:, None], ('pivot',)), J, f


LINK = """
<robot name="link"><link name="base"/><link name="rod"><inertial><mass value="1"/>
  <inertia ixx="1" iyy="1" izz="0.4" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <joint name="pivot" type="continuous"><parent link="base"/><child link="rod"/>
  <axis xyz="0 0 1"/></joint></robot>
"""


def test_held_torques_bias_nothing_if_they_are_said_to_be_held(arm):
    recording, J, f = held_link()
    robot = Robot.from_urdf(LINK)
    regressor = build(robot, ModelSettings(friction=('viscous',), rotor_inertia=False))
    base = structure(regressor, robot)
    errors = {}
    for hold in (False, True):
        system = system_of(recording, regressor, base, arm.polynomial(effort_hold=hold))
        found = dict(zip(base.names, ols(system).base.values, strict=True))
        errors[hold] = abs(found['rod.Izz'] / J - 1.0), abs(found['pivot.fv'] / f - 1.0)
    assert max(errors[True]) < 1e-3
    assert errors[False][1] > 0.05


def test_identifies_the_tx40():
    experiment = ROOT / 'examples' / 'tx40' / 'experiment_dead_zone.yaml'
    method = {'signals.method': 'polynomial_approximation'}
    estimate = identify(load_experiment(experiment, method)).estimate
    assert estimate.rank == 61
    # what Butterworth filters leave
    assert estimate.fit.relative_error < 4.99
