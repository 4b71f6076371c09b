# SPDX-License-Identifier: Apache-2.0
"""Identification of simulated servos: true parameters, deviations, delays, gaps, steps."""

from dataclasses import replace

import numpy as np
import pytest
from robot_identification.data.commands import CommandRecording, stretches_of
from robot_identification.data.recording import Motion
from robot_identification.errors import IdentifiabilityError, RecordingError, SettingsError
from robot_identification.regressor import build, ModelSettings
from robot_identification.servo.fit import fit
from robot_identification.servo.identification import fit_servo, rollout_errors
from robot_identification.servo.model import ServoModel
from robot_identification.servo.parameters import FreeParameters, ServoParameters
from robot_identification.servo.rollouts import Rollouts
from robot_identification.servo.settings import ServoSettings, SimulatorSettings

from benchmarks.two_legs import ARMATURE, COULOMB, JOINTS, KD, KP, recorded, robot, SHIFT, VISCOUS

SERVO = ServoSettings(stiffness=KP, damping=KD)
GIVEN = replace(SERVO, bodies='given')
SIMULATOR = SimulatorSettings(timestep=0.001, integrator='implicitfast')


def rms(errors):
    return np.sqrt((errors**2).mean())


@pytest.fixture(scope='module')
def recording():
    return recorded(6.0)


@pytest.fixture(scope='module')
def found(recording):
    return fit_servo(robot(), [recording], SERVO, SIMULATOR)


@pytest.fixture(scope='module')
def least_squares(recording):
    return fit_servo(robot(), [recording], SERVO, SimulatorSettings(), method='ols')


@pytest.mark.parametrize(('method', 'known'), [('found', 0.1), ('least_squares', 0.15)])
def test_parameters_are_the_true_ones_within_their_deviations(method, known, request):
    found = request.getfixturevalue(method)
    std = dict(zip(found.free.names, found.std, strict=True))
    for symbol, kind, true in (
        ('Ia', 'armature', ARMATURE),
        ('fv', 'viscous', VISCOUS),
        ('fc', 'coulomb', COULOMB),
    ):
        deviation = np.array([std[f'{joint}.{symbol}'] for joint in JOINTS])
        errors = np.abs(found.parameters.values(kind) - true)
        assert (errors < 4.0 * deviation + 0.01 * true).all(), (kind, errors, deviation)
        assert (deviation < known * true.max()).all()
    assert abs(found.parameters.delay[0] - 0.008) < 4.0 * std['delay'] + 1e-4
    assert std['delay'] < 0.01 * known


def test_least_squares_need_no_rollout_and_know_what_is_confused(least_squares):
    assert least_squares.rollouts == 0
    names, matrix = least_squares.free.names, least_squares.correlation
    viscous = [names.index(f'{joint}.fv') for joint in JOINTS]
    assert (matrix[names.index('delay'), viscous] < -0.85).all()


def test_a_bound_does_not_make_the_others_known(least_squares):
    """Viscous friction is confused with the delay, at its bound as well."""
    frictionless = recorded(6.0, viscous=np.zeros(4))
    found = fit_servo(robot(), [frictionless], SERVO, SimulatorSettings(), method='ols')
    edges = [n for n, at in zip(found.free.names, found.at_bound, strict=True) if at]
    assert any(name.endswith('.fv') for name in edges)
    delay = found.free.names.index('delay')
    assert found.std[delay] > 0.5 * least_squares.std[delay]
    assert abs(found.parameters.delay[0] - 0.008) < 3.0 * found.std[delay]


def test_first_moments_are_the_true_ones(found):
    """Only the moment about the hinge acts; the knees' centres are known to a millimetre."""
    np.testing.assert_allclose(found.parameters.centers[[1, 3], 0], SHIFT[1], atol=1.5e-3)
    np.testing.assert_allclose(found.parameters.centers[[0, 2], 0], SHIFT[0], atol=1.5e-3)


def test_unseen_motion_is_predicted_better_than_by_least_squares(found):
    unseen = recorded(4.0, seed=5)
    fitted, start = (
        rms(rollout_errors(found.model, [unseen], parameters))
        for parameters in (found.parameters, found.free.base)
    )
    assert fitted < 4e-4  # noise is 2e-4
    assert fitted < 0.5 * start


