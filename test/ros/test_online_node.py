# SPDX-License-Identifier: Apache-2.0
"""Live identification over DDS: the same numbers at any speed, faults told, every service."""

from __future__ import annotations

import os
from pathlib import Path
import signal
import sys
import time

import numpy as np
import pytest

pytest.importorskip('rclpy')

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from robot_identification.nodes.motion_messages import time_message
from robot_identification.nodes.online_options import online_signals
from robot_identification.online import OnlineIdentifier
from robot_identification_msgs.msg import OnlineStatus, Parameter, ParameterSet
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import JointState
from std_msgs.msg import Header, String
from std_srvs.srv import SetBool, Trigger

RATE = 250.0
START = 1_000_000_000  # [ns]
SECONDS = 4.0
QUEUE = QoSProfile(depth=5000)
ALL = QoSProfile(depth=1000, durability=DurabilityPolicy.TRANSIENT_LOCAL)


class Live:
    """The node with the live identification on, and what it says."""

    def __init__(self, ros, arm, output, name='/identification'):
        self.ros, self.arm, self.output, self.name = ros, arm, output, name
        self.statuses = ros.subscribe(OnlineStatus, f'{name}/online/status', ALL)
        self.parameters = ros.latched(ParameterSet, f'{name}/online/parameters')
        self.diagnostics = ros.subscribe(DiagnosticArray, '/diagnostics', 100)
        self.publisher = ros.publisher(
            JointState, 'joint_states', QUEUE, wait_for_subscribers=1, timeout=30.0
        )

    @property
    def status(self):
        return self.statuses[-1]

    def states(self, seed=1, seconds=SECONDS, load=None):
        """Return messages of a motion, stamped from `START` on; with a load at the last link."""
        joints = list(self.arm.robot.joints)
        return [
            JointState(
                header=Header(stamp=time_message(START + round(1e9 * t))),
                name=joints,
                position=position,
                velocity=velocity,
                effort=effort,
            )
            for t, position, velocity, effort in zip(*self.arm.states(seed, seconds, load))
        ]

    def play(self, messages, speed=5.0):
        """Publish messages with the spacing of their stamps, and wait until all have come."""
        before = self.status.messages
        begin, first = time.perf_counter(), _stamp(messages[0])
        for message in messages:
            left = begin + (_stamp(message) - first) / speed - time.perf_counter()
            if left > 0.0:
                time.sleep(left)
            self.publisher.publish(message)
        self.wait(lambda s: s.messages >= before + len(messages), 'all joint states')
        return self.status

    def wait(self, condition, what, timeout=10.0):
        """Wait for a status for which ``condition`` holds, and return it."""
        end = time.monotonic() + timeout
        while not (self.statuses and condition(self.status)):
            assert time.monotonic() < end, f'{what}: not within {timeout} s; {self.statuses[-1:]}'
            self.ros.spin(0.02)
        return self.status

    def reset(self):
        """Begin a new estimate."""
        answer = self.call(Trigger, 'reset')
        assert answer.success, answer.message
        self.wait(lambda s: s.messages == 0 and s.state == OnlineStatus.WAITING, 'the reset')
        self.parameters.clear()
        self.statuses[:] = self.statuses[-1:]
        self.diagnostics.clear()

    def call(self, kind, service, **fields):
        return self.ros.call(kind, f'{self.name}/online/{service}', timeout=30.0, **fields)

    def values(self):
        """Return the newest parameters as an array, once they are of the newest status."""
        stamp = self.status.header.stamp
        rows = self.status.rows
        self.wait(lambda s: s.rows == rows, 'rest')
        self.ros.spin(0.25)
        assert stamp == self.status.header.stamp
        return np.array([p.value for p in self.parameters[-1].parameters])

    def told(self, words):
        """Wait for a status and a diagnostic warning with these words."""
        self.ros.wait_until(
            lambda: any(words in s.message for s in self.statuses), 5.0, f'status: {words}'
        )

        self.diagnostic('online', words)

    def diagnostic(self, topic, words):
        """Wait for a diagnostic warning with these words, and return it."""

        def warnings():
            return [
                s
                for array in self.diagnostics
                for s in array.status
                if s.name.endswith(f': {topic}')
                and words in s.message
                and s.level != DiagnosticStatus.OK
            ]

        self.ros.wait_until(warnings, 5.0, f'diagnostic: {words}')
        return warnings()[0]


def _stamp(message):
    return message.header.stamp.sec + 1e-9 * message.header.stamp.nanosec


def shifted(messages, seconds):
    """Return the messages with later stamps."""
    for message in messages:
        nanoseconds = round(1e9 * _stamp(message)) + round(1e9 * seconds)
        message.header.stamp = time_message(nanoseconds)
    return messages


