# SPDX-License-Identifier: Apache-2.0
"""The node that moves a robot dies, for good, for a while, or as it is asked to."""

import os
import signal

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='needs ROS 2 (rclpy): run `make test`')

from robot_identification_msgs.action import Excite
from rosbags.highlevel import AnyReader

pytestmark = pytest.mark.wall_clock

GOAL = np.array([2.0, -1.5])


def moving(cell):
    """Tell whether the arm was moving in the latest joint states."""
    return np.abs(cell.velocities()[-20:]).max() > 0.05


def require_smooth_rest(cell, since, bound):
    """
    Wait until the arm rests, and hold it to the straight path that it was on.

    ``since`` is the place in ``cell.states`` at which the node was gone.
    """
    cell.ros.wait_until(
        lambda: len(cell.states) > since + 60 and np.abs(cell.velocities()[-40:]).max() < 2e-3,
        60.0,
        'rest',
    )
    stamps, velocities, positions = cell.stamps(), cell.velocities(), cell.positions()
    still = np.flatnonzero(np.abs(velocities).max(axis=1) > 0.01)[-1]
    # the servo's own lag comes on top of the bound on the commanded motion
    assert stamps[still] - stamps[since] < bound + 0.1
    # on the path: both joints have gone the same share of their ways
    shares = positions[since:] / GOAL
    assert np.abs(np.diff(shares, axis=1)).max() < 0.01
    assert 0.05 < shares[-1].min() < 0.95
    # no jerk of a stop at once: a robot that is halted loses its speed from one state to the next
    acceleration = np.diff(velocities[since:], axis=0) / np.diff(stamps[since:])[:, None]
    assert np.abs(acceleration).max() < 12.0


def bound_told(cell):
    """Return the bound that the node has logged [s]."""
    line = [line for line in cell.node.lines if 'rests within' in line][-1]
    return float(line.rsplit('within', 1)[1].split()[0])


def test_the_node_is_killed_and_the_arm_rests_within_the_bound_on_the_path(
    own_cell, move, tmp_path
):
    cell = own_cell(horizon=0.5)
    recorder = cell.ros.start(
        'recorder', parameters={'use_sim_time': True, 'output': str(tmp_path)}
    )
    goal = move(GOAL, speed=0.6)
    _, future, feedback = cell.begin(trajectory=goal, record=True, recording_name='cut')
    cell.wait_for_progress(feedback, 0.3)
    os.kill(cell.node.pid, signal.SIGKILL)
    since = len(cell.states) - 1
    assert moving(cell)
    bound = bound_told(cell)
    assert 0.5 < bound < 1.5
    require_smooth_rest(cell, since, bound)
    assert not future.done()
    # nobody has told the recorder to stop, so it went on; its bag is whole
    assert recorder.stop() == 0
    with AnyReader([tmp_path / 'cut']) as bag:
        states = [bag.deserialize(data, link.msgtype) for link, _, data in bag.messages()]
    assert states[-1].position[0] == pytest.approx(cell.positions()[-1, 0], abs=1e-3)
    assert len(states) > 200


def test_a_node_that_was_held_up_ends_the_motion_and_does_not_take_it_up_again(own_cell, move):
    cell = own_cell(horizon=0.5)
    goal = move(GOAL, speed=0.4)
    _, future, feedback = cell.begin(trajectory=goal)
    cell.wait_for_progress(feedback, 0.3)
    os.kill(cell.node.pid, signal.SIGSTOP)
    since = len(cell.states) - 1
    assert moving(cell)
    bound = bound_told(cell)
    # by the arm's time, which may pass slowly on a busy machine
    end = cell.stamps()[since] + 2.0
    cell.ros.wait_until(lambda: cell.stamps()[-1] > end, 30.0, 'two seconds')
    os.kill(cell.node.pid, signal.SIGCONT)
    cell.ros.wait_until(future.done, 20.0, 'the result')
    result = future.result().result
    assert result.error_code == Excite.Result.INTERNAL
    assert 'held up' in result.error_msg and 'horizon' in result.error_msg
    require_smooth_rest(cell, since, bound)
    # and the next motion goes as ever
    _, result, _ = cell.excite(trajectory=goal)
    assert (result.error_code, result.error_msg) == (0, '')
    assert np.abs(np.array(cell.states[-1].position) - GOAL).max() < 0.02


def test_the_node_leaves_a_robot_at_rest_and_tells_its_client(own_cell, move):
    cell = own_cell()
    _, future, feedback = cell.begin(trajectory=move(GOAL, speed=0.5))
    cell.wait_for_progress(feedback, 0.3)
    assert cell.node.stop(signal.SIGINT) == 0
    cell.ros.wait_until(future.done)
    assert future.result().result.error_code == Excite.Result.CANCELED
    assert 'node ends' in future.result().result.error_msg
    assert cell.at_rest()
    shares = np.array(cell.states[-1].position) / GOAL
    assert 0.1 < shares[0] < 0.95 and abs(np.diff(shares)[0]) < 0.01
