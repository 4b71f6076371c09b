# SPDX-License-Identifier: Apache-2.0
"""
Parts that all nodes share: parameters, joint states, start, end and answers.

Nodes import from here what all of them need; what only some need is imported from its module.
"""

from __future__ import annotations

from rclpy.qos import DurabilityPolicy, QoSProfile

from .clock import now
from .joint_states import FetchedMessages, JOINT_STATES
from .parameters import declare_options, read_options, with_request
from .processes import run, steady_timer
from .requests import explain, serve, serve_action

__all__ = [
    'declare_options',
    'explain',
    'JOINT_STATES',
    'FetchedMessages',
    'LATCHED',
    'now',
    'read_options',
    'run',
    'serve',
    'serve_action',
    'steady_timer',
    'with_request',
]

LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
"""For robot_description, results and status: late subscribers receive the last message."""
