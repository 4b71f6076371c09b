# SPDX-License-Identifier: Apache-2.0
"""Live estimates over DDS are those of the core and of a replay; requests; another robot."""

from __future__ import annotations

import os
from pathlib import Path
import signal
import sys

import numpy as np
import pytest

from benchmarks.load import busy_processes

pytest.importorskip('rclpy')

from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from robot_identification.data.sampling import clock_of
from robot_identification.nodes.common.messages import time_message
from robot_identification_msgs.msg import OnlineStatus, Parameter, ParameterSet
from robot_identification_msgs.srv import StartRecording, StopRecording
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from std_srvs.srv import SetBool, Trigger

RATE = 250.0


def test_estimates_are_those_of_the_core(live):
    messages = live.states()
    status = live.play(messages)
    assert (status.lost, status.refused, status.disordered, status.gaps) == (0, 0, 0, 0)
    assert status.state == OnlineStatus.LEARNING
    rates = [s.rate for s in live.statuses if not np.isnan(s.rate)]
    assert rates[-1] == pytest.approx(RATE, rel=0.2)
    values = live.values()
    expected = live.expected(messages)
    assert status.rows == expected.rows
    live.require(expected)
    message = live.parameters[-1]
    b = len(message.parameters)
    covariance = np.array(message.covariance).reshape(b, b)
    estimate = expected.estimate()
    np.testing.assert_allclose(covariance, estimate.covariance, rtol=1e-9)
    for p, std, flag in zip(message.parameters, estimate.std, estimate.flags, strict=True):
        assert p.std == pytest.approx(std, rel=1e-9, nan_ok=True)
        known = {1: Parameter.IDENTIFIED, 0: Parameter.NOT_EXCITED, -1: Parameter.DEPENDENT}
        assert p.state == known[int(flag)]
    truth = expected.structure.project(live.arm.truth)
    errors = np.abs(values - truth.values) / estimate.std
    assert np.nanmax(errors) < 6.0


def test_publisher_without_guarantees(live):
    """A driver that publishes best effort is heard as well."""
    kind = QoSProfile(depth=5000, reliability=ReliabilityPolicy.BEST_EFFORT)
    reliable = live.publisher
    live.publisher = live.ros.publisher(JointState, 'joint_states', kind)
    try:
        live.ros.wait_until(lambda: live.publisher.get_subscription_count() == 1)
        status = live.play(live.states(seconds=1.2), 1.0)
        assert status.updates == 100
    finally:
        live.ros.node.destroy_publisher(live.publisher)
        live.publisher = reliable


def test_identification_from_a_bag_meanwhile(live, identify, arm):
    """Both estimates come out, each under its own name."""
    offline = live.ros.latched(ParameterSet, '/identification/parameters')
    messages = live.states()
    live.play(messages[:300])
    answer = identify(live.ros, arm.bags['short'])
    assert answer.success, answer.message
    live.ros.wait_until(lambda: bool(offline), what='parameters')
    status = live.play(messages[300:])
    assert status.lost == 0
    assert offline[-1].parameters == answer.base.parameters
    assert not np.array_equal(live.values(), [p.value for p in offline[-1].parameters])