@pytest.fixture(scope='module')
def process(request, ros_domain, arm, tmp_path_factory):
    """Start the node once; the tests reset it."""
    plugins = request.config.pluginmanager.get_plugins()
    ros = next(plugin.Ros for plugin in plugins if hasattr(plugin, 'Ros'))()
    output = tmp_path_factory.mktemp('live')
    try:
        ros.start(
            'identification',
            parameters={
                **arm.parameters,
                'output': str(output),
                'online.enabled': True,
                'online.publish_rate': 20.0,
                'online.stale': 0.5,
                'signals.trim': 0.0,
                'online.changes.enabled': True,
                'online.changes.window': 0.5,
                'online.changes.learning': 4.0,
            },
        )
        yield Live(ros, arm, output)
    finally:
        ros.close()


@pytest.fixture
def live(process):
    process.reset()
    return process


def in_process(arm, messages):
    """Return what the core makes of the messages, without any ROS."""
    from robot_identification.base_parameters import structure
    from robot_identification.problem import Problem
    from robot_identification.signals import SignalSettings

    problem = Problem(arm.robot)
    regressor = problem.regressor()
    signals = online_signals(SignalSettings(dead_zone=0.05, trim=0.0))
    identifier = OnlineIdentifier(
        regressor,
        structure(regressor, arm.robot),
        arm.robot.joints,
        signals,
        period=1.0 / RATE,
        prior=problem.prior(),
    )
    for message in messages:
        stamp = round(1e9 * _stamp(message)) - START
        identifier.push(1e-9 * stamp, np.array(message.position), np.array(message.effort))
    return identifier


def test_estimates_are_those_of_the_core(live):
    messages = live.states()
    status = live.play(messages)
    assert (status.lost, status.refused, status.disordered, status.gaps) == (0, 0, 0, 0)
    assert status.state == OnlineStatus.LEARNING
    assert status.rate == pytest.approx(RATE, rel=0.2)
    values = live.values()
    expected = in_process(live.arm, messages)
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


def test_states_that_stop(live):
    live.play(live.states(seconds=1.0))
    live.told('no joint states for')
    assert live.status.state == OnlineStatus.WAITING
    rows = live.status.rows
    live.play(shifted(live.states(2, 1.0), 3.0))
    assert live.status.gaps == 1
    assert live.status.rows > rows


def test_states_at_half_the_rate(live):
    live.play(live.states(seconds=1.0))
    slow = shifted(live.states(2, 2.0), 1.0)[::2]
    live.play(slow, 1.0)
    live.told('joint states come at 125 Hz, at the start it was 250 Hz')
    assert live.status.gaps == 0


def test_a_joint_that_is_lost(live):
    messages = live.states(seconds=2.0)
    for message in messages[300:400]:
        message.name = message.name[:2]
        for field in ('position', 'velocity', 'effort'):
            setattr(message, field, getattr(message, field)[:2])
    status = live.play(messages, 1.0)
    live.told("joint 'joint_3' is not in the joint states")
    assert status.refused == 100
    assert status.gaps == 1


def test_other_joints(live):
    messages = live.states(seconds=1.0)
    for message in messages:
        message.name = ['a', 'b', 'c']
    status = live.play(messages, 1.0)
    live.told("joint 'joint_1' is not in the joint states")
    assert status.state == OnlineStatus.WAITING
    assert (status.updates, status.refused) == (0, len(messages))


def test_a_gripper_on_the_same_topic(live):
    """Its states, which have none of the joints, are no trouble."""
    messages = live.states(seconds=1.2)
    expected = in_process(live.arm, messages).rows
    both = []
    for message in messages:
        gripper = JointState(header=message.header, name=['finger'], position=[0.0])
        both += [message, gripper]
    live.statuses.clear()
    live.wait(lambda s: True, 'a status')
    status = live.play(both, 1.0)
    assert status.rows == expected
    assert status.refused == len(messages)
    assert {s.message for s in live.statuses if s.updates} == {''}


def test_other_order_of_joints(live):
    messages = live.states()
    expected = in_process(live.arm, messages).values
    for message in messages[400:]:
        message.name = message.name[::-1]
        for field in ('position', 'velocity', 'effort'):
            setattr(message, field, getattr(message, field)[::-1])
    live.play(messages)
    np.testing.assert_array_equal(live.values(), expected)


def test_effort_that_is_missing_or_not_finite(live):
    messages = live.states(seconds=3.0)
    for message in messages[300:310]:
        message.effort = []
    for message in messages[600:620]:
        message.effort[1] = np.nan
    status = live.play(messages, 1.0)
    live.told('3 names but 0 values of effort')
    live.told("effort of joint 'joint_2' is nan")
    assert status.refused == 30


def test_time_that_goes_back(live):
    messages = live.states(seconds=1.2)
    live.play(messages, 2.0)
    live.play(messages, 2.0)
    live.told('the stamps went back by 1.2 s')
    assert (live.status.gaps, live.status.refused) == (1, 0)
    assert live.status.state == OnlineStatus.LEARNING


