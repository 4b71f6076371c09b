# SPDX-License-Identifier: Apache-2.0
"""What a motion asks of whoever hands it to the robot's controller."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from ..excitation.points import Points

Tick = Callable[[], Awaitable[None]]
"""Awaited to wait for the next look at the robot, some 10 ms; other callbacks run meanwhile."""


class Sender(Protocol):
    """
    Hands a motion to the robot's controller, one short horizon after the other.

    A *horizon* is the next piece of the checked path with a smooth stop along the path behind it.
    A new one comes several times within its length, and replaces what is left of the former; up
    to where the former began to stop, both are the same motion.  So a controller that gets no
    more, since the node or the network has died, brings the robot to rest by itself.  A stop that
    is wanted is one more such message.

    A motion calls `prepare` once, `send` again and again, and `finish` once, however it ended;
    then comes the next motion.  It reads the properties some hundred times a second, so they must
    not compute or wait.
    """

    @property
    def target(self) -> str:
        """Where the commands go, for messages: ``topic '/joint_trajectory'``, for example."""

    @property
    def speed_scaling(self) -> float:
        """
        How fast the controller lets the motion's time pass; 1 in real time, 0 while it pauses.

        The motion integrates it to know how far along the path the robot should be, and stamps
        its horizons by that.
        """

    @property
    def failure(self) -> str | None:
        """Why the controller has given the motion up, with the remedy; None while it has not."""

    async def prepare(self, joints: tuple[str, ...], tick: Tick) -> None:
        """
        Wait until the controller is there and takes commands for ``joints``.

        Raises
        ------
        MotionError
            ``NO_CONTROLLER`` where it does not appear in time, ``JOINTS_DIFFER`` where its joints
            are others.

        """

    def send(self, points: Points, start: int) -> None:
        """
        Have the robot follow ``points`` from now on, in place of what was sent before.

        Parameters
        ----------
        points:
            They end at rest.  The first lies before the present, but for the first message of a
            motion, which comes a little ahead of time; between two points the motion is the
            quintic through both.  `Points.time` need not begin at 0.
        start:
            When `Points.time` 0 is or was, in the clock of the joint states [ns].  Where the
            controller scales time, it is moved so that the points fit the present.

        """

    def finish(self) -> None:
        """Forget the motion: the robot rests, and nothing more is to be sent."""
