# SPDX-License-Identifier: Apache-2.0
"""A motion under which joint states, clock or description change, on a clock of the test's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
import threading

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='needs ROS 2 (rclpy)')

from builtin_interfaces.msg import Time
import rclpy
from robot_identification.nodes import excitation_node as excitation_node
from robot_identification_msgs.action import Excite, PlanExcitation
from sensor_msgs.msg import JointState
from std_msgs.msg import Header, String

from benchmarks.false_states import changed

URDF = Path(__file__).resolve().parents[3] / 'urdf' / 'zollo_planar_2r.urdf'
TEXT = URDF.read_text()
OTHER = TEXT.replace('zollo_planar_2r', 'another')
JOINTS = ('joint_1', 'joint_2')
PLAN = PlanExcitation.Result
Code = Excite.Result


class Driver:
    """
    A driven cell whose description and joint states the test passes on, and spoils.

    Attributes
    ----------
    cell:
        See `DrivenCell`.

    """

    def __init__(self, cell, move):
        self.cell, self._move = cell, move
        self.describe(TEXT)

    def describe(self, text):
        self.cell.deliver('robot_description', String(data=text))

    def spoil(self, spoil):
        """Have ``spoil`` make of each message from now on those that arrive."""
        self.cell.world.spoil = lambda message: [(each, 0) for each in spoil(message)]

    def goal(self, speed=0.5):
        """Return the message of a motion by a radian."""
        here = np.array(self.cell.states[-1].position)
        return self._move(np.where(here > 0.0, here - 1.0, here + 1.0), start=here, speed=speed)

    def move(self, meanwhile=lambda: None):
        """Have the arm moved by a radian; call ``meanwhile`` once it is on its way."""
        request = self.cell.begin(trajectory=self.goal())
        self.cell.wait_until(lambda: request.done or request.progress > 0.2, 'the motion')
        assert not request.done, request.result.error_msg
        meanwhile()
        result = self.cell.finish(request)[1]
        assert self.cell.at_rest()
        return result

    def require_no_leap(self):
        """Hold the true arm to the motion's limits, 0.75 rad/s, and the controller's stop."""
        rate = self.cell.world.simulator.settings.servo_rate
        position, velocity = (np.array(each) for each in zip(*self.cell.world.track))
        acceleration = np.diff(velocity, axis=0) * rate
        assert np.abs(velocity).max() < 1.1
        assert np.abs(position).max() < 1.1
        assert np.abs(acceleration).max() < 20.0


@pytest.fixture
def driver(driven_cell, move):
    cell = driven_cell(described=False, stale_timeout=1.0)
    yield Driver(cell, move)
    assert 'Traceback' not in cell.output


def copy(message, **fields):
    """Return a joint state with other values."""
    names = 'header', 'name', 'position', 'velocity', 'effort'
    return JointState(**{**{name: getattr(message, name) for name in names}, **fields})


SPOILED = {
    'stop': (lambda message: [], 'no joint states for'),
    'lose a joint': (
        lambda m: [copy(m, name=m.name[:1], position=m.position[:1], velocity=[], effort=[])],
        "joint 'joint_2' is not in the joint states",
    ),
    'are not known': (lambda m: [copy(m, position=[np.nan] * 2)], 'no finite positions'),
    'are empty': (lambda m: [JointState()], "joint 'joint_1' is not in the joint states"),
}


@pytest.mark.parametrize('kind', SPOILED)
def test_joint_states_that_tell_nothing_stop_the_motion(driver, kind):
    spoil, words = SPOILED[kind]
    result = driver.move(lambda: driver.spoil(spoil))
    assert result.error_code == Code.STALE_STATE, result.error_msg
    assert words in result.error_msg
    driver.require_no_leap()


def test_a_clock_that_goes_back_stops_nothing(driver):
    def back(message):
        message.header.stamp.sec -= 5
        return [message]

    result = driver.move(lambda: driver.spoil(back))
    assert (result.error_code, result.error_msg) == (Code.NONE, '')
    driver.require_no_leap()


def leap(driver, seconds):
    """Have the clock of robot and controller leap, as all stamps show from now on."""
    cell = driver.cell
    state = cell.controller.state

    def leapt(joints):
        found = state(joints)
        return replace(found, stamp=found.stamp + 10**9 * seconds)

    def spoil(message):
        stamp = Time(sec=message.header.stamp.sec + seconds, nanosec=message.header.stamp.nanosec)
        return [copy(message, header=Header(stamp=stamp))]

    cell.controller.state = leapt
    driver.spoil(spoil)


INSTANTS = {
    'at once': lambda cell, request: True,
    'joint states are awaited': lambda cell, request: cell.world.now > 0.45,
    'the controller is awaited': lambda cell, request: cell.world.now > 0.52,
    'in the motion': lambda cell, request: request.progress > 0.4,
    'it settles': lambda cell, request: request.progress == 1.0,
}


@pytest.mark.parametrize('when', INSTANTS)
@pytest.mark.parametrize('seconds', [10, -900])
def test_a_clock_that_leaps_stops_nothing_and_holds_up_nothing(driver, seconds, when):
    """As when a simulation begins again; for a step back of 900 s nobody waits 900 s."""
    cell = driver.cell
    request = cell.begin(trajectory=driver.goal())
    cell.wait_until(lambda: INSTANTS[when](cell, request), when)
    assert not request.done
    assert (cell.controller.goals == []) == ('motion' not in when and 'settles' not in when)
    leap(driver, seconds)
    begin = cell.world.wall
    _, result, _ = cell.finish(request)
    assert (result.error_code, result.error_msg) == (Code.NONE, '')
    assert result.at_rest and cell.world.wall - begin < 2.6 + 1.0
    assert result.duration == pytest.approx(result.planned_duration, abs=0.1)
    driver.require_no_leap()


def test_a_clock_that_leaps_after_a_cancel_hides_no_rest(driver):
    request = driver.cell.begin(trajectory=driver.goal())
    driver.cell.wait_until(lambda: request.progress > 0.4, 'the motion')
    request.cancel()
    driver.cell.wait_until(lambda: driver.cell.controller.cancels, 'the cancel')
    driver.cell.pass_time(0.1)
    leap(driver, 10)
    result = driver.cell.finish(request)[1]
    assert result.error_msg == 'canceled; the robot is at rest' and result.at_rest


def test_a_controller_whose_clock_stands_still_moves_nothing(driver):
    """One that waits for a /clock which never comes; the driver has its own clock."""
    cell = driver.cell
    state = cell.controller.state
    cell.controller.state = lambda joints: replace(state(joints), stamp=0)
    for dry_run in (True, False):
        result = cell.excite(trajectory=driver.goal(), dry_run=dry_run)[1]
        assert result.error_code == Code.NO_CONTROLLER, result.error_msg
        assert "controller_state' stand still" in result.error_msg
        assert 'use_sim_time' in result.error_msg
    assert not cell.sent


def moved(offset):
    return lambda m: [copy(m, position=[q + offset for q in m.position])]


FALSE = {
    'a leap of 1 rad': moved(1.0),
    'a leap of 0.3 rad': moved(0.3),
    'names swapped': lambda m: [copy(m, name=m.name[::-1])],
}


@pytest.mark.parametrize('kind', FALSE)
def test_joint_states_that_are_false_end_the_motion_without_a_leap(driver, kind):
    result = driver.move(lambda: driver.spoil(FALSE[kind]))
    # where both joints are in the same place, only their efforts show that they were swapped
    noticed = {Code.UNTRUSTED_STATE} | ({Code.CONTACT} if kind == 'names swapped' else set())
    assert result.error_code in noticed, result.error_msg
    driver.require_no_leap()


def test_a_second_publisher_of_the_same_joints_ends_the_motion_and_begins_none(driver):
    """As a joint_state_publisher that was forgotten beside the driver."""
    cell = driver.cell
    # both are in the graph, as the node asks it for their names
    graph = rclpy.create_node('forgotten')
    publishers = [graph.create_publisher(JointState, 'joint_states', 1) for _ in range(2)]

    def two(message):
        other = changed(message, [0.0, 0.0], 1e-4, velocity=[], effort=[])
        return [(message, 0), (other, 1)]

    def appear():
        cell.world.spoil = two

    try:
        result = driver.move(appear)
        assert result.error_code == Code.UNTRUSTED_STATE, result.error_msg
        assert '/forgotten' in result.error_msg
        driver.require_no_leap()
        # it is still there: no motion begins, since the joint states alternate
        sent = len(cell.sent)
        result = cell.excite(trajectory=driver.goal())[1]
        assert result.error_code == Code.NOT_AT_START, result.error_msg
        assert '/forgotten' in result.error_msg
        assert len(cell.sent) == sent
    finally:
        for publisher in publishers:
            graph.destroy_publisher(publisher)
        graph.destroy_node()


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

    result = driver.move(lambda: driver.spoil(spoil))
    assert result.error_code == Code.NONE, result.error_msg
    driver.require_no_leap()


def test_another_description_drops_the_plans(driver):
    cell = driver.cell
    made = cell.plan()
    assert made.error_code == 0, made.error_msg
    # the same once more is no other robot
    driver.describe(TEXT)
    assert cell.preview(plan_id=made.plan_id).success
    driver.describe(OTHER)
    for fields in ({}, {'dry_run': True}):
        result = cell.excite(plan_id=made.plan_id, **fields)[1]
        assert result.error_code == Code.UNKNOWN_PLAN
        assert f"'{made.plan_id}' was planned for another robot" in result.error_msg
        assert 'plan again' in result.error_msg
    answer = cell.preview(plan_id=made.plan_id)
    assert not answer.success and 'another robot' in answer.message
    again = cell.plan()
    assert again.plan_id != made.plan_id
    assert cell.excite(plan_id=again.plan_id, dry_run=True)[1].error_code == Code.NONE
    assert not cell.sent


def test_a_description_that_cannot_be_read(driver):
    driver.describe('<robot name="broken">')
    for result, code in (
        (driver.cell.plan(), PLAN.NO_MODEL),
        (driver.cell.excite()[1], Code.NO_MODEL),
    ):
        assert result.error_code == code
        assert 'not well-formed XML' in result.error_msg
    driver.describe(TEXT)
    assert driver.move().error_code == Code.NONE


def test_a_description_that_is_replaced_while_a_plan_is_made(driver):
    """The plan for the other robot is not kept."""
    cell = driver.cell
    cell.workers.waits = False
    request = cell.begin_plan(max_iterations=30, duration=8.0)
    cell.wait_until(lambda: request.feedback, 'the first iteration', longest=1e4)
    assert not request.done
    driver.describe(OTHER)
    cell.wait_until(lambda: request.done, 'the end of the plan', longest=1e4)
    assert request.result.error_code == PLAN.NO_MODEL
    assert 'robot_description has changed meanwhile: plan again' in request.result.error_msg
    assert not request.result.plan_id


def test_a_description_that_is_replaced_during_a_motion(driver):
    """It was checked with the limits of another robot, so it ends, at rest."""
    result = driver.move(lambda: driver.describe(OTHER))
    assert result.error_code == Code.NO_MODEL, result.error_msg
    assert 'robot_description has changed' in result.error_msg
    driver.describe(TEXT)
    # and the next one is carried out
    assert driver.move().error_code == Code.NONE
    driver.require_no_leap()


OTHERS = {
    'other limits': (TEXT.replace('velocity="3"', 'velocity="0.01"'), 'has changed meanwhile'),
    'other joints': (TEXT.replace('joint_', 'axis_'), 'has changed meanwhile'),
    'more joints': ((URDF.parent / 'demo_arm.urdf').read_text(), 'has changed meanwhile'),
    'nothing': ('', "the text '' is no URDF"),
    'half of it': (TEXT[: len(TEXT) // 2], 'not well-formed XML'),
}


@pytest.mark.parametrize('kind', OTHERS)
@pytest.mark.parametrize('after', [0.1, 0.22])  # joint states, and the controller, are awaited
def test_a_description_that_is_replaced_during_the_checks(driver, after, kind):
    """Neither a motion nor a preview passes by the checks of the robot of before."""
    text, words = OTHERS[kind]
    cell = driver.cell
    for begin in (cell.begin, cell.begin_preview):
        request = begin(trajectory=driver.goal())
        cell.pass_time(after)
        assert not request.done
        driver.describe(text)
        cell.wait_until(lambda made=request: made.done, 'the answer')
        message = getattr(request.result, 'error_msg', '') or request.result.message
        assert words in message and 'internal error' not in message
        driver.describe(TEXT)
    assert not cell.sent
    assert driver.move().error_code == Code.NONE


def test_two_motions_at_once(driver):
    """One is carried out, the other refused; so it is with a preview during a motion."""
    answers = []

    def ask():
        answers.append(driver.cell.excite(plan_id='plan_1')[1])
        answers.append(driver.cell.preview(plan_id='plan_1'))

    assert driver.move(ask).error_code == Code.NONE
    refused, preview = answers
    assert refused.error_code == Code.BUSY
    assert not preview.success and 'a motion is running' in preview.message


def test_checks_do_not_wait_for_plans(driver, monkeypatch):
    cell, over, compute = driver.cell, threading.Event(), excitation_node.plan

    def long(*args, **options):
        assert over.wait(120.0)
        return compute(*args, **options)

    monkeypatch.setattr(excitation_node, 'plan', long)
    cell.workers.waits = False
    plans = [cell.begin_plan(seed=seed) for seed in (1, 2, 3)]
    try:
        result = driver.move()
        assert (result.error_code, result.error_msg) == (Code.NONE, '')
        assert not any(plan.done for plan in plans)
    finally:
        over.set()
    for plan in plans:
        assert cell.finish(plan)[1].error_code == 0
