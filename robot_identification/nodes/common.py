# SPDX-License-Identifier: Apache-2.0
"""
What every node shares: its start and end, the robot's description, QoS, answers to requests.

A node is a `rclpy.node.Node` whose module ends with ``main`` calling `run`.  It may have a method
``on_shutdown`` (plain or ``async``), which is called once after SIGINT or SIGTERM while messages
still flow: the place to bring a robot to rest or to close a file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
import contextlib
from dataclasses import dataclass
import os
import signal
import sys
import threading
import traceback
from typing import Any
import warnings

import rclpy
from rclpy.callback_groups import CallbackGroup
from rclpy.executors import Executor, ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy
from rclpy.qos_overriding_options import QoSOverridingOptions
from rclpy.signals import SignalHandlerOptions
from rclpy.subscription import Subscription
from rclpy.task import Future
from sensor_msgs.msg import JointState
from std_msgs.msg import String

from ..errors import IdentificationError, IdentificationWarning, ModelError, SettingsError
from ..options import option
from ..robot import Robot
from .parameters import declare_options, read_options

__all__ = [
    'answer',
    'declare_options',
    'explain',
    'JOINT_STATES',
    'LATCHED',
    'read_options',
    'RobotDescription',
    'RobotOptions',
    'run',
    'subscribe_joint_states',
]

LATCHED = QoSProfile(
    history=HistoryPolicy.KEEP_LAST,
    depth=1,
    reliability=ReliabilityPolicy.RELIABLE,
    durability=DurabilityPolicy.TRANSIENT_LOCAL,
)
"""For what a late subscriber has to get too: robot_description, results, status."""

JOINT_STATES = QoSProfile(
    history=HistoryPolicy.KEEP_LAST,
    depth=1000,
    reliability=ReliabilityPolicy.RELIABLE,
    durability=DurabilityPolicy.VOLATILE,
)
"""For joint states: a busy interpreter loses samples with a queue of the usual depth of 10."""

SHUTDOWN_SECONDS = 8.0
"""How long ``on_shutdown`` may take [s]; launch kills a node 10 s after its Ctrl-C."""

EXIT_OK, EXIT_CRASH, EXIT_USER_ERROR = 0, 1, 2


def joint_states_qos() -> QoSProfile:
    """Return a copy of `JOINT_STATES` that a subscription's QoS overrides may change."""
    return QoSProfile(
        history=JOINT_STATES.history,
        depth=JOINT_STATES.depth,
        reliability=JOINT_STATES.reliability,
        durability=JOINT_STATES.durability,
    )


def subscribe_joint_states(
    node: Node,
    callback: Callable[[Any], None],
    topic: str = 'joint_states',
    **options: Any,
) -> Subscription:
    """
    Subscribe to joint states: reliable, deep queue, QoS overridable by parameters.

    A driver that publishes best effort needs
    ``qos_overrides./joint_states.subscription.reliability: best_effort``.

    Parameters
    ----------
    node, callback, topic:
        As for `rclpy.node.Node.create_subscription`.
    **options:
        Its further arguments: ``raw``, ``event_callbacks``, ``callback_group``.

    """
    return node.create_subscription(
        JointState,
        topic,
        callback,
        joint_states_qos(),
        qos_overriding_options=QoSOverridingOptions.with_default_policies(),
        **options,
    )


# ------------------------------------------------------------------------------- start and end


def run(
    factory: Callable[[], Node],
    args: Sequence[str] | None = None,
    *,
    executor: Callable[[], Executor] = SingleThreadedExecutor,
) -> int:
    """
    Run a node until SIGINT or SIGTERM.

    Parameters
    ----------
    factory:
        Makes the node: its class, usually.
    args:
        Command line; None takes the process's own.
    executor:
        Makes the executor that spins the node.

    Returns
    -------
    int
        Exit code: 0 after a signal, 2 after an `IdentificationError` or a wrong command line
        (one line on stderr), 1 after a crash (with its traceback).

    """
    with _SignalWatch() as watch:
        try:
            rclpy.init(args=args, signal_handler_options=SignalHandlerOptions.NO)
        except Exception as error:
            # the unknown words, or rcl's reason with the places in its sources behind it
            return _fail(f'wrong ROS arguments: {str(error).partition(", at ")[0]}')
        try:
            return _build_and_spin(factory, executor(), watch)
        except IdentificationError as error:
            return _fail(str(error))
        except Exception:
            traceback.print_exc()
            return EXIT_CRASH
        finally:
            rclpy.try_shutdown()


