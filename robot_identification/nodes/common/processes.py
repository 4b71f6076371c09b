# SPDX-License-Identifier: Apache-2.0
"""
Processes of nodes: their start and end, their priority, and nodes as child processes.

A node is a `rclpy.node.Node` whose module ends with ``main`` calling `run`.  It may have a method
``on_shutdown`` (plain or ``async``), which is called once after SIGINT or SIGTERM while messages
still flow: the place to bring a robot to rest or to close a file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
import contextlib
import ctypes
from functools import partial
import math
import os
from pathlib import Path
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from typing import Any

import rclpy
from rclpy.callback_groups import CallbackGroup, MutuallyExclusiveCallbackGroup
from rclpy.clock import Clock, ClockType
from rclpy.executors import Executor, ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions
from rclpy.timer import Timer
import yaml

from ...errors import IdentificationError
from ...untrusted.streams import open_streams, require_folder
from ...untrusted.writing import private_folder, whole_file
from .requests import explain

SHUTDOWN_SECONDS = 8.0
"""How long ``on_shutdown`` may take [s]; launch kills a node 10 s after its Ctrl-C."""

LEAVE_SECONDS = 5
"""How long a node may take to leave the graph, all else being done [s]."""

NAMESAKE_SECONDS = 5.0
"""Period of the check that no other node has the name; it reads the whole graph [s]."""

SIGNAL_SECONDS = 0.2
"""Most time from a signal to its handling [s]."""

NICE = -10
"""Nice value of processes with a priority, where real-time priority is not allowed."""

GRACE_SECONDS = 10.0
"""Time for a node to stop after SIGINT: bring the robot to rest, close a bag [s]."""

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
        place = Path(tempfile.gettempdir(), f'ros_log_{os.getuid()}')
        os.environ['ROS_LOG_DIR'] = str(private_folder(place))


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
        _leave(node)
    return EXIT_OK


def _leave(node: Node) -> None:
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

    Signals stay the program's.  What it has to say it says before it leaves, see `_leave`.
    """
    rclpy.init(args=[], signal_handler_options=SignalHandlerOptions.NO)
    try:
        node = rclpy.create_node(name, **options)
        try:
            yield node
        finally:
            _leave(node)
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
    if not task.done():
        node.get_logger().error(f'could not finish within {SHUTDOWN_SECONDS:.0f} s')
    elif task.exception() is not None:
        explain(node, task.exception())


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


# ------------------------------------------------------------------------------ child processes


class NodeStoppedError(IdentificationError):
    """A node's process ended without having been stopped."""


class NodeProcesses:
    """
    Processes of nodes; a context manager that stops all of them.

    Each node's output is written to the log folder, as ``<node>.log``; the environment is added to
    the caller's own.
    """

    def __init__(self, log_folder: Path, environment: Mapping[str, str] | None = None) -> None:
        self.log_folder = Path(log_folder)
        self.log_folder.mkdir(parents=True, exist_ok=True)
        self._environment = {**os.environ, 'PYTHONUNBUFFERED': '1', **(environment or {})}
        self._processes: dict[str, subprocess.Popen] = {}

    def __enter__(self) -> NodeProcesses:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self, node: str, parameters: Mapping[str, Any] | None = None) -> None:
        """Start ``robot_identification.nodes.<node>_node`` with ROS parameters by name."""
        words = [] if not parameters else ['--ros-args']
        for name, value in (parameters or {}).items():
            words += ['-p', f'{name}:={_flow(value)}']
        with whole_file(self.log_of(node)) as log:
            self._processes[node] = start_module(
                f'robot_identification.nodes.{node}_node',
                *words,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._environment,
            )

    def pid(self, node: str) -> int:
        """Process number of ``node``."""
        return self._processes[node].pid

    def log_of(self, node: str) -> Path:
        """File that holds what ``node`` printed."""
        return self.log_folder / f'{node}.log'

    def require_alive(self) -> None:
        """Raise `NodeStoppedError` naming a node that has ended, why, and where its log is."""
        for node, process in self._processes.items():
            code = process.poll()
            if code is not None:
                line = self.last_line(node)[:200]
                raise NodeStoppedError(
                    f"the node '{node}' stopped unexpectedly ({_reason(code)})"
                    + (f", its last words: '{line}'" if line else ''),
                    value=code,
                    file=str(self.log_of(node)),
                    remedy=f'its whole output is in {self.log_of(node)}',
                )

    def last_line(self, node: str) -> str:
        """Last line that ``node`` printed, or an empty text."""
        with contextlib.suppress(OSError):
            lines = self.log_of(node).read_text(errors='replace').split('\n')
            return next((line.strip() for line in reversed(lines) if line.strip()), '')
        return ''

    def stop(self, grace: float = GRACE_SECONDS) -> None:
        """
        Ask every node to stop, and kill what does not.

        The node that was started last comes first and alone: it may need the others, as the
        excitation node needs the robot to bring it to rest.
        """
        started = list(self._processes.values())
        for processes in (started[-1:], started[:-1]):
            for request, seconds in (
                (signal.SIGINT, grace),
                (signal.SIGTERM, 2.0),
                (signal.SIGKILL, 2.0),
            ):
                if _ended(processes, request, seconds):
                    break
        self._processes.clear()


