# SPDX-License-Identifier: Apache-2.0
"""Other nodes that a motion depends on: the controller, its manager and the recorder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
import time
from typing import Any

from rcl_interfaces.msg import ParameterType
from rcl_interfaces.srv import GetParameters
from rclpy.callback_groups import CallbackGroup
from rclpy.client import Client
from rclpy.node import Node
from rclpy.qos import QoSProfile
from robot_identification_msgs.srv import StartRecording, StopRecording
from std_msgs.msg import Float64

from ..common.joint_states import BEST_EFFORT, ManualCallbackGroup, waited
from ..common.requests import SERVICES
from .options import (
    Code,
    code_name,
    ControllerOptions,
    FOLLOW_JOINT_TRAJECTORY,
    MotionError,
    Report,
    Tick,
)

ANSWER_SECONDS = 1.5
"""Longest time for an answer of a controller or its manager [s]."""

RECORDER_SECONDS = 10.0
"""The same for the recorder, which flushes its file [s]."""

RECORDER_APPEARS = 3.0
"""Longest time for the recorder to appear [s]."""

CONTROLLER_SECONDS = 5.0
"""Longest time for the controller to appear [s]."""

SPEED_SECONDS = 2.0
"""Longest time between two messages of the speed scaling during a motion [s]."""

LIST_CONTROLLERS = 'controller_manager_msgs/srv/ListControllers'
USUAL_MANAGER = 'controller_manager'

REMEDIES = {
    'inactive': 'activate it: ros2 control switch_controllers --activate {name}{manager}',
    'unconfigured': 'configure it, and activate it then: '
    'ros2 control set_controller_state {name} inactive{manager}',
}
"""By the controller's state."""

QUEUE = 10
"""Messages of the speed scaling that may wait to be fetched."""


async def wait_for(
    ready: Callable[[], bool],
    missing: str,
    tick: Tick,
    code: int = Code.NO_CONTROLLER,
    seconds: float | None = None,
) -> None:
    """
    Wait until ``ready``, for `CONTROLLER_SECONDS` or the time that is given.

    Raises `MotionError` with the words ``missing`` where it never is.
    """
    end = time.monotonic() + (CONTROLLER_SECONDS if seconds is None else seconds)
    while not ready():
        if time.monotonic() > end:
            raise MotionError(code, missing)
        await tick()


async def call_service(client: Client, request: Any, tick: Tick, seconds: float) -> Any | None:
    """Return a service's response; None if it is not there or does not answer in time."""
    end = time.monotonic() + seconds
    while not client.service_is_ready():
        if time.monotonic() > end:
            return None
        await tick()
    future = client.call_async(request)
    while not future.done():
        if time.monotonic() > end:
            client.remove_pending_request(future)
            return None
        await tick()
    return future.result()


# --------------------------------------------------------------------------------- the controller


