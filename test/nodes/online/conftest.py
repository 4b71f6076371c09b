# SPDX-License-Identifier: Apache-2.0
"""The node with the live identification on, for all tests of this folder, which reset it."""

from __future__ import annotations

from functools import partial
from pathlib import Path
import time

import numpy as np
import pytest

pytest.importorskip('rclpy')

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from rclpy.qos import DurabilityPolicy, QoSProfile
from rclpy.serialization import serialize_message
from robot_identification.config.problem import IdentificationProblem
from robot_identification.nodes.common.messages import time_message
from robot_identification.nodes.online_process import status_message
from robot_identification.online import OnlineIdentifier
from robot_identification.online.follower import Follower
from robot_identification.online.settings import online_signals, OnlineOptions
from robot_identification.online.status import StatusSample
from robot_identification.regressor import ModelSettings
from robot_identification.regressor.base_search import structure
from robot_identification.signals import SignalSettings
from robot_identification_msgs.msg import OnlineStatus, ParameterSet
from sensor_msgs.msg import JointState
from std_msgs.msg import Header
from std_srvs.srv import Trigger

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
        self.publisher = ros.publisher(JointState, 'joint_states', QUEUE, wait_for_subscribers=1)

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
        begin, first = time.perf_counter(), stamp_of(messages[0])
        for message in messages:
            left = begin + (stamp_of(message) - first) / speed - time.perf_counter()
            if left > 0.0:
                time.sleep(left)
            self.publisher.publish(message)
        self.wait(lambda s: s.messages >= before + len(messages), 'all joint states')
        return self.status

    def wait(self, condition, what, timeout=60.0):
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
        return self.ros.call(kind, f'{self.name}/online/{service}', **fields)

    def values(self):
        """Return the newest parameters as an array, once they are of the newest status."""
        stamp = self.status.header.stamp
        rows = self.status.rows
        self.wait(lambda s: s.rows == rows, 'rest')
        self.ros.spin(0.25)
        assert stamp == self.status.header.stamp
        return np.array([p.value for p in self.parameters[-1].parameters])

    def require_status(self, words):
        """Wait for a status and a diagnostic warning with these words."""
        self.ros.wait_until(
            lambda: any(words in s.message for s in self.statuses), 60.0, f'status: {words}'
        )

        self.diagnostic('online', words)

    def report(self, topic):
        """Wait for a diagnostic report and return the newest."""

        def found():
            return [s for a in self.diagnostics for s in a.status if s.name.endswith(f': {topic}')]

        self.ros.wait_until(found, 60.0, f'diagnostic of {topic}')
        return found()[-1]

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

        self.ros.wait_until(warnings, 60.0, f'diagnostic: {words}')
        return warnings()[0]

    @staticmethod
    def shifted(messages, seconds):
        """Return the messages with later stamps."""
        for message in messages:
            nanoseconds = round(1e9 * stamp_of(message)) + round(1e9 * seconds)
            message.header.stamp = time_message(nanoseconds)
        return messages

    def expected(self, messages, model=None, **channel):
        """Return what the core makes of the messages, without any ROS."""
        problem = IdentificationProblem(self.arm.robot, model or ModelSettings())
        regressor = problem.regressor()
        signals = online_signals(SignalSettings(dead_zone=0.05, trim=0.0, **channel))
        identifier = OnlineIdentifier(
            regressor,
            structure(regressor, self.arm.robot),
            self.arm.robot.joints,
            signals,
            period=1.0 / RATE,
            prior=problem.prior(),
        )
        for message in messages:
            stamp = round(1e9 * stamp_of(message)) - START
            identifier.push(1e-9 * stamp, np.array(message.position), np.array(message.effort))
        return identifier

    def require(self, expected):
        """Require the estimates of an identifier of the core, but for the rounding of BLAS."""
        rounding = 1e-9 * np.nan_to_num(expected.estimate().std)
        assert (np.abs(self.values() - expected.values) <= rounding).all()

    def follower_pid(self):
        """Return the number of the process that follows the robot."""
        pid = self.ros.processes[0].pid
        children = Path(f'/proc/{pid}/task/{pid}/children').read_text().split()
        for task in Path(f'/proc/{pid}/task').iterdir():
            children += (task / 'children').read_text().split()
        (child,) = set(children)
        return int(child)


class Followed(Live):
    """The live identification in this process: messages are taken, not sent, and statuses made."""

    def __init__(self, arm, model=None, **channel):
        signals = SignalSettings(dead_zone=0.05, trim=0.0, **channel)
        problem = IdentificationProblem(arm.robot, model or ModelSettings(), signals=signals)
        # a busy machine makes updates late
        options = OnlineOptions(stale=60.0, deadline=60.0)
        self.arm, self.follower = arm, Follower(problem, options, system_stamps=False)
        self.reset()

    def reset(self):
        self.follower.reset()
        self.statuses, self._sample = [], StatusSample.from_follower(self.follower)

    def play(self, messages):
        """Have messages taken, and a status made after each tenth of a second."""
        for number, message in enumerate(messages, 1):
            self.follower.take(serialize_message(message), None, time.perf_counter())
            if number % 25 == 0 or number == len(messages):
                now = StatusSample.from_follower(self.follower)
                self.statuses.append(status_message(self.follower, self._sample, now, 0.0, 1))
                self._sample = now
        return self.status

    def values(self):
        return self.follower.snapshot().estimate.values

    def require_status(self, words):
        assert any(words in s.message for s in self.statuses), {s.message for s in self.statuses}


def stamp_of(message):
    """Return the stamp of a joint state [s]."""
    return message.header.stamp.sec + 1e-9 * message.header.stamp.nanosec


def started(ros, arm, output):
    """Start the node, and wait for its process."""
    parameters = {
        **arm.parameters,
        'output': str(output),
        'online.enabled': True,
        'online.publish_rate': 20.0,
        'online.stale': 0.5,
        'signals.trim': 0.0,
        'online.changes.enabled': True,
        'online.changes.window': 0.5,
        'online.changes.learning': 4.0,
    }
    ros.start('identification', parameters=parameters)
    live = Live(ros, arm, output)
    live.wait(lambda s: s.state > OnlineStatus.STARTING, 'the live process', 60.0)
    return live


@pytest.fixture(scope='module')
def process(module_ros, arm, tmp_path_factory):
    """Start the node once; the tests reset it."""
    return started(module_ros, arm, tmp_path_factory.mktemp('live'))


@pytest.fixture
def live(process):
    process.reset()
    return process


@pytest.fixture(scope='session')
def follow(arm):
    """Give a function that makes a live identification of this process, with further terms."""
    return partial(Followed, arm)


@pytest.fixture(scope='module')
def _followed(arm):
    return Followed(arm)


@pytest.fixture
def followed(_followed):
    """Give the live identification of this process, begun again."""
    _followed.reset()
    return _followed
