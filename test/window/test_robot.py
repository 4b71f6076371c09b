# SPDX-License-Identifier: Apache-2.0
"""Confirmation of a motion in the window, and its words, without nodes."""

import asyncio
from concurrent.futures import Future
from threading import Event
import time
from types import SimpleNamespace

import numpy as np
import pytest
from robot_identification.errors import IdentificationError
from robot_identification.window import robot as module
from robot_identification.window.robot import Ros

pytest.importorskip('rclpy', reason='needs ROS 2 (rclpy): run `make test`')


class Link:
    """Link whose motions end at once."""

    def __init__(self):
        self.moves = []

    def move(self, fields, *, dry_run):
        self.moves.append((fields['plan_id'], fields['speed'], dry_run))
        done = Future()
        done.set_result(
            SimpleNamespace(
                limits_in_force='the present settings', recording_path='', at_rest=True,
                duration=1.0, max_tracking_error=0.0, max_effort_share=0.1,
            )
        )  # fmt: skip
        return done


def test_only_what_was_checked_moves_and_only_after_two_confirmations(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(module.time, 'monotonic', lambda: now[0])

    async def settle():
        while not all(task.done() for task in ros._tasks.values()):
            await asyncio.sleep(0)

    def press(after):
        now[0] += after
        ros.confirm()

    async def walk():
        ros.motion.update(source='plan_1', speed='0.5')
        press(1.0)
        ros.start('arm', ros.dry_run)
        await settle()
        assert ros.lines['arm'] == 'every check holds, by the present settings'
        ros.motion['speed'] = '1'
        press(1.0)
        press(1.0)  # another speed than the one that was checked
        ros.motion['speed'] = '0.5'
        for pause in (1.0, 0.1, 11.0, 0.2):  # too soon, too late, too soon
            press(pause)
            await settle()
        assert ros.link.moves == [('plan_1', 0.5, True)]
        press(1.0)
        await settle()
        assert ros.link.moves[1:] == [('plan_1', 0.5, False)]
        assert ros.lines['arm'].startswith('executed in 1 s, at rest')
        for _ in range(3):  # the next motion needs a dry run of its own
            press(1.0)
            await settle()
        assert len(ros.link.moves) == 2
        ros.motion['speed'] = 'fast'
        ros.start('arm', ros.dry_run)
        await settle()
        assert ros.lines['arm'].startswith("error: '--speed fast' is no share")

    ros = Ros()
    ros.link = Link()
    asyncio.run(walk())


def test_without_ros_the_stages_are_closed_by_one_line(monkeypatch):
    monkeypatch.setattr(module, 'find_spec', lambda name: None)
    assert Ros().closed.startswith('Live and Arm are closed: there is no rclpy; source')


def test_whatever_goes_wrong_is_answered():
    async def fail():
        raise RuntimeError('context is not valid')

    async def walk():
        ros.start('live', fail)
        await ros._tasks['live']

    ros = Ros()
    asyncio.run(walk())
    assert ros.lines['live'] == 'error: internal error: RuntimeError: context is not valid'


def test_requests_that_the_end_cuts_off_are_refused(monkeypatch):
    from robot_identification.nodes import robot_link

    class Caller:
        def __init__(self, node, check):
            self.check = check

        def spin(self, until, seconds):
            while not until():
                time.sleep(0.001)

    def work(caller):
        begun.set()
        while True:
            caller.check()

    begun = Event()
    monkeypatch.setattr(robot_link, 'ServiceCaller', Caller)
    lane = robot_link._Lane(SimpleNamespace(get_name=lambda: 'lane'))
    asked = [lane.do(work), lane.do(lambda caller: 'done')]
    assert begun.wait(10.0)
    lane.close()
    for each in (*asked, lane.do(lambda caller: 'done')):
        with pytest.raises(IdentificationError, match='the window ends'):
            each.result(10.0)


def test_no_line_is_drawn_over_a_gap():
    from robot_identification.nodes.robot_link import with_gaps

    time = np.array([-3.0, -2.5, -1.0, -0.5, 0.0])
    found, signals = with_gaps(time, {'position': np.arange(10.0).reshape(5, 2)})
    np.testing.assert_array_equal(found, [-3.0, -2.5, -1.0, -1.0, -0.5, 0.0])
    np.testing.assert_array_equal(signals['position'][:, 0], [0, 2, np.nan, 4, 6, 8])
