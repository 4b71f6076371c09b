# SPDX-License-Identifier: Apache-2.0
"""Rows of floating bases: forces that are measured or not, and changes of contacts."""

from dataclasses import replace

import numpy as np
import pytest
from robot_identification.data.floating_recording import FloatingRecording
from robot_identification.data.recording import Motion, Recording
from robot_identification.errors import IdentificationWarning, RecordingError, SettingsError
from robot_identification.estimation import floating_rows
from robot_identification.estimation.floating_rows import floating_blocks, projected_rows
from robot_identification.model.mechanisms import ContactSettings, ElasticJoints
from robot_identification.model.robot import Robot
from robot_identification.regressor import build, ModelSettings, prior
from robot_identification.regressor.base_search import structure
from robot_identification.regressor.floating import floating_motion
from robot_identification.signals import SignalSettings
from walker import FEET, walker

RATE, SECONDS = 200.0, 4.0
SIGNALS = SignalSettings(cutoff=15.0, decimate_to=50.0)


@pytest.fixture(scope='module')
def swaying():
    """Robot that floats and sways slowly, with forces at all feet; regressor, truth, recording."""
    robot = Robot.from_urdf(walker(), floating=True)
    feet = tuple(ContactSettings(frame=f) for f in FEET)
    model = ModelSettings(friction=(), rotor_inertia=False, contacts=feet)
    regressor = build(robot, model)
    values = prior(robot, model).values
    time = np.arange(0.0, SECONDS, 1.0 / RATE)
    random = np.random.default_rng(0)
    rate = 2.0 * np.pi * random.uniform(0.2, 0.6, 18)
    phase = rate * time[:, None] + random.uniform(0.0, 6.0, 18)
    size = 0.2
    q, dq, ddq = (
        size * np.sin(phase),
        size * rate * np.cos(phase),
        -size * rate**2 * np.sin(phase),
    )
    turn, about = dq[:, :3], ddq[:, :3]
    along = np.array([0.0, 0.0, 9.81]) + ddq[:, 3:6]
    motion = floating_motion(Motion(q[:, 6:], dq[:, 6:], ddq[:, 6:]), turn, about, along)
    wrench = 20.0 * np.sin(rate[:12] * time[:, None] + np.arange(12.0))
    jacobians = regressor.jacobians(motion)
    effort = (regressor.rows(motion) @ values).reshape(-1, 18)
    effort -= np.einsum('skj,sk->sj', jacobians, wrench)
    recording = FloatingRecording(
        time=time,
        position=np.hstack([np.zeros((len(time), 6)), q[:, 6:]]),
        effort=effort,
        joints=robot.joints,
        gyroscope=turn,
        accelerometer=along,
        stance=np.ones((len(time), 4), dtype=bool),
        wrench=wrench,
    )
    return regressor, structure(regressor, robot), values, recording


def misfit(swaying, recording):
    """Return the residual of the true parameters by the effort of the joints."""
    regressor, base, values, _ = swaying
    blocks = list(floating_blocks(recording, regressor, base, SIGNALS))
    left = [block.effort - block.matrix @ (base.regrouping @ values) for block in blocks]
    return np.sqrt(np.mean(np.concatenate(left) ** 2)) / np.std(recording.effort)


def test_forces_are_subtracted_or_projected_out(swaying):
    *_, recording = swaying
    some = recording.wrench.copy()
    some[:, 6:] = np.nan
    # the signals are filtered, so that rows hold to a thousandth
    assert misfit(swaying, recording) < 2e-3
    assert misfit(swaying, replace(recording, wrench=some)) < 2e-3
    assert misfit(swaying, replace(recording, wrench=None)) < 2e-3


def test_measured_forces_are_filtered_as_the_efforts_are(swaying):
    *_, recording = swaying
    shaken = recording.wrench + 20.0 * (-1.0) ** np.arange(len(recording))[:, None]
    assert misfit(swaying, replace(recording, wrench=shaken)) < 2e-3


def test_a_row_counts_by_what_contacts_leave_of_its_noise(swaying):
    regressor, base, _, recording = swaying
    ((rows, share), *_) = projected_rows(replace(recording, wrench=None), regressor, base, SIGNALS)
    assert np.ptp(share) > 0.1
    independent = rows.independence
    np.testing.assert_allclose(independent / independent.sum(), share / share.sum())


