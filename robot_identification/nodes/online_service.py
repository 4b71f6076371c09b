# SPDX-License-Identifier: Apache-2.0
"""Live identification in the identification node: its services, its state and its process."""

from __future__ import annotations

from collections.abc import Callable
import contextlib
from datetime import datetime
from pathlib import Path
import shutil
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.node import Node
from robot_identification_msgs.msg import OnlineStatus
from std_msgs.msg import Header
from std_srvs.srv import SetBool, Trigger

from ..config.problem import IdentificationProblem
from ..errors import IdentificationError, ModelError
from ..online.process import OnlineProcess, STOP_SECONDS
from ..online.saving import fresh_folder, save_live
from ..online.settings import OnlineOptions, OnlineTask, require_live
from .common import declare_options, LATCHED, now, serve, steady_timer
from .common.messages import diagnostics
from .common.requests import RequestQueue, SERVICES
from .online_process import diagnostic


class OnlineService:
    """
    Switches the live identification on and off, and passes requests on to its process.

    ``problem`` returns the robot and the settings as they are now, ``description`` the URDF that
    has arrived last, None for none, and ``output`` the folder for results.
    """

    def __init__(
        self,
        node: Node,
        problem: Callable[[], IdentificationProblem],
        description: Callable[[], str | None],
        output: Callable[[], Path],
    ) -> None:
        self._node, self._problem, self._output = node, problem, output
        self._description = description
        self._options = declare_options(node, OnlineOptions, 'online')
        self._wanted = self._options.enabled
        self._process: OnlineProcess | None = None
        self._trouble = ''
        status = node.resolve_topic_name('~/online/status')
        self._status_out = node.create_publisher(OnlineStatus, status, LATCHED)
        self._diagnostics_out = node.create_publisher(DiagnosticArray, '/diagnostics', 10)
        # a queue of its own: the process answers while a recording is identified from
        self._queue = RequestQueue(node, limit=SERVICES.depth)
        group = ReentrantCallbackGroup()
        for kind, name, function in (
            (SetBool, 'enable', self._enable),
            (SetBool, 'freeze', self._freeze),
            (Trigger, 'reset', self._reset),
            (Trigger, 'save', self._save),
        ):
            name = f'~/online/{name}'
            serve(node, kind, name, function, queue=self._queue, callback_group=group)
        # players wait for the first status: its state is the one that they wait on
        self._publish_state(OnlineStatus.STARTING if self._wanted else OnlineStatus.OFF, '')
        steady_timer(node, 0.5, self._on_timer, group)

    async def close(self) -> None:
        """End the process for good, as the node ends."""
        self._wanted = False
        self.stop()
        await self._queue.stop(STOP_SECONDS)

    def stop(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            process.stop()

    # ------------------------------------------------------------------------------------ requests

    def _enable(self, request: SetBool.Request, _: Any) -> str:
        was = self._wanted
        if not request.data:
            self._wanted, self._trouble = False, ''
            self.stop()
            self._publish_state(OnlineStatus.OFF, '')
            return 'joint states are not followed any more' if was else 'it was off already'
        self._look()
        if self._process is not None:
            return 'it was on already'
        self._start()
        assert self._process is not None
        self._wanted = True
        return f'following {self._process.task.joint_states}'

    def _freeze(self, request: SetBool.Request, _: Any) -> str:
        self._running().ask('freeze', request.data)
        return 'the estimate stays as it is' if request.data else 'every sample counts again'

    def _reset(self, *_: Any) -> str:
        self._running().ask('reset')
        return 'the live estimate is forgotten; the next samples begin a new one'

    def _save(self, *_: Any) -> str:
        process = self._running()
        folder = fresh_folder(self._output() / f'online_{datetime.now():%Y%m%d_%H%M%S}')
        try:
            snapshot = process.ask('save', folder / 'state.npz')
            if snapshot is None:
                raise IdentificationError(
                    'there is no live estimate yet',
                    remedy=f'wait for joint states on {process.task.joint_states}; '
                    '~/online/status reports what is missing',
                )
            return save_live(snapshot, process.task.problem, folder)
        except Exception:
            # all of it, or nothing: half of an estimate looks like one
            shutil.rmtree(folder, ignore_errors=True)
            raise

    def _running(self) -> OnlineProcess:
        if self._process is not None:
            return self._process
        reason = f': {self._trouble}' if self._trouble else ''
        if self._wanted:
            raise IdentificationError(
                f'the live identification has not started yet{reason}',
                remedy='~/online/status reports when it has',
            )
        raise IdentificationError(
            f'joint states are not followed{reason}',
            remedy='call ~/online/enable with data: true first',
        )

    # --------------------------------------------------------------------------------- the process

    def _start(self) -> None:
        problem = self._problem()
        require_live(problem)
        node = self._node
        task = OnlineTask(
            problem=problem,
            options=self._options,
            node=node.get_fully_qualified_name(),
            joint_states=node.resolve_topic_name('joint_states'),
            parameters=node.resolve_topic_name('~/online/parameters'),
            status=node.resolve_topic_name('~/online/status'),
            system_stamps=not node.get_parameter('use_sim_time').value,
        )
        self._trouble = ''
        self._publish_state(OnlineStatus.STARTING, '')
        self._process = OnlineProcess(f'{__package__}.online_process', task)

    def _give_up(self, reason: str) -> None:
        """Note that the process ended by itself; it is not started again unasked."""
        self.stop()
        self._wanted, self._trouble = False, reason
        self._node.get_logger().error(f'live identification: {reason}')

    async def _on_timer(self) -> None:
        if not len(self._queue):
            with contextlib.suppress(IdentificationError):  # the node ends
                await self._queue.work('start', self._look)

    def _look(self) -> None:
        """Start as soon as the robot is known, and again for another robot; publish troubles."""
        try:
            if self._process is not None and self._process.look():
                self._stop_for_another_robot(self._process.task)
            if self._wanted and self._process is None:
                self._start()
        except ModelError as error:
            self._trouble = str(error)  # no description yet, or one that cannot be read
        except IdentificationError as error:
            self._give_up(str(error))
        if self._process is None and self._trouble:
            self._publish_state(OnlineStatus.OFF, self._trouble)

    def _stop_for_another_robot(self, task: OnlineTask) -> None:
        urdf = self._description()
        if urdf is not None and urdf != task.problem.robot.urdf:
            self._node.get_logger().warning(
                'robot_description has changed: the live estimate begins again'
            )
            self.stop()

    def _publish_state(self, state: int, trouble: str) -> None:
        node = self._node
        stamp = now(node).to_msg()
        status = OnlineStatus(header=Header(stamp=stamp), state=state, message=trouble)
        self._status_out.publish(status)
        if trouble:
            entry = diagnostic(node.get_fully_qualified_name(), '', status)
            self._diagnostics_out.publish(diagnostics(node, entry))
