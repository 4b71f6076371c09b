# SPDX-License-Identifier: Apache-2.0
"""
Parts that all nodes share: parameters, joint states, start, end and answers.

Nodes import from here what all of them need; what only some need is imported from its module.
"""

from __future__ import annotations

from pathlib import Path

from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy

from ...errors import SettingsError
from .joint_states import (
    FetchedJointStates,
    JOINT_STATES,
)
from .node_main import (
    answer,
    explain,
    run,
)
from .parameters import declare_options, read_options

__all__ = [
    'answer',
    'declare_options',
    'explain',
    'given_path',
    'JOINT_STATES',
    'FetchedJointStates',
    'LATCHED',
    'read_options',
    'run',
]

LATCHED = QoSProfile(
    history=HistoryPolicy.KEEP_LAST,
    depth=1,
    reliability=ReliabilityPolicy.RELIABLE,
    durability=DurabilityPolicy.TRANSIENT_LOCAL,
)
"""For what a late subscriber has to get too: robot_description, results, status."""


def given_path(text: str, key: str, base: Path = Path()) -> Path:
    """
    Return the absolute path that a request or a parameter names; ``~`` is a home folder.

    Parameters
    ----------
    text:
        The path.
    key:
        What it is called in the request, or the parameter's name.
    base:
        Where a relative path starts.

    Raises
    ------
    SettingsError
        where there is no such home.

    """
    try:
        return (base / Path(text).expanduser()).absolute()
    except RuntimeError as error:
        raise SettingsError(
            f"'{key}' is '{text[:80]}', but there is no such user",
            key=key,
            value=text,
            remedy='give a path that does not begin with ~',
        ) from error
