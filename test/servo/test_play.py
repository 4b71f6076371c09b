# SPDX-License-Identifier: Apache-2.0
"""Play of joints: a simulated one comes back, and none is found where there is none."""

from dataclasses import replace

import mujoco
import numpy as np
import pytest
from robot_identification.data.commands import CommandRecording
from robot_identification.servo import model as servo_model
from robot_identification.servo.identification import fit_servo, rollout_errors
from robot_identification.servo.model import ServoModel
from robot_identification.servo.parameters import ServoParameters
from robot_identification.servo.settings import ServoSettings, SimulatorSettings

from benchmarks.two_legs import (
    ARMATURE,
    commands,
    COULOMB,
    JOINTS,
    KD,
    KP,
    mjcf,
    PERIOD,
    recorded,
    robot,
    SHIFT,
    STEP,
    VISCOUS,
)

PLAY = 0.03
"""Play of the left hip [rad]."""
DAMPING = 0.05

SERVO = ServoSettings(stiffness=KP, damping=KD)
SIMULATOR = SimulatorSettings(timestep=STEP, integrator='implicitfast')


def with_play(duration=6.0, seed=0, noise=2e-4):
    """
    Simulate the legs with play behind the left hip's motor, in plain MuJoCo.

    The servo measures and controls the link: its feedback over the play is added at every step.
    """
    document = mjcf(ARMATURE, VISCOUS, COULOMB)
    hip = document.index('<joint name="left_hip"')
    place = document.index('/>', hip) + 2
    end = np.rad2deg(PLAY / 2)
    joint = (
        f'<joint name="slack" axis="0 1 0" limited="true" range="{-end} {end}" '
        f'damping="{DAMPING}" solreflimit="0.002 1"/>'
    )
    model = mujoco.MjModel.from_xml_string(document[:place] + joint + document[place:])
    data = mujoco.MjData(model)
    dofs = [model.joint(name).dofadr[0] for name in JOINTS]
    slack = model.joint('slack').dofadr[0]
    time, command = commands(duration + 1.0, seed)
    data.qpos[dofs] = command[0]
    every, late = round(PERIOD / STEP), round(0.008 / STEP)
    positions = np.zeros_like(command)
    for k in range(len(time) * every):
        if k % every == 0:
            positions[k // every] = data.qpos[dofs]
            positions[k // every, 0] += data.qpos[slack]
        data.ctrl[:] = command[max(k - late, 0) // every]
        # as a command, since the gain is that of the position
        data.ctrl[0] -= data.qpos[slack] + KD / KP * data.qvel[slack]
        mujoco.mj_step(model, data)
    positions += noise * np.random.default_rng(seed + 1).standard_normal(positions.shape)
    used = slice(round(0.5 / PERIOD), round((duration + 0.5) / PERIOD))
    return CommandRecording(time[used], positions[used], command[used], JOINTS, source='legs')


@pytest.fixture(scope='module')
def recording():
    return with_play()


@pytest.fixture(scope='module')
def found(recording):
    return fit_servo(robot(), [recording], SERVO, SIMULATOR)


def test_a_rollout_with_play_is_that_of_plain_mujoco(recording, monkeypatch):
    model = ServoModel(robot(), SERVO, SIMULATOR)
    center = np.zeros((4, 3))
    center[:, 0] = np.tile(SHIFT, 2)
    true = ServoParameters.with_neutral(
        4, armature=ARMATURE, viscous=VISCOUS, coulomb=COULOMB, delay=0.008, center=center.ravel()
    )
    slack = np.array([1.0, 0.0, 0.0, 0.0])
    played = replace(true, play=PLAY * slack, play_damping=DAMPING * slack)
    before, coarse = (rollout_errors(model, [recording], each) for each in (true, played))
    assert before[0] > 1.5e-3 and coarse.max() < 8e-4
    monkeypatch.setattr(servo_model, 'PLAY_STEP', STEP)  # feedback at every step, as simulated
    assert rollout_errors(model, [recording], played).max() < 2.5e-4  # noise is 2e-4


def test_play_comes_back_and_pays_on_unseen_motion(found):
    std = dict(zip(found.free.names, found.std, strict=True))
    assert found.parameters.playing == (0,)
    error = abs(found.parameters.play[0] - PLAY)
    assert error < 0.1 * PLAY and error < 2.0 * std['left_hip.play'] < 0.2 * PLAY
    np.testing.assert_allclose(found.parameters.coulomb, COULOMB, rtol=0.1)
    unseen = with_play(4.0, seed=5)
    without = rollout_errors(found.model, [unseen], found.parameters.without_play())
    errors = rollout_errors(found.model, [unseen], found.parameters)
    assert errors[0] < 0.5 * without[0]


@pytest.mark.parametrize(
    'truth',
    [
        {},
        {'shift': (0.03, -0.05)},  # centres that are moved farther than the prior has them
        {'viscous': 4.0 * VISCOUS, 'friction': '0.02 1'},  # friction that gives way
    ],
)
def test_play_is_not_found_where_there_is_none(truth):
    found = fit_servo(robot(), [recorded(5.0, **truth)], SERVO, SIMULATOR)
    assert not found.parameters.playing


def test_no_play_is_sought_where_none_is_asked_for(recording):
    settings = replace(SERVO, play='none', bodies='given')
    found = fit_servo(robot(), [recording.rows(0, 600)], settings, SIMULATOR)
    assert not found.parameters.playing and 'play' not in found.free.kinds