def test_quality_of_clock_and_effort_is_told(live):
    """Jitter by the formula of recordings, efforts that are late, at their limit, missing."""
    messages = live.states(seconds=6.0)
    late = 3  # samples
    efforts = [list(message.effort) for message in messages]
    noise = np.random.default_rng(5).normal(0.0, 1e-4, len(messages))
    stamps = []
    for place, message in enumerate(messages):
        message.effort = efforts[max(0, place - late)]
        stamps.append(round(1e9 * (1.0 + place / RATE + noise[place])))
        message.header.stamp = time_message(stamps[-1])
    limit = live.arm.robot.limits.effort[0]
    messages[400].effort[0] = 1.5 * limit
    messages[800].effort = []
    status = live.play(messages)
    clock = clock_of([1e-9 * np.delete(stamps, 800)])
    assert status.jitter == pytest.approx(clock.jitter, rel=1e-6)
    assert status.longest_gap == pytest.approx(clock.longest, rel=1e-6)
    assert tuple(status.joints) == live.arm.robot.joints
    assert len(status.effort_delay) == len(status.effort_delay_std) == len(status.joints)
    known = live.wait(
        lambda s: (np.array(s.effort_delay_std) < 1e-3).any(), 'how late efforts are', timeout=20.0
    )
    delay, std = np.array(known.effort_delay), np.array(known.effort_delay_std)
    told = np.isfinite(delay)
    assert (std[told] > 0.0).all()
    assert (np.abs(delay - late / RATE)[told] < 4.0 * std[told]).all()

    def all_known():
        values = values_of(live)
        delays = [value for key, value in values.items() if key.startswith('effort of')]
        return values['joint states'] == str(len(messages)) and any('+-' in d for d in delays)

    live.ros.wait_until(all_known, 60.0, 'the diagnostic of all joint states and delays')
    values = values_of(live)
    assert float(values['rate [Hz]']) > 0.0 or values['rate [Hz]'] == 'nan'
    assert float(values['jitter [ms]']) == pytest.approx(1e3 * clock.jitter, abs=1e-3)
    assert (values['without effort'], values['with an effort at its limit']) == ('1', '1')


def test_a_payload_is_told(live):
    """While the estimate is frozen: with the link that carries it and its mass."""
    load = np.array([1.0, 0.0, 0.0, 0.0, 0.01, 0.0, 0.01, 0.0, 0.0, 0.01])
    empty, loaded = live.states(seconds=12.0), live.states(seconds=14.0, load=load)
    live.play(empty[:1500])
    assert live.call(SetBool, 'freeze', data=True).success
    try:
        live.play(empty[1500:] + loaded[3000:])
        link = live.arm.robot.links[-1]
        status = live.diagnostic('change', f"payload at '{link}'")
        values = {pair.key: pair.value for pair in status.values}
        assert values['unit'] == 'kg'
        assert float(values['size']) == pytest.approx(1.0, rel=0.2)
        since = float(values['since, by the stamps [s]'])
        assert 12.5 < since < 13.5
    finally:
        assert live.call(SetBool, 'freeze', data=False).success


def test_states_that_stop(live):
    live.play(live.states(seconds=1.0))
    live.require_status('no joint states for')
    assert live.status.state == OnlineStatus.WAITING
    rows = live.status.rows
    live.play(live.shifted(live.states(2, 1.0), 3.0))
    assert live.status.gaps == 1
    assert live.status.rows > rows


def test_nothing_is_lost_beside_busy_processes(live):
    """At 1 kHz, and without the real-time priority that the process asks for."""
    pid = live.follower_pid()
    policy, parameters = os.sched_getscheduler(pid), os.sched_getparam(pid)
    _schedule(pid, os.SCHED_OTHER, os.sched_param(0))
    try:
        with busy_processes():
            status = live.play(live.states(), speed=4.0)
    finally:
        _schedule(pid, policy, parameters)
    assert (status.messages, status.lost, status.disordered) == (1000, 0, 0)
    status = live.wait(lambda s: s.updates == 1000 - 200, 'all updates')
    live.ros.wait_until(
        lambda: values_of(live)['updates'] == '800', what='the diagnostic of all updates'
    )
    values = values_of(live)
    assert (values['lost'], values['late updates']) == ('0', str(status.late_updates))


def values_of(live):
    return {pair.key: pair.value for pair in live.report('online').values}


def _schedule(pid, policy, parameters):
    for thread in os.listdir(f'/proc/{pid}/task'):
        os.sched_setscheduler(int(thread), policy, parameters)


ALL = QoSProfile(depth=1000, durability=DurabilityPolicy.TRANSIENT_LOCAL)


