# SPDX-License-Identifier: Apache-2.0
"""Rows online are the offline ones for every kind of robot and model."""

from pathlib import Path

import numpy as np
import pytest
from robot_identification.base_parameters import structure
from robot_identification.config.problem import IdentificationProblem
from robot_identification.data.recording import Recording
from robot_identification.estimation import row_blocks
from robot_identification.model.robot import Robot
from robot_identification.regressor import (
    DeltaSettings,
    ElasticJoints,
    ModelSettings,
)
from robot_identification.regressor.delta import delta_robot
from robot_identification.signals import PolynomialApproximation, SignalSettings

RATE = 250.0
URDF = Path(__file__).resolve().parents[2] / 'urdf'
DELTA = DeltaSettings(base_radius=0.14, platform_radius=0.04, arm_length=0.2, forearm_length=0.46)
STRIBECK = ('viscous', 'stiction', 'stribeck', 'offset')
MODELS = {
    'elastic': ('zollo_planar_2r', ModelSettings(elastic=ElasticJoints())),
    'delta': (None, ModelSettings(('viscous', 'coulomb'), delta=DELTA)),
    'stribeck': ('szabo_3r', ModelSettings(friction=STRIBECK)),
    'no friction': ('gautier_khalil_3r', ModelSettings(friction=(), rotor_inertia=False)),
}


@pytest.mark.parametrize('hold', [False, True])
@pytest.mark.parametrize('name', MODELS)
def test_rows_are_those_of_the_offline_method(name, hold):
    file, model = MODELS[name]
    robot = delta_robot(DELTA) if file is None else Robot.from_urdf(URDF / f'{file}.urdf')
    problem = IdentificationProblem(
        robot,
        model,
        SignalSettings(
            method='polynomial_approximation',
            decimate_to=None,
            dead_zone=0.1,
            trim=0.05,
            polynomial_approximation=PolynomialApproximation(effort_hold=hold),
        ),
    )
    regressor = problem.regressor()
    base = structure(regressor, robot)
    n = regressor.n_joints
    joints = getattr(regressor, 'joints', robot.joints)
    random = np.random.default_rng(2)
    time = np.arange(300) / RATE
    rate, phase = random.uniform(2.0, 9.0, n), random.uniform(0.0, 6.0, n)
    recording = Recording(
        time=time,
        position=0.2 * np.sin(rate * time[:, None] + phase),
        effort=random.normal(size=(300, n)),
        joints=tuple(joints),
    )
    online = problem.online(1.0 / RATE, base=base)
    samples = zip(recording.time, recording.position, recording.effort, strict=True)
    updates = [u for u in (online.push(*sample) for sample in samples) if u is not None]
    blocks = list(row_blocks(recording, regressor, base, problem.signals))
    matrix, effort, keep, stamps = (
        np.concatenate([getattr(b, part) for b in blocks])
        for part in ('matrix', 'effort', 'keep', 'time')
    )
    # offline, both ends are trimmed
    count = min(len(updates), len(matrix))
    assert 150 < count >= len(matrix) - 2
    found = online.pattern.expand(np.array([u.entries for u in updates]).T)
    size = np.abs(matrix).max()
    np.testing.assert_allclose(found[:count], matrix[:count], rtol=1e-8, atol=1e-11 * size)
    np.testing.assert_allclose([u.effort for u in updates[:count]], effort[:count], atol=1e-11)
    np.testing.assert_allclose([u.stamp for u in updates[:count]], stamps[:count], atol=1e-9)
    assert (np.array([u.moving for u in updates[:count]]) == keep[:count]).all()
    assert online.joints == tuple(joints) and (online.flags == 1).any()
