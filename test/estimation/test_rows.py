# SPDX-License-Identifier: Apache-2.0
"""Rows of simulated and real recordings: the whole way from samples to the system."""

from dataclasses import replace
from pathlib import Path
import tracemalloc

import numpy as np
import pinocchio as pin
import pytest
from robot_identification.data.recording import Motion, Recording
from robot_identification.errors import (
    IdentifiabilityError,
    RecordingError,
    SettingsError,
)
from robot_identification.estimation.least_squares import ols, wls
from robot_identification.estimation.rows import row_blocks
from robot_identification.estimation.system import accumulate, system_of
from robot_identification.estimation.validation import validate
from robot_identification.model.parameters import ParameterSet
from robot_identification.model.robot import Robot
from robot_identification.pages.estimate_text import validation_summary
from robot_identification.regressor import build, ModelSettings
from robot_identification.regressor import prior as urdf_prior
from robot_identification.regressor.base_search import structure
from robot_identification.signals import process, SignalSettings
from robot_identification.signals.decimation import ParallelDecimator

URDF = Path(__file__).parents[2] / 'urdf' / 'gautier_khalil_3r.urdf'
RATE = 500.0


@pytest.fixture(scope='module')
def arm():
    robot = Robot.from_urdf(URDF)
    model = ModelSettings()
    regressor = build(robot, model)
    return robot, regressor, structure(regressor, robot), truth_of(urdf_prior(robot, model))


def truth_of(prior: ParameterSet) -> ParameterSet:
    """Return the URDF's inertias, and friction and rotors that it does not have."""
    values = {
        f'{joint}.{symbol}': value * (1 + 0.2 * i)
        for i, joint in enumerate(sorted({n.split('.')[0] for n in prior.layout if '.Ia' in n}))
        for symbol, value in (('Ia', 0.3), ('fv', 2.0), ('fc', 1.5), ('off', -0.4))
    }
    return prior.updated(values)


def moving(robot, truth, *, duration=8.0, noise=0.0, seed=0, start=0.0) -> Recording:
    """Record a smooth motion, its effort from Pinocchio's RNEA and the joint terms."""
    rng = np.random.default_rng(seed)
    n = robot.n_joints
    time = np.arange(round(duration * RATE)) / RATE
    q, v, a = np.zeros((3, time.size, n))
    for k in range(1, 6):
        w = 2 * np.pi * 0.2 * k
        amplitude, phase = rng.uniform(0.1, 0.5, n), rng.uniform(0, 2 * np.pi, n)
        angle = w * time[:, None] + phase
        q += amplitude * np.sin(angle)
        v += amplitude * w * np.cos(angle)
        a -= amplitude * w**2 * np.sin(angle)
    model = robot.with_parameters(truth)
    data = model.createData()
    effort = np.array(
        [
            pin.rnea(
                model, data, robot.configuration(q[i]), robot.tangent(v[i]), robot.tangent(a[i])
            )[robot.columns]
            for i in range(time.size)
        ]
    )
    for j, joint in enumerate(robot.joints):
        ia, fv, fc, off = (truth[f'{joint}.{s}'] for s in ('Ia', 'fv', 'fc', 'off'))
        effort[:, j] += ia * a[:, j] + fv * v[:, j] + fc * np.sign(v[:, j]) + off
    effort += noise * rng.normal(size=effort.shape)
    return Recording(time + start, q, effort, robot.joints, source='made.csv')


SETTINGS = SignalSettings(cutoff=40.0, decimate_to=50.0, dead_zone=0.1, trim=0.1)


def test_identifies_what_pinocchio_simulated(arm):
    robot, regressor, base, truth = arm
    system = system_of(moving(robot, truth, noise=0.05), regressor, base, SETTINGS)
    estimate = wls(system)
    expected = base.project(truth).values
    assert estimate.rank == base.n_base
    # friction changes sign within the windows of the decimation, which the dead zone hides in part
    assert (np.abs(estimate.base.values - expected) < 5 * estimate.std + 0.01).all()
    assert estimate.fit.relative_error < 2.0
    assert estimate.fit.raw_relative_error < 5.0


