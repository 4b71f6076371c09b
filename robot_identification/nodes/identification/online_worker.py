# SPDX-License-Identifier: Apache-2.0
"""The identification node's side of the live identification's process: start, ask, stop."""

from __future__ import annotations

from collections.abc import Callable
import contextlib
from multiprocessing import Pipe
import os
import queue
import subprocess
import sys
import threading
from typing import Any

from ...errors import IdentificationError
from ...online import DelayRows
from ..common.processes import die_with_parent
from .online_options import OnlineTask

ANSWER_SECONDS = 10.0
"""How long the process may take to answer a command [s]."""

STOP_SECONDS = 3.0
"""How long it may take to end before it is killed [s]."""

_NICE = 10


class OnlineWorker:
    """
    A process that follows one robot; see `online_process`.

    Parameters
    ----------
    task:
        What it does.
    on_end:
        Called from another thread, with the reason, when it ends without having been told to.

    """

    def __init__(self, task: OnlineTask, on_end: Callable[[str], None]) -> None:
        self.task = task
        self._on_end = on_end
        self._answers: queue.Queue[Any] = queue.Queue()
        self._ready = threading.Event()
        self._failure = ''
        self._stopping = False
        self._lock = threading.Lock()
        self._pipe, others = Pipe()
        self._rows, calculator = Pipe()
        command = [sys.executable, '-m', f'{__package__}.online_process']
        with others, calculator:
            self._process = subprocess.Popen(
                [*command, str(others.fileno()), str(calculator.fileno())],
                stdin=subprocess.DEVNULL,
                env={**os.environ, 'PYTHONUNBUFFERED': '1'},
                pass_fds=[others.fileno(), calculator.fileno()],
                # a session of its own: Ctrl-C reaches the node alone, which stops this process
                start_new_session=True,
                preexec_fn=die_with_parent(),
            )
        self._pipe.send(task)
        threading.Thread(target=self._listen, name='online', daemon=True).start()
        threading.Thread(target=self._find_delays, name='delays', daemon=True).start()

    @property
    def pid(self) -> int:
        """Number of the process."""
        return self._process.pid

    @property
    def ready(self) -> bool:
        """True if the process follows the robot."""
        return self._ready.is_set()

    def ask(self, name: str, argument: Any = None) -> Any:
        """
        Send a command and return the answer.

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
        with self._lock:
            while not self._answers.empty():
                self._answers.get_nowait()  # an answer that came too late
            try:
                self._pipe.send((name, argument))
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

    def _find_delays(self) -> None:
        """Find how late efforts are, for the process that has no time for it."""
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)
        with contextlib.suppress(EOFError, OSError), self._rows:
            while True:
                rows: DelayRows = self._rows.recv()
                try:
                    found = rows.delay()
                except (ValueError, ArithmeticError):  # numerical: the next rows may tell
                    found = None
                self._rows.send(found)

    def _listen(self) -> None:
        try:
            while True:
                kind, content = self._pipe.recv()
                if kind == 'ready':
                    self._ready.set()
                elif kind == 'failed':
                    self._failure = content
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
