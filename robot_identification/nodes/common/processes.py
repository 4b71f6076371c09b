# SPDX-License-Identifier: Apache-2.0
"""
Start and end of a node's process.

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
from rclpy.callback_groups import CallbackGroup, MutuallyExclusiveCallbackGroup
from rclpy.clock import Clock, ClockType
from rclpy.executors import Executor, ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.signals import SignalHandlerOptions
from rclpy.timer import Timer

from ...errors import IdentificationError
from ...untrusted.streams import open_streams, require_folder
from ...untrusted.writing import private_folder
from .clock import read_clock
from .requests import explain

SHUTDOWN_SECONDS = 8.0
"""How long ``on_shutdown`` may take [s]; launch kills a node 10 s after its Ctrl-C."""

LEAVE_SECONDS = 5
"""How long a node may take to leave the graph, all else being done [s]."""

NAMESAKE_SECONDS = 5.0
"""Period of the check that no other node has the name; it reads the whole graph [s]."""

SIGNAL_SECONDS = 0.2
"""Most time from a signal to its handling [s]."""

NO_SERVICES: dict[str, Any] = {
    'start_parameter_services': False,
    'parameter_overrides': [Parameter('start_type_description_service', value=False)],
}
"""Options of a node without services of its own, which an access policy would have to allow."""

EXIT_OK, EXIT_CRASH, EXIT_USER_ERROR = 0, 1, 2


def run(factory: Callable[[], Node], args: Sequence[str] | None = None) -> int:
    """
    Run a node that the factory makes until SIGINT or SIGTERM; return the exit code.

    It is 0 after a signal, 2 after an `IdentificationError` or a wrong command line (one line on
    stderr), 1 after a crash (with its traceback).
    """
    open_streams()
    try:
        require_folder()
    except IdentificationError as error:
        return _fail(str(error))
    _find_log_folder()
    with stop_signals() as stopped:
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
        place = Path(tempfile.gettempdir(), f'ros_log_{os.getuid()}')
        os.environ['ROS_LOG_DIR'] = str(private_folder(place))


def _build_and_spin(
    factory: Callable[[], Node], executor: Executor, stopped: threading.Event
) -> int:
    node = factory()
    group = MutuallyExclusiveCallbackGroup()
    # signal handlers run when the main thread gets back to the interpreter
    steady_timer(node, SIGNAL_SECONDS, partial(read_clock, node), group)
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
        leave(node)
    return EXIT_OK


def leave(node: Node) -> None:
    """
    Destroy a node; SIGALRM ends the process if that takes longer than `LEAVE_SECONDS`.

    Fast DDS can wait for itself for ever, with Python's lock held, where other nodes come or go
    in that moment (https://github.com/eProsima/Fast-DDS/issues/6513).
    """
    previous = signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(LEAVE_SECONDS)
    try:
        node.destroy_node()
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)


@contextlib.contextmanager
def client_node(name: str, **options: Any) -> Iterator[Node]:
    """
    Give a node of a program that is no node, in its main thread; initialises and shuts down ROS.

    Signals stay the program's.  What it has to say it says before it leaves, see `leave`.
    """
    rclpy.init(args=[], signal_handler_options=SignalHandlerOptions.NO)
    try:
        node = rclpy.create_node(name, **NO_SERVICES, **options)
        try:
            yield node
        finally:
            leave(node)
    finally:
        rclpy.try_shutdown()


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
    while not task.done() and (reason := getattr(node, 'unfinished', '')):
        node.get_logger().fatal(f'{reason}; SIGKILL ends it at once')
        executor.spin_until_future_complete(task, timeout_sec=SHUTDOWN_SECONDS)
    if not task.done():
        node.get_logger().error(f'could not finish within {SHUTDOWN_SECONDS:.0f} s')
    elif task.exception() is not None:
        explain(node, task.exception())


@contextlib.contextmanager
def stop_signals() -> Iterator[threading.Event]:
    """
    Give an event that SIGINT and SIGTERM set.

    rclpy's own handlers would end the context before ``on_shutdown``.  For the main thread.
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
    with contextlib.suppress(OSError):
        sys.stderr.write(f'error: {" ".join(message.split())}\n')
        sys.stderr.flush()
    return EXIT_USER_ERROR


def steady_timer(
    node: Node, period: float, callback: Callable, group: CallbackGroup | None = None
) -> Timer:
    """Create a timer in wall time, which goes on while a simulated clock stands still."""
    clock = Clock(clock_type=ClockType.STEADY_TIME)
    return node.create_timer(period, callback, group, clock=clock)