def test_blocks_are_the_dense_rows_decimated(arm):
    robot, regressor, base, truth = arm
    recording = moving(robot, truth, duration=4.0)
    blocks = list(row_blocks(recording, regressor, base, SETTINGS))
    joined = {
        name: np.concatenate([getattr(block, name) for block in blocks])
        for name in ('time', 'velocity', 'matrix', 'effort', 'keep', 'raw_effort')
    }
    unthinned = np.concatenate([block.pattern.expand(block.raw_entries) for block in blocks])
    samples = process(recording, SETTINGS)
    motion = Motion(samples.position, samples.velocity, samples.acceleration)
    raw = base.columns(regressor.rows(motion)).reshape(len(samples), robot.n_joints, -1)
    scale = np.abs(raw).max(axis=(0, 1))
    assert np.allclose(unthinned / scale, raw / scale, rtol=0, atol=1e-9)
    assert np.array_equal(joined['raw_effort'], samples.measured_effort)

    def decimated(array):
        decimator = ParallelDecimator(10)
        samples = array.reshape(len(array), -1).T
        outputs = np.concatenate([decimator.push(samples), decimator.finish()], axis=1)
        return outputs.T.reshape(-1, *array.shape[1:])

    assert np.allclose(joined['matrix'] / scale, decimated(raw) / scale, rtol=0, atol=1e-9)
    assert np.allclose(joined['effort'], decimated(samples.effort), rtol=1e-9, atol=1e-9)
    velocity = decimated(samples.velocity)
    assert np.allclose(joined['velocity'], velocity, rtol=1e-9, atol=1e-9)
    assert np.array_equal(joined['keep'], np.abs(joined['velocity']) >= 0.1)
    assert not joined['keep'].all()
    assert np.allclose(joined['time'], samples.time[::10], rtol=0, atol=1e-9)


def test_raw_error_is_that_of_the_measured_effort(arm):
    robot, regressor, base, truth = arm
    recording = moving(robot, truth, noise=2.0)
    estimate = ols(system_of(recording, regressor, base, SETTINGS))
    samples = process(recording, SETTINGS)
    motion = Motion(samples.position, samples.velocity, samples.acceleration)
    predicted = base.columns(regressor.rows(motion)) @ estimate.base.values
    residual = samples.measured_effort - predicted.reshape(-1, robot.n_joints)
    expected = 100 * np.linalg.norm(residual) / np.linalg.norm(samples.measured_effort)
    assert estimate.fit.raw_relative_error == pytest.approx(expected, rel=1e-6)
    assert estimate.fit.relative_error < 0.5 * expected


def test_gap_starts_a_new_segment_and_joins_nothing(arm):
    robot, regressor, base, truth = arm
    recording = moving(robot, truth)
    time = recording.time.copy()
    time[2500:] += 3.0
    system = system_of(replace(recording, time=time), regressor, base, SETTINGS)
    assert np.unique(system.trace.segment).tolist() == [0, 1]
    change = np.flatnonzero(np.diff(system.trace.segment))[0]
    assert np.diff(system.trace.time)[change] > 3.0
    expected = base.project(truth).values
    assert np.abs(wls(system).base.values - expected).max() < 0.05


def test_several_recordings_are_one_system(arm):
    robot, regressor, base, truth = arm
    first, second = moving(robot, truth, seed=1), moving(robot, truth, seed=2, start=100.0)
    told = []
    system = system_of(
        [first, second],
        regressor,
        base,
        SETTINGS,
        progress=lambda share, text: told.append((share, text)),
    )
    assert system.sources == ('made.csv', 'made.csv')
    alone = [system_of(source, regressor, base, SETTINGS) for source in (first, second)]
    assert system.factor.n_rows == sum(one.factor.n_rows for one in alone)
    shares = [share for share, _ in told]
    assert shares == sorted(shares) and shares[-1] == pytest.approx(1.0) and len(shares) > 4
    assert 'made.csv' in told[0][1]


def test_validation_on_another_motion(arm):
    robot, regressor, base, truth = arm
    estimate = wls(system_of(moving(robot, truth, noise=0.2), regressor, base, SETTINGS))
    other = moving(robot, truth, noise=0.2, seed=5)
    seen = validate(estimate, other, regressor, base, SETTINGS)
    assert seen.sources == ('made.csv',) and seen.relative_error < 2.0
    assert [fit.joint for fit in seen.joints] == list(robot.joints)
    trace = seen.trace
    assert len(trace) == len(trace.time) and trace.measured.shape == trace.predicted.shape
    kept = trace.residual[trace.keep]
    total = 100 * np.linalg.norm(kept) / np.linalg.norm(trace.measured[trace.keep])
    assert total == pytest.approx(seen.relative_error, rel=1e-9)
    text = validation_summary(seen)
    assert 'made.csv' in text and f'{seen.relative_error:.2f}' in text
    worse = validate(
        ParameterSet(base.base_layout, 1.2 * estimate.base.values),
        other,
        regressor,
        base,
        SETTINGS,
    )
    assert worse.relative_error == pytest.approx(20.0, abs=2.0)
    with pytest.raises(ValueError):
        validate(truth, other, regressor, base, SETTINGS)


