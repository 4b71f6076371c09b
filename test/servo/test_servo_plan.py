# SPDX-License-Identifier: Apache-2.0
"""Commands for servos: their response keeps the limits and excites what is to be identified."""

import json
import re

import mujoco
import numpy as np
import pytest
from robot_identification.cli.main import main
from robot_identification.servo.identification import fit_servo
from robot_identification.servo.settings import ServoSettings, SimulatorSettings
import yaml

from benchmarks.two_legs import (
    ARMATURE,
    COULOMB,
    JOINTS,
    KD,
    KP,
    mjcf,
    PERIOD,
    recorded,
    robot,
    STEP,
    urdf,
    VISCOUS,
)

LIMIT, VELOCITY = 20.0, 6.0


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp('servo_plan')
    (folder / 'legs.urdf').write_text(urdf())
    servo = {'stiffness': KP, 'damping': KD, 'limit': LIMIT}
    content = {
        'robot': {'urdf': 'legs.urdf', 'effort_kind': 'servo_command', 'servo': servo},
        'simulation': {'timestep': STEP, 'integrator': 'implicitfast'},
    }
    (folder / 'servos.yaml').write_text(yaml.safe_dump(content))
    return folder


def plan(folder, *options):
    quick = ['--duration', '3', '--set', 'planner.max_iterations=30']
    speeds = ['--set', f'planner.velocity_limits={[VELOCITY] * 4}']
    out = ['--out', str(folder / 'plan')]
    return main(['plan', str(folder / 'servos.yaml'), *quick, *speeds, *out, *options])


@pytest.fixture(scope='module')
def commands(folder):
    assert plan(folder, '--rate', '200') == 0
    return json.loads((folder / 'plan' / 'commands.json').read_text())


def test_both_files_have_the_commands_at_the_rate(folder, commands):
    table = np.genfromtxt(folder / 'plan' / 'commands.csv', delimiter=',', names=True)
    assert table.dtype.names == ('time', *JOINTS) and tuple(commands['joints']) == JOINTS
    assert commands['rate'] == 200.0
    np.testing.assert_allclose(np.diff(table['time']), 1.0 / 200.0, atol=1e-9)
    rows = np.column_stack([table[joint] for joint in JOINTS])
    np.testing.assert_allclose(rows, commands['commands'], atol=1e-8)
    assert (rows[0] == rows[-1]).all()  # from rest to rest


def test_the_response_keeps_the_limits_in_plain_mujoco(commands):
    """The nominal robot is simulated by MuJoCo alone: the commands alone would say nothing."""
    none = np.zeros(4)
    text = mjcf(none, none, none, shift=(0.0, 0.0), limit=LIMIT)
    model = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(model)
    rows = np.array(commands['commands'])
    data.qpos[:] = rows[0]
    every, seen = round(PERIOD / STEP), []
    for k in range(len(rows) * every):
        data.ctrl[:] = rows[k // every]
        mujoco.mj_step(model, data)
        seen.append((*data.qpos, *data.qvel, *data.actuator_force))
    position, velocity, effort = np.split(np.abs(seen), 3, axis=1)
    assert position.max() < 2.5 and velocity.max() < VELOCITY and effort.max() < LIMIT
    assert velocity.max() > 0.7 * VELOCITY  # as fast as they may be
    assert np.abs(data.qvel).max() < 0.05 * VELOCITY  # at rest


@pytest.mark.soak
def test_a_robot_that_is_moved_by_them_is_identified(commands):
    """Armature and friction differ from the nominal ones, which the plan was made with."""
    recording = recorded(command=np.array(commands['commands']), limit=LIMIT)
    servo = ServoSettings(stiffness=KP, damping=KD, limit=LIMIT)
    found = fit_servo(robot(), [recording], servo, SimulatorSettings(None, STEP, 'implicitfast'))
    np.testing.assert_allclose(found.parameters.armature, ARMATURE, rtol=0.05)
    np.testing.assert_allclose(found.parameters.viscous, VISCOUS, atol=0.01)
    np.testing.assert_allclose(found.parameters.coulomb, COULOMB, atol=0.02)
    assert found.parameters.delay == pytest.approx(0.008, abs=2e-4)


@pytest.mark.parametrize(
    ('options', 'message'),
    [
        ((), "'--rate' is missing"),
        (('200', '--set', 'robot.servo.stiffness=0.5'), '% of its commands .* check the gains'),
        (('200', '--set', 'robot.servo.limit=0.5'), 'takes .* of its limit in the simulated resp'),
        (('200', '--set', 'robot.servo.limits=0.5'), 'did you mean .robot.servo.limit'),
    ],
)
def test_what_cannot_be_planned_is_named(folder, capsys, options, message):
    assert plan(folder, *(('--rate', *options) if options else ())) != 0
    error = capsys.readouterr().err
    assert re.search(message, error), error


def test_a_rate_is_of_servos_alone(folder, capsys):
    assert main(['plan', str(folder / 'legs.urdf'), '--rate', '50']) != 0
    assert 'no experiment file of servos' in capsys.readouterr().err
