# SPDX-License-Identifier: Apache-2.0
"""The node that moves a robot dies, for good, for a while, or as it is asked to."""

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='needs ROS 2 (rclpy): run `make test`')

from robot_identification_msgs.action import Excite

GOAL = np.array([2.0, -1.5])


@pytest.fixture
def cell(driven_cell):
    """Give the node and an arm at rest at zero, on a clock that the test drives."""
    return driven_cell(horizon=0.5)


def moving(cell):
    """Tell whether the arm was moving in the latest joint states."""
    return np.abs(cell.velocities()[-5:]).max() > 0.05


def require_smooth_rest(cell, since, bound):
    """
    Hold an arm that rests by now to the straight path that it was on.

    ``since`` is the place in ``cell.states`` at which the node was gone.
    """
    stamps, velocities, positions = cell.stamps(), cell.velocities(), cell.positions()
    assert np.abs(velocities[-40:]).max() < 2e-3
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


def bound_logged(cell):
    """Return the bound that the node has logged [s]."""
    line = [line for line in cell.output.splitlines() if 'rests within' in line][-1]
    return float(line.rsplit('within', 1)[1].split()[0])


@pytest.mark.parametrize('share', [0.1, 0.3, 0.6])
def test_the_node_dies_and_the_arm_rests_within_the_bound_on_the_path(cell, move, share):
    request = cell.begin(trajectory=move(GOAL, speed=0.6))
    cell.wait_until(lambda: request.progress > share, 'the motion')
    since = len(cell.states) - 1
    assert moving(cell)
    bound = bound_logged(cell)
    assert 0.5 < bound < 1.5
    cell.hold_up(bound + 0.5)
    assert not request.done
    require_smooth_rest(cell, since, bound)


@pytest.mark.parametrize('held_up', [1.0, 2.0])
def test_a_node_that_was_held_up_ends_the_motion_and_does_not_take_it_up_again(
    cell, move, held_up
):
    goal = move(GOAL, speed=0.4)
    request = cell.begin(trajectory=goal)
    cell.wait_until(lambda: request.progress > 0.3, 'the motion')
    since = len(cell.states) - 1
    assert moving(cell)
    cell.hold_up(held_up)
    _, result, _ = cell.finish(request)
    assert result.error_code == Excite.Result.INTERNAL
    assert 'held up' in result.error_msg and 'horizon' in result.error_msg
    assert cell.at_rest()
    require_smooth_rest(cell, since, bound_logged(cell))
    # and the next motion goes as ever
    _, result, _ = cell.excite(trajectory=goal)
    assert (result.error_code, result.error_msg) == (0, '')
    assert np.abs(np.array(cell.states[-1].position) - GOAL).max() < 0.02


def test_a_node_that_was_held_up_for_less_than_its_horizon_goes_on(cell, move):
    request = cell.begin(trajectory=move(GOAL, speed=0.4))
    cell.wait_until(lambda: request.progress > 0.3, 'the motion')
    cell.hold_up(0.25)
    _, result, _ = cell.finish(request)
    assert (result.error_code, result.error_msg) == (0, '')
    assert result.max_tracking_error < 0.05


def test_the_node_leaves_a_robot_at_rest_and_tells_its_client(cell, move):
    request = cell.begin(trajectory=move(GOAL, speed=0.5))
    cell.wait_until(lambda: request.progress > 0.3, 'the motion')
    leaving = cell.start(cell.node.on_shutdown())
    _, result, _ = cell.finish(request)
    cell.wait_until(lambda: leaving.done, 'the end of the node')
    assert result.error_code == Excite.Result.CANCELED
    assert 'node ends' in result.error_msg
    assert cell.at_rest()
    shares = np.array(cell.states[-1].position) / GOAL
    assert 0.1 < shares[0] < 0.95 and abs(np.diff(shares)[0]) < 0.01
