# SPDX-License-Identifier: Apache-2.0
"""
What happens to a motion when joint states, clock or description change under it.

The test itself is the driver: it passes the simulated robot's states on, and spoils them.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='needs ROS 2 (rclpy)')

from rclpy.action import ActionClient
from robot_identification.excitation.points import point_to_point, to_points
from robot_identification.nodes.motion_messages import trajectory_message
from robot_identification_msgs.action import Excite, PlanExcitation
from robot_identification_msgs.srv import Preview
from sensor_msgs.msg import JointState
from std_msgs.msg import String

pytestmark = pytest.mark.wall_clock

URDF = Path(__file__).resolve().parents[3] / 'urdf' / 'zollo_planar_2r.urdf'
TEXT = URDF.read_text()
JOINTS = ('joint_1', 'joint_2')
QUICK = {'planner.duration': 4.0, 'planner.harmonics': 4, 'planner.max_iterations': 3}
Code = Excite.Result


class Driver:
    """Passes states on; ``spoil`` may change one, return several, or none."""

    def __init__(self, ros):
        self.ros = ros
        self.spoil = lambda message: [message]
        self.latest = None
        self.description = ros.publish_description(TEXT)
        self.publisher = ros.node.create_publisher(JointState, 'joint_states', 100)
        ros.node.create_subscription(JointState, 'real_states', self.arrived, 100)

    def arrived(self, message):
        self.latest = message
        for each in self.spoil(message):
            self.publisher.publish(each)

    def describe(self, text):
        """Replace the description, and wait until the node has read it."""
        lines = self.node.lines
        lines.clear()
        self.description.publish(String(data=text))
        self.ros.wait_until(
            lambda: any('joints joint_' in line or 'ERROR' in line for line in lines),
            10.0,
            'the description in excitation',
        )

    def move(self, meanwhile=lambda: None, **fields):
        """Have the arm moved by a radian; call ``meanwhile`` once it is on its way."""
        here = np.array(self.latest.position)
        goal = np.where(here > 0.0, here - 1.0, here + 1.0)
        points = to_points(
            point_to_point(JOINTS, here, goal, np.full(2, 0.8), np.full(2, 4.0)), 50.0
        )
        m = points.motion
        trajectory = trajectory_message(
            JOINTS, points.time, m.position, m.velocity, m.acceleration
        )
        done = []

        def watch(feedback):
            if not done and feedback and feedback[-1].progress > 0.2:
                done.append(meanwhile())
            return False

        _, result, _ = self.ros.act(
            Excite, 'excitation/excite', cancel_when=watch, trajectory=trajectory, **fields
        )
        assert done, result.error_msg
        return result

    def require_rest(self):
        def rest():
            before = np.array(self.latest.position)
            self.ros.spin(0.2)
            return np.abs(np.array(self.latest.position) - before).max() < 2e-3

        self.ros.wait_until(rest, 10.0, 'rest')


@pytest.fixture(scope='module')
def nodes(cell):
    """Start an arm and the node that moves it."""
    parameters = {'robot_description': str(URDF), 'rate': 200.0, 'clock_rate': 50.0}
    # the description is the test's to publish
    remaps = ['-r', 'joint_states:=real_states', '-r', 'robot_description:=true_description']
    cell.start('simulation', *remaps, parameters=parameters, wait=False)
    options = {'execute': True, 'move_speed': 0.8, 'stale_timeout': 1.0, 'horizon': 1.5, **QUICK}
    node = cell.start('excitation', parameters=options, wait=False)
    for name in ('simulation', 'excitation'):
        cell.wait_for_node(f'/{name}', timeout=60.0)
    driver = Driver(cell)
    driver.node = node
    cell.wait_until(lambda: 'with joints' in node.output, 30.0, 'the robot in excitation')
    cell.wait_until(lambda: driver.latest is not None, 10.0, 'joint states')
    cell.wait_until(lambda: driver.publisher.get_subscription_count() == 1, 10.0, 'excitation')
    return driver


@pytest.fixture
def driver(nodes):
    yield nodes
    nodes.spoil = lambda message: [message]
    assert [process.returncode for process in nodes.ros.processes] == [None, None]
    assert 'Traceback' not in nodes.node.output
    nodes.require_rest()


def without_a_joint(message):
    for field in ('name', 'position', 'velocity', 'effort'):
        setattr(message, field, getattr(message, field)[:1])
    return [message]


def unknown(message):
    message.position = [np.nan] * 2
    return [message]


class Now:
    """Spoils what comes from now on."""

    def __init__(self, driver, spoil):
        self.driver, self.spoil = driver, spoil

    def __call__(self):
        self.driver.spoil = self.spoil


SPOILED = {
    'stop': (lambda message: [], 'no joint states for'),
    'lose a joint': (without_a_joint, "joint 'joint_2' is not in the joint states"),
    'are not known': (unknown, 'no finite positions'),
    'are empty': (lambda message: [JointState()], "joint 'joint_1' is not in the joint states"),
}


@pytest.mark.parametrize('kind', SPOILED)
def test_joint_states_that_tell_nothing_stop_the_motion(driver, kind):
    spoil, words = SPOILED[kind]
    result = driver.move(Now(driver, spoil))
    assert result.error_code == Code.STALE_STATE, result.error_msg
    assert words in result.error_msg


def test_a_clock_that_goes_back_stops_the_motion(driver):
    driver.ros.wait_until(lambda: driver.latest.header.stamp.sec > 6, 20.0, 'six seconds')
    result = driver.move(Now(driver, lambda message: [shifted(message, -5)]))
    assert result.error_code == Code.STALE_STATE, result.error_msg
    assert 'jump by -' in result.error_msg


def shifted(message, seconds):
    message.header.stamp.sec += seconds
    return message


def moved(message, offset):
    message.position = [q + offset for q in message.position]
    return message


def swapped(message):
    message.name = message.name[::-1]
    return message


FALSE = {
    'a leap of 1 rad': lambda message: [moved(message, 1.0)],
    'a leap of 0.15 rad': lambda message: [moved(message, 0.15)],
    'names swapped': lambda message: [swapped(message)],
}


def require_no_leap(driver, track):
    """Hold the true arm to the limits of the motion: 0.8 rad/s, 4 rad/s2, and what servos add."""
    assert np.abs([state.velocity for state in track]).max() < 1.2
    assert np.abs([state.position for state in track]).max() < 1.2


@pytest.mark.parametrize('kind', FALSE)
def test_joint_states_that_are_false_end_the_motion_without_a_leap(driver, kind):
    track = driver.ros.subscribe(JointState, 'real_states', 1000)
    result = driver.move(Now(driver, FALSE[kind]))
    # where both joints are in the same place, only their efforts show that they were swapped
    noticed = {Code.UNTRUSTED_STATE} | (
        {Code.EFFORT_EXCEEDED} if kind == 'names swapped' else set()
    )
    assert result.error_code in noticed, result.error_msg
    driver.require_rest()
    require_no_leap(driver, track)


def test_a_second_publisher_of_the_same_joints_ends_the_motion_and_begins_none(driver):
    """As a joint_state_publisher that was forgotten beside the driver."""
    ros = driver.ros
    track = ros.subscribe(JointState, 'real_states', 1000)
    other = ros.node.create_publisher(JointState, 'joint_states', 100)
    timers = []

    def publish():
        stamp = driver.latest.header.stamp
        message = JointState(name=list(JOINTS), position=[0.0, 0.0])
        message.header.stamp = stamp
        message.header.stamp.nanosec += 1000
        other.publish(message)

    try:
        result = driver.move(lambda: timers.append(ros.node.create_timer(0.02, publish)))
        assert result.error_code == Code.UNTRUSTED_STATE, result.error_msg
        assert 'several publishers' in result.error_msg or 'contradict' in result.error_msg
        driver.require_rest()
        require_no_leap(driver, track)
        # it is still there: no motion begins
        here = list(driver.latest.position)
        points = to_points(
            point_to_point(JOINTS, here, np.array(here) + 0.3, np.ones(2), np.ones(2)), 50.0
        )
        m = points.motion
        goal = trajectory_message(JOINTS, points.time, m.position, m.velocity, m.acceleration)
        _, result, _ = ros.act(Excite, 'excitation/excite', trajectory=goal)
        assert result.error_code == Code.UNTRUSTED_STATE, result.error_msg
        assert 'several publishers' in result.error_msg and 'test_client' in result.error_msg
    finally:
        for timer in timers:
            ros.node.destroy_timer(timer)
        ros.node.destroy_publisher(other)


def test_half_the_rate_repeats_and_bursts_are_no_reason_to_stop(driver):
    held = []

    def spoil(message):
        """Hold four messages back, then send every other one twice, and another driver's."""
        held.append(message)
        if len(held) < 4:
            return []
        several, held[:] = held[::2], []
        gripper = JointState(header=message.header, name=['finger'], position=[0.0])
        return [each for pair in zip(several, several) for each in pair] + [gripper]

    result = driver.move(Now(driver, spoil))
    assert result.error_code == Code.NONE, result.error_msg


