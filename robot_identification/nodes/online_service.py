# SPDX-License-Identifier: Apache-2.0
"""Live identification in the identification node: its services, its state and its process."""

from __future__ import annotations

from collections.abc import Callable
import contextlib
from dataclasses import asdict
from datetime import datetime
from multiprocessing import Pipe
from pathlib import Path
import queue
import shutil
import subprocess
import threading
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray
import numpy as np
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.node import Node
from robot_identification_msgs.msg import OnlineStatus
from std_msgs.msg import Header
from std_srvs.srv import SetBool, Trigger

from ..config.problem import IdentificationProblem
from ..errors import collected_warnings, IdentificationError, ModelError
from ..estimation import body_scale, EffortDelay, standard
from ..estimation.elimination import ACCEPTED, WEAK
from ..model.parameters import ParameterSet
from ..online import DelayRows
from ..options.document import dump, plain
from ..results.saving import reported_failures
from ..results.urdf_export import identified_urdf
from ..untrusted.writing import write_together
from .common import declare_options, LATCHED, serve, steady_timer
from .common.messages import diagnostics
from .common.processes import start_module
from .common.requests import RequestQueue, SERVICES
from .online_follower import OnlineOptions, OnlineTask, require_live, Snapshot
from .online_process import diagnostic

ANSWER_SECONDS = 10.0
"""How long the process may take to answer a command [s]."""

STOP_SECONDS = 3.0
"""How long it may take to end before it is killed [s]."""

_WORDS = {ACCEPTED: 'IDENTIFIED', WEAK: 'NOT_EXCITED'}
_REMEDY = 'choose another folder by the parameter output'


class OnlineProcess:
    """
    A process that follows one robot; see `online_process`.

    ``on_end`` is called from another thread, with the reason, when it ends without having been
    stopped.
    """

    def __init__(self, task: OnlineTask, on_end: Callable[[str], None]) -> None:
        self.task = task
        self._on_end = on_end
        self._answers: queue.Queue[tuple[str, Any]] = queue.Queue()
        self._ready = threading.Event()
        self._failure = ''
        self._stopping = False
        self._sending = threading.Lock()
        self._pipe, other = Pipe()
        with other:
            self._process = start_module(f'{__package__}.online_process', other.fileno())
        self._pipe.send(task)
        threading.Thread(target=self._listen, name='online', daemon=True).start()

    @property
    def ready(self) -> bool:
        """True if the process follows the robot."""
        return self._ready.is_set()

    def ask(self, name: str, argument: Any = None) -> Any:
        """
        Send a command and return the answer; one at a time.

        Raises
        ------
        IdentificationError
            where there is none in time.

        """
        if not self._ready.wait(ANSWER_SECONDS) or self._failure:
            raise IdentificationError(
                self._failure or 'the live identification has not started yet',
                remedy='try again in some seconds',
            )
        while not self._answers.empty():
            self._answers.get_nowait()  # an answer that came too late
        try:
            self._send(name, argument)
            kind, answer = self._answers.get(timeout=ANSWER_SECONDS)
        except (OSError, queue.Empty) as error:
            raise IdentificationError(
                f"no answer to '{name}' within {ANSWER_SECONDS:g} s",
                remedy='switch the live identification off and on: ~/online/enable',
            ) from error
        if kind == 'ended':
            raise IdentificationError(f'the live identification failed: {answer}')
        if kind != 'answer':
            raise IdentificationError(answer)
        return answer

    def stop(self) -> None:
        """End the process."""
        self._stopping = True
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._pipe.close()

    def _send(self, name: str, argument: Any) -> None:
        with self._sending:
            self._pipe.send((name, argument))

    def _listen(self) -> None:
        try:
            while True:
                kind, content = self._pipe.recv()
                if kind == 'ready':
                    self._ready.set()
                elif kind == 'failed':
                    self._failure = content
                elif kind == 'rows':
                    self._send('delay', _delay(content))
                else:
                    self._answers.put((kind, content))
        except (EOFError, OSError):
            pass
        if self._stopping:
            self._answers.put(('ended', 'it was switched off'))
            return
        code = self._process.wait()
        self._failure = self._failure or f'its process ended with code {code}'
        self._answers.put(('ended', self._failure))
        self._ready.set()
        self._on_end(self._failure)


