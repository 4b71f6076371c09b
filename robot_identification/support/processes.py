# SPDX-License-Identifier: Apache-2.0
"""Child processes, nodes among them; priority of this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
import contextlib
import ctypes
import math
import os
from pathlib import Path
import signal
import subprocess
import sys
import time
from typing import Any

import yaml

from ..errors import IdentificationError
from ..untrusted.writing import whole_file

NICE = -10
"""Nice value of processes with a priority, where real-time priority is not allowed."""

GRACE_SECONDS = 10.0
"""Time for a node to stop after SIGINT: bring the robot to rest, close a bag [s]."""


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