def test_another_description_drops_the_plans(driver):
    ros = driver.ros
    plan = ros.act(PlanExcitation, 'excitation/plan')[1]
    assert plan.error_code == 0, plan.error_msg
    # the same once more is no other robot
    driver.description.publish(String(data=TEXT))
    ros.spin(0.3)
    assert ros.call(Preview, 'excitation/preview', plan_id=plan.plan_id).success
    driver.describe(TEXT.replace('zollo_planar_2r', 'another'))
    try:
        for result in (
            ros.act(Excite, 'excitation/excite', plan_id=plan.plan_id)[1],
            ros.act(Excite, 'excitation/excite', plan_id=plan.plan_id, dry_run=True)[1],
        ):
            assert result.error_code == Code.UNKNOWN_PLAN
            assert f"'{plan.plan_id}' was planned for another robot" in result.error_msg
            assert 'plan anew' in result.error_msg
        answer = ros.call(Preview, 'excitation/preview', plan_id=plan.plan_id)
        assert not answer.success and 'another robot' in answer.message
        again = ros.act(PlanExcitation, 'excitation/plan')[1]
        assert again.plan_id != plan.plan_id
        assert (
            ros.act(Excite, 'excitation/excite', plan_id=again.plan_id, dry_run=True)[1].error_code
            == Code.NONE
        )
    finally:
        driver.describe(TEXT)


