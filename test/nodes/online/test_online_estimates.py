# SPDX-License-Identifier: Apache-2.0
"""The live estimate over DDS: that of the core, at any speed."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip('rclpy')

from rclpy.qos import QoSProfile, ReliabilityPolicy
from robot_identification.data.clock import clock_of
from robot_identification.nodes.common.motion_messages import time_message
from robot_identification_msgs.msg import OnlineStatus, Parameter, ParameterSet
from sensor_msgs.msg import JointState

RATE = 250.0


def test_estimates_are_those_of_the_core(live):
    messages = live.states()
    status = live.play(messages)
    assert (status.lost, status.refused, status.disordered, status.gaps) == (0, 0, 0, 0)
    assert status.state == OnlineStatus.LEARNING
    assert status.rate == pytest.approx(RATE, rel=0.2)
    values = live.values()
    expected = live.expected(messages)
    assert status.rows == expected.rows
    np.testing.assert_array_equal(values, expected.values)
    message = live.parameters[-1]
    b = len(message.parameters)
    covariance = np.array(message.covariance).reshape(b, b)
    estimate = expected.estimate()
    np.testing.assert_array_equal(covariance, estimate.covariance)
    for p, std, flag in zip(message.parameters, estimate.std, estimate.flags, strict=True):
        assert p.std == std or np.isnan(p.std) and np.isnan(std)
        known = {1: Parameter.IDENTIFIED, 0: Parameter.NOT_EXCITED, -1: Parameter.DEPENDENT}
        assert p.state == known[int(flag)]
    truth = expected.structure.project(live.arm.truth)
    errors = np.abs(values - truth.values) / estimate.std
    assert np.nanmax(errors) < 6.0


def test_speed_and_gaps_do_not_matter(live):
    """At 1x and 5x, with a quarter of a second missing: the same parameters."""
    messages = live.states(seconds=3.0)
    messages = messages[:380] + messages[440:]
    found = []
    for speed in (1.0, 5.0):
        live.reset()
        status = live.play(messages, speed)
        assert status.gaps == 1
        assert status.longest_gap == pytest.approx(61.0 / RATE)
        assert status.updates == len(messages) - 200
        found.append(live.values())
    np.testing.assert_allclose(found[1], found[0], rtol=1e-9, atol=0.0)


def test_other_order_of_joints(live):
    messages = live.states()
    expected = live.expected(messages).values
    for message in messages[400:]:
        message.name = message.name[::-1]
        for field in ('position', 'velocity', 'effort'):
            setattr(message, field, getattr(message, field)[::-1])
    live.play(messages)
    np.testing.assert_array_equal(live.values(), expected)


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
