# SPDX-License-Identifier: Apache-2.0
"""Reasons for the end of a motion, message by message, with its clock and clients."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='needs ROS 2 (rclpy): run `make test`')

from robot_identification.excitation.limits import motion_limits
from robot_identification.excitation.settings import PlannerSettings
from robot_identification.excitation.trajectories import point_to_point
from robot_identification.model.robot import Robot
from robot_identification.nodes.common.messages import JointSample
from robot_identification.nodes.excitation import motion_watch
from robot_identification.nodes.excitation.motion_checks import motion_path
from robot_identification.nodes.excitation.options import (
    Code,
    ExecutionOptions,
    MotionError,
    NoMoreCommandsError,
    OffPathError,
    Report,
)

URDF = Path(__file__).resolve().parents[3] / 'urdf' / 'zollo_planar_2r.urdf'
OPTIONS = ExecutionOptions(tracking_lag=0.0)


@pytest.fixture(scope='module')
def path():
    robot = Robot.from_urdf(URDF)
    limits = motion_limits(robot, PlannerSettings(), margin=0.0)
    rest, goal = np.zeros(2), np.array([1.5, -1.0])
    way = point_to_point(limits.joints, rest, goal, np.full(2, 1.0), np.full(2, 3.0))
    return motion_path(robot, way, limits, OPTIONS)


class States:
    """A robot that does what a path says, and takes the efforts predicted unless told."""

    fault, contradiction, age, jump, refused = '', '', 0.0, 0.0, 0
    joints = ('joint_1', 'joint_2')

    def __init__(self, path):
        self.path, self.now = path, 0.0
        self.off, self.more, self.efforts = np.zeros(2), np.zeros(2), True
        self.lag = 0.0

    def silent(self, seconds):
        return self.age > seconds

    def sample(self):
        position = self.path.trajectory.sample(np.array([self.now - self.lag])).position[0]
        return JointSample(round(1e9 * (100.0 + self.now)), position + self.off, None, None)

    def effort(self, seconds):
        if self.efforts is None:
            return None
        low, high = self.path.effort_range(self.now - self.lag, self.now - self.lag)
        return 0.5 * (low + high) + self.more


class Watched:
    """A watch over a motion of `States`."""

    def __init__(self, path, options=OPTIONS):
        self.states, self.path, self.words = States(path), path, []
        self.report = Report()
        self.watch = motion_watch.MotionWatch(self.states, options, self.report, self.words.append)
        self.clock = motion_watch.PathClock(100_000_000_000, 100_000_000_000)

    def at(self, time, speed=1.0, age=0.0):
        self.states.now = time - age
        self.clock.look(round(1e9 * (100.0 + time)), speed, np.inf)
        return self.watch.reason(self.path, self.clock)


def test_nothing_ends_a_motion_that_goes_as_planned(path):
    watched = Watched(path)
    for time in np.arange(-0.2, path.duration + 1.0, 0.01):
        assert watched.at(time) is None
    limit = np.array([400.0, 150.0])
    share = (np.abs(path.effort) / limit).max()
    assert watched.report.result.max_effort_share == pytest.approx(share, rel=0.05)
    assert watched.report.result.max_tracking_error < 1e-12 and not watched.words


@pytest.mark.parametrize(
    ('change', 'code', 'kind', 'words'),
    [
        ({'off': np.array([0.0, 0.11])}, 'TRACKING_ERROR', OffPathError, "'joint_2' is 0.11 away"),
        ({'more': np.array([0.0, -80.0])}, 'EFFORT_EXCEEDED', OffPathError, 'by the URDF'),
        ({'more': np.array([-600.0, 0.0])}, 'EFFORT_EXCEEDED', OffPathError, 'limit of 400 N m'),
        ({'age': 0.25, 'fault': 'no names'}, 'STALE_STATE', MotionError, 'no names'),
        ({'jump': -3.0}, 'STALE_STATE', NoMoreCommandsError, 'jump by -3 s'),
        ({'contradiction': 'two of them'}, 'UNTRUSTED_STATE', MotionError, 'two of them'),
        ({'contradiction': 'far', 'refused': 3}, 'UNTRUSTED_STATE', NoMoreCommandsError, 'far'),
    ],
)
def test_past_a_bound_the_motion_ends_with_its_code(path, change, code, kind, words):
    watched = Watched(path)
    assert watched.at(0.5) is None
    for name, value in change.items():
        setattr(watched.states, name, value)
    reason = watched.at(0.6)
    assert reason.code == getattr(Code, code) and words in reason.message
    assert type(reason) is kind


def test_positions_that_freeze_under_a_moving_reference_are_told_from_a_robot_that_rests(path):
    far = replace(OPTIONS, tracking_tolerance=9.0)
    for moved, code, kind in (
        (0.0, 'NO_CONTROLLER', NoMoreCommandsError),
        (0.8, 'UNTRUSTED_STATE', MotionError),
    ):
        watched = Watched(path, far)
        watched.watch.begin()
        for time in np.arange(0.0, moved, 0.01):
            assert watched.at(time) is None
        frozen = watched.states.sample().position
        watched.states.sample = lambda w=watched, q=frozen: JointSample(
            round(1e9 * (100.0 + w.states.now)), q, None, None
        )
        reasons = (watched.at(time) for time in np.arange(moved, path.duration, 0.01))
        reason = next(reason for reason in reasons if reason is not None)
        assert reason.code == getattr(Code, code) and type(reason) is kind
        assert "'joint_1'" in reason.message


def test_joints_that_have_each_others_positions_are_named(path):
    watched = Watched(path)
    watched.at(0.9)
    q = watched.states.sample().position
    watched.states.off = q[::-1] - q
    reason = watched.at(0.9)
    assert reason.code == Code.UNTRUSTED_STATE and type(reason) is NoMoreCommandsError
    assert "'joint_1' and 'joint_2' have each other's positions" in reason.message


TIGHT = replace(OPTIONS, tracking_tolerance=0.01, effort_tolerance=0.01)


@pytest.mark.parametrize(
    ('bound', 'code'),
    [
        ({'effort_tolerance': 0.0}, 'TRACKING_ERROR'),
        ({'tracking_tolerance': 9.0}, 'EFFORT_EXCEEDED'),
    ],
)
def test_drives_that_lag_are_held_against_the_plan_of_late_and_no_longer(path, bound, code):
    options = replace(TIGHT, tracking_lag=0.1, **bound)
    times = np.arange(0.0, path.duration, 0.01)
    watched = Watched(path, options)
    watched.states.lag = 0.1
    assert all(watched.at(time) is None for time in times)
    # the report has the plain difference
    assert watched.report.result.max_tracking_error > 0.05
    late = Watched(path, replace(options, effort_time=0.0))
    late.states.lag = 0.25
    reasons = {reason.code for time in times if (reason := late.at(time)) is not None}
    assert reasons == {getattr(Code, code)}


def test_a_state_that_comes_late_is_held_against_the_plan_of_its_own_time(path):
    watched = Watched(path, TIGHT)
    assert all(watched.at(time, age=0.08) is None for time in np.arange(0.1, path.duration, 0.01))
    assert watched.report.result.max_tracking_error < 1e-9


def test_within_its_bound_an_effort_may_be_off_and_bounds_may_be_switched_off(path):
    watched = Watched(path)
    watched.states.more = np.array([150.0, -60.0])
    assert watched.at(0.5) is None
    free = Watched(path, replace(OPTIONS, effort_tolerance=0.0, effort_share=0.0))
    free.states.more = np.array([-600.0, 0.0])
    assert free.at(0.5) is None
    assert free.report.result.max_effort_share > 1.0


def test_efforts_that_are_missing_are_told_once_and_nothing_is_made_of_them(path):
    for change, words in (
        ({'efforts': None}, 'have none'),
        ({'more': np.full(2, np.nan)}, 'have none'),
        ({'more': np.array([0.0, np.nan])}, 'of some joints only'),
    ):
        watched = Watched(path)
        for name, value in change.items():
            setattr(watched.states, name, value)
        assert watched.at(0.5) is None and watched.at(0.6) is None
        assert len(watched.words) == 1 and words in watched.words[0]
    assert 0.0 < watched.report.result.max_effort_share < 1.0
    # the other joint is still watched
    watched.states.more = np.array([-600.0, np.nan])
    assert watched.at(0.7).code == Code.EFFORT_EXCEEDED


def test_a_pause_is_waited_for_up_to_a_bound(path, monkeypatch):
    now = [50.0]
    monkeypatch.setattr(motion_watch.time, 'monotonic', lambda: now[0])
    watched = Watched(path)
    for _ in range(59):
        now[0] += 1.0
        assert watched.at(0.5, speed=0.0) is None
    now[0] += 5.0
    # one that is over does not count for the next
    assert watched.at(0.5, speed=0.5) is None
    for _ in range(59):
        now[0] += 1.0
        assert watched.at(0.5, speed=0.0) is None
    now[0] += 5.0
    reason = watched.at(0.5, speed=0.0)
    assert reason.code == Code.CONTROLLER_FAILED and 'pause_timeout' in reason.message


# -------------------------------------------------------------------------------------------- time


@pytest.fixture
def wall(monkeypatch):
    now = [10.0]
    monkeypatch.setattr(motion_watch.time, 'monotonic', lambda: now[0])
    return now


def test_the_time_of_a_path_passes_as_fast_as_the_controller_lets_it(wall):
    clock = motion_watch.PathClock(1_000_000_000, 800_000_000)
    speeds = np.repeat([1.0, 0.5, 0.0, 0.25, 1.0], 100)
    expected, now = -0.2, 800_000_000
    before = 1.0
    for speed in speeds:
        now += 10_000_000
        wall[0] += 0.01
        expected += 0.01 * before
        clock.look(now, float(speed), wall[0])
        before = speed
        assert clock.elapsed == pytest.approx(expected, abs=1e-9)
        # a sample from 3 ms ago, at the present speed
        assert clock.at(now - 3_000_000) == pytest.approx(expected - 0.003 * speed, abs=1e-9)
    assert clock.taken == pytest.approx(1e-9 * now - 1.0)


def test_after_a_hold_up_a_joint_state_from_thereafter_is_waited_for(wall):
    clock = motion_watch.PathClock(0, 0)
    wall[0] += 0.01
    clock.look(10_000_000, 1.0, wall[0])
    assert clock.sure
    wall[0] += 0.3
    clock.look(310_000_000, 1.0, wall[0] - 0.3)
    assert not clock.sure
    wall[0] += 0.01
    clock.look(20_000_000, 1.0, wall[0] - 0.005)
    assert clock.sure and clock.elapsed == pytest.approx(0.02)
    # one that never comes is not waited for without end
    wall[0] += 0.3
    clock.look(400_000_000, 1.0, 0.0)
    for _ in range(60):
        wall[0] += 0.01
        clock.look(400_000_000, 1.0, 0.0)
    assert clock.sure


# ----------------------------------------------------------------------------------------- clients


class Graph:
    """A node's place that tells who listens."""

    def __init__(self):
        self.listeners = ['client']

    def resolve_topic_name(self, name):
        return name.replace('~', '/excitation')

    def create_subscription(self, kind, topic, callback, *_, **__):
        self.live = lambda: callback(kind())

    def get_subscriptions_info_by_topic(self, topic):
        assert topic == '/excitation/excite/_action/feedback'
        return [
            SimpleNamespace(endpoint_gid=list(name.encode()), node_name=name, node_namespace='/')
            for name in self.listeners
        ]