def _flow(value: Any) -> str:
    """Return a value as YAML on one line; floats as rcl reads them, 1.0e-3 for example."""
    return yaml.safe_dump([value], default_flow_style=True, width=math.inf)[1:-2]


def _ended(processes: list[subprocess.Popen], request: int, seconds: float) -> bool:
    """Send a signal to those that run; return whether all have ended within ``seconds``."""
    for process in processes:
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(request)
    end = time.monotonic() + seconds
    while any(process.poll() is None for process in processes):
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def _reason(code: int) -> str:
    if code >= 0:
        return f'exit code {code}'
    with contextlib.suppress(ValueError):
        return f'killed by {signal.Signals(-code).name}'
    return f'killed by signal {-code}'


def start_module(
    module: str, *arguments: str | int, end_with_parent: bool = True, **options: Any
) -> subprocess.Popen:
    """
    Start a module as a process with arguments; whole numbers are file descriptors to inherit.

    It has a session of its own, so that Ctrl-C reaches this process alone.  With
    ``end_with_parent`` the kernel (Linux) sends it SIGTERM if this process is killed.  The options
    are those of `subprocess.Popen`.
    """
    settings = {
        'stdin': subprocess.DEVNULL,
        'env': {**os.environ, 'PYTHONUNBUFFERED': '1'},
        'pass_fds': [each for each in arguments if isinstance(each, int)],
        'start_new_session': True,
    }
    if end_with_parent:
        settings['preexec_fn'] = terminate_with_parent
    command = [sys.executable, '-m', module, *map(str, arguments)]
    return subprocess.Popen(command, **{**settings, **options})


def terminate_with_parent() -> None:
    """Have the kernel (Linux) terminate this process when its parent dies; for ``preexec_fn``."""
    if sys.platform.startswith('linux'):
        set_parent_death_signal = 1
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGTERM)


# ------------------------------------------------------------------------------------- priority


def prioritise(priority: int, option: str) -> str:
    """
    Give this process, its threads and those that they start a real-time priority (SCHED_FIFO).

    0 changes nothing.  Where the system does not allow it, `NICE` is tried, and a note is returned
    that names the option; otherwise the note is empty.
    """
    if not priority:
        return ''
    try:
        _of_each_thread(
            lambda each: os.sched_setscheduler(each, os.SCHED_FIFO, os.sched_param(priority))
        )
    except (OSError, AttributeError) as error:
        return (
            f'no real-time priority ({error}{_nicer()}): other processes can hold it up; allow it '
            f'by rtprio in /etc/security/limits.conf, or set {option} to 0'
        )
    return ''


def use_normal_priority() -> None:
    """Give this process, its threads and those that they start the usual scheduling."""
    _of_each_thread(lambda each: os.sched_setscheduler(each, os.SCHED_OTHER, os.sched_param(0)))


def _of_each_thread(change: Callable[[int], None]) -> None:
    """Change each thread of this process; new threads inherit from the one that starts them."""
    for name in os.listdir('/proc/self/task'):
        with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
            change(int(name))


def _nicer() -> str:
    """Lower the nice value where that is allowed; return what has been reached, in words."""
    try:
        _of_each_thread(lambda each: os.setpriority(os.PRIO_PROCESS, each, NICE))
    except OSError:
        return ''
    return f', but nice {NICE}'
