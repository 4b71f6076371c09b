# SPDX-License-Identifier: Apache-2.0
"""Choice of signals and friction terms: against simulated arms whose terms are known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from robot_identification.data.recording import Motion, Recording
from robot_identification.model.robot import Robot
from robot_identification.regressor import build, ModelSettings, prior
from robot_identification.regressor.joint_terms import DryFriction
from robot_identification.regressor.kinds import STIFF_TREE
from robot_identification.selection.cross_validation import COMPARISON, FoldedRows
from robot_identification.selection.model_selection import can_choose, choose_model
from robot_identification.signals import SignalSettings
import scipy

from benchmarks.defective_arms import case, not_there

URDF = Path(__file__).parents[2] / 'urdf' / 'demo_arm.urdf'
RATE = 200.0
ALL = ('viscous', 'coulomb', 'offset', 'root', 'load')
FILTER = ('signals.method', 'signals.cutoff')
CHANNEL = ('signals.effort_delay', 'signals.effort_low_pass')
KEYS = {
    *FILTER,
    *CHANNEL,
    'signals.decimate_to',
    'signals.dead_zone',
    'robot.friction',
    'robot.breakaway',
    'robot.reversal_speed',
    'robot.joint_springs',
    'robot.base_tilt',
}


@pytest.fixture(scope='module')
def arm():
    return Robot.from_urdf(URDF)


def _motion(n, duration=30.0):
    """Make sums of sines whose derivatives are exact."""
    time = np.arange(0.0, duration, 1.0 / RATE)
    rng = np.random.default_rng(5)
    frequency = 2 * np.pi * np.outer(np.arange(1, 6), np.full(n, 0.12)) * rng.uniform(0.9, 1.1, n)
    amplitude = rng.uniform(0.2, 0.6, (5, n)) / np.arange(1, 6)[:, None]
    phase = rng.uniform(0.0, 6.0, (5, n))
    angle = frequency * time[:, None, None] + phase
    position = (amplitude * np.sin(angle)).sum(axis=1)
    velocity = (amplitude * frequency * np.cos(angle)).sum(axis=1)
    acceleration = -(amplitude * frequency**2 * np.sin(angle)).sum(axis=1)
    return time, Motion(position, velocity, acceleration)


def _recording(
    robot,
    *,
    noise=0.05,
    gravity=None,
    breakaway=None,
    sticks=None,
    channel=None,
    late=0.0,
    spring=None,
    **friction,
):
    """Efforts of the URDF's bodies with given friction, measured with white noise."""
    time, motion = _motion(robot.n_joints)
    actual = robot if gravity is None else robot.with_gravity(gravity)
    model = ModelSettings(friction=ALL)
    if breakaway or sticks:
        state = DryFriction(np.full(robot.n_joints, breakaway or 0.0), 1.0 / RATE)
        state = state.push(motion.velocity)
        if sticks:  # at rest, dry friction is what holds, and goes from one sign to the other
            state = scipy.ndimage.uniform_filter1d(state, round(sticks * RATE), axis=0)
        motion = Motion(
            motion.position, motion.velocity, motion.acceleration, friction_state=state
        )
        model = ModelSettings(friction=ALL, breakaway=0.02)
    truth = prior(actual, model)
    values = truth.values.copy()
    for i, name in enumerate(truth.layout):
        symbol = name.rpartition('.')[2]
        if symbol in ('fv', 'fc', 'off', 'fr', 'fl', 'Ia'):
            values[i] = friction.get(symbol, {'fv': 0.5, 'fc': 0.8, 'Ia': 0.05}.get(symbol, 0.0))
    effort = (build(actual, model).rows(motion) @ values).reshape(-1, robot.n_joints)
    if spring is not None:
        joint, size = spring
        effort[:, joint] += size * np.sin(motion.position[:, joint] + 0.7)
    if channel is not None:
        joint, delay = channel
        spline = scipy.interpolate.CubicSpline(time, effort[:, joint])
        effort[:, joint] = spline(np.maximum(time - delay, 0.0))
    if late:
        effort = scipy.interpolate.CubicSpline(time, effort)(np.maximum(time - late, 0.0))
    rng = np.random.default_rng(1)
    effort += noise * rng.standard_normal(effort.shape)
    return Recording(time, motion.position, effort, robot.joints, motion.velocity)


