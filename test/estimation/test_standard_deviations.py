# SPDX-License-Identifier: Apache-2.0
"""Reported standard deviations against the scatter of estimates over many noisy recordings."""

from dataclasses import replace

import numpy as np
import pytest
from robot_identification.data.recording import Motion, Recording
from robot_identification.estimation.least_squares import ols, wls
from robot_identification.estimation.system import system_of
from robot_identification.model.robot import Robot
from robot_identification.regressor import build, prior
from robot_identification.regressor.base_search import structure
from robot_identification.regressor.settings import ModelSettings
from robot_identification.signals import SignalSettings

SEEDS = 80
LINK = """
<link name="{0}"><inertial><origin xyz="0.1 0.02 0"/><mass value="{1}"/>
<inertia ixx="0.02" iyy="0.05" izz="0.04" ixy="0" ixz="0" iyz="0"/></inertial></link>
"""
JOINT = """
<joint name="{0}" type="revolute"><parent link="{1}"/><child link="{2}"/>
<origin xyz="0.3 0 0"/><axis xyz="0 1 0"/><limit lower="-2" upper="2" velocity="9" effort="99"/>
<dynamics damping="0.5" friction="0.4"/></joint>
"""
TWO_JOINTS = (
    '<robot name="arm"><link name="base"/>'
    + LINK.format('upper', 4) + LINK.format('lower', 3)
    + JOINT.format('shoulder', 'base', 'upper') + JOINT.format('elbow', 'upper', 'lower')
    + '</robot>'
)  # fmt: skip


@pytest.fixture(scope='module')
def arm():
    """Return regressor, base parameters, an exact recording of 8 s at 400 Hz, and the truth."""
    robot = Robot.from_urdf(TWO_JOINTS)
    regressor = build(robot, ModelSettings())
    base = structure(regressor, robot)
    time = np.arange(3200) / 400.0
    terms = [  # amplitude, angular frequency, phase, one row a joint
        [(0.7, 1.6, 0.0), (0.3, 4.7, 0.6), (0.1, 7.9, 1.0)],
        [(0.5, 2.4, 0.9), (0.4, 3.9, 0.1), (0.1, 9.4, 0.4)],
    ]
    q, v, a = (np.zeros((time.size, 2)) for _ in range(3))
    for j, series in enumerate(terms):
        for size, w, phase in series:
            q[:, j] += size * np.sin(w * time + phase)
            v[:, j] += size * w * np.cos(w * time + phase)
            a[:, j] -= size * w**2 * np.sin(w * time + phase)
    truth = prior(robot, ModelSettings())
    effort = (regressor.rows(Motion(q, v, a)) @ truth.values).reshape(q.shape)
    return regressor, base, Recording(time, q, effort, robot.joints), base.project(truth).values


@pytest.mark.parametrize(
    ('method', 'noise', 'decimate_to', 'dead_zone', 'sample_rate'),
    [
        (ols, (0.2, 0.2), None, 0.0, None),
        (wls, (3.0, 0.1), 100.0, 0.3, None),
        (wls, (0.2, 0.2), None, 0.0, 1200.0),
        *(
            pytest.param(*case, marks=pytest.mark.soak)
            for case in (
                (ols, (0.2, 0.2), 100.0, 0.0, None),
                (ols, (0.2, 0.2), 40.0, 0.3, None),
                (wls, (3.0, 0.1), 40.0, 0.0, None),
            )
        ),
    ],
)
def test_standard_deviations_are_those_of_the_scatter(
    arm, method, noise, decimate_to, dead_zone, sample_rate
):
    """Mean squared Mahalanobis distance from the truth is 1 a parameter; two sigma hold 95 %."""
    regressor, base, exact, truth = arm
    signals = SignalSettings(
        cutoff=60.0,
        decimate_to=decimate_to,
        dead_zone=dead_zone,
        sample_rate=sample_rate,
        trim=0.1,
    )
    distances, inside = [], []
    for seed in range(SEEDS if decimate_to else SEEDS // 4):
        random = np.random.default_rng(seed)
        errors = np.array(noise) * random.standard_normal(exact.effort.shape)
        system = system_of(replace(exact, effort=exact.effort + errors), regressor, base, signals)
        estimate = method(system)
        off = estimate.base.values - truth
        distances.append(off @ np.linalg.solve(estimate.uncertainty.covariance, off) / off.size)
        inside.append(np.abs(off) < 2.0 * estimate.std)
    if sample_rate is not None:
        # interpolation takes some of the noise away: a tenth is missing, not a factor of two
        assert np.mean(distances) == pytest.approx(1.2, abs=0.3)
        return
    # its standard deviation is sqrt(2 / (parameters * seeds)), 0.04 and 0.08
    assert np.mean(distances) == pytest.approx(1.0, abs=0.15 if decimate_to else 0.25)
    assert np.mean(inside) == pytest.approx(0.954, abs=0.025)
