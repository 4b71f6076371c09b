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
    return driven_cell()


def require_on_path(cell):
    """Hold the arm to the straight path to `GOAL`, all the way, and at rest at its end."""
    assert np.abs(cell.velocities()[-40:]).max() < 2e-3
    shares = cell.positions() / GOAL
    assert np.abs(np.diff(shares, axis=1)).max() < 0.01
    np.testing.assert_allclose(shares[-1], 1.0, atol=5e-3)


SHARES = np.random.default_rng(11).uniform(0.01, 0.97, 20).round(2)
"""Of the motion, after which its node dies: the first four in `make test`, all in `make soak`."""


@pytest.mark.parametrize(
    'share', [*SHARES[:4], *(pytest.param(x, marks=pytest.mark.soak) for x in SHARES[4:])]
)
def test_the_node_dies_and_the_controller_finishes_the_path_in_the_time_that_was_logged(
    cell, move, share
):
    request = cell.begin(trajectory=move(GOAL, speed=0.6))
    began = cell.world.now
    cell.wait_until(lambda: request.progress >= share, 'the motion')
    line = next(line for line in cell.output.splitlines() if 'if this node dies' in line)
    longest = float(line.partition('the robot rests ')[2].split()[0])
    left = began + longest - cell.world.now
    # the joint states by which it was begun, and the drives' lag, come on top
    cell.hold_up(left + 1.0)
    assert not request.done and not cell.controller.cancels
    require_on_path(cell)


@pytest.mark.parametrize('held_up', [0.05, 0.5, 2.5])
def test_a_node_that_was_held_up_goes_on(cell, move, held_up):
    request = cell.begin(trajectory=move(GOAL, speed=0.4))
    cell.wait_until(lambda: request.progress > 0.3, 'the motion')
    cell.hold_up(held_up)
    _, result, _ = cell.finish(request)
    assert (result.error_code, result.error_msg) == (0, '')
    assert result.at_rest and not cell.controller.cancels
    require_on_path(cell)


def test_the_node_leaves_a_robot_at_rest_and_tells_its_client(cell, move):
    request = cell.begin(trajectory=move(GOAL, speed=0.5))
    cell.wait_until(lambda: request.progress > 0.3, 'the motion')
    leaving = cell.start(cell.node.on_shutdown())
    _, result, _ = cell.finish(request)
    cell.wait_until(lambda: leaving.done, 'the end of the node')
    assert result.error_code == Excite.Result.CANCELED
    assert result.error_msg == 'the node ends; the robot is at rest'
    assert result.at_rest and cell.at_rest()
    assert 0.1 < cell.states[-1].position[0] / GOAL[0] < 0.95
