# SPDX-License-Identifier: Apache-2.0
"""Faults that show without trying explanations: each is found, and nothing in good recordings."""

from dataclasses import replace
from pathlib import Path
import re

import numpy as np
import pinocchio as pin
import pytest
from robot_identification.data.recording import Motion, Recording
from robot_identification.diagnosis.diagnose import diagnose
from robot_identification.diagnosis.gravity_sizes import gravity_sizes
from robot_identification.diagnosis.recording_faults import (
    diagnosis_samples,
    in_seconds,
    recording_faults,
)
from robot_identification.estimation.estimators import EstimationSettings
from robot_identification.identification.pipeline import IdentificationProblem, identify_sources
from robot_identification.model.robot import Robot
from robot_identification.regressor import (
    build,
    ModelSettings,
    prior,
)

ROOT = Path(__file__).resolve().parents[2]
PENDULUM = """
<robot name="pendulum"><link name="base"/>
<link name="arm"><inertial><origin xyz="0 0 -0.3"/><mass value="2"/>
<inertia ixx="0.05" iyy="0.05" izz="0.01" ixy="0" ixz="0" iyz="0"/></inertial></link>
<joint name="swing" type="revolute"><parent link="base"/><child link="arm"/><axis xyz="0 1 0"/>
<limit lower="-1.5" upper="1.5" velocity="4" effort="30"/>
<dynamics damping="0.1" friction="0.2"/></joint></robot>
"""


@pytest.fixture(scope='module')
def pendulum():
    robot = Robot.from_urdf(PENDULUM)
    time = np.arange(2000) / 200.0
    q, v, a = np.zeros((3, time.size, 1))
    for size, w in ((0.8, 1.1), (0.5, 3.7), (0.15, 8.3)):
        q[:, 0] += size * np.sin(w * time)
        v[:, 0] += size * w * np.cos(w * time)
        a[:, 0] -= size * w**2 * np.sin(w * time)
    regressor = build(robot, ModelSettings())
    effort = regressor.rows(Motion(q, v, a)) @ prior(robot, ModelSettings()).values
    noise = 0.02 * np.random.default_rng(0).standard_normal(q.shape)
    return robot, Recording(time, q, effort[:, None] + noise, robot.joints)


@pytest.mark.parametrize(
    ('changed', 'text'),
    [
        (lambda r: r, None),
        (lambda r: replace(r, position=np.degrees(r.position)), "'swing' moves over .* in rad"),
        (lambda r: replace(r, effort=-r.effort), 'found at swing: has the effort the sign'),
    ],
)
def test_doubts(pendulum, changed, text):
    robot, recording = pendulum
    problem = IdentificationProblem(robot, estimation=EstimationSettings(method='wls'))
    result = identify_sources(problem, [changed(recording)])
    doubted = [note for note in result.warnings if 'URDF are' in note or 'instead of' in note]
    if text is None:
        assert doubted == []
    else:
        assert any(re.search(text, note) for note in doubted), doubted


def test_robot_without_limits_is_not_doubted(pendulum):
    _, recording = pendulum
    robot = Robot.from_urdf(PENDULUM.replace('revolute', 'continuous'))
    result = identify_sources(IdentificationProblem(robot), [recording])
    assert not any('apart' in note for note in result.warnings)


@pytest.mark.parametrize(('factor', 'name'), [(1e3, 'ms'), (1e9, 'ns')])
def test_stamps_in_another_unit_are_put_right(pendulum, factor, name):
    _, recording = pendulum
    (right,), (finding,) = in_seconds([replace(recording, time=factor * recording.time)])
    assert finding.remedy.startswith(f'set time_unit: {name}')
    np.testing.assert_allclose(right.time, recording.time, atol=1e-9)
    assert in_seconds([recording]) == ((recording,), ())


def test_fast_stamps_in_milliseconds_show_by_the_speed(pendulum):
    """Of 5 kHz: they are 0.2 apart, as samples of 5 Hz."""
    robot, recording = pendulum
    fine = np.arange(0.0, 9.9, 2e-4)
    columns = {
        key: np.interp(fine, recording.time, getattr(recording, key)[:, 0])[:, None]
        for key in ('position', 'effort')
    }
    fast = replace(recording, time=1e3 * fine, **columns)
    found = [each for each in recording_faults(robot, [fast]) if each.code == 'time_unit']
    assert [each.remedy.split(' beside')[0] for each in found] == ['set time_unit: ms']
    for other in (recording, replace(recording, position=1e-4 * recording.position)):  # at rest
        assert not any(each.code == 'time_unit' for each in recording_faults(robot, [other]))


def spoiled(recording, what):
    keep = np.ones(len(recording), dtype=bool)
    position, effort = recording.position.copy(), recording.effort.copy()
    velocity = np.gradient(position[:, 0], recording.time)[:, None]
    if what == 'missing_samples':
        for start in range(100, 1900, 150):
            keep[start : start + 10] = False
    elif what == 'saturation':
        effort = np.clip(effort, -3.0, 3.0)
    elif what == 'still_joint':
        position, velocity = 0.01 * position, 0.01 * velocity
    elif what == 'velocity':
        velocity = -velocity
    return Recording(
        recording.time[keep], position[keep], effort[keep], recording.joints, velocity[keep]
    )


@pytest.mark.parametrize(
    'what', [None, 'missing_samples', 'saturation', 'still_joint', 'velocity']
)
def test_faults_that_need_no_model(pendulum, what):
    robot, recording = pendulum
    found = list(recording_faults(robot, [spoiled(recording, what)]))
    assert [finding.code for finding in found] == ([] if what is None else [what])
    assert all(finding.remedy and finding.evidence for finding in found)
    if what == 'saturation':  # of each time at the limit it is known when
        time = recording.time[np.abs(recording.effort[:, 0]) > 3.0]
        assert found[0].times
        for _, first, last in found[0].times:
            inside = time[(first <= time) & (time <= last)]
            assert inside[[0, -1]] == pytest.approx([first, last], abs=0.05)


