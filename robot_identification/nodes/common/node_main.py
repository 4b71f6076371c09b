# SPDX-License-Identifier: Apache-2.0
"""
Start and end of a node, and answers to failing requests.

A node is a `rclpy.node.Node` whose module ends with ``main`` calling `run`.  It may have a method
``on_shutdown`` (plain or ``async``), which is called once after SIGINT or SIGTERM while messages
still flow: the place to bring a robot to rest or to close a file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
import contextlib
from functools import partial
import os
from pathlib import Path
import signal
import sys
import tempfile
import threading
import traceback
from typing import Any

import rclpy
from rclpy.action import ActionServer, CancelResponse
from rclpy.callback_groups import CallbackGroup, MutuallyExclusiveCallbackGroup
from rclpy.clock import Clock, ClockType
from rclpy.executors import Executor, ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions
from rclpy.timer import Timer

from ...errors import IdentificationError
from .requests import RequestQueue, SERVICES

SHUTDOWN_SECONDS = 8.0
"""How long ``on_shutdown`` may take [s]; launch kills a node 10 s after its Ctrl-C."""

NAMESAKE_SECONDS = 5.0
"""Period of the check that no other node has the name; it reads the whole graph [s]."""

SIGNAL_SECONDS = 0.2
"""Most time from a signal to its handling [s]."""

EXIT_OK, EXIT_CRASH, EXIT_USER_ERROR = 0, 1, 2


def run(factory: Callable[[], Node], args: Sequence[str] | None = None) -> int:
    """
    Run a node that the factory makes until SIGINT or SIGTERM; return the exit code.

    It is 0 after a signal, 2 after an `IdentificationError` or a wrong command line (one line on
    stderr), 1 after a crash (with its traceback).
    """
    _find_log_folder()
    with _signals() as stopped:
        try:
            words = None if args is None else list(args)
            rclpy.init(args=words, signal_handler_options=SignalHandlerOptions.NO)
        except Exception as error:
            # the unknown words, or rcl's reason with the places in its sources behind it
            return _fail(f'wrong ROS arguments: {str(error).partition(", at ")[0]}')
        try:
            return _build_and_spin(factory, SingleThreadedExecutor(), stopped)
        except IdentificationError as error:
            return _fail(str(error))
        except Exception:
            traceback.print_exc()
            return EXIT_CRASH
        finally:
            rclpy.try_shutdown()


def _find_log_folder() -> None:
    """Name a folder for rcl's logs where it would find none, as under some service managers."""
    if not any(os.environ.get(name) for name in ('HOME', 'ROS_HOME', 'ROS_LOG_DIR')):
        os.environ['ROS_LOG_DIR'] = str(Path(tempfile.gettempdir(), f'ros_log_{os.getuid()}'))


def _build_and_spin(
    factory: Callable[[], Node], executor: Executor, stopped: threading.Event
) -> int:
    node = factory()
    group = MutuallyExclusiveCallbackGroup()
    # signal handlers run when the main thread gets back to the interpreter
    steady_timer(node, SIGNAL_SECONDS, lambda: None, group)
    steady_timer(node, NAMESAKE_SECONDS, partial(_look_for_namesakes, node), group)
    try:
        executor.add_node(node)
        with contextlib.suppress(ExternalShutdownException):
            try:
                # spin_until_future_complete keeps 300 bytes of every message
                while executor.context.ok() and not stopped.is_set():
                    executor.spin_once()
            finally:
                # after a crash, too: a robot that moves is brought to rest, a bag is closed
                _shut_down(node, executor)
    finally:
        executor.shutdown(timeout_sec=2.0)
        node.destroy_node()
    return EXIT_OK


def _look_for_namesakes(node: Node) -> None:
    """Warn of other nodes of the same name: requests to one reach all of them."""
    own = node.get_name(), node.get_namespace()
    others = node.get_node_names_and_namespaces().count(own) - 1
    if others > 0:
        node.get_logger().warning(
            f"{others} more of the name '{node.get_fully_qualified_name()}': requests reach all "
            'of them, and all of them act; stop the others, or give each a namespace. One that '
            'was killed is missed after some 20 s',
            throttle_duration_sec=60.0,
        )


def _shut_down(node: Node, executor: Executor) -> None:
    hook = getattr(node, 'on_shutdown', None)
    if hook is None:
        return
    task = executor.create_task(hook)
    # with a bound on the time: what rclpy keeps of every message ends with it
    executor.spin_until_future_complete(task, timeout_sec=SHUTDOWN_SECONDS)
    if not task.done():
        node.get_logger().error(f'could not finish within {SHUTDOWN_SECONDS:.0f} s')
    elif task.exception() is not None:
        explain(node, task.exception())


class ManualCallbackGroup(CallbackGroup):
    """Callback group that no executor waits for or handles: its messages are fetched."""

    def can_execute(self, entity: Any) -> bool:
        """Return False."""
        return False

    def beginning_execution(self, entity: Any) -> bool:
        """Return False."""
        return False

    def ending_execution(self, entity: Any) -> None:
        """Do nothing."""


@contextlib.contextmanager
def _signals() -> Iterator[threading.Event]:
    """
    Give an event that SIGINT and SIGTERM set.

    rclpy's own handlers would end the context before ``on_shutdown``.
    """
    stopped = threading.Event()
    handlers = {
        number: signal.signal(number, lambda *_: stopped.set())
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield stopped
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        if stopped.is_set():
            # A terminal and launch both send it: the later one must not kill what ends in order.
            signal.signal(signal.SIGINT, signal.SIG_IGN)


def _fail(message: str) -> int:
    sys.stderr.write(f'error: {" ".join(message.split())}\n')
    sys.stderr.flush()
    return EXIT_USER_ERROR


# -------------------------------------------------------------------------- timers and answers


def steady_timer(
    node: Node, period: float, callback: Callable, group: CallbackGroup | None = None
) -> Timer:
    """Create a timer in wall time, which goes on while a simulated clock stands still."""
    clock = Clock(clock_type=ClockType.STEADY_TIME)
    return node.create_timer(period, callback, group, clock=clock)


def serve_action(
    node: Node, kind: type, name: str, execute: Callable, group: CallbackGroup
) -> None:
    """Create an action whose goals can be canceled, with a queue for many clients."""
    ActionServer(
        node,
        kind,
        name,
        execute,
        callback_group=group,
        cancel_callback=lambda _: CancelResponse.ACCEPT,
        goal_service_qos_profile=SERVICES,
        result_service_qos_profile=SERVICES,
        cancel_service_qos_profile=SERVICES,
    )


def serve(
    node: Node,
    kind: type,
    name: str,
    function: Callable[[Any, Any], str | None],
    *,
    queue: RequestQueue | None = None,
    **options: Any,
) -> None:
    """
    Create a service whose failing requests are answered and never stop the node.

    The function is called with request and response; it fills the latter and returns its message,
    or None.  With a queue, requests wait for each other and the function runs in its thread;
    without, in the executor's own, at once.  The options are those of
    `rclpy.node.Node.create_service`.
    """

    async def on_request(request: Any, response: Any) -> Any:
        work = partial(function, request, response)
        try:
            message = work() if queue is None else await queue.work(name.removeprefix('~/'), work)
            response.success, response.message = True, message or ''
        except Exception as error:
            response.success, response.message = False, explain(node, error)
        return response

    node.create_service(kind, name, on_request, qos_profile=SERVICES, **options)


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