def test_each_bus_has_its_delay():
    """Hips and knees, so that both buses act on each branch."""
    late = np.array([0.004, 0.012, 0.004, 0.012])
    settings = replace(SERVO, buses=(JOINTS[1::2], JOINTS[::2]))
    found = fit_servo(robot(), [recorded(5.0, delay=late)], settings, SIMULATOR)
    std = dict(zip(found.free.names, found.std, strict=True))
    for j, joint in enumerate(JOINTS):
        deviation = std[f'{JOINTS[j % 2]}.delay']
        assert abs(found.parameters.delay[j] - late[j]) < 4.0 * deviation + 1e-4, joint
        assert deviation < 1e-3
    assert found.correlation.shape == (len(found.free.names),) * 2


@pytest.mark.parametrize(
    ('buses', 'message'),
    [
        ((JOINTS[:3],), "'right_knee' 0 times"),
        ((JOINTS, JOINTS[:1]), "'left_hip' 2 times"),
        ((JOINTS, ('elbow',)), "'elbow' 1 times"),
    ],
)
def test_every_joint_has_to_be_in_one_bus(buses, message):
    with pytest.raises(SettingsError, match=f'robot.servo.buses.*{message}'):
        replace(SERVO, buses=buses).bus_numbers(JOINTS)


def test_negative_delays_are_found(recording):
    early = recorded(5.0, delay=-0.006)
    assert abs(fit_servo(robot(), [early], SERVO, SIMULATOR).parameters.delay[0] + 0.006) < 4e-4


def test_thinned_commands_shift_the_delay_by_half_their_period(recording):
    """Held commands of every 6th row are later than they were by half of 5 periods."""
    thin = recording.rows(0, len(recording))
    thin = CommandRecording(
        recording.time[::6], recording.position[::6], recording.command[::6], JOINTS
    )
    held = fit_servo(robot(), [thin], GIVEN, SIMULATOR)
    between = fit_servo(robot(), [thin], replace(GIVEN, commands='interpolated'), SIMULATOR)
    assert held.parameters.delay[0] == pytest.approx(0.008 - 2.5 * 0.005, abs=1.5e-3)
    # interpolated commands lack the delay of the hold itself, half a period
    assert between.parameters.delay[0] == pytest.approx(0.008 + 0.5 * 0.005, abs=1.5e-3)


def test_periods_begin_anew_after_gaps(recording):
    gone = (recording.time > recording.time[0] + 3.0) & (recording.time < recording.time[0] + 4.0)
    holed = CommandRecording(
        recording.time[~gone], recording.position[~gone], recording.command[~gone], JOINTS
    )
    assert [len(part) for part in stretches_of([holed])] == [601, 400]
    found = fit_servo(robot(), [holed], GIVEN, SIMULATOR)
    np.testing.assert_allclose(found.parameters.coulomb, COULOMB, rtol=0.1)


def test_parameters_belong_to_the_step(found):
    """Friction that was identified for 1 ms misses the motion at 10 ms."""
    coarse = ServoModel(robot(), SERVO, replace(SIMULATOR, timestep=0.01))
    unseen = recorded(4.0, seed=5)
    fine, other = (
        rms(rollout_errors(model, [unseen], found.parameters)) for model in (found.model, coarse)
    )
    assert other > 1.5 * fine


def test_gains_that_are_wrong_come_back_within_their_deviations():
    """Masses and inertia of links give the scale of efforts, as well as centres are known."""
    wrong = replace(SERVO, stiffness=0.75 * KP, gains='scale')
    recording = recorded(6.0, shift=(0.0, 0.0), seed=1)
    still = replace(recording, command_velocity=np.zeros_like(recording.command))
    found = fit_servo(robot(), [still], wrong, SIMULATOR)
    assert 'damping' not in found.free.kinds  # only kd + viscous friction acts
    std = dict(zip(found.free.names, found.std, strict=True))
    for symbol, kind, true in (
        ('kp', 'stiffness', np.full(4, 1.0 / 0.75)),
        ('fc', 'coulomb', COULOMB),
        ('Ia', 'armature', ARMATURE),
    ):
        deviation = np.array([std[f'{joint}.{symbol}'] for joint in JOINTS])
        assert (np.abs(found.parameters.values(kind) - true) < 2.0 * deviation).all(), kind
        assert (deviation < 0.15 * true).all()


