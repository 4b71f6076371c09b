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
    serve,
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
    'serve',
]

LATCHED = QoSProfile(
    history=HistoryPolicy.KEEP_LAST,
    depth=1,
    reliability=ReliabilityPolicy.RELIABLE,
    durability=DurabilityPolicy.TRANSIENT_LOCAL,
)
"""For robot_description, results and status: late subscribers receive the last message."""


def given_path(text: str, key: str, base: Path = Path()) -> Path:
    """
    Return the absolute path in a request or a parameter, where ``~`` is a home folder.

    Parameters
    ----------
    text, key:
        The path, and its name in the request or as a parameter.
    base:
        Start of a relative path.

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