def recorded(live, messages, folder):
    """Follow the messages live while the recorder records them; return its bag."""
    ros = live.ros
    recorder = ros.start('recorder', parameters={'output': str(folder)})
    answer = ros.call(StartRecording, '/recorder/start', name='run')
    assert answer.success, answer.message
    ros.wait_until(lambda: live.publisher.get_subscription_count() == 2, 60.0, 'both listeners')
    status = live.play(messages, 2.0)
    assert status.lost == 0
    answer = ros.call(StopRecording, '/recorder/stop')
    assert (answer.messages, answer.dropped) == (len(messages), 0), answer.message
    assert recorder.stop() == 0
    return answer.path


def test_what_the_recorder_recorded_gives_what_the_live_run_gave(live, tmp_path):
    """Played with /clock, at 1x and 10x, to the last bit, whenever messages come."""
    arm, ros = live.arm, live.ros
    messages = live.states(4, 3.0)
    bag = recorded(live, messages, tmp_path)
    expected = live.values()
    found = []
    ros.start(
        'identification',
        parameters={
            **arm.parameters,
            'signals.trim': 0.0,
            'online.enabled': True,
            'online.publish_rate': 20.0,
            'online.deadline': 1e-5,
            'use_sim_time': True,
        },
        namespace='/replay',
    )
    statuses = ros.subscribe(OnlineStatus, '/replay/identification/online/status', ALL)
    published = ros.latched(ParameterSet, '/replay/identification/online/parameters')
    ros.wait_until(lambda: statuses[-1].state == OnlineStatus.WAITING, 60.0, 'the start')
    for rate in ('1.0', '10.0'):
        played = ros.start_command(
            'player',
            [sys.executable, '-m', 'robot_identification.cli', 'play', bag, '--rate', rate]
            + ['--to', '/replay/joint_states'],
            wait=False,
        )
        ros.wait_until(lambda p=played: p.returncode is not None, 60.0, 'the end')
        assert played.returncode == 0, played.output
        assert f'played {len(messages)} joint states' in played.output
        ros.wait_until(lambda: statuses[-1].updates == len(messages) - 200, 60.0, 'all updates')
        ros.spin(0.2)
        assert statuses[-1].lost == 0
        # none is done within 10 us: all of them are late, and counted
        assert statuses[-1].late_updates == statuses[-1].updates
        assert any('updates took longer than 0.010 ms' in s.message for s in statuses)
        found.append(np.array([p.value for p in published[-1].parameters]))
        assert ros.call(Trigger, '/replay/identification/online/reset').success
        ros.wait_until(lambda: statuses[-1].messages == 0, 60.0, 'the reset')
    live.require(live.expected(messages))
    np.testing.assert_array_equal(found[0], expected)
    np.testing.assert_array_equal(found[1], expected)


SECONDS = 4.0
QUEUE = QoSProfile(depth=5000)


def test_freeze_and_resume(live):
    messages = live.states()
    live.play(messages[:500])
    answer = live.call(SetBool, 'freeze', data=True)
    assert answer.success, answer.message
    before = live.values()
    rows = live.status.rows
    live.play(messages[500:700], 1.0)
    assert live.status.state == OnlineStatus.FROZEN
    np.testing.assert_array_equal(live.values(), before)
    assert live.status.rows == rows
    assert live.call(SetBool, 'freeze', data=False).success
    live.play(messages[700:])
    assert live.status.rows > rows
    assert not np.array_equal(live.values(), before)