def test_stamps_not_in_order(live):
    messages = live.states(seconds=1.5)
    messages[300:302] = messages[301], messages[300]
    status = live.play(messages, 1.0)
    assert status.disordered == 1
    assert status.gaps == 0


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


def test_save(live):
    from robot_identification.estimation import choose_prior
    from robot_identification.regressors import ModelSettings, prior
    from robot_identification.robot import Robot
    import yaml

    early = live.call(Trigger, 'save')
    assert not early.success
    assert 'no live estimate' in early.message
    assert not list(live.output.iterdir())
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
    from robot_identification.base_parameters import structure
    from robot_identification.regressors import build

    base = structure(build(live.arm.robot, ModelSettings()), live.arm.robot)
    np.testing.assert_allclose(base.project(told).values, values, rtol=1e-6, atol=1e-9)


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
    os.kill(child_of(live.ros.processes[0].pid), signal.SIGKILL)
    status = live.wait(lambda s: s.state == OnlineStatus.OFF, 'the end')
    assert 'ended' in status.message
    answer = live.call(Trigger, 'save')
    assert not answer.success and 'ended' in answer.message
    assert live.call(SetBool, 'enable', data=True).success
    live.wait(lambda s: s.state == OnlineStatus.WAITING, 'on', 60.0)


def test_replay(process, write_states, tmp_path):
    """Played with /clock, at 1x and 5x: what the live run gave, to the last bit."""
    arm, ros = process.arm, process.ros
    time, position, velocity, effort = arm.states(4, 3.0)
    bag = write_states(tmp_path / 'run', arm.robot.joints, time, position, velocity, effort)
    found = []
    ros.start(
        'identification',
        parameters={
            **arm.parameters,
            'signals.trim': 0.0,
            'online.enabled': True,
            'online.publish_rate': 20.0,
            'use_sim_time': True,
        },
        namespace='/replay',
    )
    statuses = ros.subscribe(OnlineStatus, '/replay/identification/online/status', ALL)
    published = ros.latched(ParameterSet, '/replay/identification/online/parameters')
    unsure = QoSProfile(depth=5000, reliability=ReliabilityPolicy.BEST_EFFORT)
    clock = ros.subscribe(Clock, '/clock', unsure)
    ros.wait_until(
        lambda: statuses and statuses[-1].state == OnlineStatus.WAITING, 60.0, 'the start'
    )
    clocks = []
    for rate in ('1.0', '5.0'):
        played = ros.start_command(
            'player',
            [Path(sys.executable).parent / 'robot-identification', 'play', bag, '--rate', rate]
            + ['--to', '/replay/joint_states'],
            wait=False,
        )
        ros.wait_until(lambda p=played: p.returncode is not None, 60.0, 'the end')
        assert played.returncode == 0, played.output
        assert f'played {time.size} joint states' in played.output
        ros.wait_until(lambda: statuses[-1].updates == time.size - 200, 10.0, 'all updates')
        ros.spin(0.2)
        assert statuses[-1].lost == 0
        found.append(np.array([p.value for p in published[-1].parameters]))
        clocks.append([message.clock.sec + 1e-9 * message.clock.nanosec for message in clock])
        assert ros.call(Trigger, '/replay/identification/online/reset').success
        ros.wait_until(lambda: statuses[-1].messages == 0, 10.0, 'the reset')
    ticks = np.array(clocks[0])  # sent without guarantees: at 5x, hardly long enough to be found
    assert ticks[0] >= 1.0 and ticks[-1] <= 1.0 + time[-1]
    assert (np.diff(ticks) > 0.0).all()
    messages = process.states(4, 3.0)
    expected = in_process(arm, messages).values
    np.testing.assert_array_equal(found[0], expected)
    np.testing.assert_array_equal(found[1], expected)


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
    ros.wait_until(lambda: published and published[-1].robot == 'szabo_3r', 20.0, 'parameters')
    description.publish(String(data=urdf.replace('szabo_3r', 'another_3r')))
    ros.wait_until(
        lambda: any(s.state == OnlineStatus.STARTING for s in statuses[-5:]), 10.0, 'the change'
    )
    statuses.clear()
    ros.wait_until(
        lambda: statuses and statuses[-1].state == OnlineStatus.WAITING, 60.0, 'the start'
    )
    ros.wait_until(lambda: publisher.get_subscription_count() == 1, 10.0, 'the other one')
    for message in messages:
        publisher.publish(message)
    ros.wait_until(lambda: published[-1].robot == 'another_3r', 20.0, 'its parameters')


def child_of(pid):
    children = Path(f'/proc/{pid}/task/{pid}/children').read_text().split()
    for task in Path(f'/proc/{pid}/task').iterdir():
        children += (task / 'children').read_text().split()
    (child,) = set(children)
    return int(child)
