# SPDX-License-Identifier: Apache-2.0
"""Why a motion does not begin or ends early."""

from __future__ import annotations

from robot_identification_msgs.action import Excite

Code = Excite.Result
"""Has the codes as its constants."""


class MotionError(Exception):
    """A motion that does not begin or ends early: a code of Excite's result, and words."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


class LostError(MotionError):
    """The robot is not where the plan has it, so it cannot stop along the path."""
