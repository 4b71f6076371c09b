# SPDX-License-Identifier: Apache-2.0
"""Messages from the excitation node to the process that streams commands."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='needs ROS 2 (rclpy): run `make test`')

from robot_identification.excitation.trajectories import PointTrajectory
from robot_identification.nodes.excitation.command_process import CommandSender
from robot_identification.nodes.excitation.options import ControllerOptions


def test_a_robot_that_was_left_gets_no_further_motion(ros):
    """It would leap: the robot rests where its last command was, and the stop begins elsewhere."""
    options = ControllerOptions(controller_kind='position_commands', controller_topic='commands')
    sender = CommandSender(ros.node, None, options)
    said = []
    stream = SimpleNamespace(
        ended=False,
        held_up=0.0,
        end_if_hung=lambda: None,
        send=lambda *words: said.append(words[0]),
    )
    sender._stream, sender._order = stream, ('joint_1',)
    stop = PointTrajectory(('joint_1',), np.array([0.0, 1.0]), *np.zeros((3, 2, 1)))
    assert sender.failure is None
    sender.send(stop, 0)
    assert said == ['horizon']
    stream.held_up = 0.2
    assert 'was left there' in sender.failure
    sender.send(stop, 0)
    assert said == ['horizon']