def test_save(live):
    from robot_identification.estimation.prior import choose_prior
    from robot_identification.model.robot import Robot
    from robot_identification.regressor import ModelSettings, prior
    import yaml

    before = set(live.output.iterdir())
    early = live.call(Trigger, 'save')
    assert not early.success
    assert 'no live estimate' in early.message
    assert set(live.output.iterdir()) == before
    live.play(live.states())
    values = live.values()
    folders = [Path(live.call(Trigger, 'save').message.rpartition(' ')[2]) for _ in range(2)]
    assert folders[0] != folders[1]
    written = yaml.safe_load((folders[0] / 'online.yaml').read_text())
    assert [p['value'] for p in written['parameters']] == values.tolist()
    assert written['joint_states']['messages'] == SECONDS * RATE
    assert (folders[0] / 'state.npz').is_file()
    b = len(values)
    assert np.array(written['covariance'], dtype=float).shape == (b, b)
    # the next one can start from it
    robot = Robot.from_urdf(folders[0] / 'identified.urdf')
    told = choose_prior(str(folders[0] / 'online.yaml'), prior(robot, ModelSettings()))
    from robot_identification.regressor import build
    from robot_identification.regressor.base_search import structure

    base = structure(build(live.arm.robot, ModelSettings()), live.arm.robot)
    np.testing.assert_allclose(base.project(told).values, values, rtol=1e-6, atol=1e-9)


def test_off_and_on(live):
    answer = live.call(SetBool, 'enable', data=True)
    assert answer.success and 'already' in answer.message
    assert live.call(SetBool, 'enable', data=False).success
    live.wait(lambda s: s.state == OnlineStatus.OFF, 'off')
    for kind, name in ((Trigger, 'reset'), (Trigger, 'save'), (SetBool, 'freeze')):
        answer = live.call(kind, name)
        assert not answer.success
        assert '~/online/enable' in answer.message
    assert live.call(SetBool, 'enable', data=True).success
    live.wait(lambda s: s.state == OnlineStatus.WAITING, 'on', 60.0)
    live.ros.wait_until(lambda: live.publisher.get_subscription_count() == 1)
    assert live.play(live.states(seconds=1.0)).updates == 50


def test_process_that_is_killed(live):
    """It is told, the node answers, and it can be switched on again."""
    os.kill(live.follower_pid(), signal.SIGKILL)
    status = live.wait(lambda s: s.state == OnlineStatus.OFF, 'the end')
    assert 'ended' in status.message
    answer = live.call(Trigger, 'save')
    assert not answer.success and 'ended' in answer.message
    assert live.call(SetBool, 'enable', data=True).success
    live.wait(lambda s: s.state == OnlineStatus.WAITING, 'on', 60.0)


@pytest.mark.soak
def test_another_robot(process):
    """A description that is replaced begins a new estimate, of the new robot."""
    ros, arm = process.ros, process.arm
    urdf = arm.urdf.read_text()
    description = ros.publish_description(urdf, '/other/robot_description')
    ros.start(
        'identification',
        parameters={'online.enabled': True, 'online.publish_rate': 20.0},
        namespace='/other',
    )
    statuses = ros.subscribe(OnlineStatus, '/other/identification/online/status', ALL)
    published = ros.latched(ParameterSet, '/other/identification/online/parameters')
    publisher = ros.publisher(JointState, '/other/joint_states', QUEUE)
    ros.wait_until(lambda: publisher.get_subscription_count() == 1, 60.0, 'the start')
    messages = process.states(seconds=1.5)
    for message in messages:
        publisher.publish(message)
    ros.wait_until(lambda: published[-1].robot == 'szabo_3r', what='parameters')
    description.publish(String(data=urdf.replace('szabo_3r', 'another_3r')))
    ros.wait_until(
        lambda: any(s.state == OnlineStatus.STARTING for s in statuses[-5:]), what='the change'
    )
    statuses.clear()
    ros.wait_until(lambda: statuses[-1].state == OnlineStatus.WAITING, 60.0, 'the start')
    ros.wait_until(lambda: publisher.get_subscription_count() == 1, what='the other one')
    for message in messages:
        publisher.publish(message)
    ros.wait_until(lambda: published[-1].robot == 'another_3r', what='its parameters')