class Controller:
    """
    Client of a controller's parameters, and of the managers in its namespace.

    Each controller of ros2_control has its joints as a parameter.  An inactive
    joint_trajectory_controller still listens on its topic, and moves nothing.  Without
    ``controller_manager_msgs``, without a manager, or where the manager does not list the
    controller, it counts as active.  ``name`` is that of its node; empty where it is not known.
    """

    def __init__(self, node: Node, group: CallbackGroup, options: ControllerOptions) -> None:
        self._node, self._group = node, group
        self.name = controller_name(node, options)
        # kept for good: destroying a client with an answer on its way can end the process
        self._clients: dict[str, Client] = {}

    def _client(self, kind: type, service: str) -> Client:
        if service not in self._clients:
            self._clients[service] = self._node.create_client(
                kind, service, callback_group=self._group
            )
        return self._clients[service]

    def connect(self) -> Client | None:
        """Return a client of the parameters; made early, the first question waits for no one."""
        service = f'{self.name}/get_parameters'
        return self._client(GetParameters, service) if self.name else None

    async def joints(self, tick: Tick) -> tuple[str, ...]:
        """Return the controller's joints in its order; none where it does not answer in time."""
        value = await self._ask('joints', tick)
        if value is None or value.type != ParameterType.PARAMETER_STRING_ARRAY:
            return ()
        return tuple(value.string_array_value)

    async def allows_partial(self, tick: Tick) -> bool:
        """Return whether trajectories may leave joints of the controller out."""
        value = await self._ask('allow_partial_joints_goal', tick)
        return (
            value is not None
            and value.type == ParameterType.PARAMETER_BOOL
            and bool(value.bool_value)
        )

    async def _ask(self, parameter: str, tick: Tick) -> Any | None:
        """Ask for one parameter: where one of several is not declared, none is answered."""
        client = self.connect()
        if client is None:
            return None
        request = GetParameters.Request(names=[parameter])
        answer = await call_service(client, request, tick, ANSWER_SECONDS)
        return None if answer is None else next(iter(answer.values), None)

    async def require_active(self, tick: Tick) -> None:
        """Raise `MotionError` (``NO_CONTROLLER``) if the controller is loaded but not active."""
        kind = list_controllers()
        if kind is None or not self.name:
            return
        namespace, _, name = self.name.rpartition('/')
        for service in self._services(namespace):
            client = self._client(kind, service)
            answer = await call_service(client, kind.Request(), tick, ANSWER_SECONDS)
            manager = service.rpartition('/')[0]
            if answer is None:
                self._node.get_logger().warning(
                    f"'{manager}' does not answer whether the controller '{self.name}' is active"
                )
                continue
            state = next((c.state for c in answer.controller if c.name == name), 'active')
            if state != 'active':
                raise MotionError(
                    Code.NO_CONTROLLER,
                    f"the controller '{self.name}' is {state}, so nothing would move: "
                    f'{remedy(state, name, manager)}',
                )

    def _services(self, namespace: str) -> list[str]:
        """Return the services that list the controllers of a namespace."""
        return [
            service
            for service, kinds in self._node.get_service_names_and_types()
            if LIST_CONTROLLERS in kinds and service.rsplit('/', 2)[0] == namespace
        ]


