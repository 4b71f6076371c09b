# SPDX-License-Identifier: Apache-2.0
"""Reasons for the end of a motion, look by look, and its clients."""

from dataclasses import replace
from pathlib import Path
import re
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='needs ROS 2 (rclpy): run `make test`')

from robot_identification.data.joint_state_stream import JointValues
from robot_identification.excitation.limits import motion_limits
from robot_identification.excitation.settings import PlannerSettings
from robot_identification.excitation.trajectories import point_to_point, PointTrajectory
from robot_identification.model.robot import Robot
from robot_identification.nodes.excitation import motion_watch
from robot_identification.nodes.excitation.controller_state import ControllerState
from robot_identification.nodes.excitation.motion_checks import CheckedMotion, predicted_effort
from robot_identification.nodes.excitation.options import Code, ExecutionOptions, Report

URDF = Path(__file__).resolve().parents[3] / 'urdf' / 'zollo_planar_2r.urdf'
OPTIONS = ExecutionOptions()
TOLERANCE = np.array([0.1, 0.1])
LOOK = 0.01


def checked(robot, trajectory):
    limits = motion_limits(robot, PlannerSettings(), margin=0.0)
    effort = predicted_effort(robot, trajectory)
    return CheckedMotion(trajectory, 0.0, TOLERANCE, 0.0, limits, robot.limits.effort, effort)


@pytest.fixture(scope='module')
def robot():
    return Robot.from_urdf(URDF)


@pytest.fixture(scope='module')
def motion(robot):
    rest, goal = np.zeros(2), np.array([1.5, -1.0])
    return checked(
        robot, point_to_point(robot.joints, rest, goal, np.full(2, 1.0), np.full(2, 3.0))
    )


@pytest.fixture
def wall(monkeypatch):
    now = [10.0]
    monkeypatch.setattr(motion_watch.time, 'monotonic', lambda: now[0])
    return now


class States:
    """Joint states of a robot that does what a motion says, and takes the efforts predicted."""

    fault, publishers, age = '', '/arm/driver', 0.0

    def __init__(self, motion):
        self.motion, self.now, self.count = motion, 0.0, 0
        self.off, self.more, self.efforts = np.zeros(2), np.zeros(2), True
        self.lag = 0.0

    def is_silent(self, seconds):
        return self.age > seconds

    def sample(self):
        position = self.motion.trajectory.sample(np.array([self.now - self.lag])).position[0]
        return JointValues(round(1e9 * (100.0 + self.now)), position + self.off, np.empty(0))

    def effort(self, seconds):
        if self.efforts is None:
            return None
        if self.efforts is False:
            return np.zeros(2)
        low, high = self.motion.effort_range(self.now - self.lag, self.now - self.lag)
        return 0.5 * (low + high) + self.more


class Watched:
    """A watch over a motion of `States`, look by look; feedback comes at each fifth look."""

    def __init__(self, motion, wall, options=OPTIONS):
        self.states, self.motion, self.wall, self.words = States(motion), motion, wall, []
        self.report = Report()
        self.watch = motion_watch.MotionWatch(self.states, options, self.report, self.words.append)
        self.watch.begin(motion)
        self.progress, self._looks = None, 0
        self.error, self.desired, self.elapsed, self.told = np.zeros(2), None, 0.0, True
        self.silent, self.delay, self.every = False, 0.0, 5
        self.velocity = lambda now: np.full(2, np.nan)

    def look(self, count=1, rate=1.0):
        """Let some looks pass; return the reason, or None."""
        for _ in range(count):
            self.wall[0] += LOOK
            self.elapsed += rate * LOOK
            self.states.now, self.states.count = self.elapsed, self.states.count + 1
            if self._looks % self.every == 0 and not self.silent:
                self._tell()
            self._looks += 1
            reason = self.watch.reason(self.progress)
            if reason is not None:
                return reason
        return None

    def _tell(self):
        now = max(self.elapsed - self.delay, 0.0)
        desired = self.motion.trajectory.sample(np.array([now])).position[0]
        desired = desired if self.desired is None else self.desired
        self.progress = ControllerState(
            now if self.told else 0.0,
            desired,
            desired - self.error,
            self.error,
            self.velocity(now),
            round(1e9 * (100.0 + now)),
            self.wall[0],
        )


def looks(motion):
    return int(motion.trajectory.duration / LOOK) + 50


@pytest.mark.parametrize('told', [True, False])
@pytest.mark.parametrize('rate', [1.0, 0.4])
def test_nothing_ends_a_motion_that_goes_as_planned(motion, wall, told, rate):
    """Also of a controller that slows down, and of one that does not tell the time."""
    watched = Watched(motion, wall)
    watched.told = told
    assert watched.look(int(looks(motion) / rate), rate) is None
    limit = np.array([400.0, 150.0])
    share = (np.abs(motion.effort) / limit).max()
    assert watched.report.result.max_effort_share == pytest.approx(share, rel=0.05)
    assert watched.report.feedback.progress == pytest.approx(1.0, abs=0.01)
    assert watched.watch.arrived
    assert not watched.words


