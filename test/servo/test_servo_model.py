# SPDX-License-Identifier: Apache-2.0
"""Model of servos in MuJoCo against plain MuJoCo: states, friction, delays, branches."""

from gripper_arm import gripper, urdf
import mujoco
import numpy as np
import pytest
from robot_identification.data.commands import CommandRecording
from robot_identification.errors import SettingsError
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
    VISCOUS,
)

SERVO = ServoSettings(stiffness=KP, damping=KD)
SIMULATOR = SimulatorSettings(timestep=0.001, integrator='implicitfast')


def truth(**values):
    center = np.zeros((4, 3))
    center[:, 0] = [*SHIFT, *SHIFT]
    known = {'armature': ARMATURE, 'viscous': VISCOUS, 'coulomb': COULOMB, 'delay': 0.008}
    return ServoParameters.with_neutral(4, **{**known, 'center': center.ravel(), **values})


@pytest.fixture(scope='module')
def model():
    return ServoModel(robot(), SERVO, SIMULATOR)


def simulated(model, parameters, recording):
    return next(iter(model.rollouts([parameters], recording)))


def test_rollouts_are_those_of_plain_mujoco(model):
    recording = recorded(4.0, noise=0.0)
    errors = simulated(model, truth(), recording) - recording.position
    assert np.abs(errors[recording.time > recording.time[0] + 3.3]).max() < 1e-6


def test_friction_is_that_of_a_model_compiled_with_the_armature(model):
    """Without mj_setConst, the constraint of friction keeps the inertia of armature 0."""
    compiled = mujoco.MjModel.from_xml_string(mjcf(ARMATURE, VISCOUS, COULOMB))
    set_later = model.with_parameters(truth())
    np.testing.assert_allclose(set_later.dof_invweight0, compiled.dof_invweight0, rtol=1e-9)
    np.testing.assert_allclose(set_later.dof_M0, compiled.dof_M0, rtol=1e-9)


def test_friction_is_stiffer_than_mujocos_default(model):
    """A joint that is pushed with 9 tenths of its friction must not creep."""
    compiled = mujoco.MjModel.from_xml_string(
        mjcf(ARMATURE, VISCOUS, COULOMB, friction='0.02 1').replace('gravity', '')
    )

    def creep(friction):
        compiled.dof_solref[:, 0] = friction
        compiled.opt.gravity[:] = 0.0
        compiled.actuator_gainprm[:] = compiled.actuator_biasprm[:] = 0.0
        data = mujoco.MjData(compiled)
        data.qfrc_applied[:] = 0.9 * COULOMB
        for _ in range(500):
            mujoco.mj_step(compiled, data)
        return np.abs(data.qpos).max()

    assert creep(model.compiled.dof_solref[0, 0]) < 0.2 * creep(0.02)


def test_commands_are_held_and_late(model):
    time, command = commands(0.2)
    recording = CommandRecording(time, command, command, JOINTS)
    late = model.controls(truth(delay=0.0075), recording) / KP
    middle = (np.arange(len(late)) + 0.5) * 0.001 - 0.0075
    held = command[np.clip(np.floor(middle / PERIOD + 1e-9).astype(int), 0, None)]
    # a step with a change in its middle has the mean of both commands
    whole = np.abs((middle / PERIOD) % 1.0 - 0.5) < 0.39
    np.testing.assert_allclose(late[whole], held[whole], atol=1e-12)
    early = model.controls(truth(delay=-0.01), recording) / KP
    np.testing.assert_allclose(early[:150], np.repeat(command, 5, axis=0)[10:160], atol=1e-9)


