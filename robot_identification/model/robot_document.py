# SPDX-License-Identifier: Apache-2.0
"""A robot as plain data, as results and factors store it."""

from __future__ import annotations

from collections.abc import Mapping
import hashlib
from typing import Any
import warnings

from ..errors import IdentificationWarning, SettingsError
from .robot import Robot


def robot_document(robot: Robot) -> dict[str, Any]:
    """Return all that `read_robot` needs, as plain data."""
    return {
        'name': robot.name,
        'file': None if robot.path is None else str(robot.path),
        'joints': list(robot.joints),
        'links': list(robot.links),
        'locked': dict(robot.locked),
        'passive': list(robot.passive),
        'gravity': robot.gravity.tolist(),
        'sha256': _digest(robot.urdf),
        'urdf': robot.urdf,
    }


def read_robot(stored: Mapping[str, Any]) -> Robot:
    """
    Make a robot again of what `robot_document` gave.

    Raises SettingsError if the URDF is not the one that was stored; KeyError or TypeError if
    something is missing or of a wrong type.
    """
    if _digest(stored['urdf']) != stored['sha256']:
        raise SettingsError(
            "the URDF in it was changed and no longer fits its 'sha256'",
            key='robot.urdf',
            remedy='identify again with the changed URDF',
        )
    with warnings.catch_warnings():
        # the warnings on the URDF were given when the result was made
        warnings.simplefilter('ignore', IdentificationWarning)
        return Robot.from_urdf(
            stored['urdf'],
            stored['joints'],
            locked=stored['locked'],
            passive=stored.get('passive', ()),
            gravity=stored['gravity'],
        )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