def _choose(robot, recording, *chosen, present=None):
    """Choose the settings of some keys, or of all."""
    given = KEYS.difference(chosen) if chosen else ()
    settings = ModelSettings(), SignalSettings()
    return choose_model([recording], robot, *settings, frozenset(given), present=present)


@pytest.mark.parametrize(('method', 'cutoff'), [('butterworth', 10.0), ('measured_velocity', 5.0)])
def test_the_filter_in_force_is_kept_among_equals(arm, method, cutoff):
    recording = _recording(arm, noise=2.0)
    present = SignalSettings(method=method, cutoff=cutoff)
    chosen = _choose(arm, recording, *FILTER, present=present).signals
    assert (chosen.method, chosen.cutoff) == (method, cutoff)
    assert _choose(arm, recording, *FILTER).signals.cutoff == 25.0


def test_a_filter_leaves_more_rows_than_parameters(arm):
    """Of three seconds at 3 Hz or 5 Hz there are fewer than the first joint's parameters."""
    whole = _recording(arm, noise=100.0)
    short = whole.time < 3.0
    recording = Recording(
        whole.time[short], whole.position[short], whole.effort[short], whole.joints,
        whole.velocity[short],
    )  # fmt: skip
    for cutoff in (3.0, 5.0):
        present = SignalSettings(cutoff=cutoff)
        signals = _choose(arm, recording, *FILTER, present=present).signals
        assert signals.cutoff > 5.0


def test_the_dead_zone_in_force_is_kept_among_equals(arm):
    recording = _recording(arm, breakaway=0.05, noise=0.5)
    kept, free = (
        _choose(arm, recording, 'signals.dead_zone', present=present).signals.dead_zone
        for present in (SignalSettings(dead_zone=0.1), None)
    )
    assert np.count_nonzero(np.equal(kept, 0.1)) >= 4
    assert np.count_nonzero(np.equal(free, 0.02)) >= 4


def test_a_filter_in_force_that_predicts_worse_is_left(arm):
    # signs of velocities that jitter at the reversals need a dead zone, and a low cut-off
    recording = _recording(arm)
    rng = np.random.default_rng(2)
    velocity = recording.velocity + 0.3 * rng.standard_normal(recording.velocity.shape)
    noisy = Recording(
        recording.time, recording.position, recording.effort, recording.joints, velocity
    )
    present = SignalSettings(method='measured_velocity', cutoff=25.0)
    chosen = _choose(arm, noisy, *FILTER, 'signals.dead_zone', present=present).signals
    assert (chosen.method, chosen.cutoff) != ('measured_velocity', 25.0)


def test_plain_friction_gets_no_further_terms(arm):
    chosen = _choose(arm, _recording(arm))
    assert chosen.model == ModelSettings()
    assert chosen.signals.cutoff == 25.0  # exact positions: the highest of equals
    assert not np.any(chosen.signals.effort_delay)
    assert not np.any(chosen.signals.effort_low_pass)
    assert not chosen.tilt.any()


def test_friction_by_load_is_found(arm):
    chosen = _choose(arm, _recording(arm, fl=0.15), 'robot.friction')
    assert 'load' in chosen.model.friction
    text = chosen.summary()
    assert 'robot.friction: [viscous, coulomb, offset, load]' in text
    assert "against friction without 'load'" in text


def test_friction_by_the_cube_root_is_found(arm):
    chosen = _choose(arm, _recording(arm, fr=2.0), 'robot.friction')
    assert 'root' in chosen.model.friction


def test_dry_friction_that_holds_at_rest_is_found(arm):
    chosen = _choose(arm, _recording(arm, breakaway=0.02, fc=3.0), 'robot.breakaway')
    np.testing.assert_allclose(chosen.model.breakaway, 0.02, atol=0.011)


def test_a_late_effort_is_found_at_its_joint_alone(arm):
    chosen = _choose(arm, _recording(arm, channel=(1, 0.045)), *CHANNEL)
    delays = np.broadcast_to(chosen.signals.effort_delay, arm.n_joints)
    assert delays[1] == pytest.approx(0.045)
    assert (np.delete(delays, 1) == 0.0).all()


def test_a_late_effort_is_found_in_full_where_a_breakaway_makes_up_for_a_part_of_it():
    name = 'one effort 45 ms late'
    made = case(name, 4)
    settings = ModelSettings(), SignalSettings()
    chosen = choose_model([made.recording], made.robot, *settings, frozenset())
    assert not_there(name, made, chosen) == []
    late = chosen.signals.effort_delay[made.robot.joints.index(made.joint)]
    assert late == pytest.approx(0.045, abs=0.005)