def test_fingers_on_one_servo_move_as_one_body_of_both_masses():
    finger = ('left', 'prismatic', 'base', '0 0 0', '0 1 0', '', '0 0 0', 0.2)
    other = ('right', *finger[1:5], ('left', -1.0, 0.0), '0 0 0', 0.3)
    settings = ServoSettings(stiffness=20.0, damping=1.0)
    time = np.arange(100) * PERIOD
    command = 0.02 * (time > 0.05)[:, None]
    recording = CommandRecording(time, np.zeros_like(command), command, ('left',))
    known = ServoParameters.with_neutral(1, armature=0.01, viscous=0.1, coulomb=0.0, delay=0.0)
    moved = []
    for hand in ((finger, other), ((*finger[:-1], 0.5),)):
        arm = gripper(['left'], urdf(hand), gravity=(0.0, 0.0, 0.0))
        moved.append(simulated(ServoModel(arm, settings, SIMULATOR), known, recording))
    assert np.ptp(moved[1]) > 0.01
    np.testing.assert_allclose(*moved, rtol=0.0, atol=1e-6)


def test_limits_hold_the_servos_effort():
    settings = ServoSettings(stiffness=KP, damping=KD, limit=2.0)
    model = ServoModel(robot(), settings, SIMULATOR)
    recording = recorded(4.0, noise=0.0, limit=2.0)
    errors = simulated(model, truth(), recording) - recording.position
    unlimited = ServoModel(robot(), SERVO, SIMULATOR)
    free = simulated(unlimited, truth(), recording) - recording.position
    assert np.abs(errors[recording.time > recording.time[0] + 3.3]).max() < 1e-6
    assert np.abs(free).max() > 0.01


def test_legs_on_a_fixed_base_are_branches(model):
    assert model.branches[0] == model.branches[1] != model.branches[2] == model.branches[3]


def test_friction_by_position_without_a_slope_is_constant(model):
    """Rollouts in pieces must be those in one."""
    recording = recorded(1.0, noise=0.0)
    sloped = simulated(model, truth(slope=np.full(4, 1e-12)), recording)
    np.testing.assert_allclose(sloped, simulated(model, truth(), recording), atol=1e-8)


def test_friction_by_position_is_that_of_a_model_that_is_changed_at_each_step():
    slope = np.array([0.2, -0.1, 0.0, 0.3])
    reference = np.array([0.5, -1.0, 0.4, -0.9])
    time, command = commands(3.0)
    recording = CommandRecording(time, command, command, JOINTS, velocity=0.0 * command)
    compiled = mujoco.MjModel.from_xml_string(mjcf(ARMATURE, VISCOUS, COULOMB))
    data = mujoco.MjData(compiled)
    data.qpos[:] = command[0]
    positions = np.zeros_like(command)
    for k in range(5 * len(time) - 4):
        if k % 5 == 0:
            positions[k // 5] = data.qpos
        compiled.dof_frictionloss[:] = COULOMB + slope * (data.qpos - reference)
        data.ctrl[:] = command[k // 5]
        mujoco.mj_step(compiled, data)
    model = ServoModel(robot(), SERVO, SIMULATOR, reference)
    sloped = simulated(model, truth(delay=0.0, slope=slope), recording) - positions
    constant = simulated(model, truth(delay=0.0), recording) - positions
    assert np.sqrt((sloped**2).mean()) < 0.05 * np.sqrt((constant**2).mean())


def test_unstable_rollouts_leave_no_log(tmp_path, monkeypatch):
    """Gains without armature are unstable with explicit steps; MuJoCo then starts again."""
    monkeypatch.chdir(tmp_path)
    settings = SimulatorSettings(timestep=0.02, integrator='euler')
    model = ServoModel(robot(), ServoSettings(stiffness=5e3, damping=50.0), settings)
    position = simulated(model, ServoParameters.with_neutral(4), recorded(1.0))
    assert np.isfinite(position).all()
    assert not list(tmp_path.iterdir())


def test_step_and_integrator_have_to_be_known():
    with pytest.raises(SettingsError, match='simulation.timestep'):
        ServoModel(robot(), SERVO, SimulatorSettings(integrator='euler'))
    unnamed = ServoModel(robot(), SERVO, SimulatorSettings())
    assert (unnamed.timestep, unnamed.integrator) == (0.001, 'implicitfast')


def test_gains_have_to_fit_the_joints():
    with pytest.raises(SettingsError, match=r'robot\.servo\.stiffness.*3 numbers for 4 joints'):
        ServoModel(robot(), ServoSettings(stiffness=(1.0, 2.0, 3.0)), SIMULATOR)
