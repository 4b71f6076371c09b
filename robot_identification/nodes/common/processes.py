# SPDX-License-Identifier: Apache-2.0
"""
Start nodes as processes, notice when one ends, and stop them all in good order.

Each node is a process of its own, so that a busy interpreter in one costs the others nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
import contextlib
import ctypes
import os
from pathlib import Path
import signal
import subprocess
import sys
import time
from typing import Any

from ...errors import IdentificationError

NICE = -10
"""Nice value of processes that must not wait, where real-time priority is not allowed."""

GRACE_SECONDS = 10.0
"""How long a node may take to stop after SIGINT: bring the robot to rest, close a bag [s]."""


class NodeStoppedError(IdentificationError):
    """A node's process ended although nobody asked it to."""


class NodeProcesses:
    """
    The nodes' processes; a context manager that leaves none behind.

    Parameters
    ----------
    log_folder:
        Where each node's output is written, as ``<node>.log``.
    environment:
        Variables for the processes, besides the caller's own.

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
        """
        Start ``robot_identification.nodes.<node>.node`` with ROS parameters.

        Parameters
        ----------
        node:
            Name of the node: simulation, excitation, recorder, regressor or identification.
        parameters:
            Values by name, as YAML would give them.

        """
        command = [sys.executable, '-m', f'robot_identification.nodes.{node}.node']
        command += ros_arguments(parameters or {})
        with open(self.log_of(node), 'wb') as log:
            # a session of its own: Ctrl-C reaches us alone, and we stop the nodes in order
            self._processes[node] = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._environment,
                start_new_session=True,
                preexec_fn=die_with_parent(),
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
                raise NodeStoppedError(
                    f"the node '{node}' stopped unexpectedly ({_reason(code)})"
                    f'{_quoted(self.last_line(node))}',
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
        for processes in _last_and_rest(list(self._processes.values())):
            for request, seconds in (
                (signal.SIGINT, grace),
                (signal.SIGTERM, 2.0),
                (signal.SIGKILL, 2.0),
            ):
                if _ended(processes, request, seconds):
                    break
        self._processes.clear()


def ros_arguments(parameters: Mapping[str, Any]) -> list[str]:
    """Return ``--ros-args -p name:=value ...`` for a command line."""
    if not parameters:
        return []
    arguments = ['--ros-args']
    for name, value in parameters.items():
        arguments += ['-p', f'{name}:={_yaml(value)}']
    return arguments


def wait_until(
    condition: Callable[[], bool], seconds: float, check: Callable[[], None] = lambda: None
) -> bool:
    """Wait until ``condition`` holds, calling ``check`` meanwhile; False after ``seconds``."""
    end = time.monotonic() + seconds
    while not condition():
        check()
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def _yaml(value: Any) -> str:
    if isinstance(value, bool):
        return 'true' if value else 'false'
    if isinstance(value, float):
        # rcl's YAML reader takes 1e-3 for text
        text = repr(value)
        return text if '.' in text or 'e' not in text else text.replace('e', '.0e')
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f'[{", ".join(_yaml(item) for item in value)}]'
    return str(value)


def _last_and_rest(processes: list[subprocess.Popen]) -> list[list[subprocess.Popen]]:
    return [processes[-1:], processes[:-1]]


def _ended(processes: list[subprocess.Popen], request: int, seconds: float) -> bool:
    """Send a signal to those that run, and tell whether all have ended within ``seconds``."""
    for process in processes:
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(request)
    return wait_until(lambda: all(p.poll() is not None for p in processes), seconds)


def _reason(code: int) -> str:
    if code >= 0:
        return f'exit code {code}'
    with contextlib.suppress(ValueError):
        return f'killed by {signal.Signals(-code).name}'
    return f'killed by signal {-code}'


def _quoted(line: str) -> str:
    return f", its last words: '{line[:200]}'" if line else ''


def die_with_parent() -> Callable[[], None] | None:
    """Return what has the kernel (Linux) send SIGTERM to a child if this process is killed."""
    if not sys.platform.startswith('linux'):
        return None
    libc = ctypes.CDLL(None)
    set_parent_death_signal = 1
    return lambda: libc.prctl(set_parent_death_signal, signal.SIGTERM)


def prioritise(priority: int, option: str) -> str:
    """
    Have the scheduler prefer this process: its threads, and those that they start.

    Parameters
    ----------
    priority:
        Of SCHED_FIFO; 0 changes nothing.  Where the system does not allow it, a nice value of
        `NICE` is tried.
    option:
        Name of the option that gave it.

    Returns
    -------
    str
        A note where the system does not allow SCHED_FIFO; otherwise empty.

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
    """Have the scheduler treat this process as any other: its threads, and those they start."""
    _of_each_thread(lambda each: os.sched_setscheduler(each, os.SCHED_OTHER, os.sched_param(0)))


def _of_each_thread(change: Callable[[int], None]) -> None:
    """Change each thread of this process; a thread that is new has what its maker has."""
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