def test_samples_that_are_held_out_do_not_act(recording):
    held = recording.with_blocks_held_out(1.0)
    spoilt = replace(held, position=held.position + np.where(held.held_out, 1.0, 0.0)[:, None])
    model = ServoModel(robot(), GIVEN, SIMULATOR)
    base = ServoParameters.with_neutral(4, coulomb=COULOMB)
    free = FreeParameters(('coulomb',), base, JOINTS, np.zeros(4, int))
    same, other = (
        fit(Rollouts(model, [each], free, {'coulomb': np.full(4, 0.1)}), GIVEN)
        for each in (held, spoilt)
    )
    np.testing.assert_array_equal(same.vector, other.vector)


def test_the_coloured_jacobian_is_the_whole_one(recording, monkeypatch):
    model = ServoModel(robot(), SERVO, SIMULATOR)
    kinds = ('armature', 'coulomb', 'delay', 'center')
    base = ServoParameters.with_neutral(
        4, armature=ARMATURE, viscous=VISCOUS, coulomb=COULOMB, delay=0.008
    )
    free = FreeParameters(kinds, base, JOINTS, np.array([0, 1, 0, 1]))
    sizes = {'armature': 0.1, 'coulomb': 0.1, 'delay': 0.003, 'center': 0.02}
    part = recording.rows(0, 300)

    coloured, whole = (Rollouts(model, [part], free, sizes) for _ in range(2))
    whole.colours = [[k] for k in range(len(free.names))]
    assert len(coloured.colours) < len(whole.colours)
    at = free.vector(base.values) / whole.scale
    np.testing.assert_allclose(coloured.jacobian(at), whole.jacobian(at), atol=1e-9)


def test_bounds_are_kept_and_named():
    """A robot without viscous friction ends at the bound."""
    found = fit_servo(robot(), [recorded(4.0, viscous=np.zeros(4))], GIVEN, SIMULATOR)
    assert (found.parameters.viscous >= 0.0).all()
    named = [n for n, at in zip(found.free.names, found.at_bound, strict=True) if at]
    assert {name.split('.')[1] for name in named} <= {'fv'}


def test_displaced_centres_have_the_regressors_columns(recording):
    """The columns of a displacement are the derivative of the rigid bodies' efforts."""
    from robot_identification.servo.pseudo_effort import _by_displacement

    nominal = robot()
    regressor = build(nominal, ModelSettings())
    random = np.random.default_rng(3)
    motion = Motion(*random.standard_normal((3, 20, 4)))
    link = nominal.links[1]
    inertial = nominal.prior.inertial(link)
    names = [
        f'{link}.{s}' for s in ('m', 'mx', 'my', 'mz', 'Ixx', 'Ixy', 'Iyy', 'Ixz', 'Iyz', 'Izz')
    ]

    def effort(center):
        mass = inertial[0]
        first = mass * (inertial[1:4] / mass + center)
        about = inertial[[4, 5, 7, 5, 6, 8, 7, 8, 9]].reshape(3, 3)

        def steiner(h):
            return (h @ h * np.eye(3) - np.outer(h, h)) / mass

        tensor = about - steiner(inertial[1:4]) + steiner(first)
        values = [mass, *first, *tensor[[0, 0, 1, 0, 1, 2], [0, 1, 1, 2, 2, 2]]]
        rows = regressor.rows(motion)[:, regressor.layout.indices(names)]
        return rows @ np.array(values)

    step = 1e-6 * np.array([1.0, -2.0, 0.5])
    columns = regressor.rows(motion)[:, regressor.layout.indices(names)] @ _by_displacement(
        inertial
    )
    np.testing.assert_allclose(effort(step) - effort(0 * step), columns @ step, atol=1e-11)


def test_a_joint_that_rests_is_named(recording):
    position, command = recording.position.copy(), recording.command.copy()
    position[:, 2] = command[:, 2] = 0.3
    still = replace(recording, position=position, command=command)
    with pytest.raises(IdentifiabilityError, match="'right_hip' does not move"):
        fit_servo(robot(), [still], SERVO, SIMULATOR)


def test_recordings_with_too_few_positions_are_refused(recording):
    few = replace(recording.rows(0, 30), held_out=np.arange(30) > 9)
    with pytest.raises(IdentifiabilityError, match='joints in motion for 25 parameters'):
        fit_servo(robot(), [few], SERVO, SIMULATOR)


def test_recordings_without_a_stretch_are_refused(recording):
    with pytest.raises(RecordingError, match='no ten samples without a gap'):
        stretches_of([recording.rows(0, 5)])
