# SPDX-License-Identifier: Apache-2.0
"""Reasons for which a motion is refused or ends early, the end of its client among them."""

from __future__ import annotations

import time

from rclpy.action.server import ServerGoalHandle
from rclpy.callback_groups import CallbackGroup
from rclpy.node import Node
from robot_identification_msgs.action import Excite, PlanExcitation
from std_msgs.msg import Empty

from ...errors import (
    ExcitationError,
    ModelError,
    SettingsError,
)
from .options import ExecutionOptions

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


GONE_SECONDS = 1.0
"""How long a client has to be missing in the graph to be gone: discovery may flicker [s]."""

_LOOK_SECONDS = 0.1


class ClientWatch:
    """
    Looks at the clients of an action in the graph, and listens to signs of life.

    A goal does not say whose it is.  Those that listen to the action's feedback when a motion
    begins may be its client; once none of them is left, it is gone.  For a client that was killed
    this takes as long as the middleware trusts it.  A sign of life on ``~/alive`` is quicker: who
    sends one during a motion has to go on.

    Parameters
    ----------
    node, action:
        The action server's node, and the action's name.
    group:
        Callback group of the subscription.

    """

    def __init__(self, node: Node, action: str, group: CallbackGroup) -> None:
        self._node = node
        self._topic = node.resolve_topic_name(f'{action}/_action/feedback')
        self.restart()
        node.create_subscription(Empty, '~/alive', self._lives, 10, callback_group=group)

    def restart(self) -> None:
        """Forget the last motion's client."""
        self._known: dict[bytes, str] = {}
        self._looked = -1.0
        self._seen = time.monotonic()
        self._alive: float | None = None

    def _lives(self, _: Empty) -> None:
        self._alive = time.monotonic()

    def reason(self, options: ExecutionOptions) -> MotionError | None:
        """Return that the client is gone, or None."""
        now = time.monotonic()
        if self._alive is not None and now - self._alive > options.alive_timeout:
            return MotionError(
                Code.CLIENT_LOST,
                f'no sign of life on ~/alive for {now - self._alive:.2f} s (alive_timeout is '
                f'{options.alive_timeout:g} s); the robot is at rest',
            )
        if not options.stop_when_client_leaves:
            return None
        if now - self._looked >= _LOOK_SECONDS:
            self._looked = now
            if self._present():
                self._seen = now
        if now - self._seen <= GONE_SECONDS:
            return None
        names = ', '.join(sorted(set(self._known.values())))
        return MotionError(
            Code.CLIENT_LOST,
            f'the client is gone ({names}); the robot is at rest. To go on without a client, set '
            'stop_when_client_leaves to false',
        )

    def _present(self) -> bool:
        """Tell whether one of those is there that were there at the beginning."""
        listeners = {
            bytes(info.endpoint_gid): f'{info.node_namespace.rstrip("/")}/{info.node_name}'
            for info in self._node.get_subscriptions_info_by_topic(self._topic)
        }
        if not self._known:
            # discovery may be later than the goal; where it tells nothing, nobody is missed
            self._known = listeners
            return True
        return not self._known.keys().isdisjoint(listeners)