@pytest.mark.parametrize('model', [ModelSettings(), ModelSettings((), rotor_inertia=False)])
def test_joints_in_another_order_or_number_are_refused(arm, model):
    robot, _, _, truth = arm
    regressor = build(robot, model)
    base = structure(regressor, robot)
    recording = moving(robot, truth, duration=2.0)
    with pytest.raises(RecordingError, match='made.csv has.*select'):
        system_of(recording.select(robot.joints[:2]), regressor, base, SETTINGS)
    if model.rotor_inertia:
        with pytest.raises(RecordingError, match='made.csv has the joints'):
            system_of(recording.select(robot.joints[::-1]), regressor, base, SETTINGS)
    system_of(recording, regressor, base, SETTINGS)


def test_joint_that_stands_still(arm):
    robot, regressor, base, truth = arm
    recording = moving(robot, truth)
    position = recording.position.copy()
    rng = np.random.default_rng(1)
    position[:, 1] = 0.3 + 1e-6 * rng.normal(size=len(recording))
    still = replace(recording, position=position)
    with pytest.raises(IdentifiabilityError, match=f"joint '{robot.joints[1]}' does not move"):
        wls(system_of(still, regressor, base, replace(SETTINGS, dead_zone=0.0)))


def test_joint_without_effort(arm):
    robot, regressor, base, truth = arm
    recording = moving(robot, truth)
    effort = recording.effort.copy()
    effort[:, 2] = 0.0
    with pytest.raises(RecordingError, match=f"made.csv.*'{robot.joints[2]}'") as error:
        system_of(replace(recording, effort=effort), regressor, base, SETTINGS)
    assert error.value.joint == robot.joints[2] and error.value.remedy


def test_dead_zone_of_wrong_length(arm):
    robot, regressor, base, truth = arm
    settings = replace(SETTINGS, dead_zone=(0.1, 0.1))
    with pytest.raises(SettingsError, match='dead_zone'):
        system_of(moving(robot, truth, duration=2.0), regressor, base, settings)


def test_one_way_motion_leaves_the_offset_open(arm):
    robot, regressor, base, truth = arm
    recording = moving(robot, truth, duration=10.0)
    time, q = recording.time, recording.position.copy()
    q[:, 0] = 2.0 * time + 0.1 * np.sin(5 * time)
    moved = replace(recording, position=q)
    samples = process(moved, SETTINGS)
    motion = Motion(samples.position, samples.velocity, samples.acceleration)
    rng = np.random.default_rng(0)
    effort = (base.columns(regressor.rows(motion)) @ base.project(truth).values).reshape(-1, 3)
    whole = np.interp(time, samples.time, np.arange(len(samples))).round().astype(int)
    recorded = replace(moved, effort=effort[whole] + 0.05 * rng.normal(size=(time.size, 3)))
    estimate = wls(system_of(recorded, regressor, base, SETTINGS), prior=truth)
    name = f'{robot.joints[0]}.off'
    place = base.base_layout.index(name)
    assert estimate.identifiability.excited.tolist() == [i != place for i in range(base.n_base)]
    assert f'{robot.joints[0]}.fc' in estimate.identifiability.reasons[place]
    assert estimate.base[name] == truth[name]


class Repeated:
    """A recording repeated many times without ever being in memory as a whole."""

    def __init__(self, recording: Recording, times: int) -> None:
        self.recording, self.times = recording, times
        self.joints, self.source = recording.joints, 'repeated'

    def blocks(self, size: int):
        period = len(self.recording) / RATE
        for i in range(self.times):
            for block in self.recording.blocks(size):
                yield replace(block, time=block.time + i * period)


def test_memory_does_not_grow_with_the_recording(arm, monkeypatch):
    robot, regressor, base, truth = arm
    recording = moving(robot, truth, duration=4.0)
    # small parts, so that a short recording has many
    monkeypatch.setattr('robot_identification.data.parts.PART_POSITIONS', 3 * len(recording))

    def peak(times: int) -> int:
        tracemalloc.start()
        system_of(Repeated(recording, times), regressor, base, SETTINGS, trace_points=100)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    peak(1)
    assert peak(12) < 1.05 * peak(4)


def test_accumulate_needs_no_robot(problem):
    case = problem()
    assert case.system.factor.available_rows.tolist() == [300] * 3
    with pytest.raises(RecordingError, match='nothing.csv: no rows'):
        accumulate([], case.system.structure, ('a', 'b', 'c'), source='nothing.csv')