def _delay(rows: DelayRows) -> EffortDelay | None:
    """Return the delays of efforts; None where the rows do not determine them."""
    try:
        return rows.delay()
    except (ValueError, ArithmeticError):
        return None


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
        self._process = OnlineProcess(task, self._on_end)

    def _on_end(self, reason: str) -> None:
        """Note that the process ended by itself; it is not started again unasked."""
        self._process, self._wanted = None, False
        self._trouble = reason
        self._node.get_logger().error(f'live identification: {reason}')

    async def _on_timer(self) -> None:
        if not len(self._queue):
            with contextlib.suppress(IdentificationError):  # the node ends
                await self._queue.work('start', self._look)

    def _look(self) -> None:
        """Start as soon as the robot is known, and anew for another robot; publish troubles."""
        if self._process is not None and self._process.ready:
            self._stop_for_another_robot(self._process.task)
        if self._wanted and self._process is None:
            try:
                self._start()
            except ModelError as error:
                self._trouble = str(error)  # no description yet, or one that cannot be read
            except IdentificationError as error:
                self._on_end(str(error))
        if self._process is None and self._trouble:
            self._publish_state(OnlineStatus.OFF, self._trouble)

    def _stop_for_another_robot(self, task: OnlineTask) -> None:
        urdf = self._description()
        if urdf is not None and urdf != task.problem.robot.urdf:
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
            self._diagnostics_out.publish(diagnostics(node, entry))


# ---------------------------------------------------------------------------------------- files


def save_live(snapshot: Snapshot, problem: IdentificationProblem, folder: Path) -> str:
    """
    Write ``online.yaml`` and ``identified.urdf`` into a folder; return a summary.

    ``online.yaml`` names standard parameters, too, so that it can be given as ``estimation.prior``
    to what comes later.  Raises `IdentificationError` naming a folder that cannot be written to.
    """
    base = snapshot.structure
    found = ParameterSet(base.base_layout, snapshot.estimate.values)
    by_bodies = problem.estimation.distance == 'body'
    scale = body_scale(problem.robot, base.layout) if by_bodies else None
    nearest = standard(found, base, problem.prior(), scale=scale)
    files: dict[Path, str] = {}
    failures: list[str] = []
    with collected_warnings() as warnings:
        try:
            files[folder / 'identified.urdf'] = identified_urdf(
                problem.robot, nearest, problem.model
            )
        except IdentificationError as error:
            failures.append(f'identified.urdf is not written: {error}')
    remarks = [*warnings, *failures]
    files[folder / 'online.yaml'] = dump(plain(_document(snapshot, problem, nearest, remarks)))
    with reported_failures(folder, remedy=_REMEDY):
        write_together(files)
    identified = int((snapshot.estimate.flags == ACCEPTED).sum())
    return '; '.join(
        [f'{identified} of {len(found.values)} base parameters identified, written to {folder}']
        + remarks
    )


def fresh_folder(folder: Path) -> Path:
    """Make a folder that did not exist, with a number behind its name where that is taken."""
    number, fresh = 0, folder
    while fresh.exists():
        number += 1
        fresh = folder.with_name(f'{folder.name}_{number}')
    with reported_failures(fresh, remedy=_REMEDY):
        fresh.mkdir(parents=True)
    return fresh


def _document(
    snapshot: Snapshot, problem: IdentificationProblem, nearest: ParameterSet, remarks: list[str]
) -> dict[str, Any]:
    """Return the content of ``online.yaml``."""
    base, estimate = snapshot.structure, snapshot.estimate
    with np.errstate(divide='ignore', invalid='ignore'):
        relative = 100.0 * estimate.std / np.abs(estimate.values)
    return {
        'robot': problem.robot.name,
        'joints': problem.robot.joints,
        'stamp': 1e-9 * snapshot.stamp,
        'period': snapshot.period,
        'rows': estimate.rows,
        'residual_std': estimate.residual_std,
        'joint_states': asdict(snapshot.account),
        'stream': asdict(snapshot.counts),
        'clock': snapshot.clock,
        'effort_delay': None if snapshot.delay is None else snapshot.delay.to_dict(),
        'parameters': [
            {
                'name': name,
                'expression': base.expressions[i],
                'unit': base.base_layout.units[i],
                'value': estimate.values[i],
                'std': estimate.std[i],
                'relative_std': relative[i],
                'state': _WORDS.get(int(estimate.flags[i]), 'DEPENDENT'),
            }
            for i, name in enumerate(base.base_layout.names)
        ],
        'standard_parameters': [
            {'name': name, 'value': value}
            for name, value in zip(nearest.layout.names, nearest.values, strict=True)
        ],
        'covariance': estimate.covariance,
        'warnings': remarks,
    }
