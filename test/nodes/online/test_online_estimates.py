# SPDX-License-Identifier: Apache-2.0
"""Estimates over DDS are those of the core; changes and faults are reported, and it goes on."""

from __future__ import annotations

import os

import numpy as np
import pytest

pytest.importorskip('rclpy')

from rclpy.qos import QoSProfile, ReliabilityPolicy
from robot_identification.data.clock import clock_of
from robot_identification.nodes.common.messages import time_message
from robot_identification_msgs.msg import OnlineStatus, Parameter, ParameterSet
from sensor_msgs.msg import JointState
from std_srvs.srv import SetBool

from benchmarks.load import busy_processes

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
    live.diagnostics.clear()
    values = {pair.key: pair.value for pair in live.report('online').values}
    assert float(values['rate [Hz]']) > 0.0 or values['rate [Hz]'] == 'nan'
    assert float(values['jitter [ms]']) == pytest.approx(1e3 * clock.jitter, abs=1e-3)
    assert (values['without effort'], values['with an effort at its limit']) == ('1', '1')
    assert any('+-' in value for key, value in values.items() if key.startswith('effort of'))


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
    live.told('no joint states for')
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
        lambda: values_of(live)['updates'] == '800', 5.0, 'the diagnostic of all updates'
    )
    values = values_of(live)
    assert (values['lost'], values['late updates']) == ('0', str(status.late_updates))


def values_of(live):
    return {pair.key: pair.value for pair in live.report('online').values}


def _schedule(pid, policy, parameters):
    for thread in os.listdir(f'/proc/{pid}/task'):
        os.sched_setscheduler(int(thread), policy, parameters)