def test_sticking_at_reversals_is_no_low_pass(arm):
    """It would be one of all efforts; at the last two joints there is little but friction."""
    chosen = _choose(arm, _recording(arm, sticks=0.05, fc=3.0), *CHANNEL).signals
    low_passes = np.broadcast_to(chosen.effort_low_pass, arm.n_joints)
    assert not np.any(chosen.effort_delay) and not low_passes[:4].any()


@pytest.mark.parametrize('joint', [0, 4])
def test_spring_is_found_at_its_joint_alone(arm, joint):
    chosen = _choose(arm, _recording(arm, spring=(joint, 2.0)), 'robot.joint_springs')
    assert chosen.model.joint_springs == (arm.joints[joint],)
    assert chosen.settings()['robot.joint_springs'] == (arm.joints[joint],)


def test_a_tilted_base_is_found(arm):
    """Gravity turned by 1.5 degrees about x."""
    angle = np.radians(1.5)
    turned = [0.0, 9.81 * np.sin(angle), -9.81 * np.cos(angle)]
    chosen = _choose(arm, _recording(arm, gravity=turned), 'robot.base_tilt')
    np.testing.assert_allclose(np.degrees(chosen.tilt), [1.5, 0.0, 0.0], atol=0.15)


@pytest.mark.parametrize('given', [False, True])
def test_a_delay_of_all_efforts_is_found_or_in_force_from_the_start(arm, given):
    recording = _recording(arm, late=0.04)
    if not given:
        chosen = _choose(arm, recording)
        delays = np.broadcast_to(chosen.signals.effort_delay, arm.n_joints)
        np.testing.assert_allclose(delays, 0.04, atol=0.006)
        assert chosen.model.joint_springs == ()
        return
    signals = SignalSettings(effort_delay=0.04)
    keys = frozenset({'signals.effort_delay'})
    chosen = choose_model([recording], arm, ModelSettings(), signals, keys)
    assert chosen.signals.effort_delay == 0.04
    assert chosen.model.joint_springs == ()
    assert set(chosen.model.friction) == set(ModelSettings().friction)


def test_a_base_that_leans_far_is_found_before_terms_that_make_up_for_it(arm):
    """Gravity turned by 8 degrees about x."""
    angle = np.radians(8.0)
    turned = [0.0, 9.81 * np.sin(angle), -9.81 * np.cos(angle)]
    chosen = _choose(arm, _recording(arm, gravity=turned))
    np.testing.assert_allclose(np.degrees(chosen.tilt), [8.0, 0.0, 0.0], atol=0.3)
    assert chosen.model.joint_springs == ()
    assert set(chosen.model.friction) == set(ModelSettings().friction)


def test_springs_that_stretches_do_not_decide_are_left_out_and_named(arm, monkeypatch):
    """With springs it is better in the mean of the stretches, but not in every one."""
    saved = np.array([-0.4, 0.0, 0.05, 0.0, -0.45])

    def cost(self):
        plain = np.zeros((2, COMPARISON.folds, arm.n_joints))
        springs = any(name.endswith('.kc') for name in self.structure.layout)
        return plain + (self.saved - 0.02)[:, None] if springs else plain

    monkeypatch.setattr(FoldedRows, 'cost', cost)
    for shape, decided in ((saved, False), (np.full(COMPARISON.folds, -0.2), True)):
        monkeypatch.setattr(FoldedRows, 'saved', shape, raising=False)
        chosen = _choose(arm, _recording(arm), 'robot.joint_springs')
        assert bool(chosen.model.joint_springs) is decided
        (choice,) = chosen.choices
        assert ('not decided' in str(choice)) is not decided


def test_what_is_given_is_kept(arm):
    recording = _recording(arm, fl=0.15, channel=(1, 0.045), spring=(0, 2.0))
    settings = ModelSettings(), SignalSettings()
    chosen = choose_model([recording], arm, *settings, frozenset(KEYS))
    assert (chosen.model, chosen.signals) == settings
    assert chosen.choices == ()
    assert not chosen.tilt.any()


def test_windows_of_polynomials_are_left_alone():
    signals = SignalSettings(method='polynomial_approximation')
    assert not can_choose(STIFF_TREE, signals, {'signals.method'})
    assert can_choose(STIFF_TREE, SignalSettings(), ())
