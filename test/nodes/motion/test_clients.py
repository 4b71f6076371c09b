# SPDX-License-Identifier: Apache-2.0
"""A motion whose client ceases to give signs of life."""

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='needs ROS 2 (rclpy): run `make test`')

from robot_identification_msgs.action import Excite
from std_msgs.msg import Empty

GOAL = np.array([2.0, -1.5])


@pytest.fixture
def cell(driven_cell):
    """Give the node and an arm at rest at zero, on a clock that the test drives."""
    return driven_cell(alive_timeout=0.5)


def test_a_sign_of_life_has_to_go_on(cell, move):
    request = cell.begin(trajectory=move(GOAL, speed=0.3))
    for _ in range(20):
        cell.deliver('excitation/alive', Empty())
        cell.pass_time(0.1)
    assert not request.done and request.progress > 0.05
    last = cell.world.now
    cell.wait_until(lambda: request.feedback[-1].phase == 'stopping', 'the stop')
    # told of it a little later by the feedback
    assert 0.3 < cell.world.now - last < 0.6
    _, result, _ = cell.finish(request)
    assert result.error_code == Excite.Result.CLIENT_LOST
    assert 'no sign of life' in result.error_msg
    assert cell.at_rest()
    # who sends none need not: the next motion goes on without
    _, result, _ = cell.excite(trajectory=move(0.1 * GOAL, start=cell.states[-1].position))
    assert result.error_code == 0, result.error_msg
