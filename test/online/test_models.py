# SPDX-License-Identifier: Apache-2.0
"""Rows online are the offline ones for every kind of robot and model."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from robot_identification.config.problem import IdentificationProblem
from robot_identification.data.recording import Recording
from robot_identification.estimation import rows
from robot_identification.estimation.rows import row_blocks
from robot_identification.model.robot import Robot
from robot_identification.online import identifier_of
from robot_identification.regressor import DeltaSettings, ElasticJoints, ModelSettings
from robot_identification.regressor.base_search import structure
from robot_identification.regressor.delta import delta_robot
from robot_identification.signals import PolynomialApproximation, SignalSettings

RATE = 250.0
URDF = Path(__file__).resolve().parents[2] / 'urdf'
DELTA = DeltaSettings(base_radius=0.14, platform_radius=0.04, arm_length=0.2, forearm_length=0.46)
STRIBECK = ('viscous', 'stiction', 'stribeck', 'offset')
MODELS = {
    'elastic': ('zollo_planar_2r', ModelSettings(elastic=ElasticJoints())),
    'delta': (None, ModelSettings(('viscous', 'coulomb'), delta=DELTA)),
    'springs': ('szabo_3r', ModelSettings(joint_springs=('joint_1', 'joint_3'))),
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
    online = identifier_of(problem, 1.0 / RATE, base=base)
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


DRY = ModelSettings(friction=('viscous', 'coulomb', 'load'), breakaway=(0.0, 0.01, 0.05))
ELASTIC = ModelSettings(elastic=ElasticJoints(), breakaway=0.02)


def _compared(file, model, *, samples=600, **signals):
    """Return the updates of a recording, and its offline rows, entries and efforts."""
    robot = Robot.from_urdf(URDF / f'{file}.urdf')
    settings = SignalSettings(
        method='polynomial_approximation', dead_zone=0.1, trim=0.05, **signals
    )
    problem = IdentificationProblem(robot, model, settings)
    regressor = problem.regressor()
    base = structure(regressor, robot)
    n = regressor.n_joints
    random = np.random.default_rng(2)
    time = np.arange(samples) / RATE
    rate, phase = random.uniform(1.0, 6.0, n), random.uniform(0.0, 6.0, n)
    recording = Recording(
        time=time,
        position=0.2 * np.sin(rate * time[:, None] + phase),
        effort=random.normal(size=(samples, n)),
        joints=tuple(getattr(regressor, 'joints', robot.joints)),
    )
    online = identifier_of(problem, 1.0 / RATE, base=base)
    samples = zip(recording.time, recording.position, recording.effort, strict=True)
    updates = [u for u in (online.push(*sample) for sample in samples) if u is not None]
    blocks = list(row_blocks(recording, regressor, base, problem.signals))
    parts = [
        np.concatenate([getattr(b, part) for b in blocks])
        for part in ('matrix', 'effort', 'keep', 'time')
    ]
    return online, updates, parts


@pytest.mark.parametrize(
    ('file', 'model'), [('szabo_3r', DRY), ('zollo_planar_2r', ELASTIC)], ids=['load', 'elastic']
)
@pytest.mark.parametrize('block', [pytest.param(512, marks=pytest.mark.soak), 37])
def test_dry_friction_has_the_state_of_the_offline_rows(file, model, block, monkeypatch):
    # offline, windows of neighbouring blocks share samples
    monkeypatch.setattr(rows, 'BLOCK_SAMPLES', block)
    online, updates, (matrix, _, _, time) = _compared(file, model, decimate_to=None)
    count = min(len(updates), len(matrix))
    assert count > 400
    found = online.pattern.expand(np.array([u.entries for u in updates[:count]]).T)
    np.testing.assert_allclose(found, matrix[:count], rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose([u.stamp for u in updates[:count]], time[:count], atol=1e-9)
    # without breakaway the same columns are others
    _, plain, _ = _compared(file, replace(model, breakaway=0.0), decimate_to=None)
    difference = found - online.pattern.expand(np.array([u.entries for u in plain[:count]]).T)
    names = online.layout.names
    changed = {names[i].rpartition('.')[2] for i in np.flatnonzero(difference.any(axis=(0, 1)))}
    assert changed == ({'fc', 'fl'} if file == 'szabo_3r' else {'fc'})


@pytest.mark.parametrize(
    ('delay', 'low_pass'),
    [(0.0101, 0.0), (0.0, (0.0, 12.0, 30.0)), ((0.2, 0.0, 0.013), (8.0, 0.0, 20.0))],
    ids=['delay', 'low-pass', 'both'],
)
def test_rows_go_through_the_effort_channel_as_offline(delay, low_pass):
    channel = {'effort_delay': delay, 'effort_low_pass': low_pass}
    model = ModelSettings()
    online, updates, (matrix, effort, keep, time) = _compared(
        'szabo_3r', model, decimate_to=None, **channel
    )
    # the last rows have kernels that reach beyond what came in
    count = len(updates)
    assert len(matrix) > count > 350
    found = online.pattern.expand(np.array([u.entries for u in updates]).T)
    size = np.abs(matrix).max()
    np.testing.assert_allclose(found, matrix[:count], rtol=1e-9, atol=1e-10 * size)
    np.testing.assert_allclose([u.effort for u in updates], effort[:count], atol=1e-11)
    np.testing.assert_allclose([u.stamp for u in updates], time[:count], atol=1e-9)
    assert (np.array([u.moving for u in updates]) == keep[:count]).all()
    assert online.delay == pytest.approx(599 / RATE - updates[-1].stamp, abs=1e-9)


def test_decimated_rows_are_learned_through_the_channel():
    """Least squares of the offline rows, after the decimation, by NumPy."""
    channel = {'effort_delay': (0.04, 0.0, 0.1), 'effort_low_pass': (0.0, 3.0, 6.0)}
    online, updates, (matrix, effort, keep, _) = _compared(
        'szabo_3r', ModelSettings(), samples=2500, decimate_to=25.0, **channel
    )
    learned = np.cumsum(keep.sum(axis=1))
    rows_in = int(np.flatnonzero(learned == online.rows)[-1]) + 1
    assert 200 < rows_in < len(matrix)
    W, y = matrix[:rows_in][keep[:rows_in]], effort[:rows_in][keep[:rows_in]]
    told = online.flags == 1
    assert told.sum() > 15
    prior = online._learning.learner.initial
    wanted = np.linalg.lstsq(W[:, told], y - W[:, ~told] @ prior[~told], rcond=None)[0]
    np.testing.assert_allclose(online.values[told], wanted, rtol=1e-6, atol=1e-7)
    # residuals at every sample belong to rows through the channel, too
    assert len(updates) > 2000


def test_gaps_begin_anew_with_breakaway_and_channel():
    """After a gap, the rows are those of a stream that begins there."""
    robot = Robot.from_urdf(URDF / 'szabo_3r.urdf')
    settings = SignalSettings(
        method='polynomial_approximation', decimate_to=None, effort_delay=0.02, dead_zone=0.0
    )
    problem = IdentificationProblem(robot, DRY, settings)
    time = np.arange(400) / RATE
    position = 0.3 * np.sin(np.array([3.0, 4.0, 5.0]) * time[:, None])
    late, fresh = identifier_of(problem, 1.0 / RATE), identifier_of(problem, 1.0 / RATE)
    for sample in zip(time[:200], position[:200], position[:200], strict=True):
        late.push(*sample)
    after = list(zip(time[200:] + 1.0, position[200:], position[200:], strict=True))
    updates = [
        [u.entries for u in (online.push(*sample) for sample in after) if u is not None]
        for online in (late, fresh)
    ]
    assert len(updates[0]) > 100
    np.testing.assert_array_equal(*updates)