def test_a_client_is_missed_after_a_while_and_flicker_is_none(wall):
    graph = Graph()
    watch = motion_watch.ClientWatch(graph, '~/excite', None)
    options = ExecutionOptions()

    def run(seconds):
        for _ in range(round(seconds / 0.01)):
            wall[0] += 0.01
            reason = watch.reason(options)
            if reason is not None:
                return reason
        return None

    assert run(1.0) is None
    for _ in range(5):
        graph.listeners = []
        assert run(0.8) is None
        graph.listeners = ['client']
        assert run(0.3) is None
    # one that comes later is no client of this motion
    graph.listeners = ['newcomer']
    reason = run(2.0)
    assert reason.code == Code.CLIENT_LOST and '/client' in reason.message
    assert watch.reason(replace(options, stop_when_client_leaves=False)) is None
    # where the graph tells nothing nobody is missed, and the next motion has another client
    graph.listeners = []
    watch.restart()
    assert run(3.0) is None
    graph.listeners = ['late']
    assert run(3.0) is None
    graph.listeners = []
    assert run(3.0).code == Code.CLIENT_LOST


def test_signs_of_life_have_to_go_on_once_there_was_one(wall):
    graph = Graph()
    watch = motion_watch.ClientWatch(graph, '~/excite', None)
    options = ExecutionOptions(stop_when_client_leaves=False)
    wall[0] += 100.0
    assert watch.reason(options) is None
    for _ in range(20):
        graph.live()
        wall[0] += 0.4
        assert watch.reason(options) is None
    wall[0] += 0.2
    assert 'no sign of life' in watch.reason(options).message
    watch.restart()
    assert watch.reason(options) is None