def test_no_cause_is_named_where_gaps_leave_filters_no_time(pendulum):
    robot, recording = pendulum
    keep = np.ones(len(recording), dtype=bool)
    every = round(0.6 / np.diff(recording.time).mean())
    for start in range(every, len(recording), every):
        keep[start : start + 6] = False
    broken = replace(
        recording,
        time=recording.time[keep],
        position=recording.position[keep],
        effort=-recording.effort[keep],
    )
    (finding,) = diagnose(robot, [broken])
    assert finding.code == 'missing_samples' and 'settle' in finding.evidence


@pytest.mark.filterwarnings('error')
def test_joint_that_stands_elsewhere_in_each_recording_stands_still(pendulum):
    robot, recording = pendulum
    still = np.zeros_like(recording.position)
    parts = [replace(recording, position=still + x, velocity=still) for x in (0.0, 1.0)]
    (finding,) = recording_faults(robot, parts)
    assert finding.code == 'still_joint' and '0 rad' in finding.evidence


def test_rest_at_the_largest_effort_is_no_saturation(pendulum):
    robot, recording = pendulum
    position, effort = recording.position.copy(), recording.effort.copy()
    top = effort.max()
    for start in (200, 900):
        position[start : start + 100], effort[start : start + 100] = position[start], top
    resting = replace(recording, position=position, effort=effort)
    assert list(recording_faults(robot, [resting])) == []


def test_gravity_in_millimetres(pendulum):
    _, recording = pendulum
    robot = Robot.from_urdf(PENDULUM, gravity=(0.0, 0.0, -9810.0))
    (finding,) = recording_faults(robot, [recording])
    assert finding.code == 'gravity_unit' and '9810' in finding.evidence


@pytest.fixture(scope='module')
def arm():
    """Return a six-joint arm, a motion, its torques and the part of gravity, by Pinocchio."""
    robot = Robot.from_urdf(ROOT / 'urdf' / 'demo_arm.urdf')
    rng = np.random.default_rng(0)
    time = np.arange(3000) / 200.0
    speed = rng.uniform(0.5, 1.5, 6)
    angle = time[:, None] * speed + rng.uniform(0, 6, 6)
    position, velocity = 0.7 * np.sin(angle), 0.7 * speed * np.cos(angle)
    model, data, still = robot.model, robot.model.createData(), np.zeros(6)
    rows = list(zip(position, velocity, -(speed**2) * position, strict=True))
    torque = np.array([pin.rnea(model, data, *row) for row in rows])
    gravity = np.array([pin.rnea(model, data, q, still, still) for q, _, _ in rows])
    friction = 3.0 * np.sign(velocity) + 2.0 * velocity
    return robot, time, position, torque + friction, gravity


def sizes(arm, effort):
    robot, time, position, *_ = arm
    return gravity_sizes(robot, [Recording(time, position, effort, robot.joints)])


@pytest.mark.parametrize('scale', [1.0, 1.0 / 12.0, -1.0 / 50.0, 1000.0])
def test_gravity_has_the_size_of_the_scale(arm, scale):
    found = sizes(arm, scale * arm[3])
    seen = {joint: size for joint, size in found.items() if size}
    np.testing.assert_allclose(list(seen.values()), scale, rtol=0.02)
    assert {'joint_2', 'joint_3'} <= set(seen)


def test_efforts_without_gravity_are_told(arm):
    found = sizes(arm, arm[3] - arm[4])
    assert {'joint_2', 'joint_3'} <= set(found) and not any(found.values())


def slow_noise(like):
    """Return efforts that wander slowly, as external torques do, by a twentieth of others."""
    random, found = np.random.default_rng(3), np.zeros_like(like)
    steps = 0.05 * random.standard_normal(like.shape)
    for i in range(1, len(found)):
        found[i] = 0.995 * found[i - 1] + steps[i]
    return 0.05 * like.std(axis=0) * found / found.std(axis=0)


def test_efforts_that_wander_have_no_gravity(arm):
    assert not any(sizes(arm, slow_noise(arm[3])).values())


def test_gravity_of_other_times_is_none(arm):
    _, time, _, effort, _ = arm
    off = np.where(time[:, None] > 0.4 * time[-1], 0.0, effort)
    assert not any(size < 0.0 or size > 3.0 for size in sizes(arm, off).values())


def test_an_arm_without_gravity_says_nothing(arm):
    robot = Robot.from_urdf(ROOT / 'urdf' / 'demo_arm.urdf', gravity=(0.0, 0.0, 0.0))
    assert sizes((robot, *arm[1:]), arm[3]) == {}


@pytest.mark.parametrize('rate', [100.0, 1000.0, 5000.0])
def test_observed_samples_belong_together_at_every_rate(rate):
    """Fast recordings are averaged first, which shifts no signal and lets no vibration alias."""
    time, speed = np.arange(0.0, 6.0, 1.0 / rate), 2.0 * np.pi * 0.5
    position = np.sin(speed * time)[:, None]
    velocity = speed * np.cos(speed * time)[:, None]
    vibration = np.cos(2.0 * np.pi * 400.0 * time)[:, None] if rate > 800.0 else 0.0
    observed = diagnosis_samples([Recording(time, position, velocity + vibration, ('hinge',))])
    motion = observed.motion
    assert motion.velocity == pytest.approx(observed.moved[0.0], abs=2e-3 * speed)
    assert motion.acceleration == pytest.approx(-(speed**2) * motion.position, abs=2e-3 * speed**2)
    assert np.ptp(motion.position) > 1.9
