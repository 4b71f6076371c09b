# SPDX-License-Identifier: Apache-2.0
"""Faults of robots on their feet, in recordings that are made of the equations of motion."""

from dataclasses import replace

import numpy as np
import pytest
from robot_identification.data.floating_recording import FloatingRecording
from robot_identification.data.recording import Motion
from robot_identification.diagnosis.floating_faults import floating_faults
from robot_identification.diagnosis.floating_fit import moving_pieces
from robot_identification.model.mechanisms import ContactSettings
from robot_identification.model.robot import Robot
from robot_identification.regressor import build, ModelSettings, prior
from robot_identification.regressor.base_search import structure
from robot_identification.regressor.floating import floating_motion
from robot_identification.signals import SignalSettings
from walker import FEET, walker

RATE, SECONDS = 100.0, 13.0
SIGNALS = SignalSettings(cutoff=8.0)
PLACE = np.array([0.1, -0.05, 0.02])
GOOD, POOR = 1.0, 20.0


@pytest.fixture(scope='module')
def swaying():
    """Regressor, base parameters and a recording of a robot whose feet push in any way."""
    robot = Robot.from_urdf(walker(), floating=True)
    feet = tuple(ContactSettings(frame=f) for f in FEET)
    model = ModelSettings(friction=(), rotor_inertia=False, contacts=feet)
    regressor = build(robot, model)
    random = np.random.default_rng(0)
    time = np.arange(0.0, SECONDS, 1.0 / RATE)
    rate = 2.0 * np.pi * random.uniform(0.2, 0.9, (3, 18))
    phase = rate[:, None] * time[:, None] + random.uniform(0.0, 6.0, (3, 1, 18))
    q, dq, ddq = (
        0.15 * (factor[:, None] * wave(phase)).sum(axis=0)
        for factor, wave in ((1.0 + 0.0 * rate, np.sin), (rate, np.cos), (-(rate**2), np.sin))
    )
    turn, about, along = dq[:, :3], ddq[:, :3], np.array([0.0, 0.0, 9.81]) + ddq[:, 3:6]
    motion = floating_motion(Motion(q[:, 6:], dq[:, 6:], ddq[:, 6:]), turn, about, along)
    values = prior(robot, model).values * random.uniform(0.9, 1.2)
    wrench = 20.0 * np.sin(rate[0, :12] * time[:, None] + np.arange(12.0))
    effort = (regressor.rows(motion) @ values).reshape(-1, 18)
    effort -= np.einsum('skj,sk->sj', regressor.jacobians(motion), wrench)
    noise = 0.02 * random.standard_normal(effort.shape)
    noise[:, :6] = 0.0
    recording = FloatingRecording(
        time=time,
        position=np.hstack([np.zeros((len(time), 6)), q[:, 6:]]),
        effort=effort + noise,
        joints=robot.joints,
        gyroscope=turn,
        accelerometer=along,
        stance=np.ones((len(time), 4), dtype=bool),
        wrench=wrench,
    )
    return regressor, structure(regressor, robot), recording, (turn, about)


def found(swaying, recording, error=GOOD):
    """Return faults by code; feet of this robot move as they like."""
    regressor, base, *_ = swaying
    faults = floating_faults([recording], regressor, base, SIGNALS, error)
    return {fault.code: fault for fault in faults if fault.code != 'contact_moves'}


def test_a_sound_recording_has_no_faults(swaying):
    *_, recording, _ = swaying
    assert not found(swaying, recording)


def test_an_imu_in_another_place_is_found_there(swaying):
    *_, recording, (turn, about) = swaying
    arm = np.cross(about, PLACE) + np.cross(turn, np.cross(turn, PLACE))
    away = replace(recording, wrench=None, accelerometer=recording.accelerometer + arm)
    (fault,) = found(swaying, away).values()
    assert fault.code == 'imu_place'
    where = fault.change.partition('[')[2].partition(']')[0]
    np.testing.assert_allclose([float(x) for x in where.split(',')], PLACE, atol=0.01)
    assert not fault.minor


def test_measured_wrenches_tell_the_scale_of_efforts(swaying):
    *_, recording, _ = swaying
    (fault,) = found(swaying, replace(recording, effort=1.25 * recording.effort)).values()
    assert fault.code == 'effort_scale'
    assert 'all efforts times 0.8' in fault.change


@pytest.mark.soak
def test_joints_in_the_columns_of_other_legs_are_named(swaying):
    *_, recording, _ = swaying
    # right legs first, as some makers count
    columns = [*range(6), 9, 10, 11, 6, 7, 8, 15, 16, 17, 12, 13, 14]
    other = replace(
        recording,
        position=recording.position[:, columns],
        effort=recording.effort[:, columns],
        wrench=None,
    )
    fault = found(swaying, other, POOR)['joint_order']
    assert 'FR_foot, FL_foot, RR_foot, RL_foot' in fault.change


def test_the_parts_that_move_most_are_taken(swaying):
    *_, recording, _ = swaying
    still = recording.time < 4.3
    held = {
        name: np.where(still[:, None], getattr(recording, name)[:1], getattr(recording, name))
        for name in ('position', 'gyroscope', 'accelerometer')
    }
    pieces = moving_pieces(replace(recording, **held), 6.0)
    assert len(pieces) == 2
    assert all(piece.time[0] > 4.3 for piece in pieces)