# --------------------------------------------------------------------------------------- patience


@pytest.mark.parametrize(('rate', 'over'), [(20.0, 0.2), (1.0, 4.0), (0.11, 4.0 / 0.11)])
def test_a_wait_for_a_robot_is_bounded_by_the_robots_clock(monkeypatch, rate, over):
    wall = [50.0]
    monkeypatch.setattr(motion_watch.time, 'monotonic', lambda: wall[0])
    patience = motion_watch.Patience(7_000_000_000, 4.0, still=3.0)
    while not patience.over(round(1e9 * (7.0 + rate * (wall[0] - 50.0)))):
        wall[0] += 0.01
    assert wall[0] - 50.0 == pytest.approx(over, abs=0.02)


@pytest.mark.parametrize(('rate', 'stops', 'over'), [(1.0, 0.5, 3.5), (0.01, 1e9, 40.0)])
def test_a_clock_that_stands_still_or_crawls_keeps_nobody_waiting(monkeypatch, rate, stops, over):
    wall = [50.0]
    monkeypatch.setattr(motion_watch.time, 'monotonic', lambda: wall[0])
    patience = motion_watch.Patience(7_000_000_000, 4.0, still=3.0)
    while not patience.over(round(1e9 * (7.0 + rate * min(wall[0] - 50.0, stops)))):
        wall[0] += 0.01
    assert wall[0] - 50.0 == pytest.approx(over, abs=0.02)