def test_a_description_that_cannot_be_read(driver):
    ros = driver.ros
    driver.describe('<robot name="broken">')
    try:
        for kind, name in ((PlanExcitation, 'plan'), (Excite, 'excite')):
            _, result, _ = ros.act(kind, f'excitation/{name}')
            assert result.error_code == kind.Result.NO_MODEL
            assert 'not well-formed XML' in result.error_msg
    finally:
        driver.describe(TEXT)


def test_a_description_that_is_replaced_while_a_plan_is_made(driver):
    """What was computed for the other robot is not kept."""
    ros = driver.ros
    client = ActionClient(ros.node, PlanExcitation, 'excitation/plan')
    ros.wait_until(client.server_is_ready, 10.0, 'the action')
    feedback = []
    sent = client.send_goal_async(
        PlanExcitation.Goal(max_iterations=30, duration=8.0), feedback_callback=feedback.append
    )
    ros.wait_until(sent.done, 10.0, 'acceptance')
    future = sent.result().get_result_async()
    ros.wait_until(lambda: feedback, 20.0, 'the first iteration')
    assert not future.done()
    driver.describe(TEXT.replace('zollo_planar_2r', 'another'))
    try:
        ros.wait_until(future.done, 60.0, 'the end of the plan')
        result = future.result().result
        assert result.error_code == PlanExcitation.Result.NO_MODEL
        assert 'robot_description has changed meanwhile: plan anew' in result.error_msg
        assert not result.plan_id
    finally:
        driver.describe(TEXT)
        client.destroy()


def test_a_description_that_is_replaced_during_a_motion(driver):
    """It was checked with the limits of another robot, so it ends, at rest."""
    other = String(data=TEXT.replace('zollo_planar_2r', 'another'))
    result = driver.move(lambda: driver.description.publish(other))
    try:
        assert result.error_code == Code.NO_MODEL, result.error_msg
        assert 'robot_description has changed' in result.error_msg
        driver.require_rest()
    finally:
        driver.describe(TEXT)
    # and the next one is carried out
    assert driver.move().error_code == Code.NONE


def test_two_motions_at_once(driver):
    """One is carried out, the other refused; so it is with a preview during a motion."""
    client = ActionClient(driver.ros.node, Excite, 'excitation/excite')
    refused = []

    def ask():
        sent = client.send_goal_async(Excite.Goal(plan_id='plan_1'))
        asked = driver.ros.node.create_client(Preview, 'excitation/preview')
        refused.append((sent, asked.call_async(Preview.Request(plan_id='plan_1'))))

    assert driver.move(ask).error_code == Code.NONE
    ((sent, preview),) = refused
    result = sent.result().get_result_async()
    driver.ros.wait_until(lambda: result.done() and preview.done(), 10.0, 'both answers')
    assert result.result().result.error_code == Code.BUSY
    assert not preview.result().success and 'a motion is running' in preview.result().message
    client.destroy()


def test_checks_do_not_wait_for_plans(driver):
    client = ActionClient(driver.ros.node, PlanExcitation, 'excitation/plan')
    driver.ros.wait_until(client.server_is_ready, 10.0, 'the action')
    goals = []
    for seed in (1, 2, 3):
        sent = client.send_goal_async(PlanExcitation.Goal(max_iterations=100000, seed=seed))
        driver.ros.wait_until(sent.done, 10.0, 'acceptance')
        goals.append(sent.result())
    assert driver.move().error_code == Code.NONE
    for goal in goals:
        canceled = goal.cancel_goal_async()
        driver.ros.wait_until(canceled.done, 20.0, 'the cancellation')
    client.destroy()