@pytest.mark.parametrize(
    ('change', 'code', 'words'),
    [
        ({'more': np.array([0.0, -80.0])}, 'CONTACT', 'predicted by the URDF'),
        ({'more': np.array([0.0, np.inf])}, 'UNTRUSTED_STATE', "effort of joint 'joint_2' is inf"),
        ({'more': np.array([np.nan, 0.0])}, 'UNTRUSTED_STATE', "effort of joint 'joint_1' is nan"),
        ({'age': 0.25, 'fault': 'no names'}, 'STALE_STATE', 'no names'),
        ({'off': np.array([0.0, 0.6])}, 'UNTRUSTED_STATE', '/arm/driver'),
    ],
)
def test_past_a_bound_the_motion_ends_with_its_code(motion, wall, change, code, words):
    watched = Watched(motion, wall)
    assert watched.look(60) is None
    for name, value in change.items():
        setattr(watched.states, name, value)
    reason = watched.look(40)
    assert reason is not None and reason.code == getattr(Code, code), reason
    assert words in reason.message


def test_an_effort_near_its_limit_ends_a_motion_where_it_may_be_off(motion, wall):
    watched = Watched(motion, wall, replace(OPTIONS, effort_tolerance=0.0))
    watched.look(60)
    watched.states.more = np.array([-600.0, 0.0])
    reason = watched.look()
    assert reason.code == Code.EFFORT_EXCEEDED and 'limit of 400 N m' in reason.message


def test_an_error_beyond_the_tolerance_ends_a_motion_if_the_controller_does_not(motion, wall):
    watched = Watched(motion, wall)
    watched.look(60)
    watched.error = np.array([0.0, 0.11])
    reason = watched.look(10)
    assert reason.code == Code.TRACKING_ERROR
    assert "joint 'joint_2' is 0.11 away from its path" in reason.message
    assert watched.report.result.max_tracking_error == pytest.approx(0.11)


def test_a_contact_is_called_one_before_anything_else(motion, wall):
    """Efforts that grow within their bounds, and a controller that gives up."""
    watched = Watched(motion, wall)
    assert watched.look(80) is None
    for _ in range(30):
        watched.states.more = watched.states.more - [0.0, 1.5]
        assert watched.look() is None
    reason = watched.watch.untracked('PATH_TOLERANCE_VIOLATED')
    assert reason.code == Code.CONTACT
    assert "the effort of joint 'joint_2'" in reason.message
    # without it, it is none
    other = Watched(motion, wall)
    other.look(80)
    other.error = np.array([0.2, 0.0])
    other.look(4)
    assert other.watch.untracked('PATH_TOLERANCE_VIOLATED').code == Code.TRACKING_ERROR


def test_a_controller_that_follows_something_else_is_told(motion, wall):
    watched = Watched(motion, wall)
    watched.look(60)
    watched.desired = np.array([0.3, 2.0])
    reason = watched.look(10)
    assert reason.code == Code.CONTROLLER_FAILED
    assert 'follows another motion' in reason.message and "'joint_2' at 2" in reason.message


def test_the_place_on_a_motion_that_returns_to_where_it_was_is_found(robot, wall):
    """Three times the same way there and back: the first place that fits counts."""
    places = np.array([[0.0, 0.0], [0.5, -0.3]] * 3 + [[0.0, 0.0]])
    zeros = np.zeros_like(places)
    watched = Watched(
        checked(robot, PointTrajectory(robot.joints, np.arange(7.0), places, zeros, zeros)), wall
    )
    watched.told = False
    for _ in range(120):
        assert watched.look(5) is None
        assert abs(watched.watch.elapsed - watched.elapsed) < 0.25
    assert watched.watch.elapsed > 5.8


def test_a_controller_that_tells_nothing_is_waited_for_a_little(motion, wall):
    watched = Watched(motion, wall)
    watched.look(60)
    watched.silent = True
    reason = watched.look(300)
    assert reason.code == Code.CONTROLLER_FAILED and 'no feedback' in reason.message
    # the first feedback, too
    other = Watched(motion, wall)
    other.silent = True
    assert other.look(150) is None
    assert other.look(100).code == Code.CONTROLLER_FAILED


@pytest.mark.parametrize('held_up', [0.05, 0.5, 2.5])
def test_a_process_that_was_held_up_lets_what_waits_arrive(motion, wall, held_up):
    watched = Watched(motion, wall)
    assert watched.look(40) is None
    wall[0] += held_up
    # what was sent before comes first
    assert watched.look(20) is None
    watched.elapsed += held_up
    assert watched.look(100) is None


def test_what_was_lost_while_this_process_was_held_up_may_be_sent_anew(motion, wall):
    watched = Watched(motion, wall)
    watched.states.efforts = None
    assert watched.look(40) is None
    watched.silent = True
    wall[0] += 2.5
    watched.elapsed += 2.5
    patience = motion_watch.WATCH.repair_seconds + motion_watch.WATCH.feedback_seconds
    assert watched.look(int((patience - 0.1) / LOOK)) is None
    assert watched.look(int(0.2 / LOOK)).code == Code.CONTROLLER_FAILED