def _build_and_spin(factory: Callable[[], Node], executor: Executor, watch: _SignalWatch) -> int:
    stop = Future(executor=executor)
    watch.notify(lambda: stop.set_result(None))
    node = factory()
    try:
        executor.add_node(node)
        with contextlib.suppress(ExternalShutdownException):
            executor.spin_until_future_complete(stop)
            _shut_down(node, executor)
    finally:
        watch.notify(None)
        executor.shutdown(timeout_sec=2.0)
        node.destroy_node()
    return EXIT_OK


def _shut_down(node: Node, executor: Executor) -> None:
    hook = getattr(node, 'on_shutdown', None)
    if hook is None:
        return
    task = executor.create_task(hook)
    executor.spin_until_future_complete(task, timeout_sec=SHUTDOWN_SECONDS)
    if not task.done():
        node.get_logger().error(f'could not finish within {SHUTDOWN_SECONDS:.0f} s')
    elif task.exception() is not None:
        explain(node, task.exception())


class _SignalWatch:
    """
    Tell at once, from a thread, that SIGINT or SIGTERM has arrived.

    A Python signal handler runs only when the main thread gets back to the interpreter, which it
    does not while it waits for messages; the pipe of `signal.set_wakeup_fd` is written in any
    case.  rclpy's own handlers would end the context before the node can say good-bye.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._callback: Callable[[], None] | None = None
        self._signalled = False

    def __enter__(self) -> _SignalWatch:
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        self._handlers = {
            number: signal.signal(number, lambda *_: None)
            for number in (signal.SIGINT, signal.SIGTERM)
        }
        self._wakeup = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        self._thread = threading.Thread(target=self._watch, name='signals', daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        signal.set_wakeup_fd(self._wakeup)
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        os.close(self._write)  # the thread reads the end of file
        self._thread.join()
        os.close(self._read)

    def notify(self, callback: Callable[[], None] | None) -> None:
        """Have ``callback`` called at the first signal, at once if that has been."""
        with self._lock:
            self._callback = callback
            if self._signalled and callback is not None:
                callback()
                self._callback = None

    def _watch(self) -> None:
        while received := os.read(self._read, 1):
            if received[0] not in (signal.SIGINT, signal.SIGTERM):
                continue
            with self._lock:
                self._signalled = True
                if self._callback is not None:
                    self._callback()
                    self._callback = None


def _fail(message: str) -> int:
    sys.stderr.write(f'error: {" ".join(message.split())}\n')
    sys.stderr.flush()
    return EXIT_USER_ERROR


# -------------------------------------------------------------------------------------- answers


def answer(node: Node, response: Any, function: Callable[[Any], str | None]) -> Any:
    """
    Fill a service's response, so that a failing request never stops the node.

    Parameters
    ----------
    node:
        Logs the failure.
    response:
        Has ``success`` and ``message``.
    function:
        Called with the response; fills it and returns the message, or None for none.

    Returns
    -------
    response
        With ``success`` false and the reason where ``function`` raised anything.

    """
    try:
        response.message = function(response) or ''
        response.success = True
    except Exception as error:
        response.success = False
        response.message = explain(node, error)
    return response


def explain(node: Node, error: BaseException) -> str:
    """
    Log ``error`` and return it as one line for the client.

    An `IdentificationError` is a warning; anything else is our fault and logged with traceback.
    """
    if isinstance(error, IdentificationError):
        node.get_logger().warning(str(error))
        return str(error)
    text = ' '.join(f'internal error: {type(error).__name__}: {error}'.split())
    trace = ''.join(traceback.format_exception(type(error), error, error.__traceback__))
    node.get_logger().error(f'{text}\n{trace}')
    return text


# ------------------------------------------------------------------------------------ the robot


@dataclass(frozen=True)
class RobotOptions:
    """Which robot a node works for."""

    robot_description: str = option(
        '',
        doc='URDF as text, path or package://; empty: what the topic robot_description brings',
        read_only=True,
    )
    joints: tuple[str, ...] = option(
        (),
        doc='Identified joints in the order of all data; empty: every moving one',
        read_only=True,
    )
    gravity: tuple[float, float, float] = option(
        (0.0, 0.0, -9.81),
        doc='Acceleration of free fall in the base frame',
        unit='m/s^2',
        read_only=True,
    )
    locked_joints: tuple[str, ...] = option(
        (), doc='Other moving joints, which are held at locked_positions', read_only=True
    )
    locked_positions: tuple[float, ...] = option(
        (), doc='Positions of locked_joints', unit='rad or m', read_only=True
    )

    def __post_init__(self) -> None:
        if len(self.locked_joints) != len(self.locked_positions):
            raise SettingsError(
                f'{len(self.locked_joints)} locked_joints but '
                f'{len(self.locked_positions)} locked_positions',
                key='locked_positions',
                value=self.locked_positions,
                remedy='give one position a joint',
            )

    def build(self, urdf: str) -> Robot:
        """Read the robot from ``urdf`` (text, path or package://)."""
        with warnings.catch_warnings():
            # the robot keeps its warnings, and `RobotDescription` logs them
            warnings.simplefilter('ignore', IdentificationWarning)
            return Robot.from_urdf(
                urdf,
                self.joints or None,
                locked=dict(zip(self.locked_joints, self.locked_positions, strict=True)),
                gravity=self.gravity,
            )


class RobotDescription:
    """
    The robot that a node works for, from its parameters or the topic ``robot_description``.

    Declares the parameters of `RobotOptions`.  A description given as parameter is read at once;
    otherwise the latched topic is subscribed to, and a later description replaces the former.

    Parameters
    ----------
    node:
        The node that works for the robot.
    on_change:
        Called with the robot each time that a description has been read.
    callback_group:
        Of the subscription.

    Raises
    ------
    SettingsError, ModelError
        where a parameter or the description given as parameter is wrong.

    """

    def __init__(
        self,
        node: Node,
        on_change: Callable[[Robot], None] | None = None,
        callback_group: CallbackGroup | None = None,
    ) -> None:
        self._node = node
        self._on_change = on_change
        self._robot: Robot | None = None
        self._error: IdentificationError | None = None
        self._topic = node.resolve_topic_name('robot_description')
        self.options = declare_options(node, RobotOptions)
        if self.options.robot_description:
            self._use(self.options.robot_description)
        else:
            node.create_subscription(
                String, 'robot_description', self._arrived, LATCHED, callback_group=callback_group
            )

    @property
    def known(self) -> bool:
        """Whether `robot` has an answer."""
        return self._robot is not None

    def robot(self) -> Robot:
        """
        Return the robot.

        Raises
        ------
        ModelError
            where no description has arrived yet, or the latest one cannot be read.

        """
        if self._robot is not None:
            return self._robot
        raise self._error or ModelError(
            f"no robot description has arrived on topic '{self._topic}'",
            remedy='start robot_state_publisher, or set the parameter robot_description',
        )

    def _arrived(self, message: String) -> None:
        if self._robot is not None and message.data == self._robot.urdf:
            return
        try:
            self._use(message.data)
        except IdentificationError as error:
            self._robot, self._error = None, error
            self._node.get_logger().error(f"description on topic '{self._topic}': {error}")

    def _use(self, urdf: str) -> None:
        robot = self.options.build(urdf)
        self._robot, self._error = robot, None
        logger = self._node.get_logger()
        logger.info(f"robot '{robot.name}' with joints {', '.join(robot.joints)}")
        for warning in robot.warnings:
            logger.warning(warning)
        if self._on_change is not None:
            self._on_change(robot)