def test_a_force_that_is_neither_is_not_explained(swaying):
    *_, recording = swaying
    flying = replace(recording, wrench=None, stance=np.zeros_like(recording.stance))
    assert misfit(swaying, flying) > 0.1


def test_what_contacts_leave_is_said(swaying):
    regressor, base, _, recording = swaying
    # all twelve forces at points, of eighteen rows
    ((_, share), *_) = projected_rows(replace(recording, wrench=None), regressor, base, SIGNALS)
    assert share.sum() == pytest.approx(6.0, abs=1e-6)
    ((_, share), *_) = projected_rows(recording, regressor, base, SIGNALS)
    assert share.sum() == pytest.approx(18.0)


def test_samples_near_a_change_of_contacts_are_left_out(swaying):
    regressor, base, _, recording = swaying
    stance = recording.stance.copy()
    stance[recording.time > 2.0, 0] = False
    changed = replace(recording, stance=stance, wrench=None)
    time = np.concatenate(
        [block.time for block in floating_blocks(changed, regressor, base, SIGNALS)]
    )
    assert not ((time > 1.97) & (time < 2.03)).any()
    assert ((time > 1.8) & (time < 1.95)).any()
    assert ((time > 2.05) & (time < 2.2)).any()


def test_short_stretches_are_left_out_with_a_warning(swaying):
    regressor, base, _, recording = swaying
    apart = recording.without(((1.0, 2.0), (2.05, 3.0)))
    with pytest.warns(IdentificationWarning, match=r'0\.045 s from 2\.005 s on, between gaps'):
        blocks = list(floating_blocks(apart, regressor, base, SIGNALS))
    time = np.concatenate([block.time for block in blocks])
    assert not ((time > 1.0) & (time < 3.0)).any()


def test_samples_are_filtered_once_for_all_passes(swaying, monkeypatch):
    regressor, base, _, recording = swaying
    first = list(floating_blocks(recording, regressor, base, SIGNALS))
    monkeypatch.setattr(floating_rows, 'gridded', None)
    louder = replace(regressor, noise=2.0 * regressor.noise)
    (again, *_) = floating_blocks(recording, louder, base, replace(SIGNALS, dead_zone=0.0))
    np.testing.assert_array_equal(again.time, first[0].time)
    with pytest.raises(TypeError):
        list(floating_blocks(recording, regressor, base, replace(SIGNALS, cutoff=9.0)))


def test_recordings_and_filters_that_do_not_fit_are_refused(swaying):
    regressor, base, _, recording = swaying
    plain = Recording(recording.time, recording.position, recording.effort, recording.joints)
    with pytest.raises(RecordingError, match='has no IMU'):
        list(floating_blocks(plain, regressor, base, SIGNALS))
    few = replace(recording, stance=recording.stance[:, :2])
    with pytest.raises(RecordingError, match='has 2 contacts, the robot 4'):
        list(floating_blocks(few, regressor, base, SIGNALS))
    windows = replace(SIGNALS, method='polynomial_approximation')
    with pytest.raises(SettingsError, match='polynomial_approximation'):
        list(floating_blocks(recording, regressor, base, windows))
    silent = recording.effort.copy()
    silent[:, 7] = 0.0
    with pytest.raises(RecordingError, match="effort of joint 'FL_thigh_joint' is 0 throughout"):
        list(floating_blocks(replace(recording, effort=silent), regressor, base, SIGNALS))
    with pytest.raises(RecordingError, match='orientation in row 0 is no quaternion'):
        replace(recording, orientation=np.zeros((len(recording), 4)))
    with pytest.raises(SettingsError, match="'elastic' and 'base' are given together"):
        ModelSettings(base='floating', elastic=ElasticJoints(motors=('m',), gear_ratios=(1.0,)))
    with pytest.raises(RecordingError, match='gyroscope has shape'):
        replace(recording, gyroscope=recording.gyroscope[:, :2])


def test_uneven_stamps_are_put_on_a_grid(swaying):
    *_, recording = swaying
    jitter = np.random.default_rng(1).uniform(-0.1, 0.1, len(recording)) / RATE
    time = recording.time + jitter

    def at(values):
        return np.column_stack([np.interp(time, recording.time, v) for v in values.T])

    uneven = replace(
        recording,
        time=time,
        position=at(recording.position),
        effort=at(recording.effort),
        gyroscope=at(recording.gyroscope),
        accelerometer=at(recording.accelerometer),
        wrench=at(recording.wrench),
    )
    assert misfit(swaying, uneven) < 1e-2