def test_feedback_that_a_busy_controller_sends_late_contradicts_no_joint_states(motion, wall):
    watched = Watched(motion, wall)
    watched.delay = 0.35
    assert watched.look(looks(motion)) is None
    assert watched.report.feedback.progress > 0.9


def test_positions_that_freeze_are_noticed_once_they_are_far_from_the_motion(motion, wall):
    watched = Watched(motion, wall)
    watched.look(80)
    frozen = watched.states.sample()
    watched.states.sample = lambda: frozen
    reason = watched.look(looks(motion))
    assert reason.code == Code.UNTRUSTED_STATE
    assert "the joint states have joint 'joint_1' at" in reason.message
    assert 'or the readings of /arm/driver stand still' in reason.message


def test_joint_states_that_come_too_late_are_called_late_and_no_one_elses(motion, wall):
    watched = Watched(motion, wall)
    watched.states.lag = 1.0
    reason = watched.look(looks(motion))
    assert reason.code == Code.UNTRUSTED_STATE
    behind = float(re.search(r'where the motion was (.*) s before', reason.message).group(1))
    assert motion_watch.WATCH.late_seconds < behind <= 1.0
    assert 'the computer or the network is too busy' in reason.message


@pytest.mark.parametrize('lag', [0.1, 0.3])
def test_joint_states_and_drives_may_be_late(motion, wall, lag):
    watched = Watched(motion, wall)
    watched.states.lag = lag
    assert watched.look(looks(motion)) is None


def test_zeros_for_efforts_are_no_contact_until_there_are_others(motion, wall):
    """As mock hardware sends them; the motion's own efforts are far from zero."""
    watched = Watched(motion, wall, replace(OPTIONS, effort_tolerance=0.05))
    watched.states.efforts = False
    assert watched.look(100) is None
    watched.error = np.array([0.0, 2.0 * TOLERANCE[1]])
    reason = watched.look(10)
    assert reason.code == Code.TRACKING_ERROR, reason.message
    assert watched.words == ['efforts are not watched as long as all of them are 0']
    # a driver that begins to send efforts late
    watched = Watched(motion, wall, replace(OPTIONS, effort_tolerance=0.5))
    watched.states.efforts = False
    assert watched.look(100) is None
    watched.states.efforts = True
    assert watched.look(20) is None
    watched.states.more = np.array([0.0, 0.9 * 150.0])
    assert watched.look(20).code in (Code.CONTACT, Code.EFFORT_EXCEEDED)


def test_efforts_that_are_missing_are_told_once_and_nothing_is_made_of_them(motion, wall):
    for change, words in (
        ({'efforts': None}, 'have none'),
        ({'more': np.full(2, np.nan)}, 'have none'),
        ({'more': np.array([0.0, np.nan])}, 'of some joints only'),
    ):
        watched = Watched(motion, wall)
        for name, value in change.items():
            setattr(watched.states, name, value)
        watched.watch.begin(motion)
        assert watched.look(100) is None
        assert len(watched.words) == 1 and words in watched.words[0]
    assert 0.0 < watched.report.result.max_effort_share < 1.0
    # the other joint is still watched
    watched.states.more = np.array([-600.0, np.nan])
    assert watched.look(10).code == Code.CONTACT


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


@pytest.mark.parametrize('every', [5, 15])
@pytest.mark.parametrize('constant', [0.0, 0.05])
@pytest.mark.parametrize('factor', [1.0, 0.5, 0.0, -1.0])
def test_false_velocities_are_told_from_filtered_ones(robot, wall, factor, constant, every):
    """Of a driver with a low-pass filter, by reports every 50 or 150 ms."""
    time = np.array([0.0, 0.3, 1.0, 1.4, 2.1, 2.5, 3.2, 3.5])
    velocity = np.array([0.0, 1.0, 1.0, -1.0, -1.0, 1.0, 1.0, 0.0])[:, None] * [2.5, -1.0]
    steps = 0.5 * (velocity[1:] + velocity[:-1]) * np.diff(time)[:, None]
    position = np.concatenate([np.zeros((1, 2)), np.cumsum(steps, axis=0)])
    trajectory = PointTrajectory(robot.joints, time, position, velocity)
    watched = Watched(replace(checked(robot, trajectory), stop=0.3), wall)
    watched.states.efforts, watched.every = None, every
    fine = np.arange(0.0, trajectory.duration, 1e-3)
    share = 1.0 - np.exp(-1e-3 / constant) if constant else 1.0
    filtered = trajectory.sample(fine).velocity.copy()
    for row in range(1, len(fine)):
        filtered[row] = share * filtered[row] + (1.0 - share) * filtered[row - 1]
    watched.velocity = lambda now: factor * filtered[min(int(1e3 * now), len(fine) - 1)]
    watched.look(int(trajectory.duration / LOOK))
    distrust = watched.watch.distrust
    assert (distrust is None) == (factor == 1.0), distrust