def difference(ours: Sequence[str], theirs: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return which of our joints they lack, and which of theirs we lack."""
    missing = [joint for joint in ours if joint not in theirs]
    surplus = [joint for joint in theirs if joint not in ours]
    return missing, surplus


def joints_differ(name: str, missing: Sequence[str], surplus: Sequence[str]) -> MotionError:
    """Return the error that names the joints which a controller lacks or has too many."""
    words = []
    for joints, text in ((missing, 'it does not have {}'), (surplus, 'it has {} too')):
        if joints:
            words.append(text.format(', '.join(f"'{joint}'" for joint in joints)))
    return MotionError(
        Code.JOINTS_DIFFER,
        f"the joints of the controller '{name}' are not those of the motion, "
        f'{" and ".join(words)}: see controller_topic and the parameter joints',
    )


def list_controllers() -> Any | None:
    """Return the service's type; None where ``controller_manager_msgs`` is not installed."""
    try:
        from controller_manager_msgs.srv import ListControllers
    except ImportError:
        return None
    return ListControllers


def controller_name(node: Node, options: ControllerOptions) -> str:
    """Return the full name of the controller's node; empty where it is not known."""
    if options.controller_node:
        return str(node.resolve_service_name(options.controller_node))
    topic = options.controller_topic
    if options.controller_kind == FOLLOW_JOINT_TRAJECTORY:
        return str(node.resolve_service_name(topic)).rpartition('/')[0]
    return str(node.resolve_topic_name(topic)).rpartition('/')[0]


def remedy(state: str, name: str, manager: str) -> str:
    """Return how a controller in a state becomes active, by its manager's full name."""
    words = REMEDIES.get(state, "see its controller manager's log, and start it anew")
    option = '' if manager == f'/{USUAL_MANAGER}' else f' --controller-manager {manager}'
    return words.format(name=name, manager=option)


class SpeedScaling:
    """
    Rate at which a controller lets time pass, fetched from its topic, if any, when it is read.

    No executor handles its messages: a late change would move the robot's time against the node's.
    """

    def __init__(self, node: Node, topic: str) -> None:
        self._topic = node.resolve_topic_name(topic) if topic else ''
        self._value, self._received = 1.0, -float('inf')
        # best effort matches every publisher, and late messages are of no use
        latest = QoSProfile(depth=QUEUE, reliability=BEST_EFFORT)
        self._subscription = (
            node.create_subscription(
                Float64, topic, lambda _: None, latest, callback_group=ManualCallbackGroup()
            )
            if topic
            else None
        )

    @property
    def value(self) -> float:
        """The latest one; 1 is real time."""
        self._fetch()
        return self._value

    def _fetch(self) -> None:
        if self._subscription is None:
            return
        for _ in range(QUEUE):
            taken = self._subscription.handle.take_message(Float64, False)
            if taken is None:
                return
            message, info = taken
            if message.data >= 0.0:  # False for NaN
                self._value = 0.01 * message.data
                self._received = time.monotonic() - waited(info)

    async def prepare(self, tick: Tick) -> None:
        """Wait until it is published; raise `MotionError` where it is not."""
        await wait_for(
            lambda: self.failure is None,
            f"there is no publisher of the speed scaling on topic '{self._topic}': start one, "
            'such as the speed_scaling_state_broadcaster, or correct the parameter '
            'speed_scaling_topic',
            tick,
        )

    @property
    def failure(self) -> str | None:
        """Reason for which a motion cannot go on, or None."""
        self._fetch()
        silence = time.monotonic() - self._received
        if not self._topic or silence < SPEED_SECONDS:
            return None
        return (
            f"topic '{self._topic}' has not published the speed scaling for {silence:.3g} s: see "
            'whether the controller still runs'
        )


# ------------------------------------------------------------------------------------ the recorder


@dataclass(frozen=True)
class MotionRecording:
    """
    The recording of one motion by a recorder node; the report gets its path.

    ``name`` is '' for one that the recorder chooses, None for no recording.
    """

    node: Node
    tick: Tick
    recorder: str
    name: str | None
    report: Report

    async def start(self) -> None:
        """Start the recording; raise `MotionError` if the recorder does not."""
        if self.name is None:
            return
        self.report.feedback.phase = 'starting_recorder'
        answer = await self._call(StartRecording, 'start', StartRecording.Request(name=self.name))
        self.report.result.recording_path = answer.path

    async def stop(self, error: Exception | None = None) -> None:
        """
        Close the recording; a motion that ended early, by an error, is marked in it.

        A recorder that fails after such an error is logged alone, otherwise raises `MotionError`.
        """
        if self.name is None:
            return
        self.report.feedback.phase = 'finishing_recording'
        request = StopRecording.Request(mark='' if error is None else self._mark(error))
        try:
            answer = await self._call(StopRecording, 'stop', request)
            self.report.result.recording_path = answer.path or self.report.result.recording_path
        except MotionError as failure:
            if error is None:
                raise
            self.node.get_logger().error(failure.message)

    def _mark(self, error: Exception) -> str:
        """Return the mark for later readers of the recording."""
        where = f'at {self.report.feedback.progress:.0%} of the motion'
        if isinstance(error, MotionError):
            return f'ended early {where}: {code_name(error.code)}: {error.message}'
        return f'ended early {where}: {type(error).__name__}: {error}'

    async def _call(self, kind: type, verb: str, request: Any) -> Any:
        """Return the recorder's answer; raise `MotionError` where it gives none, or refuses."""
        name = f'{self.recorder}/{verb}'
        client = self.node.create_client(kind, name, qos_profile=SERVICES)
        idle, code = True, Code.RECORDER_FAILED
        try:
            await wait_for(
                client.service_is_ready,
                f"service '{name}' is not there: start the recorder, correct the parameter "
                'recorder, or do not ask for a recording',
                self.tick,
                code,
                RECORDER_APPEARS,
            )
            idle = False
            answer = await call_service(client, request, self.tick, RECORDER_SECONDS)
            idle = answer is not None
        finally:
            # destroying a client with an answer on its way can end the process
            if idle:
                self.node.destroy_client(client)
        if answer is None:
            raise MotionError(code, f"service '{name}' has not answered in time")
        if not answer.success:
            raise MotionError(Code.RECORDER_FAILED, f"service '{name}' refuses: {answer.message}")
        return answer
