# SPDX-License-Identifier: Apache-2.0
"""
The robot over ROS 2, as all windows of a server share it: live states, and one motion.

Nothing here commands a controller: the nodes are asked, and their refusals are shown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from importlib.util import find_spec
import time
from typing import Any, TYPE_CHECKING

from ..errors import IdentificationError, SettingsError

if TYPE_CHECKING:
    from ..nodes.robot_link import MotionRequest, RobotLink

LEAST_PAUSE, MOST_PAUSE = 0.5, 10.0
"""Time between the two confirmations of a motion, at least and at most [s]."""


class Ros:
    """
    The link to the robot's nodes, requests to them, and what came of these.

    Attributes
    ----------
    closed:
        Why the stages of it are closed; empty where they are open.
    namespace:
        Of the nodes.
    link:
        None until `join`: nothing listens before.
    lines:
        Last answer or error by stage.
    motion:
        Texts of ``source``, ``speed`` and ``recording`` of the next motion.
    recorded:
        Folder of the last motion's recording.
    version:
        Counted up whenever there is something new to show.

    """

    def __init__(self) -> None:
        lacking = [name for name in ('rclpy', 'robot_identification_msgs') if not find_spec(name)]
        self.closed = ''
        if lacking:
            self.closed = (
                f'Live and Arm are closed: there is no {lacking[0]}; source your ROS 2 workspace '
                'before you start the command'
            )
        self.namespace = self.recorded = ''
        self.link: RobotLink | None = None
        self.lines: dict[str, str] = {}
        self.motion = {'source': '', 'speed': '0.2', 'recording': 'excitation'}
        self.version = 0
        self._checked: tuple[MotionRequest, Mapping[str, Any]] | None = None
        self._pressed = -MOST_PAUSE
        self._tasks: dict[str, asyncio.Task] = {}

    def start(self, stage: str, work: Callable[[], Awaitable[str]]) -> None:
        """Carry out a request and show its answer; one at a time for each stage."""

        async def answered() -> None:
            self.lines[stage] = ''
            self.version += 1
            try:
                self.lines[stage] = await work()
            except IdentificationError as error:
                self.lines[stage] = f'error: {error}'
            except Exception as error:  # whatever ROS raises: every request is answered
                self.lines[stage] = f'error: internal error: {type(error).__name__}: {error}'
            self.version += 1

        if stage not in self._tasks or self._tasks[stage].done():
            self._tasks[stage] = asyncio.ensure_future(answered())

    async def join(self) -> str:
        """Make the link."""

        def make() -> RobotLink:
            try:
                from ..nodes.robot_link import RobotLink
            except ImportError as error:
                raise IdentificationError(f'ROS 2 is not complete: {error}') from error
            return RobotLink(self.namespace.strip())

        if self.link is None:
            self.link = await asyncio.to_thread(make)
        return ''

    async def ask(self, verb: str, **fields: Any) -> str:
        """Call a service of the nodes by its verb, and return what it says."""
        assert self.link is not None
        answer = await asyncio.wrap_future(self.link.ask(verb, **fields))
        path = getattr(answer, 'path', '')
        if verb == 'end':
            self.recorded = path
        return ': '.join(filter(None, (path, answer.message))) or 'done'

    # ------------------------------------------------------------------------------------ motion

    def request(self) -> MotionRequest:
        """Return the motion that is asked for; raises SettingsError."""
        from ..nodes.robot_link import MotionRequest

        return MotionRequest.of_texts(**self.motion)

    @property
    def may_move(self) -> bool:
        """True if the dry run of the very motion that is asked for has passed."""
        try:
            return self._checked is not None and self._checked[0] == self.request()
        except SettingsError:
            return False

    @property
    def confirming(self) -> bool:
        """True if the motion has been confirmed once, and waits for the second time."""
        return self.may_move and time.monotonic() - self._pressed < MOST_PAUSE

    async def dry_run(self) -> str:
        """Have every check of the motion made; nothing moves."""
        self._checked = None
        request = self.request()
        fields = await asyncio.to_thread(request.fields)
        assert self.link is not None
        done = await asyncio.wrap_future(self.link.move(fields, dry_run=True))
        self._checked, self._pressed = (request, fields), -MOST_PAUSE
        return f'every check holds, by {done.limits_in_force}'

    def confirm(self) -> None:
        """Take a confirmation; the second one, some time after the first, starts the motion."""
        pause = time.monotonic() - self._pressed
        if not self.may_move:
            return
        if not self.confirming:
            self._pressed = time.monotonic()
            self.version += 1
        elif pause > LEAST_PAUSE:
            self.start('arm', self._execute)

    async def _execute(self) -> str:
        assert self.link is not None and self._checked is not None
        # each motion has a dry run of its own
        (_, fields), self._checked, self.recorded = self._checked, None, ''
        done = await asyncio.wrap_future(self.link.move(fields, dry_run=False))
        self.recorded = done.recording_path
        rest = 'at rest' if done.at_rest else 'not seen at rest'
        return (
            f'executed in {done.duration:.3g} s, {rest}; largest tracking error '
            f'{done.max_tracking_error:.3g} rad or m, largest share of an effort limit '
            f'{done.max_effort_share:.2g}; {done.recording_path or "not recorded"}'
        )

    def cancel(self) -> None:
        """Cancel the motion or the dry run that is under way."""
        if self.link is not None:
            self.link.cancel()

    def close(self, say: Callable[[str], None]) -> None:
        """Leave ROS; what is under way is ended in order, or said."""
        if self.link is not None:
            self.link.close(say)
