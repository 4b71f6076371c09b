# SPDX-License-Identifier: Apache-2.0
"""The services and the state of the live identification, as part of the identification node."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial
from pathlib import Path
import shutil
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from rclpy.clock import Clock, ClockType
from rclpy.node import Node
from robot_identification_msgs.msg import OnlineStatus
from std_msgs.msg import Header
from std_srvs.srv import SetBool, Trigger

from ...config.problem import IdentificationProblem
from ...errors import IdentificationError, ModelError
from ..common import (
    answer,
    declare_options,
    LATCHED,
)
from ..common.requests import SERVICES
from .online_messages import diagnostic
from .online_options import (
    OnlineOptions,
    OnlineTask,
    require_live,
)
from .online_saving import fresh_folder, save_live
from .online_worker import OnlineWorker


class OnlineService:
    """
    Switches the live identification on and off, and passes requests on to its process.

    Parameters
    ----------
    node:
        The identification node.
    problem:
        Returns the robot and the settings as they are now.
    description:
        Returns the URDF that has arrived last; None for none.
    output:
        Returns the folder for results.

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
        self._worker: OnlineWorker | None = None
        self._trouble = ''
        status = node.resolve_topic_name('~/online/status')
        self._status_out = node.create_publisher(OnlineStatus, status, LATCHED)
        self._diagnostics_out = node.create_publisher(DiagnosticArray, '/diagnostics', 10)
        requests = MutuallyExclusiveCallbackGroup()
        for kind, name, function in (
            (SetBool, 'enable', self._enable),
            (SetBool, 'freeze', self._freeze),
            (Trigger, 'reset', self._reset),
            (Trigger, 'save', self._save),
        ):
            node.create_service(
                kind,
                f'~/online/{name}',
                partial(self._on_request, function),
                qos_profile=SERVICES,
                callback_group=requests,
            )
        # a player waits for the first word: whether there is something to wait for
        self._publish_state(OnlineStatus.STARTING if self._wanted else OnlineStatus.OFF, '')
        steady = Clock(clock_type=ClockType.STEADY_TIME)
        node.create_timer(0.5, self._on_timer, callback_group=requests, clock=steady)

    def stop(self) -> None:
        """End the process."""
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.stop()

    # ------------------------------------------------------------------------------------ requests

    def _on_request(self, function: Callable[[Any], str], request: Any, response: Any) -> Any:
        return answer(self._node, response, lambda _: function(request))

    def _enable(self, request: SetBool.Request) -> str:
        was = self._wanted
        if not request.data:
            self._wanted, self._trouble = False, ''
            self.stop()
            self._publish_state(OnlineStatus.OFF, '')
            return 'joint states are not followed any more' if was else 'it was off already'
        if self._worker is not None:
            return 'it was on already'
        self._start()
        assert self._worker is not None
        self._wanted = True
        return f'following {self._worker.task.joint_states}'

    def _freeze(self, request: SetBool.Request) -> str:
        self._running().ask('freeze', request.data)
        return 'the estimate stays as it is' if request.data else 'every sample counts again'

    def _reset(self, _: Trigger.Request) -> str:
        self._running().ask('reset')
        return 'the live estimate is forgotten; the next samples begin a new one'

    def _save(self, _: Trigger.Request) -> str:
        worker = self._running()
        folder = fresh_folder(self._output() / f'online_{datetime.now():%Y%m%d_%H%M%S}')
        try:
            snapshot = worker.ask('save', folder / 'state.npz')
            if snapshot is None:
                raise IdentificationError(
                    'there is no live estimate yet',
                    remedy=f'wait for joint states on {worker.task.joint_states}; '
                    '~/online/status reports what is missing',
                )
            return save_live(snapshot, worker.task.problem, folder)
        except Exception:
            # all of it, or nothing: half of an estimate looks like one
            shutil.rmtree(folder, ignore_errors=True)
            raise

    def _running(self) -> OnlineWorker:
        if self._worker is not None:
            return self._worker
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
        self._worker = OnlineWorker(task, self._on_end)

    def _on_end(self, reason: str) -> None:
        """Note that the process ended by itself; it is not started again unasked."""
        self._worker, self._wanted = None, False
        self._trouble = reason
        self._node.get_logger().error(f'live identification: {reason}')

    def _on_timer(self) -> None:
        """Start as soon as the robot is known, start anew for another robot, tell troubles."""
        worker = self._worker
        if worker is not None and worker.ready:
            self._look_for_another_robot(worker)
        if self._wanted and self._worker is None:
            try:
                self._start()
            except ModelError as error:
                self._trouble = str(error)  # no description yet, or one that cannot be read
            except IdentificationError as error:
                self._on_end(str(error))
        if self._worker is None and self._trouble:
            self._publish_state(OnlineStatus.OFF, self._trouble)

    def _look_for_another_robot(self, worker: OnlineWorker) -> None:
        urdf = self._description()
        if urdf is None:
            return  # the one that runs goes on with the robot that it knows
        if urdf != worker.task.problem.robot.urdf:
            self._node.get_logger().warning(
                'robot_description has changed: the live estimate begins anew'
            )
            self.stop()

    def _publish_state(self, state: int, trouble: str) -> None:
        node = self._node
        stamp = node.get_clock().now().to_msg()
        status = OnlineStatus(header=Header(stamp=stamp), state=state, message=trouble)
        self._status_out.publish(status)
        if trouble:
            entry = diagnostic(node.get_fully_qualified_name(), '', status)
            self._diagnostics_out.publish(
                DiagnosticArray(header=Header(stamp=stamp), status=[entry])
            )
