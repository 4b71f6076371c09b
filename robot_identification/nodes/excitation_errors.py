# SPDX-License-Identifier: Apache-2.0
"""Reasons for which a motion is refused or ends early."""

from __future__ import annotations

from rclpy.action.server import ServerGoalHandle
from robot_identification_msgs.action import Excite, PlanExcitation

from ..errors import (
    ExcitationError,
    ModelError,
    SettingsError,
)

Code = Excite.Result
"""Has the codes as its constants."""


def code_name(code: int) -> str:
    """Return what a code is called in the action."""
    names = (name for name in dir(Code) if name.isupper() and getattr(Code, name) == code)
    return next(names, str(code))


class MotionError(Exception):
    """A motion that does not begin or ends early: a code of Excite's result, and words."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


class OffPathError(MotionError):
    """A robot that is not where the plan has it or not free: a stop along the path would press."""


class NoMoreCommandsError(MotionError):
    """
    A motion to which nothing may be added: the controller ends the horizon that it has.

    The next command could be a leap, since the horizon is about to end, or since it is not known
    whether the robot still follows.
    """


def plan_code(error: Exception) -> int:
    """Return the code of PlanExcitation's result that says why there is no plan."""
    codes = PlanExcitation.Result
    for kind, code in (
        (SettingsError, codes.INVALID_SETTINGS),
        (ModelError, codes.NO_MODEL),
        (ExcitationError, codes.INFEASIBLE),
    ):
        if isinstance(error, kind):
            return code
    return codes.INTERNAL


def end_early(goal: ServerGoalHandle) -> None:
    """End a goal that was canceled by its client, or by the node's end."""
    if goal.is_cancel_requested:
        goal.canceled()
    else:
        goal.abort()
